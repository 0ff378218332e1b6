//! Words of other languages that authors write in CEL: operators, keywords, letters of typesetting.

use modgate_value::odd;

/// Operators and words of other languages, and what CEL has instead. The first that a text has counts, so longer ones
/// stand in front of those that they contain.
const OPERATORS: [(&str, &str); 33] = [
    ("!==", "unequal is `!=`"),
    ("===", "compare with `==`"),
    ("=~", "a pattern is matched by `x.matches(\"^a\")`"),
    ("=>", "a macro has a name and an expression: `list.all(x, x != \"\")`"),
    ("->", "a macro has a name and an expression: `list.all(x, x != \"\")`"),
    ("<>", "unequal is `!=`"),
    (":=", "there is no assignment; `variables` have names"),
    ("++", "CEL changes no values; write `x + 1`"),
    ("+=", "CEL changes no values; write `x + 1`"),
    ("??", "a value for a missing field: `object.?a.?b.orValue(\"x\")`"),
    ("?.", "an optional field is written `.?`: `object.?a.orValue(\"x\")`"),
    ("?:", "a value for a missing field: `object.?a.?b.orValue(\"x\")`"),
    ("${", "an expression stands without `${}`; texts are joined with `+`"),
    ("{{", "an expression stands without `{{}}`; texts are joined with `+`"),
    ("$.", "CEL has no `$`; the object is `object`"),
    ("$", "CEL has no `$`; the object is `object`"),
    ("`", "texts stand in double or single quotes"),
    ("#", "comments start with `//`"),
    (";", "a validation is one expression, without `;`; `variables` have names"),
    ("~", "a pattern is matched by `x.matches(\"^a\")`"),
    ("and", "`and` is written `&&`"),
    ("or", "`or` is written `||`"),
    ("not", "`not` is written `!`: `!(a in list)`, `!has(a.b)`"),
    ("if", "there is no `if`: write `condition ? a : b`"),
    ("then", "there is no `then`: write `condition ? a : b`"),
    ("else", "there is no `else`: write `condition ? a : b`"),
    ("is", "`is` is written `==`"),
    ("like", "a pattern is matched by `x.matches(\"^a\")`"),
    ("return", "an expression has a value by itself, without `return`"),
    ("let", "there is no assignment; `variables` have names"),
    ("var", "there is no assignment; `variables` have names"),
    ("const", "there is no assignment; `variables` have names"),
    ("for", "there are no loops: `list.all(x, …)`, `list.exists(x, …)`"),
];

/// Advice about what a text has of another language, outside of quotes.
pub(super) fn advice(text: &str) -> Option<String> {
    let plain = plain(text);
    if let Some(advice) = plain.chars().find_map(odd::advice) {
        return Some(advice);
    }
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == '.';
    let is_word = |word: &str| {
        plain.split(|letter| !is_part(letter)).any(|part| part.eq_ignore_ascii_case(word))
    };
    let found = OPERATORS.iter().find(|(operator, _)| match operator.starts_with(is_part) {
        true => is_word(operator),
        false => plain.contains(operator),
    });
    found.map(|(_, advice)| (*advice).to_owned())
}

/// The text with its quotations as single spaces.
fn plain(text: &str) -> String {
    let mut quote = None;
    let mut plain = String::with_capacity(text.len());
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match quote {
            Some(_) if letter == '\\' => {
                letters.next();
            }
            Some(open) if letter == open => quote = None,
            Some(_) => {}
            None if letter == '"' || letter == '\'' => {
                quote = Some(letter);
                plain.push(' ');
            }
            None => plain.push(letter),
        }
    }
    plain
}

/// Functions of other languages, and what CEL has instead.
const FUNCTIONS: [(&[&str], &str); 19] = [
    (&["len", "length", "count"], "write `size(x)` or `x.size()`"),
    (&["any", "some", "find"], "the macro is `exists`: `list.exists(x, …)`"),
    (&["every", "forall", "foreach"], "the macro is `all`: `list.all(x, …)`"),
    (&["tolower", "lower", "tolowercase", "downcase"], "write `x.lowerAscii()`"),
    (&["toupper", "upper", "touppercase", "upcase"], "write `x.upperAscii()`"),
    (
        &["includes", "has_key", "haskey", "containskey"],
        "write `\"a\" in list`, or `x.contains(\"a\")` for a part of a text",
    ),
    (&["in"], "write `\"a\" in list`"),
    (&["tostring", "str", "format_string"], "write `string(x)`"),
    (&["toint", "parseint", "integer", "tonumber", "number"], "write `int(x)`"),
    (&["tofloat", "float", "parsefloat"], "write `double(x)`"),
    (&["isempty", "empty"], "write `size(x) == 0`"),
    (&["equals", "eq"], "compare with `==`"),
    (&["notequals", "neq", "ne"], "unequal is `!=`"),
    (&["substr", "slice"], "write `x.substring(0, 3)`"),
    (&["replaceall", "gsub"], "write `x.replace(\"a\", \"b\")`"),
    (&["strip"], "write `x.trim()`"),
    (&["regex", "test", "match", "regexmatch", "regex_match"], "did you mean `matches`?"),
    (
        &["get", "getordefault", "default"],
        "a value for a missing field: `object.?a.orValue(\"x\")`",
    ),
    (&["contains_any", "containsany", "intersects"], "write `list.exists(x, x in [\"a\", \"b\"])`"),
];

/// The advice about a function or macro of another language.
pub(super) fn function(name: &str) -> Option<&'static str> {
    let lower = name.to_ascii_lowercase();
    let found = FUNCTIONS.iter().find(|(names, _)| names.contains(&lower.as_str()));
    found.map(|(_, advice)| *advice)
}
