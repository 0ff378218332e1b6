//! `probes/match.json`: criteria items against one object, each as the only item of a Reject rule.

use anyhow::{Context as _, Result};
use modgate_value::Value;

use super::{harness::Loaded, model::Request};
use crate::{
    corpus::{CorpusFile, Roots},
    members::Members,
    report::{Case, Verdict},
};

pub(crate) fn run(file: &CorpusFile, _: &Roots, cases: &mut Vec<Case>) -> Result<()> {
    let document = file.json()?;
    let top = Members::of(&document)?;
    top.notes(&["about"]);
    let object = top.required("object")?;
    for case in top.list("cases")? {
        let members = Members::of(case)?;
        let item = members.required("match")?;
        let positive = members.required("positive")?.as_bool().context("`positive`")?;
        members.finish()?;
        let spec = [("type", Value::from("Reject")), ("match", Value::from(vec![item.clone()]))];
        let verdict = match is_match(spec.into_iter().collect(), object) {
            Ok(got) => Verdict::equal(format!("{positive}"), format!("{got}")),
            Err(error) => {
                Verdict::Failed { expected: format!("{positive}"), got: format!("{error:#}") }
            }
        };
        cases.push(Case { id: item.to_json(), verdict });
    }
    top.finish()
}

/// Whether a rule with this spec, of type Reject, rejects the creation of `object`.
pub(super) fn is_match(spec: Value, object: &Value) -> Result<bool> {
    let rule = rule(spec);
    let loaded = Loaded::of(&[rule]);
    if let Some(problem) = loaded.errors().next() {
        anyhow::bail!("{problem}");
    }
    let request = Request {
        operation: "CREATE",
        namespace: "my-namespace",
        object: Some(object),
        old_object: None,
        cluster: &[],
    };
    Ok(!loaded.decide(&request)?.allowed)
}

/// A rule with this spec.
pub(super) fn rule(spec: Value) -> Value {
    let metadata: Value = [("name", Value::from("r")), ("namespace", Value::from("my-namespace"))]
        .into_iter()
        .collect();
    [
        ("apiVersion", Value::from("api.kubemod.io/v1beta1")),
        ("kind", Value::from("ModRule")),
        ("metadata", metadata),
        ("spec", spec),
    ]
    .into_iter()
    .collect()
}
