//! The functions and methods a template can call, with the Go signatures that decide which
//! arguments they accept.

pub(crate) mod builtin;
mod case;
mod certs;
#[cfg(feature = "ciphers")]
mod crypto;
mod dates;
mod defaults;
mod dicts;
pub(crate) mod encoding;
mod json;
mod lists;
mod methods;
mod numbers;
mod paths;
mod random;
mod regexes;
mod strings;
mod urls;
mod versions;

#[cfg(test)]
mod hostile;

pub(crate) use methods::method;

use crate::{
    cx::{Cx, Result},
    text::Text,
    val::{List, Map, Val},
};

/// Which functions a template may call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Functions {
    /// Go's own only.
    Builtin,
    /// Go's own and Sprig's generic ones, as KubeMod offers them (spec `kubemod.md`, appendix D).
    #[default]
    Sprig,
}

/// A function or method.
pub(crate) struct Function {
    pub(crate) name: &'static str,
    /// Parameter types; of a variadic function the last one may be given any number of times. Of a
    /// method the receiver is left out.
    pub(crate) params: &'static [Ty],
    pub(crate) variadic: bool,
    /// `and` and `or`: the walker evaluates their arguments itself.
    pub(crate) short_circuits: bool,
    /// Depends on more than its arguments (spec `kubemod.md` Q-74).
    pub(crate) impure: bool,
    pub(crate) run: Run,
}

/// The function itself. Of a method the first argument is the receiver.
pub(crate) type Run = for<'r, 'a> fn(&'r mut Cx<'a>, Args<'r, 'a>) -> Result<Val<'a>>;

impl std::fmt::Debug for Function {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl Function {
    const fn new(name: &'static str, params: &'static [Ty], run: Run) -> Self {
        Self { name, params, variadic: false, short_circuits: false, impure: false, run }
    }

    /// A function whose last parameter is variadic.
    const fn variadic(name: &'static str, params: &'static [Ty], run: Run) -> Self {
        Self { variadic: true, ..Self::new(name, params, run) }
    }

    const fn impure(self) -> Self {
        Self { impure: true, ..self }
    }

    const fn short_circuiting(self) -> Self {
        Self { short_circuits: true, ..self }
    }

    /// Whether the first argument is a regular expression.
    pub(crate) fn takes_regex(&self) -> bool {
        self.name.starts_with("regex") || self.name.starts_with("mustRegex")
    }

    /// How many arguments there must be at least.
    pub(crate) fn fixed(&self) -> usize {
        self.params.len() - usize::from(self.variadic)
    }

    /// The type of argument `index`.
    pub(crate) fn param(&self, index: usize) -> Ty {
        let last = self.params.last().copied().unwrap_or(Ty::Any);
        self.params.get(index).copied().unwrap_or(last)
    }
}

/// A parameter's Go type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ty {
    /// `interface {}`
    Any,
    /// `reflect.Value`: like `interface {}`, but a missing value stays missing.
    Value,
    Text,
    Bool,
    Int,
    #[cfg_attr(not(feature = "ciphers"), expect(dead_code))]
    Uint32,
    Float,
    /// `map[string]interface {}`
    Map,
    /// `[]interface {}`
    List,
    Time,
    Duration,
    Version,
    Certificate,
}

impl Ty {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Any => "interface {}",
            Self::Value => "reflect.Value",
            Self::Text => "string",
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Uint32 => "uint32",
            Self::Float => "float64",
            Self::Map => "map[string]interface {}",
            Self::List => "[]interface {}",
            Self::Time => "time.Time",
            Self::Duration => "time.Duration",
            Self::Version => "*semver.Version",
            Self::Certificate => "sprig.certificate",
        }
    }
}

/// The arguments of one call, already of the types the function declares.
#[derive(Clone, Copy)]
pub(crate) struct Args<'r, 'a>(pub(crate) &'r [Val<'a>]);

impl<'r, 'a> Args<'r, 'a> {
    pub(crate) fn all(&self) -> &'r [Val<'a>] {
        self.0
    }

    /// The arguments from `index` on.
    pub(crate) fn rest(&self, index: usize) -> &'r [Val<'a>] {
        self.0.get(index..).unwrap_or_default()
    }

    pub(crate) fn get(&self, index: usize) -> &'r Val<'a> {
        self.0.get(index).unwrap_or(&Val::Missing)
    }

    pub(crate) fn text(&self, index: usize) -> &'r Text<'a> {
        match self.get(index) {
            Val::Text(text) => text,
            _ => &Text::Ref(""),
        }
    }

    /// A string as characters, with U+FFFD for what is not UTF-8.
    pub(crate) fn str(&self, index: usize) -> std::borrow::Cow<'r, str> {
        self.text(index).lossy()
    }

    pub(crate) fn int(&self, index: usize) -> i64 {
        match self.get(index) {
            Val::Int(value) => *value,
            _ => 0,
        }
    }

    pub(crate) fn float(&self, index: usize) -> f64 {
        match self.get(index) {
            Val::Float(value) => *value,
            _ => 0.0,
        }
    }

    pub(crate) fn bool(&self, index: usize) -> bool {
        matches!(self.get(index), Val::Bool(true))
    }

    pub(crate) fn map(&self, index: usize) -> Map<'a> {
        match self.get(index) {
            Val::Map(map) => *map,
            _ => Map::Nil,
        }
    }

    pub(crate) fn list(&self, index: usize) -> List<'a> {
        match self.get(index) {
            Val::List(list) => list.clone(),
            _ => List::nil(),
        }
    }
}

/// Sprig's functions, by group.
const SPRIG: &[&[Function]] = &[
    strings::FUNCTIONS,
    case::FUNCTIONS,
    numbers::FUNCTIONS,
    lists::FUNCTIONS,
    dicts::FUNCTIONS,
    defaults::FUNCTIONS,
    json::FUNCTIONS,
    dates::FUNCTIONS,
    regexes::FUNCTIONS,
    encoding::FUNCTIONS,
    paths::FUNCTIONS,
    versions::FUNCTIONS,
    urls::FUNCTIONS,
    random::FUNCTIONS,
    #[cfg(feature = "ciphers")]
    crypto::FUNCTIONS,
    certs::FUNCTIONS,
];

/// The function a template means by `name`. Sprig's own come first: its `slice` replaces Go's.
pub(crate) fn lookup(name: &str, functions: Functions) -> Option<&'static Function> {
    let sprig: &'static [&'static [Function]] = match functions {
        Functions::Builtin => &[],
        Functions::Sprig => SPRIG,
    };
    let groups = sprig.iter().chain(std::iter::once(&builtin::FUNCTIONS));
    groups.flat_map(|group| group.iter()).find(|function| function.name == name)
}

/// The names of all functions: Go's own and Sprig's.
pub fn function_names() -> impl Iterator<Item = &'static str> {
    let groups = SPRIG.iter().copied().chain(std::iter::once(builtin::FUNCTIONS));
    groups.flat_map(|group| group.iter()).map(|function| function.name)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use modgate_value::Value;

    use super::*;

    /// Appendix D of spec `kubemod.md` counts 208 names, and every one is in a recording.
    #[test]
    fn every_function_there_is_and_every_one_recorded() {
        let names: Vec<&str> =
            SPRIG.iter().flat_map(|group| group.iter()).map(|function| function.name).collect();
        assert_eq!(names.len(), 208);
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), 208);
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../conformance/languages/sprig.json");
        let corpus = Value::from_json(&std::fs::read(path).expect(path)).expect("corpus");
        let cases = corpus.get("cases").and_then(Value::as_array).expect("cases");
        let mut words = BTreeSet::new();
        for case in cases {
            let text = case.get("template").and_then(Value::as_str).expect("template");
            words.extend(text.split(|next: char| !next.is_alphanumeric() && next != '_'));
        }
        let unseen: Vec<&&str> = names.iter().filter(|name| !words.contains(**name)).collect();
        assert!(unseen.is_empty(), "{unseen:?}");
    }
}
