//! Facts from CRDs of our kinds that watches do not need.

use std::collections::BTreeMap;

use kube::api::ApiResource;
use modgate_engine::api::{
    config, constraints, expansion, externaldata, modrule, mutations, templates,
};
use modgate_value::Value;

use super::kinds::{Definition, Kind, STATUS_GROUP};

/// The kinds that the API server serves.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Facts(BTreeMap<Kind, Fact>);

/// Facts from the CRD of one kind.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Fact {
    /// The name of the CRD.
    pub(crate) name: String,
    /// The resource in its storage version.
    pub(crate) resource: ApiResource,
    /// Whether its objects have a status that is written apart from them.
    pub(crate) has_status: bool,
    /// Identifies the schema of the storage version.
    pub(crate) schema: Value,
    /// Whether objects may still be stored in other versions than the storage version.
    pub(crate) has_old_objects: bool,
}

impl Facts {
    /// Takes in a CRD as it is now; returns whether that changes anything.
    pub(crate) fn with(&mut self, definition: &Value) -> bool {
        let Some((kind, fact)) = read(definition) else { return false };
        match fact {
            Some(fact) => self.0.insert(kind, fact.clone()) != Some(fact),
            None => self.0.remove(&kind).is_some(),
        }
    }

    /// Forgets a CRD that is gone; returns whether that changes anything.
    pub(crate) fn without(&mut self, name: &str) -> bool {
        self.retain(|known| known != name)
    }

    /// Forgets all CRDs but some, by their names; returns whether that changes anything.
    pub(crate) fn retain(&mut self, keep: impl Fn(&str) -> bool) -> bool {
        let before = self.0.len();
        self.0.retain(|_, fact| keep(&fact.name));
        self.0.len() < before
    }

    /// Facts about a kind, if it is served.
    pub(crate) fn of(&self, kind: &Kind) -> Option<&Fact> {
        self.0.get(kind)
    }

    /// All kinds.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Kind, &Fact)> {
        self.0.iter()
    }
}

fn is_ours(group: &str) -> bool {
    const GROUPS: [&str; 8] = [
        config::GROUP,
        constraints::GROUP,
        expansion::GROUP,
        externaldata::GROUP,
        modrule::GROUP,
        mutations::GROUP,
        STATUS_GROUP,
        templates::GROUP,
    ];
    GROUPS.contains(&group) || group == super::kinds::CONNECTION.0
}

/// The kind, if it is one of ours, and what is known of it if it is served.
fn read(definition: &Value) -> Option<(Kind, Option<Fact>)> {
    let text = |path: &[&str]| definition.path(path)?.as_str();
    let (group, kind) = (text(&["spec", "group"])?, text(&["spec", "names", "kind"])?);
    if !is_ours(group) {
        return None;
    }
    let id = Kind { group: group.to_owned(), kind: kind.to_owned() };
    if !Definition::is_established(definition) {
        return Some((id, None));
    }
    let versions = definition.path(&["spec", "versions"]).and_then(Value::as_array);
    let storage = versions.into_iter().flat_map(|versions| versions.iter()).find(|version| {
        version.get("storage").and_then(Value::as_bool) == Some(true)
            && version.get("served").and_then(Value::as_bool) == Some(true)
    });
    let fact = storage.and_then(|storage| {
        let version = storage.get("name")?.as_str()?;
        let stored = definition.path(&["status", "storedVersions"]).and_then(Value::as_array);
        let mut stored = stored.into_iter().flat_map(|versions| versions.iter());
        Some(Fact {
            name: text(&["metadata", "name"])?.to_owned(),
            resource: ApiResource {
                group: group.to_owned(),
                version: version.to_owned(),
                api_version: format!("{group}/{version}"),
                kind: kind.to_owned(),
                plural: text(&["spec", "names", "plural"])?.to_owned(),
            },
            has_status: storage.path(&["subresources", "status"]).is_some(),
            schema: storage.get("schema").cloned().unwrap_or_default(),
            has_old_objects: stored.any(|old| old.as_str() != Some(version)),
        })
    });
    Some((id, fact))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(group: &str, established: &str, stored: &str, more: &str) -> Value {
        let text = format!(
            r#"{{"metadata": {{"name": "assign.{group}"}},
            "spec": {{"group": "{group}", "names": {{"kind": "Assign", "plural": "assign"}},
              "versions": [{{"name": "v1", "served": true, "storage": true{more}}},
                {{"name": "v1beta1", "served": true, "storage": false}}]}},
            "status": {{"storedVersions": [{stored}],
              "conditions": [{{"type": "Established", "status": "{established}"}}]}}}}"#
        );
        Value::from_json(text.as_bytes()).expect("definition")
    }

    #[test]
    fn what_definitions_say() {
        let kind = Kind { group: mutations::GROUP.to_owned(), kind: "Assign".to_owned() };
        let status = r#", "subresources": {"status": {}}"#;
        for (stored, more, expected) in [
            (r#""v1""#, "", (false, false)),
            (r#""v1""#, status, (true, false)),
            (r#""v1beta1", "v1""#, status, (true, true)),
        ] {
            let mut facts = Facts::default();
            let definition = definition(mutations::GROUP, "True", stored, more);
            assert!(facts.with(&definition));
            assert!(!facts.with(&definition), "nothing new");
            let fact = facts.of(&kind).expect("served");
            assert_eq!((fact.has_status, fact.has_old_objects), expected, "{definition:?}");
            assert_eq!(fact.resource.api_version, "mutations.gatekeeper.sh/v1");
        }
    }

    #[test]
    fn kinds_come_and_go() {
        let mut facts = Facts::default();
        assert!(!facts.with(&definition("apps", "True", "", "")), "not ours");
        assert!(!facts.with(&definition(mutations::GROUP, "False", "", "")), "not there yet");
        assert!(facts.with(&definition(mutations::GROUP, "True", "", "")));
        assert!(facts.with(&definition(mutations::GROUP, "False", "", "")));
        assert!(facts.with(&definition(mutations::GROUP, "True", "", "")));
        assert!(!facts.without("another"));
        assert!(facts.without("assign.mutations.gatekeeper.sh"));
        assert_eq!(facts, Facts::default());
    }
}
