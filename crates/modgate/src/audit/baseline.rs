//! An earlier audit, and what is new and what is fixed since then.
//!
//! A violation is the same if policy, object and message are: not its place, because lines move, and not its action,
//! because a policy that is to deny from now on finds nothing new.

use std::{collections::BTreeMap, fs::File, io::Read as _, path::Path};

use anyhow::{Context as _, Result, bail, ensure};
use modgate_audit::Violation;
use modgate_engine::api::meta::GroupVersionKind;
use modgate_value::Value;

use crate::terminal::printable;

/// Bytes of a baseline.
const MAX_BYTES: u64 = 512 << 20;

/// Group, kind, namespace and name of the policy; the same of the object; the message.
type Key = ([String; 4], [String; 4], String);

/// The violations of an earlier audit. The same one may occur several times.
#[derive(Debug, Default)]
pub(super) struct Baseline(BTreeMap<Key, Vec<Value>>);

/// The difference to a baseline.
#[derive(Debug, Default)]
pub(crate) struct Compared {
    /// Whether each violation is new, in the order of the audit.
    is_new: Vec<bool>,
    /// The violations that are no longer there, as the baseline has them.
    pub(super) fixed: Vec<Value>,
}

impl Compared {
    pub(super) fn is_new(&self, index: usize) -> bool {
        self.is_new.get(index).copied().unwrap_or_default()
    }

    /// How many violations are new.
    pub(super) fn new_ones(&self) -> usize {
        self.is_new.iter().filter(|is_new| **is_new).count()
    }
}

impl Baseline {
    /// Reads what an earlier `modgate audit -o json` has written.
    ///
    /// # Errors
    ///
    /// The file cannot be read, is no such document, or leaves violations out.
    pub(super) fn read(path: &Path) -> Result<Self> {
        let shown = printable(&path.display().to_string());
        let mut bytes = Vec::new();
        let file = File::open(path).with_context(|| format!("cannot read `{shown}`"))?;
        let read = file.take(MAX_BYTES + 1).read_to_end(&mut bytes);
        let read = read.with_context(|| format!("cannot read `{shown}`"))?;
        ensure!(read as u64 <= MAX_BYTES, "`{shown}` is larger than 512 MiB");
        Self::parse(&bytes).with_context(|| {
            format!("`{shown}` is no baseline; `modgate audit -o json=FILE` writes one")
        })
    }

    fn parse(bytes: &[u8]) -> Result<Self> {
        let document = Value::from_json(bytes)?;
        ensure!(document.get("contexts").is_none(), "it is an audit of several contexts");
        let Some(groups) = document.get("groups").and_then(Value::as_array) else {
            bail!("it has no list `groups`");
        };
        let mut all = Self::default();
        for group in groups {
            let violations = group.get("violations").and_then(Value::as_array);
            let Some(violations) = violations else { bail!("a group has no list `violations`") };
            let total = group.get("total").and_then(Value::as_i64).unwrap_or_default();
            let listed = i64::try_from(violations.len()).unwrap_or(i64::MAX);
            ensure!(
                total == listed,
                "it lists {listed} of {total} violations of a group; write it without --limit"
            );
            for violation in violations {
                all.0.entry(key_of_document(violation)?).or_default().push(violation.clone());
            }
        }
        Ok(all)
    }

    /// Compares the violations of an audit.
    pub(super) fn compare(mut self, violations: &[Violation]) -> Compared {
        let is_new = violations.iter().map(|violation| {
            let known = self.0.get_mut(&key(violation));
            known.and_then(Vec::pop).is_none()
        });
        let is_new = is_new.collect();
        Compared { is_new, fixed: self.0.into_values().flatten().collect() }
    }
}

fn key(violation: &Violation) -> Key {
    let part = |kind: &GroupVersionKind, namespace: &str, name: &str| {
        [&*kind.group, &*kind.kind, namespace, name].map(str::to_owned)
    };
    let Violation { policy, subject, message, .. } = violation;
    (
        part(&policy.kind, &policy.namespace, &policy.name),
        part(&subject.kind, &subject.namespace, &subject.name),
        message.to_string(),
    )
}

fn key_of_document(violation: &Value) -> Result<Key> {
    let part = |whole: &str| -> Result<[String; 4]> {
        let of = violation.get(whole).filter(|of| of.as_object().is_some());
        let of = of.with_context(|| format!("a violation has no object `{whole}`"))?;
        let text = |name| of.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        Ok(["group", "kind", "namespace", "name"].map(text))
    };
    let message = violation.get("message").and_then(Value::as_str);
    let message = message.context("a violation has no text `message`")?;
    Ok((part("policy")?, part("object")?, message.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_baseline_is_an_error() {
        for (text, expected) in [
            ("", "end of"),
            ("[]", "no list `groups`"),
            (r#"{"contexts": []}"#, "several contexts"),
            (r#"{"groups": [{"total": 0}]}"#, "no list `violations`"),
            (r#"{"groups": [{"total": 3, "violations": []}]}"#, "0 of 3 violations"),
            (r#"{"groups": [{"total": 1, "violations": [{}]}]}"#, "no text `message`"),
            (
                r#"{"groups": [{"total": 1, "violations": [{"message": "m", "policy": {}}]}]}"#,
                "no object `object`",
            ),
        ] {
            let error = Baseline::parse(text.as_bytes()).expect_err(text).to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
        assert!(Baseline::parse(br#"{"groups": []}"#).is_ok());
    }
}
