//! Gatekeeper's policies (spec `gatekeeper-validation.md`, section 11, and
//! `gatekeeper-mutation-expansion-gator.md`, section 9.1).

use std::collections::BTreeSet;

use modgate_api::{constraints, expansion, externaldata, mutations, templates};
use modgate_value::{Value, regex::GoRegex};

use super::About;
use crate::object::{InstalledObject, list, text, texts};

/// Findings about a policy; `objects` are all objects.
pub(super) fn policy(about: &mut About<'_>, objects: &[InstalledObject]) {
    match about.found.group() {
        templates::GROUP => template(about),
        constraints::GROUP => constraint(about),
        mutations::GROUP => mutator(about),
        expansion::GROUP => expansion_template(about, objects),
        externaldata::GROUP => provider(about),
        _ => {}
    }
}

/// Built-in functions that reach the network or the process (REGO-8).
const WITHHELD: &str = r"\b(http\.send|opa\.runtime|net\.lookup_ip_addr|rego\.parse_module|rego\.metadata\.|graphql\.|providers\.aws\.sign_req)";

fn template(about: &mut About<'_>) {
    let found = about.found;
    for (index, target) in found.list(&["spec", "targets"]).iter().enumerate() {
        let sources = rego_sources(target);
        let calls =
            |source: &str| GoRegex::new(WITHHELD).is_ok_and(|pattern| pattern.is_match(source));
        if sources.iter().any(|source| calls(source)) {
            about.say(
                "REGO-8",
                format!("spec.targets[{index}]"),
                "calls of built-ins that reach the network fail; ask a Provider with \
                 `external_data` instead",
            );
        }
        let cel = list(target, &["code"])
            .iter()
            .any(|code| text(code, &["engine"]) == "K8sNativeValidation");
        let deletes = texts(target, &["operations"]).any(|it| it == "DELETE" || it == "*");
        if cel && !sources.is_empty() && deletes {
            about.say(
                "GK-Q-12",
                format!("spec.targets[{index}].operations"),
                "when an object is deleted, Rego always sees the old object and CEL none; \
                 Gatekeeper's Rego sometimes saw none",
            );
        }
    }
}

/// The Rego of a target, in whichever members it stands.
fn rego_sources(target: &Value) -> Vec<&str> {
    let old = [text(target, &["rego"])].into_iter().chain(texts(target, &["libs"]));
    let new = list(target, &["code"])
        .iter()
        .filter(|code| text(code, &["engine"]) == "Rego")
        .flat_map(|code| {
            [text(code, &["source", "rego"])].into_iter().chain(texts(code, &["source", "libs"]))
        });
    old.chain(new).filter(|source| !source.is_empty()).collect()
}

fn constraint(about: &mut About<'_>) {
    let found = about.found;
    let action = found.object.path(&["spec", "enforcementAction"]).and_then(Value::as_str);
    if action == Some("") {
        about.say(
            "GK-Q-20",
            "spec.enforcementAction",
            "an empty action means `deny`; Gatekeeper's webhook does nothing for it",
        );
    }
    if found.list(&["spec", "scopedEnforcementActions"]).len() > 1 {
        about.say(
            "GK-Q-36",
            "spec.scopedEnforcementActions",
            "the actions are shown sorted; Gatekeeper shows them in random order",
        );
    }
}

/// Integers beyond this are not exact as floating-point numbers.
const EXACT: u64 = 1 << 53;

fn mutator(about: &mut About<'_>) {
    let found = about.found;
    let parameters = found.object.path(&["spec", "parameters"]);
    let parameters = parameters.unwrap_or(&Value::Null);
    if parameters.get("assignIf").is_some() {
        about.say(
            "restored-assignIf",
            "spec.parameters.assignIf",
            "the condition is honoured; Gatekeeper ignores it and always assigns",
        );
    } else if last_applied(found)
        .is_some_and(|applied| applied.path(&["spec", "parameters", "assignIf"]).is_some())
    {
        about.say(
            "restored-assignIf",
            "metadata.annotations",
            "`assignIf` was applied and Gatekeeper's CRD dropped it: once it is applied again, the \
             mutator assigns under that condition only",
        );
    }
    for (path, field) in [
        (&["spec", "source"][..], "spec.source"),
        (&["spec", "match", "origin"], "spec.match.origin"),
    ] {
        if found.object.path(path).is_some() {
            about.say(
                "source-aliases",
                field,
                "it means `spec.match.source`; Gatekeeper ignores it, so that the mutator changes \
                 objects of every source",
            );
        }
    }
    if numbers(parameters).any(|number| number.unsigned_abs() > EXACT) {
        about.say(
            "fix-numbers",
            "spec.parameters",
            "large integers are exact; Gatekeeper rounds them",
        );
    }
    if found.kind() == "ModifySet" {
        modify_set(about, parameters);
    }
    external_data(about, parameters);
}

fn modify_set(about: &mut About<'_>, parameters: &Value) {
    let operation = text(parameters, &["operation"]);
    if operation.is_empty() {
        about.say(
            "fix-default-merge",
            "spec.parameters.operation",
            "without an operation it merges; in Gatekeeper every request that it matches fails",
        );
    }
    if operation == "prune" {
        about.say(
            "fix-prune-creates",
            "spec.parameters.operation",
            "pruning never creates anything; Gatekeeper's creates missing parents",
        );
    }
    if list(parameters, &["values", "fromList"]).is_empty() {
        about.say(
            "fix-empty-values",
            "spec.parameters.values",
            "without values it does nothing; Gatekeeper's writes null",
        );
    }
}

fn external_data(about: &mut About<'_>, parameters: &Value) {
    let Some(external) = parameters.path(&["assign", "externalData"]) else { return };
    let field = |name: &str| format!("spec.parameters.assign.externalData.{name}");
    if text(external, &["failurePolicy"]).is_empty() {
        about.say(
            "fix-default-fail",
            field("failurePolicy"),
            "a provider that fails fails the request; Gatekeeper assigns the empty text",
        );
    }
    if text(external, &["dataSource"]) == "Username" && about.found.kind() != "AssignMetadata" {
        about.say(
            "fix-username-key",
            field("dataSource"),
            "the provider is sent the name of the user; Gatekeeper sends the value at the location \
             if there is one",
        );
    }
}

/// Every integer in a value.
fn numbers(value: &Value) -> Box<dyn Iterator<Item = i64> + '_> {
    match value {
        Value::Object(members) => Box::new(members.iter().flat_map(|(_, it)| numbers(it))),
        Value::Array(items) => Box::new(items.iter().flat_map(numbers)),
        other => Box::new(other.as_i64().into_iter()),
    }
}

/// The object that `kubectl apply` last sent.
fn last_applied(found: &InstalledObject) -> Option<Value> {
    const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";
    Value::from_json(found.text(&["metadata", "annotations", ANNOTATION]).as_bytes()).ok()
}

fn expansion_template(about: &mut About<'_>, objects: &[InstalledObject]) {
    let found = about.found;
    let others = objects
        .iter()
        .filter(|other| other.group() == expansion::GROUP && other.name() != found.name());
    let own = generators(found);
    let same: BTreeSet<&str> = others
        .filter(|other| !generators(other).is_disjoint(&own))
        .map(InstalledObject::name)
        .collect();
    if !same.is_empty() {
        let names: Vec<&str> = same.into_iter().collect();
        about.say(
            "fix-expansion-order",
            "spec.applyTo",
            &format!(
                "templates for one kind are taken by name, Gatekeeper takes them in random order: \
                 `{}` is for the same kind",
                names.join("`, `")
            ),
        );
    }
    let entries: usize =
        found.list(&["spec", "applyTo"]).iter().map(|entry| kinds(entry).len()).sum();
    if entries > own.len() {
        about.say(
            "fix-duplicate-edges",
            "spec.applyTo",
            "a kind that is named twice is harmless; Gatekeeper does not load the template",
        );
    }
    let is_scoped = |other: &InstalledObject| {
        other.group() == constraints::GROUP
            && other.text(&["spec", "enforcementAction"]) == "scoped"
    };
    if !found.text(&["spec", "enforcementAction"]).is_empty() && objects.iter().any(is_scoped) {
        about.say(
            "fix-override-scoped",
            "spec.enforcementAction",
            "the action of the template replaces scoped actions, too; Gatekeeper leaves them",
        );
    }
}

/// The kinds an expansion template is for.
fn generators(found: &InstalledObject) -> BTreeSet<(&str, &str, &str)> {
    found.list(&["spec", "applyTo"]).iter().flat_map(kinds).collect()
}

fn kinds(entry: &Value) -> Vec<(&str, &str, &str)> {
    let mut all = Vec::new();
    for group in texts(entry, &["groups"]) {
        for version in texts(entry, &["versions"]) {
            all.extend(texts(entry, &["kinds"]).map(|kind| (group, version, kind)));
        }
    }
    all
}

fn provider(about: &mut About<'_>) {
    let timeout = about.found.object.path(&["spec", "timeout"]).and_then(Value::as_i64);
    if timeout.unwrap_or_default() == 0 {
        about.say(
            "fix-timeout-zero",
            "spec.timeout",
            "without a timeout a provider has 5 seconds; in Gatekeeper every call fails at once",
        );
    }
}
