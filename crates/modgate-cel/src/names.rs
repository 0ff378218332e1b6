//! The names that an expression takes from its surroundings.

use std::collections::BTreeSet;

use modgate_value::diag::Span;

use crate::{
    ast::{Expr, Kind},
    error::Errors,
    parser::parse,
};

/// The inputs that an expression names, without the variables of its macros.
///
/// # Errors
///
/// When the text is no expression.
pub fn free_names(text: &str) -> Result<BTreeSet<String>, Errors> {
    Ok(found(text)?.into_iter().map(|(name, _)| name).collect())
}

/// The text with another expression in the place of each input of this name. Variables of macros keep
/// the name.
///
/// # Errors
///
/// When the text is no expression.
pub fn with_input(text: &str, name: &str, instead: &str) -> Result<String, Errors> {
    let mut spans: Vec<Span> =
        found(text)?.into_iter().filter(|(found, _)| found == name).map(|(_, span)| span).collect();
    spans.sort_by_key(|span| span.start);
    spans.dedup();
    let mut written = String::with_capacity(text.len());
    let mut from = 0;
    for span in spans {
        written.push_str(text.get(from..span.start).unwrap_or_default());
        // A name at the root has a dot in front, which stays no part of it.
        if text.get(span.start..span.end) == Some(name) {
            written.push_str(instead);
        } else {
            written.push_str(text.get(span.start..span.end).unwrap_or_default());
        }
        from = span.end;
    }
    written.push_str(text.get(from..).unwrap_or_default());
    Ok(written)
}

fn found(text: &str) -> Result<Vec<(String, Span)>, Errors> {
    let expr = parse(text)?;
    let mut found = Vec::new();
    collect(&expr, &mut Vec::new(), &mut found);
    Ok(found)
}

/// As deep as the expression, which the parser bounds.
fn collect<'e>(expr: &'e Expr, bound: &mut Vec<&'e str>, found: &mut Vec<(String, Span)>) {
    match &expr.kind {
        Kind::Literal(_) => {}
        Kind::Ident(name) => {
            let plain = name.trim_start_matches('.');
            if plain.len() < name.len() || !bound.contains(&plain) {
                found.push((plain.to_owned(), expr.span));
            }
        }
        Kind::Select { operand, .. } | Kind::Has(operand, _) => collect(operand, bound, found),
        Kind::Index { operand, index, .. } => {
            collect(operand, bound, found);
            collect(index, bound, found);
        }
        Kind::Call { target, args, .. } => {
            target.iter().for_each(|target| collect(target, bound, found));
            args.iter().for_each(|arg| collect(arg, bound, found));
        }
        Kind::List(elements) => {
            elements.iter().for_each(|element| collect(&element.value, bound, found));
        }
        Kind::Map(entries) => {
            for entry in entries {
                collect(&entry.key, bound, found);
                collect(&entry.value, bound, found);
            }
        }
        Kind::Struct { fields, .. } => {
            fields.iter().for_each(|field| collect(&field.value, bound, found));
        }
        Kind::Macro { target, names, args, .. } => {
            collect(target, bound, found);
            let outside = bound.len();
            bound.extend(names.iter().map(String::as_str));
            args.iter().for_each(|arg| collect(arg, bound, found));
            bound.truncate(outside);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_are_named_and_replaced_where_they_are_no_variables_of_macros() {
        for (text, replaced) in [
            ("params == null", "variables.params == null"),
            (
                "has(params.data) && object.params.x == 'params'",
                "has(variables.params.data) && object.params.x == 'params'",
            ),
            (
                "params.list.all(params, params > 1) && params.ok",
                "variables.params.list.all(params, params > 1) && params_ok",
            ),
            ("[1].exists(x, x == params[x])", "[1].exists(x, x == variables.params[x])"),
            (
                "{params.a: [params, ?params.?b]}",
                "{variables.params.a: [variables.params, ?variables.params.?b]}",
            ),
            ("'é' + params.a", "'é' + variables.params.a"),
            ("Object{params: params}", "Object{params: variables.params}"),
        ] {
            let replaced = replaced.replace("params_ok", "variables.params.ok");
            assert_eq!(with_input(text, "params", "variables.params").expect(text), replaced);
        }
        let names = free_names("a.b + c[d] + [e].map(f, f + g)[0]").expect("an expression");
        assert_eq!(names.into_iter().collect::<Vec<_>>(), ["a", "c", "d", "e", "g"]);
        assert!(free_names("a +").is_err());
    }
}
