//! Settings of an installation as a whole.

use modgate_value::{Str, Value};

use super::ExemptNamespaces;

/// Settings of an installation as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installation {
    /// The namespace it runs in: `POD_NAMESPACE`.
    pub namespace: Str,
    /// The account it runs as, where that is not the fixed one.
    pub account: Option<Str>,
    /// Which namespaces may carry the ignore label.
    pub exempt: ExemptNamespaces,
    /// Which namespaces may carry KubeMod's ignore label.
    pub modrule_exempt: ExemptNamespaces,
    /// Whether templates whose source does not compile are refused instead of warned about.
    pub deny_invalid_templates: bool,
}

impl Default for Installation {
    fn default() -> Self {
        Self {
            namespace: "gatekeeper-system".into(),
            account: None,
            exempt: ExemptNamespaces::default(),
            modrule_exempt: ExemptNamespaces::of_patterns([
                "kube-system",
                "kubemod-system",
                "modgate-system",
            ]),
            deny_invalid_templates: false,
        }
    }
}

impl Installation {
    /// Whether a request is this installation's own (GR-1).
    pub(crate) fn is_own(&self, user_info: &Value) -> bool {
        let Some(user) = user_info.get("username").and_then(Value::as_str) else { return false };
        let Some(account) = user.strip_prefix("system:serviceaccount:") else { return false };
        let Some((namespace, account)) = account.split_once(':') else { return false };
        namespace == self.namespace.as_str()
            && (account == "gatekeeper-admin" || self.account.as_deref() == Some(account))
    }
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
