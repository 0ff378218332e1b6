//! `externaldata.gatekeeper.sh`: Provider, and what is said to and by one
//! (spec `gatekeeper-mutation…`, sections 1.11 and 6.2).

use modgate_value::{DecodeError, Str, Value};
use serde::Deserialize;

/// API group of Provider.
pub const GROUP: &str = "externaldata.gatekeeper.sh";
/// Its one kind.
pub const KIND: &str = "Provider";
/// Its versions, the stored one first; all have the same schema.
pub const VERSIONS: [&str; 2] = ["v1beta1", "v1alpha1"];
/// The version requests to providers are written in, whatever version the Provider has.
pub const WIRE_VERSION: &str = "externaldata.gatekeeper.sh/v1beta1";

/// A service that maps keys to values.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Provider {
    /// Its name.
    pub metadata: Metadata,
    /// Where it is.
    pub spec: ProviderSpec,
}

/// The parts of an object's metadata a provider needs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Metadata {
    /// The name that policies use.
    pub name: Str,
}

/// `spec` of a Provider.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ProviderSpec {
    /// `https://…`
    pub url: Str,
    /// Seconds a call may take; 0 means 5 (`fix-timeout-zero`).
    pub timeout: i64,
    /// Base64 of the PEM certificates that are trusted.
    #[serde(rename = "caBundle")]
    pub ca_bundle: Str,
}

impl Provider {
    /// Whether `object` says it is a Provider of a version that exists.
    pub fn is_provider(object: &Value) -> bool {
        let text = |key| object.get(key).and_then(Value::as_str).unwrap_or_default();
        let version = text("apiVersion").strip_prefix(GROUP).and_then(|it| it.strip_prefix('/'));
        text("kind") == KIND && version.is_some_and(|version| VERSIONS.contains(&version))
    }

    /// Decodes a Provider of any version.
    ///
    /// # Errors
    ///
    /// When a member has the wrong type; the error names its path.
    pub fn from_value(value: &Value) -> Result<Self, DecodeError> {
        Self::deserialize(value)
    }

    /// The warning that the API server returns for the older version.
    pub fn deprecation(api_version: &str) -> Option<&'static str> {
        (api_version == "externaldata.gatekeeper.sh/v1alpha1").then_some(
            "externaldata.gatekeeper.sh/v1alpha1 is deprecated. Use \
             externaldata.gatekeeper.sh/v1beta1 instead.",
        )
    }
}

/// The body of a request for these keys; `keys` is absent when there are none.
pub fn request<'k>(keys: impl IntoIterator<Item = &'k Str>) -> Value {
    let keys: Vec<Value> = keys.into_iter().map(|key| key.clone().into()).collect();
    let request: Value = match keys.is_empty() {
        true => Value::Object(Default::default()),
        false => [("keys", Value::from(keys))].into_iter().collect(),
    };
    [
        ("apiVersion", Value::from(WIRE_VERSION)),
        ("kind", Value::from("ProviderRequest")),
        ("request", request),
    ]
    .into_iter()
    .collect()
}

/// The response of a provider.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Answer {
    /// Whether asking again would give the same.
    pub idempotent: bool,
    /// Why the whole request failed; blank when it did not.
    pub system_error: String,
    /// One item per key that was answered.
    pub items: Vec<Item>,
}

/// The response of a provider for one key.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Item {
    /// The key.
    pub key: Str,
    /// Its value.
    pub value: Value,
    /// Why there is none; empty when there is one.
    pub error: String,
}

impl Answer {
    /// Decodes the body of an answer as Go's `encoding/json` would: names in any case, unknown
    /// members ignored, missing and null ones empty. `apiVersion` and `kind` are not looked at.
    ///
    /// # Errors
    ///
    /// When a member has the wrong type; the error names its path.
    pub fn from_value(body: &Value) -> Result<Self, DecodeError> {
        let response = member(body, "", "response")?;
        let items = match member(response, "response", "items")? {
            Value::Null => Vec::new(),
            Value::Array(items) => items
                .iter()
                .enumerate()
                .map(|(index, item)| Item::from_value(item, &format!("response.items[{index}]")))
                .collect::<Result<_, _>>()?,
            other => return Err(mismatch("response.items", "a list", other)),
        };
        let idempotent = match member(response, "response", "idempotent")? {
            Value::Null => false,
            Value::Bool(idempotent) => *idempotent,
            other => return Err(mismatch("response.idempotent", "a boolean", other)),
        };
        let system_error = text(response, "response", "systemError")?.to_owned();
        Ok(Self { idempotent, system_error, items })
    }
}

impl Item {
    fn from_value(item: &Value, path: &str) -> Result<Self, DecodeError> {
        Ok(Self {
            key: text(item, path, "key")?.into(),
            value: member(item, path, "value")?.clone(),
            error: text(item, path, "error")?.to_owned(),
        })
    }
}

/// A member of an object, or null.
fn member<'v>(value: &'v Value, path: &str, name: &str) -> Result<&'v Value, DecodeError> {
    let members = match value {
        Value::Null => return Ok(&Value::Null),
        Value::Object(members) => members,
        other => return Err(mismatch(path, "an object", other)),
    };
    let any_case = || members.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
    Ok(members.get(name).or_else(|| any_case().map(|(_, value)| value)).unwrap_or(&Value::Null))
}

fn text<'v>(value: &'v Value, path: &str, name: &str) -> Result<&'v str, DecodeError> {
    match member(value, path, name)? {
        Value::Null => Ok(""),
        Value::String(text) => Ok(text),
        other => Err(mismatch(&format!("{path}.{name}"), "a string", other)),
    }
}

fn mismatch(path: &str, expected: &str, found: &Value) -> DecodeError {
    DecodeError {
        path: path.to_owned(),
        message: format!("expected {expected}, found {}", found.type_name()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(body: &str) -> Result<Answer, String> {
        let body = Value::from_json(body.as_bytes()).expect(body);
        Answer::from_value(&body).map_err(|error| error.to_string())
    }

    #[test]
    fn answers() {
        let full = answer(
            r#"{"apiVersion": 7, "response": {"idempotent": true, "SystemError": "s", "more": 1,
                "items": [{"key": "a", "value": {"x": 1}}, {"key": "b", "error": "e"}, null]}}"#,
        )
        .expect("an answer");
        assert!(full.idempotent);
        assert_eq!(full.system_error, "s");
        assert_eq!(full.items.len(), 3);
        assert_eq!(full.items[0].value.to_json(), r#"{"x":1}"#);
        assert_eq!(full.items[1].error, "e");
        assert_eq!(full.items[2], Item::default());
        for empty in ["{}", "null", r#"{"response": null}"#, r#"{"response": {"items": null}}"#] {
            assert_eq!(answer(empty), Ok(Answer::default()), "{empty}");
        }
    }

    #[test]
    fn what_is_no_answer() {
        for (body, expected) in [
            ("[]", "expected an object, found array"),
            (r#"{"response": 1}"#, "response: expected an object, found number"),
            (r#"{"response": {"items": {}}}"#, "response.items: expected a list, found object"),
            (
                r#"{"response": {"items": [{"key": 1}]}}"#,
                "response.items[0].key: expected a string, found number",
            ),
        ] {
            assert_eq!(answer(body), Err(expected.to_owned()), "{body}");
        }
    }

    #[test]
    fn requests() {
        let keys = [Str::from("a"), Str::from("b")];
        let head = r#"{"apiVersion":"externaldata.gatekeeper.sh/v1beta1","kind":"ProviderRequest""#;
        assert_eq!(request(&keys).to_json(), format!(r#"{head},"request":{{"keys":["a","b"]}}}}"#));
        assert_eq!(request([]).to_json(), format!(r#"{head},"request":{{}}}}"#));
    }

    #[test]
    fn versions() {
        for (api_version, is) in [
            ("externaldata.gatekeeper.sh/v1beta1", true),
            ("externaldata.gatekeeper.sh/v1alpha1", true),
            ("externaldata.gatekeeper.sh/v1", false),
            ("v1beta1", false),
        ] {
            let object: Value = [("apiVersion", Value::from(api_version)), ("kind", KIND.into())]
                .into_iter()
                .collect();
            assert_eq!(Provider::is_provider(&object), is, "{api_version}");
        }
    }
}
