//! `modgate lint` on mutators and Patch rules: what a second run changes again, what depends on the order, what another
//! policy undoes; and the same policies without that.

use std::{collections::BTreeSet, fs, path::Path, process::Command};

use modgate_value::Value;
use tempfile::TempDir;

/// A Patch rule for Pods.
fn rule(name: &str, tier: i64, select: &str, operation: &str) -> String {
    let criterion = if select.is_empty() { String::new() } else { format!("\n  - {select}") };
    format!(
        "apiVersion: api.kubemod.io/v1beta1\nkind: ModRule\nmetadata: {{name: {name}, namespace: default}}\nspec:\n  \
         type: Patch\n  executionTier: {tier}\n  match:\n  - {{select: $.kind, matchValue: Pod}}{criterion}\n  \
         patch:\n  - {operation}\n---\n"
    )
}

/// A mutator that sets a field of Pods.
fn assign(name: &str, location: &str, value: &str) -> String {
    format!(
        "apiVersion: mutations.gatekeeper.sh/v1\nkind: Assign\nmetadata: {{name: {name}}}\nspec:\n  applyTo: \
         [{{groups: [''], versions: [v1], kinds: [Pod]}}]\n  location: {location}\n  parameters: {{assign: \
         {{value: {value}}}}}\n---\n"
    )
}

fn lint(folder: &Path, policies: &str, arguments: &[&str]) -> (String, String, Option<i32>) {
    fs::write(folder.join("policies.yaml"), policies).expect("written");
    let output = Command::new(env!("CARGO_BIN_EXE_modgate"))
        .args([&["lint", "policies.yaml"], arguments].concat())
        .current_dir(folder)
        .output()
        .expect("run");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    (text(output.stdout), text(output.stderr), output.status.code())
}

const LABEL: &str = "{op: add, path: /metadata/labels/a, value: ";

#[test]
fn second_runs_orders_and_defeats() {
    let label =
        |name: &str, tier: i64, value: &str| rule(name, tier, "", &format!("{LABEL}{value}}}"));
    let append = "{op: add, path: /spec/tolerations/-1, value: '{key: spot, operator: Exists}'}";
    let cases = [
        // A second run appends again; not where the rule looks first.
        (rule("spot", 0, "", append), "not-idempotent ModRule default/spot"),
        (
            rule(
                "spot",
                0,
                "{select: '$.spec.tolerations[*].key', matchValue: spot, negate: true}",
                append,
            ),
            "",
        ),
        (label("one", 0, "x"), ""),
        // Always the last one wins, so the first one does nothing.
        (label("one", 0, "x") + &label("two", 1, "z"), "defeated ModRule default/one"),
        (label("one", 0, "x") + &label("two", 1, "x"), ""),
        (
            label("one", 0, "x")
                + &rule("two", 0, "", "{op: add, path: /metadata/labels/b, value: z}"),
            "",
        ),
        // A later tier may override some objects; within one tier, that is an accident of names.
        (
            label("one", 0, "x")
                + &rule(
                    "two",
                    1,
                    "{select: '$.spec.containers[0].image', matchValue: nginx}",
                    &format!("{LABEL}z}}"),
                ),
            "",
        ),
        (
            label("one", 0, "x")
                + &rule(
                    "two",
                    0,
                    "{select: '$.spec.containers[0].image', matchValue: nginx}",
                    &format!("{LABEL}z}}"),
                ),
            "order-dependent ModRule default/one",
        ),
        // Mutators that undo each other come to no end.
        (
            assign("one", "spec.priorityClassName", "low")
                + &assign("two", "spec.priorityClassName", "high"),
            "defeated Assign one",
        ),
        (
            assign("one", "spec.priorityClassName", "low")
                + &assign("two", "spec.schedulerName", "spread"),
            "",
        ),
        // Rules run after mutators.
        (
            assign("one", "spec.priorityClassName", "low")
                + &rule("two", 0, "", "{op: add, path: /spec/priorityClassName, value: high}"),
            "defeated Assign one",
        ),
        // An author accepts it.
        (
            label("one", 0, "x").replace(
                "{name: one,",
                "{name: one, annotations: {modgate.sh/allow: defeated a default}, ",
            ) + &label("two", 1, "z"),
            "",
        ),
    ];
    let folder = TempDir::new().expect("a folder");
    for (policies, expected) in cases {
        let (stdout, stderr, code) = lint(folder.path(), &policies, &["-o", "jsonl"]);
        let found: BTreeSet<String> = stdout
            .lines()
            .map(|line| {
                let finding = Value::from_json(line.as_bytes()).expect(line);
                let text = |key: &str| {
                    finding.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
                };
                let message = text("message");
                format!("{} {}", text("rule"), message.split(": ").next().unwrap_or_default())
            })
            .filter(|found| {
                ["not-", "order-", "defeated"].iter().any(|code| found.starts_with(code))
            })
            .collect();
        assert_eq!(
            found.into_iter().collect::<Vec<_>>().join("; "),
            expected,
            "{policies}{stderr}"
        );
        assert_eq!(code, Some(i32::from(!expected.is_empty())), "{policies}{stdout}{stderr}");
        assert!(!stderr.contains("no object was found"), "{policies}{stderr}");
    }
}

/// The proof shows the object and both results, and its file is a request that `review` changes.
#[test]
fn a_change_is_proved() {
    let folder = TempDir::new().expect("a folder");
    let policies = rule(
        "spot",
        0,
        "",
        "{op: add, path: /spec/tolerations/-1, value: '{key: spot, operator: Exists}'}",
    );
    let (stdout, stderr, code) = lint(folder.path(), &policies, &["--write-witness", "proofs"]);
    assert_eq!(code, Some(1), "{stderr}");
    assert!(stdout.contains("not-idempotent: ModRule default/spot: a second run"), "{stdout}");
    let once = stdout.find("after one run:").expect("one run");
    let twice = stdout.find("after two runs:").expect("two runs");
    let count = |text: &str| text.matches("key: spot").count();
    let (first, second) =
        (stdout.get(once..twice).unwrap_or_default(), stdout.get(twice..).unwrap_or_default());
    assert_eq!((count(first), count(second)), (1, 2), "{stdout}");
    let proof = "proofs/modrule-default-spot-not-idempotent-object.yaml";
    let output = Command::new(env!("CARGO_BIN_EXE_modgate"))
        .args(["review", "-f", "policies.yaml", proof, "-o", "json"])
        .current_dir(folder.path())
        .output()
        .expect("run");
    assert!(String::from_utf8_lossy(&output.stdout).contains("/spec/tolerations"), "{output:?}");
}

#[test]
fn what_changes_nothing_is_not_examined() {
    let folder = TempDir::new().expect("a folder");
    let never =
        rule("never", 0, "{select: $.kind, matchValue: Nothing}", "{op: add, path: /a, value: b}");
    let (stdout, stderr, code) = lint(folder.path(), &never, &[]);
    assert!(stderr.contains("no object was found that ModRule default/never changes"), "{stderr}");
    assert_eq!((stdout.as_str(), code), ("1 policy: 1 not examined\n", Some(0)));
}
