//! Collecting what is wrong.

use crate::{
    ast::{Module, Span},
    error::{Code, Error, locate},
    mistake::{Detail, Mistake},
};

/// OPA stops after this many errors, and so do we.
const LIMIT: usize = 10;

/// The text a [`Span`] points into.
#[derive(Debug, Clone, Copy)]
pub(super) struct Text<'m> {
    pub(super) name: &'m modgate_value::Str,
    pub(super) text: &'m str,
}

/// An error to report when earlier stages find none.
#[derive(Debug)]
pub(super) struct Late {
    pub(super) code: Code,
    pub(super) span: Span,
    pub(super) mistake: Mistake,
    pub(super) details: Vec<Detail>,
    pub(super) help: Option<String>,
}

/// The errors of later stages.
#[derive(Debug, Default)]
pub(super) struct Later {
    /// Of the stage after the names.
    pub(super) calls: Vec<Late>,
    /// Of the stage after the types: calls of deprecated built-ins.
    pub(super) deprecated: Vec<Late>,
    /// Whether the types of a call of a deprecated built-in are checked. Only then does OPA look for
    /// such calls, and then it reports all of them. It does not check types in bodies of `every`.
    pub(super) is_deprecated_checked: bool,
}

impl Later {
    /// How much was found so far.
    pub(super) fn mark(&self) -> (usize, usize, bool) {
        (self.calls.len(), self.deprecated.len(), self.is_deprecated_checked)
    }

    /// Forgets what was found since.
    pub(super) fn rewind(&mut self, mark: (usize, usize, bool)) {
        self.calls.truncate(mark.0);
        self.deprecated.truncate(mark.1);
        self.is_deprecated_checked = mark.2;
    }
}

/// The errors found so far.
#[derive(Debug)]
pub(super) struct Errors<'m> {
    texts: Vec<Text<'m>>,
    found: Vec<Error>,
}

impl<'m> Errors<'m> {
    pub(super) fn new(modules: &'m [Module]) -> Self {
        let texts =
            modules.iter().map(|module| Text { name: &module.name, text: &module.text }).collect();
        Self { texts, found: Vec::new() }
    }

    /// For texts that are not modules, in the order of [`Span::module`].
    pub(super) fn of_texts(texts: Vec<Text<'m>>) -> Self {
        Self { texts, found: Vec::new() }
    }

    pub(super) fn push(&mut self, code: Code, span: Span, mistake: impl Into<Mistake>) {
        let Some(Text { name, text }) = self.texts.get(span.module as usize) else { return };
        let error = Error::at(code, name, text, span, mistake);
        if self.found.len() < LIMIT && !self.found.contains(&error) {
            self.found.push(error);
        }
    }

    /// With lines that say more.
    pub(super) fn push_with(
        &mut self,
        code: Code,
        span: Span,
        mistake: Mistake,
        details: Vec<Detail>,
    ) {
        let before = self.found.len();
        self.push(code, span, mistake);
        if self.found.len() > before
            && let Some(error) = self.found.last_mut()
        {
            error.details = details;
        }
    }

    /// With advice.
    pub(super) fn push_late(&mut self, late: Late) {
        let before = self.found.len();
        self.push_with(late.code, late.span, late.mistake, late.details);
        if self.found.len() > before
            && let Some(error) = self.found.last_mut()
        {
            error.help = late.help.map(String::into_boxed_str);
        }
    }

    /// `file:line` of a span.
    pub(super) fn place(&self, span: Span) -> String {
        let Some(Text { name, text }) = self.texts.get(span.module as usize) else {
            return String::new();
        };
        let (line, column, _) = locate(text, span.start as usize);
        if name.is_empty() { format!("{line}:{column}") } else { format!("{name}:{line}") }
    }

    /// Puts what was found in the order of its places.
    pub(super) fn sort(&mut self) {
        self.found.sort_by_cached_key(|error| {
            (error.file.clone(), error.line, error.column, error.code, error.mistake.to_string())
        });
    }

    /// The errors found, if any.
    pub(super) fn finish(&mut self) -> Result<(), Vec<Error>> {
        if self.found.is_empty() {
            return Ok(());
        }
        Err(std::mem::take(&mut self.found))
    }
}
