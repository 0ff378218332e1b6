//! The kinds of policies that Pods report on, and the objects they do it with (spec
//! `gatekeeper-validation`, 1.7; `gatekeeper-mutation…`, 1.9).

use kube::api::ApiResource;
use modgate_engine::api::meta::ObjectExt as _;
use modgate_engine::api::{
    config, constraints, expansion, externaldata, mutations::MutatorKind, templates,
};
use modgate_value::{Str, Value};

use crate::{
    kinds::{self, Kind, STATUS_GROUP},
    object::Key,
    operations::Operation,
};

const CONNECTIONS: &str = kinds::CONNECTION.0;
const CONNECTION: &str = kinds::CONNECTION.1;

/// The label with the name of the Pod.
pub(crate) const POD: &str = "internal.gatekeeper.sh/pod";

const CONFIG_NAME: &str = "internal.gatekeeper.sh/config-name";
const CONNECTION_NAME: &str = "internal.gatekeeper.sh/connection-name";
const CONSTRAINT_KIND: &str = "internal.gatekeeper.sh/constraint-kind";
const CONSTRAINT_NAME: &str = "internal.gatekeeper.sh/constraint-name";
const EXPANSION_NAME: &str = "internal.gatekeeper.sh/expansiontemplate-name";
const MUTATOR_KIND: &str = "internal.gatekeeper.sh/mutator-kind";
const MUTATOR_NAME: &str = "internal.gatekeeper.sh/mutator-name";
const PROVIDER_NAME: &str = "internal.gatekeeper.sh/provider-name";
const TEMPLATE_NAME: &str = "internal.gatekeeper.sh/constrainttemplate-name";

/// Kinds of policies, as far as statuses tell them apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Subject {
    Config,
    Connection,
    Constraint,
    Expansion,
    Mutator,
    Provider,
    Template,
}

/// A part of a name by which a Pod's report could not be distinguished from others (RM-21).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` cannot be part of the name of a status: it is empty, or has `-` at an end")]
pub(crate) struct UnusablePart(String);

impl Subject {
    pub(crate) const ALL: [Self; 7] = [
        Self::Config,
        Self::Connection,
        Self::Constraint,
        Self::Expansion,
        Self::Mutator,
        Self::Provider,
        Self::Template,
    ];

    /// The category of a kind of policies, if Pods report on them.
    pub(crate) fn of(kind: &Kind) -> Option<Self> {
        match (kind.group.as_str(), kind.kind.as_str()) {
            (config::GROUP, config::KIND) => Some(Self::Config),
            (CONNECTIONS, CONNECTION) => Some(Self::Connection),
            (constraints::GROUP, _) => Some(Self::Constraint),
            (expansion::GROUP, expansion::KIND) => Some(Self::Expansion),
            (modgate_engine::api::mutations::GROUP, kind) => {
                MutatorKind::from_name(kind).map(|_| Self::Mutator)
            }
            (externaldata::GROUP, externaldata::KIND) => Some(Self::Provider),
            (templates::GROUP, templates::KIND) => Some(Self::Template),
            _ => None,
        }
    }

    /// The kind of the objects that Pods report with.
    pub(crate) fn report_kind(self) -> Kind {
        Kind { group: STATUS_GROUP.to_owned(), kind: self.resource().kind }
    }

    /// The resource of those objects.
    pub(crate) fn resource(self) -> ApiResource {
        let (kind, version) = match self {
            Self::Config => ("ConfigPodStatus", "v1beta1"),
            Self::Connection => ("ConnectionPodStatus", "v1alpha1"),
            Self::Constraint => ("ConstraintPodStatus", "v1beta1"),
            Self::Expansion => ("ExpansionTemplatePodStatus", "v1beta1"),
            Self::Mutator => ("MutatorPodStatus", "v1beta1"),
            Self::Provider => ("ProviderPodStatus", "v1beta1"),
            Self::Template => ("ConstraintTemplatePodStatus", "v1beta1"),
        };
        ApiResource {
            group: STATUS_GROUP.to_owned(),
            version: version.to_owned(),
            api_version: format!("{STATUS_GROUP}/{version}"),
            kind: kind.to_owned(),
            plural: format!("{}es", kind.to_lowercase()),
        }
    }

    /// As if the API server served the objects that Pods report with on this kind alone.
    #[cfg(test)]
    pub(super) fn served(self) -> crate::crd_info::Facts {
        let ApiResource { version, kind, plural, .. } = self.resource();
        let definition = format!(
            r#"{{"metadata": {{"name": "{plural}.{STATUS_GROUP}"}},
            "spec": {{"group": "{STATUS_GROUP}", "names": {{"kind": "{kind}", "plural": "{plural}"}},
                "versions": [{{"name": "{version}", "served": true, "storage": true}}]}},
            "status": {{"storedVersions": ["{version}"],
                "conditions": [{{"type": "Established", "status": "True"}}]}}}}"#
        );
        let mut facts = crate::crd_info::Facts::default();
        facts.with(&Value::from_json(definition.as_bytes()).unwrap_or_default());
        facts
    }

    /// The member of an entry that names its object.
    pub(crate) fn uid_member(self) -> &'static str {
        match self {
            Self::Config => "configUID",
            Self::Connection => "connectionUID",
            Self::Constraint => "constraintUID",
            Self::Mutator => "mutatorUID",
            Self::Provider => "providerUID",
            Self::Expansion | Self::Template => "templateUID",
        }
    }

    /// The work of a process that gathers the entries of all Pods.
    pub(crate) fn gathered_by(self) -> Operation {
        match self {
            Self::Mutator => Operation::MutationStatus,
            _ => Operation::Status,
        }
    }

    /// The labels of a Pod's report on a policy (RM-22), without the Pod's.
    pub(crate) fn labels(self, kind: &Kind, key: &Key) -> Vec<(&'static str, Str)> {
        let (of_kind, name) = match self {
            Self::Config => (vec![], CONFIG_NAME),
            Self::Connection => (vec![], CONNECTION_NAME),
            Self::Constraint => {
                let template = Str::from(kind.kind.to_lowercase());
                let kind = Str::from(kind.kind.as_str());
                (vec![(CONSTRAINT_KIND, kind), (TEMPLATE_NAME, template)], CONSTRAINT_NAME)
            }
            Self::Expansion => (vec![], EXPANSION_NAME),
            Self::Mutator => (vec![(MUTATOR_KIND, kind.kind.as_str().into())], MUTATOR_NAME),
            Self::Provider => (vec![], PROVIDER_NAME),
            Self::Template => (vec![], TEMPLATE_NAME),
        };
        [of_kind, vec![(name, key.name.clone())]].concat()
    }

    /// The policy of a Pod's report, from its labels.
    pub(crate) fn policy(self, report: &Value) -> Option<(Kind, Key)> {
        let label = |name: &str| report.path(&["metadata", "labels", name])?.as_str();
        let namespace = || Str::from(report.metadata("namespace")?).into();
        let (group, kind, name, namespace) = match self {
            Self::Config => (config::GROUP, config::KIND, CONFIG_NAME, namespace()),
            Self::Connection => (CONNECTIONS, CONNECTION, CONNECTION_NAME, namespace()),
            Self::Constraint => {
                (constraints::GROUP, label(CONSTRAINT_KIND)?, CONSTRAINT_NAME, None)
            }
            Self::Expansion => (expansion::GROUP, expansion::KIND, EXPANSION_NAME, None),
            Self::Mutator => {
                let group = modgate_engine::api::mutations::GROUP;
                (group, label(MUTATOR_KIND)?, MUTATOR_NAME, None)
            }
            Self::Provider => (externaldata::GROUP, externaldata::KIND, PROVIDER_NAME, None),
            Self::Template => (templates::GROUP, templates::KIND, TEMPLATE_NAME, None),
        };
        let kind = Kind { group: group.to_owned(), kind: kind.to_owned() };
        let name = label(name)?.into();
        Some((kind, Key { namespace: namespace.unwrap_or_default(), name }))
    }

    /// The name of a Pod's report on a policy (RM-21).
    ///
    /// # Errors
    ///
    /// When the names do not make one.
    pub(crate) fn report_name(
        self,
        pod: &str,
        kind: &Kind,
        key: &Key,
    ) -> Result<String, UnusablePart> {
        let kind = kind.kind.to_lowercase();
        match self {
            Self::Constraint | Self::Mutator => packed(&[pod, &kind, &key.name]),
            Self::Config | Self::Connection => packed(&[pod, &key.namespace, &key.name]),
            Self::Expansion | Self::Provider | Self::Template => packed(&[pod, &key.name]),
        }
    }
}

/// Parts joined so that they can be separated again.
fn packed(parts: &[&str]) -> Result<String, UnusablePart> {
    let doubled = parts.iter().map(|part| {
        if part.is_empty() || part.starts_with('-') || part.ends_with('-') {
            return Err(UnusablePart((*part).to_owned()));
        }
        Ok(part.replace('-', "--"))
    });
    Ok(doubled.collect::<Result<Vec<_>, _>>()?.join("-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(group: &str, kind: &str) -> Kind {
        Kind { group: group.to_owned(), kind: kind.to_owned() }
    }

    fn key(namespace: &str, name: &str) -> Key {
        Key { namespace: namespace.into(), name: name.into() }
    }

    fn every_kind() -> Vec<(Subject, Kind, Key)> {
        vec![
            (Subject::Config, kind(config::GROUP, "Config"), key("gk", "config")),
            (Subject::Connection, kind(CONNECTIONS, "Connection"), key("gk", "my-sink")),
            (Subject::Constraint, kind(constraints::GROUP, "K8sFoo"), key("", "my-c")),
            (Subject::Expansion, kind(expansion::GROUP, "ExpansionTemplate"), key("", "pods")),
            (Subject::Mutator, kind("mutations.gatekeeper.sh", "Assign"), key("", "my-mut")),
            (Subject::Provider, kind(externaldata::GROUP, "Provider"), key("", "images")),
            (Subject::Template, kind(templates::GROUP, "ConstraintTemplate"), key("", "k8sfoo")),
        ]
    }

    #[test]
    fn names() {
        let expected = [
            "gk--audit--7-gk-config",
            "gk--audit--7-gk-my--sink",
            "gk--audit--7-k8sfoo-my--c",
            "gk--audit--7-pods",
            "gk--audit--7-assign-my--mut",
            "gk--audit--7-images",
            "gk--audit--7-k8sfoo",
        ];
        for ((subject, kind, key), expected) in every_kind().iter().zip(expected) {
            assert_eq!(Subject::of(kind), Some(*subject));
            assert_eq!(subject.report_name("gk-audit-7", kind, key).as_deref(), Ok(expected));
        }
        for part in ["", "-a", "a-"] {
            assert_eq!(packed(&["pod", part]), Err(UnusablePart(part.to_owned())), "{part}");
        }
        assert_eq!(Subject::of(&kind("api.kubemod.io", "ModRule")), None);
    }

    #[test]
    fn labels_lead_back_to_the_policy() {
        for (subject, kind, key) in every_kind() {
            let labels = subject.labels(&kind, &key);
            assert!(labels.iter().all(|(label, _)| label.starts_with("internal.gatekeeper.sh/")));
            let labels: Value =
                labels.into_iter().map(|(label, text)| (label, Value::from(text))).collect();
            let metadata: Value =
                [("labels", labels), ("namespace", "gk".into())].into_iter().collect();
            let report: Value = [("metadata", metadata)].into_iter().collect();
            assert_eq!(subject.policy(&report), Some((kind, key)));
        }
    }

    #[test]
    fn resources_are_those_of_the_installed_kinds() {
        let plurals = Subject::ALL.map(|subject| subject.resource().plural);
        assert_eq!(
            plurals,
            [
                "configpodstatuses",
                "connectionpodstatuses",
                "constraintpodstatuses",
                "expansiontemplatepodstatuses",
                "mutatorpodstatuses",
                "providerpodstatuses",
                "constrainttemplatepodstatuses"
            ]
        );
    }
}
