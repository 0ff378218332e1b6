//! Expressions of a template's CEL that can only be a mistake: they compile, and always have the same result
//! or fails for every object.

use modgate_api::templates::CelSource;
use modgate_cel::{
    ast::{Expr, Kind, Literal},
    parse,
};
use modgate_value::{Value, diag::Span, near};

use crate::{
    Code, Severity,
    constraint::{
        known::{self, METADATA, OBJECT},
        template::TemplateProblem,
    },
};

/// A path such as `request.kind.kind`: its names, and where the last one stands.
type Path<'e> = Vec<(&'e str, Span)>;

/// Everything about a source; `schema` is that of the template's parameters.
pub(super) fn lint(
    source: &CelSource,
    field: &str,
    schema: Option<&Value>,
) -> Vec<TemplateProblem> {
    let mut found = Vec::new();
    whole(source, field, &mut found);
    let conditions = source.match_conditions.iter().flatten().enumerate();
    let conditions =
        conditions.map(|(at, it)| (format!("matchCondition[{at}].expression"), &it.expression));
    let variables = source.variables.iter().flatten().enumerate();
    let variables =
        variables.map(|(at, it)| (format!("variables[{at}].expression"), &it.expression));
    let validations = source.validations.iter().flatten().enumerate();
    let validations = validations.flat_map(|(at, it)| {
        [
            (format!("validations[{at}].expression"), &it.expression),
            (format!("validations[{at}].messageExpression"), &it.message_expression),
        ]
    });
    for (part, text) in conditions.chain(variables).chain(validations) {
        // What does not parse is an error.
        let Ok(expression) = parse(text) else { continue };
        let mut lints = Lints { field: format!("{field}.{part}"), text, schema, found: &mut found };
        lints.visit(&expression);
    }
    found
}

/// Lists without effect, and names that cannot be used.
fn whole(source: &CelSource, field: &str, found: &mut Vec<TemplateProblem>) {
    let mut push = |code, field: String, message: String, help: &str| {
        found.push(TemplateProblem {
            severity: Severity::Warning,
            code: Some(code),
            field,
            text: None,
            span: None,
            message,
            help: Some(help.to_owned()),
        });
    };
    if source.validations.iter().flatten().next().is_none() {
        let message = "there is no validation, so no constraint denies anything".to_owned();
        push(Code::NoEffect, field.to_owned(), message, "add `validations`");
    }
    let variables: Vec<&str> =
        source.variables.iter().flatten().map(|it| it.name.as_str()).collect();
    for (at, name) in variables.iter().enumerate() {
        let field = format!("{field}.variables[{at}].name");
        if variables.iter().skip(at + 1).any(|other| other == name) {
            let message = format!("another variable is called `{name}`, and the last one counts");
            push(Code::NoEffect, field, message, "give variables names of their own");
            continue;
        }
        let is_part = |it: char| it.is_ascii_alphanumeric() || it == '_';
        let starts = name.starts_with(|it: char| it.is_ascii_alphabetic() || it == '_');
        if !starts || !name.chars().all(is_part) {
            let message = format!("no expression can read a variable called `{name}`");
            let help = "a name has letters, digits and `_`, and starts with no digit";
            push(Code::UnknownValue, field, message, help);
        }
    }
}

struct Lints<'e> {
    field: String,
    text: &'e str,
    schema: Option<&'e Value>,
    found: &'e mut Vec<TemplateProblem>,
}

impl Lints<'_> {
    fn push(&mut self, code: Code, span: Span, message: String, help: String) {
        self.found.push(TemplateProblem {
            severity: Severity::Warning,
            code: Some(code),
            field: self.field.clone(),
            text: Some(self.text.into()),
            span: Some(span),
            message,
            help: Some(help),
        });
    }

    /// Checks an expression and everything in it. The parser bounds the depth.
    fn visit(&mut self, expression: &Expr) {
        let path = path(expression, self.text);
        if let Some(path) = &path {
            self.path(path);
        }
        match &expression.kind {
            Kind::Literal(_) | Kind::Ident(_) => {}
            // The steps of a path have been checked together.
            Kind::Select { operand, .. } if path.is_none() => self.visit(operand),
            Kind::Index { operand, index, .. } => {
                if path.is_none() {
                    self.visit(operand);
                    self.visit(index);
                }
            }
            Kind::Select { .. } => {}
            Kind::Call { function, target, args } => {
                self.call(function, args);
                target.iter().for_each(|target| self.visit(target));
                args.iter().for_each(|argument| self.visit(argument));
            }
            Kind::List(elements) => elements.iter().for_each(|it| self.visit(&it.value)),
            Kind::Map(entries) => entries.iter().for_each(|entry| {
                self.visit(&entry.key);
                self.visit(&entry.value);
            }),
            Kind::Struct { fields, .. } => fields.iter().for_each(|it| self.visit(&it.value)),
            Kind::Has(operand, field) => {
                if let Some(mut path) = self::path(operand, self.text) {
                    path.push((field.as_str(), after(self.text, operand.span, field)));
                    self.path(&path);
                } else {
                    self.visit(operand);
                }
            }
            Kind::Macro { target, args, .. } => {
                self.visit(target);
                args.iter().for_each(|argument| self.visit(argument));
            }
        }
    }

    /// Checks the names of a path.
    fn path(&mut self, path: &Path<'_>) {
        let names: Vec<&str> = path.iter().map(|(name, _)| *name).collect();
        let at = |index: usize| path.get(index).map_or(Span::at(0), |(_, span)| *span);
        let (known, index, whole): (&[&str], usize, &str) = match names.as_slice() {
            ["variables", "params", "spec", "parameters", ..] if !self.has_parameter("spec") => {
                let message = "`variables.params` is `spec.parameters` already".to_owned();
                let help = "leave `spec.parameters` out: `variables.params.NAME`".to_owned();
                return self.push(Code::UnknownParameter, at(2), message, help);
            }
            ["variables", "params", name, ..] => return self.parameter(name, at(2)),
            ["params", "spec", "parameters", name, ..] => return self.parameter(name, at(3)),
            ["params", name, ..] if !OBJECT.contains(name) && *name != "kind" => {
                let message = format!("`params` is the constraint here, which has no `{name}`");
                let help = format!("write `variables.params.{name}`");
                return self.push(Code::UnknownParameter, at(1), message, help);
            }
            ["object" | "oldObject", "metadata", _, ..] => (&METADATA, 2, "metadata"),
            ["variables", "anyObject", "metadata", _, ..] => (&METADATA, 3, "metadata"),
            ["object" | "oldObject", _, ..] => (&OBJECT, 1, "object"),
            ["variables", "anyObject", _, ..] => (&OBJECT, 2, "object"),
            _ => return,
        };
        let Some(name) = names.get(index).filter(|name| !known.contains(name)) else { return };
        if let Some(help) = near::did_you_mean(name, known.iter().copied()) {
            let message = format!("no object has a member `{whole}.{name}`");
            self.push(Code::UnknownInput, at(index), message, help);
        }
    }

    fn has_parameter(&self, name: &str) -> bool {
        self.schema.and_then(known::parameters).is_some_and(|known| known.contains(&name))
    }

    fn parameter(&mut self, name: &str, span: Span) {
        let Some(known) = self.schema.and_then(known::parameters) else { return };
        if known.contains(&name) {
            return;
        }
        let help = near::did_you_mean_or(name, &known, "the schema has");
        let message =
            format!("the template's schema has no parameter `{name}`, so no constraint can set it");
        self.push(Code::UnknownParameter, span, message, help);
    }

    /// Texts that a function cannot read, `"name" in variables.params`, and comparisons with values that never occur.
    fn call(&mut self, function: &str, args: &[Expr]) {
        if let [argument] = args
            && let Some(text) = literal(argument)
            && let Some(reason) = known::unreadable(function, text)
        {
            let message = format!("`{function}` cannot read this text, so this always fails");
            self.push(Code::NeverMatches, argument.span, message, reason);
        }
        let [left, right] = args else { return };
        if function == "@in" || function == "_in_" {
            let path = path(right, self.text).unwrap_or_default();
            let names: Vec<&str> = path.iter().map(|(name, _)| *name).collect();
            if let (Some(name), ["variables", "params"]) = (literal(left), names.as_slice()) {
                self.parameter(name, left.span);
            }
            return;
        }
        if !matches!(function, "_==_" | "_!=_") {
            return;
        }
        for (member, value) in [(left, right), (right, left)] {
            let Some(text) = literal(value) else { continue };
            let path = path(member, self.text).unwrap_or_default();
            let names: Vec<&str> = path.iter().map(|(name, _)| *name).collect();
            let below = match names.as_slice() {
                ["request", below @ ..] => below,
                ["variables", "anyObject", "kind"] => &["object", "kind"],
                all => all,
            };
            if let Some((message, help)) = known::never(below, text) {
                self.push(Code::NeverMatches, value.span, message, help);
            }
        }
    }
}

fn literal(expression: &Expr) -> Option<&str> {
    match &expression.kind {
        Kind::Literal(Literal::String(text)) => Some(text),
        _ => None,
    }
}

/// The names of `a.b["c"]`; `None` for other expressions.
fn path<'e>(expression: &'e Expr, text: &str) -> Option<Path<'e>> {
    match &expression.kind {
        Kind::Ident(name) => Some(vec![(name.trim_start_matches('.'), expression.span)]),
        Kind::Select { operand, field, .. } => {
            let mut path = path(operand, text)?;
            path.push((field, after(text, expression.span, field)));
            Some(path)
        }
        Kind::Index { operand, index, .. } => {
            let mut path = path(operand, text)?;
            path.push((literal(index)?, index.span));
            Some(path)
        }
        _ => None,
    }
}

/// Where a name stands at or behind the dot of a selection.
pub(crate) fn after(text: &str, dot: Span, name: &str) -> Span {
    let rest = text.get(dot.start..).unwrap_or_default();
    match rest.find(name) {
        Some(at) => Span::new(dot.start + at, dot.start + at + name.len()),
        None => dot,
    }
}
