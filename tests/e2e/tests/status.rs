//! Statuses: what the Pods of an installation say of policies, in a real cluster.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stderr,
    reason = "tests fail by panicking, and their output says why"
)]

use std::{fs, path::PathBuf, time::Duration};

use modgate_cluster::Operation;
use modgate_server::ServeConfig;
use modgate_testkit::{
    cluster::{Cluster, Options},
    corpus,
};
use modgate_value::Value;

use modgate_e2e::{
    Running, client, eventually, free_address, is_ready, kubectl, step, succeeds, until,
};

const NAMESPACE: &str = "gatekeeper-system";

/// All CRDs of an installation, and its namespace.
fn install(cluster: &Cluster) {
    // Scenario 1 of the acceptance scenarios.
    succeeds(cluster, "apply --server-side -f -", &modgate_e2e::our_definitions());
    succeeds(cluster, "wait --for=condition=Established crd --all", "");
    for classic in [
        "assign.mutations",
        "assignimage.mutations",
        "assignmetadata.mutations",
        "configs.config",
        "constraintpodstatuses.status",
        "constrainttemplatepodstatuses.status",
        "constrainttemplates.templates",
        "expansiontemplate.expansion",
        "expansiontemplatepodstatuses.status",
        "modifyset.mutations",
        "mutatorpodstatuses.status",
        "providers.externaldata",
    ] {
        succeeds(cluster, &format!("get crd {classic}.gatekeeper.sh"), "");
    }
    succeeds(cluster, &format!("create namespace {NAMESPACE}"), "");
}

fn pod(cluster: &Cluster, name: &str) {
    let text = format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, namespace: {NAMESPACE}}}\nspec:\n  \
         automountServiceAccountToken: false\n  containers: [{{name: manager, image: none}}]\n"
    );
    succeeds(cluster, "create -f -", &text);
}

/// A process that says it is this Pod.
fn process(cluster: &Cluster, name: &str, operations: &[Operation]) -> Running {
    Running::configured(cluster, |config: &mut ServeConfig| {
        config.pod = (!name.is_empty()).then(|| name.into());
        config.operations = operations.iter().copied().collect();
        // What audits say is written here by the test.
        config.audit.interval = Duration::ZERO;
        // What scenario 30 needs, and nothing else here looks at.
        config.engine.templates.referential_rules = false;
    })
}

fn get(cluster: &Cluster, what: &str) -> Value {
    let outcome = kubectl(cluster, &format!("get {what} -o json"), "");
    if !outcome.success {
        return Value::Null;
    }
    Value::from_json(outcome.stdout.as_bytes()).expect("JSON")
}

/// The reports of the Pods on an object.
fn by_pod(cluster: &Cluster, what: &str) -> Vec<Value> {
    let object = get(cluster, what);
    let entries = object.path(&["status", "byPod"]).and_then(Value::as_array);
    entries.map(|entries| entries.iter().cloned().collect()).unwrap_or_default()
}

fn text<'v>(value: &'v Value, path: &[&str]) -> &'v str {
    value.path(path).and_then(Value::as_str).unwrap_or_default()
}

fn error<'v>(entry: &'v Value, member: &str) -> &'v str {
    let error = entry.get("errors").and_then(|errors| errors.at(0));
    error.and_then(|error| error.get(member)?.as_str()).unwrap_or_default()
}

/// Waits until the entry of each of these Pods is as expected.
fn all_report(
    cluster: &Cluster,
    what: &str,
    pods: &[&str],
    is_so: impl Fn(&Value) -> bool,
) -> Vec<Value> {
    until("each Pod has such an entry", || {
        let entries = by_pod(cluster, what);
        let ids: Vec<&str> = entries.iter().map(|entry| text(entry, &["id"])).collect();
        if ids == pods && entries.iter().all(&is_so) {
            return Ok(entries);
        }
        let all: Vec<String> = entries.iter().map(Value::to_json).collect();
        Err(format!("{what}: {all:?}"))
    })
}

fn template(kind: &str, rego: &str) -> String {
    format!(
        "apiVersion: templates.gatekeeper.sh/v1\nkind: ConstraintTemplate\n\
         metadata: {{name: {name}}}\nspec:\n  crd: {{spec: {{names: {{kind: {kind}}}, validation: \
         {{openAPIV3Schema: {{type: object, properties: {{labels: {{type: array, \
         items: {{type: string}}}}}}}}}}}}}}\n  \
         targets:\n  - target: admission.k8s.gatekeeper.sh\n    rego: |\n      {rego}\n",
        name = kind.to_lowercase(),
        rego = rego.replace('\n', "\n      ")
    )
}

const DENY: &str = "package deny\nviolation[{\"msg\": \"no\"}] { input.parameters.labels }";

fn constraint(kind: &str, name: &str, more: &str) -> String {
    format!(
        "apiVersion: constraints.gatekeeper.sh/v1beta1\nkind: {kind}\nmetadata: {{name: {name}}}\n\
         spec: {{match: {{kinds: [{{apiGroups: [''], kinds: [Namespace]}}]}}{more}}}\n"
    )
}

fn assign(name: &str, location: &str, value: &str) -> String {
    format!(
        "apiVersion: mutations.gatekeeper.sh/v1\nkind: Assign\nmetadata: {{name: {name}}}\nspec:\n  \
         applyTo: [{{groups: [''], versions: [v1], kinds: [Pod]}}]\n  location: '{location}'\n  \
         parameters: {{assign: {{value: {value}}}}}\n"
    )
}

fn expansion(name: &str, from: &str, to: &str) -> String {
    format!(
        "apiVersion: expansion.gatekeeper.sh/v1beta1\nkind: ExpansionTemplate\n\
         metadata: {{name: {name}}}\nspec:\n  applyTo: [{{groups: [x], versions: [v1], \
         kinds: [{from}]}}]\n  templateSource: spec.template\n  \
         generatedGVK: {{group: x, version: v1, kind: {to}}}\n"
    )
}

fn rule(name: &str, select: &str) -> String {
    format!(
        "apiVersion: api.kubemod.io/v1beta1\nkind: ModRule\n\
         metadata: {{name: {name}, namespace: default}}\nspec:\n  type: Reject\n  \
         match: [{{select: '{select}', matchValue: bad}}]\n"
    )
}

/// One test, as CRDs are the cluster's and not a namespace's.
#[test]
fn statuses_of_three_pods() {
    use Operation::{Audit, Generate, MutationStatus, MutationWebhook, Status, Webhook};
    let Some(cluster) = Cluster::shared() else { return };
    install(cluster);
    PODS.iter().for_each(|name| pod(cluster, name));
    leave_a_report(cluster);
    let audit = process(cluster, "audit-0", &[Audit, Generate, MutationStatus, Status, Webhook]);
    let first = process(cluster, "webhook-a", &[Webhook, MutationWebhook]);
    let second = process(cluster, "webhook-b", &[Webhook, MutationWebhook]);

    a_template_is_loaded(cluster);
    refused_before_any_webhook(cluster);
    a_pod_writes_its_report(cluster);
    a_constraint_is_enforced(cluster);
    rego_generates_no_policy(cluster);
    a_constraint_is_refused(cluster);
    templates_that_do_not_load(cluster, &PODS);
    a_template_does_not_compile(cluster);
    mutators_contradict_each_other(cluster);
    expansion_templates_form_a_cycle(cluster);
    a_provider_and_the_config(cluster);
    drop(second);
    a_pod_is_deleted(cluster);
    a_template_is_deleted(cluster);
    drop((audit, first));
}

/// The Pods that write statuses, in the order of their entries.
const PODS: [&str; 3] = ["audit-0", "webhook-a", "webhook-b"];

const DENY_CRD: &str = "crd/k8sdeny.constraints.gatekeeper.sh";

fn is_good(entry: &Value) -> bool {
    entry.get("errors").is_none()
}

fn is_enforced(entry: &Value) -> bool {
    entry.get("enforced") == Some(&true.into()) && is_good(entry)
}

/// Patches the constraint `no-labels`, or its status.
fn patch(cluster: &Cluster, subresource: &str, patch: &str) {
    let arguments = ["patch", "k8sdeny", "no-labels", "--type=merge", "-p", patch, subresource];
    let arguments = arguments.iter().filter(|argument| !argument.is_empty());
    assert!(cluster.run(arguments, "").expect("kubectl").success, "{patch}");
}

fn leave_a_report(cluster: &Cluster) {
    step("reports of a Pod that is gone, without an owner");
    succeeds(
        cluster,
        "create -f -",
        &format!(
            "apiVersion: status.gatekeeper.sh/v1beta1\nkind: ConstraintTemplatePodStatus\n\
             metadata:\n  name: ghost-k8sdeny\n  namespace: {NAMESPACE}\n  labels: \
             {{internal.gatekeeper.sh/pod: ghost, \
             internal.gatekeeper.sh/constrainttemplate-name: k8sdeny}}\nstatus: {{id: ghost}}\n"
        ),
    );
}

fn a_template_is_loaded(cluster: &Cluster) {
    step("Scenario 2: a template, its CRD, and the entries of all Pods");
    succeeds(cluster, "create -f -", &template("K8sDeny", DENY));
    let what = "constrainttemplate k8sdeny";
    let entries = all_report(cluster, what, &PODS, is_good);
    let object = get(cluster, what);
    assert_eq!(object.path(&["status", "created"]), Some(&true.into()));
    for entry in &entries {
        assert_eq!(text(entry, &["templateUID"]), text(&object, &["metadata", "uid"]));
        assert_eq!(entry.get("observedGeneration"), Some(&1.into()));
    }
    let operations = |entry: &Value| entry.get("operations").map(Value::to_json).expect("list");
    assert_eq!(
        operations(&entries[0]),
        r#"["audit","generate","mutation-status","status","webhook"]"#
    );
    assert_eq!(operations(&entries[1]), r#"["mutation-webhook","webhook"]"#);
    succeeds(cluster, &format!("wait --for=condition=Established {DENY_CRD}"), "");
}

fn a_pod_writes_its_report(cluster: &Cluster) {
    eventually("the report of a Pod that is gone is deleted", || {
        let ghost = format!("get constrainttemplatepodstatus ghost-k8sdeny -n {NAMESPACE}");
        !kubectl(cluster, &ghost, "").success
    });
    step("the report of one Pod");
    let report = format!("constrainttemplatepodstatus audit--0-k8sdeny -n {NAMESPACE}");
    let report = get(cluster, &report);
    let labels = report.path(&["metadata", "labels"]).expect("labels").to_json();
    assert_eq!(
        labels,
        r#"{"internal.gatekeeper.sh/constrainttemplate-name":"k8sdeny","internal.gatekeeper.sh/pod":"audit-0"}"#
    );
    let owner = report.path(&["metadata", "ownerReferences"]).and_then(|it| it.at(0));
    let owner = owner.expect("owner");
    assert_eq!(text(owner, &["name"]), "audit-0");
    assert_eq!(owner.get("controller"), None);
}

fn a_constraint_is_enforced(cluster: &Cluster) {
    step("a constraint is enforced, and fields of other writers stay in its status");
    eventually("the constraint can be created", || {
        kubectl(cluster, "apply -f -", &constraint("K8sDeny", "no-labels", "")).success
    });
    let what = "k8sdeny no-labels";
    all_report(cluster, what, &PODS, is_enforced);
    let audited = r#"{"status":{"auditTimestamp":"2026-01-01T00:00:00Z","totalViolations":3,"violations":[{"message":"no"}]}}"#;
    patch(cluster, "--subresource=status", audited);
    patch(cluster, "", r#"{"spec":{"enforcementAction":"dryrun"}}"#);
    let is_second =
        |entry: &Value| is_enforced(entry) && entry.get("observedGeneration") == Some(&2.into());
    all_report(cluster, what, &PODS, is_second);

    step("Scenario 12: defaults are stored");
    let stored = "get k8sdeny plain -o jsonpath={.spec.enforcementAction}";
    succeeds(cluster, "create -f -", &constraint("K8sDeny", "plain", ""));
    assert_eq!(succeeds(cluster, stored, ""), "deny");
    succeeds(cluster, "delete k8sdeny plain", "");
}

fn rego_generates_no_policy(cluster: &Cluster) {
    step("Scenario 88: a template in Rego generates no policy");
    let what = "k8sdeny no-labels";
    let has_no_engine = |entries: &[Value]| {
        let point = entries[0].get("enforcementPointsStatus").and_then(|points| points.at(0));
        point.is_some_and(|point| {
            text(point, &["enforcementPoint"]) == "vap.k8s.io"
                && text(point, &["state"]) == "error"
                && text(point, &["message"]) == "K8sNativeValidation engine is missing"
        })
    };
    eventually("the constraint reports that it has no binding", || {
        has_no_engine(&by_pod(cluster, what))
    });
    let status = get(cluster, what);
    assert_eq!(status.path(&["status", "totalViolations"]), Some(&3.into()));
    assert!(status.path(&["status", "violations"]).is_some());
    let shown = succeeds(cluster, "get constraints", "");
    let line = shown.lines().find(|line| line.contains("no-labels")).expect("it is listed");
    assert!(line.contains("dryrun") && line.split_whitespace().any(|word| word == "3"), "{shown}");
}

fn a_constraint_is_refused(cluster: &Cluster) {
    step("the previous version stays in force, and the status has both generations");
    patch(cluster, "", r#"{"spec":{"enforcementAction":"obey"}}"#);
    let entries = all_report(cluster, "k8sdeny no-labels", &PODS, |entry| {
        entry.get("observedGeneration") == Some(&3.into())
    });
    for entry in &entries {
        let message = error(entry, "message");
        assert!(message.starts_with("could not validate enforcement actions: "), "{message}");
        assert_eq!(error(entry, "code"), "");
        assert_eq!(entry.get("enforced"), Some(&true.into()));
        assert_eq!(entry.get("enforcedGeneration"), Some(&2.into()));
    }
}

fn a_template_does_not_compile(cluster: &Cluster) {
    step("Scenario 3: a template that does not compile");
    let what = "constrainttemplate k8sbroken";
    let broken = template("K8sBroken", "package broken\nviolation[{\"msg\": msg}] {");
    let has_error = |entry: &Value| !error(entry, "code").is_empty();
    succeeds(cluster, "create -f -", &broken);
    for entry in &all_report(cluster, what, &PODS, has_error) {
        assert_eq!(error(entry, "code"), "ingest_error");
        let message = error(entry, "message");
        assert!(message.starts_with("Could not ingest Rego: "), "{message}");
        assert!(error(entry, "location").starts_with("spec.targets[0].rego:"), "{entry}");
    }
    assert_eq!(get(cluster, what).path(&["status", "created"]), None);
    succeeds(cluster, "apply -f -", &template("K8sBroken", DENY));
    all_report(cluster, what, &PODS, is_good);

    step("its next version does not compile: the one before stays in force, as a column shows");
    succeeds(cluster, "apply -f -", &broken);
    for entry in &all_report(cluster, what, &PODS, has_error) {
        let message = error(entry, "message");
        let beginning = "Could not ingest Rego: generation 2 of the template stays in force; ";
        assert!(message.starts_with(beginning), "{message}");
    }
    let shown = succeeds(cluster, "get constrainttemplates", "");
    let line = shown.lines().find(|line| line.contains("k8sbroken")).expect("it is listed");
    assert!(line.contains("generation 2 of the template stays in force"), "{shown}");
}

fn mutators_contradict_each_other(cluster: &Cluster) {
    step("mutators contradict each other, and then they do not");
    succeeds(cluster, "create -f -", &assign("one", "spec.a.b", "1"));
    all_report(cluster, "assign one", &PODS, is_enforced);
    succeeds(cluster, "create -f -", &assign("two", "spec.a[name: x].b", "1"));
    let conflicts = |entry: &Value| {
        error(entry, "type") == "ErrConflictingSchema"
            && entry.get("enforced") == Some(&false.into())
    };
    all_report(cluster, "assign one", &PODS, conflicts);
    all_report(cluster, "assign two", &PODS, conflicts);
    succeeds(cluster, "delete assign two", "");
    all_report(cluster, "assign one", &PODS, is_enforced);
}

fn expansion_templates_form_a_cycle(cluster: &Cluster) {
    step("a cycle of expansion templates");
    succeeds(cluster, "create -f -", &expansion("there", "A", "B"));
    all_report(cluster, "expansiontemplate there", &PODS, is_good);
    succeeds(cluster, "create -f -", &expansion("back", "B", "A"));
    let is_cyclic = |entry: &Value| error(entry, "message") == "template forms expansion cycle";
    all_report(cluster, "expansiontemplate there", &PODS, is_cyclic);
    all_report(cluster, "expansiontemplate back", &PODS, is_cyclic);
}

fn a_provider_and_the_config(cluster: &Cluster) {
    step("a Provider");
    let provider = "apiVersion: externaldata.gatekeeper.sh/v1beta1\nkind: Provider\n\
        metadata: {name: images}\nspec: {url: 'http://example.com', timeout: 1, caBundle: ''}\n";
    succeeds(cluster, "create -f -", provider);
    let entries = all_report(cluster, "provider images", &PODS, |entry| {
        entry.get("active") == Some(&false.into())
    });
    for entry in &entries {
        assert_eq!(error(entry, "message"), "only HTTPS scheme is supported for Providers");
        assert_eq!(error(entry, "type"), "UpsertCache");
        assert!(error(entry, "errorTimestamp").ends_with('Z'));
        assert!(text(entry, &["lastTransitionTime"]).ends_with('Z'));
    }

    step("the Config");
    let config = format!(
        "apiVersion: config.gatekeeper.sh/v1alpha1\nkind: Config\n\
         metadata: {{name: config, namespace: {NAMESPACE}}}\nspec: {{}}\n"
    );
    succeeds(cluster, "create -f -", &config);
    let what = format!("config.config.gatekeeper.sh config -n {NAMESPACE}");
    all_report(cluster, &what, &PODS, is_good);
}

/// Deletes the last Pod, whose process has stopped.
fn a_pod_is_deleted(cluster: &Cluster) {
    step("Scenario 86: a Pod is deleted, and with it its entries");
    succeeds(cluster, &format!("delete pod webhook-b -n {NAMESPACE} --force --grace-period=0"), "");
    if cluster.has_controllers() {
        all_report(cluster, "constrainttemplate k8sdeny", &PODS[..2], is_good);
        all_report(cluster, "k8sdeny no-labels", &PODS[..2], |_| true);
        all_report(cluster, "assign one", &PODS[..2], is_enforced);
    }
}

fn a_template_is_deleted(cluster: &Cluster) {
    step(
        "Scenario 85: a template is deleted, and with it its CRD, its constraint and the reports on that",
    );
    succeeds(cluster, "delete constrainttemplate k8sdeny", "");
    if cluster.has_controllers() {
        let reports = format!("constraintpodstatuses -n {NAMESPACE}");
        eventually("the reports on its constraint are gone", || {
            let all = get(cluster, &reports);
            let items = all.get("items").and_then(Value::as_array).expect("items");
            !items.iter().any(|item| {
                let pod = text(item, &["metadata", "labels", "internal.gatekeeper.sh/pod"]);
                pod != "webhook-b"
            })
        });
        let get_crd = format!("get {DENY_CRD}");
        eventually("its CRD is gone", || !kubectl(cluster, &get_crd, "").success);
    }
}

/// The errors of the API server, or of kubectl, before any webhook is called.
fn refused_before_any_webhook(cluster: &Cluster) {
    // Scenario 4, Scenario 16, Scenario 66.
    for (constraint, expected) in [
        (
            constraint("K8sRequiredLabels", "sample", ""),
            "no matches for kind \"K8sRequiredLabels\" in version \"constraints.gatekeeper.sh/v1beta1\"",
        ),
        (
            constraint("K8sDeny", "x", ", parameters: {labels: x}"),
            "spec.parameters.labels: Invalid value: \"string\": spec.parameters.labels in body must be \
             of type array: \"string\"",
        ),
        (
            constraint("K8sDeny", "c", "").replace("match: {", "match: {namespaces: [foo.bar], "),
            "spec.match.namespaces[0]: Invalid value: \"foo.bar\": spec.match.namespaces[0] in body \
             should match '^\\*?[-:a-z0-9]*\\*?$'",
        ),
    ] {
        let outcome = kubectl(cluster, "apply -f -", &constraint);
        assert!(!outcome.success && outcome.stderr.contains(expected), "{outcome:?}");
    }
}

/// The templates of Scenario 26, Scenario 27, Scenario 28, Scenario 29, Scenario 30, Scenario 31,
/// Scenario 32, Scenario 33, Scenario 34 and Scenario 36: what each Pod says of them.
fn templates_that_do_not_load(cluster: &Cluster, pods: &[&str]) {
    let file = corpus::repository().join("conformance/validation.json");
    let file = Value::from_json(&fs::read(file).expect("read")).expect("JSON");
    let list = |value: &Value, key: &str| -> Vec<Value> {
        let list = value.get(key).and_then(Value::as_array);
        list.map(|list| list.iter().cloned().collect()).unwrap_or_default()
    };
    let mut expected = Vec::new();
    for scenario in list(&file, "scenarios") {
        let number = scenario.get("id").and_then(Value::as_i64).expect("a number");
        if !(26..=34).contains(&number) && number != 36 {
            continue;
        }
        let mut problem = String::new();
        for step in list(&scenario, "steps") {
            let problems = list(&step, "problems");
            if problems.is_empty() && !problem.is_empty() {
                // Repaired.
                break;
            }
            let is_template = |it: &&Value| text(it, &["kind"]) == "ConstraintTemplate";
            for template in list(&step, "load").iter().filter(is_template) {
                let own = template.to_json();
                let own = own.replace(r#""name":"foo""#, &format!(r#""name":"foo{number}""#));
                let own = own.replace(r#""kind":"Foo""#, &format!(r#""kind":"Foo{number}""#));
                succeeds(cluster, "apply -f -", &own);
            }
            let first = problems.first().and_then(|it| it.get("contains")?.at(0)?.as_str());
            problem = first.unwrap_or_default().to_owned();
        }
        assert!(!problem.is_empty(), "{number}");
        expected.push((number, problem));
    }
    assert_eq!(expected.len(), 10);
    for (number, problem) in expected {
        let what = format!("constrainttemplate foo{number}");
        let entries = all_report(cluster, &what, pods, |entry| !error(entry, "code").is_empty());
        for entry in entries {
            assert_eq!(error(&entry, "code"), "ingest_error", "{entry}");
            let message = error(&entry, "message");
            assert!(message.starts_with("Could not ingest Rego: "), "{number}: {message}");
            assert!(message.contains(&problem), "{number}: {message}, not {problem}");
        }
        succeeds(cluster, &format!("delete {what}"), "");
    }
}

/// The cost of the statuses of many ModRules; people can read them and wait for them.
#[test]
fn statuses_of_a_thousand_rules() {
    let audit = tempfile::tempdir().expect("folder");
    let (policy, log) = (audit.path().join("policy.yaml"), audit.path().join("audit.log"));
    let text_of_policy = "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\n\
        rules: [{level: Metadata, verbs: [create, update, patch, delete], resources: \
        [{group: api.kubemod.io}]}]\n";
    fs::write(&policy, text_of_policy).expect("written");
    let options = Options {
        flags: vec![
            format!("--audit-policy-file={}", policy.display()),
            format!("--audit-log-path={}", log.display()),
        ],
    };
    let Some(cluster) = Cluster::start(&options).expect("cluster") else { return };
    let rules = Rules { cluster, log };
    install(&rules.cluster);
    rules.store_an_earlier_version();
    let server = process(&rules.cluster, "", &[]);
    rules.report_whether_they_are_loaded();
    rules.a_broken_rule_is_repaired();
    let first = rules.writes();
    assert!((RULES..RULES + 50).contains(&first), "{first} writes for {RULES} rules");
    drop(server);
    let later = process(&rules.cluster, "", &[]);
    rules.are_not_written_again(first);
    rules.of_kubemods_definition_have_no_status(&later);
    drop(later);
    a_broken_template_delays_readiness(&rules.cluster);
}

const RULES: usize = 1000;

/// Versions in which a CRD's objects are stored, with an earlier one.
const EARLIER: &str = r#"{"status":{"storedVersions":["v1alpha1","v1"]}}"#;

const ASSIGN: &str = "crd/assign.mutations.gatekeeper.sh";
const MODIFY_SET: &str = "crd/modifyset.mutations.gatekeeper.sh";

/// A cluster with many rules.
struct Rules {
    cluster: Cluster,
    /// The writes of rules and of their statuses, a line each.
    log: PathBuf,
}

impl Rules {
    fn wait(&self, condition: &str, of: &str) {
        let wait = format!("wait --for=condition={condition} --timeout=60s modrule/{of}");
        succeeds(&self.cluster, &wait, "");
    }

    /// How many requests to the API server have this in their line of the audit log.
    fn logged(&self, part: &str) -> usize {
        let text = fs::read_to_string(&self.log).expect("audit log");
        text.lines().filter(|line| line.contains(part)).count()
    }

    /// How often a status was written.
    fn writes(&self) -> usize {
        self.logged(r#""subresource":"status""#)
    }

    fn patch_versions(&self, definition: &str) {
        let patch = ["patch", definition, "--subresource=status", "--type=merge", "-p", EARLIER];
        assert!(self.cluster.run(patch, "").expect("kubectl").success);
    }

    fn is_stored_anew(&self, definition: &str) -> bool {
        let stored = format!("get {definition} -o jsonpath={{.status.storedVersions}}");
        succeeds(&self.cluster, &stored, "") == r#"["v1"]"#
    }

    fn store_an_earlier_version(&self) {
        step("Q-31: objects are stored in an earlier version");
        self.patch_versions(ASSIGN);
        let old = assign("old", "spec.a", "1").replace("/v1", "/v1alpha1");
        succeeds(&self.cluster, "create -f -", &old);
    }

    fn report_whether_they_are_loaded(&self) {
        let cluster = &self.cluster;
        let rules: Vec<String> =
            (0..RULES).map(|index| rule(&format!("rule-{index}"), "$.metadata.name")).collect();
        succeeds(cluster, "create -f -", &rules.join("---\n"));
        let broken = rule("broken", "$.metadata[").replace("default", "kube-public");
        succeeds(cluster, "create -f -", &broken);

        step("kubectl waits for the condition");
        let loaded = "get modrules -n default -o jsonpath={.items[*].status.conditions[?(@.type=='Loaded')].status}";
        eventually("all rules report that they are loaded", || {
            let said = succeeds(cluster, loaded, "");
            said.split_whitespace().filter(|status| *status == "True").count() == RULES
        });
        self.wait("Loaded", "rule-7 -n default");
        self.wait("Loaded=False", "broken -n kube-public");
        let broken = get(cluster, "modrule broken -n kube-public");
        let condition = broken.path(&["status", "conditions"]).and_then(|it| it.at(0));
        let condition = condition.expect("one");
        assert_eq!(text(condition, &["reason"]), "Invalid");
        let message = text(condition, &["message"]);
        assert!(message.starts_with("spec.match[0].select (character "), "{message}");
        assert_eq!(broken.path(&["status", "observedGeneration"]), Some(&1.into()));
        let shown = succeeds(cluster, "get modrules -n kube-public", "");
        let line = shown.lines().nth(1).expect("a line");
        assert!(line.starts_with("broken") && line.contains("False"), "{shown}");
    }

    fn a_broken_rule_is_repaired(&self) {
        step("a broken rule is repaired");
        let repaired = rule("broken", "$.metadata.name").replace("default", "kube-public");
        succeeds(&self.cluster, "apply -f -", &repaired);
        self.wait("Loaded", "broken -n kube-public");
    }

    fn are_not_written_again(&self, first: usize) {
        step("one write each, and none by a second process");
        succeeds(&self.cluster, "create -f -", &rule("last", "$.kind"));
        self.wait("Loaded", "last -n default");
        let second = self.writes() - first;
        assert!(second < 10, "{second} writes for one rule more");
        eventually("only the storage version is left", || self.is_stored_anew(ASSIGN));
        eprintln!("{first} writes for {RULES} rules, {second} after a restart for one more");
    }

    fn of_kubemods_definition_have_no_status(&self, server: &Running) {
        step("KubeMod's own CRD has no status: modgate writes none, and does not wait for one");
        let cluster = &self.cluster;
        let without = r#"[{"op":"remove","path":"/spec/versions/0/subresources"}]"#;
        let patch = ["patch", "crd", "modrules.api.kubemod.io", "--type=json", "-p", without];
        assert!(cluster.run(patch, "").expect("kubectl").success);
        // A process that stores these anew has seen all changes of CRDs before.
        self.patch_versions(MODIFY_SET);
        eventually("the process has seen the change of the CRD", || {
            self.is_stored_anew(MODIFY_SET)
        });
        succeeds(cluster, "create -f -", &rule("kubemods", "$.kind"));
        let rules = || server.metric("modgate_policies", r#"kind="ModRule""#);
        eventually("the rule is in force", || rules() == RULES as u64 + 3);
        // Longer than a status takes.
        std::thread::sleep(Duration::from_millis(500));
        assert_eq!(self.logged("/modrules/kubemods/status"), 0);

        step("with modgate's CRD the status is written");
        let definitions = modgate_e2e::our_definitions();
        succeeds(cluster, "apply --server-side --force-conflicts -f -", &definitions);
        self.wait("Loaded", "kubemods -n default");
    }
}

fn a_broken_template_delays_readiness(cluster: &Cluster) {
    step("Scenario 84: a broken template delays readiness only with the flag");
    let broken = template("K8sBroken", "package broken\nviolation[{");
    succeeds(cluster, "create -f -", &broken);
    let start = |waits: bool| {
        let health = free_address().expect("port");
        let server = Running::configured(cluster, |config: &mut ServeConfig| {
            config.waits_for_broken_policies = waits;
            config.addresses.health = Some(health.to_string());
        });
        (server, health)
    };
    let (_server, health) = start(false);
    eventually("ready without it", || is_ready(health));
    let (_waiting, health) = start(true);
    eventually("it logs the objects that it waits for", || {
        let ready = client::get(health, "/readyz?verbose").unwrap_or_default();
        ready.status == 500
            && ready.body.contains("policies do not load: ConstraintTemplate k8sbroken")
    });
    succeeds(cluster, "apply -f -", &template("K8sBroken", DENY));
    eventually("ready when it is repaired", || is_ready(health));
    succeeds(cluster, "apply -f -", &broken);
    let what = "constrainttemplate k8sbroken";
    eventually("the template has generation 3", || {
        get(cluster, what).path(&["metadata", "generation"]) == Some(&3.into())
    });
    assert!(is_ready(health), "what comes later does not count");
}
