//! The requests that `modgate lint` writes as proofs are requests that an API server takes: each is sent to a
//! real one, as a dry run with strict validation.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "tests fail by panicking, and their output says why"
)]

use std::{collections::BTreeSet, fs, path::Path, process::Command};

use modgate_e2e::{kubectl, succeeds};
use modgate_testkit::{
    Roots,
    cluster::{Cluster, KubectlOutput, Options},
};
use modgate_value::{Value, yaml};

fn text<'v>(value: &'v Value, path: &[&str]) -> &'v str {
    value.path(path).and_then(Value::as_str).unwrap_or_default()
}

/// Sends the request of a witness; what it needs there is created first, and removed afterwards.
fn send(cluster: &Cluster, folder: &Path, review: &Value) -> KubectlOutput {
    let request = review.get("request").expect("a request");
    let object = request.get("object").expect("an object").to_json();
    let namespace = text(request, &["namespace"]);
    if !namespace.is_empty() && !kubectl(cluster, &format!("get namespace {namespace}"), "").success
    {
        succeeds(cluster, &format!("create namespace {namespace}"), "");
    }
    match (text(request, &["operation"]), text(request, &["subResource"])) {
        ("CREATE", "") => {
            // An object with `generateName` has no name.
            let mut arguments = "create --dry-run=server --validate=strict -f -".to_owned();
            if !namespace.is_empty() {
                arguments.push_str(&format!(" -n {namespace}"));
            }
            kubectl(cluster, &arguments, &object)
        }
        ("UPDATE", sub) => {
            let old = request.get("oldObject").expect("an old object");
            let create = format!("create --validate=strict -f - -n {namespace} -o json");
            let stored = kubectl(cluster, &create, &old.to_json());
            assert!(stored.success, "the old object: {}", stored.stderr);
            let stored = Value::from_json(stored.stdout.as_bytes()).expect("JSON");
            let file = folder.join("object.json");
            fs::write(&file, &object).expect("written");
            let [group, version, resource] =
                ["group", "version", "resource"].map(|key| text(request, &["resource", key]));
            let root = match group {
                "" => format!("/api/{version}"),
                _ => format!("/apis/{group}/{version}"),
            };
            let name = text(&stored, &["metadata", "name"]);
            let mut uri = format!("{root}/namespaces/{namespace}/{resource}/{name}");
            if !sub.is_empty() {
                uri.push_str(&format!("/{sub}"));
            }
            uri.push_str("?dryRun=All&fieldValidation=Strict");
            let outcome =
                kubectl(cluster, &format!("replace --raw {uri} -f {}", file.display()), "");
            let delete =
                format!("delete {resource} {name} -n {namespace} --force --grace-period=0");
            succeeds(cluster, &delete, "");
            outcome
        }
        other => panic!("a witness of {other:?}"),
    }
}

/// The findings in the table of `docs/lint.md` on the library: template and code.
fn documented() -> BTreeSet<(String, String)> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/lint.md");
    let page = fs::read_to_string(page).expect("the page");
    let (_, section) = page.split_once("## On the library of Gatekeeper").expect("the section");
    let rows = section.lines().skip_while(|line| !line.starts_with("| Template |"));
    let mut all = BTreeSet::new();
    for row in rows.take_while(|line| line.starts_with('|')).skip(2) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let [_, templates, code, verdict, _] = cells.as_slice() else { panic!("{row}") };
        assert!(!verdict.is_empty(), "{row}");
        for template in templates.split(", ") {
            let name = |text: &str| text.trim_matches('`').to_owned();
            all.insert((name(template), name(code)));
        }
    }
    all
}

#[test]
fn an_api_server_takes_every_witness_on_the_library() {
    let Some(library) = Roots::discover().find_folder("gatekeeper-library/library") else {
        eprintln!("skipped: no corpus has `gatekeeper-library/library`");
        return;
    };
    let Some(cluster) = Cluster::start(&Options::default()).expect("a cluster") else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let proofs = folder.path().join("proofs");
    let output = Command::new(env!("CARGO_BIN_EXE_modgate-e2e"))
        .args(["lint", "-o", "json", "--write-witness"])
        .arg(&proofs)
        .arg(library)
        .output()
        .expect("modgate");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    let report = Value::from_json(&output.stdout).expect(&errors);

    let mut files: Vec<_> =
        fs::read_dir(&proofs).expect("proofs").map(|it| it.expect("an entry").path()).collect();
    files.sort();
    let mut refused = Vec::new();
    for file in &files {
        let review = yaml::value(&fs::read_to_string(file).expect("read")).expect("YAML");
        let outcome = send(&cluster, folder.path(), &review);
        if !outcome.success {
            refused.push(format!("{}: {}", file.display(), outcome.stderr));
        }
    }
    eprintln!("{} witnesses, {} refused", files.len(), refused.len());
    assert_eq!(refused, [""; 0], "the API server refuses witnesses");
    let found = findings(&report);
    assert_eq!(files.len(), 2 * found.len(), "two requests for each finding");
    assert_eq!(found, documented(), "docs/lint.md lists the findings on the library");
}

/// Template and code of each finding about a way past a policy. A template has the name of its kind in small letters.
fn findings(report: &Value) -> BTreeSet<(String, String)> {
    let list = report.get("findings").and_then(Value::as_array).expect("findings");
    let of = |it: &Value| {
        let kind = text(it, &["message"]).split(' ').next().unwrap_or_default().to_lowercase();
        (kind, text(it, &["rule"]).to_owned())
    };
    list.iter().map(of).filter(|(_, code)| code.starts_with("bypass-")).collect()
}
