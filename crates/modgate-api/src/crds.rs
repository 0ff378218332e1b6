//! The CRDs of our kinds (specs `gatekeeper-validation` 1.1 to 1.3 and 1.7, `gatekeeper-mutation…` 1,
//! `kubemod` 1).
//!
//! Names, scopes, versions and storage versions are those of the originals, so that a CRD of theirs
//! can be replaced in place. The schemas keep every field that theirs keep, and the restored ones. The
//! kinds of constraints are not here: each comes of its template.

use modgate_value::{DecodeError, Object, Str, Value, yaml};
use serde::Deserialize;

use crate::{externaldata::Provider, templates};

/// Read before each of [`KINDS`], whose anchors come from here.
const FRAGMENTS: &str = include_str!("crds/fragments.yaml");

/// The kinds, by API group.
const KINDS: [&str; 7] = [
    include_str!("crds/modrule.yaml"),
    include_str!("crds/templates.yaml"),
    include_str!("crds/config.yaml"),
    include_str!("crds/mutations.yaml"),
    include_str!("crds/expansion.yaml"),
    include_str!("crds/externaldata.yaml"),
    include_str!("crds/status.yaml"),
];

/// The label of the originals' own CRDs, and the groups of Gatekeeper's.
const LABEL: &str = "gatekeeper.sh/system";
const GATEKEEPER: &str = ".gatekeeper.sh";

/// The part of a kind's CRD that `crds/*.yaml` holds.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kind {
    group: Str,
    kind: Str,
    plural: Str,
    scope: Str,
    /// Those that are served, the one that is stored first.
    versions: Vec<Str>,
    /// Whether `status` is written apart from the rest.
    status: bool,
    /// Printer columns, where kubectl's own do not suffice.
    #[serde(default)]
    columns: Option<Value>,
    /// Of the whole object.
    schema: Value,
}

/// One of the files, with anything in it that is only there to be referred to.
#[derive(Debug, Deserialize)]
struct Kinds {
    kinds: Vec<Kind>,
}

/// Every CRD, as `apiextensions.k8s.io/v1`, in the order of their groups.
///
/// # Errors
///
/// Never, unless the files of this module were changed for the worse; a test reads them.
pub fn all() -> Result<Vec<Value>, DecodeError> {
    read(KINDS)
}

/// The CRDs of an API group; none of a group that is not ours. It reads less than [`all`].
///
/// # Errors
///
/// As [`all`].
pub fn of_group(group: &str) -> Result<Vec<Value>, DecodeError> {
    let line = format!("\n- group: {group}\n");
    let mut definitions = read(KINDS.into_iter().filter(|text| text.contains(&line)))?;
    definitions.retain(|definition| {
        definition.path(&["spec", "group"]).and_then(Value::as_str) == Some(group)
    });
    Ok(definitions)
}

fn read(texts: impl IntoIterator<Item = &'static str>) -> Result<Vec<Value>, DecodeError> {
    let mut definitions = Vec::new();
    for text in texts {
        let file = yaml::value(&format!("{FRAGMENTS}{text}"))
            .map_err(|error| DecodeError { path: String::new(), message: error.to_string() })?;
        definitions.extend(Kinds::deserialize(&file)?.kinds.iter().map(Kind::definition));
    }
    Ok(definitions)
}

impl Kind {
    fn definition(&self) -> Value {
        let name = format!("{}.{}", self.plural, self.group);
        let mut metadata = vec![("name", name.into())];
        if self.group.ends_with(GATEKEEPER) {
            metadata.push(("labels", object([(LABEL, "yes".into())])));
        }
        let versions = self.versions.iter().enumerate();
        let spec = object([
            ("group", self.group.clone().into()),
            ("names", self.names()),
            ("scope", self.scope.clone().into()),
            (
                "versions",
                versions.map(|(index, version)| self.version(version, index == 0)).collect(),
            ),
        ]);
        object([
            ("apiVersion", "apiextensions.k8s.io/v1".into()),
            ("kind", "CustomResourceDefinition".into()),
            ("metadata", object(metadata)),
            ("spec", spec),
        ])
    }

    fn names(&self) -> Value {
        object([
            ("kind", self.kind.clone().into()),
            ("listKind", format!("{}List", self.kind).into()),
            ("plural", self.plural.clone().into()),
            ("singular", self.kind.to_lowercase().into()),
        ])
    }

    fn version(&self, version: &str, stored: bool) -> Value {
        let mut schema = self.schema.clone();
        if self.group == templates::GROUP {
            set_legacy(&mut schema, version != "v1");
        }
        let mut members = vec![
            ("name", version.into()),
            ("served", true.into()),
            ("storage", stored.into()),
            ("schema", object([("openAPIV3Schema", schema)])),
        ];
        if self.status {
            members.push(("subresources", object([("status", Object::default().into())])));
        }
        if let Some(columns) = &self.columns {
            members.push(("additionalPrinterColumns", columns.clone()));
        }
        if let Some(warning) = Provider::deprecation(&format!("{}/{version}", self.group)) {
            members.push(("deprecated", true.into()));
            members.push(("deprecationWarning", warning.into()));
        }
        object(members)
    }
}

/// Sets the default of `legacySchema`, which the version decides (RM-1).
fn set_legacy(schema: &mut Value, legacy: bool) {
    let mut node = schema;
    for name in ["spec", "crd", "spec", "validation", "legacySchema"] {
        let Some(below) = property(node, name) else { return };
        node = below;
    }
    if let Value::Object(members) = node {
        members.insert("default", legacy.into());
    }
}

fn property<'s>(schema: &'s mut Value, name: &str) -> Option<&'s mut Value> {
    let Value::Object(members) = schema else { return None };
    let Value::Object(properties) = members.get_mut("properties")? else { return None };
    properties.get_mut(name)
}

fn object<'m>(members: impl IntoIterator<Item = (&'m str, Value)>) -> Value {
    members.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::Schema;

    fn definitions() -> Vec<Value> {
        all().expect("CRDs")
    }

    fn text<'v>(value: &'v Value, path: &[&str]) -> &'v str {
        value.path(path).and_then(Value::as_str).expect("text")
    }

    #[test]
    fn those_of_a_group() {
        let group = |definition: &Value| text(definition, &["spec", "group"]).to_owned();
        let groups: std::collections::BTreeSet<String> = definitions().iter().map(group).collect();
        for name in &groups {
            let mut all = definitions();
            all.retain(|definition| group(definition) == *name);
            assert_eq!(of_group(name).expect("CRDs"), all, "{name}");
        }
        assert_eq!(of_group("apps").expect("CRDs"), [] as [Value; 0]);
        assert_eq!(of_group("").expect("CRDs"), [] as [Value; 0]);
    }

    /// The table of the specification.
    #[test]
    fn names_scopes_and_versions() {
        let mut found: Vec<String> = definitions()
            .iter()
            .map(|definition| {
                let versions = definition.path(&["spec", "versions"]).and_then(Value::as_array);
                let versions = versions.expect("versions").iter().map(|version| {
                    let stored = version.get("storage").and_then(Value::as_bool) == Some(true);
                    let star = if stored { "*" } else { "" };
                    let status = if version.get("subresources").is_some() { "+" } else { "" };
                    format!("{}{star}{status}", text(version, &["name"]))
                });
                format!(
                    "{} {} {} {}",
                    text(definition, &["metadata", "name"]),
                    text(definition, &["spec", "names", "kind"]),
                    text(definition, &["spec", "scope"]),
                    versions.collect::<Vec<_>>().join(" ")
                )
            })
            .collect();
        found.sort();
        let expected = "\
            assign.mutations.gatekeeper.sh Assign Cluster v1*+ v1beta1+ v1alpha1+
            assignimage.mutations.gatekeeper.sh AssignImage Cluster v1alpha1*+
            assignmetadata.mutations.gatekeeper.sh AssignMetadata Cluster v1*+ v1beta1+ v1alpha1+
            configpodstatuses.status.gatekeeper.sh ConfigPodStatus Namespaced v1beta1*
            configs.config.gatekeeper.sh Config Namespaced v1alpha1*+
            connectionpodstatuses.status.gatekeeper.sh ConnectionPodStatus Namespaced v1alpha1*
            connections.connection.gatekeeper.sh Connection Namespaced v1alpha1*+
            constraintpodstatuses.status.gatekeeper.sh ConstraintPodStatus Namespaced v1beta1*
            constrainttemplatepodstatuses.status.gatekeeper.sh ConstraintTemplatePodStatus Namespaced v1beta1*
            constrainttemplates.templates.gatekeeper.sh ConstraintTemplate Cluster v1*+ v1beta1+ v1alpha1+
            expansiontemplate.expansion.gatekeeper.sh ExpansionTemplate Cluster v1alpha1*+ v1beta1+
            expansiontemplatepodstatuses.status.gatekeeper.sh ExpansionTemplatePodStatus Namespaced v1beta1*
            modifyset.mutations.gatekeeper.sh ModifySet Cluster v1*+ v1beta1+ v1alpha1+
            modrules.api.kubemod.io ModRule Namespaced v1beta1*+
            mutatorpodstatuses.status.gatekeeper.sh MutatorPodStatus Namespaced v1beta1*
            providerpodstatuses.status.gatekeeper.sh ProviderPodStatus Namespaced v1beta1*
            providers.externaldata.gatekeeper.sh Provider Cluster v1beta1*+ v1alpha1+
            syncsets.syncset.gatekeeper.sh SyncSet Cluster v1alpha1*";
        let expected: Vec<_> = expected.lines().map(str::trim).collect();
        assert_eq!(found, expected);
    }

    /// Errors that the API server would find; tests in a cluster ask it.
    #[test]
    fn schemas_are_structural() {
        let limits = modgate_value::Limits::UNLIMITED;
        for definition in definitions() {
            let name = text(&definition, &["metadata", "name"]);
            let versions = definition.path(&["spec", "versions"]).and_then(Value::as_array);
            for version in versions.expect("versions").iter() {
                let schema = version.path(&["schema", "openAPIV3Schema"]).expect("schema");
                assert!(!text(schema, &["description"]).is_empty(), "{name}");
                let schema = Schema::from_value(schema, "").expect(name);
                let budget = modgate_value::Budget::new(limits, &modgate_value::budget::Frozen);
                assert_eq!(schema.problems("", &budget), Ok(Vec::new()), "{name}");
            }
        }
    }

    #[test]
    fn versions_decide_whether_schemas_are_legacy() {
        let definitions = definitions();
        let is_template = |it: &&Value| text(it, &["spec", "names", "kind"]) == templates::KIND;
        let template = definitions.iter().find(is_template).expect("template");
        let path = "/schema/openAPIV3Schema/properties/spec/properties/crd/properties/spec\
                    /properties/validation/properties/legacySchema/default";
        let versions = template.path(&["spec", "versions"]).and_then(Value::as_array);
        let legacy: Vec<_> =
            versions.expect("versions").iter().map(|version| version.pointer(path)).collect();
        assert_eq!(legacy, [Some(&false.into()), Some(&true.into()), Some(&true.into())]);
    }
}
