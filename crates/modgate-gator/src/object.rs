//! Members of objects that several verbs read.

use modgate_api::meta::GroupVersionKind;
use modgate_api::meta::ObjectExt as _;
use modgate_value::Value;

/// Group, version and kind as the original's messages give them: `apps/v1, Kind=Deployment`.
pub(crate) fn kind_text(object: &Value) -> String {
    let mut read = GroupVersionKind::of_object(object);
    // Of `a/b/c` gator reads neither group nor kind.
    if read.version.contains('/') {
        read = GroupVersionKind::default();
    }
    let GroupVersionKind { group, version, kind } = read;
    format!("{group}/{version}, Kind={kind}")
}

/// The namespace of the request that creates an object: `default` where it gives none.
pub(crate) fn request_namespace<'o>(object: &'o Value, kind: &GroupVersionKind) -> &'o str {
    match object.namespace() {
        _ if kind.is_namespace() => object.name(),
        "" if kind.is_cluster_scoped() => "",
        "" => "default",
        own => own,
    }
}
