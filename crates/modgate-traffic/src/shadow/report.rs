//! The differences so far.

use std::collections::BTreeMap;

use jiff::Timestamp;
use modgate_prove::difference::Class;
use modgate_value::Value;

use super::{Item, Second};

/// Policies and namespaces that are counted by name; others are counted together.
const MAX_NAMES: usize = 1000;
/// Stands for the others.
const OTHERS: &str = "(others)";

/// Counts of second decisions, since the candidates were loaded.
#[derive(Debug)]
pub(super) struct Report {
    since: Timestamp,
    same: u64,
    differs: u64,
    failed: u64,
    by_class: BTreeMap<Class, u64>,
    by_policy: BTreeMap<(Class, String), Group>,
    by_namespace: BTreeMap<(Class, String), u64>,
}

/// Requests that differ alike.
#[derive(Debug, Default)]
struct Group {
    count: u64,
    /// The last of them.
    last: Value,
}

impl Default for Report {
    fn default() -> Self {
        Self {
            since: Timestamp::now(),
            same: 0,
            differs: 0,
            failed: 0,
            by_class: BTreeMap::new(),
            by_policy: BTreeMap::new(),
            by_namespace: BTreeMap::new(),
        }
    }
}

impl Report {
    pub(super) fn same(&mut self) {
        self.same += 1;
    }

    pub(super) fn failed(&mut self) {
        self.failed += 1;
    }

    pub(super) fn differs(&mut self, item: &Item, second: &Second) {
        self.differs += 1;
        let last = request(item);
        for found in &second.differences {
            let class = found.class;
            *self.by_class.entry(class).or_default() += 1;
            let namespace = item.exchange.review.store_namespace().to_owned();
            *bounded(&mut self.by_namespace, class, namespace) += 1;
            let none = found.policies.is_empty().then(String::new);
            for policy in found.policies.iter().cloned().chain(none) {
                let group: &mut Group = bounded(&mut self.by_policy, class, policy);
                group.count += 1;
                group.last = last.clone();
            }
        }
    }

    pub(super) fn to_value(&self) -> Value {
        let count = |class| number(self.by_class.get(&class).copied().unwrap_or_default());
        let policies = self.by_policy.iter().map(|((class, policy), group)| -> Value {
            let members = [
                ("class", Value::from(class.as_str())),
                ("policy", policy.as_str().into()),
                ("requests", number(group.count)),
                ("last", group.last.clone()),
            ];
            members.into_iter().collect()
        });
        let namespaces = self.by_namespace.iter().map(|((class, namespace), count)| -> Value {
            let members = [
                ("class", Value::from(class.as_str())),
                ("namespace", namespace.as_str().into()),
                ("requests", number(*count)),
            ];
            members.into_iter().collect()
        });
        [
            ("since", Value::from(self.since.to_string())),
            ("requests", number(self.same + self.differs)),
            ("same", number(self.same)),
            ("failed", number(self.failed)),
            (
                "differences",
                Class::ALL.map(|class| (class.as_str(), count(class))).into_iter().collect(),
            ),
            ("byPolicy", policies.collect()),
            ("byNamespace", namespaces.collect()),
        ]
        .into_iter()
        .collect()
    }
}

/// The entry of a name, or of all others where there are too many.
fn bounded<T: Default>(
    map: &mut BTreeMap<(Class, String), T>,
    class: Class,
    name: String,
) -> &mut T {
    let key = (class, name);
    let is_full = map.len() >= MAX_NAMES && !map.contains_key(&key);
    let key = if is_full { (class, OTHERS.to_owned()) } else { key };
    map.entry(key).or_default()
}

fn number(count: u64) -> Value {
    i64::try_from(count).unwrap_or(i64::MAX).into()
}

/// Which request it was: names only.
fn request(item: &Item) -> Value {
    let request = item.exchange.review.request();
    let time = Timestamp::try_from(item.at).unwrap_or_default().to_string();
    [
        ("time", Value::from(time)),
        ("webhook", item.exchange.webhook.into()),
        ("operation", request.operation.as_str().into()),
        ("kind", request.kind.kind.clone().into()),
        ("namespace", request.namespace.clone().into()),
        ("name", request.name.clone().into()),
    ]
    .into_iter()
    .collect()
}
