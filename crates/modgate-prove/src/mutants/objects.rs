//! Changes of objects: match blocks, ModRules, mutators, and where the code of other policies stands.

use modgate_engine::{matching::Criterion, rego::RegoVersion};
use modgate_value::Value;

use super::{Change, Edit, MutantList, below, cel, keys, rego};
use crate::value::{self, Step};

/// A ConstraintTemplate: its code.
pub(super) fn template(policy: &Value, found: &mut MutantList) {
    let target = [keys(&["spec", "targets"]), vec![0.into()]].concat();
    let Some(wire) = value::at(policy, &target) else { return };
    if wire.get("rego").and_then(Value::as_str).is_some_and(|rego| !rego.is_empty()) {
        return modules(policy, &target, RegoVersion::V0, found);
    }
    let code = wire.get("code").and_then(Value::as_array);
    let codes = code.into_iter().flat_map(|code| code.iter()).enumerate();
    let engine = |code: &Value| code.get("engine").and_then(Value::as_str).map(str::to_owned);
    let mut codes: Vec<_> =
        codes.filter_map(|(index, code)| Some((engine(code)?, index, code))).collect();
    // CEL is evaluated where there is both.
    codes.sort_by_key(|(engine, ..)| engine == "Rego");
    let Some((engine, index, code)) = codes.into_iter().next() else { return };
    let source = [target, vec!["code".into(), index.into(), "source".into()]].concat();
    if engine == "Rego" {
        let version = code.path(&["source", "version"]).and_then(Value::as_str);
        let version = if version == Some("v1") { RegoVersion::V1 } else { RegoVersion::V0 };
        return modules(policy, &source, version, found);
    }
    let conditions = ["matchCondition", "matchConditions"];
    for (list, member) in [("variables", "expression"), ("validations", "expression")] {
        expressions(policy, &below(&source, list), &[member], found);
    }
    for list in conditions {
        dropped(policy, &below(&source, list), Change::Widened, found);
        expressions(policy, &below(&source, list), &["expression"], found);
    }
    validations(policy, &below(&source, "validations"), found);
}

fn modules(policy: &Value, source: &[Step], version: RegoVersion, found: &mut MutantList) {
    let libraries = below(source, "libs");
    let count = value::at(policy, &libraries).and_then(Value::as_array).map_or(0, |it| it.len());
    let mut paths = vec![below(source, "rego")];
    paths.extend((0..count).map(|index| below(&libraries, index)));
    for path in paths {
        if let Some(text) = value::at(policy, &path).and_then(Value::as_str) {
            rego::module(text, version, &path, found);
        }
    }
}

/// A ValidatingAdmissionPolicy or a MutatingAdmissionPolicy.
pub(super) fn admission_policy(policy: &Value, found: &mut MutantList) {
    let list = |name: &str| keys(&["spec", name]);
    expressions(policy, &list("variables"), &["expression"], found);
    dropped(policy, &list("matchConditions"), Change::Widened, found);
    expressions(policy, &list("matchConditions"), &["expression"], found);
    expressions(policy, &list("validations"), &["expression"], found);
    validations(policy, &list("validations"), found);
    expressions(policy, &list("auditAnnotations"), &["valueExpression"], found);
    dropped(policy, &list("mutations"), Change::Rule, found);
    for part in ["applyConfiguration", "jsonPatch"] {
        expressions(policy, &list("mutations"), &[part, "expression"], found);
    }
}

/// Each validation is left out, and each message is.
fn validations(policy: &Value, list: &[Step], found: &mut MutantList) {
    dropped(policy, list, Change::Rule, found);
    for (path, validation) in items(policy, list) {
        for member in ["messageExpression", "message"] {
            let message = validation.get(member).and_then(Value::as_str);
            if message.is_some_and(|message| !message.trim().is_empty()) {
                found.add(Change::Message, &below(&path, member), Edit::Remove);
            }
        }
    }
}

/// The match block of a constraint, of which each clause is left out, and each element of a list.
pub(super) fn match_block(policy: &Value, found: &mut MutantList) {
    let block = keys(&["spec", "match"]);
    for criterion in Criterion::ALL {
        let clause = below(&block, criterion.as_str());
        if value::at(policy, &clause).is_none() {
            continue;
        }
        found.add(Change::Widened, &clause, Edit::Remove);
        dropped(policy, &clause, Change::Element, found);
        for (entry, _) in items(policy, &clause) {
            for member in ["apiGroups", "kinds"] {
                dropped(policy, &below(&entry, member), Change::Element, found);
            }
        }
        for member in ["matchLabels", "matchExpressions"] {
            let inner = below(&clause, member);
            if value::at(policy, &inner).is_some() {
                found.add(Change::Widened, &inner, Edit::Remove);
            }
        }
    }
}

/// A mutator: its match block, what it assigns, and where it may.
pub(super) fn mutator(policy: &Value, found: &mut MutantList) {
    match_block(policy, found);
    let parameters = keys(&["spec", "parameters"]);
    dropped(policy, &below(&parameters, "pathTests"), Change::Widened, found);
    for member in ["assignIf", "pathTests"] {
        let path = below(&parameters, member);
        if value::at(policy, &path).is_some() {
            found.add(Change::Widened, &path, Edit::Remove);
        }
    }
    for path in [
        &["assign", "value"][..],
        &["operation"],
        &["assignDomain"],
        &["assignPath"],
        &["assignTag"],
    ] {
        let path = [parameters.clone(), keys(path)].concat();
        if let Some(other) = value::at(policy, &path).and_then(other) {
            found.add(Change::Constant, &path, Edit::Replace(other));
        }
    }
    let path = [parameters, keys(&["values", "fromList"])].concat();
    dropped(policy, &path, Change::Element, found);
}

/// A ModRule: criteria, operations and the message.
pub(super) fn modrule(policy: &Value, found: &mut MutantList) {
    let criteria = keys(&["spec", "match"]);
    dropped(policy, &criteria, Change::Widened, found);
    for (path, item) in items(policy, &criteria) {
        let negate = item.get("negate").and_then(Value::as_bool).unwrap_or(false);
        let change = if negate { Change::Negation } else { Change::Logic };
        found.add(change, &below(&path, "negate"), Edit::Replace((!negate).into()));
        for member in ["matchValue", "matchRegex"] {
            if let Some(other) = item.get(member).and_then(other) {
                found.add(Change::Constant, &below(&path, member), Edit::Replace(other));
            }
        }
        dropped(policy, &below(&path, "matchValues"), Change::Element, found);
        let all = item.get("matchFor").and_then(Value::as_str) == Some("All");
        if all {
            found.add(Change::Logic, &below(&path, "matchFor"), Edit::Replace("Any".into()));
        }
    }
    let operations = keys(&["spec", "patch"]);
    dropped(policy, &operations, Change::Rule, found);
    for (path, operation) in items(policy, &operations) {
        if let Some(other) = operation.get("value").and_then(other) {
            found.add(Change::Constant, &below(&path, "value"), Edit::Replace(other));
        }
    }
    let message = keys(&["spec", "rejectMessage"]);
    if value::at(policy, &message).and_then(Value::as_str).is_some_and(|text| !text.is_empty()) {
        found.add(Change::Message, &message, Edit::Replace("".into()));
    }
}

/// Another value of the same type.
fn other(value: &Value) -> Option<Value> {
    Some(match value {
        Value::Bool(value) => (!value).into(),
        Value::Number(number) => number.as_i64()?.saturating_add(1).into(),
        Value::String(text) if text.is_empty() => "mutant".into(),
        Value::String(_) => "".into(),
        Value::Null | Value::Array(_) | Value::Object(_) => return None,
    })
}

/// Each element of a list is left out.
fn dropped(policy: &Value, list: &[Step], change: Change, found: &mut MutantList) {
    let items = items(policy, list);
    if items.len() == 1 && change == Change::Element {
        // An empty list is no list, which the clause without it shows.
        return;
    }
    for (path, _) in items {
        found.add(change, &path, Edit::Remove);
    }
}

/// The changes of the expressions that elements of a list have at a path.
fn expressions(policy: &Value, list: &[Step], member: &[&str], found: &mut MutantList) {
    for (path, item) in items(policy, list) {
        if let Some(text) = item.path(member).and_then(Value::as_str) {
            cel::expression(text, &[path, keys(member)].concat(), found);
        }
    }
}

fn items<'v>(policy: &'v Value, list: &[Step]) -> Vec<(Vec<Step>, &'v Value)> {
    let items = value::at(policy, list).and_then(Value::as_array);
    let items = items.into_iter().flat_map(|items| items.iter()).enumerate();
    items.map(|(index, item)| (below(list, index), item)).collect()
}
