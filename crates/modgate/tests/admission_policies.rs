//! ValidatingAdmissionPolicies and MutatingAdmissionPolicies through the binary: `review`, `explain`,
//! `plan`, and `verify` of kat's suites (`MODGATE_SUITES`).

#![allow(clippy::expect_used, clippy::panic, clippy::print_stdout, reason = "a test")]

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use modgate_value::Value;
use snapbox::{assert_data_eq, str};

fn modgate(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_modgate"));
    command.args(args).current_dir(folder).env("NO_COLOR", "1");
    command.env_remove("KUBERNETES_SERVICE_HOST").output().expect("modgate runs")
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

const POLICIES: &str = "\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: replicas}
spec:
  paramKind: {apiVersion: v1, kind: ConfigMap}
  matchConstraints:
    resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [deployments]}]
  variables: [{name: wanted, expression: 'int(params.data.most)'}]
  validations:
  - expression: object.spec.replicas <= variables.wanted
    messageExpression: \"'at most ' + string(variables.wanted) + ' replicas'\"
    reason: Forbidden
  auditAnnotations: [{key: seen, valueExpression: 'string(object.spec.replicas)'}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: few}
spec:
  policyName: replicas
  validationActions: [Deny]
  paramRef: {name: limits, namespace: shop, parameterNotFoundAction: Deny}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: limits, namespace: shop}
data: {most: '3'}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: team}
spec:
  reinvocationPolicy: Never
  matchConstraints:
    resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [deployments]}]
  mutations:
  - patchType: ApplyConfiguration
    applyConfiguration:
      expression: 'Object{metadata: Object.metadata{labels: {\"team\": request.namespace}}}'
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: team}
spec: {policyName: team}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: forgotten}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
  validations: [{expression: 'false'}]
---
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: other}
";

fn deployment(replicas: u32) -> String {
    format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: web, namespace: shop}}\n\
         spec: {{replicas: {replicas}}}\n"
    )
}

fn workspace() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir(folder.path().join("policies")).expect("a folder");
    let files = [
        ("policies/all.yaml", POLICIES.to_owned()),
        ("few.yaml", deployment(2)),
        ("many.yaml", deployment(5)),
    ];
    for (name, text) in files {
        fs::write(folder.path().join(name), text).expect("a file");
    }
    folder
}

#[test]
fn review_decides_with_parameters_and_mutates() {
    let folder = workspace();
    let output = modgate(
        folder.path(),
        &["review", "-f", "policies", "many.yaml", "few.yaml", "-o", "json"],
    );
    let notes = errors(&output);
    assert!(notes.contains("no binding names it"), "{notes}");
    assert!(
        notes.contains("`ClusterPolicy` of `kyverno.io/v1` is a policy of another engine"),
        "{notes}"
    );
    let results =
        Value::from_json(&output.stdout).unwrap_or_else(|_| panic!("{}{notes}", out(&output)));
    let [many, few] = results.as_array().expect("a list").as_ref() else { panic!("two results") };
    assert_eq!(output.status.code(), Some(1), "{notes}");
    let denial =
        many.path(&["policies"]).and_then(|denials| denials.at(0)).cloned().expect("a denial");
    let expected = "{\"binding\":\"few\",\"code\":403,\"kind\":\"ValidatingAdmissionPolicy\",\"message\":\
                    \"at most 3 replicas\",\"policy\":\"replicas\",\"reason\":\"Forbidden\"}";
    assert_eq!(denial.to_json(), expected);
    assert_eq!(
        many.get("reason").and_then(Value::as_str),
        Some(
            "ValidatingAdmissionPolicy 'replicas' with binding 'few' denied request: at most 3 replicas"
        )
    );
    assert_eq!(few.get("allowed"), Some(&true.into()));
    assert_eq!(
        few.get("auditAnnotations").map(Value::to_json).as_deref(),
        Some("{\"replicas/seen\":\"2\"}")
    );
    let label = few.path(&["object", "metadata", "labels", "team"]).and_then(Value::as_str);
    assert_eq!(label, Some("shop"));
}

#[test]
fn explain_and_plan_show_what_expressions_saw() {
    let folder = workspace();
    let output = modgate(folder.path(), &["explain", "-f", "policies", "many.yaml"]);
    let text = out(&output);
    for part in [
        "ValidatingAdmissionPolicy",
        "replicas",
        "object.spec.replicas",
        "5",
        "variables.wanted",
        "3",
        "at most 3 replicas",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let output = modgate(folder.path(), &["plan", "-f", "policies", "few.yaml"]);
    assert!(out(&output).contains("replicas"), "{}", out(&output));
}

fn suites() -> Option<PathBuf> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = env::var_os("MODGATE_SUITES").map_or(root.join("../shared/suites"), PathBuf::from);
    let folder = folder.join("admission-policies/kat");
    if folder.is_dir() {
        return Some(folder);
    }
    println!("skipped: there is no {}", folder.display());
    None
}

/// The lines of `verify -v` about cases.
fn cases<'t>(text: &'t str, verdict: &str) -> Vec<&'t str> {
    let start = format!("    --- {verdict}: ");
    text.lines().filter_map(|line| line.strip_prefix(&start)).collect()
}

#[test]
fn suites_of_kat_pass_and_fail_as_they_must() {
    let Some(folder) = suites() else { return };
    let output = modgate(&folder, &["verify", "-v", "test-policies-pass/..."]);
    let text = out(&output);
    assert!(output.status.success(), "{text}{}", errors(&output));
    assert_eq!(cases(&text, "PASS").len(), PASSING, "{text}");
    assert!(cases(&text, "FAIL").is_empty(), "{text}");
    let output = modgate(&folder, &["verify", "-v", "test-policies-fail/..."]);
    let text = out(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert_eq!(cases(&text, "FAIL").len(), FAILING, "{text}");
    assert_eq!(text.lines().filter(|line| line.starts_with("FAIL\t")).count(), 8, "{text}");
}

/// How many tests there are in kat's folder of passing ones.
const PASSING: usize = 47;

/// How many of the 15 in its folder of failing ones fail: in each of its eight policies at least
/// one. The other two, and what they are about, are the same in the folder of passing ones.
const FAILING: usize = 13;

#[test]
fn mutations_are_explained() {
    let folder = workspace();
    let arguments = ["explain", "-f", "policies", "--rule", "team", "few.yaml"];
    assert_data_eq!(
        out(&modgate(folder.path(), &arguments)),
        str![[r#"
Deployment shop/web: allowed, patched (few.yaml:1:1)
  MutatingAdmissionPolicies
    team evaluated, changed (binding team)
      mutations[0] ApplyConfiguration Object{metadata: Object.metadata{labels: {"team": request.namespace}}}
        /metadata/labels becomes {"team":"shop"}
  1 other policy not shown

"#]]
    );
    let planned = modgate(folder.path(), &["plan", "-f", "policies", "-o", "json", "few.yaml"]);
    let planned = Value::from_json(&planned.stdout).expect("JSON");
    let stage = planned.as_array().and_then(|all| all.first()?.get("mutatingPolicies").cloned());
    assert_data_eq!(
        stage.unwrap_or_default().to_json(),
        str![[
            r#"{"fails":false,"steps":[{"again":false,"binding":"team","mutations":[{"changes":[{"after":{"team":"shop"},"path":"/metadata/labels"}],"expression":"Object{metadata: Object.metadata{labels: {/"team/": request.namespace}}}","patchType":"ApplyConfiguration"}],"outcome":"changed","policy":{"group":"admissionregistration.k8s.io","kind":"MutatingAdmissionPolicy","name":"team","namespace":""}}]}"#
        ]]
    );
}

/// SubjectAccessReviews with their answers, and the messages that remain.
type Declared<'t> = (&'t [(&'t str, &'t str)], &'t [&'t str]);

/// Policies with `authorizer` are answered by SubjectAccessReviews among the objects.
#[test]
fn access_is_declared() {
    let folder = tempfile::tempdir().expect("a folder");
    let policy = "\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: who}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [deployments]}]
  validations:
  - expression: authorizer.group('').resource('secrets').namespace('shop').check('get').allowed()
    messageExpression: \"'resource ' + string(request.userInfo.username)\"
  - {expression: authorizer.path('/healthz').check('get').allowed(), message: path}
  - {expression: authorizer.requestResource.check('deploy').allowed(), message: verb}
  - {expression: \"authorizer.serviceAccount('shop', 'robot').group('').resource('pods').check('deploy').allowed()\", message: robot}
  - {expression: \"!authorizer.group('').resource('pods').check('list').errored()\", message: error}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: who}
spec: {policyName: who, validationActions: [Deny]}
";
    let review = |spec: &str, status: &str| {
        format!(
            "---\napiVersion: authorization.k8s.io/v1\nkind: SubjectAccessReview\n\
             spec: {{{spec}}}\nstatus: {{{status}}}\n"
        )
    };
    let request = "apiVersion: admission.k8s.io/v1\nkind: AdmissionReview\nrequest:\n  uid: u\n  \
        operation: CREATE\n  name: web\n  namespace: shop\n  userInfo: {username: ann}\n  \
        kind: {group: apps, version: v1, kind: Deployment}\n  \
        resource: {group: apps, version: v1, resource: deployments}\n  \
        object: {apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: shop}}\n";
    fs::write(folder.path().join("policy.yaml"), policy).expect("a file");
    fs::write(folder.path().join("request.yaml"), request).expect("a file");
    let of_ann = "user: ann, resourceAttributes: {verb: get, resource: secrets, namespace: shop}";
    let path = "nonResourceAttributes: {verb: get, path: /healthz}";
    let deploy = "user: ann, resourceAttributes: {verb: deploy, group: apps, name: web}";
    let robot = "user: 'system:serviceaccount:shop:robot', resourceAttributes: {verb: deploy}";
    let pods = "resourceAttributes: {resource: pods}";
    let yes = "allowed: true";
    let without = ["resource ann", "path", "verb", "robot", "error"];
    let declared: [Declared<'_>; 6] = [
        (&[], &without),
        (&[(of_ann, yes), (path, yes), (deploy, yes), (robot, yes)], &[]),
        (&[(of_ann, "allowed: false"), ("", yes)], &["resource ann"]),
        (&[("user: bob", yes)], &["resource ann", "path", "verb", "robot"]),
        (
            &[(robot, yes), (pods, "evaluationError: broken")],
            &["resource ann", "path", "verb", "error"],
        ),
        (&[(deploy, yes), (path, yes)], &["resource ann", "robot"]),
    ];
    for (reviews, expected) in declared {
        let text: String = reviews.iter().map(|(spec, status)| review(spec, status)).collect();
        fs::write(folder.path().join("access.yaml"), text).expect("a file");
        let arguments = [
            "review",
            "-f",
            "policy.yaml",
            "--objects",
            "access.yaml",
            "request.yaml",
            "-o",
            "json",
        ];
        let output = modgate(folder.path(), &arguments);
        let results =
            Value::from_json(&output.stdout).unwrap_or_else(|_| panic!("{}", errors(&output)));
        let denials = results.at(0).and_then(|it| it.get("policies")?.as_array());
        let messages: Vec<&str> = denials
            .into_iter()
            .flat_map(|all| all.iter())
            .filter_map(|denial| denial.get("message").and_then(Value::as_str))
            .collect();
        assert_eq!(messages, expected, "{reviews:?} {}", errors(&output));
    }
}
