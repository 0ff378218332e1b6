//! `cargo xtask mistakes`: what the binary says of mistakes that authors make.
//!
//! A case is a set of files with one mistake in it. The place of the mistake is marked in the text
//! itself, with `«` in front and `»` behind; the marks are cut out before the files are written.

mod cases;
mod said;

use std::{
    collections::BTreeMap,
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Mutex,
    thread,
};

use anyhow::{Context as _, Result, bail, ensure};
use modgate_corpus::{corpus, program};

use self::{
    cases::Case,
    said::{Message, messages},
};

#[derive(Debug, Default, clap::Args)]
pub(crate) struct Args {
    /// The program to run, as an absolute path. Default: build `modgate` and run that.
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
    /// Run only cases whose id contains this.
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
    /// Print every case with what the program says.
    #[arg(long, short)]
    verbose: bool,
    /// Print every case on a line, with its place, whether it has a hint, and its code.
    #[arg(long)]
    list: bool,
}

/// The folder of our own cases.
const CASES: &str = "conformance/mistakes";

/// How long a case may take.
const SECONDS: &str = "30";

/// The output of the program for one case, against the expected one.
struct Verdict {
    id: String,
    messages: Vec<Message>,
    /// Whether the program says nothing although there is a mistake.
    silent: bool,
    /// Whether a message has the expected place; `None` where the mistake has no place.
    place: Option<bool>,
    /// Whether the expected hint is there; `None` where no hint is expected.
    hint: Option<bool>,
    /// Everything else that is not as expected.
    other: Vec<String>,
}

impl Verdict {
    fn passed(&self) -> bool {
        !self.silent
            && self.place != Some(false)
            && self.hint != Some(false)
            && self.other.is_empty()
    }
}

/// Whether the program says of every mistake what it should.
#[expect(clippy::print_stdout, reason = "results go there")]
pub(crate) fn run(args: &Args) -> Result<bool> {
    let binary = match &args.binary {
        Some(binary) => binary.clone(),
        None => program::built()?.to_owned(),
    };
    let root = corpus::repository();
    let mut suites = vec![("own".to_owned(), cases::own(&root.join(CASES))?)];
    if let Some(folder) = reviewed() {
        suites.push(("reviewed".to_owned(), cases::reviewed(&root.join(CASES), &folder)?));
    }
    let mut passed = true;
    for (name, mut cases) in suites {
        if let Some(filter) = &args.filter {
            cases.retain(|case| case.id.contains(filter.as_str()));
        }
        ensure!(!cases.is_empty() || args.filter.is_some(), "there are no cases in `{name}`");
        let verdicts = evaluate(&cases, &binary)?;
        for verdict in &verdicts {
            passed &= verdict.passed();
            if args.list {
                println!("{}", line(verdict));
            }
            if args.verbose || !verdict.passed() {
                print!("{}", report(verdict));
            }
        }
        print!("{}", table(&name, &verdicts));
    }
    println!("{}", if passed { "all as expected" } else { "FAILED" });
    Ok(passed)
}

/// The review's own mistakes, beside the repository where they are kept.
fn reviewed() -> Option<PathBuf> {
    let named = env::var_os("MODGATE_CONFORMANCE").map(PathBuf::from);
    let roots = named.into_iter().chain([corpus::repository().join("../shared/conformance")]);
    let mut folders = roots.map(|root| root.join("../review/inputs/mistakes"));
    folders.find(|folder| folder.join("cases.json").is_file())
}

/// Runs all cases, on several threads; in the order of the cases.
fn evaluate(cases: &[Case], binary: &Path) -> Result<Vec<Verdict>> {
    let next = Mutex::new(cases.iter().enumerate());
    let verdicts = Mutex::new(BTreeMap::new());
    let threads = thread::available_parallelism().map_or(2, usize::from);
    thread::scope(|scope| {
        let work = || -> Result<()> {
            loop {
                let taken = next.lock().map_or(None, |mut next| next.next());
                let Some((index, case)) = taken else { return Ok(()) };
                let verdict = ask(case, binary).with_context(|| case.id.clone())?;
                if let Ok(mut verdicts) = verdicts.lock() {
                    verdicts.insert(index, verdict);
                }
            }
        };
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        for worker in workers {
            match worker.join() {
                Ok(done) => done?,
                Err(_) => bail!("a worker panicked"),
            }
        }
        Ok(())
    })?;
    let verdicts = verdicts.into_inner().unwrap_or_default();
    Ok(verdicts.into_values().collect())
}

/// Runs one case in a folder of its own.
fn ask(case: &Case, binary: &Path) -> Result<Verdict> {
    let folder = tempfile::tempdir()?;
    for (name, text) in &case.files {
        let path = folder.path().join(name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(path, text)?;
    }
    let programs = folder.path().join(".programs");
    fs::create_dir(&programs)?;
    for name in ["modgate", "gator"] {
        #[cfg(unix)]
        std::os::unix::fs::symlink(binary, programs.join(name))?;
    }
    let inherited = env::var_os("PATH").unwrap_or_default();
    let path = env::join_paths([programs].into_iter().chain(env::split_paths(&inherited)))?;
    // A case must not reach a cluster that the machine knows.
    // What serves although it should refuse must not serve for ever.
    let output = Command::new("timeout")
        .args(["--kill-after=5", SECONDS, "sh", "-c", &case.command])
        .current_dir(folder.path())
        .env_clear()
        .env("PATH", path)
        .env("NO_COLOR", "1")
        .env("KUBECONFIG", folder.path().join("none"))
        .stdin(Stdio::null())
        .output()?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    let stdout = String::from_utf8_lossy(&output.stdout);
    Ok(verdict(case, output.status.code(), &stdout, &stderr))
}

/// Compares what was said with what should be.
fn verdict(case: &Case, exit: Option<i32>, stdout: &str, stderr: &str) -> Verdict {
    let mut messages = messages(stderr);
    // That no policy applies to the object is not a mistake.
    messages.retain(|message| !message.is_count());
    messages.extend(said::on_stdout(stdout));
    let everything = format!("{stderr}\n{stdout}");
    let mut other = Vec::new();
    let place = case.place.as_ref().map(|place| {
        messages.iter().any(|message| message.place.as_deref() == Some(place))
            || everything.contains(&format!("{place}:"))
    });
    let at_place = |message: &&Message| case.place.is_none() || message.place == case.place;
    if let Some(code) = &case.code
        && !messages.iter().filter(at_place).any(|message| message.code.as_ref() == Some(code))
    {
        other.push(format!("no message with the code `{code}`"));
    }
    let hint = case.hint.as_ref().map(|hint| everything.contains(hint.as_str()));
    for leak in said::leaks(&everything) {
        other.push(format!("says `{leak}`, which is a word of the program's own making"));
    }
    for wanted in &case.says {
        if !everything.contains(wanted.as_str()) {
            other.push(format!("does not say `{wanted}`"));
        }
    }
    if let Some(expected) = case.exit
        && exit != Some(expected)
    {
        other.push(format!("exit code {exit:?}, expected {expected}"));
    }
    if let Some(most) = case.most
        && messages.len() > most
    {
        other.push(format!("{} messages, expected at most {most}", messages.len()));
    }
    let silent = match case.clean {
        true => {
            if !messages.is_empty() {
                other.push("says something of what is right".to_owned());
            }
            false
        }
        false => messages.is_empty() && !said::is_verdict(exit, stdout),
    };
    if other.is_empty()
        && case.place.is_none()
        && case.code.is_none()
        && case.hint.is_none()
        && case.says.is_empty()
        && !case.clean
    {
        other.push("the case expects nothing".to_owned());
    }
    Verdict { id: case.id.clone(), messages, silent, place, hint, other }
}

fn report(verdict: &Verdict) -> String {
    let mut text = format!("{} {}\n", if verdict.passed() { "ok" } else { "MISS" }, verdict.id);
    if verdict.silent {
        text.push_str("  nothing is said\n");
    }
    if verdict.place == Some(false) {
        text.push_str("  no message has the place\n");
    }
    if verdict.hint == Some(false) {
        text.push_str("  the hint is missing\n");
    }
    for other in &verdict.other {
        text.push_str(&format!("  {other}\n"));
    }
    for message in &verdict.messages {
        text.push_str(&format!("    {message}\n"));
    }
    text
}

fn line(verdict: &Verdict) -> String {
    let mark = |held: Option<bool>| match held {
        Some(true) => "y",
        Some(false) => "n",
        None => "-",
    };
    let code = verdict.messages.iter().find_map(|message| message.code.as_deref());
    format!(
        "{:<28} place {} hint {} {} {}",
        verdict.id,
        mark(verdict.place),
        mark(verdict.hint),
        if verdict.silent { "silent" } else { "      " },
        code.unwrap_or_default(),
    )
}

/// The totals of a suite, by the group in front of the id's first `/`.
fn table(name: &str, verdicts: &[Verdict]) -> String {
    let mut groups: BTreeMap<&str, Vec<&Verdict>> = BTreeMap::new();
    for verdict in verdicts {
        let group = match verdict.id.split_once('/') {
            Some((group, _)) => group,
            None => verdict.id.trim_end_matches(|digit: char| digit.is_ascii_digit()),
        };
        groups.entry(group).or_default().push(verdict);
    }
    let mut text = format!(
        "\n{name:<14}{:>7}{:>13}{:>13}{:>8}{:>8}\n",
        "cases", "place right", "hint given", "silent", "missed"
    );
    let all: Vec<&Verdict> = verdicts.iter().collect();
    for (group, verdicts) in groups.into_iter().chain([("all", all)]) {
        let of = |held: &dyn Fn(&Verdict) -> Option<bool>| {
            let wanted: Vec<bool> = verdicts.iter().filter_map(|it| held(it)).collect();
            format!("{}/{}", wanted.iter().filter(|held| **held).count(), wanted.len())
        };
        text.push_str(&format!(
            "{group:<14}{:>7}{:>13}{:>13}{:>8}{:>8}\n",
            verdicts.len(),
            of(&|it| it.place),
            of(&|it| it.hint),
            verdicts.iter().filter(|it| it.silent).count(),
            verdicts.iter().filter(|it| !it.passed()).count(),
        ));
    }
    text
}
