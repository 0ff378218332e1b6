//! The annotation in which `kubectl apply` keeps what it was given (4.9).

use modgate_value::{Budget, Object, Str, Value};

use crate::jsonpatch::{self, Op, PatchOperation, Tree};

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The annotation's text as the object came with it, if it is one.
pub(super) fn text_of(document: &Value) -> Option<Str> {
    match document.path(&["metadata", "annotations", ANNOTATION]) {
        Some(Value::String(text)) => Some(text.clone()),
        _ => None,
    }
}

/// The configuration the annotation holds, patched along with the object.
///
/// After a failure it is given up for the rest of the request: nothing is written back, and the
/// annotation stays as the rules' own operations leave it.
pub(super) struct LastApplied<'t> {
    tree: Option<Tree<'t>>,
    touched: bool,
    error: Option<String>,
}

impl<'t> LastApplied<'t> {
    pub(super) fn new(text: Option<&'t str>) -> Self {
        let (tree, error) = match text.map(Tree::of_text) {
            None => (None, None),
            Some(Ok(tree)) => (Some(tree), None),
            Some(Err(error)) => (None, Some(error.to_string())),
        };
        Self { tree, touched: false, error }
    }

    /// Applies what was just applied to the object.
    ///
    /// # Errors
    ///
    /// When the operations do not fit, or the annotation is not JSON; only the first time.
    pub(super) fn apply<'o>(
        &mut self,
        operations: impl Iterator<Item = &'o PatchOperation>,
        budget: &Budget<'_>,
    ) -> Result<(), String> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        let Some(tree) = &mut self.tree else { return Ok(()) };
        self.touched = true;
        let patched = patch(tree, operations, budget);
        if patched.is_err() {
            self.tree = None;
        }
        patched
    }

    /// Puts the patched text into the document; nothing where the rules removed all annotations
    ///
    pub(super) fn finish(self, document: Value) -> Value {
        let Some(tree) = self.tree.filter(|_| self.touched) else { return document };
        let mut text = String::new();
        tree.write(&mut text);
        set(&document, text).unwrap_or(document)
    }
}

fn patch<'o>(
    tree: &mut Tree<'_>,
    mut operations: impl Iterator<Item = &'o PatchOperation>,
    budget: &Budget<'_>,
) -> Result<(), String> {
    // From `null` there is nothing to remove, and nothing else can be done to it.
    if tree.is_null() {
        return match operations.find(|operation| operation.op != Op::Remove) {
            None => Ok(()),
            Some(_) => Err("the annotation is `null`".to_owned()),
        };
    }
    open_root(tree, budget)?;
    for operation in operations {
        jsonpatch::apply(tree, operation, budget).map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Printing sorts the keys of what was opened, and the root always is.
fn open_root(tree: &mut Tree<'_>, budget: &Budget<'_>) -> Result<(), String> {
    match tree.open_root(budget) {
        Ok(true) => Ok(()),
        Ok(false) => Err("the annotation holds neither an object nor a list".to_owned()),
        Err(exhausted) => Err(exhausted.to_string()),
    }
}

fn set(document: &Value, text: String) -> Option<Value> {
    let mut root = document.as_object()?.clone();
    let mut metadata = root.get("metadata")?.as_object()?.clone();
    let mut annotations: Object = metadata.get("annotations")?.as_object()?.clone();
    annotations.insert(ANNOTATION, text.into());
    metadata.insert("annotations", annotations.into());
    root.insert("metadata", metadata.into());
    Some(root.into())
}
