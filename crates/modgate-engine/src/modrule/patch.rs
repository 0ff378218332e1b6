//! From a matching Patch rule to the operations it stands for (4.1 to 4.4).

use modgate_select::{EvalError, Item, Key, KeyPart};
use modgate_template::{Env, PatchContext, RenderError, Template};
use modgate_value::{Budget, Exhausted, Value, pointer, yaml};

use super::{
    compile::{PatchStep, PatchValue},
    path::PathError,
};
use crate::{
    Host,
    jsonpatch::{Op, PatchOperation},
};

/// An operation ready to be applied, and how it came to be.
#[derive(Debug, Clone)]
pub(super) struct Calculated {
    /// Index in `spec.patch`.
    pub(super) step: usize,
    pub(super) operation: PatchOperation,
    /// The rendered template; absent where the value is the same for every object.
    pub(super) rendered: Option<String>,
}

impl Calculated {
    /// Whether a template printed data that is not there into the object.
    pub(super) fn has_no_value(&self) -> bool {
        self.operation.op != Op::Remove
            && self.rendered.as_ref().is_some_and(|text| text.contains("<no value>"))
    }
}

/// The effect of an operation on a label or an annotation that is no text, in words: the API server
/// refuses such an object.
pub(super) fn not_text(operation: &PatchOperation) -> Option<String> {
    let value = operation.value.as_ref().filter(|_| operation.op != Op::Remove)?;
    let is_text = |value: &Value| matches!(value, Value::String(_) | Value::Null);
    if is_text(value) {
        return None;
    }
    let segments: Vec<&str> = operation.path.split('/').skip(1).collect();
    let is_map =
        |parent: &str, map: &str| parent == "metadata" && ["labels", "annotations"].contains(&map);
    let (name, wrong) = match segments.as_slice() {
        [.., parent, map, name] if is_map(parent, map) => {
            ((*name).to_owned(), Some(value).filter(|value| !is_text(value))?)
        }
        [.., parent, map] if is_map(parent, map) => {
            let (name, wrong) = value.as_object()?.iter().find(|(_, value)| !is_text(value))?;
            (pointer::escape(name).into_owned(), wrong)
        }
        _ => return None,
    };
    let found = match wrong {
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
        scalar => format!("`{scalar}`, which is not a text"),
    };
    let of = if operation.path.contains("/annotations") { "annotation" } else { "label" };
    let name = pointer::unescape(&name);
    Some(format!(
        "the {of} `{name}` becomes {found}, and the API server refuses the object: quote it within \
         the value, as in `'\"true\"'`"
    ))
}

/// Why a rule's operations cannot be calculated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum CalculateError {
    #[error("spec.patch[{step}].select: {exhausted}")]
    Select { step: usize, exhausted: Exhausted },
    #[error("spec.patch[{step}].path: {error}")]
    Path { step: usize, error: PathError },
    #[error("spec.patch[{step}].value: {error}")]
    Render { step: usize, error: Box<RenderError> },
    #[error("spec.patch[{step}].value: {cause}")]
    Yaml { step: usize, cause: String },
    #[error("spec.patch[{step}]: {exhausted}")]
    Exhausted { step: usize, exhausted: Exhausted },
}

impl CalculateError {
    pub(super) fn is_exhausted(&self) -> bool {
        match self {
            Self::Select { .. } | Self::Exhausted { .. } => true,
            Self::Render { error, .. } => matches!(**error, RenderError::Exhausted { .. }),
            Self::Path { .. } | Self::Yaml { .. } => false,
        }
    }
}

/// The costs from which the steps of one rule are calculated.
pub(super) struct Context<'a> {
    pub(super) document: &'a Value,
    pub(super) namespace: &'a str,
    pub(super) budget: &'a Budget<'a>,
    pub(super) host: &'a dyn Host,
}

/// The operations of a rule, all of them calculated from the document as it is now: operations of
/// one rule do not see each other.
///
/// # Errors
///
/// The first thing that goes wrong; the rule is then skipped as a whole.
pub(super) fn calculate(
    steps: &[PatchStep],
    context: &Context<'_>,
) -> Result<Vec<Calculated>, CalculateError> {
    let mut out = Vec::with_capacity(steps.len());
    for step in steps {
        match &step.select {
            None => out.push(operation(step, &[], None, context)?),
            Some(select) => {
                let items = select.items(context.document, context.budget).map_err(|error| {
                    let exhausted = match error {
                        EvalError::Exhausted(exhausted) => exhausted,
                        // Patch selects fail in no other way.
                        EvalError::Failed { .. } => Exhausted::Steps { limit: 0 },
                    };
                    CalculateError::Select { step: step.index, exhausted }
                })?;
                for item in in_order(items, step) {
                    out.push(operation(step, &item.keys, Some(&item), context)?);
                }
            }
        }
    }
    Ok(out)
}

/// Document order; descending where an operation moves the elements behind its own.
fn in_order<'a>(mut items: Vec<Item<'a>>, step: &PatchStep) -> Vec<Item<'a>> {
    let inserts_at_index =
        |key: usize| items.iter().all(|item| matches!(item.keys.get(key), Some(Key::Index(_))));
    let descending = match step.op {
        Op::Remove => true,
        Op::Add => step.path.last_key().is_some_and(inserts_at_index),
        Op::Replace => false,
    };
    if descending {
        items.sort_by(|a, b| compare_keys(&b.keys, &a.keys));
    }
    items
}

/// List positions by number, map keys by their bytes, what is inside after what holds it.
fn compare_keys(a: &[Key], b: &[Key]) -> std::cmp::Ordering {
    let pairs = a.iter().zip(b);
    pairs
        .map(|(a, b)| match (a, b) {
            (Key::Index(a), Key::Index(b)) => a.cmp(b),
            (Key::Name(a), Key::Name(b)) => a.cmp(b),
            (Key::Index(_), Key::Name(_)) => std::cmp::Ordering::Less,
            (Key::Name(_), Key::Index(_)) => std::cmp::Ordering::Greater,
        })
        .find(|order| order.is_ne())
        .unwrap_or_else(|| a.len().cmp(&b.len()))
}

fn operation(
    step: &PatchStep,
    keys: &[Key],
    item: Option<&Item<'_>>,
    context: &Context<'_>,
) -> Result<Calculated, CalculateError> {
    let index = step.index;
    let path =
        step.path.expand(keys).map_err(|error| CalculateError::Path { step: index, error })?;
    context
        .budget
        .allocate(path.len())
        .map_err(|exhausted| CalculateError::Exhausted { step: index, exhausted })?;
    let (value, rendered) = match &step.value {
        PatchValue::Constant(value, _) => (value.clone(), None),
        PatchValue::Broken(cause) => {
            return Err(CalculateError::Yaml { step: index, cause: cause.clone() });
        }
        PatchValue::Template(template) => {
            let text = render(template, keys, item, context)
                .map_err(|error| CalculateError::Render { step: index, error: Box::new(error) })?;
            context
                .budget
                .spend(text.len() as u64)
                .map_err(|exhausted| CalculateError::Exhausted { step: index, exhausted })?;
            let value = yaml::value(&text)
                .map_err(|error| CalculateError::Yaml { step: index, cause: error.to_string() })?;
            (value, Some(text))
        }
    };
    // Evaluated even for `remove`, whose value is then of no use.
    let value = (step.op != Op::Remove).then_some(value);
    Ok(Calculated { step: index, operation: PatchOperation { op: step.op, path, value }, rendered })
}

fn render(
    template: &Template,
    keys: &[Key],
    item: Option<&Item<'_>>,
    context: &Context<'_>,
) -> Result<String, RenderError> {
    let selected = item.map(|item| item.value.to_json().unwrap_or_default());
    let parts: Vec<modgate_template::KeyPart<'_>> = keys
        .iter()
        .map(|key| match key.part() {
            KeyPart::Int(int) => modgate_template::KeyPart::Index(int),
            KeyPart::Text(text) => modgate_template::KeyPart::Key(text),
        })
        .collect();
    let env = Env { budget: context.budget, host: context.host.templates() };
    template.render(
        PatchContext {
            target: context.document,
            namespace: context.namespace,
            selected_item: selected.as_ref(),
            select_key_parts: &parts,
        },
        &env,
    )
}
