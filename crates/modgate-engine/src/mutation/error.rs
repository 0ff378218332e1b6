//! Why an object could not be mutated.

use modgate_api::meta::GroupVersionKind;
use modgate_value::{Value, gofmt};

use super::{MutatorId, location::Node};
use crate::matching::MatchError;

/// A request that mutation fails; the texts are the original's (3.10, 4.3, 6.5).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MutationError {
    /// A mutator's match block could not be decided.
    #[error("matching for mutator {mutator} failed for {object}: {source}")]
    Match {
        /// The mutator.
        mutator: Box<MutatorId>,
        /// The object: group, kind, namespace and name.
        object: String,
        /// Why.
        source: MatchError,
    },
    /// A mutator met an object of another shape than its location says.
    #[error("mutation {run} for mutator {mutator} failed for {object}: {source}")]
    Apply {
        /// The id of the run.
        run: String,
        /// The mutator.
        mutator: Box<MutatorId>,
        /// The object: group, kind, namespace and name.
        object: String,
        /// Why.
        source: Box<ApplyError>,
    },
    /// Mutators keep undoing each other.
    #[error("mutation not converging: mutation {run} not converging for {object}")]
    NotConverging {
        /// The id of the run.
        run: String,
        /// The object: group, kind, namespace and name.
        object: String,
        /// The mutators that were applied, pass by pass.
        passes: Vec<Vec<MutatorId>>,
    },
    /// A provider did not answer the query.
    #[error("failed to resolve external data placeholders: {0}")]
    ExternalData(String),
    /// The request's budget is spent.
    #[error(transparent)]
    Exhausted(#[from] modgate_value::Exhausted),
}

/// Why a mutator cannot act on an object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ApplyError {
    /// The location wants another type here.
    #[error(
        "mismatch between path entry (type: {expected}) and received object (type: {found}). \
         Path: {node}"
    )]
    Mismatch {
        /// `object` or `List`.
        expected: &'static str,
        /// The Go name of the type that is there.
        found: &'static str,
        /// The step.
        node: Node,
    },
    /// An element of a keyed list is no object.
    #[error("cast error, unable to case {0} to map[string]interface{{}}")]
    Element(&'static str),
    /// ModifySet at something that is no list.
    #[error("{0} is not a list of values, cannot treat it as a set")]
    NotASet(String),
    /// AssignImage at something that is no text.
    #[error("expected value at AssignImage location to be a string, got {value} of type {found}")]
    NotAnImage {
        /// The value found.
        value: String,
        /// The Go name of its type.
        found: &'static str,
    },
    /// A provider's key at something that is no text.
    #[error("value assigned to external data placeholder is not a string, got {value} ({found})")]
    NotAKey {
        /// The value found.
        value: String,
        /// The Go name of its type.
        found: &'static str,
    },
    /// A location that compiling should have refused.
    #[error("mutator does not understand keyed lists")]
    KeyedList,
    /// The request's budget is spent.
    #[error(transparent)]
    Exhausted(#[from] modgate_value::Exhausted),
}

impl ApplyError {
    pub(super) fn mismatch(expected: &'static str, found: &Value, node: &Node) -> Self {
        Self::Mismatch { expected, found: go_type(found), node: node.clone() }
    }

    pub(super) fn not_a_set(value: &Value) -> Self {
        Self::NotASet(gofmt::text(value).into_owned())
    }

    pub(super) fn not_an_image(value: &Value) -> Self {
        Self::NotAnImage { value: gofmt::text(value).into_owned(), found: go_type(value) }
    }

    pub(super) fn not_a_key(value: &Value) -> Self {
        Self::NotAKey { value: gofmt::text(value).into_owned(), found: go_type(value) }
    }
}

/// The Go type of a decoded JSON value, as upstream's messages name it.
pub(crate) fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_integer_text() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// `<group> <kind> <namespace> <name>`; empty parts leave their spaces.
pub(super) fn describe(object: &Value) -> String {
    let kind = GroupVersionKind::of_object(object);
    let text =
        |field| object.path(&["metadata", field]).and_then(Value::as_str).unwrap_or_default();
    let name = match text("name") {
        "" => text("generateName"),
        name => name,
    };
    format!("{} {} {} {name}", kind.group, kind.kind, text("namespace"))
}
