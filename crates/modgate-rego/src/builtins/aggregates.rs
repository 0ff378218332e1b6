//! Folding collections.

use super::{Builtin, Context, Outcome, operand, yes_or_no};
use crate::{
    number::{self, ArithmeticError, Computed, Num},
    value::{Value, View},
};

pub(super) const BUILTINS: &[Builtin] = &[
    Builtin::new(
        "count",
        "(collection: any<string, array[any], object[any: any], set[any]>) => n: number",
        count,
    ),
    Builtin::new(
        "sum",
        "(collection: any<array[number], set[number]>) => n: number",
        |context, args| fold(context, args, number::sum),
    ),
    Builtin::new(
        "product",
        "(collection: any<array[number], set[number]>) => n: number",
        |context, args| fold(context, args, number::product),
    ),
    Builtin::new("max", "(collection: any<array[any], set[any]>) => n: any", max),
    Builtin::new("min", "(collection: any<array[any], set[any]>) => n: any", min),
    Builtin::new("sort", "(collection: any<array[any], set[any]>) => n: array[any]", sort),
    Builtin::new("all", "(any<array[any], set[any]>) => boolean", all).deprecated(),
    Builtin::new("any", "(any<array[any], set[any]>) => boolean", any).deprecated(),
];

fn count<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let value = operand::any(args, 0);
    let count = match (value.entry_count(), value.as_str()) {
        (Some(count), _) => count,
        (None, Some(text)) => {
            context.spend(text.len() / 16)?;
            text.chars().count()
        }
        _ => {
            let expected = ["array", "object", "set", "string"];
            return Err(operand::wrong_type(0, value, &expected));
        }
    };
    Ok(Some(Value::len(count)))
}

fn fold<'a>(
    context: &mut Context<'a>,
    args: &[Value<'a>],
    compute: impl Fn(&[Num<'a>]) -> Result<Computed, ArithmeticError>,
) -> Outcome<'a> {
    let items = operand::elements(args, 0, &["set", "array"])?;
    context.spend(items.len())?;
    context.allocate(items.len().saturating_mul(size_of::<Num<'_>>()))?;
    let numbers: Vec<_> = items
        .map(|item| {
            item.as_number()
                .ok_or_else(|| operand::wrong_element(0, operand::any(args, 0), item, &["number"]))
        })
        .collect::<Result<_, _>>()?;
    context.computed(&compute(&numbers)?)
}

fn max<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let items = operand::elements(args, 0, &["set", "array"])?;
    context.heap.charge_walk([operand::any(args, 0)])?;
    Ok(items.max())
}

fn min<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let items = operand::elements(args, 0, &["set", "array"])?;
    context.heap.charge_walk([operand::any(args, 0)])?;
    // Of equal ones the last, as OPA.
    Ok(items.reduce(|least, item| if item <= least { item } else { least }))
}

fn sort<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let mut items: Vec<_> = operand::elements(args, 0, &["set", "array"])?.collect();
    context.allocate(items.len().saturating_mul(size_of::<Value<'_>>()))?;
    if matches!(operand::any(args, 0).view(), View::Array(_)) {
        context.heap.sort(&mut items)?;
    }
    context.array(&items)
}

fn all<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let mut items = operand::elements(args, 0, &["array", "set"])?;
    context.spend(items.len())?;
    yes_or_no(items.all(|item| item.as_bool() == Some(true)))
}

fn any<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let mut items = operand::elements(args, 0, &["array", "set"])?;
    context.spend(items.len())?;
    yes_or_no(items.any(|item| item.as_bool() == Some(true)))
}
