//! The differences between two inventories, and the parts that policies read of one.

use std::collections::BTreeMap;

use modgate_value::Str;

use super::{INVENTORY, Inventory, level::Level};

/// A part of the inventory: what `data.inventory` is followed by. Steps that can be anything are
/// `None`; a part with fewer steps is larger.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InventoryPart(pub Vec<Option<Str>>);

impl InventoryPart {
    /// Whether two parts have something in common.
    pub fn overlaps(&self, other: &Self) -> bool {
        let steps = self.0.iter().zip(&other.0);
        steps.into_iter().all(|(a, b)| a.is_none() || b.is_none() || a == b)
    }
}

impl Inventory {
    /// The parts that differ: every object that is new, gone or other than before is in one of
    /// them. What both share is not looked at.
    pub fn changed_since(&self, before: &Self) -> Vec<InventoryPart> {
        let by_path = |inventory: &'_ Self| -> BTreeMap<Vec<Str>, *const Level> {
            inventory.kinds().map(|kind| (kind.path(), std::ptr::from_ref(kind.names))).collect()
        };
        let (old, new) = (by_path(before), by_path(self));
        let mut parts = Vec::new();
        let mut add = |path: &[Str]| {
            let steps = path.iter().skip_while(|step| *step == INVENTORY);
            parts.push(InventoryPart(steps.cloned().map(Some).collect()));
        };
        for (path, names) in &old {
            let is_shared = new.get(path) == Some(names);
            if !is_shared && self.differs(before, path) {
                add(path);
            }
        }
        new.keys().filter(|path| !old.contains_key(*path)).for_each(|path| add(path));
        parts
    }

    fn differs(&self, other: &Self, path: &[Str]) -> bool {
        let path: Vec<&str> = path.iter().map(Str::as_str).collect();
        let (Some(a), Some(b)) = (self.level(&path), other.level(&path)) else { return true };
        a.len() != b.len()
            || a.iter().zip(b.iter()).any(|((name, child), (other_name, other))| {
                name != other_name || child.object() != other.object()
            })
    }
}

#[cfg(test)]
mod tests {
    use modgate_value::{Value, yaml};

    use super::*;

    fn object(version: &str, kind: &str, namespace: &str, name: &str, more: &str) -> Value {
        let namespace = match namespace {
            "" => String::new(),
            namespace => format!("namespace: {namespace}, "),
        };
        yaml::value(&format!(
            "{{apiVersion: {version}, kind: {kind}, metadata: {{{namespace}name: {name}}}, a: {more}}}"
        ))
        .expect("an object")
    }

    fn part(steps: &str) -> InventoryPart {
        let steps = steps.split_whitespace();
        InventoryPart(steps.map(|step| (step != "_").then(|| step.into())).collect())
    }

    #[test]
    fn what_changed() {
        let mut before = Inventory::default();
        for object in [
            object("v1", "Service", "one", "a", "1"),
            object("v1", "Service", "m", "a", "1"),
            object("v1", "Namespace", "", "one", "1"),
        ] {
            before.insert(object).expect("inserted");
        }
        let check = |change: &dyn Fn(&mut Inventory), expected: &[&str]| {
            let mut after = before.clone();
            change(&mut after);
            let expected: Vec<_> = expected.iter().map(|steps| part(steps)).collect();
            assert_eq!(after.changed_since(&before), expected);
            assert_eq!(before.changed_since(&after), expected);
        };
        let insert = |object: Value| {
            move |inventory: &mut Inventory| inventory.insert(object.clone()).expect("inserted")
        };
        check(&|_| {}, &[]);
        check(&insert(object("v1", "Service", "one", "a", "1")), &[]);
        check(&insert(object("v1", "Service", "one", "a", "2")), &["namespace one v1 Service"]);
        check(&insert(object("v1", "Service", "m", "b", "1")), &["namespace m v1 Service"]);
        check(&insert(object("apps/v1", "X", "", "x", "1")), &["cluster apps/v1 X"]);
        check(
            &|inventory| {
                let gone = object("v1", "Namespace", "", "one", "1");
                assert_eq!(inventory.remove(&gone), Ok(true));
            },
            &["cluster v1 Namespace"],
        );
    }

    #[test]
    fn overlaps() {
        for (a, b, expected) in [
            ("", "namespace one v1 Pod", true),
            ("namespace _ _ Pod", "namespace one v1 Pod", true),
            ("namespace _ _ Pod name spec", "namespace one v1 Pod", true),
            ("namespace _ _ Service", "namespace one v1 Pod", false),
            ("cluster", "namespace one v1 Pod", false),
            ("namespace m", "namespace one v1 Pod", false),
        ] {
            assert_eq!(part(a).overlaps(&part(b)), expected, "{a} {b}");
            assert_eq!(part(b).overlaps(&part(a)), expected, "{b} {a}");
        }
    }
}
