//! Advice about CEL that does not compile: help for the mistakes that most authors make.

mod foreign;

use modgate_cel::{Issue, signatures};
use modgate_value::{diag::Span, near, regex};

use crate::constraint::known::dotted_name;

/// The names that policies may use (CE-10).
const NAMES: [&str; 7] =
    ["authorizer", "namespaceObject", "object", "oldObject", "params", "request", "variables"];

/// The macros, which are no functions.
const MACROS: [&str; 6] = ["all", "exists", "exists_one", "filter", "has", "map"];

/// The members of what has a fixed type.
const MEMBERS: [&str; 30] = [
    "anyObject",
    "dryRun",
    "extra",
    "from",
    "group",
    "groups",
    "kind",
    "labels",
    "metadata",
    "name",
    "namespace",
    "namespaceObject",
    "op",
    "operation",
    "options",
    "params",
    "path",
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
    "value",
    "version",
];

/// Advice about an error in an expression where these variables are declared.
pub(super) fn advice(text: &str, message: &str, variables: &[&str]) -> Option<String> {
    let quoted = || message.split('\'').nth(1).unwrap_or_default();
    if message.starts_with("undeclared reference to ") {
        return dotted_name(text, quoted())
            .or_else(|| macro_call(quoted()))
            .or_else(|| undeclared(quoted(), variables))
            .or_else(|| unquoted(text, quoted()));
    }
    if message == "invalid matches argument" {
        return pattern(text);
    }
    if message == "invalid argument to has() macro" {
        return Some(
            "`has` takes a field: `has(object.a)`; for a key of a map write `\"key\" in object.a`"
                .to_owned(),
        );
    }
    if message.starts_with("found no matching overload for ") {
        return overload(quoted(), message, text);
    }
    if message.starts_with("undefined field ") {
        if variables.contains(&quoted()) && text.contains(&format!("variables.{}", quoted())) {
            let name = quoted();
            return Some(format!(
                "`{name}` is defined further down: a variable reads those in front of it"
            ));
        }
        let user = [".userInfo.name", ".userInfo.user"].iter().any(|it| text.contains(it));
        if user && ["name", "user"].contains(&quoted()) {
            return Some("did you mean `username`?".to_owned());
        }
        return near::did_you_mean(quoted(), variables.iter().copied().chain(MEMBERS));
    }
    if message.starts_with("must evaluate to bool") {
        let advice =
            "a validation is an expression that must be true; compare the value, such as `… == 0`";
        return Some(advice.to_owned());
    }
    if text.trim().is_empty() {
        return Some("the expression is empty; the key is `expression`".to_owned());
    }
    if message.starts_with("reserved identifier: ") {
        return foreign::advice(text);
    }
    let syntax = message.strip_prefix("Syntax error: ")?;
    if let Some(advice) = foreign::advice(text) {
        return Some(advice);
    }
    if syntax.ends_with("expecting ':'") {
        return Some("a condition has two outcomes: `condition ? a : b`".to_owned());
    }
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
    if syntax.starts_with("extraneous input") {
        return Some("two values need an operator between them, two operators a value".to_owned());
    }
    let mismatched = syntax.starts_with("mismatched input") && syntax.ends_with("expecting ')'");
    (mismatched || syntax.starts_with("missing ')' at"))
        .then(|| "a comma or an operator is missing".to_owned())
}

/// As [`advice`], about an expression of one of the cluster's own policies.
pub(crate) fn of_policy(text: &str, message: &str) -> Option<String> {
    let quoted = message.split('\'').nth(1).unwrap_or_default();
    if message.starts_with("undeclared reference to ") {
        let advice = match quoted {
            "params" | "parameters" => {
                "`params` is what `paramKind` and a binding's `paramRef` name"
            }
            "anyObject" => "write `object`, or `oldObject` of a deletion",
            "input" => "`input` is Rego's; CEL has `object`, `oldObject`, `request` and `params`",
            "math" => return None,
            _ => return advice(text, message, &[]),
        };
        return Some(advice.to_owned());
    }
    if message.starts_with("undefined field 'params'") {
        return Some("the parameters are `params`; `variables.params` is Gatekeeper's".to_owned());
    }
    advice(text, message, &[])
}

/// Where an issue is: cel-go puts a call at its parenthesis and a member at its dot, people look for
/// the name.
pub(crate) fn named(text: &str, issue: &Issue) -> Span {
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

/// Names that other languages and engines have, and what CEL has instead.
const CLASSICS: [(&[&str], &str); 8] = [
    (&["params", "parameters"], "the parameters of a constraint are `variables.params`"),
    (&["anyObject"], "write `variables.anyObject`"),
    (&["None", "nil", "undefined", "Null", "NULL"], "write `null`"),
    (&["True", "TRUE"], "write `true`"),
    (&["False", "FALSE"], "write `false`"),
    (
        &["input"],
        "`input` is Rego's; CEL has `object`, `oldObject`, `request` and `variables.params`",
    ),
    (&["authorizer"], "only ValidatingAdmissionPolicies have an authorizer, templates have none"),
    (&["math"], "templates have no `math` functions"),
];

/// Operators that some types have as functions.
fn overload(operator: &str, message: &str, text: &str) -> Option<String> {
    if matches!(operator, "@in" | "_in_") {
        let advice = "the operand behind `in` must be a list or a map: `x in [\"a\", \"b\"]`; for a part of a text \
                      write `x.contains(\"a\")`";
        return Some(advice.to_owned());
    }
    if operator == "has" {
        return Some("`has` takes one field: `has(object.a)`".to_owned());
    }
    if message.contains("kubernetes.Quantity") {
        let function = match operator {
            "_>_" | "_>=_" => "`a.isGreaterThan(b)` or `a.compareTo(b)`",
            "_<_" | "_<=_" => "`a.isLessThan(b)` or `a.compareTo(b)`",
            "_+_" => "`a.add(b)`",
            "_-_" => "`a.sub(b)`",
            _ => return None,
        };
        return Some(format!("quantities have functions: {function}"));
    }
    if message.contains("kubernetes.GroupVersionKind") {
        return Some("a kind has a group, a version and a name: `request.kind.kind`".to_owned());
    }
    let types =
        message.rsplit_once('(').map_or("", |(_, types)| types.trim_end_matches([')', '\'']));
    let types: Vec<&str> = types.split(", ").collect();
    let advice = match (operator, types.as_slice()) {
        ("_<_" | "_<=_" | "_>_" | "_>=_", ["bool", _]) => {
            "a comparison has two sides: `a < b && b < c`"
        }
        ("_+_", ["string", _] | [_, "string"]) => "texts are joined with texts: `string(x)`",
        ("_==_" | "_!=_", ["bool", _])
            if text.matches("!=").count() + text.matches("==").count() > 1 =>
        {
            "a comparison has two sides: `a != b && a != c`"
        }
        ("_==_" | "_!=_", ["bool", "string"] | ["string", "bool"]) => {
            "`true` and `false` stand without quotes"
        }
        (
            "_==_" | "_!=_" | "_<_" | "_<=_" | "_>_" | "_>=_",
            ["int", "string"] | ["string", "int"],
        ) => "numbers stand without quotes; `int(x)` makes a number of a text",
        ("_&&_" | "_||_" | "!_", _) => {
            "both sides are true or false; compare values, such as `x != \"\"`"
        }
        ("_?_:_", [_, left, right]) if left != right => {
            "the two results of `? :` have the same type; a condition by itself is true or false"
        }
        ("size", _) => "`size` is for texts, lists and maps",
        ("contains" | "endsWith" | "matches" | "startsWith", [_, _, ..]) => {
            return Some(format!(
                "it takes one text; for several write `x.{operator}(\"a\") || x.{operator}(\"b\")`"
            ));
        }
        _ => return None,
    };
    Some(advice.to_owned())
}

/// A macro that has another number of arguments, and is looked up as a function.
fn macro_call(name: &str) -> Option<String> {
    let call = match name {
        "all" | "exists" | "exists_one" | "filter" => format!("`list.{name}(x, x != \"\")`"),
        "map" => "`list.map(x, x.name)`".to_owned(),
        _ => return None,
    };
    Some(format!("the macro takes a name for the elements and an expression: {call}"))
}

/// A word that is compared with, and stands without quotes.
fn unquoted(text: &str, name: &str) -> Option<String> {
    let at = text.match_indices(name).find_map(|(at, _)| {
        let before = text.get(..at)?.trim_end();
        let is_compared = ["==", "!=", " in", "(", "[", ","].iter().any(|it| before.ends_with(it));
        let after = text.get(at + name.len()..)?;
        (is_compared && !after.starts_with(['(', '.', '['])).then_some(at)
    });
    at.map(|_| format!("a text needs quotes: `\"{name}\"`"))
}

/// Why a literal pattern does not compile.
fn pattern(text: &str) -> Option<String> {
    let mut quotes = text.split("matches(").skip(1);
    quotes.find_map(|rest| {
        let quote = rest.chars().next().filter(|it| matches!(it, '"' | '\''))?;
        let pattern = rest.get(1..)?.split(quote).next()?;
        regex::check(pattern).err().map(|error| error.to_string())
    })
}

fn undeclared(name: &str, variables: &[&str]) -> Option<String> {
    if variables.contains(&name) {
        return Some(format!("write `variables.{name}`"));
    }
    let classic = CLASSICS.iter().find(|(names, _)| names.contains(&name));
    if let Some((_, advice)) = classic {
        return Some((*advice).to_owned());
    }
    if let Some(advice) = foreign::function(name) {
        return Some(advice.to_owned());
    }
    if name == "has" {
        return Some("`has` takes one field: `has(object.a)`".to_owned());
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
