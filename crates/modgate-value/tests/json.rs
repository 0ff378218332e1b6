//! JSON read back from what was printed.

use modgate_value::{Number, Str, Value, json, yaml};
use proptest::prelude::*;

fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_filter_map("finite", Number::from_f64).prop_map(Value::from),
        "-?(0|[1-9][0-9]{0,30})(\\.[0-9]{1,9})?([eE][+-]?[0-9]{1,3})?"
            .prop_filter_map("a number", |text| Number::from_json_text(&text))
            .prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 64, 6, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            proptest::collection::vec((any::<String>().prop_map(Str::from), inner), 0..6)
                .prop_map(|members| members.into_iter().collect()),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn printed_json_reads_back(value in values()) {
        let compact = value.to_json();
        let read = Value::from_json(compact.as_bytes());
        prop_assert_eq!(read.as_ref(), Ok(&value));
        prop_assert_eq!(read.map(|read| read.to_json()), Ok(compact));
        let mut pretty = String::new();
        json::write_pretty(&value, &mut pretty, "  ", json::Escape::Html);
        prop_assert_eq!(Value::from_json(pretty.as_bytes()), Ok(value));
    }

    #[test]
    fn any_bytes_are_answered(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        if let Ok(value) = Value::from_json(&bytes) {
            prop_assert_eq!(Value::from_json(value.to_json().as_bytes()), Ok(value));
        }
        let _ = yaml::load(&String::from_utf8_lossy(&bytes));
    }
}
