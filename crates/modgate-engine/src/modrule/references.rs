//! The working document: the object as rules see it (section 6).

use modgate_select::{Expr, PatchSelect};
use modgate_value::{Object, Value, near};

use crate::{EngineConfig, Host, HostError, MissingReference, NodeView, Review, review::Origin};

/// Root key of the references.
pub(super) const SYNTHETIC_REFS: &str = "syntheticRefs";

/// The members of `syntheticRefs`.
const MEMBERS: [&str; 2] = [NAMESPACE, NODE];
const NAMESPACE: &str = "namespace";
const NODE: &str = "node";

/// The advice about a member of `syntheticRefs` that does not exist.
pub(super) fn misspelt(name: &str) -> Option<String> {
    let is_known = MEMBERS.contains(&name);
    (!is_known).then(|| near::did_you_mean_or(name, &MEMBERS, "the members are"))
}

/// Annotation naming the node of a pod; KubeMod's code knows this one, its README another (Q-39).
pub(super) const NODE_NAME: &str = "ref.kubemod.io/nodename";

/// The longest name an object has, in bytes: what is longer is shown cut.
const MAX_NAME: usize = 253;

/// Why the working document, or a part of it, cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum ReferenceError {
    #[error("the request has no object")]
    NoObject,
    #[error("the object is not a JSON object")]
    NotAnObject,
    #[error("the object has no kind")]
    NoKind,
    #[error("failed to read namespace `{name}`: {error}")]
    Namespace { name: String, error: HostError },
    #[error("failed to read node `{name}`: {error}")]
    Node { name: String, error: HostError },
}

/// The document that rules see, and what is not in it.
#[derive(Debug, Clone, Default)]
pub(super) struct Working {
    pub(super) document: Value,
    /// References that do not exist; each is an empty object in the document.
    pub(super) missing: Vec<ReferenceError>,
    /// References that could not be read: what looks at them cannot be decided.
    pub(super) unread: Vec<(Reference, ReferenceError)>,
}

impl Working {
    /// Of a document that is complete as it is.
    pub(super) fn of(document: Value) -> Self {
        Self { document, ..Self::default() }
    }
}

/// One of the synthetic references.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reference {
    Namespace,
    Node,
}

impl Reference {
    fn key(self) -> &'static str {
        match self {
            Self::Namespace => NAMESPACE,
            Self::Node => NODE,
        }
    }
}

/// The references that a part of a rule may look at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Reads {
    namespace: bool,
    node: bool,
}

impl Reads {
    fn of(may_read: impl Fn(&[&str]) -> bool) -> Self {
        let reads = |key| may_read(&[SYNTHETIC_REFS, key]);
        Self { namespace: reads(NAMESPACE), node: reads(NODE) }
    }

    pub(super) fn of_expression(expression: &Expr) -> Self {
        Self::of(|place| expression.may_read(place))
    }

    pub(super) fn of_select(select: &PatchSelect) -> Self {
        Self::of(|place| select.may_read(place))
    }

    /// The members that a template may read, by its text: `.Target.x` looks at one member of the document,
    /// any other use of `.Target`, of `.` and of `$` may look at all of it.
    pub(super) fn of_template(text: &str) -> Self {
        Self::of(|place| template_may_read(text, place))
    }

    /// Whether it may look at the Namespace.
    pub(crate) fn namespace(self) -> bool {
        self.namespace
    }

    /// Whether it may look at no reference.
    pub(super) fn is_none(self) -> bool {
        self == Self::default()
    }

    pub(super) fn and(self, other: Self) -> Self {
        Self { namespace: self.namespace || other.namespace, node: self.node || other.node }
    }

    pub(super) fn contains(self, reference: Reference) -> bool {
        match reference {
            Reference::Namespace => self.namespace,
            Reference::Node => self.node,
        }
    }
}

fn template_may_read(text: &str, place: &[&str]) -> bool {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let through_target = text.split(".Target").skip(1).any(|after| {
        let mut rest = after;
        for key in place {
            let Some(member) = rest.strip_prefix('.') else { return !rest.starts_with(is_name) };
            let end = member.find(|c| !is_name(c)).unwrap_or(member.len());
            let (name, tail) = member.split_at(end);
            if name.is_empty() {
                return true;
            }
            if name != *key {
                return false;
            }
            rest = tail;
        }
        true
    });
    // `{{ toJson . }}`, `{{ index $ "Target" }}`
    let starts_name = |c: Option<char>| c.is_some_and(|c| is_name(c) || c == '.' || c == '#');
    let actions = text.split("{{").skip(1).filter_map(|after| after.split("}}").next());
    let bare = |action: &str| {
        let mut before = None;
        let mut rest = action.chars().peekable();
        while let Some(c) = rest.next() {
            let next = rest.peek().copied();
            let follows = before.is_some_and(|c: char| is_name(c) || c == ')');
            if (c == '.' && !follows && !starts_name(next)) || (c == '$' && !starts_name(next)) {
                return true;
            }
            before = Some(c);
        }
        false
    };
    through_target || actions.into_iter().any(bare)
}

/// The object under review with `syntheticRefs` and without `metadata.managedFields`.
///
/// # Errors
///
/// When the object is not one; with [`MissingReference::Allow`] and [`MissingReference::Deny`] also
/// when it has no kind, or its Namespace or Node cannot be had.
pub(super) fn working_document(
    review: &Review,
    config: &EngineConfig,
    host: &dyn Host,
) -> Result<Working, ReferenceError> {
    let object = review.object().filter(|object| !object.is_null());
    let object = object.ok_or(ReferenceError::NoObject)?;
    if review.origin() == Origin::DryRun {
        return Ok(Working::of(object.clone()));
    }
    let Value::Object(members) = object else { return Err(ReferenceError::NotAnObject) };
    let mode = config.missing_reference;
    let kind = members.get("kind").and_then(Value::as_str).unwrap_or_default();
    if kind.is_empty() && mode != MissingReference::Empty {
        return Err(ReferenceError::NoKind);
    }
    let mut working = Working::default();
    let mut references = Object::default();
    let namespace = review.store_namespace();
    if !namespace.is_empty() {
        let found = if mode == MissingReference::Deny && host.assumes_namespace(namespace) {
            let message = "no file describes it: give it with `--objects`".to_owned();
            Err(HostError::NotFound(message))
        } else {
            host.namespace(namespace)
        };
        let found = found
            .map(|object| without_last_applied(without_managed_fields(object)))
            .map_err(|error| ReferenceError::Namespace { name: shown(namespace), error });
        working.take(Reference::Namespace, found, mode, &mut references)?;
    }
    let node = object.path(&["metadata", "annotations", NODE_NAME]).and_then(Value::as_str);
    if let Some(name) = node.filter(|name| kind == "Pod" && !name.is_empty()) {
        let found = host
            .node(name)
            .map(without_managed_fields)
            .map_err(|error| ReferenceError::Node { name: shown(name), error });
        working.take(Reference::Node, found, mode, &mut references)?;
    }
    let mut document = members.clone();
    document.insert(SYNTHETIC_REFS, references.into());
    working.document = without_managed_fields(document.into());
    Ok(working)
}

impl Working {
    /// Puts what was found among the references, or notes what was not (Q-36).
    fn take(
        &mut self,
        reference: Reference,
        found: Result<Value, ReferenceError>,
        mode: MissingReference,
        references: &mut Object,
    ) -> Result<(), ReferenceError> {
        match found {
            Ok(object) => {
                references.insert(reference.key(), object);
            }
            Err(error) if mode != MissingReference::Empty => return Err(error),
            Err(error) if error.is_missing() => {
                references.insert(reference.key(), Object::default().into());
                self.missing.push(error);
            }
            Err(error) => self.unread.push((reference, error)),
        }
        Ok(())
    }
}

impl ReferenceError {
    /// Whether the object does not exist.
    fn is_missing(&self) -> bool {
        match self {
            Self::Namespace { error, .. } | Self::Node { error, .. } => {
                matches!(error, HostError::NotFound(_))
            }
            Self::NoObject | Self::NotAnObject | Self::NoKind => false,
        }
    }

    /// The message for a reference that does not exist.
    pub(super) fn warning(&self) -> String {
        match self {
            Self::Namespace { name, .. } => format!(
                "Namespace `{name}` does not exist, so ModRules see an empty \
                 `syntheticRefs.namespace` (Q-36)"
            ),
            Self::Node { name, .. } => format!(
                "annotation `{NODE_NAME}` names Node `{name}`, which does not exist, so ModRules \
                 see an empty `syntheticRefs.node` (Q-36)"
            ),
            Self::NoObject | Self::NotAnObject | Self::NoKind => self.to_string(),
        }
    }
}

/// A name for a message: what an annotation holds may be of any length.
fn shown(name: &str) -> String {
    match name.char_indices().find(|(at, _)| *at >= MAX_NAME) {
        Some((at, _)) => format!("{}...", name.get(..at).unwrap_or_default()),
        None => name.to_owned(),
    }
}

/// Whether the document has a Node among its references.
pub(super) fn has_node(document: &Value) -> bool {
    document.path(&[SYNTHETIC_REFS, NODE]).is_some()
}

/// The document with as much of the Node as `view` shows; `None` where that is what it has already.
pub(super) fn with_node(document: &Value, view: NodeView) -> Option<Value> {
    let node = match view {
        NodeView::Full => return None,
        NodeView::Summary => document.path(&[SYNTHETIC_REFS, NODE])?.as_object()?,
    };
    let part = |key: &str, members: &[&str]| -> Option<Value> {
        let all = node.get(key)?.as_object()?;
        let kept = members.iter().filter_map(|member| Some((*member, all.get(member)?.clone())));
        Some(kept.collect())
    };
    let mut summary = Object::default();
    for key in ["apiVersion", "kind"] {
        if let Some(value) = node.get(key) {
            summary.insert(key, value.clone());
        }
    }
    for (key, members) in [("metadata", &["name", "labels"][..]), ("status", &["capacity"][..])] {
        if let Some(value) = part(key, members) {
            summary.insert(key, value);
        }
    }
    let mut references = document.get(SYNTHETIC_REFS)?.as_object()?.clone();
    references.insert(NODE, summary.into());
    with_references(document, Some(&references.into()))
}

/// The document with other references, or without.
pub(super) fn with_references(document: &Value, references: Option<&Value>) -> Option<Value> {
    let mut members = document.as_object()?.clone();
    match references {
        Some(references) => {
            members.insert(SYNTHETIC_REFS, references.clone());
        }
        None => {
            members.remove(SYNTHETIC_REFS);
        }
    }
    Some(members.into())
}

fn without_managed_fields(object: Value) -> Value {
    without(&object, &["metadata"], "managedFields").unwrap_or(object)
}

fn without_last_applied(object: Value) -> Value {
    let annotation = "kubectl.kubernetes.io/last-applied-configuration";
    without(&object, &["metadata", "annotations"], annotation).unwrap_or(object)
}

/// The object without the member `key` of what `path` leads to; `None` if it has none.
fn without(object: &Value, path: &[&str], key: &str) -> Option<Value> {
    let members: &Object = object.as_object()?;
    let mut changed = members.clone();
    match path.split_first() {
        None => {
            changed.remove(key)?;
        }
        Some((step, rest)) => {
            let inner = without(members.get(step)?, rest, key)?;
            changed.insert(*step, inner);
        }
    }
    Some(changed.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_templates_look_at() {
        for (text, namespace, node) in [
            ("8080", false, false),
            ("{{ .Target.metadata.name }}", false, false),
            ("{{ .Namespace }}-{{ .SelectedItem.x }} {{ .#0 }}", false, false),
            ("{{ .Target.syntheticRefs.namespace.metadata.name }}", true, false),
            ("{{ .Target.syntheticRefs.node.metadata.labels }}", false, true),
            ("{{ .Target.syntheticRefs }}", true, true),
            ("{{ .Target.syntheticRefsOther }}", false, false),
            ("{{ toJson .Target }}", true, true),
            ("{{ (.Target).syntheticRefs }}", true, true),
            (r#"{{ index .Target "syntheticRefs" }}"#, true, true),
            ("{{ toJson . }}", true, true),
            ("{{toJson .}}", true, true),
            ("{{ with $ }}{{ end }}", true, true),
            ("{{ $x := .Target.spec }}{{ $x.a }}", false, false),
            ("{{ $.Target.spec }}", false, false),
            ("{{ $.Target.syntheticRefs.node }}", false, true),
            ("v1.0 costs $ 3", false, false),
        ] {
            let reads = Reads::of_template(text);
            assert_eq!((reads.namespace, reads.node), (namespace, node), "{text}");
        }
    }
}
