//! Redaction of Secrets: what logs, reports and pages may show of them.

use std::{borrow::Cow, collections::BTreeMap};

use modgate_value::{Value, go::base64::Alphabet};

use crate::meta::GroupVersionKind;

/// Stands for the message of a policy about a Secret, which may quote its data.
pub const NOT_SHOWN: &str = "not shown for a Secret";

/// Stands for a value of a Secret.
pub const HIDDEN: &str = "(hidden)";
/// Stands for a value of a Secret that policies changed.
const CHANGED: &str = "(hidden, changed)";
/// The annotation in which `kubectl apply` keeps a copy of the object.
const COPY: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// The members with the data of a Secret.
const DATA: [&str; 2] = ["data", "stringData"];

/// An object for people: without `managedFields`, without the copy that `kubectl apply` keeps in an
/// annotation, and without the data of a Secret, whose keys stay. An object is a Secret when it says so,
/// or when `is_secret` says that its request does.
pub fn shown(object: &Value, is_secret: bool) -> Value {
    without_data(object, is_secret, None)
}

/// A Secret before and after a change, each as [`shown`] returns it. Changed values of the second are
/// marked, so that a comparison of both still shows which keys changed.
pub fn shown_pair(before: &Value, after: &Value) -> (Value, Value) {
    (without_data(before, true, None), without_data(after, true, Some(before)))
}

fn without_data(object: &Value, is_secret: bool, before: Option<&Value>) -> Value {
    let is_secret = is_secret || GroupVersionKind::of_object(object).is_secret();
    let has = |path: &[&str]| object.path(path).is_some();
    if !is_secret
        && !has(&["metadata", "managedFields"])
        && !has(&["metadata", "annotations", COPY])
    {
        return object.clone();
    }
    let Some(mut members) = object.as_object().cloned() else { return object.clone() };
    if let Some(mut metadata) = members.get("metadata").and_then(Value::as_object).cloned() {
        metadata.remove("managedFields");
        let annotations = metadata.get("annotations").and_then(Value::as_object).cloned();
        if let Some(mut annotations) = annotations {
            annotations.remove(COPY);
            metadata.insert("annotations", annotations.into());
        }
        members.insert("metadata", metadata.into());
    }
    if is_secret {
        for member in DATA {
            let Some(data) = members.get(member) else { continue };
            let old = before.map(|before| before.get(member).unwrap_or(&Value::Null));
            members.insert(member, hidden(data, old));
        }
    }
    members.into()
}

/// The keys of a Secret's data. Values that differ from those of `before` are marked.
fn hidden(data: &Value, before: Option<&Value>) -> Value {
    let mark = |value: Option<&Value>, before: Option<Option<&Value>>| -> Value {
        if before.is_none_or(|before| before == value) { HIDDEN } else { CHANGED }.into()
    };
    match data.as_object() {
        Some(members) => members
            .iter()
            .map(|(key, value)| (key.clone(), mark(Some(value), before.map(|it| it.get(key)))))
            .collect(),
        None => mark(Some(data), before.map(Some)),
    }
}

/// The values of Secrets, to keep them out of what policies read: explanations quote it.
#[derive(Debug, Default)]
pub struct SecretValues {
    /// By their first byte; the longest first.
    by_first: BTreeMap<u8, Vec<String>>,
}

/// Shorter values are hidden only where they stand alone: they are parts of ordinary words.
const MIN_INSIDE: usize = 6;
/// So many first bytes tell that a text has a value, also one that is cut off.
const TELLING: usize = 16;
/// Where a text was cut off, so many first bytes tell.
const TELLING_CUT: usize = 3;
/// The end of a text that was cut off.
const CUT: char = '…';
/// How often a value may be text of JSON within JSON: in the copy of an annotation, in a document of a policy, in the
/// answer.
const MOST_ESCAPES: usize = 3;

impl SecretValues {
    /// Adds the values of an object if it is a Secret, or `is_secret` says so: as they are written, decoded,
    /// as they stand in JSON, and in JSON within JSON; also those of the copy in its annotations, which may
    /// be older.
    pub fn add(&mut self, object: &Value, is_secret: bool) {
        if !is_secret && !GroupVersionKind::of_object(object).is_secret() {
            return;
        }
        self.add_data(object);
        let copy = object.path(&["metadata", "annotations", COPY]).and_then(Value::as_str);
        match copy.map(|text| (text, Value::from_json(text.as_bytes()))) {
            Some((_, Ok(copy))) => self.add_data(&copy),
            Some((text, Err(_))) => self.add_text(text),
            None => {}
        }
    }

    fn add_data(&mut self, object: &Value) {
        for member in DATA {
            let Some(data) = object.get(member) else { continue };
            for text in data.walk().filter_map(|visit| visit.value.as_str()) {
                self.add_text(text);
                let decoded = Alphabet::Standard.decode(text).ok();
                if let Some(decoded) = decoded.and_then(|bytes| String::from_utf8(bytes).ok()) {
                    self.add_text(&decoded);
                }
            }
        }
    }

    fn add_text(&mut self, text: &str) {
        self.insert(text);
        self.insert(text.trim());
        let mut escaped = text.to_owned();
        for _ in 0..MOST_ESCAPES {
            let quoted = Value::from(escaped.as_str()).to_json();
            let inner = quoted.strip_prefix('"').and_then(|it| it.strip_suffix('"'));
            let inner = inner.unwrap_or_default();
            if inner == escaped {
                break;
            }
            self.insert(inner);
            escaped = inner.to_owned();
        }
        // However line breaks are written, lines are hidden.
        if text.contains('\n') {
            text.lines()
                .map(str::trim)
                .filter(|it| it.len() >= TELLING)
                .for_each(|it| self.insert(it));
        }
    }

    fn insert(&mut self, text: &str) {
        let Some(first) = text.bytes().next() else { return };
        let known = self.by_first.entry(first).or_default();
        if let Err(at) = known.binary_search_by(|it| (text.len(), text).cmp(&(it.len(), it))) {
            known.insert(at, text.to_owned());
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.by_first.is_empty()
    }

    /// The text without them.
    pub fn hide<'t>(&self, text: &'t str) -> Cow<'t, str> {
        if self.is_empty() {
            return text.into();
        }
        let mut out = String::new();
        let (mut kept, mut at) = (0, 0);
        while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
            let before = text.get(..at).and_then(|before| before.chars().next_back());
            let step = rest.chars().next().map_or(1, char::len_utf8);
            match self.found(before, rest) {
                0 => at += step,
                found => {
                    out.push_str(text.get(kept..at).unwrap_or_default());
                    out.push_str(HIDDEN);
                    at += found;
                    kept = at;
                }
            }
        }
        if kept == 0 {
            return text.into();
        }
        out.push_str(text.get(kept..).unwrap_or_default());
        out.into()
    }

    /// The document with the texts in it without them.
    pub fn hide_in(&self, value: &Value) -> Value {
        if self.is_empty() {
            return value.clone();
        }
        value.map_scalars(|scalar| match self.hide(scalar.as_str()?) {
            Cow::Borrowed(_) => None,
            Cow::Owned(hidden) => Some(hidden.into()),
        })
    }

    /// The bytes of the longest beginning of a value with which a text begins; 0 if it has none.
    fn found(&self, before: Option<char>, text: &str) -> usize {
        let candidates = text.bytes().next().and_then(|first| self.by_first.get(&first));
        let lengths = candidates.into_iter().flatten().map(|value| {
            let pairs = value.chars().zip(text.chars());
            let same: usize =
                pairs.take_while(|(a, b)| a == b).map(|(each, _)| each.len_utf8()).sum();
            let is_whole = same == value.len();
            let after = text.get(same..).and_then(|rest| rest.chars().next());
            let in_word = |next: Option<char>| next.is_some_and(char::is_alphanumeric);
            let stands_alone = !in_word(before) && !in_word(after);
            let is_cut = after == Some(CUT) && (same >= TELLING_CUT || before == Some('"'));
            let tells = same >= TELLING
                || is_whole && (same >= MIN_INSIDE || stands_alone)
                || is_cut && same > 0;
            if tells { same } else { 0 }
        });
        lengths.max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Value {
        Value::from_json(text.as_bytes()).expect("JSON")
    }

    #[test]
    fn data_is_hidden() {
        for (object, is_secret, expected) in [
            (
                r#"{"apiVersion": "v1", "kind": "Secret", "data": {"a": "eA=="}, "stringData": "b"}"#,
                false,
                r#"{"apiVersion":"v1","kind":"Secret","data":{"a":"(hidden)"},"stringData":"(hidden)"}"#,
            ),
            (
                r#"{"kind": "Other", "data": {"a": "b"}}"#,
                false,
                r#"{"kind":"Other","data":{"a":"b"}}"#,
            ),
            (
                r#"{"kind": "Other", "data": {"a": "b"}}"#,
                true,
                r#"{"kind":"Other","data":{"a":"(hidden)"}}"#,
            ),
            (
                r#"{"metadata": {"managedFields": [], "annotations": {
                    "kubectl.kubernetes.io/last-applied-configuration": "{}", "a": "b"}}}"#,
                false,
                r#"{"metadata":{"annotations":{"a":"b"}}}"#,
            ),
            ("[]", true, "[]"),
        ] {
            assert_eq!(shown(&parsed(object), is_secret), parsed(expected), "{object}");
        }
    }

    #[test]
    fn changes_of_data_are_marked() {
        let before = parsed(r#"{"data": {"a": "1", "b": "2"}}"#);
        let after = parsed(r#"{"data": {"a": "1", "b": "3", "c": "4"}, "stringData": {"d": "5"}}"#);
        let (before, after) = shown_pair(&before, &after);
        assert_eq!(before, parsed(r#"{"data": {"a": "(hidden)", "b": "(hidden)"}}"#));
        let expected = r#"{"data": {"a": "(hidden)", "b": "(hidden, changed)",
            "c": "(hidden, changed)"}, "stringData": {"d": "(hidden, changed)"}}"#;
        assert_eq!(after, parsed(expected));
    }

    #[test]
    fn values_are_hidden_in_texts() {
        let mut values = SecretValues::default();
        values.add(
            &parsed(
                r#"{"apiVersion": "v1", "kind": "Secret",
                    "data": {"a": "c3VwZXJzZWNyZXQtcGFzc3dvcmQ=", "pin": "NDI="},
                    "stringData": {"q": "one \"two\" three and four"}}"#,
            ),
            false,
        );
        values.add(&parsed(r#"{"kind": "ConfigMap", "data": {"a": "not-secret"}}"#), false);
        for (text, expected) in [
            ("x c3VwZXJzZWNyZXQtcGFzc3dvcmQ= y", "x (hidden) y"),
            ("xsupersecret-passwordy", "x(hidden)y"),
            ("supersecret-passw\u{2026}", "(hidden)\u{2026}"),
            ("super", "super"),
            ("sup\u{2026}", "(hidden)\u{2026}"),
            ("x: \"s\u{2026}", "x: \"(hidden)\u{2026}"),
            ("yes\u{2026}", "yes\u{2026}"),
            ("pin 42, not 421", "pin (hidden), not 421"),
            (r#"{"q":"one \"two\" three and four"}"#, r#"{"q":"(hidden)"}"#),
            (r#"one "two" three and four"#, "(hidden)"),
            ("not-secret", "not-secret"),
        ] {
            assert_eq!(values.hide(text), expected, "{text}");
        }
        let copy = r#"{"stringData": {"old": "the-one-before"}, "kind": "Secret"}"#;
        let key =
            "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG\nC7VJTUt9UXrWZ4WbVwwo\n-----END KEY-----";
        let mut secret = parsed(r#"{"apiVersion": "v1", "kind": "Secret"}"#)
            .as_object()
            .cloned()
            .expect("an object");
        let object = |name: &str, value: Value| [(name, value)].into_iter().collect::<Value>();
        secret.insert("stringData", object("key", key.into()));
        secret.insert("metadata", object("annotations", object(COPY, copy.into())));
        let secret = Value::from(secret);
        values.add(&secret, false);
        let mut text = key.to_owned();
        for depth in 0..5 {
            let hidden = values.hide(&text);
            assert!(!hidden.contains("MIIE") && !hidden.contains("C7VJ"), "{depth}: {hidden}");
            text = Value::from(text.as_str()).to_json();
        }
        assert_eq!(values.hide("it was the-one-before."), "it was (hidden).");
        let document = parsed(r#"{"supersecret-password": ["supersecret-password", 42]}"#);
        let expected = parsed(r#"{"supersecret-password": ["(hidden)", 42]}"#);
        assert_eq!(values.hide_in(&document), expected, "names stay");
        assert_eq!(SecretValues::default().hide("a"), "a");
    }
}
