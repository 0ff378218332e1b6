//! What stands at the front of an AdmissionReview, read without reading all of it.
//!
//! The API server writes the uid and the namespace of a request ahead of the object. That is enough
//! to deny a review that cannot be decoded, with its uid, and to know whose turn it is.

use modgate_engine::api::admission::ReviewVersion;
use modgate_value::{Str, json::peek_text};

/// uids have 36 characters, names at most 253.
const MAX_TEXT: usize = 256;
/// Where the namespace stands if there is one; a request without one has the object behind it,
/// which may be large.
const NAMESPACE_WITHIN: usize = 4 << 10;

/// What is known of a review before it is decoded; empty where it could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Front {
    pub(super) version: ReviewVersion,
    pub(super) uid: Str,
    pub(super) namespace: Str,
}

impl Front {
    pub(super) fn read(review: &[u8]) -> Self {
        let text = |review, path: &[&str]| peek_text(review, path, MAX_TEXT).unwrap_or_default();
        let v1beta1 = text(review, &["apiVersion"]) == ReviewVersion::V1Beta1.api_version();
        let front = review.get(..NAMESPACE_WITHIN).unwrap_or(review);
        Self {
            version: if v1beta1 { ReviewVersion::V1Beta1 } else { ReviewVersion::V1 },
            uid: text(review, &["request", "uid"]).into(),
            namespace: text(front, &["request", "namespace"]).into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read() {
        use ReviewVersion::{V1, V1Beta1};
        let long = "x".repeat(NAMESPACE_WITHIN);
        let far = format!(r#"{{"request":{{"uid":"u","object":"{long}","namespace":"far"}}}}"#);
        for (text, version, uid, namespace) in [
            (
                r#"{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"u","kind":{"kind":"Pod"},"namespace":"n","object":{"#,
                V1,
                "u",
                "n",
            ),
            (
                r#"{"apiVersion": "admission.k8s.io/v1beta1", "request": {"uid": "u", "object": [[["#,
                V1Beta1,
                "u",
                "",
            ),
            (&far, V1, "u", ""),
            ("{", V1, "", ""),
            ("", V1, "", ""),
        ] {
            let expected = Front { version, uid: uid.into(), namespace: namespace.into() };
            assert_eq!(Front::read(text.as_bytes()), expected, "{text}");
        }
    }
}
