//! `modgate convert` through the binary: policies of the cluster to templates and back, with the proof over
//! invented requests.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Output,
};

use modgate_value::Value;

use crate::program::{errors, modgate, out};

const RULES: &str = "resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE, UPDATE], \
                     resources: [deployments, statefulsets]}]";

/// A policy that templates say in full.
fn policy(rules: &str, more: &str, validation: &str) -> String {
    format!(
        "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\n\
         metadata: {{name: replicas.example.com}}\nspec:\n  paramKind: {{apiVersion: v1, kind: ConfigMap}}\n  \
         matchConstraints: {{{rules}}}\n{more}  validations:\n  {validation}\n---\n\
         apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: limits, namespace: shop}}\ndata: {{most: '3'}}\n"
    )
}

fn binding(name: &str, more: &str) -> String {
    format!(
        "---\napiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicyBinding\n\
         metadata: {{name: {name}}}\nspec:\n  policyName: replicas.example.com\n  paramRef: {{name: limits, \
         namespace: shop, parameterNotFoundAction: Allow}}\n{more}"
    )
}

const VALIDATION: &str = "- {expression: 'object.spec.replicas <= int(params.data.most)', messageExpression: \
     \"'at most ' + params.data.most\", reason: Forbidden}";

fn converted(text: &str, to: &str) -> (Output, Vec<Value>) {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("in.yaml"), text).expect("written");
    let args = ["convert", "--to", to, "-f", "in.yaml", "-o", "json"];
    let output = modgate(folder.path(), &args);
    let list = Value::from_json(&output.stdout).unwrap_or_default();
    let items = list.get("items").and_then(Value::as_array);
    (output, items.into_iter().flat_map(|items| items.iter()).cloned().collect())
}

#[test]
fn policies_become_templates_and_decide_the_same() {
    let more = "  matchConditions: [{name: named, expression: \"!has(request.name) || request.name != 'x'\"}]\n  \
                variables: [{name: replicas, expression: 'has(object.spec.replicas) ? object.spec.replicas : 1'}]\n";
    for (rules, actions, matched, action) in [
        (RULES, "Deny", "", "deny"),
        (RULES, "Warn", "", "warn"),
        (RULES, "Audit", "", "dryrun"),
        (
            "resourceRules: [{apiGroups: ['*'], apiVersions: ['*'], operations: ['*'], resources: ['*']}]",
            "Deny",
            "",
            "deny",
        ),
        (
            "resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [pods]}, \
             {apiGroups: [apps], apiVersions: ['*'], operations: [DELETE], resources: ['*'], scope: Namespaced}], \
             excludeResourceRules: [{apiGroups: [apps], apiVersions: ['*'], operations: ['*'], resources: [daemonsets]}]",
            "Deny",
            "",
            "deny",
        ),
        (
            "objectSelector: {matchLabels: {app: web}}, resourceRules: [{apiGroups: ['', apps], apiVersions: [v1], \
             operations: ['*'], resources: [pods, deployments, namespaces]}]",
            "Deny",
            "  matchResources: {namespaceSelector: {matchExpressions: [{key: team, operator: In, values: [a, b]}]}}\n",
            "deny",
        ),
        (
            RULES,
            "Deny",
            "  matchResources: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE], \
             resources: [deployments]}]}\n",
            "deny",
        ),
    ] {
        let validation = VALIDATION.replace("object.spec.replicas <=", "variables.replicas <=");
        let text = policy(rules, more, &validation)
            + &binding("few", &format!("  validationActions: [{actions}]\n{matched}"));
        let (output, objects) = converted(&text, "template");
        // Audits of the API server also write annotations.
        let audits = actions == "Audit";
        let told = errors(&output);
        assert_eq!(output.status.code(), Some(i32::from(audits)), "{rules} {matched} {told}");
        assert!(told.contains(" 0 decided otherwise"), "{told}");
        if rules != RULES || matched.is_empty() {
            assert!(!told.contains("requests: 0 with a finding"), "{rules} {told}");
        }
        let kinds: Vec<_> =
            objects.iter().filter_map(|it| it.get("kind").and_then(Value::as_str)).collect();
        assert_eq!(kinds.len(), 2, "{kinds:?}");
        let given = objects.get(1).and_then(|it| it.path(&["spec", "enforcementAction"])?.as_str());
        assert_eq!(given, Some(action), "{told}");
    }
}

#[test]
fn what_cannot_be_said_is_listed() {
    let base = |validation: &str, more: &str, of_binding: &str| {
        policy(RULES, more, validation) + &binding("few", of_binding)
    };
    let deny = "  validationActions: [Deny]\n";
    for (text, is_converted, lines) in [
        (
            base("- {expression: \"authorizer.group('').resource('pods').check('get').allowed()\"}", "", deny),
            false,
            vec!["spec.validations[0].expression: templates have no `authorizer`"],
        ),
        (
            base("- {expression: 'true', reason: RequestEntityTooLarge}", "  auditAnnotations: [{key: a, valueExpression: \"'b'\"}]\n", deny),
            true,
            vec![
                "spec.auditAnnotations[0]: templates write no audit annotations",
                "spec.validations[0].reason: a denial by a constraint is Forbidden (403)",
            ],
        ),
        (
            base(VALIDATION, "  variables: [{name: params, expression: '1'}]\n", deny),
            false,
            vec!["spec.variables[0].name: templates keep the name `params` for themselves"],
        ),
        (
            base(VALIDATION, "  matchConditions: [{name: a, expression: namespaceObject == null}]\n", deny),
            true,
            vec!["spec.matchConditions[0].expression: `namespaceObject` is null in match conditions"],
        ),
        (
            base(VALIDATION, "", "  validationActions: [Deny, Audit]\n"),
            true,
            vec!["spec.validationActions: constraints write no audit annotations"],
        ),
        (
            base(VALIDATION, "", deny).replace("name: limits, namespace: shop, param", "name: none, namespace: shop, param"),
            true,
            vec!["spec.paramRef: the input has no such object"],
        ),
        (
            policy("resourceRules: [{apiGroups: [example.com], apiVersions: [v1], operations: [CREATE], resources: [limits]}]", "", VALIDATION),
            false,
            vec!["spec.matchConstraints.resourceRules[0].resources: the kind of the resource `limits` is not known"],
        ),
        (
            "apiVersion: admissionregistration.k8s.io/v1\nkind: MutatingAdmissionPolicy\nmetadata: {name: m}\n\
             spec: {reinvocationPolicy: Never, matchConstraints: {resourceRules: [{apiGroups: [''], apiVersions: [v1], \
             operations: [CREATE], resources: [pods]}]}, mutations: [{patchType: ApplyConfiguration, \
             applyConfiguration: {expression: 'Object{}'}}]}\n"
                .to_owned(),
            false,
            vec!["spec.mutations: Gatekeeper's mutators assign values to fields; they have no CEL"],
        ),
    ] {
        let (output, objects) = converted(&text, "template");
        let told = errors(&output);
        assert_eq!(output.status.code(), Some(1), "{told}");
        for line in lines {
            assert!(told.contains(line), "{line}: {told}");
        }
        assert_eq!(!objects.is_empty(), is_converted, "{told}");
        assert_eq!(told.contains(": not converted"), !is_converted, "{told}");
    }
}

#[test]
fn exit_codes_and_formats() {
    let text = policy(RULES, "", VALIDATION) + &binding("few", "  validationActions: [Deny]\n");
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("in.yaml"), &text).expect("written");
    let output = modgate(folder.path(), &["convert", "--to", "template", "-f", "in.yaml"]);
    assert_eq!(output.status.code(), Some(0), "{}", errors(&output));
    assert!(out(&output).contains("kind: ReplicasExampleCom\n"), "{}", out(&output));
    assert!(out(&output).contains("int(variables.params.data.most)"), "{}", out(&output));
    // The other way: there is no template in the input.
    let output = modgate(folder.path(), &["convert", "--to", "vap", "-f", "in.yaml"]);
    assert_eq!(output.status.code(), Some(2), "{}", errors(&output));
    fs::write(folder.path().join("in.yaml"), text.replace("object.spec", "objec.spec"))
        .expect("written");
    let output = modgate(folder.path(), &["convert", "--to", "template", "-f", "in.yaml"]);
    assert_eq!(output.status.code(), Some(2), "{}", errors(&output));
    assert!(errors(&output).contains("undeclared reference to 'objec'"), "{}", errors(&output));
}

/// A policy that became a template becomes a policy again, and this one the same template; each step decides the same.
#[test]
fn conversions_go_both_ways() {
    // A generated policy always has one.
    let mut documents = policy(RULES, "  failurePolicy: Fail\n", VALIDATION)
        + &binding("few", "  validationActions: [Deny]\n");
    let mut templates = Vec::new();
    for to in ["template", "vap", "template"] {
        let (output, objects) = converted(&documents, to);
        let report = errors(&output);
        assert!(report.contains(" 0 decided otherwise"), "{report}");
        assert!(!report.contains("requests: 0 with a finding"), "{report}");
        documents = objects.iter().map(|it| format!("{}\n---\n", it.to_json())).collect();
        if to == "template" {
            templates.push(documents.clone());
        }
    }
    assert_eq!(templates.first(), templates.last());
}

/// The parts of a generated policy that its template does not express are listed.
#[test]
fn generated_policies_list_what_is_not_their_templates() {
    let (_, objects) = converted(
        &(policy(RULES, "", VALIDATION) + &binding("few", "  validationActions: [Deny]\n")),
        "template",
    );
    let documents: String = objects.iter().map(|it| format!("{}\n---\n", it.to_json())).collect();
    let (_, objects) = converted(&documents, "vap");
    let without = |group: &str| -> String {
        let start = format!("{{\"apiVersion\":\"{group}/");
        let kept = objects.iter().map(Value::to_json).filter(|it| !it.starts_with(&start));
        kept.map(|it| format!("{it}\n---\n")).collect()
    };
    let documents: String = objects.iter().map(|it| format!("{}\n---\n", it.to_json())).collect();
    let own = r#""matchConditions":[{"name":"own","expression":"true"},"#;
    let excluded = documents.replace(
        r#""matchConditions":["#,
        &own.replace("own", "gatekeeper_internal_match_global_excluded_namespaces"),
    );
    let rules = documents.replace(r#""apiGroups":["*"]"#, r#""apiGroups":["apps"]"#);
    let actions = documents
        .replace(r#""validationActions":["Deny"]"#, r#""validationActions":["Audit","Warn"]"#);
    for (documents, loss) in [
        (without("apiextensions.k8s.io"), "spec.paramKind: the input has no"),
        (without("constraints.gatekeeper.sh"), ": the input has no such constraint"),
        (excluded, "spec.matchConditions[0]: the Config and the flags"),
        (rules, "spec.matchConstraints: the webhook configuration has rules"),
        (actions, "spec.validationActions: differs from the action of the constraint"),
    ] {
        let (output, _) = converted(&documents, "template");
        assert_eq!(output.status.code(), Some(1), "{}", errors(&output));
        assert!(errors(&output).contains(loss), "{loss}: {}", errors(&output));
    }
}

/// Every policy of kubescape (`MODGATE_SUITES`) that can be said as a template decides the same as one.
#[test]
fn the_policies_of_kubescape_become_templates() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/suites");
    let root = env::var_os("MODGATE_SUITES").map_or(root, PathBuf::from);
    let folder = root.join("admission-policies/kubescape");
    if !folder.is_dir() {
        println!("skipped: there is no {}", folder.display());
        return;
    }
    let mut text = String::new();
    let mut controls: Vec<_> =
        fs::read_dir(&folder).expect("a folder").map(|it| it.expect("an entry").path()).collect();
    controls.sort();
    let mut count = 0;
    for policy in controls.iter().map(|path| path.join("policy.yaml")).filter(|it| it.is_file()) {
        let policy = fs::read_to_string(&policy).expect("a policy");
        let name =
            policy.lines().find_map(|line| line.trim().strip_prefix("name: ")).expect("a name");
        let name = name.trim_matches('"').to_owned();
        text.push_str(&format!(
            "---\n{policy}\n---\napiVersion: admissionregistration.k8s.io/v1\n\
             kind: ValidatingAdmissionPolicyBinding\nmetadata: {{name: b-{count}}}\nspec: {{policyName: {name}, \
             validationActions: [Deny], paramRef: {{name: defaults, parameterNotFoundAction: Deny}}}}\n"
        ));
        count += 1;
    }
    assert_eq!(count, 60, "policies disappeared");
    let crd = fs::read_to_string(folder.join("crd.yaml")).expect("the definition");
    let param = fs::read_to_string(folder.join("default-control-configuration.yaml")).expect("one");
    let param = param.lines().map(|line| match line.trim_start().strip_prefix("name: ") {
        Some(_) if line.starts_with("  name: ") => "  name: defaults".to_owned(),
        _ => line.to_owned(),
    });
    let param: Vec<_> = param.collect();
    text.push_str(&format!("---\n{crd}\n---\n{}\n", param.join("\n")));
    let (output, objects) = converted(&text, "template");
    let told = errors(&output);
    let done = told.matches(": converted").count();
    println!("{done} of {count} policies, {} objects", objects.len());
    let other = told.lines().filter(|line| line.contains("decided otherwise"));
    let other: Vec<_> = other.filter(|line| !line.contains(" 0 decided otherwise")).collect();
    assert!(other.is_empty(), "{told}");
    assert!(done * 10 >= count * 9 && done > 10, "{done} of {count}: {told}");
}
