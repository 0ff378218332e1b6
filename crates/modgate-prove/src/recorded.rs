//! Requests and answers of a server, one JSON document a line: an AdmissionReview with `request` and
//! `response`, and a third member, `record`, with what an AdmissionReview has no place for.
//!
//! [`Exchange::to_json`] leaves out `managedFields`, the copy that `kubectl apply` keeps in an annotation, and of a Secret
//! all data, messages and patches. [`Recorded::read`] is its counterpart.

use std::{collections::BTreeSet, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use modgate_engine::{
    Decision, Review, Stages,
    api::{
        admission::{AdmissionResponse, AdmissionReview, ReviewError, ReviewVersion, review_of},
        meta::Operation,
        secrets,
    },
};
use modgate_value::{Number, Value, json};

use crate::{
    answer::{Answer, Said, patched},
    difference::{Words, denying, words},
};

/// The member of a line beside `request` and `response`.
const RECORD: &str = "record";

/// The member of [`RECORD`] that marks a line which repeats an earlier one.
pub const AGAIN: &str = "again";

/// One request and its answer.
#[derive(Debug, Clone)]
pub struct Exchange {
    /// The path of the webhook.
    pub webhook: &'static str,
    /// The stages that the webhook runs.
    pub stages: Stages,
    /// The version of the review.
    pub version: ReviewVersion,
    /// The request.
    pub review: Review,
    /// The decision of the policies.
    pub decision: Decision,
    /// The answer.
    pub response: AdmissionResponse,
    /// How long the decision took.
    pub took: Duration,
    /// How long the request waited before, because others were decided.
    pub waited: Duration,
}

impl Exchange {
    /// The policies that found something.
    pub fn policies(&self) -> BTreeSet<String> {
        let policies = words(&self.decision).into_iter().map(|(policy, ..)| policy);
        policies.filter(|policy| !policy.is_empty()).collect()
    }

    /// The line, without its end. `time` is when the request was answered, in RFC 3339; `more` are further
    /// members of `record`.
    pub fn to_json(&self, time: &str, more: Vec<(&'static str, Value)>) -> String {
        let is_secret = self.review.is_secret();
        let response = if is_secret { hidden(&self.response) } else { self.response.clone() };
        let answer = response.to_json(self.version, |patch| STANDARD.encode(patch));
        let finding = |(policy, effect, message): (String, String, String)| -> Value {
            let message = if is_secret { secrets::NOT_SHOWN.to_owned() } else { message };
            let texts = [("policy", policy), ("effect", effect), ("message", message)];
            texts.into_iter().map(|(key, text)| (key, Value::from(text))).collect()
        };
        let seconds = Number::from_f64(self.took.as_secs_f64());
        let record = [
            ("time", Value::from(time)),
            ("webhook", self.webhook.into()),
            ("stages", self.stages.name().unwrap_or_default().into()),
            ("seconds", seconds.map(Value::from).unwrap_or_default()),
            ("allowed", self.decision.allowed.into()),
            ("hidden", is_secret.into()),
            ("denying", denying(&self.decision).into_iter().map(Value::from).collect()),
            ("findings", words(&self.decision).into_iter().map(finding).collect()),
        ];
        let record: Value = record.into_iter().chain(more).collect();
        let request = shown(self.review.sent(), is_secret);
        // The answer is a review, too: what it ends with is put after the request.
        let review = review_of(self.version, request.as_object().cloned().unwrap_or_default());
        let mut line = review.to_json();
        line.pop();
        let response = answer.find("\"response\":").and_then(|at| answer.get(at..answer.len() - 1));
        line.push(',');
        line.push_str(response.unwrap_or("\"response\":null"));
        line.push_str(",\"record\":");
        json::write(&record, &mut line, json::Escape::Minimal);
        line.push('}');
        line
    }
}

/// A request as it may be written down.
fn shown(request: &Value, is_secret: bool) -> Value {
    let Some(mut members) = request.as_object().cloned() else { return request.clone() };
    for key in ["object", "oldObject"] {
        if let Some(object) = members.get(key) {
            let object = secrets::shown(object, is_secret);
            members.insert(key, object);
        }
    }
    members.into()
}

/// An answer about a Secret, without texts that may quote it.
fn hidden(response: &AdmissionResponse) -> AdmissionResponse {
    let hide = |text: &String| match text.as_str() {
        "" => String::new(),
        _ => secrets::NOT_SHOWN.to_owned(),
    };
    let annotations = response.audit_annotations.iter();
    AdmissionResponse {
        uid: response.uid.clone(),
        allowed: response.allowed,
        code: response.code,
        reason: hide(&response.reason),
        message: hide(&response.message),
        patch: None,
        warnings: response.warnings.iter().map(hide).collect(),
        audit_annotations: annotations.map(|(key, text)| (key.clone(), hide(text))).collect(),
    }
}

/// A line that was read.
#[derive(Debug, Clone)]
pub struct Recorded {
    /// The request, as far as it was written down.
    pub review: Review,
    /// The stages that the webhook ran.
    pub stages: Stages,
    /// The answer of the policies then.
    pub answer: Answer,
    /// Whether data of a Secret was left out.
    pub hidden: bool,
}

impl Recorded {
    /// Whether a line repeats an earlier one, to add a second decision.
    pub fn is_repeated(document: &Value) -> bool {
        document.path(&[RECORD, AGAIN]).and_then(Value::as_bool).unwrap_or_default()
    }

    /// Whether a document is a line of a record.
    pub fn is_one(document: &Value) -> bool {
        AdmissionReview::is_review(document) && document.get(RECORD).is_some()
    }

    /// Reads a line.
    ///
    /// # Errors
    ///
    /// When the request is malformed.
    pub fn read(document: &Value) -> Result<Self, ReviewError> {
        let review = Review::parse(document)?;
        let member = |key| document.path(&[RECORD, key]);
        let is = |key| member(key).and_then(Value::as_bool).unwrap_or_default();
        let list =
            |key| member(key).and_then(Value::as_array).into_iter().flat_map(|all| all.iter());
        let stages = member("stages").and_then(Value::as_str).and_then(Stages::named);
        let stages = match stages.unwrap_or(Stages::ALL) {
            // A server evaluates those that its flags and the bindings choose; a command has no such flags.
            stages @ (Stages::MUTATING_POLICIES | Stages::VALIDATING_POLICIES) => {
                stages.as_configured()
            }
            stages => stages,
        };
        let found: Words = list("findings")
            .map(|finding| {
                let text = |key| finding.get(key).and_then(Value::as_str).unwrap_or_default();
                (text("policy").to_owned(), text("effect").to_owned(), text("message").to_owned())
            })
            .collect();
        let hidden = is("hidden");
        let response = document.get("response").cloned().unwrap_or_default();
        let is_deletion = review.request().operation == Operation::Delete;
        let object = if hidden || is_deletion { None } else { patched(&review, &response) };
        let answer = Answer {
            allowed: is("allowed"),
            denying: list("denying").filter_map(Value::as_str).map(str::to_owned).collect(),
            said: if hidden { Said::Hidden(found) } else { Said::Words(found) },
            object,
        };
        Ok(Self { review, stages, answer, hidden })
    }
}
