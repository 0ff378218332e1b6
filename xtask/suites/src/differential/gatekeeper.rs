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
            leave_quotes(&mut original, &ours);
            leave_words(&original, &mut ours);
        }
        Ok((original, ours))
    }
}

/// The answer of `modgate`, called as gator, to the file.
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
/// - section Rego: numbers in `details` in another notation.
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
        by_value(&mut result["metadata"]["details"]);
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
/// several outputs or exceeded its budget (`REGO-14`): whether evaluation gets there depends on what it
/// skips before.
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
            let errors = ["eval_conflict_error", "eval_cancel_error"];
            let text = result["msg"].as_str().unwrap_or_default();
            errors.iter().any(|error| text.contains(error))
        })
        .map(key)
        .collect();
    left.retain(|result| !conflicts.contains(&key(result)));
    right.retain(|result| !conflicts.contains(&key(result)));
}

/// Messages of the original whose quotes of values ours cut, as section CEL declares, become ours.
fn leave_quotes(original: &mut Answer, ours: &Answer) {
    let (Answer::Found(left), Answer::Found(right)) = (original, ours) else { return };
    let cut: Vec<(&str, &str)> = right
        .iter()
        .filter_map(|result| result["msg"].as_str())
        .filter_map(|text| Some((text, text.split_once("… (")?.0)))
        .collect();
    for result in left.iter_mut() {
        let text = result["msg"].as_str().unwrap_or_default();
        let shorter = cut.iter().find(|(_, beginning)| text.starts_with(beginning));
        if let Some((shorter, _)) = shorter {
            result["msg"] = json!(shorter);
        }
    }
    left.sort_by_cached_key(Value::to_string);
}

/// Numbers in one notation: whole ones without a point, an exponent or a sign before zero, others with
/// 15 digits, because reading 20 digits may round to another last one.
fn by_value(value: &mut Value) {
    match value {
        Value::Number(number) => {
            let Some(number) = number.as_f64() else { return };
            if number.fract() == 0.0 && number.abs() < 1e15 {
                #[expect(clippy::cast_possible_truncation, reason = "it is whole and small")]
                let whole = number as i64;
                *value = json!(whole);
            } else {
                *value = json!(format!("{number:.14e}"));
            }
        }
        Value::Array(items) => items.iter_mut().for_each(by_value),
        Value::Object(members) => members.values_mut().for_each(by_value),
        _ => {}
    }
}

/// Where both refuse Rego in words that differ as section Rego declares, ours become the original's:
///
/// - a parse error within an object is at the token that does not fit;
/// - each variable of `every` that is not used is an error, not only the first of a rule;
/// - calls of a function that does not compile are no errors.
///
/// The original reports errors of one line in the order of a Go map.
fn leave_words(original: &Answer, ours: &mut Answer) {
    let (Answer::Refused(left), Answer::Refused(right)) = (original, &*ours) else { return };
    let (mut left_errors, mut right_errors) = (errors(left), errors(right));
    let all = |errors: &[String], text: &str| errors.iter().all(|error| error.contains(text));
    let is_misplaced = all(&left_errors, "rego_parse_error")
        && all(&right_errors, "rego_parse_error")
        && right.contains("unexpected with keyword")
        && left_errors.first().map(|error| place(error))
            == right_errors.first().map(|error| place(error));
    let is_unused = |error: &String| {
        error.contains("rego_compile_error: declared var") && error.contains("unused")
    };
    if left_errors.iter().any(is_unused) {
        right_errors.retain(|error| !is_unused(error) || left_errors.contains(error));
    }
    let has_undefined = |errors: &[String]| errors.iter().any(|error| error.contains(UNDEFINED));
    if !right_errors.is_empty() && !has_undefined(&right_errors) {
        left_errors.retain(|error| !error.contains(UNDEFINED));
    }
    for errors in [&mut left_errors, &mut right_errors] {
        for line in errors.chunk_by_mut(|a, b| place(a) == place(b)) {
            line.sort();
        }
    }
    if is_misplaced || (!left_errors.is_empty() && left_errors == right_errors) {
        *ours = original.clone();
    }
}

const UNDEFINED: &str = "rego_type_error: undefined function data.";

/// The errors of Rego in a refusal, each with its details.
fn errors(refusal: &str) -> Vec<String> {
    let Some((_, list)) = refusal.split_once(" occurred:") else { return Vec::new() };
    let mut errors: Vec<String> = Vec::new();
    for line in list.trim().lines() {
        match errors.last_mut() {
            Some(error) if !line.starts_with("template:") => {
                error.push('\n');
                error.push_str(line.trim_end());
            }
            _ => errors.push(line.trim_end().to_owned()),
        }
    }
    errors
}

/// The file and line of an error.
fn place(error: &str) -> &str {
    error.split(": ").next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEVERAL: &str = "adding template: unable to compile modules: 2 errors occurred:\n\
        template:3: rego_compile_error: declared var e unused\n\
        template:6: rego_compile_error: declared var e unused";

    fn is_declared(original: &str, ours: &str) -> bool {
        let original = Answer::Refused(original.to_owned());
        let mut ours = Answer::Refused(ours.to_owned());
        leave_words(&original, &mut ours);
        original == ours
    }

    #[test]
    fn declared_words_are_left_out_and_no_others() {
        let first = "adding template: unable to compile modules: 1 error occurred: template:3: \
                     rego_compile_error: declared var e unused";
        assert!(is_declared(first, SEVERAL));
        assert!(!is_declared(SEVERAL, first));
        assert!(!is_declared(&first.replace("var e", "var x"), SEVERAL));
        let other = "x: 2 errors occurred:\ntemplate:3: rego_type_error: match error\n\tleft  : \
                     string\ntemplate:9: rego_type_error: undefined function data.a.f";
        let ours =
            "x: 1 error occurred: template:3: rego_type_error: match error\n\tleft  : string";
        assert!(is_declared(other, ours));
        assert!(!is_declared(other, &ours.replace("string", "number")));
        let unsafe_var = |a, b| {
            format!("x: 2 errors occurred:\ntemplate:4: var {a} is unsafe\ntemplate:{b} is unsafe")
        };
        assert!(is_declared(&unsafe_var("a", "4: var b"), &unsafe_var("b", "4: var a")));
        assert!(!is_declared(&unsafe_var("a", "5: var b"), &unsafe_var("b", "5: var a")));
        let parse = "x: 1 error occurred: template:6: rego_parse_error: unexpected string token: \
                     non-terminated object\n\tx\n\t^";
        let with = "x: 1 error occurred: template:6: rego_parse_error: unexpected with keyword: \
                    expected \",\" or \"}\"\n\tx\n\t ^";
        assert!(is_declared(parse, with));
        assert!(!is_declared(parse, &with.replace("template:6", "template:7")));
        assert!(!is_declared(parse, &with.replace("with", "in")));
    }

    #[test]
    fn numbers_compare_by_value() {
        let mut left = json!({"found": [1000.0, -0.0, 2.5, 0.333_333_333_333_333_37, "1e3"]});
        let mut right = json!({"found": [1000, 0, 2.5, 0.333_333_333_333_333_3, "1e3"]});
        by_value(&mut left);
        by_value(&mut right);
        assert_eq!(left, right);
    }
}
