//! Locations of mutators and sources of expansion templates that no object has.

use modgate_api::schema::names;
use modgate_value::{Value, near};

use super::{
    Lints, matching,
    places::{self, Fault, Objects, Step, What},
    types,
    values::{OPERATORS, SELECTORS, point_at},
};
use crate::admissionpolicy::Types;
use crate::mutation::location::{Location, Node};
use crate::{Code, PolicySource, Problem};

/// Checks `applyTo`, the location, and that there is something to set.
pub(super) fn lint(lints: &mut Lints<'_>) {
    matching::apply_to(lints);
    let Some(spec) = lints.object().get("spec") else { return };
    if lints.id.kind == "ModifySet" && spec.path(&["parameters", "values", "fromList"]).is_none() {
        let members = spec.path(&["parameters", "values"]).and_then(Value::as_object);
        let mut names = members.into_iter().flat_map(|members| members.keys());
        let (field, help) = match names.next() {
            Some(name) => (
                format!("spec.parameters.values.{name}"),
                near::did_you_mean_or(name, &["fromList"], "the values are in"),
            ),
            None => (
                "spec.parameters.values.fromList".to_owned(),
                "the values are in `spec.parameters.values.fromList`".to_owned(),
            ),
        };
        let message = "there are no values, so this changes nothing";
        lints.push_key(Code::NoEffect, &field, message.to_owned(), Some(help));
    }
    contradictions(lints, spec);
    external_data(lints, spec);
    label(lints, spec);
    let text = spec.get("location").and_then(Value::as_str).unwrap_or_default();
    let Ok(location) = Location::parse(text) else { return };
    let kinds: Vec<&str> = matching::entries(spec, "applyTo")
        .into_iter()
        .flat_map(|entry| matching::texts(entry, "kinds"))
        .map(|(_, kind)| kind)
        .collect();
    value_type(lints, spec, &kinds, location.nodes());
    let objects = objects(lints, spec);
    unreachable(lints, &objects, &location);
    value_of_few(lints, spec, &objects, location.nodes());
    parts_of_values(lints, spec, &objects, location.nodes());
}

/// A match block that lets no kind through that the mutator applies to.
fn contradictions(lints: &mut Lints<'_>, spec: &Value) {
    let Some(block) = spec.get("match") else { return };
    let mut applied: Vec<(&str, &str)> = Vec::new();
    for entry in matching::entries(spec, "applyTo") {
        for (_, group) in matching::texts(entry, "groups") {
            let kinds = matching::texts(entry, "kinds").into_iter();
            applied.extend(kinds.map(|(_, kind)| (group, kind)));
        }
    }
    let listed = matching::entries(block, "kinds");
    let is_listed = |(group, kind): &(&str, &str)| {
        let has = |entry: &Value, key: &str, name: &str| {
            let names = matching::texts(entry, key);
            names.is_empty() || names.iter().any(|(_, it)| *it == "*" || *it == name)
        };
        let mut entries = listed.iter();
        entries.any(|entry| has(entry, "apiGroups", group) && has(entry, "kinds", kind))
    };
    if applied.is_empty() {
        return;
    }
    if !listed.is_empty() {
        applied.retain(is_listed);
    }
    // A kind that does not exist is what is wrong.
    let is_reported = |field: &str| lints.found.iter().any(|known| known.field.starts_with(field));
    if is_reported("spec.applyTo") || is_reported("spec.match") {
        return;
    }
    if applied.is_empty() {
        let message = "none of these kinds is one of `applyTo`, so this never applies".to_owned();
        let help =
            Some("a mutator applies to the kinds that both have; one of them is enough".to_owned());
        lints.push_key(Code::NeverMatches, "spec.match.kinds", message, help);
        return;
    }
    let scope = block.get("scope").and_then(Value::as_str).unwrap_or_default();
    let scopes: Option<Vec<bool>> = applied
        .iter()
        .map(|(group, kind)| matching::is_cluster_scoped(lints.definitions, group, kind))
        .collect();
    let fits = scopes.is_none_or(|all| all.contains(&(scope == "Cluster")));
    if ["Cluster", "Namespaced"].contains(&scope) && !fits {
        let what = if scope == "Cluster" { "a namespace" } else { "no namespace" };
        let message = format!("every kind of `applyTo` has {what}, so this never applies");
        lints.push(Code::NeverMatches, "spec.match.scope", message, None);
    }
}

/// The objects that a mutator applies to, as far as the definitions at hand show.
fn objects<'a>(lints: &Lints<'a>, spec: &Value) -> Objects<'a> {
    let mut versions: Vec<(String, &str)> = Vec::new();
    for entry in matching::entries(spec, "applyTo") {
        let of = |key: &str| matching::texts(entry, key).into_iter().map(|(_, text)| text);
        for group in of("groups") {
            let prefix = if group.is_empty() { String::new() } else { format!("{group}/") };
            for version in of("versions") {
                versions.extend(of("kinds").map(|kind| (format!("{prefix}{version}"), kind)));
            }
        }
    }
    let types = [Types::kubernetes(), lints.definitions.types()];
    let versions = versions.iter().map(|(version, kind)| (version.as_str(), *kind));
    Objects::of_versions(&types, versions)
}

/// A location that no object has which the mutator applies to.
fn unreachable(lints: &mut Lints<'_>, objects: &Objects<'_>, location: &Location) {
    let field = "spec.location";
    let steps = steps_of(location.nodes());
    let Some(Fault { at, what }) = objects.fault(&steps) else { return };
    // The list in front of a step with a key belongs to it.
    let place = location.beginning(at);
    let (code, message, help) = match what {
        What::Misspelt(name, meant) => (
            Code::UnknownPath,
            format!("no kind that this applies to has the field `{name}`"),
            Some(format!("did you mean `{meant}`?")),
        ),
        What::Key(key, known) => (
            Code::UnknownPath,
            format!("the elements of `{place}` have no field `{key}`"),
            Some(key_advice(key, &known)),
        ),
        What::OfList(name, key) => {
            let key = key.unwrap_or_else(|| "name".to_owned());
            let message =
                format!("`{place}` is a list, so this fails for every object that has it");
            let help = format!("name its elements: `{place}[{key}: *].{name}`");
            (Code::NeverMatches, message, Some(help))
        }
        What::NoList => {
            let message =
                format!("`{place}` is not a list, so this fails for every object that has it");
            (Code::NeverMatches, message, None)
        }
        What::OfScalar(_) => {
            let message =
                format!("`{place}` has no members, so this fails for every object that has it");
            (Code::NeverMatches, message, None)
        }
    };
    lints.push(code, field, message, help);
}

/// Suggests a field that identifies the elements of a list.
fn key_advice(key: &str, known: &[String]) -> String {
    let names: Vec<&str> = known.iter().map(String::as_str).collect();
    near::did_you_mean(key, names.iter().copied()).unwrap_or_else(|| {
        match names.contains(&"name") {
            true => "`name` tells the elements apart: `[name: *]`".to_owned(),
            false => format!("their fields are: {}", names.join(", ")),
        }
    })
}

/// The location names the list, too.
fn steps_of(nodes: &[Node]) -> Vec<Step<'_>> {
    let steps = nodes.iter().map(|node| match node {
        Node::Field(name) => Step::Member(name),
        Node::List { key, .. } => Step::Keyed(key),
    });
    steps.collect()
}

/// The values that a mutator sets, with their fields.
fn values<'s>(lints: &Lints<'_>, spec: &'s Value) -> Vec<(String, &'s Value)> {
    match lints.id.kind.as_str() {
        "Assign" => {
            let value = spec.path(&["parameters", "assign", "value"]);
            let field = "spec.parameters.assign.value";
            value.map(|value| (field.to_owned(), value)).into_iter().collect()
        }
        "ModifySet" => {
            let list = spec.path(&["parameters", "values", "fromList"]).and_then(Value::as_array);
            let items = list.into_iter().flat_map(|list| list.iter()).enumerate();
            let field = |at: usize| format!("spec.parameters.values.fromList[{at}]");
            items.map(|(at, value)| (field(at), value)).collect()
        }
        _ => Vec::new(),
    }
}

/// A value that is none of the few that its field may have.
fn value_of_few(lints: &mut Lints<'_>, spec: &Value, objects: &Objects<'_>, nodes: &[Node]) {
    let steps = steps_of(nodes);
    let Some(known) = objects.values(&steps) else { return };
    for (field, value) in values(lints, spec) {
        let Some(text) = value.as_str().filter(|text| !known.contains(text)) else { continue };
        let help = near::did_you_mean_or(text, known, "the values are");
        let message = places::has_no_value(places::last_name(&steps), text);
        lints.push(Code::UnknownValue, &field, message, Some(help));
    }
}

/// Parts of a value that no object has at the location.
fn parts_of_values(lints: &mut Lints<'_>, spec: &Value, objects: &Objects<'_>, nodes: &[Node]) {
    if !matches!(objects, Objects::Of(_)) {
        return;
    }
    let mut steps = steps_of(nodes);
    let name = places::last_name(&steps);
    if lints.id.kind == "ModifySet" {
        steps.push(Step::Element);
    }
    let shapes = objects.shapes(&steps);
    for (field, value) in values(lints, spec) {
        for misfit in types::misfits(&shapes, name, value) {
            let field = format!("{field}{}", misfit.path);
            match misfit.code {
                Code::UnknownPath => {
                    lints.push_key(misfit.code, &field, misfit.message, misfit.help);
                }
                code => lints.push(code, &field, misfit.message, misfit.help),
            }
        }
    }
}

/// The values of `failurePolicy` and `dataSource` of external data.
const FAILURE_POLICIES: [&str; 3] = ["Fail", "Ignore", "UseDefault"];
const DATA_SOURCES: [&str; 2] = ["Username", "ValueAtLocation"];

/// Values of external data that the CRD does not allow.
fn external_data(lints: &mut Lints<'_>, spec: &Value) {
    let Some(data) = spec.path(&["parameters", "assign", "externalData"]) else { return };
    let known = [("failurePolicy", &FAILURE_POLICIES[..]), ("dataSource", &DATA_SOURCES)];
    for (member, known) in known {
        let written = data.get(member).and_then(Value::as_str).filter(|it| !it.is_empty());
        let Some(text) = written.filter(|text| !known.contains(text)) else { continue };
        let message = format!("`{member}` cannot be `{text}`, so a cluster refuses this");
        let help = near::did_you_mean_or(text, known, "the values are");
        let field = format!("spec.parameters.assign.externalData.{member}");
        lints.push(Code::UnknownValue, &field, message, Some(help));
    }
}

/// A text that no label can be.
fn label(lints: &mut Lints<'_>, spec: &Value) {
    let location = spec.get("location").and_then(Value::as_str).unwrap_or_default();
    let text = spec.path(&["parameters", "assign", "value"]).and_then(Value::as_str);
    let Some(text) = text.filter(|_| location.starts_with("metadata.labels.")) else { return };
    if !names::label_value(text).is_empty() {
        let message = format!("no label can be `{text}`, so the API server refuses the object");
        let help = "a label has at most 63 letters, digits, `-`, `_` and `.`, and begins and ends with a letter or a \
                    digit; an annotation has any text";
        let field = "spec.parameters.assign.value";
        lints.push(Code::UnknownValue, field, message, Some(help.to_owned()));
    }
}

/// A value that does not have the type of the field that it is for.
fn value_type(lints: &mut Lints<'_>, spec: &Value, kinds: &[&str], nodes: &[Node]) {
    let of_kubernetes = |group: &&str| modgate_api::kinds::of_group(group).is_some();
    let groups = matching::entries(spec, "applyTo").into_iter();
    let mut groups = groups.flat_map(|entry| matching::texts(entry, "groups"));
    if !groups.all(|(_, group)| of_kubernetes(&group)) {
        return;
    }
    let mut steps = steps_of(nodes);
    if lints.id.kind == "ModifySet" {
        if let Some(expected) = types::mismatch(kinds, &steps, &Value::from(Vec::new())) {
            let message = format!("the field is {expected}, and a `ModifySet` is for lists");
            lints.push(Code::ValueType, "spec.location", message, None);
            return;
        }
        steps.push(Step::Element);
    }
    let values = values(lints, spec);
    for (field, value) in values {
        if let Some(expected) = types::mismatch(kinds, &steps, value) {
            let message =
                format!("the field is {expected}, and the value is {}", types::shown(value));
            lints.push(Code::ValueType, &field, message, None);
        }
    }
}

/// Checks `templateSource` of an expansion template: where the generated object stands.
pub(super) fn template_source(lints: &mut Lints<'_>) {
    let Some(spec) = lints.object().get("spec") else { return };
    let text = spec.get("templateSource").and_then(Value::as_str).unwrap_or_default();
    let known = ["spec.template", "spec.jobTemplate"];
    if let Some(meant) = near::nearest(text, known).filter(|_| !known.contains(&text)) {
        lints.push(
            Code::UnknownPath,
            "spec.templateSource",
            format!("no kind that this expands has `{text}`"),
            Some(format!("did you mean `{meant}`?")),
        );
    }
}

/// The conditions of path tests.
const CONDITIONS: [&str; 2] = ["MustExist", "MustNotExist"];

/// The operations of `applyTo`.
const OPERATIONS: [&str; 3] = ["CREATE", "UPDATE", "*"];

/// Adds place and advice to the problem of a mutator that does not compile.
pub(crate) fn advise(problem: &mut Problem, source: &PolicySource) {
    problem.help = advice(&source.object, &problem.field);
    if super::refused::in_mutator(problem, source) {
        return;
    }
    let (places, known, otherwise): (&[&str], &[&str], &str) = match problem.field.as_str() {
        "spec.parameters.pathTests" => {
            (&["spec.parameters.pathTests.*.condition"], &CONDITIONS, "the conditions are")
        }
        "spec.applyTo" => (&["spec.applyTo.*.operations.*"], &OPERATIONS, "the operations are"),
        "spec.match" => (&SELECTORS, &OPERATORS, "the operators are"),
        _ => return,
    };
    point_at(problem, source, places, known, otherwise);
}

/// Advice about a mutator that does not compile because of this field.
fn advice(object: &Value, field: &str) -> Option<String> {
    let at = |field: &str| object.pointer(&crate::policy::pointer(field));
    let text = |field: &str| at(field).and_then(Value::as_str).unwrap_or_default();
    match field {
        "spec.location" => location_advice(text(field), object),
        "spec.parameters.operation" => {
            Some(near::did_you_mean_or(text(field), &["merge", "prune"], "the values are"))
        }
        "spec.parameters.assign.fromMetadata.field" => {
            Some(near::did_you_mean_or(text(field), &["name", "namespace"], "the values are"))
        }
        "spec.parameters.assign.value" => Some("put the value in quotes".to_owned()),
        "spec.parameters" if at("spec.parameters.value").is_some() => {
            Some("the value is `spec.parameters.assign.value`".to_owned())
        }
        "spec.applyTo" if at(field).is_none() => {
            Some("write `applyTo: [{groups: [\"\"], versions: [v1], kinds: [Pod]}]`".to_owned())
        }
        _ => None,
    }
}

fn location_advice(text: &str, object: &Value) -> Option<String> {
    if let Some(rest) = text.strip_prefix("$.").or_else(|| text.strip_prefix('$')) {
        return Some(format!("a location has no `$`: did you mean `{rest}`?"));
    }
    if text.starts_with('/') {
        return Some(
            "a location has dots, not slashes: `spec.containers[name: *].image`".to_owned(),
        );
    }
    let index =
        |part: &str| part.starts_with(|first: char| first.is_ascii_digit() || "*]".contains(first));
    if text.split('[').skip(1).any(index) {
        let advice = "name the elements of a list by a field: `[name: x]`, or `[name: *]` for all";
        return Some(advice.to_owned());
    }
    if text.matches('[').count() > text.matches(']').count() {
        return Some("a `]` is missing".to_owned());
    }
    let mut steps = text.splitn(3, '.');
    let (first, map, name) = (steps.next()?, steps.next()?, steps.next());
    if first != "metadata" {
        let of_metadata = object.get("kind").and_then(Value::as_str) == Some("AssignMetadata");
        return of_metadata.then(|| {
            "the location is `metadata.labels.NAME` or `metadata.annotations.NAME`".to_owned()
        });
    }
    if object.get("kind").and_then(Value::as_str) != Some("AssignMetadata") {
        return Some("labels and annotations are set by an `AssignMetadata`".to_owned());
    }
    let maps = ["annotations", "labels"];
    if !maps.contains(&map) {
        return near::did_you_mean(map, maps);
    }
    let name = name.filter(|name| name.contains('.') || name.contains('/'))?;
    let name = name.trim_matches('"');
    Some(format!("names with dots need quotes: `metadata.{map}.\"{name}\"`"))
}
