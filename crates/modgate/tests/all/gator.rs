//! gator's verbs in the binary, and the binary by the name of gator.

use std::{
    io::Write as _,
    path::Path,
    process::{Command, Output, Stdio},
};

const BINARY: &str = env!("CARGO_BIN_EXE_modgate");
const POD: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n";

fn run(program: &Path, args: &[&str], stdin: Option<&str>) -> Output {
    let mut child = Command::new(program)
        .args(args)
        .stdin(if stdin.is_some() { Stdio::piped() } else { Stdio::null() })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary");
    if let (Some(text), Some(mut pipe)) = (stdin, child.stdin.take()) {
        pipe.write_all(text.as_bytes()).expect("standard input");
    }
    child.wait_with_output().expect("an end")
}

fn shown(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn standard_input_is_read_unless_it_is_a_device() {
    let binary = Path::new(BINARY);
    let (code, stdout, stderr) = shown(&run(binary, &["test", "-o", "json"], Some(POD)));
    assert_eq!((code, stdout.as_str(), stderr.as_str()), (Some(0), "null", ""));
    let (code, _, stderr) = shown(&run(binary, &["test"], None));
    let nothing =
        "Error: no objects were read; give files or folders with `-f`, or pipe objects in\n";
    assert_eq!((code, stderr.as_str()), (Some(2), nothing));
}

#[test]
fn arguments_are_files_and_help_lists_all_verbs() {
    let (code, _, stderr) = shown(&run(Path::new(BINARY), &["test", "x"], None));
    assert_eq!(
        (code, stderr.as_str()),
        (Some(2), "error: cannot read `x`: no such file or directory\n")
    );
    let (code, stdout, _) = shown(&run(Path::new(BINARY), &["--help"], None));
    assert_eq!(code, Some(0));
    for verb in ["verify", "expand", "serve"] {
        assert!(stdout.contains(&format!("\n  {verb} ")), "{verb}: {stdout}");
    }
}

#[cfg(unix)]
#[test]
fn called_as_gator_it_is_gator() {
    let folder = tempfile::tempdir().expect("a folder");
    let gator = folder.path().join("gator");
    std::os::unix::fs::symlink(BINARY, &gator).expect("a link");
    let (code, stdout, _) = shown(&run(&gator, &["--version"], None));
    assert_eq!(code, Some(0));
    assert!(stdout.starts_with("gator version "), "{stdout}");
    let (code, _, stderr) = shown(&run(&gator, &["serve"], None));
    assert_eq!(code, Some(1));
    assert!(stderr.starts_with("Error: unknown command \"serve\" for \"gator\"\n"), "{stderr}");
    let (code, _, stderr) = shown(&run(&gator, &["test"], None));
    assert_eq!((code, stderr.as_str()), (Some(1), "no input data identified\n"));
    let (code, _, stderr) = shown(&run(&gator, &["test", "x"], None));
    assert_eq!(code, Some(1));
    assert!(stderr.starts_with("Error: unknown command \"x\" for \"gator test\"\n"), "{stderr}");
}
