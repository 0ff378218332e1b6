//! The violations that an audit reports, each with its policy and its object.

use std::sync::Arc;

use modgate_engine::api::constraints::{EnforcementAction, EnforcementPoint};
use modgate_value::{Str, Value};
use sha2::{Digest as _, Sha256};

use crate::{
    policies::{Policies, UnitId},
    reference::{ObjectRef, PolicyRef},
    unit::{Attribution, UnitViolation},
};

/// One violation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The policy.
    pub policy: Arc<PolicyRef>,
    /// The object.
    pub subject: Arc<ObjectRef>,
    /// The `enforcementAction` of the constraint, or of the expansion template instead.
    pub action: Str,
    /// Its actions in audits, sorted; shown for scoped constraints.
    pub actions: Vec<EnforcementAction>,
    /// At most 256 bytes: longer ones are cut ([`message::cut`](crate::message::cut)).
    pub message: Str,
    /// `details` of the policy; an empty object where it gives none.
    pub details: Value,
    /// Counts the violations of one policy by one object, from 0, as the engine orders them.
    pub ordinal: u32,
}

/// The name of what constraints do that distinguish enforcement points.
pub const SCOPED: &str = "scoped";

/// The actions that are shown.
pub(crate) fn scoped_actions<'a>(
    action: &str,
    actions: &'a [EnforcementAction],
) -> &'a [EnforcementAction] {
    if action == SCOPED { actions } else { &[] }
}

impl Violation {
    /// Its actions, as reports list them: for scoped constraints only.
    pub fn scoped_actions(&self) -> &[EnforcementAction] {
        scoped_actions(&self.action, &self.actions)
    }

    /// Identifies the violation among those of all audits: the same for the same audit, policy,
    /// object and ordinal, however often it is reported, 32 hexadecimal digits.
    ///
    /// An object is known by its uid; without one, by kind, namespace and name.
    pub fn id(&self, audit: &str) -> String {
        let (policy, subject) = (&self.policy, &self.subject);
        let mut hash = Sha256::new();
        let mut add = |part: &str| {
            // Lengths keep `ab`, `c` from being `a`, `bc`.
            hash.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_le_bytes());
            hash.update(part);
        };
        for part in [audit, &policy.kind.group, &policy.kind.kind, &policy.namespace, &policy.name]
        {
            add(part);
        }
        // An object may be listed as one of two groups (AU-5).
        for part in [&subject.kind.group, &subject.kind.kind, &subject.uid] {
            add(part);
        }
        if subject.uid.is_empty() {
            add(&subject.namespace);
            add(&subject.name);
        }
        add(&self.ordinal.to_string());
        let digest = hash.finalize();
        digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
    }
}

/// The policy of a violation, its `enforcementAction`, and what that leads to in audits: `None`
/// if the unit is gone.
pub(crate) fn attributed<'a>(
    policies: &'a Policies,
    unit: UnitId,
    attribution: &'a Attribution,
) -> Option<(&'a Arc<PolicyRef>, Str, Vec<EnforcementAction>)> {
    if let Attribution::Rule(policy, action) = attribution {
        return Some((policy, (*action).into(), Vec::new()));
    }
    let (constraint, policy) = policies.unit(unit)?.constraint.as_ref()?;
    if let Attribution::Overridden(action) = attribution {
        return Some((policy, action.as_str().into(), vec![*action]));
    }
    let enforcement = constraint.enforcement();
    let actions = enforcement.at(EnforcementPoint::Audit).unwrap_or_default();
    Some((policy, enforcement.name().clone(), actions.to_vec()))
}

/// The violations of one object, from what its units found.
pub(crate) fn violations<'a>(
    policies: &'a Policies,
    subject: &'a Arc<ObjectRef>,
    found: &'a [(UnitId, impl AsRef<[UnitViolation]> + 'a)],
) -> impl Iterator<Item = Violation> + 'a {
    found.iter().flat_map(move |(id, found)| {
        let mut rules: Vec<(&PolicyRef, u32)> = Vec::new();
        (0..).zip(found.as_ref()).filter_map(move |(index, found)| {
            let UnitViolation { message, details, attribution } = found;
            let (policy, action, actions) = attributed(policies, *id, attribution)?;
            let ordinal = match attribution {
                Attribution::Rule(policy, _) => {
                    let same = rules.iter_mut().find(|(known, _)| **known == **policy);
                    match same {
                        Some((_, count)) => {
                            *count += 1;
                            *count
                        }
                        None => {
                            rules.push((policy, 0));
                            0
                        }
                    }
                }
                _ => index,
            };
            Some(Violation {
                policy: Arc::clone(policy),
                subject: Arc::clone(subject),
                action,
                actions,
                message: message.clone(),
                details: details.clone(),
                ordinal,
            })
        })
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn violation(policy: &str, object: &str, ordinal: u32) -> Violation {
        let object = Value::from_json(object.as_bytes()).expect(object);
        let policy = format!(
            r#"{{"apiVersion": "constraints.gatekeeper.sh/v1beta1", "kind": "K",
            "metadata": {{"name": "{policy}", "annotations": {{"kubectl.kubernetes.io/last-applied-configuration": "x", "a": "b"}}}}}}"#
        );
        let policy = Value::from_json(policy.as_bytes()).expect("a constraint");
        Violation {
            policy: PolicyRef::of_policy(&policy).into(),
            subject: ObjectRef::of_object(&object).into(),
            action: "deny".into(),
            actions: vec![EnforcementAction::Deny],
            message: "m".into(),
            details: Value::Null,
            ordinal,
        }
    }

    #[test]
    fn identifiers() {
        let pod = r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "uid": "1"}}"#;
        let other = r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "uid": "2"}}"#;
        let bare = r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}"#;
        let second = r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "b"}}"#;
        let ids: BTreeSet<String> = [
            violation("c", pod, 0).id("run"),
            violation("c", pod, 1).id("run"),
            violation("d", pod, 0).id("run"),
            violation("c", other, 0).id("run"),
            violation("c", bare, 0).id("run"),
            violation("c", second, 0).id("run"),
            violation("c", pod, 0).id("later"),
        ]
        .into();
        assert_eq!(ids.len(), 7, "{ids:?}");
        assert!(ids.iter().all(|id| id.len() == 32));
        let mut again = violation("c", pod, 0);
        again.message = "other words".into();
        assert!(ids.contains(&again.id("run")), "what is said does not matter");
    }

    #[test]
    fn annotations_of_policies() {
        let policy = violation("c", "{}", 0).policy;
        assert_eq!(policy.annotations.to_json(), r#"{"a":"b"}"#);
    }
}
