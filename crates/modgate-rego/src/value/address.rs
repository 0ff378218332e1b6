//! Where borrowed values are in memory.

use super::{Repr, Value};

impl Value<'_> {
    /// Where a text, a list or an object that is borrowed from a document is in memory: two values
    /// with one address are one place of the document. `None` for everything else, and for what is
    /// empty, which has no place of its own.
    pub fn address(self) -> Option<usize> {
        match self.0 {
            Repr::String(text) if !text.is_empty() => Some(text.as_ptr().addr()),
            Repr::JsonArray(items) if !items.is_empty() => Some(items.as_ptr().addr()),
            Repr::JsonObject(object) => Some(std::ptr::from_ref(object).addr()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use modgate_value::Value as Json;

    use super::*;

    #[test]
    fn parts_of_a_document_have_their_own() {
        let document = Json::from_json(br#"{"a": [{"b": "x"}, {"b": "x"}], "n": 1, "e": []}"#);
        let document = document.expect("JSON");
        let at =
            |pointer: &str| Value::json(document.pointer(pointer).expect("a member")).address();
        for pointer in ["", "/a", "/a/0", "/a/0/b"] {
            assert!(at(pointer).is_some(), "{pointer}");
            assert_eq!(at(pointer), at(pointer), "{pointer}");
        }
        assert_ne!(at("/a/0"), at("/a/1"));
        assert_ne!(at("/a/0/b"), at("/a/1/b"));
        assert_eq!(at("/n"), None);
        assert_eq!(at("/e"), None);
    }
}
