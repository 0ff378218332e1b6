//! Metrics and log lines of `modgate serve`.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::{review_findings::admission_review, served::Folder};

const POLICIES: &str = "apiVersion: api.kubemod.io/v1beta1
kind: ModRule
metadata: {name: no-latest, namespace: shop}
spec:
  type: Reject
  match: [{select: '$.spec.containers[*].image', matchRegex: ':latest$'}]
---
apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: owned}
spec:
  crd: {spec: {names: {kind: Owned}}}
  targets:
  - target: admission.k8s.gatekeeper.sh
    rego: |
      package owned
      violation[{\"msg\": sprintf(\"no owner, %v\", [n])}] {
        n := [1, 2][_]
        not input.review.object.metadata.labels.owner
      }
---
apiVersion: constraints.gatekeeper.sh/v1beta1
kind: Owned
metadata: {name: asks}
spec: {enforcementAction: warn}
---
apiVersion: constraints.gatekeeper.sh/v1beta1
kind: Owned
metadata: {name: counts}
spec: {enforcementAction: dryrun}
---
apiVersion: constraints.gatekeeper.sh/v1beta1
kind: Owned
metadata: {name: denies}
spec: {match: {namespaces: [strict]}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: host-network}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: ['*'], resources: [pods]}]
  validations: [{expression: '!has(object.spec.hostNetwork)'}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: host-network}
spec: {policyName: host-network, validationActions: [Deny]}
";

/// A request counts once for each policy that denies it, warns about it or reports it, at every webhook.
#[test]
fn decisions_by_policy() {
    let folder = Folder::new(&[("policies.yaml", POLICIES)]);
    let serving = folder.serve(&["--admission-policies", "all"]);
    let pod = |spec: &str, labels: &str| {
        format!(
            r#"{{"apiVersion": "v1", "kind": "Pod", "metadata": {{"name": "p", "labels": {{{labels}}}}}, "spec": {spec}}}"#
        )
    };
    let latest = pod(r#"{"containers": [{"name": "c", "image": "app:latest"}]}"#, "");
    let host = pod(r#"{"containers": [], "hostNetwork": true}"#, "");
    let good = pod(r#"{"containers": []}"#, r#""owner": "me""#);
    for (route, namespace, object) in [
        ("/dragnet-webhook", "shop", &latest),
        ("/dragnet-webhook", "shop", &good),
        ("/v1/admit", "shop", &latest),
        ("/v1/admit", "strict", &latest),
        ("/v1/admit", "strict", &good),
        ("/v1/policies/validate", "shop", &host),
        ("/v1/policies/validate", "shop", &good),
    ] {
        serving.review(route, &admission_review(namespace, object));
    }
    let metrics = serving.get("/metrics");
    let mut series: Vec<_> = metrics
        .lines()
        .filter_map(|line| line.strip_prefix("modgate_policy_decisions_total"))
        .collect();
    series.sort_unstable();
    assert_eq!(
        series,
        [
            r#"{kind="ModRule",name="shop/no-latest",result="denied"} 1"#,
            r#"{kind="Owned",name="asks",result="warned"} 2"#,
            r#"{kind="Owned",name="counts",result="reported"} 2"#,
            r#"{kind="Owned",name="denies",result="denied"} 1"#,
            r#"{kind="ValidatingAdmissionPolicy",name="host-network",result="denied"} 1"#,
        ],
        "{metrics}"
    );
}

/// The self-signed certificate lasts for a year; without a cluster there is no election.
#[test]
fn certificate_and_leadership() {
    let folder = Folder::new(&[("policies.yaml", POLICIES)]);
    let metrics = folder.serve(&[]).get("/metrics");
    let ends = metrics
        .lines()
        .find_map(|line| line.strip_prefix("modgate_certificate_not_after_seconds "))
        .expect(&metrics);
    let ends: u64 = ends.parse().expect(ends);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    let left = Duration::from_secs(ends).saturating_sub(now).as_secs() / (24 * 3600);
    assert!((364..=365).contains(&left), "{left} days");
    assert!(!metrics.contains("\nmodgate_leader "), "{metrics}");
}

/// A folder that does nothing, and a binding that an API server is to evaluate, are in the log.
#[test]
fn policies_without_effect() {
    let log = |policies: &str, args: &[&str]| {
        let folder = Folder::new(&[("policies.yaml", policies)]);
        String::from_utf8(folder.serve(args).stop()).expect("text")
    };
    let empty = "there is no policy in the files: every request is allowed";
    let left = "the webhooks do not evaluate this binding";
    let config_map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n";
    let text = log(config_map, &[]);
    assert!(text.contains(empty) && !text.contains(left), "{text}");
    let text = log(POLICIES, &[]);
    assert!(text.contains(left) && !text.contains(empty), "{text}");
    assert!(text.contains("host-network"), "{text}");
    let text = log(POLICIES, &["--admission-policies", "all"]);
    assert!(!text.contains(left), "{text}");
}
