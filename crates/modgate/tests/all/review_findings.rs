//! What once got past modgate, or took it down, as inputs of our own through the binary: the commands, and
//! `modgate serve` over TLS. For each value that must be denied there is one that must be admitted, so that
//! no policy passes because it denies everything.

mod edges;

use std::{
    fmt::Write as _,
    fs,
    io::Read as _,
    process::{Child, Stdio},
    thread,
    time::{Duration, Instant},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use modgate_value::Value;

use crate::served::Folder;

pub(crate) fn admission_review(namespace: &str, object: &str) -> String {
    format!(
        r#"{{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {{
            "uid": "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0", "operation": "CREATE", "name": "p",
            "kind": {{"group": "", "version": "v1", "kind": "Pod"}},
            "resource": {{"group": "", "version": "v1", "resource": "pods"}},
            "userInfo": {{"username": "someone"}}, "namespace": "{namespace}", "object": {object}}}}}"#
    )
}

fn text<'v>(value: &'v Value, path: &[&str]) -> &'v str {
    value.path(path).and_then(Value::as_str).unwrap_or_default()
}

/// A condition for the `spec` of a Pod.
struct Condition {
    /// CEL that is true of what is admitted, or Rego that is true of what is denied.
    source: Source,
    /// A `spec` that the original denies.
    denied: &'static str,
    /// A `spec` that it admits; none where the condition fails whatever the object is.
    admitted: Option<&'static str>,
}

enum Source {
    Cel(&'static str),
    Rego(&'static str),
}

const fn cel(
    holds: &'static str,
    denied: &'static str,
    admitted: Option<&'static str>,
) -> Condition {
    Condition { source: Source::Cel(holds), denied, admitted }
}

const fn rego(violates: &'static str, denied: &'static str, admitted: &'static str) -> Condition {
    Condition { source: Source::Rego(violates), denied, admitted: Some(admitted) }
}

/// Each was admitted once where the original denies. One group is one cause.
const CONDITIONS: &[Condition] = &[
    // Quantities with many digits in the unit they are compared in.
    cel(
        "quantity(spec.a).compareTo(quantity(spec.b)) <= 0",
        "{a: 8Gi, b: 4Gi}",
        Some("{a: 4Gi, b: 8Gi}"),
    ),
    cel(
        "!quantity(spec.a).isGreaterThan(quantity(spec.b))",
        "{a: 8Gi, b: 4Gi}",
        Some("{a: 1Gi, b: 1Gi}"),
    ),
    cel(
        "quantity(spec.a).isLessThan(quantity(spec.b))",
        "{a: 9Ei, b: 6Ei}",
        Some("{a: 6Ei, b: 9Ei}"),
    ),
    cel("quantity(spec.a) == quantity(spec.b)", "{a: '9', b: '5'}", Some("{a: 1Ki, b: '1024'}")),
    cel("quantity(spec.a) in [quantity(spec.b)]", "{a: 9k, b: 5k}", Some("{a: '5000', b: 5k}")),
    cel(
        "sets.contains([quantity(spec.a)], [quantity(spec.b)])",
        "{a: 9k, b: 5k}",
        Some("{a: 5k, b: 5k}"),
    ),
    cel(
        "quantity(spec.a).add(quantity(spec.b)).isLessThan(quantity('10Gi'))",
        "{a: 8Gi, b: 4Gi}",
        Some("{a: 2Gi, b: 4Gi}"),
    ),
    // Conversions of values that show their type at run time.
    cel("duration(spec.count) < duration('5s')", "{count: 30}", Some("{count: 3s}")),
    cel("string(dyn(type(spec.count))) == 'int'", "{count: 30}", None),
    // An order of what has none.
    cel("spec.list.isSorted()", "{list: [1, {a: 1}]}", Some("{list: [1, 2]}")),
    cel("spec.list.isSorted()", "{list: [null, null]}", Some("{list: []}")),
    cel("[spec.m].isSorted()", "{m: {a: 1}}", Some("{m: 1}")),
    cel("spec.list.max() == spec.list[0]", "{list: [{a: 1}]}", Some("{list: [2, 1]}")),
    cel("spec.list.min() == spec.list[0]", "{list: [null, 1]}", Some("{list: [1, 2]}")),
    // Optional indexes that no map or list has.
    cel("!spec.m[?spec.key].hasValue()", "{m: {k: v}, key: [1]}", Some("{m: {k: v}, key: x}")),
    cel("!spec.m[?spec.key].hasValue()", "{m: {k: v}, key: {a: 1}}", Some("{m: {k: v}, key: kk}")),
    cel(
        "!spec.list[?spec.count].hasValue()",
        "{list: [1], count: 9223372036854775808.0}",
        Some("{list: [1], count: 5}"),
    ),
    // `orValue` of what is no optional.
    cel("spec.t.orValue('x') == 'x'", "{t: x}", None),
    cel("spec.list.orValue([]).size() == 1", "{list: [1]}", None),
    // Positions and sizes below zero, and beyond the end.
    cel("lists.range(spec.count).size() == 0", "{count: -1}", Some("{count: 0}")),
    cel("'abc'.indexOf('', spec.count) <= 0", "{count: -1}", Some("{count: 0}")),
    cel("'abc'.lastIndexOf('', spec.count) <= 0", "{count: -1}", Some("{count: 0}")),
    cel("'a'.indexOf('', spec.count) == spec.count", "{count: 9}", Some("{count: 1}")),
    // Keys and elements of a type that cannot be among them.
    cel("!(dyn(bytes(spec.key)) in {'a': 1})", "{key: a}", None),
    cel("spec.list.all(x, !(dyn(bytes(x)) in {1: 1}))", "{list: [a]}", Some("{list: []}")),
    cel("spec.count in {1.0: 1}", "{count: 1}", None),
    cel("dyn({1: 1}) == dyn({1.0: 1})", "{}", None),
    cel("!optional.ofNonZeroValue(dyn(optional.none())).hasValue()", "{}", None),
    // Texts that are not UTF-8.
    rego(
        "base64.decode(spec.a) != base64.decode(spec.b)",
        "{a: gA==, b: gQ==}",
        "{a: gA==, b: gA==}",
    ),
    rego("base64.encode(base64.decode(spec.a)) == spec.a", "{a: /w==}", "{a: '/x=='}"),
    rego("hex.encode(hex.decode(spec.a)) == \"80ff\"", "{a: 80ff}", "{a: 81ff}"),
    rego(
        "crypto.sha256(base64.decode(spec.a)) == \"a8100ae6aa1940d0b663bb31cd466142ebbdbd5187131b92d93818987832eb89\"",
        "{a: /w==}",
        "{a: '/g=='}",
    ),
    rego("urlquery.encode(urlquery.decode(spec.a)) == \"%80\"", "{a: '%80'}", "{a: '%81'}"),
    // A function that only the tests had.
    rego(
        "strings.render_template(\"{{.i}}:{{.t}}\", {\"i\": spec.i, \"t\": 1}) == \"bad:1\"",
        "{i: bad}",
        "{i: good}",
    ),
    rego(
        "base64.encode(strings.render_template(\"{{slice .x 0 1}}\", {\"x\": spec.x})) == \"ww==\"",
        "{x: é}",
        "{x: e}",
    ),
    // Globs, the empty text, and what a mark stands for.
    rego("glob.match(\"?\", [\".\"], spec.a)", "{a: ''}", "{a: ab}"),
    rego("glob.match(\"[!a]\", [\".\"], spec.a)", "{a: ''}", "{a: a}"),
    rego("glob.match(\"?*\", [\".\", \"/\"], spec.a)", "{a: a/b/c}", "{a: ''}"),
];

/// A template and a constraint for each condition, and the Pods that they look at.
fn policies() -> String {
    let mut all = String::new();
    for (row, condition) in CONDITIONS.iter().enumerate() {
        let code = match condition.source {
            Source::Cel(holds) => {
                // `spec` is a variable, as authors write one.
                let holds = holds.replace("spec.", "variables.spec.").replace('\'', "''");
                format!(
                    "code: [{{engine: K8sNativeValidation, source: {{variables: [{{name: spec, \
                     expression: object.spec}}], validations: [{{expression: '{holds}'}}]}}}}]"
                )
            }
            Source::Rego(violates) => format!(
                "rego: |\n      package row\n      violation[{{\"msg\": \"no\"}}] {{\n        \
                 spec := input.review.object.spec\n        {violates}\n      }}"
            ),
        };
        let _ = write!(
            all,
            "apiVersion: templates.gatekeeper.sh/v1\nkind: ConstraintTemplate\n\
             metadata: {{name: row{row}}}\nspec:\n  crd: {{spec: {{names: {{kind: Row{row}}}}}}}\n  \
             targets:\n  - target: admission.k8s.gatekeeper.sh\n    {code}\n---\n\
             apiVersion: constraints.gatekeeper.sh/v1beta1\nkind: Row{row}\n\
             metadata: {{name: row{row}}}\nspec: {{match: {{name: row{row}}}}}\n---\n",
        );
    }
    all
}

/// The Pods whose `spec` this picks, with the row that each is for.
fn pods(
    pick: impl Fn(&Condition) -> Option<&'static str>,
) -> impl Iterator<Item = (usize, String)> {
    CONDITIONS.iter().enumerate().filter_map(move |(row, condition)| {
        let spec = pick(condition)?;
        let pod = format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: row{row}, namespace: ns}}, spec: {spec}}}"
        );
        Some((row, pod))
    })
}

#[test]
fn what_the_original_denies_is_denied() {
    let of = |pick: fn(&Condition) -> Option<&'static str>| -> (Vec<usize>, Vec<String>) {
        pods(pick).unzip()
    };
    let (rows, denied) = of(|condition| Some(condition.denied));
    let (_, admitted) = of(|condition| condition.admitted);
    let folder = Folder::new(&[
        ("policies.yaml", &policies()),
        ("denied.yaml", &denied.join("\n---\n")),
        ("admitted.yaml", &admitted.join("\n---\n")),
    ]);
    let results = folder.review("denied.yaml");
    assert_eq!(results.len(), denied.len());
    for (row, result) in rows.iter().zip(&results) {
        let shown = format!("{}: {}", denied[*row], result.to_json());
        assert_eq!(result.get("allowed"), Some(&Value::from(false)), "{shown}");
        assert!(text(result, &["reason"]).starts_with(&format!("[row{row}] ")), "{shown}");
    }
    let results = folder.review("admitted.yaml");
    assert_eq!(results.len(), admitted.len());
    for (pod, result) in admitted.iter().zip(&results) {
        let shown = format!("{pod}: {}", result.to_json());
        assert_eq!(result.get("allowed"), Some(&Value::from(true)), "{shown}");
    }
    let server = folder.serve(&[]);
    for (pods, allowed) in [(&denied, false), (&admitted, true)] {
        for pod in pods {
            let object = modgate_value::yaml::value(pod).expect(pod).to_json();
            let response = server.review("/v1/admit", &admission_review("ns", &object));
            assert_eq!(response.get("allowed"), Some(&Value::from(allowed)), "{pod}: {response}");
        }
    }
}

/// A rule of one namespace that copies all it sees of a Node, one of all namespaces, and a Reject rule whose
/// message is what its author wants to see in a log.
const RULES: &str = r#"
apiVersion: api.kubemod.io/v1beta1
kind: ModRule
metadata: {name: copy, namespace: tenant}
spec:
  type: Patch
  match: [{select: '$.kind', matchValue: Pod}]
  patch: [{op: add, path: /metadata/annotations/one, value: '{{ toJson .Target.syntheticRefs.node }}'}]
---
apiVersion: api.kubemod.io/v1beta1
kind: ModRule
metadata: {name: copy, namespace: kubemod-system}
spec:
  type: Patch
  targetNamespaceRegex: '.*'
  match: [{select: '$.kind', matchValue: Pod}]
  patch: [{op: add, path: /metadata/annotations/all, value: '{{ toJson .Target.syntheticRefs.node }}'}]
---
apiVersion: api.kubemod.io/v1beta1
kind: ModRule
metadata: {name: reject, namespace: other}
spec:
  type: Reject
  rejectMessage: '{{ .Target.metadata.annotations.text }}'
  match: [{select: '$.metadata.annotations.text'}]
"#;

const NODE: &str = "
apiVersion: v1
kind: Node
metadata:
  name: node-1
  labels: {zone: a}
  annotations: {password: secret}
spec: {providerID: 'cloud://secret'}
status: {capacity: {cpu: '4'}}
";

/// The parts of a Node that a tenant's rules see, if a Pod names the Node.
#[test]
fn a_tenants_rule_sees_a_summary_of_a_node() {
    let folder = Folder::new(&[("policies.yaml", RULES), ("node.yaml", NODE)]);
    let pod = r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "tenant",
        "annotations": {"ref.kubemod.io/nodename": "node-1"}}, "spec": {}}"#;
    for (args, one, all) in [
        (&[][..], false, true),
        (&["--namespaced-node-reference", "full"], true, true),
        (&["--cluster-node-reference", "summary"], false, false),
    ] {
        let mut all_args = vec!["--objects", "node.yaml"];
        all_args.extend(args);
        let server = folder.serve(&all_args);
        let response = server.review("/dragnet-webhook", &admission_review("tenant", pod));
        let patch = STANDARD.decode(text(&response, &["patch"])).expect("base64");
        let patch = Value::from_json(&patch).expect("JSON");
        let seen = |annotation: &str| {
            let operations = patch.as_array().expect("operations").iter();
            let path = format!("/metadata/annotations/{annotation}");
            let mut found = operations.filter(|each| text(each, &["path"]) == path);
            let found = found.next().unwrap_or_else(|| panic!("{patch}"));
            found.get("value").expect("a value").to_json()
        };
        for (annotation, expected) in [("one", one), ("all", all)] {
            let seen = seen(annotation);
            assert!(seen.contains("\"zone\":\"a\"") && seen.contains("\"cpu\":\"4\""), "{seen}");
            assert_eq!(seen.contains("secret"), expected, "{args:?} {annotation}: {seen}");
        }
    }
}

/// Lines of a log are of bounded length, and what others wrote begins no line and moves no cursor.
#[test]
fn log_lines_are_bounded_and_escaped() {
    let folder = Folder::new(&[("policies.yaml", RULES)]);
    let forged = r"\n2026-01-01 forged\u001b[2J\r";
    let long = "x".repeat(200_000);
    for format in ["text", "json"] {
        let server =
            folder.serve(&["--log-format", format, "--log-level", "debug", "--log-denies"]);
        for (uid, annotation) in [(forged, forged), (&long, &long)] {
            let pod = format!(
                r#"{{"apiVersion": "v1", "kind": "Pod", "metadata": {{"name": "{annotation}",
                    "namespace": "other", "annotations": {{"text": "{annotation}",
                    "ref.kubemod.io/nodename": "{annotation}"}}}}, "spec": {{}}}}"#
            );
            let review = admission_review("other", &pod)
                .replace("0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0", uid)
                .replace("\"someone\"", &format!("\"{annotation}\""));
            for route in
                ["/dragnet-webhook", "/validate", "/v1/admit", "/v1/mutate", "/v1/admitlabel"]
            {
                server.review(route, &review);
            }
        }
        let log = server.stop();
        assert!(!log.contains(&0x1b) && !log.contains(&b'\r'), "{format}");
        for line in log.split(|byte| *byte == b'\n') {
            let shown = String::from_utf8_lossy(&line[..line.len().min(200)]);
            assert!(!line.starts_with(b"2026-01-01 forged"), "{format}: {shown}");
            // A handful of fields of 4 KiB each.
            assert!(line.len() < 40_000, "{format}: {} bytes: {shown}", line.len());
        }
    }
}

/// Rego whose values share parts: each has twice the parts of the one before, and costs nothing to make.
fn shared(first: &str, step: &str, last: &str) -> String {
    let mut source = format!("v0 := {first}\n");
    for at in 1..=60 {
        let before = format!("v{}", at - 1);
        let _ = writeln!(source, "v{at} := {}", step.replace('@', &before));
    }
    source + &format!("violation[{{\"msg\": \"m\"}}] {{ {last} }}\n")
}

/// Rego that costs much more than its length: it ends within its budget of time, and of memory by an error
/// that denies.
#[test]
fn costly_policies_end() {
    let padded = |size: usize, letter: &str| {
        format!("replace(sprintf(\"%{size}d\", [1]), \" \", \"{letter}\")")
    };
    let violation = |condition: &str| format!("violation[{{\"msg\": \"m\"}}] {{ {condition} }}\n");
    let schema = "s := {\"$ref\": \"#/definitions/d0\", \"definitions\": {sprintf(\"d%d\", [i]): \
        {\"allOf\": [{\"$ref\": r}, {\"$ref\": r}]} | i := numbers.range(0, 40)[_]; \
        r := sprintf(\"#/definitions/d%d\", [i + 1])}}\n";
    let clique = "g := {x: numbers.range(1, 2000) | x := numbers.range(1, 2000)[_]}\n";
    let bombs = [
        shared("{\"a\": 1}", "{\"a\": @, \"b\": @}", "count(json.marshal(v60)) == 9"),
        shared("{\"a\": 1}", "{\"a\": @, \"b\": @}", "count([1 | walk(v60, _)]) == 9"),
        shared("[1]", "[@, @]", "{v60, 1} == {v59}"),
        shared("\"abcdefgh\"", "concat(\"\", [@, @])", "count(v60) == 9"),
        violation(
            "count(sprintf(\"%s\", [concat(\"\", [sprintf(\"%1000000d\", [1]) | numbers.range(1, 1000)[_]])])) == 9",
        ),
        violation(&format!(
            "count(regex.find_n(\".*[^d]x|d\", {}, -1)) == 9",
            padded(200_000, "d")
        )),
        violation(&format!("count(regex.split(\".*[^d]x|d\", {})) == 9", padded(200_000, "d"))),
        violation(&format!("count(indexof_n({}, \"A\")) == 9", padded(5_000_000, "A"))),
        violation(
            "count([1 | x := numbers.range(1, 10000)[_]; regex.match(sprintf(\"(a%d{50}b?){20}\", [x]), \"a\")]) == 9",
        ),
        format!("{clique}{}", violation("count(graph.reachable(g, {1})) == 9")),
        format!("{schema}{}", violation("json.match_schema({\"a\": 1}, s)[0] == 9")),
    ];
    for source in bombs {
        let source: String = source.lines().map(|line| format!("      {line}\n")).collect();
        let policies = format!(
            "apiVersion: templates.gatekeeper.sh/v1\nkind: ConstraintTemplate\nmetadata: {{name: bomb}}\n\
             spec:\n  crd: {{spec: {{names: {{kind: Bomb}}}}}}\n  targets:\n  \
             - target: admission.k8s.gatekeeper.sh\n    rego: |\n      package bomb\n{source}---\n\
             apiVersion: constraints.gatekeeper.sh/v1beta1\nkind: Bomb\nmetadata: {{name: bomb}}\n"
        );
        let pod = "{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: ns}}";
        let folder = Folder::new(&[("policies.yaml", &policies), ("pod.yaml", pod)]);
        let began = Instant::now();
        let mut child = folder
            .command(&["review", "-f", "policies.yaml", "pod.yaml"])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("modgate");
        let mut most = 0;
        let code = loop {
            most = most.max(memory(&child));
            if let Some(status) = child.try_wait().expect("a status") {
                break status.code();
            }
            // Many times its budget of 2 s, for machines that are busy.
            let is_late = began.elapsed() > Duration::from_secs(60);
            if is_late {
                child.kill().expect("killed");
            }
            assert!(!is_late, "{source} does not end");
            thread::sleep(Duration::from_millis(2));
        };
        let mut errors = String::new();
        child.stderr.take().expect("stderr").read_to_string(&mut errors).expect("text");
        // Denied, admitted because nothing violates, or refused when it was loaded; not a crash.
        assert!(matches!(code, Some(0..=2)), "{code:?} {errors} {source}");
        assert!(!errors.contains("panicked"), "{errors}");
        assert!(most < 200 << 10, "{most} KiB: {source}");
    }
}

/// Patterns that are slow to match: each place that takes one gives up when its time is up, and denies.
#[test]
fn slow_patterns_end_undecided() {
    const PATTERN: &str = "[ab]*a[ab]{900}c";
    let rule = |spec: &str| {
        format!(
            "apiVersion: api.kubemod.io/v1beta1\nkind: ModRule\nmetadata: {{name: slow, namespace: ns}}\n\
             spec: {{type: Reject, match: {spec}}}\n"
        )
    };
    let constraint = |code: &str| {
        format!(
            "apiVersion: templates.gatekeeper.sh/v1\nkind: ConstraintTemplate\nmetadata: {{name: slow}}\n\
             spec:\n  crd: {{spec: {{names: {{kind: Slow}}}}}}\n  targets:\n  \
             - target: admission.k8s.gatekeeper.sh\n{code}---\n\
             apiVersion: constraints.gatekeeper.sh/v1beta1\nkind: Slow\nmetadata: {{name: slow}}\n"
        )
    };
    let rego = |condition: &str| {
        constraint(&format!(
            "    rego: |\n      package slow\n      violation[{{\"msg\": \"m\"}}] {{\n        \
             t := input.review.object.metadata.annotations.t\n        {condition}\n      }}\n"
        ))
    };
    let cel = |expression: &str| {
        constraint(&format!(
            "    code: [{{engine: K8sNativeValidation, source: {{validations: [{{expression: \
             \"{expression}\"}}]}}}}]\n"
        ))
    };
    let policies = [
        rule(&format!("[{{select: $.metadata.annotations.t, matchRegex: '{PATTERN}'}}]")),
        rule(&format!("[{{select: '$.metadata.annotations.t =~ \"{PATTERN}\"'}}]")),
        rego(&format!("regex.match(\"{PATTERN}\", t)")),
        rego(&format!("count(regex.find_n(\"{PATTERN}\", t, 1)) == 9")),
        rego(&format!("count(regex.split(\"{PATTERN}\", t)) == 9")),
        rego(&format!("regex.replace(t, \"{PATTERN}\", \"\") == \"\"")),
        rego(&format!("count(regex.find_all_string_submatch_n(\"{PATTERN}\", t, 1)) == 9")),
        cel(&format!("!object.metadata.annotations.t.matches('{PATTERN}')")),
        cel(&format!("object.metadata.annotations.t.find('{PATTERN}') == ''")),
    ];
    // Letters by chance, so that the search meets new states all the time.
    let mut state = 1_u64;
    let text: String = std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        if state >> 63 == 0 { 'a' } else { 'b' }
    })
    .take(1_500_000)
    .collect();
    let pod = format!(
        "{{\"apiVersion\": \"v1\", \"kind\": \"Pod\", \"metadata\": {{\"name\": \"p\", \"namespace\": \"ns\", \
         \"annotations\": {{\"t\": \"{text}\"}}}}}}"
    );
    for policy in policies {
        let folder = Folder::new(&[("policies.yaml", &policy), ("pod.json", &pod)]);
        let output = folder
            .command(&["review", "-f", "policies.yaml", "-o", "json", "pod.json"])
            .output()
            .expect("modgate");
        let said = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(1), "{policy}");
        assert!(said.contains("time budget of"), "{policy}: {}", said.get(..2000).unwrap_or(&said));
    }
}

/// Many large patterns of one policy: it is refused, and no more of them is compiled than a policy may have.
#[test]
fn patterns_of_a_policy_are_bounded_together() {
    const PATTERN: &str = r"(\pL|N){90}";
    let items = |item: &str| vec![item; 400].join(", ");
    let rule = |item: &str| {
        format!(
            "apiVersion: api.kubemod.io/v1beta1\nkind: ModRule\nmetadata: {{name: many, namespace: ns}}\n\
             spec: {{type: Reject, match: [{}]}}\n",
            items(item)
        )
    };
    let source = format!("{{expression: \"'a'.matches(r'{}')\"}}", PATTERN.replace('\\', "\\\\"));
    let policies = [
        rule(&format!("{{select: $.kind, matchRegex: '{PATTERN}'}}")),
        rule(&format!("{{select: '$.kind =~ \"{}\"'}}", PATTERN.replace('\\', "\\\\"))),
        format!(
            "apiVersion: templates.gatekeeper.sh/v1\nkind: ConstraintTemplate\nmetadata: {{name: many}}\n\
             spec:\n  crd: {{spec: {{names: {{kind: Many}}}}}}\n  targets:\n  \
             - target: admission.k8s.gatekeeper.sh\n    code: [{{engine: K8sNativeValidation, source: \
             {{validations: [{}]}}}}]\n---\n\
             apiVersion: constraints.gatekeeper.sh/v1beta1\nkind: Many\nmetadata: {{name: many}}\n",
            items(&source)
        ),
    ];
    for policy in policies {
        let pod = "{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: ns}}";
        let folder = Folder::new(&[("policies.yaml", &policy), ("pod.yaml", pod)]);
        let mut child = folder
            .command(&["review", "-f", "policies.yaml", "pod.yaml"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("modgate");
        let mut most = 0;
        while child.try_wait().expect("a status").is_none() {
            most = most.max(memory(&child));
            thread::sleep(Duration::from_millis(2));
        }
        assert!(most < 200 << 10, "{most} KiB: {}", &policy[..400]);
    }
}

/// Resident memory of a process in KiB; 0 where the system does not say.
fn memory(child: &Child) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or_default()
}
