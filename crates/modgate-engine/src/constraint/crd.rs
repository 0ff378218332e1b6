//! The CRD of a template's constraints, and what it makes of them (spec 1.4, 1.5, 5.3 and 6.6).

use std::{
    sync::{Arc, LazyLock, Mutex, PoisonError},
    time::Duration,
};

use modgate_api::{
    constraints as wire,
    matching::LabelSelector,
    meta::split_api_version,
    schema::{self, FieldError, Schema, UnsupportedItems, names},
    templates::ConstraintTemplate,
};
use modgate_value::{
    Budget, DecodeError, Exhausted, Limits, Object, Str, Value, budget::Frozen, gofmt, yaml,
};
use serde::Deserialize as _;

use super::compile::{ConstraintError, InvalidConstraint};

/// The budget for checking one schema, or one constraint against it.
const CHECK: Limits = Limits { steps: 10_000_000, bytes: 16 << 20, time: Duration::MAX };

/// Where a template says which parameters its constraints have.
const PARAMETERS: &str = "spec.crd.spec.validation.openAPIV3Schema";

/// The label every generated CRD carries.
const LABEL: &str = "gatekeeper.sh/constraint";

/// The schema of a constraint whose template declares no parameters.
static BASE: LazyLock<(Value, Schema)> = LazyLock::new(|| {
    // A test reads it; an empty schema would refuse every constraint.
    let value = yaml::value(include_str!("schema.yaml")).unwrap_or_default();
    let schema = Schema::of_our_own(&value).unwrap_or_default();
    (value, schema)
});

/// The schema of one template's constraints, and the CRD it is part of. Holding one is the proof
/// that the API server would accept that CRD.
#[derive(Debug, Clone)]
pub struct ConstraintSchema {
    kind: Str,
    short_names: Vec<Str>,
    /// The template's labels.
    labels: Object,
    /// The template's own schema, after RM-2.
    declared: Option<Value>,
    kept: Kept,
}

/// The schema of whole constraints while constraints are compiled ([`ConstraintSchema::rest`]). It takes many times as
/// much memory as what it is made of.
#[derive(Debug, Default)]
struct Kept(Mutex<Option<Arc<Schema>>>);

impl Kept {
    fn get_or_make(&self, make: impl FnOnce() -> Option<Schema>) -> Option<Arc<Schema>> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.is_none() {
            *kept = make().map(Arc::new);
        }
        kept.clone()
    }
}

impl Clone for Kept {
    fn clone(&self) -> Self {
        Self(Mutex::new(self.get_or_make(|| None)))
    }
}

/// Why no CRD can be made of a template (TC-1, check 6).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SchemaError {
    /// A keyword of its schema has the wrong type.
    #[error("invalid ConstraintTemplate: {0}")]
    Decode(#[from] DecodeError),
    /// A legacy schema with a list of `items` (RM-2).
    #[error(transparent)]
    Items(#[from] UnsupportedItems),
    /// The errors of Kubernetes' validation of CRDs.
    #[error("invalid ConstraintTemplate: {}", schema::aggregate(.0))]
    Invalid(Vec<FieldError>),
    /// Checking it costs too much.
    #[error("invalid ConstraintTemplate: {PARAMETERS}: {0}")]
    Budget(#[from] Exhausted),
}

impl SchemaError {
    /// Each error, with the template's field.
    pub fn problems(&self) -> Vec<(String, String)> {
        match self {
            Self::Decode(DecodeError { path, message }) => vec![(path.clone(), message.clone())],
            Self::Items(_) | Self::Budget(_) => vec![(PARAMETERS.to_owned(), self.to_string())],
            Self::Invalid(errors) => errors
                .iter()
                .map(|error| (template_field(&error.path), error.problem.clone()))
                .collect(),
        }
    }
}

/// The field of the template that became a field of the CRD.
fn template_field(path: &str) -> String {
    let parameters = "spec.validation.openAPIV3Schema.properties[spec].properties[parameters]";
    if let Some(below) = path.strip_prefix(parameters) {
        let mut field = PARAMETERS.to_owned();
        let mut pieces = below.split(".properties[");
        field.push_str(pieces.next().unwrap_or_default());
        for piece in pieces {
            let (name, rest) = piece.split_once(']').unwrap_or((piece, ""));
            field.push_str(".properties.");
            field.push_str(name);
            field.push_str(rest);
        }
        return field;
    }
    match path.strip_prefix("spec.names.") {
        Some(name) if name.starts_with("shortNames") => format!("spec.crd.spec.names.{name}"),
        Some(_) => "spec.crd.spec.names.kind".to_owned(),
        None => path.to_owned(),
    }
}

impl ConstraintSchema {
    /// The schema of a template of any version.
    ///
    /// # Errors
    ///
    /// When it does not decode, or the API server would refuse the CRD (RM-14).
    pub fn of_template(resource: &Value) -> Result<Self, SchemaError> {
        let template = ConstraintTemplate::from_value(resource)?;
        let is_legacy = template.is_legacy();
        let crd = template.spec.crd.spec;
        let declared = crd.validation.and_then(|validation| validation.schema);
        let declared = match declared.filter(|schema| !schema.is_null()) {
            Some(schema) if is_legacy => Some(schema::preserve_unknown_fields(&schema)?),
            // An absent schema accepts everything (RM-2).
            None if is_legacy => Some(schema::preserve_unknown_fields(&Object::default().into())?),
            declared => declared,
        };
        let whole = whole(declared.as_ref())?;
        let labels = resource.path(&["metadata", "labels"]).and_then(Value::as_object);
        let schema = Self {
            kind: crd.names.kind,
            short_names: crd.names.short_names.unwrap_or_default(),
            labels: labels.cloned().unwrap_or_default(),
            declared,
            kept: Kept::default(),
        };
        let problems = schema.problems(&whole)?;
        if !problems.is_empty() {
            return Err(SchemaError::Invalid(problems));
        }
        schema.kept.get_or_make(|| Some(whole));
        Ok(schema)
    }

    /// Forgets what only compiling constraints needs, until the next one comes.
    pub(super) fn rest(&self) {
        *self.kept.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// The schema of whole constraints. There always is one: it has been made before.
    fn whole(&self) -> Option<Arc<Schema>> {
        self.kept.get_or_make(|| whole(self.declared.as_ref()).ok())
    }

    fn all_labels(&self) -> Object {
        let mut labels = self.labels.clone();
        labels.insert(LABEL, "yes".into());
        labels
    }

    /// The kind of the constraints.
    pub fn kind(&self) -> &Str {
        &self.kind
    }

    /// The schema of `spec.parameters`, as the CRD has it.
    pub fn parameters(&self) -> Option<Value> {
        self.declared.as_ref().map(schema::clean)
    }

    fn plural(&self) -> String {
        self.kind.to_lowercase()
    }

    fn crd_name(&self) -> String {
        format!("{}.{}", self.plural(), wire::GROUP)
    }

    /// Kubernetes' own validation of the CRD (`ValidateCustomResourceDefinition`), of what can
    /// differ between templates.
    fn problems(&self, whole: &Schema) -> Result<Vec<FieldError>, Exhausted> {
        let (name, plural) = (self.crd_name(), self.plural());
        let mut errors = Vec::new();
        for problem in names::subdomain(&name) {
            name_problems(&mut errors, "metadata.name", &name, "", &[problem]);
        }
        errors.extend(names::labels(&self.all_labels(), "metadata.labels"));
        let mut label = |path: &str, name: &str| {
            name_problems(&mut errors, path, name, "", &names::label_1035(name));
        };
        label("spec.names.plural", &plural);
        label("spec.names.singular", &plural);
        let list_kind = format!("{}List", self.kind);
        for (path, kind) in
            [("spec.names.kind", self.kind.as_str()), ("spec.names.listKind", &list_kind)]
        {
            let prefix = "may have mixed case, but should otherwise match: ";
            let problems = names::label_1035(&kind.to_lowercase());
            name_problems(&mut errors, path, kind, prefix, &problems);
        }
        for (index, name) in self.short_names.iter().enumerate() {
            let path = format!("spec.names.shortNames[{index}]");
            name_problems(&mut errors, &path, name, "", &names::label_1035(name));
        }
        let budget = Budget::new(CHECK, &Frozen);
        errors.extend(whole.problems("spec.validation.openAPIV3Schema", &budget)?);
        Ok(errors)
    }

    /// The CRD, as `apiextensions.k8s.io/v1`. What only a cluster knows is not in it: the owner
    /// reference to the template.
    pub fn crd(&self) -> Value {
        let plural = self.plural();
        let mut names = vec![
            ("kind", Value::from(self.kind.clone())),
            ("listKind", format!("{}List", self.kind).into()),
            ("plural", plural.as_str().into()),
            ("singular", plural.as_str().into()),
            ("categories", texts(["constraint", "constraints"])),
        ];
        if !self.short_names.is_empty() {
            names.push(("shortNames", texts(self.short_names.iter().map(Str::as_str))));
        }
        let schema = object([("openAPIV3Schema", self.openapi())]);
        let columns: Value = [
            column(
                "enforcement-action",
                "string",
                ".spec.enforcementAction",
                "Type of enforcement action",
            ),
            column(
                "total-violations",
                "integer",
                ".status.totalViolations",
                "Total number of violations",
            ),
        ]
        .into_iter()
        .collect();
        let version = |name: &str, storage: bool| {
            object([
                ("name", name.into()),
                ("served", true.into()),
                ("storage", storage.into()),
                ("schema", schema.clone()),
                ("subresources", object([("status", object([]))])),
                ("additionalPrinterColumns", columns.clone()),
            ])
        };
        object([
            ("apiVersion", "apiextensions.k8s.io/v1".into()),
            ("kind", "CustomResourceDefinition".into()),
            (
                "metadata",
                object([("name", self.crd_name().into()), ("labels", self.all_labels().into())]),
            ),
            (
                "spec",
                object([
                    ("group", wire::GROUP.into()),
                    ("names", object(names)),
                    ("scope", "Cluster".into()),
                    (
                        "versions",
                        [version("v1beta1", true), version("v1alpha1", false)]
                            .into_iter()
                            .collect(),
                    ),
                    ("conversion", object([("strategy", "None".into())])),
                ]),
            ),
        ])
    }

    /// The schema of the whole constraint.
    fn openapi(&self) -> Value {
        let mut base = BASE.0.clone();
        let Some(parameters) = self.parameters() else { return base };
        if let Value::Object(root) = &mut base
            && let Some(Value::Object(properties)) = root.get_mut("properties")
            && let Some(Value::Object(spec)) = properties.get_mut("spec")
            && let Some(Value::Object(properties)) = spec.get_mut("properties")
        {
            properties.insert("parameters", parameters);
        }
        base
    }

    /// Checks a constraint, in the original's order: name and group (AD-30), the selectors of its
    /// match block (MA-20), kind and version, the schema and unknown fields (AD-31).
    ///
    /// # Errors
    ///
    /// The first check that fails.
    pub fn check(&self, constraint: &Value) -> Result<(), ConstraintError> {
        let text = |path: &[&str]| constraint.path(path).and_then(Value::as_str);
        let name = text(&["metadata", "name"]).unwrap_or_default();
        let kind = text(&["kind"]).unwrap_or_default();
        let (group, version) = split_api_version(text(&["apiVersion"]).unwrap_or_default());
        let (quoted_name, quoted_kind) = (gofmt::quote(name), gofmt::quote(kind));
        let invalid = |message: String| Err(ConstraintError::invalid(message));
        if name.is_empty() {
            return invalid("missing metadata.name".to_owned());
        }
        if kind.is_empty() {
            return invalid("missing kind".to_owned());
        }
        if group != wire::GROUP {
            return invalid(format!(
                "wrong API Group for Constraint {quoted_name}, got {} but need {}",
                gofmt::quote(group),
                gofmt::quote(wire::GROUP)
            ));
        }
        check_selectors(constraint)?;
        let problems = names::subdomain(name);
        if !problems.is_empty() {
            return Err(ConstraintError::invalid(InvalidConstraint::Name(problems)));
        }
        if kind != self.kind {
            // Name and kind have changed places in the original; tools may know the text.
            return invalid(format!(
                "wrong kind {quoted_name} for constraint {quoted_kind}; want {}",
                gofmt::quote(&self.kind)
            ));
        }
        if !wire::VERSIONS.contains(&version) {
            let (version, name) = (version.to_owned(), name.to_owned());
            return Err(ConstraintError::invalid(InvalidConstraint::Version { version, name }));
        }
        let budget = Budget::new(CHECK, &Frozen);
        let Some(schema) = self.whole() else {
            return invalid("the schema of its template cannot be read again".to_owned());
        };
        let errors = schema.validate(constraint, "[]", &budget)?;
        if let Some(first) = errors.first() {
            // The root is `[]`.
            let field = first.path.trim_start_matches("[]").trim_start_matches('.');
            let field = if field.is_empty() { "spec" } else { field };
            let message = schema::aggregate(&errors);
            return Err(ConstraintError::Schema { field: field.to_owned(), message });
        }
        let unknown = schema.unknown_fields(constraint, &budget)?;
        if let Some(first) = unknown.first() {
            let field = first.clone();
            return Err(ConstraintError::at(&field, InvalidConstraint::UnknownFields(unknown)));
        }
        Ok(())
    }

    /// The constraint with the defaults of the schema (RM-12): without a `spec` it has none.
    ///
    /// # Errors
    ///
    /// When the defaults would make it too large.
    pub fn fill_defaults(&self, constraint: &Value) -> Result<Value, Exhausted> {
        let Some(schema) = self.whole() else { return Ok(constraint.clone()) };
        let filled = schema.fill_defaults(constraint, &Budget::new(CHECK, &Frozen))?;
        // Most are as they were, and take no memory of their own then.
        Ok(if filled == *constraint { constraint.clone() } else { filled })
    }
}

/// The schema of constraints whose template declares this one for parameters.
fn whole(parameters: Option<&Value>) -> Result<Schema, DecodeError> {
    let base = &BASE.1;
    let Some(parameters) = parameters else { return Ok(base.clone()) };
    let schema = Schema::from_value(parameters, PARAMETERS)?;
    Ok(base.with_property(&["spec", "parameters"], schema))
}

/// Reports what is wrong with a name, as one error.
fn name_problems(
    errors: &mut Vec<FieldError>,
    path: &str,
    name: &str,
    prefix: &str,
    problems: &[String],
) {
    if !problems.is_empty() {
        let detail = format!("{prefix}{}", problems.join(","));
        errors.push(FieldError::invalid(&path, name, &detail));
    }
}

/// The selectors of a match block; both report the one path.
fn check_selectors(constraint: &Value) -> Result<(), ConstraintError> {
    for member in ["labelSelector", "namespaceSelector"] {
        let Some(value) = nested_map(constraint, &["spec", "match", member])? else { continue };
        let selector = LabelSelector::deserialize(value)
            .map_err(|error| ConstraintError::invalid(InvalidConstraint::SelectorType(error)))?;
        let errors = names::selector(&selector, "spec.labelSelector");
        if !errors.is_empty() {
            return Err(ConstraintError::at("spec.match", InvalidConstraint::Selector(errors)));
        }
    }
    Ok(())
}

/// The map at a path, if it is there, with the errors of Go's accessors.
fn nested_map<'v>(
    value: &'v Value,
    path: &[&'static str],
) -> Result<Option<&'v Value>, ConstraintError> {
    let wrong = |depth: usize, value: &Value| {
        let path = path.iter().take(depth).copied().collect();
        let kind = match value {
            Value::Null => "<nil>",
            Value::Bool(_) => "bool",
            Value::Number(number) if number.is_integer_text() => "int64",
            Value::Number(_) => "float64",
            Value::String(_) => "string",
            Value::Array(_) => "[]interface {}",
            Value::Object(_) => "map[string]interface {}",
        };
        let value = gofmt::text(value).into_owned();
        Err(ConstraintError::invalid(InvalidConstraint::NoObject { path, value, kind }))
    };
    let mut found = value;
    for (index, name) in path.iter().enumerate() {
        found = match found {
            Value::Null => return Ok(None),
            Value::Object(members) => match members.get(name) {
                None => return Ok(None),
                Some(member) => member,
            },
            other => return wrong(index + 1, other),
        };
    }
    match found {
        Value::Object(_) => Ok(Some(found)),
        other => wrong(path.len(), other),
    }
}

fn object<'k>(members: impl IntoIterator<Item = (&'k str, Value)>) -> Value {
    members.into_iter().collect()
}

fn texts<'t>(texts: impl IntoIterator<Item = &'t str>) -> Value {
    texts.into_iter().map(Value::from).collect()
}

fn column(name: &str, kind: &str, path: &str, description: &str) -> Value {
    object([
        ("name", name.into()),
        ("type", kind.into()),
        ("jsonPath", path.into()),
        ("description", description.into()),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_base_schema_is_sound() {
        let (value, own) = &*BASE;
        let schema = Schema::from_value(value, "").expect("a schema, with its patterns");
        assert_eq!(schema, *own);
        assert!(value.path(&["properties", "spec", "properties", "match"]).is_some());
        let problems = schema.problems("schema", &Budget::unlimited()).expect("problems");
        assert_eq!(problems, Vec::new());
        assert_eq!(schema::clean(value), *value);
    }
}
