//! `probes/values.json`: texts of patch values and the JSON they become in a patched object.

use anyhow::{Result, ensure};
use modgate_value::Value;

use super::{harness::Loaded, matching::rule, model::Request};
use crate::{
    compare::same,
    corpus::{CorpusFile, Roots},
    members::Members,
    report::{Case, Verdict},
};

pub(crate) fn run(file: &CorpusFile, _: &Roots, cases: &mut Vec<Case>) -> Result<()> {
    let document = file.json()?;
    let top = Members::of(&document)?;
    top.notes(&["about"]);
    for case in top.list("cases")? {
        let members = Members::of(case)?;
        let text = members.text("value")?;
        let (json, error) = (members.optional("json"), members.optional_text("error")?);
        members.finish()?;
        ensure!(json.is_some() != error.is_some(), "a case has either a value or an error");
        let verdict = match (json, value_of(text)) {
            (Some(expected), Ok(Some(got))) if same(expected, &got) => Verdict::Passed,
            (None, Ok(None)) => Verdict::Passed,
            (expected, got) => Verdict::Failed {
                expected: expected.map_or_else(|| format!("error: {error:?}"), Value::to_json),
                got: format!("{got:?}"),
            },
        };
        cases.push(Case { id: format!("{text:?}"), verdict });
    }
    top.finish()
}

/// The value that adding a member with this value text adds; nothing if the rule cannot do its
/// work.
fn value_of(text: &str) -> Result<Option<Value>> {
    let spec = format!(
        r#"{{"type": "Patch", "match": [{{"select": "$.kind"}}],
             "patch": [{{"op": "add", "path": "/added", "value": {}}}]}}"#,
        Value::from(text)
    );
    let loaded = Loaded::of(&[rule(Value::from_json(spec.as_bytes())?)]);
    if let Some(problem) = loaded.errors().next() {
        anyhow::bail!("{problem}");
    }
    let object = Value::from_json(br#"{"apiVersion": "v1", "kind": "Pod", "metadata": {}}"#)?;
    let request = Request {
        operation: "CREATE",
        namespace: "my-namespace",
        object: Some(&object),
        old_object: None,
        cluster: &[],
    };
    let decision = loaded.decide(&request)?;
    ensure!(decision.allowed, "{}", decision.reason);
    let added = decision.object.get("added").cloned();
    ensure!(added.is_some() == decision.failures.is_empty(), "{:?}", decision.failures);
    Ok(added)
}
