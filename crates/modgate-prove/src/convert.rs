//! The cluster's own policies as templates with constraints, and templates in CEL as policies of the
//! cluster.
//!
//! A [`Conversion`] has the objects and what they do not say. [`prove`](proof::prove) decides invented
//! requests with both.

mod generated;
mod matching;
pub mod proof;
mod template;

use std::collections::BTreeSet;

use modgate_engine::{
    api::{
        constraints::{self, Constraint},
        meta::split_api_version,
        templates,
    },
    constraint::{
        ConstraintSchema,
        vap::{self, VapOptions},
    },
};
use modgate_value::{Str, Value};

pub use self::template::policies;

/// Something that a converted policy does not say.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Loss {
    /// The field of the source, such as `spec.validations[0].reason`.
    pub field: String,
    /// The part that is lost, and why.
    pub message: String,
}

impl Loss {
    fn new(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { field: field.into(), message: message.into() }
    }
}

/// One policy or template, converted.
#[derive(Debug, Clone, PartialEq)]
pub struct Conversion {
    /// Kind and name of the source.
    pub source: String,
    /// The converted objects: the policy or template first, then its bindings or constraints and
    /// their parameters.
    pub originals: Vec<Value>,
    /// The objects in the other language; none where the source cannot be converted.
    pub objects: Vec<Value>,
    /// The parts that they do not express, sorted.
    pub losses: Vec<Loss>,
}

fn text<'v>(value: &'v Value, path: &[&str]) -> &'v str {
    value.path(path).and_then(Value::as_str).unwrap_or_default()
}

fn name(value: &Value) -> &str {
    text(value, &["metadata", "name"])
}

fn is_of(value: &Value, group: &str) -> bool {
    split_api_version(text(value, &["apiVersion"])).0 == group
}

fn object<K: Into<Str>>(members: impl IntoIterator<Item = (K, Value)>) -> Value {
    members.into_iter().map(|(key, value)| (key.into(), value)).collect()
}

/// The ConstraintTemplates among these documents as ValidatingAdmissionPolicies: each with the CRD of
/// its constraints, which are its parameters, and a binding for each constraint.
pub fn templates(documents: &[Value]) -> Vec<Conversion> {
    let is_template =
        |it: &&Value| is_of(it, templates::GROUP) && text(it, &["kind"]) == templates::KIND;
    documents.iter().filter(is_template).map(|it| of_template(it, documents)).collect()
}

fn of_template(template: &Value, documents: &[Value]) -> Conversion {
    let kind = text(template, &["spec", "crd", "spec", "names", "kind"]);
    let of_kind = |it: &&Value| is_of(it, constraints::GROUP) && text(it, &["kind"]) == kind;
    let own: Vec<&Value> = documents.iter().filter(of_kind).collect();
    let mut conversion = Conversion {
        source: format!("ConstraintTemplate {}", name(template)),
        originals: [template].into_iter().chain(own.iter().copied()).cloned().collect(),
        objects: Vec::new(),
        losses: Vec::new(),
    };
    let options = VapOptions::default();
    let schema = ConstraintSchema::of_template(template);
    let policy = match (vap::policy(template, &options), &schema) {
        (Ok(policy), Ok(_)) => policy.object,
        (Err(error), _) => {
            conversion.losses.push(Loss::new("spec.targets[0]", error.to_string()));
            return conversion;
        }
        (_, Err(error)) => {
            conversion.losses.push(Loss::new("spec.crd", error.to_string()));
            return conversion;
        }
    };
    let Ok(schema) = schema else { return conversion };
    conversion.objects.extend([schema.crd(), policy]);
    for constraint in own {
        let field = |member: &str| format!("{kind} {}: spec.{member}", name(constraint));
        for member in ["scope", "source"] {
            let given = text(constraint, &["spec", "match", member]);
            if !["", "*", "All"].contains(&given) {
                let message = "has no counterpart in a ValidatingAdmissionPolicy";
                conversion.losses.push(Loss::new(field(&format!("match.{member}")), message));
            }
        }
        let wire = match Constraint::from_value(constraint) {
            Ok(wire) => wire,
            Err(error) => {
                conversion.losses.push(Loss::new(field(&error.path), error.message));
                continue;
            }
        };
        let actions = vap::binding_actions(&wire, &options);
        match vap::binding(constraint, &actions, &options) {
            Ok(binding) => conversion.objects.extend([constraint.clone(), binding]),
            Err(error) => {
                conversion.losses.push(Loss::new(field("enforcementAction"), error.to_string()));
            }
        }
    }
    conversion
}

/// A name that no earlier one of these has.
fn unique(wanted: &str, taken: &mut BTreeSet<String>) -> String {
    let mut name = wanted.to_owned();
    let mut number = 2;
    while !taken.insert(name.to_lowercase()) {
        name = format!("{wanted}{number}");
        number += 1;
    }
    name
}
