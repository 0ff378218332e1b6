//! The pod-binding webhook's logic (6.2).

use modgate_value::{Object, Str, Value};

use super::references::NODE_NAME;
use crate::{Decision, FailureKind, Review, RuleFailure};

/// Annotation with which a pod asks for the name of its node.
const INJECT: &str = "ref.kubemod.io/inject-node-ref";

/// A pod about to be bound to a node.
///
/// The edge reads it with [`PodBinding::read`], gets the pod, stores what [`PodBinding::update`]
/// returns, and answers [`PodBinding::ok`], or [`PodBinding::failed`] if it could not. The answer
/// never denies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodBinding {
    /// Namespace of the pod.
    pub namespace: Str,
    /// Name of the pod.
    pub name: Str,
    /// Name of the node it is bound to.
    pub node: Str,
    /// Uid of the pod, where the binding says it.
    pub uid: Option<Str>,
}

/// Why a binding is not believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Disbelief {
    /// The uid is another.
    #[error("the binding is for another pod of that name")]
    OtherPod,
    /// A binding cannot be changed.
    #[error("the pod is bound to another node already")]
    BoundElsewhere,
}

impl PodBinding {
    /// The reference to look up.
    ///
    /// # Errors
    ///
    /// The decision to answer with where there is nothing to do: for other resources, bindings
    /// without a target, and dry runs, which must not write.
    pub fn read(review: &Review) -> Result<Self, Box<Decision>> {
        let request = review.request();
        if request.resource.resource != "pods" || request.sub_resource != "binding" {
            return Err(Box::new(Self::ok()));
        }
        let text = |path: &[&str]| {
            let value = review.object()?.path(path)?.as_str()?;
            (!value.is_empty()).then(|| Str::from(value))
        };
        let (Some(namespace), Some(name), Some(node)) = (
            text(&["metadata", "namespace"]),
            text(&["metadata", "name"]),
            text(&["target", "name"]),
        ) else {
            return Err(Box::new(Self::failed(
                "failed to obtain target data from pod binding",
                "the binding lacks metadata.namespace, metadata.name or target.name",
            )));
        };
        if request.dry_run {
            return Err(Box::new(Self::ok()));
        }
        Ok(Self { namespace, name, node, uid: text(&["metadata", "uid"]) })
    }

    /// The pod to store, if it asks for its node's name and does not carry it already. Whether there
    /// is such a node is left to the caller.
    ///
    /// # Errors
    ///
    /// When the pod as it is contradicts the binding: any client of the webhook may send one.
    pub fn update(&self, pod: &Value) -> Result<Option<Value>, Disbelief> {
        let text = |path: &[&str]| pod.path(path).and_then(Value::as_str).unwrap_or_default();
        if self.uid.as_deref().is_some_and(|uid| uid != text(&["metadata", "uid"])) {
            return Err(Disbelief::OtherPod);
        }
        let bound = text(&["spec", "nodeName"]);
        if !bound.is_empty() && bound != self.node.as_str() {
            return Err(Disbelief::BoundElsewhere);
        }
        Ok(self.named(pod))
    }

    fn named(&self, pod: &Value) -> Option<Value> {
        let annotations = pod.path(&["metadata", "annotations"])?.as_object()?;
        let wanted = annotations.get(INJECT).and_then(Value::as_str) == Some("true");
        let current = annotations.get(NODE_NAME).and_then(Value::as_str);
        if !wanted || current == Some(self.node.as_str()) {
            return None;
        }
        let mut annotations: Object = annotations.clone();
        annotations.insert(NODE_NAME, self.node.clone().into());
        let mut root = pod.as_object()?.clone();
        let mut metadata = root.get("metadata")?.as_object()?.clone();
        metadata.insert("annotations", annotations.into());
        root.insert("metadata", metadata.into());
        Some(root.into())
    }

    /// The answer when all is done.
    pub fn ok() -> Decision {
        Decision { reason: "ok".to_owned(), ..Decision::unchanged(Value::Null) }
    }

    /// The answer when the pod could not be read or stored; the cause goes to the log.
    pub fn failed(reason: &str, cause: &str) -> Decision {
        let failure = RuleFailure {
            kind: FailureKind::PodBinding,
            rule: String::new(),
            message: format!("{reason}: {cause}"),
        };
        Decision {
            reason: reason.to_owned(),
            failures: vec![failure],
            ..Decision::unchanged(Value::Null)
        }
    }
}
