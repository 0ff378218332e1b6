//! Match criteria.

use anyhow::{Result, bail};
use modgate_engine::{
    api::{matching::Match, meta::GroupVersionKind},
    matching::{Criteria, Matchable, Source},
};
use modgate_value::Value;
use serde::Deserialize as _;

use super::{nullable, object};
use crate::{decision, members::Members, report::Verdict};

/// Whether a match block matches an object, or why it cannot tell.
type Answer = std::result::Result<bool, String>;

fn ask(block: &Value, subject: &Value, namespace: Option<&Value>, source: &str) -> Result<Answer> {
    let criteria = match Criteria::compile(&Match::deserialize(block)?) {
        Ok(criteria) => criteria,
        Err(error) => return Ok(Err(error.to_string())),
    };
    let kind = GroupVersionKind::of_object(subject);
    let source = match source {
        "" => None,
        "Original" => Some(Source::Original),
        "Generated" => Some(Source::Generated),
        other => bail!("unknown source `{other}`"),
    };
    let subject = Matchable { object: subject, kind: &kind, namespace, source };
    Ok(criteria.matches(subject).map_err(|error| error.to_string()))
}

pub(super) fn criteria(case: &Members<'_>) -> Result<Verdict> {
    let namespace = case.optional("namespace").filter(|namespace| !namespace.is_null());
    let block = case.required("match")?;
    let got = ask(block, case.required("object")?, namespace, case.text("source")?)?;
    let wanted = case.flag("wantMatch")?;
    let original = match nullable(case.required("error")?)? {
        Some(error) => Err(error.to_owned()),
        None => Ok(wanted),
    };
    // A selector that cannot be read is refused when the policy is loaded, in the same words but
    // for what leads in to a failed request.
    let is_selector = |error: &str| error.ends_with("is not a valid label selector operator");
    let prescribed = original.as_ref().err().filter(|error| is_selector(error)).map(|error| {
        let words = error.strip_prefix("failed to run Match criteria: ").unwrap_or(error);
        (vec![&decision::FIX_SELECTOR_VALIDATION], Err(words.to_owned()))
    });
    Ok(Verdict::check(&got, &original, prescribed, Answer::eq, |answer| format!("{answer:?}")))
}

pub(super) fn names(case: &Members<'_>) -> Result<Verdict> {
    let mut metadata = Vec::new();
    for (member, key) in [("name", "objectName"), ("generateName", "generateName")] {
        let text = case.text(key)?;
        if !text.is_empty() {
            metadata.push((member, Value::from(text)));
        }
    }
    let pod = object([
        ("apiVersion", "v1".into()),
        ("kind", "Pod".into()),
        ("metadata", metadata.into_iter().collect()),
    ]);
    let got = ask(case.required("match")?, &pod, None, "Original")?;
    let expected: Answer = match nullable(case.required("error")?)? {
        Some(error) => Err(error.to_owned()),
        None => Ok(case.flag("want")?),
    };
    Ok(Verdict::equal(format!("{expected:?}"), format!("{got:?}")))
}
