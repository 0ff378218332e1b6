//! `modgate migrate` as people run it.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use modgate_value::{Value, yaml};

/// Exit code, standard output, standard error.
fn modgate(arguments: &[&str]) -> (i32, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_modgate"))
        .args(arguments)
        .env("NO_COLOR", "1")
        .env("HOME", "/nonexistent")
        .env_remove("KUBECONFIG")
        .output()
        .expect("modgate runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().expect("exited"), text(&output.stdout), text(&output.stderr))
}

fn fixture(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../modgate-migrate/tests/fixtures");
    folder.join(name).display().to_string()
}

#[test]
fn a_report_for_people() {
    let (code, stdout, stderr) = modgate(&["migrate", "--check", &fixture("kubemod.yaml")]);
    assert_eq!((code, stderr.as_str()), (1, ""), "a rule is refused\n{stdout}");
    for part in [
        "KubeMod: kubemod/kubemod:v0.19.1\n",
        "\nruns unchanged: 2\n      1 ModRule\n      1 ValidatingWebhookConfiguration\n",
        "\nruns, and differs (see docs/compatibility.md)\n",
        "    Q-34: the patch is dropped when an object is deleted",
        "\ndoes not run\n  ModRule shop/broken spec.match[0].select (",
        "  kubemod-operator --enable-leader-election: Q-41: ",
        "\nhow to switch (see docs/migration.md)\n  1. Back up\n",
        "       kubectl -n kubemod-system scale deployment kubemod-operator --replicas=0\n",
    ] {
        assert!(stdout.contains(part), "{part:?} is not in\n{stdout}");
    }
}

#[test]
fn a_report_for_programs() {
    let both = [fixture("kubemod.yaml"), fixture("gatekeeper.yaml")];
    let (code, json, _) = modgate(&["migrate", "--check", "-o", "json", &both[0], &both[1]]);
    assert_eq!(code, 1);
    let report = Value::from_json(json.as_bytes()).expect("JSON");
    for member in ["originals", "unchanged", "differs", "warnings", "refused", "flags", "steps"] {
        assert!(report.get(member).and_then(Value::as_array).is_some(), "{member}: {json}");
    }
    let (code, text, _) = modgate(&["migrate", "--check", "-o", "yaml", &both[0], &both[1]]);
    assert_eq!((code, yaml::value(&text).expect("YAML")), (1, report));
}

/// Every flag of Gatekeeper's own manifests is taken by `modgate serve`, or there is a sentence.
#[test]
fn flags_of_the_originals() {
    let (_, json, _) = modgate(&["migrate", "--check", "-o", "json", &fixture("gatekeeper.yaml")]);
    let report = Value::from_json(json.as_bytes()).expect("JSON");
    let flags = report.get("flags").and_then(Value::as_array).expect("flags");
    assert!(flags.len() > 6, "{json}");
    for flag in flags {
        let text = |key: &str| flag.get(key).and_then(Value::as_str).unwrap_or_default();
        let said = match text("fate") {
            "same" | "chart" => true,
            "differs" | "nothing" | "refused" => !text("sentence").is_empty(),
            other => panic!("{other}"),
        };
        assert!(said, "{}", flag.to_json());
    }
}

#[test]
fn what_is_wrong_is_named() {
    let folder = tempfile::tempdir().expect("folder");
    let path = |name: &str, text: &str| -> PathBuf {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("written");
        path
    };
    let broken = path("broken.yaml", "a: [\n");
    let (code, _, stderr) = modgate(&["migrate", "--check", &broken.display().to_string()]);
    assert_eq!(code, 2);
    assert!(stderr.contains("broken.yaml"), "{stderr}");
    let (code, _, stderr) = modgate(&["migrate", "--check", "/no/such/folder"]);
    assert_eq!(code, 2);
    assert!(stderr.contains("/no/such/folder"), "{stderr}");
    let (code, _, stderr) = modgate(&["migrate", "some.yaml"]);
    assert_eq!(code, 2);
    assert!(stderr.contains("--check"), "{stderr}");
    let (code, _, stderr) = modgate(&["migrate", "--check", "--kubeconfig", "/no/such/file"]);
    assert_eq!(code, 2);
    assert!(stderr.contains("cannot use the kubeconfig `/no/such/file`"), "{stderr}");
    let empty = path("empty.yaml", "");
    let (code, _, stderr) = modgate(&["migrate", "--check", &empty.display().to_string()]);
    assert_eq!(code, 2);
    assert!(stderr.contains("there is no object in"), "{stderr}");
    let other = path("other.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n");
    let (code, stdout, _) = modgate(&["migrate", "--check", &other.display().to_string()]);
    assert_eq!(code, 0);
    assert!(stdout.starts_with("neither KubeMod nor Gatekeeper is installed here\n"), "{stdout}");
}
