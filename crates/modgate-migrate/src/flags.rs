//! The flags of the originals' Deployments.

use serde::Serialize;

use crate::{arguments::given, installation::Workload, object::Subject, places};

/// Whether `modgate serve` takes a flag, which only its own parser knows: what it says of one that does
/// nothing, or its error.
pub type Accepts<'a> = dyn Fn(&str) -> Result<Option<String>, String> + 'a;

/// A flag of an original, and its effect on modgate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Flag {
    /// The Deployment.
    pub object: Subject,
    /// As it would be given to `modgate serve`.
    pub flag: String,
    /// Its effect.
    #[serde(flatten)]
    pub fate: Fate,
}

/// The effect of a flag on modgate.
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
        /// Its meaning.
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

/// Every flag of an original's containers.
pub(crate) fn check(workload: &Workload<'_>, accepts: &Accepts<'_>) -> Vec<Flag> {
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
            (Ok(None), None) if places::is_of_chart(&name) => Fate::Chart,
            (Ok(None), None) => Fate::Same,
        };
        Flag { object: workload.found.subject(), flag, fate }
    };
    workload.containers().iter().flat_map(given).map(flag).collect()
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
