//! Selectors and lists of namespaces that contradict themselves.

use std::collections::{BTreeMap, BTreeSet};

use modgate_value::Value;

use super::{
    Lints,
    matching::{entries, texts},
};
use crate::Code;

/// The label that every Namespace has, with its name.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// The values of one label that a selector accepts.
#[derive(Debug, Default)]
struct Demand<'v> {
    /// The values that are left, if any are named.
    allowed: Option<BTreeSet<&'v str>>,
    refused: BTreeSet<&'v str>,
    exists: bool,
    missing: bool,
}

impl<'v> Demand<'v> {
    fn allow(&mut self, values: BTreeSet<&'v str>) {
        self.exists = true;
        self.allowed = Some(match self.allowed.take() {
            Some(allowed) => allowed.intersection(&values).copied().collect(),
            None => values,
        });
    }

    /// The values that are allowed and not refused; `None` where any other value is allowed, too.
    fn values(&self) -> Option<BTreeSet<&'v str>> {
        let allowed = self.allowed.as_ref()?;
        Some(allowed.difference(&self.refused).copied().collect())
    }

    fn is_impossible(&self) -> bool {
        (self.exists && self.missing) || self.values().is_some_and(|values| values.is_empty())
    }
}

/// The requirements of a selector, by label.
fn demands(selector: &Value) -> BTreeMap<&str, Demand<'_>> {
    let mut demands: BTreeMap<&str, Demand<'_>> = BTreeMap::new();
    let labels = selector.get("matchLabels").and_then(Value::as_object);
    for (key, value) in labels.into_iter().flat_map(|labels| labels.iter()) {
        if let Some(value) = value.as_str() {
            demands.entry(key).or_default().allow(BTreeSet::from([value]));
        }
    }
    for expression in entries(selector, "matchExpressions") {
        let text = |key: &str| expression.get(key).and_then(Value::as_str);
        let (Some(key), Some(operator)) = (text("key"), text("operator")) else { continue };
        let values = texts(expression, "values").into_iter().map(|(_, value)| value);
        let demand = demands.entry(key).or_default();
        match operator {
            "In" => demand.allow(values.collect()),
            "NotIn" => demand.refused.extend(values),
            "Exists" => demand.exists = true,
            "DoesNotExist" => demand.missing = true,
            _ => {}
        }
    }
    demands
}

/// Warns about a selector that no object satisfies.
pub(super) fn contradiction(lints: &mut Lints<'_>, block: &Value, member: &str, field: &str) {
    let Some(selector) = block.get(member) else { return };
    let demands = demands(selector);
    let found = demands.iter().find(|(_, demand)| demand.is_impossible());
    let Some((key, _)) = found else { return };
    let message = format!(
        "the selector demands of the label `{key}` what no object can have, so this never matches"
    );
    lints.push_key(Code::NeverMatches, &format!("{field}.{member}"), message, None);
}

/// Warns about a selector of Namespaces by name, none of which the lists of namespaces let through.
pub(super) fn by_name(lints: &mut Lints<'_>, block: &Value, field: &str) {
    let Some(selector) = block.get("namespaceSelector") else { return };
    let demands = demands(selector);
    let Some(names) = demands.get(NAME_LABEL).and_then(Demand::values) else { return };
    let (wanted, excluded) = (texts(block, "namespaces"), texts(block, "excludedNamespaces"));
    let is_in = |list: &[(usize, &str)], name: &str| list.iter().any(|(_, it)| covers(it, name));
    let is_left_out =
        |name: &&str| (!wanted.is_empty() && !is_in(&wanted, name)) || is_in(&excluded, name);
    if !names.is_empty() && names.iter().all(is_left_out) {
        let message = "the lists of namespaces leave out every Namespace that the selector names, so \
                       this never matches";
        let field = format!("{field}.namespaceSelector");
        lints.push_key(Code::NeverMatches, &field, message.to_owned(), None);
    }
}

/// Whether a pattern for names matches everything that another pattern, or name, matches.
pub(super) fn covers(outer: &str, inner: &str) -> bool {
    let (front, back, core) = split(outer);
    let (inner_front, inner_back, inner) = split(inner);
    match (front, back) {
        _ if core.is_empty() && (front || back) => true,
        (false, false) => !inner_front && !inner_back && inner == core,
        (false, true) => !inner_front && inner.starts_with(core),
        (true, false) => !inner_back && inner.ends_with(core),
        (true, true) => inner.contains(core),
    }
}

/// Whether a pattern has a wildcard in front and behind, and what is between.
fn split(pattern: &str) -> (bool, bool, &str) {
    let (front, rest) = match pattern.strip_prefix('*') {
        Some(rest) => (true, rest),
        None => (false, pattern),
    };
    match rest.strip_suffix('*') {
        Some(core) => (front, true, core),
        None => (front, false, rest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_that_cover_others() {
        for (outer, inner, expected) in [
            ("*", "kube-*", true),
            ("**", "a", true),
            ("kube-*", "kube-system", true),
            ("kube-*", "kube-a*", true),
            ("kube-*", "*-system", false),
            ("kube-*", "*", false),
            ("kube-a*", "kube-*", false),
            ("*-system", "kube-system", true),
            ("*-system", "*x-system", true),
            ("*-system", "kube-*", false),
            ("*be*", "kube-*", true),
            ("*be*", "k*", false),
            ("shop", "shop", true),
            ("shop", "shop*", false),
        ] {
            assert_eq!(covers(outer, inner), expected, "{outer} {inner}");
        }
    }

    #[test]
    fn selectors_that_contradict_themselves() {
        for (selector, expected) in [
            (
                r#"{"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}"#,
                true,
            ),
            (
                r#"{"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "a", "operator": "In", "values": ["c"]}]}"#,
                true,
            ),
            (
                r#"{"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["b"]}]}"#,
                true,
            ),
            (
                r#"{"matchExpressions": [{"key": "a", "operator": "Exists"}, {"key": "a", "operator": "DoesNotExist"}]}"#,
                true,
            ),
            (
                r#"{"matchExpressions": [{"key": "a", "operator": "In", "values": ["b", "c"]}, {"key": "a", "operator": "NotIn", "values": ["c"]}]}"#,
                false,
            ),
            (
                r#"{"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["c"]}, {"key": "a", "operator": "DoesNotExist"}]}"#,
                false,
            ),
            (r#"{"matchLabels": {"a": "b", "c": "d"}}"#, false),
            (r#"{}"#, false),
        ] {
            let value = Value::from_json(selector.as_bytes()).expect(selector);
            let found = demands(&value).values().any(Demand::is_impossible);
            assert_eq!(found, expected, "{selector}");
        }
    }
}
