//! The requests, the expected answers, and the policies that decide them.

use std::{
    fs,
    net::SocketAddr,
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use anyhow::{Context as _, Result};
use modgate_testkit::corpus;
use modgate_value::yaml;

use crate::load::{Expected, Reference, Request, Target, fixture_review, fixture_rule};

/// A review and its answer.
pub(super) struct Case {
    pub(super) name: String,
    pub(super) target: Target,
    pub(super) request: Request,
    pub(super) expected: Expected,
    pub(super) reference: Reference,
}

/// Policies that decide the cases; what [`churn`] writes beside them decides none.
pub(super) fn write_policies(folder: &Path) -> Result<()> {
    let rules: Vec<String> = (0..10).map(fixture_rule).collect();
    fs::write(folder.join("rules.yaml"), rules.join("---\n"))?;
    let burning: Vec<String> = (0..3).map(burning_rule).collect();
    fs::write(folder.join("burning.yaml"), burning.join("---\n"))?;
    for name in ["template", "constraint", "mutator", "expansion"] {
        let file = format!("{name}.yaml");
        let from = corpus::repository().join("examples/gatekeeper").join(&file);
        fs::copy(&from, folder.join(&file)).with_context(|| from.display().to_string())?;
    }
    Ok(())
}

/// A rule of the namespace `tenant` that uses up all the time it gets.
fn burning_rule(number: usize) -> String {
    format!(
        "apiVersion: api.kubemod.io/v1beta1\nkind: ModRule\n\
         metadata: {{name: burn-{number}, namespace: tenant}}\n\
         spec:\n  type: Patch\n  match: [{{select: '$.kind', matchValue: Pod}}]\n  patch:\n  \
         - op: add\n    path: /metadata/labels/x\n    value: '{{{{ $x := repeat 1000000 \"a\" }}}}\
         {{{{ $y := repeat 1000000 \"a\" }}}}{{{{ range until 100000 }}}}{{{{ $c := eq $x $y }}}}{{{{ end }}}}'\n"
    )
}

/// Every route, with what decides there.
pub(super) fn cases(address: SocketAddr) -> Result<Vec<Case>> {
    let pod = |name: &str| object(&format!("examples/gatekeeper/objects/{name}.yaml"));
    let rule = |select: &str| {
        format!(
            r#"{{"apiVersion":"api.kubemod.io/v1beta1","kind":"ModRule","metadata":{{"name":"r","namespace":"shop"}},"spec":{{"type":"Reject","match":[{{"select":"{select}"}}]}}}}"#
        )
    };
    let namespace = r#"{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"n","labels":{"admission.gatekeeper.sh/ignore":"yes"}}}"#;
    let (large, unlimited) = (pod("large")?, pod("unlimited")?);
    let deployment = fixture_review().to_json();
    let pods = |object: &str| review("", "v1", "Pod", "pods", object);
    let rules = |object: &str| review("api.kubemod.io", "v1beta1", "ModRule", "modrules", object);
    let default_rule = "/mutate-api-kubemod-io-v1beta1-modrule";
    let validate_rule = "/validate-api-kubemod-io-v1beta1-modrule";
    let labelled = review("", "v1", "Namespace", "namespaces", namespace);
    // Name, route, review, whether it is allowed, whether it is patched.
    let all = [
        ("ModRules patch", "/dragnet-webhook", deployment.clone(), true, Some(true)),
        ("mutating webhook", "/mutate", deployment.clone(), true, Some(true)),
        ("validating webhook", "/validate", deployment, true, None),
        ("too large a Pod", "/v1/admit", pods(&large), false, None),
        ("a Pod without a limit", "/v1/admit", pods(&unlimited), false, None),
        ("a Pod gets its limit", "/v1/mutate", pods(&unlimited), true, Some(true)),
        ("an ignored Namespace", "/v1/admitlabel", labelled, false, None),
        ("a ModRule's defaults", default_rule, rules(&rule("$.kind")), true, None),
        ("a valid ModRule", validate_rule, rules(&rule("$.kind")), true, None),
        ("a broken ModRule", validate_rule, rules(&rule("$.kind ==")), false, None),
    ];
    all.into_iter()
        .map(|(name, route, review, allowed, patch)| {
            let target = Target::resolve(&address.to_string(), route)?;
            Ok(Case {
                name: name.to_owned(),
                request: Request::prepare(&target, review.as_bytes())?,
                target,
                expected: Expected { allowed: Some(allowed), patch, any_order: false },
                reference: Reference::default(),
            })
        })
        .collect()
}

fn object(file: &str) -> Result<String> {
    let path = corpus::repository().join(file);
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    Ok(yaml::value(&text).map_err(|error| anyhow::anyhow!("{file}: {error}"))?.to_json())
}

/// The review of a creation in the namespace `shop`.
pub(super) fn review(
    group: &str,
    version: &str,
    kind: &str,
    resource: &str,
    object: &str,
) -> String {
    format!(
        r#"{{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{{"uid":"u","kind":{{"group":"{group}","version":"{version}","kind":"{kind}"}},"resource":{{"group":"{group}","version":"{version}","resource":"{resource}"}},"name":"n","namespace":"shop","operation":"CREATE","userInfo":{{"username":"soak"}},"object":{object}}}}}"#
    )
}

/// How often a policy file changes.
const PAUSE: Duration = Duration::from_millis(300);

/// Writes, breaks and removes policies that apply to no case.
pub(super) fn churn(folder: &Path, over: &AtomicBool) {
    let (rules, template) = (folder.join("churn-rules.yaml"), folder.join("churn-template.yaml"));
    for round in 0_usize.. {
        if over.load(Ordering::Relaxed) {
            break;
        }
        let rule = |index: usize| {
            format!(
                "apiVersion: api.kubemod.io/v1beta1\nkind: ModRule\n\
                 metadata: {{name: churn-{index}, namespace: elsewhere}}\n\
                 spec: {{type: Patch, match: [{{select: '$.kind'}}], \
                 patch: [{{op: add, path: /metadata/labels/round, value: '{round}'}}]}}\n"
            )
        };
        let texts: Vec<String> = (0..1 + round % 50).map(rule).collect();
        let text = match round % 7 {
            // Half of what was to be written, as an editor leaves it for a moment.
            3 => texts.join("---\n").chars().take(300).collect(),
            _ => texts.join("---\n"),
        };
        let _ = fs::write(&rules, text);
        if round % 5 == 0 {
            let _ = fs::remove_file(&template);
        } else {
            let _ = fs::write(&template, churned_template(round));
        }
        thread::sleep(PAUSE);
    }
}

fn churned_template(round: usize) -> String {
    format!(
        "apiVersion: templates.gatekeeper.sh/v1\nkind: ConstraintTemplate\nmetadata: {{name: churned}}\n\
         spec:\n  crd: {{spec: {{names: {{kind: Churned}}}}}}\n  targets:\n    \
         - target: admission.k8s.gatekeeper.sh\n      rego: |\n        package churned\n        \
         violation[{{\"msg\": \"{round}\"}}] {{ input.review.object.metadata.name == \"round-{round}\" }}\n\
         ---\napiVersion: constraints.gatekeeper.sh/v1beta1\nkind: Churned\nmetadata: {{name: churned}}\n"
    )
}
