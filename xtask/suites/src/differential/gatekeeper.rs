//! Gatekeeper's packages behind a Go program, and `modgate` called as gator.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::{
    Desk, Program,
    peers::{Answer, Original},
    program,
    random::Random,
    render,
};

/// Where programs for gator are handed over.
pub(crate) struct Gatekeeper {
    original: Original,
    gator: PathBuf,
    file: PathBuf,
}

impl Gatekeeper {
    /// `peer` answers as the original, `binary` is linked as `gator` in `folder`.
    ///
    /// # Errors
    ///
    /// The link cannot be made.
    pub(crate) fn new(peer: &Path, binary: &Path, folder: &Path) -> Result<Self> {
        let gator = folder.join("gator");
        symlink(binary, &gator).context("link modgate as gator")?;
        Ok(Self { original: Original::new(peer), gator, file: folder.join("program.yaml") })
    }
}

impl Desk for Gatekeeper {
    fn program(&self, random: &mut Random) -> Program {
        program::program(random)
    }

    fn ask(&mut self, verb: &'static str, documents: &[Value]) -> Result<(Answer, Answer)> {
        fs::write(&self.file, render(documents)).context("write the program")?;
        let mut original = match self.original.ask(&json!({"verb": verb, "file": self.file}))? {
            Ok(mut answer) => {
                let member = if verb == program::TEST { "results" } else { "objects" };
                found(answer[member].take())
            }
            Err(answer) => answer,
        };
        let mut ours = modgate(&self.gator, verb, &self.file)?;
        if verb == program::TEST {
            leave_declared(&mut original, documents);
            leave_declared(&mut ours, documents);
            leave_conflicts(&mut original, &mut ours);
        }
        Ok((original, ours))
    }
}

/// What `modgate`, called as gator, answers to the file.
fn modgate(gator: &Path, verb: &str, file: &Path) -> Result<Answer> {
    let mut command = Command::new(gator);
    command.arg(verb).arg("--filename").arg(file);
    let is_test = verb == program::TEST;
    command.args(if is_test { ["-o", "json"] } else { ["--format", "json"] });
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("run {}", gator.display()))?;
    let stderr = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    let stdout = String::from_utf8_lossy(&output.stdout);
    match output.status.code() {
        Some(0 | 1) if !stdout.trim().is_empty() => Ok(found(if is_test {
            serde_json::from_str(&stdout).context("the answer of `test`")?
        } else {
            stream(&stdout)?
        })),
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
/// - `fix-override-scoped`: the action of an ExpansionTemplate replaces scoped actions, too.
/// - section CEL: texts that cel-go 0.30 has otherwise than 0.29.
/// - `fix-gator-print-object`: the original prints objects as mutators and defaults changed them since.
fn leave_declared(answer: &mut Answer, documents: &[Value]) {
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
    let overrides = documents.iter().any(|document| {
        document["kind"] == "ExpansionTemplate" && document["spec"]["enforcementAction"].is_string()
    });
    for result in &mut *results {
        let message = result["msg"].as_str().unwrap_or_default();
        if overrides
            && message.starts_with("[Implied by")
            && let Some(members) = result.as_object_mut()
        {
            members.remove("scopedActions");
        }
        if let Some(text) = result["msg"].as_str().map(without_versions) {
            result["msg"] = json!(text);
        }
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

/// Leaves out the results of a constraint for an object where one of the programs met a function with
/// several outputs (`REGO-14`): whether evaluation gets there depends on what it skips before.
fn leave_conflicts(original: &mut Answer, ours: &mut Answer) {
    let key = |result: &Value| {
        let object = &result["violatingObject"];
        json!([result["constraint"]["kind"], result["constraint"]["metadata"]["name"], object])
            .to_string()
    };
    let (Answer::Found(left), Answer::Found(right)) = (original, ours) else { return };
    let conflicts: Vec<String> = left
        .iter()
        .chain(right.iter())
        .filter(|result| {
            result["msg"].as_str().is_some_and(|text| text.contains("eval_conflict_error"))
        })
        .map(key)
        .collect();
    left.retain(|result| !conflicts.contains(&key(result)));
    right.retain(|result| !conflicts.contains(&key(result)));
}

/// A message without what two versions of cel-go say otherwise.
fn without_versions(message: &str) -> String {
    let timestamps = [
        "invalid RFC 3339 timestamp",
        "type conversion error from 'string' to 'google.protobuf.Timestamp'",
    ];
    let end = timestamps.iter().filter_map(|text| message.find(text)).min();
    message[..end.unwrap_or(message.len())].replace("!error!", "dyn")
}
