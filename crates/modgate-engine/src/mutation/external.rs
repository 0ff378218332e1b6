//! Values that a provider supplies (section 6.5).
//!
//! While mutators run, such a value stands in the object as a placeholder: a text that no object
//! can hold beforehand, because it contains the random id of the run. Once the object has
//! converged, each provider receives one request with all its keys, and the placeholders are replaced.

use std::collections::{BTreeMap, BTreeSet, HashMap};

pub use modgate_api::externaldata::{Answer, Item};
use modgate_api::mutations::ExternalData;
use modgate_value::{Str, Value};

use super::{compile::CompileError, error::go_type};

/// Where placeholders get their values; implemented by the edge.
pub trait Providers {
    /// Asks each provider for its keys (sorted, distinct), all at the same time.
    ///
    /// A provider that is not loaded has no entry in the answer; a call that failed has the
    /// reason.
    ///
    /// # Errors
    ///
    /// Why no provider can receive queries, such as a missing client certificate; that fails the
    /// request whatever the failure policies say.
    fn ask(&self, keys: &BTreeMap<Str, BTreeSet<Str>>) -> Result<Answers, String>;
}

/// The answers of each provider, by its name.
pub type Answers = BTreeMap<Str, Result<Answer, String>>;

/// No provider receives queries: the command line's, which has no client certificate (6.5).
#[derive(Debug, Clone, Copy, Default)]
pub struct NoProviders;

impl Providers for NoProviders {
    fn ask(&self, _: &BTreeMap<Str, BTreeSet<Str>>) -> Result<Answers, String> {
        Err(NO_CLIENT_CERTIFICATE.to_owned())
    }
}

/// Why no provider is called without a client certificate (6.4, 6.5).
pub const NO_CLIENT_CERTIFICATE: &str = "failed to get client TLS certificate: external data client certificate watcher is not \
     initialized";

/// A compiled `externalData`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct External {
    pub(super) provider: Str,
    pub(super) source: DataSource,
    on_failure: OnFailure,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum DataSource {
    ValueAtLocation,
    Username,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum OnFailure {
    Fail,
    Ignore,
    Use(Str),
}

impl External {
    pub(super) fn compile(data: &ExternalData) -> Result<Self, CompileError> {
        let on_failure = match data.failure_policy.as_str() {
            "UseDefault" if data.default.is_empty() => {
                return Err(CompileError::new(
                    "`default` must not be empty when `failurePolicy` is set to `UseDefault`",
                ));
            }
            "UseDefault" => OnFailure::Use(data.default.clone()),
            "Ignore" => OnFailure::Ignore,
            _ => OnFailure::Fail,
        };
        let source = match data.data_source.as_str() {
            "Username" => DataSource::Username,
            _ => DataSource::ValueAtLocation,
        };
        Ok(Self { provider: data.provider.clone(), source, on_failure })
    }
}

/// The placeholders of one run.
#[derive(Debug, Default)]
pub(super) struct Placeholders {
    run: String,
    known: Vec<Placeholder>,
    indices: HashMap<Placeholder, usize>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Placeholder {
    external: External,
    /// The key of the request, and the value that stays under `failurePolicy: Ignore`.
    key: Str,
    value_at_location: Str,
}

impl Placeholders {
    pub(super) fn new(run: &str) -> Self {
        Self { run: run.to_owned(), ..Self::default() }
    }

    /// The text that stands for a placeholder; equal ones have equal texts.
    pub(super) fn place(&mut self, external: &External, key: Str, present: Str) -> Value {
        let placeholder =
            Placeholder { external: external.clone(), key, value_at_location: present };
        let index = *self.indices.entry(placeholder).or_insert_with_key(|placeholder| {
            self.known.push(placeholder.clone());
            self.known.len() - 1
        });
        Value::from(format!("\0{}\0{index}", self.run))
    }

    /// The value a placeholder remembers; `None` if `text` is not one.
    pub(super) fn remembered(&self, text: &str) -> Option<&Str> {
        self.find(text).map(|placeholder| &placeholder.value_at_location)
    }

    fn find(&self, text: &str) -> Option<&Placeholder> {
        self.known.get(self.index(text)?)
    }

    fn index(&self, text: &str) -> Option<usize> {
        let index = text.strip_prefix('\0')?.strip_prefix(&self.run)?.strip_prefix('\0')?;
        index.parse().ok().filter(|index| *index < self.known.len())
    }

    /// The object with every placeholder replaced.
    ///
    /// # Errors
    ///
    /// The failures under `failurePolicy: Fail`.
    pub(super) fn resolve(
        &self,
        object: &Value,
        providers: &dyn Providers,
    ) -> Result<Value, String> {
        if self.known.is_empty() {
            return Ok(object.clone());
        }
        let mut used = BTreeSet::new();
        self.collect(object, &mut used);
        let mut keys: BTreeMap<Str, BTreeSet<Str>> = BTreeMap::new();
        for placeholder in used.iter().filter_map(|index| self.known.get(*index)) {
            let of_provider = keys.entry(placeholder.external.provider.clone()).or_default();
            of_provider.insert(placeholder.key.clone());
        }
        if keys.is_empty() {
            return Ok(object.clone());
        }
        let answers = providers.ask(&keys)?;
        let mut failures = BTreeSet::new();
        let mut values = BTreeMap::new();
        for index in used {
            let Some(placeholder) = self.known.get(index) else { continue };
            let value = match (placeholder.value(&answers), &placeholder.external.on_failure) {
                (Ok(value), _) => value,
                (Err(_), OnFailure::Ignore) => placeholder.value_at_location.clone(),
                (Err(_), OnFailure::Use(default)) => default.clone(),
                (Err(failure), OnFailure::Fail) => {
                    failures.insert(failure);
                    continue;
                }
            };
            values.insert(index, Value::from(value));
        }
        match failures.len() {
            0 => Ok(self.replace(object, &values)),
            1 => Err(failures.into_iter().collect()),
            _ => {
                let all: Vec<String> = failures.into_iter().collect();
                Err(format!("[{}]", all.join(", ")))
            }
        }
    }

    fn collect(&self, value: &Value, used: &mut BTreeSet<usize>) {
        let texts = value.walk().filter_map(|visit| visit.value.as_str());
        used.extend(texts.filter_map(|text| self.index(text)));
    }

    fn replace(&self, value: &Value, values: &BTreeMap<usize, Value>) -> Value {
        value.map_scalars(|scalar| {
            let index = scalar.as_str().and_then(|text| self.index(text))?;
            values.get(&index).cloned()
        })
    }
}

impl Placeholder {
    fn value(&self, answers: &Answers) -> Result<Str, String> {
        let provider = &self.external.provider;
        let answer = match answers.get(provider) {
            None => {
                return Err(format!(
                    "failed to find external data provider {provider} in responses"
                ));
            }
            Some(Err(failure)) => {
                return Err(format!(
                    "failed to send external data request to provider {provider}: {failure}"
                ));
            }
            Some(Ok(answer)) => answer,
        };
        let invalid = format!("failed to validate external data response from provider {provider}");
        let system_error = answer.system_error.trim();
        if !system_error.is_empty() {
            return Err(format!("{invalid}: non-empty system error: {system_error}"));
        }
        if !answer.idempotent {
            return Err(format!("{invalid}: non-idempotent response"));
        }
        // Of several items for a key the last counts.
        let Some(item) = answer.items.iter().rfind(|item| item.key == self.key) else {
            return Err(format!(
                "failed to find external data item in response for provider {provider}"
            ));
        };
        if !item.error.is_empty() {
            return Err(format!(
                "failed to retrieve external data item from provider {provider}: {}",
                item.error
            ));
        }
        match &item.value {
            Value::String(text) => Ok(text.clone()),
            // Answers are decoded by encoding/json, where every number is a float.
            other => Err(format!(
                "failed to convert external data item value from provider {provider} to string, \
                 got type {}",
                if matches!(other, Value::Number(_)) { "float64" } else { go_type(other) }
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers every provider with these items.
    struct Fixed(Vec<Item>);

    impl Providers for Fixed {
        fn ask(&self, keys: &BTreeMap<Str, BTreeSet<Str>>) -> Result<Answers, String> {
            let answer = Answer { idempotent: true, items: self.0.clone(), ..Answer::default() };
            Ok(keys.keys().map(|provider| (provider.clone(), Ok(answer.clone()))).collect())
        }
    }

    #[test]
    fn of_several_items_for_a_key_the_last_counts() {
        let item = |key: &str, value: &str, error: &str| Item {
            key: key.into(),
            value: value.into(),
            error: error.to_owned(),
        };
        let data = ExternalData { provider: "p".into(), ..ExternalData::default() };
        let external = External::compile(&data).expect("valid");
        let resolved = |items: Vec<Item>| {
            let mut placeholders = Placeholders::new("run");
            let object = placeholders.place(&external, "k".into(), "k".into());
            placeholders.resolve(&object, &Fixed(items))
        };
        let [first, last, other] = [item("k", "1", ""), item("k", "2", ""), item("j", "3", "")];
        let failed = item("k", "", "no");
        let items = vec![first.clone(), last.clone(), other.clone()];
        assert_eq!(resolved(items), Ok("2".into()));
        assert_eq!(resolved(vec![failed.clone(), last]), Ok("2".into()));
        let error = resolved(vec![first, other, failed]).expect_err("failed");
        assert!(error.ends_with("external data item from provider p: no"), "{error}");
    }
}
