//! Expressions of the cluster's own policies that read or build what no object of their rules has.

use modgate_api::meta::split_api_version;
use modgate_value::Value;

use super::{
    Lints,
    expressions::{self, Owner, Part},
    matching::{entries, texts},
    places::Objects,
};
use crate::admissionpolicy::Types;

/// Subresources whose requests bring the whole object.
const WHOLE: [&str; 3] = ["ephemeralcontainers", "resize", "status"];

/// Where a policy has expressions, beside its mutations.
const EXPRESSIONS: [(&str, &[&str]); 4] = [
    ("variables", &["expression"]),
    ("matchConditions", &["expression"]),
    ("validations", &["expression", "messageExpression"]),
    ("auditAnnotations", &["valueExpression"]),
];

/// Checks every expression of a policy.
pub(super) fn lint(lints: &mut Lints<'_>) {
    let Some(spec) = lints.object().get("spec") else { return };
    let parts = parts(spec);
    for found in expressions::lint(&parts, &objects(lints, spec), Owner::Policy) {
        let Some(part) = parts.get(found.part) else { continue };
        lints.push(found.code, &part.field, found.message, found.help);
        lints.mark(part.text, found.span);
    }
}

/// The expressions, variables in front of what reads them.
fn parts(spec: &Value) -> Vec<Part<'_>> {
    let mut parts = expressions::parts(spec, "spec", &EXPRESSIONS);
    for (at, item) in entries(spec, "mutations").into_iter().enumerate() {
        for member in ["applyConfiguration", "jsonPatch"] {
            let text = item.path(&[member, "expression"]).and_then(Value::as_str);
            let field = format!("spec.mutations[{at}].{member}.expression");
            parts.extend(text.map(|text| Part { field, text, variable: None }));
        }
    }
    parts
}

/// The objects of the rules; any objects where one of the rules may be about kinds that are not known.
fn objects<'a>(lints: &Lints<'a>, spec: &Value) -> Objects<'a> {
    let types = [Types::kubernetes(), lints.definitions.types()];
    let mut versions = Vec::new();
    let Some(block) = spec.get("matchConstraints") else { return Objects::Any };
    for rule in entries(block, "resourceRules") {
        let of = |key: &str| texts(rule, key).into_iter().map(|(_, text)| text);
        for resource in of("resources") {
            let (name, subresource) = resource.split_once('/').unwrap_or((resource, ""));
            if name == "*" || !(subresource.is_empty() || WHOLE.contains(&subresource)) {
                return Objects::Any;
            }
            let before = versions.len();
            for (version, kind) in types.iter().flat_map(|types| types.keys()) {
                let (group, served) = split_api_version(version);
                let is_one = |key: &str, value: &str| of(key).any(|it| it == "*" || it == value);
                let plural = lints.plural(group, kind);
                if plural == name && is_one("apiGroups", group) && is_one("apiVersions", served) {
                    versions.push((version.as_str(), kind.as_str()));
                }
            }
            if versions.len() == before || of("apiGroups").any(|group| group == "*") {
                return Objects::Any;
            }
        }
    }
    Objects::of_versions(&types, versions.into_iter())
}
