//! Properties of patches: the difference applied gives the other document; nothing panics.

use modgate_corpus::time;
use modgate_engine::jsonpatch::{self, ApplyError, Op, PatchOperation, Tree};
use modgate_value::{Budget, Limits, Object, Value, budget::Frozen};
use proptest::prelude::*;

fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3..4_i64).prop_map(Value::from),
        "[ab~/\"\\\\]{0,2}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            proptest::collection::vec(("[ab~/\"0]{0,2}", inner), 0..5)
                .prop_map(|members| members.into_iter().collect::<Object>().into()),
        ]
    })
}

fn object() -> impl Strategy<Value = Value> {
    proptest::collection::vec(("[a-e]", json()), 0..6)
        .prop_map(|members| members.into_iter().collect::<Object>().into())
}

fn operation() -> impl Strategy<Value = PatchOperation> {
    let segment = prop_oneof![
        "[a-e]",
        "-?[0-9]{1,2}",
        Just("-".to_owned()),
        Just(String::new()),
        Just("~1~0".to_owned()),
    ];
    let path = proptest::collection::vec(segment, 0..5).prop_map(|segments| {
        segments.iter().map(|segment| format!("/{segment}")).collect::<String>()
    });
    let op = prop_oneof![Just(Op::Add), Just(Op::Replace), Just(Op::Remove)];
    (op, path, json()).prop_map(|(op, path, value)| PatchOperation { op, path, value: Some(value) })
}

fn apply(document: &Value, patch: &[PatchOperation]) -> Result<Value, String> {
    let budget = Budget::unlimited();
    let mut tree = Tree::from(document.clone());
    for operation in patch {
        jsonpatch::apply(&mut tree, operation, &budget).map_err(|error| error.to_string())?;
    }
    Ok(tree.into_value())
}

proptest! {
    #[test]
    fn the_difference_leads_there(from in object(), to in object()) {
        let patch = jsonpatch::diff(&from, &to);
        prop_assert_eq!(apply(&from, &patch), Ok(to));
        prop_assert!(jsonpatch::diff(&from, &from).is_empty());
    }

    #[test]
    fn a_patch_as_text_is_json(from in object(), to in object()) {
        let patch = jsonpatch::to_value(&jsonpatch::diff(&from, &to));
        prop_assert_eq!(Value::from_json(patch.to_json().as_bytes()), Ok(patch));
    }

    #[test]
    fn text_and_value_are_patched_alike(
        document in object(),
        patch in proptest::collection::vec(operation(), 0..6),
    ) {
        let text = document.to_json();
        let budget = Budget::unlimited();
        let mut of_text = Tree::of_text(&text).expect("json");
        let mut of_value = Tree::from(document);
        for operation in &patch {
            let results = (
                jsonpatch::apply(&mut of_text, operation, &budget),
                jsonpatch::apply(&mut of_value, operation, &budget),
            );
            prop_assert_eq!(&results.0, &results.1);
            if results.0.is_err() {
                break;
            }
        }
        let mut printed = String::new();
        of_text.write(&mut printed);
        let of_value = of_value.into_value();
        prop_assert_eq!(Value::from_json(printed.as_bytes()), Ok(of_value.clone()));
        prop_assert_eq!(of_text.into_value(), of_value);
    }

    #[test]
    fn budgets_hold(
        document in object(),
        patch in proptest::collection::vec(operation(), 0..6),
        steps in 0..30_u64,
    ) {
        let budget = Budget::new(Limits { steps, ..Limits::UNLIMITED }, &Frozen);
        let mut tree = Tree::from(document);
        for operation in &patch {
            let _ = jsonpatch::apply(&mut tree, operation, &budget);
        }
        prop_assert!(budget.steps_spent() <= steps);
    }
}

/// Documents made to hurt, and the paths at which an operation on them costs most.
fn hostile() -> Vec<(&'static str, Value, Vec<String>)> {
    const WIDE: usize = 40_000;
    let members = || (0..WIDE).map(|index| (format!("k{index:06}"), Value::from(1)));
    let wide: Object = members().collect();
    let list: Value = (0..WIDE).map(|_| Value::from(1)).collect();
    let long = "x".repeat(1 << 18);
    let within = |value: Value| Value::from([("m", value)].into_iter().collect::<Object>());
    let mut deep = Value::from(1);
    for _ in 0..100 {
        deep = within(deep);
    }
    vec![
        ("a wide object", within(wide.clone().into()), vec!["/m/a".into(), "/m/k000000".into()]),
        ("a wide list", within(list.clone()), vec!["/m/0".into(), "/m/-40000".into()]),
        ("nulls in a list", within([Value::Null].into_iter().collect()), vec!["/m/0/x/999".into()]),
        ("a long text", within(long.clone().into()), vec!["/m".into()]),
        (
            "long keys",
            within([(long.as_str(), Value::from(1))].into_iter().collect::<Object>().into()),
            vec![format!("/m/{long}")],
        ),
        ("a deep object", deep, vec!["/m".repeat(90)]),
        (
            "wide objects in a list",
            (0..4).map(|_| Value::from(wide.clone())).collect(),
            vec!["/2/a".into()],
        ),
    ]
}

/// Operations of every kind on such documents, with small and large values, again and again: the budget
/// ends them in time. The value that stands there already is compared to its end.
#[test]
fn operations_are_charged_for_their_time() {
    for (what, document, paths) in hostile() {
        let at_path = |path: &str| {
            let member = path.trim_start_matches('/');
            document.get(member).cloned().unwrap_or_default()
        };
        for path in paths {
            for op in Op::ALL {
                for value in [Value::from(1), document.clone(), at_path(&path)] {
                    let text = document.to_json();
                    for mut tree in
                        [Tree::from(document.clone()), Tree::of_text(&text).expect("JSON")]
                    {
                        let insertion = PatchOperation {
                            op: Op::Add,
                            path: path.clone(),
                            value: Some(value.clone()),
                        };
                        let operation = PatchOperation { op, ..insertion.clone() };
                        let took = time::spent(1 << 40, |budget| {
                            for _ in 0..1_000_000 {
                                let first = jsonpatch::apply(&mut tree, &operation, budget);
                                // So that there is something to remove.
                                let second = jsonpatch::apply(&mut tree, &insertion, budget);
                                let is_over = |done: &Result<(), ApplyError>| {
                                    matches!(done, Err(ApplyError::Exhausted(_)))
                                };
                                if is_over(&first) || is_over(&second) {
                                    break;
                                }
                            }
                        });
                        assert!(took <= time::allowed(), "{op:?} {path:.40} in {what}: {took:?}");
                    }
                }
            }
        }
    }
}

/// Lists of elements that are long alike, and many lists: comparing them takes no longer than reading them some
/// times.
#[test]
fn the_difference_of_lists_is_bounded() {
    let simple = || Value::from([("a", Value::from(0))].into_iter().collect::<Object>());
    let large = |end: i64| {
        let elements: Value = (0..300).map(|_| Value::from(1)).chain([end.into()]).collect();
        Value::from([("a", elements)].into_iter().collect::<Object>())
    };
    let objects = |from: i64| -> Value {
        [simple()].into_iter().chain((from..from + 500).map(large)).collect()
    };
    let texts = |from: i64| -> Value {
        let long = "x".repeat(2_000);
        (from..from + 500).map(|end| Value::from(format!("{long}{end}"))).collect()
    };
    let lists = |from: i64| -> Value {
        (0..300).map(|_| (from..from + 500).map(Value::from).collect::<Value>()).collect()
    };
    let cases: [(&str, &dyn Fn(i64) -> Value); 3] =
        [("large objects", &objects), ("long texts", &texts), ("many lists", &lists)];
    for (what, make) in cases {
        let document = |from| Value::from([("m", make(from))].into_iter().collect::<Object>());
        let (from, to) = (document(0), document(1));
        let mut patch = Vec::new();
        let took = time::spent(0, |_| patch = jsonpatch::diff(&from, &to));
        assert!(took <= time::allowed(), "{what}: {took:?}");
        assert_eq!(apply(&from, &patch), Ok(to), "{what}");
    }
}

/// The last-applied annotation may have its keys in an order that costs most.
#[test]
fn opening_a_text_is_charged_for_its_time() {
    let members: Vec<_> = (0..200_000).rev().map(|index| format!(r#""k{index:06}":1"#)).collect();
    let text = format!("{{{},\"k000001\":2}}", members.join(","));
    let mut tree = Tree::of_text(&text).expect("JSON");
    let took = time::spent(1 << 40, |budget| {
        let budget = if cfg!(debug_assertions) { &Budget::unlimited() } else { budget };
        let _ = tree.open_root(budget);
    });
    assert!(took <= time::allowed() * 3, "{took:?}");
    let value = tree.into_value();
    assert_eq!(value.get("k000001"), Some(&Value::from(2)), "the last of equal keys counts");
    assert_eq!(value.get("k199999"), Some(&Value::from(1)));
}
