//! Reads the front of an AdmissionReview without decoding the rest.
//!
//! The API server writes the uid and the namespace of a request ahead of the object. This suffices
//! to deny an undecodable review with its uid, and to schedule the request.

use modgate_engine::api::admission::ReviewVersion;
use modgate_value::{Str, json::peek_text};

/// uids have 36 characters, names at most 253.
const MAX_TEXT: usize = 256;
/// Bytes within which the namespace starts, if any. If the request has none, the object follows,
/// which may be large.
const NAMESPACE_WITHIN: usize = 4 << 10;

/// The version and the uid of a review; empty if they cannot be read.
pub(super) fn head(review: &[u8]) -> (ReviewVersion, Str) {
    let v1beta1 = text(review, &["apiVersion"]) == ReviewVersion::V1Beta1.api_version();
    let version = if v1beta1 { ReviewVersion::V1Beta1 } else { ReviewVersion::V1 };
    (version, text(review, &["request", "uid"]).into())
}

/// The namespace of a review; empty if there is none or it cannot be read.
pub(super) fn namespace(review: &[u8]) -> Str {
    let front = review.get(..NAMESPACE_WITHIN).unwrap_or(review);
    text(front, &["request", "namespace"]).into()
}

fn text<'r>(review: &'r [u8], path: &[&str]) -> &'r str {
    peek_text(review, path, MAX_TEXT).unwrap_or_default()
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
            assert_eq!(head(text.as_bytes()), (version, uid.into()), "{text}");
            assert_eq!(super::namespace(text.as_bytes()), namespace, "{text}");
        }
    }
}
