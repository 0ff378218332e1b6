//! The names that CEL expressions may use, as Kubernetes declares them for ValidatingAdmissionPolicies
//! (CE-10, CE-12).

use std::sync::Arc;

use modgate_cel::{Env, ObjectType, Type};

/// `object`, `oldObject`, `request` and `namespaceObject`.
pub(crate) fn environment() -> Env {
    Env::new()
        .with("object", Type::Dyn)
        .with("oldObject", Type::Dyn)
        .with("request", request())
        .with("namespaceObject", namespace())
}

/// The names for expressions of `variables`: the constraint, too.
pub(super) fn environment_of_variables() -> Env {
    environment().with("params", Type::Dyn)
}

fn object(name: &str, fields: Vec<(&str, Type)>) -> Type {
    let fields = fields.into_iter().map(|(name, ty)| (name.into(), ty)).collect();
    Type::Object(Arc::new(ObjectType { name: name.into(), fields }))
}

fn list(element: Type) -> Type {
    Type::List(Arc::new(element))
}

fn map(value: Type) -> Type {
    Type::Map(Arc::new((Type::STRING, value)))
}

/// The request without `uid` and the objects.
fn request() -> Type {
    let text = || Type::STRING;
    let kind = || {
        let fields = vec![("group", text()), ("version", text()), ("kind", text())];
        object("kubernetes.GroupVersionKind", fields)
    };
    let resource = || {
        let fields = vec![("group", text()), ("version", text()), ("resource", text())];
        object("kubernetes.GroupVersionResource", fields)
    };
    let user = object(
        "kubernetes.UserInfo",
        vec![
            ("username", text()),
            ("uid", text()),
            ("groups", list(text())),
            ("extra", map(list(text()))),
        ],
    );
    object(
        "kubernetes.AdmissionRequest",
        vec![
            ("kind", kind()),
            ("resource", resource()),
            ("subResource", text()),
            ("requestKind", kind()),
            ("requestResource", resource()),
            ("requestSubResource", text()),
            ("name", text()),
            ("namespace", text()),
            ("operation", text()),
            ("userInfo", user),
            ("dryRun", Type::BOOL),
            ("options", Type::Dyn),
        ],
    )
}

/// The Namespace without what concerns only its storage. Times are texts in the object, so they
/// are not declared as times.
fn namespace() -> Type {
    let text = || Type::STRING;
    let metadata = vec![
        ("name", text()),
        ("generateName", text()),
        ("namespace", text()),
        ("labels", map(text())),
        ("annotations", map(text())),
        ("UID", text()),
        ("creationTimestamp", Type::Dyn),
        ("deletionGracePeriodSeconds", Type::Plain("int")),
        ("deletionTimestamp", Type::Dyn),
        ("generation", Type::Plain("int")),
        ("resourceVersion", text()),
        ("finalizers", list(text())),
    ];
    let condition = object(
        "kubernetes.NamespaceCondition",
        vec![
            ("status", text()),
            ("type", text()),
            ("lastTransitionTime", Type::Dyn),
            ("message", text()),
            ("reason", text()),
        ],
    );
    object(
        "kubernetes.Namespace",
        vec![
            ("metadata", object("kubernetes.NamespaceMetadata", metadata)),
            ("spec", object("kubernetes.NamespaceSpec", vec![("finalizers", list(text()))])),
            (
                "status",
                object(
                    "kubernetes.NamespaceStatus",
                    vec![("conditions", list(condition)), ("phase", text())],
                ),
            ),
        ],
    )
}
