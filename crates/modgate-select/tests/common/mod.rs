//! Generated documents and expressions.

use modgate_value::Value;
use proptest::prelude::*;

/// Keys that documents have and expressions ask for, quirks included.
const KEYS: [&str; 9] = ["a", "b", "list", "kind", "0", "007", "1e+06", "x\"y", "a/b~[c]"];

const TEXTS: [&str; 18] = [
    "",
    "a",
    "b",
    "Pod",
    "80",
    "80.0",
    "1.20",
    "1e3",
    "nan",
    "inf",
    "true",
    "FALSE",
    "0",
    "007",
    "-1",
    "é",
    "2020-01-01",
    "2020-01-01T10:00:00+02:00",
];

const NUMBERS: [&str; 12] =
    ["0", "-0.0", "1", "2", "3", "-1", "0.5", "80", "1000", "1000000", "1e-7", "1e300"];

pub(crate) fn document() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        prop::sample::select(&NUMBERS[..])
            .prop_map(|text| Value::from_json(text.as_bytes()).expect(text)),
        prop::sample::select(&TEXTS[..]).prop_map(Value::from),
    ];
    let value = leaf.prop_recursive(4, 40, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map(prop::sample::select(&KEYS[..]), inner, 0..5)
                .prop_map(|members| members.into_iter().collect()),
        ]
    });
    // Mostly objects at the top, as in life.
    prop_oneof![
        4 => prop::collection::btree_map(prop::sample::select(&KEYS[..]), value.clone(), 1..6)
            .prop_map(|members| members.into_iter().collect()),
        1 => value,
    ]
}

fn key() -> impl Strategy<Value = String> {
    prop::sample::select(&KEYS[..]).prop_map(|key| format!("{key:?}"))
}

fn literal() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::sample::select(&NUMBERS[..]).prop_map(|number| match number.strip_prefix('-') {
            Some(_) => format!("({number})"),
            None => number.to_owned(),
        }),
        prop::sample::select(&TEXTS[..]).prop_map(|text| format!("{text:?}")),
        any::<bool>().prop_map(|value| value.to_string()),
        prop::sample::select(&["null", "kind", "a.b", "list[0]", "list.a", "undefined"][..])
            .prop_map(str::to_owned),
    ]
}

/// One step, given an expression to put inside.
fn step(inner: BoxedStrategy<String>) -> impl Strategy<Value = String> {
    let bound = prop_oneof![
        Just(String::new()),
        (-3_i32..5).prop_map(|bound| bound.to_string()),
        inner.clone()
    ];
    prop_oneof![
        6 => prop::sample::select(&["a", "b", "list", "kind"][..]).prop_map(|key| format!(".{key}")),
        2 => key().prop_map(|key| format!("[{key}]")),
        2 => (-1_i32..4).prop_map(|index| format!("[{index}]")),
        1 => inner.clone().prop_map(|key| format!("[{key}]")),
        3 => prop::sample::select(&["[*]", ".*"][..]).prop_map(str::to_owned),
        3 => inner.clone().prop_map(|condition| format!("[? {condition}]")),
        1 => prop::collection::vec(prop_oneof![key(), inner.clone()], 2..4)
            .prop_map(|members| format!("[{}]", members.join(", "))),
        2 => prop::collection::vec(bound, 2..4).prop_map(|bounds| format!("[{}]", bounds.join(":"))),
        2 => prop::sample::select(&["..a", "..b", "..*", "..list"][..]).prop_map(str::to_owned),
        1 => key().prop_map(|key| format!("..[{key}]")),
        1 => inner.clone().prop_map(|condition| format!("..[? {condition}]")),
        1 => inner.prop_map(|script| format!("({script})")),
    ]
}

fn path_with(inner: BoxedStrategy<String>) -> impl Strategy<Value = String> {
    let root = prop::sample::select(&["$", "$", "@"][..]);
    (root, prop::collection::vec(step(inner), 0..4))
        .prop_map(|(root, steps)| format!("{root}{}", steps.concat()))
}

/// A bare path, as patch selects have them.
pub(crate) fn path() -> impl Strategy<Value = String> {
    path_with(expression().boxed())
}

/// An expression in KubeMod's language: valid there and here.
pub(crate) fn expression() -> impl Strategy<Value = String> {
    const INFIX: [&str; 23] = [
        "**", "*", "/", "%", "+", "-", "<<", ">>", "&", "|", "^", "==", "!=", "<", "<=", ">", ">=",
        "=~", "!~", "in", "&&", "||", "??",
    ];
    const CALLS: [&str; 7] =
        ["length", "isDefined", "isUndefined", "isEmpty", "isNotEmpty", "date", "nope"];
    let leaf = prop_oneof![literal(), Just("@".to_owned()), Just("$".to_owned())];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let inner = inner.boxed();
        let operand = prop_oneof![3 => path_with(inner.clone()), 1 => inner.clone()].boxed();
        let infix = prop::sample::select(&INFIX[..]);
        prop_oneof![
            4 => path_with(inner.clone()),
            4 => (operand.clone(), infix, operand.clone())
                .prop_map(|(left, op, right)| format!("({left} {op} {right})")),
            1 => prop::collection::vec((operand.clone(), prop::sample::select(&INFIX[..])), 1..4)
                .prop_flat_map(move |links| {
                    let chain: String =
                        links.iter().map(|(left, op)| format!("{left} {op} ")).collect();
                    operand.clone().prop_map(move |last| format!("({chain}{last})"))
                }),
            1 => (prop::sample::select(&["-", "!", "~"][..]), inner.clone())
                .prop_map(|(op, operand)| format!("{op}{operand}")),
            2 => (prop::sample::select(&CALLS[..]), inner.clone())
                .prop_map(|(name, argument)| format!("{name}({argument})")),
            1 => (inner.clone(), inner.clone(), inner.clone())
                .prop_map(|(a, b, c)| format!("({a} ? {b} : {c})")),
            1 => prop::collection::vec(inner.clone(), 0..3)
                .prop_map(|elements| format!("[{}]", elements.join(", "))),
            1 => prop::collection::vec((key(), inner.clone()), 0..3).prop_map(|members| {
                let members: Vec<_> =
                    members.iter().map(|(key, value)| format!("{key}: {value}")).collect();
                format!("{{{}}}", members.join(", "))
            }),
            1 => (prop::sample::select(&["#", "#0", "\"k\" + #1"][..]), path_with(inner.clone()))
                .prop_map(|(key, path)| format!("{{{key}: {path}}}")),
        ]
    })
}
