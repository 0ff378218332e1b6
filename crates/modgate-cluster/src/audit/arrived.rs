//! Objects on their way into an audit.

use std::sync::Arc;

use kube::api::ApiResource;
use modgate_audit::{IntoItem, Item};

use super::{
    super::object::{Key, Text, Unread},
    LOGGER,
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
}

impl IntoItem for Arrived {
    fn into_item(self) -> Option<Item> {
        match self.text.read(&self.resource) {
            Ok(object) => Some(Item::new(object)),
            Err(error) => {
                tracing::warn!(target: LOGGER, process = "audit",
                    resource_namespace = %self.key.namespace, resource_name = %self.key.name, error,
                    "an object cannot be read and is not audited");
                None
            }
        }
    }
}
