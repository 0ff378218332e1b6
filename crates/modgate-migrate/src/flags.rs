//! The flags of the originals' Deployments.

use modgate_value::Value;
use serde::Serialize;

use crate::{
    installation::{Original, Workload},
    object::{Subject, texts},
};

/// Whether `modgate serve` takes a flag, which only its own parser knows; the error is its sentence.
pub type Accepts<'a> = dyn Fn(&str) -> Result<(), String> + 'a;

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
    /// It means something else.
    Differs {
        /// The decision, where there is one.
        #[serde(skip_serializing_if = "Option::is_none")]
        decision: Option<&'static str>,
        /// What it means.
        sentence: &'static str,
    },
    /// It is not needed any more.
    Unneeded {
        /// Why.
        sentence: &'static str,
    },
    /// It is refused.
    Refused {
        /// In the words of the command line.
        sentence: String,
    },
}

/// What is special about a flag.
struct Note {
    flag: &'static str,
    /// Only where the value is, or contains, this.
    value: Option<&'static str>,
    fate: Special,
}

enum Special {
    Differs(Option<&'static str>, &'static str),
    Unneeded(&'static str),
}

/// KubeMod's flags that do not simply go on.
const KUBEMOD: &[Note] = &[
    Note {
        flag: "operator",
        value: None,
        fate: Special::Unneeded("modgate serves webhooks whenever it runs"),
    },
    Note {
        flag: "webapp",
        value: None,
        fate: Special::Differs(
            None,
            "the dry-run API is off unless `--webapp-addr` is given; over HTTPS it is there always",
        ),
    },
    Note {
        flag: "enable-leader-election",
        value: None,
        fate: Special::Differs(
            Some("Q-41"),
            "every replica loads and enforces all rules; only shared status is left to one",
        ),
    },
    Note {
        flag: "enable-dev-mode-log",
        value: None,
        fate: Special::Unneeded("`--log-level debug` does the same"),
    },
];

/// Gatekeeper's flags that do not simply go on.
const GATEKEEPER: &[Note] = &[
    Note {
        flag: "disable-opa-builtin",
        value: Some("{"),
        fate: Special::Differs(
            Some("REGO-8"),
            "Gatekeeper disables nothing for a name in braces; here the name inside is meant, and \
             built-ins that reach the network are off in any case",
        ),
    },
    Note {
        flag: "log-denies",
        value: None,
        fate: Special::Differs(
            Some("GK-Q-34"),
            "violations are logged one by one, never sampled, and without texts about Secrets",
        ),
    },
    Note {
        flag: "enable-mutation",
        value: None,
        fate: Special::Unneeded("Gatekeeper ignores it, too"),
    },
    Note {
        flag: "debug-use-fake-pod",
        value: None,
        fate: Special::Unneeded("modgate runs outside of a cluster with `--kubeconfig`"),
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
    let notes = match workload.original {
        Original::KubeMod => KUBEMOD,
        Original::Gatekeeper => GATEKEEPER,
    };
    let flag = |(name, value): (String, Option<String>)| {
        let flag = match &value {
            Some(value) => format!("--{name}={value}"),
            None => format!("--{name}"),
        };
        let about = |note: &&Note| {
            let value = value.as_deref().unwrap_or_default();
            note.flag == name && note.value.is_none_or(|part| value.contains(part))
        };
        let fate = match notes.iter().find(about).map(|note| &note.fate) {
            Some(Special::Differs(decision, sentence)) => {
                Fate::Differs { decision: *decision, sentence }
            }
            Some(Special::Unneeded(sentence)) => Fate::Unneeded { sentence },
            None => match accepts(&flag) {
                Ok(()) => Fate::Same,
                Err(sentence) => Fate::Refused { sentence },
            },
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
