//! `gatekeeper/vap.json`: templates and constraints as the API server's own policies.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, bail};
use modgate_engine::constraint::vap::{self, VapError, VapOptions, VapScope, VapVersion};
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
    for case in top.list("cases")? {
        let case = Members::of(case)?;
        let id = case.text("id")?;
        one(id, &case, roots, cases).with_context(|| id.to_owned())?;
        case.finish()?;
    }
    top.finish()
}

fn one(id: &str, case: &Members<'_>, roots: &Roots, cases: &mut Vec<Case>) -> Result<()> {
    let patterns = |key| -> Result<BTreeSet<Str>> {
        let list = case.optional_list(key)?.iter();
        list.map(|text| text.as_str().map(Str::from).context("not a list of texts")).collect()
    };
    let options = VapOptions {
        version: VapVersion::V1Beta1,
        scope: VapScope {
            webhook: case.optional("webhook").cloned(),
            excluded_namespaces: patterns("excluded")?,
            exempt_namespaces: patterns("exempted")?,
        },
        ..VapOptions::default()
    };
    let file = case.optional_text("file")?;
    let (recorded, error) = (case.optional("policy"), case.optional_text("error")?);
    let bindings = case.optional_list("bindings")?;
    let template = match (case.optional("template"), file) {
        (Some(template), None) => template.clone(),
        (None, Some(name)) => {
            let Some(path) = roots.find(name) else {
                cases.push(Case { id: id.to_owned(), verdict: Verdict::Skipped });
                return Ok(());
            };
            yaml::value(&String::from_utf8(corpus::read(&path)?)?)?
        }
        _ => bail!("needs either `template` or `file`"),
    };
    let verdict = match (vap::policy(&template, &options), recorded, error) {
        (Ok(policy), Some(recorded), warning) => {
            let got = bare(&policy.object, file.is_some())?;
            Verdict::equal(
                format!("{} {}", recorded.to_json(), warning.unwrap_or_default()),
                format!("{} {}", got.to_json(), policy.warning.unwrap_or_default()),
            )
        }
        (Err(error), None, Some(recorded)) => Verdict::equal(recorded, words(&error)),
        (got, _, recorded) => Verdict::Failed {
            expected: recorded.unwrap_or("a policy").to_owned(),
            got: got.map_or_else(|error| error.to_string(), |policy| policy.object.to_json()),
        },
    };
    cases.push(Case { id: id.to_owned(), verdict });
    for (index, recorded) in bindings.iter().enumerate() {
        let verdict = binding(recorded, &options)?;
        cases.push(Case { id: format!("{id}[{index}]"), verdict });
    }
    Ok(())
}

fn binding(recorded: &Value, options: &VapOptions) -> Result<Verdict> {
    let recorded = Members::of(recorded)?;
    let constraint = recorded.required("constraint")?;
    let actions = recorded.list("actions")?.iter();
    let actions: Option<Vec<Str>> = actions.map(|text| text.as_str().map(Str::from)).collect();
    let (expected, error) = (recorded.optional("binding"), recorded.optional_text("error")?);
    recorded.finish()?;
    let actions = actions.context("`actions` holds something else")?;
    let got = match vap::binding(constraint, &actions, options) {
        Ok(binding) => without_header(&binding).to_json(),
        Err(error) => words(&error),
    };
    let expected = match (expected, error) {
        (Some(binding), None) => binding.to_json(),
        (None, Some(error)) => error.to_owned(),
        _ => bail!("needs either `binding` or `error`"),
    };
    Ok(Verdict::equal(expected, got))
}

/// The error without the words of a decoder, which are not compared.
fn words(error: &VapError) -> String {
    let text = error.to_string();
    let is_decoder = text.contains("expected ") && text.contains(", got ");
    if is_decoder { "DECODE".to_owned() } else { text }
}

/// The recorded part of a policy: of the expressions that are Gatekeeper's own, and of all where
/// the template is upstream's, only the names.
fn bare(policy: &Value, is_upstream: bool) -> Result<Value> {
    let policy = without_header(policy);
    let spec = policy.get("spec").and_then(Value::as_object).context("a policy has a spec")?;
    let mut spec = spec.clone();
    let named = |list: &Value, is_own: &dyn Fn(usize, &str) -> bool| -> Value {
        let items = list.as_array().into_iter().flat_map(|items| items.iter().enumerate());
        items
            .map(|(index, item)| {
                let name = item.get("name").and_then(Value::as_str).unwrap_or_default();
                let mut members = item.as_object().cloned().unwrap_or_default();
                if is_upstream || is_own(index, name) {
                    members.remove("expression");
                }
                Value::from(members)
            })
            .collect()
    };
    let is_own_condition = |_: usize, name: &str| name.starts_with("gatekeeper_internal_");
    let is_own_variable = |index: usize, _: &str| index < 2;
    let conditions = spec.get("matchConditions").map(|list| named(list, &is_own_condition));
    let variables = spec.get("variables").map(|list| named(list, &is_own_variable));
    let validations =
        spec.get("validations").and_then(Value::as_array).map_or(0, |list| list.len());
    if is_upstream {
        spec.insert("validations", i64::try_from(validations)?.into());
    } else if validations == 0 {
        spec.remove("validations");
    }
    spec.insert("matchConditions", conditions.unwrap_or_default());
    spec.insert("variables", variables.unwrap_or_default());
    let mut policy: Object = policy.as_object().cloned().unwrap_or_default();
    policy.insert("spec", spec.into());
    Ok(policy.into())
}

fn without_header(resource: &Value) -> Value {
    let members = resource.as_object().into_iter().flatten();
    members.filter(|(key, _)| key != "apiVersion" && key != "kind").cloned().collect()
}
