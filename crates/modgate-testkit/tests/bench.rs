//! `gator bench` over Gatekeeper's own inputs, where they are at hand.

#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::print_stderr, reason = "a test")]

use std::{ffi::OsString, fs, path::PathBuf};

use modgate_gator::Io;
use modgate_testkit::Roots;
use modgate_value::{Value, yaml};

struct Ran {
    code: u8,
    stdout: String,
    stderr: String,
}

fn inputs() -> Option<PathBuf> {
    let found = Roots::discover().find_folder("gatekeeper/test/gator/bench");
    if found.is_none() {
        eprintln!("skipped: Gatekeeper's inputs are not here");
    }
    found
}

/// `gator bench` over one input, 3 times without warm-up.
fn bench(input: &str, more: &[&str]) -> Option<Ran> {
    let folder = inputs()?.join(input);
    let folder = folder.to_string_lossy();
    let fixed = ["gator", "bench", "-f", &folder, "-n", "3", "--warmup", "0"];
    let args: Vec<OsString> = fixed.iter().chain(more).map(OsString::from).collect();
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let here = std::env::temp_dir();
    let mut io = Io {
        stdin: None,
        stdout: &mut stdout,
        stderr: &mut stderr,
        directory: &here,
        env: &|_| None,
        connect: modgate_gator::no_cluster,
    };
    let code = modgate_gator::run(&args, &mut io);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    Some(Ran { code, stdout: text(stdout), stderr: text(stderr) })
}

#[test]
fn engines() {
    for (input, engine, code, expected) in [
        ("basic", "rego", 0, "  Violations Found:  3\n"),
        ("cel", "cel", 0, "  Violations Found:  3\n"),
        ("both", "rego", 0, "  Violations Found:  3\n"),
        ("both", "cel", 0, "  Violations Found:  3\n"),
        ("both", "all", 0, "=== Engine Comparison ==="),
        (
            "basic",
            "cel",
            1,
            "benchmark failed: benchmarking cel: no templates compatible with cel engine (all 1 templates skipped)\n",
        ),
        (
            "cel",
            "rego",
            1,
            "benchmark failed: benchmarking rego: no templates compatible with rego engine (all 1 templates skipped)\n",
        ),
        (
            "basic",
            "all",
            0,
            "Warning: Engine skipped - cel: no templates compatible with cel engine (all 1 templates skipped)\n\n",
        ),
    ] {
        let Some(ran) = bench(input, &["-e", engine]) else { return };
        let said = format!("{}{}", ran.stdout, ran.stderr);
        assert!(ran.code == code && said.contains(expected), "{input} {engine}: {said}");
    }
}

#[test]
fn figures_for_machines() {
    for format in ["json", "yaml"] {
        let more = ["-e", "rego", "-o", format, "-c", "2", "--stats", "--memory"];
        let Some(ran) = bench("basic", &more) else { return };
        let figures = match format {
            "json" => Value::from_json(ran.stdout.as_bytes()).expect("JSON"),
            _ => yaml::value(&ran.stdout).expect("YAML"),
        };
        let figure = |path: &[&str]| figures.at(0).and_then(|first| first.path(path)).cloned();
        assert_eq!(figure(&["engine"]), Some("rego".into()));
        assert_eq!(figure(&["concurrency"]), Some(2.into()));
        assert_eq!(figure(&["violationCount"]), Some(3.into()));
        assert_eq!(figure(&["referentialDataSupported"]), Some(true.into()));
        let objects = figure(&["objectCount"]).and_then(|it| it.as_i64()).expect("a number");
        assert_eq!(figure(&["totalReviews"]), Some((3 * objects).into()));
        for path in [["latencies", "p99"], ["setupBreakdown", "dataLoading"]] {
            let duration = figure(&path).and_then(|it| it.as_str().map(str::to_owned));
            assert!(duration.is_some_and(|it| it.ends_with('s')), "{path:?}");
        }
        assert!(figure(&["memoryStats", "bytesPerReview"]).is_some());
        assert!(figure(&["statsEntries"]).is_some());
    }
}

#[test]
fn saved_and_compared() {
    let folder = tempfile::tempdir().expect("folder");
    for name in ["baseline.json", "baseline.yaml"] {
        let path = folder.path().join(name);
        let path = path.to_string_lossy();
        let Some(ran) = bench("basic", &["-e", "rego", "--save", &path]) else { return };
        assert!(ran.code == 0, "{}", ran.stderr);
        assert!(ran.stderr.ends_with(&format!("\nResults saved to: {path}\n")), "{}", ran.stderr);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = fs::metadata(&*path).expect("saved").permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
        // No run is a thousand times slower than another, but for pauses of a busy machine.
        let more = ["-e", "rego", "--compare", &path, "--threshold", "100000"];
        let more = [&more[..], &["--min-threshold", "60s"]].concat();
        let ran = bench("basic", &more).expect("inputs");
        assert_eq!(ran.code, 0, "{}", ran.stdout);
        let expected = "\n=== Baseline Comparison: REGO Engine ===\n\nMetric        Baseline";
        assert!(ran.stdout.contains(expected), "{}", ran.stdout);
        assert!(ran.stdout.contains("✓ No significant regressions (threshold: 100000.0%)\n"));
        // Nor infinitely fast.
        let figures = fs::read_to_string(&*path).expect("saved");
        let fast: String = figures
            .lines()
            .map(|line| match line.split_once("p50") {
                Some((before, _)) if name.ends_with("json") => format!("{before}p50\": 1,\n"),
                Some((before, _)) => format!("{before}p50: 1\n"),
                None => format!("{line}\n"),
            })
            .collect();
        fs::write(&*path, fast).expect("write");
        let ran = bench("basic", &["-e", "rego", "--compare", &path]).expect("inputs");
        assert_eq!(ran.code, 1, "{}", ran.stdout);
        assert!(ran.stdout.contains("✗ Regressions detected in: P50 Latency"), "{}", ran.stdout);
        let ran = bench("both", &["-e", "cel", "--compare", &path]).expect("inputs");
        assert!(ran.stderr.ends_with("\nWarning: No matching engines found for comparison\n"));
    }
}
