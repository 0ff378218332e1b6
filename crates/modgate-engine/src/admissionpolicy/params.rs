//! The parameters that a binding passes to its policy.

use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash as _, Hasher as _},
};

use modgate_api::{
    admissionregistration::{ParamKind, ParamRef},
    kinds,
    meta::{GroupVersionKind, split_api_version},
};
use modgate_value::{Str, Value};

use super::{Types, compile::CompiledParamRef};
use crate::matching::Selector;

/// Whether objects of a kind live in namespaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParamScope {
    /// They do.
    Namespaced,
    /// They do not.
    Cluster,
}

/// Where parameters are looked up: objects beside the policies, or a cluster.
pub trait Params {
    /// The scope of a kind; `None` if there is no such kind.
    fn scope(&self, kind: &ParamKind) -> Option<ParamScope>;

    /// Whether the objects of a kind are known. Until then no binding can pass one, and the scope means
    /// nothing.
    fn is_synced(&self, _kind: &ParamKind) -> bool {
        true
    }

    /// The object of this name; `namespace` is empty for cluster-scoped kinds.
    fn get(&self, kind: &ParamKind, namespace: &str, name: &str) -> Option<Value>;

    /// The objects whose labels match, sorted by namespace and name; `namespace` is empty for
    /// cluster-scoped kinds.
    fn list(&self, kind: &ParamKind, namespace: &str, selector: &Selector) -> Vec<Value>;

    /// A number that differs once an object of the kind differs, or is new, or is gone.
    fn version(&self, kind: &ParamKind) -> u64;
}

/// Objects that stand in for those of a cluster. A kind of custom resources is taken to live in
/// namespaces unless every object of it says none.
#[derive(Debug, Clone, Default)]
pub struct ParamObjects(BTreeMap<Place, Value>);

/// `apiVersion`, kind, namespace and name of an object.
type Place = (Str, Str, Str, Str);

impl ParamObjects {
    /// Adds or replaces an object.
    pub fn insert(&mut self, object: &Value) {
        let text = |path: &[&str]| object.path(path).and_then(Value::as_str).unwrap_or_default();
        let place = [
            text(&["apiVersion"]),
            text(&["kind"]),
            text(&["metadata", "namespace"]),
            text(&["metadata", "name"]),
        ];
        self.0.insert(place.map(Str::from).into(), object.clone());
    }

    /// All objects.
    pub fn objects(&self) -> impl Iterator<Item = &Value> {
        self.0.values()
    }

    fn of(&self, kind: &ParamKind) -> impl Iterator<Item = (&Place, &Value)> {
        let ParamKind { api_version, kind } = kind.clone();
        let from = (api_version.clone(), kind.clone(), Str::default(), Str::default());
        let all = self.0.range(from..);
        all.take_while(move |((version, name, ..), _)| *version == api_version && *name == kind)
    }

    /// The CustomResourceDefinition of a kind.
    fn definition_of(&self, group: &str, kind: &str) -> Option<&Value> {
        let definitions = ParamKind {
            api_version: "apiextensions.k8s.io/v1".into(),
            kind: "CustomResourceDefinition".into(),
        };
        let is =
            |it: &Value, path: &[&str], text| it.path(path).and_then(Value::as_str) == Some(text);
        let mut all = self.of(&definitions).map(|(_, object)| object);
        all.find(|it| is(it, &["spec", "group"], group) && is(it, &["spec", "names", "kind"], kind))
    }

    /// Whether anything is known of a kind: a CustomResourceDefinition or an object of it, or that
    /// Kubernetes has it.
    pub fn knows(&self, kind: &ParamKind) -> bool {
        let (group, _) = split_api_version(&kind.api_version);
        kinds::of_group(group).is_some()
            || self.definition_of(group, &kind.kind).is_some()
            || self.of(kind).next().is_some()
    }

    /// The objects of a kind in a namespace; an object without a namespace is in each.
    fn within(&self, kind: &ParamKind, namespace: &str) -> impl Iterator<Item = (&Str, &Value)> {
        let all = self.of(kind);
        all.filter(move |((_, _, place, _), _)| place.is_empty() || place == namespace)
            .map(|((_, _, _, name), object)| (name, object))
    }
}

impl Params for ParamObjects {
    fn scope(&self, kind: &ParamKind) -> Option<ParamScope> {
        let (group, version) = split_api_version(&kind.api_version);
        let found = GroupVersionKind {
            group: group.into(),
            version: version.into(),
            kind: kind.kind.clone(),
        };
        if !Types::kubernetes().may_have(&kind.api_version, &kind.kind) {
            return None;
        }
        if let Some(definition) = self.definition_of(group, &kind.kind) {
            return served_scope(definition, version);
        }
        let mut all = self.of(kind).map(|(place, _)| place);
        let builtin = !group.contains('.') || group.ends_with(".k8s.io");
        let first = all.next();
        let nowhere = |(_, _, namespace, _): &Place| namespace.is_empty();
        let everywhere = !builtin && first.is_some_and(nowhere) && all.all(nowhere);
        Some(match found.is_cluster_scoped() || everywhere {
            true => ParamScope::Cluster,
            false => ParamScope::Namespaced,
        })
    }

    fn get(&self, kind: &ParamKind, namespace: &str, name: &str) -> Option<Value> {
        let mut all = self.within(kind, namespace);
        all.find(|(called, _)| *called == name).map(|(_, object)| object.clone())
    }

    fn list(&self, kind: &ParamKind, namespace: &str, selector: &Selector) -> Vec<Value> {
        let all = self.within(kind, namespace).map(|(_, object)| object);
        all.filter(|object| selects(selector, object)).cloned().collect()
    }

    fn version(&self, kind: &ParamKind) -> u64 {
        let mut hash = DefaultHasher::new();
        self.of(kind).for_each(|(_, object)| object.hash(&mut hash));
        hash.finish()
    }
}

/// The scope of a version that a CustomResourceDefinition serves.
fn served_scope(definition: &Value, version: &str) -> Option<ParamScope> {
    let versions = definition.path(&["spec", "versions"]).and_then(Value::as_array)?;
    let is_served = |it: &Value| {
        it.get("name").and_then(Value::as_str) == Some(version)
            && it.get("served").and_then(Value::as_bool) == Some(true)
    };
    versions.iter().any(is_served).then(|| {
        match definition.path(&["spec", "scope"]).and_then(Value::as_str) {
            Some("Cluster") => ParamScope::Cluster,
            _ => ParamScope::Namespaced,
        }
    })
}

/// Whether a selector selects an object by its labels.
pub fn selects(selector: &Selector, object: &Value) -> bool {
    selector.matches(object.path(&["metadata", "labels"]).and_then(Value::as_object))
}

/// No objects: whatever kind a policy names is not known.
#[derive(Debug, Clone, Copy)]
pub struct NoParams;

impl Params for NoParams {
    fn scope(&self, _: &ParamKind) -> Option<ParamScope> {
        None
    }

    fn get(&self, _: &ParamKind, _: &str, _: &str) -> Option<Value> {
        None
    }

    fn list(&self, _: &ParamKind, _: &str, _: &Selector) -> Vec<Value> {
        Vec::new()
    }

    fn version(&self, _: &ParamKind) -> u64 {
        0
    }
}

/// The parameters of one binding: `None` stands for `params == null`.
///
/// # Errors
///
/// The API server's text for a reference that cannot be followed.
pub(super) fn collect(
    kind: Option<&ParamKind>,
    reference: Option<&CompiledParamRef>,
    request_namespace: &str,
    params: &dyn Params,
) -> Result<Vec<Option<Value>>, String> {
    let (Some(kind), Some(reference)) = (kind, reference) else { return Ok(vec![None]) };
    let wire: &ParamRef = &reference.wire;
    let Some(scope) = params.scope(kind) else {
        return Err(format!("paramKind kind `{}` not known", describe(kind)));
    };
    if !params.is_synced(kind) {
        let kind = describe(kind);
        return Err(format!("paramKind kind `{kind}` not yet synced to use for admission"));
    }
    let namespace = match scope {
        ParamScope::Namespaced if !wire.namespace.is_empty() => wire.namespace.as_str(),
        ParamScope::Namespaced if request_namespace.is_empty() => {
            return Err("cannot use namespaced paramRef in policy binding that matches \
                        cluster-scoped resources"
                .to_owned());
        }
        ParamScope::Namespaced => request_namespace,
        ParamScope::Cluster if wire.namespace.is_empty() => "",
        ParamScope::Cluster => {
            return Err("paramRef.namespace must not be provided for a cluster-scoped `paramKind`"
                .to_owned());
        }
    };
    let found = match &reference.selector {
        None => params.get(kind, namespace, &wire.name).into_iter().collect(),
        Some(selector) => params.list(kind, namespace, selector),
    };
    if found.is_empty() && reference.deny_if_missing {
        return Err("no params found for policy binding with `Deny` parameterNotFoundAction".into());
    }
    Ok(found.into_iter().map(Some).collect())
}

/// As Go prints the API type.
fn describe(kind: &ParamKind) -> String {
    format!("&ParamKind{{APIVersion:{},Kind:{},}}", kind.api_version, kind.kind)
}
