//! Which namespaces which process leaves alone (6.7).

use std::collections::BTreeMap;

use modgate_api::{
    admission::AdmissionRequest,
    config::{Config, Process},
};

use super::kind_of;
use crate::{constraint::Synced, matching::Wildcard};
use modgate_api::meta::ObjectExt as _;

/// The `spec.match` of a Config, compiled.
#[derive(Debug, Clone, Default)]
pub struct Exclusions {
    patterns: BTreeMap<Process, Vec<Wildcard>>,
}

impl Exclusions {
    /// The exclusions of a Config. Entries add up, and names of unknown processes have no effect
    /// (EX-2).
    pub fn of_config(config: &Config) -> Self {
        let patterns = Process::ALL.into_iter().map(|process| {
            let excluded = config.excluded_from(process);
            (process, excluded.map(|pattern| Wildcard::new(pattern)).collect())
        });
        let patterns = patterns.collect();
        Self { patterns }
    }

    /// Whether `process` leaves objects of this namespace alone. Cluster-scoped objects have the
    /// empty name, which only the pattern `*` and its like match.
    pub fn excludes(&self, process: Process, namespace: &str) -> bool {
        let patterns = self.patterns.get(&process);
        patterns.is_some_and(|list| list.iter().any(|pattern| pattern.matches(namespace)))
    }

    /// Whether an object is kept out of `data.inventory`: a Namespace by its own name, others by
    /// that of their namespace (EX-3, EX-4).
    pub fn excludes_synced(&self, synced: &Synced<'_>) -> bool {
        let is_namespace = synced.kind == "Namespace" && synced.api_version == "v1";
        let subject = if is_namespace { synced.name } else { synced.namespace };
        self.excludes(Process::Sync, subject)
    }
}

/// The name exclusions look at: a Namespace's own, or that of the request's namespace (EX-3).
pub(crate) fn subject_namespace(request: &AdmissionRequest) -> &str {
    if !kind_of(request).is_namespace() {
        return &request.namespace;
    }
    let objects = request.object.iter().chain(&request.old_object);
    let mut names = objects.filter_map(|object| object.metadata("name"));
    names.find(|name| !name.is_empty()).unwrap_or(&request.name)
}

#[cfg(test)]
mod tests {
    use modgate_value::yaml;

    use super::*;

    fn exclusions(text: &str) -> Exclusions {
        let config = format!("{{kind: Config, spec: {{match: {text}}}}}");
        let config = yaml::value(&config).expect(&config);
        Exclusions::of_config(&Config::from_value(&config).expect(text))
    }

    #[test]
    fn processes_and_patterns() {
        let all = "[{processes: ['*'], excludedNamespaces: [all]}, \
                   {processes: [webhook, audit, unheard-of], excludedNamespaces: ['kube-*', '*-x']}, \
                   {processes: [webhook], excludedNamespaces: ['*in*']}]";
        for (process, namespace, expected) in [
            (Process::Webhook, "all", true),
            (Process::Sync, "all", true),
            (Process::MutationWebhook, "all", true),
            (Process::Webhook, "kube-system", true),
            (Process::Audit, "a-x", true),
            (Process::Sync, "kube-system", false),
            (Process::Webhook, "spring", true),
            (Process::Audit, "spring", false),
            (Process::Webhook, "", false),
            (Process::Webhook, "akube-", false),
        ] {
            assert_eq!(
                exclusions(all).excludes(process, namespace),
                expected,
                "{process:?} {namespace}"
            );
        }
        for (pattern, expected) in [("*", true), ("**", true), ("", true), ("a*", false)] {
            let found = exclusions(&format!(
                "[{{processes: [webhook], excludedNamespaces: ['{pattern}']}}]"
            ));
            assert_eq!(found.excludes(Process::Webhook, ""), expected, "Q-23: {pattern}");
        }
        assert!(!Exclusions::default().excludes(Process::Webhook, "x"));
    }

    #[test]
    fn names_that_are_compared() {
        for (request, expected) in [
            ("{kind: {kind: Pod}, namespace: ns}", "ns"),
            ("{kind: {kind: ClusterRole}}", ""),
            ("{kind: {kind: Namespace}, namespace: ns, object: {metadata: {name: ns}}}", "ns"),
            ("{kind: {kind: Namespace}, oldObject: {metadata: {name: old}}}", "old"),
            ("{kind: {kind: Namespace}, name: asked}", "asked"),
            ("{kind: {group: example.com, kind: Namespace}, namespace: in}", "in"),
            ("{object: {apiVersion: v1, kind: Namespace, metadata: {name: bare}}}", "bare"),
        ] {
            let mut value = yaml::value(request).expect(request).as_object().cloned().expect("map");
            value.insert("operation", "CREATE".into());
            let parsed = AdmissionRequest::from_value(&value.into()).expect(request);
            assert_eq!(subject_namespace(&parsed), expected, "{request}");
        }
    }
}
