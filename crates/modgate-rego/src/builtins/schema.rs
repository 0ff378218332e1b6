//! JSON Schema, drafts 4, 6 and 7, as `github.com/xeipuuv/gojsonschema` has it.
//!
//! References lead only into the schema itself: nothing is fetched.

mod compile;
mod format;
mod validate;

use modgate_value::Value as Json;

use self::compile::Schema;
use super::{Builtin, BuiltinError, Context, Outcome, operand};
use crate::value::{Value, View};

pub(super) const BUILTINS: &[Builtin] = &[
    Builtin::new(
        "json.verify_schema",
        "(schema: any<string, object[any: any]>) => output: array<boolean, any<null, string>>",
        verify_schema,
    ),
    Builtin::new(
        "json.match_schema",
        "(document: any<string, object[any: any]>, schema: any<string, object[any: any]>) => output: array<boolean, array[object<desc: string, error: string, field: string, type: string>]>",
        match_schema,
    ),
];

/// The document an operand is: JSON text, or the object or array itself.
fn document<'a>(context: &Context<'a>, value: Value<'a>) -> Result<Json, BuiltinError> {
    match value.view() {
        View::String(text) => {
            context.spend(text.len())?;
            context.allocate(text.len().saturating_mul(size_of::<Json>() / 2))?;
            Json::from_json(text.as_bytes())
                .map_err(|_| BuiltinError::failed("invalid JSON string"))
        }
        View::Object(_) | View::Array(_) => Ok(value.to_json(context.heap.budget())?),
        _ => Err(BuiltinError::failed("wrong type, expected string or object")),
    }
}

/// `[true, null]`, or `[false, what is wrong with the schema]`.
fn verify_schema<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let schema = document(context, operand::any(args, 0));
    match schema.and_then(|schema| Schema::compile(&schema, context.heap.budget())) {
        Ok(_) => context.array(&[Value::TRUE, Value::NULL]),
        Err(BuiltinError::Limit(limit)) => Err(limit.into()),
        Err(error) => {
            let message = context.heap.string(&format!("jsonschema: {error}"))?;
            context.array(&[Value::FALSE, message])
        }
    }
}

/// `[whether the document fits the schema, [what does not]]`.
fn match_schema<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let json = document(context, operand::any(args, 0))?;
    let schema = document(context, operand::any(args, 1))?;
    let schema = Schema::compile(&schema, context.heap.budget())?;
    let found = schema.validate(&json, context.heap.budget())?;
    let mut problems = Vec::with_capacity(found.len());
    for problem in &found {
        let text = |text: &str| context.heap.string(text);
        problems.push(context.heap.record([
            ("error", text(&format!("{}: {}", problem.field, problem.description))?),
            ("type", Value::str(problem.kind)),
            ("field", text(&problem.field)?),
            ("desc", text(&problem.description)?),
        ])?);
    }
    let problems = context.heap.array(&problems)?;
    context.array(&[Value::bool(found.is_empty()), problems])
}
