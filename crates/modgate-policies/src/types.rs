//! The types of custom resources, as a cluster defines them, that MutatingAdmissionPolicies need.

use std::{collections::BTreeSet, sync::Arc};

use modgate_engine::admissionpolicy::Types;
use modgate_value::{Str, Value};

/// The groups whose CustomResourceDefinitions are followed, and the types that these define.
#[derive(Debug, Clone, Default)]
pub struct WatchedTypes {
    groups: Arc<BTreeSet<Str>>,
    /// Whether all definitions were seen.
    listed: bool,
    /// Why they cannot be seen, if they were not.
    problem: Option<String>,
    /// With Kubernetes' own; `None` if there are no others.
    types: Option<Arc<Types>>,
}

impl WatchedTypes {
    /// Follows the definitions of these groups and no others; `*` stands for all. Without any, nothing is
    /// kept.
    pub fn want(&mut self, groups: BTreeSet<Str>) {
        if *self.groups == groups {
            return;
        }
        // Until the definitions are listed anew, the types of before stay, except if none is needed.
        let types = self.types.take().filter(|_| !groups.is_empty());
        *self = Self { groups: Arc::new(groups), types, ..Self::default() };
    }

    /// The groups whose definitions are followed.
    pub fn groups(&self) -> &Arc<BTreeSet<Str>> {
        &self.groups
    }

    /// Whether the definitions have been listed, cannot be read, or are not needed.
    pub fn is_settled(&self) -> bool {
        self.listed || self.problem.is_some() || self.groups.is_empty()
    }

    /// All types; `None` if there are only those of Kubernetes' own kinds.
    pub(crate) fn types(&self) -> Option<&Types> {
        self.types.as_deref()
    }

    /// All definitions of the groups. Returns whether the types have to be published.
    pub fn replace<'d>(&mut self, definitions: impl Iterator<Item = &'d Value>) -> bool {
        let mut types = None;
        for definition in definitions {
            types.get_or_insert_with(|| Types::kubernetes().clone()).define(definition);
        }
        (self.listed, self.problem, self.types) = (true, None, types.map(Arc::new));
        true
    }

    /// A definition that is new or has changed.
    pub fn insert(&mut self, definition: &Value) -> bool {
        let types = self.types.get_or_insert_with(|| Types::kubernetes().clone().into());
        Arc::make_mut(types).define(definition);
        true
    }

    /// A definition that is gone. Returns whether there was any.
    pub fn remove(&mut self, definition: &Value) -> bool {
        let Some(types) = &mut self.types else { return false };
        Arc::make_mut(types).undefine(definition);
        true
    }

    /// The definitions cannot be read for now. What was seen stays. Returns whether that is news.
    pub fn failed(&mut self, problem: String) -> bool {
        !self.listed && self.problem.replace(problem).is_none()
    }
}

#[cfg(test)]
mod tests {
    use modgate_value::yaml;

    use super::*;

    fn definition(kind: &str) -> Value {
        let text = format!(
            "{{spec: {{group: example.com, names: {{kind: {kind}}}, versions: [{{name: v1, schema: \
             {{openAPIV3Schema: {{type: object}}}}}}]}}}}"
        );
        yaml::value(&text).expect("YAML")
    }

    fn has(types: &WatchedTypes, kind: &str) -> bool {
        types.types().is_some_and(|types| types.has("example.com/v1", kind))
    }

    #[test]
    fn definitions_come_and_go() {
        let (a, b) = (definition("A"), definition("B"));
        let mut types = WatchedTypes::default();
        assert!(types.is_settled(), "none is needed");
        types.want(["example.com".into()].into());
        assert!(!types.is_settled());
        assert!(types.failed("forbidden".into()) && !types.failed("again".into()));
        assert!(types.is_settled() && !has(&types, "A"));
        assert!(types.replace([&a].into_iter()) && types.is_settled());
        assert!(has(&types, "A") && types.insert(&b) && has(&types, "B"));
        assert!(types.types().is_some_and(|types| types.has("v1", "Pod")), "and all others");
        types.want(["example.com".into(), "*".into()].into());
        assert!(!types.is_settled() && has(&types, "A"), "until they are listed");
        assert!(types.remove(&a) && !has(&types, "A") && has(&types, "B"));
        types.want(BTreeSet::new());
        assert!(types.is_settled() && types.types().is_none());
        assert!(!types.remove(&b));
    }
}
