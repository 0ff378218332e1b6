//! Advice about Rego that does not compile: help for the mistakes that most authors make.

use modgate_rego::{Code, Error, RegoVersion, ast::HeadKind, parse_module};
use modgate_value::{Value, diag::Span, near, odd};

use super::foreign;
use crate::constraint::known::dotted_name;

/// The keywords that a module of version 0 has to import.
const KEYWORDS: [&str; 4] = ["contains", "every", "if", "in"];

/// Advice about an error in a module with this text, which was read as this version.
pub(in crate::constraint) fn advice(
    text: &str,
    version: RegoVersion,
    error: &Error,
) -> Option<String> {
    // `print` is as near.
    if error.message == "undefined function sprint" {
        return Some("did you mean `sprintf`?".to_owned());
    }
    if error.help.is_some() {
        return error.help.as_deref().map(str::to_owned);
    }
    let message = error.message.as_str();
    let name = || message.split(' ').nth(1).unwrap_or_default();
    match error.code {
        Code::Parse => parse(text, version, error),
        Code::UnsafeVar => unsafe_variable(text, version, name()),
        Code::Recursion => {
            Some("a rule or function cannot use itself; `walk` visits what is nested".to_owned())
        }
        Code::Compile if message.ends_with("assigned above") => {
            Some(format!("`:=` gives `{}` a value once; compare with `==`", name()))
        }
        Code::Type => types(message, version),
        _ => None,
    }
}

fn parse(text: &str, version: RegoVersion, error: &Error) -> Option<String> {
    let message = error.message.as_str();
    let at = error.span.map_or(0, |span| span.start as usize);
    let parses = |text: &str, version| parse_module("", text, version).is_ok();
    if let Some((_, advice)) = package(text) {
        return Some(advice);
    }
    if message == "package expected" {
        return Some("the first line has to be `package NAME`".to_owned());
    }
    if message.starts_with("non-terminated string") {
        let quote = text.get(at..).and_then(|rest| rest.chars().next()).unwrap_or('"');
        let quote = if quote == '`' { "backquote".to_owned() } else { format!("`{quote}`") };
        return Some(format!("a {quote} is missing at the end of the text"));
    }
    // No version of Rego has these.
    if let Some(advice) = text.get(at..).and_then(|rest| rest.chars().next()).and_then(odd::advice)
    {
        return Some(advice);
    }
    if message.contains("keyword is required") {
        let advice = "in Rego v1 the rule is `violation contains {\"msg\": msg} if { … }`";
        return Some(advice.to_owned());
    }
    if text.lines().any(|line| line.trim_start().starts_with("violation contain {")) {
        return Some("did you mean `contains`?".to_owned());
    }
    // What makes the text parse is the cause, whatever the first token at fault looks like.
    match version {
        RegoVersion::V0 => {
            if parses(text, RegoVersion::V1) {
                let advice = "this is Rego v1: write `code: [{engine: Rego, source: {version: v1, rego: …}}]` \
                              instead of `rego`, or add `import future.keywords` below the package";
                return Some(advice.to_owned());
            }
            if let Some(keyword) = missing_import(text) {
                // One import would only lead to the next.
                let several = keyword != "if" && text.contains(" if {");
                let keyword = if several { String::new() } else { format!(".{keyword}") };
                return Some(format!("add `import future.keywords{keyword}` below the package"));
            }
        }
        RegoVersion::V1 if parses(text, RegoVersion::V0) => {
            return Some(
                "this is Rego v0: leave `version: v1` out, or use `contains` and `if`".to_owned(),
            );
        }
        RegoVersion::V1 => {}
    }
    if let Some(advice) = foreign::word(text, at).or_else(|| foreign::sign(text, at, message)) {
        return Some(advice.to_owned());
    }
    let count = |bracket: char| text.matches(bracket).count();
    let missing = [('{', '}'), ('[', ']'), ('(', ')')];
    let unequal = missing.into_iter().find(|(open, close)| count(*open) != count(*close));
    let Some((open, close)) = unequal else {
        let two = ["identifier", "string", "number", "{", "["].iter();
        let is_two =
            two.into_iter().any(|it| message.starts_with(&format!("unexpected {it} token")));
        return is_two
            .then(|| "between two values an operator is missing, or a line break".to_owned());
    };
    Some(match count(open) > count(close) {
        true => format!("a `{close}` is missing"),
        false => format!("there is a `{close}` too many"),
    })
}

/// The mistake in the name of a package declaration, and its place.
pub(in crate::constraint) fn package(text: &str) -> Option<(Span, String)> {
    let mut at = 0;
    let line = text.split_inclusive('\n').find(|line| {
        let is_code = !line.trim().is_empty() && !line.trim_start().starts_with('#');
        at += if is_code { 0 } else { line.len() };
        is_code
    })?;
    let start = at + line.len() - line.trim_start().len();
    let name = line.trim_start().strip_prefix("package")?;
    let written = name.split('#').next().unwrap_or_default().trim();
    if written.is_empty() {
        let advice = "write `package NAME`, on one line".to_owned();
        return Some((Span::new(start, start + "package".len()), advice));
    }
    if !name.starts_with([' ', '\t']) {
        return None;
    }
    let offset = start + "package".len() + name.find(written)?;
    if written.starts_with(['"', '\'', '`']) {
        let plain = written.trim_matches(['"', '\'', '`']);
        let advice = format!("the name of a package stands without quotes: `package {plain}`");
        return Some((Span::new(offset, offset + written.len()), advice));
    }
    let within = written.find(['-', '/', ':', ' '])?;
    let sign = written.get(within..)?.chars().next()?;
    let meant: String =
        written.chars().map(|it| if it == sign && it != ' ' { '_' } else { it }).collect();
    let advice = match sign {
        ' ' => return None,
        _ => format!("a package name has no `{sign}`: `package {meant}`"),
    };
    Some((Span::new(offset + within, offset + within + 1), advice))
}

/// The one keyword whose import makes the text parse.
fn missing_import(text: &str) -> Option<&'static str> {
    let package = text.lines().position(|line| line.trim_start().starts_with("package "))?;
    KEYWORDS.into_iter().find(|keyword| {
        let mut lines: Vec<&str> = text.lines().collect();
        let import = format!("import future.keywords.{keyword}");
        lines.insert(package + 1, &import);
        text.contains(keyword) && parse_module("", &lines.join("\n"), RegoVersion::V0).is_ok()
    })
}

fn unsafe_variable(text: &str, version: RegoVersion, name: &str) -> Option<String> {
    if version == RegoVersion::V0 && text.lines().any(|line| line.trim_end().ends_with(" if {")) {
        return Some("`if` is a keyword only after `import future.keywords.if`".to_owned());
    }
    let constant = match name {
        "True" | "TRUE" => Some("true"),
        "False" | "FALSE" => Some("false"),
        "nil" | "None" | "Null" | "NULL" | "undefined" => Some("null"),
        _ => None,
    };
    if let Some(constant) = constant {
        return Some(format!("did you mean `{constant}`?"));
    }
    if let Some(advice) = dotted_name(text, name) {
        return Some(advice);
    }
    if name == "_" {
        let advice = "`not` asks for one value: move the expression into a rule of its own and negate that, \
                      such as `is_there { list[_] == \"x\" }` and `not is_there`";
        return Some(advice.to_owned());
    }
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
    // What stands behind a dot or in quotes is no variable.
    let mut before = ' ';
    let mut names = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find(is_part) {
        before = rest.get(..start).and_then(|it| it.chars().next_back()).unwrap_or(before);
        rest = rest.get(start..).unwrap_or_default();
        let end = rest.find(|letter| !is_part(letter)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        if word.len() > 2 && !['.', '"', '`'].contains(&before) {
            names.push(word);
        }
        (before, rest) = (' ', after);
    }
    near::did_you_mean(name, names).or_else(|| {
        Some(format!("nothing gives `{name}` a value: `{name} := …`, outside of `not`"))
    })
}

/// How the rule is written.
fn the_rule(version: RegoVersion) -> String {
    let rule = match version {
        RegoVersion::V0 => "violation[{\"msg\": msg}] { … }",
        RegoVersion::V1 => "violation contains {\"msg\": msg} if { … }",
    };
    format!("the rule is `{rule}`")
}

fn types(message: &str, version: RegoVersion) -> Option<String> {
    let deprecated = "deprecated built-in function calls in expression: ";
    if let Some(name) = message.strip_prefix(deprecated) {
        return Some(match name {
            "any" => "write `true in list`".to_owned(),
            "all" => "write `every x in list { x }`".to_owned(),
            "re_match" => "write `regex.match`".to_owned(),
            _ => return None,
        });
    }
    let advice = match message {
        "sprintf: arity mismatch" | "sprintf: invalid argument(s)" => {
            "it takes a format and a list: `sprintf(\"%v\", [value])`"
        }
        "plus: invalid argument(s)" => "`+` adds numbers; `sprintf` and `concat` join texts",
        _ if message.ends_with("used as reference, not called") => {
            "it is a function: write its arguments in parentheses"
        }
        "conflicting rules data.template.violation found" => {
            "`violation` is a set of what is wrong: it has neither a default nor a value"
        }
        "undefined ref: r.msg" | "undefined ref: data.template.violation[r]" => {
            return Some(the_rule(version));
        }
        _ if message.starts_with("undefined function data.lib.") => {
            "no library in `libs` has this function"
        }
        _ if message.starts_with("conflicting rules data.template.") => {
            "all rules of one name are of one kind, and functions of one name take equally many arguments"
        }
        _ if message.starts_with("data.template.")
            && message.ends_with(": invalid argument(s)") =>
        {
            "it takes another number of arguments; what comes behind them is the result, which the call equals"
        }
        _ if message.starts_with("undefined function lib.") => {
            return Some(format!(
                "write `data.{}`, or `import data.lib.NAME`, and put the library into `libs`",
                message.trim_start_matches("undefined function ")
            ));
        }
        _ if message.starts_with("undefined function ") && message.contains('.') => {
            return foreign::method(message.trim_start_matches("undefined function "));
        }
        "startswith: invalid argument(s)" => {
            "it compares one text; of several write `strings.any_prefix_match(x, [\"a\", \"b\"])`"
        }
        "endswith: invalid argument(s)" => {
            "it compares one text; of several write `strings.any_suffix_match(x, [\"a\", \"b\"])`"
        }
        "contains: invalid argument(s)" => {
            "it looks for one text in another; whether a list has a value is `x in list`, or `list[_] == x`"
        }
        "match error" => {
            "the two sides have different types, so they are never equal; a number stands without quotes"
        }
        "undefined function lowercase" => "did you mean `lower`?",
        "undefined function uppercase" => "did you mean `upper`?",
        "undefined function array.cat" => "did you mean `array.concat`?",
        "undefined function len" | "undefined function length" | "undefined function size" => {
            "did you mean `count`?"
        }
        _ => return None,
    };
    Some(advice.to_owned())
}

/// The rule that keeps the engine from reading `msg`, if one is known, and the advice.
pub(in crate::constraint) fn wrong_rule(
    text: &str,
    version: RegoVersion,
) -> Option<(Span, String)> {
    let module = parse_module("", text, version).ok()?;
    // A rule that has a value, where a set is meant.
    let valued = module.rules.iter().find(|rule| {
        let is_violation = super::name_of(rule.head.name.first()) == Some(super::VIOLATION);
        is_violation
            && rule.head.name.len() == 1
            && matches!(rule.head.kind, HeadKind::Value { .. })
    });
    if let Some(rule) = valued.filter(|rule| !rule.default) {
        let start = rule.head.span.start as usize;
        return Some((Span::new(start, start + super::VIOLATION.len()), the_rule(version)));
    }
    let mut found = Vec::new();
    super::lint::violations(&module, &mut found);
    let lint = found.into_iter().next()?;
    Some((lint.place.span, lint.help?))
}

/// The types that a call has and wants, or that two sides have, as OPA's errors list them after their first line.
pub(in crate::constraint) fn details(error: &Error) -> Option<String> {
    let is_type = |line: &&str| {
        ["have", "want", "left", "right"]
            .iter()
            .any(|side| line.strip_prefix(side).is_some_and(|it| it.trim_start().starts_with(": ")))
    };
    let lines = error.details.iter().map(|line| line.trim());
    let types: Vec<String> =
        lines.filter(is_type).map(|it| it.replace("  :", ":").replace(" :", ":")).collect();
    (!types.is_empty()).then(|| types.join(", "))
}

/// Advice about a reference into `data` that no template may read.
pub(in crate::constraint) fn reference(written: &str) -> String {
    let name = written.strip_prefix("data.").unwrap_or(written);
    let name = name.split(['.', '[']).next().unwrap_or(name);
    near::did_you_mean_or(name, &["inventory", "lib"], "of `data` a template sees")
}

/// The rule that the author meant as `violation`, and where it stands in the text.
pub(in crate::constraint) fn meant_as_violation(text: &str) -> Option<(usize, &str)> {
    let known = ["deny", "warn", "violations", "allow"];
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
        let name = line.split(|letter| !is_part(letter)).next().unwrap_or_default();
        if known.contains(&name) || near::nearest(name, ["violation"]).is_some() {
            return Some((at, name));
        }
        at += line.len();
    }
    None
}

/// The version of Rego that the module in this field is read as.
pub(in crate::constraint) fn version_of(resource: &Value, field: &str) -> RegoVersion {
    let source = field.rsplit_once(".rego").or_else(|| field.split_once(".libs"));
    let version = source.and_then(|(source, _)| {
        resource.pointer(&crate::policy::pointer(&format!("{source}.version")))
    });
    match version.and_then(Value::as_str) {
        Some("v1") => RegoVersion::V1,
        _ => RegoVersion::V0,
    }
}
