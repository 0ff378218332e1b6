//! `gatekeeper/crds.json`: the CRD of each template, and constraints held against it.

use anyhow::{Context as _, Result, ensure};
use modgate_engine::constraint::{CompiledTemplate, ConstraintSchema, TemplateOptions};
use modgate_value::{Object, Str, Value, yaml};

use crate::{
    corpus::{self, CorpusFile, Roots},
    members::Members,
    report::{Case, Verdict},
};

pub(crate) fn run(file: &CorpusFile, roots: &Roots, cases: &mut Vec<Case>) -> Result<()> {
    let document = file.json()?;
    let top = Members::of(&document)?;
    top.notes(&["about"]);
    let base = top.required("base")?;
    for case in top.list("cases")? {
        let case = Members::of(case)?;
        let id = case.text("id")?;
        case_of_template(id, base, &case, roots, cases).with_context(|| id.to_owned())?;
        case.finish()?;
    }
    top.finish()
}

fn case_of_template(
    id: &str,
    base: &Value,
    case: &Members<'_>,
    roots: &Roots,
    cases: &mut Vec<Case>,
) -> Result<()> {
    let crd = case.optional("crd");
    let error = case.optional_text("error")?;
    let constraints = case.optional_list("constraints")?;
    let template = match (case.optional("template"), case.optional_text("file")?) {
        (Some(template), None) => template.clone(),
        (None, Some(name)) => {
            let Some(path) = roots.find(name) else {
                cases.push(Case { id: id.to_owned(), verdict: Verdict::Skipped });
                return Ok(());
            };
            yaml::value(&String::from_utf8(corpus::read(&path)?)?)?
        }
        _ => anyhow::bail!("needs either `template` or `file`"),
    };
    let schema = compile(&template);
    let verdict = match (&schema, crd, error) {
        (Ok(schema), Some(recorded), None) => {
            let expected = expected_crd(base, recorded)?;
            let got = without_descriptions(&bare(&schema.crd()));
            Verdict::equal(expected.to_json(), got.to_json())
        }
        (Err(got), None, Some(expected)) => same_errors(expected, &got.to_string()),
        (got, crd, error) => {
            ensure!(crd.is_some() != error.is_some(), "needs either `crd` or `error`");
            Verdict::Failed {
                expected: error.unwrap_or("a CRD").to_owned(),
                got: got.as_ref().map_or_else(ToString::to_string, |_| "a CRD".to_owned()),
            }
        }
    };
    cases.push(Case { id: id.to_owned(), verdict });
    for (index, recorded) in constraints.iter().enumerate() {
        let recorded = Members::of(recorded)?;
        let constraint = recorded.required("constraint")?;
        let error = recorded.optional_text("error")?;
        let defaulted = recorded.optional("defaulted");
        recorded.finish()?;
        let verdict = match &schema {
            Err(got) => failed("a CRD", got),
            Ok(schema) => check_constraint(schema, constraint, error, defaulted)?,
        };
        cases.push(Case { id: format!("{id}[{index}]"), verdict });
    }
    Ok(())
}

/// The checks of a template but those of its source (TC-1, 1 to 6).
fn compile(template: &Value) -> Result<ConstraintSchema, String> {
    match CompiledTemplate::compile(template, &TemplateOptions::default()) {
        Ok(compiled) => Ok(compiled.schema().clone()),
        Err(error) if error.is_of_source() => {
            ConstraintSchema::of_template(template).map_err(|error| error.to_string())
        }
        Err(error) => Err(error.to_string()),
    }
}

fn check_constraint(
    schema: &ConstraintSchema,
    constraint: &Value,
    error: Option<&str>,
    defaulted: Option<&Value>,
) -> Result<Verdict> {
    let kind = constraint.get("kind").and_then(Value::as_str).unwrap_or_default();
    // A constraint of another kind never reaches this schema.
    let found = kind.to_lowercase() == schema.kind().to_lowercase();
    let got = match schema.check(constraint) {
        _ if !found => Err(format!(
            "missing ConstraintTemplate: template \"{}\" not found",
            kind.to_lowercase()
        )),
        Ok(()) => Ok(schema.fill_defaults(constraint)?),
        Err(error) => Err(error.to_string()),
    };
    Ok(match (got, error) {
        (Err(got), Some(expected)) => same_errors(expected, &got),
        (Err(got), None) => failed("accepted", &got),
        (Ok(_), Some(expected)) => failed(expected, "accepted"),
        (Ok(got), None) => {
            let again = schema.fill_defaults(&got)?;
            ensure!(again == got, "defaults filled in twice give {again} instead of {got}");
            Verdict::equal(defaulted.unwrap_or(constraint).to_json(), got.to_json())
        }
    })
}

fn failed(expected: &str, got: &str) -> Verdict {
    Verdict::Failed { expected: expected.to_owned(), got: got.to_owned() }
}

/// Passed if both list the same errors: Go finds those of several members in random order. What
/// Go's JSON decoder says is not compared.
fn same_errors(expected: &str, got: &str) -> Verdict {
    if let Some((before, _)) = expected.split_once(": json: ") {
        return if got.starts_with(before) { Verdict::Passed } else { failed(expected, got) };
    }
    let is_same = expected == got || parts(expected) == parts(got);
    if is_same { Verdict::Passed } else { failed(expected, got) }
}

/// The members of a list of errors such as `prefix: [a: …, b: …]`, sorted.
fn parts(text: &str) -> Vec<String> {
    let Some((prefix, list)) = text.split_once(": [").filter(|_| text.ends_with(']')) else {
        return vec![text.to_owned()];
    };
    let mut parts: Vec<String> = vec![prefix.to_owned()];
    for piece in list.trim_end_matches(']').split(", ") {
        let is_path = ["[]", "spec.", "metadata."].iter().any(|start| piece.starts_with(start));
        let is_first = parts.len() == 1;
        match parts.last_mut() {
            Some(last) if !is_path && !is_first => {
                last.push_str(", ");
                last.push_str(piece);
            }
            _ => parts.push(piece.to_owned()),
        }
    }
    parts.sort();
    parts
}

/// The recorded CRD: the one of a template without parameters, with what differs.
fn expected_crd(base: &Value, recorded: &Value) -> Result<Value> {
    let recorded = Members::of(recorded)?;
    let names = recorded.required("names")?;
    let labels = recorded.required("labels")?;
    let parameters = recorded.optional("parameters");
    recorded.finish()?;
    let plural = names.get("plural").and_then(Value::as_str).context("`names` has no plural")?;
    let name = format!("{plural}.constraints.gatekeeper.sh");
    let mut crd = with(base, &["metadata", "name"], name.into())?;
    crd = with(&crd, &["metadata", "labels"], labels.clone())?;
    crd = with(&crd, &["spec", "names"], names.clone())?;
    let Some(parameters) = parameters else { return Ok(crd) };
    let versions = crd.path(&["spec", "versions"]).and_then(Value::as_array);
    let versions = versions.context("`base` has no versions")?.iter().map(|version| {
        let path = ["schema", "openAPIV3Schema", "properties", "spec", "properties", "parameters"];
        with(version, &path, parameters.clone())
    });
    let versions: Vec<Value> = versions.collect::<Result<_>>()?;
    with(&crd, &["spec", "versions"], versions.into())
}

fn with(value: &Value, path: &[&str], new: Value) -> Result<Value> {
    let Some((key, below)) = path.split_first() else { return Ok(new) };
    let mut members = value.as_object().context("not a map")?.clone();
    let inside = members.get(key).cloned().unwrap_or_else(|| Object::default().into());
    members.insert(*key, with(&inside, below, new)?);
    Ok(members.into())
}

/// Without what the recording does not have.
fn bare(crd: &Value) -> Value {
    let members = crd.as_object().into_iter().flatten();
    members.filter(|(key, _)| key != "apiVersion" && key != "kind").cloned().collect()
}

fn without_descriptions(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(without_descriptions).collect(),
        Value::Object(members) => members
            .iter()
            .filter(|(key, value)| key != "description" || value.as_str().is_none())
            .map(|(key, value)| (key.clone(), without_descriptions(value)))
            .collect::<Vec<(Str, Value)>>()
            .into_iter()
            .collect(),
        other => other.clone(),
    }
}
