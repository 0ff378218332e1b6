//! gator's `verify` and `test` beside modgate's verbs of the same names.

use std::{
    fs::{self, File},
    os::unix::fs::symlink,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use modgate_e2e::originals::{Library, documents};
use serde_json::Value;

use super::{Answers, Report, say, webhooks::megabytes};
use crate::load::{ProcessFigures, library};

/// Objects for `test`: so many Pods, and as many Deployments.
const OBJECTS: usize = 200;
/// Runs of each command, of which the fastest counts.
const RUNS: usize = 3;
/// How long a run may take.
const TIMEOUT: Duration = Duration::from_secs(300);

/// A run of a program.
struct Ran {
    seconds: f64,
    /// The most memory, in MB, as far as it was seen: the kernel forgets it when the process ends.
    peak: f64,
    stdout: String,
    code: Option<i32>,
}

fn ran(program: &Path, arguments: &[&str], folder: &Path) -> Result<Ran> {
    let [out, errors] = ["stdout", "stderr"].map(|name| folder.join(name));
    let started = Instant::now();
    let mut child = Command::new(program)
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(File::create(&out)?)
        .stderr(File::create(&errors)?)
        .spawn()
        .with_context(|| program.display().to_string())?;
    let mut peak = 0;
    let status = loop {
        peak = ProcessFigures::read(child.id()).map_or(peak, |it| peak.max(it.peak_kib));
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if started.elapsed() > TIMEOUT {
            child.kill()?;
        }
        thread::sleep(Duration::from_millis(1));
    };
    let seconds = started.elapsed().as_secs_f64();
    let (stdout, code) = (fs::read_to_string(out)?, status.code());
    ensure!(
        !stdout.is_empty() && matches!(code, Some(0 | 1)),
        "{} {arguments:?}: {status}: {}",
        program.display(),
        fs::read_to_string(errors)?
    );
    Ok(Ran { seconds, peak: megabytes(peak), stdout, code })
}

pub(super) fn run(
    program: &Path,
    binary: &Path,
    policies: &Library,
    report: &mut Report,
) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let folder = folder.path();
    // modgate answers as gator where it is called so.
    let ours = folder.join("gator");
    symlink(binary.canonicalize()?, &ours)?;
    // gator takes no path with `..` in it.
    let suites = policies.folder().canonicalize()?.join("library/...").display().to_string();
    let objects = (0..OBJECTS).flat_map(|at| {
        let name = format!("web-{at}");
        [library::pod_named(&name), library::deployment_named(&name)]
    });
    let objects: Vec<_> = objects.collect();
    let all = policies.policies.templates.iter().chain(&policies.policies.constraints);
    fs::write(folder.join("policies.yaml"), documents(all))?;
    fs::write(folder.join("objects.yaml"), documents(&objects))?;
    let verify = ["verify", suites.as_str()];
    let test = ["test", "-o", "json", "-f", "policies.yaml", "-f", "objects.yaml"];
    let works = [
        ("`verify` of the library's suites".to_owned(), verify.as_slice(), suites_of as Answered),
        (format!("`test` of {} objects", 2 * OBJECTS), test.as_slice(), results_of),
    ];
    for (what, arguments, answered) in works {
        let fastest = |program: &Path| -> Result<Ran> {
            say(&format!("{what}: {}", program.display()));
            let mut best = ran(program, arguments, folder)?;
            for _ in 1..RUNS {
                let run = ran(program, arguments, folder)?;
                let peak = best.peak.max(run.peak);
                best = if run.seconds < best.seconds { run } else { best };
                best.peak = peak;
            }
            Ok(best)
        };
        let (theirs, modgate) = (fastest(program)?, fastest(&ours)?);
        let (left, right) = (answered(&theirs)?, answered(&modgate)?);
        report.answers.push(Answers::unordered(&format!("gator, {what}"), left, right));
        report.row("gator", &what, "s", (theirs.seconds, modgate.seconds));
        report.row("gator", &format!("{what}: most memory"), "MB", (theirs.peak, modgate.peak));
    }
    Ok(())
}

type Answered = fn(&Ran) -> Result<Vec<String>>;

/// The lines of `verify` without times, and the exit code.
fn suites_of(ran: &Ran) -> Result<Vec<String>> {
    let mut lines: Vec<String> = ran.stdout.lines().map(without_time).collect();
    lines.push(format!("exit code {:?}", ran.code));
    Ok(lines)
}

fn without_time(line: &str) -> String {
    let is_time = |word: &&str| {
        let number = word.strip_suffix('s').map(|it| it.trim_end_matches(['m', 'µ', 'n']));
        number.is_some_and(|number| number.parse::<f64>().is_ok())
    };
    let words = line.split_whitespace().filter(|word| !is_time(word));
    words.collect::<Vec<_>>().join(" ")
}

/// The results of `test`, and the exit code.
fn results_of(ran: &Ran) -> Result<Vec<String>> {
    let results: Vec<Value> = serde_json::from_str(&ran.stdout).context("the results of `test`")?;
    let parts = [
        "/constraint/kind",
        "/constraint/metadata/name",
        "/violatingObject/kind",
        "/violatingObject/metadata/name",
        "/enforcementAction",
        "/msg",
    ];
    let line =
        |it: &Value| Value::from_iter(parts.map(|part| it.pointer(part).cloned())).to_string();
    let mut lines: Vec<String> = results.iter().map(line).collect();
    lines.push(format!("exit code {:?}", ran.code));
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_no_difference() {
        assert_eq!(
            without_time("ok\t/a/suite.yaml\t0.013s"),
            without_time("ok /a/suite.yaml 1.5ms")
        );
        assert_ne!(
            without_time("ok\t/a/suite.yaml\t0.013s"),
            without_time("FAIL /a/suite.yaml 1s")
        );
    }
}
