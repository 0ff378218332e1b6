//! The public face of a parsed expression.

use std::{collections::BTreeSet, ops::ControlFlow};

use modgate_value::{Budget, Str, Value, diag::Span};

use crate::{EvalError, ParseError, Val, Zone};

/// What a parsed expression depends on besides its text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// The zone of `date()` texts that name none.
    pub zone: Zone,
}

/// A parsed expression: immutable, shared between threads.
#[derive(Debug, Clone)]
pub struct Expr {
    text: Box<str>,
}

/// What kind of result a criteria item sees (spec `kubemod.md`, 3.2).
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

/// A text that one place of the document must have for an expression to be true.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requirement {
    /// Keys from the root, each applied to an object.
    pub path: Vec<Str>,
    /// The place must be a string and one of these.
    pub texts: BTreeSet<Str>,
}

/// Something legal that is probably not what the author meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lint {
    /// The quirk it is about, such as `Q-04` (spec `kubemod.md`, section 9).
    pub id: &'static str,
    /// What happens.
    pub message: String,
    /// The part of the expression it is about.
    pub span: Span,
    /// What to write instead.
    pub help: Option<String>,
}

/// The value one part of an expression had during an evaluation.
#[derive(Debug, Clone)]
pub struct Observation<'a> {
    /// The part.
    pub span: Span,
    /// How deep the part is nested; the whole expression is 0.
    pub depth: usize,
    /// Its value or failure.
    pub result: Result<Val<'a>, EvalError>,
}

impl Expr {
    /// Parses an expression.
    ///
    /// # Errors
    ///
    /// When `text` is not an expression, or is too long or too deeply nested.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        Self::parse_with(text, &Options::default())
    }

    /// As [`Expr::parse`], with options.
    ///
    /// # Errors
    ///
    /// As [`Expr::parse`].
    pub fn parse_with(text: &str, _options: &Options) -> Result<Self, ParseError> {
        Ok(Self { text: text.into() })
    }

    /// The text it was parsed from.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The value of the expression for a document.
    ///
    /// # Errors
    ///
    /// [`EvalError::Failed`] when the language says so, [`EvalError::Exhausted`] when the budget
    /// runs out.
    pub fn eval<'a>(
        &'a self,
        _document: &'a Value,
        _budget: &Budget<'_>,
    ) -> Result<Val<'a>, EvalError> {
        Ok(Val::Undefined)
    }

    /// Visits the values a criteria item tests, without building lists: the elements of a list
    /// result, or the single value. Stops early when `visit` breaks.
    ///
    /// # Errors
    ///
    /// As [`Expr::eval`].
    pub fn for_each_value<'a>(
        &'a self,
        _document: &'a Value,
        _budget: &Budget<'_>,
        _visit: &mut dyn FnMut(&Val<'a>) -> ControlFlow<()>,
    ) -> Result<Shape, EvalError> {
        Ok(Shape::Absent)
    }

    /// Evaluates and reports the value of every part on the way, innermost first.
    ///
    /// # Errors
    ///
    /// As [`Expr::eval`].
    pub fn trace<'a>(
        &'a self,
        document: &'a Value,
        budget: &Budget<'_>,
        _observe: &mut dyn FnMut(Observation<'a>),
    ) -> Result<Val<'a>, EvalError> {
        self.eval(document, budget)
    }

    /// What is legal but probably not meant (verdicts W of the specification's section 9).
    pub fn lints(&self) -> Vec<Lint> {
        Vec::new()
    }

    /// The keys, if the expression is just `$.a.b`: plain constant keys from the root.
    pub fn plain_path(&self) -> Option<&[Str]> {
        None
    }

    /// Conditions that all must hold for the expression to be `true`; empty when none is known.
    pub fn requirements(&self) -> Vec<Requirement> {
        Vec::new()
    }
}
