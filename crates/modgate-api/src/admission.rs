//! `admission.k8s.io`: the AdmissionReview a webhook receives and the one it answers with.

use std::fmt::Write as _;

use modgate_value::{DecodeError, Object, Str, Value, json};
use serde::Deserialize;

use crate::meta::{GroupVersionKind, GroupVersionResource, Operation, UnknownOperation};

/// The API group of AdmissionReview.
pub const GROUP: &str = "admission.k8s.io";

/// The versions of AdmissionReview there are. A response must carry its request's version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ReviewVersion {
    /// `admission.k8s.io/v1`
    #[default]
    V1,
    /// `admission.k8s.io/v1beta1`, the only one KubeMod speaks (Q-49).
    V1Beta1,
}

impl ReviewVersion {
    /// The `apiVersion` text.
    pub fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "admission.k8s.io/v1",
            Self::V1Beta1 => "admission.k8s.io/v1beta1",
        }
    }
}

/// An AdmissionReview: one request, and the version of the expected response.
#[derive(Debug, Clone)]
pub struct AdmissionReview {
    /// Version of the review, hence of the response.
    pub version: ReviewVersion,
    /// The request to decide.
    pub request: AdmissionRequest,
}

/// One request for admission.
#[derive(Debug, Clone)]
pub struct AdmissionRequest {
    /// Identifies the request; the response repeats it.
    pub uid: Str,
    /// Kind of the object.
    pub kind: GroupVersionKind,
    /// Resource the request addresses.
    pub resource: GroupVersionResource,
    /// Subresource such as `status` or `binding`; empty for none.
    pub sub_resource: Str,
    /// Name of the object; empty while the API server has yet to generate it.
    pub name: Str,
    /// Namespace of the object; empty for cluster-scoped objects. A Namespace object is reported
    /// as living in itself.
    pub namespace: Str,
    /// The operation.
    pub operation: Operation,
    /// The user, as sent: `username`, `uid`, `groups`, `extra`.
    pub user_info: Value,
    /// The object as it will be stored; absent on DELETE.
    pub object: Option<Value>,
    /// The object as it is stored; present on UPDATE and DELETE.
    pub old_object: Option<Value>,
    /// Whether the request leaves no trace.
    pub dry_run: bool,
    /// The options of the operation (`CreateOptions` and so on), as sent.
    pub options: Value,
}

/// Why a body is not an AdmissionReview request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReviewError {
    /// Another kind of object.
    #[error("expected an AdmissionReview, got `{found}`")]
    Kind {
        /// The `kind` it has; empty if none.
        found: String,
    },
    /// A version of AdmissionReview that does not exist.
    #[error(
        "AdmissionReview has apiVersion `{found}`, \
         expected `admission.k8s.io/v1` or `admission.k8s.io/v1beta1`"
    )]
    Version {
        /// The `apiVersion` it has; empty if none.
        found: String,
    },
    /// No `request` member.
    #[error("AdmissionReview has no request")]
    NoRequest,
    /// A member of the request has the wrong type.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// An operation that does not exist.
    #[error("request.operation: {0}")]
    Operation(#[from] UnknownOperation),
}

impl AdmissionReview {
    /// Whether a document says it is an AdmissionReview of any version.
    pub fn is_review(document: &Value) -> bool {
        let text = |key| document.get(key).and_then(Value::as_str).unwrap_or_default();
        text("kind") == "AdmissionReview"
            && text("apiVersion").split_once('/').is_some_and(|(group, _)| group == GROUP)
    }

    /// Reads a review from its document.
    ///
    /// # Errors
    ///
    /// When the document is not a review of a known version or its request is malformed.
    pub fn from_value(document: &Value) -> Result<Self, ReviewError> {
        let text = |key| document.get(key).and_then(Value::as_str).unwrap_or_default();
        if text("kind") != "AdmissionReview" {
            return Err(ReviewError::Kind { found: text("kind").to_owned() });
        }
        let version = [ReviewVersion::V1, ReviewVersion::V1Beta1]
            .into_iter()
            .find(|version| version.api_version() == text("apiVersion"))
            .ok_or_else(|| ReviewError::Version { found: text("apiVersion").to_owned() })?;
        let request = document
            .get("request")
            .filter(|request| !request.is_null())
            .ok_or(ReviewError::NoRequest)?;
        Ok(Self { version, request: AdmissionRequest::from_value(request)? })
    }
}

/// The small members of a request; the objects are taken as they are.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RequestHead {
    #[serde(default)]
    uid: Str,
    #[serde(default)]
    kind: GroupVersionKind,
    #[serde(default)]
    resource: GroupVersionResource,
    sub_resource: Option<Str>,
    name: Option<Str>,
    namespace: Option<Str>,
    #[serde(default)]
    operation: String,
    dry_run: Option<bool>,
}

impl AdmissionRequest {
    /// Reads the `request` member of a review. The objects are shared with `request`, not copied.
    ///
    /// # Errors
    ///
    /// When a member has the wrong type or the operation does not exist.
    pub fn from_value(request: &Value) -> Result<Self, ReviewError> {
        let head = RequestHead::deserialize(request).map_err(|mut error| {
            let dot = if error.path.is_empty() { "" } else { "." };
            error.path = format!("request{dot}{}", error.path);
            error
        })?;
        let present = |key| request.get(key).filter(|value| !value.is_null()).cloned();
        Ok(Self {
            uid: head.uid,
            kind: head.kind,
            resource: head.resource,
            sub_resource: head.sub_resource.unwrap_or_default(),
            name: head.name.unwrap_or_default(),
            namespace: head.namespace.unwrap_or_default(),
            operation: head.operation.parse()?,
            user_info: present("userInfo").unwrap_or_default(),
            object: present("object"),
            old_object: present("oldObject"),
            dry_run: head.dry_run.unwrap_or(false),
            options: present("options").unwrap_or_default(),
        })
    }
}

impl AdmissionRequest {
    /// Why no API server can have sent this request, or `None`. It costs nothing to check, and anyone who
    /// knows it can avoid it: a client certificate is what proves that an API server asks.
    pub fn implausible(&self) -> Option<&'static str> {
        let username = self.user_info.get("username").and_then(Value::as_str).unwrap_or_default();
        let (object, old_object) = (self.object.is_some(), self.old_object.is_some());
        let problems = [
            (!is_uuid(&self.uid), "request.uid is not a UUID"),
            (username.is_empty(), "request.userInfo has no username"),
            (self.kind.kind.is_empty(), "request.kind has no kind"),
            (self.resource.resource.is_empty(), "request.resource has no resource"),
            match self.operation {
                Operation::Create => {
                    (!object || old_object, "a CREATE has an object and no oldObject")
                }
                Operation::Update => {
                    (!object || !old_object, "an UPDATE has an object and an oldObject")
                }
                // The API server sends one request for each object of a collection, too.
                Operation::Delete => {
                    (object || !old_object, "a DELETE has an oldObject and no object")
                }
                Operation::Connect => (old_object, "a CONNECT has no oldObject"),
            },
        ];
        problems.into_iter().find_map(|(is_one, problem)| is_one.then_some(problem))
    }
}

/// Whether a text is a UUID, as an API server makes one for each call of a webhook.
fn is_uuid(text: &str) -> bool {
    let is_right = |(at, byte): (usize, u8)| match at {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    };
    text.len() == 36 && text.bytes().enumerate().all(is_right)
}

/// The response of a webhook.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AdmissionResponse {
    /// The request's uid.
    pub uid: Str,
    /// Whether the request may go on.
    pub allowed: bool,
    /// `status.code`, an HTTP status.
    pub code: u16,
    /// `status.reason`; left out when empty.
    pub reason: String,
    /// `status.message`; left out when empty.
    pub message: String,
    /// An RFC 6902 document as JSON text.
    pub patch: Option<String>,
    /// Shown to the user by kubectl; left out when empty.
    pub warnings: Vec<String>,
    /// Annotations that the API server writes into the audit event, under keys that begin with the name of the
    /// webhook; left out when empty.
    pub audit_annotations: Vec<(String, String)>,
}

impl AdmissionResponse {
    /// The whole AdmissionReview as JSON text, with `apiVersion` and `kind` as v1 requires.
    ///
    /// `base64` encodes the patch, which the API takes as bytes.
    pub fn to_json(&self, version: ReviewVersion, base64: impl FnOnce(&[u8]) -> String) -> String {
        let mut out = String::with_capacity(256);
        let text = |out: &mut String, key: &str, value: &str| {
            let _ = write!(out, ",\"{key}\":");
            json::write_string(value, out, json::Escape::Minimal);
        };
        let _ = write!(
            out,
            "{{\"apiVersion\":\"{}\",\"kind\":\"AdmissionReview\",\"response\":{{\"uid\":",
            version.api_version()
        );
        json::write_string(&self.uid, &mut out, json::Escape::Minimal);
        let _ = write!(
            out,
            ",\"allowed\":{},\"status\":{{\"metadata\":{{}},\"code\":{}",
            self.allowed, self.code
        );
        if !self.message.is_empty() {
            text(&mut out, "message", &self.message);
        }
        if !self.reason.is_empty() {
            text(&mut out, "reason", &self.reason);
        }
        out.push('}');
        if let Some(patch) = &self.patch {
            text(&mut out, "patch", &base64(patch.as_bytes()));
            out.push_str(",\"patchType\":\"JSONPatch\"");
        }
        if !self.warnings.is_empty() {
            let warnings: Value = self.warnings.iter().map(|w| Value::from(w.as_str())).collect();
            out.push_str(",\"warnings\":");
            json::write(&warnings, &mut out, json::Escape::Minimal);
        }
        if !self.audit_annotations.is_empty() {
            let members = self.audit_annotations.iter();
            let all: Value =
                members.map(|(key, text)| (key.as_str(), Value::from(text.as_str()))).collect();
            out.push_str(",\"auditAnnotations\":");
            json::write(&all, &mut out, json::Escape::Minimal);
        }
        out.push_str("}}");
        out
    }
}

/// A review as a client would send it; for the command line, tests and load generators.
pub fn review_of(version: ReviewVersion, request: Object) -> Value {
    [
        ("apiVersion", Value::from(version.api_version())),
        ("kind", Value::from("AdmissionReview")),
        ("request", Value::from(request)),
    ]
    .into_iter()
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<AdmissionReview, String> {
        AdmissionReview::from_value(&Value::from_json(text.as_bytes()).expect(text))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn a_request() {
        let review = parse(
            r#"{"apiVersion": "admission.k8s.io/v1beta1", "kind": "AdmissionReview", "request":
            {"uid": "u", "kind": {"group": "apps", "version": "v1", "kind": "Deployment"},
             "resource": {"group": "apps", "version": "v1", "resource": "deployments"},
             "namespace": "ns", "name": "d", "operation": "UPDATE", "userInfo": {"username": "me"},
             "object": {"a": 1}, "oldObject": null, "dryRun": true}}"#,
        )
        .expect("review");
        assert_eq!(review.version, ReviewVersion::V1Beta1);
        assert_eq!(review.request.operation, Operation::Update);
        assert_eq!(review.request.kind.to_string(), "apps/v1 Deployment");
        assert_eq!(review.request.object.expect("object").to_json(), r#"{"a":1}"#);
        assert!(review.request.old_object.is_none());
        assert!(review.request.dry_run);
    }

    #[test]
    fn requests_that_no_api_server_sends() {
        let request = |changes: &[(&str, &str)]| {
            let mut members = Value::from_json(
                br#"{"uid": "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0", "operation": "CREATE",
                     "kind": {"group": "", "version": "v1", "kind": "Pod"},
                     "resource": {"group": "", "version": "v1", "resource": "pods"},
                     "userInfo": {"username": "me"}, "object": {}}"#,
            )
            .ok()
            .and_then(|value| value.as_object().cloned())
            .expect("an object");
            for (key, text) in changes {
                members.insert(*key, Value::from_json(text.as_bytes()).expect(text));
            }
            AdmissionRequest::from_value(&members.into()).expect("a request")
        };
        assert_eq!(request(&[]).implausible(), None);
        let update = [("operation", r#""UPDATE""#), ("oldObject", "{}")];
        assert_eq!(request(&update).implausible(), None);
        let delete = [("operation", r#""DELETE""#), ("object", "null"), ("oldObject", "{}")];
        assert_eq!(request(&delete).implausible(), None);
        let connect = [("operation", r#""CONNECT""#)];
        assert_eq!(request(&connect).implausible(), None);
        for (changes, problem) in [
            (&[("uid", r#""u-1""#)][..], "request.uid"),
            (&[("uid", r#""0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1fg""#)], "request.uid"),
            (&[("userInfo", "{}")], "request.userInfo"),
            (&[("kind", "{}")], "request.kind"),
            (&[("resource", "{}")], "request.resource"),
            (&[("object", "null")], "a CREATE"),
            (&[("oldObject", "{}")], "a CREATE"),
            (&[("operation", r#""UPDATE""#)], "an UPDATE"),
            (&[("operation", r#""DELETE""#), ("oldObject", "{}")], "a DELETE"),
            (&[("operation", r#""DELETE""#), ("object", "null")], "a DELETE"),
            (&[("operation", r#""CONNECT""#), ("oldObject", "{}")], "a CONNECT"),
        ] {
            let found = request(changes).implausible();
            assert!(
                found.is_some_and(|found| found.starts_with(problem)),
                "{changes:?}: {found:?}"
            );
        }
    }

    #[test]
    fn malformed_reviews() {
        for (text, message) in [
            (r#"{"kind": "Pod"}"#, "expected an AdmissionReview, got `Pod`"),
            (
                r#"{"kind": "AdmissionReview", "apiVersion": "v1"}"#,
                "AdmissionReview has apiVersion `v1`, expected `admission.k8s.io/v1` or \
                 `admission.k8s.io/v1beta1`",
            ),
            (
                r#"{"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1"}"#,
                "AdmissionReview has no request",
            ),
            (
                r#"{"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1",
                    "request": {"kind": {"kind": 3}}}"#,
                "request.kind.kind: expected a string, got the number `3`",
            ),
            (
                r#"{"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1",
                    "request": {"operation": "PATCH"}}"#,
                "request.operation: unknown operation `PATCH`, expected `CREATE`, `UPDATE`, \
                 `DELETE` or `CONNECT`",
            ),
        ] {
            assert_eq!(parse(text).map(|_| ()), Err(message.to_owned()));
        }
    }

    #[test]
    fn responses() {
        let response = AdmissionResponse {
            uid: "u".into(),
            allowed: true,
            code: 200,
            reason: "patched ok".into(),
            patch: Some("[]".into()),
            warnings: vec!["careful".into()],
            ..AdmissionResponse::default()
        };
        assert_eq!(
            response.to_json(ReviewVersion::V1, |bytes| format!("<{} bytes>", bytes.len())),
            r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":"u","allowed":true,"status":{"metadata":{},"code":200,"reason":"patched ok"},"patch":"<2 bytes>","patchType":"JSONPatch","warnings":["careful"]}}"#
        );
    }
}
