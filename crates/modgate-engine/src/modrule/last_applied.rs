//! The annotation in which `kubectl apply` keeps what it was given (4.9).

use modgate_value::{Budget, Object, Str, Value};

use crate::jsonpatch::{self, PatchOperation, Tree};

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The annotation's text as the object came with it, if it is one.
pub(super) fn text_of(document: &Value) -> Option<Str> {
    match document.path(&["metadata", "annotations", ANNOTATION]) {
        Some(Value::String(text)) => Some(text.clone()),
        _ => None,
    }
}

/// The configuration the annotation holds, patched along with the object.
pub(super) struct LastApplied<'t> {
    /// As the object came with it.
    received: Option<&'t str>,
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
        Self { received: text, tree, touched: false, error }
    }

    /// Applies what was just applied to the object. After a failure the annotation stays as it was
    /// received, for this and all later rules.
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
        let patched = open_root(tree, budget).and_then(|()| {
            for operation in operations {
                jsonpatch::apply(tree, operation, budget).map_err(|error| error.to_string())?;
            }
            Ok(())
        });
        if patched.is_err() {
            self.tree = None;
        }
        patched
    }

    /// Puts the patched text into the document, or the received one where it could not be patched
    /// and the rules took it away; nothing where they removed the annotations altogether.
    pub(super) fn finish(self, document: Value) -> Value {
        let Some(received) = self.received else { return document };
        let mut text = String::new();
        match self.tree.filter(|_| self.touched) {
            Some(tree) => tree.write(&mut text),
            None if text_of(&document).as_deref() == Some(received) => return document,
            None => text.push_str(received),
        }
        set(&document, text).unwrap_or(document)
    }
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
