//! How exporting goes, for the status of the Connection (XP-6).

use std::collections::BTreeMap;

use jiff::Timestamp;
use modgate_value::{Object, Str, Value};

/// The source of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// Audits.
    Audit,
    /// The validating webhook.
    Webhook,
}

impl Source {
    fn as_str(self) -> &'static str {
        match self {
            Self::Audit => "audit",
            Self::Webhook => "webhook",
        }
    }
}

/// How exporting goes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Published(BTreeMap<Source, PublishState>);

/// How the exports of one source go.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PublishState {
    active: bool,
    attempted: Option<Timestamp>,
    succeeded: Option<Timestamp>,
    /// The errors since the last success, by their prefix.
    errors: BTreeMap<String, String>,
}

/// Errors in one status (7.6); more have nothing new to say.
const MAX_ERRORS: usize = 20;

impl Published {
    /// Something is about to be exported: earlier errors no longer count.
    pub(super) fn started(&mut self, source: Source) {
        let state = self.0.entry(source).or_default();
        state.active = false;
        state.errors.clear();
    }

    pub(super) fn succeeded(&mut self, source: Source) {
        let state = self.0.entry(source).or_default();
        let now = now();
        (state.active, state.attempted, state.succeeded) = (true, Some(now), Some(now));
    }

    pub(super) fn failed(&mut self, source: Source, error: &str) {
        let state = self.0.entry(source).or_default();
        state.attempted = Some(now());
        let class = error.split(':').next().unwrap_or_default().to_owned();
        if state.errors.len() < MAX_ERRORS || state.errors.contains_key(&class) {
            state.errors.insert(class, error.to_owned());
        }
    }

    /// `publishStatuses` of the status.
    pub fn to_value(&self) -> Value {
        self.0.iter().map(|(source, state)| state.to_value(*source)).collect()
    }
}

impl PublishState {
    fn to_value(&self, source: Source) -> Value {
        let errors: Value = self.errors.values().map(|message| error("Publish", message)).collect();
        let mut members = vec![("source", Value::from(source.as_str()))];
        if self.active {
            members.push(("active", true.into()));
        }
        let times = [("lastAttemptTime", self.attempted), ("lastSuccessTime", self.succeeded)];
        let times = times.into_iter().filter_map(|(key, time)| Some((key, time?)));
        members.extend(times.map(|(key, time)| (key, time.to_string().into())));
        if !self.errors.is_empty() {
            members.push(("errors", errors));
        }
        object(members)
    }
}

/// An entry of `errors` or `connectionErrors`.
pub fn error(kind: &str, message: &str) -> Value {
    object([("type", kind.into()), ("message", message.into())])
}

fn object<'k>(members: impl IntoIterator<Item = (&'k str, Value)>) -> Value {
    let members = members.into_iter().map(|(key, value)| (Str::from(key), value));
    Object::from_entries(members.collect()).into()
}

/// Seconds, as Kubernetes has them.
fn now() -> Timestamp {
    Timestamp::from_second(Timestamp::now().as_second()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_bounded() {
        let mut published = Published::default();
        published.failed(Source::Audit, "cannot write: one");
        published.failed(Source::Audit, "cannot write: two");
        for count in 0..100 {
            published.failed(Source::Audit, &format!("class {count}: x"));
        }
        let value = published.to_value();
        let errors = value.at(0).and_then(|state| state.get("errors")?.as_array().cloned());
        assert_eq!(errors.map(|errors| errors.len()), Some(MAX_ERRORS));
        assert!(value.to_json().contains("two") && !value.to_json().contains("one"), "{value}");
        published.started(Source::Audit);
        published.succeeded(Source::Audit);
        let text = published.to_value().to_json();
        assert!(text.contains(r#""active":true"#) && !text.contains("errors"), "{text}");
    }
}
