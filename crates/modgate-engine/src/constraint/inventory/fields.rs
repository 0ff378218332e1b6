//! Which fields of synced objects anything reads.

use modgate_api::meta::GroupVersionKind;
use modgate_rego::Reads;
use modgate_value::Value;

use super::{CLUSTER, NAMESPACE};

/// The fields of the objects of one kind that are kept for policies to see.
///
/// Which object it is always is: `apiVersion`, `kind`, and of the metadata name, namespace, labels
/// (which match criteria look at) and whether it is on its way out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fields(Reads);

const IDENTITY: [&[&str]; 6] = [
    &["apiVersion"],
    &["kind"],
    &["metadata", "name"],
    &["metadata", "namespace"],
    &["metadata", "labels"],
    &["metadata", "deletionTimestamp"],
];

impl Fields {
    /// All fields.
    pub fn all() -> Self {
        Self(Reads::everything())
    }

    /// The fields of a kind that `reads` of the inventory look at, in whichever namespace and of
    /// whichever name.
    pub fn of_kind(reads: &Reads, kind: &GroupVersionKind) -> Self {
        let version = match kind.group.as_str() {
            "" => kind.version.to_string(),
            group => format!("{group}/{}", kind.version),
        };
        let within = |kinds: Option<Reads>| kinds?.step(&version)?.step(&kind.kind)?.any_step();
        let cluster = within(reads.step(CLUSTER));
        let namespaced = within(reads.step(NAMESPACE).and_then(|it| it.any_step()));
        let mut fields = Reads::default();
        cluster.iter().chain(&namespaced).for_each(|reads| fields.merge(reads));
        for path in IDENTITY {
            fields.merge(&Reads::below(path, Reads::everything()));
        }
        Self(fields)
    }

    /// Whether all fields are kept.
    pub fn is_all(&self) -> bool {
        self.0.is_everything()
    }

    /// Whether what is kept suffices where `other` would.
    pub fn covers(&self, other: &Self) -> bool {
        self.0.covers(&other.0)
    }

    /// The object without the other fields.
    pub fn keep(&self, object: Value) -> Value {
        if self.is_all() { object } else { self.0.keep(&object) }
    }
}

#[cfg(test)]
mod tests {
    use modgate_rego::{Capabilities, Program, RegoVersion, parse_module};

    use super::*;

    fn fields(rego: &str, group: &str, kind: &str) -> Fields {
        let text = format!("package p\n{rego}");
        let module = parse_module("p", &text, RegoVersion::V0).expect("parses");
        let program = Program::compile(&[module], &Capabilities::default()).expect("compiles");
        let kind =
            GroupVersionKind { group: group.into(), version: "v1".into(), kind: kind.into() };
        Fields::of_kind(&program.reads("inventory"), &kind)
    }

    const POD: &str = r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p",
        "namespace": "n", "labels": {"a": "b"}, "annotations": {"c": "d"}},
        "spec": {"x": 1, "y": {"z": [2]}}}"#;

    fn check(rego: &str, group: &str, kind: &str, expected: &str) {
        let object = Value::from_json(POD.as_bytes()).expect("object");
        let kept = fields(rego, group, kind).keep(object);
        let metadata = r#""metadata":{"labels":{"a":"b"},"name":"p","namespace":"n"}"#;
        let expected = expected.replace("META", metadata);
        let expected = format!(r#"{{"apiVersion":"v1","kind":"Pod",{expected}}}"#);
        assert_eq!(kept.to_json(), expected, "{rego} {kind}");
    }

    #[test]
    fn of_kinds() {
        let pods = r#"v { data.inventory.namespace[_].v1.Pod[_].spec.x == 1 }"#;
        check(pods, "", "Pod", r#"META,"spec":{"x":1}"#);
        check(pods, "", "Service", "META");
        check(pods, "apps", "Pod", "META");
        let any = r#"v { data.inventory.namespace[_][version][kind][_].spec.y.z[0] == version }"#;
        check(any, "", "Pod", r#"META,"spec":{"y":{"z":[2]}}"#);
        check(any, "apps", "Deployment", r#"META,"spec":{"y":{"z":[2]}}"#);
        let cluster = r#"v { x := data.inventory.cluster["apps/v1"].Pod.p; x.spec.x == 1 }"#;
        check(cluster, "apps", "Pod", r#"META,"spec":{"x":1}"#);
        check(cluster, "", "Pod", "META");
        check("v { not data.inventory.namespace[input.n].v1.Pod[input.p] }", "", "Pod", "META");
        let all = "v { x := data.inventory.namespace.n; walk(x, [p, y]); p == y }";
        let metadata = r#""metadata":{"annotations":{"c":"d"},"labels":{"a":"b"},"name":"p","#;
        let expected = format!(r#"{metadata}"namespace":"n"}},"spec":{{"x":1,"y":{{"z":[2]}}}}"#);
        check(all, "", "Pod", &expected);
    }

    #[test]
    fn more_fields_and_fewer() {
        let x = fields("v { data.inventory.namespace[_].v1.Pod[_].spec.x == 1 }", "", "Pod");
        let spec = fields("v { data.inventory.namespace[_].v1.Pod[_].spec == 1 }", "", "Pod");
        let none = fields("v { input.x }", "", "Pod");
        assert!(Fields::all().covers(&spec) && spec.covers(&x) && x.covers(&none));
        assert!(!none.covers(&x) && !x.covers(&spec) && !spec.covers(&Fields::all()));
    }
}
