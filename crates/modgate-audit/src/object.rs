//! Objects on their way into an audit.

use std::{
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::Arc,
};

use modgate_engine::api::meta::GroupVersionKind;
use modgate_value::{Str, Value};

use crate::reference::ObjectRef;

/// An object to audit.
#[derive(Debug, Clone)]
pub struct Item {
    /// The whole of it.
    pub object: Value,
    /// Which one it is.
    pub subject: Arc<ObjectRef>,
    /// Differs from that of any other version of the object.
    pub(crate) version: u64,
    /// Why it cannot be read.
    pub(crate) unread: Option<Str>,
}

impl Item {
    /// An object as it exists.
    pub fn new(object: Value) -> Self {
        let subject = Arc::new(ObjectRef::of_object(&object));
        Self::of_subject(object, subject)
    }

    /// An object that stands in a file.
    pub fn of_subject(object: Value, subject: Arc<ObjectRef>) -> Self {
        Self { version: version(&object), object, subject, unread: None }
    }

    /// An object that exists and cannot be read. Reports name it.
    pub fn unread(kind: &GroupVersionKind, namespace: &Str, name: &Str, reason: &str) -> Self {
        let subject = Arc::new(ObjectRef::known(kind, namespace, name));
        let unread = Some(reason.into());
        Self { object: Value::Null, subject, version: 0, unread }
    }
}

/// An object on its way into an audit. The thread that evaluates it makes it an item.
pub trait IntoItem: Send {
    /// The object.
    fn into_item(self) -> Item;
}

impl IntoItem for Item {
    fn into_item(self) -> Item {
        self
    }
}

/// The API server gives each version of an object another text. Objects of files are what they are.
fn version(object: &Value) -> u64 {
    let mut hash = DefaultHasher::new();
    match object.path(&["metadata", "resourceVersion"]).and_then(Value::as_str) {
        Some(version) if !version.is_empty() => {
            (object.path(&["metadata", "uid"]), version).hash(&mut hash);
        }
        _ => object.hash(&mut hash),
    }
    hash.finish()
}
