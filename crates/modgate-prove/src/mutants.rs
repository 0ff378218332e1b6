//! Small changes of a policy, which its tests should notice: mutants.
//!
//! [`mutants`] lists the changes of one policy, in the order in which they stand, and
//! [`Mutant::apply`] makes one of them. A change need not compile. The
//! code of templates and of the cluster's own policies is changed as text, so that the rest of it
//! stays as its author wrote it; match blocks and ModRules are changed as objects.

mod cel;
mod objects;
mod rego;

use std::fmt;

use modgate_engine::api::{
    admissionregistration as registration, constraints, meta::GroupVersionKind, modrule, mutations,
    templates,
};
use modgate_value::{Value, diag::Span};

use crate::value::{self, Step};

/// The kinds of changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Change {
    /// An expression is left out.
    Dropped,
    /// A comparison is another one.
    Compared,
    /// A constant is another one.
    Constant,
    /// A `not` is left out.
    Negation,
    /// A rule, a branch, a validation or an operation is left out.
    Rule,
    /// A match clause or a criterion is left out.
    Widened,
    /// A message is empty.
    Message,
    /// `&&` is `||`, `all` is `exists`, a condition is constant.
    Logic,
    /// An element of a list is left out.
    Element,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Dropped => "the expression is left out",
            Self::Compared => "the comparison is another one",
            Self::Constant => "the constant is another one",
            Self::Negation => "the negation is left out",
            Self::Rule => "the rule is left out",
            Self::Widened => "the match is wider",
            Self::Message => "the message is empty",
            Self::Logic => "the logic is another one",
            Self::Element => "the element is left out",
        })
    }
}

impl Change {
    /// Its name in data.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Dropped => "expression-dropped",
            Self::Compared => "comparison-changed",
            Self::Constant => "constant-changed",
            Self::Negation => "negation-dropped",
            Self::Rule => "rule-dropped",
            Self::Widened => "match-widened",
            Self::Message => "message-emptied",
            Self::Logic => "logic-changed",
            Self::Element => "element-dropped",
        }
    }
}

/// A change of a policy.
#[derive(Debug, Clone, PartialEq)]
pub struct Mutant {
    /// The kind of change.
    pub change: Change,
    /// The way to what changes.
    pub path: Vec<Step>,
    /// How it changes.
    pub edit: Edit,
}

/// A change of one value.
#[derive(Debug, Clone, PartialEq)]
pub enum Edit {
    /// A part of a text is another one.
    Text(Span, String),
    /// The value is another one.
    Replace(Value),
    /// The value is left out.
    Remove,
}

impl Mutant {
    /// The policy with the change.
    pub fn apply(&self, policy: &Value) -> Value {
        match &self.edit {
            Edit::Remove => value::removed(policy, &self.path),
            Edit::Replace(with) => value::replaced(policy, &self.path, with.clone()),
            Edit::Text(span, with) => {
                let text = value::at(policy, &self.path).and_then(Value::as_str);
                let edited = text.map(|text| edited(text, *span, with)).unwrap_or_default();
                value::replaced(policy, &self.path, edited.into())
            }
        }
    }

    /// The field that changes, as Kubernetes writes paths.
    pub fn field(&self) -> String {
        value::written(&self.path)
    }

    /// The changed part before and after: lines of a text, without white space around them, or
    /// JSON. The second is empty if the part is left out.
    pub fn shown(&self, policy: &Value) -> (String, String) {
        let Some(before) = value::at(policy, &self.path) else { return Default::default() };
        match &self.edit {
            Edit::Remove => (self.labelled(before), String::new()),
            Edit::Replace(with) => (self.labelled(before), self.labelled(with)),
            Edit::Text(span, with) => {
                let text = before.as_str().unwrap_or_default();
                let start =
                    text.get(..span.start).and_then(|it| it.rfind('\n')).map_or(0, |it| it + 1);
                let rest = text.get(span.end..).and_then(|it| it.find('\n'));
                let end = rest.map_or(text.len(), |length| span.end + length);
                let lines = text.get(start..end).unwrap_or_default();
                let span = Span::new(span.start - start, span.end - start);
                (brief(lines), brief(&edited(lines, span, with)))
            }
        }
    }

    /// A value with the name of its member.
    fn labelled(&self, value: &Value) -> String {
        let json = value.to_json();
        match self.path.last() {
            Some(Step::Key(key)) => format!("{key}: {json}"),
            _ => format!("- {json}"),
        }
    }
}

/// The lines of a change that are shown.
const MAX_LINES: usize = 4;

/// Lines without their common look: no white space around them, the first ones.
fn brief(lines: &str) -> String {
    let mut shown: Vec<&str> =
        lines.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    if shown.len() > MAX_LINES {
        shown.truncate(MAX_LINES);
        shown.push("…");
    }
    shown.join("\n")
}

fn edited(text: &str, span: Span, with: &str) -> String {
    let before = text.get(..span.start).unwrap_or_default();
    let after = text.get(span.end..).unwrap_or_default();
    format!("{before}{with}{after}")
}

/// The changes of a policy, in the order in which they stand in each of its texts; none for an object
/// that is no policy.
pub fn mutants(policy: &Value) -> Vec<Mutant> {
    let kind = GroupVersionKind::of_object(policy);
    let mut found = MutantList::default();
    match (kind.group.as_str(), kind.kind.as_str()) {
        (templates::GROUP, templates::KIND) => objects::template(policy, &mut found),
        (constraints::GROUP, _) => objects::match_block(policy, &mut found),
        (mutations::GROUP, _) => objects::mutator(policy, &mut found),
        (registration::GROUP, _) => objects::admission_policy(policy, &mut found),
        _ if modrule::ModRule::is_modrule(policy) => objects::modrule(policy, &mut found),
        _ => {}
    }
    found.0
}

/// The changes found so far.
#[derive(Debug, Default)]
struct MutantList(Vec<Mutant>);

impl MutantList {
    fn add(&mut self, change: Change, path: &[Step], edit: Edit) {
        self.0.push(Mutant { change, path: path.to_vec(), edit });
    }

    fn text(&mut self, change: Change, path: &[Step], span: Span, with: impl Into<String>) {
        self.add(change, path, Edit::Text(span, with.into()));
    }
}

/// The other comparisons than this one that a mistake would make of it: its opposite, and the one that
/// differs at the bound.
fn comparisons(operator: &str) -> &'static [&'static str] {
    match operator {
        "==" => &["!="],
        "!=" => &["=="],
        "<" => &[">=", "<="],
        "<=" => &[">", "<"],
        ">" => &["<=", ">="],
        ">=" => &["<", ">"],
        _ => &[],
    }
}

/// A path and one more step.
fn below(path: &[Step], step: impl Into<Step>) -> Vec<Step> {
    let mut path = path.to_vec();
    path.push(step.into());
    path
}

/// A path of keys.
fn keys(path: &[&str]) -> Vec<Step> {
    path.iter().map(|key| Step::from(*key)).collect()
}
