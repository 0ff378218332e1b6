//! The public face of a parsed expression.

use std::ops::ControlFlow;

use modgate_value::{Budget, Str, Value, regex::Allowance};

use crate::{
    EvalError, Lint, List, Observation, ParseError, Requirement, Val, analysis,
    ast::{Kind, Node},
    lint, parse,
    plain::{Plain, Scope},
    reads::{self, Read},
    stream::{Cursor, Stream},
};

/// A parsed expression: immutable, shared between threads.
#[derive(Debug, Clone)]
pub struct Expr {
    text: Box<str>,
    root: Node,
    plain_path: Option<Box<[Str]>>,
}

/// The kind of result that a criteria item sees (spec `kubemod.md`, 3.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Null or undefined: no value to test.
    Absent,
    /// A single boolean, which decides the item by itself.
    Bool(bool),
    /// One value, visited.
    Single,
    /// A list whose elements were visited, undefined ones left out.
    List {
        /// Whether an undefined element was left out.
        dropped_undefined: bool,
    },
}

impl Expr {
    /// Parses an expression.
    ///
    /// # Errors
    ///
    /// When `text` is not an expression, or is too long or too deeply nested.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        Self::parse_within(text, &Allowance::default())
    }

    /// Parses an expression; the patterns that it spells out are paid from `patterns`. One that is too large
    /// is an error of the evaluation.
    ///
    /// # Errors
    ///
    /// As [`Expr::parse`].
    pub fn parse_within(text: &str, patterns: &Allowance) -> Result<Self, ParseError> {
        let root = parse::expression(text, patterns)?;
        let plain_path = analysis::plain_path(&root);
        Ok(Self { text: text.into(), root, plain_path })
    }

    /// The text it was parsed from.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether its value may depend on what is at `place`, keys from the root. `false` is certain.
    pub fn may_read(&self, place: &[&str]) -> bool {
        analysis::may_read(&self.root, place)
    }

    /// The value of the expression for a document.
    ///
    /// # Errors
    ///
    /// [`EvalError::Failed`] when the language says so, [`EvalError::Exhausted`] when the budget
    /// runs out.
    pub fn eval<'a>(
        &'a self,
        document: &'a Value,
        budget: &Budget<'_>,
    ) -> Result<Val<'a>, EvalError> {
        let stream = Stream::new(document, budget);
        Ok(match &self.root.kind {
            Kind::Path(path) if !path.is_multi() => {
                stream.place(path)?.map_or(Val::Undefined, Val::from)
            }
            _ => stream.run(&self.root)?,
        })
    }

    /// As [`Expr::eval`] by the plain evaluator, which everything faster is measured against.
    ///
    /// # Errors
    ///
    /// As [`Expr::eval`].
    pub fn eval_plain<'a>(
        &'a self,
        document: &'a Value,
        budget: &Budget<'_>,
    ) -> Result<Val<'a>, EvalError> {
        let scope = Scope::new(document, budget);
        Ok(Plain::new(None).eval(&self.root, &scope)?)
    }

    /// Visits the values a criteria item tests, without building lists: the elements of a list
    /// result, or the single value. Stops early when `visit` breaks.
    ///
    /// # Errors
    ///
    /// As [`Expr::eval`].
    pub fn for_each_value<'a>(
        &'a self,
        document: &'a Value,
        budget: &Budget<'_>,
        visit: &mut dyn FnMut(&Val<'a>) -> ControlFlow<()>,
    ) -> Result<Shape, EvalError> {
        let stream = Stream::new(document, budget);
        let path = match &self.root.kind {
            Kind::Path(path) if path.is_multi() => path,
            Kind::Path(path) => {
                return Ok(match stream.place(path)? {
                    None | Some(Cursor::Json(Value::Null)) => Shape::Absent,
                    Some(Cursor::Json(Value::Array(array))) => {
                        let _ = array.iter().try_for_each(|element| visit(&Val::from(element)));
                        Shape::List { dropped_undefined: false }
                    }
                    Some(place) => visit_values(&place.into(), visit),
                });
            }
            _ => return Ok(visit_values(&stream.run(&self.root)?, visit)),
        };
        let mut dropped_undefined = false;
        stream.each(path, &mut |_, cursor| {
            let value = Val::from(cursor);
            if value.is_undefined() {
                dropped_undefined = true;
                return Ok(ControlFlow::Continue(()));
            }
            Ok(visit(&value))
        })?;
        Ok(Shape::List { dropped_undefined })
    }

    /// Evaluates and reports the value of every part on the way, innermost first. Literals are
    /// left out; parts that were not needed are not evaluated.
    ///
    /// # Errors
    ///
    /// As [`Expr::eval`].
    pub fn trace<'a>(
        &'a self,
        document: &'a Value,
        budget: &Budget<'_>,
        observe: &mut dyn FnMut(Observation<'a>),
    ) -> Result<Val<'a>, EvalError> {
        let scope = Scope::new(document, budget);
        Ok(Plain::new(Some(observe)).eval(&self.root, &scope)?)
    }

    /// Whether both mean the same by construction: equal trees, however spelled.
    pub fn same_tree(&self, other: &Self) -> bool {
        self.root == other.root
    }

    /// Legal parts that are probably mistakes (verdicts W of the specification's section 9).
    pub fn lints(&self) -> Vec<Lint> {
        lint::lints(&self.root)
    }

    /// The places of the document that the expression reads.
    pub fn reads(&self) -> Vec<Read> {
        reads::reads(&self.root)
    }

    /// The keys, if the expression is just `$.a.b`: plain constant keys from the root.
    pub fn plain_path(&self) -> Option<&[Str]> {
        self.plain_path.as_deref()
    }

    /// Whether the result is true or false, whatever the document: a comparison, a negation, or a function
    /// that tests.
    pub fn is_condition(&self) -> bool {
        analysis::is_condition(&self.root)
    }

    /// Conditions that all must hold for the expression to be `true`; empty when none is known.
    pub fn requirements(&self) -> Vec<Requirement> {
        analysis::requirements(&self.root)
    }
}

/// The tree in one canonical spelling, which parses back to the same tree.
impl std::fmt::Display for Expr {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.root.fmt(f)
    }
}

/// Steps 2 to 5 of a criteria item (spec `kubemod.md`, 3.2).
fn visit_values<'a>(value: &Val<'a>, visit: &mut dyn FnMut(&Val<'a>) -> ControlFlow<()>) -> Shape {
    match value {
        Val::Undefined | Val::Null => Shape::Absent,
        Val::Bool(value) => Shape::Bool(*value),
        Val::Array(list) => visit_list(list, visit),
        single => {
            let _ = visit(single);
            Shape::Single
        }
    }
}

fn visit_list<'a>(list: &List<'a>, visit: &mut dyn FnMut(&Val<'a>) -> ControlFlow<()>) -> Shape {
    let mut dropped_undefined = false;
    for element in list.iter() {
        if element.is_undefined() {
            dropped_undefined = true;
        } else if visit(&element).is_break() {
            break;
        }
    }
    Shape::List { dropped_undefined }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PatchSelect;

    #[test]
    fn shared_between_threads() {
        fn shared<T: Send + Sync>() {}
        shared::<Expr>();
        shared::<PatchSelect>();
        shared::<Val<'_>>();
    }
}
