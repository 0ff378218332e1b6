//! Properties of patches: the difference applied gives the other document; nothing panics.

use modgate_engine::jsonpatch::{self, Op, PatchOperation, Tree};
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
