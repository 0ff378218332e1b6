//! The playground's engine answers as `review` and `explain` print, byte for byte. `ui/browser/suites.mjs` does
//! the same in a browser, for the recorded suites.

use std::{fs, path::Path, process::Output};

use modgate_playground::{File, Playground};
use serde_json::json;
use tempfile::TempDir;

use crate::program::{errors, modgate, out};

/// Policies, objects and references by the names of their files.
#[derive(Default)]
struct Texts {
    policies: Vec<File>,
    objects: Vec<File>,
    references: Vec<File>,
}

fn file(name: &str, text: &str) -> File {
    File { name: name.to_owned(), text: text.to_owned() }
}

/// A file of the repository.
fn example(path: &str) -> File {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let name = path.replace('/', "-");
    file(&name, &fs::read_to_string(root.join(path)).expect(path))
}

impl Texts {
    fn of(policies: &str, object: &str) -> Self {
        Self {
            policies: vec![file("policies.yaml", policies)],
            objects: vec![file("object.yaml", object)],
            references: Vec::new(),
        }
    }

    fn command(&self, verb: &str, more: &[&str]) -> Output {
        let folder = TempDir::new().expect("a folder");
        let mut args = vec![verb, "-o", "json"];
        for (flag, files) in
            [("-f", &self.policies), ("--objects", &self.references), ("", &self.objects)]
        {
            for file in files {
                fs::write(folder.path().join(&file.name), &file.text).expect("a file");
                args.extend([flag, &file.name].into_iter().filter(|arg| !arg.is_empty()));
            }
        }
        args.extend(more);
        modgate(folder.path(), &args)
    }

    /// The answer for the page, after its texts were compared with the output of the commands.
    fn check(&self, what: &str) -> serde_json::Value {
        let request = json!({
            "policies": self.policies, "objects": self.objects, "references": self.references,
        });
        let answer = modgate_playground::answer(&request.to_string());
        let answer: serde_json::Value = serde_json::from_str(&answer).expect("JSON");
        for verb in ["review", "explain"] {
            let output = self.command(verb, &[]);
            assert_eq!(answer[verb], out(&output), "{what}: {verb}: {}", errors(&output));
        }
        let notes = errors(&self.command("review", &[]));
        for note in answer["notes"].as_array().expect("notes") {
            let note = note.as_str().expect("a text");
            assert!(notes.contains(note), "{what}: {note} is not among {notes}");
        }
        answer
    }
}

#[test]
fn examples_are_answered_as_by_the_commands() {
    let mut gatekeeper = Texts {
        policies: ["constraint", "expansion", "mutator", "template"]
            .map(|name| example(&format!("gatekeeper/{name}.yaml")))
            .into(),
        ..Texts::default()
    };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/gatekeeper/objects");
    for entry in fs::read_dir(folder).expect("a folder") {
        let name = entry.expect("an entry").file_name().into_string().expect("a name");
        gatekeeper.objects.push(example(&format!("gatekeeper/objects/{name}")));
    }
    let answer = gatekeeper.check("gatekeeper");
    let shown = answer["subjects"].as_array().expect("subjects");
    assert!(shown.iter().any(|it| it["before"] != it["after"]), "the mutator changes an object");
    assert!(shown.iter().any(|it| it["marks"] != json!([])), "the constraint finds something");

    let quickstart = Texts {
        policies: vec![example("quickstart/modrules.yaml")],
        objects: ["debug-pod.yaml", "deployment.yaml", "review.json"]
            .map(|name| example(&format!("quickstart/{name}")))
            .into(),
        references: vec![example("quickstart/namespace.yaml")],
    };
    quickstart.check("quickstart");
}

#[test]
fn mistakes_are_reported_as_by_the_commands() {
    let rule = "apiVersion: api.kubemod.io/v1beta1\nkind: ModRule\nmetadata: {name: r}\n\
                spec: {type: Reject, match: [{select: '$.kind'}]}\n";
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n";
    for (what, policies, object) in [
        ("no policy", "", pod),
        ("no object", rule, ""),
        ("no YAML in the policies", "a: [", pod),
        ("no YAML in the object", rule, "a: 'b"),
        ("a document that is no object", rule, "- 1\n---\nkind: Pod\n"),
        ("no kind", rule, "metadata: {name: p}\n"),
        ("a rule with a mistake", &rule.replace("$.kind", "$.kind["), pod),
        ("a rule twice", &format!("{rule}---\n{rule}"), pod),
        ("a kind that is not known", &rule.replace("ModRule", "Modrule"), pod),
        ("another engine's policy", "apiVersion: kyverno.io/v1\nkind: ClusterPolicy\n", pod),
        ("two objects and a bad one", rule, &format!("{pod}---\n{pod}---\nx: 1\n")),
    ] {
        Texts::of(policies, object).check(what);
    }
}

/// Values of Secrets stand in no result, as in those of the commands: under review, and read by policies.
#[test]
fn values_of_secrets_are_hidden_as_by_the_commands() {
    let secret = |name: &str| {
        format!(
            "apiVersion: v1\nkind: Secret\nmetadata: {{name: {name}}}\nstringData: {{password: hunter2hunter2}}\n"
        )
    };
    let policy = "apiVersion: templates.gatekeeper.sh/v1\nkind: ConstraintTemplate\nmetadata: {name: f}\nspec:\n  \
         crd: {spec: {names: {kind: F}}}\n  targets:\n  - target: admission.k8s.gatekeeper.sh\n    \
         rego: |\n      package f\n      violation[{\"msg\": \"no\"}] {\n        \
         value := data.inventory.namespace[_][_].Secret[_].stringData.password\n        value != \"\"\n      }\n\
         ---\napiVersion: constraints.gatekeeper.sh/v1beta1\nkind: F\nmetadata: {name: a}\n";
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n";
    let inventory = vec![file(
        "inventory.yaml",
        &secret("other").replace("name: other", "name: other, namespace: shop"),
    )];
    for object in [secret("mine").as_str(), pod] {
        let texts = Texts { references: inventory.clone(), ..Texts::of(policy, object) };
        let answer = texts.check(object);
        for verb in ["review", "explain"] {
            let text = answer[verb].as_str().expect("a text");
            assert!(text.contains("hidden") || verb == "review", "{verb}: {text}");
            assert!(!text.contains("hunter2"), "{verb}: {text}");
        }
    }
}

/// With a user and a stored object, the page gets the file of the AdmissionReview that the command line needs.
#[test]
fn attributes_become_an_admission_review() {
    let policy = r#"
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: frozen}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [UPDATE], resources: [configmaps]}]}
  validations:
  - expression: request.userInfo.username == 'root' || object.data == oldObject.data
    messageExpression: "'not by ' + request.userInfo.username"
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: frozen}
spec: {policyName: frozen, validationActions: [Deny]}
"#;
    let object =
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m, namespace: shop}\ndata: {a: b}\n";
    let ask = |user: &str| -> serde_json::Value {
        let request = json!({
            "policies": [file("policies.yaml", policy)], "objects": [file("object.yaml", object)],
            "operation": "UPDATE",
            "attributes": {
                "oldObject": file("old.yaml", &object.replace("a: b", "a: c")),
                "userInfo": file("user.yaml", user),
            },
        });
        let answer: serde_json::Value =
            serde_json::from_str(&modgate_playground::answer(&request.to_string())).expect("JSON");
        let review: File = serde_json::from_value(answer["request"].clone()).expect("a file");
        let texts = Texts {
            policies: vec![file("policies.yaml", policy)],
            objects: vec![review],
            references: Vec::new(),
        };
        assert_eq!(answer["review"], out(&texts.command("review", &[])), "{user}");
        serde_json::from_str(answer["review"].as_str().expect("a text")).expect("JSON")
    };
    assert_eq!(ask("username: root")[0]["allowed"], true);
    let denied = ask("username: ann\ngroups: [dev]");
    assert_eq!(denied[0]["allowed"], false);
    assert!(denied[0]["reason"].as_str().expect("a text").contains("not by ann"), "{denied}");
    let request = json!({
        "policies": [file("policies.yaml", policy)], "objects": [file("object.yaml", object)],
        "attributes": {"userInfo": file("user.yaml", "username: [")},
    });
    let answer = modgate_playground::answer(&request.to_string());
    let answer: serde_json::Value = serde_json::from_str(&answer).expect("JSON");
    let mark = &answer["marks"][0];
    assert_eq!([&mark["file"], &mark["endLine"]], [&json!("user.yaml"), &json!(1)], "{answer}");
    assert_eq!(answer["subjects"], json!([]));
}

/// Time and random values are those of the request, so an answer can be repeated.
#[test]
fn the_machine_is_part_of_the_request() {
    let policy = "apiVersion: api.kubemod.io/v1beta1\nkind: ModRule\nmetadata: {name: r}\nspec:\n  type: Patch\n  \
                  match: [{select: '$.kind'}]\n  patch:\n  - {op: add, path: /metadata/annotations, \
                  value: '{a: {{ randAlphaNum 12 | quote }}, b: {{ now | date \"2006-01-02\" | quote }}}'}\n";
    let ask = |now: u64, seed: u64| {
        let request = json!({
            "policies": [file("p.yaml", policy)],
            "objects": [file("o.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n")],
            "now": now, "seed": seed,
        });
        let answer = modgate_playground::answer(&request.to_string());
        let answer: serde_json::Value = serde_json::from_str(&answer).expect("JSON");
        answer["subjects"][0]["after"].as_str().expect("a text").to_owned()
    };
    let first = ask(86_400_000, 1);
    assert!(first.contains("1970-01-02"), "{first}");
    assert_eq!(first, ask(86_400_000, 1));
    assert_ne!(first, ask(86_400_000, 2));
}

/// Texts that no parser takes are answered.
#[test]
fn hostile_texts_are_answered() {
    let deep = format!("kind: Pod\na: {}{}\n", "[".repeat(100_000), "]".repeat(100_000));
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n";
    for (policies, object) in [(pod, deep.as_str()), (deep.as_str(), pod), ("\0", "\u{feff}")] {
        let request = json!({
            "policies": [file("p.yaml", policies)], "objects": [file("o.yaml", object)],
            "attributes": {"userInfo": file("user.yaml", &deep), "oldObject": file("old.yaml", "[]")},
        });
        let answer = modgate_playground::answer(&request.to_string());
        let answer: serde_json::Value = serde_json::from_str(&answer).expect("JSON");
        assert_eq!(answer.get("error"), None);
        assert!(answer["marks"].as_array().is_some_and(|marks| !marks.is_empty()), "{answer}");
    }
    assert!(modgate_playground::answer("{").contains("error"));
    assert!(modgate_playground::answer(r#"{"unknown": 1}"#).contains("error"));
}

/// The examples that the page offers.
#[test]
fn examples_of_the_playground() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/playground");
    let mut seen = 0;
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let read = |name: &str| fs::read_to_string(path.join(name)).ok().map(|it| file(name, &it));
        let texts = Texts {
            policies: vec![read("policies.yaml").expect("policies")],
            objects: vec![read("object.yaml").expect("an object")],
            references: ["namespace.yaml", "params.yaml", "inventory.yaml"]
                .into_iter()
                .filter_map(read)
                .collect(),
        };
        let what = path.display().to_string();
        let answer = texts.check(&what);
        assert_eq!(answer["marks"], json!([]), "{what}");
        let shown = &answer["subjects"][0];
        // What only a user and a stored object show, the page's own test looks at.
        let is_update = path.join("old-object.yaml").exists();
        let matters = shown["before"] != shown["after"] || shown["marks"] != json!([]);
        assert!(matters || is_update, "{what}");
        seen += 1;
    }
    assert!(seen >= 8, "{seen}");
}

/// The page asks one playground about every text, which keeps policies of requests before.
#[test]
fn answers_do_not_depend_on_requests_before() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/playground");
    let mut requests = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let read = |name: &str| {
            let text = fs::read_to_string(path.join(name)).ok()?;
            Some(json!([file(name, &text)]))
        };
        let pod = json!([file("object.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n")]);
        for references in [json!([]), read("inventory.yaml").unwrap_or(json!([]))] {
            for objects in [read("object.yaml").expect("an object"), pod.clone()] {
                for (namespace, coverage) in [("", true), ("", false), ("shop", false)] {
                    requests.push(json!({
                        "policies": read("policies.yaml"), "objects": objects, "references": references,
                        "namespace": namespace, "coverage": coverage, "all": coverage,
                    }));
                }
            }
        }
    }
    for policies in ["kind: 'Pod", "", "kind: Nothing"] {
        requests.push(json!({"policies": [file("policies.yaml", policies)]}));
    }
    let mut playground = Playground::new();
    // The playground drops old policies by the second round, so each request is sent twice in a row: the second one
    // finds its policies kept.
    for _ in 0..2 {
        for request in &requests {
            let request = request.to_string();
            let expected = modgate_playground::answer(&request);
            assert_eq!(playground.answer(&request), expected, "{request}");
            assert_eq!(playground.answer(&request), expected, "{request}");
        }
    }
}

/// Coverage is an answer of its own; the marks stand where the policies do.
#[test]
fn what_is_reached_of_the_policies() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/playground");
    let ask = |example: &str, object: Option<&str>| -> (String, Vec<serde_json::Value>) {
        let read = |name: &str| fs::read_to_string(folder.join(example).join(name)).ok();
        let policies = read("policies.yaml").expect("policies");
        let object = object.map(str::to_owned).or_else(|| read("object.yaml")).expect("an object");
        let references = ["namespace.yaml", "params.yaml", "inventory.yaml"];
        let references = references.into_iter().filter_map(|name| Some(file(name, &read(name)?)));
        let request = json!({
            "policies": [file("policies.yaml", &policies)], "objects": [file("object.yaml", &object)],
            "references": references.collect::<Vec<_>>(), "coverage": true,
        });
        let answer: serde_json::Value =
            serde_json::from_str(&modgate_playground::answer(&request.to_string())).expect("JSON");
        assert_eq!((&answer["review"], &answer["marks"]), (&json!(""), &json!([])), "{example}");
        (policies, answer["coverage"].as_array().expect("places").clone())
    };
    let reached = |places: &[serde_json::Value]| {
        places.iter().filter(|place| place["reached"] == true).count()
    };
    let nothing = "apiVersion: example.com/v1\nkind: Nothing\nmetadata: {name: n}\n";
    for example in ["cel", "map", "modrule", "mutator", "rego", "rego-v0", "vap"] {
        let (policies, places) = ask(example, None);
        assert!(reached(&places) > 2, "{example}: {places:?}");
        for place in &places {
            let line = place["line"].as_u64().expect("a line") as usize;
            let text = policies.lines().nth(line - 1).unwrap_or_default().trim();
            assert!(
                !text.is_empty() && !text.starts_with('#'),
                "{example}: {place} is at `{text}`"
            );
        }
        let (_, others) = ask(example, Some(nothing));
        assert_eq!(others.len(), places.len(), "{example}");
        assert!(reached(&others) < reached(&places), "{example}: {others:?}");
    }
    // The line with the call of `same` held for the Ingress of the inventory, not for the object itself.
    let (policies, places) = ask("rego", None);
    let at = |text: &str| {
        let line = policies.lines().position(|line| line.contains(text)).expect(text) + 1;
        places.iter().filter(|place| place["line"] == line).cloned().collect::<Vec<_>>()
    };
    assert!(at("msg := sprintf").iter().any(|place| place["reached"] == true), "{places:?}");
    assert!(at("not same").iter().any(|place| place["held"] == true), "{places:?}");
    // Policies that do not load, and no policies.
    for policies in ["kind: 'Pod", ""] {
        let request = json!({"policies": [file("p.yaml", policies)], "coverage": true});
        let answer: serde_json::Value =
            serde_json::from_str(&modgate_playground::answer(&request.to_string())).expect("JSON");
        assert_eq!(answer["coverage"], json!([]));
    }
}

/// Addresses stay in histories and chats.
#[test]
fn no_address_has_a_secret() {
    let folder = TempDir::new().expect("a folder");
    let data = r#""data": {"key": "aHVudGVyMg=="}"#;
    let secret =
        format!(r#"{{"apiVersion": "v1", "kind": "Secret", "metadata": {{"name": "s"}}, {data}}}"#);
    let list = |kind: &str, item: &str| {
        format!(r#"{{"apiVersion": "v1", "kind": "{kind}", "items": [{item}]}}"#)
    };
    let review = |member: &str| {
        format!(
            r#"{{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {{"uid": "u",
            "operation": "UPDATE", "kind": {{"group": "", "version": "v1", "kind": "Secret"}},
            "{member}": {{"metadata": {{"name": "s"}}, {data}}}}}}}"#
        )
    };
    let pod = r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}"#;
    let unnamed = format!(r#"{{"metadata": {{"name": "s"}}, {data}}}"#);
    for (object, is_refused) in [
        (secret.clone(), true),
        (list("List", &secret), true),
        (list("SecretList", &unnamed), true),
        (list("List", &list("List", &secret)), true),
        (list("List", &list("SecretList", &unnamed)), true),
        (review("object"), true),
        (review("oldObject"), true),
        (list("List", pod), false),
        (pod.to_owned(), false),
    ] {
        fs::write(folder.path().join("o.json"), &object).expect("written");
        fs::write(folder.path().join("p.json"), pod).expect("written");
        let policies = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/quickstart");
        let policies = policies.to_str().expect("text");
        for files in [["o.json", "--objects", "p.json"], ["p.json", "--objects", "o.json"]] {
            let arguments = [&["explain", "--playground", "-f", policies][..], &files].concat();
            let output = modgate(folder.path(), &arguments);
            let refused = errors(&output).contains("would contain its data");
            assert_eq!(refused, is_refused, "{object}: {}{}", errors(&output), out(&output));
            assert_eq!(output.status.success(), !is_refused, "{object}: {}", errors(&output));
        }
    }
}
