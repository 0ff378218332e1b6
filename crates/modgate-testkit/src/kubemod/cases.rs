//! `cases.json`: KubeMod's own tests, paired from its Go tables; rules and resources are upstream's
//! files beside it.

use std::fmt::Write as _;

use anyhow::{Context as _, Result, bail};
use modgate_template::preprocess;
use modgate_value::{Object, Str, Value, gofmt, yaml};

use super::{
    harness::Loaded,
    matching::{self, rule},
    model::Request,
    patching, scenarios,
};
use crate::{
    compare::same,
    corpus::{self, CorpusFile, Roots},
    members::Members,
    report::{Case, Verdict},
};

pub(crate) fn run(file: &CorpusFile, roots: &Roots, cases: &mut Vec<Case>) -> Result<()> {
    let document = file.json()?;
    let top = Members::of(&document)?;
    top.notes(&["suite", "source", "license", "conventions"]);
    let files = Files { file, roots };
    for case in top.list("cases")? {
        let members = Members::of(case)?;
        // What a kind reads only after an earlier check has passed is known all the same.
        members.notes(&["description", "expected_text_file"]);
        let id = members.text("id")?;
        if members.optional("rules").is_some() && !files.has_upstream() {
            cases.push(Case { id: id.to_owned(), verdict: Verdict::Skipped });
            continue;
        }
        let verdict = check(&files, &members).with_context(|| id.to_owned())?;
        members.finish().with_context(|| id.to_owned())?;
        cases.push(Case { id: id.to_owned(), verdict });
    }
    top.finish()
}

fn check(files: &Files<'_>, case: &Members<'_>) -> Result<Verdict> {
    match case.text("kind")? {
        "patch" | "webhook" => patch(files, case),
        "reject" => reject(files, case),
        "match" => is_match(files, case),
        "path_template" => path_template(case),
        "value_preprocess" => {
            Ok(Verdict::equal(case.text("expected")?, preprocess(case.text("input")?)))
        }
        other => bail!("kind `{other}` is not known"),
    }
}

/// The files that cases refer to, relative to `cases.json`.
struct Files<'a> {
    file: &'a CorpusFile,
    roots: &'a Roots,
}

impl Files<'_> {
    /// Whether upstream's test data is in any corpus folder at all; a clone on its own lacks it.
    fn has_upstream(&self) -> bool {
        self.roots.find_folder("kubemod/testdata").is_some()
    }

    fn text(&self, relative: &str) -> Result<String> {
        let folder = self.file.name.rsplit_once('/').map(|(folder, _)| folder).unwrap_or_default();
        let name = format!("{folder}/{relative}");
        let path = self.roots.find_beside(self.file, &name).with_context(|| {
            format!(
                "`{name}` is in no corpus folder; set {} to one that has upstream's files",
                corpus::VARIABLE
            )
        })?;
        Ok(String::from_utf8(corpus::read(&path)?)?)
    }

    fn resource(&self, case: &Members<'_>) -> Result<Value> {
        Ok(Value::from_json(self.text(case.text("resource")?)?.as_bytes())?)
    }

    /// The rules of a case; those that name no namespace, or all of them, go to `my-namespace`.
    fn rules(&self, case: &Members<'_>) -> Result<Vec<Value>> {
        let placement = case.optional_text("rule_namespace")?.unwrap_or_default();
        let keep_namespace = placement.starts_with("metadata.namespace of the rule file");
        let files = case.list("rules")?.iter();
        files
            .map(|name| {
                let name = name.as_str().context("a rule that is not a file name")?;
                let mut rule = coerced(&yaml::value(&self.text(name)?)?);
                let has_own = rule.path(&["metadata", "namespace"]).is_some();
                if !(keep_namespace && has_own) {
                    rule = in_namespace(&rule, "my-namespace").context("no metadata")?;
                }
                Ok(rule)
            })
            .collect()
    }
}

fn in_namespace(rule: &Value, namespace: &str) -> Option<Value> {
    let mut members = rule.as_object()?.clone();
    let Some(Value::Object(metadata)) = members.get_mut("metadata") else { return None };
    metadata.insert("namespace", namespace.into());
    Some(members.into())
}

/// Rule files may have a boolean or number where the schema wants a string; upstream's loader
/// turns it into one.
fn coerced(value: &Value) -> Value {
    match value {
        Value::Array(elements) => elements.iter().map(coerced).collect(),
        Value::Object(members) => {
            let text_members = ["matchValue", "matchValues", "matchRegex", "value"];
            let members = members.iter().map(|(key, member)| {
                let is_text = text_members.contains(&key.as_str());
                (key.clone(), if is_text { as_text(member) } else { coerced(member) })
            });
            Value::Object(members.collect::<Object>())
        }
        _ => value.clone(),
    }
}

fn as_text(value: &Value) -> Value {
    match value {
        Value::Bool(_) | Value::Number(_) => value.to_json().into(),
        Value::Array(elements) => elements.iter().map(as_text).collect(),
        _ => value.clone(),
    }
}

fn patch(files: &Files<'_>, case: &Members<'_>) -> Result<Verdict> {
    let resource = files.resource(case)?;
    let request = Request {
        operation: case.text("operation")?,
        namespace: case.text("namespace")?,
        object: Some(&resource),
        old_object: None,
        cluster: case.optional_list("cluster")?,
    };
    let expected = case.required("expected_patch")?;
    let loaded = Loaded::of(&files.rules(case)?);
    if let Some(problem) = loaded.errors().next() {
        return Ok(Verdict::Failed { expected: "the rules load".into(), got: problem.to_string() });
    }
    let (_, patch) = loaded.answer(&request)?;
    let got = scenarios::sorted(&patch);
    if !same(expected, &got) {
        return Ok(Verdict::Failed { expected: expected.to_json(), got: got.to_json() });
    }
    let Some(file) = case.optional_text("expected_text_file")? else { return Ok(Verdict::Passed) };
    Ok(Verdict::equal(files.text(file)?.trim(), go_text(&got)?))
}

/// A patch as Go prints it: `[{op path value} ...]`.
fn go_text(patch: &Value) -> Result<String> {
    let mut out = String::from("[");
    for (index, operation) in patch.as_array().context("a patch is a list")?.iter().enumerate() {
        let text = |key| operation.get(key).and_then(Value::as_str).unwrap_or_default();
        let value = operation.get("value").unwrap_or(&Value::Null);
        let blank = if index > 0 { " " } else { "" };
        write!(out, "{blank}{{{} {} {}}}", text("op"), text("path"), gofmt::text(value))?;
    }
    out.push(']');
    Ok(out)
}

fn reject(files: &Files<'_>, case: &Members<'_>) -> Result<Verdict> {
    let resource = files.resource(case)?;
    let request = Request {
        operation: case.text("operation")?,
        namespace: case.text("namespace")?,
        object: Some(&resource),
        old_object: None,
        cluster: &[],
    };
    let loaded = Loaded::of(&files.rules(case)?);
    if let Some(error) = case.optional_text("expected_load_error")? {
        // The cause is the template parser's; what precedes it is how KubeMod wraps it.
        let cause = error.split_once(": ").map_or(error, |(_, cause)| cause);
        let got = loaded.errors().map(|problem| problem.message.clone()).collect::<Vec<_>>();
        return Ok(match got.iter().any(|message| message.contains(cause)) {
            true => Verdict::Passed,
            false => Verdict::Failed { expected: error.to_owned(), got: format!("{got:?}") },
        });
    }
    let expected = case.list("expected_rejections")?;
    let got = loaded.decide(&request)?.rejections;
    let got: Value = got.iter().map(|entry| Value::from(entry.to_string())).collect();
    if got != Value::from(expected.to_vec()) {
        let expected = Value::from(expected.to_vec()).to_json();
        return Ok(Verdict::Failed { expected, got: got.to_json() });
    }
    let entries: Vec<_> =
        got.as_array().into_iter().flat_map(|it| it.iter()).filter_map(Value::as_str).collect();
    let file = case.text("expected_text_file")?;
    Ok(Verdict::equal(files.text(file)?.trim(), entries.join(", ")))
}

/// The type of the rule does not matter here: its criteria are tried in a Reject rule.
fn is_match(files: &Files<'_>, case: &Members<'_>) -> Result<Verdict> {
    let expected = case.required("expected_match")?.as_bool().context("`expected_match`")?;
    let resource = files.resource(case)?;
    let rules = files.rules(case)?;
    let [only] = rules.as_slice() else { bail!("one rule is expected") };
    let criteria = only.path(&["spec", "match"]).context("no criteria")?.clone();
    let spec = [("type", Value::from("Reject")), ("match", criteria)].into_iter().collect();
    let got = matching::is_match(spec, &resource)?;
    Ok(Verdict::equal(expected.to_string(), got.to_string()))
}

/// A path template is tried in a rule whose select captures just the keys of the case.
fn path_template(case: &Members<'_>) -> Result<Verdict> {
    let (keys, template) = (case.text("select_key")?, case.text("path_template")?);
    let expected = case.text("expected_path")?;
    let keys: Vec<&str> = keys
        .trim_start_matches('$')
        .split("[\"")
        .filter_map(|part| part.strip_suffix("\"]"))
        .collect();
    let mut tree = Value::from("leaf");
    for key in keys.iter().rev() {
        tree = [(Str::from(*key), tree)].into_iter().collect();
    }
    let object: Value = [("kind", Value::from("Pod")), ("tree", tree)].into_iter().collect();
    let spec = format!(
        r#"{{"type": "Patch", "match": [{{"select": "$.kind"}}],
             "patch": [{{"op": "add", "select": {}, "path": {}, "value": "v"}}]}}"#,
        Value::from(format!("$.tree{}", "[*]".repeat(keys.len()))),
        Value::from(template)
    );
    let loaded = Loaded::of(&[rule(Value::from_json(spec.as_bytes())?)]);
    let request = Request {
        operation: "CREATE",
        namespace: "my-namespace",
        object: Some(&object),
        old_object: None,
        cluster: &[],
    };
    let decision = loaded.decide(&request)?;
    if expected.contains("(BADINDEX)") {
        let failures = format!("{:?}", decision.failures);
        return Ok(match failures.contains("BADINDEX") && decision.patch.is_empty() {
            true => Verdict::Passed,
            false => Verdict::Failed { expected: format!("failure at {expected}"), got: failures },
        });
    }
    let operation =
        patching::Operation { op: "add".into(), path: expected.into(), value: "v".into() };
    let required = patching::apply_all(&object, &[operation], None).unwrap_or(object);
    Ok(Verdict::equal(required.to_json(), decision.object.to_json()))
}
