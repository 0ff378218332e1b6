//! The parameters that a binding passes to its policy.

use modgate_api::admissionregistration::{ParamKind, ParamRef};
use modgate_value::Value;

use super::compile::CompiledParamRef;
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

    /// The object of this name; `namespace` is empty for cluster-scoped kinds.
    fn get(&self, kind: &ParamKind, namespace: &str, name: &str) -> Option<Value>;

    /// The objects whose labels match, sorted by namespace and name. `None` for `namespace` means
    /// all namespaces.
    fn list(&self, kind: &ParamKind, namespace: &str, selector: &Selector) -> Vec<Value>;
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
