//! The flags of the originals' Deployments.

use modgate_value::Value;
use serde::Serialize;

use crate::{
    installation::Workload,
    object::{Subject, texts},
    values,
};

/// Whether `modgate serve` takes a flag, which only its own parser knows: what it says of one that does
/// nothing, or its error.
pub type Accepts<'a> = dyn Fn(&str) -> Result<Option<String>, String> + 'a;

/// A flag of an original, and what becomes of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Flag {
    /// The Deployment.
    pub object: Subject,
    /// As it would be given to `modgate serve`.
    pub flag: String,
    /// What becomes of it.
    #[serde(flatten)]
    pub fate: Fate,
}

/// What becomes of a flag.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "fate", rename_all = "camelCase")]
pub enum Fate {
    /// It is taken, and means the same.
    Same,
    /// Modgate's chart says it itself.
    Chart,
    /// It means something else.
    Differs {
        /// The row of `docs/compatibility.md`.
        decision: &'static str,
        /// What it means.
        sentence: &'static str,
    },
    /// It is taken and does nothing.
    Nothing {
        /// In the words of the command line.
        sentence: String,
    },
    /// It is refused.
    Refused {
        /// In the words of the command line.
        sentence: String,
    },
}

/// A flag that is taken and means something else.
struct Note {
    flag: &'static str,
    /// Only where the value contains this.
    value: &'static str,
    decision: &'static str,
    sentence: &'static str,
}

const NOTES: &[Note] = &[
    Note {
        flag: "enable-leader-election",
        value: "",
        decision: "Q-41",
        sentence: "every replica loads and enforces all rules; only shared status is left to one",
    },
    Note {
        flag: "disable-opa-builtin",
        value: "{",
        decision: "REGO-8",
        sentence: "Gatekeeper disables nothing for a name in braces; here the name inside is meant, \
                   and built-ins that reach the network are off in any case",
    },
    Note {
        flag: "log-denies",
        value: "",
        decision: "GK-Q-34",
        sentence: "violations are logged one by one, never sampled, and without texts about Secrets",
    },
];

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

/// Every flag of an original's containers.
pub(crate) fn judge(workload: &Workload<'_>, accepts: &Accepts<'_>) -> Vec<Flag> {
    let flag = |(name, value): (String, Option<String>)| {
        let flag = match &value {
            Some(value) => format!("--{name}={value}"),
            None => format!("--{name}"),
        };
        let about = |note: &&Note| {
            note.flag == name && value.as_deref().unwrap_or_default().contains(note.value)
        };
        let fate = match (accepts(&flag), NOTES.iter().find(about)) {
            (Err(sentence), _) => Fate::Refused { sentence },
            (Ok(_), Some(note)) => {
                Fate::Differs { decision: note.decision, sentence: note.sentence }
            }
            (Ok(Some(sentence)), None) => Fate::Nothing { sentence },
            (Ok(None), None) if values::is_of_chart(&name) => Fate::Chart,
            (Ok(None), None) => Fate::Same,
        };
        Flag { object: workload.found.subject(), flag, fate }
    };
    workload.containers().iter().flat_map(given).map(flag).collect()
}

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

#[cfg(test)]
mod tests {
    use modgate_value::yaml;

    use super::*;

    #[test]
    fn flags_are_read_as_go_reads_them() {
        for (container, expected) in [
            (
                "{command: [/kubemod, -operator, -webapp-addr, ':8081'], args: [--x=y=z]}",
                "operator webapp-addr=:8081 x=y=z",
            ),
            ("{args: [--log-denies, stray, --port, '8443']}", "log-denies port=8443"),
            ("{args: [-, --, --a]}", "a"),
            ("{}", ""),
        ] {
            let container = yaml::value(container).expect("YAML");
            let found: Vec<String> = given(&container)
                .into_iter()
                .map(|(name, value)| match value {
                    Some(value) => format!("{name}={value}"),
                    None => name,
                })
                .collect();
            assert_eq!(found.join(" "), expected);
        }
    }
}
