//! ValidatingAdmissionPolicies on a real API server: made, kept, taken away, and deciding as the
//! webhook does.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stderr,
    reason = "tests fail by panicking, and their output says why"
)]

mod library;

use std::time::{Duration, Instant};

use k8s_openapi::jiff::Timestamp;
use modgate_cluster::VapConfig;
use modgate_testkit::cluster::{Cluster, Options};
use modgate_value::Value;

use modgate_e2e::{Running, eventually, kubectl, namespace, step, succeeds};

/// Long enough to be seen waiting, short enough to wait for.
const WAIT: Duration = Duration::from_secs(15);

/// Our kinds, and the namespace we are installed in.
fn install(cluster: &Cluster) {
    succeeds(cluster, "create -f -", &modgate_e2e::our_definitions());
    let names = "crd/constrainttemplates.templates.gatekeeper.sh crd/configs.config.gatekeeper.sh";
    succeeds(cluster, &format!("wait --for=condition=Established {names}"), "");
    namespace(cluster, "gatekeeper-system", "none");
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: modgate-0, namespace: gatekeeper-system}\n\
               spec: {automountServiceAccountToken: false, containers: [{name: a, image: none}]}\n";
    succeeds(cluster, "create -f -", pod);
}

fn serve(cluster: &Cluster, wait: Duration) -> Running {
    Running::configured(cluster, |config| {
        config.vap = VapConfig { wait, ..VapConfig::default() };
        config.pod = Some("modgate-0".into());
    })
}

/// An object as JSON; null if there is none.
fn get(cluster: &Cluster, what: &str) -> Value {
    let outcome = kubectl(cluster, &format!("get {what} --ignore-not-found -o json"), "");
    assert!(outcome.success, "{what}: {}", outcome.stderr);
    Value::from_json(outcome.stdout.as_bytes()).unwrap_or_default()
}

fn text(object: &Value, path: &[&str]) -> String {
    match object.path(path) {
        Some(Value::String(text)) => text.to_string(),
        Some(value) => value.to_json(),
        None => String::new(),
    }
}

/// The report of the one Pod on a policy.
fn status(cluster: &Cluster, what: &str) -> Value {
    let object = get(cluster, what);
    let entries = object.path(&["status", "byPod"]).and_then(Value::as_array);
    entries.and_then(|entries| entries.first().cloned()).unwrap_or_default()
}

/// Its report on the binding of a constraint: state, message and the generation that it concerns.
fn point(cluster: &Cluster, what: &str) -> [String; 3] {
    let entry = status(cluster, what);
    let points = entry.get("enforcementPointsStatus").and_then(Value::as_array);
    let point = points.and_then(|points| points.first().cloned()).unwrap_or_default();
    if !point.is_null() {
        assert_eq!(text(&point, &["enforcementPoint"]), "vap.k8s.io");
    }
    ["state", "message", "observedGeneration"].map(|member| text(&point, &[member]))
}

/// The members of this name in a list of objects.
fn each(object: &Value, path: &[&str], member: &str) -> Vec<String> {
    let list = object.path(path).and_then(Value::as_array);
    list.into_iter().flat_map(|list| list.iter()).map(|item| text(item, &[member])).collect()
}

/// A template that denies ConfigMaps of the name in the parameters of its constraints.
fn template(kind: &str, more: &str, source: &str) -> String {
    let name = kind.to_lowercase();
    format!(
        r#"
apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {{name: {name}}}
spec:
  crd:
    spec:
      names: {{kind: {kind}}}
      validation:
        openAPIV3Schema: {{type: object, properties: {{name: {{type: string}}}}}}
  targets:
  - target: admission.k8s.gatekeeper.sh
    {more}
    code:
    - engine: K8sNativeValidation
      source:
        {source}
        validations:
        - expression: variables.anyObject.metadata.name != variables.params.name
          messageExpression: '"no " + variables.params.name + " here"'
"#
    )
}

fn rego(kind: &str) -> String {
    let name = kind.to_lowercase();
    format!(
        r#"
apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {{name: {name}}}
spec:
  crd:
    spec:
      names: {{kind: {kind}}}
      validation:
        openAPIV3Schema: {{type: object, properties: {{name: {{type: string}}}}}}
  targets:
  - target: admission.k8s.gatekeeper.sh
    rego: |
      package p
      violation[{{"msg": "never"}}] {{ input.review.object.metadata.name == "never" }}
"#
    )
}

fn constraint(kind: &str, name: &str, more: &str) -> String {
    format!(
        "apiVersion: constraints.gatekeeper.sh/v1beta1\nkind: {kind}\nmetadata: {{name: {name}}}\n\
         spec:\n  match:\n    kinds: [{{apiGroups: [''], kinds: [ConfigMap]}}]\n    \
         namespaceSelector: {{matchLabels: {{test: vap}}}}\n  parameters: {{name: bad}}\n{more}"
    )
}

/// The configuration whose rules policies copy. No server listens there.
fn webhook(groups: &str, resources: &str) -> String {
    format!(
        "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration\n\
         metadata: {{name: gatekeeper-validating-webhook-configuration}}\nwebhooks:\n\
         - name: validation.gatekeeper.sh\n  clientConfig: {{url: 'https://127.0.0.1:1/v1/admit'}}\n  \
         rules: [{{apiGroups: [{groups}], apiVersions: ['*'], resources: [{resources}], \
         operations: [CREATE, UPDATE]}}]\n  \
         objectSelector: {{matchExpressions: [{{key: skip, operator: DoesNotExist}}]}}\n  \
         matchPolicy: Exact\n  failurePolicy: Ignore\n  sideEffects: None\n  \
         admissionReviewVersions: [v1]\n  timeoutSeconds: 1\n"
    )
}

/// The error of kubectl when it creates a ConfigMap; empty if it may.
fn creating(cluster: &Cluster, name: &str) -> String {
    let arguments = format!("create configmap {name} -n guarded --dry-run=server");
    let outcome = kubectl(cluster, &arguments, "");
    if outcome.success { String::new() } else { outcome.stderr }
}

fn owner(api_version: &str, kind: &str, name: &str, uid: &str) -> String {
    format!(
        "ownerReferences: [{{apiVersion: {api_version}, kind: {kind}, name: {name}, uid: {uid}, \
         controller: true, blockOwnerDeletion: true}}]"
    )
}

/// A policy and its binding of this name, that somebody else made of a template.
fn foreign(name: &str, owner: &str) -> String {
    format!(
        "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\n\
         metadata: {{name: {name}, labels: {{kept: me}}, {owner}}}\nspec:\n  \
         matchConstraints:\n    resourceRules: [{{apiGroups: [''], apiVersions: [v1], \
         operations: [CREATE], resources: [secrets]}}]\n    \
         namespaceSelector: {{matchLabels: {{old: one}}}}\n  \
         matchConditions: [{{name: old, expression: 'true'}}]\n  \
         variables: [{{name: old, expression: 'true'}}]\n  \
         validations: [{{expression: 'true'}}]\n"
    )
}

fn foreign_binding(name: &str, owner: &str) -> String {
    format!(
        "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicyBinding\n\
         metadata: {{name: {name}, {owner}}}\n\
         spec: {{policyName: gatekeeper-other, validationActions: [Audit]}}\n"
    )
}

const POLICY: &str = "validatingadmissionpolicy";
const BINDING: &str = "validatingadmissionpolicybinding";

/// The API group of templates, as Gatekeeper writes it into owners.
const TEMPLATES: &str = "templates.gatekeeper.sh/v1beta1";

const FORBIDDEN: &str = "validatingadmissionpolicy gatekeeper-forbidden";
const FIRST: &str = "validatingadmissionpolicybinding gatekeeper-forbidden-first";

/// The match conditions that modgate writes.
fn internal(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| format!("gatekeeper_internal_match_{name}")).collect()
}

/// Those of a policy as long as no Config excludes namespaces.
fn usual() -> Vec<String> {
    internal(&["excluded_namespaces", "namespaces", "name", "kinds"])
}

/// Those of a policy with the namespaces that a Config excludes.
fn excluding() -> Vec<String> {
    [usual(), internal(&["global_excluded_namespaces"])].concat()
}

/// Everything about one installation, one after the other, as there is one set of policies in a
/// cluster (Scenario 87; also 85 and 88).
#[test]
fn policies_and_bindings_come_change_and_go() {
    let Some(cluster) = Cluster::shared() else { return };
    install(cluster);
    namespace(cluster, "guarded", "vap");
    leave_policies(cluster);
    let installation = Installation { cluster, server: serve(cluster, WAIT) };
    installation.takes_over_policies();
    installation.reports_templates();
    let until = installation.bindings_wait_for_the_crd();
    installation.replaces_an_earlier_binding();
    installation.writes_the_late_binding(until);
    installation.the_api_server_decides();
    installation.undoes_changes_of_others();
    installation.the_webhook_decides_too();
    installation.copies_rules_and_exclusions();
    installation.reports_type_checks();
    installation.generation_is_switched_off_and_on();
    let before = installation.identity();
    installation.keeps_the_policy_of_a_broken_template();
    assert_eq!(installation.identity(), before);
    installation.compares_operations_with_the_webhook();
    assert_eq!(installation.identity(), before);
    installation.keeps_objects_of_other_owners();
    installation.deletes_policies_with_their_templates();
}

/// Writes policies that no template needs: that of a template in Rego, and one whose name is ours and whose
/// owner is not. A third one is needed, and has fields that it should not have.
fn leave_policies(cluster: &Cluster) {
    succeeds(cluster, "create -f -", &rego("InRego"));
    let uid = text(&get(cluster, "constrainttemplate inrego"), &["metadata", "uid"]);
    let left =
        foreign("gatekeeper-inrego", &owner(TEMPLATES, "ConstraintTemplate", "inrego", &uid));
    succeeds(cluster, "create -f -", &left);
    let namespace_uid = text(&get(cluster, "namespace guarded"), &["metadata", "uid"]);
    let theirs = owner("v1", "Namespace", "guarded", &namespace_uid);
    succeeds(cluster, "create -f -", &foreign("gatekeeper-taken", &theirs));
    succeeds(cluster, "create -f -", &template("Forbidden", "", ""));
    let uid = text(&get(cluster, "constrainttemplate forbidden"), &["metadata", "uid"]);
    let left = owner(TEMPLATES, "ConstraintTemplate", "forbidden", &uid);
    succeeds(cluster, "create -f -", &foreign("gatekeeper-forbidden", &left));
}

/// One installation: the template `Forbidden` has the constraint `first`.
struct Installation<'c> {
    cluster: &'c Cluster,
    server: Running,
}

impl Installation<'_> {
    /// The names of the match conditions of a template's policy.
    fn conditions(&self, template: &str) -> Vec<String> {
        let policy = get(self.cluster, &format!("{POLICY} gatekeeper-{template}"));
        each(&policy, &["spec", "matchConditions"], "name")
    }

    /// The kinds that the policy of `Forbidden` applies to.
    fn matched(&self) -> String {
        text(&get(self.cluster, FORBIDDEN), &["spec", "matchConstraints"])
    }

    /// The warning in the status of `Forbidden`.
    fn warning(&self) -> String {
        let entry = status(self.cluster, "constrainttemplate forbidden");
        text(&entry, &["vapGenerationStatus", "warning"])
    }

    /// The UIDs of the policy of `Forbidden` and of the binding of `first`.
    fn identity(&self) -> [String; 2] {
        [FORBIDDEN, FIRST].map(|what| text(&get(self.cluster, what), &["metadata", "uid"]))
    }

    fn created(&self, what: &str) -> Timestamp {
        let created = text(&get(self.cluster, what), &["metadata", "creationTimestamp"]);
        created.parse().expect("a time")
    }

    fn is_gone(&self, what: &str) -> bool {
        get(self.cluster, what) == Value::Null
    }

    fn takes_over_policies(&self) {
        step("policies that were there before");
        eventually("the policy of a template in Rego is gone", || {
            self.is_gone(&format!("{POLICY} gatekeeper-inrego"))
        });
        eventually("the policy is taken over", || self.conditions("forbidden") == usual());
        let policy = get(self.cluster, FORBIDDEN);
        assert_eq!(each(&policy, &["spec", "variables"], "name"), ["anyObject", "params"]);
        let expected = r#"{"matchPolicy":"Equivalent","namespaceSelector":{},"objectSelector":{},"resourceRules":[{"apiGroups":["*"],"apiVersions":["*"],"operations":["CREATE","UPDATE"],"resources":["*"],"scope":"*"}]}"#;
        assert_eq!(self.matched(), expected);
        assert_eq!(text(&policy, &["metadata", "labels", "kept"]), "me");
        let expected = r#"{"apiVersion":"constraints.gatekeeper.sh/v1beta1","kind":"Forbidden"}"#;
        assert_eq!(text(&policy, &["spec", "paramKind"]), expected);
    }

    fn reports_templates(&self) {
        step("statuses of a template in CEL and of a constraint in Rego");
        eventually("the template reports its policy", || {
            let generated = r#"{"observedGeneration":1,"state":"generated"}"#;
            let entry = status(self.cluster, "constrainttemplate forbidden");
            text(&entry, &["vapGenerationStatus"]) == generated
        });
        eventually("constraints in Rego can be created", || {
            kubectl(self.cluster, "apply -f -", &constraint("InRego", "plain", "")).success
        });
        eventually("a constraint in Rego reports that it has no binding", || {
            let missing = "K8sNativeValidation engine is missing";
            point(self.cluster, "inrego plain") == ["error", missing, "1"]
        });
        let bindings = "gatekeeper_validating_admission_policy_bindings";
        assert_eq!(self.server.metric(bindings, "status=\"error\""), 0);
    }

    /// Returns the time until which the binding waits.
    fn bindings_wait_for_the_crd(&self) -> Timestamp {
        step("the binding is written when the CRD is old enough");
        succeeds(self.cluster, "create -f -", &template("Late", "", ""));
        let late = constraint("Late", "late", "").replace("{name: bad}", "{name: late}");
        eventually("constraints of the kind `Late` can be created", || {
            kubectl(self.cluster, "apply -f -", &late).success
        });
        let mut waiting = [const { String::new() }; 3];
        eventually("the constraint reports that it waits", || {
            waiting = point(self.cluster, "late late");
            !waiting[0].is_empty()
        });
        let until = self.created("crd/late.constraints.gatekeeper.sh") + WAIT;
        let message = format!(
            "waiting until {until} before generating ValidatingAdmissionPolicyBinding to make sure \
             api-server has cached constraint CRD"
        );
        assert_eq!(waiting, ["waiting", &message, "1"]);
        until
    }

    fn replaces_an_earlier_binding(&self) {
        step("a binding of an earlier version is deleted");
        let cluster = self.cluster;
        eventually("constraints of the kind `Forbidden` can be created", || {
            kubectl(cluster, "apply -f -", &constraint("Forbidden", "first", "")).success
        });
        let uid = text(&get(cluster, "forbidden first"), &["metadata", "uid"]);
        let of_constraint = owner("constraints.gatekeeper.sh/v1beta1", "Forbidden", "first", &uid);
        succeeds(cluster, "create -f -", &foreign_binding("gatekeeper-first", &of_constraint));
        eventually("the binding is there", || !self.is_gone(FIRST));
        eventually("the constraint reports its binding", || {
            point(cluster, "forbidden first") == ["generated", "", "1"]
        });
        let expected = r#"{"matchResources":{"matchPolicy":"Equivalent","namespaceSelector":{"matchLabels":{"test":"vap"}},"objectSelector":{}},"paramRef":{"name":"first","parameterNotFoundAction":"Allow"},"policyName":"gatekeeper-forbidden","validationActions":["Deny"]}"#;
        assert_eq!(text(&get(cluster, FIRST), &["spec"]), expected);
        eventually("the earlier binding is gone", || {
            self.is_gone(&format!("{BINDING} gatekeeper-first"))
        });
    }

    fn writes_the_late_binding(&self, until: Timestamp) {
        step("the binding that waited is written, and not too early");
        eventually("the constraint `late` reports its binding", || {
            point(self.cluster, "late late") == ["generated", "", "1"]
        });
        let created = self.created(&format!("{BINDING} gatekeeper-late-late"));
        assert!(created >= until, "{created}, not {until}");
    }

    fn the_api_server_decides(&self) {
        step("the API server enforces the policy");
        let denied = "error: failed to create configmap: configmaps \"bad\" is forbidden: \
                      ValidatingAdmissionPolicy 'gatekeeper-forbidden' with binding \
                      'gatekeeper-forbidden-first' denied request: no bad here\n";
        eventually("the API server denies `bad`", || creating(self.cluster, "bad") == denied);
        assert_eq!(creating(self.cluster, "good"), "");
    }

    fn undoes_changes_of_others(&self) {
        step("changes by other writers, and deletions by hand");
        let cluster = self.cluster;
        let actions = || text(&get(cluster, FIRST), &["spec", "validationActions"]);
        let merge = r#"--type=merge -p {"spec":{"validationActions":["Audit"]}}"#;
        succeeds(cluster, &format!("patch {FIRST} {merge}"), "");
        eventually("the binding denies again", || actions() == r#"["Deny"]"#);
        succeeds(cluster, &format!("delete {FORBIDDEN}"), "");
        succeeds(cluster, &format!("delete {FIRST}"), "");
        eventually("policy and binding are back", || {
            self.conditions("forbidden") == usual() && !self.is_gone(FIRST)
        });
        let warns = constraint("Forbidden", "first", "  enforcementAction: warn\n");
        succeeds(cluster, "apply -f -", &warns);
        eventually("the binding has the action of the constraint", || actions() == r#"["Warn"]"#);
    }

    fn the_webhook_decides_too(&self) {
        step("the webhook still enforces the constraint");
        let cluster = self.cluster;
        succeeds(cluster, "create -f -", &self.server.webhook("vap", "/v1/admit"));
        eventually("webhook and API server warn", || {
            let outcome = kubectl(cluster, "create configmap bad -n guarded --dry-run=server", "");
            let warnings = outcome.stderr;
            warnings.contains("Warning: [first] no bad here\n")
                && warnings.contains("'gatekeeper-forbidden-first': no bad here\n")
        });
    }

    fn copies_rules_and_exclusions(&self) {
        step("rules of the webhook configuration, and excluded namespaces of a Config");
        let cluster = self.cluster;
        succeeds(cluster, "create -f -", &webhook("''", "configmaps"));
        let copied = r#"{"matchPolicy":"Exact","namespaceSelector":{},"objectSelector":{"matchExpressions":[{"key":"skip","operator":"DoesNotExist"}]},"resourceRules":[{"apiGroups":[""],"apiVersions":["*"],"operations":["CREATE","UPDATE"],"resources":["configmaps"],"scope":"*"}]}"#;
        eventually("the policy has the webhook's rules", || self.matched() == copied);
        let name = "validatingwebhookconfiguration gatekeeper-validating-webhook-configuration";
        succeeds(cluster, &format!("delete {name}"), "");
        eventually("without a webhook the policy matches all resources", || {
            self.matched().contains(r#""resources":["*"]"#)
        });
        succeeds(
            cluster,
            "create -f -",
            "apiVersion: config.gatekeeper.sh/v1alpha1\nkind: Config\n\
             metadata: {name: config, namespace: gatekeeper-system}\n\
             spec: {match: [{processes: ['*'], excludedNamespaces: ['kube-*']}]}\n",
        );
        eventually("the policy excludes the namespaces of the Config", || {
            self.conditions("forbidden") == excluding()
        });
    }

    fn reports_type_checks(&self) {
        step("findings of the API server's type check");
        let found = r#"{"status":{"observedGeneration":OBSERVED,"typeChecking":{"expressionWarnings":[{"fieldRef":"spec.validations[0].expression","warning":"no such field\n | a"}]}}}"#;
        let observed = text(&get(self.cluster, FORBIDDEN), &["metadata", "generation"]);
        let arguments =
            ["patch", POLICY, "gatekeeper-forbidden", "--subresource=status", "--type=merge", "-p"];
        let patch = found.replace("OBSERVED", &observed);
        let arguments = arguments.into_iter().chain([patch.as_str()]);
        let patched = self.cluster.run(arguments, "").expect("kubectl");
        assert!(patched.success, "{}", patched.stderr);
        eventually("the template reports the warning", || {
            self.warning() == "spec.validations[0].expression: no such field | a"
        });
    }

    fn generation_is_switched_off_and_on(&self) {
        step("a template without generation has no policy, and its constraints have no bindings");
        let cluster = self.cluster;
        succeeds(cluster, "apply -f -", &template("Forbidden", "", "generateVAP: false"));
        eventually("policy and binding are gone", || {
            self.is_gone(FORBIDDEN) && self.is_gone(FIRST)
        });
        eventually("the constraint reports that it has no binding, the template nothing", || {
            let entry = status(cluster, "forbidden first");
            let message = "cannot generate ValidatingAdmissionPolicyBinding: conditions are not \
                           satisfied to generate ValidatingAdmissionPolicy and \
                           ValidatingAdmissionPolicyBinding";
            let of_template = status(cluster, "constrainttemplate forbidden");
            each(&entry, &["errors"], "message") == [message]
                && of_template.get("vapGenerationStatus").is_none()
        });
        succeeds(cluster, "apply -f -", &template("Forbidden", "", ""));
        eventually("policy and binding are back", || {
            self.conditions("forbidden") == excluding() && !self.is_gone(FIRST)
        });
    }

    fn keeps_the_policy_of_a_broken_template(&self) {
        step("a template that does not load keeps its policy");
        let broken = template("Forbidden", "", "").replace("variables.params.name\n", "(\n");
        succeeds(self.cluster, "apply -f -", &broken);
        eventually("the template does not load", || {
            self.server.metric("gatekeeper_constraint_templates", "status=\"error\"") == 1
        });
    }

    fn compares_operations_with_the_webhook(&self) {
        step("operations that the webhook does not receive");
        let cluster = self.cluster;
        succeeds(cluster, "create -f -", &webhook("''", "configmaps"));
        succeeds(cluster, "apply -f -", &template("Forbidden", "operations: [UPDATE, DELETE]", ""));
        let mismatch = "operations mismatch between webhook and constraint template";
        eventually("the policy has the operations that both have, with a warning", || {
            self.matched().contains(r#""operations":["UPDATE"]"#) && self.warning() == mismatch
        });
        succeeds(cluster, "apply -f -", &template("Forbidden", "operations: [CONNECT]", ""));
        eventually("the template reports that both have no operation in common", || {
            self.warning()
                == "ValidatingAdmissionPolicy is not generated: no matching operations between \
                    webhook and constraint template"
        });
        let entry = status(cluster, "constrainttemplate forbidden");
        let message = "Could not transform to VAP object: no matching operations between webhook and \
                       constraint template";
        assert_eq!(each(&entry, &["errors"], "message"), [message]);
        assert_eq!(each(&entry, &["errors"], "code"), ["create_error"]);
    }

    fn keeps_objects_of_other_owners(&self) {
        step("objects of other owners are not changed");
        let cluster = self.cluster;
        succeeds(cluster, "create -f -", &template("Taken", "", ""));
        let failing =
            || self.server.metric("gatekeeper_validating_admission_policies", "status=\"error\"");
        eventually("the template reports the owner of the policy", || {
            let entry = status(cluster, "constrainttemplate taken");
            each(&entry, &["errors"], "message")
                == [
                    "Could not update VAP object: `gatekeeper-taken` exists and belongs to Namespace \
                     guarded",
                ]
        });
        assert_eq!(failing(), 2);
        assert_eq!(self.conditions("taken"), ["old"]);
        succeeds(cluster, &format!("delete {POLICY} gatekeeper-taken"), "");
        eventually("once it is deleted, the policy is written", || {
            self.conditions("taken").len() == 5 && failing() == 1
        });
    }

    fn deletes_policies_with_their_templates(&self) {
        step("a template is deleted, and with it its policy and bindings");
        succeeds(self.cluster, "delete constrainttemplate forbidden late taken", "");
        if self.cluster.has_controllers() {
            eventually("all policies and bindings are gone", || {
                succeeds(self.cluster, &format!("get {POLICY},{BINDING} -o name"), "").is_empty()
            });
        }
    }
}

/// An API server without the API: reported, and everything else goes on.
#[test]
fn without_the_api() {
    let flags = [
        "--disable-admission-plugins=ValidatingAdmissionPolicy,ServiceAccount",
        "--runtime-config=admissionregistration.k8s.io/v1/validatingadmissionpolicies=false,\
         admissionregistration.k8s.io/v1/validatingadmissionpolicybindings=false",
    ];
    let options = Options { flags: flags.map(str::to_owned).into() };
    let Some(cluster) = Cluster::start(&options).expect("cluster") else { return };
    install(&cluster);
    let server = serve(&cluster, Duration::ZERO);
    succeeds(&cluster, "create -f -", &template("Forbidden", "", ""));
    let count = |name: &str, status: &str| server.metric(name, &format!("status=\"{status}\""));
    eventually("the template is loaded, the policy reported", || {
        count("gatekeeper_constraint_templates", "active") == 1
            && count("gatekeeper_validating_admission_policies", "error") == 1
    });
    eventually("constraints can be created", || {
        kubectl(&cluster, "apply -f -", &constraint("Forbidden", "first", "")).success
    });
    eventually("the binding is reported", || {
        count("gatekeeper_validating_admission_policy_bindings", "error") == 1
    });
}

/// The templates of the library that are written in CEL, as policies of the API server: each case of
/// their suites is decided as the webhook decides it.
#[test]
fn the_library() {
    let Some(root) = library::find() else { return };
    let Some(cluster) = Cluster::start(&Options::default()).expect("cluster") else { return };
    install(&cluster);
    // As Gatekeeper's manifests have it.
    succeeds(&cluster, "create -f -", &webhook("'*'", "'*', pods/ephemeralcontainers"));
    let started = Instant::now();
    let server = serve(&cluster, Duration::from_secs(1));
    let outcome = server.runtime.block_on(library::compare(&root, &cluster));
    eprintln!(
        "{} templates, {} cases: {} decided alike, {} of them as look-alikes; {:?}",
        outcome.templates,
        outcome.cases,
        outcome.same,
        outcome.look_alikes.len(),
        started.elapsed()
    );
    for (case, reason) in &outcome.not_compared {
        eprintln!("not compared: {case}: {reason}");
    }
    assert_eq!(outcome.different, [""; 0]);
    let made = succeeds(&cluster, &format!("get {POLICY} -o name"), "");
    assert_eq!((outcome.templates, made.lines().count()), (16, 16));
    assert_eq!(outcome.same + outcome.not_compared.len(), outcome.cases);
}
