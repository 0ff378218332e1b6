//! Objects under review.

use std::path::Path;

use modgate_engine::{
    Review,
    admissionpolicy::Types,
    api::{
        admission::{AdmissionReview, ReviewVersion},
        meta::Operation,
    },
};
use modgate_report::one_line;
use modgate_value::{
    Value,
    diag::{Diagnostic, Source},
};

use crate::manifest::{Manifest, is_of_a_tool};

/// An object to look at and where it came from.
pub struct Subject {
    /// `file:line:column`.
    pub place: String,
    /// The document.
    pub manifest: Manifest,
    /// The text that the document is in.
    pub source: Source,
    /// The request about it.
    pub review: Review,
}

impl Subject {
    /// `Deployment shop/web`, for people.
    pub fn title(&self) -> String {
        title(&self.review)
    }
}

/// `Deployment shop/web`: the object of a request, for people.
pub fn title(review: &Review) -> String {
    let request = review.request();
    let object = review.object();
    let text = |path: &[&str]| object.and_then(|object| object.path(path)?.as_str());
    let kind = match request.kind.kind.as_str() {
        "" => text(&["kind"]).unwrap_or("object"),
        kind => kind,
    };
    let of_object = |member| text(&["metadata", member]).unwrap_or_default();
    let name = match request.name.as_str() {
        "" => of_object("name"),
        name => name,
    };
    let title =
        modgate_report::title(kind, review.store_namespace(), name, of_object("generateName"));
    one_line(&title)
}

/// A request with its object as an API server stores it.
pub fn as_stored(review: Review, types: &Types) -> Review {
    let stored = review.object().and_then(|object| types.as_stored(object));
    match stored {
        Some(stored) => review.with_object(stored),
        None => review,
    }
}

/// The parts of a request that an object on its own does not have.
#[derive(Debug, Clone)]
pub struct Assumed<'a> {
    /// The operation. The object of an UPDATE is its old object, too, as in audits.
    pub operation: Operation,
    /// The namespace of an object that names none.
    pub namespace: &'a str,
    /// The `userInfo`; none where the user is not known.
    pub user: Option<Value>,
}

/// The request an object stands for: the one of an AdmissionReview, or the one that is assumed.
///
/// # Errors
///
/// When the document is no Kubernetes object, or the AdmissionReview is not valid.
pub fn review_of(manifest: &Manifest, assumed: &Assumed<'_>) -> Result<Review, Box<Diagnostic>> {
    let object = &manifest.object;
    if AdmissionReview::is_review(object) {
        return Review::parse(object).map_err(|error| {
            let help = format!(
                "an AdmissionReview has apiVersion `{}` and a `request`",
                ReviewVersion::V1.api_version()
            );
            Diagnostic::error(error.to_string()).help(help).into()
        });
    }
    let kind = object.get("kind").and_then(Value::as_str).unwrap_or_default();
    if kind.is_empty() {
        return Err(no_kind(manifest, "give a Kubernetes object or an AdmissionReview").into());
    }
    let mut review = Review::of_object(object.clone(), assumed.operation, assumed.namespace);
    if assumed.operation == Operation::Update {
        review = review.with_old_object(object.clone());
    }
    if let Some(user) = &assumed.user {
        review = review.with_user(user.clone());
    }
    Ok(review)
}

/// The error of a document that is no Kubernetes object.
pub fn no_kind(manifest: &Manifest, help: &str) -> Diagnostic {
    let problem = Diagnostic::error("the object has no `kind`");
    match is_of_a_tool(Path::new(manifest.origin.as_str())) {
        Some(what) => {
            problem.help(format!("this is {what}; give what `helm template` or `-k` renders"))
        }
        None => problem.help(help),
    }
}
