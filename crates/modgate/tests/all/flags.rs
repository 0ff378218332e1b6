//! The same flag means the same on every verb that has it.

use std::{
    fs,
    process::{Command, Stdio},
};

use tempfile::TempDir;

const TEMPLATE: &str = r#"
apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: needlabel}
spec:
  crd: {spec: {names: {kind: NeedLabel}}}
  targets:
  - target: admission.k8s.gatekeeper.sh
    rego: |
      package needlabel
      violation[{"msg": "label owner is missing"}] {
        not input.review.object.metadata.labels.owner
      }
"#;

const CONSTRAINT: &str = "
apiVersion: constraints.gatekeeper.sh/v1beta1
kind: NeedLabel
metadata: {name: owner}
spec:
  enforcementAction: warn
  match: {kinds: [{apiGroups: [\"\"], kinds: [ConfigMap]}]}
";

const OBJECT: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: shop}\n";

const SUITE: &str = "
apiVersion: test.gatekeeper.sh/v1alpha1
kind: Suite
tests:
- name: labels
  template: ../policies/template.yaml
  constraint: ../policies/constraint.yaml
  cases: [{name: one, object: ../object.yaml, assertions: [{violations: yes}]}]
";

/// A verb, and how its line names policies and objects.
struct Verb {
    name: &'static str,
    line: &'static str,
    /// Whether it evaluates objects, hence knows `--fail-on` and `--max-warnings`.
    evaluates: bool,
}

const VERBS: [Verb; 10] = [
    Verb { name: "review", line: "review -f POLICIES object.yaml", evaluates: true },
    Verb { name: "audit", line: "audit -f POLICIES object.yaml", evaluates: true },
    Verb { name: "test", line: "test -f POLICIES -f object.yaml", evaluates: true },
    Verb { name: "explain", line: "explain -f POLICIES object.yaml", evaluates: false },
    Verb { name: "plan", line: "plan -f POLICIES object.yaml", evaluates: false },
    Verb { name: "lint", line: "lint --budget 50 -f POLICIES", evaluates: false },
    Verb {
        name: "bench",
        line: "bench -n 1 --warmup 0 -f POLICIES -f object.yaml",
        evaluates: false,
    },
    Verb { name: "expand", line: "expand -n POLICIES -n object.yaml", evaluates: false },
    Verb {
        name: "sync test",
        line: "sync test --force-omit-gvk-manifest -n POLICIES",
        evaluates: false,
    },
    Verb { name: "verify", line: "verify POLICIES-tests/...", evaluates: false },
];

struct Ran {
    code: i32,
    stdout: String,
    stderr: String,
}

struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        let folder = Self(tempfile::tempdir().expect("a folder"));
        let warned = CONSTRAINT.replace("ConfigMap", "configmaps");
        let broken = TEMPLATE.replace("not input", "not inptu");
        for (name, text) in [
            ("object.yaml", OBJECT),
            ("policies/template.yaml", TEMPLATE),
            ("policies/constraint.yaml", CONSTRAINT),
            ("policies/kustomization.yaml", "resources: [template.yaml]\n"),
            ("policies-tests/suite.yaml", SUITE),
            ("warned/template.yaml", TEMPLATE),
            ("warned/constraint.yaml", &warned),
            (
                "warned-tests/suite.yaml",
                &SUITE.replace("/policies/", "/warned/").replace("yes", "no"),
            ),
            ("broken/template.yaml", &broken),
            ("broken/constraint.yaml", CONSTRAINT),
            ("broken-tests/suite.yaml", &SUITE.replace("/policies/", "/broken/")),
            ("mixed/template.yaml", TEMPLATE),
            ("mixed/constraint.yaml", CONSTRAINT),
            (
                "mixed/old/template.yaml",
                &broken.replace("needlabel", "oldlabel").replace("NeedLabel", "OldLabel"),
            ),
            ("mixed-tests/suite.yaml", SUITE),
            ("mixed-tests/old/suite.yaml", "a: [\n"),
        ] {
            let path = folder.0.path().join(name);
            fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
            fs::write(path, text).expect("a file");
        }
        folder
    }

    fn run(&self, verb: &Verb, policies: &str, flags: &str) -> Ran {
        let line = verb.line.replace("POLICIES", policies);
        let words = line.split_whitespace().chain(flags.split_whitespace());
        let mut command = Command::new(env!("CARGO_BIN_EXE_modgate"));
        command.args(words).current_dir(self.0.path()).env("NO_COLOR", "1").stdin(Stdio::null());
        let output = command.output().expect("modgate");
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("text");
        Ran {
            code: output.status.code().expect("a code"),
            stdout: text(&output.stdout),
            stderr: text(&output.stderr),
        }
    }
}

fn check(verb: &Verb, flags: &str, ran: &Ran, holds: bool) {
    let Ran { code, stdout, stderr } = ran;
    assert!(holds, "{} {flags}: {code}\n{stdout}\n{stderr}", verb.name);
}

#[test]
fn strict_makes_warnings_errors() {
    let folder = Folder::new();
    for verb in &VERBS {
        let ran = folder.run(verb, "warned", "");
        check(verb, "", &ran, ran.code != 2 && ran.stderr.contains("warning[never-matches]"));
        let ran = folder.run(verb, "warned", "--strict");
        check(verb, "--strict", &ran, ran.code == 2 && ran.stderr.contains("error[never-matches]"));
    }
}

#[test]
fn quiet_leaves_errors() {
    let folder = Folder::new();
    for verb in &VERBS {
        let ran = folder.run(verb, "warned", "--quiet");
        check(verb, "--quiet", &ran, ran.code != 2 && !ran.stderr.contains("never-matches"));
        let ran = folder.run(verb, "broken", "-q");
        check(verb, "-q", &ran, ran.code == 2 && ran.stderr.contains("inptu"));
    }
}

#[test]
fn exclude_leaves_files_out() {
    let folder = Folder::new();
    for verb in &VERBS {
        let ran = folder.run(verb, "mixed", "");
        check(verb, "", &ran, ran.code == 2);
        for flags in ["--exclude old", "--exclude=**/old/**"] {
            let ran = folder.run(verb, "mixed", flags);
            check(verb, flags, &ran, ran.code != 2);
        }
    }
}

#[test]
fn files_are_read_alike() {
    let folder = Folder::new();
    for verb in VERBS.iter().filter(|verb| verb.name != "verify") {
        let ran = folder.run(verb, "policies", "");
        check(verb, "kustomization", &ran, ran.code != 2);
        let ran = folder.run(verb, "policies/*t*e.yaml", "");
        check(verb, "pattern", &ran, ran.code == 2 || !ran.stderr.contains("no file matches"));
        let ran = folder.run(verb, "nowhere/*.yaml", "");
        check(verb, "nowhere", &ran, ran.code == 2 && ran.stderr.contains("nowhere"));
        let ran = folder.run(verb, "nowhere.yaml", "");
        let says = ran.stderr.contains("cannot read `nowhere.yaml`: no such file or directory");
        check(verb, "missing", &ran, ran.code == 2 && says);
        let ran = folder.run(verb, "https://example.com/a.yaml", "");
        check(verb, "address", &ran, ran.code == 2 && ran.stderr.contains("is not a path"));
    }
}

#[test]
fn severities_and_counts() {
    let folder = Folder::new();
    for verb in VERBS.iter().filter(|verb| verb.evaluates) {
        for (flags, code) in [
            ("", 0),
            ("--fail-on deny", 0),
            ("--fail-on warn", 1),
            ("--fail-on dryrun", 1),
            ("--fail-on none", 0),
            ("--max-warnings 0", 1),
            ("--max-warnings 1", 0),
            ("--fail-on nothing", 2),
            ("--max-warnings many", 2),
        ] {
            let ran = folder.run(verb, "policies", flags);
            check(verb, flags, &ran, ran.code == code);
            let says_why = ran.stderr.contains("1 warning, and --max-warnings allows 0");
            check(verb, flags, &ran, says_why == (flags == "--max-warnings 0"));
        }
    }
}

#[test]
fn outputs_are_named_alike() {
    let folder = Folder::new();
    for verb in VERBS.iter().filter(|verb| !["expand", "sync test"].contains(&verb.name)) {
        let ran = folder.run(verb, "policies", "-o jsn");
        check(verb, "-o jsn", &ran, ran.code == 2 && ran.stderr.contains("json"));
        if verb.evaluates || ["verify", "lint"].contains(&verb.name) {
            let ran = folder.run(verb, "policies", "-o sarif=out.sarif -o text -o junit=out.xml");
            check(verb, "several", &ran, ran.code != 2 && !ran.stdout.is_empty());
            for file in ["out.sarif", "out.xml"] {
                fs::remove_file(folder.0.path().join(file)).expect("the output");
            }
            let ran = folder.run(verb, "policies", "-o json -o sarif");
            check(verb, "two", &ran, ran.code == 2 && ran.stderr.contains("two outputs"));
        }
    }
}
