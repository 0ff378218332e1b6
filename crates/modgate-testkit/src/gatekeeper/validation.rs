//! The acceptance scenarios of the validation specification (`validation.json`).
//!
//! The file has all 90 of them. Those that need an API server, controllers or an audit say whose
//! they are and are not run here; a number that is missing, or a scenario of ours without a step
//! that expects something, fails the run. The requests go to a [`Subject`]: the engine here, and
//! the webhooks over HTTP in the tests of `modgate-server`.

mod engine;

use std::{collections::BTreeSet, fs, path::Path};

use anyhow::{Context as _, Result, bail, ensure};
use modgate_engine::{Code, Problem};
use modgate_value::{Object, Value};

pub use self::engine::EngineSubject;
use crate::{
    corpus::{CorpusFile, Roots},
    members::Members,
    report::{Case, Verdict},
};

/// The scenarios of the specification's section 10.
const COUNT: i64 = 90;

/// A holder of policies that answers requests.
pub trait Subject {
    /// Loads policies and returns what is wrong with them.
    fn load(&mut self, resources: &[Value]) -> Vec<String>;

    /// Answers `/v1/admit`.
    fn admit(&mut self, request: &Value) -> Result<Answer>;

    /// Answers `/v1/admitlabel`.
    fn label(&mut self, request: &Value) -> Result<Answer>;

    /// The violations of an audit for an object: constraint, message and action of each; `None` if
    /// there is no audit to run.
    fn audit(&mut self, object: &Value) -> Option<Vec<[String; 3]>>;
}

/// The answer of a webhook, and its effects beside that.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The `response` of the AdmissionReview.
    pub response: Value,
    /// The messages that `--log-denies` logs.
    pub logged: Vec<String>,
    /// `admission_status` and `admission_dryrun` of the metric it is counted under, if it is.
    pub counted: Option<[&'static str; 2]>,
}

/// How an installation is set up.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings {
    /// `--enable-referential-rules`
    pub referential_rules: Option<bool>,
    /// `--enable-k8s-native-validation`
    pub k8s_native_validation: Option<bool>,
    /// `--deny-invalid-templates`
    pub deny_invalid_templates: bool,
    /// `--exempt-namespace-prefix`
    pub exempt_namespace_prefixes: Vec<String>,
    /// Namespaces that do not exist; all others do.
    pub absent_namespaces: Vec<String>,
}

/// Makes a subject for an installation with these objects; `None` when it cannot be had.
pub type Make<'m> = dyn Fn(&Settings, &[Value]) -> Option<Box<dyn Subject>> + 'm;

pub(crate) fn run(file: &CorpusFile, _: &Roots, cases: &mut Vec<Case>) -> Result<()> {
    run_with(file, &|settings, objects| EngineSubject::boxed(settings, objects), cases)
}

/// Runs the scenarios of a file with subjects of one kind.
///
/// # Errors
///
/// When the file is not what it should be.
pub fn run_with(file: &CorpusFile, make: &Make<'_>, cases: &mut Vec<Case>) -> Result<()> {
    let document = file.json()?;
    let top = Members::of(&document)?;
    top.notes(&["about"]);
    let definitions = top.required("definitions")?.as_object().context("`definitions`")?;
    let scenarios = top.list("scenarios")?;
    top.finish()?;
    let mut missing: BTreeSet<i64> = (1..=COUNT).collect();
    for scenario in scenarios {
        let id = scenario.get("id").and_then(Value::as_i64).context("a scenario without `id`")?;
        ensure!(missing.remove(&id), "scenario {id} is not one of {COUNT}, or there twice");
        let (owner, verdict) =
            run_scenario(scenario, definitions, make).with_context(|| format!("scenario {id}"))?;
        let test = scenario.get("test").and_then(Value::as_str);
        let id = match test {
            Some(test) => {
                names_scenario(test, id).with_context(|| format!("scenario {id}"))?;
                format!("{id} ({owner}, {test})")
            }
            None => format!("{id} ({owner})"),
        };
        cases.push(Case { id, verdict });
    }
    ensure!(missing.is_empty(), "scenarios are missing: {missing:?}");
    Ok(())
}

/// Holds a scenario that is run by a test of its own to that: the test has to name it.
fn names_scenario(test: &str, id: i64) -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let path = root.join(test);
    let text = fs::read_to_string(&path).with_context(|| format!("`{test}` cannot be read"))?;
    let wanted = format!("Scenario {id}");
    let mut named = text.split(&wanted).skip(1);
    let is_named = named.any(|rest| !rest.starts_with(|next: char| next.is_ascii_digit()));
    ensure!(is_named, "`{test}` says nothing of it");
    Ok(())
}

fn run_scenario<'d>(
    scenario: &'d Value,
    definitions: &'d Object,
    make: &Make<'_>,
) -> Result<(&'d str, Verdict)> {
    let members = Members::of(scenario)?;
    members.notes(&["id", "section", "what"]);
    let owner = members.text("owner")?;
    if let Some(rest) = members.optional("rest") {
        let rest = Members::of(rest)?;
        rest.notes(&["what"]);
        ensure!(matches!(rest.text("owner")?, "cluster" | "audit"), "`rest` has no owner");
        let id = scenario.get("id").and_then(Value::as_i64).unwrap_or_default();
        names_scenario(rest.text("test")?, id)?;
        rest.finish()?;
    }
    if owner != "here" {
        ensure!(matches!(owner, "cluster" | "audit"), "`{owner}` is no owner");
        members.notes(&["test"]);
        members.finish()?;
        return Ok((owner, Verdict::Exempt));
    }
    // The first member of each pair differs from the scenario itself where it says so.
    let mut verdicts = vec![run_variant(scenario, definitions, make)?];
    members.notes(&["settings", "objects", "steps"]);
    for variant in members.optional_list("variants")? {
        let only = Members::of(variant)?;
        only.notes(&["settings", "objects", "steps"]);
        only.finish()?;
        verdicts.push(run_variant(variant, definitions, make)?);
    }
    members.finish()?;
    let failed = verdicts.iter().position(|verdict| !matches!(verdict, Verdict::Passed));
    let verdict = verdicts.into_iter().nth(failed.unwrap_or(0)).unwrap_or(Verdict::Passed);
    Ok((owner, verdict))
}

fn run_variant(variant: &Value, definitions: &Object, make: &Make<'_>) -> Result<Verdict> {
    let settings = settings(variant.get("settings"))?;
    let objects = variant.get("objects").and_then(Value::as_array);
    let steps = variant.get("steps").and_then(Value::as_array).context("no steps")?;
    let Some(mut subject) = make(&settings, objects.map_or(&[][..], |list| list)) else {
        return Ok(Verdict::Skipped);
    };
    let mut expectations = 0;
    for (number, step) in steps.iter().enumerate() {
        let outcome = run_step(step, definitions, subject.as_mut())
            .with_context(|| format!("step {}", number + 1))?;
        expectations += usize::from(outcome.expects);
        if let Err((expected, got)) = outcome.result {
            let place = |text: String| format!("step {}: {text}", number + 1);
            return Ok(Verdict::Failed { expected: place(expected), got: place(got) });
        }
    }
    ensure!(expectations > 0, "nothing is expected");
    Ok(Verdict::Passed)
}

/// The result of one step.
struct Outcome {
    /// Whether it compares a result; other steps prepare.
    expects: bool,
    /// The expected and the actual text, if they differ.
    result: Result<(), (String, String)>,
}

fn run_step(step: &Value, definitions: &Object, subject: &mut dyn Subject) -> Result<Outcome> {
    let members = Members::of(step)?;
    let outcome = if let Some(resources) = members.optional("load") {
        let resources = resources.as_array().context("`load` is not a list")?.iter();
        let resources = resources
            .map(|resource| match resource.as_str() {
                None => Ok(resource.clone()),
                Some(name) => {
                    let found = definitions.get(name).cloned();
                    found.with_context(|| format!("`{name}` is not defined"))
                }
            })
            .collect::<Result<Vec<_>>>()?;
        let problems = members.optional_list("problems")?;
        let found = subject.load(&resources);
        Outcome { expects: !problems.is_empty(), result: texts_match(problems, &found) }
    } else if let Some(request) = members.optional("admit") {
        let expected = members.required("expect")?;
        let mut answer = subject.admit(request)?;
        let mut result = response_matches(expected, &answer.response);
        if let Some(logged) = members.optional("logged") {
            let logged = logged.as_array().context("`logged` is not a list")?;
            answer.logged.sort();
            result = result.and_then(|()| texts_match(logged, &answer.logged));
        }
        if let Some(counted) = members.optional("counted") {
            let counted = counted.as_array().context("`counted` is not a list")?;
            let got: Vec<String> = answer.counted.iter().flatten().map(|it| (*it).into()).collect();
            result = result.and_then(|()| texts_match(counted, &got));
        }
        Outcome { expects: true, result }
    } else if let Some(request) = members.optional("label") {
        let answer = subject.label(request)?;
        let result = response_matches(members.required("expect")?, &answer.response);
        Outcome { expects: true, result }
    } else if let Some(object) = members.optional("audit") {
        let expected = members.list("findings")?;
        let result = subject.audit(object).map_or(Ok(()), |found| {
            let shown = found.iter().map(|[constraint, message, action]| {
                [
                    ("constraint", Value::from(constraint.as_str())),
                    ("message", message.as_str().into()),
                    ("action", action.as_str().into()),
                ]
                .into_iter()
                .collect::<Value>()
            });
            equal(expected.iter().cloned().collect(), shown.collect())
        });
        Outcome { expects: true, result }
    } else {
        bail!("a step loads, admits, labels or audits");
    };
    members.finish()?;
    Ok(outcome)
}

fn settings(value: Option<&Value>) -> Result<Settings> {
    let Some(value) = value else { return Ok(Settings::default()) };
    let members = Members::of(value)?;
    let flag = |key| -> Result<Option<bool>> {
        let Some(value) = members.optional(key) else { return Ok(None) };
        Ok(Some(value.as_bool().with_context(|| format!("`{key}` is not a boolean"))?))
    };
    let texts = |key| -> Result<Vec<String>> {
        let list = members.optional_list(key)?.iter();
        list.map(|text| Ok(text.as_str().context("not a string")?.to_owned())).collect()
    };
    let settings = Settings {
        referential_rules: flag("referentialRules")?,
        k8s_native_validation: flag("k8sNativeValidation")?,
        deny_invalid_templates: members.flag("denyInvalidTemplates")?,
        exempt_namespace_prefixes: texts("exemptNamespacePrefixes")?,
        absent_namespaces: texts("absentNamespaces")?,
    };
    members.finish()?;
    Ok(settings)
}

fn equal(expected: Value, got: Value) -> Result<(), (String, String)> {
    if expected == got { Ok(()) } else { Err((expected.to_json(), got.to_json())) }
}

/// Whether a response is the expected one; members that are not expected must not be there.
fn response_matches(expected: &Value, got: &Value) -> Result<(), (String, String)> {
    let status = |key: &str| got.path(&["status", key]);
    // Gatekeeper's refusals come without advice.
    let is_advice = |warning: &Value| warning.as_str().is_some_and(|it| it.starts_with("help: "));
    let warnings = got.get("warnings").and_then(Value::as_array);
    let warnings = warnings.map(|all| all.iter().filter(|it| !is_advice(it)).cloned());
    let warnings = warnings.map(Iterator::collect::<Vec<Value>>).filter(|all| !all.is_empty());
    let warnings = warnings.map(Value::from);
    let shown: Value = [
        ("allowed", got.get("allowed")),
        ("code", status("code")),
        ("reason", status("reason")),
        ("message", status("message")),
        ("warnings", warnings.as_ref()),
        ("patch", got.get("patch")),
    ]
    .into_iter()
    .filter_map(|(key, value)| Some((key, value?.clone())))
    .collect();
    let differs = || Err((expected.to_json(), shown.to_json()));
    let keys = |value: &Value| -> Vec<String> {
        value.as_object().into_iter().flat_map(|it| it.keys()).map(ToString::to_string).collect()
    };
    if keys(expected) != keys(&shown) {
        return differs();
    }
    for key in ["allowed", "code", "reason"] {
        if expected.get(key) != shown.get(key) {
            return differs();
        }
    }
    let texts = |value: &Value| -> Vec<String> {
        let list = value.as_array().map_or(&[][..], |list| list).iter();
        list.map(|text| text.as_str().unwrap_or_default().to_owned()).collect()
    };
    let warnings = expected.get("warnings").and_then(Value::as_array);
    let message = expected.get("message").map(std::slice::from_ref).unwrap_or_default();
    let got_message = shown.get("message").and_then(Value::as_str).map(str::to_owned);
    texts_match(message, &Vec::from_iter(got_message)).or_else(|_| differs())?;
    let got_warnings = shown.get("warnings").map(texts).unwrap_or_default();
    texts_match(warnings.map_or(&[][..], |list| list), &got_warnings).or_else(|_| differs())
}

/// Whether texts are as expected, one by one.
fn texts_match(expected: &[Value], got: &[String]) -> Result<(), (String, String)> {
    let same = expected.len() == got.len()
        && expected.iter().zip(got).all(|(expected, got)| text_matches(expected, got));
    if same {
        return Ok(());
    }
    let show = |list: Vec<Value>| Value::from(list).to_json();
    let got = got.iter().map(|text| Value::from(text.as_str())).collect();
    Err((show(expected.to_vec()), show(got)))
}

/// The text itself, or `{starts, ends, contains}`.
fn text_matches(expected: &Value, got: &str) -> bool {
    if let Some(text) = expected.as_str() {
        return text == got;
    }
    let Some(parts) = expected.as_object() else { return false };
    !parts.is_empty()
        && parts.iter().all(|(key, value)| match (key.as_str(), value) {
            ("starts", Value::String(text)) => got.starts_with(text.as_str()),
            ("ends", Value::String(text)) => got.ends_with(text.as_str()),
            ("contains", Value::Array(texts)) => {
                texts.iter().all(|text| text.as_str().is_some_and(|text| got.contains(text)))
            }
            _ => false,
        })
}

/// The messages that a scenario speaks of: the specification knows nothing of most of what modgate
/// warns authors about.
pub fn specified(problems: Vec<Problem>) -> Vec<String> {
    let is_specified = |problem: &Problem| {
        problem.code.is_none_or(|code| {
            matches!(
                code,
                Code::Deprecated
                    | Code::EnforcementAction
                    | Code::GeneratedKind
                    | Code::UnknownField
            )
        })
    };
    problems.into_iter().filter(is_specified).map(|problem| problem.message).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_are_compared_whole() {
        let parse = |text: &str| Value::from_json(text.as_bytes()).expect(text);
        let expected = parse(r#"{"allowed": true, "code": 299, "warnings": ["a", {"ends": "z"}]}"#);
        for (got, same) in [
            (r#"{"allowed":true,"status":{"code":299},"warnings":["a","xyz"],"uid":"u"}"#, true),
            (r#"{"allowed":true,"status":{"code":299},"warnings":["a","xy"]}"#, false),
            (r#"{"allowed":true,"status":{"code":299},"warnings":["a"]}"#, false),
            (r#"{"allowed":true,"status":{"code":200},"warnings":["a","z"]}"#, false),
            (r#"{"allowed":true,"status":{"code":299,"message":"m"},"warnings":["a","z"]}"#, false),
        ] {
            assert_eq!(response_matches(&expected, &parse(got)).is_ok(), same, "{got}");
        }
    }
}
