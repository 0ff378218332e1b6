//! Objects that policies refer to: of files, which stand in for a cluster, or as watches have them.

use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::Arc,
};

use modgate_engine::{
    Host, HostError,
    admissionpolicy::{Authorizer, NoAuthorizer, ParamObjects, ParamScope, Params, Types, selects},
    api::admissionregistration::ParamKind,
    matching::Selector,
    provider::{self, ExternalData, Responses, Unanswered, external_data},
    rego::builtins,
    template,
};
use modgate_value::{Clock, Str, Value};

use crate::access::DeclaredAccess;

/// Namespaces, Nodes, and what the cluster's own policies refer to besides them.
///
/// Where they stand in for a cluster, a Namespace that none of them describes is taken to exist with
/// nothing but what the API server gives to every Namespace: its name, the label
/// `kubernetes.io/metadata.name` and phase `Active`. Without that, no rule could be tried without a file
/// for every Namespace. A Node that none describes does not exist.
#[derive(Debug, Clone, Default)]
pub struct References {
    namespaces: Arc<BTreeMap<Str, Value>>,
    nodes: Arc<BTreeMap<Str, Value>>,
    /// Possible parameters of bindings of the cluster's own policies: every other object of files.
    params: Arc<ParamObjects>,
    /// The types of Kubernetes' own kinds and of the CustomResourceDefinitions of files, if there are any.
    types: Option<Arc<Types>>,
    /// The answers of `authorizer` in them, by files.
    access: Arc<DeclaredAccess>,
}

impl References {
    /// Keeps `object` if it is a Namespace or a Node; returns whether it is.
    pub fn take(&mut self, object: &Value) -> bool {
        let text = |path: &[&str]| object.path(path).and_then(Value::as_str).unwrap_or_default();
        let kept = match (text(&["apiVersion"]), text(&["kind"])) {
            ("v1", "Namespace") => &mut self.namespaces,
            ("v1", "Node") => &mut self.nodes,
            _ => return false,
        };
        Arc::make_mut(kept).insert(text(&["metadata", "name"]).into(), object.clone());
        true
    }

    /// As [`take`](Self::take), and returns whether there is anything new in `object`. What the API
    /// server counts changes with every write, also with those that change nothing.
    pub fn update(&mut self, object: &Value) -> bool {
        let text = |path: &[&str]| object.path(path).and_then(Value::as_str).unwrap_or_default();
        let name = text(&["metadata", "name"]);
        let known = match text(&["kind"]) {
            "Namespace" => self.namespaces.get(name),
            "Node" => self.nodes.get(name),
            _ => None,
        };
        if known.is_some_and(|known| uncounted(known) == uncounted(object)) {
            return false;
        }
        self.take(object)
    }

    /// Drops the objects of a kind whose names are not to be kept; returns whether there were any.
    pub fn retain(&mut self, kind: &str, keep: impl Fn(&str) -> bool) -> bool {
        let kept = match kind {
            "Namespace" => &mut self.namespaces,
            "Node" => &mut self.nodes,
            _ => return false,
        };
        if kept.keys().all(|name| keep(name)) {
            return false;
        }
        Arc::make_mut(kept).retain(|name, _| keep(name));
        true
    }

    /// Keeps an object if it is a SubjectAccessReview, whose answer `authorizer` gives; returns whether it
    /// is.
    pub fn declare(&mut self, object: &Value) -> bool {
        Arc::make_mut(&mut self.access).take(object)
    }

    /// Keeps an object that a binding of one of the cluster's own policies may pass.
    pub fn keep(&mut self, object: &Value) {
        if object.get("kind").and_then(Value::as_str) == Some("CustomResourceDefinition") {
            let types = self.types.get_or_insert_with(|| Types::kubernetes().clone().into());
            Arc::make_mut(types).define(object);
        }
        Arc::make_mut(&mut self.params).insert(object);
    }

    /// Whether the objects say anything of a kind of parameters.
    pub fn knows_params(&self, kind: &ParamKind) -> bool {
        self.params.knows(kind)
    }

    /// The objects that bindings of the cluster's own policies may pass.
    pub fn params(&self) -> impl Iterator<Item = &Value> {
        self.params.objects()
    }

    /// The objects of kind `Namespace` or `Node`; none of other kinds.
    pub fn of_kind(&self, kind: &str) -> impl Iterator<Item = &Value> {
        let kept = match kind {
            "Namespace" => Some(&self.namespaces),
            "Node" => Some(&self.nodes),
            _ => None,
        };
        kept.into_iter().flat_map(|kept| kept.values())
    }

    /// The Namespace of a name, if an object describes it.
    pub fn namespace(&self, name: &str) -> Option<&Value> {
        self.namespaces.get(name)
    }

    /// The Node of a name.
    pub fn node(&self, name: &str) -> Option<&Value> {
        self.nodes.get(name)
    }

    /// The types of Kubernetes' own kinds and of those that the objects define.
    pub fn types(&self) -> &Types {
        self.types.as_deref().unwrap_or_else(|| Types::kubernetes())
    }

    /// The answers of `authorizer`.
    pub fn authorizer(&self) -> &dyn Authorizer {
        if self.access.is_empty() { &NoAuthorizer } else { &*self.access }
    }

    /// The Namespaces or Nodes, if the kind is one of these.
    fn of_params(&self, kind: &ParamKind) -> Option<&BTreeMap<Str, Value>> {
        match (kind.api_version.as_str(), kind.kind.as_str()) {
            ("v1", "Namespace") => Some(&self.namespaces),
            ("v1", "Node") => Some(&self.nodes),
            _ => None,
        }
    }
}

impl Params for References {
    fn scope(&self, kind: &ParamKind) -> Option<ParamScope> {
        self.params.scope(kind)
    }

    fn is_synced(&self, _: &ParamKind) -> bool {
        true
    }

    fn get(&self, kind: &ParamKind, namespace: &str, name: &str) -> Option<Value> {
        match self.of_params(kind) {
            Some(references) => references.get(name).cloned(),
            None => self.params.get(kind, namespace, name),
        }
    }

    fn list(&self, kind: &ParamKind, namespace: &str, selector: &Selector) -> Vec<Value> {
        match self.of_params(kind) {
            None => self.params.list(kind, namespace, selector),
            Some(references) => {
                let all = references.values();
                all.filter(|object| selects(selector, object)).cloned().collect()
            }
        }
    }

    fn version(&self, kind: &ParamKind) -> u64 {
        let Some(references) = self.of_params(kind) else { return self.params.version(kind) };
        let mut hash = DefaultHasher::new();
        references.values().for_each(|object| uncounted(object).hash(&mut hash));
        hash.finish()
    }
}

/// References that stand in for a cluster, with the clock and the randomness of a machine.
#[derive(Clone, Copy)]
pub struct FileHost<'a> {
    /// The objects.
    pub references: &'a References,
    /// Measures budgets.
    pub clock: &'a dyn Clock,
    /// The machine as templates see it.
    pub templates: &'a dyn template::Host,
    /// The machine as Rego sees it.
    pub policies: &'a dyn builtins::Host,
}

impl Host for FileHost<'_> {
    fn clock(&self) -> &dyn Clock {
        self.clock
    }

    fn templates(&self) -> &dyn template::Host {
        self.templates
    }

    fn policies(&self) -> &dyn builtins::Host {
        self.policies
    }

    fn parameters(&self) -> &dyn Params {
        self.references
    }

    fn types(&self) -> &Types {
        self.references.types()
    }

    fn authorizer(&self) -> &dyn Authorizer {
        self.references.authorizer()
    }

    fn namespace(&self, name: &str) -> Result<Value, HostError> {
        let known = self.references.namespace(name).cloned();
        Ok(known.unwrap_or_else(|| minimal_namespace(name)))
    }

    fn node(&self, name: &str) -> Result<Value, HostError> {
        self.references.node(name).cloned().ok_or_else(|| not_found("nodes", name))
    }

    fn assumes_namespace(&self, name: &str) -> bool {
        self.references.namespace(name).is_none()
    }
}

/// The answer of a built-in of Rego that needs providers where there are none, `None` for others.
pub fn without_providers(name: &str, args: &[Value]) -> Option<Result<Value, String>> {
    (name == provider::FUNCTION).then(|| external_data(args, &NoProviders))
}

/// Returns a `system_error` for every request, so that a policy that checks it does not pass
/// without an answer.
struct NoProviders;

impl ExternalData for NoProviders {
    fn query(&self, provider: &str, _: &[Str]) -> Result<Responses, Unanswered> {
        Err(Unanswered::refused(format!(
            "provider {provider} receives no query: only `modgate serve` sends queries to providers"
        )))
    }
}

/// An object without what the API server counts.
fn uncounted(object: &Value) -> Value {
    let mut object = object.clone();
    if let Value::Object(members) = &mut object
        && let Some(Value::Object(metadata)) = members.get_mut("metadata")
    {
        for member in ["managedFields", "resourceVersion"] {
            metadata.remove(member);
        }
    }
    object
}

/// The error of an object that does not exist.
pub fn not_found(plural: &str, name: &str) -> HostError {
    HostError::NotFound(format!("{plural} \"{}\" not found", shown_name(name)))
}

/// The longest name of an object, in bytes.
const MAX_NAME: usize = 253;

/// A name for a message. An annotation or a request may hold a text of any length in its place.
pub fn shown_name(name: &str) -> std::borrow::Cow<'_, str> {
    match name.char_indices().find(|(at, _)| *at >= MAX_NAME) {
        Some((at, _)) => format!("{}...", name.get(..at).unwrap_or_default()).into(),
        None => name.into(),
    }
}

/// The Namespace of a name as the API server makes one.
pub fn minimal_namespace(name: &str) -> Value {
    let object = |members: Vec<(&str, Value)>| members.into_iter().collect::<Value>();
    let labels = object(vec![("kubernetes.io/metadata.name", name.into())]);
    object(vec![
        ("apiVersion", "v1".into()),
        ("kind", "Namespace".into()),
        ("metadata", object(vec![("name", name.into()), ("labels", labels)])),
        ("spec", object(vec![("finalizers", Value::from(vec!["kubernetes".into()]))])),
        ("status", object(vec![("phase", "Active".into())])),
    ])
}
