//! `probes/{patches,selection,validation,readme-scenarios}.json` and files of the same shape: rules
//! are loaded, then admission requests played.

use anyhow::{Context as _, Result, bail, ensure};
use modgate_engine::{
    EngineConfig,
    jsonpatch::{self, PatchOperation},
    modrule::validate_modrule,
};
use modgate_value::{Value, regex::GoRegex};

use super::{
    harness::Loaded,
    model::{self, Answer, Decided, Request},
    patching, syntax,
};
use crate::{
    compare::same,
    corpus::{CorpusFile, Roots},
    decision::{self, Decision},
    members::Members,
    report::{Case, Verdict},
};

pub(crate) fn run(file: &CorpusFile, _: &Roots, cases: &mut Vec<Case>) -> Result<()> {
    let document = file.json()?;
    let top = Members::of(&document)?;
    top.notes(&["about"]);
    for scenario in top.list("scenarios")? {
        let members = Members::of(scenario)?;
        let id = format!("{} {}", members.text("id")?, members.text("name")?);
        let verdict = check(&members).and_then(|verdict| members.finish().map(|()| verdict));
        let verdict = verdict.with_context(|| id.clone())?;
        cases.push(Case { id, verdict });
    }
    top.finish()
}

/// A scenario passes if all its rules and requests do.
fn check(scenario: &Members<'_>) -> Result<Verdict> {
    let rules = scenario.list("rules")?;
    let outcomes = scenario.optional_list("ruleOutcomes")?;
    let mut verdicts = rule_verdicts(rules, outcomes)?;
    let loaded = Loaded::of(rules);
    for (index, request) in scenario.optional_list("requests")?.iter().enumerate() {
        let verdict =
            request_verdict(rules, &loaded, request).with_context(|| format!("request {index}"))?;
        verdicts.push(match verdict {
            Verdict::Failed { expected, got } => {
                Verdict::Failed { expected: format!("request {index}: {expected}"), got }
            }
            other => other,
        });
    }
    Ok(all_of(verdicts))
}

/// The first failure, or else every decision that was needed.
pub(super) fn all_of(verdicts: Vec<Verdict>) -> Verdict {
    let mut decisions: Vec<&'static Decision> = Vec::new();
    for verdict in verdicts {
        match verdict {
            Verdict::Passed | Verdict::Skipped | Verdict::Exempt => {}
            Verdict::Differs(more) => {
                let new = more.into_iter().filter(|it| !decisions.contains(it)).collect::<Vec<_>>();
                decisions.extend(new);
            }
            Verdict::Failed { .. } => return verdict,
        }
    }
    if decisions.is_empty() { Verdict::Passed } else { Verdict::Differs(decisions) }
}

// ---- requests ----

/// The recording of one request.
struct Recorded {
    /// The answers seen: one, or several where the original is not deterministic.
    answers: Vec<Answer>,
    /// The generated patch, sorted by operation and path.
    patch: Option<Value>,
    several: bool,
}

fn request_verdict(rules: &[Value], loaded: &Loaded, request: &Value) -> Result<Verdict> {
    let members = Members::of(request)?;
    members.notes(&["name"]);
    let request = Request {
        operation: members.text("operation")?,
        namespace: members.text("namespace")?,
        object: members.optional("object"),
        old_object: members.optional("oldObject"),
        cluster: members.optional_list("cluster")?,
    };
    let expect = Members::of(members.required("expect")?)?;
    let recorded = recorded(&expect, &request)?;
    expect.finish()?;
    members.finish()?;
    check_request(rules, loaded, &request, &recorded)
}

fn recorded(expect: &Members<'_>, request: &Request<'_>) -> Result<Recorded> {
    if expect.optional("panic").is_some() {
        let answers = vec![Answer::Broken("the request crashes")];
        return Ok(Recorded { answers, patch: None, several: false });
    }
    let several = expect.flag("nondeterministic")?;
    if several {
        let mut answers = Vec::new();
        for observed in expect.list("observed")? {
            let observed = Members::of(observed)?;
            answers.push(recorded_answer(&observed, request)?);
            observed.notes(&["patchSorted"]);
            observed.finish()?;
        }
        return Ok(Recorded { answers, patch: None, several });
    }
    let answer = recorded_answer(expect, request)?;
    let patch = expect.optional("patchSorted").cloned();
    Ok(Recorded { answers: vec![answer], patch, several })
}

fn recorded_answer(expect: &Members<'_>, request: &Request<'_>) -> Result<Answer> {
    let allowed = expect.required("allowed")?.as_bool().context("`allowed`")?;
    let code = expect.required("code")?.as_i64().context("`code`")?;
    let reason = expect.text("reason")?.to_owned();
    let failed = !expect.optional_list("errorLogs")?.is_empty();
    let after = expect.optional("objectAfter").or(request.subject()).cloned();
    if expect.optional("applyError").is_some() {
        return Ok(Answer::Broken("the patch does not apply to the object"));
    }
    let object = allowed.then(|| after.unwrap_or_default());
    Ok(Answer::Decided(Decided { allowed, code, reason, object, failed }))
}

fn check_request(
    rules: &[Value],
    loaded: &Loaded,
    request: &Request<'_>,
    recorded: &Recorded,
) -> Result<Verdict> {
    let (got, patch) = match loaded.answer(request) {
        Ok(answer) => answer,
        Err(error) => {
            let expected = show_all(&recorded.answers);
            return Ok(Verdict::Failed { expected, got: format!("{error:#}") });
        }
    };
    let (required, decisions) = model::required(rules, request);
    if decisions.is_empty() {
        return Ok(check_recorded(&got, &patch, &required, recorded));
    }
    let ids: Vec<_> = decisions.iter().map(|decision| decision.id).collect();
    let prescribed = format!("{} (by {})", show(&required), ids.join(", "));
    let like_original = recorded.answers.iter().any(|answer| model::same_answer(&got, answer));
    if like_original && !recorded.several {
        let got = format!("the original's answer; is {} stale? {}", ids.join(", "), show(&got));
        return Ok(Verdict::Failed { expected: prescribed, got });
    }
    if model::same_answer(&got, &required) {
        return Ok(Verdict::Differs(decisions));
    }
    Ok(Verdict::Failed { expected: prescribed, got: show(&got) })
}

/// No decision applies: the recorded answer to the letter.
fn check_recorded(
    got: &Answer,
    patch: &[PatchOperation],
    model: &Answer,
    recorded: &Recorded,
) -> Verdict {
    let expected = show_all(&recorded.answers);
    if !recorded.answers.iter().any(|answer| model::same_answer(model, answer)) {
        let got = format!("from the testkit's own model: {}", show(model));
        return Verdict::Failed { expected, got };
    }
    if !recorded.answers.iter().any(|answer| exactly(got, answer)) {
        return Verdict::Failed { expected, got: show(got) };
    }
    if let Some(recorded) = &recorded.patch {
        let sorted = sorted(patch);
        if !same(&sorted, recorded) {
            return Verdict::Failed { expected: recorded.to_json(), got: sorted.to_json() };
        }
    }
    Verdict::Passed
}

fn exactly(a: &Answer, b: &Answer) -> bool {
    let (Answer::Decided(one), Answer::Decided(other)) = (a, b) else { return false };
    let same_object = match (&one.object, &other.object) {
        (Some(a), Some(b)) => same(a, b),
        (a, b) => a.is_none() && b.is_none(),
    };
    same_object && model::same_answer(a, b)
}

/// A patch as the corpora have it: sorted by operation and path, equal ones in their order.
pub(super) fn sorted(patch: &[PatchOperation]) -> Value {
    let mut patch = patch.to_vec();
    patch.sort_by_cached_key(|operation| format!("{}{}", operation.op.as_str(), operation.path));
    jsonpatch::to_value(&patch)
}

fn show_all(answers: &[Answer]) -> String {
    answers.iter().map(show).collect::<Vec<_>>().join(" or ")
}

fn show(answer: &Answer) -> String {
    match answer {
        Answer::Broken(how) => (*how).to_owned(),
        Answer::Decided(Decided { allowed, code, reason, object, failed }) => format!(
            "{} {code} `{reason}`{} {}",
            if *allowed { "allowed" } else { "denied" },
            if *failed { " with failures" } else { "" },
            object.as_ref().map(Value::to_json).unwrap_or_default()
        ),
    }
}

// ---- rules ----

/// The recording of the creation of a rule.
#[derive(Default)]
struct Outcome<'a> {
    validation: Option<&'a str>,
    store: Option<&'a str>,
    decoding: Option<&'a str>,
}

pub(super) fn rule_verdicts(rules: &[Value], outcomes: &[Value]) -> Result<Vec<Verdict>> {
    let mut by_rule = Vec::new();
    for outcome in outcomes {
        let members = Members::of(outcome)?;
        let rule = members.optional_text("rule")?;
        let recorded = Outcome {
            validation: members.optional_text("validationError")?,
            store: members.optional_text("storeError")?,
            decoding: members.optional_text("decodeError")?,
        };
        members.finish()?;
        by_rule.push((rule, recorded));
    }
    let mut used = vec![false; by_rule.len()];
    let mut verdicts = Vec::new();
    for rule in rules {
        let metadata = |key| rule.path(&["metadata", key]).and_then(Value::as_str);
        let (namespace, name) =
            (metadata("namespace").unwrap_or_default(), metadata("name").unwrap_or_default());
        let id = format!("{namespace}/{name}");
        // A rule that cannot be decoded has no name to be reported under.
        let at = by_rule.iter().position(|(rule, _)| rule.is_none_or(|rule| rule == id));
        if let Some(used) = at.and_then(|at| used.get_mut(at)) {
            *used = true;
        }
        let outcome = at.and_then(|at| by_rule.get(at)).map(|(_, outcome)| outcome);
        verdicts.push(match outcome {
            Some(outcome) => check_rule(rule, outcome)?,
            None => check_rule(rule, &Outcome::default())?,
        });
    }
    ensure!(used.iter().all(|used| *used), "an outcome names a rule that is not there");
    Ok(verdicts)
}

fn check_rule(rule: &Value, recorded: &Outcome<'_>) -> Result<Verdict> {
    let validated = validate_modrule(rule, &EngineConfig::default());
    let loaded = Loaded::of(std::slice::from_ref(rule));
    let load_error = loaded.errors().next().map(ToString::to_string);
    if validated.is_ok() != load_error.is_none() {
        return Ok(Verdict::Failed {
            expected: "validation that accepts exactly what loads (Q-16)".to_owned(),
            got: format!("validation: {validated:?}, loading: {load_error:?}"),
        });
    }
    let got = validated.map(|_warnings| ()).map_err(|denied| (denied.code, denied.reason));
    Ok(match (recorded.decoding, recorded.validation, recorded.store) {
        (Some(_), None, None) => refused(&got, 400, &fields_of_wrong_type(rule), &decision::Q_58),
        (None, Some(text), _) => match accepted_by_decision(rule) {
            Some(decisions) => match got {
                Ok(()) => Verdict::Differs(decisions),
                Err((_, reason)) => failed("accepted by decision", reason),
            },
            None => check_validation(rule, text, &got),
        },
        (None, None, Some(_)) => {
            if has_bad_namespace_regex(rule) {
                let field = ["spec.targetNamespaceRegex".to_owned()];
                refused(&got, 403, &field, &decision::Q_17)
            } else {
                refused(&got, 403, &fields_of_patch_selects(rule), &decision::Q_16)
            }
        }
        (None, None, None) => match violates_schema(rule) {
            Some((field, decision)) => refused(&got, 403, &[field], decision),
            None => match got {
                Ok(()) => Verdict::Passed,
                Err((_, reason)) => failed("the rule is accepted", reason),
            },
        },
        _ => bail!("an outcome with errors of several stages"),
    })
}

/// The decisions by which a rule is accepted that the original refuses: in the stricter spelling it
/// would be accepted.
fn accepted_by_decision(rule: &Value) -> Option<Vec<&'static Decision>> {
    let mut decisions: Vec<&'static Decision> = Vec::new();
    let mut strict = rule.clone();
    for list in ["match", "patch"] {
        let len = rule.path(&["spec", list]).and_then(Value::as_array).map_or(0, |it| it.len());
        for index in 0..len {
            let pointer = format!("/spec/{list}/{index}/select");
            let Some(select) = rule.pointer(&pointer).and_then(Value::as_str) else { continue };
            let Some(spelling) = syntax::strict(select) else { continue };
            let found = [
                syntax::unglued(select).map(|_| &decision::Q_10),
                syntax::requoted(select).map(|_| &decision::Q_11),
            ];
            for decision in found.into_iter().flatten() {
                if !decisions.contains(&decision) {
                    decisions.push(decision);
                }
            }
            let operation = patching::Operation {
                op: "replace".to_owned(),
                path: pointer,
                value: spelling.into(),
            };
            strict = patching::apply_all(&strict, &[operation], None).ok()?;
        }
    }
    let accepted = validate_modrule(&strict, &EngineConfig::default()).is_ok();
    (accepted && !decisions.is_empty()).then_some(decisions)
}

type Validated = Result<(), (u16, String)>;

fn failed(expected: &str, got: impl Into<String>) -> Verdict {
    Verdict::Failed { expected: expected.to_owned(), got: got.into() }
}

/// A decision asks for a refusal that names one of `fields`.
fn refused(got: &Validated, code: u16, fields: &[String], decision: &'static Decision) -> Verdict {
    let expected =
        || format!("refused with {code}, naming {} (by {})", fields.join(" or "), decision.id);
    match got {
        Ok(()) => failed(&expected(), "the rule is accepted"),
        Err((got_code, reason)) => {
            if *got_code == code && fields.iter().any(|field| reason.contains(field.as_str())) {
                Verdict::Differs(vec![decision])
            } else {
                failed(&expected(), format!("{got_code} {reason}"))
            }
        }
    }
}

/// The validating webhook's text to the letter, except for the dump of memory.
fn check_validation(rule: &Value, text: &str, got: &Validated) -> Verdict {
    let Err((code, reason)) = got else { return failed(text, "the rule is accepted") };
    if *code != 403 {
        return failed(text, format!("{code} {reason}"));
    }
    let text_of = |key| rule.path(&["spec", key]).and_then(Value::as_str);
    let patch = rule.path(&["spec", "patch"]).and_then(Value::as_array);
    let misplaced =
        text_of("type") != Some("Patch") && patch.is_some_and(|patch| !patch.is_empty());
    if !misplaced {
        return Verdict::equal(text, reason.as_str());
    }
    if reason.contains("(0x") {
        return failed("no memory addresses (by Q-60)", reason.as_str());
    }
    match Verdict::equal(without_dump(text), without_dump(reason)) {
        Verdict::Passed => Verdict::Differs(vec![&decision::Q_60]),
        other => other,
    }
}

fn without_dump(text: &str) -> String {
    let start = "spec.patch: Invalid value: ";
    let end = ": field 'patch' should be present only";
    let parts = text.split_once(start).and_then(|(before, rest)| {
        let (_, after) = rest.split_once(end)?;
        Some(format!("{before}{start}*{end}{after}"))
    });
    parts.unwrap_or_else(|| text.to_owned())
}

fn has_bad_namespace_regex(rule: &Value) -> bool {
    let regex = rule.path(&["spec", "targetNamespaceRegex"]).and_then(Value::as_str);
    regex.is_some_and(|regex| GoRegex::new(regex).is_err())
}

fn fields_of_patch_selects(rule: &Value) -> Vec<String> {
    let patch = rule.path(&["spec", "patch"]).and_then(Value::as_array);
    let operations = patch.into_iter().flat_map(|patch| patch.iter().enumerate());
    let selects = operations.filter(|(_, operation)| operation.get("select").is_some());
    selects.map(|(index, _)| format!("spec.patch[{index}].select")).collect()
}

/// Members of a rule that must be text and are not.
fn fields_of_wrong_type(rule: &Value) -> Vec<String> {
    let mut fields = Vec::new();
    for (list, members) in [
        ("match", ["select", "matchFor", "matchValue", "matchRegex"]),
        ("patch", ["op", "select", "path", "value"]),
    ] {
        let elements = rule.path(&["spec", list]).and_then(Value::as_array);
        for (index, element) in elements.into_iter().flat_map(|it| it.iter().enumerate()) {
            for member in members {
                let value = element.get(member).filter(|value| !value.is_null());
                if value.is_some_and(|value| value.as_str().is_none()) {
                    fields.push(format!("spec.{list}[{index}].{member}"));
                }
            }
        }
    }
    fields
}

/// Objects that the CRD's schema refuses before the webhook is called (spec 1.2, 1.3).
fn violates_schema(rule: &Value) -> Option<(String, &'static Decision)> {
    let list = |key| rule.path(&["spec", key]).and_then(Value::as_array);
    if list("match").is_none_or(|criteria| criteria.is_empty()) {
        return Some(("spec.match".to_owned(), &decision::AS_02));
    }
    let known = ["add", "replace", "remove"];
    let operations = list("patch").into_iter().flat_map(|patch| patch.iter().enumerate());
    for (index, operation) in operations {
        let op = operation.get("op").and_then(Value::as_str).unwrap_or_default();
        if !known.contains(&op) {
            return Some((format!("spec.patch[{index}].op"), &decision::SCHEMA));
        }
    }
    let known = ["CREATE", "UPDATE", "DELETE"].map(Value::from);
    let admitted = list("admissionOperations");
    let unknown = admitted.is_some_and(|listed| listed.iter().any(|it| !known.contains(it)));
    unknown.then(|| ("spec.admissionOperations".to_owned(), &decision::SCHEMA))
}
