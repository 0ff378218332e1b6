//! Legal expressions that are probably mistakes (verdicts W of the specification).

use std::collections::BTreeSet;

use modgate_value::{diag::Span, gofloat, near, regex};

use crate::{
    ast::{Binary, Function, Kind, Link, Node, Path, Root, Step, Text, Unary},
    num,
};

/// Something legal that is probably not what the author meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lint {
    /// The id of the quirk, such as `Q-04` (spec `kubemod.md`, section 9); empty where there is none.
    pub id: &'static str,
    /// The effect.
    pub message: String,
    /// The part of the expression.
    pub span: Span,
    /// The correction.
    pub help: Option<String>,
}

/// The text a number written like this has for `matchValue`, `matchValues`, `matchRegex` and `=~`,
/// where that is another one (Q-08): `1.00066e+09` for `1000660000`.
///
/// ```
/// assert_eq!(modgate_select::exponent_text("1000660000").as_deref(), Some("1.00066e+09"));
/// assert_eq!(modgate_select::exponent_text("65535"), None);
/// ```
pub fn exponent_text(text: &str) -> Option<String> {
    let plain = text.strip_prefix('-').unwrap_or(text);
    if !plain.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        return None;
    }
    let shown = gofloat::general(num::parse_float(text).ok()?);
    shown.contains('e').then_some(shown)
}

pub(crate) fn lints(root: &Node) -> Vec<Lint> {
    let mut checked = BTreeSet::new();
    walk(root, &mut |node| {
        if let Kind::Call(function, arguments) = &node.kind
            && *function != Function::Date
        {
            checked.extend(arguments.iter().map(ToString::to_string));
        }
    });
    let mut lints = Vec::new();
    walk(root, &mut |node| match &node.kind {
        Kind::Chain(first, links) => {
            if let Some(link) = links.first() {
                chained(links, &mut lints);
                missing_is_unequal(first, link, &checked, &mut lints);
                numeric_text(first, link, &mut lints);
            }
            for link in links {
                numeric_text(&link.right, link, &mut lints);
                no_list(link, &mut lints);
                pattern(link, &mut lints);
            }
        }
        Kind::Path(path) => {
            for step in &path.steps {
                match step {
                    Step::Filter(condition) => bare_condition(condition, &mut lints),
                    Step::Key(key) => negative_index(key, &mut lints),
                    Step::Union(keys) => {
                        keys.iter().for_each(|key| negative_index(key, &mut lints))
                    }
                    _ => {}
                }
            }
        }
        Kind::Call(function, arguments) if arguments.len() != 1 => lints.push(Lint {
            id: "Q-15",
            message: format!(
                "`{}` takes exactly one argument and has {}, so this always fails",
                function.name(),
                arguments.len()
            ),
            span: node.span,
            help: None,
        }),
        Kind::CallVariable(keys, _) => unknown_function(keys, node.span, &mut lints),
        Kind::Variable(keys) => bare_name(keys, node.span, &mut lints),
        _ => {}
    });
    lints
}

fn walk<'n>(node: &'n Node, visit: &mut dyn FnMut(&'n Node)) {
    visit(node);
    node.children(&mut |child| walk(child, visit));
}

/// A path that is undefined when a key is missing.
fn may_be_missing(node: &Node) -> bool {
    let Kind::Path(path) = &node.kind else {
        return false;
    };
    let Path { root, steps, .. } = path;
    // Every object has these.
    let always = *root == Root::Document
        && matches!(
            path.constant_keys().as_deref(),
            Some([key]) if matches!(key.as_str(), "kind" | "apiVersion" | "metadata")
        );
    !path.is_multi() && matches!(steps.last(), Some(Step::Key(_))) && !always
}

fn missing_is_unequal(left: &Node, link: &Link, checked: &BTreeSet<String>, out: &mut Vec<Lint>) {
    if link.op != Binary::NotEqual {
        return;
    }
    let missing = [left, &link.right].into_iter().find(|side| may_be_missing(side));
    let Some(place) = missing.map(ToString::to_string) else {
        return;
    };
    if !checked.contains(&place) {
        out.push(Lint {
            id: "Q-03",
            message: format!("this is also true where `{place}` is missing"),
            span: left.span.to(link.right.span),
            help: Some(format!("add `isDefined({place}) && ` unless that is meant")),
        });
    }
}

fn bare_condition(condition: &Node, out: &mut Vec<Lint>) {
    if may_be_missing(condition) {
        out.push(Lint {
            id: "Q-04",
            message: format!(
                "this filter keeps elements without `{condition}` and drops those where it is text"
            ),
            span: condition.span,
            help: Some(format!("to test for presence write `isDefined({condition})`")),
        });
    }
}

/// Q-12: only slices count from the end of a list.
fn negative_index(key: &Node, out: &mut Vec<Lint>) {
    let number = match &key.kind {
        Kind::Number(number) => *number,
        Kind::Unary(Unary::Negate, operand) => match &operand.kind {
            Kind::Number(number) => -number,
            _ => return,
        },
        _ => return,
    };
    // `-0.5` is index 0.
    if number > -1.0 {
        return;
    }
    out.push(Lint {
        id: "Q-12",
        message: format!("no list has an element `{key}`: this fails on every list"),
        span: key.span,
        help: Some(format!("to count from the end write `[length(@) - {}]`", number.abs())),
    });
}

/// `a != b != c`, which compares the result of the first comparison.
fn chained(links: &[Link], out: &mut Vec<Lint>) {
    let is_comparison = |link: &&Link| {
        use Binary::{Equal, Greater, GreaterEqual, Less, LessEqual, NotEqual};
        matches!(link.op, Equal | Greater | GreaterEqual | Less | LessEqual | NotEqual)
    };
    let second = links.iter().filter(is_comparison).nth(1);
    let second = second.filter(|link| matches!(link.right.kind, Kind::Text(_) | Kind::Number(_)));
    out.extend(second.map(|link| Lint {
        id: "",
        message:
            "this compares the result of another comparison, which is true or false".to_owned(),
        span: link.right.span,
        help: Some("a comparison has two sides: `a != b && a != c`".to_owned()),
    }));
}

/// `in` in front of a text, which is no list.
fn no_list(link: &Link, out: &mut Vec<Lint>) {
    if link.op == Binary::In && matches!(link.right.kind, Kind::Text(_) | Kind::Number(_)) {
        out.push(Lint {
            id: "",
            message: "the operand behind `in` is not a list, so this always fails".to_owned(),
            span: link.right.span,
            help: Some(format!("write `in [{}]`", link.right)),
        });
    }
}

fn numeric_text(side: &Node, link: &Link, out: &mut Vec<Lint>) {
    let (Binary::Equal | Binary::NotEqual, Kind::Text(Text { text, number: Some(number) })) =
        (link.op, &side.kind)
    else {
        return;
    };
    let message = if number.is_nan() {
        format!("the text `{text}` is compared as not-a-number, which equals nothing")
    } else {
        format!("the text `{text}` is compared as a number, so other spellings of it are equal too")
    };
    let help = (link.op == Binary::Equal)
        .then(|| format!("to compare texts write `in [{side}]` instead of `== {side}`"));
    out.push(Lint { id: "Q-07", message, span: side.span, help });
}

fn pattern(link: &Link, out: &mut Vec<Lint>) {
    let Some(pattern) = link.pattern() else {
        return;
    };
    let span = link.right.span;
    if let Some(Err(message)) = &link.regex {
        let message = format!("this always fails: {message}");
        out.push(Lint { id: "Q-14", message, span, help: None });
        return;
    }
    if regex::slashes(pattern) == regex::Slashes::Delimiters {
        let help = Some(regex::without_slashes(pattern));
        out.push(Lint { id: "Q-14", message: regex::IN_SLASHES.to_owned(), span, help });
        return;
    }
    let alternatives = pattern.split(['^', '$', '(', ')', '|', '?', ':']);
    if let Some((number, shown)) =
        alternatives.filter_map(|text| Some((text, exponent_text(text)?))).next()
    {
        out.push(Lint {
            id: "Q-08",
            message: format!("a number is searched as the text `{shown}`, not as `{number}`"),
            span,
            help: Some("compare numbers with `==`".to_owned()),
        });
    }
}

/// Q-79: a name without `$` is looked up in the object, which is seldom meant.
fn bare_name(keys: &[Node], span: Span, out: &mut Vec<Lint>) {
    let names: Option<Vec<&str>> = keys
        .iter()
        .map(|key| match &key.kind {
            Kind::Text(name) => Some(name.text.as_str()),
            _ => None,
        })
        .collect();
    let Some(names) = names else { return };
    let path = names.join(".");
    let help = match names.as_slice() {
        [name] => {
            format!("a text needs quotes: `\"{name}\"`; a member of the object `$`: `$.{name}`")
        }
        _ => format!("did you mean `$.{path}`?"),
    };
    out.push(Lint {
        id: "Q-79",
        message: format!("`{path}` without `$` and without quotes is a member of the object"),
        span,
        help: Some(help),
    });
}

fn unknown_function(keys: &[Node], span: Span, out: &mut Vec<Lint>) {
    let name = match keys {
        [Node { kind: Kind::Text(name), .. }] => name.text.as_str(),
        _ => "",
    };
    let mut names: Vec<&str> = Function::ALL.into_iter().map(Function::name).collect();
    names.sort_unstable();
    out.push(Lint {
        id: "Q-15",
        message: if name.is_empty() {
            "only functions can be called, so this always fails".to_owned()
        } else {
            format!("there is no function `{name}`, so this always fails")
        },
        span,
        help: Some(match name {
            "has" | "exists" | "defined" => "did you mean `isDefined`?".to_owned(),
            "len" | "size" | "count" => "did you mean `length`?".to_owned(),
            "empty" => "did you mean `isEmpty`?".to_owned(),
            "now" | "time" | "timestamp" => "did you mean `date`?".to_owned(),
            _ => near::did_you_mean_or(name, &names, "the functions are"),
        }),
    });
}
