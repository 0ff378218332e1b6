//! References of violations: to a policy and an object.

use modgate_engine::{Position, api::meta::GroupVersionKind};
use modgate_value::{Object, Str, Value};

/// The policy that is violated: a constraint, a ModRule, a mutator or a ValidatingAdmissionPolicy.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PolicyRef {
    /// Its group, version and kind.
    pub kind: GroupVersionKind,
    /// Empty for constraints.
    pub namespace: Str,
    /// Its name.
    pub name: Str,
    /// Its annotations, an object; without what `kubectl apply` keeps there.
    pub annotations: Value,
}

/// The annotation that holds a copy of the object it stands on.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

impl PolicyRef {
    /// The reference to a policy object.
    pub fn of_policy(policy: &Value) -> Self {
        let annotations = policy.path(&["metadata", "annotations"]).and_then(Value::as_object);
        let mut annotations = annotations.cloned().unwrap_or_default();
        annotations.remove(LAST_APPLIED);
        Self {
            kind: GroupVersionKind::of_object(policy),
            namespace: text(policy, "namespace"),
            name: text(policy, "name"),
            annotations: annotations.into(),
        }
    }
}

/// The object that violates a policy. A generator is reported for its resultants (`[Implied by …]`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectRef {
    /// Its group, version and kind.
    pub kind: GroupVersionKind,
    /// Empty for cluster-scoped objects.
    pub namespace: Str,
    /// Its name.
    pub name: Str,
    /// `metadata.generateName` of an object without a name, as files have them.
    pub generate_name: Str,
    /// `metadata.uid`; empty where no API server gave it one.
    pub uid: Str,
    /// `metadata.labels`, an object.
    pub labels: Value,
    /// The file it stands in; empty if it does not come from one.
    pub origin: Str,
    /// Where it starts in that file.
    pub position: Option<Position>,
}

impl ObjectRef {
    /// The identity of an object as far as it is known.
    pub(crate) fn known(kind: &GroupVersionKind, namespace: &Str, name: &Str) -> Self {
        Self {
            kind: kind.clone(),
            namespace: namespace.clone(),
            name: name.clone(),
            generate_name: Str::default(),
            uid: Str::default(),
            labels: Value::Null,
            origin: Str::default(),
            position: None,
        }
    }

    /// The identity of an object, and its labels.
    pub fn of_object(object: &Value) -> Self {
        let labels = object.path(&["metadata", "labels"]).cloned();
        let name = text(object, "name");
        let is_named = !name.is_empty();
        Self {
            kind: GroupVersionKind::of_object(object),
            namespace: text(object, "namespace"),
            generate_name: if is_named { Str::default() } else { text(object, "generateName") },
            name,
            uid: text(object, "uid"),
            labels: labels.unwrap_or_else(|| Object::default().into()),
            origin: Str::default(),
            position: None,
        }
    }
}

fn text(object: &Value, member: &str) -> Str {
    let found = object.path(&["metadata", member]).and_then(Value::as_str);
    found.unwrap_or_default().into()
}
