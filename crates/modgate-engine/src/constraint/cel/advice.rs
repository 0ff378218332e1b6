//! What to do about CEL that does not compile: help for the mistakes that most authors make.

use modgate_cel::{Issue, signatures};
use modgate_value::{diag::Span, near};

/// What policies may name (CE-10).
const NAMES: [&str; 7] =
    ["authorizer", "namespaceObject", "object", "oldObject", "params", "request", "variables"];

/// The macros, which are no functions.
const MACROS: [&str; 6] = ["all", "exists", "exists_one", "filter", "has", "map"];

/// The members of what has a fixed type.
const MEMBERS: [&str; 26] = [
    "anyObject",
    "dryRun",
    "extra",
    "group",
    "groups",
    "kind",
    "labels",
    "metadata",
    "name",
    "namespace",
    "namespaceObject",
    "operation",
    "options",
    "params",
    "phase",
    "requestKind",
    "requestResource",
    "requestSubResource",
    "resource",
    "spec",
    "status",
    "subResource",
    "uid",
    "userInfo",
    "username",
    "version",
];

/// What to do about an error in an expression where these variables are declared.
pub(super) fn advice(text: &str, message: &str, variables: &[&str]) -> Option<String> {
    let quoted = || message.split('\'').nth(1).unwrap_or_default();
    if message.starts_with("undeclared reference to ") {
        return undeclared(quoted(), variables);
    }
    if message.starts_with("undefined field ") {
        return near::did_you_mean(quoted(), variables.iter().copied().chain(MEMBERS));
    }
    if message.starts_with("must evaluate to bool") {
        let advice = "a validation says what has to be true; compare the value, such as `… == 0`";
        return Some(advice.to_owned());
    }
    if text.trim().is_empty() {
        return Some("the expression is empty; the key is `expression`".to_owned());
    }
    let syntax = message.strip_prefix("Syntax error: ")?;
    if syntax.starts_with("token recognition error at: '=") {
        return Some("compare with `==`".to_owned());
    }
    if syntax.starts_with("token recognition error at: '&") {
        return Some("write `&&`".to_owned());
    }
    if syntax.starts_with("token recognition error at: '|") {
        return Some("write `||`".to_owned());
    }
    if syntax.starts_with("token recognition error at: '\"")
        || syntax.starts_with("token recognition error at: ''")
    {
        return Some("a quote is missing at the end of the text".to_owned());
    }
    let count = |bracket: char| text.matches(bracket).count();
    let brackets = [('(', ')'), ('[', ']'), ('{', '}')];
    if let Some((open, close)) =
        brackets.into_iter().find(|(open, close)| count(*open) != count(*close))
    {
        return Some(match count(open) > count(close) {
            true => format!("a `{close}` is missing"),
            false => format!("there is a `{close}` too many"),
        });
    }
    if syntax.starts_with("missing ')' at") {
        return Some("a comma or an operator is missing".to_owned());
    }
    ["and", "or", "not"].into_iter().find(|word| text.split(' ').any(|part| part == *word)).map(
        |word| {
            let sign = match word {
                "and" => "&&",
                "or" => "||",
                _ => "!",
            };
            format!("`{word}` is written `{sign}`")
        },
    )
}

/// Where an issue is: cel-go puts a call at its parenthesis and a member at its dot, people look for
/// the name.
pub(super) fn named(text: &str, issue: &Issue) -> Span {
    let name = issue.message.split('\'').nth(1).unwrap_or_default();
    let before = text.get(..issue.span.start).unwrap_or_default();
    let after = text.get(issue.span.start..).unwrap_or_default();
    if issue.message.starts_with("undeclared reference to ") && before.ends_with(name) {
        return Span::new(before.len() - name.len(), before.len());
    }
    let member = after.strip_prefix('.').map_or("", str::trim_start);
    if issue.message.starts_with("undefined field ") && member.starts_with(name) {
        let start = text.len() - member.len();
        return Span::new(start, start + name.len());
    }
    issue.span
}

fn undeclared(name: &str, variables: &[&str]) -> Option<String> {
    if variables.contains(&name) {
        return Some(format!("write `variables.{name}`"));
    }
    let functions = signatures();
    let functions = functions.iter().map(|signature| signature.name);
    near::did_you_mean(name, NAMES.into_iter().chain(MACROS).chain(functions))
}

/// cel-go lists every token that might follow; an author can use a few of them.
pub(super) fn shortened(message: &str) -> String {
    match message.split_once(" expecting {") {
        Some((before, _)) => format!("{before}: expected an expression or an operator"),
        None => message.to_owned(),
    }
}
