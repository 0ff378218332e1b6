//! Expressions of a template's Rego that can only be a mistake: it compiles, and is undefined or
//! reports nothing.

use std::collections::BTreeSet;

use modgate_rego::ast::{HeadKind, Module, Span, Term, TermKind};
use modgate_value::{Value, near, regex};

use super::{VIOLATION, dotted, name_of, place};
use crate::{
    Code,
    constraint::{
        known::{self, KIND, METADATA, OBJECT, USER, parameters},
        template::SourcePlace,
    },
};

/// Something that loads and is probably not meant.
#[derive(Debug)]
pub(in crate::constraint) struct Lint {
    pub(in crate::constraint) code: Code,
    pub(in crate::constraint) place: SourcePlace,
    pub(in crate::constraint) message: String,
    pub(in crate::constraint) help: Option<String>,
}

/// The members of `input`.
const INPUT: [&str; 2] = ["parameters", "review"];

/// The members of `input.review`.
const REVIEW: [&str; 17] = [
    "_unstable",
    "dryRun",
    "isGenerated",
    "kind",
    "name",
    "namespace",
    "namespaceObject",
    "object",
    "oldObject",
    "operation",
    "options",
    "requestKind",
    "requestResource",
    "requestSubResource",
    "resource",
    "subResource",
    "userInfo",
];

/// The members of `data.inventory`.
const INVENTORY: [&str; 2] = ["cluster", "namespace"];

/// Built-ins that take a regular expression, and which of their arguments it is.
const PATTERNS: [(&str, usize); 8] = [
    ("re_match", 0),
    ("regex.match", 0),
    ("regex.split", 0),
    ("regex.find_n", 0),
    ("regex.find_all_string_submatch_n", 0),
    ("regex.replace", 1),
    ("regex.globs_match", usize::MAX),
    ("regex.template_match", usize::MAX),
];

/// Everything about the modules of one template; `schema` is that of its parameters.
pub(in crate::constraint) fn lint(modules: &[Module], schema: Option<&Value>) -> Vec<Lint> {
    let mut found = Vec::new();
    // Rules may be evaluated with another `input`.
    let replaces_input = modules.iter().any(|module| module.text.contains("with input"));
    unused(modules, &mut found);
    for module in modules {
        violations(module, &mut found);
        heads(module, &mut found);
        for import in &module.imports {
            let path: Vec<&str> = import.path.iter().map(|part| part.as_str()).collect();
            library(modules, module, import.span, &path, &mut found);
        }
        module.visit_terms(&mut |term| match &term.kind {
            TermKind::Ref(parts) => {
                let names = parts.iter().map(|part| name_of(Some(part)).or_else(|| literal(part)));
                let path: Vec<&str> = names.map_while(|name| name).collect();
                let import = module.imports.iter().find(|it| path.first() == Some(&it.name()));
                let path = match import {
                    Some(import) => {
                        let steps = import.path.iter().map(|part| part.as_str());
                        steps.chain(path.iter().skip(1).copied()).collect()
                    }
                    None => path,
                };
                library(modules, module, term.span, &path, &mut found);
                if !replaces_input || path.first() != Some(&"input") {
                    reference(module, parts, schema, &mut found);
                }
            }
            TermKind::Call(operator, arguments) => {
                call(module, operator, arguments, &mut found);
                if !replaces_input {
                    optional(module, operator, arguments, schema, &mut found);
                }
            }
            _ => {}
        });
    }
    found
}

/// Rules of the main module that nothing reads and that have the name of one that is read, or nearly.
fn unused(modules: &[Module], found: &mut Vec<Lint>) {
    let Some(main) = modules.first() else { return };
    let mut read: BTreeSet<&str> = [VIOLATION].into();
    for rule in &main.rules {
        let own = name_of(rule.head.name.first());
        rule.visit_terms(&mut |term| {
            let name = match &term.kind {
                TermKind::Var(name) => Some(name.as_str()),
                TermKind::Ref(parts) => name_of(parts.first()),
                _ => None,
            };
            read.extend(name.filter(|name| own != Some(*name)));
        });
    }
    let mut reported = BTreeSet::new();
    for rule in main.rules.iter().filter(|rule| !rule.default && rule.head.name.len() == 1) {
        let Some(name) = name_of(rule.head.name.first()) else { continue };
        // A rule called `if` has a warning of its own.
        if read.contains(name) || name == "if" || !reported.insert(name) {
            continue;
        }
        let is_of_others = ["deny", "warn", "violations"].contains(&name);
        let is_misspelt = near::nearest(name, [VIOLATION]).is_some();
        let others = main.rules.iter().filter_map(|rule| name_of(rule.head.name.first()));
        let meant = if is_of_others || is_misspelt {
            Some(VIOLATION)
        } else {
            others.filter(|other| *other != VIOLATION && read.contains(other)).find(|other| {
                let digits = |text: &str| text.chars().any(|it| it.is_ascii_digit());
                name.len() > 4 && near::is_slip(name, other) && !digits(name) && !digits(other)
            })
        };
        if let Some(meant) = meant {
            found.push(Lint {
                code: Code::NoEffect,
                place: place(main, rule.head.span),
                message: format!("nothing reads the rule `{name}`"),
                help: Some(format!("did you mean `{meant}`?")),
            });
        }
    }
}

/// A reference into `data.lib` that none of the template's libraries has.
fn library(modules: &[Module], module: &Module, span: Span, path: &[&str], found: &mut Vec<Lint>) {
    let ["data", "lib", ..] = path else { return };
    let path = path.get(1..).unwrap_or_default();
    let is_there = modules.iter().any(|library| {
        let (package, rules) = (&library.package, &library.rules);
        let common = package.len().min(path.len());
        let is_same = package.iter().zip(path).take(common).all(|(a, b)| a == b);
        let rule = path.get(package.len());
        let is_rule =
            |name: &&str| rules.iter().any(|it| name_of(it.head.name.first()) == Some(*name));
        is_same && package.first().is_some_and(|it| it == "lib") && rule.is_none_or(is_rule)
    });
    if is_there {
        return;
    }
    let libraries: Vec<String> = modules.iter().skip(1).map(|it| it.package.join(".")).collect();
    let names: Vec<&str> = libraries.iter().map(String::as_str).collect();
    let written = path.join(".");
    // A rule that its library does not have.
    let library = modules.iter().skip(1).find(|library| {
        let package = library.package.iter().map(|part| part.as_str());
        path.split_last().is_some_and(|(_, before)| package.eq(before.iter().copied()))
    });
    let rules = library.into_iter().flat_map(|library| &library.rules);
    let rules: BTreeSet<&str> = rules.filter_map(|rule| name_of(rule.head.name.first())).collect();
    let help = match names.is_empty() {
        true => "the template has no `libs`".to_owned(),
        false if !rules.is_empty() => {
            let rules: Vec<&str> = rules.into_iter().collect();
            near::did_you_mean_or(path.last().copied().unwrap_or_default(), &rules, "it has")
        }
        false => near::did_you_mean_or(&written, &names, "the libraries are"),
    };
    found.push(Lint {
        code: Code::UnknownInput,
        place: place(module, span),
        message: format!("no library of the template has `data.{written}`, so this is undefined"),
        help: Some(help),
    });
}

/// `object.get` with a literal key, which reads a member as a reference does.
fn optional(
    module: &Module,
    operator: &Term,
    arguments: &[Term],
    schema: Option<&Value>,
    found: &mut Vec<Lint>,
) {
    if dotted(operator).as_deref() != Some("object.get") {
        return;
    }
    let [object, key, ..] = arguments else { return };
    let mut parts = match &object.kind {
        TermKind::Ref(parts) => parts.clone(),
        TermKind::Var(_) => vec![object.clone()],
        _ => return,
    };
    parts.push(key.clone());
    reference(module, &parts, schema, found);
}

/// Rules whose head the version of Rego reads as another rule than the author meant.
fn heads(module: &Module, found: &mut Vec<Lint>) {
    for rule in &module.rules {
        let name = name_of(rule.head.name.first());
        if name == Some("if") {
            found.push(Lint {
                code: Code::NoEffect,
                place: place(module, rule.head.span),
                message:
                    "this is a rule called `if`, and the rule in front of it has no conditions"
                        .to_owned(),
                help: Some(
                    "`if` is a keyword only after `import future.keywords.if`, or in Rego v1"
                        .to_owned(),
                ),
            });
        }
        let is_object =
            rule.head.name.len() == 2 && matches!(rule.head.kind, HeadKind::Value { .. });
        let is_message =
            matches!(rule.head.name.get(1).map(|it| &it.kind), Some(TermKind::Object(_)));
        if name == Some(VIOLATION) && is_object && is_message {
            found.push(Lint {
                code: Code::ViolationWithoutMsg,
                place: place(module, rule.head.span),
                message: "this rule defines an object, not a set, so no violation is reported"
                    .to_owned(),
                help: Some("write `violation contains {\"msg\": msg} if { … }`".to_owned()),
            });
        }
    }
}

fn literal(term: &Term) -> Option<&str> {
    match &term.kind {
        TermKind::String(text) => Some(text),
        _ => None,
    }
}

/// A step of a reference that none of these is; with `any` one that is near to none, too.
fn unknown(
    step: Option<&Term>,
    known: &[&'static str],
    any: bool,
) -> Option<(Span, String, Option<String>)> {
    let step = step?;
    let name = literal(step).filter(|name| !known.contains(name))?;
    let help = near::did_you_mean(name, known.iter().copied());
    let all = || format!("the members are: {}", known.join(", "));
    if help.is_none() && !any {
        return None;
    }
    Some((step.span, name.to_owned(), Some(help.unwrap_or_else(all))))
}

fn reference(module: &Module, parts: &[Term], schema: Option<&Value>, found: &mut Vec<Lint>) {
    let names: Vec<Option<&str>> = parts.iter().skip(1).map(literal).collect();
    let mut push = |code, at: Option<(Span, String, Option<String>)>, whole: &str| {
        if let Some((span, name, help)) = at {
            let message = format!("there is no `{whole}.{name}`, so this is undefined");
            found.push(Lint { code, place: place(module, span), message, help });
        }
    };
    match (name_of(parts.first()), names.as_slice()) {
        (Some("data"), [Some("inventory"), ..]) => {
            push(Code::UnknownInput, unknown(parts.get(2), &INVENTORY, true), "data.inventory");
        }
        (Some("input"), [Some("review"), Some("object" | "oldObject"), Some("metadata"), ..]) => {
            let at = unknown(parts.get(4), &METADATA, false);
            push(Code::UnknownInput, at, "metadata");
        }
        (Some("input"), [Some("review"), Some(kind @ ("kind" | "requestKind")), ..]) => {
            let at = unknown(parts.get(3), &KIND, true);
            push(Code::UnknownInput, at, &format!("input.review.{kind}"));
        }
        (Some("input"), [Some("review"), Some("userInfo"), ..]) => {
            let at = unknown(parts.get(3), &USER, true);
            push(Code::UnknownInput, at, "input.review.userInfo");
        }
        (Some("input"), [Some("review"), Some(object @ ("object" | "oldObject")), ..]) => {
            let at = unknown(parts.get(3), &OBJECT, false);
            push(Code::UnknownInput, at, &format!("input.review.{object}"));
        }
        (Some("input"), [Some("review"), ..]) => {
            push(Code::UnknownInput, unknown(parts.get(2), &REVIEW, false), "input.review");
        }
        (Some("input"), [Some("parameters"), ..]) => {
            let known = parts.get(2).zip(schema.and_then(parameters));
            if let Some((step, known)) = known
                && let Some(name) = literal(step).filter(|name| !known.contains(name))
            {
                let help = near::did_you_mean_or(name, &known, "the schema has");
                found.push(Lint {
                    code: Code::UnknownParameter,
                    place: place(module, step.span),
                    message: format!(
                        "the template's schema has no parameter `{name}`, so no constraint can set it"
                    ),
                    help: Some(help),
                });
            }
        }
        (Some("input"), _) => {
            push(Code::UnknownInput, unknown(parts.get(1), &INPUT, true), "input");
        }
        _ => {}
    }
}

/// Rules that give what no constraint reports: an object without `msg`.
pub(super) fn violations(module: &Module, found: &mut Vec<Lint>) {
    for rule in &module.rules {
        let HeadKind::Member(member) = &rule.head.kind else { continue };
        if name_of(rule.head.name.first()) != Some(VIOLATION) || rule.head.name.len() != 1 {
            continue;
        }
        let TermKind::Object(pairs) = &member.kind else { continue };
        let keys: Option<Vec<&str>> = pairs.iter().map(|(key, _)| literal(key)).collect();
        members_of_violation(module, pairs, found);
        let Some(keys) = keys.filter(|keys| !keys.contains(&"msg")) else { continue };
        let meant = |key: &&str| ["message", "mesg", "msgs", "Msg", "text"].contains(key);
        let (span, help) = match keys.iter().position(meant) {
            Some(at) => (
                pairs.get(at).map_or(member.span, |(key, _)| key.span),
                "did you mean `msg`?".to_owned(),
            ),
            None => (member.span, "add `\"msg\": …`".to_owned()),
        };
        found.push(Lint {
            code: Code::ViolationWithoutMsg,
            place: place(module, span),
            message: "a violation without `msg` is not reported".to_owned(),
            help: Some(help),
        });
    }
}

/// A `msg` that is no text, and members that are probably misspelt.
fn members_of_violation(module: &Module, pairs: &[(Term, Term)], found: &mut Vec<Lint>) {
    for (key, value) in pairs {
        let Some(name) = literal(key) else { continue };
        let what = match &value.kind {
            TermKind::Number(_) => Some("a number"),
            TermKind::Bool(_) => Some("a boolean"),
            TermKind::Null => Some("null"),
            TermKind::Array(_) => Some("a list"),
            TermKind::Object(_) => Some("an object"),
            _ => None,
        };
        if let ("msg", Some(what)) = (name, what) {
            found.push(Lint {
                code: Code::ViolationWithoutMsg,
                place: place(module, value.span),
                message: format!("`msg` is {what}, and a message is a text"),
                help: Some("`sprintf(\"%v\", [value])` makes a text".to_owned()),
            });
        }
        let is_known = ["details", "msg"].contains(&name);
        if !is_known && near::nearest(name, ["details"]).is_some() {
            found.push(Lint {
                code: Code::NoEffect,
                place: place(module, key.span),
                message: format!("nothing reads the member `{name}` of a violation"),
                help: Some("did you mean `details`?".to_owned()),
            });
        }
    }
}

const COMPARISONS: [&str; 7] = ["eq", "equal", "gt", "gte", "lt", "lte", "neq"];

/// A comparison of a member of the review with a value that it never has.
fn compare(module: &Module, arguments: &[Term], found: &mut Vec<Lint>) {
    let [left, right] = arguments else { return };
    let is_comparison = |term: &Term| match &term.kind {
        TermKind::Call(operator, _) => {
            dotted(operator).is_some_and(|name| COMPARISONS.contains(&name.as_str()))
        }
        _ => false,
    };
    if is_comparison(left) && matches!(right.kind, TermKind::String(_) | TermKind::Number(_)) {
        found.push(Lint {
            code: Code::NeverMatches,
            place: place(module, right.span),
            message: "this compares the result of another comparison, which is true or false"
                .to_owned(),
            help: Some(
                "a comparison has two sides: write two of them on lines of their own".to_owned(),
            ),
        });
    }
    for (member, value) in [(left, right), (right, left)] {
        let (TermKind::Ref(parts), Some(text)) = (&member.kind, literal(value)) else { continue };
        let names: Option<Vec<&str>> = parts.iter().skip(1).map(literal).collect();
        let Some(names) = names.filter(|_| name_of(parts.first()) == Some("input")) else {
            continue;
        };
        let ["review", below @ ..] = names.as_slice() else { continue };
        if let Some((message, help)) = known::never(below, text) {
            found.push(Lint {
                code: Code::NeverMatches,
                place: place(module, value.span),
                message,
                help: Some(help),
            });
        }
    }
}

fn call(module: &Module, operator: &Term, arguments: &[Term], found: &mut Vec<Lint>) {
    let Some(name) = dotted(operator) else { return };
    let argument = PATTERNS.iter().find(|(known, _)| *known == name).map(|(_, at)| *at);
    if let Some(term) = argument.and_then(|at| arguments.get(at))
        && let Some(pattern) = literal(term)
        && let Err(error) = regex::check(pattern)
    {
        found.push(Lint {
            code: Code::BadPattern,
            place: place(module, term.span),
            message: format!("the pattern does not compile, so this is undefined: {error}"),
            help: None,
        });
    }
    if let Some(term) = argument.and_then(|at| arguments.get(at))
        && let Some(pattern) = literal(term)
        && regex::slashes(pattern) == regex::Slashes::Delimiters
    {
        found.push(Lint {
            code: Code::BadPattern,
            place: place(module, term.span),
            message: regex::IN_SLASHES.to_owned(),
            help: Some(regex::without_slashes(pattern)),
        });
    }
    if matches!(name.as_str(), "equal" | "eq" | "neq") {
        compare(module, arguments, found);
    }
    if name == "external_data" {
        external_data(module, arguments, found);
    }
    if name == "sprintf" {
        format_arguments(module, arguments, found);
    }
}

/// Members of a request to a provider that nothing reads.
fn external_data(module: &Module, arguments: &[Term], found: &mut Vec<Lint>) {
    let [Term { kind: TermKind::Object(pairs), .. }] = arguments else { return };
    for (key, _) in pairs {
        let Some(name) = literal(key).filter(|name| !PROVIDED.contains(name)) else { continue };
        found.push(Lint {
            code: Code::NoEffect,
            place: place(module, key.span),
            message: format!("`external_data` reads no member `{name}`"),
            help: Some(near::did_you_mean_or(name, &PROVIDED, "the members are")),
        });
    }
}

/// The members of a request to a provider.
const PROVIDED: [&str; 2] = ["keys", "provider"];

/// A literal format and a literal list of values that do not fit.
fn format_arguments(module: &Module, arguments: &[Term], found: &mut Vec<Lint>) {
    let [format, Term { kind: TermKind::Array(values), span }, ..] = arguments else { return };
    let Some(verbs) = literal(format).and_then(verbs) else { return };
    if verbs.len() == values.len() {
        return;
    }
    found.push(Lint {
        code: Code::FormatArguments,
        place: place(module, *span),
        message: counts(verbs.len(), values.len()),
        help: None,
    });
}

/// The message about a format and a list that do not fit.
pub(crate) fn counts(verbs: usize, values: usize) -> String {
    let plural = |count: usize| if count == 1 { "" } else { "s" };
    format!(
        "the format has {verbs} verb{} and the list {values} value{}",
        plural(verbs),
        plural(values)
    )
}

/// The verbs of a format, one for each value; `None` where that is not plain.
pub(crate) fn verbs(format: &str) -> Option<Vec<char>> {
    let mut verbs = Vec::new();
    let mut letters = format.chars();
    while let Some(letter) = letters.next() {
        if letter != '%' {
            continue;
        }
        match letters.find(|letter| !matches!(letter, '+' | '-' | '#' | ' ' | '.' | '0'..='9'))? {
            '%' => {}
            '[' | '*' => return None,
            verb => verbs.push(verb),
        }
    }
    Some(verbs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verbs_of_formats() {
        for (format, expected) in [
            ("", Some("")),
            ("%v and %-5d", Some("vd")),
            ("100%%", Some("")),
            ("%[1]v", None),
            ("%", None),
        ] {
            let verbs = verbs(format).map(String::from_iter);
            assert_eq!(verbs.as_deref(), expected, "{format}");
        }
    }
}
