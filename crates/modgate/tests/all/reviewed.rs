//! Inputs on which modgate once differed from the originals, through the binary, with what the
//! originals answer (`MODGATE_REVIEWED`, else `../shared/review/inputs`).
//!
//! Each folder's files are counted: one that is gone, or that no case uses, fails.

use std::{
    collections::BTreeSet,
    env, fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use serde_json::{Value, json};

/// The folder `name` of the inputs; `None`, and a line, where there are none. Under `CI=true` they are
/// required.
fn inputs(name: &str, files: usize) -> Option<PathBuf> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = env::var_os("MODGATE_REVIEWED")
        .map_or(root.join("../shared/review/inputs"), PathBuf::from)
        .join(name);
    if !folder.is_dir() {
        let is_required =
            env::var("CI").is_ok_and(|ci| ci == "true") && root.join("../shared").is_dir();
        assert!(!is_required, "there is no {}", folder.display());
        println!("skipped: there is no {}", folder.display());
        return None;
    }
    assert_eq!(listed(&folder).len(), files, "files in {}", folder.display());
    Some(fs::canonicalize(folder).expect("a folder"))
}

/// All files below a folder, by their path in it.
fn listed(folder: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        if path.is_dir() {
            found.extend(listed(&path).into_iter().map(|file| format!("{name}/{file}")));
        } else {
            found.insert(name);
        }
    }
    found
}

fn run(program: &Path, folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(program);
    command.args(args).current_dir(folder).env("NO_COLOR", "1").env("COLUMNS", "200");
    command.env_remove("KUBERNETES_SERVICE_HOST").output().expect("the program runs")
}

fn modgate(folder: &Path, args: &[&str]) -> Output {
    run(Path::new(env!("CARGO_BIN_EXE_modgate")), folder, args)
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// The violations that gator finds in the files of `realworld`: all messages, sorted.
const FOUND: &[(&str, &[&str])] = &[
    // EV-144: gator does not find the template.
    ("capitals.yaml", &["found", "found"]),
    ("cel1.yaml", &["is false"]),
    ("constraint-as-object.yaml", &["explicit-action says deny"]),
    ("dedupe.yaml", &["a container has no probe"]),
    ("items-string.yaml", &["missing owner"]),
    ("items.yaml", &["missing owner"]),
    ("ns-absent.yaml", &["cluster-scoped objects are forbidden"]),
    (
        "orvalue.yaml",
        &[
            "C optional",
            "expression 'object.metadata.name.or(optional.of(\"q\")).orValue(\"r\") == \"y\"' resulted in error: no such overload",
            "expression 'object.metadata.name.orValue(\"x\") == \"y\"' resulted in error: no such overload",
            "expression 'object.spec.containers.all(c, c.volumeMounts.hasValue())' resulted in error: no such overload: hasValue(list)",
            "expression 'object.spec.containers.all(c, c.volumeMounts.orValue([]).size() == 99)' resulted in error: no such overload",
            "expression 'object.spec.containers.all(c, c.volumeMounts.value().size() == 99)' resulted in error: no such overload: value(list)",
            "expression 'object.spec.containers.orValue([]).exists(c, c.name == \"zz\")' resulted in error: no such overload",
            "expression 'object.spec.containers.orValue([]).size() == 99' resulted in error: no such overload",
        ],
    ),
    ("prefix.yaml", &[]),
    (
        "sprintf.yaml",
        &[
            "10 %!s(int=3) %!s(int=3)",
            "3 %!d(float64=1.5)",
            "4 %!d(string=p)",
            "6 %!s(int=3)",
            // fix-numbers-shown: `%!s(float64=1.2345678901234567e+19)` in gator.
            "7 12345678901234567890",
            "8 3 3 %!s(int=3)",
            "9%!(EXTRA int=3)",
        ],
    ),
];

#[test]
fn public_policies() {
    let Some(folder) = inputs("realworld", 23) else { return };
    let bin = tempfile::tempdir().expect("a folder");
    let gator = bin.path().join("gator");
    symlink(env!("CARGO_BIN_EXE_modgate"), &gator).expect("a link");
    let messages = |file: &str| -> Vec<String> {
        let output = run(&gator, &folder, &["test", "-o", "json", "-f", file]);
        // Without results gator prints `null`.
        let results: Option<Vec<Value>> = serde_json::from_slice(&output.stdout).expect("JSON");
        let mut messages: Vec<String> = results
            .iter()
            .flatten()
            .map(|it| it["msg"].as_str().expect("a message").to_owned())
            .collect();
        messages.sort();
        messages
    };
    for (file, expected) in FOUND {
        assert_eq!(messages(file), *expected, "{file}");
    }
    // EV-142: a Namespace that a file has, and an empty object for everything else.
    let reviews = messages("review.yaml");
    let objects: Vec<&String> =
        reviews.iter().filter(|it| it.contains("\"namespaceObject\": {}")).collect();
    // One of the three is in `default`, which no file describes.
    assert_eq!((reviews.len(), objects.len()), (10, 3), "{reviews:?}");
    assert!(messages("review-ns.yaml").iter().all(|it| !it.contains("no such key")));
    for object in ["pod.yaml", "pod2.json", "rev.json"] {
        let output = modgate(&folder, &["review", "-f", "ns-absent.yaml", object]);
        let is_cluster_scoped = text(&output).contains("cluster-scoped objects are forbidden");
        assert_eq!(is_cluster_scoped, object == "rev.json", "{object}: {}", text(&output));
    }
    let verified = |suite: &str| text(&run(&gator, &folder, &["verify", "-v", suite]));
    assert!(verified("dd/suite.yaml").contains("--- PASS: one"), "{}", verified("dd/suite.yaml"));
    let kind = r#"got messages [{"group": "", "kind": "", "version": ""}]"#;
    assert!(verified("rk/suite.yaml").contains(kind), "{}", verified("rk/suite.yaml"));
}

/// Policies, objects, the exit code of `review`, and a part of what it prints.
const REVIEWS: &[(&str, &[&str], i32, &str)] = &[
    ("policies.yaml", &["rev.json"], 0, "Namespace is set to be ignored by Gatekeeper config"),
    ("policies.yaml", &["pod.yaml"], 0, "Namespace is set to be ignored by Gatekeeper config"),
    ("policies.yaml", &["rev2.json"], 1, "denied by DenyAll c: no"),
    ("rule.yaml", &["quota.yaml"], 0, "`ResourceQuota` is not among the kinds of the webhook"),
    ("mut.yaml", &["own.yaml"], 0, "it is the namespace of modgate itself"),
    // The API server does not send the ConfigMap, and the webhook for labels refuses the Namespace.
    ("mut.yaml", &["ns.yaml", "cm.yaml"], 1, "has the label `admission.gatekeeper.sh/ignore`"),
    ("tpl.yaml", &["rev3.json"], 1, "\"nonsense\" is not within the supported list"),
    ("tpl.yaml", &["badtpl.yaml"], 1, "\"nonsense\" is not within the supported list"),
    ("tpl.yaml", &["gens.yaml"], 0, "ConstraintTemplate denyall: allowed"),
    ("tpl.yaml", &["gvkobj.yaml"], 1, "DeviceClass d: allowed"),
    ("regork.yaml", &["rk.json"], 1, "apps/v1beta1 is not allowed"),
    ("regork.yaml", &["suite/obj.yaml"], 1, "apps/v1beta1 is not allowed"),
    (
        "echo.yaml",
        &["rk.json"],
        1,
        "\"requestKind\": {\"group\": \"apps\", \"kind\": \"Deployment\", \"version\": \"v1beta1\"}",
    ),
];

#[test]
fn one_decision_for_every_caller() {
    let Some(folder) = inputs("decision", 23) else { return };
    let mut used: BTreeSet<String> = BTreeSet::new();
    for (policies, objects, code, part) in REVIEWS {
        let mut args = vec!["review", "-f", policies];
        args.extend(*objects);
        let output = modgate(&folder, &args);
        let shown = text(&output);
        assert_eq!(output.status.code(), Some(*code), "{args:?}: {shown}");
        assert!(shown.contains(part), "{args:?}: {part}: {shown}");
        used.insert((*policies).to_owned());
        used.extend(objects.iter().map(|file| (*file).to_owned()));
    }
    let output = modgate(&folder, &["review", "-f", "celrk.yaml", "rk.json"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    used.insert("celrk.yaml".to_owned());
    let output = modgate(&folder, &["verify", "-v", "suite/suite.yaml"]);
    assert!(text(&output).contains("--- PASS: c"), "{}", text(&output));
    used.extend(["suite", "template", "constraint"].map(|file| format!("suite/{file}.yaml")));
    assert_eq!(used, listed(&folder), "every file is used");
}

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The annotations after KubeMod in the scenarios of `d1x.in`; `l` stands for the last-applied
/// annotation.
fn annotations() -> Vec<(&'static str, Value)> {
    let applied = |annotations: &str| {
        let text = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"annotations":{},"name":"p"},"spec":{}}"#;
        text.replace("{}", annotations).replace(&format!("\"spec\":{annotations}"), "\"spec\":{}")
    };
    vec![
        ("remove-notjson", json!({"x": "y"})),
        ("replace-notjson", json!({"l": "z", "x": "y"})),
        ("add-notjson", json!({"l": "z", "x": "y"})),
        ("remove-json", json!({"l": applied("{}"), "x": "y"})),
        ("add-json", json!({"l": applied(&format!("{{\"{ANNOTATION}\":\"z\"}}")), "x": "y"})),
        ("replace-json", json!({"l": "z", "x": "y"})),
        ("replace-x-then-remove", json!({"x": "z"})),
        ("removeall-notjson", Value::Null),
        // Q-33: KubeMod crashes.
        ("removeall-json", Value::Null),
        ("replaceall-json", json!({"l": applied("{\"q\":\"r\"}"), "q": "r"})),
        ("replace-x-then-replaceall", json!({"q": "r"})),
        // Q-33
        ("replace-meta", Value::Null),
        // Q-25: KubeMod drops the patch, because it does not escape the captured key.
        ("select-replace", json!({"l": "z", "x": "z"})),
        ("redact-add", json!({"l": applied("{}")})),
    ]
}

#[test]
fn rules_about_annotations() {
    let Some(folder) = inputs("modrules", 17) else { return };
    let work = tempfile::tempdir().expect("a folder");
    let scenarios = fs::read_to_string(folder.join("d1x.in")).expect("d1x.in");
    let expected = annotations();
    assert_eq!(scenarios.lines().count(), expected.len());
    for (line, (id, expected)) in scenarios.lines().zip(expected) {
        let scenario: Value = serde_json::from_str(line).expect("JSON");
        assert_eq!(scenario["id"], id);
        let rules = scenario["rules"].as_array().expect("rules").iter();
        let rules: Vec<String> = rules.map(Value::to_string).collect();
        fs::write(work.path().join("rules.json"), rules.join("\n")).expect("written");
        let object = scenario["requests"][0]["object"].to_string();
        fs::write(work.path().join("object.json"), object).expect("written");
        let args =
            ["review", "-o", "json", "-n", "my-namespace", "-f", "rules.json", "object.json"];
        let output = modgate(work.path(), &args);
        let results: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let mut got = results[0]["object"]["metadata"]["annotations"].clone();
        if let Some(members) = got.as_object_mut()
            && let Some(applied) = members.remove(ANNOTATION)
        {
            members.insert("l".to_owned(), applied);
        }
        assert_eq!(got, expected, "{id}");
    }
}

/// Rules, an object, and a part of what `review -o yaml` prints.
const PATCHED: &[(&str, &str, &str)] = &[
    ("d1-rules.yaml", "d1-secret.yaml", "last-applied-configuration: redacted\n"),
    (
        "d1b-rules.yaml",
        "d1b-secret.yaml",
        "  annotations:\n    injected-by-controller: z\n  name: s\n",
    ),
    ("d1b-rules.yaml", "d1b-secret.yaml", "the last-applied annotation is patched no further"),
    ("rule.json", "pod.json", "a: \"\\U0001F600\""),
    ("rule.json", "esc.json", "u: a/b\n"),
    ("rule.json", "list.json", "a: \"\\U0001F600\""),
    ("rule.json", "stream.json", "  name: q\n"),
    ("rule.json", "ctl.json", "t: \"x\\x7F\\x01\\L\""),
    ("rule.json", "ind.json", "name: tab\n"),
    ("rule.json", "tab.json", "name: tab\n"),
    ("issue113.yaml", "pod.json", "which is not a text, and the API server refuses the object"),
];

#[test]
fn json_and_yaml_that_were_refused() {
    let Some(folder) = inputs("modrules", 17) else { return };
    for (rules, object, part) in PATCHED {
        let output = modgate(&folder, &["review", "-o", "yaml", "-f", rules, object]);
        let shown = text(&output);
        assert!(output.status.success(), "{rules} {object}: {shown}");
        assert!(shown.contains(part), "{rules} {object}: {part}: {shown}");
    }
}

/// The warnings and failures of `review` about the same inputs, a part of each.
const SAID: &[(&[&str], i32, &str)] = &[
    // P2-1: the failure names the annotation.
    (
        &["review", "-f", "d1b-rules.yaml", "d1b-secret.yaml"],
        0,
        "default/a-owner: the last-applied annotation is patched no further: replace at \
         `/metadata/annotations/injected-by-controller`",
    ),
    // P2-4: integers in suggestions.
    (&["select", "$.a[1].b != \"x\"", "-f", "ind.json"], 0, "add `isDefined($.a[1].b) && `"),
    (
        &["select", "$.a[length(@)-1].b != \"x\"", "-f", "ind.json"],
        0,
        "add `isDefined($.a[length(@) - 1].b) && `",
    ),
    // P2-5: a Namespace that is nowhere is missing.
    (
        &["review", "--missing-reference", "deny", "-f", "issue113.yaml", "NAMESPACED"],
        1,
        "failed to read namespace `shop`: no file describes it: give it with `--objects`",
    ),
    // P2-6: what a bare path selects where there is nothing.
    (&["select", "$.kind.x", "-f", "ind.json"], 0, "undefined at `.x`"),
    // P2-7: an index that never works (Q-12).
    (&["select", "$.a[-1].b", "-f", "ind.json"], 0, "no list has an element `-1`"),
];

#[test]
fn what_is_said_about_rules() {
    let Some(folder) = inputs("modrules", 17) else { return };
    let work = tempfile::tempdir().expect("a folder");
    let object = work.path().join("pod.json");
    let pod =
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "shop"}});
    fs::write(&object, pod.to_string()).expect("written");
    let object = object.to_str().expect("a path");
    for (args, code, part) in SAID {
        let args: Vec<&str> =
            args.iter().map(|arg| if *arg == "NAMESPACED" { object } else { arg }).collect();
        let output = modgate(&folder, &args);
        let shown = text(&output);
        assert!(shown.contains(part), "{args:?}: {part}: {shown}");
        assert_eq!(output.status.code(), Some(*code), "{args:?}: {shown}");
    }
}

/// The values of `nel.py` and what go-yaml makes of them, as KubeMod patches them in; `None` where it
/// drops the patch (P2-9).
fn values_with_line_separators() -> Vec<(&'static str, Option<Value>)> {
    vec![
        ("a\u{85}b", Some(json!("a b"))),
        ("a: b\u{85}c", None),
        ("a: \u{85}b", None),
        ("a: b\u{85} c", Some(json!({"a": "b c"}))),
        ("'a\u{85}b'", Some(json!("a b"))),
        ("x: |\n  a\u{85}  b\n", Some(json!({"x": "a\nb\n"}))),
        ("a: 1\u{85}b: 2", Some(json!({"a": 1, "b": 2}))),
        ("a\u{2028}b", Some(json!("a\u{2028}b"))),
        ("x: y\u{2028}  z", Some(json!({"x": "y\u{2028}z"}))),
        ("x: y\u{2029}z", None),
    ]
}

#[test]
fn line_separators_in_yaml() {
    let work = tempfile::tempdir().expect("a folder");
    for (value, expected) in values_with_line_separators() {
        let rule = json!({"apiVersion": "api.kubemod.io/v1beta1", "kind": "ModRule",
            "metadata": {"name": "r", "namespace": "kubemod-system"},
            "spec": {"type": "Patch", "match": [{"select": "$.kind"}],
                "patch": [{"op": "add", "path": "/zz", "value": value}]}});
        fs::write(work.path().join("rule.json"), rule.to_string()).expect("written");
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}});
        fs::write(work.path().join("node.json"), node.to_string()).expect("written");
        let args =
            ["review", "-o", "json", "--modrule-resource", "*", "-f", "rule.json", "node.json"];
        let output = modgate(work.path(), &args);
        let results: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let patched = results[0]["object"].get("zz").cloned();
        assert_eq!(patched, expected, "{value:?}: {}", text(&output));
    }
}

/// The output of gator for the files of `matching`: `test`, then `expand`.
const MATCHED: &[(&str, &str, &str)] = &[
    (
        "av.yaml",
        "auditing objects: adding data of GVK \"/, Kind=\": admission.k8s.gatekeeper.sh: invalid \
         request object: resource p has no version",
        "error expanding resources: error expanding resource p: cannot expand resource p with empty GVK",
    ),
    (
        "generated-no-kind.yaml",
        // Section Expansion: gator's message has the whole object.
        "apps/v1/Deployment x/d: [\"a\"] Message: \"[Implied by t] unable to match constraints: \
         invalid request object: the object has no kind\"",
        "apiVersion: v1\nkind: \"\"",
    ),
    ("inventory-noname.yaml", "v1/Pod x/p: [\"a\"] Message: \"inventory has Job x/<>\"", ""),
    (
        "kindnum.yaml",
        "auditing objects: adding data of GVK \"mutations.gatekeeper.sh/v1, Kind=\": \
         admission.k8s.gatekeeper.sh: invalid request object: resource p has no kind",
        "",
    ),
    ("kindother.yaml", "", ""),
    // fix-labels
    ("label-number.yaml", "v1/Pod x/p: [\"sel\"] Message: \"hit\"", ""),
    ("mutator-metadata-null.yaml", "", "  containers: []\n  x: 1\n"),
    (
        "name-number.yaml",
        "v1/ConfigMap x/good: [\"a\"] Message: \"hit\"\nv1/ConfigMap x/: [\"a\"] Message: \"hit\"",
        "",
    ),
    // Section gator: gator's decoder fails.
    ("ns-label-number.yaml", "v1/Pod x/p: [\"a\"] Message: \"hit\"", ""),
    ("scoped-no-action.yaml", "v1/Pod x/p: [\"a\"] Message: \"hit\"", ""),
    ("scoped-typo.yaml", "v1/Pod x/p: [\"a\"] Message: \"hit\"", ""),
    // fix-template-metadata
    ("template-metadata-null.yaml", "", "  name: d-pod\n"),
];

#[test]
fn odd_manifests() {
    let Some(folder) = inputs("matching", 27) else { return };
    let bin = tempfile::tempdir().expect("a folder");
    let gator = bin.path().join("gator");
    symlink(env!("CARGO_BIN_EXE_modgate"), &gator).expect("a link");
    let mut files: BTreeSet<String> = listed(&folder)
        .into_iter()
        .filter(|file| !file.contains('/') && file.ends_with("yaml"))
        .collect();
    for (file, tested, expanded) in MATCHED {
        assert!(files.remove(*file), "{file}");
        let shown = text(&run(&gator, &folder, &["test", "--filename", file]));
        assert_eq!(shown.trim(), *tested, "{file}");
        let shown = text(&run(&gator, &folder, &["expand", "--filename", file]));
        assert!(shown.contains(expanded), "{file}: {shown}");
        assert_eq!(shown.trim().is_empty(), expanded.is_empty(), "{file}: {shown}");
    }
    assert_eq!(files, BTreeSet::new(), "every file is used");
    let output = modgate(&folder, &["review", "-f", "generated-no-kind.yaml", "rev.json"]);
    assert_eq!(output.status.code(), Some(1), "M1: {}", text(&output));
    let verified = text(&run(&gator, &folder, &["verify", "-v", "v/suite.yaml"]));
    for part in [
        "got 1 violations containing \"\" but want none",
        "got messages [[Implied by t] hit hit]",
        "reading ExpansionTemplate from \"",
        "not an Expansion Template: \"",
        "constraint should have failed schema validation: got error reading ConstraintTemplate from \"",
        "not a ConstraintTemplate",
        "missing ConstraintTemplate: template \"fire\" not found",
    ] {
        assert!(verified.contains(part), "{part}: {verified}");
    }
    let verified = text(&run(&gator, &folder, &["verify", "-v", "v2/suite.yaml"]));
    assert!(verified.contains("--- PASS: y"), "M2: {verified}");
    assert!(verified.contains("got 1 violations but want none: got messages [hit]"), "{verified}");
}

/// The violations that gator finds in the folders of `functions`.
const CALLED: &[(&str, &[&str])] = &[
    (
        "d0",
        &[
            "expression 'duration(object.spec.n) < duration(\"5s\")' resulted in error: no such overload: duration(int)",
        ],
    ),
    ("d1", &["expression 'object.spec.list.isSorted()' resulted in error: no such overload"]),
    ("d2", &["expression 'object.spec.list.max() == 1' resulted in error: no such overload"]),
    // CEL-2: `[]interface {}` in gator.
    (
        "d3",
        &[
            "expression '!object.spec.m[?object.spec.list].hasValue()' resulted in error: invalid qualifier type: list",
        ],
    ),
    (
        "d4",
        &[
            "expression 'lists.range(-1).size() == 0' resulted in error: lists.range: size must be non-negative, got -1",
        ],
    ),
    ("d5", &["no"]),
    ("d6", &["no"]),
    (
        "d7",
        &[
            "expression '[object.spec.m].isSorted()' resulted in error: no such overload: isSorted(list)",
        ],
    ),
    (
        "d8",
        &["expression '\"abc\".indexOf(\"\",-1) < 0' resulted in error: index out of range: -1"],
    ),
    (
        "d9",
        &[
            "compilation error: compilation failed: ERROR: <input>:1:7: found no matching overload for 'string' applied to '(type(dyn))'\n | string(type(object.spec.n)) == \"int\"\n | ......^",
        ],
    ),
    ("d10", &["no"]),
    ("d11", &[]),
    ("rego/b64", &["no"]),
    ("rego/glob", &["no"]),
    ("rego/render", &["no"]),
    ("rego/sha", &["no"]),
];

#[test]
fn functions_in_pairs() {
    let Some(folder) = inputs("functions", 20) else { return };
    let bin = tempfile::tempdir().expect("a folder");
    let gator = bin.path().join("gator");
    symlink(env!("CARGO_BIN_EXE_modgate"), &gator).expect("a link");
    for (name, expected) in CALLED {
        let output = run(&gator, &folder, &["test", "-o", "json", "-f", name]);
        let results: Option<Vec<Value>> = serde_json::from_slice(&output.stdout).expect("JSON");
        let results = results.unwrap_or_default();
        let messages: Vec<&str> = results.iter().filter_map(|it| it["msg"].as_str()).collect();
        assert_eq!(messages, *expected, "{name}");
    }
}

/// A template of the kind `F` with a constraint, and a Pod.
fn with_pod(source: &str) -> String {
    format!(
        "apiVersion: templates.gatekeeper.sh/v1\nkind: ConstraintTemplate\nmetadata: {{name: f}}\nspec:\n  \
         crd: {{spec: {{names: {{kind: F}}}}}}\n  targets:\n  - target: admission.k8s.gatekeeper.sh\n{source}\n\
         ---\napiVersion: constraints.gatekeeper.sh/v1beta1\nkind: F\nmetadata: {{name: a}}\n\
         spec: {{match: {{kinds: [{{apiGroups: [''], kinds: [Pod]}}]}}}}\n\
         ---\napiVersion: v1\nkind: Pod\nmetadata: {{name: p, namespace: x}}\nspec: {{containers: []}}\n"
    )
}

/// Rego as the source of a template.
fn rego(lines: &[&str]) -> String {
    let lines: Vec<String> = lines.iter().map(|line| format!("      {line}\n")).collect();
    with_pod(&format!("    rego: |\n      package f\n{}", lines.concat()))
}

/// The small differences of public policies (`realworld` S3 to S13): inputs, the command of gator, its exit
/// code, and a part of what it prints.
fn small_differences() -> Vec<(&'static str, String, &'static str, i32, &'static str)> {
    let violation = |body: &str| rego(&[&format!("violation[{{\"msg\": msg}}] {{ {body} }}")]);
    let expansion = "apiVersion: expansion.gatekeeper.sh/v1beta1\nkind: ExpansionTemplate\n\
                     metadata: {name: t}\nspec:\n  applyTo: [{groups: [apps], versions: [v1], kinds: \
                     [Deployment]}]\n  templateSource: spec.nothing\n  generatedGVK: {group: '', version: v1, \
                     kind: Pod}\n---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: ldap, \
                     namespace: x}\nspec: {}\n";
    let conflict =
        rego(&["violation[{\"msg\": msg}] { f(1) == 2; msg := \"x\" }", "f(x) = 1", "f(x) = 2"]);
    let cel = with_pod(
        "    code:\n    - engine: K8sNativeValidation\n      source:\n        validations:\n        \
         - expression: authorizer.group('').resource('pods').check('get').allowed()\n          message: m",
    );
    vec![
        ("S3", conflict, "test -o json", 1, "\"details\": null"),
        (
            "S5",
            violation("msg := \"x\" )"),
            "test",
            1,
            "rego_parse_error: unexpected ) token: expected \\n or ; or }\n\tviolation[{\"msg\": msg}] { msg := \"x\" ) }\n\t                                     ^",
        ),
        ("S6", expansion.to_owned(), "test", 1, "auditing objects: expanding resource ldap: "),
        (
            "S7",
            violation("r := http.send({}); msg := r.body"),
            "test",
            1,
            "undefined function http.send: it is switched off (REGO-8)",
        ),
        (
            "S7",
            violation("r := http.send({}); msg := sprintff(\"%v\", [r])"),
            "test",
            1,
            "2 errors occurred:\ntemplate:2: rego_type_error: undefined function http.send: it is switched \
             off (REGO-8)\ntemplate:2: rego_type_error: undefined function sprintff",
        ),
        ("S8", cel, "test", 1, "undeclared reference to 'authorizer' (in container '')\\n | authorizer.group"),
        (
            "S9",
            "apiVersion: templates.gatekeeper.sh/v1alpha1\nkind: ConstraintTemplate\nmetadata: {name: f}\n\
             spec:\n  crd: {spec: {names: {kind: F}}}\n  targets: {a: {rego: x}}\n"
                .to_owned(),
            "test",
            1,
            "spec.targets: expected a list, got an object",
        ),
        (
            "S10",
            violation("data.lib.x.f(1, 2, 3); msg := \"x\"").replace(
                "---\napiVersion: constraints",
                "    libs: [\"package lib.x\\n\\nf(a) = b { b := a }\"]\n---\napiVersion: constraints",
            ),
            "test",
            1,
            "rego_type_error: function data.libs.lib.x.f has arity 1, got 3 arguments",
        ),
        (
            "S10",
            rego(&["violation = \"x\" { true }"]),
            "test",
            1,
            "hooks.hooks_builtin:15: rego_type_error: undefined ref: data.template.violation[r]\n\t\
             data.template.violation[r]\n\t^^^^^^^^^^^^^^^^^^^^^^^\n\thave: string",
        ),
        (
            "S11",
            "apiVersion: templates.gatekeeper.sh/v1\nkind: ConstraintTemplate\nmetadata: {name: f}\n\
             spec:\n  crd: {spec: {names: {}}}\n  targets: []\n"
                .to_owned(),
            "test",
            1,
            "must declare exactly one target",
        ),
        (
            "S13",
            violation("data.inventory.cluster; msg := \"x\"").replace(
                "{name: f}",
                "{name: f, annotations: {metadata.gatekeeper.sh/requires-sync-data: '[[{'}}",
            ),
            "sync test -f",
            1,
            "encountered errors parsing the following templates: \nf:\n",
        ),
    ]
}

#[test]
fn small_differences_of_public_policies() {
    let work = tempfile::tempdir().expect("a folder");
    let gator = work.path().join("gator");
    symlink(env!("CARGO_BIN_EXE_modgate"), &gator).expect("a link");
    for (id, input, command, code, part) in small_differences() {
        fs::write(work.path().join("in.yaml"), input).expect("written");
        let mut args: Vec<&str> = command.split(' ').collect();
        args.push(if args.contains(&"sync") { "--filename" } else { "-f" });
        args.push("in.yaml");
        let output = run(&gator, work.path(), &args);
        assert!(text(&output).contains(part), "{id}: {}", text(&output));
        assert_eq!(output.status.code(), Some(code), "{id}: {}", text(&output));
    }
    // S12: paths as they were given.
    let suites = work.path().join("suites/below");
    fs::create_dir_all(&suites).expect("a folder");
    let suite = "apiVersion: test.gatekeeper.sh/v1alpha1\nkind: Suite\ntests: []\n";
    fs::write(suites.join("suite.yaml"), suite).expect("written");
    let shown = text(&run(&gator, &work.path().join("suites"), &["verify", "./..."]));
    assert!(shown.contains("./below/suite.yaml\t"), "{shown}");
}

/// Rego v1 in a v0 template: the first error names the version (`experience` F13), at the command line
/// and to gator's users alike.
#[test]
fn the_first_error_of_v1_in_a_template_of_v0() {
    let work = tempfile::tempdir().expect("a folder");
    let gator = work.path().join("gator");
    symlink(env!("CARGO_BIN_EXE_modgate"), &gator).expect("a link");
    let import = "add `import future.keywords";
    let v1 = "this is Rego v1: write `code: [{engine: Rego, source: {version: v1, rego: …}}]`";
    for (lines, advice) in [
        (&["violation contains {\"msg\": \"x\"} if { true }"][..], v1),
        (&["violation contains {\"msg\": msg} if {", "  some msg in [\"x\"]", "}"], v1),
        (&["violation contains {\"msg\": \"x\"} if true"], v1),
        (
            &["is_big if input.review.object.spec.n > 1", "violation[{\"msg\": \"x\"}] { is_big }"],
            import,
        ),
        (&["violation[{\"msg\": msg}] { some msg in [\"x\"] }"], import),
        (&["violation[{\"msg\": \"x\"}] { every n in [1] { n > 0 } }"], import),
    ] {
        fs::write(work.path().join("in.yaml"), rego(lines)).expect("written");
        let shown = text(&modgate(work.path(), &["review", "-f", "in.yaml", "in.yaml"]));
        assert!(shown.contains(&format!("help: {advice}")), "{lines:?}: {shown}");
        assert_eq!(shown.matches("error: ConstraintTemplate").count(), 1, "{lines:?}: {shown}");
        assert!(
            shown.contains("in.yaml:9:") || shown.contains("in.yaml:10:"),
            "{lines:?}: {shown}"
        );
        let output = run(&gator, work.path(), &["test", "-f", "in.yaml"]);
        assert!(text(&output).contains("rego_parse_error: "), "{lines:?}: {}", text(&output));
        assert_eq!(output.status.code(), Some(1), "{lines:?}");
    }
}

/// Behaviour that no table declares (`modrules` P3).
#[test]
fn accidents_of_kubemod() {
    let work = tempfile::tempdir().expect("a folder");
    let rule = |patch: Value| {
        json!({"apiVersion": "api.kubemod.io/v1beta1", "kind": "ModRule",
            "metadata": {"name": "r", "namespace": "x"},
            "spec": {"type": "Patch", "match": [{"select": "$.kind", "matchValue": "Pod"}], "patch": [patch]}})
    };
    let reviewed = |patch: Value, annotation: &str| {
        fs::write(work.path().join("rule.json"), rule(patch).to_string()).expect("written");
        let object = json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "p", "namespace": "x", "annotations": {ANNOTATION: annotation}},
            "spec": {"containers": [{"name": "c"}]}});
        fs::write(work.path().join("pod.json"), object.to_string()).expect("written");
        let output = modgate(work.path(), &["review", "-o", "json", "-f", "rule.json", "pod.json"]);
        let results: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(output.status.code(), Some(0), "{}", text(&output));
        results[0].clone()
    };
    let target = json!({"op": "add", "path": "/metadata/annotations/t", "value": "{{ .Target }}"});
    let shown = reviewed(target, "{}")["object"]["metadata"]["annotations"]["t"].to_string();
    assert!(shown.starts_with("\"map[apiVersion:v1 kind:Pod "), "{shown}");
    let comment = json!({"op": "add", "select": "$.spec.containers[*] // all",
        "path": "/spec/containers/#0/tty", "value": "true"});
    assert_eq!(reviewed(comment, "{}")["object"]["spec"]["containers"][0]["tty"], true);
    let remove = json!({"op": "remove", "path": "/spec/containers/0/name"});
    let removed = reviewed(remove, "null");
    assert_eq!(removed["object"]["spec"]["containers"], json!([{}]), "{removed}");
}
