//! KubeMod's dry-run API (7.9): rules and an object in, what they would do out.

use modgate_api::{
    admission::AdmissionRequest,
    meta::{GroupVersionKind, GroupVersionResource, Operation},
    modrule::ModRule,
};
use modgate_value::{Object, Str, Value, yaml};
use similar::TextDiff;

use super::{Evaluation, NoopObserver, Stages};
use crate::{
    EngineConfig, Host, Review, Snapshot,
    constraint::{Arena, Inventory},
    jsonpatch,
    modrule::{Store, compile_or_deny},
    review::Origin,
};

/// The namespace of the rules and the object.
const NAMESPACE: &str = "dryrun-namespace";

/// The request cannot be answered; HTTP status 400 and `{"error": "<text>"}`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DryRunError(pub String);

/// Answers the body of a `PUT /v1/dryrun`: `{"patch": [...], "diff": "...", "rejections": [...]}`.
///
/// KubeMod's matches nothing since 0.18.0; this one takes the operation to be CREATE, or what the
/// member `operation` says (Q-20). The object gets no synthetic references.
///
/// # Errors
///
/// When the request or one of its rules is not valid.
pub fn dry_run(
    request: &Value,
    config: &EngineConfig,
    host: &dyn Host,
) -> Result<Value, DryRunError> {
    let member = |key| request.get(key).filter(|value| !value.is_null());
    let (manifest, rules) = match (member("resourceManifest"), member("modRules")) {
        (Some(manifest), Some(rules)) => (manifest, rules),
        (manifest, rules) => {
            let missing = [("ResourceManifest", manifest), ("ModRules", rules)]
                .into_iter()
                .filter(|(_, value)| value.is_none())
                .map(|(name, _)| required(name))
                .collect::<Vec<_>>();
            return Err(DryRunError(missing.join("\n")));
        }
    };
    let operation = match member("operation").map(|value| value.as_str().unwrap_or_default()) {
        None => Operation::Create,
        Some(name) => name.parse().map_err(|error| DryRunError(format!("operation: {error}")))?,
    };
    let Some(rules) = rules.as_array() else {
        return Err(DryRunError("modRules: expected a list".to_owned()));
    };
    let snapshot = Snapshot::of_modrules(config.clone(), load(rules, operation, config)?);
    let review = review(manifest, operation);
    let (inventory, mut arena) = (Inventory::default(), Arena::new());
    let mut evaluation = Evaluation::new(host, &inventory, &mut arena);
    let decision = snapshot.decide(&review, Stages::MODRULES, &mut evaluation, &mut NoopObserver);
    let patch = jsonpatch::diff(manifest, &decision.object);
    let diff = if patch.is_empty() { String::new() } else { diff(manifest, &decision.object) };
    let rejections: Value =
        decision.rejections.iter().map(|each| Value::from(each.to_string())).collect();
    Ok([("patch", jsonpatch::to_value(&patch)), ("diff", diff.into()), ("rejections", rejections)]
        .into_iter()
        .collect())
}

fn required(name: &str) -> String {
    format!(
        "Key: 'DryRunRequest.{name}' Error:Field validation for '{name}' failed on the 'required' \
         tag"
    )
}

fn load(
    rules: &[Value],
    operation: Operation,
    config: &EngineConfig,
) -> Result<Store, DryRunError> {
    let mut loaded = Vec::with_capacity(rules.len());
    for (index, object) in rules.iter().enumerate() {
        if object.is_null() {
            return Err(DryRunError(format!("modRules[{index}]: required")));
        }
        let mut rule = ModRule::from_value(object)
            .map_err(|error| DryRunError(format!("modRules[{index}].{error}")))?;
        rule.metadata.namespace = NAMESPACE.into();
        // The way around Q-20 in KubeMod itself: the operation a dry run has there is "".
        for name in &mut rule.spec.admission_operations {
            if name.is_empty() {
                *name = Str::new_static(operation.as_str());
            }
        }
        let (compiled, _) =
            compile_or_deny(&rule, object, config).map_err(|denied| DryRunError(denied.reason))?;
        loaded.push((compiled.id.clone(), Some(compiled.into())));
    }
    Ok(Store::default().with(loaded, &config.cluster_rules_namespaces))
}

/// A request without a kind, so that even a Namespace is taken to live in the dry run's namespace.
fn review(manifest: &Value, operation: Operation) -> Review {
    let (object, old_object) = match operation {
        Operation::Delete => (None, Some(manifest.clone())),
        Operation::Create | Operation::Update | Operation::Connect => {
            (Some(manifest.clone()), None)
        }
    };
    let request = AdmissionRequest {
        uid: Str::default(),
        kind: GroupVersionKind::default(),
        resource: GroupVersionResource::default(),
        sub_resource: Str::default(),
        name: Str::default(),
        namespace: NAMESPACE.into(),
        operation,
        user_info: Value::Null,
        object,
        old_object,
        dry_run: true,
        options: Object::default().into(),
    };
    Review::unsent(request, Origin::DryRun)
}

/// A unified diff of both documents as YAML, three lines of context, no file names.
fn diff(from: &Value, to: &Value) -> String {
    let (before, after) = (yaml::write(from), yaml::write(to));
    TextDiff::from_lines(&before, &after).unified_diff().context_radius(3).to_string()
}

#[cfg(test)]
mod tests {
    use modgate_value::{Clock, budget::Frozen};

    use super::*;
    use crate::HostError;

    struct NoHost;

    impl Host for NoHost {
        fn clock(&self) -> &dyn Clock {
            &Frozen
        }

        fn namespace(&self, _: &str) -> Result<Value, HostError> {
            Err(HostError::Unread("a dry run reads nothing".to_owned()))
        }

        fn node(&self, _: &str) -> Result<Value, HostError> {
            Err(HostError::Unread("a dry run reads nothing".to_owned()))
        }
    }

    fn answer(request: &str) -> Result<Value, String> {
        let request = Value::from_json(request.as_bytes()).expect(request);
        dry_run(&request, &EngineConfig::default(), &NoHost).map_err(|error| error.to_string())
    }

    const RULES: &str = r#"
        {"metadata": {"name": "r1"}, "spec": {"type": "Patch",
         "match": [{"select": "$.kind", "matchValue": "Pod"}],
         "patch": [{"op": "add", "path": "/metadata/labels/x", "value": "z"}]}},
        {"metadata": {"name": "r2"}, "spec": {"type": "Reject",
         "admissionOperations": [""], "match": [{"select": "$.metadata.labels.x"}]}}"#;

    #[test]
    fn patch_diff_and_rejections() {
        let pod =
            r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"a": 1}}"#;
        let answer = answer(&format!(r#"{{"resourceManifest": {pod}, "modRules": [{RULES}]}}"#));
        assert_eq!(
            answer.map(|answer| answer.to_json()).as_deref(),
            Ok(concat!(
                r#"{"diff":"@@ -1,6 +1,8 @@\n apiVersion: v1\n kind: Pod\n metadata:\n+  labels:\n"#,
                r#"+    x: z\n   name: p\n spec:\n   a: 1\n","#,
                r#""patch":[{"op":"add","path":"/metadata/labels","value":{"x":"z"}}],"#,
                r#""rejections":["dryrun-namespace/r2"]}"#
            ))
        );
    }

    #[test]
    fn nothing_to_do() {
        assert_eq!(
            answer(r#"{"resourceManifest": {}, "modRules": []}"#).map(|answer| answer.to_json()),
            Ok(r#"{"diff":"","patch":[],"rejections":[]}"#.to_owned())
        );
    }

    #[test]
    fn bad_requests() {
        for (request, message) in [
            (
                r#"{"resourceManifest": null}"#,
                "Key: 'DryRunRequest.ResourceManifest' Error:Field validation for \
                 'ResourceManifest' failed on the 'required' tag\nKey: 'DryRunRequest.ModRules' \
                 Error:Field validation for 'ModRules' failed on the 'required' tag",
            ),
            (r#"{"resourceManifest": {}, "modRules": [null]}"#, "modRules[0]: required"),
            (
                r#"{"resourceManifest": {}, "modRules": [{"spec": {"match": [{"negate": 1}]}}]}"#,
                "modRules[0].spec.match[0].negate: expected a boolean, got the number `1`",
            ),
            (
                r#"{"resourceManifest": {}, "modRules":
                    [{"metadata": {"name": "r"}, "spec": {"type": "Reject"}}]}"#,
                "ModRule.api.kubemod.io \"r\" is invalid: spec.match: Required value: a rule must \
                 have at least one item",
            ),
        ] {
            assert_eq!(answer(request), Err(message.to_owned()));
        }
    }
}
