//! `gator policy` on the command line, as far as no corpus records it.

#![allow(clippy::expect_used, reason = "a test")]

use std::{ffi::OsString, fs, path::Path};

use modgate_gator::Io;

/// Exit code, standard output and standard error.
fn gator(folder: &Path, source: &str, args: &[&str]) -> (u8, String, String) {
    let args = ["gator", "policy"].iter().chain(args).map(OsString::from).collect::<Vec<_>>();
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let home = folder.join("home").to_string_lossy().into_owned();
    let mut io = Io {
        stdin: None,
        stdout: &mut stdout,
        stderr: &mut stderr,
        directory: folder,
        env: &|name| match name {
            "GATOR_HOME" => Some(home.clone()),
            "GATOR_CATALOG_URL" => Some(source.to_owned()),
            _ => None,
        },
        connect: modgate_gator::no_cluster,
    };
    let code = modgate_gator::run(&args, &mut io);
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (code, text(stdout), text(stderr))
}

#[test]
fn refusals() {
    let folder = tempfile::tempdir().expect("a folder");
    let source = format!("file://{}/catalog.yaml", folder.path().display());
    for (source, args, expected) in [
        (
            source.as_str(),
            &["install", "a", "--dry-run"][..],
            "\nRun 'gator policy update' to refresh the catalog.\nError: loading catalog: no \
             cached catalog found, run 'gator policy update' first\n",
        ),
        (
            source.as_str(),
            &["update", "x"],
            "Error: unknown command \"x\" for \"gator policy update\"\nUsage:\n",
        ),
        (source.as_str(), &["search"], "Error: accepts 1 arg(s), received 0\nUsage:\n"),
        (source.as_str(), &["frob"], "Error: unknown command \"frob\" for \"gator policy\"\n"),
        (source.as_str(), &["list"], "Error: creating Kubernetes client: "),
        (
            source.as_str(),
            &["upgrade", "--all", "-o", "xml"],
            "Error: invalid output format: xml (must be table or json)\n",
        ),
        (
            "http://localhost/catalog.yaml",
            &["update"],
            "Fetching catalog from http://localhost/catalog.yaml...\nError: plain HTTP is not \
             allowed for security reasons; use HTTPS or set --insecure to override; use --insecure \
             to override (not recommended)\n",
        ),
        (
            "ftp://localhost/catalog.yaml",
            &["update"],
            "Fetching catalog from ftp://localhost/catalog.yaml...\nError: fetching catalog: \
             unsupported URL scheme: ftp\n",
        ),
        (
            source.as_str(),
            &["generate-catalog", "--library-path", "none"],
            "Error: library path does not exist: ",
        ),
    ] {
        let (code, stdout, stderr) = gator(folder.path(), source, args);
        assert!(
            code == 1 && stdout.is_empty() && stderr.starts_with(expected),
            "{args:?}: {stderr}"
        );
    }
    let (code, stdout, _) = gator(folder.path(), &source, &[]);
    assert!(code == 0 && stdout.contains("generate-catalog"), "{stdout}");
}

/// A catalog made from a folder, fetched, searched, and installed from, as far as that goes
/// without a cluster.
#[test]
fn from_a_library_to_a_dry_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let policy = folder.path().join("library/general/a");
    fs::create_dir_all(policy.join("samples/s")).expect("a folder");
    let template = "kind: ConstraintTemplate\nmetadata:\n  name: a\n  annotations:\n    \
                    description: Says a.\n    metadata.gatekeeper.sh/bundle: all\n";
    fs::write(policy.join("template.yaml"), template).expect("a file");
    let constraint =
        "apiVersion: constraints.gatekeeper.sh/v1beta1\nkind: A\nmetadata: {name: x}\n";
    fs::write(policy.join("samples/s/constraint.yaml"), constraint).expect("a file");
    let source = format!("file://{}/catalog.yaml", folder.path().display());
    let run = |args: &[&str]| gator(folder.path(), &source, args);

    let (code, _, stderr) = run(&["generate-catalog"]);
    assert_eq!(code, 0, "{stderr}");
    assert!(
        stderr.contains("Found 1 policies and 1 bundles\nCatalog validation passed\n"),
        "{stderr}"
    );
    let (code, stdout, _) = run(&["update"]);
    assert_eq!(
        (code, stdout.as_str()),
        (0, "Updated catalog to version v1.0.0 (1 policies, 1 bundles)\n")
    );
    let (_, stdout, _) = run(&["search", "SAYS"]);
    assert_eq!(stdout, "NAME  VERSION  CATEGORY  DESCRIPTION\na     v1.0.0   general   Says a.\n");
    let (code, stdout, _) =
        run(&["install", "--bundle=all", "--dry-run", "--enforcement-action=Warn"]);
    assert_eq!((code, stdout.as_str()), (0, "(dry-run) a v1.0.0\n"));
    fs::remove_file(policy.join("samples/s/constraint.yaml")).expect("removed");
    let (code, stdout, stderr) = run(&["install", "--bundle", "all", "--dry-run"]);
    assert_eq!(code, 4);
    assert!(stdout.starts_with("✗ a - failed: fetching constraint: open "), "{stdout}");
    assert!(stderr.ends_with("Error: installation incomplete: 0 of 1 policies installed\n"));
}
