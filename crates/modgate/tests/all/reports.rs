//! Reports of every verb that makes them: formats, files, exit codes, and what is configured.

use std::{
    fs,
    io::Write as _,
    process::{Command, Stdio},
};

use modgate_value::Value;
use tempfile::TempDir;

const POLICIES: &str = r#"
apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata:
  name: needlabel
  annotations:
    metadata.gatekeeper.sh/title: Labels
    description: Objects have labels.
spec:
  crd:
    spec:
      names: {kind: NeedLabel}
      validation:
        openAPIV3Schema: {type: object, properties: {label: {type: string}}}
  targets:
  - target: admission.k8s.gatekeeper.sh
    rego: |
      package needlabel
      violation[{"msg": msg}] {
        not input.review.object.metadata.labels[input.parameters.label]
        msg := sprintf("label %v is missing", [input.parameters.label])
      }
---
apiVersion: constraints.gatekeeper.sh/v1beta1
kind: NeedLabel
metadata:
  name: owner
  annotations:
    modgate.sh/owner: team platform
    modgate.sh/remediation: add the label
    modgate.sh/docs-url: https://example.com/owner
spec:
  match: {kinds: [{apiGroups: [""], kinds: [ConfigMap]}]}
  parameters: {label: owner}
---
apiVersion: constraints.gatekeeper.sh/v1beta1
kind: NeedLabel
metadata: {name: team}
spec:
  enforcementAction: warn
  match: {kinds: [{apiGroups: [""], kinds: [ConfigMap]}]}
  parameters: {label: team}
"#;

const OBJECTS: &str = "\
apiVersion: v1
kind: ConfigMap
metadata: {name: a, namespace: shop, labels: {owner: me, team: us}}
---
# Source: shop/templates/b.yaml
apiVersion: v1
kind: ConfigMap
metadata: {name: b, namespace: shop, labels: {team: us}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: c, namespace: shop, labels: {owner: me}}
";

const SUITE: &str = "\
apiVersion: test.gatekeeper.sh/v1alpha1
kind: Suite
tests:
- name: labels
  template: template.yaml
  constraint: constraint.yaml
  cases:
  - name: good
    object: good.yaml
    assertions: [{violations: no}]
  - name: bad
    object: good.yaml
    assertions: [{violations: yes}]
";

struct Folder(TempDir);

struct Ran {
    code: i32,
    stdout: String,
    stderr: String,
}

impl Folder {
    fn new() -> Self {
        let folder = Self(tempfile::tempdir().expect("a folder"));
        let parts: Vec<&str> = POLICIES.split("---\n").collect();
        let good = OBJECTS.split("---\n").next().expect("an object");
        for (name, text) in [
            ("policies.yaml", POLICIES),
            ("objects.yaml", OBJECTS),
            ("good.yaml", good),
            ("tests/suite.yaml", SUITE),
            ("tests/template.yaml", parts[0]),
            ("tests/constraint.yaml", parts[1]),
            ("tests/good.yaml", good),
        ] {
            folder.write(name, text);
        }
        folder
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.0.path().join(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
        fs::write(path, text).expect("a file");
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.0.path().join(name))
            .unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    fn command(&self, line: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_modgate"));
        command.args(line.split_whitespace()).current_dir(self.0.path());
        for name in ["NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE", "KUBERNETES_SERVICE_HOST"] {
            command.env_remove(name);
        }
        command
    }

    fn run(&self, line: &str) -> Ran {
        Self::ended(self.command(line).stdin(Stdio::null()))
    }

    fn run_with(&self, line: &str, stdin: &str) -> Ran {
        let mut command = self.command(line);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("modgate");
        child.stdin.take().expect("stdin").write_all(stdin.as_bytes()).expect("stdin");
        Self::of(&child.wait_with_output().expect("modgate"))
    }

    fn ended(command: &mut Command) -> Ran {
        Self::of(&command.output().expect("modgate"))
    }

    fn of(output: &std::process::Output) -> Ran {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("text");
        let code = output.status.code().expect("a code");
        Ran { code, stdout: text(&output.stdout), stderr: text(&output.stderr) }
    }
}

fn json(text: &str) -> Value {
    Value::from_json(text.as_bytes()).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn items<'v>(value: &'v Value, path: &[&str]) -> Vec<&'v Value> {
    value.path(path).and_then(Value::as_array).into_iter().flat_map(|list| list.iter()).collect()
}

/// Every verb that reports has every format; the same finding is in each.
#[test]
fn every_verb_has_every_format() {
    let folder = Folder::new();
    for (verb, rest, rule, message) in [
        ("review", "-f policies.yaml objects.yaml", "NeedLabel/owner", "label owner is missing"),
        ("audit", "-f policies.yaml objects.yaml", "NeedLabel/owner", "label owner is missing"),
        ("test", "-f policies.yaml -f objects.yaml", "NeedLabel/owner", "label owner is missing"),
        ("verify", "tests/suite.yaml", "tests/suite.yaml: labels", "unexpected number of"),
    ] {
        for format in ["jsonl", "github", "gitlab", "sarif", "junit", "markdown"] {
            let ran = folder.run(&format!("{verb} -o {format} {rest}"));
            let case = format!("{verb} {format}: {}{}", ran.stdout, ran.stderr);
            assert_eq!(ran.code, 1, "{case}");
            let is_export = verb == "audit" && format == "jsonl";
            let id = rule.replace(": ", if format == "github" { "%3A " } else { ": " });
            let is_suites = verb == "verify" && format == "junit";
            assert!(ran.stdout.contains(&id) || is_export || is_suites, "{case}");
            assert!(ran.stdout.contains(message), "{case}");
            match format {
                "gitlab" | "sarif" => drop(json(&ran.stdout)),
                "jsonl" => ran.stdout.lines().for_each(|line| drop(json(line))),
                _ => {}
            }
        }
    }
}

#[test]
fn several_outputs_at_once() {
    let folder = Folder::new();
    for (verb, rest) in [
        ("review", "-f policies.yaml objects.yaml"),
        ("audit", "-f policies.yaml objects.yaml"),
        ("test", "-f policies.yaml -f objects.yaml"),
        ("verify", "tests/suite.yaml"),
    ] {
        let alone = folder.run(&format!("{verb} -o text {rest}"));
        let ran = folder.run(&format!(
            "{verb} -o sarif=out.sarif -o text -o markdown=out.md --output junit=out.xml {rest}"
        ));
        assert_eq!(ran.code, 1, "{verb}: {}", ran.stderr);
        if verb != "verify" {
            // Suites print how long they took.
            assert_eq!(ran.stdout, alone.stdout, "{verb}");
        }
        let log = json(&folder.read("out.sarif"));
        assert!(!items(items(&log, &["runs"])[0], &["results"]).is_empty(), "{verb}");
        assert!(folder.read("out.md").contains("| error |") || verb == "verify", "{verb}");
        assert!(folder.read("out.xml").contains("<failure "), "{verb}");
        let ran = folder.run(&format!("{verb} -o sarif -o text {rest}"));
        assert_eq!(ran.code, 2, "{verb}");
        assert!(
            ran.stderr.contains("two outputs are written to standard output"),
            "{}",
            ran.stderr
        );
        let ran = folder.run(&format!("{verb} -o sarf {rest}"));
        assert_eq!(ran.code, 2, "{verb}");
        assert!(ran.stderr.contains("sarif"), "the near name: {}", ran.stderr);
    }
}

/// The figures of `bench` in several formats, of one measurement. The original has one, and no files.
#[test]
fn bench_writes_files() {
    let folder = Folder::new();
    let rest = "-n 1 --warmup 0 -e rego -f policies.yaml -f objects.yaml";
    let ran = folder.run(&format!("bench -o html=b.html -o json=b.json -o table {rest}"));
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(ran.stdout.contains("Benchmark Results"), "{}", ran.stdout);
    assert!(folder.read("b.html").starts_with("<!doctype html>"));
    let figures = json(&folder.read("b.json"));
    assert!(figures.at(0).is_some_and(|it| it.get("latencies").is_some()), "{figures}");
    assert!(!folder.run(&format!("bench -o html=b.html {rest}")).stdout.contains("Benchmark"));
    for (outputs, words) in [
        ("-o json -o yaml", "two outputs are written to standard output"),
        ("-o html=", "names no file"),
        ("-o htm", "valid: table, json, yaml, html"),
        ("-o json=gone/b.json", "cannot write `gone/b.json`"),
    ] {
        let ran = folder.run(&format!("bench {outputs} {rest}"));
        assert_eq!(ran.code, 2, "{outputs}: {}", ran.stderr);
        assert!(ran.stderr.contains(words), "{outputs}: {}", ran.stderr);
    }
}

/// Title, description, address, owner and remedy come from annotations; the file from Helm's comment.
#[test]
fn sarif_describes_rules_and_names_the_file_of_the_chart() {
    let folder = Folder::new();
    let from_files = folder.run("review -f policies.yaml -o sarif objects.yaml").stdout;
    let piped = folder.run_with("review -f policies.yaml -o sarif -", OBJECTS).stdout;
    let tested = folder.run_with("test -f policies.yaml -o sarif", OBJECTS).stdout;
    let audited = folder.run("audit -f policies.yaml -o sarif objects.yaml").stdout;
    for text in [&from_files, &piped, &tested, &audited] {
        let log = json(text);
        let run = items(&log, &["runs"])[0];
        let rules = items(run, &["tool", "driver", "rules"]);
        let is_owner = |rule: &&&Value| rule.get("id") == Some(&"NeedLabel/owner".into());
        let rule = rules.iter().find(is_owner).expect("the rule");
        assert_eq!(rule.get("helpUri"), Some(&"https://example.com/owner".into()));
        assert_eq!(rule.path(&["properties", "owner"]), Some(&"team platform".into()));
        let results = items(run, &["results"]);
        let of = |rule: &str| {
            let found = results.iter().find(|result| result.get("ruleId") == Some(&rule.into()));
            let location = items(found.expect("a result"), &["locations"])[0];
            let physical = location.get("physicalLocation").expect("a place");
            let line = physical.path(&["region", "startLine"]).and_then(Value::as_i64);
            (physical.path(&["artifactLocation", "uri"]).cloned(), line)
        };
        assert_eq!(of("NeedLabel/owner"), (Some("shop/templates/b.yaml".into()), None));
        // The line of `labels`, which the message is about.
        assert_eq!(of("NeedLabel/team").1, Some(12));
    }
    let described = json(&from_files);
    let rules = items(items(&described, &["runs"])[0], &["tool", "driver", "rules"]);
    let text = |path: &[&str]| rules.iter().find_map(|rule| rule.path(path)).cloned();
    assert_eq!(text(&["name"]), Some("Labels".into()));
    assert_eq!(text(&["fullDescription", "text"]), Some("Objects have labels.".into()));
}

/// The text of a denial ends with what the annotations say; other documents have the message alone.
#[test]
fn owners_in_text() {
    let folder = Folder::new();
    let text = folder.run("review -f policies.yaml objects.yaml").stdout;
    let line = "denied by NeedLabel owner: label owner is missing (owner: team platform; fix: add the \
                label; see https://example.com/owner)";
    assert!(text.contains(line), "{text}");
    assert!(text.contains("warning of NeedLabel team: label team is missing ("), "{text}");
    let document = folder.run("review -f policies.yaml -o json objects.yaml").stdout;
    assert!(document.contains("\"message\": \"label owner is missing\""), "{document}");
}

/// 0, 1 and 2 mean the same on every verb.
#[test]
fn exit_codes() {
    let folder = Folder::new();
    folder.write("broken.yaml", "kind: [");
    folder.write("warned.yaml", "apiVersion: constraint.gatekeeper.sh/v1beta1\nkind: X\n");
    folder.write("passing.yaml", &SUITE.replace("violations: yes", "violations: no"));
    folder.write("template.yaml", POLICIES.split("---\n").next().expect("a template"));
    folder.write("constraint.yaml", POLICIES.split("---\n").nth(1).expect("a constraint"));
    folder.write("none/readme.txt", "");
    for (line, expected) in [
        ("review -f policies.yaml good.yaml", 0),
        ("review -f policies.yaml objects.yaml", 1),
        ("review -f policies.yaml --fail-on none objects.yaml", 0),
        ("review -f broken.yaml good.yaml", 2),
        ("review -f policies.yaml broken.yaml", 2),
        ("review -f policies.yaml -f warned.yaml good.yaml", 0),
        ("review -f policies.yaml -f warned.yaml --strict good.yaml", 2),
        ("review -f policies.yaml -f warned.yaml --max-warnings 0 good.yaml", 1),
        ("review -f policies.yaml -f warned.yaml --max-warnings 1 good.yaml", 0),
        ("audit -f policies.yaml good.yaml", 0),
        ("audit -f policies.yaml objects.yaml", 1),
        ("audit -f policies.yaml --fail-on none --max-warnings 0 objects.yaml", 1),
        ("audit -f policies.yaml broken.yaml", 2),
        ("audit -f policies.yaml", 2),
        ("explain -f policies.yaml good.yaml", 0),
        ("explain -f policies.yaml objects.yaml", 1),
        ("explain -f policies.yaml broken.yaml", 2),
        ("test -f policies.yaml -f good.yaml", 0),
        ("test -f policies.yaml -f objects.yaml", 1),
        ("test -f policies.yaml -f broken.yaml", 2),
        ("test -f policies.yaml -f gone.yaml", 2),
        ("test -f policies.yaml --output", 2),
        ("verify passing.yaml", 0),
        ("verify tests/suite.yaml", 1),
        ("verify passing.yaml tests/suite.yaml", 1),
        ("verify gone.yaml", 2),
        ("verify none/...", 0),
        ("verify none/... --require-tests", 1),
        ("verify none/... --strict", 2),
        ("expand -n policies.yaml -n good.yaml", 0),
        ("expand -n gone.yaml", 2),
        ("bench -f gone.yaml", 2),
        ("sync test -n gone.yaml", 2),
        ("render crds policies.yaml", 0),
        ("render crds gone.yaml", 2),
        ("select $.kind -f good.yaml", 0),
        ("select $.kind[", 2),
        ("check", 2),
        ("nosuch", 2),
    ] {
        let ran = folder.run(line);
        assert_eq!(ran.code, expected, "{line}: {}{}", ran.stdout, ran.stderr);
    }
}

/// Errors of policies in the formats of machines, with their place.
#[test]
fn errors_of_policies_are_reported() {
    let folder = Folder::new();
    folder.write("bad.yaml", &POLICIES.replace("sprintf(", "sprintff("));
    for verb in ["review", "audit"] {
        let run = |format| folder.run(&format!("{verb} -f bad.yaml -o {format} good.yaml"));
        for format in ["json", "sarif", "github", "gitlab", "junit", "markdown"] {
            let ran = run(format);
            assert_eq!(ran.code, 2, "{verb} {format}");
            assert!(ran.stdout.contains("sprintff"), "{verb} {format}: {}", ran.stdout);
        }
        let github = run("github").stdout;
        assert!(github.starts_with("::error file=bad.yaml,line=21,"), "{github}");
        let log = json(&run("sarif").stdout);
        let invocation = items(items(&log, &["runs"])[0], &["invocations"])[0];
        assert_eq!(invocation.get("executionSuccessful"), Some(&false.into()));
    }
}

/// The JSON of a run that has no results because a policy does not load has the shape of one that has.
#[test]
fn errors_have_the_shape_of_results() {
    let folder = Folder::new();
    folder.write("bad.yaml", &POLICIES.replace("sprintf(", "sprintff("));
    folder.write(
        "suite.yaml",
        "apiVersion: test.gatekeeper.sh/v1alpha1\nkind: Suite\ntests:\n- {name: t, template: bad.yaml, \
         constraint: bad.yaml, cases: [{name: c, object: good.yaml}]}\n",
    );
    let run = |line: &str| {
        let ran = folder.run(line);
        assert_eq!(ran.code, 2, "{line}: {}", ran.stderr);
        json(&ran.stdout)
    };
    for line in ["review -f bad.yaml -o json good.yaml", "test -f bad.yaml -o json good.yaml"] {
        let list = run(line);
        let found = list.as_array().expect("a list");
        assert_eq!(found.len(), 1, "{line}");
        let level = found.iter().next().and_then(|it| it.get("level"));
        assert_eq!(level, Some(&"error".into()), "{line}");
    }
    let audited = run("audit -f bad.yaml -o json good.yaml");
    let good = json(&folder.run("audit -f policies.yaml -o json good.yaml").stdout);
    for (member, value) in good.as_object().expect("an object") {
        let other = audited.get(member).map(Value::type_name);
        assert_eq!(other, Some(value.type_name()), "{member}");
    }
    assert_eq!(items(&audited, &["findings"]).len(), 1);
    let verified = run("verify -o json suite.yaml");
    assert_eq!(verified.get("passed"), Some(&false.into()));
    assert!(verified.get("suites").is_some());
}

/// Objects that name no namespace are evaluated in the same one.
#[test]
fn reviews_and_audits_agree_on_objects_without_a_namespace() {
    let folder = Folder::new();
    let policies = r#"
apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: shownamespace}
spec:
  crd: {spec: {names: {kind: ShowNamespace}}}
  targets:
  - target: admission.k8s.gatekeeper.sh
    rego: |
      package shownamespace
      violation[{"msg": msg}] { msg := sprintf("in <%v>", [input.review.namespace]) }
      violation[{"msg": msg}] { not input.review.namespace; msg := "nowhere" }
"#;
    let constraint = |name: &str, block: &str| {
        format!(
            "---\napiVersion: constraints.gatekeeper.sh/v1beta1\nkind: ShowNamespace\n\
             metadata: {{name: {name}}}\nspec: {{match: {{{block}}}}}\n"
        )
    };
    let all = [
        constraint("all", ""),
        constraint("cluster", "scope: Cluster"),
        constraint("default", "namespaces: [default]"),
        constraint("outside", "excludedNamespaces: [default]"),
        constraint("shop", "namespaces: [shop]"),
        constraint(
            "labels",
            "namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: shop}}",
        ),
    ];
    folder.write("show.yaml", &format!("{policies}{}", all.concat()));
    let objects = [
        ("v1", "Pod", "", "default"),
        ("v1", "Pod", ", namespace: shop", "shop"),
        ("example.com/v1", "Widget", "", "default"),
        ("v1", "Node", "", ""),
        ("v1", "Namespace", "", ""),
    ];
    for (version, kind, namespace, expected) in objects {
        folder.write(
            "object.yaml",
            &format!("apiVersion: {version}\nkind: {kind}\nmetadata: {{name: x{namespace}}}\n"),
        );
        for flags in ["", "-n shop"] {
            let found = |verb: &str, prefix: &str| -> Vec<String> {
                let ran = folder.run(&format!("{verb} -f show.yaml {flags} object.yaml"));
                let mut lines: Vec<String> = Vec::new();
                let mut constraint = String::new();
                for line in ran.stdout.lines() {
                    if let Some(rest) = line.strip_prefix("ShowNamespace ") {
                        constraint = rest.split(':').next().unwrap_or_default().to_owned();
                    } else if let Some(rest) = line.trim_start().strip_prefix(prefix) {
                        let (head, message) = rest.split_once(": ").unwrap_or_default();
                        let message = message.rsplit_once(" (").unwrap_or_default().0;
                        let name = if constraint.is_empty() { head } else { &constraint };
                        lines.push(format!("{name}: {message}"));
                    }
                }
                lines.sort();
                lines
            };
            let reviewed = found("review", "denied by ShowNamespace ");
            assert_eq!(found("audit", "deny "), reviewed, "{kind} {flags}");
            let expected = match (expected, flags) {
                ("", _) => "all: nowhere".to_owned(),
                ("default", "-n shop") => "all: in <shop>".to_owned(),
                (expected, _) => format!("all: in <{expected}>"),
            };
            assert!(reviewed.contains(&expected), "{kind} {flags}: {reviewed:?}");
        }
    }
}

#[test]
fn quiet_and_color() {
    let folder = Folder::new();
    folder.write("warned.yaml", "apiVersion: constraint.gatekeeper.sh/v1beta1\nkind: X\n");
    let line = "review -f policies.yaml -f warned.yaml objects.yaml";
    let ran = folder.run(line);
    assert!(ran.stderr.contains("unknown-group"), "{}", ran.stderr);
    assert!(
        ran.stderr.ends_with("3 objects: 1 denied, 0 patched, 2 allowed; 3 policies\n"),
        "{}",
        ran.stderr
    );
    let quiet = folder.run(&format!("{line} -q"));
    assert_eq!(quiet.stderr, "");
    assert!(!quiet.stdout.contains("ConfigMap shop/a"), "{}", quiet.stdout);
    assert!(quiet.stdout.contains("ConfigMap shop/b"), "{}", quiet.stdout);
    let colored = |mut command: Command| {
        let ran = Folder::ended(command.stdin(Stdio::null()));
        ran.stdout.contains('\u{1b}')
    };
    for (flags, name, value, expected) in [
        ("", "", "", false),
        ("--color always", "", "", true),
        ("--color=always", "NO_COLOR", "1", true),
        ("--color never", "FORCE_COLOR", "1", false),
        ("", "FORCE_COLOR", "1", true),
        ("", "CLICOLOR_FORCE", "1", true),
        ("", "CLICOLOR_FORCE", "0", false),
        ("", "NO_COLOR", "1", false),
    ] {
        let mut command = folder.command(&format!("{flags} {line}"));
        if !name.is_empty() {
            command.env(name, value);
        }
        assert_eq!(colored(command), expected, "{flags} {name}={value}");
    }
    assert_eq!(folder.run("test --color never -f policies.yaml -f good.yaml").code, 0);
}

#[test]
fn suites_have_totals_and_places() {
    let folder = Folder::new();
    let ran = folder.run("verify tests/suite.yaml");
    let place = "\ntests/suite.yaml:13:19: bad: unexpected number of violations";
    assert!(ran.stdout.contains(place), "{}", ran.stdout);
    assert!(ran.stdout.ends_with("\n1 passed, 1 failed, 0 skipped in 1 suite\n"), "{}", ran.stdout);
    folder.write("tests/other.yaml", SUITE);
    let ran = folder.run("verify --fail-fast tests/...");
    let totals = "1 passed, 1 failed, 0 skipped in 1 suite; 1 not run, because of --fail-fast\n";
    assert!(ran.stdout.ends_with(totals), "{}", ran.stdout);
    folder.write("tests/other.yaml", &SUITE.replace("good.yaml", "gone.yaml"));
    let ran = folder.run("verify tests/other.yaml");
    assert!(ran.stdout.contains("open tests/gone.yaml:"), "the path as it is: {}", ran.stdout);
}

#[test]
fn a_watched_suite_runs_again_when_a_file_changes() {
    use std::io::{BufRead as _, BufReader};
    let folder = Folder::new();
    let mut command = folder.command("verify --watch tests/suite.yaml");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().expect("modgate");
    let mut lines = BufReader::new(child.stdout.take().expect("stdout")).lines();
    let mut totals = || {
        lines
            .find_map(|line| line.ok().filter(|line| line.contains(" passed, ")))
            .expect("another run")
    };
    assert_eq!(totals(), "1 passed, 1 failed, 0 skipped in 1 suite");
    folder.write("tests/suite.yaml", &SUITE.replace("violations: yes", "violations: no"));
    assert_eq!(totals(), "2 passed, 0 failed, 0 skipped in 1 suite");
    child.kill().expect("killed");
    child.wait().expect("an end");
}

/// `modgate.yaml` is found upwards; paths in it are relative to it.
#[test]
fn checks_are_configured() {
    let folder = Folder::new();
    folder.write(
        "modgate.yaml",
        "policies: [policies.yaml]\nobjects: ['*ood.yaml']\noutputs: [text, sarif=out.sarif]\nstrict: \
         true\nsuites: [tests/...]\nsuiteOutputs: [text, junit=suites.xml]\n",
    );
    folder.write("sub/deep/x.yaml", "");
    let mut command = folder.command("check");
    command.current_dir(folder.0.path().join("sub/deep")).stdin(Stdio::null());
    let ran = Folder::ended(&mut command);
    assert_eq!(ran.code, 1, "{}{}", ran.stdout, ran.stderr);
    assert!(
        ran.stdout.starts_with("ConfigMap shop/a: allowed (good.yaml:1:1)\n"),
        "{}",
        ran.stdout
    );
    assert!(ran.stdout.contains("1 passed, 1 failed"), "{}", ran.stdout);
    json(&folder.read("out.sarif"));
    assert!(folder.read("suites.xml").contains("<failure "));
    folder.write("modgate.yaml", "polices: [policies.yaml]\n");
    let ran = folder.run("check");
    assert_eq!(ran.code, 2);
    for part in ["unknown member `polices`", "modgate.yaml:1:1", "did you mean `policies`?"] {
        assert!(ran.stderr.contains(part), "{}", ran.stderr);
    }
    folder.write("modgate.yaml", "policies: [policies.yaml]\n");
    let ran = folder.run("check");
    assert_eq!(ran.code, 2);
    assert!(ran.stderr.contains("names neither"), "{}", ran.stderr);
}

/// The policies that `init` writes load without a warning, and do what their comments say.
#[test]
fn new_policies_are_good() {
    let folder = Folder::new();
    for (kind, files) in [
        ("constraint", "new/template.yaml\nnew/constraint.yaml\n"),
        ("suite", "new/suite.yaml\nnew/allowed.yaml\nnew/denied.yaml\n"),
        ("modrule", "new/modrule.yaml\n"),
        ("mutator", "new/mutator.yaml\n"),
    ] {
        let ran = folder.run(&format!("init {kind} need-owner --dir new"));
        assert_eq!((ran.code, ran.stdout.as_str()), (0, files), "{}", ran.stderr);
        let ran = folder.run(&format!("init {kind} need-owner --dir new"));
        assert_eq!(ran.code, 2, "files are not overwritten");
    }
    let ran = folder.run("verify --strict --require-tests new/suite.yaml");
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
    let ran = folder.run("review --strict -f new new/denied.yaml");
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
    for part in ["allowed, patched", "owner: unknown"] {
        assert!(ran.stdout.contains(part), "{}", ran.stdout);
    }
    for (kind, says) in [
        ("constraint", "required labels: owner"),
        ("rego", "required labels: owner"),
        ("validating-policy", "add the label owner"),
        ("mutating-policy", "+    owner: unknown"),
        ("modrule", "+    owner: unknown"),
        ("mutator", "0 of 1 policy applies to the object"),
    ] {
        assert_eq!(folder.run(&format!("init {kind} need-owner --dir {kind}")).code, 0, "{kind}");
        let ran = folder.run(&format!("review --strict -f {kind} new/denied.yaml"));
        assert!((ran.stdout + &ran.stderr).contains(says), "{kind}");
        assert_eq!(ran.code, 0, "{kind}");
    }
    folder.run("init suite need-owner --dir rego");
    let ran = folder.run("verify --strict rego/suite.yaml");
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
    assert_eq!(folder.run("init constraint Need_Owner").code, 2);
}

#[test]
fn files_of_helm_and_kustomize() {
    let folder = Folder::new();
    folder.write("chart/Chart.yaml", "name: shop\nversion: 1.0.0\n");
    folder.write("chart/values.yaml", "a: 1\n");
    folder.write("chart/kustomization.yaml", "resources: [good.yaml]\n");
    folder.write("chart/good.yaml", OBJECTS.split("---\n").next().expect("an object"));
    let ran = folder.run("review -f policies.yaml chart");
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    for part in [
        "note: `chart/Chart.yaml` is the description of a Helm chart, skipped",
        "note: `chart/values.yaml` is a file of Helm values, skipped",
        "note: `chart/kustomization.yaml` is a kustomization, skipped",
    ] {
        assert!(ran.stderr.contains(part), "{}", ran.stderr);
    }
    // A patch is a part of an object.
    let patch = "patches: [{path: patch.yaml}, {patch: '[]'}]\npatchesStrategicMerge: [old.yaml]\n";
    folder.write("chart/kustomization.yaml", patch);
    for name in ["patch", "old"] {
        folder.write(
            &format!("chart/{name}.yaml"),
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: denied, namespace: shop}\n",
        );
    }
    let ran = folder.run("review -f policies.yaml chart");
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
    for part in ["patch", "old"] {
        let note = format!("note: `chart/{part}.yaml` is a patch of a kustomization, skipped");
        assert!(ran.stderr.contains(&note), "{}", ran.stderr);
    }
    assert_eq!(folder.run("review -f policies.yaml chart/patch.yaml").code, 1, "it is named");
    // The second is YAML before it is rendered, too.
    for name in ["{{ .Values.name }}", "'{{ .Values.name }}'"] {
        let text = format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n");
        folder.write("chart/templates/x.yaml", &text);
        for verb in ["audit", "review"] {
            let ran = folder.run(&format!("{verb} -f policies.yaml chart"));
            assert_eq!(ran.code, 2, "{}{}", ran.stdout, ran.stderr);
            let advice = "review what `helm template` prints";
            assert!(ran.stderr.contains(advice), "{}", ran.stderr);
            assert!(ran.stderr.contains("chart/templates/x.yaml:4:"), "{}", ran.stderr);
        }
    }
    assert_eq!(folder.run("audit -f policies.yaml chart --exclude templates").code, 0);
    let ran = folder.run("audit -f policies.yaml chart/*.yaml");
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let ran = folder.run("audit -f policies.yaml chart/values.yaml");
    assert_eq!(ran.code, 2);
    assert!(ran.stderr.contains("this is a file of Helm values; give what"), "{}", ran.stderr);
    let mut command = folder.command("review -f policies.yaml -k chart");
    let ran = Folder::ended(command.env("PATH", "").stdin(Stdio::null()));
    assert_eq!(ran.code, 2);
    assert!(ran.stderr.contains("needs `kustomize`, which is not in PATH"), "{}", ran.stderr);
}

#[test]
fn notes_name_what_was_not_evaluated() {
    let folder = Folder::new();
    folder.write(
        "pods.yaml",
        &POLICIES.replace(
            "match: {kinds: [{apiGroups: [\"\"], kinds: [ConfigMap]}]}\n  parameters: {label: owner}",
            "match:\n    kinds: [{apiGroups: [''], kinds: [Pod]}]\n    namespaceSelector: {matchLabels: \
             {env: prod}}\n  parameters: {label: owner}",
        ),
    );
    folder.write(
        "deployment.yaml",
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d, namespace: shop, labels: {team: \
         us}}\nspec: {template: {spec: {containers: []}}}\n",
    );
    folder.write(
        "pod.yaml",
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: shop, labels: {team: us, owner: me}}\n",
    );
    folder.write("service.yaml", "apiVersion: v1\nkind: Service\nmetadata: {name: s}\n");
    let missing = "note: no file describes Namespace `shop`";
    let pods = "note: 1 constraint is for Pods and not evaluated for the Pods of a Deployment";
    for (objects, notes) in [
        ("deployment.yaml", [pods, "note: 0 of 2 policies apply to the object (Deployment)"]),
        ("pod.yaml", [missing, ""]),
        ("service.yaml", ["note: 0 of 2 policies apply to the object (Service)", ""]),
        (
            "pod.yaml service.yaml deployment.yaml",
            ["note: 0 of 2 policies apply to 2 of the 3 objects (Deployment, Service)", pods],
        ),
        ("good.yaml", ["", ""]),
    ] {
        for verb in ["review", "audit", "test"] {
            let ran = folder.run(&format!("{verb} -f pods.yaml {objects}"));
            for note in notes {
                assert!(ran.stderr.contains(note), "{verb} {objects}: {}", ran.stderr);
            }
            let count = notes.iter().filter(|note| !note.is_empty()).count();
            let more = usize::from(objects.contains("pod.yaml service"));
            let found = ran.stderr.matches("note: ").count();
            assert_eq!(found, count + more, "{verb} {objects}: {}", ran.stderr);
            let quiet = folder.run(&format!("{verb} -q -f pods.yaml {objects}"));
            assert!(!quiet.stderr.contains("note: "), "{verb}: {}", quiet.stderr);
        }
    }
}

#[test]
fn select_names_what_is_undefined() {
    let folder = Folder::new();
    folder.write("pod.yaml", "kind: Pod\nspec:\n  containers:\n  - name: a\n    image: b\n");
    for (expression, expected) in [
        ("$.spec.contaners", "undefined at `.contaners`; did you mean `containers`?"),
        ("$.spec.containers[*].imag", "undefined at `.imag`; did you mean `image`?"),
        ("$.spec.containers[3].image", "undefined at `[3]`"),
        ("$.sepc.containers", "undefined at `.sepc`; did you mean `spec`?"),
        ("$.metadata", "undefined at `.metadata`; members: kind, spec"),
        ("$.spec.containers[?@.name=='x'].image", "no element passes the filter"),
        ("$.spec.containers[*].image", ""),
    ] {
        let ran = folder.run(&format!("select {expression} -f pod.yaml"));
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        assert!(ran.stderr.contains(expected), "{expression}: {}", ran.stderr);
        assert_eq!(ran.stderr.is_empty(), expected.is_empty(), "{expression}: {}", ran.stderr);
    }
}

/// Failures stand first; satisfied constraints are counted.
#[test]
fn explanations_show_failures_first() {
    let folder = Folder::new();
    let one = OBJECTS.split("---\n").nth(1).expect("an object");
    folder.write("b.yaml", one);
    let text = folder.run("explain -f policies.yaml b.yaml").stdout;
    assert!(
        text.contains("NeedLabel owner violated") && !text.contains("NeedLabel team"),
        "{text}"
    );
    assert!(text.contains("1 other policy not shown (1 satisfied), `--all` shows them"), "{text}");
    let text = folder.run("explain --all -f policies.yaml b.yaml").stdout;
    let (owner, team) = (text.find("NeedLabel owner"), text.find("NeedLabel team"));
    assert!(owner < team && team.is_some(), "{text}");
    let ran = folder.run("explain --rule NeedLabel/ownr -f policies.yaml b.yaml");
    assert_eq!(ran.code, 2);
    assert!(
        ran.stderr.contains("no policy is called") && ran.stderr.contains("`owner`"),
        "{}",
        ran.stderr
    );
}

#[test]
fn version_and_manual_pages() {
    let folder = Folder::new();
    let version = json(&folder.run("version -o json").stdout);
    assert_eq!(version.get("version").and_then(Value::as_str), Some(env!("CARGO_PKG_VERSION")));
    assert_eq!(folder.run("completion man pages").code, 0);
    let page = folder.read("pages/modgate-review.1");
    assert!(page.contains(".TH"), "{page}");
    assert!(folder.run("completion bash").stdout.contains("_modgate"));
}

/// Help is plain English in the imperative, and wrapped.
#[test]
fn help_reads_as_kubectls() {
    let folder = Folder::new();
    let overview = folder.run("--help").stdout;
    const IDIOMS: [&str; 14] = [
        "Say ",
        "say what",
        "says what",
        "asked",
        "is told",
        "are told",
        "Judge",
        "judge",
        "nobody",
        "Nobody",
        "hoever",
        " whom",
        "is about",
        "are about",
    ];
    let (_, verbs) = overview.split_once("Commands:").expect("a list of commands");
    let verbs = verbs.lines().skip(1).take_while(|line| !line.is_empty());
    // The second line of a description is indented further.
    let verbs: Vec<&str> = verbs
        .filter(|line| !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|verb| *verb != "help")
        .collect();
    assert!(verbs.len() > 20, "{verbs:?}");
    for verb in verbs {
        let help = folder.run(&format!("{verb} --help")).stdout;
        for line in overview.lines().chain(help.lines()) {
            assert!(line.chars().count() <= 100, "{verb}: {line}");
            let idiom = IDIOMS.iter().find(|idiom| line.contains(*idiom));
            assert!(idiom.is_none(), "{verb}: {line}");
        }
    }
    assert!(overview.contains("Evaluate policies against objects"), "{overview}");
}

/// Warnings about published policies and our examples, each of which is right: nothing else is warned
/// about. The folders of other projects are read where they are present.
#[test]
fn no_warning_is_false() {
    let folder = Folder::new();
    let repository = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    // The user of a request is no object.
    let examples: &[&str] = &["playground/vap/user.yaml:1:1"];
    let mut folders = vec![(format!("{repository}/examples"), examples)];
    if let Ok(data) = std::env::var("MODGATE_CONFORMANCE") {
        // Its message has six verbs and five values.
        let library: &[&str] = &["horizontalpodautoscaler/template.yaml:67:113"];
        folders.push((format!("{data}/gatekeeper-library/library"), library));
        // Formats that are wrong on purpose.
        let real: &[&str] = &["realworld/sprintf.yaml:14:53", "realworld/sprintf.yaml:18:53"];
        folders.push((format!("{data}/../review/inputs/realworld"), real));
    }
    for (path, explained) in
        folders.into_iter().filter(|(path, _)| fs::exists(path).is_ok_and(|it| it))
    {
        let ran = folder.run(&format!("review -f {path} good.yaml"));
        let mut lines = ran.stderr.lines();
        let mut places = Vec::new();
        while let Some(line) = lines.next() {
            if line.starts_with("warning") {
                places.push((line.to_owned(), lines.next().unwrap_or_default().to_owned()));
            }
        }
        assert_eq!(places.len(), explained.len(), "{path}: {places:#?}");
        for ((warning, place), expected) in places.iter().zip(explained) {
            assert!(place.ends_with(expected), "{warning}\n{place}");
        }
    }
}

/// Errors and warnings of policies are in every format that machines read, whichever verb finds them,
/// with the same rule, file and line.
#[test]
fn every_verb_reports_what_is_wrong_with_policies() {
    let folder = Folder::new();
    let template = POLICIES.split("---\n").next().expect("a template");
    let constraint = POLICIES.split("---\n").nth(1).expect("a constraint");
    let broken = template.replace("sprintf(", "sprintff(");
    let never = constraint.replace("[ConfigMap]", "[configmaps]");
    for (name, template, constraint) in
        [("broken", broken.as_str(), constraint), ("never", template, never.as_str())]
    {
        folder.write(&format!("{name}/template.yaml"), template);
        folder.write(&format!("{name}/constraint.yaml"), constraint);
        folder.write(
            &format!("{name}-suite/suite.yaml"),
            &SUITE
                .replace(": template.yaml", &format!(": ../{name}/template.yaml"))
                .replace(": constraint.yaml", &format!(": ../{name}/constraint.yaml"))
                .replace(": good.yaml", ": ../good.yaml")
                .replace("violations: yes", "violations: no"),
        );
    }
    for (name, file, line, code, text, exit) in [
        ("broken", "broken/template.yaml", 21, "error", "undefined function sprintff", 2),
        ("never", "never/constraint.yaml", 10, "never-matches", "is called `configmaps`", 0),
    ] {
        for (verb, rest) in [
            ("review", format!("-f {name} good.yaml")),
            ("audit", format!("-f {name} good.yaml")),
            ("test", format!("-f {name} -f good.yaml")),
            ("verify", format!("{name}-suite/suite.yaml")),
        ] {
            for format in
                ["json", "yaml", "jsonl", "github", "gitlab", "sarif", "junit", "markdown"]
            {
                if (verb, format) == ("review", "yaml") {
                    // Objects that other programs apply.
                    continue;
                }
                let ran = folder.run(&format!("{verb} -o {format} {rest}"));
                let case = format!("{verb} {format} {name}:\n{}{}", ran.stdout, ran.stderr);
                assert_eq!(ran.code, exit, "{case}");
                let escaped = text.replace('`', "\\`");
                assert!(ran.stdout.contains(text) || ran.stdout.contains(&escaped), "{case}");
                assert!(ran.stdout.contains(file), "{case}");
                assert!(ran.stdout.contains(code), "{case}");
                assert!(ran.stdout.contains(&line.to_string()), "{case}");
                assert!(ran.stderr.contains(text), "{case}");
                if ["json", "gitlab", "sarif"].contains(&format) {
                    json(&ran.stdout);
                }
            }
            let strict = folder.run(&format!("{verb} --strict -o sarif {rest}"));
            assert_eq!(strict.code, 2, "{verb} {name}: {}", strict.stderr);
            let log = json(&strict.stdout);
            let levels = items(items(&log, &["runs"])[0], &["results"]);
            assert_eq!(levels[0].get("level"), Some(&"error".into()), "{verb} {name}");
            let quiet = folder.run(&format!("{verb} --quiet {rest}"));
            assert_eq!((quiet.code, quiet.stderr.is_empty()), (exit, exit == 0), "{verb} {name}");
        }
    }
}

/// The region is that of the field at fault: of a policy, and of an object where the message names it.
#[test]
fn sarif_has_the_region_of_the_field() {
    let folder = Folder::new();
    for (name, text) in [
        ("p.yaml", POLICIES.to_owned()),
        (
            "o.yaml",
            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  labels:\n    team: x\n"
                .to_owned(),
        ),
    ] {
        folder.write(name, &text);
    }
    for line in [
        "review -f p.yaml -o sarif o.yaml",
        "audit -f p.yaml -o sarif o.yaml",
        "test -f p.yaml -f o.yaml -o sarif",
    ] {
        let log = json(&folder.run(line).stdout);
        let results = items(items(&log, &["runs"])[0], &["results"]);
        let location = items(results[0], &["locations"])[0];
        let region = location.path(&["physicalLocation", "region"]).expect("a region");
        assert_eq!(
            region.to_json(),
            r#"{"endColumn":10,"endLine":5,"startColumn":3,"startLine":5}"#,
            "{line}"
        );
        let field = results[0].path(&["properties", "field"]);
        assert_eq!(field, Some(&"metadata.labels".into()), "{line}");
    }
}

/// Expressions of Rego have their column in the file, as errors do.
#[test]
fn explanations_have_columns() {
    let ran = Folder::new().run("explain -f policies.yaml objects.yaml");
    assert!(ran.stdout.contains("(policies.yaml:21:9)"), "{}", ran.stdout);
}
