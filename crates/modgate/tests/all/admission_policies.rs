//! ValidatingAdmissionPolicies and MutatingAdmissionPolicies through the binary: `review`, `explain`,
//! `plan`, and `verify` of kat's suites (`MODGATE_SUITES`).

use std::{env, fs, path::PathBuf};

use modgate_value::Value;
use snapbox::{assert_data_eq, str};

use crate::program::{errors, modgate, out};

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
    let [many, few, ..] = results.as_array().expect("a list").as_ref() else {
        panic!("two results")
    };
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

/// Suites name files with policies, bindings and parameters.
#[test]
fn suites_test_them() {
    let folder = workspace();
    let suite = |violations: &str, message: &str, expected: &str| {
        format!(
            "apiVersion: test.gatekeeper.sh/v1alpha1\nkind: Suite\ntests:\n- name: replicas\n  \
             policies: [policies/all.yaml]\n  \
             cases:\n  - name: many\n    object: many.yaml\n    assertions: [{{violations: {violations}, \
             message: '{message}'}}]\n{expected}"
        )
    };
    for (text, error) in [
        (suite("1", "at most 3 replicas", ""), None),
        (suite("no", "", ""), Some("unexpected number of violations: got 1")),
        (
            suite("1", "", "    patch: [{op: add, path: /metadata/labels, value: {team: shop}}]\n"),
            None,
        ),
        (suite("1", "", "    patch: []\n"), Some("unexpected patch: got")),
        (suite("1", "", "    rejected: never\n"), Some("missing rejection: want one")),
    ] {
        fs::write(folder.path().join("suite.yaml"), &text).expect("written");
        let output = modgate(folder.path(), &["verify", "suite.yaml"]);
        let shown = out(&output) + &errors(&output);
        assert_eq!(output.status.success(), error.is_none(), "{text}{shown}");
        assert!(shown.contains(error.unwrap_or_default()), "{text}{shown}");
    }
}

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

/// A policy with one validation, for CREATE of these resources, and its binding.
fn policy(group_version: &str, resources: &str, more: &str, validation: &str) -> String {
    let (group, version) = group_version.rsplit_once('/').unwrap_or(("", group_version));
    format!(
        "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\n\
         metadata: {{name: p}}\nspec:\n  {more}\n  validations: [{{{validation}}}]\n  \
         matchConstraints:\n    resourceRules: [{{apiGroups: ['{group}'], \
         apiVersions: [{version}], operations: [CREATE, CONNECT], resources: [{resources}]}}]\n"
    )
}

fn binding(more: &str) -> String {
    format!(
        "---\napiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicyBinding\n\
         metadata: {{name: b}}\nspec: {{policyName: p, validationActions: [Deny]{more}}}\n"
    )
}

const MAP: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: s}\n";

/// The answers of the API server of Kubernetes 1.36 to the same.
#[test]
fn what_an_api_server_answers() {
    let never = "expression: 'false'";
    let exec = "apiVersion: admission.k8s.io/v1\nkind: AdmissionReview\nrequest:\n  uid: u\n  \
                kind: {group: '', version: v1, kind: PodExecOptions}\n  \
                resource: {group: '', version: v1, resource: pods}\n  subResource: exec\n  \
                name: web\n  namespace: shop\n  operation: CONNECT\n  \
                object: {apiVersion: v1, kind: PodExecOptions, command: [sh]}\n";
    let kind = "paramKind: {apiVersion: v1, kind: ConfigMapz}";
    let optional = ", paramRef: {name: x, parameterNotFoundAction: Allow}";
    let selects = ", matchResources: {namespaceSelector: {matchLabels: \
                   {kubernetes.io/metadata.name: shop}}}";
    let exempt = ", matchResources: {objectSelector: {matchExpressions: \
                  [{key: exempt, operator: DoesNotExist}]}}";
    let generated = "apiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: gen-}\n";
    for (policy, binding, object, expected) in [
        // No selector is empty because a label is not a text.
        (
            policy("v1", "namespaces", "", never),
            binding(", matchResources: {namespaceSelector: {matchLabels: {p: true}}}"),
            MAP.to_owned(),
            Err(
                "spec.matchResources.namespaceSelector.matchLabels.p: expected a string, got the boolean",
            ),
        ),
        // A kind that Kubernetes' own group does not have.
        (
            policy("v1", "configmaps", kind, never),
            binding(optional),
            MAP.to_owned(),
            Ok(Some("failed to find resource referenced by paramKind: '/v1, Kind=ConfigMapz'")),
        ),
        // Every Namespace has the label of its name.
        (
            policy("v1", "configmaps, namespaces", "", never),
            binding(selects),
            "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n".to_owned(),
            Ok(Some("failed expression: false")),
        ),
        // Objects have their namespace, and a name, before admission.
        (
            policy("v1", "configmaps", "", "expression: object.metadata.namespace == 'default'"),
            binding(""),
            MAP.to_owned(),
            Ok(None),
        ),
        (
            policy(
                "v1",
                "configmaps",
                "",
                "expression: 'object.metadata.name == request.name && request.name.startsWith(\"gen-\")'",
            ),
            binding(""),
            generated.to_owned(),
            Ok(None),
        ),
        // `matchPolicy: Equivalent` knows versions that are served.
        (policy("apps/v1beta1", "deployments", "", never), binding(""), deployment(1), Ok(None)),
        // What has no metadata is not selected.
        (policy("v1", "pods/exec", "", never), binding(exempt), exec.to_owned(), Ok(None)),
        (
            policy("v1", "pods/exec", "", never),
            binding(""),
            exec.to_owned(),
            Ok(Some("failed expression: false")),
        ),
        (
            policy("v1", "'*', pods", "", never),
            binding(""),
            MAP.to_owned(),
            Err("if '*' is present, must not specify other resources without subresources"),
        ),
        (
            policy("v1", "pods", "variables: [{name: a-b, expression: '1'}]", never),
            binding(""),
            MAP.to_owned(),
            Err("spec.variables[0].name: Invalid value: \"a-b\": must be a valid CEL identifier"),
        ),
    ] {
        let folder = tempfile::tempdir().expect("folder");
        fs::write(folder.path().join("p.yaml"), policy.clone() + &binding).expect("written");
        fs::write(folder.path().join("o.yaml"), object).expect("written");
        let output = modgate(folder.path(), &["review", "-f", "p.yaml", "o.yaml"]);
        let text = out(&output) + &errors(&output);
        let (code, part) = match expected {
            Ok(None) => (0, "allowed"),
            Ok(Some(denial)) => (1, denial),
            Err(error) => (2, error),
        };
        assert_eq!(output.status.code(), Some(code), "{policy}{binding}{text}");
        assert!(text.contains(part), "{policy}{binding}{text}");
    }
}

/// A Namespace is selected by its own labels, whatever is done to it.
#[test]
fn namespaces_are_selected_by_their_own_labels() {
    let folder = tempfile::tempdir().expect("folder");
    let policies = "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\n\
         metadata: {name: p}\nspec:\n  matchConstraints:\n    namespaceSelector: {matchLabels: {team: a}}\n    \
         resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: ['*'], resources: [namespaces]}]\n  \
         validations: [{expression: 'false'}]\n---\n"
        .to_owned()
        + &binding("");
    fs::write(folder.path().join("p.yaml"), policies).expect("written");
    for (team, code) in [("a", 1), ("b", 0)] {
        let object = format!(
            "apiVersion: v1\nkind: Namespace\nmetadata: {{name: x, labels: {{team: {team}}}}}\n"
        );
        fs::write(folder.path().join("o.yaml"), object).expect("written");
        for operation in ["create", "update", "delete"] {
            let args = ["review", "--operation", operation, "-f", "p.yaml", "o.yaml"];
            let output = modgate(folder.path(), &args);
            assert_eq!(output.status.code(), Some(code), "{operation} {team}: {}", out(&output));
        }
    }
}

/// Kubernetes 1.36 contains cel-go 0.26, Gatekeeper 3.23 contains 0.30 (CEL-1).
#[test]
fn policies_have_the_results_of_their_engine() {
    let folder = tempfile::tempdir().expect("folder");
    for (expression, cluster, gatekeeper) in [
        ("object.data.a.orValue('') == 'x'", None, Some("no such overload")),
        ("double('NaN') < 1.0 || true", None, None),
        ("!(double(object.data.number) < 1.0)", Some("NaN values cannot be ordered"), None),
        (
            "timestamp(object.data.t) < timestamp('2025-01-01T00:00:00Z')",
            None,
            Some("invalid RFC 3339 timestamp"),
        ),
        ("lists.range(-1).size() == 0", None, Some("size must be non-negative")),
        ("object.data.a.indexOf('', 9) == 9", None, Some("failed expression")),
    ] {
        let object = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: s, namespace: shop}\n\
                      data: {a: x, number: NaN, t: '2024-01-01T1:00:00Z'}\n";
        fs::write(folder.path().join("o.yaml"), object).expect("written");
        let rule = format!("expression: {}", serde_json::Value::from(expression));
        let own = policy("v1", "configmaps", "", &rule) + &binding("");
        let template = format!(
            "apiVersion: templates.gatekeeper.sh/v1\nkind: ConstraintTemplate\n\
             metadata: {{name: rule}}\nspec:\n  crd: {{spec: {{names: {{kind: Rule}}}}}}\n  targets:\n  \
             - target: admission.k8s.gatekeeper.sh\n    code:\n    - engine: K8sNativeValidation\n      \
             source: {{validations: [{{{rule}}}]}}\n---\n\
             apiVersion: constraints.gatekeeper.sh/v1beta1\nkind: Rule\nmetadata: {{name: c}}\n"
        );
        for (policies, expected) in [(own, cluster), (template, gatekeeper)] {
            fs::write(folder.path().join("p.yaml"), &policies).expect("written");
            let output = modgate(folder.path(), &["review", "-f", "p.yaml", "o.yaml"]);
            let shown = out(&output) + &errors(&output);
            assert_eq!(output.status.code(), Some(expected.map_or(0, |_| 1)), "{policies}{shown}");
            assert!(expected.is_none_or(|part| shown.contains(part)), "{policies}{shown}");
        }
    }
}

/// The API server drops warnings that no header can have, and gives an audit annotation as Go writes it.
#[test]
fn warnings_of_several_lines() {
    let folder = tempfile::tempdir().expect("folder");
    let several = policy("v1", "configmaps", "", "expression: \"1 == 2 &&\\n true\"");
    let warns = binding("").replace("[Deny]", "[Warn]");
    fs::write(folder.path().join("p.yaml"), several + &warns).expect("written");
    fs::write(folder.path().join("o.yaml"), MAP).expect("written");
    let output = modgate(folder.path(), &["review", "-f", "p.yaml", "o.yaml"]);
    let text = errors(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.contains("its warning has no effect"), "{text}");
    assert!(!(out(&output) + &text).contains("Validation failed"), "{text}");
}

/// The API server stores policies for every operation, and has no type to merge a Scale with.
#[test]
fn mutations_of_what_has_no_type() {
    let folder = tempfile::tempdir().expect("folder");
    let policies = "apiVersion: admissionregistration.k8s.io/v1\nkind: MutatingAdmissionPolicy\n\
        metadata: {name: p}\nspec:\n  reinvocationPolicy: Never\n  matchConstraints:\n    \
        resourceRules: [{apiGroups: ['*'], apiVersions: ['*'], operations: ['*'], \
        resources: ['*/*']}]\n  mutations:\n  - patchType: ApplyConfiguration\n    \
        applyConfiguration: {expression: 'Object{spec: Object.spec{replicas: 3}}'}\n---\n\
        apiVersion: admissionregistration.k8s.io/v1\nkind: MutatingAdmissionPolicyBinding\n\
        metadata: {name: b}\nspec: {policyName: p}\n";
    let review = "apiVersion: admission.k8s.io/v1\nkind: AdmissionReview\nrequest:\n  uid: u\n  \
        kind: {group: autoscaling, version: v1, kind: Scale}\n  \
        resource: {group: apps, version: v1, resource: deployments}\n  subResource: scale\n  \
        name: web\n  namespace: shop\n  operation: UPDATE\n  object: {apiVersion: autoscaling/v1, \
        kind: Scale, metadata: {name: web, namespace: shop}, spec: {replicas: 1}}\n";
    fs::write(folder.path().join("p.yaml"), policies).expect("written");
    fs::write(folder.path().join("o.yaml"), review).expect("written");
    let output = modgate(folder.path(), &["review", "-f", "p.yaml", "o.yaml"]);
    let text = out(&output) + &errors(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    let denial = "policy 'p' with binding 'b' denied request: error applying patch: failed to \
                  convert patch object to typed object: no corresponding type for autoscaling/v1, \
                  Kind=Scale";
    assert!(text.contains(denial), "{text}");
}

#[test]
fn bench_shows_the_cost_of_each_policy() {
    let folder = tempfile::tempdir().expect("folder");
    fs::write(folder.path().join("p.yaml"), POLICIES).expect("written");
    fs::write(folder.path().join("o.yaml"), deployment(2)).expect("written");
    let args = ["bench", "-f", "p.yaml", "-f", "o.yaml", "-n", "5", "--warmup", "1"];
    let output = modgate(folder.path(), &args);
    let text = out(&output);
    assert_eq!(output.status.code(), Some(0), "{text}{}", errors(&output));
    for part in [
        "Benchmark Results: Admission Policies",
        "Policies:            3",
        "Bindings:            2",
        "ValidatingAdmissionPolicy/replicas",
        "MutatingAdmissionPolicy/team",
    ] {
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let part = part.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains(&part), "{part}: {text}");
    }
}

#[test]
fn migrate_lists_policies() {
    let folder = tempfile::tempdir().expect("folder");
    fs::write(folder.path().join("p.yaml"), POLICIES).expect("written");
    let output = modgate(folder.path(), &["migrate", "--check", "p.yaml", "-o", "json"]);
    let report = Value::from_json(out(&output).as_bytes()).expect("JSON");
    let policies = report.get("admissionPolicies").and_then(Value::as_array).expect("a list");
    let shown: Vec<String> = policies
        .iter()
        .map(|it| {
            let text = |path: &[&str]| it.path(path).and_then(Value::as_str).unwrap_or_default();
            format!("{} {}", text(&["object", "name"]), text(&["evaluatedBy"]))
        })
        .collect();
    assert_eq!(shown, ["replicas apiServer", "team apiServer", "forgotten nothing"]);
}

/// `--defaulting` evaluates what the API server stores; without it, a note says where that matters.
#[test]
fn defaults_of_the_api_server() {
    let folder = tempfile::tempdir().expect("folder");
    let quantity = "expression: 'object.spec.containers.all(c, quantity(c.resources.limits.cpu)\
                    .isLessThan(quantity(\"3\"))) && object.spec.restartPolicy == \"Always\"'";
    let text = policy("v1", "pods", "", quantity) + &binding("");
    fs::write(folder.path().join("p.yaml"), text).expect("written");
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: c, \
               image: x, resources: {limits: {cpu: 2}}}]}\n";
    fs::write(folder.path().join("o.yaml"), pod).expect("written");
    let args = ["review", "-f", "p.yaml", "o.yaml", "--defaulting"];
    let with = modgate(folder.path(), &args);
    assert_eq!(with.status.code(), Some(0), "{}{}", out(&with), errors(&with));
    let without = modgate(folder.path(), &args[..4]);
    let text = errors(&without);
    assert_eq!(without.status.code(), Some(1), "{text}");
    assert!(text.contains("With its defaults (`--defaulting`): allowed"), "{text}");
}

/// Policies that warn are findings as constraints that warn are.
#[test]
fn warnings_fail_a_run_that_asks_for_it() {
    let folder = tempfile::tempdir().expect("folder");
    let text = policy("v1", "configmaps", "", "expression: 'false'");
    let warns = binding("").replace("[Deny]", "[Warn, Audit]");
    fs::write(folder.path().join("p.yaml"), text + &warns).expect("written");
    fs::write(folder.path().join("o.yaml"), MAP).expect("written");
    for (more, code) in [(&[][..], 0), (&["--fail-on", "warn"], 1), (&["--max-warnings", "0"], 1)] {
        let args: Vec<&str> =
            ["review", "-f", "p.yaml", "o.yaml"].iter().chain(more).copied().collect();
        let output = modgate(folder.path(), &args);
        assert_eq!(output.status.code(), Some(code), "{more:?} {}", errors(&output));
    }
}

/// The types of custom resources come from their CustomResourceDefinitions.
#[test]
fn custom_resources_are_merged_by_their_definition() {
    let folder = tempfile::tempdir().expect("folder");
    let definition = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n\
        metadata: {name: foos.ex.io}\nspec:\n  group: ex.io\n  scope: Namespaced\n  \
        names: {kind: Foo, plural: foos}\n  versions:\n  - name: v1\n    served: true\n    \
        storage: true\n    schema:\n      openAPIV3Schema:\n        type: object\n        \
        properties:\n          spec:\n            type: object\n            properties:\n              \
        tags: {type: array, x-kubernetes-list-type: set, items: {type: string}}\n---\n";
    let policies = "apiVersion: admissionregistration.k8s.io/v1\nkind: MutatingAdmissionPolicy\n\
        metadata: {name: p}\nspec:\n  reinvocationPolicy: Never\n  matchConstraints:\n    \
        resourceRules: [{apiGroups: [ex.io], apiVersions: [v1], operations: [CREATE], \
        resources: [foos]}]\n  mutations:\n  - patchType: ApplyConfiguration\n    \
        applyConfiguration: {expression: 'Object{spec: Object.spec{tags: [\"b\"]}}'}\n---\n\
        apiVersion: admissionregistration.k8s.io/v1\nkind: MutatingAdmissionPolicyBinding\n\
        metadata: {name: b}\nspec: {policyName: p}\n";
    let foo = "apiVersion: ex.io/v1\nkind: Foo\nmetadata: {name: f}\nspec: {tags: [a]}\n";
    fs::write(folder.path().join("p.yaml"), definition.to_owned() + policies).expect("written");
    fs::write(folder.path().join("o.yaml"), foo).expect("written");
    let output = modgate(folder.path(), &["review", "-f", "p.yaml", "o.yaml", "-o", "yaml"]);
    let text = out(&output) + &errors(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    let tags: Vec<&str> = text.lines().map(str::trim).filter(|it| it.starts_with("- ")).collect();
    assert_eq!(tags, ["- a", "- b"], "{text}");
}
