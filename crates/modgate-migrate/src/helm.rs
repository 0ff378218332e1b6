//! Values of Gatekeeper's chart as values of modgate's chart, for who installs from a file of values.

use std::collections::BTreeMap;

use modgate_value::{Object, Value, near};
use serde::Serialize;

use crate::carry::default;

/// The counterpart of a value of Gatekeeper's chart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// A value of modgate's chart that means the same.
    Value(&'static str),
    /// A flag in `args`.
    Flag(&'static str),
    /// A list, each element of which is a flag in `args`.
    Flags(&'static str),
    /// A switch that is the opposite of a value.
    Not(&'static str),
    /// Another operation of the validating webhook.
    Operation(&'static str),
    /// Labels of namespaces with the values that exempt them.
    Exempt(&'static str),
    /// No value, and why.
    Nothing(&'static str),
}

use Place::{Exempt, Flag, Flags, Not, Nothing, Operation, Value as At};

const IMAGE: &str = "modgate has an image of its own: set `image.repository`";
const PORT: &str = "modgate's chart has its own ports";
const CRDS: &str = "modgate's chart upgrades CRDs itself (`crds.install`)";
const NONE: &str = "modgate's chart has no need for it";

/// Every value of Gatekeeper's chart that is known, by its path.
const PLACES: &[(&str, Place)] = &[
    ("replicas", At("replicas")),
    ("revisionHistoryLimit", At("revisionHistoryLimit")),
    ("auditInterval", At("audit.interval")),
    ("constraintViolationsLimit", At("audit.constraintViolationsLimit")),
    ("auditFromCache", Flag("audit-from-cache")),
    ("auditMatchKindOnly", Flag("audit-match-kind-only")),
    ("auditChunkSize", Flag("audit-chunk-size")),
    ("disableMutation", Not("mutation.enabled")),
    ("disableValidatingWebhook", Not("validation.enabled")),
    ("enableDeleteOperations", Operation("DELETE")),
    ("enableConnectOperations", Operation("CONNECT")),
    ("validatingWebhookName", At("validation.configurationName")),
    ("validatingWebhookTimeoutSeconds", At("validation.timeoutSeconds")),
    ("validatingWebhookFailurePolicy", At("validation.failurePolicy")),
    ("validatingWebhookScope", At("validation.scope")),
    ("validatingWebhookObjectSelector", At("validation.objectSelector")),
    ("validatingWebhookMatchConditions", At("validation.matchConditions")),
    ("validatingWebhookCustomRules", At("validation.rules")),
    ("validatingWebhookExemptNamespacesLabels", Exempt("validation.namespaceExpressions")),
    ("validatingWebhookCheckIgnoreFailurePolicy", At("ignoreLabel.failurePolicy")),
    ("validatingWebhookAnnotations", At("webhookAnnotations")),
    ("mutatingWebhookName", At("mutation.configurationName")),
    ("mutatingWebhookTimeoutSeconds", At("mutation.timeoutSeconds")),
    ("mutatingWebhookFailurePolicy", At("mutation.failurePolicy")),
    ("mutatingWebhookReinvocationPolicy", At("mutation.reinvocationPolicy")),
    ("mutatingWebhookScope", At("mutation.scope")),
    ("mutatingWebhookObjectSelector", At("mutation.objectSelector")),
    ("mutatingWebhookMatchConditions", At("mutation.matchConditions")),
    ("mutatingWebhookCustomRules", At("mutation.rules")),
    ("mutatingWebhookExemptNamespacesLabels", Exempt("mutation.namespaceExpressions")),
    ("mutatingWebhookAnnotations", At("webhookAnnotations")),
    ("mutationAnnotations", Flag("mutation-annotations")),
    ("maxServingThreads", Flag("max-serving-threads")),
    ("enableTLSHealthcheck", Flag("enable-tls-healthcheck")),
    ("enableExternalData", Flag("enable-external-data")),
    ("enableGeneratorResourceExpansion", Flag("enable-generator-resource-expansion")),
    ("enableK8sNativeValidation", Flag("enable-k8s-native-validation")),
    ("defaultCreateVAPForTemplates", Flag("default-create-vap-for-templates")),
    ("defaultCreateVAPBindingForConstraints", Flag("default-create-vap-binding-for-constraints")),
    ("defaultWaitForVAPBGeneration", Flag("default-wait-for-vapb-generation")),
    ("externaldataProviderResponseCacheTTL", Flag("external-data-provider-response-cache-ttl")),
    ("enableViolationExport", Flag("enable-violation-export")),
    ("metricsBackends", Flags("metrics-backend")),
    ("disabledBuiltins", Flags("disable-opa-builtin")),
    ("logLevel", At("logs.level")),
    ("logDenies", At("logs.denies")),
    ("logMutations", At("logs.mutations")),
    ("logStatsAdmission", Flag("log-stats-admission")),
    ("logStatsAudit", Flag("log-stats-audit")),
    ("emitAdmissionEvents", Flag("emit-admission-events")),
    ("emitAuditEvents", Flag("emit-audit-events")),
    ("admissionEventsInvolvedNamespace", Flag("admission-events-involved-namespace")),
    ("auditEventsInvolvedNamespace", Flag("audit-events-involved-namespace")),
    ("resourceQuota", At("resourceQuota.enabled")),
    ("podCountLimit", At("resourceQuota.pods")),
    ("podAnnotations", At("podAnnotations")),
    ("podLabels", At("podLabels")),
    ("nodeSelector", At("nodeSelector")),
    ("tolerations", At("tolerations")),
    ("affinity", At("affinity")),
    ("image.pullPolicy", At("image.pullPolicy")),
    ("image.pullSecrets", At("imagePullSecrets")),
    ("image", Nothing(IMAGE)),
    ("controllerManager.exemptNamespaces", At("ignoreLabel.allowedNamespaces")),
    ("controllerManager.exemptNamespacePrefixes", At("ignoreLabel.allowedPrefixes")),
    ("controllerManager.exemptNamespaceSuffixes", At("ignoreLabel.allowedSuffixes")),
    ("controllerManager.hostNetwork", At("hostNetwork")),
    ("controllerManager.dnsPolicy", At("dnsPolicy")),
    ("controllerManager.priorityClassName", At("priorityClassName")),
    ("controllerManager.tlsMinVersion", Flag("tls-min-version")),
    ("controllerManager.affinity", At("affinity")),
    ("controllerManager.topologySpreadConstraints", At("topologySpreadConstraints")),
    ("controllerManager.tolerations", At("tolerations")),
    ("controllerManager.nodeSelector", At("nodeSelector")),
    ("controllerManager.resources", At("resources")),
    ("controllerManager.strategyType", At("strategy.type")),
    ("controllerManager.port", Nothing(PORT)),
    ("controllerManager.metricsPort", Nothing(PORT)),
    ("controllerManager.healthPort", Nothing(PORT)),
    ("controllerManager.disableCertRotation", Nothing("set `certificates.source`")),
    (
        "controllerManager.podSecurityContext",
        Nothing("set `podSecurityContext` if the default does not do"),
    ),
    (
        "controllerManager.securityContext",
        Nothing("set `securityContext` if the default does not do"),
    ),
    ("audit.priorityClassName", At("split.priorityClassName")),
    ("audit.affinity", At("split.affinity")),
    ("audit.tolerations", At("split.tolerations")),
    ("audit.nodeSelector", At("split.nodeSelector")),
    ("audit.resources", At("split.resources")),
    ("pdb.controllerManager.minAvailable", At("podDisruptionBudget.minAvailable")),
    ("postInstall", Nothing(NONE)),
    ("postUpgrade", Nothing(NONE)),
    ("preInstall", Nothing(NONE)),
    ("preUninstall", Nothing(NONE)),
    ("crds", Nothing(CRDS)),
    ("upgradeCRDs", Nothing(CRDS)),
    ("enableRuntimeDefaultSeccompProfile", Nothing("it is always on; see `podSecurityContext`")),
];

/// A value of Gatekeeper's chart that becomes none of modgate's.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Left {
    /// Its path.
    pub value: String,
    /// Why, and what to do.
    pub sentence: String,
}

/// Values of modgate's chart, by path, and what none of them says.
#[derive(Debug, Default)]
pub(crate) struct Translated {
    pub(crate) by_path: BTreeMap<String, Value>,
    pub(crate) left: Vec<Left>,
}

/// Translates a file of values.
pub(crate) fn translate(values: &Value) -> Translated {
    let mut out = Translated::default();
    walk(values, "", &mut out);
    if out.by_path.keys().any(|path| path.starts_with("split.")) {
        out.by_path.insert("split.enabled".to_owned(), true.into());
    }
    out
}

fn walk(values: &Value, at: &str, out: &mut Translated) {
    let Some(members) = values.as_object() else { return };
    for (key, value) in members.iter() {
        let path = if at.is_empty() { key.to_string() } else { format!("{at}.{key}") };
        let is_within =
            |known: &str| known.strip_prefix(&path).is_some_and(|rest| rest.starts_with('.'));
        match PLACES.iter().find(|(known, _)| *known == path) {
            Some((_, Nothing(_))) if PLACES.iter().any(|(known, _)| is_within(known)) => {
                walk(value, &path, out);
            }
            Some((_, place)) => take(&path, *place, value, out),
            None if PLACES.iter().any(|(known, _)| is_within(known)) => walk(value, &path, out),
            None => out.left.push(Left {
                sentence: match PLACES.iter().find(|(known, _)| Some(*known) == parent(&path)) {
                    Some((_, Nothing(sentence))) => (*sentence).to_owned(),
                    _ => no_value(&path),
                },
                value: path,
            }),
        }
    }
}

/// The sentence about a value that modgate's chart does not have, and Gatekeeper's neither if it is misspelt.
fn no_value(path: &str) -> String {
    match near::did_you_mean(path, PLACES.iter().map(|(known, _)| *known)) {
        Some(help) => format!("Gatekeeper's chart has no such value; {help}"),
        None => "modgate's chart has no such value".to_owned(),
    }
}

fn parent(path: &str) -> Option<&str> {
    path.rsplit_once('.').map(|(parent, _)| parent)
}

fn take(path: &str, place: Place, value: &Value, out: &mut Translated) {
    let mut set = |path: &str, value: Value| {
        if value != default(path) {
            out.by_path.insert(path.to_owned(), value);
        }
    };
    match place {
        At("strategy.type") if value.as_str() == Some("RollingUpdate") => {}
        At(of) => set(of, value.clone()),
        Not(of) => set(of, (value.as_bool() != Some(true)).into()),
        Operation(operation) if value.as_bool() == Some(true) => {
            let known = out.by_path.get("validation.operations").cloned();
            let known = known.unwrap_or_else(|| default("validation.operations"));
            let known = known.as_array().into_iter().flatten().cloned();
            let all: Vec<Value> = known.chain([operation.into()]).collect();
            out.by_path.insert("validation.operations".to_owned(), all.into());
        }
        Operation(_) => {}
        Flag(flag) => add(out, &[format!("--{flag}={}", plain(value))]),
        Flags(flag) => {
            let all = value.as_array().into_iter().flatten();
            let all: Vec<String> = all.map(|it| format!("--{flag}={}", plain(it))).collect();
            add(out, &all);
        }
        Exempt(of) => set(of, expressions(value)),
        Nothing(sentence) => {
            out.left.push(Left { value: path.to_owned(), sentence: sentence.to_owned() });
        }
    }
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_json(), str::to_owned)
}

fn add(out: &mut Translated, flags: &[String]) {
    let known = out.by_path.get("args").and_then(Value::as_array);
    let known = known.into_iter().flatten().cloned();
    let all: Vec<Value> = known.chain(flags.iter().map(|it| it.as_str().into())).collect();
    if !all.is_empty() {
        out.by_path.insert("args".to_owned(), all.into());
    }
}

/// Labels with values that exempt a namespace; a label without values exempts with any.
fn expressions(labels: &Value) -> Value {
    let labels = labels.as_object().into_iter().flat_map(Object::iter);
    let all = labels.map(|(key, values)| {
        let mut expression = Object::default();
        expression.insert("key", key.clone().into());
        let has_values = values.as_array().is_some_and(|it| !it.is_empty());
        expression.insert("operator", if has_values { "NotIn" } else { "DoesNotExist" }.into());
        if has_values {
            expression.insert("values", values.clone());
        }
        Value::from(expression)
    });
    all.collect::<Vec<_>>().into()
}

#[cfg(test)]
mod tests {
    use modgate_value::yaml;

    use super::*;

    #[test]
    fn the_chart_has_these_values() {
        for (path, place) in PLACES {
            let (At(of) | Exempt(of) | Not(of)) = place else { continue };
            // Without a type of update the API server's default holds.
            let is_there = !default(of).is_null() || *of == "strategy.type";
            assert!(is_there, "{path}: {of}");
        }
    }

    #[test]
    fn values_are_translated() {
        for (values, expected, left) in [
            ("{}", "{}", ""),
            ("replicas: 3\nauditInterval: 60", "{}", ""),
            ("replicas: 5", r#"{"replicas":5}"#, ""),
            (
                "validatingWebhookFailurePolicy: Fail\nenableDeleteOperations: true",
                r#"{"validation.failurePolicy":"Fail","validation.operations":["CREATE","UPDATE","DELETE"]}"#,
                "",
            ),
            ("disableMutation: true", r#"{"mutation.enabled":false}"#, ""),
            (
                "validatingWebhookExemptNamespacesLabels: {team: [a], skip: []}",
                r#"{"validation.namespaceExpressions":[{"key":"skip","operator":"DoesNotExist"},{"key":"team","operator":"NotIn","values":["a"]}]}"#,
                "",
            ),
            (
                "disabledBuiltins: [\"{http.send}\"]\nauditChunkSize: 50",
                r#"{"args":["--audit-chunk-size=50","--disable-opa-builtin={http.send}"]}"#,
                "",
            ),
            (
                "audit: {resources: {limits: {memory: 4Gi}}}",
                r#"{"split.enabled":true,"split.resources":{"limits":{"memory":"4Gi"}}}"#,
                "",
            ),
            (
                "image: {repository: r, pullPolicy: Always}\nmore: 1",
                r#"{"image.pullPolicy":"Always"}"#,
                "image.repository more",
            ),
        ] {
            let translated = translate(&yaml::value(values).expect("YAML"));
            let by_path = translated.by_path.into_iter();
            let entries = by_path.map(|(path, value)| (path.as_str().into(), value)).collect();
            assert_eq!(Value::from(Object::from_entries(entries)).to_json(), expected, "{values}");
            let names: Vec<&str> = translated.left.iter().map(|it| it.value.as_str()).collect();
            assert_eq!(names.join(" "), left, "{values}");
        }
    }
}
