//! The binary as people run it: standard output, standard error and exit code.
//!
//! Update the expectations with `SNAPSHOTS=overwrite cargo test -p modgate --test all cli`.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use snapbox::{assert_data_eq, str};
use tempfile::TempDir;

/// A folder with the quickstart in it, where every test runs.
struct Workspace(TempDir);

impl Workspace {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("dir");
        let quickstart = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/quickstart");
        fs::create_dir(dir.path().join("quickstart")).expect("folder");
        for entry in fs::read_dir(quickstart).expect("quickstart") {
            let path = entry.expect("entry").path();
            let name = path.file_name().expect("name");
            fs::copy(&path, dir.path().join("quickstart").join(name)).expect("copy");
        }
        Self(dir)
    }

    fn with(self, name: &str, text: &str) -> Self {
        fs::write(self.0.path().join(name), text).expect("write");
        self
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_modgate"));
        command.args(args).current_dir(self.0.path()).env_remove("NO_COLOR");
        // As on the machine of a person, wherever the tests run.
        command.env_remove("KUBERNETES_SERVICE_HOST");
        command
    }

    /// Exit code, standard output and standard error of a run.
    fn run(&self, args: &[&str]) -> String {
        self.run_with(args, "")
    }

    fn run_with(&self, args: &[&str], stdin: &str) -> String {
        let mut child = self
            .command(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("modgate");
        child.stdin.take().expect("stdin").write_all(stdin.as_bytes()).expect("stdin");
        let output = child.wait_with_output().expect("modgate");
        let text = |bytes| String::from_utf8(bytes).expect("text");
        let mut shown = format!("exit {}\n", output.status.code().expect("code"));
        shown += &text(output.stdout);
        let stderr = text(output.stderr);
        if !stderr.is_empty() {
            shown += "--- stderr\n";
            shown += &stderr;
        }
        shown
    }
}

const BROKEN: &str = "\
apiVersion: api.kubemod.io/v1beta1
kind: ModRule
metadata:
  name: broken
  namespace: shop
spec:
  type: Reject
  match:
    - select: '$.spec.containers['
";

#[test]
fn the_data_of_a_secret_is_not_printed() {
    let folder = Workspace::new()
        .with(
            "policies.yaml",
            r#"
apiVersion: mutations.gatekeeper.sh/v1
kind: Assign
metadata: {name: password}
spec:
  applyTo: [{groups: [""], versions: [v1], kinds: [Secret]}]
  location: stringData.password
  parameters: {assign: {value: from-the-policy}}
"#,
        )
        .with(
            "secret.yaml",
            "apiVersion: v1\nkind: Secret\nmetadata: {name: s, annotations: \
             {kubectl.kubernetes.io/last-applied-configuration: from-the-file}}\n\
             data: {token: ZnJvbS10aGUtZmlsZQ==}\nstringData: {password: from-the-file}\n",
        );
    let review =
        |format| folder.run(&["review", "-o", format, "-f", "policies.yaml", "secret.yaml"]);
    for format in ["text", "diff", "html"] {
        let shown = review(format);
        for data in ["from-the-file", "ZnJvbS10aGUtZmlsZQ=="] {
            assert!(!shown.contains(data), "{format}: {shown}");
        }
        assert!(shown.contains("(hidden)"), "{format}: {shown}");
    }
    let text = review("text");
    assert!(text.contains("+  password: (hidden, changed)"), "{text}");
    assert!(!text.contains("from-the-policy"), "{text}");
    // The object itself, for `kubectl apply`, is complete.
    assert!(review("yaml").contains("token: ZnJvbS10aGUtZmlsZQ==\n"));
}

#[test]
fn review_patches() {
    let workspace = Workspace::new();
    assert_data_eq!(
        workspace.run(&["review", "-f", "quickstart", "quickstart/deployment.yaml"]),
        str![[r#"
exit 0
Deployment shop/cart: allowed, patched (quickstart/deployment.yaml:2:1)
  @@ -3,6 +3,7 @@
   metadata:
     labels:
       app: cart
  +    cost-centre: "4711"
     name: cart
     namespace: shop
   spec:
  @@ -14,9 +15,11 @@
       metadata:
         labels:
           app: cart
  +        cost-centre: "4711"
       spec:
         containers:
         - image: registry.example.com/shop/cart:v1.4.2
  +        imagePullPolicy: IfNotPresent
           name: cart
           ports:
           - containerPort: 8080

"#]]
    );
}

#[test]
fn review_denies() {
    let workspace = Workspace::new();
    assert_data_eq!(
        workspace.run(&["review", "-f", "quickstart", "quickstart/debug-pod.yaml"]),
        str![[r#"
exit 1
Pod shop/debug: denied (quickstart/debug-pod.yaml:2:1)
  rejected by shop/no-latest-images: "pin the images of Pod debug to a version"

"#]]
    );
}

/// An object that an expansion generates without a kind cannot match a constraint: it is refused.
#[test]
fn what_is_generated_without_a_kind_is_refused() {
    let policies = "\
apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: never}
spec:
  crd: {spec: {names: {kind: Never}}}
  targets:
  - target: admission.k8s.gatekeeper.sh
    rego: |
      package never
      violation[{\"msg\": \"hit\"}] { false }
---
apiVersion: constraints.gatekeeper.sh/v1beta1
kind: Never
metadata: {name: pods}
spec: {match: {kinds: [{apiGroups: [''], kinds: [Pod]}]}}
---
apiVersion: expansion.gatekeeper.sh/v1alpha1
kind: ExpansionTemplate
metadata: {name: t}
spec:
  applyTo: [{groups: [apps], versions: [v1], kinds: [Deployment]}]
  templateSource: spec.template
  generatedGVK: {group: '', version: v1}
";
    let review = r#"{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "u", "kind": {"group": "apps", "version": "v1", "kind": "Deployment"},
        "resource": {"group": "apps", "version": "v1", "resource": "deployments"},
        "operation": "CREATE", "name": "d", "namespace": "x", "object": {"apiVersion": "apps/v1",
            "kind": "Deployment", "metadata": {"name": "d", "namespace": "x"},
            "spec": {"template": {"spec": {}}}}}}"#;
    let workspace = Workspace::new().with("policies.yaml", policies).with("review.json", review);
    let shown = workspace.run(&["review", "-f", "policies.yaml", "review.json"]);
    assert!(shown.starts_with("exit 1\n"), "{shown}");
    assert!(shown.contains("[Implied by t] unable to match constraints: "), "{shown}");
    assert!(shown.contains("spec.generatedGVK.kind"), "{shown}");
}

const PRIVILEGED: &str = "\
apiVersion: api.kubemod.io/v1beta1
kind: ModRule
metadata: {name: no-privileged, namespace: kubemod-system}
spec:
  type: Reject
  targetNamespaceRegex: '.*'
  match: [{select: '$.spec.containers[*].securityContext.privileged', matchValue: 'true'}]
---
apiVersion: api.kubemod.io/v1beta1
kind: ModRule
metadata: {name: flavor, namespace: kubemod-system}
spec:
  type: Patch
  targetNamespaceRegex: '.*'
  match: [{select: '$.syntheticRefs.namespace.metadata.labels.flavor'}]
  patch: [{op: add, path: /metadata/labels/flavor, value: x}]
";

const NODE_OF_NO_CLUSTER: &str = "\
apiVersion: v1
kind: Pod
metadata:
  name: p
  namespace: blue
  annotations: {ref.kubemod.io/nodename: nope}
spec:
  containers: [{name: c, securityContext: {privileged: true}}]
";

/// Q-36, for every way in that takes a Pod from a file.
#[test]
fn an_annotation_switches_no_rule_off() {
    let workspace =
        Workspace::new().with("rules.yaml", PRIVILEGED).with("pod.yaml", NODE_OF_NO_CLUSTER);
    let run = |verb: &str, mode: &[&str]| {
        workspace.run(&[&[verb, "-f", "rules.yaml", "pod.yaml"], mode].concat())
    };
    assert_data_eq!(
        run("review", &[]),
        str![[r#"
exit 1
Pod blue/p: denied (pod.yaml:1:1)
  rejected by kubemod-system/no-privileged
  warning: annotation `ref.kubemod.io/nodename` names Node `nope`, which does not exist, so ModRules see an empty `syntheticRefs.node` (Q-36)
--- stderr
note: no file describes Namespace `blue`, so policies see one without labels of its own; give it with `--objects`

"#]]
    );
    assert!(run("explain", &[]).contains("Pod blue/p: denied"));
    for verb in ["review", "explain"] {
        let allowed = run(verb, &["--missing-reference", "allow"]);
        assert!(allowed.contains("Pod blue/p: allowed"), "{allowed}");
        assert!(verb == "explain" || allowed.contains("failed to read node `nope`"), "{allowed}");
        let denied = run(verb, &["--missing-reference", "deny"]);
        assert!(denied.contains("Pod blue/p: denied"), "{denied}");
        assert!(denied.contains("no file describes it: give it with `--objects`"), "{denied}");
    }
}

#[test]
fn review_of_an_admission_review_as_json() {
    let workspace = Workspace::new();
    assert_data_eq!(
        workspace.run(&["review", "-f", "quickstart", "-o", "json", "quickstart/review.json"]),
        str![[r#"
exit 0
[
  {
    "allowed": true,
    "auditAnnotations": {},
    "code": 200,
    "failures": [],
    "kind": "Deployment",
    "name": "cart",
    "namespace": "shop",
    "notEvaluated": [],
    "object": {
      "apiVersion": "apps/v1",
      "kind": "Deployment",
      "metadata": {
        "labels": {
          "app": "cart",
          "cost-centre": "4711"
        },
        "name": "cart",
        "namespace": "shop"
      },
      "spec": {
        "replicas": 2,
        "selector": {
          "matchLabels": {
            "app": "cart"
          }
        },
        "template": {
          "metadata": {
            "labels": {
              "app": "cart",
              "cost-centre": "4711"
            }
          },
          "spec": {
            "containers": [
              {
                "image": "registry.example.com/shop/cart:v1.4.2",
                "imagePullPolicy": "IfNotPresent",
                "name": "cart"
              }
            ]
          }
        }
      }
    },
    "operation": "CREATE",
    "patch": [
      {
        "op": "add",
        "path": "/metadata/labels/cost-centre",
        "value": "4711"
      },
      {
        "op": "add",
        "path": "/spec/template/metadata/labels/cost-centre",
        "value": "4711"
      },
      {
        "op": "add",
        "path": "/spec/template/spec/containers/0/imagePullPolicy",
        "value": "IfNotPresent"
      }
    ],
    "policies": [],
    "reason": "patched ok",
    "rejections": [],
    "source": "quickstart/review.json:1:1",
    "violations": [],
    "warnings": []
  }
]

"#]]
    );
}

#[test]
fn review_of_several_objects_as_yaml() {
    let workspace = Workspace::new();
    let objects = "kind: List\napiVersion: v1\nitems:\n\
        - {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n\
        - {apiVersion: v1, kind: Pod, metadata: {name: b, namespace: shop}, \
           spec: {containers: [{image: 'x:latest'}]}}\n\
        - {apiVersion: apps/v1, kind: Deployment, metadata: {name: c}, \
           spec: {template: {metadata: {labels: {}}, spec: {containers: [{image: 'x:v1'}]}}}}\n";
    assert_data_eq!(
        workspace
            .run_with(&["review", "-f", "quickstart", "-n", "shop", "-o", "yaml", "-"], objects),
        str![[r#"
exit 1
apiVersion: v1
kind: ConfigMap
metadata:
  name: a
---
apiVersion: apps/v1
kind: Deployment
metadata:
  labels:
    cost-centre: "4711"
  name: c
spec:
  template:
    metadata:
      labels:
        cost-centre: "4711"
    spec:
      containers:
      - image: x:v1
        imagePullPolicy: IfNotPresent
--- stderr
note: 0 of 3 policies apply to 1 of the 3 objects (ConfigMap)
denied: Pod shop/b: operation rejected by the following ModRule(s): shop/no-latest-images: "pin the images of Pod b to a version"
3 objects: 1 denied, 1 patched, 1 allowed; 3 policies

"#]]
    );
}

#[test]
fn review_as_patch_and_diff() {
    let workspace = Workspace::new();
    let deployment = "quickstart/deployment.yaml";
    assert_data_eq!(
        workspace.run(&["review", "-f", "quickstart", "-o", "patch", deployment]),
        str![[r#"
exit 0
[{"op":"add","path":"/metadata/labels/cost-centre","value":"4711"},{"op":"add","path":"/spec/template/metadata/labels/cost-centre","value":"4711"},{"op":"add","path":"/spec/template/spec/containers/0/imagePullPolicy","value":"IfNotPresent"}]

"#]]
    );
    assert_data_eq!(
        workspace.run(&["review", "-f", "quickstart", "-o", "diff", deployment]),
        str![[r#"
exit 0
--- quickstart/deployment.yaml:2:1
+++ Deployment shop/cart (patched)
@@ -3,6 +3,7 @@
 metadata:
   labels:
     app: cart
+    cost-centre: "4711"
   name: cart
   namespace: shop
 spec:
@@ -14,9 +15,11 @@
     metadata:
       labels:
         app: cart
+        cost-centre: "4711"
     spec:
       containers:
       - image: registry.example.com/shop/cart:v1.4.2
+        imagePullPolicy: IfNotPresent
         name: cart
         ports:
         - containerPort: 8080

"#]]
    );
}

#[test]
fn a_deletion_is_another_operation() {
    let workspace = Workspace::new();
    assert_data_eq!(
        workspace.run(&[
            "review",
            "-f",
            "quickstart",
            "--operation",
            "delete",
            "quickstart/debug-pod.yaml"
        ]),
        str![[r#"
exit 0
Pod shop/debug: allowed (quickstart/debug-pod.yaml:2:1)
--- stderr
note: 0 of 3 policies apply to the object (Pod)

"#]]
    );
}

#[test]
fn a_rule_that_does_not_load_decides_nothing() {
    let workspace = Workspace::new().with("broken.yaml", BROKEN);
    assert_data_eq!(
        workspace.run(&[
            "review",
            "-f",
            "quickstart",
            "-f",
            "broken.yaml",
            "quickstart/deployment.yaml"
        ]),
        str![[r#"
exit 2
--- stderr
error: ModRule shop/broken: spec.match[0].select: parsing error: unexpected EOF while scanning extensions
 --> broken.yaml:9:34
  |
9 |     - select: '$.spec.containers['
  |                                  ^
  |
  = help: a `]` is missing

"#]]
    );
}

#[test]
fn bad_inputs() {
    let workspace = Workspace::new()
        .with("no-kind.yaml", "a: 1\n")
        .with("not.yaml", "a: [\n")
        .with("empty.yaml", "---\n");
    assert_data_eq!(
        workspace.run(&[
            "review",
            "-f",
            "quickstart",
            "no-kind.yaml",
            "not.yaml",
            "missing.yaml",
            "quickstart/debug-pod.yaml"
        ]),
        str![[r#"
exit 2
Pod shop/debug: denied (quickstart/debug-pod.yaml:2:1)
  rejected by shop/no-latest-images: "pin the images of Pod debug to a version"
--- stderr
error: not YAML: did not find expected node content
 --> not.yaml:1:6
  |
1 | a: [
  |     ^
  |
  = help: a value or a closing bracket is missing
error: cannot read `missing.yaml`: no such file or directory
error: the object has no `kind`
 --> no-kind.yaml:1:1
  |
1 | a: 1
  | ^^^^
  |
  = help: give a Kubernetes object or an AdmissionReview

"#]]
    );
    assert_data_eq!(
        workspace.run(&["review", "-f", "quickstart", "empty.yaml"]),
        str![[r#"
exit 2
--- stderr
error: there is no object in `empty.yaml`

"#]]
    );
    assert_data_eq!(
        workspace.run(&["review", "-f", "-", "-"]),
        str![[r#"
exit 2
--- stderr
error: standard input can be read once, but `-` is given 2 times

"#]]
    );
    assert_data_eq!(
        workspace.run(&["review", "quickstart/deployment.yaml"]),
        str![[r#"
exit 2
--- stderr
error: the following required arguments were not provided:
  --filename <PATH>

Usage: modgate review --filename <PATH> <OBJECT>...

For more information, try '--help'.

"#]]
    );
}

/// A wrong folder must not pass for one whose policies have no objection.
#[test]
fn without_any_policy_nothing_is_allowed() {
    let workspace = Workspace::new();
    fs::create_dir(workspace.0.path().join("none")).expect("folder");
    for verb in ["review", "explain", "plan"] {
        for (arguments, expected) in [
            (&["-f", "none"][..], "`none`"),
            (
                &["-f", "none", "-f", "quickstart/deployment.yaml"],
                "`none`, `quickstart/deployment.yaml`",
            ),
        ] {
            let mut line = vec![verb, "quickstart/deployment.yaml"];
            line.extend(arguments);
            let expected = format!("exit 2\n--- stderr\nerror: there is no policy in {expected}\n");
            assert_eq!(workspace.run(&line), expected, "{line:?}");
        }
    }
}

#[test]
fn texts_that_yaml_takes_for_something_else() {
    let rule = BROKEN.replace("'$.spec.containers['", "$.kind\n      matchValue: y");
    let workspace = Workspace::new().with("rule.yaml", &rule);
    assert_data_eq!(
        workspace.run(&["review", "-f", "rule.yaml", "quickstart/debug-pod.yaml"]),
        str![[r#"
exit 2
--- stderr
error: ModRule shop/broken: spec.match[0].matchValue: expected a string, got the boolean `true`
  --> rule.yaml:10:19
   |
10 |       matchValue: y
   |                   ^
   |
   = help: put it in quotes; YAML reads `y` as true

"#]]
    );
}

#[cfg(unix)]
#[test]
fn called_as_an_original_help_has_its_name() {
    let workspace = Workspace::new();
    let program = workspace.0.path().join("kubemod");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_modgate"), &program).expect("a link");
    let output = Command::new(&program).arg("-h").output().expect("kubemod");
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(text.contains("\nUsage: kubemod [OPTIONS]\n"), "{text}");
}

#[test]
fn explain() {
    let workspace = Workspace::new();
    assert_data_eq!(
        workspace.run(&["explain", "-f", "quickstart", "quickstart/deployment.yaml"]),
        str![[r#"
exit 0
Deployment shop/cart: allowed, patched (quickstart/deployment.yaml:2:1)

  Patch shop/label-cost-centre matched, patched (tier 0, quickstart/modrules.yaml:7:1)
    yes match[0] $.kind  matchValues ["DaemonSet", "Deployment", "StatefulSet"] (quickstart/modrules.yaml:15:7)
        saw `Deployment`
        1 of 1 values pass, decided by `Deployment`
    yes match[1] $.syntheticRefs.namespace.metadata.labels["cost-centre"]  any value (quickstart/modrules.yaml:17:7)
        saw `4711`
        1 of 1 values pass, decided by `4711`
    patch[0] add /metadata/labels/cost-centre: added (quickstart/modrules.yaml:19:7)
        rendered `"4711"`
        value "4711"
    patch[1] add /spec/template/metadata/labels/cost-centre: added (quickstart/modrules.yaml:22:7)
        rendered `"4711"`
        value "4711"

  Patch shop/pull-versions-once matched, patched (tier 0, quickstart/modrules.yaml:27:1)
    yes match[0] $.kind  matchValue "Deployment" (quickstart/modrules.yaml:35:7)
        saw `Deployment`
        1 of 1 values pass, decided by `Deployment`
    patch[0] add /spec/template/spec/containers/0/imagePullPolicy: added (quickstart/modrules.yaml:38:7)
        rendered `IfNotPresent`
        value "IfNotPresent"

  Reject shop/no-latest-images no match (tier 0, quickstart/modrules.yaml:44:1)
    yes match[0] $.kind  matchValues ["DaemonSet", "Deployment", "Pod", "StatefulSet"] (quickstart/modrules.yaml:53:7)
        saw `Deployment`
        1 of 1 values pass, decided by `Deployment`
    no  match[1] $..containers[*].image  matchRegex ":latest$" (quickstart/modrules.yaml:55:7)
        saw `registry.example.com/shop/cart:v1.4.2`, `registry.example.com/tools/exporter:stable`
        0 of 2 values pass

"#]]
    );
    assert_data_eq!(
        workspace.run(&[
            "explain",
            "-f",
            "quickstart",
            "--rule",
            "shop/no-latest-images",
            "quickstart/debug-pod.yaml"
        ]),
        str![[r#"
exit 1
Pod shop/debug: denied (quickstart/debug-pod.yaml:2:1)

  Reject shop/no-latest-images matched, rejected: shop/no-latest-images: "pin the images of Pod debug to a version" (tier 0, quickstart/modrules.yaml:44:1)
    yes match[0] $.kind  matchValues ["DaemonSet", "Deployment", "Pod", "StatefulSet"] (quickstart/modrules.yaml:53:7)
        saw `Pod`
        1 of 1 values pass, decided by `Pod`
    yes match[1] $..containers[*].image  matchRegex ":latest$" (quickstart/modrules.yaml:55:7)
        saw `registry.example.com/tools/shell:latest`
        1 of 1 values pass, decided by `registry.example.com/tools/shell:latest`
  2 other policies not shown

"#]]
    );
    assert_data_eq!(
        workspace.run(&[
            "explain",
            "-f",
            "quickstart",
            "--rule",
            "x",
            "quickstart/deployment.yaml"
        ]),
        str![[r#"
exit 2
Deployment shop/cart: allowed, patched (quickstart/deployment.yaml:2:1)
  3 other policies not shown
--- stderr
error: no policy is called `x`
 |
 = help: the policies are: label-cost-centre, no-latest-images, pull-versions-once

"#]]
    );
}

#[test]
fn explain_says_why_a_rule_is_not_considered() {
    let workspace = Workspace::new()
        .with("pod.yaml", "{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: other}}");
    assert_data_eq!(
        workspace.run(&["explain", "-f", "quickstart", "--all", "pod.yaml"]),
        str![[r#"
exit 0
Pod other/p: allowed (pod.yaml:1:1)

  Patch shop/label-cost-centre not considered: the rule is for namespace `shop`, the request for namespace `other` (tier 0, quickstart/modrules.yaml:7:1)

  Reject shop/no-latest-images not considered: the rule is for namespace `shop`, the request for namespace `other` (tier 0, quickstart/modrules.yaml:44:1)

  Patch shop/pull-versions-once not considered: the rule is for namespace `shop`, the request for namespace `other` (tier 0, quickstart/modrules.yaml:27:1)
--- stderr
note: 0 of 3 policies apply to the object (Pod): a ModRule applies to objects of its own namespace, here `shop`

"#]]
    );
    assert_data_eq!(
        workspace.run(&[
            "explain",
            "-f",
            "quickstart",
            "--rule",
            "no-latest-images",
            "-o",
            "json",
            "pod.yaml"
        ]),
        str![[r#"
exit 0
[
  {
    "allowed": true,
    "auditAnnotations": {},
    "code": 200,
    "constraints": [],
    "expandsWithModrules": false,
    "failures": [],
    "kind": "Pod",
    "mutatingPolicies": {
      "fails": false,
      "steps": []
    },
    "mutators": {
      "fails": false,
      "steps": [
        []
      ]
    },
    "name": "p",
    "namespace": "other",
    "notEvaluated": [],
    "object": {
      "apiVersion": "v1",
      "kind": "Pod",
      "metadata": {
        "name": "p",
        "namespace": "other"
      }
    },
    "operation": "CREATE",
    "patch": [],
    "policies": [],
    "reason": "non-patched ok",
    "rejections": [],
    "resultants": {
      "fails": false,
      "steps": []
    },
    "rules": [
      {
        "criteria": [],
        "operations": [],
        "origin": "quickstart/modrules.yaml",
        "outcome": {
          "cause": "the rule is for namespace `shop`, the request for namespace `other`",
          "result": "notCandidate"
        },
        "policy": {
          "group": "api.kubemod.io",
          "kind": "ModRule",
          "name": "no-latest-images",
          "namespace": "shop"
        },
        "position": {
          "column": 1,
          "line": 44
        },
        "ruleType": "Reject",
        "tier": 0
      }
    ],
    "source": "pod.yaml:1:1",
    "violations": [],
    "warnings": []
  }
]
--- stderr
note: 0 of 3 policies apply to the object (Pod): a ModRule applies to objects of its own namespace, here `shop`

"#]]
    );
}

#[test]
fn select() {
    let workspace = Workspace::new();
    let deployment = "quickstart/deployment.yaml";
    assert_data_eq!(
        workspace.run(&["select", "$.spec.template.spec.containers[*].image", "-f", deployment]),
        str![[r#"
exit 0
#0=0  "registry.example.com/shop/cart:v1.4.2"
#0=1  "registry.example.com/tools/exporter:stable"

"#]]
    );
    assert_data_eq!(
        workspace.run(&[
            "select",
            "$.spec.replicas > 1 && isDefined($.metadata)",
            "-f",
            deployment
        ]),
        str![[r#"
exit 0
true

"#]]
    );
    assert_data_eq!(
        workspace.run(&["select", "$.metadata.labels.*", "-o", "json", "-f", deployment]),
        str![[r#"
exit 0
[
  {
    "results": [
      {
        "keys": [
          "app"
        ],
        "value": "cart"
      }
    ],
    "source": "quickstart/deployment.yaml:2:1"
  }
]

"#]]
    );
    assert_data_eq!(
        workspace.run(&["select", "$.a[", "-f", deployment]),
        str![[r#"
exit 2
--- stderr
error: unexpected EOF while scanning extensions
 --> expression:1:5
  |
1 | $.a[
  |     ^
  |
  = help: a `]` is missing

"#]]
    );
    assert_data_eq!(
        workspace.run(&["select", "$.a.b"]),
        str![[r#"
exit 0

"#]]
    );
}

#[test]
fn version_and_completion() {
    let workspace = Workspace::new();
    let version = format!("exit 0\nmodgate {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(workspace.run(&["version"]), version);
    assert_eq!(workspace.run(&["--version"]), version);
    assert!(workspace.run(&["completion", "bash"]).contains("_modgate()"));
}

/// The README's first command: what it prints, and that it ends when told to.
#[cfg(unix)]
#[test]
fn serve_until_told_to_stop() {
    let workspace = Workspace::new();
    let mut child = workspace
        .command(&["serve", "--policies", "quickstart", "--address", "127.0.0.1:0"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("modgate");
    let mut lines = BufReader::new(child.stdout.take().expect("stdout")).lines();
    let mut next = || lines.next().expect("line").expect("text");
    let first = next();
    let url = first.strip_prefix("3 policies on ").expect(&first);
    assert!(url.starts_with("https://127.0.0.1:"), "{url}");
    next();
    let command = next();
    assert!(command.contains(&format!("curl -sk {url}/dragnet-webhook")), "{command}");
    assert!(command.contains("--data @quickstart/review.json"), "{command}");
    let sent = Command::new("kill").arg(child.id().to_string()).status().expect("kill");
    assert!(sent.success());
    let asked = Instant::now();
    assert_eq!(child.wait().expect("exit").code(), Some(0));
    // No Service has this process as an endpoint, so it does not wait the ten seconds of a Pod.
    assert!(asked.elapsed() < Duration::from_secs(8), "{:?}", asked.elapsed());
    let mut log = String::new();
    child.stderr.take().expect("stderr").read_to_string(&mut log).expect("log");
    assert!(log.contains(r#""msg":"policies loaded""#), "{log}");
}

#[test]
fn serve_needs_something_to_serve() {
    let workspace = Workspace::new();
    assert_data_eq!(
        workspace.run(&["serve", "--kubeconfig", "missing", "--address", "127.0.0.1:0"]),
        str![[r#"
exit 2
--- stderr
error: cannot use the kubeconfig `missing`: No such file or directory

"#]]
    );
    let nowhere = workspace.run(&["serve", "--address", "127.0.0.1:0"]);
    let expected = "exit 2\n--- stderr\nerror: no policies to serve: neither `--policies` nor \
                    `--kubeconfig` is given, and this process is not in a cluster: ";
    assert!(nowhere.starts_with(expected), "{nowhere}");
    assert_data_eq!(
        workspace.run(&["serve", "--policies", "missing"]),
        str![[r#"
exit 2
--- stderr
error: `missing` does not exist

"#]]
    );
    assert_data_eq!(
        workspace.run(&[
            "serve",
            "--policies",
            "quickstart",
            "--cert",
            "missing.crt",
            "--key",
            "missing.key",
            "--address",
            "127.0.0.1:0",
            "--log-level",
            "error"
        ]),
        str![[r#"
exit 2
--- stderr
error: cannot read `missing.crt`: No such file or directory

"#]]
    );
}
