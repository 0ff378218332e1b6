//! Words of other languages that authors write in Rego: keywords, signs and methods.

use modgate_rego::{SyntaxError, TokenError};

const JOINED: &str = "expressions of a body are joined by line breaks or `;`";
const TWICE: &str = "there is no `or`: write the rule twice, once for each case";
const NO_LOOPS: &str = "there are no loops: `x := list[_]` holds for each element";
const CONDITIONS: &str =
    "a body is a list of conditions: write them without `if`, and the rule twice for two cases";
const ASSIGN: &str = "a variable is made by `x := 1`, without a word in front";
const EQUAL: &str = "compare with `==`";
const UNCHANGED: &str = "variables keep their value: make another one, `y := x + 1`";

/// Words of other languages, and what Rego has instead.
const WORDS: [(&str, &str); 21] = [
    ("and", JOINED),
    ("AND", JOINED),
    ("or", TWICE),
    ("OR", TWICE),
    ("is", EQUAL),
    ("for", NO_LOOPS),
    ("foreach", NO_LOOPS),
    ("while", NO_LOOPS),
    ("if", CONDITIONS),
    ("elif", CONDITIONS),
    ("then", CONDITIONS),
    ("switch", "there is no `switch`: write the rule once for each case"),
    ("return", "a rule has the value in its head: `f(x) = y { y := x + 1 }`"),
    ("let", ASSIGN),
    ("var", ASSIGN),
    ("const", ASSIGN),
    ("def", "a function is written `f(x) = y { … }`"),
    ("func", "a function is written `f(x) = y { … }`"),
    ("function", "a function is written `f(x) = y { … }`"),
    ("throw", "a violation is reported by `violation[{\"msg\": msg}]`"),
    ("raise", "a violation is reported by `violation[{\"msg\": msg}]`"),
];

fn is_part(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// Advice about a word of another language at an offset, or in front of it.
pub(super) fn word(text: &str, at: usize) -> Option<&'static str> {
    let (before, rest) = (text.get(..at)?, text.get(at..)?);
    let here = rest.split(|letter| !is_part(letter)).next();
    let line = before.rsplit('\n').next().unwrap_or_default().trim_end();
    let last = line.rsplit(|letter| !is_part(letter)).next();
    let of_message = rest.starts_with("sprintf(") || rest.starts_with('"');
    if last == Some("return") && of_message {
        return Some(
            "the head of the rule has the message: write `msg := …` instead of `return …`",
        );
    }
    let known = |word: Option<&str>| WORDS.iter().find(|(known, _)| Some(*known) == word);
    known(here).or_else(|| known(last)).map(|(_, advice)| *advice)
}

/// Advice about a sign of another language at an offset.
pub(super) fn sign(text: &str, at: usize, error: &SyntaxError) -> Option<&'static str> {
    let (before, rest) = (text.get(..at)?, text.get(at..)?);
    let is_token = |wanted: TokenError| *error == SyntaxError::Token(wanted);
    let (token, keyword) = match error {
        SyntaxError::Unexpected { name, is_keyword: true, .. } => ("", *name),
        SyntaxError::Unexpected { name, .. } => (*name, ""),
        _ => ("", ""),
    };
    Some(match (token, keyword) {
        ("and", _) => "expressions of a body are joined by line breaks or `;`, not by `&&`",
        ("or", _) => "there is no `||`: write the rule twice, once for each case",
        _ if is_token(TokenError::Exclamation) => "write `not` instead of `!`",
        _ if rest.starts_with('?') => {
            "there is no `?`: a value for a missing field is `object.get(x, \"key\", \"other\")`; \
             for two cases write the rule twice"
        }
        _ if rest.starts_with('\'') => "texts stand in double quotes: `\"x\"`",
        _ if rest.starts_with('$') => "Rego has no `$`; the object is `input.review.object`",
        _ if rest.starts_with('~') => "a pattern is matched by `regex.match(\"^a\", x)`",
        _ if is_token(TokenError::Illegal) => "texts stand in double quotes: `\"x\"`",
        ("div", _) => "comments start with `#`",
        ("gt", _) => "unequal is `!=`",
        (":", _) => "assign with `:=`, compare with `==`",
        ("eq", _) if before.ends_with(['+', '-', '*', '/']) => UNCHANGED,
        ("plus" | "minus", _) => UNCHANGED,
        ("eq", _) => EQUAL,
        ("assign", _) if before.trim_end().contains("some ") => "write `x := …` without `some`",
        (_, "else") => "`else` stands behind the `}` of a rule: `f(x) = 1 { … } else = 2 { … }`",
        (_, "not") => "`not` stands in front: `not x in list`",
        (_, "as") => "only an import has `as`",
        _ => return None,
    })
}

/// Methods of other languages, in lower case, and the functions that Rego has.
const METHODS: [(&str, &str); 22] = [
    ("startswith", "startswith(x, \"a\")"),
    ("endswith", "endswith(x, \"a\")"),
    ("contains", "contains(x, \"a\")"),
    ("includes", "contains(x, \"a\")"),
    ("matches", "regex.match(\"^a\", x)"),
    ("match", "regex.match(\"^a\", x)"),
    ("test", "regex.match(\"^a\", x)"),
    ("lower", "lower(x)"),
    ("tolower", "lower(x)"),
    ("tolowercase", "lower(x)"),
    ("upper", "upper(x)"),
    ("toupper", "upper(x)"),
    ("touppercase", "upper(x)"),
    ("split", "split(x, \":\")"),
    ("replace", "replace(x, \"a\", \"b\")"),
    ("trim", "trim_space(x)"),
    ("strip", "trim_space(x)"),
    ("length", "count(x)"),
    ("size", "count(x)"),
    ("count", "count(x)"),
    ("join", "concat(\", \", x)"),
    ("get", "object.get(x, \"key\", \"other\")"),
];

/// Advice about a call such as `container.image.startsWith(…)`.
pub(super) fn method(name: &str) -> Option<String> {
    let last = name.rsplit('.').next()?.to_lowercase();
    let (_, call) = METHODS.iter().find(|(known, _)| *known == last)?;
    Some(format!("functions take the value in parentheses: `{call}`"))
}
