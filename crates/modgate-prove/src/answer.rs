//! Answers that were given earlier, or by another webhook, as far as they are known.

use std::{collections::BTreeSet, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use modgate_engine::{
    Decision, Review,
    api::{meta::Operation, secrets},
    jsonpatch::{Op, PatchOperation, Tree, apply},
};
use modgate_value::{Budget, Limits, Value};

use crate::difference::{Class, Difference, Words, denying, messages, turned, words};

/// Work that the patch of an answer may cost.
const PATCH: Limits = Limits { steps: 10_000_000, bytes: 64 << 20, time: Duration::MAX };

/// An answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// Whether the request was allowed.
    pub allowed: bool,
    /// The policies that denied it, as far as they are known.
    pub denying: BTreeSet<String>,
    /// Its texts.
    pub said: Said,
    /// The object that it left, as people are shown it.
    pub object: Option<Value>,
}

/// The texts of an [`Answer`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Said {
    /// Those of each policy.
    Words(Words),
    /// The same without the messages, which may quote a Secret.
    Hidden(Words),
    /// The text of a denial, and the warnings.
    Texts {
        /// Empty if the request was allowed.
        denial: String,
        /// One line each.
        warnings: BTreeSet<String>,
    },
    /// The text of a denial alone; empty if the request was allowed.
    Denial(String),
    /// Nothing is known of them.
    Unknown,
}

impl Answer {
    /// The `response` of another webhook to a request; `None` if it is none.
    pub fn of_response(review: &Review, response: &Value) -> Option<Self> {
        let allowed = response.get("allowed")?.as_bool()?;
        let text = |path: &[&str]| response.path(path).and_then(Value::as_str).unwrap_or_default();
        let denial = match (allowed, text(&["status", "message"])) {
            (true, _) => "",
            // KubeMod's texts are there.
            (false, "") => text(&["status", "reason"]),
            (false, message) => message,
        };
        let warnings = response.get("warnings").and_then(Value::as_array);
        let warnings = warnings.into_iter().flat_map(|all| all.iter()).filter_map(Value::as_str);
        let said = Said::Texts {
            denial: denial.to_owned(),
            warnings: warnings.map(str::to_owned).collect(),
        };
        let object = patched(review, response);
        // Gatekeeper puts the name of the constraint in front of each message.
        let named =
            denial.lines().filter_map(|line| Some(line.strip_prefix('[')?.split_once("] ")?.0));
        let denying = named.map(str::to_owned).collect();
        Some(Self { allowed, denying, said, object })
    }

    /// The text of a denial, as far as it is known.
    pub fn denial(&self) -> &str {
        match &self.said {
            Said::Texts { denial, .. } | Said::Denial(denial) => denial,
            Said::Words(_) | Said::Hidden(_) | Said::Unknown => "",
        }
    }

    /// The differences from a decision to this answer.
    pub fn differences_from(&self, old: &Decision) -> Vec<Difference> {
        let reversed = |class| match class {
            Class::AllowToDeny => Class::DenyToAllow,
            Class::DenyToAllow => Class::AllowToDeny,
            other => other,
        };
        let found = self.differences(old).into_iter();
        found.map(|it| Difference { class: reversed(it.class), ..it }).collect()
    }

    /// The differences from this answer to a decision.
    pub fn differences(&self, new: &Decision) -> Vec<Difference> {
        if let Some(found) =
            turned(self.allowed, new.allowed, || self.denying.clone(), || denying(new))
        {
            return vec![found];
        }
        let other = |differs: bool| {
            let policies = words(new).into_iter().map(|(policy, ..)| policy);
            let policies = policies.filter(|policy| !policy.is_empty()).collect();
            differs.then_some(Difference { class: Class::Messages, policies })
        };
        let other = match &self.said {
            Said::Words(old) => messages(old, &words(new)),
            Said::Hidden(old) => messages(&wordless(old), &wordless(&words(new))),
            Said::Denial(denial) => other(*denial != self.denial_of(new)),
            Said::Texts { denial, warnings } => other(
                *denial != self.denial_of(new)
                    || *warnings != new.warnings.iter().cloned().collect(),
            ),
            Said::Unknown => None,
        };
        let mut found: Vec<Difference> = other.into_iter().collect();
        let leaves = |object: &Value| *object != secrets::shown(&new.object, false);
        if self.allowed && self.object.as_ref().is_some_and(leaves) {
            found.push(Difference { class: Class::Patches, policies: BTreeSet::new() });
        }
        found
    }

    fn denial_of<'d>(&self, decision: &'d Decision) -> &'d str {
        if self.allowed { "" } else { &decision.reason }
    }
}

/// The policies and their effects without messages.
pub(crate) fn wordless(words: &Words) -> Words {
    let all = words.iter();
    all.map(|(policy, effect, _)| (policy.clone(), effect.clone(), String::new())).collect()
}

/// The object that an answer leaves, as people are shown it. `None` for a Secret, for a deletion, and for a
/// patch that is malformed or has operations that modgate does not make.
pub(crate) fn patched(review: &Review, response: &Value) -> Option<Value> {
    if review.is_secret() || review.request().operation == Operation::Delete {
        return None;
    }
    let object = review.object()?;
    let Some(patch) = response.get("patch").and_then(Value::as_str).filter(|it| !it.is_empty())
    else {
        return Some(secrets::shown(object, false));
    };
    let patch = Value::from_json(&STANDARD.decode(patch).ok()?).ok()?;
    let mut tree = Tree::Value(object.clone());
    let all = Budget::unlimited();
    let budget = all.child(PATCH);
    for operation in patch.as_array()?.iter() {
        let text = |key| operation.get(key).and_then(Value::as_str);
        let op = Op::ALL.into_iter().find(|op| Some(op.as_str()) == text("op"))?;
        let path = text("path")?.to_owned();
        let value = operation.get("value").cloned();
        apply(&mut tree, &PatchOperation { op, path, value }, &budget).ok()?;
    }
    Some(secrets::shown(&tree.into_value(), false))
}
