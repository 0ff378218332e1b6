//! The pod-binding webhook's logic (spec `kubemod.md`, 6.2).

use modgate_value::{Str, Value};

use crate::{Decision, Review};

/// A pod about to be bound to a node.
///
/// [`PodBinding::read`], then GET the pod, then [`PodBinding::update`], then UPDATE the pod if
/// there is something to update, then [`PodBinding::ok`]; any failure is [`PodBinding::failed`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodBinding {
    /// Namespace of the pod.
    pub namespace: Str,
    /// Name of the pod.
    pub name: Str,
    /// Name of the node it is bound to.
    pub node: Str,
}

impl PodBinding {
    /// What to look up, or the answer where there is nothing to do.
    ///
    /// # Errors
    ///
    /// The decision to answer with: for other resources, incomplete bindings, and dry runs, which
    /// must not write.
    pub fn read(review: &Review) -> Result<Self, Box<Decision>> {
        Err(Box::new(Decision::unchanged(review.object().cloned().unwrap_or_default())))
    }

    /// The pod to store, if it asks for its node to be injected and does not have it already.
    pub fn update(&self, pod: &Value) -> Option<Value> {
        let _ = pod;
        None
    }
}
