use std::{
    cmp::Ordering,
    hash::{DefaultHasher, Hash, Hasher},
};

use modgate_value::{Budget, Limits, MAX_JSON_DEPTH, budget::Frozen};

use super::*;

fn json(text: &str) -> Json {
    Json::from_json(text.as_bytes()).expect(text)
}

fn hash(value: Value<'_>) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// The same value built part by part; nothing in it is borrowed from the document.
fn built<'a>(heap: Heap<'a>, value: &Json) -> Value<'a> {
    heap.copy_json(value).expect("budget")
}

const DOCUMENTS: [&str; 14] = [
    "null",
    "false",
    "true",
    "-1",
    "1",
    "1.5",
    "12345678901234567890",
    r#""""#,
    r#""a""#,
    "[]",
    r#"[1, "a"]"#,
    "{}",
    r#"{"a": {"b": [1]}}"#,
    r#"{"b": null}"#,
];

#[test]
fn a_value_is_three_words_and_shared_between_threads() {
    fn shared<T: Send + Sync + Copy>() {}
    shared::<Value<'static>>();
    assert_eq!(size_of::<Value<'_>>(), 24);
}

#[test]
fn borrowed_and_built_values_are_alike() {
    let budget = Budget::unlimited();
    let arena = Arena::new();
    let heap = Heap::new(&arena, &budget);
    let documents = DOCUMENTS.map(json);
    for (a, left) in documents.iter().enumerate() {
        let (borrowed, copied) = (Value::json(left), built(heap, left));
        assert_eq!(hash(borrowed), hash(copied), "{left}");
        assert_eq!(borrowed.to_string(), copied.to_string());
        assert_eq!(&copied.to_json(&budget).expect("depth"), left);
        for (b, right) in documents.iter().enumerate() {
            for other in [Value::json(right), built(heap, right)] {
                for one in [borrowed, copied] {
                    assert_eq!(one.cmp(&other), a.cmp(&b), "{left} {right}");
                    assert_eq!(one == other, a == b, "{left} {right}");
                }
            }
        }
    }
}

#[test]
fn sets_come_last_and_hold_each_element_once() {
    let budget = Budget::unlimited();
    let arena = Arena::new();
    let heap = Heap::new(&arena, &budget);
    let one = heap.number(Num::Literal("1.0")).expect("budget");
    let set = heap.set(vec![Value::int(2), one, Value::int(1), Value::str("a"), Value::int(2)]);
    let set = set.expect("budget");
    assert_eq!(set.to_string(), r#"{1.0, 2, "a"}"#, "the first of equal elements is kept");
    assert_eq!(set.get(Value::int(1)), Some(one));
    assert_eq!(set.get(Value::int(3)), None);
    assert_eq!(set.cmp(&Value::EMPTY_OBJECT), Ordering::Greater);
    assert_eq!(Value::EMPTY_SET.to_string(), "set()");
    assert_eq!(set.to_json(&budget).expect("depth").to_json(), r#"[1.0,2,"a"]"#);
}

#[test]
fn keys_of_any_type() {
    let budget = Budget::unlimited();
    let arena = Arena::new();
    let heap = Heap::new(&arena, &budget);
    let pair = heap.array(&[Value::int(1)]).expect("budget");
    let entries =
        vec![(pair, Value::TRUE), (Value::str("b"), Value::NULL), (Value::int(1), Value::FALSE)];
    let object = heap.object(entries.clone()).expect("budget");
    assert_eq!(object.to_string(), r#"{1: false, "b": null, [1]: true}"#);
    assert_eq!(object.get(pair), Some(Value::TRUE));
    assert_eq!(object.get_str("b"), Some(Value::NULL));
    let text = object.to_json(&budget).expect("depth").to_json();
    assert_eq!(text, r#"{"1":false,"[1]":true,"b":null}"#);

    let twice = [entries.clone(), vec![(pair, Value::FALSE)]].concat();
    let last = heap.object(twice.clone()).expect("budget");
    assert_eq!(last.get(pair), Some(Value::FALSE), "the last value counts");
    assert_eq!(heap.object_unless_conflict(twice), Ok(None));
    let same = [entries.clone(), entries].concat();
    assert_eq!(heap.object_unless_conflict(same), Ok(Some(object)));
}

#[test]
fn large_objects_and_sets_find_their_entries() {
    let budget = Budget::unlimited();
    let arena = Arena::new();
    let heap = Heap::new(&arena, &budget);
    let keys: Vec<Value<'_>> =
        (0..100).map(|n| heap.string(&format!("key-{n}")).expect("budget")).collect();
    let set = heap.set(keys.clone()).expect("budget");
    let object = heap.object(keys.iter().map(|key| (*key, *key)).collect()).expect("budget");
    for key in keys {
        assert_eq!(set.get(key), Some(key));
        assert_eq!(object.get(key), Some(key));
    }
    assert_eq!(object.get_str("key-100"), None);
}

#[test]
fn a_tree_is_an_object() {
    struct Kinds(Vec<(String, Json)>);

    impl Tree for Kinds {
        fn len(&self) -> usize {
            self.0.len()
        }

        fn get(&self, key: &str) -> Option<Node<'_>> {
            let (_, value) = self.0.iter().find(|(name, _)| name == key)?;
            Some(Node::Json(value))
        }

        fn entry(&self, index: usize) -> Option<(&str, Node<'_>)> {
            self.0.get(index).map(|(name, value)| (name.as_str(), Node::Json(value)))
        }
    }

    let kinds = Kinds(vec![("a".into(), json("[1]")), ("b".into(), json(r#"{"c": 2}"#))]);
    let tree = Value::tree(&kinds);
    let document = json(r#"{"a": [1], "b": {"c": 2}}"#);
    assert_eq!(tree, Value::json(&document));
    assert_eq!(tree.get_str("b").and_then(|b| b.get_str("c")), Some(Value::int(2)));
    assert_eq!(tree.get(Value::int(0)), None);
    assert_eq!(tree.to_json(&Budget::unlimited()), Ok(document));
}

#[test]
fn ground_values_borrow_what_is_json() {
    let budget = Budget::unlimited();
    let arena = Arena::new();
    let heap = Heap::new(&arena, &budget);
    let document = json(r#"{"a": [1, "x"]}"#);
    assert_eq!(Ground::from(built(heap, &document)), Ground::Json(document.clone()));
    let set = heap.set(vec![Value::json(&document), Value::int(1)]).expect("budget");
    let outer = heap.record([("s", set)]).expect("budget");
    let ground = Ground::from(outer);
    assert!(matches!(ground, Ground::Object(_)));
    assert_eq!(ground.value(heap), Ok(outer));
}

#[test]
fn depth_and_size_are_bounded() {
    let budget = Budget::unlimited();
    let arena = Arena::new();
    let heap = Heap::new(&arena, &budget);
    let mut value = Value::NULL;
    let deep = (0..=MAX_DEPTH).find_map(|_| match heap.array(&[value]) {
        Ok(array) => {
            value = array;
            None
        }
        Err(limit) => Some(limit),
    });
    assert_eq!(deep, Some(Limit::Depth));
    assert!(!value.to_string().is_empty(), "the deepest there can be is printed");
    let mut value = Value::NULL;
    let wide = (0..100).find_map(|_| match heap.array(&[value; 16]) {
        Ok(array) => {
            value = array;
            None
        }
        Err(limit) => Some(limit),
    });
    assert_eq!(wide, Some(Limit::Nodes));
}

#[test]
fn building_is_charged() {
    let limits = Limits { bytes: 1000, steps: 1000, ..Limits::UNLIMITED };
    let budget = Budget::new(limits, &Frozen);
    let arena = Arena::new();
    let heap = Heap::new(&arena, &budget);
    assert!(heap.string(&"x".repeat(900)).is_ok());
    assert!(matches!(heap.string(&"x".repeat(200)), Err(Limit::Exhausted(_))));
    let document = json(&format!("[{}1]", "1,".repeat(2000)));
    assert!(matches!(Value::json(&document).to_text(&budget), Err(Limit::Exhausted(_))));
}

/// Documents are as deep as an API server sends them; no stack is.
#[test]
fn the_deepest_documents() {
    let test = || {
        for (open, close) in [("[", "]"), (r#"{"a":"#, "}"), (r#"[{"a":"#, "}]")] {
            let levels = MAX_JSON_DEPTH / open.matches(['[', '{']).count();
            let document = || {
                let text = format!("{}1{}", open.repeat(levels), close.repeat(levels));
                Json::from_json_nested(text.as_bytes(), MAX_JSON_DEPTH).expect("JSON")
            };
            let (left, right) = (document(), document());
            let (left, right) = (Value::json(&left), Value::json(&right));
            assert!(left == right && left.cmp(&right).is_eq());
            assert_eq!(hash(left), hash(right));
            let budget = Budget::unlimited();
            assert_eq!(left.to_text(&budget), Err(Limit::Depth));
            assert!(matches!(left.to_json(&budget), Err(Limit::Depth)));
        }
    };
    let thread = std::thread::Builder::new().stack_size(2 << 20).spawn(test);
    thread.expect("a thread").join().expect("no overflow");
}
