//! Values as deep as an API server sends them, on less stack than any thread of a server has.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test")]

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use modgate_value::{
    Array, Budget, MAX_DEPTH, MAX_JSON_DEPTH, Object, Value,
    gofmt::{self, Arg},
    json, yaml,
};
use serde::{Deserialize, Serialize as _, de::IgnoredAny};

/// Half the stack that threads have by default, in builds without optimisation too.
fn on_small_stack(test: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(1 << 20).spawn(test).expect("a thread");
    thread.join().expect("no panic");
}

/// Lists, objects and both in turn, `levels` deep.
fn texts(levels: usize) -> [String; 3] {
    let nest = |open: &[&str], inner: &str, close: &[&str]| -> String {
        let turns = |brackets: &[&str], reversed: bool| -> String {
            let at = |level: usize| brackets.get(level % brackets.len()).copied().unwrap_or("");
            match reversed {
                false => (0..levels).map(at).collect(),
                true => (0..levels).rev().map(at).collect(),
            }
        };
        format!("{}{inner}{}", turns(open, false), turns(close, true))
    };
    [
        nest(&["["], "1", &["]"]),
        nest(&[r#"{"a":"#], "1", &["}"]),
        nest(&["[0,", r#"{"a":"b","c":"#], "1", &[",2]", r#","d":"e"}"#]),
    ]
}

fn deep(levels: usize) -> Vec<Value> {
    let read = |text: String| Value::from_json_nested(text.as_bytes(), MAX_JSON_DEPTH);
    texts(levels).into_iter().map(|text| read(text).expect("valid JSON")).collect()
}

#[test]
fn reading_allows_what_it_is_told_to() {
    on_small_stack(|| {
        for text in texts(MAX_JSON_DEPTH) {
            let value = json::parse_nested(text.as_bytes(), MAX_JSON_DEPTH).expect("deep");
            assert_eq!(value.depth(), MAX_JSON_DEPTH);
            for limit in [0, 1, MAX_DEPTH, MAX_JSON_DEPTH - 1] {
                let error = json::parse_nested(text.as_bytes(), limit).expect_err("too deep");
                assert_eq!(error.kind, json::ParseErrorKind::TooDeep(limit));
            }
            let error = Value::from_json(text.as_bytes()).expect_err("too deep");
            assert_eq!(error.kind, json::ParseErrorKind::TooDeep(MAX_DEPTH));
        }
        // Whatever was read before the text breaks off is dropped.
        for text in texts(MAX_JSON_DEPTH) {
            let broken = text.get(..text.len() - 3).expect("ASCII");
            json::parse_nested(broken.as_bytes(), MAX_JSON_DEPTH).expect_err("broken off");
        }
        let endless = "[".repeat(1 << 20);
        json::parse_nested(endless.as_bytes(), usize::MAX).expect_err("broken off");
    });
}

#[test]
fn dropping_and_cloning() {
    on_small_stack(|| {
        for value in deep(MAX_JSON_DEPTH) {
            let (clone, other) = (value.clone(), value.clone());
            drop(value);
            assert_eq!(clone.depth(), MAX_JSON_DEPTH);
            // The last two holders are two threads.
            let thread = std::thread::Builder::new().stack_size(1 << 20);
            let thread = thread.spawn(move || drop(clone)).expect("a thread");
            drop(other);
            thread.join().expect("no overflow");
        }
        // Shared half way down: the inner half outlives the outer one.
        for value in deep(MAX_JSON_DEPTH) {
            let mut inner = &value;
            for _ in 0..MAX_JSON_DEPTH / 2 {
                inner = match inner {
                    Value::Array(elements) => elements.iter().max_by_key(|part| part.depth()),
                    Value::Object(members) => members.values().max_by_key(|part| part.depth()),
                    _ => None,
                }
                .expect("a part");
                if inner.depth() < MAX_JSON_DEPTH - 50 {
                    break;
                }
            }
            let inner = inner.clone();
            let levels = inner.depth();
            drop(value);
            assert_eq!(inner.depth(), levels);
        }
    });
}

#[test]
fn comparing_and_hashing() {
    on_small_stack(|| {
        let hash = |value: &Value| {
            let mut hasher = DefaultHasher::new();
            value.hash(&mut hasher);
            hasher.finish()
        };
        let (values, others) = (deep(MAX_JSON_DEPTH), deep(MAX_JSON_DEPTH));
        let shallower = deep(MAX_JSON_DEPTH - 1);
        for ((value, other), shallower) in values.iter().zip(&others).zip(&shallower) {
            assert_eq!(value, other);
            assert!(value.cmp(other).is_eq());
            assert_eq!(hash(value), hash(other));
            assert_ne!(value, shallower);
            assert!(value.cmp(shallower).is_ne());
            match (value, other) {
                (Value::Array(array), Value::Array(other)) => {
                    assert!(array == other && array.cmp(other).is_eq());
                }
                (Value::Object(object), Value::Object(other)) => {
                    assert!(object == other && object.cmp(other).is_eq());
                }
                _ => panic!("a container"),
            }
        }
    });
}

#[test]
fn walking_and_changing() {
    on_small_stack(|| {
        for value in deep(MAX_JSON_DEPTH) {
            assert!(value.check_depth(MAX_JSON_DEPTH).is_ok());
            let error = value.check_depth(MAX_JSON_DEPTH - 1).expect_err("deeper");
            assert_eq!(error.limit, MAX_JSON_DEPTH - 1);
            assert_eq!(value.walk().map(|visit| visit.depth).max(), Some(MAX_JSON_DEPTH));
            let changed =
                value.map_scalars(|scalar| (scalar == &Value::from(1)).then(|| Value::from(9)));
            assert_ne!(changed, value);
            assert_eq!(changed.to_json().replace('9', "1"), value.to_json());
            let same = value.map_scalars(|_| None);
            match (&same, &value) {
                (Value::Array(same), Value::Array(value)) => assert!(same.ptr_eq(value)),
                (Value::Object(same), Value::Object(value)) => assert!(same.ptr_eq(value)),
                _ => panic!("a container"),
            }
            let mut array = Array::from(vec![value.clone(), Value::Null]);
            array.make_mut().reverse();
            let mut object: Object = [("a", value.clone())].into_iter().collect();
            object.insert("b", Value::from(array));
            assert_eq!(object.remove("a"), Some(value.clone()));
            let pointer = if matches!(value, Value::Array(_)) { "/0" } else { "/a" };
            assert!(value.pointer(&pointer.repeat(MAX_JSON_DEPTH + 1)).is_none());
        }
    });
}

#[test]
fn printing() {
    on_small_stack(|| {
        for (text, value) in texts(MAX_JSON_DEPTH).into_iter().zip(deep(MAX_JSON_DEPTH)) {
            assert_eq!(value.to_json().len(), text.len());
            assert_eq!(format!("{value}{value:?}").len(), 2 * text.len());
            for escape in [json::Escape::Minimal, json::Escape::Html] {
                let mut out = String::new();
                json::write(&value, &mut out, escape);
                json::write_pretty(&value, &mut out, " ", escape);
                let back = out.get(text.len()..).expect("two documents").as_bytes();
                assert_eq!(json::parse_nested(back, MAX_JSON_DEPTH).as_ref(), Ok(&value));
            }
            // Indentation stops, so that output grows with the input and not with its square.
            let yaml = yaml::write(&value);
            assert!(yaml.len() < (MAX_DEPTH + 10) * (2 * MAX_DEPTH + 20) * 2 + 20 * text.len());
            assert!(yaml::value(&yaml).is_err(), "deeper than YAML may be");
            let printed = gofmt::text(&value);
            let mut appended = String::new();
            gofmt::append_text(&value, &mut appended);
            assert_eq!(printed, appended);
            for verb in ["%v", "%+v", "%#v", "%d", "%s", "%q", "%x", "%T", "%p", "%5.2f"] {
                let budget = Budget::unlimited();
                gofmt::sprintf(verb, &[Arg::from(&value)], &budget).expect("unlimited");
            }
            let budget = Budget::unlimited();
            assert_eq!(gofmt::sprintf("%v", &[Arg::from(&value)], &budget).unwrap(), printed);
            let args = || [Arg::from(&value), Arg::list(vec![Arg::from(&value)])];
            gofmt::sprint(&args(), &budget).expect("unlimited");
            gofmt::sprintln(&args(), &budget).expect("unlimited");
        }
        for value in deep(MAX_DEPTH) {
            assert_eq!(yaml::value(&yaml::write(&value)), Ok(value));
        }
    });
}

#[derive(Debug, Deserialize)]
struct Known {
    a: Option<IgnoredAny>,
}

#[derive(Debug, Deserialize)]
struct Anything {
    #[expect(dead_code, reason = "read for its depth")]
    a: Value,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Chain {
    #[expect(dead_code, reason = "read for its depth")]
    List(Vec<Chain>),
    #[expect(dead_code, reason = "read for its depth")]
    Map(std::collections::BTreeMap<String, Chain>),
    End(IgnoredAny),
}

#[test]
fn through_serde() {
    on_small_stack(|| {
        for value in deep(MAX_JSON_DEPTH) {
            IgnoredAny::deserialize(&value).expect("not looked at");
            Value::deserialize(&value).expect_err("too deep");
            Chain::deserialize(&value).expect_err("too deep");
            if matches!(value, Value::Object(_)) {
                assert!(Known::deserialize(&value).expect("not looked at").a.is_some());
                Anything::deserialize(&value).expect_err("too deep");
            }
            let mut writer = serde_json::Serializer::new(std::io::sink());
            let error = value.serialize(&mut writer).expect_err("too deep");
            assert_eq!(error.to_string(), "value nests deeper than 512 levels");
        }
        for value in deep(MAX_DEPTH) {
            assert_eq!(Value::deserialize(&value), Ok(value.clone()));
            let mut writer = serde_json::Serializer::new(std::io::sink());
            value.serialize(&mut writer).expect("not too deep");
        }
    });
}
