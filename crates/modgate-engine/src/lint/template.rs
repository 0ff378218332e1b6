//! Sources of a template that no engine reads, and members of sources: the schema of the CRD leaves them open.

use modgate_rego::{RegoVersion, parse_module};
use modgate_value::{Value, diag::Span, near};

use super::{
    Definitions, Lints, allow,
    expressions::{self, Owner},
    fields::help,
    inventory, matching,
    places::Objects,
    rego, schema,
};
use crate::{Code, PolicySource, Problem, admissionpolicy::Types};

/// The members of a source, by engine, and of the items of its lists.
const REGO: [&str; 3] = ["libs", "rego", "version"];
const LISTS: [(&str, &[&str]); 3] = [
    ("matchCondition", &["expression", "name"]),
    ("validations", &["expression", "message", "messageExpression"]),
    ("variables", &["expression", "name"]),
];

/// Where a CEL source has expressions.
const EXPRESSIONS: [(&str, &[&str]); 4] = [
    ("variables", &["expression"]),
    ("matchCondition", &["expression"]),
    ("matchConditions", &["expression"]),
    ("validations", &["expression", "messageExpression"]),
];

/// The versions of Rego that a source can name.
const VERSIONS: [&str; 2] = ["v0", "v1"];

/// Checks every entry of `code`. The members of a CEL source itself are checked where it is compiled.
pub(super) fn lint(lints: &mut Lints<'_>) {
    let Some(target) = lints.object().pointer("/spec/targets/0") else { return };
    let Some(code) = target.get("code").and_then(Value::as_array) else { return };
    let legacy = target.get("rego").and_then(Value::as_str).unwrap_or_default();
    // `rego` wins over an entry of `code` (TC-10).
    let mut read: Vec<&str> = if legacy.is_empty() { Vec::new() } else { vec!["Rego"] };
    for (index, entry) in code.iter().enumerate() {
        let field = format!("spec.targets[0].code[{index}]");
        let (engine, source) = (entry.get("engine").and_then(Value::as_str), entry.get("source"));
        if let Some(engine) = engine {
            if read.contains(&engine) {
                let message = "another source of this engine is read instead of this one";
                let help = Some("keep one of them".to_owned());
                lints.push_key(Code::NoEffect, &field, message.to_owned(), help);
            }
            read.push(engine);
        }
        let field = format!("{field}.source");
        match (engine, source) {
            (Some("Rego"), Some(source)) => {
                members(lints, source, &field, &REGO);
                version(lints, source, &field);
            }
            (Some("K8sNativeValidation"), Some(source)) => {
                for (list, known) in LISTS {
                    let items = source.get(list).and_then(Value::as_array);
                    for (at, item) in items.into_iter().flat_map(|items| items.iter()).enumerate() {
                        members(lints, item, &format!("{field}.{list}[{at}]"), known);
                    }
                }
            }
            _ => {}
        }
    }
}

/// How deep a schema is looked at.
const MAX_DEPTH: usize = 32;

/// Members that a schema requires and does not have, and that are near to one that it has.
pub(super) fn required(lints: &mut Lints<'_>) {
    let path = ["spec", "crd", "spec", "validation", "openAPIV3Schema"];
    if let Some(schema) = lints.object().path(&path) {
        required_of(lints, schema, &path.join("."), MAX_DEPTH);
    }
}

fn required_of(lints: &mut Lints<'_>, schema: &Value, field: &str, left: usize) {
    if left == 0 {
        return;
    }
    let properties = schema.get("properties").and_then(Value::as_object);
    let known: Vec<&str> =
        properties.into_iter().flat_map(|it| it.keys()).map(|it| it.as_str()).collect();
    let required = schema.get("required").and_then(Value::as_array);
    for (at, name) in required.into_iter().flat_map(|list| list.iter()).enumerate() {
        let Some(name) = name.as_str().filter(|name| !known.contains(name)) else { continue };
        if let Some(help) = near::did_you_mean(name, known.iter().copied()) {
            let message = format!("the schema requires `{name}` and has no such property");
            lints.push(Code::UnknownValue, &format!("{field}.required[{at}]"), message, Some(help));
        }
    }
    for (name, below) in properties.into_iter().flat_map(|properties| properties.iter()) {
        required_of(lints, below, &format!("{field}.properties.{name}"), left - 1);
    }
    for member in ["additionalProperties", "items"] {
        if let Some(below) = schema.get(member) {
            required_of(lints, below, &format!("{field}.{member}"), left - 1);
        }
    }
}

/// Fields that no object has which these constraints of the template match: all of them name Kubernetes' own kinds, or
/// kinds whose definitions are at hand. What is wrong for objects of every kind has warnings already.
pub(crate) fn matched(
    source: &PolicySource,
    constraints: &[&Value],
    definitions: &Definitions,
) -> Vec<Problem> {
    let mut kinds = Vec::new();
    for constraint in constraints {
        let block = constraint.path(&["spec", "match"]);
        let entries = block.map(|block| matching::entries(block, "kinds")).unwrap_or_default();
        if entries.is_empty() {
            return Vec::new();
        }
        for entry in entries {
            let of = |key| matching::texts(entry, key).into_iter().map(|(_, text)| text);
            let (groups, names): (Vec<&str>, Vec<&str>) =
                (of("apiGroups").collect(), of("kinds").collect());
            if groups.is_empty() || names.is_empty() {
                return Vec::new();
            }
            kinds.extend(groups.iter().flat_map(|group| names.iter().map(|name| (*group, *name))));
        }
    }
    let types = [Types::kubernetes(), definitions.types()];
    let objects = Objects::matched(&types, kinds.into_iter());
    if matches!(objects, Objects::Any) {
        return Vec::new();
    }
    let id = source.id();
    let found = |objects: &Objects<'_>| {
        let mut lints = Lints { id: &id, source, definitions, found: Vec::new() };
        paths_of(&mut lints, objects);
        lints.found.retain(|problem| problem.code == Some(Code::UnknownPath));
        lints.found
    };
    let mut found_here = found(&objects);
    if !found_here.is_empty() {
        let known = found(&Objects::Any);
        let is_known = |it: &Problem| {
            known.iter().any(|other| other.field == it.field && other.span == it.span)
        };
        found_here.retain(|problem| !is_known(problem));
    }
    allow::retain(&source.object, &mut found_here, 0);
    found_here
}

/// Fields of objects that Rego and CEL misspell.
pub(super) fn paths(lints: &mut Lints<'_>) {
    paths_of(lints, &Objects::Any);
}

fn paths_of(lints: &mut Lints<'_>, objects: &Objects<'_>) {
    let Some(target) = lints.object().pointer("/spec/targets/0") else { return };
    let field = "spec.targets[0]";
    let legacy = target.get("rego").and_then(Value::as_str).unwrap_or_default();
    if !legacy.is_empty() {
        return modules(lints, target, field, RegoVersion::V0, objects);
    }
    let code = target.get("code").and_then(Value::as_array);
    for (index, entry) in code.into_iter().flat_map(|code| code.iter()).enumerate() {
        let Some(source) = entry.get("source") else { continue };
        let field = format!("{field}.code[{index}].source");
        match entry.get("engine").and_then(Value::as_str) {
            Some("Rego") => {
                let is_v1 = source.get("version").and_then(Value::as_str) == Some("v1");
                let version = if is_v1 { RegoVersion::V1 } else { RegoVersion::V0 };
                modules(lints, source, &field, version, objects);
            }
            Some("K8sNativeValidation") => expressions(lints, source, &field, objects),
            _ => {}
        }
    }
}

/// The module of a source, and its libraries.
fn modules(
    lints: &mut Lints<'_>,
    source: &Value,
    field: &str,
    version: RegoVersion,
    objects: &Objects<'_>,
) {
    let main = source.get("rego").and_then(Value::as_str);
    let main = main.map(|text| (format!("{field}.rego"), text));
    let libs = source.get("libs").and_then(Value::as_array);
    let libs = libs.into_iter().flat_map(|libs| libs.iter()).enumerate();
    let libs = libs.filter_map(|(at, text)| Some((format!("{field}.libs[{at}]"), text.as_str()?)));
    let texts: Vec<(String, &str)> = main.into_iter().chain(libs).collect();
    // Rules may be evaluated with another `input`.
    if texts.iter().any(|(_, text)| text.contains("with input")) {
        return;
    }
    for (field, text) in texts {
        let Ok(module) = parse_module("", text, version) else { continue };
        let parameters = schema::of_template(lints.object());
        let found = inventory::lint(&module, lints.definitions).into_iter();
        for found in rego::lint(&module, parameters, objects).into_iter().chain(found) {
            lints.push(found.code, &field, found.message, found.help);
            let (start, end) = (found.span.start as usize, found.span.end as usize);
            lints.mark(text, Span::new(start, end));
        }
    }
}

/// The expressions of a source.
fn expressions(lints: &mut Lints<'_>, source: &Value, field: &str, objects: &Objects<'_>) {
    let parts = expressions::parts(source, field, &EXPRESSIONS);
    let owner = Owner::Template(schema::of_template(lints.object()));
    for found in expressions::lint(&parts, objects, owner) {
        let Some(part) = parts.get(found.part) else { continue };
        lints.push(found.code, &part.field, found.message, found.help);
        lints.mark(part.text, found.span);
    }
}

/// A version that is neither of the two means `v0`.
fn version(lints: &mut Lints<'_>, source: &Value, field: &str) {
    let version = source.get("version").and_then(Value::as_str).unwrap_or_default();
    if !version.is_empty() && !VERSIONS.contains(&version) {
        let message = format!("`{version}` is unknown and means `v0`");
        // `v2` is as near to one as to the other.
        let help = format!("the versions are: {}", VERSIONS.join(", "));
        lints.push(Code::UnknownValue, &format!("{field}.version"), message, Some(help));
    }
}

fn members(lints: &mut Lints<'_>, value: &Value, field: &str, known: &[&str]) {
    let names = value.as_object().into_iter().flat_map(|members| members.keys());
    let unknown: Vec<String> = names
        .filter(|name| !known.contains(&name.as_str()))
        .map(|name| format!("{field}.{name}"))
        .collect();
    for field in unknown {
        let help = help(&field, known);
        lints.push_key(Code::UnknownField, &field, "unknown field, ignored".to_owned(), Some(help));
    }
}
