//! `/v1/admit`: the steps of a request (6.1).

use modgate_api::config::Process;
use modgate_value::{Str, Value};

use super::{ExemptNamespaces, allowed, check_resource, refused, subject_namespace};
use crate::{
    Admitted, Host, Review, Snapshot,
    constraint::{Arena, Finding, Inventory, Verdict},
};

/// What an operator says of an installation as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installation {
    /// The namespace it runs in: `POD_NAMESPACE`.
    pub namespace: Str,
    /// The account it runs as, where that is not the fixed one.
    pub account: Option<Str>,
    /// Who may carry the ignore label.
    pub exempt: ExemptNamespaces,
    /// Whether templates whose source does not compile are refused instead of warned about.
    pub deny_invalid_templates: bool,
    /// Whether constraints may come before their templates: they are taken with a warning, and wait
    /// (AD-34).
    pub templates_may_follow: bool,
}

impl Default for Installation {
    fn default() -> Self {
        Self {
            namespace: "gatekeeper-system".into(),
            account: None,
            exempt: ExemptNamespaces::default(),
            deny_invalid_templates: false,
            templates_may_follow: false,
        }
    }
}

impl Installation {
    /// Whether a request is this installation's own (GR-1).
    pub(super) fn is_own(&self, user_info: &Value) -> bool {
        let Some(user) = user_info.get("username").and_then(Value::as_str) else { return false };
        let Some(account) = user.strip_prefix("system:serviceaccount:") else { return false };
        let Some((namespace, account)) = account.split_once(':') else { return false };
        namespace == self.namespace.as_str()
            && (account == "gatekeeper-admin" || self.account.as_deref() == Some(account))
    }
}

/// What a request came to.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// What is answered.
    pub verdict: Verdict,
    /// What constraints found, for logs and exports.
    pub findings: Vec<Finding>,
    /// How it is counted.
    pub outcome: Outcome,
}

/// How a request is counted: `admission_status` in Gatekeeper's metrics (ME-1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Not at all.
    Uncounted,
    /// Allowed, with or without warnings.
    Allow,
    /// Denied by policies.
    Deny,
    /// Denied because something went wrong.
    Error,
}

impl Answer {
    fn without_review(verdict: Verdict, outcome: Outcome) -> Self {
        Self { verdict, findings: Vec::new(), outcome }
    }

    /// The answer when a review was not even begun, or broke off (GR-8).
    pub fn failed(message: String) -> Self {
        Self::without_review(refused(500, message), Outcome::Error)
    }
}

/// Answers a request to `/v1/admit`.
///
/// `inventory` and `arena` are as for [`Snapshot::admit`].
pub fn admit(
    review: &Review,
    installation: &Installation,
    snapshot: &Snapshot,
    inventory: &Inventory,
    host: &dyn Host,
    arena: &mut Arena,
) -> Answer {
    if installation.is_own(&review.request().user_info) {
        let verdict = allowed("Gatekeeper does not self-manage");
        return Answer::without_review(verdict, Outcome::Uncounted);
    }
    let warnings = match check_resource(review, snapshot, installation) {
        Ok(warnings) => warnings,
        Err(error) => {
            let verdict = refused(error.code, error.message);
            return Answer::without_review(verdict, Outcome::Uncounted);
        }
    };
    let excluded =
        snapshot.exclusions().excludes(Process::Webhook, subject_namespace(review.request()));
    let mut answer = if excluded {
        let verdict = allowed("Namespace is set to be ignored by Gatekeeper config");
        Answer::without_review(verdict, Outcome::Allow)
    } else {
        let Admitted { findings, verdict } = snapshot.admit(review, inventory, host, arena);
        let outcome = match (verdict.allowed, verdict.code) {
            (true, _) => Outcome::Allow,
            (false, 403) => Outcome::Deny,
            (false, _) => Outcome::Error,
        };
        Answer { verdict, findings, outcome }
    };
    if !warnings.is_empty() {
        if answer.verdict.allowed {
            answer.verdict.code = 299;
        }
        answer.verdict.warnings.splice(0..0, warnings);
    }
    answer
}

#[cfg(test)]
mod tests {
    use modgate_value::yaml;

    use super::*;

    #[test]
    fn own_accounts() {
        let installation = Installation {
            namespace: "policy".into(),
            account: Some("mine".into()),
            ..Installation::default()
        };
        for (user, expected) in [
            ("system:serviceaccount:policy:gatekeeper-admin", true),
            ("system:serviceaccount:policy:mine", true),
            ("system:serviceaccount:policy:yours", false),
            ("system:serviceaccount:gatekeeper-system:gatekeeper-admin", false),
            ("gatekeeper-admin", false),
        ] {
            let info = yaml::value(&format!("{{username: '{user}'}}")).expect(user);
            assert_eq!(installation.is_own(&info), expected, "{user}");
        }
        assert!(!installation.is_own(&Value::Null));
    }
}
