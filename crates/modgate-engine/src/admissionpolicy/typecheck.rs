//! The type checking of policies: expressions against the types of the kinds that rules name, which the API
//! server writes to `status.typeChecking` (`apiserver/pkg/admission/plugin/policy/validating/typechecking.go`).

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use modgate_api::{
    admissionregistration::{ParamKind, PolicySpec, ResourceRule},
    meta::{GroupVersionKind, split_api_version},
};
use modgate_cel::{Env, Issue, ObjectType, Type, check, is_reserved};
use modgate_value::{Str, Value};

use super::{
    compile::environment_of,
    types::{Map, Reference, Scalar, Types},
};

/// How many kinds are checked of one rule.
const MAX_KINDS: usize = 10;

/// How deep types are declared; what is deeper may be anything.
const MAX_DEPTH: usize = 24;

/// A mistake in an expression, given the types of objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpressionWarning {
    /// The field, as in `fieldRef` of `status.typeChecking`.
    pub field: String,
    /// The expression.
    pub expression: Str,
    /// By kind: its name as the API server prints it, and what is wrong.
    pub issues: Vec<(String, modgate_cel::Errors)>,
}

impl ExpressionWarning {
    /// The text of `warning` in `status.typeChecking`.
    pub fn text(&self) -> String {
        let lines = self.issues.iter().map(|(kind, errors)| format!("{kind}: {errors}\n"));
        lines.collect::<Vec<_>>().join("\n")
    }

    /// Every problem once, with its kind.
    pub fn each(&self) -> impl Iterator<Item = (&str, &Issue)> {
        let mut seen = BTreeSet::new();
        self.issues
            .iter()
            .flat_map(|(kind, errors)| errors.issues.iter().map(move |it| (kind.as_str(), it)))
            .filter(move |(_, issue)| seen.insert((issue.span.start, issue.to_string())))
    }
}

/// How type checking treats quantities.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quantities {
    /// As the API server: it knows no member that is a quantity, or has quantities in it, and calls
    /// `resources.limits` undefined.
    Undefined,
    /// They may be anything, so they get no warning.
    Known,
}

/// The warnings about the validations of a ValidatingAdmissionPolicy. Kinds that are not known are not
/// checked, and neither are rules with `*`.
pub fn expression_warnings(
    policy: &Value,
    types: &Types,
    quantities: Quantities,
) -> Vec<ExpressionWarning> {
    let Ok(spec) = PolicySpec::from_value(policy) else { return Vec::new() };
    let rules = spec.match_constraints.as_ref().and_then(|it| it.resource_rules.as_deref());
    let environments: Vec<(String, Env)> = kinds_of(rules.unwrap_or_default(), types)
        .into_iter()
        .filter_map(|kind| {
            let environment = environment(&kind, &spec, types, quantities)?;
            Some((format!("{}/{}, Kind={}", kind.group, kind.version, kind.kind), environment))
        })
        .collect();
    let mut warnings = Vec::new();
    for (index, validation) in spec.validations.iter().flatten().enumerate() {
        for (member, text) in [
            ("expression", &validation.expression),
            ("messageExpression", &validation.message_expression),
        ] {
            if member == "messageExpression" && text.is_empty() {
                continue;
            }
            let found = environments.iter().filter_map(|(kind, environment)| {
                check(text, environment).err().map(|errors| (kind.clone(), errors))
            });
            let issues: Vec<_> = found.collect();
            if !issues.is_empty() {
                let field = format!("spec.validations[{index}].{member}");
                warnings.push(ExpressionWarning { field, expression: text.clone(), issues });
            }
        }
    }
    warnings
}

/// The kinds that rules name, sorted.
fn kinds_of(rules: &[ResourceRule], types: &Types) -> BTreeSet<GroupVersionKind> {
    let sorted = |list: &Option<Vec<Str>>| -> Option<Vec<Str>> {
        let mut list: Vec<Str> = list.iter().flatten().cloned().collect();
        list.sort();
        (!list.iter().any(|it| it.contains('*'))).then_some(list)
    };
    let mut found = BTreeSet::new();
    for rule in rules {
        let (Some(groups), Some(versions)) = (sorted(&rule.api_groups), sorted(&rule.api_versions))
        else {
            continue;
        };
        let mut resources: Vec<&Str> = rule.resources.iter().flatten().collect();
        resources.retain(|it| !it.contains(['*', '/']));
        resources.sort();
        let mut count = 0;
        for (group, version) in
            groups.iter().flat_map(|group| versions.iter().map(move |it| (group, it)))
        {
            for resource in &resources {
                let Some(kind) = types.kind_of(group, version, resource) else { continue };
                found.insert(kind);
                count += 1;
                if count == MAX_KINDS {
                    return found;
                }
            }
        }
    }
    found
}

/// The names that an expression may use if the object is of this kind.
fn environment(
    kind: &GroupVersionKind,
    spec: &PolicySpec,
    types: &Types,
    quantities: Quantities,
) -> Option<Env> {
    let object = types.declared(&kind.api_version(), &kind.kind, quantities)?;
    let mut environment = environment_of(spec.param_kind.is_some(), true)
        .with("object", object.clone())
        .with("oldObject", object);
    if let Some(ParamKind { api_version, kind }) = &spec.param_kind {
        let params = types.declared(api_version, kind, quantities).unwrap_or(Type::Dyn);
        environment = environment.with("params", params);
    }
    // The API server does not check what variables give.
    let variables = spec.variables.iter().flatten();
    let fields = variables.map(|it| (Arc::from(it.name.as_str()), Type::Dyn)).collect();
    let variables = ObjectType { name: "kubernetes.variables".into(), fields };
    Some(environment.with("variables", Type::Object(Arc::new(variables))))
}

/// Members that are bytes in Go.
const BYTES: [(&str, &str); 7] = [
    ("admissionregistration.v1.WebhookClientConfig", "caBundle"),
    ("apiextensions.v1.WebhookClientConfig", "caBundle"),
    ("apiregistration.v1.APIServiceSpec", "caBundle"),
    ("certificates.v1.CertificateSigningRequestSpec", "request"),
    ("certificates.v1.CertificateSigningRequestStatus", "certificate"),
    ("core.v1.ConfigMap", "binaryData"),
    ("core.v1.Secret", "data"),
];

/// Members that are floats in Go; all other numbers of Kubernetes' own kinds are integers.
const FLOATS: [&str; 3] = ["maximum", "minimum", "multipleOf"];

/// How types are declared.
struct Declaring {
    /// Whether every number is an integer: so it is in Kubernetes' own kinds.
    typed: bool,
    quantities: Quantities,
    /// The types around, by name.
    outer: Vec<Str>,
}

fn without_fields(name: &str) -> Type {
    Type::Object(Arc::new(ObjectType { name: name.into(), fields: BTreeMap::new() }))
}

impl Types {
    /// The kind of a resource.
    fn kind_of(&self, group: &str, version: &str, resource: &str) -> Option<GroupVersionKind> {
        self.keys().find_map(|(api_version, kind)| {
            let (of, served) = split_api_version(api_version);
            let found =
                GroupVersionKind { group: of.into(), version: served.into(), kind: kind.clone() };
            (of == group && served == version && found.plural().as_str() == resource)
                .then_some(found)
        })
    }

    /// The type of the objects of a kind in CEL.
    fn declared(&self, api_version: &str, kind: &str, quantities: Quantities) -> Option<Type> {
        let reference = self.of(api_version, kind)?;
        let typed = self.is_builtin(api_version, kind);
        self.declare(reference, kind, &mut Declaring { typed, quantities, outer: Vec::new() })
    }

    /// `None` for what CEL does not see. Numbers and texts of custom resources may have formats that are not
    /// known here; they may be anything.
    fn declare(&self, reference: &Reference, name: &str, how: &mut Declaring) -> Option<Type> {
        let named = match reference {
            Reference::Named(named, _) => named.clone(),
            Reference::Inline(_) => Str::default(),
        };
        match named.as_str() {
            "meta.v1.Time" | "meta.v1.MicroTime" => return Some(Type::Plain("timestamp")),
            "meta.v1.Duration" => return Some(Type::STRING),
            "util.intstr.IntOrString" => return Some(Type::Dyn),
            "runtime.RawExtension" | "meta.v1.FieldsV1" => return Some(without_fields(name)),
            "api.resource.Quantity" => {
                return (how.quantities == Quantities::Known).then_some(Type::Dyn);
            }
            "apiextensions.v1.JSONSchemaProps" => {}
            union if union.starts_with("apiextensions.v1.JSON") => return None,
            _ => {}
        }
        if how.outer.len() >= MAX_DEPTH || (!named.is_empty() && how.outer.contains(&named)) {
            return Some(without_fields(name));
        }
        let resolved = self.resolve(reference);
        how.outer.push(named.clone());
        let ty = match (resolved.scalar, resolved.list, resolved.map) {
            (Some(_), Some(_), _) | (Some(Scalar::Any), ..) => Some(Type::Dyn),
            (Some(Scalar::Text), ..) => Some(if how.typed { Type::STRING } else { Type::Dyn }),
            (Some(Scalar::Boolean), ..) => Some(Type::BOOL),
            (Some(Scalar::Numeric), ..) => {
                Some(if how.typed { Type::Plain("int") } else { Type::Dyn })
            }
            (None, Some(list), _) => {
                self.declare(&list.element, &format!("{name}.@idx"), how).map(Type::list)
            }
            (None, None, Some(map)) if map.fields.is_empty() => {
                map.element.as_ref().and_then(|it| {
                    let value = self.declare(it, &format!("{name}.@elem"), how)?;
                    Some(Type::Map(Arc::new((Type::STRING, value))))
                })
            }
            (None, None, Some(map)) => Some(self.declare_object(map, &named, name, how)),
            (None, None, None) => None,
        };
        how.outer.pop();
        ty
    }

    fn declare_object(&self, map: &Map, named: &str, name: &str, how: &mut Declaring) -> Type {
        let mut fields: BTreeMap<Arc<str>, Type> = BTreeMap::new();
        for (field, member) in &map.fields {
            let bytes = BYTES.contains(&(named, field.as_str()));
            let float =
                named == "apiextensions.v1.JSONSchemaProps" && FLOATS.contains(&field.as_str());
            let ty = match field.as_str() {
                "data" | "binaryData" if bytes => {
                    Some(Type::Map(Arc::new((Type::STRING, Type::Plain("bytes")))))
                }
                _ if bytes => Some(Type::Plain("bytes")),
                _ if float => Some(Type::Plain("double")),
                field => self.declare(&member.ty, &format!("{name}.{field}"), how),
            };
            if let Some(ty) = ty {
                fields.insert(escaped(field).into(), ty.clone());
                fields.insert(field.as_str().into(), ty);
            }
        }
        Type::Object(Arc::new(ObjectType { name: name.into(), fields }))
    }
}

/// The name of a member in CEL (`apiserver/pkg/cel/escaping.go`).
fn escaped(name: &str) -> String {
    if is_reserved(name) || ["true", "false", "null", "in"].contains(&name) {
        return format!("__{name}__");
    }
    name.replace("__", "__underscores__")
        .replace('.', "__dot__")
        .replace('-', "__dash__")
        .replace('/', "__slash__")
}
