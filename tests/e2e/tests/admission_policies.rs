//! The cluster's own policies whose bindings leave them to modgate: followed, decided by its webhooks, and
//! audited, on a real API server.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "tests fail by panicking"
)]

use std::{fs, path::Path, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use modgate_e2e::{Running, definition, eventually, kubectl, namespace, step, succeeds};
use modgate_export::ViolationsFileConfig;
use modgate_testkit::cluster::Cluster;
use modgate_value::Value;

/// A policy about ConfigMaps in the namespaces of this test, which takes a parameter.
fn policy(name: &str, param_kind: &str, expression: &str) -> String {
    format!(
        "---\napiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\n\
         metadata: {{name: {name}}}\nspec:\n  {param_kind}\n  matchConstraints:\n    \
         resourceRules: [{{apiGroups: [''], apiVersions: [v1], operations: [CREATE], \
         resources: [configmaps]}}]\n    namespaceSelector: {{matchLabels: {{test: served}}}}\n    \
         objectSelector: {{matchExpressions: [{{key: policy, operator: In, values: [{name}]}}]}}\n  \
         validations: [{{expression: {expression}, message: {name} does not hold}}]\n"
    )
}

fn binding(name: &str, policy: &str, more: &str) -> String {
    format!(
        "---\napiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicyBinding\n\
         metadata: {{name: {name}}}\nspec: {{policyName: {policy}, {more}}}\n"
    )
}

/// The webhook configurations, as the chart has them but for the address and what they receive.
fn webhooks(server: &Running) -> String {
    let ca = STANDARD.encode(fs::read(server.folder.path().join("tls.crt")).expect("read"));
    let one = |kind: &str, path: &str| {
        format!(
            "---\napiVersion: admissionregistration.k8s.io/v1\nkind: {kind}WebhookConfiguration\n\
             metadata: {{name: admission-policies.modgate.sh}}\nwebhooks:\n\
             - name: policies.modgate.sh\n  \
             clientConfig: {{url: 'https://{}{path}', caBundle: {ca}}}\n  \
             rules: [{{apiGroups: ['', widgets.test], apiVersions: [v1], \
             resources: [configmaps, widgets], operations: [CREATE]}}]\n  namespaceSelector: {{matchLabels: {{test: served}}}}\n  \
             failurePolicy: Fail\n  sideEffects: None\n  admissionReviewVersions: [v1]\n  \
             timeoutSeconds: 10\n",
            server.address
        )
    };
    one("Validating", "/v1/policies/validate") + &one("Mutating", "/v1/policies/mutate")
}

/// The text that kubectl writes to standard error for a ConfigMap under a policy; the ConfigMap is
/// not stored.
fn answer(cluster: &Cluster, policy: &str, flags: &str) -> String {
    let object = format!(
        "apiVersion: v1\nkind: ConfigMap\n\
         metadata: {{name: example, namespace: served, labels: {{policy: {policy}}}}}\n"
    );
    kubectl(cluster, &format!("create --dry-run=server -f - {flags}"), &object).stderr
}

/// The messages of the last audit about a policy.
fn audited(file: &Path, policy: &str) -> Vec<String> {
    let text = fs::read_to_string(file).unwrap_or_default();
    let lines = text.lines().filter_map(|line| Value::from_json(line.as_bytes()).ok());
    let about = lines.filter(|line| line.to_json().contains(&format!("\"{policy}\"")));
    about
        .filter_map(|line| line.get("message").and_then(Value::as_str).map(str::to_owned))
        .collect()
}

/// One scenario, as the steps build on each other.
#[test]
fn policies_of_the_cluster_are_followed_decided_and_audited() {
    let Some(cluster) = Cluster::shared() else { return };
    namespace(cluster, "gatekeeper-system", "none");
    namespace(cluster, "served", "served");
    namespace(cluster, "parameters", "none");
    let folder = tempfile::tempdir().expect("folder");
    let file = folder.path().join("violations");
    let server = Running::configured(cluster, |config| {
        config.admission_policies = true;
        config.audit.interval = Duration::from_secs(1);
        config.audit.violations_file =
            Some(ViolationsFileConfig { path: file.clone(), max_bytes: 1 << 20 });
    });
    succeeds(cluster, "create -f -", &webhooks(&server));
    params_by_name(cluster);
    kinds_that_come_later(cluster);
    access(cluster);
    one_decides(cluster);
    mutation(cluster);
    custom_resources(cluster);
    audit(cluster, &file);
}

fn params_by_name(cluster: &Cluster) {
    step("a parameter by name: missing, there, changed, gone");
    let kind = "paramKind: {apiVersion: v1, kind: ConfigMap}";
    let expression = "object.metadata.name != params.data.name";
    let reference = "validationActions: [Deny], paramRef: {name: limit, namespace: parameters, \
                     parameterNotFoundAction: Deny}";
    let mut text = policy("named", kind, expression);
    text.push_str(&binding("named", "named.modgate.sh", reference));
    succeeds(cluster, "create -f -", &text);
    let denial = "admission webhook \"policies.modgate.sh\" denied the request: \
                  ValidatingAdmissionPolicy 'named' with binding 'named' denied request: ";
    eventually("the policy misses its parameter", || {
        let missing = "no params found for policy binding with `Deny` parameterNotFoundAction";
        answer(cluster, "named", "")
            .contains(&format!("{denial}failed to configure binding: {missing}"))
    });
    succeeds(cluster, "create configmap limit -n parameters --from-literal=name=other", "");
    eventually("the parameter is there", || answer(cluster, "named", "").is_empty());
    let patch = "patch configmap limit -n parameters -p {\"data\":{\"name\":\"example\"}}";
    succeeds(cluster, patch, "");
    eventually("the parameter has changed", || {
        answer(cluster, "named", "").contains(&format!("{denial}named does not hold"))
    });
    succeeds(cluster, "delete validatingadmissionpolicybinding named", "");
    eventually("the binding is gone", || answer(cluster, "named", "").is_empty());
}

fn kinds_that_come_later(cluster: &Cluster) {
    step("parameters of a kind whose CRD comes after the policy");
    let kind = "paramKind: {apiVersion: limits.test/v1, kind: Limit}";
    let reference = "validationActions: [Deny], paramRef: {selector: {matchLabels: {a: b}}, \
                     parameterNotFoundAction: Allow}";
    let mut text = policy("later", kind, "params.allows == true");
    text.push_str(&binding("later", "later.modgate.sh", reference));
    succeeds(cluster, "create -f -", &text);
    eventually("the kind is missing", || {
        answer(cluster, "later", "").contains(
            "failed to find resource referenced by paramKind: 'limits.test/v1, Kind=Limit'",
        )
    });
    succeeds(
        cluster,
        "create -f -",
        &definition("limits.test", "Limit", "limits", "Namespaced", "v1"),
    );
    succeeds(cluster, "wait --for=condition=Established crd/limits.limits.test", "");
    eventually("the kind is there", || answer(cluster, "later", "").is_empty());
    let limit = "apiVersion: limits.test/v1\nkind: Limit\n\
                 metadata: {name: one, namespace: served, labels: {a: b}}\nallows: false\n";
    succeeds(cluster, "create -f -", limit);
    eventually("its object is selected", || {
        answer(cluster, "later", "").contains("later does not hold")
    });
    succeeds(cluster, "label limit one -n served a-", "");
    eventually("its object is not selected", || answer(cluster, "later", "").is_empty());
}

fn access(cluster: &Cluster) {
    step("authorizer asks the API server");
    let expression = "authorizer.group('').resource('secrets').namespace('served').check('get')\
                      .allowed()";
    let mut text = policy("asks", "failurePolicy: Fail", &format!("\"{expression}\""));
    text.push_str(&binding("asks", "asks.modgate.sh", "validationActions: [Deny]"));
    succeeds(cluster, "create -f -", &text);
    let rights = "create clusterrole maps --verb=create --resource=configmaps";
    succeeds(cluster, rights, "");
    succeeds(cluster, "create clusterrolebinding maps --clusterrole=maps --group=testers", "");
    let as_tester = "--as=ann --as-group=testers";
    eventually("the tester may not read Secrets", || {
        answer(cluster, "asks", as_tester).contains("asks does not hold")
    });
    assert_eq!(answer(cluster, "asks", ""), "", "the administrator may");
    succeeds(cluster, "create clusterrole keys --verb=get --resource=secrets", "");
    // Groups are part of the question.
    succeeds(cluster, "create clusterrolebinding keys --clusterrole=keys --group=testers", "");
    eventually("the tester may read Secrets", || answer(cluster, "asks", as_tester).is_empty());
}

fn one_decides(cluster: &Cluster) {
    step("a binding of the API server switches modgate's off");
    let mut text = policy("both", "failurePolicy: Fail", "'false'");
    text.push_str(&binding("ours", "both.modgate.sh", "validationActions: [Warn]"));
    succeeds(cluster, "create -f -", &text);
    let warnings = |binding: &str| {
        let text = format!(
            "Validation failed for ValidatingAdmissionPolicy 'both' with binding '{binding}'"
        );
        answer(cluster, "both", "").matches(&text).count()
    };
    eventually("modgate warns", || warnings("ours") == 1);
    assert_eq!(warnings("theirs"), 0);
    succeeds(cluster, "create -f -", &binding("theirs", "both", "validationActions: [Warn]"));
    eventually("the API server alone warns", || (warnings("ours"), warnings("theirs")) == (0, 1));
    succeeds(cluster, "delete validatingadmissionpolicybinding theirs", "");
    eventually("modgate alone warns", || (warnings("ours"), warnings("theirs")) == (1, 0));
    succeeds(cluster, "delete validatingadmissionpolicy both", "");
    eventually("the policy is gone", || answer(cluster, "both", "").is_empty());
}

fn mutation(cluster: &Cluster) {
    step("a MutatingAdmissionPolicy");
    let group = "apiVersion: admissionregistration.k8s.io/v1";
    if !kubectl(cluster, "get mutatingadmissionpolicies", "").success {
        return;
    }
    let text = format!(
        "---\n{group}\nkind: MutatingAdmissionPolicy\nmetadata: {{name: marks}}\nspec:\n  \
         matchConstraints:\n    resourceRules: [{{apiGroups: [''], apiVersions: [v1], \
         operations: [CREATE], resources: [configmaps]}}]\n    \
         namespaceSelector: {{matchLabels: {{test: served}}}}\n  reinvocationPolicy: Never\n  \
         mutations:\n  - patchType: ApplyConfiguration\n    applyConfiguration: {{expression: \
         'Object{{metadata: Object.metadata{{annotations: {{\"marked\": \"by-modgate\"}}}}}}'}}\n\
         ---\n{group}\nkind: MutatingAdmissionPolicyBinding\nmetadata: {{name: marks}}\n\
         spec: {{policyName: marks.modgate.sh}}\n"
    );
    succeeds(cluster, "create -f -", &text);
    eventually("objects are marked", || {
        let create = "create configmap example -n served --dry-run=server -o yaml";
        succeeds(cluster, create, "").contains("marked: by-modgate")
    });
}

/// A list by names, whose entries are merged, and one that is replaced.
const WIDGETS: &str = "apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.widgets.test}
spec:
  group: widgets.test
  scope: Namespaced
  names: {kind: Widget, plural: widgets, singular: widget}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          parts:
            type: array
            x-kubernetes-list-type: map
            x-kubernetes-list-map-keys: [name]
            items:
              type: object
              required: [name]
              properties: {name: {type: string}, size: {type: integer}, color: {type: string}}
";

fn custom_resources(cluster: &Cluster) {
    step("ApplyConfiguration of custom resources, whose CRD comes after the policy and changes");
    let group = "apiVersion: admissionregistration.k8s.io/v1";
    if !kubectl(cluster, "get mutatingadmissionpolicies", "").success {
        return;
    }
    let text = format!(
        "---\n{group}\nkind: MutatingAdmissionPolicy\nmetadata: {{name: colors}}\nspec:\n  \
         matchConstraints:\n    resourceRules: [{{apiGroups: [widgets.test], apiVersions: [v1], \
         operations: [CREATE], resources: [widgets]}}]\n  reinvocationPolicy: Never\n  \
         mutations:\n  - patchType: ApplyConfiguration\n    applyConfiguration: {{expression: \
         'Object{{parts: [Object.parts{{name: \"a\", color: \"red\"}}]}}'}}\n\
         ---\n{group}\nkind: MutatingAdmissionPolicyBinding\nmetadata: {{name: colors}}\n\
         spec: {{policyName: colors.modgate.sh}}\n"
    );
    succeeds(cluster, "create -f -", &text);
    succeeds(cluster, "create -f -", WIDGETS);
    succeeds(cluster, "wait --for=condition=Established crd/widgets.widgets.test", "");
    let widget = "apiVersion: widgets.test/v1\nkind: Widget\n\
                  metadata: {name: w, namespace: served}\n\
                  parts: [{name: a, size: 1}, {name: b, size: 2}]\n";
    let create = |what: &str, expected: &str| {
        eventually(what, || {
            let flags = "create --dry-run=server -f - -o jsonpath={.parts}";
            kubectl(cluster, flags, widget).stdout == expected
        });
    };
    let merged = r#"[{"color":"red","name":"a","size":1},{"name":"b","size":2}]"#;
    create("entries of the list are merged by name", merged);
    let fields = WIDGETS.replace("color: {type: string}", "shade: {type: string}");
    succeeds(cluster, "replace -f -", &fields);
    eventually("the field is gone", || {
        let answer = kubectl(cluster, "create --dry-run=server -f -", widget).stderr;
        answer.contains("field not declared in schema")
    });
    succeeds(cluster, "delete mutatingadmissionpolicybinding colors", "");
}

fn audit(cluster: &Cluster, file: &Path) {
    step("audits evaluate policies of the API server and of modgate");
    let object = "apiVersion: v1\nkind: ConfigMap\n\
                  metadata: {name: existing, namespace: served, labels: {policy: old}}\n";
    succeeds(cluster, "create -f -", object);
    let mut text = policy("old", "failurePolicy: Fail", "'false'");
    text.push_str(&binding("old", "old", "validationActions: [Deny]"));
    succeeds(cluster, "create -f -", &text);
    eventually("the object is found", || audited(file, "old") == ["old does not hold"]);
    succeeds(cluster, "delete validatingadmissionpolicybinding old", "");
    eventually("nothing is found", || audited(file, "old").is_empty());
    succeeds(
        cluster,
        "create -f -",
        &binding("old", "old.modgate.sh", "validationActions: [Warn]"),
    );
    eventually("the object is found again", || audited(file, "old") == ["old does not hold"]);
}
