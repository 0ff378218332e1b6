//! The request of a page.

use serde::Deserialize;

/// A text, and the name that results know it by.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, serde::Serialize)]
pub struct File {
    /// Such as `policies.yaml`.
    pub name: String,
    /// YAML or JSON.
    pub text: String,
}

/// The input of `modgate review`, with texts in place of files.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Request {
    /// The files of `-f`.
    pub policies: Vec<File>,
    /// The objects to review.
    pub objects: Vec<File>,
    /// The files of `--objects`: Namespaces, parameters, the inventory.
    pub references: Vec<File>,
    /// The value of `--namespace`; empty for its default.
    pub namespace: String,
    /// The value of `--operation`; empty for its default.
    pub operation: String,
    /// Whether `--defaulting` is set.
    pub defaulting: bool,
    /// Whether the explanation has policies that do not match, as `explain --all` has.
    pub all: bool,
    /// The attributes that only an AdmissionReview has. With them, the objects become
    /// AdmissionReviews, which the answer contains as a file.
    pub attributes: Option<Attributes>,
    /// Whether the answer is what the run reaches of the policies, and nothing else.
    pub coverage: bool,
    /// The time, in milliseconds since 1970.
    pub now: u64,
    /// The seed of random values.
    pub seed: u64,
}

/// The parts of a request besides object and operation.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Attributes {
    /// The stored object; empty if there is none.
    pub old_object: File,
    /// The `userInfo`: `username`, `groups`, `extra`; empty if the user is not known.
    pub user_info: File,
}
