//! Differences from the original gator that public policies and odd manifests showed, one small
//! policy each.

#![allow(clippy::expect_used, clippy::panic, reason = "a test")]

use std::{ffi::OsString, fs};

use modgate_gator::Io;

/// Exit code, standard output and standard error.
fn gator(files: &[(&str, &str)], args: &[&str]) -> (u8, String, String) {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, text) in files {
        fs::write(folder.path().join(name), text).expect("a file");
    }
    let args = std::iter::once("gator").chain(args.iter().copied());
    let args: Vec<OsString> = args.map(OsString::from).collect();
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let mut io = Io {
        stdin: None,
        stdout: &mut stdout,
        stderr: &mut stderr,
        directory: folder.path(),
        env: &|_| None,
        connect: modgate_gator::no_cluster,
    };
    let code = modgate_gator::run(&args, &mut io);
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (code, text(stdout), text(stderr))
}

/// `gator test` of one file with these documents.
fn test(documents: &[&str]) -> (u8, String, String) {
    gator(&[("all.yaml", &documents.join("\n---\n"))], &["test", "-f", "all.yaml"])
}

/// The messages of `test`, without the object they are about.
fn messages(documents: &[&str]) -> Vec<String> {
    let (_, stdout, stderr) = test(documents);
    assert_eq!(stderr, "");
    let message = |line: &str| line.split_once("Message: ").map(|(_, message)| message.to_owned());
    stdout.lines().filter_map(message).collect()
}

fn template(rego: &str) -> String {
    format!(
        "apiVersion: templates.gatekeeper.sh/v1\nkind: ConstraintTemplate\n\
         metadata: {{name: rule}}\nspec:\n  crd: {{spec: {{names: {{kind: Rule}}}}}}\n  \
         targets:\n  - target: admission.k8s.gatekeeper.sh\n    rego: |\n      package rule\n{}",
        rego.lines().map(|line| format!("      {line}\n")).collect::<String>()
    )
}

fn constraint(spec: &str) -> String {
    format!(
        "apiVersion: constraints.gatekeeper.sh/v1beta1\nkind: Rule\nmetadata: {{name: c}}\n\
         spec: {{{spec}}}\n"
    )
}

const ALWAYS: &str = r#"violation[{"msg": "hit"}] { true }"#;
const PODS: &str = r#"match: {kinds: [{apiGroups: [""], kinds: [Pod]}]}"#;
const POD: &str = "{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: x}}";

/// EV-140
#[test]
fn items_that_say_nothing() {
    for (version, items, runs) in [
        ("v1beta1", "string", true),
        ("v1alpha1", "5", true),
        ("v1beta1", "true", true),
        ("v1beta1", "{type: string}", true),
        ("v1beta1", "[{type: string}]", false),
        ("v1", "string", false),
        ("v1", "{type: string}", true),
    ] {
        let template = template(
            r#"violation[{"msg": msg}] { msg := sprintf("%v", [input.parameters.labels]) }"#,
        )
        .replace("gatekeeper.sh/v1", &format!("gatekeeper.sh/{version}"))
        .replace(
            "names: {kind: Rule}",
            &format!(
                "names: {{kind: Rule}}, validation: {{openAPIV3Schema: {{type: object, \
                 properties: {{labels: {{type: array, items: {items}}}}}}}}}"
            ),
        );
        let constraint = constraint(&format!("{PODS}, parameters: {{labels: [a]}}"));
        let (code, stdout, stderr) = test(&[&template, &constraint, POD]);
        assert_eq!(stdout.contains("[\\\"a\\\"]"), runs, "{version} {items}: {stdout}{stderr}");
        assert_eq!(code, 1);
        if version == "v1" && !runs {
            assert!(
                stderr.contains("properties[labels].items: Required value: must be specified"),
                "{stderr}"
            );
        }
    }
}

/// EV-2: what is empty in a request is absent.
#[test]
fn empty_members_are_absent() {
    let template = template(
        "violation[{\"msg\": \"no namespace\"}] { not input.review.namespace }\n\
         violation[{\"msg\": \"no name\"}] { not input.review.name }",
    );
    let constraint = constraint("");
    for (metadata, expected) in [
        ("{name: obj, namespace: x}", &[][..]),
        ("{name: obj}", &["\"no namespace\""][..]),
        ("{generateName: n-, namespace: x}", &["\"no name\""][..]),
    ] {
        let object = format!("{{apiVersion: v1, kind: ConfigMap, metadata: {metadata}}}");
        let found = messages(&[&template, &constraint, &object]);
        let about_it: Vec<_> =
            found.iter().filter(|_| object.contains("ConfigMap")).map(String::as_str).collect();
        // The template and the constraint have no namespace either.
        let of_policies = ["\"no namespace\""; 2];
        let mut expected = [expected, &of_policies[..]].concat();
        expected.sort_unstable();
        assert_eq!(about_it, expected, "{metadata}");
    }
}

/// EV-30
#[test]
fn equal_violations_are_one() {
    let template = template(
        "violation[r] {\n  some i\n  input.review.object.spec.containers[i]\n  \
         r := {\"msg\": \"no probe\", \"key\": sprintf(\"containers[%v]\", [i])}\n}\n\
         violation[r] {\n  some i\n  input.review.object.spec.containers[i]\n  \
         r := {\"msg\": \"detailed\", \"details\": {\"at\": i}}\n}",
    );
    let pod = "{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: x}, \
               spec: {containers: [{name: a}, {name: b}]}}";
    let constraint = constraint(PODS);
    let found = messages(&[&template, &constraint, pod]);
    assert_eq!(found, ["\"detailed\"", "\"detailed\"", "\"no probe\""]);
    let suite = "{apiVersion: test.gatekeeper.sh/v1alpha1, kind: Suite, tests: [{name: t, \
                 template: t.yaml, constraint: c.yaml, cases: [{name: c, object: o.yaml, \
                 assertions: [{violations: 1, message: no probe}]}]}]}";
    let files =
        [("suite.yaml", suite), ("t.yaml", &template), ("c.yaml", &constraint), ("o.yaml", pod)];
    let (code, stdout, _) = gator(&files, &["verify", "suite.yaml"]);
    assert_eq!(code, 0, "{stdout}");
}

/// EV-3, EV-142
#[test]
fn the_namespace_object() {
    let template = template(
        r#"violation[{"msg": msg}] { msg := concat(",", sort(object.keys(input.review.namespaceObject))) }"#,
    )
    .replace("sort(object.keys(input.review.namespaceObject))", "sort([k | input.review.namespaceObject[k]])");
    let constraint = constraint(PODS);
    let namespace = "{apiVersion: v1, kind: Namespace, metadata: {name: x, labels: {a: b}}}";
    let bare = "{apiVersion: v1, kind: Pod, metadata: {name: p}}";
    for (documents, expected) in
        [(&[namespace, POD][..], "\"metadata\""), (&[POD], "\"\""), (&[namespace, bare], "\"\"")]
    {
        let all = [&[template.as_str(), constraint.as_str()], documents].concat();
        assert_eq!(messages(&all), [expected], "{documents:?}");
    }
}

/// EV-143
#[test]
fn a_constraint_under_review_has_its_default_action() {
    let template = template(
        r#"violation[{"msg": msg}] { msg := input.review.object.spec.enforcementAction }
violation[{"msg": "none"}] { not input.review.object.spec.enforcementAction }"#,
    );
    let about =
        constraint("match: {kinds: [{apiGroups: [constraints.gatekeeper.sh], kinds: [Rule]}]}");
    assert_eq!(messages(&[&template, &about]), ["\"deny\""]);
    let warns = about.replace("spec: {", "spec: {enforcementAction: warn, ");
    assert_eq!(messages(&[&template, &warns]), ["\"warn\""]);
}

const EXPANSION: &str = "\
apiVersion: expansion.gatekeeper.sh/v1alpha1
kind: ExpansionTemplate
metadata: {name: t}
spec:
  applyTo: [{groups: [apps], versions: [v1], kinds: [Deployment]}]
  templateSource: spec.template
  generatedGVK: {group: '', version: v1, kind: Pod}
";
const DEPLOYMENT: &str = "{apiVersion: apps/v1, kind: Deployment, metadata: {name: d, namespace: x}, \
                          spec: {template: {spec: {}}}}";

/// An ExpansionTemplate that makes objects of no kind lets nothing pass.
#[test]
fn what_is_generated_without_a_kind_is_refused() {
    let template = template(r#"violation[{"msg": "hit"}] { false }"#);
    let expansion = EXPANSION.replace(", kind: Pod}", "}");
    for spec in
        [PODS, "match: {kinds: [{apiGroups: [batch], kinds: [Job]}]}", "match: {scope: '*'}"]
    {
        let constraint = constraint(spec);
        let (code, stdout, stderr) = test(&[&template, &constraint, &expansion, DEPLOYMENT]);
        assert_eq!(code, 1, "{stdout}{stderr}");
        assert!(
            stdout.contains("[Implied by t] unable to match constraints: invalid request object"),
            "{spec}: {stdout}"
        );
    }
    // Or a mutator makes it no text.
    let mutator = "{apiVersion: mutations.gatekeeper.sh/v1, kind: Assign, metadata: {name: m}, \
                   spec: {applyTo: [{groups: [''], versions: [v1], kinds: [Pod]}], \
                   location: kind, parameters: {assign: {value: 5}}}}";
    let constraint = constraint(PODS);
    let (code, stdout, stderr) = test(&[&template, &constraint, EXPANSION, mutator, DEPLOYMENT]);
    assert_eq!(code, 1, "{stdout}{stderr}");
    assert!(stdout.contains("unable to match constraints"), "{stdout}{stderr}");
}

#[test]
fn a_failing_expansion_names_the_resource_twice() {
    let deployment = DEPLOYMENT.replace("{template: {spec: {}}}", "{}");
    let (_, _, stderr) = test(&[EXPANSION, &deployment]);
    assert!(
        stderr.contains("auditing objects: expanding resource d: error expanding resource d: "),
        "{stderr}"
    );
}

/// Unknown scoped actions are violations that lead to nothing.
#[test]
fn unknown_scoped_actions() {
    let template = template(ALWAYS);
    for (entry, rows) in [
        ("{enforcementPoints: [{name: '*'}]}", 1),
        ("{action: deney, enforcementPoints: [{name: '*'}]}", 1),
        ("{action: '', enforcementPoints: [{name: gator.gatekeeper.sh}]}", 1),
        ("{action: warn, enforcementPoints: [{name: gator.gatekeeper.sh}]}", 1),
        ("{action: warn, enforcementPoints: [{name: audit.gatekeeper.sh}]}", 0),
        ("{action: deney, enforcementPoints: [{name: audit.gatekeeper.sh}]}", 0),
    ] {
        let constraint = constraint(&format!(
            "{PODS}, enforcementAction: scoped, scopedEnforcementActions: [{entry}]"
        ));
        let (code, stdout, stderr) = test(&[&template, &constraint, POD]);
        assert_eq!(code, 0, "{entry}: {stdout}{stderr}");
        assert_eq!(stdout.matches("hit").count(), rows, "{entry}: {stdout}");
    }
}

/// Objects without a name that is a text are judged, and found under the empty one.
#[test]
fn names_that_are_no_texts() {
    let template = template(
        "violation[{\"msg\": msg}] {\n  data.inventory.namespace[n][_].Job[k]\n  \
         msg := sprintf(\"%v/<%v>\", [n, k])\n}",
    );
    let constraint = constraint(PODS);
    for (metadata, expected) in [
        ("{generateName: nightly-, namespace: x}", "\"x/<>\""),
        ("{name: 8080, namespace: x}", "\"x/<>\""),
        ("{name: true, namespace: x}", "\"x/<>\""),
        ("{name: j, namespace: x}", "\"x/<j>\""),
    ] {
        let job = format!("{{apiVersion: batch/v1, kind: Job, metadata: {metadata}}}");
        assert_eq!(messages(&[&template, &constraint, POD, &job]), [expected], "{metadata}");
    }
    let template = self::template(ALWAYS);
    let numbered = "{apiVersion: v1, kind: Pod, metadata: {name: 8080, namespace: x}}";
    assert_eq!(messages(&[&template, &constraint, POD, numbered]), ["\"hit\""; 2]);
}

#[test]
fn policies_with_nothing_in_them() {
    let mutator = |rest: &str| {
        format!(
            "apiVersion: mutations.gatekeeper.sh/v1\nkind: Assign\n{rest}\nspec:\n  \
             applyTo: [{{groups: [''], versions: [v1], kinds: [Pod]}}]\n  \
             location: spec.x\n  parameters: {{assign: {{value: 1}}}}\n"
        )
    };
    let deployment = DEPLOYMENT.replace("template: {spec", "template: {metadata: {}, spec");
    let all = [EXPANSION, &mutator("metadata:"), &deployment].join("\n---\n");
    let (code, stdout, stderr) = gator(&[("all.yaml", &all)], &["expand", "-n", "all.yaml"]);
    assert_eq!(code, 0, "{stderr}");
    assert!(stdout.contains("x: 1"), "{stdout}");

    // What is in the group and no mutator is passed by.
    let other = "{apiVersion: mutations.gatekeeper.sh/v1, kind: Mutator, metadata: {name: p}}";
    let all = [EXPANSION, other, DEPLOYMENT].join("\n---\n");
    let (code, _, stderr) = gator(&[("all.yaml", &all)], &["expand", "-n", "all.yaml"]);
    assert_eq!((code, stderr.as_str()), (0, ""));

    let (_, _, stderr) =
        test(&["apiVersion: mutations.gatekeeper.sh/v1\nkind: Assign\nmetadata: {name: m}\nspec:"]);
    assert!(!stderr.contains("unit value") && !stderr.contains("struct"), "{stderr}");
}

#[test]
fn versions_that_are_none() {
    for version in ["a/b/c", "v1/"] {
        let (code, _, stderr) =
            test(&[&format!("apiVersion: {version}\nkind: Foo\nmetadata: {{name: p}}\n")]);
        assert_eq!(code, 1);
        assert!(stderr.contains("invalid request object: resource p has no version"), "{stderr}");
    }
}

#[test]
fn words_of_verify() {
    let template = template(ALWAYS);
    let constraint = constraint("match: {kinds: [{kinds: [Pod, Deployment]}]}");
    let suite = |test: &str| {
        format!("{{apiVersion: test.gatekeeper.sh/v1alpha1, kind: Suite, tests: [{{{test}}}]}}")
    };
    for (test, expected) in [
        (
            "name: t, template: t.yaml, constraint: c.yaml, cases: [{name: c, object: o.yaml, \
             assertions: [{violations: no, message: ''}]}]",
            "got 1 violations containing \"\" but want none",
        ),
        (
            "name: t, template: t.yaml, constraint: c.yaml, expansion: e.yaml, cases: [{name: c, \
             object: o.yaml, assertions: [{violations: no}]}]",
            "got messages [[Implied by t] hit hit]",
        ),
        (
            "name: t, template: t.yaml, constraint: c.yaml, expansion: nope.yaml, cases: []",
            "reading ExpansionTemplate from \"",
        ),
        (
            "name: t, template: t.yaml, constraint: c.yaml, expansion: empty.yaml, cases: []",
            "not an Expansion Template: \"",
        ),
        (
            "name: t, template: nope.yaml, constraint: c.yaml, invalid: true",
            "constraint should have failed schema validation: got error reading ConstraintTemplate",
        ),
    ] {
        let files = [
            ("suite.yaml", suite(test)),
            ("t.yaml", template.clone()),
            ("c.yaml", constraint.clone()),
            ("e.yaml", EXPANSION.to_owned()),
            ("empty.yaml", String::new()),
            ("o.yaml", DEPLOYMENT.to_owned()),
        ];
        let files: Vec<(&str, &str)> =
            files.iter().map(|(name, text)| (*name, text.as_str())).collect();
        let (code, stdout, _) = gator(&files, &["verify", "suite.yaml"]);
        assert_eq!(code, 1, "{stdout}");
        assert!(stdout.contains(expected), "{test}: {stdout}");
    }
}

/// Texts of Gatekeeper 3.23.1 for templates that it refuses, behind `adding template "rule": `.
#[test]
fn templates_that_are_refused() {
    let refused = |template: &str| {
        let (code, _, stderr) = test(&[template]);
        assert_eq!(code, 1, "{template}: {stderr}");
        let text = stderr.trim_end().strip_prefix("auditing objects: adding template \"rule\": ");
        text.unwrap_or(&stderr).to_owned()
    };
    let modules = "unable to compile modules: 1 error occurred: ";
    for (rego, expected) in [
        (
            "violation = x { x := 1 }",
            "hooks.hooks_builtin:15: rego_type_error: undefined ref: data.template.violation[r]\n\t\
             data.template.violation[r]\n\t^^^^^^^^^^^^^^^^^^^^^^^\n\thave: number",
        ),
        (
            "violation(a) = x { x := 1 }",
            "hooks.hooks_builtin:15: rego_type_error: function data.template.violation[r] used as \
             reference, not called\n\tdata.template.violation[r]\n\t^^^^^^^^^^^^^^^^^^^^^^^\n\t\
             have: (any) => number",
        ),
        // REGO-8: Gatekeeper has the function.
        (
            "violation[{\"msg\": \"a\"}] { http.send({\"url\": \"u\"}) }",
            "template:2: rego_type_error: undefined function http.send: it is switched off (REGO-8)",
        ),
    ] {
        assert_eq!(refused(&template(rego)), format!("{modules}{expected}"), "{rego}");
    }
    assert_eq!(
        refused(&template("violation[{\"msg\": \"a\"}] {\n  x := [1,\n}")),
        "invalid ConstraintTemplate: 1 error occurred: template:4: rego_parse_error: unexpected } \
         token\n\t}\n\t^"
    );
    assert_eq!(
        refused(&template("violation[x] = y { x := 1; y := 2 }")),
        "unable to compile modules: 2 errors occurred:\n\
         hooks.hooks_builtin:20: rego_type_error: object.get: invalid argument(s)\n\t\
         have: (number, string, object[any: any], ???)\n\t\
         want: (object: object[any: any], key: any, default: any, value: any)\n\
         hooks.hooks_builtin:21: rego_type_error: undefined ref: r.msg\n\tr.msg\n\t^\n\thave: number"
    );
    // Alternatives, in either order of the clauses: what is closed comes before what is open.
    for (first, second, union) in [
        ("[]", "split(\"a\", \"\")", "array[string], array[any]"),
        ("[\"a\"]", "split(\"a\", \"\")", "array<string>, array[string]"),
        ("[\"a\", 1]", "split(\"a\", \"\")", "array<string, number>, array[string]"),
        ("[\"a\"]", "array.concat([1], [2])", "array<string>, array[any]"),
        ("[\"a\"]", "[\"a\", 1]", "array<string>, array<string, number>"),
        ("{\"a\": 1}", "{\"b\": \"x\"}", "object<a: number>, object<b: string>"),
        (
            "{\"a\": 1}",
            "urlquery.decode_object(\"a=1\")",
            "object<a: number>, object[string: array[string]]",
        ),
    ] {
        for (one, other) in [(first, second), (second, first)] {
            let rego = format!(
                "f(_) = x {{ x := {one} }} else = y {{ y := {other} }}\n\
                 violation[{{\"msg\": \"a\"}}] {{ json.match_schema(f(1), 1) }}"
            );
            let text = refused(&template(&rego));
            assert!(text.contains(&format!("have: (any<{union}>, ")), "{one}, {other}: {text}");
        }
    }
    let library = |rego: &str| {
        template(rego)
            + "    libs:\n    - |\n      package lib.x\n      f(a) = b { b := count(a) }\n"
    };
    for (call, expected) in [
        (
            "x.f(1, 2, 3)",
            "template:2: rego_type_error: function data.libs.lib.x.f has arity 1, got 3 arguments",
        ),
        ("x.g(1)", "template:2: rego_type_error: undefined function data.libs.lib.x.g"),
    ] {
        let rego = format!("violation[{{\"msg\": \"a\"}}] {{ data.lib.{call} }}");
        assert_eq!(refused(&library(&rego)), format!("{modules}{expected}"), "{call}");
    }
    let kind = "ConstraintTemplate \"rule\" does not specify CRD Kind";
    let count = "must declare exactly one target";
    let empty = "target name must not be empty";
    let other = "the ConstraintTemplate's name \"rule\" is not equal to the lowercase of CRD's Kind: \"other\"";
    for (names, targets, expected) in [
        ("", "[]", count),
        ("kind: Other", "[]", count),
        ("", "[{target: '', rego: 'package x'}]", empty),
        ("kind: Other", "[{target: '', rego: 'package x'}]", empty),
        ("kind: Rule", "[{target: '', rego: 'package x'}]", empty),
        ("", "[{target: nope, rego: 'package x'}]", kind),
        ("kind: Other", "[{target: nope, rego: 'package x'}]", other),
    ] {
        let template = format!(
            "apiVersion: templates.gatekeeper.sh/v1\nkind: ConstraintTemplate\nmetadata: {{name: rule}}\n\
             spec: {{crd: {{spec: {{names: {{{names}}}}}}}, targets: {targets}}}\n"
        );
        let expected = format!("invalid ConstraintTemplate: {expected}");
        assert_eq!(refused(&template), expected, "{names} {targets}");
    }
}

/// EV-145
#[test]
fn a_policy_that_fails_has_no_details() {
    let rego = "f(x) = 1 { x }\nf(x) = 2 { x }\nviolation[{\"msg\": \"a\"}] { f(true) == 3 }";
    let documents = [template(rego), constraint(PODS), POD.to_owned()].join("\n---\n");
    let (_, stdout, _) =
        gator(&[("all.yaml", &documents)], &["test", "-f", "all.yaml", "-o", "json"]);
    assert!(stdout.contains("eval_conflict_error"), "{stdout}");
    assert!(stdout.contains("\"details\": null"), "{stdout}");
}

/// No variable of a constraint's CEL is an authorizer, and no other error hides that.
#[test]
fn an_authorizer_is_not_declared() {
    let template = "apiVersion: templates.gatekeeper.sh/v1\nkind: ConstraintTemplate\n\
        metadata: {name: rule}\nspec:\n  crd: {spec: {names: {kind: Rule}}}\n  targets:\n  \
        - target: admission.k8s.gatekeeper.sh\n    code:\n    - engine: K8sNativeValidation\n      \
        source: {validations: [{expression: \"authorizer.group('apps').resource('deployments')\
        .check('create').allowed()\"}]}\n";
    let (_, stdout, stderr) = test(&[template, &constraint(PODS), POD]);
    let shown = stdout + &stderr;
    assert_eq!(shown.matches("undeclared reference").count(), 1, "{shown}");
    assert!(shown.contains("undeclared reference to 'authorizer' (in container '')"), "{shown}");
}
