//! Webhook configurations: every entry that the chart has, too.

use modgate_value::{Object, Value};

use super::{Carry, default};
use crate::{
    installation::{CONFIGURATIONS, Installation, Original},
    object::{InstalledObject, list, text},
};

/// An entry that both have: its name, where the chart has its values, and which fields it has values for.
struct Entry {
    name: &'static str,
    values: &'static str,
    fields: Fields,
    /// The expression that its own ignore label stands in.
    ignored: fn() -> Value,
}

#[derive(PartialEq, Eq)]
enum Fields {
    /// `failurePolicy` and `timeoutSeconds`.
    Failures,
    /// All.
    All,
}

const ENTRIES: [Entry; 7] = [
    Entry {
        name: "validation.gatekeeper.sh",
        values: "validation",
        fields: Fields::All,
        ignored: gatekeepers,
    },
    Entry {
        name: "check-ignore-label.gatekeeper.sh",
        values: "ignoreLabel",
        fields: Fields::Failures,
        ignored: Value::default,
    },
    Entry {
        name: "mutation.gatekeeper.sh",
        values: "mutation",
        fields: Fields::All,
        ignored: gatekeepers,
    },
    Entry {
        name: "dragnet.kubemod.io",
        values: "kubemod.dragnet",
        fields: Fields::All,
        ignored: kubemods,
    },
    Entry {
        name: "mmodrule.kubemod.io",
        values: "kubemod.modrules",
        fields: Fields::Failures,
        ignored: Value::default,
    },
    Entry {
        name: "vmodrule.kubemod.io",
        values: "kubemod.modrules",
        fields: Fields::Failures,
        ignored: Value::default,
    },
    Entry {
        name: PODBINDING,
        values: "kubemod.podBinding",
        fields: Fields::Failures,
        ignored: Value::default,
    },
];

/// Its `failurePolicy` is not kept.
const PODBINDING: &str = "podbinding.kubemod.io";

fn expression(key: &str, operator: &str, values: &[&str]) -> Value {
    let mut members = Object::default();
    members.insert("key", key.into());
    members.insert("operator", operator.into());
    if !values.is_empty() {
        members
            .insert("values", values.iter().map(|it| Value::from(*it)).collect::<Vec<_>>().into());
    }
    members.into()
}

fn gatekeepers() -> Value {
    expression("admission.gatekeeper.sh/ignore", "DoesNotExist", &[])
}

fn kubemods() -> Value {
    expression("admission.kubemod.io/ignore", "NotIn", &["true"])
}

/// The label by which the API server names namespaces.
const NAME: &str = "kubernetes.io/metadata.name";

/// Every entry of the originals' configurations that modgate takes over.
pub(super) fn carry(carry: &mut Carry, installation: &Installation<'_>, home: &str) {
    let mut seen = Vec::new();
    for (found, _) in installation.configurations() {
        let webhooks = found.list(&["webhooks"]);
        let is_known = |name: &str| ENTRIES.iter().any(|entry| entry.name == name);
        let of = |webhook: &Value| text(webhook, &["name"]).to_owned();
        // Another configuration of the user's stays as it is.
        if !Installation::is_taken_over(found) && !webhooks.iter().any(|it| is_known(&of(it))) {
            continue;
        }
        renamed(carry, found);
        for (index, webhook) in webhooks.iter().enumerate() {
            let name = of(webhook);
            match ENTRIES.iter().find(|entry| entry.name == name) {
                Some(entry) => one(carry, found, (index, webhook), entry, home),
                None => carry.lose(
                    found,
                    format!("webhooks[{index}]"),
                    true,
                    format!(
                        "the chart has no entry `{name}`, and may remove it; move it to a configuration of \
                         its own first"
                    ),
                ),
            }
            seen.push(name);
        }
    }
    absent(carry, installation, &seen);
}

/// Gatekeeper's configurations may have other names.
fn renamed(carry: &mut Carry, found: &InstalledObject) {
    let value = match found.kind() {
        _ if CONFIGURATIONS.iter().any(|(_, name, _)| found.name() == *name) => return,
        "ValidatingWebhookConfiguration" => "validation.configurationName",
        _ => "mutation.configurationName",
    };
    carry.keep(found, "metadata.name", value, found.name().into());
}

/// Webhooks that Gatekeeper was installed without stay away.
fn absent(carry: &mut Carry, installation: &Installation<'_>, seen: &[String]) {
    let has = |name: &str| seen.iter().any(|it| it == name);
    let mut configurations = installation.configurations();
    let of_gatekeeper =
        configurations.find(|(_, original)| *original == Original::Gatekeeper).map(|(it, _)| it);
    if let Some(found) =
        of_gatekeeper.filter(|_| seen.iter().any(|it| it.ends_with(".gatekeeper.sh")))
    {
        for entry in ENTRIES.iter().filter(|entry| entry.name.ends_with(".gatekeeper.sh")) {
            if !has(entry.name) {
                carry.keep(found, "webhooks", &format!("{}.enabled", entry.values), false.into());
            }
        }
    }
    if let Some((found, _)) = installation.configurations().find(|(found, _)| {
        found.list(&["webhooks"]).iter().any(|it| text(it, &["name"]) == "dragnet.kubemod.io")
    }) && !has(PODBINDING)
    {
        carry.keep(found, "webhooks", "kubemod.podBinding.enabled", false.into());
    }
}

/// A member, or what the API server puts there.
fn or(webhook: &Value, key: &str, default: impl Into<Value>) -> Value {
    webhook.get(key).filter(|it| !it.is_null()).cloned().unwrap_or_else(|| default.into())
}

fn one(
    carry: &mut Carry,
    found: &InstalledObject,
    (index, webhook): (usize, &Value),
    entry: &Entry,
    home: &str,
) {
    let field = |key: &str| format!("webhooks[{index}].{key}");
    let value = |key: &str| format!("{}.{key}", entry.values);
    let policy = or(webhook, "failurePolicy", "Fail");
    // The stricter of two entries counts, as they share the value.
    let shared = carry.carried.iter_mut().find(|it| it.value == value("failurePolicy"));
    match shared.filter(|_| policy.as_str() == Some("Fail")) {
        Some(known) => known.is = policy,
        None if entry.name == PODBINDING => {}
        None => carry.keep(found, field("failurePolicy"), &value("failurePolicy"), policy),
    }
    carry.keep(
        found,
        field("timeoutSeconds"),
        &value("timeoutSeconds"),
        or(webhook, "timeoutSeconds", 10),
    );
    if entry.fields == Fields::Failures {
        narrowed(carry, found, (index, webhook), entry);
        return;
    }
    carry.keep(
        found,
        field("matchPolicy"),
        &value("matchPolicy"),
        or(webhook, "matchPolicy", "Equivalent"),
    );
    if found.kind() == "MutatingWebhookConfiguration" {
        let key = "reinvocationPolicy";
        carry.keep(found, field(key), &value(key), or(webhook, key, "Never"));
    }
    rules(carry, found, (index, webhook), entry);
    namespaces(carry, found, (index, webhook), entry, home);
    let empty = Value::from(Object::default());
    carry.keep(
        found,
        field("objectSelector"),
        &value("objectSelector"),
        or(webhook, "objectSelector", empty),
    );
    let none = Value::from(Vec::new());
    carry.keep(
        found,
        field("matchConditions"),
        &value("matchConditions"),
        or(webhook, "matchConditions", none),
    );
}

/// Entries that the chart has no selectors for receive everything that their rules name.
fn narrowed(
    carry: &mut Carry,
    found: &InstalledObject,
    (index, webhook): (usize, &Value),
    entry: &Entry,
) {
    for key in ["matchConditions", "objectSelector"] {
        let is_empty = |value: &Value| {
            value.as_array().is_some_and(|it| it.is_empty())
                || value.as_object().is_some_and(Object::is_empty)
        };
        if webhook.get(key).is_some_and(|it| !it.is_null() && !is_empty(it)) {
            carry.lose(
                found,
                format!("webhooks[{index}].{key}"),
                false,
                format!("modgate's `{}` has none, and receives more", entry.name),
            );
        }
    }
}

/// `rules`, as the values of one rule where it is one that these can say.
fn rules(
    carry: &mut Carry,
    found: &InstalledObject,
    (index, webhook): (usize, &Value),
    entry: &Entry,
) {
    let all = list(webhook, &["rules"]);
    let field = format!("webhooks[{index}].rules");
    let value = |key: &str| format!("{}.{key}", entry.values);
    let single = match all {
        [rule] => rule,
        _ => return carry.keep(found, field, &value("rules"), all.to_vec().into()),
    };
    let allowed = match found.kind() {
        "ValidatingWebhookConfiguration" => &["CREATE", "UPDATE", "DELETE", "CONNECT"][..],
        _ if entry.values == "mutation" => &["CREATE", "UPDATE"],
        _ => &["CREATE", "UPDATE", "DELETE"],
    };
    let operations = list(single, &["operations"]);
    if !operations.iter().all(|it| it.as_str().is_some_and(|it| allowed.contains(&it))) {
        return carry.keep(found, field, &value("rules"), all.to_vec().into());
    }
    for key in ["operations", "apiGroups", "apiVersions", "resources"] {
        let is: Value = list(single, &[key]).to_vec().into();
        // The order says nothing.
        let same = |a: &Value, b: &Value| {
            let sorted = |value: &Value| {
                let mut all: Vec<Value> =
                    value.as_array().map(|it| it.to_vec()).unwrap_or_default();
                all.sort();
                all
            };
            sorted(a) == sorted(b)
        };
        if !same(&is, &default(&value(key))) {
            carry.keep(found, format!("{field}[0].{key}"), &value(key), is);
        }
    }
    carry.keep(found, format!("{field}[0].scope"), &value("scope"), or(single, "scope", "*"));
}

/// `namespaceSelector`, as exempt namespaces and further expressions where it is the chart's own but for those.
fn namespaces(
    carry: &mut Carry,
    found: &InstalledObject,
    (index, webhook): (usize, &Value),
    entry: &Entry,
    home: &str,
) {
    let field = format!("webhooks[{index}].namespaceSelector");
    let value = |key: &str| format!("{}.{key}", entry.values);
    let selector = or(webhook, "namespaceSelector", Object::default());
    let labels = selector.get("matchLabels").and_then(Value::as_object);
    let has_labels = labels.is_some_and(|labels| !labels.is_empty());
    let mut expressions = list(&selector, &["matchExpressions"]).to_vec();
    let ignored = (entry.ignored)();
    let names_home = |it: &Value| {
        text(it, &["key"]) == NAME
            && text(it, &["operator"]) == "NotIn"
            && list(it, &["values"]).iter().any(|it| it.as_str() == Some(home))
    };
    let own = expressions.iter().position(|it| *it == ignored);
    let is_own = !has_labels && own.is_some();
    if !is_own {
        let mut whole = selector.as_object().cloned().unwrap_or_default();
        if whole.is_empty() {
            let home = expression(NAME, "NotIn", &[home]);
            whole.insert("matchExpressions", vec![home].into());
        }
        return carry.keep(found, field, &value("namespaceSelector"), whole.into());
    }
    expressions.retain(|it| *it != ignored);
    if let Some(at) = expressions.iter().position(names_home) {
        let exempt = expressions.remove(at);
        let exempt: Vec<Value> = list(&exempt, &["values"])
            .iter()
            .filter(|it| it.as_str() != Some(home))
            .cloned()
            .collect();
        carry.keep(found, field.clone(), &value("exemptNamespaces"), exempt.into());
    }
    carry.keep(found, field, &value("namespaceExpressions"), expressions.into());
}
