//! Every corpus, as `cargo xtask conformance` runs it.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stderr,
    reason = "test code, helpers included"
)]

use std::{env, fs, path::Path, sync::LazyLock};

use modgate_testkit::{Report, Roots, Run, corpus, decision, report};

/// One run of everything, which the tests share.
static REPORT: LazyLock<Report> = LazyLock::new(|| {
    let run = Run { roots: Roots::discover(), filter: None };
    let report = run.execute().expect("readable corpus folders");
    if let Some(path) = env::var_os(report::VARIABLE) {
        let text = format!("{}\n{}\n", report.table(!report.is_success()), report.counts());
        fs::write(path, text).expect("the file for the report");
    }
    report
});

/// The files below `folder`.
fn check(folder: &str) {
    let files = REPORT.files.iter().filter(|file| file.name.starts_with(folder)).cloned();
    let report = Report { files: files.collect(), ..Report::default() };
    assert!(report.counts().total() > 0, "no cases of {folder}");
    assert!(report.is_success(), "\n{}", report.table(true));
}

#[test]
fn languages() {
    check("languages/");
}

#[test]
fn kubemod() {
    check("kubemod/");
}

/// As `gator verify` runs them.
#[test]
fn suites_of_the_public_library() {
    if Roots::discover().find_folder("gatekeeper-library/library").is_none() {
        eprintln!("skipped: the public library is not here; set {}", corpus::VARIABLE);
        return;
    }
    check("gatekeeper-library/");
    let suites: Vec<_> =
        REPORT.files.iter().filter(|file| file.name.starts_with("gatekeeper-library/")).collect();
    let cases: usize = suites.iter().map(|file| file.counts().passed).sum();
    assert_eq!((suites.len(), cases), (49, 270));
}

/// How many cases the corpora have, upstream's and ours together.
const CASES: [(&str, usize); 6] = [
    ("gatekeeper/", 1_643),
    ("gatekeeper-library/", 270),
    ("kubemod/", 1_545),
    ("languages/", 333_588),
    ("opa/", 1_861),
    ("validation.json", 90),
];

/// How many files the folders have that cases and other tests name.
const FILES: [(&str, usize); 7] = [
    ("gatekeeper/demo", 53),
    ("gatekeeper/example", 4),
    ("gatekeeper/test", 114),
    ("gatekeeper-library/library", 488),
    ("gatekeeper-library/mutation", 18),
    ("kubemod/samples", 12),
    ("kubemod/testdata", 114),
];

fn files(folder: &Path) -> usize {
    let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry"));
    entries.map(|entry| if entry.path().is_dir() { files(&entry.path()) } else { 1 }).sum()
}

/// The corpora next to this repository can change without a commit.
#[test]
fn no_case_disappears() {
    if Roots::discover().find_folder("gatekeeper-library/library").is_none() {
        eprintln!("skipped: upstream's files are not here; set {}", corpus::VARIABLE);
        return;
    }
    let found = CASES.map(|(name, _)| {
        let files = REPORT.files.iter().filter(|file| file.name.starts_with(name));
        (name, files.map(|file| file.counts().total()).sum::<usize>())
    });
    assert_eq!(found, CASES);
    // Cases whose files are gone are skipped, not missing.
    assert_eq!(REPORT.counts().skipped, 0, "\n{}", REPORT.table(true));
    let roots = Roots::discover();
    let found = FILES.map(|(name, _)| {
        let folder = roots.find_folder(name).unwrap_or_else(|| panic!("`{name}` is missing"));
        (name, files(&folder))
    });
    assert_eq!(found, FILES);
}

#[test]
fn everything_is_recognised() {
    assert!(REPORT.is_success(), "\n{}", REPORT.table(true));
}

/// A clone on its own lacks upstream's files and says so; next to them nothing may be left out.
#[test]
fn nothing_is_skipped_where_upstreams_files_are() {
    let skipped = REPORT.counts().skipped;
    let shared = corpus::repository().join("../shared/conformance").is_dir();
    let named = env::var_os(corpus::VARIABLE).is_some();
    if env::var("CI").is_ok_and(|ci| ci == "true") && (shared || named) {
        assert_eq!(skipped, 0, "\n{}", REPORT.table(true));
    } else if skipped > 0 {
        eprintln!("{skipped} cases need upstream's files; set {} to have them", corpus::VARIABLE);
    }
}

/// A decision whose predicate no case meets is untested.
#[test]
fn decisions_are_exercised() {
    let met: Vec<_> = REPORT.files.iter().flat_map(|file| file.decisions().into_keys()).collect();
    let unmet: Vec<_> =
        decision::ALL.iter().map(|it| it.id).filter(|id| !met.contains(id)).collect();
    assert_eq!(unmet, [""; 0], "decisions that no recorded case meets");
}

#[test]
fn an_unknown_file_or_member_fails() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let languages = folder.path().join("languages");
    fs::create_dir(&languages).expect("a folder");
    let run = || {
        let roots = Roots::only(folder.path().to_owned()).expect("a folder");
        Run { roots, filter: None }.execute().expect("a report")
    };

    corpus::write(
        &languages.join("yaml.json.gz"),
        br#"{"cases": [{"yaml": "a", "v": "\"a\"", "sv": "\"a\""}]}"#,
    )
    .expect("a file");
    let report = run();
    assert!(report.is_success(), "{}", report.table(true));
    assert_eq!(report.counts().passed, 1, "compressed files count");

    corpus::write(
        &languages.join("yaml.json"),
        br#"{"cases": [{"yaml": "a", "v": "\"a\"", "new": 1}]}"#,
    )
    .expect("a file");
    let report = run();
    assert!(!report.is_success(), "an unknown member");
    fs::remove_file(languages.join("yaml.json")).expect("removed");

    corpus::write(&languages.join("klingon.json"), b"{}").expect("a file");
    assert_eq!(run().unknown, ["languages/klingon.json"]);
    assert!(!run().is_success());
}
