//! Every move of `modgate lint`, in every language that can have it: a policy that lets it through is found, and the
//! same policy without that hole is not.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    process::Command,
};

use modgate_value::Value;
use tempfile::TempDir;

/// One move: the hole and the policy without it, in each language.
struct Move {
    code: &'static str,
    /// Kinds that policies match, as a resource with its kind.
    kinds: &'static [(&'static str, &'static str, &'static str)],
    rego: Option<[&'static str; 2]>,
    /// Of a template and of a ValidatingAdmissionPolicy.
    cel: Option<[&'static str; 2]>,
    /// The last criterion of a Reject rule.
    modrule: Option<[&'static str; 2]>,
    /// The policy without the hole matches these resources too.
    also: &'static str,
}

const POD: &[(&str, &str, &str)] = &[("", "pods", "Pod")];
const SERVICE: &[(&str, &str, &str)] = &[("", "services", "Service")];
const WORKLOADS: &[(&str, &str, &str)] =
    &[("apps", "deployments", "Deployment"), ("apps", "statefulsets", "StatefulSet")];
const DEPLOYMENT: &[(&str, &str, &str)] = &[("apps", "deployments", "Deployment")];
const BUDGET: &[(&str, &str, &str)] = &[("policy", "poddisruptionbudgets", "PodDisruptionBudget")];
const CONFIG: &[(&str, &str, &str)] = &[("", "configmaps", "ConfigMap")];
const TEAM: &[(&str, &str, &str)] = &[("shop.example", "carts", "Cart")];

/// All containers of a Pod, for Rego.
const ALL: &str = "containers[c] { c := input.review.object.spec.containers[_] }
containers[c] { c := input.review.object.spec.initContainers[_] }
containers[c] { c := input.review.object.spec.ephemeralContainers[_] }
templates[c] { c := input.review.object.spec.template.spec.containers[_] }
templates[c] { c := input.review.object.spec.template.spec.initContainers[_] }
updates := {\"UPDATE\", \"DELETE\"}
";

/// `$ALL`, `$TEMPLATE` and `$MODE` in expressions.
const MACROS: [(&str, &str); 4] = [
    (
        "$ALL",
        "(object.spec.containers + (has(object.spec.initContainers) ? object.spec.initContainers : []) + \
         (has(object.spec.ephemeralContainers) ? object.spec.ephemeralContainers : []))",
    ),
    (
        "$TEMPLATE",
        "(object.spec.template.spec.containers + (has(object.spec.template.spec.initContainers) ? \
         object.spec.template.spec.initContainers : []))",
    ),
    (
        "$SAFE",
        "(c, !has(c.securityContext) || !has(c.securityContext.privileged) || !c.securityContext.privileged)",
    ),
    (
        "$ADDS",
        "c, !has(c.securityContext) || !has(c.securityContext.capabilities) || \
      !has(c.securityContext.capabilities.add) || c.securityContext.capabilities.add.all",
    ),
];

const MOVES: &[Move] = &[
    Move {
        code: "bypass-init-containers",
        kinds: POD,
        rego: Some([
            "input.review.object.spec.containers[_].securityContext.privileged",
            "containers[_].securityContext.privileged",
        ]),
        cel: Some(["object.spec.containers.all$SAFE", "$ALL.all$SAFE"]),
        modrule: Some([
            "{select: '$.spec.containers[*].securityContext.privileged', matchValue: 'true'}",
            "{select: '$..securityContext.privileged', matchValue: 'true'}",
        ]),
        also: "",
    },
    Move {
        code: "bypass-ephemeral-containers",
        kinds: POD,
        rego: Some([
            "c := input.review.object.spec.containers[_]\n  c.securityContext.privileged",
            "containers[_].securityContext.privileged",
        ]),
        cel: Some([
            "(object.spec.containers + (has(object.spec.initContainers) ? object.spec.initContainers : []))\
             .all$SAFE",
            "$ALL.all$SAFE",
        ]),
        modrule: None,
        also: "",
    },
    Move {
        code: "bypass-list-element",
        kinds: POD,
        rego: Some([
            "input.review.object.spec.containers[0].securityContext.privileged",
            "containers[_].securityContext.privileged",
        ]),
        cel: Some(["[object.spec.containers[0]].all$SAFE", "$ALL.all$SAFE"]),
        modrule: Some([
            "{select: '$.spec.containers[0].securityContext.privileged', matchValue: 'true'}",
            "{select: '$..securityContext.privileged', matchValue: 'true'}",
        ]),
        also: "",
    },
    Move {
        code: "bypass-list-element",
        kinds: SERVICE,
        rego: Some([
            "input.review.object.spec.externalIPs[0] == \"203.0.113.9\"",
            "input.review.object.spec.externalIPs[_] == \"203.0.113.9\"",
        ]),
        cel: Some([
            "!has(object.spec.externalIPs) || object.spec.externalIPs.size() == 0 || \
             object.spec.externalIPs[0] != '203.0.113.9'",
            "!has(object.spec.externalIPs) || !('203.0.113.9' in object.spec.externalIPs)",
        ]),
        modrule: Some([
            "{select: '$.spec.externalIPs[0]', matchValue: 203.0.113.9}",
            "{select: '$.spec.externalIPs[*]', matchValue: 203.0.113.9}",
        ]),
        also: "",
    },
    Move {
        code: "bypass-duplicate",
        kinds: POD,
        rego: Some([
            "modes := [e.value | e := containers[_].env[_]; e.name == \"MODE\"]\n  modes[0] == \"unsafe\"",
            "e := containers[_].env[_]\n  e.name == \"MODE\"\n  e.value == \"unsafe\"",
        ]),
        cel: Some([
            "$ALL.all(c, !has(c.env) || !c.env.exists(e, e.name == 'MODE') || \
             c.env.filter(e, e.name == 'MODE')[0].?value.orValue('') != 'unsafe')",
            "$ALL.all(c, !has(c.env) || !c.env.exists(e, e.name == 'MODE' && e.?value.orValue('') == 'unsafe'))",
        ]),
        modrule: Some([
            "{select: '$.spec.containers[*].env[0].value', matchValue: unsafe}",
            "{select: '$..env[*].value', matchValue: unsafe}",
        ]),
        also: "",
    },
    Move {
        code: "bypass-pod-template",
        kinds: WORKLOADS,
        rego: Some([
            "input.review.kind.kind == \"Deployment\"\n  templates[_].securityContext.privileged",
            "templates[_].securityContext.privileged",
        ]),
        cel: Some(["object.kind != 'Deployment' || $TEMPLATE.all$SAFE", "$TEMPLATE.all$SAFE"]),
        modrule: None,
        also: "",
    },
    Move {
        code: "bypass-namespace",
        kinds: POD,
        rego: Some([
            "startswith(input.review.namespace, \"d\")\n  containers[_].securityContext.privileged",
            "containers[_].securityContext.privileged",
        ]),
        cel: Some(["!request.namespace.startsWith('d') || $ALL.all$SAFE", "$ALL.all$SAFE"]),
        modrule: None,
        also: "",
    },
    Move {
        code: "bypass-update",
        kinds: WORKLOADS,
        rego: Some([
            "input.review.operation == \"CREATE\"\n  templates[_].securityContext.privileged",
            "templates[_].securityContext.privileged",
        ]),
        cel: Some(["request.operation != 'CREATE' || $TEMPLATE.all$SAFE", "$TEMPLATE.all$SAFE"]),
        modrule: None,
        also: "",
    },
    Move {
        code: "bypass-generate-name",
        kinds: POD,
        rego: Some([
            "input.review.name != \"\"\n  containers[_].securityContext.privileged",
            "containers[_].securityContext.privileged",
        ]),
        cel: Some(["!has(request.name) || $ALL.all$SAFE", "$ALL.all$SAFE"]),
        modrule: None,
        also: "",
    },
    Move {
        code: "bypass-subresource",
        kinds: DEPLOYMENT,
        rego: None,
        cel: Some([
            "!has(object.spec.replicas) || object.spec.replicas < 50",
            "!has(object.spec.replicas) || object.spec.replicas < 50",
        ]),
        modrule: None,
        also: ", deployments/scale",
    },
    Move {
        code: "bypass-delete",
        kinds: CONFIG,
        rego: Some([
            "updates[input.review.operation]\n  input.review.operation == \"UPDATE\"\n  \
             input.review.oldObject.metadata.labels[\"shop.example/locked\"] == \"true\"",
            "updates[input.review.operation]\n  \
             input.review.oldObject.metadata.labels[\"shop.example/locked\"] == \"true\"",
        ]),
        cel: Some([
            "request.operation == 'DELETE' || oldObject == null || !has(oldObject.metadata.labels) || \
             !('shop.example/locked' in oldObject.metadata.labels)",
            "!(request.operation in ['UPDATE', 'DELETE']) || oldObject == null || \
             !has(oldObject.metadata.labels) || !('shop.example/locked' in oldObject.metadata.labels)",
        ]),
        modrule: None,
        also: "",
    },
    Move {
        code: "bypass-empty-value",
        kinds: CONFIG,
        rego: Some([
            "not input.review.object.metadata.labels[\"shop.example/owner\"]",
            "object.get(object.get(input.review.object.metadata, \"labels\", {}), \"shop.example/owner\", \"\") == \"\"",
        ]),
        cel: Some([
            "has(object.metadata.labels) && 'shop.example/owner' in object.metadata.labels",
            "has(object.metadata.labels) && 'shop.example/owner' in object.metadata.labels && \
             object.metadata.labels['shop.example/owner'] != ''",
        ]),
        modrule: Some([
            "{select: '$.metadata.labels[\"shop.example/owner\"]', negate: true}",
            "{select: '$.metadata.labels[\"shop.example/owner\"]', matchRegex: '.+', negate: true}",
        ]),
        also: "",
    },
    Move {
        code: "bypass-empty-value",
        kinds: POD,
        rego: Some([
            "c := containers[_]\n  not c.securityContext",
            "c := containers[_]\n  not c.securityContext.runAsNonRoot",
        ]),
        cel: Some([
            "$ALL.all(c, has(c.securityContext))",
            "$ALL.all(c, has(c.securityContext) && has(c.securityContext.runAsNonRoot) && \
             c.securityContext.runAsNonRoot)",
        ]),
        modrule: None,
        also: "",
    },
    Move {
        code: "bypass-null",
        kinds: TEAM,
        rego: Some([
            "not input.review.object.spec.team",
            "object.get(input.review.object.spec, \"team\", null) == null",
        ]),
        cel: None,
        modrule: None,
        also: "",
    },
    Move {
        code: "bypass-number",
        kinds: TEAM,
        rego: Some([
            "input.review.object.spec.size == 7",
            "sprintf(\"%v\", [input.review.object.spec.size]) == \"7\"",
        ]),
        cel: Some([
            "!has(object.spec.size) || type(object.spec.size) == string || object.spec.size != 7",
            "!has(object.spec.size) || string(object.spec.size) != '7'",
        ]),
        modrule: None,
        also: "",
    },
    Move {
        code: "bypass-number",
        kinds: BUDGET,
        rego: Some([
            "input.review.object.spec.maxUnavailable == 0",
            "sprintf(\"%v\", [input.review.object.spec.maxUnavailable]) == {\"0\", \"0%\"}[_]",
        ]),
        cel: Some([
            "!has(object.spec.maxUnavailable) || object.spec.maxUnavailable != 0",
            "!has(object.spec.maxUnavailable) || !(string(object.spec.maxUnavailable) in ['0', '0%'])",
        ]),
        modrule: None,
        also: "",
    },
    Move {
        code: "bypass-image-name",
        kinds: POD,
        rego: Some([
            "startswith(containers[_].image, \"bad.example/\")",
            "re_match(\"^bad[.]example(:443)?/\", containers[_].image)",
        ]),
        cel: Some([
            "$ALL.all(c, !c.image.startsWith('bad.example/'))",
            "$ALL.all(c, !c.image.matches('^bad[.]example(:443)?/'))",
        ]),
        modrule: Some([
            "{select: '$..image', matchRegex: '^bad[.]example/'}",
            "{select: '$..image', matchRegex: '^bad[.]example(:443)?/'}",
        ]),
        also: "",
    },
    Move {
        code: "bypass-image-digest",
        kinds: POD,
        rego: Some([
            "re_match(\"^bad[.]example(:443)?/app(:[0-9a-z.-]+)?$\", containers[_].image)",
            "re_match(\"^bad[.]example(:443)?/app\", containers[_].image)",
        ]),
        cel: Some([
            "$ALL.all(c, !c.image.matches('^bad[.]example(:443)?/app(:[0-9a-z.-]+)?$'))",
            "$ALL.all(c, !c.image.matches('^bad[.]example(:443)?/app'))",
        ]),
        modrule: Some([
            "{select: '$..image', matchRegex: '^bad[.]example(:443)?/app(:[0-9a-z.-]+)?$'}",
            "{select: '$..image', matchRegex: '^bad[.]example(:443)?/app'}",
        ]),
        also: "",
    },
    Move {
        code: "bypass-case",
        kinds: POD,
        rego: Some([
            "{\"NET_RAW\", \"ALL\"}[containers[_].securityContext.capabilities.add[_]]",
            "{\"NET_RAW\", \"ALL\"}[upper(containers[_].securityContext.capabilities.add[_])]",
        ]),
        cel: Some([
            "$ALL.all($ADDS(it, !(it in ['NET_RAW', 'ALL'])))",
            "$ALL.all($ADDS(it, !(it.upperAscii() in ['NET_RAW', 'ALL'])))",
        ]),
        modrule: Some([
            "{select: '$..capabilities.add[*]', matchRegex: '^(NET_RAW|ALL)$'}",
            "{select: '$..capabilities.add[*]', matchRegex: '(?i)^(NET_RAW|ALL)$'}",
        ]),
        also: "",
    },
    Move {
        code: "bypass-all",
        kinds: POD,
        rego: Some([
            "upper(containers[_].securityContext.capabilities.add[_]) == \"NET_RAW\"",
            "{\"NET_RAW\", \"ALL\"}[upper(containers[_].securityContext.capabilities.add[_])]",
        ]),
        cel: Some([
            "$ALL.all($ADDS(it, it.upperAscii() != 'NET_RAW'))",
            "$ALL.all($ADDS(it, !(it.upperAscii() in ['NET_RAW', 'ALL'])))",
        ]),
        modrule: Some([
            "{select: '$..capabilities.add[*]', matchRegex: '(?i)^NET_RAW$'}",
            "{select: '$..capabilities.add[*]', matchRegex: '(?i)^(NET_RAW|ALL)$'}",
        ]),
        also: "",
    },
    Move {
        code: "bypass-quantity",
        kinds: POD,
        rego: Some([
            "containers[_].resources.limits.memory == \"8Gi\"",
            "units.parse_bytes(containers[_].resources.limits.memory) == 8589934592",
        ]),
        cel: Some([
            "$ALL.all(c, !has(c.resources) || !has(c.resources.limits) || \
             !('memory' in c.resources.limits) || c.resources.limits['memory'] != '8Gi')",
            "$ALL.all(c, !has(c.resources) || !has(c.resources.limits) || !('memory' in c.resources.limits) \
             || quantity(c.resources.limits['memory']).compareTo(quantity('8Gi')) != 0)",
        ]),
        modrule: Some([
            "{select: '$..limits.memory', matchValue: 8Gi}",
            "{select: '$..limits.memory', matchRegex: '^(8Gi|8589934592)$'}",
        ]),
        also: "",
    },
];

/// Objects to start from.
const OBJECTS: &str = r#"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: carts.shop.example}
spec:
  group: shop.example
  scope: Namespaced
  names: {kind: Cart, plural: carts}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              team: {type: string, minLength: 1, nullable: true}
              size: {x-kubernetes-int-or-string: true}
---
{apiVersion: shop.example/v1, kind: Cart, metadata: {name: a, namespace: default}, spec: {size: 3}}
---
{apiVersion: shop.example/v1, kind: Cart, metadata: {name: b, namespace: default}, spec: {team: x, size: 7}}
---
{apiVersion: v1, kind: Service, metadata: {name: a, namespace: default}, spec: {ports: [{port: 80}], externalIPs: [203.0.113.9]}}
---
{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: a, namespace: default}, spec: {maxUnavailable: 0}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: default}}
---
apiVersion: v1
kind: Pod
metadata: {name: a, namespace: default}
spec: {containers: [{name: web, image: bad.example/app:1.0, env: [{name: MODE, value: unsafe}], resources: {limits: {memory: 8Gi}}}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: a, namespace: default}
spec:
  replicas: 99
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: nginx}]}
"#;

fn indented(text: &str, by: usize) -> String {
    text.trim_end().replace('\n', &format!("\n{}", " ".repeat(by)))
}

fn expanded(expression: &str) -> String {
    MACROS.iter().fold(expression.to_owned(), |text, (name, with)| text.replace(name, with))
}

fn constraint(each: &Move, kind: &str) -> String {
    let kinds: Vec<String> = each
        .kinds
        .iter()
        .map(|(group, _, kind)| format!("{{apiGroups: ['{group}'], kinds: [{kind}]}}"))
        .collect();
    format!(
        "apiVersion: constraints.gatekeeper.sh/v1beta1\nkind: {kind}\nmetadata: {{name: all}}\nspec: {{match: \
         {{kinds: [{}]}}}}\n---\n",
        kinds.join(", ")
    )
}

fn template(kind: &str, code: &str) -> String {
    format!(
        "apiVersion: templates.gatekeeper.sh/v1\nkind: ConstraintTemplate\nmetadata: {{name: {}}}\nspec:\n  crd: \
         {{spec: {{names: {{kind: {kind}}}}}}}\n  targets:\n  - target: admission.k8s.gatekeeper.sh\n{code}---\n",
        kind.to_lowercase()
    )
}

/// The policies of a move, each with its language: the hole, then without it.
fn policies(each: &Move, index: usize) -> Vec<(String, String, bool)> {
    let mut found = Vec::new();
    for (tight, word) in [(false, "Leaky"), (true, "Tight")] {
        let side = usize::from(tight);
        if let Some(rego) = each.rego {
            let kind = format!("Rego{word}{index}");
            let body = format!(
                "package p\n{ALL}violation[{{\"msg\": \"denied\"}}] {{\n  {}\n}}",
                rego[side]
            );
            let code = format!("    rego: |\n      {}\n", indented(&body, 6));
            found.push((
                format!("{kind} all"),
                template(&kind, &code) + &constraint(each, &kind),
                tight,
            ));
        }
        if let Some(cel) = each.cel {
            let expression = expanded(cel[side]);
            let kind = format!("Cel{word}{index}");
            let code = format!(
                "    code:\n    - engine: K8sNativeValidation\n      source:\n        validations:\n        - \
                 message: denied\n          expression: >-\n            {expression}\n"
            );
            // A constraint for a kind leaves out the kinds of subresources.
            if each.code != "bypass-subresource" {
                found.push((
                    format!("{kind} all"),
                    template(&kind, &code) + &constraint(each, &kind),
                    tight,
                ));
            }
            found.push((
                format!("ValidatingAdmissionPolicy vap-{}-{index}", word.to_lowercase()),
                admission_policy(
                    each,
                    &format!("vap-{}-{index}", word.to_lowercase()),
                    &expression,
                    tight,
                ),
                tight,
            ));
        }
        if let Some(modrule) = each.modrule {
            let name = format!("rule-{}-{index}", word.to_lowercase());
            let kind = each.kinds[0].2;
            let text = format!(
                "apiVersion: api.kubemod.io/v1beta1\nkind: ModRule\nmetadata: {{name: {name}, namespace: \
                 default}}\nspec:\n  type: Reject\n  match:\n  - {{select: $.kind, matchValue: {kind}}}\n  - {}\n---\n",
                modrule[side]
            );
            found.push((format!("ModRule default/{name}"), text, tight));
        }
    }
    found
}

fn admission_policy(each: &Move, name: &str, expression: &str, tight: bool) -> String {
    let also = match each.kinds {
        [("", "pods", _)] if each.code != "bypass-ephemeral-containers" || tight => {
            ", pods/ephemeralcontainers"
        }
        _ if tight => each.also,
        _ => "",
    };
    let groups: BTreeSet<String> =
        each.kinds.iter().map(|(group, ..)| format!("'{group}'")).collect();
    let resources: Vec<&str> = each.kinds.iter().map(|(_, resource, _)| *resource).collect();
    let operations =
        if each.code == "bypass-delete" { "[UPDATE, DELETE]" } else { "[CREATE, UPDATE]" };
    format!(
        "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\nmetadata: {{name: \
         {name}}}\nspec:\n  matchConstraints:\n    resourceRules:\n    - {{apiGroups: [{}], apiVersions: [v1], \
         operations: {operations}, resources: [{}{also}]}}\n  validations:\n  - expression: >-\n      \
         {expression}\n---\n",
        groups.into_iter().collect::<Vec<_>>().join(", "),
        resources.join(", "),
    )
}

#[test]
fn every_move_in_every_language() {
    let folder = TempDir::new().expect("a folder");
    let mut expected: BTreeMap<String, (&str, bool)> = BTreeMap::new();
    let mut text = OBJECTS.to_owned() + "\n---\n";
    for (index, each) in MOVES.iter().enumerate() {
        for (name, policy, tight) in policies(each, index) {
            text += &policy;
            expected.insert(name, (each.code, tight));
        }
    }
    fs::write(folder.path().join("policies.yaml"), &text).expect("written");
    let output = Command::new(env!("CARGO_BIN_EXE_modgate"))
        .args(["lint", "policies.yaml", "-o", "jsonl"])
        .current_dir(folder.path())
        .output()
        .expect("run");
    let (stdout, stderr) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    let mut found: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for line in stdout.lines() {
        let finding = Value::from_json(line.as_bytes()).expect(line);
        let text =
            |key: &str| finding.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        if !text("rule").starts_with("bypass-") {
            continue;
        }
        let message = text("message");
        let name = expected
            .keys()
            .find(|name| message.starts_with(&format!("{name}: ")))
            .unwrap_or_else(|| panic!("of no policy: {message}"));
        found.entry(name).or_default().insert(text("rule"));
    }
    let mut wrong = Vec::new();
    for (name, (code, tight)) in &expected {
        let codes = found.get(name.as_str()).cloned().unwrap_or_default();
        let good = if *tight { codes.is_empty() } else { codes.contains(*code) };
        if !good {
            wrong.push(format!("{name}, for {code}: {codes:?}"));
        }
        if stderr.contains(&format!("that {name} denies")) {
            wrong.push(format!("{name}, for {code}: not examined"));
        }
    }
    assert!(wrong.is_empty(), "{}\n{stderr}", wrong.join("\n"));
}
