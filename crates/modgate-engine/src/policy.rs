//! Policies on their way in: where they come from, how they change, what is wrong with them.

use std::{fmt, sync::Arc};

use modgate_api::{
    admissionregistration, constraints, expansion, externaldata, meta::GroupVersionKind, templates,
};
use modgate_value::{Str, Value, diag::Span, yaml};
use serde::Serialize;

use crate::Code;

/// Identifies a policy: its kind, namespace (empty for cluster-scoped kinds) and name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct PolicyId {
    /// API group, such as `api.kubemod.io`.
    pub group: Str,
    /// Such as `ModRule`.
    pub kind: Str,
    /// Empty for cluster-scoped kinds.
    pub namespace: Str,
    /// Unique within kind and namespace.
    pub name: Str,
}

/// The groups whose policies are in no namespace. Tools write one into their metadata nevertheless, as Kustomize does
/// for every kind that it does not know.
const CLUSTER_SCOPED: [&str; 5] = [
    templates::GROUP,
    constraints::GROUP,
    expansion::GROUP,
    externaldata::GROUP,
    admissionregistration::GROUP,
];

impl PolicyId {
    /// The id of a constraint.
    pub fn of_constraint(kind: &Str, name: &Str) -> Self {
        let (kind, name) = (kind.clone(), name.clone());
        Self { group: constraints::GROUP.into(), kind, namespace: Str::default(), name }
    }

    /// The id of a policy object, from its `apiVersion`, `kind` and `metadata`. A policy that is in no namespace is the
    /// same whatever namespace its metadata names.
    pub fn of_object(object: &Value) -> Self {
        let text = |path: &[&str]| {
            Str::from(object.path(path).and_then(Value::as_str).unwrap_or_default())
        };
        let GroupVersionKind { group, kind, .. } = GroupVersionKind::of_object(object);
        let namespace = match CLUSTER_SCOPED.contains(&group.as_str()) {
            true => Str::default(),
            false => text(&["metadata", "namespace"]),
        };
        Self { group, kind, namespace, name: text(&["metadata", "name"]) }
    }
}

impl fmt::Display for PolicyId {
    /// `ModRule my-namespace/my-rule`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.kind)?;
        if self.name.is_empty() {
            return Ok(());
        }
        f.write_str(" ")?;
        if !self.namespace.is_empty() {
            write!(f, "{}/", self.namespace)?;
        }
        f.write_str(&self.name)
    }
}

/// A place in a text file; both count from 1, columns in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Position {
    /// Line.
    pub line: u32,
    /// Column.
    pub column: u32,
}

impl From<yaml::Position> for Position {
    fn from(position: yaml::Position) -> Self {
        let clamp = |count| u32::try_from(count).unwrap_or(u32::MAX);
        Self { line: clamp(position.line), column: clamp(position.column) }
    }
}

impl fmt::Display for Position {
    /// `line:column`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// A policy object and where it came from.
#[derive(Clone)]
pub struct PolicySource {
    /// File name as the user gave it, or `ModRule ns/name` for one read from a cluster.
    pub origin: Str,
    /// The object.
    pub object: Value,
    /// Positions within the file, if it came from one.
    pub positions: Option<Arc<yaml::Positions>>,
}

impl PolicySource {
    /// An object that did not come from a file.
    pub fn of_object(object: Value) -> Self {
        Self { origin: PolicyId::of_object(&object).to_string().into(), object, positions: None }
    }

    /// Which policy it is.
    pub fn id(&self) -> PolicyId {
        PolicyId::of_object(&self.object)
    }

    /// Where a field stands, or the innermost part of its path that exists. Paths are Kubernetes'
    /// (`spec.match[0].select`).
    pub fn position(&self, field: &str) -> Option<Position> {
        let positions = self.positions.as_ref()?;
        let pointer = pointer(field);
        // What is missing has no place; what it is missing from is found by its name.
        let exact = positions.value(&pointer);
        Some(exact.unwrap_or_else(|| positions.nearest_key(&pointer)).into())
    }

    /// Where the name of a member stands, or that of the innermost part of its path that exists.
    pub(crate) fn key_position(&self, field: &str) -> Option<Position> {
        Some(self.positions.as_ref()?.nearest_key(&pointer(field)).into())
    }
}

/// `spec.match[0].select` as `/spec/match/0/select`.
pub(crate) fn pointer(field: &str) -> String {
    let mut out = String::with_capacity(field.len() + 1);
    for segment in field.split(['.', '[']).filter(|segment| !segment.is_empty()) {
        out.push('/');
        out.push_str(segment.trim_end_matches(']'));
    }
    out
}

impl fmt::Debug for PolicySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PolicySource")
            .field("origin", &self.origin)
            .field("id", &self.id())
            .finish_non_exhaustive()
    }
}

/// One step from a snapshot to the next.
#[derive(Debug, Clone)]
pub enum Change {
    /// A policy is new or has changed.
    Upsert(PolicySource),
    /// A policy is gone.
    Remove(PolicyId),
}

/// The treatment of the loaded version of a policy whose new version does not compile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnError {
    /// It is unloaded: what the cluster stores is what is enforced.
    #[default]
    Unload,
    /// It stays: a half-edited file on disk must not open a gap.
    Keep,
}

/// How bad a [`Problem`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The policy loads, but probably does not do what its author thinks.
    Warning,
    /// The policy does not load, or can only fail.
    Error,
}

/// Something wrong with a policy, found when it is compiled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("{policy}: {}{message}", if field.is_empty() { String::new() } else { format!("{field}: ") })]
pub struct Problem {
    /// Whether the policy still loads.
    pub severity: Severity,
    /// The stable name of a warning; errors have none.
    pub code: Option<Code>,
    /// Which policy.
    pub policy: PolicyId,
    /// File or object it came from.
    pub origin: Str,
    /// The field, as Kubernetes writes paths: `spec.match[0].select`; empty for the whole.
    pub field: String,
    /// Where the field's value starts in the file.
    pub position: Option<Position>,
    /// The field's own text, if the message points at a part of it.
    pub text: Option<Str>,
    /// That part of `text`.
    #[serde(serialize_with = "span_as_list")]
    pub span: Option<Span>,
    /// The message: a lower-case fragment.
    pub message: String,
    /// Advice for its author.
    pub help: Option<String>,
    /// The name of the policy without which this one has no effect.
    #[serde(skip)]
    pub missing: Option<Str>,
}

impl Problem {
    /// Field, message, advice and code on one line: what the API server passes on as a warning. The
    /// policy is the object of the request.
    pub fn one_line(&self) -> String {
        let mut line = match self.field.as_str() {
            "" => self.message.clone(),
            field => format!("{field}: {}", self.message),
        };
        if let Some(help) = &self.help {
            line.push_str(&format!("; {help}"));
        }
        if let Some(code) = self.code {
            line.push_str(&format!(" [{code}]"));
        }
        line
    }
}

fn span_as_list<S: serde::Serializer>(
    span: &Option<Span>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    span.map(|span| [span.start, span.end]).serialize(serializer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_to_pointers() {
        assert_eq!(pointer("spec.match[0].select"), "/spec/match/0/select");
        assert_eq!(pointer("spec.patch"), "/spec/patch");
        assert_eq!(pointer(""), "");
    }
}
