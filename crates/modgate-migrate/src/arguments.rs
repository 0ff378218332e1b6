//! The flags that a container is given.

use modgate_value::Value;

use crate::object::texts;

/// Flags that are followed by no value unless it is joined by `=`.
const BOOLEAN: &[&str] = &[
    "operator",
    "webapp",
    "enable-leader-election",
    "enable-dev-mode-log",
    "log-denies",
    "emit-admission-events",
    "admission-events-involved-namespace",
    "log-stats-admission",
    "log-stats-audit",
    "enable-admission-violation-export",
    "enable-violation-export",
    "disable-enforcementaction-validation",
    "disable-cert-rotation",
    "enable-tls-healthcheck",
    "enable-referential-rules",
    "enable-k8s-native-validation",
    "default-create-vap-for-templates",
    "default-create-vap-binding-for-constraints",
    "sync-vap-enforcement-scope",
    "audit-from-cache",
    "audit-match-kind-only",
    "emit-audit-events",
    "audit-events-involved-namespace",
    "stackdriver-only-when-available",
    "enable-pprof",
    "debug-use-fake-pod",
    "enable-remote-cluster",
    "enable-external-data",
    "enable-generator-resource-expansion",
    "log-mutations",
    "mutation-annotations",
    "enable-mutation",
    "logtostderr",
    "alsologtostderr",
];

/// Flags of a container with their values, in the order in which they are given.
pub(crate) fn given(container: &Value) -> Vec<(String, Option<String>)> {
    let mut words = texts(container, &["command"]).chain(texts(container, &["args"])).peekable();
    let mut found = Vec::new();
    while let Some(word) = words.next() {
        let Some(flag) = word.strip_prefix("--").or_else(|| word.strip_prefix('-')) else {
            continue;
        };
        if flag.is_empty() {
            continue;
        }
        let (name, value) = match flag.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None if BOOLEAN.contains(&flag) => (flag, None),
            None => (flag, words.next_if(|next| !next.starts_with('-'))),
        };
        found.push((name.to_owned(), value.map(str::to_owned)));
    }
    found
}
