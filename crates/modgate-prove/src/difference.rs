//! How two answers about one request differ.

use std::collections::BTreeSet;

use modgate_engine::{Decision, Trace, explain::RuleOutcome, mutation::MutatorOutcome};

/// How the decisions about a request differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// The old policies allow it, the new ones deny it.
    AllowToDeny,
    /// The old policies deny it, the new ones allow it.
    DenyToAllow,
    /// Both decide alike with other messages: of violations, rejections and warnings.
    Messages,
    /// Both allow it and leave another object.
    Patches,
}

impl Class {
    /// All of them, in the order of reports.
    pub const ALL: [Self; 4] =
        [Self::AllowToDeny, Self::DenyToAllow, Self::Messages, Self::Patches];

    /// Its name in documents.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AllowToDeny => "allow-to-deny",
            Self::DenyToAllow => "deny-to-allow",
            Self::Messages => "messages",
            Self::Patches => "patches",
        }
    }
}

/// One difference between the decisions about a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The kind of difference.
    pub class: Class,
    /// The policies that make the difference, such as `K8sRequiredLabels owner`; empty where none
    /// does, as with a request that cannot be decided.
    pub policies: BTreeSet<String>,
}

/// The words of a decision: policy, effect such as `deny` or `warn`, message.
pub type Words = BTreeSet<(String, String, String)>;

/// The words of a decision.
pub fn words(decision: &Decision) -> Words {
    let mut words = Words::new();
    let mut add = |policy: String, effect: &str, message: &str| {
        words.insert((policy, effect.to_owned(), message.to_owned()));
    };
    for violation in &decision.violations {
        let policy = format!("{} {}", violation.kind, violation.constraint);
        add(policy, &violation.action, &violation.message);
    }
    for rejection in &decision.rejections {
        let message = rejection.message.clone().unwrap_or_default();
        add(format!("ModRule {}", rejection.rule), "reject", &message);
    }
    for denial in &decision.denials {
        add(format!("{} {}", denial.kind.as_str(), denial.policy), "deny", &denial.message);
    }
    for failure in &decision.failures {
        add(format!("ModRule {}", failure.rule), "failure", &failure.message);
    }
    for (key, text) in &decision.audit_annotations {
        add(String::new(), "audit", &format!("{key}: {text}"));
    }
    // Those of constraints have been counted as violations.
    let lines: BTreeSet<String> = decision.violations.iter().map(|each| each.line()).collect();
    for warning in decision.warnings.iter().filter(|warning| !lines.contains(*warning)) {
        add(String::new(), "warn", warning);
    }
    if !decision.allowed && denying(decision).is_empty() {
        add(String::new(), "deny", &decision.reason);
    }
    words
}

/// The policies that deny a request.
pub fn denying(decision: &Decision) -> BTreeSet<String> {
    use modgate_engine::api::constraints::EnforcementAction::Deny;
    let violations = decision.violations.iter().filter(|each| each.actions.contains(&Deny));
    let violations = violations.map(|each| format!("{} {}", each.kind, each.constraint));
    let rejections = decision.rejections.iter().map(|each| format!("ModRule {}", each.rule));
    let denials = decision.denials.iter();
    let denials = denials.map(|each| format!("{} {}", each.kind.as_str(), each.policy));
    violations.chain(rejections).chain(denials).collect()
}

/// The differences between two decisions. [`Class::Patches`] comes without policies: only a trace of the
/// evaluation shows which ones change an object.
pub fn differences(old: &Decision, new: &Decision) -> Vec<Difference> {
    if let Some(found) = turned(old.allowed, new.allowed, || denying(old), || denying(new)) {
        return vec![found];
    }
    let mut found: Vec<Difference> = messages(&words(old), &words(new)).into_iter().collect();
    if old.allowed && old.object != new.object {
        found.push(Difference { class: Class::Patches, policies: BTreeSet::new() });
    }
    found
}

/// The difference of two answers of which one allows the request.
pub(crate) fn turned(
    old: bool,
    new: bool,
    old_policies: impl FnOnce() -> BTreeSet<String>,
    new_policies: impl FnOnce() -> BTreeSet<String>,
) -> Option<Difference> {
    match (old, new) {
        (true, false) => Some(Difference { class: Class::AllowToDeny, policies: new_policies() }),
        (false, true) => Some(Difference { class: Class::DenyToAllow, policies: old_policies() }),
        _ => None,
    }
}

/// The difference of two sets of words.
pub(crate) fn messages(old: &Words, new: &Words) -> Option<Difference> {
    if old == new {
        return None;
    }
    let changed = old.symmetric_difference(new).map(|(policy, ..)| policy.clone());
    let policies = changed.filter(|policy| !policy.is_empty()).collect();
    Some(Difference { class: Class::Messages, policies })
}

/// The policies that change the object in one of two decisions only; all that change it where these are the same.
pub fn changing(old: &Trace, new: &Trace) -> BTreeSet<String> {
    let [old, new] = [old, new].map(|trace| {
        let mutators = trace.mutators.iter().flatten();
        let mutators = mutators
            .filter(|each| matches!(each.outcome, MutatorOutcome::Changed))
            .map(|each| format!("{} {}", each.mutator.kind.as_str(), each.mutator.name));
        let rules = trace.modrules.iter();
        let rules = rules
            .filter(|each| matches!(each.outcome, RuleOutcome::Patched))
            .map(|each| each.policy.to_string());
        mutators.chain(rules).collect::<BTreeSet<String>>()
    });
    let only: BTreeSet<String> = old.symmetric_difference(&new).cloned().collect();
    if only.is_empty() { old.union(&new).cloned().collect() } else { only }
}
