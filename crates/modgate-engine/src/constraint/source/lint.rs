//! What Rego of a template says that can only be a mistake: it compiles, and is undefined or
//! reports nothing.

use modgate_rego::ast::{HeadKind, Module, Span, Term, TermKind};
use modgate_value::{Value, near, regex::GoRegex};

use super::{VIOLATION, dotted, name_of, place};
use crate::{Code, constraint::template::SourcePlace};

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

/// The members of an object that are close to nothing else.
const OBJECT: [&str; 4] = ["apiVersion", "metadata", "spec", "status"];

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
    for module in modules {
        violations(module, &mut found);
        module.visit_terms(&mut |term| match &term.kind {
            TermKind::Ref(parts) => reference(module, parts, schema, &mut found),
            TermKind::Call(operator, arguments) => {
                call(module, operator, arguments, &mut found);
            }
            _ => {}
        });
    }
    found
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

/// The parameters that a schema allows; `None` if it allows any.
fn parameters(schema: &Value) -> Option<Vec<&str>> {
    let open =
        ["additionalProperties", "x-kubernetes-preserve-unknown-fields", "oneOf", "anyOf", "allOf"];
    if open.iter().any(|key| schema.get(key).is_some()) {
        return None;
    }
    let properties = schema.get("properties")?.as_object()?;
    Some(properties.keys().map(|name| name.as_str()).collect())
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

fn call(module: &Module, operator: &Term, arguments: &[Term], found: &mut Vec<Lint>) {
    let Some(name) = dotted(operator) else { return };
    let argument = PATTERNS.iter().find(|(known, _)| *known == name).map(|(_, at)| *at);
    if let Some(term) = argument.and_then(|at| arguments.get(at))
        && let Some(pattern) = literal(term)
        && let Err(error) = GoRegex::new(pattern)
    {
        found.push(Lint {
            code: Code::BadPattern,
            place: place(module, term.span),
            message: format!("the pattern does not compile, so this is undefined: {error}"),
            help: None,
        });
    }
    if name == "sprintf" {
        format_arguments(module, arguments, found);
    }
}

/// A literal format and a literal list of values that do not fit.
fn format_arguments(module: &Module, arguments: &[Term], found: &mut Vec<Lint>) {
    let [format, Term { kind: TermKind::Array(values), span }, ..] = arguments else { return };
    let Some(verbs) = literal(format).and_then(verbs) else { return };
    if verbs == values.len() {
        return;
    }
    let plural = |count: usize| if count == 1 { "" } else { "s" };
    found.push(Lint {
        code: Code::FormatArguments,
        place: place(module, *span),
        message: format!(
            "the format has {verbs} verb{} and the list {} value{}",
            plural(verbs),
            values.len(),
            plural(values.len())
        ),
        help: None,
    });
}

/// How many values a format takes; `None` where that is not plain.
fn verbs(format: &str) -> Option<usize> {
    let mut count = 0;
    let mut letters = format.chars();
    while let Some(letter) = letters.next() {
        if letter != '%' {
            continue;
        }
        match letters.find(|letter| !matches!(letter, '+' | '-' | '#' | ' ' | '.' | '0'..='9'))? {
            '%' => {}
            '[' | '*' => return None,
            _ => count += 1,
        }
    }
    Some(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verbs_of_formats() {
        for (format, count) in [
            ("", Some(0)),
            ("%v and %-5d", Some(2)),
            ("100%%", Some(0)),
            ("%[1]v", None),
            ("%", None),
        ] {
            assert_eq!(verbs(format), count, "{format}");
        }
    }
}
