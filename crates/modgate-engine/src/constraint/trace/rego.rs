//! Rego: the expressions that its evaluator reports, each once.

use std::collections::BTreeMap;

use modgate_rego::{
    Program,
    ast::Span,
    eval::{Event, EventKind, Tracer},
};
use modgate_value::{Budget, Value};

use super::{ExpressionResult, OWN_MODULES, Placed, Traced, paths, shorten};
use crate::constraint::{
    admission::Admission,
    compile::CompiledConstraint,
    driver::{Arena, Externals, RegoDriver},
};

pub(super) fn trace(
    driver: &RegoDriver,
    constraint: &CompiledConstraint,
    admission: &Admission,
    externals: Externals<'_>,
    arena: &Arena,
    budget: &Budget<'_>,
) -> Traced {
    let program = driver.written();
    let mut notes = Notes { program, tried: BTreeMap::new(), budget };
    let (review, parameters) = (admission.review(), constraint.parameters());
    let found = driver.traced(review, parameters, externals, arena, budget, &mut notes);
    let violations = match found {
        Ok(violations) => violations.into_iter().map(|violation| violation.message).collect(),
        Err(error) => vec![error.to_string()],
    };
    let expressions = notes.tried.into_iter();
    let expressions = expressions
        .map(|((module, start, _), tried)| {
            let source = program.and_then(|program| program.module(module));
            let name = source.map_or("", |source| source.name.as_str());
            let before = source.and_then(|source| source.text.get(..start as usize));
            let line = before.map_or(0, |text| text.matches('\n').count());
            let line = u32::try_from(line).unwrap_or(u32::MAX);
            let mut values = tried.values;
            for path in paths(&tried.text, "input") {
                values.push((path.to_owned(), input(path, review, parameters)));
            }
            Placed {
                field: constraint.template().rego_field(name),
                line,
                position: None,
                rule: tried.rule,
                module: format!("{name}:{}", line + 1),
                text: tried.text,
                result: match (tried.held, tried.failed) {
                    (_, 0) => ExpressionResult::Held,
                    (0, _) => ExpressionResult::Failed,
                    (held, failed) => ExpressionResult::Mixed(held, failed),
                },
                values,
            }
        })
        .collect();
    Traced { violations, expressions }
}

/// The value of a plain path into `input`.
fn input(path: &str, review: &Value, parameters: &Value) -> String {
    let mut keys = path.split('.').skip(1);
    let root = match keys.next() {
        Some("review") => Some(review),
        Some("parameters") => Some(parameters),
        _ => None,
    };
    let value = keys.try_fold(root, |value, key| Some(value?.get(key))).flatten();
    value.map_or_else(|| "undefined".to_owned(), |value| shorten(value.to_json()))
}

/// Module, start and end of an expression.
type Place = (u32, u32, u32);

struct Notes<'p, 'b> {
    program: Option<&'p Program>,
    tried: BTreeMap<Place, Tried>,
    budget: &'b Budget<'b>,
}

struct Tried {
    rule: String,
    text: String,
    held: usize,
    failed: usize,
    /// Of the last try.
    values: Vec<(String, String)>,
}

impl Notes<'_, '_> {
    fn text(&self, span: Span) -> Option<&str> {
        let module = self.program?.module(span.module)?;
        if module.name.starts_with(OWN_MODULES) {
            return None;
        }
        module.text.get(span.start as usize..span.end as usize)
    }
}

impl Tracer for Notes<'_, '_> {
    fn event(&mut self, event: Event<'_, '_>) {
        let Some(text) = self.text(event.span).map(str::to_owned) else { return };
        let rule = event.rule_name().unwrap_or_default().to_owned();
        let mentioned = |name: &str| {
            let mut words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
            words.any(|word| word == name)
        };
        let mut values: Vec<(String, String)> = event
            .bindings()
            .filter(|(name, _)| mentioned(name))
            .filter_map(|(name, value)| {
                let text = value.to_text(self.budget).ok()?;
                // A variable that is not bound yet reads as null.
                let is_bound = event.kind == EventKind::Succeeded || text != "null";
                is_bound.then(|| (name.to_owned(), shorten(text)))
            })
            .collect();
        values.sort();
        values.dedup();
        // Variables of comprehensions may share a name; which one is meant is not known.
        let names: Vec<String> = values.iter().map(|(name, _)| name.clone()).collect();
        values.retain(|(name, _)| names.iter().filter(|other| *other == name).count() == 1);
        let place = (event.span.module, event.span.start, event.span.end);
        let tried = self.tried.entry(place).or_insert_with(|| Tried {
            rule,
            text,
            held: 0,
            failed: 0,
            values: Vec::new(),
        });
        match event.kind {
            EventKind::Succeeded => tried.held += 1,
            EventKind::Failed => tried.failed += 1,
        }
        tried.values = values;
    }
}
