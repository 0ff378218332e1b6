//! `external_data` in Rego (6.4): its argument, and the object it gives.

use std::collections::BTreeMap;

use modgate_api::externaldata::Item;
use modgate_value::{Str, Value};

/// The name of the function.
pub const FUNCTION: &str = "external_data";

/// Where `external_data` gets its answers; implemented by the edge.
pub trait ExternalData {
    /// The provider's answers for these distinct keys, in the order requested.
    ///
    /// # Errors
    ///
    /// When the provider could not be reached.
    fn query(&self, provider: &str, keys: &[Str]) -> Result<Responses, Unanswered>;
}

/// The answers for the requested keys.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Responses {
    /// Those that were known already, in the order asked, then those of the call, in the order
    /// answered.
    pub items: Vec<Item>,
    /// The HTTP status of the call; 0 when there was none.
    pub status: u16,
    /// Why the provider could not answer at all, in its own words.
    pub system_error: String,
}

/// A call that gave no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Unanswered {
    /// 400 when the call could not be made, 500 when it failed.
    pub status: u16,
    /// Why.
    pub message: String,
}

impl Unanswered {
    /// There is no provider of that name.
    pub fn unknown_provider() -> Self {
        Self { status: 400, message: "key is not found in provider cache".to_owned() }
    }

    /// The call could not be made.
    pub fn refused(message: impl Into<String>) -> Self {
        Self { status: 400, message: message.into() }
    }

    /// The call failed.
    pub fn failed(message: impl Into<String>) -> Self {
        Self { status: 500, message: message.into() }
    }
}

/// No provider is known.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoExternalData;

impl ExternalData for NoExternalData {
    fn query(&self, _: &str, _: &[Str]) -> Result<Responses, Unanswered> {
        Err(Unanswered::unknown_provider())
    }
}

/// Calls the function: `{"provider": …, "keys": […]}` in,
/// `{"responses", "errors", "status_code", "system_error"}` out.
///
/// Each key is requested once. What is said about one that stands several times in `keys` is
/// repeated at the end, so that there are as many responses as if each had been asked for.
///
/// # Errors
///
/// When the argument has another shape; the call is then undefined.
pub fn external_data(args: &[Value], data: &dyn ExternalData) -> Result<Value, String> {
    let (provider, keys) = request(args.first().unwrap_or(&Value::Null))?;
    let mut times: BTreeMap<&str, usize> = BTreeMap::new();
    let mut distinct = Vec::new();
    for key in &keys {
        let seen = times.entry(key).or_default();
        if *seen == 0 {
            distinct.push(key.clone());
        }
        *seen += 1;
    }
    if distinct.is_empty() {
        return Ok(result(&Responses::default(), &[]));
    }
    match data.query(provider, &distinct) {
        Ok(responses) => {
            let mut repeated = Vec::new();
            for item in &responses.items {
                // A key the provider made up was not asked for, and one it answered twice is not
                // repeated twice.
                let again = times.remove(item.key.as_str()).unwrap_or(1).saturating_sub(1);
                repeated.extend(std::iter::repeat_n(item, again));
            }
            Ok(result(&responses, &repeated))
        }
        Err(unanswered) => {
            Ok(object(Value::Null, Value::Null, unanswered.status, unanswered.message))
        }
    }
}

/// Provider and keys; missing and null ones are empty, as Go decodes them.
fn request(argument: &Value) -> Result<(&str, Vec<Str>), String> {
    let members = argument
        .as_object()
        .ok_or_else(|| format!("expected an object, found {}", argument.type_name()))?;
    let provider = match members.get("provider") {
        None | Some(Value::Null) => "",
        Some(Value::String(name)) => name,
        Some(other) => {
            return Err(format!("provider: expected a string, found {}", other.type_name()));
        }
    };
    let keys = match members.get("keys") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(keys)) => keys
            .iter()
            .enumerate()
            .map(|(index, key)| match key {
                Value::String(key) => Ok(key.clone()),
                Value::Null => Ok(Str::default()),
                other => {
                    Err(format!("keys[{index}]: expected a string, found {}", other.type_name()))
                }
            })
            .collect::<Result<_, _>>()?,
        Some(other) => return Err(format!("keys: expected a list, found {}", other.type_name())),
    };
    Ok((provider, keys))
}

fn result(responses: &Responses, repeated: &[&Item]) -> Value {
    let all = || responses.items.iter().chain(repeated.iter().copied());
    let pair = |key: &Str, second: Value| Value::from(vec![key.clone().into(), second]);
    let found = all().filter(|item| item.error.is_empty());
    let failed = all().filter(|item| !item.error.is_empty());
    object(
        found.map(|item| pair(&item.key, item.value.clone())).collect(),
        failed.map(|item| pair(&item.key, item.error.as_str().into())).collect(),
        responses.status,
        responses.system_error.clone(),
    )
}

fn object(responses: Value, errors: Value, status: u16, system_error: String) -> Value {
    [
        ("responses", responses),
        ("errors", errors),
        ("status_code", i64::from(status).into()),
        ("system_error", system_error.into()),
    ]
    .into_iter()
    .collect()
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    /// Answers `k` with `k_valid`, `error_k` with an error, and nothing for `none`.
    #[derive(Default)]
    struct Dummy {
        asked: RefCell<Vec<Vec<Str>>>,
    }

    impl ExternalData for Dummy {
        fn query(&self, provider: &str, keys: &[Str]) -> Result<Responses, Unanswered> {
            if provider != "p" {
                return NoExternalData.query(provider, keys);
            }
            self.asked.borrow_mut().push(keys.to_vec());
            let item = |key: &Str| match key.as_str() {
                "none" => None,
                error if error.starts_with("error_") => {
                    Some(Item { key: key.clone(), error: "bad".to_owned(), ..Item::default() })
                }
                fine => Some(Item {
                    key: key.clone(),
                    value: format!("{fine}_valid").into(),
                    ..Item::default()
                }),
            };
            let items = keys.iter().filter_map(item).collect();
            Ok(Responses { items, status: 200, system_error: String::new() })
        }
    }

    fn call(argument: &str, data: &dyn ExternalData) -> String {
        let argument = Value::from_json(argument.as_bytes()).expect(argument);
        match external_data(&[argument], data) {
            Ok(value) => value.to_json(),
            Err(error) => format!("undefined: {error}"),
        }
    }

    #[test]
    fn results() {
        for (argument, expected) in [
            (
                r#"{"provider": "p", "keys": ["b", "error_a", "none"]}"#,
                r#"{"errors":[["error_a","bad"]],"responses":[["b","b_valid"]],"status_code":200,"system_error":""}"#,
            ),
            (
                r#"{"provider": "q", "keys": ["b"]}"#,
                r#"{"errors":null,"responses":null,"status_code":400,"system_error":"key is not found in provider cache"}"#,
            ),
            (
                r#"{"provider": "q", "keys": []}"#,
                r#"{"errors":[],"responses":[],"status_code":0,"system_error":""}"#,
            ),
            (
                r#"{"provider": "q", "other": 1}"#,
                r#"{"errors":[],"responses":[],"status_code":0,"system_error":""}"#,
            ),
            (r#"[]"#, "undefined: expected an object, found array"),
            (r#"{"provider": 1}"#, "undefined: provider: expected a string, found number"),
            (r#"{"keys": "k"}"#, "undefined: keys: expected a list, found string"),
            (r#"{"keys": ["k", 1]}"#, "undefined: keys[1]: expected a string, found number"),
        ] {
            assert_eq!(call(argument, &Dummy::default()), expected, "{argument}");
        }
    }

    #[test]
    fn a_key_is_sent_once_and_answered_as_often_as_it_was_asked() {
        let dummy = Dummy::default();
        let result = call(r#"{"provider": "p", "keys": ["a", "b", "a", "a"]}"#, &dummy);
        assert_eq!(*dummy.asked.borrow(), [[Str::from("a"), Str::from("b")]]);
        let responses = r#"[["a","a_valid"],["b","b_valid"],["a","a_valid"],["a","a_valid"]]"#;
        assert!(result.contains(responses), "{result}");
    }
}
