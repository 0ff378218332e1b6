//! One case: reviews an object and compares the violations with the assertions.

use modgate_api::meta::GroupVersionKind;
use modgate_api::meta::ObjectExt as _;
use modgate_engine::{Review, Stages, constraint::Inventory};
use modgate_value::{Object, Value, regex::GoRegex};

use super::{
    files::{beside, objects, one_object},
    pipeline,
    runner::Subject,
    suite::{Assertion, Case, Violations},
};
use crate::{
    object::kind_text,
    policies::Policies,
    review::{ReviewedViolation, Session},
};

/// Why a case failed, or a test could not be run.
#[derive(Debug)]
pub(super) struct Failed {
    error: String,
    /// The pointer of the member at fault, below the case or the test; empty for the whole.
    at: String,
}

impl Failed {
    /// The message and the pointer.
    pub(super) fn parts(failed: Option<Self>) -> (Option<String>, String) {
        failed.map_or_else(Default::default, |failed| (Some(failed.error), failed.at))
    }
}

impl From<String> for Failed {
    fn from(error: String) -> Self {
        Self { error, at: String::new() }
    }
}

/// Adds the member at fault to an error.
pub(super) trait At<T> {
    /// # Errors
    ///
    /// The same error.
    fn at(self, pointer: &str) -> Result<T, Failed>;
}

impl<T> At<T> for Result<T, String> {
    fn at(self, pointer: &str) -> Result<T, Failed> {
        self.map_err(|error| Failed { error, at: pointer.to_owned() })
    }
}

/// Runs a case; the error is why it failed.
pub(super) fn run(
    case: &Case,
    subject: &Subject,
    folder: &str,
    session: &mut Session,
) -> Result<(), Failed> {
    if case.object.is_empty() {
        return Err(Failed::from("invalid Case: must define object".to_owned()));
    }
    if case.assertions.is_empty() && !subject.changes_objects {
        return Err(Failed::from("invalid Case: assertions must be non-empty".to_owned()));
    }
    let object = one_object(&beside(folder, &case.object)).at("/object")?;
    let with_inventory;
    let policies = if case.inventory.is_empty() {
        &subject.policies
    } else {
        with_inventory = add_inventory(&subject.policies, case, folder).at("/inventory")?;
        &with_inventory
    };
    let (object, namespace, found) = if subject.changes_objects {
        match pipeline::run(&subject.snapshot, object, case, folder, session)? {
            Some(changed) => (changed.object, changed.namespace, changed.messages),
            // The expected rejection.
            None => return Ok(()),
        }
    } else {
        (object, None, Vec::new())
    };
    if case.assertions.is_empty() {
        return Ok(());
    }
    let inventory = &policies.inventory;
    let reviewed = review(object, namespace.as_ref(), subject, inventory, session);
    let mut messages = reviewed.at("/object")?;
    messages.extend(found);
    for (index, assertion) in case.assertions.iter().enumerate() {
        // Without a number, `message` is what is not met.
        let checked = check(assertion, &messages);
        let of_message = |error: &String| error.starts_with("message contains invalid");
        let is_of_message =
            assertion.violations.is_none() || checked.as_ref().is_err_and(of_message);
        let member = if is_of_message { "message" } else { "violations" };
        checked.at(&format!("/assertions/{index}/{member}"))?;
    }
    Ok(())
}

fn add_inventory(policies: &Policies, case: &Case, folder: &str) -> Result<Policies, String> {
    let mut policies = policies.clone();
    for file in &case.inventory {
        for object in objects(&beside(folder, file))? {
            policies.add_data(&object).map_err(|error| {
                format!(
                    "unable to add object to data.inventory: {} {}/{}: {error}",
                    kind_text(&object),
                    object.namespace(),
                    object.name()
                )
            })?;
        }
    }
    Ok(policies)
}

/// The messages of all violations.
fn review(
    object: Value,
    namespace: Option<&Value>,
    subject: &Subject,
    inventory: &Inventory,
    session: &mut Session,
) -> Result<Vec<String>, String> {
    let kind = GroupVersionKind::of_object(&object);
    let is_review = kind.group == "admission.k8s.io" && kind.kind == "AdmissionReview";
    let review = match is_review {
        true => Review::of_any_request(checked_request(&object)?),
        false => Review::of_existing(object.clone()),
    };
    let stages = Stages::SUITE_CONSTRAINTS;
    let reviewed = session.decide(&subject.snapshot, inventory, review, namespace, stages);
    let mut violations = reviewed.of_object(&object)?.outcomes;
    let order =
        |it: &ReviewedViolation| (it.violation.action.clone(), it.violation.message.clone());
    violations.sort_by_cached_key(order);
    Ok(violations.into_iter().map(|outcome| outcome.violation.message).collect())
}

/// Whether an assertion holds for the messages of all violations.
fn check(assertion: &Assertion, messages: &[String]) -> Result<(), String> {
    let message = assertion.message.as_deref().unwrap_or_default();
    // Even where there is nothing to compare it with (`fix-regex-first`).
    let pattern = GoRegex::new(message)
        .map_err(|error| format!("message contains invalid regular expression: {error}"))?;
    let found = messages.iter().filter(|message| pattern.is_match(message)).count();
    let got = format!("got messages [{}]", messages.join(" "));
    let wanted = match &assertion.violations {
        None => (found == 0).then(|| "at least 1".to_owned()),
        Some(Violations::Word(word)) if word == "yes" => {
            (found == 0).then(|| "at least 1".to_owned())
        }
        Some(Violations::Word(word)) if word == "no" => (found > 0).then(|| "none".to_owned()),
        Some(Violations::Count(count)) if *count >= 0 => {
            let is_met = usize::try_from(*count).is_ok_and(|count| count == found);
            (!is_met).then(|| format!("exactly {count}"))
        }
        Some(_) => {
            return Err(format!(
                "invalid yaml: assertion.violation, if set, must be a nonnegative integer, \
                 \"yes\", or \"no\": {got}"
            ));
        }
    };
    let Some(wanted) = wanted else { return Ok(()) };
    let containing = assertion.message.as_deref().map_or_else(String::new, |message| {
        format!(" containing {}", modgate_value::gofmt::quote(message))
    });
    Err(format!(
        "unexpected number of violations: got {found} violations{containing} but want {wanted}: {got}"
    ))
}

/// The request of an AdmissionReview, with the original's checks.
pub(super) fn checked_request(review: &Value) -> Result<&Value, String> {
    let mut unknown = Vec::new();
    if let Some(members) = review.as_object() {
        unknown_members(members, REVIEW, "", &mut unknown);
    }
    if !unknown.is_empty() {
        return Err(format!(
            "not a valid AdmissionReview object: unable to convert to an AdmissionReview object, \
             error: strict decoding error: {}",
            unknown.join(", ")
        ));
    }
    let request = review.get("request").filter(|request| !request.is_null()).ok_or(
        "missing an AdmissionRequest object: request did not actually pass in an AdmissionRequest",
    )?;
    if !matches!(request, Value::Object(_)) {
        return Err("not a valid AdmissionReview object: unable to convert to an AdmissionReview \
                    object, error: request is not an object"
            .to_owned());
    }
    let objects: Vec<&Value> = ["object", "oldObject"]
        .into_iter()
        .filter_map(|key| request.get(key).filter(|object| !object.is_null()))
        .collect();
    if objects.is_empty() {
        return Err(
            "no object or oldObject found to review: AdmissionRequest does not contain an \
                    \"object\" or \"oldObject\" to review"
                .to_owned(),
        );
    }
    for object in objects {
        let kind = object.get("kind").and_then(Value::as_str).unwrap_or_default();
        if kind.is_empty() {
            return Err(format!(
                "object or oldObject cannot be unmarshalled: Object 'Kind' is missing in '{}'",
                object.to_json()
            ));
        }
    }
    Ok(request)
}

/// The members of a type, those with members of their own with them.
struct Known(&'static [(&'static str, Option<&'static Known>)]);

const KIND: Known = Known(&[("group", None), ("version", None), ("kind", None)]);
const RESOURCE: Known = Known(&[("group", None), ("version", None), ("resource", None)]);
const USER: Known = Known(&[("username", None), ("uid", None), ("groups", None), ("extra", None)]);
const REQUEST: Known = Known(&[
    ("uid", None),
    ("kind", Some(&KIND)),
    ("resource", Some(&RESOURCE)),
    ("subResource", None),
    ("requestKind", Some(&KIND)),
    ("requestResource", Some(&RESOURCE)),
    ("requestSubResource", None),
    ("name", None),
    ("namespace", None),
    ("operation", None),
    ("userInfo", Some(&USER)),
    ("object", None),
    ("oldObject", None),
    ("dryRun", None),
    ("options", None),
]);
const REVIEW: &Known = &Known(&[
    ("apiVersion", None),
    ("kind", None),
    ("request", Some(&REQUEST)),
    ("response", None),
]);

fn unknown_members(members: &Object, known: &Known, path: &str, found: &mut Vec<String>) {
    for (key, value) in members {
        let path = if path.is_empty() { key.to_string() } else { format!("{path}.{key}") };
        match known.0.iter().find(|(name, _)| *name == key.as_str()) {
            None => found.push(format!("unknown field {}", modgate_value::gofmt::quote(&path))),
            Some((_, Some(inner))) => {
                if let Some(members) = value.as_object() {
                    unknown_members(members, inner, &path, found);
                }
            }
            Some((_, None)) => {}
        }
    }
}
