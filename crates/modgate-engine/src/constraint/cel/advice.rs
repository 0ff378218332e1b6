//! Advice about CEL that does not compile: help for the mistakes that most authors make.

mod foreign;

use modgate_cel::{CompileError, Expected, Issue, Mistake, SyntaxError, Type, signatures};
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

/// Advice about a mistake in an expression where these variables are declared.
pub(super) fn advice(text: &str, mistake: &Mistake, variables: &[&str]) -> Option<String> {
    match mistake {
        Mistake::Undeclared(name) => dotted_name(text, name)
            .or_else(|| macro_call(name))
            .or_else(|| undeclared(name, variables))
            .or_else(|| unquoted(text, name)),
        Mistake::InvalidArgument { function, argument } if function == "matches" => {
            regex::check(argument).err().map(|error| error.to_string())
        }
        Mistake::HasWithoutField => Some(
            "`has` takes a field: `has(object.a)`; for a key of a map write `\"key\" in object.a`"
                .to_owned(),
        ),
        Mistake::NoOverload { function, target, arguments } => {
            overload(function, target.as_ref(), arguments, text)
        }
        Mistake::UndefinedField(name) => undefined_field(text, name, variables),
        _ if text.trim().is_empty() => empty(),
        Mistake::Reserved(_) => foreign::advice(text),
        Mistake::Syntax(error) => foreign::advice(text).or_else(|| syntax(text, error)),
        _ => None,
    }
}

/// Advice about an expression with an error that has no place in its text.
pub(super) fn of_whole(text: &str, error: &CompileError) -> Option<String> {
    match error {
        CompileError::Result { wanted: Type::BOOL, .. } => Some(
            "a validation is an expression that must be true; compare the value, such as `… == 0`"
                .to_owned(),
        ),
        _ if text.trim().is_empty() => empty(),
        _ => None,
    }
}

fn empty() -> Option<String> {
    Some("the expression is empty; the key is `expression`".to_owned())
}

fn undefined_field(text: &str, name: &str, variables: &[&str]) -> Option<String> {
    if variables.contains(&name) && text.contains(&format!("variables.{name}")) {
        return Some(format!(
            "`{name}` is defined further down: a variable reads those in front of it"
        ));
    }
    let user = [".userInfo.name", ".userInfo.user"].iter().any(|it| text.contains(it));
    if user && ["name", "user"].contains(&name) {
        return Some("did you mean `username`?".to_owned());
    }
    near::did_you_mean(name, variables.iter().copied().chain(MEMBERS))
}

fn syntax(text: &str, error: &SyntaxError) -> Option<String> {
    use SyntaxError::{Extraneous, Mismatched, Missing, Token};

    let advice = match error {
        Extraneous { expected: Expected::Symbol(":"), .. }
        | Mismatched { expected: Expected::Symbol(":"), .. } => {
            "a condition has two outcomes: `condition ? a : b`"
        }
        Token(token) => match token.chars().next() {
            Some('=') => "compare with `==`",
            Some('&') => "write `&&`",
            Some('|') => "write `||`",
            Some('"' | '\'') => "a quote is missing at the end of the text",
            _ => return unequal_brackets(text),
        },
        _ if let Some(advice) = unequal_brackets(text) => return Some(advice),
        Extraneous { .. } => "two values need an operator between them, two operators a value",
        Mismatched { expected: Expected::Symbol(")"), .. } | Missing { symbol: ")", .. } => {
            "a comma or an operator is missing"
        }
        _ => return None,
    };
    Some(advice.to_owned())
}

fn unequal_brackets(text: &str) -> Option<String> {
    let count = |bracket: char| text.matches(bracket).count();
    let brackets = [('(', ')'), ('[', ']'), ('{', '}')];
    let (open, close) = brackets.into_iter().find(|(open, close)| count(*open) != count(*close))?;
    Some(match count(open) > count(close) {
        true => format!("a `{close}` is missing"),
        false => format!("there is a `{close}` too many"),
    })
}

/// Advice about an expression of one of the cluster's own policies.
pub(crate) fn of_policy(text: &str, error: &CompileError) -> Option<String> {
    let CompileError::Check(errors) = error else { return of_whole(text, error) };
    let mistake = &errors.issues.first()?.mistake;
    let advice = match mistake {
        Mistake::Undeclared(name) => match name.as_str() {
            "params" | "parameters" => {
                "`params` is what `paramKind` and a binding's `paramRef` name"
            }
            "anyObject" => "write `object`, or `oldObject` of a deletion",
            "input" => "`input` is Rego's; CEL has `object`, `oldObject`, `request` and `params`",
            "math" => return None,
            _ => return advice(text, mistake, &[]),
        },
        Mistake::UndefinedField(name) if name == "params" => {
            "the parameters are `params`; `variables.params` is Gatekeeper's"
        }
        _ => return advice(text, mistake, &[]),
    };
    Some(advice.to_owned())
}

/// Where an issue is: cel-go puts a call at its parenthesis and a member at its dot, people look for
/// the name.
pub(crate) fn named(text: &str, issue: &Issue) -> Span {
    let before = text.get(..issue.span.start).unwrap_or_default();
    let after = text.get(issue.span.start..).unwrap_or_default();
    match &issue.mistake {
        Mistake::Undeclared(name) if before.ends_with(name.as_str()) => {
            Span::new(before.len() - name.len(), before.len())
        }
        Mistake::UndefinedField(name) => {
            let member = after.strip_prefix('.').map_or("", str::trim_start);
            let start = text.len() - member.len();
            match member.starts_with(name.as_str()) {
                true => Span::new(start, start + name.len()),
                false => issue.span,
            }
        }
        _ => issue.span,
    }
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
fn overload(
    operator: &str,
    target: Option<&Type>,
    arguments: &[Type],
    text: &str,
) -> Option<String> {
    let names: Vec<String> = target.into_iter().chain(arguments).map(Type::to_string).collect();
    let has_type = |wanted: &str| names.iter().any(|name| name == wanted);

    if matches!(operator, "@in" | "_in_") {
        let advice = "the operand behind `in` must be a list or a map: `x in [\"a\", \"b\"]`; for a part of a text \
                      write `x.contains(\"a\")`";
        return Some(advice.to_owned());
    }
    if operator == "has" {
        return Some("`has` takes one field: `has(object.a)`".to_owned());
    }
    if has_type("kubernetes.Quantity") {
        let function = match operator {
            "_>_" | "_>=_" => "`a.isGreaterThan(b)` or `a.compareTo(b)`",
            "_<_" | "_<=_" => "`a.isLessThan(b)` or `a.compareTo(b)`",
            "_+_" => "`a.add(b)`",
            "_-_" => "`a.sub(b)`",
            _ => return None,
        };
        return Some(format!("quantities have functions: {function}"));
    }
    if has_type("kubernetes.GroupVersionKind") {
        return Some("a kind has a group, a version and a name: `request.kind.kind`".to_owned());
    }
    let names = names.iter().skip(target.iter().len());
    let types: Vec<&str> = names.map(String::as_str).collect();
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
pub(super) fn shortened(mistake: &Mistake) -> String {
    use Expected::{Expression, SymbolOrComma};

    let (how, found) = match mistake {
        Mistake::Syntax(SyntaxError::Extraneous {
            found,
            expected: Expression | SymbolOrComma(_),
        }) => ("extraneous", found),
        Mistake::Syntax(SyntaxError::Mismatched {
            found,
            expected: Expression | SymbolOrComma(_),
        }) => ("mismatched", found),
        _ => return mistake.to_string(),
    };
    format!("Syntax error: {how} input '{found}': expected an expression or an operator")
}
