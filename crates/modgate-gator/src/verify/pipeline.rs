//! Our extension of suites: the cluster's own policies, and the object after mutators and ModRules
//! (`docs/suites.md`).

use std::sync::Arc;

use modgate_api::meta::ObjectExt as _;
use modgate_api::{
    admissionregistration as registration,
    meta::{GroupVersionKind, Operation},
    modrule::ModRule,
    mutations,
};
use modgate_engine::{
    Change, OnError, PolicySource, Review, Severity, Snapshot, Stages,
    constraint::Inventory,
    jsonpatch::{self, Op, PatchOperation, Tree, diff_exact},
    mutation::{CompiledMutator, MutationSystem, Options},
};
use modgate_policies::references::References;
use modgate_value::{Budget, Object, Str, Value, gofmt, regex::GoRegex};

use super::{
    case::{At as _, Failed, checked_request},
    files::{Files, beside, one_object},
    suite::{Case, Test},
};
use crate::{
    expander::mutation_system,
    outside::{OBJECT, WallClock},
    policies::config,
    review::{Session, bare_namespace},
};

/// An object after all policies that mutate.
pub(super) struct Changed {
    /// The object, or the AdmissionReview with it.
    pub(super) object: Value,
    pub(super) namespace: Option<Value>,
    /// The messages of ValidatingAdmissionPolicies about it.
    pub(super) messages: Vec<String>,
}

/// The policies of a test beside template and constraint.
pub(super) struct Loaded {
    pub(super) mutators: MutationSystem,
    /// ModRules and the cluster's own policies.
    pub(super) snapshot: Snapshot,
    /// The objects that the cluster's own policies read.
    pub(super) objects: References,
}

/// The namespace of objects and ModRules that name none.
const NAMESPACE: &str = "default";

/// Loads the policies of a test.
pub(super) fn load(test: &Test, folder: &str, files: &Files<'_>) -> Result<Loaded, String> {
    let mut mutators = Vec::new();
    for file in test.mutators.iter().flatten() {
        let path = beside(folder, file);
        for resource in files.objects(&path)? {
            if GroupVersionKind::of_object(&resource).group != mutations::GROUP {
                return Err(format!("not a mutator: {}", gofmt::quote(&path)));
            }
            let mutator = CompiledMutator::compile(&resource, Options::default())
                .map_err(|error| format!("adding mutator: {error}"))?;
            mutators.push(Arc::new(mutator));
        }
    }
    let mutators =
        mutation_system(&mutators).map_err(|error| format!("adding mutator: {error}"))?;
    let mut changes = Vec::new();
    for file in test.modrules.iter().flatten() {
        let path = beside(folder, file);
        for object in files.objects(&path)? {
            if !ModRule::is_modrule(&object) {
                return Err(format!("not a ModRule: {}", gofmt::quote(&path)));
            }
            let origin = Str::from(path.as_str());
            changes.push(Change::Upsert(PolicySource { origin, object, positions: None }));
        }
    }
    let mut kept = References::default();
    for file in test.policies.iter().flatten() {
        let path = beside(folder, file);
        for object in files.objects(&path)? {
            let kind = GroupVersionKind::of_object(&object);
            if kind.group == registration::GROUP && Snapshot::takes(&object) {
                let origin = Str::from(path.as_str());
                changes.push(Change::Upsert(PolicySource { origin, object, positions: None }));
            } else if !kept.take(&object) && !kept.declare(&object) {
                kept.keep(&object);
            }
        }
    }
    let mut config = config();
    config.templates.observed = files.is_observed();
    let update = Snapshot::new(config).apply(changes, OnError::Unload);
    let mut errors = update.problems.iter().filter(|problem| problem.severity == Severity::Error);
    if let Some(problem) = errors.next() {
        let colon = if problem.field.is_empty() { "" } else { ": " };
        let what = if problem.policy.group == registration::GROUP { "policy" } else { "ModRule" };
        return Err(format!(
            "adding {what}: {}: {}{colon}{}",
            problem.policy, problem.field, problem.message
        ));
    }
    Ok(Loaded { mutators, snapshot: update.snapshot, objects: kept })
}

/// Changes the object of a case and compares the result with what the case expects; `None` if it
/// was rejected as expected.
pub(super) fn run(
    snapshot: &Snapshot,
    document: Value,
    case: &Case,
    folder: &str,
    session: &mut Session,
) -> Result<Option<Changed>, Failed> {
    let says_something = case.expected.is_some()
        || case.patch.is_some()
        || case.rejected.is_some()
        || !case.assertions.is_empty();
    if !says_something {
        let error = "invalid Case: must define expected, patch, rejected or assertions";
        return Err(Failed::from(error.to_owned()));
    }
    let given = Given::of(document, case, folder, session)?;
    let rejected = case.rejected.as_deref().map(|text| {
        let pattern = GoRegex::new(text)
            .map_err(|error| format!("rejected is an invalid regular expression: {error}"))?;
        Ok::<_, String>((text, pattern))
    });
    let rejected = rejected.transpose().at("/rejected")?;
    session.keeps_changes = session.observes;
    let applied = apply(snapshot, &given.object, &given, session);
    session.keeps_changes = false;
    let result = match (applied, rejected) {
        (Err(refused), Some((_, pattern))) if pattern.is_match(&refused) => return Ok(None),
        (Err(refused), Some((text, _))) => {
            let error = format!(
                "unexpected rejection: got {} but want one containing {}",
                gofmt::quote(&refused),
                gofmt::quote(text)
            );
            return Err(error).at("/rejected");
        }
        (Err(refused), None) => {
            let error = format!("unexpected rejection: got {}", gofmt::quote(&refused));
            return Err(error).at("/object");
        }
        (Ok(_), Some((text, _))) => {
            let error = format!("missing rejection: want one containing {}", gofmt::quote(text));
            return Err(error).at("/rejected");
        }
        (Ok(result), None) => result,
    };
    if let Some(expected) = &case.expected {
        check_object(expected, &result, folder).at("/expected")?;
    }
    if let Some(patch) = &case.patch {
        check_patch(patch, &given.object, &result).at("/patch")?;
    }
    if case.idempotent.unwrap_or(true) {
        let again = apply(snapshot, &result, &given, session)
            .map_err(|refused| format!("not idempotent: a second pass is refused: {refused}"))?;
        if again != result {
            return Err(Failed::from(format!(
                "not idempotent: a second pass changes the object by {}",
                shown(&diff_exact(&result, &again))
            )));
        }
    }
    let object = given.with_object(result);
    let messages = validated(snapshot, &object, &given, session)?;
    Ok(Some(Changed { object, namespace: given.namespace, messages }))
}

/// The messages of ValidatingAdmissionPolicies about an object, whatever their actions.
fn validated(
    snapshot: &Snapshot,
    document: &Value,
    given: &Given,
    session: &mut Session,
) -> Result<Vec<String>, String> {
    if snapshot.cluster_policies().is_empty() {
        return Ok(Vec::new());
    }
    let review = given.review_of(document.clone())?;
    let (inventory, namespace) = (Inventory::default(), given.namespace.as_ref());
    let reviewed = session.decide(snapshot, &inventory, review, namespace, Stages::SUITE_POLICIES);
    let decision = reviewed.decision;
    if let Some(failure) = &decision.failure {
        return Err(failure.to_string());
    }
    let remarks = decision.remarks.iter().map(|(_, remark)| remark);
    let found = decision.denials.iter().chain(remarks);
    Ok(found.map(|finding| finding.message.clone()).collect())
}

/// MutatingAdmissionPolicies, mutators, then ModRules; the error is the message of a refusal.
fn apply(
    snapshot: &Snapshot,
    object: &Value,
    given: &Given,
    session: &mut Session,
) -> Result<Value, String> {
    let review = given.review_of(given.with_object(object.clone()))?;
    let (inventory, namespace) = (Inventory::default(), given.namespace.as_ref());
    let reviewed = session.decide(snapshot, &inventory, review, namespace, Stages::SUITE_CHANGES);
    let decision = reviewed.decision;
    if decision.allowed { Ok(decision.object) } else { Err(decision.reason) }
}

/// The input of a case.
struct Given {
    /// The file of the case.
    document: Value,
    /// Whether that is an AdmissionReview.
    review: bool,
    /// The object to change.
    object: Value,
    operation: Operation,
    namespace: Option<Value>,
}

impl Given {
    fn of(document: Value, case: &Case, folder: &str, session: &Session) -> Result<Self, String> {
        let kind = GroupVersionKind::of_object(&document);
        let review = kind.group == "admission.k8s.io" && kind.kind == "AdmissionReview";
        let (object, operation) = if review {
            let request = checked_request(&document)?;
            let operation = request.get("operation").and_then(Value::as_str).unwrap_or_default();
            let key = if operation == "DELETE" { "oldObject" } else { "object" };
            let object = request.get(key).filter(|object| !object.is_null());
            let object = object.ok_or_else(|| format!("the request has no {key}"))?;
            (object.clone(), operation)
        } else {
            (document.clone(), case.operation.as_deref().unwrap_or("CREATE"))
        };
        let operation =
            operation.parse().map_err(|error: modgate_api::meta::UnknownOperation| {
                format!("invalid Case: {error}")
            })?;
        let namespace = match &case.namespace {
            Some(file) => Some(one_object(&beside(folder, file))?),
            None => {
                let name = object.namespace();
                let named = |it: &&Value| it.name() == name;
                let mut all =
                    session.objects.iter().flat_map(|objects| objects.of_kind("Namespace"));
                all.find(named).cloned().or_else(|| bare_namespace(name))
            }
        };
        Ok(Self { document, review, object, operation, namespace })
    }

    /// The request about a document of the case.
    fn review_of(&self, document: Value) -> Result<Review, String> {
        if !self.review {
            return Ok(Review::of_object(document, self.operation, NAMESPACE));
        }
        let request = document.get("request").cloned().unwrap_or_default();
        Review::from_request(&request).map_err(|error| error.to_string())
    }

    /// The document of the case with another object in its place.
    fn with_object(&self, object: Value) -> Value {
        if !self.review {
            return object;
        }
        let members =
            |value: Option<&Value>| value.and_then(Value::as_object).cloned().unwrap_or_default();
        let mut review = members(Some(&self.document));
        let mut request = members(review.get("request"));
        let key = if self.operation == Operation::Delete { "oldObject" } else { "object" };
        request.insert(key, object);
        review.insert("request", Object::into(request));
        review.into()
    }
}

fn check_object(expected: &Value, result: &Value, folder: &str) -> Result<(), String> {
    let expected = match expected {
        Value::String(file) => one_object(&beside(folder, file))?,
        object => object.clone(),
    };
    if expected == *result {
        return Ok(());
    }
    Err(format!(
        "unexpected object: it differs from `expected` by {}",
        shown(&diff_exact(&expected, result))
    ))
}

/// Whether a patch turns the object into the result, by any operations.
fn check_patch(patch: &Value, object: &Value, result: &Value) -> Result<(), String> {
    let invalid = |error: String| format!("invalid Case: patch: {error}");
    let operations = patch
        .as_array()
        .ok_or_else(|| invalid("must be a list of JSON Patch operations".to_owned()))?
        .iter()
        .map(operation)
        .collect::<Result<Vec<_>, _>>()
        .map_err(invalid)?;
    let budget = Budget::new(OBJECT, &WallClock);
    let mut tree = Tree::from(object.clone());
    for operation in &operations {
        jsonpatch::apply(&mut tree, operation, &budget).map_err(|error| {
            invalid(format!("{} does not apply: {error}", operation.to_value().to_json()))
        })?;
    }
    if tree.into_value() == *result {
        return Ok(());
    }
    Err(format!("unexpected patch: got {}", shown(&diff_exact(object, result))))
}

fn operation(value: &Value) -> Result<PatchOperation, String> {
    let text = |key| value.get(key).and_then(Value::as_str);
    let name = text("op").unwrap_or_default();
    let op = Op::ALL
        .into_iter()
        .find(|op| op.as_str() == name)
        .ok_or_else(|| format!("op {} is not add, replace or remove", gofmt::quote(name)))?;
    let path = text("path").ok_or("an operation has no path")?.to_owned();
    let given = value.get("value").cloned();
    match (op, &given) {
        (Op::Add | Op::Replace, None) => Err(format!("{name} {path} has no value")),
        (Op::Remove, _) => Ok(PatchOperation { op, path, value: None }),
        _ => Ok(PatchOperation { op, path, value: given }),
    }
}

fn shown(patch: &[PatchOperation]) -> String {
    jsonpatch::to_value(patch).to_json()
}
