//! Objects on their way into an audit.

use std::sync::Arc;

use kube::api::ApiResource;
use modgate_audit::{IntoItem, Item};

use super::super::{
    kinds,
    object::{Key, Text, Unread},
};

/// An object as the API server sent it. The thread that evaluates it reads it.
pub(super) struct Arrived {
    key: Key,
    text: Text,
    resource: Arc<ApiResource>,
}

impl Arrived {
    /// An object of this kind.
    pub(super) fn new(unread: Unread, resource: &Arc<ApiResource>) -> Self {
        Self { key: unread.key(), text: unread.object, resource: Arc::clone(resource) }
    }

    pub(super) fn key(&self) -> &Key {
        &self.key
    }

    /// The bytes of its text.
    pub(super) fn bytes(&self) -> usize {
        self.text.len()
    }
}

impl IntoItem for Arrived {
    fn into_item(self) -> Item {
        let Self { key, text, resource } = self;
        // Without a name it cannot be told from others.
        let read = match key.name.is_empty() {
            true => Err("it has no name".to_owned()),
            false => text.read(&resource),
        };
        match read {
            Ok(object) => Item::new(object),
            Err(reason) => Item::unread(&kinds::gvk(&resource), &key.namespace, &key.name, &reason),
        }
    }
}

#[cfg(test)]
mod tests {
    use kube::core::GroupVersionKind;
    use modgate_value::Value;

    use super::*;

    #[test]
    fn what_cannot_be_read_is_an_item_too() {
        let resource = Arc::new(ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "Secret")));
        let item = |text: &str| {
            let unread: Unread = serde_json::from_str(text).expect(text);
            Arrived::new(unread, &resource).into_item()
        };
        let deep = format!(
            r#"{{"metadata": {{"name": "a", "namespace": "n"}}, "data": {}1{}}}"#,
            "[".repeat(20_000),
            "]".repeat(20_000)
        );
        for (text, name) in [(deep.as_str(), "a"), (r#"{"data": 1}"#, ""), ("null", "")] {
            let item = item(text);
            let subject = &item.subject;
            assert_eq!((&*subject.kind.kind, &*subject.name), ("Secret", name));
            assert_eq!(item.object, Value::Null, "it is not evaluated");
        }
        assert_eq!(&*item(&deep).subject.namespace, "n");
        let read = item(r#"{"kind": "Pod", "metadata": {"name": "a"}}"#);
        assert_eq!(&*read.subject.kind.kind, "Secret", "as it was listed");
        assert_ne!(read.object, Value::Null);
    }
}
