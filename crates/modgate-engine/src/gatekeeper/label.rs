//! `/v1/admitlabel`: which namespaces may be exempted by a label (6.8).

use modgate_api::meta::ObjectExt as _;
use modgate_api::{admission::AdmissionRequest, meta::Operation};
use modgate_value::{Str, Value};

use super::{Installation, kind_of};
use crate::Decision;

/// The label that exempts a namespace from the webhooks.
pub(crate) const IGNORE_LABEL: &str = "admission.gatekeeper.sh/ignore";

/// The label that exempts a namespace from ModRules where it is `true`: KubeMod's.
pub(crate) const MODRULE_IGNORE_LABEL: &str = "admission.kubemod.io/ignore";

/// The namespaces that may carry an ignore label; nothing else follows from being one (IL-3).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExemptNamespaces {
    /// `--exempt-namespace`
    pub names: Vec<Str>,
    /// `--exempt-namespace-prefix`
    pub prefixes: Vec<Str>,
    /// `--exempt-namespace-suffix`
    pub suffixes: Vec<Str>,
}

impl ExemptNamespaces {
    /// Whether the namespace may carry the label.
    pub(crate) fn contain(&self, name: &str) -> bool {
        self.names.iter().any(|exempt| exempt == name)
            || self.prefixes.iter().any(|prefix| name.starts_with(prefix.as_str()))
            || self.suffixes.iter().any(|suffix| name.ends_with(suffix.as_str()))
    }

    /// Namespaces by name, `prefix*` or `*suffix`.
    pub fn of_patterns<'p>(patterns: impl IntoIterator<Item = &'p str>) -> Self {
        let mut exempt = Self::default();
        for pattern in patterns {
            match (pattern.strip_suffix('*'), pattern.strip_prefix('*')) {
                (Some(prefix), _) => exempt.prefixes.push(prefix.into()),
                (None, Some(suffix)) => exempt.suffixes.push(suffix.into()),
                (None, None) => exempt.names.push(pattern.into()),
            }
        }
        exempt
    }

    /// The same as names with wildcards.
    pub fn patterns(&self) -> impl Iterator<Item = Str> {
        let prefixes = self.prefixes.iter().map(|prefix| format!("{prefix}*").into());
        let suffixes = self.suffixes.iter().map(|suffix| format!("*{suffix}").into());
        self.names.iter().cloned().chain(prefixes).chain(suffixes)
    }
}

/// The answer to a request to `/v1/admitlabel` (IL-1): to Gatekeeper's label as Gatekeeper gives it,
/// then KubeMod's label is looked at.
pub fn admit_label(request: &AdmissionRequest, installation: &Installation) -> Decision {
    if request.operation == Operation::Delete {
        return allowed("Delete is always allowed");
    }
    if !kind_of(request).is_namespace() {
        return allowed("Not a namespace");
    }
    let object = request.object.as_ref().unwrap_or(&Value::Null);
    if object.as_object().is_none() {
        let found = object.type_name();
        let message = format!("while deserializing resource: expected an object, found {found}");
        return refused(500, message);
    }
    let name = object.name();
    let verdict = gatekeepers(object, name, &installation.exempt);
    if !verdict.allowed || installation.modrule_exempt.contain(name) {
        return verdict;
    }
    // What a namespace carries already was allowed before; only taking the label is refused.
    let before = request.old_object.as_ref().filter(|_| request.operation == Operation::Update);
    if exempts_from_modrules(object) && !before.is_some_and(exempts_from_modrules) {
        let message = format!(
            "Only exempt namespace can have the {MODRULE_IGNORE_LABEL} label, which switches every \
             ModRule off: `--modrule-exempt-namespace` names them"
        );
        return refused(403, message);
    }
    verdict
}

fn gatekeepers(object: &Value, name: &str, exempt: &ExemptNamespaces) -> Decision {
    if exempt.contain(name) {
        return allowed(format!("Namespace {name} is allowed to set {IGNORE_LABEL}"));
    }
    match object.path(&["metadata", "labels", IGNORE_LABEL]) {
        Some(_) => refused(403, format!("Only exempt namespace can have the {IGNORE_LABEL} label")),
        None => allowed(format!("Namespace is not setting the {IGNORE_LABEL} label")),
    }
}

fn exempts_from_modrules(namespace: &Value) -> bool {
    let label = namespace.path(&["metadata", "labels", MODRULE_IGNORE_LABEL]);
    label.and_then(Value::as_str) == Some("true")
}

fn allowed(reason: impl Into<String>) -> Decision {
    Decision { reason: reason.into(), ..Decision::unchanged(Value::Null) }
}

fn refused(code: u16, reason: String) -> Decision {
    Decision { allowed: false, code, ..allowed(reason) }
}

#[cfg(test)]
mod tests {
    use modgate_value::yaml;

    use super::*;

    fn parse(request: &str) -> AdmissionRequest {
        AdmissionRequest::from_value(&yaml::value(request).expect(request)).expect(request)
    }

    #[test]
    fn in_the_order_of_the_specification() {
        let exempt = ExemptNamespaces::of_patterns(["exact", "kube-*", "*-system"]);
        let installation = Installation { exempt, ..Installation::default() };
        let labelled = "labels: {admission.gatekeeper.sh/ignore: ''}";
        let only = "Only exempt namespace can have the admission.gatekeeper.sh/ignore label";
        let not = "Namespace is not setting the admission.gatekeeper.sh/ignore label";
        for (operation, object, code, message) in [
            (
                "DELETE",
                format!("{{metadata: {{name: a, {labelled}}}}}"),
                200,
                "Delete is always allowed",
            ),
            ("CREATE", format!("{{metadata: {{name: a, {labelled}}}}}"), 403, only),
            ("UPDATE", format!("{{metadata: {{name: exactly, {labelled}}}}}"), 403, only),
            ("CREATE", "{metadata: {name: a, labels: {b: c}}}".to_owned(), 200, not),
            ("CREATE", "{metadata: {name: a}}".to_owned(), 200, not),
            (
                "CREATE",
                "[]".to_owned(),
                500,
                "while deserializing resource: expected an object, found array",
            ),
            (
                "CREATE",
                format!("{{metadata: {{name: exact, {labelled}}}}}"),
                200,
                "Namespace exact is allowed to set admission.gatekeeper.sh/ignore",
            ),
            (
                "UPDATE",
                format!("{{metadata: {{name: kube-a, {labelled}}}}}"),
                200,
                "Namespace kube-a is allowed to set admission.gatekeeper.sh/ignore",
            ),
            (
                "UPDATE",
                "{metadata: {name: my-system}}".to_owned(),
                200,
                "Namespace my-system is allowed to set admission.gatekeeper.sh/ignore",
            ),
        ] {
            let request = format!(
                "{{operation: {operation}, kind: {{group: '', version: v1, kind: Namespace}}, \
                 object: {object}}}"
            );
            let verdict = admit_label(&parse(&request), &installation);
            assert_eq!((verdict.code, verdict.reason.as_str()), (code, message), "{request}");
            assert_eq!(verdict.allowed, code == 200);
        }
        let pod = "{operation: CREATE, kind: {group: '', version: v1, kind: Pod}, object: {}}";
        let verdict = admit_label(&parse(pod), &installation);
        assert_eq!(verdict.reason, "Not a namespace");
    }

    #[test]
    fn kubemods_label_is_taken_by_exempt_namespaces_only() {
        let installation = Installation {
            modrule_exempt: ExemptNamespaces::of_patterns(["kube-system", "open-*"]),
            ..Installation::default()
        };
        let namespace = |name: &str, label: &str| match label {
            "" => format!("{{metadata: {{name: {name}}}}}"),
            label => format!(
                "{{metadata: {{name: {name}, labels: {{admission.kubemod.io/ignore: {label}}}}}}}"
            ),
        };
        for (operation, name, before, after, taken) in [
            ("CREATE", "a", "", "'true'", false),
            ("CREATE", "a", "", "'false'", true),
            ("CREATE", "a", "", "''", true),
            ("CREATE", "a", "", "", true),
            ("CREATE", "kube-system", "", "'true'", true),
            ("CREATE", "kube-system2", "", "'true'", false),
            ("CREATE", "open-a", "", "'true'", true),
            ("UPDATE", "a", "", "'true'", false),
            ("UPDATE", "a", "'false'", "'true'", false),
            ("UPDATE", "a", "'true'", "'true'", true),
            ("UPDATE", "a", "'true'", "", true),
            ("DELETE", "a", "'true'", "'true'", true),
        ] {
            let (object, old) = (namespace(name, after), namespace(name, before));
            let request = format!(
                "{{operation: {operation}, kind: {{group: '', version: v1, kind: Namespace}}, \
                 object: {object}, oldObject: {old}}}"
            );
            let verdict = admit_label(&parse(&request), &installation);
            assert_eq!(verdict.allowed, taken, "{request}: {}", verdict.reason);
            assert_eq!(verdict.code, if taken { 200 } else { 403 });
        }
        let defaults = Installation::default().modrule_exempt;
        for name in ["kube-system", "kubemod-system", "modgate-system"] {
            assert!(defaults.contain(name), "{name}");
        }
    }
}
