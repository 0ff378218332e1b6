//! A parsed template, as it is run.

use std::collections::BTreeMap;

use modgate_value::regex::GoRegex;

use crate::syntax::{Tree, Trees};

/// A parsed template, as it is run.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) name: Box<str>,
    pub(crate) text: Box<str>,
    pub(crate) trees: Trees,
    /// The output of a template without actions.
    pub(crate) constant: Option<Box<str>>,
    /// The functions it calls whose result depends on more than the data.
    pub(crate) impure: Box<[&'static str]>,
    /// Expressions that the template spells out.
    pub(crate) regexes: BTreeMap<Box<str>, GoRegex>,
}

impl Program {
    pub(crate) fn tree(&self, name: &str) -> Option<&Tree> {
        self.trees.get(name)
    }

    /// Line from 1 and column in bytes from 0, as Go counts them.
    pub(crate) fn line_column(&self, pos: usize) -> (usize, usize) {
        let before = self.text.get(..pos).unwrap_or_default();
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        (before.bytes().filter(|byte| *byte == b'\n').count() + 1, before.len() - line_start)
    }
}
