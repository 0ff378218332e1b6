//! Objects with the attributes of a request, as AdmissionReviews.

use modgate_engine::{Review, api::meta::Operation};
use modgate_review::manifest::Manifest;
use modgate_value::{
    Value,
    diag::{Diagnostic, Source},
    json::{self, Escape},
};

use crate::request::{Attributes, File};

/// The name of the file of AdmissionReviews.
const NAME: &str = "request.json";

/// Object, stored object and user of requests.
pub(crate) struct Composed {
    old: Option<Value>,
    user: Option<Value>,
}

impl Composed {
    /// Reads the attributes.
    ///
    /// # Errors
    ///
    /// When one is not YAML or no object.
    pub(crate) fn read(attributes: &Attributes) -> Result<Self, Box<Diagnostic>> {
        Ok(Self { old: object(&attributes.old_object)?, user: object(&attributes.user_info)? })
    }

    /// One AdmissionReview for each object, one after the other.
    pub(crate) fn file(&self, objects: &[Manifest], operation: Operation, namespace: &str) -> File {
        let mut text = String::new();
        for manifest in objects {
            let review = self.review(&manifest.object, operation, namespace);
            json::write_pretty(&review, &mut text, "  ", Escape::Minimal);
            text.push('\n');
        }
        File { name: NAME.to_owned(), text }
    }

    fn review(&self, object: &Value, operation: Operation, namespace: &str) -> Value {
        let mut review = Review::of_object(object.clone(), operation, namespace);
        if let (Some(old), true) = (&self.old, operation != Operation::Delete) {
            review = review.with_old_object(old.clone());
        }
        let mut request = review.sent().as_object().cloned().unwrap_or_default();
        request.insert("uid", Value::from("00000000-0000-0000-0000-000000000000"));
        request.insert(
            "userInfo",
            self.user.clone().unwrap_or_else(|| Value::Object(Default::default())),
        );
        [
            ("apiVersion", Value::from("admission.k8s.io/v1")),
            ("kind", "AdmissionReview".into()),
            ("request", request.into()),
        ]
        .into_iter()
        .collect()
    }
}

/// The object of a text; `None` if there is nothing in it.
fn object(file: &File) -> Result<Option<Value>, Box<Diagnostic>> {
    let source = Source::new(file.name.as_str(), file.text.as_str());
    let (manifests, mut findings) = modgate_review::manifest::parse(&source);
    if !findings.is_empty() {
        return Err(findings.swap_remove(0).into());
    }
    match manifests.as_slice() {
        [] => Ok(None),
        [manifest] => Ok(Some(manifest.object.clone())),
        [_, second, ..] => {
            let problem = Diagnostic::error("there is more than one document");
            Err(second.finding(problem, &source).into())
        }
    }
}

#[cfg(test)]
mod tests {
    use modgate_value::yaml;

    use super::*;

    #[test]
    fn an_empty_text_is_no_object() {
        for text in ["", "# nothing\n", "---\n"] {
            let file = File { name: "user.yaml".to_owned(), text: text.to_owned() };
            assert_eq!(object(&file).expect(text), None);
        }
        assert_eq!(
            yaml::value("{a: 1}").ok(),
            object(&File { text: "a: 1".into(), ..File::default() }).expect("read")
        );
    }
}
