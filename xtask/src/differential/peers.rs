//! The two programs that are asked: the original behind its Go program, and `modgate` called as gator.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::program::Verb;

/// What a program answered.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Answer {
    /// The results of `test`, or the objects of `expand`, in one order for both programs.
    Found(Vec<Value>),
    /// It refused, with this text.
    Refused(String),
    /// It crashed or took too long.
    Failed(String),
}

/// The original, one process for many programs.
pub(crate) struct Original {
    program: PathBuf,
    running: Option<(Child, ChildStdin, BufReader<ChildStdout>)>,
}

impl Original {
    pub(crate) fn new(program: &Path) -> Self {
        Self { program: program.to_owned(), running: None }
    }

    /// What the original answers to the file.
    pub(crate) fn ask(&mut self, verb: Verb, file: &Path) -> Result<Answer> {
        if self.running.is_none() {
            let mut child = Command::new(&self.program)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()
                .with_context(|| format!("start {}", self.program.display()))?;
            let input = child.stdin.take().context("the original has no input")?;
            let output = child.stdout.take().context("the original has no output")?;
            self.running = Some((child, input, BufReader::new(output)));
        }
        let (_, input, output) = self.running.as_mut().context("the original is not running")?;
        let asked = writeln!(input, "{}", json!({"verb": verb.name(), "file": file}));
        let mut line = String::new();
        if asked.is_err() || output.read_line(&mut line)? == 0 {
            self.stop();
            return Ok(Answer::Failed("the process ended".to_owned()));
        }
        let mut answer: Value = serde_json::from_str(&line).context("the original's answer")?;
        if answer["timeout"] == true {
            self.stop();
            return Ok(Answer::Failed("it took too long".to_owned()));
        }
        if let Some(cause) = answer["panic"].as_str() {
            return Ok(Answer::Failed(cause.to_owned()));
        }
        if let Some(text) = answer["error"].as_str() {
            return Ok(Answer::Refused(text.trim().to_owned()));
        }
        let member = if verb == Verb::Test { "results" } else { "objects" };
        Ok(found(answer[member].take()))
    }

    fn stop(&mut self) {
        if let Some((mut child, ..)) = self.running.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Drop for Original {
    fn drop(&mut self) {
        self.stop();
    }
}

/// What `modgate`, called as gator, answers to the file.
pub(crate) fn modgate(gator: &Path, verb: Verb, file: &Path) -> Result<Answer> {
    let mut command = Command::new(gator);
    command.arg(verb.name()).arg("--filename").arg(file);
    match verb {
        Verb::Test => command.args(["-o", "json"]),
        Verb::Expand => command.args(["--format", "json"]),
    };
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("run {}", gator.display()))?;
    let stderr = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    let stdout = String::from_utf8_lossy(&output.stdout);
    match output.status.code() {
        Some(0 | 1) if !stdout.trim().is_empty() => Ok(match verb {
            Verb::Test => found(serde_json::from_str(&stdout).context("the answer of `test`")?),
            Verb::Expand => found(stream(&stdout)?),
        }),
        Some(0) => Ok(Answer::Found(Vec::new())),
        Some(1) => Ok(Answer::Refused(stderr)),
        _ => Ok(Answer::Failed(stderr)),
    }
}

/// The objects of a stream of JSON documents, as `expand` prints them.
fn stream(text: &str) -> Result<Value> {
    let objects: Result<Vec<Value>, _> = text
        .split("---\n")
        .filter(|document| !document.trim().is_empty())
        .map(serde_json::from_str)
        .collect();
    Ok(Value::Array(objects.context("the answer of `expand`")?))
}

/// The original sorts with an unstable order; both sides are compared in one order.
fn found(list: Value) -> Answer {
    let mut list = match list {
        Value::Array(list) => list,
        Value::Null => Vec::new(),
        other => vec![other],
    };
    list.sort_by_cached_key(Value::to_string);
    Answer::Found(list)
}

/// Leaves out of the results of both programs what differs by a decision in `docs/compatibility.md`:
///
/// - `fix-gator-scope`: a constraint that looks at Namespaces, and an object that cannot be in one.
/// - `fix-gator-print-object`: the original prints objects as mutators and defaults changed them since.
pub(crate) fn leave_declared(answer: &mut Answer, documents: &[Value]) {
    let is_of = |object: &Value, group: &str| {
        object["apiVersion"].as_str().is_some_and(|api| api.starts_with(group))
    };
    let is_mutated = documents.iter().any(|document| is_of(document, "mutations."));
    let Answer::Found(results) = answer else { return };
    results.retain(|result| {
        let object = &result["violatingObject"];
        let matching = &result["constraint"]["spec"]["match"];
        let looks = ["namespaces", "excludedNamespaces", "namespaceSelector", "scope"];
        let is_outside = object["metadata"]["namespace"].is_null() && object["kind"] != "Namespace";
        object.is_null() || !is_outside || !looks.iter().any(|member| !matching[*member].is_null())
    });
    for result in &mut *results {
        let object = &mut result["violatingObject"];
        if is_mutated || is_of(object, "constraints.") {
            *object = json!([
                object["kind"],
                object["metadata"]["namespace"],
                object["metadata"]["name"]
            ]);
        }
    }
    results.sort_by_cached_key(Value::to_string);
}
