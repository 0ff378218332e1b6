//! Which requests a policy or binding applies to
//! (`apiserver/pkg/admission/plugin/policy/matching`).

use modgate_api::meta::ObjectExt as _;
use modgate_api::{
    admission::AdmissionRequest,
    admissionregistration::{MatchResources, ResourceRule},
    meta::{GroupVersionKind, GroupVersionResource, Operation},
};
use modgate_value::{Object, Str, Value};

use super::{Types, convert};
use crate::matching::{Selector, SelectorError};

/// The parts of a request that are matched.
#[derive(Debug, Clone, Copy)]
pub(super) struct Attributes<'a> {
    /// The kind of the object.
    pub(super) kind: &'a GroupVersionKind,
    /// The resource of the request.
    pub(super) resource: &'a GroupVersionResource,
    /// The subresource; empty for none.
    pub(super) sub_resource: &'a str,
    /// The name in the request; empty where the API server has yet to generate it.
    pub(super) name: &'a str,
    /// The namespace; empty for cluster-scoped objects, its own name for a Namespace.
    pub(super) namespace: &'a str,
    /// The operation.
    pub(super) operation: Operation,
    /// The new object.
    pub(super) object: Option<&'a Value>,
    /// The stored object.
    pub(super) old_object: Option<&'a Value>,
    /// Whether the versions that are served are those of Kubernetes 1.36. Otherwise a version that the
    /// table lacks may be served.
    pub(super) by_table: bool,
    /// Whether the labels of the Namespace are not known, but for the one of its name.
    pub(super) unlabelled: bool,
    /// The name of the user.
    pub(super) user: &'a str,
    /// The user of the request.
    pub(super) user_info: &'a Value,
}

impl<'a> Attributes<'a> {
    /// Those of a request; `resource` is what [`resource_of`] gives for it.
    pub(super) fn of(request: &'a AdmissionRequest, resource: &'a GroupVersionResource) -> Self {
        Self {
            kind: &request.kind,
            resource,
            sub_resource: &request.sub_resource,
            name: &request.name,
            namespace: &request.namespace,
            operation: request.operation,
            object: request.object.as_ref(),
            old_object: request.old_object.as_ref(),
            by_table: false,
            unlabelled: false,
            user_info: &request.user_info,
            user: request.user_info.get("username").and_then(Value::as_str).unwrap_or_default(),
        }
    }
}

impl Attributes<'_> {
    /// The labels of the object or the old object.
    fn labels(&self, object: &Value) -> Option<Object> {
        if is_namespaces(self.resource) {
            return labels(&with_name_label(object.clone())).cloned();
        }
        labels(object).cloned()
    }
}

/// The resource of a request; of one that was never sent, what its kind is called.
pub(super) fn resource_of(request: &AdmissionRequest) -> GroupVersionResource {
    if !request.resource.resource.is_empty() {
        return request.resource.clone();
    }
    GroupVersionResource {
        group: request.kind.group.clone(),
        version: request.kind.version.clone(),
        resource: request.kind.plural(),
    }
}

/// The group and resource of Namespaces.
pub(super) fn is_namespaces(resource: &GroupVersionResource) -> bool {
    resource.group.is_empty() && resource.version == "v1" && resource.resource == "namespaces"
}

/// The labels of the object's Namespace, looked up when a selector needs them.
pub(super) type NamespaceLabels<'a> = &'a dyn Fn() -> Result<Option<Object>, String>;

/// A compiled `matchConstraints` or `matchResources`.
#[derive(Debug, Clone, Default)]
pub struct ResourceMatcher {
    namespace_selector: Selector,
    object_selector: Selector,
    rules: Vec<ResourceRule>,
    excluded: Vec<ResourceRule>,
    equivalent: bool,
}

/// How a request matched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Matched {
    /// It does not.
    No,
    /// It does, as it was sent.
    AsSent,
    /// It does in another version of the same resource (`matchPolicy: Equivalent`). Expressions
    /// see the object in this version.
    InVersion {
        /// The group, for Events another one.
        group: Str,
        /// The version.
        version: Str,
    },
}

impl ResourceMatcher {
    /// Compiles selectors and keeps the rules.
    ///
    /// # Errors
    ///
    /// A selector that Kubernetes refuses, with the field it stands in.
    pub fn compile(wire: &MatchResources) -> Result<Self, (&'static str, SelectorError)> {
        let selector = |field, selector: &Option<_>| {
            let compiled = selector.as_ref().map(Selector::compile).transpose();
            compiled.map(Option::unwrap_or_default).map_err(|error| (field, error))
        };
        Ok(Self {
            namespace_selector: selector("namespaceSelector", &wire.namespace_selector)?,
            object_selector: selector("objectSelector", &wire.object_selector)?,
            rules: wire.resource_rules.clone().unwrap_or_default(),
            excluded: wire.exclude_resource_rules.clone().unwrap_or_default(),
            equivalent: wire.match_policy.as_deref() != Some("Exact"),
        })
    }

    /// Whether a request matches.
    ///
    /// # Errors
    ///
    /// When a selector needs the Namespace and it cannot be read; only for requests that match
    /// otherwise.
    pub(super) fn matches(
        &self,
        attributes: &Attributes<'_>,
        namespace_labels: NamespaceLabels<'_>,
    ) -> Result<Matched, String> {
        let namespace = self.matches_namespace(attributes, namespace_labels);
        if namespace == Ok(false) || !self.matches_object(attributes) {
            return Ok(Matched::No);
        }
        if self.find(&self.excluded, attributes) != Matched::No {
            return Ok(Matched::No);
        }
        let matched = match self.rules.as_slice() {
            [] => Matched::AsSent,
            rules => self.find(rules, attributes),
        };
        match (matched, namespace) {
            (Matched::No, _) => Ok(Matched::No),
            (_, Err(error)) => Err(error),
            (matched, Ok(_)) => Ok(matched),
        }
    }

    /// The groups that its rules name; `*` stands for all.
    pub(super) fn groups(&self) -> impl Iterator<Item = &Str> {
        self.rules.iter().flat_map(|rule| rule.api_groups.iter().flatten())
    }

    /// Whether requests about a resource may match, whatever else is in them.
    pub(super) fn may_match(&self, group: &str, resource: &str) -> bool {
        self.rules.is_empty()
            || self.rules.iter().any(|rule| {
                let mut resources = rule.resources.iter().flatten();
                lists(rule.api_groups.as_ref(), group)
                    && resources.any(|pattern| {
                        let name = pattern.split_once('/').map_or(pattern.as_str(), |(it, _)| it);
                        name == "*" || name == resource
                    })
            })
    }

    fn matches_namespace(
        &self,
        attributes: &Attributes<'_>,
        namespace_labels: NamespaceLabels<'_>,
    ) -> Result<bool, String> {
        if attributes.namespace.is_empty() && attributes.resource.resource != "namespaces"
            || self.namespace_selector.is_empty()
        {
            return Ok(true);
        }
        let is_written_namespace = attributes.resource.resource == "namespaces"
            && attributes.sub_resource.is_empty()
            && attributes.operation.is_write();
        if is_written_namespace {
            let labels = attributes.object.and_then(|object| attributes.labels(object));
            return Ok(self.namespace_selector.matches(labels.as_ref()));
        }
        if attributes.unlabelled && self.namespace_selector.keys().any(|key| key != NAME_LABEL) {
            return Err(format!(
                "namespaces \"{0}\" not found: its labels are not known, give the Namespace with \
                 `--objects`",
                attributes.namespace
            ));
        }
        let labels = namespace_labels()?;
        Ok(self.namespace_selector.matches(labels.as_ref()))
    }

    fn matches_object(&self, attributes: &Attributes<'_>) -> bool {
        // What has no metadata, such as the options of `pods/exec`, is never selected.
        let selected = |object: Option<&Value>| {
            object
                .filter(|it| it.get("metadata").is_some())
                .is_some_and(|it| self.object_selector.matches(attributes.labels(it).as_ref()))
        };
        self.object_selector.is_empty()
            || selected(attributes.object)
            || selected(attributes.old_object)
    }

    fn find(&self, rules: &[ResourceRule], attributes: &Attributes<'_>) -> Matched {
        let GroupVersionResource { group, version, resource } = attributes.resource;
        if rules.iter().any(|rule| applies(rule, attributes, group, version)) {
            return Matched::AsSent;
        }
        if !self.equivalent {
            return Matched::No;
        }
        // The versions of a resource are known from the rules that name them.
        for rule in rules {
            let is_served = |version: &str| {
                !attributes.by_table || Types::kubernetes().may_serve(group, version)
            };
            let others = rule.api_versions.iter().flatten();
            let mut others = others.filter(|it| *it != version && is_served(it));
            if let Some(other) = others.find(|other| applies(rule, attributes, group, other)) {
                return Matched::InVersion { group: group.clone(), version: other.clone() };
            }
            let mut groups = convert::other_groups(group, resource);
            if let Some(other) = groups.find(|other| applies(rule, attributes, other, "v1")) {
                return Matched::InVersion { group: other, version: "v1".into() };
            }
        }
        Matched::No
    }
}

fn labels(object: &Value) -> Option<&Object> {
    object.path(&["metadata", "labels"]).and_then(Value::as_object)
}

/// The label that the API server gives to every Namespace, and does not let anyone change.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// A Namespace with the label of its name, which files need not have.
pub(super) fn with_name_label(mut namespace: Value) -> Value {
    let name = namespace.metadata("name");
    let Some(name) = name.filter(|name| !name.is_empty()).map(Str::from) else { return namespace };
    let mut labels = labels(&namespace).cloned().unwrap_or_default();
    if labels.get(NAME_LABEL).and_then(Value::as_str) == Some(name.as_str()) {
        return namespace;
    }
    labels.insert(NAME_LABEL, name.into());
    if let Value::Object(members) = &mut namespace
        && let Some(Value::Object(metadata)) = members.get_mut("metadata")
    {
        metadata.insert("labels", labels.into());
    }
    namespace
}

fn lists(list: Option<&Vec<Str>>, wanted: &str) -> bool {
    list.into_iter().flatten().any(|item| item == "*" || item == wanted)
}

/// Whether a rule applies to a request if it came in this group and version.
fn applies(rule: &ResourceRule, attributes: &Attributes<'_>, group: &str, version: &str) -> bool {
    let resource = attributes.resource;
    let in_namespace = !attributes.namespace.is_empty() && !is_namespaces(resource);
    let scope = match rule.scope.as_deref() {
        None | Some("*") => true,
        Some("Namespaced") => in_namespace,
        Some("Cluster") => !in_namespace,
        Some(_) => false,
    };
    let names = rule.resource_names.as_deref().unwrap_or_default();
    scope
        && lists(rule.operations.as_ref(), attributes.operation.as_str())
        && lists(rule.api_groups.as_ref(), group)
        && lists(rule.api_versions.as_ref(), version)
        && rule.resources.iter().flatten().any(|pattern| {
            let (name, sub) = pattern.split_once('/').unwrap_or((pattern, ""));
            (name == "*" || name == resource.resource)
                && (sub == "*" || sub == attributes.sub_resource)
        })
        && (names.is_empty() || names.iter().any(|name| name == attributes.name))
}
