//! The data that policies read beside the object under review: the request about it, and the
//! parameters.

use modgate_value::Value;

use super::{
    places::{self, CONTAINERS, Fault, Objects, Step},
    schema,
};

/// The document that has a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Root {
    /// Everything that a template reads.
    Input,
    /// The object under review.
    Object,
    /// The request about it.
    Review,
    /// The parameters of a template.
    Parameters,
    /// The constraint with the parameters.
    Constraint,
    /// The name of a member of an object.
    Name,
}

/// A place that an expression reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Path<'s> {
    /// The document that it is in.
    pub(super) root: Root,
    /// The steps to it.
    pub(super) steps: Vec<Step<'s>>,
}

impl<'s> Path<'s> {
    /// The whole of a root.
    pub(super) fn of(root: Root) -> Self {
        Self { root, steps: Vec::new() }
    }

    /// The place behind further steps.
    pub(super) fn with(mut self, steps: &[Step<'s>]) -> Self {
        self.steps.extend(steps);
        let (root, skipped) = match (self.root, self.steps.as_slice()) {
            (Root::Input, [Step::Member("review"), Step::Member("object" | "oldObject"), ..]) => {
                (Root::Object, 2)
            }
            (Root::Review, [Step::Member("object" | "oldObject"), ..]) => (Root::Object, 1),
            (Root::Input, [Step::Member("review"), Step::Member(_), ..]) => (Root::Review, 1),
            (Root::Input, [Step::Member("parameters"), ..]) => (Root::Parameters, 1),
            (Root::Constraint, [Step::Member("spec"), Step::Member("parameters"), ..]) => {
                (Root::Parameters, 2)
            }
            (root, _) => (root, 0),
        };
        self.root = root;
        self.steps.drain(..skipped);
        self
    }

    /// Whether no text at the place has a slash.
    pub(super) fn has_no_slash(&self) -> bool {
        self.root == Root::Object && places::has_no_slash(&self.steps)
    }

    /// Whether no text at the place has a sign of patterns: names, the values of labels, and images.
    pub(super) fn has_no_sign(&self) -> bool {
        let is_image = match self.steps.as_slice() {
            [.., Step::Member(list), _, Step::Member("image")] => CONTAINERS.contains(list),
            _ => false,
        };
        self.root == Root::Object && (is_image || places::has_no_slash(&self.steps))
    }
}

/// The schemas of everything that a policy reads, as far as they are known.
#[derive(Debug, Clone, Copy)]
pub(super) struct Known<'a, 't> {
    /// The objects under review.
    pub(super) objects: &'a Objects<'t>,
    /// The schema of the parameters.
    pub(super) parameters: Option<&'a Value>,
}

impl<'a> Known<'a, '_> {
    fn schema(&self, root: Root) -> Option<&'a Value> {
        match root {
            Root::Parameters => self.parameters,
            Root::Review => Some(schema::review()),
            Root::Input | Root::Object | Root::Constraint | Root::Name => None,
        }
    }

    /// The first step that leads nowhere. The members of a review have warnings of their own.
    pub(super) fn fault<'s>(&self, path: &Path<'s>) -> Option<Fault<'s>> {
        match path.root {
            Root::Object => self.objects.fault(&path.steps),
            Root::Parameters => schema::fault(self.parameters?, &path.steps),
            Root::Input | Root::Review | Root::Constraint | Root::Name => None,
        }
    }

    /// The value at a place, in words, if it never has the type of this one.
    pub(super) fn never_is(&self, path: &Path<'_>, value: &Value) -> Option<String> {
        match self.schema(path.root) {
            Some(schema) => schema::never_is(schema, &path.steps, value),
            None if path.root == Root::Object => self.objects.never_is(&path.steps, value),
            None if path.root == Root::Name && path.steps.is_empty() => {
                (!matches!(value, Value::String(_))).then(|| "a text".to_owned())
            }
            None => None,
        }
    }

    /// The few values that a place may have.
    pub(super) fn values(&self, path: &Path<'_>) -> Option<Vec<&'a str>> {
        match self.schema(path.root) {
            Some(schema) => schema::values(schema, &path.steps),
            None if path.root == Root::Object => Some(self.objects.values(&path.steps)?.to_vec()),
            None => None,
        }
    }

    /// Whether the value at a place is a quantity in all objects that have it.
    pub(super) fn is_quantity(&self, path: &Path<'_>) -> bool {
        path.root == Root::Object && self.objects.is_quantity(&path.steps)
    }
}
