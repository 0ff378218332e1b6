//! Advice about Rego that does not compile: help for the mistakes that most authors make.

use modgate_rego::{
    Code, Detail, Error, Mistake, RegoVersion, SyntaxError, TokenError, ast::HeadKind, parse_module,
};
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
    match &*error.mistake {
        // `print` is as near.
        Mistake::UndefinedFunction(name) if name == "sprint" => {
            Some("did you mean `sprintf`?".to_owned())
        }
        _ if let Some(help) = error.help.as_deref() => Some(help.to_owned()),
        Mistake::Syntax { error: mistake, .. } => {
            let at = error.span.map_or(0, |span| span.start as usize);
            syntax(text, version, mistake, at)
        }
        Mistake::UnsafeVariable { name, .. } => {
            keyword_if(text, version).or_else(|| unsafe_variable(text, name))
        }
        Mistake::UnsafeExpression => keyword_if(text, version),
        _ if error.code == Code::Recursion => {
            Some("a rule or function cannot use itself; `walk` visits what is nested".to_owned())
        }
        Mistake::AssignedAbove(name) => {
            Some(format!("`:=` gives `{name}` a value once; compare with `==`"))
        }
        mistake => types(mistake, version),
    }
}

/// Advice about a syntax error at an offset.
fn syntax(text: &str, version: RegoVersion, error: &SyntaxError, at: usize) -> Option<String> {
    let parses = |text: &str, version| parse_module("", text, version).is_ok();
    if let Some((_, advice)) = package(text) {
        return Some(advice);
    }
    if *error == SyntaxError::PackageExpected {
        return Some("the first line has to be `package NAME`".to_owned());
    }
    if *error == SyntaxError::Token(TokenError::UnterminatedString) {
        let quote = text.get(at..).and_then(|rest| rest.chars().next()).unwrap_or('"');
        let quote = if quote == '`' { "backquote".to_owned() } else { format!("`{quote}`") };
        return Some(format!("a {quote} is missing at the end of the text"));
    }
    // No version of Rego has these.
    if let Some(advice) = text.get(at..).and_then(|rest| rest.chars().next()).and_then(odd::advice)
    {
        return Some(advice);
    }
    if matches!(error, SyntaxError::KeywordRequired { .. }) {
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
    if let Some(advice) = foreign::word(text, at).or_else(|| foreign::sign(text, at, error)) {
        return Some(advice.to_owned());
    }
    let count = |bracket: char| text.matches(bracket).count();
    let missing = [('{', '}'), ('[', ']'), ('(', ')')];
    let unequal = missing.into_iter().find(|(open, close)| count(*open) != count(*close));
    let Some((open, close)) = unequal else {
        let begins_value =
            |name: &str| ["identifier", "string", "number", "{", "["].contains(&name);
        let is_two = matches!(
            error,
            SyntaxError::Unexpected { name, is_keyword: false, .. } if begins_value(name)
        );
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

/// Advice about a module of version 0 that has `if` as a variable.
fn keyword_if(text: &str, version: RegoVersion) -> Option<String> {
    let is_it =
        version == RegoVersion::V0 && text.lines().any(|line| line.trim_end().ends_with(" if {"));
    is_it.then(|| "`if` is a keyword only after `import future.keywords.if`".to_owned())
}

fn unsafe_variable(text: &str, name: &str) -> Option<String> {
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

fn types(mistake: &Mistake, version: RegoVersion) -> Option<String> {
    let advice = match mistake {
        Mistake::Deprecated(name) => match name.as_str() {
            "any" => "write `true in list`",
            "all" => "write `every x in list { x }`",
            "re_match" => "write `regex.match`",
            _ => return None,
        },
        Mistake::Arity(name) | Mistake::Arguments(name) if name == "sprintf" => {
            "it takes a format and a list: `sprintf(\"%v\", [value])`"
        }
        Mistake::Arguments(name) => return arguments(name),
        Mistake::NotCalled(_) => "it is a function: write its arguments in parentheses",
        Mistake::ConflictingRules(name) if name == "data.template.violation" => {
            "`violation` is a set of what is wrong: it has neither a default nor a value"
        }
        Mistake::ConflictingRules(name) if name.starts_with("data.template.") => {
            "all rules of one name are of one kind, and functions of one name take equally many arguments"
        }
        Mistake::UndefinedReference(reference)
            if ["r.msg", "data.template.violation[r]"].contains(&reference.as_str()) =>
        {
            return Some(the_rule(version));
        }
        Mistake::UndefinedFunction(name) => return undefined_function(name),
        Mistake::Mismatch => {
            "the two sides have different types, so they are never equal; a number stands without quotes"
        }
        _ => return None,
    };
    Some(advice.to_owned())
}

/// Advice about a function with arguments of other types.
fn arguments(name: &str) -> Option<String> {
    let advice = match name {
        "plus" => "`+` adds numbers; `sprintf` and `concat` join texts",
        "startswith" => {
            "it compares one text; of several write `strings.any_prefix_match(x, [\"a\", \"b\"])`"
        }
        "endswith" => {
            "it compares one text; of several write `strings.any_suffix_match(x, [\"a\", \"b\"])`"
        }
        "contains" => {
            "it looks for one text in another; whether a list has a value is `x in list`, or `list[_] == x`"
        }
        _ if name.starts_with("data.template.") => {
            "it takes another number of arguments; what comes behind them is the result, which the call equals"
        }
        _ => return None,
    };
    Some(advice.to_owned())
}

/// Advice about a function that does not exist.
fn undefined_function(name: &str) -> Option<String> {
    let advice = match name {
        _ if name.starts_with("data.lib.") => "no library in `libs` has this function",
        _ if name.starts_with("lib.") => {
            return Some(format!(
                "write `data.{name}`, or `import data.lib.NAME`, and put the library into `libs`"
            ));
        }
        _ if name.contains('.') => return foreign::method(name),
        "lowercase" => "did you mean `lower`?",
        "uppercase" => "did you mean `upper`?",
        "len" | "length" | "size" => "did you mean `count`?",
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

/// The types that a call has and wants, or that two sides have.
pub(in crate::constraint) fn details(error: &Error) -> Option<String> {
    let sides = error.details.iter().filter_map(|detail| match detail {
        Detail::Side { side, value, .. } => Some(format!("{}: {value}", side.as_str())),
        _ => None,
    });
    let sides: Vec<String> = sides.collect();
    (!sides.is_empty()).then(|| sides.join(", "))
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
