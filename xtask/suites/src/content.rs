//! The objects and policies of a large cluster, all made from numbers.

use anyhow::Result;
use modgate_value::{Value, yaml};

/// The content of the inventory.
pub(crate) const SYNC: &str = "
apiVersion: config.gatekeeper.sh/v1alpha1
kind: Config
metadata: {name: config, namespace: gatekeeper-system}
spec: {sync: {syncOnly: [{version: v1, kind: Pod}]}}
";

/// One Pod in so many lacks the label that constraints ask for.
const BAD: usize = 100;

/// One template in so many reads the inventory.
pub(crate) const READS_INVENTORY: usize = 10;

pub(crate) fn namespace(name: &str) -> String {
    format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: {name}}}\n")
}

pub(crate) fn namespace_object(number: usize) -> Result<Value> {
    Ok(yaml::value(&namespace(&format!("team-{number}")))?)
}

/// A Namespace as a list of the API server has it.
pub(crate) fn stored_namespace(number: usize) -> String {
    format!(
        r#"{{"metadata":{{"name":"team-{number}",{}}},"spec":{{"finalizers":["kubernetes"]}},"status":{{"phase":"Active"}}}}"#,
        stored(number)
    )
}

/// A Pod to create.
pub(crate) fn pod(number: usize, namespace: usize) -> Result<Value> {
    let text = format!(
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{{}}},"spec":{}}}"#,
        pod_metadata(number, namespace),
        pod_spec(number)
    );
    Ok(Value::from_json(text.as_bytes())?)
}

/// A Pod as a list of the API server has it: with what a kubelet and the API server add.
pub(crate) fn stored_pod(number: usize, namespace: usize) -> String {
    let managed = r#"[{"manager":"kube-controller-manager","operation":"Update","apiVersion":"v1","time":"2026-11-01T00:00:00Z","fieldsType":"FieldsV1","fieldsV1":{"f:metadata":{"f:labels":{".":{},"f:app":{},"f:tier":{},"f:version":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"app\"}":{".":{},"f:image":{},"f:name":{},"f:resources":{}},"k:{\"name\":\"proxy\"}":{".":{},"f:image":{},"f:name":{}}},"f:serviceAccountName":{},"f:volumes":{}}}}]"#;
    let status = r#"{"phase":"Running","conditions":[{"type":"Ready","status":"True","lastTransitionTime":"2026-11-01T00:00:09Z"},{"type":"PodScheduled","status":"True","lastTransitionTime":"2026-11-01T00:00:00Z"}],"hostIP":"10.1.2.3","podIP":"10.4.5.6","qosClass":"Burstable"}"#;
    format!(
        r#"{{"metadata":{{{},{},"managedFields":{managed}}},"spec":{},"status":{status}}}"#,
        pod_metadata(number, namespace),
        stored(number),
        pod_spec(number)
    )
}

fn stored(number: usize) -> String {
    format!(
        r#""uid":"00000000-0000-4000-8000-{number:012}","resourceVersion":"{}","creationTimestamp":"2026-11-01T00:00:00Z""#,
        number + 1
    )
}

fn pod_metadata(number: usize, namespace: usize) -> String {
    let owner = if number.is_multiple_of(BAD) { "" } else { r#""owner":"platform","# };
    let (app, version) = (number % 977, number % 13);
    format!(
        r#""name":"app-{number}","namespace":"team-{namespace}","labels":{{{owner}"app":"app-{app}","tier":"web","version":"v{version}"}},"annotations":{{"checksum/config":"{number:064}"}}"#
    )
}

/// Two containers with resources, and a volume.
fn pod_spec(number: usize) -> String {
    let (app, version) = (number % 977, number % 13);
    let proxy = r#"{"name":"proxy","image":"registry.example.com/mesh/proxy:v3","resources":{"requests":{"cpu":"50m","memory":"64Mi"},"limits":{"memory":"128Mi"}}}"#;
    format!(
        r#"{{"serviceAccountName":"default","automountServiceAccountToken":false,"containers":[{{"name":"app","image":"registry.example.com/team/app-{app}:v1.{version}","ports":[{{"containerPort":8080,"name":"http"}}],"env":[{{"name":"A","value":"a"}},{{"name":"B","value":"b"}},{{"name":"C","value":"c"}}],"resources":{{"requests":{{"cpu":"100m","memory":"128Mi"}},"limits":{{"memory":"256Mi"}}}},"livenessProbe":{{"httpGet":{{"path":"/healthz","port":8080}}}},"volumeMounts":[{{"name":"data","mountPath":"/data"}}]}},{proxy}],"volumes":[{{"name":"data","emptyDir":{{}}}}]}}"#
    )
}

/// The kind of a template.
pub(crate) fn kind(number: usize) -> String {
    format!("Scale{number}")
}

/// A template in Rego. Some compare Pods with the others of their namespace.
pub(crate) fn template(number: usize) -> Result<Value> {
    let rule = if number.is_multiple_of(READS_INVENTORY) {
        "      violation[{\"msg\": msg}] {\n        pod := input.review.object\n        \
         other := data.inventory.namespace[pod.metadata.namespace][\"v1\"].Pod[name]\n        \
         name != pod.metadata.name\n        \
         other.metadata.labels[input.parameters.unique] == pod.metadata.labels[input.parameters.unique]\n        \
         msg := sprintf(\"%v has the same %v\", [name, input.parameters.unique])\n      }\n"
    } else {
        "      violation[{\"msg\": msg}] {\n        label := input.parameters.labels[_]\n        \
         not input.review.object.metadata.labels[label]\n        \
         msg := sprintf(\"label %v is missing\", [label])\n      }\n"
    };
    let kind = kind(number);
    let properties = "labels: {type: array, items: {type: string}}, unique: {type: string}";
    Ok(yaml::value(&format!(
        "apiVersion: templates.gatekeeper.sh/v1\nkind: ConstraintTemplate\n\
         metadata: {{name: {}}}\nspec:\n  crd:\n    spec:\n      names: {{kind: {kind}}}\n      \
         validation: {{openAPIV3Schema: {{type: object, properties: {{{properties}}}}}}}\n  \
         targets:\n  - target: admission.k8s.gatekeeper.sh\n    rego: |\n      package scale{number}\n{rule}",
        kind.to_lowercase()
    ))?)
}

/// A constraint on Pods; it records violations and denies nothing.
pub(crate) fn constraint(number: usize, template: usize) -> Result<Value> {
    Ok(yaml::value(&format!(
        "apiVersion: constraints.gatekeeper.sh/v1beta1\nkind: {}\nmetadata: {{name: scale-{number}}}\n\
         spec:\n  enforcementAction: dryrun\n  match: {{kinds: [{{apiGroups: [''], kinds: [Pod]}}]}}\n  \
         parameters: {{labels: [owner], unique: unique-{number}}}\n",
        kind(template)
    ))?)
}

/// A rule that rejects Pods of its namespace with a label that only the review of the first rule has.
pub(crate) fn modrule(number: usize, namespace: usize, text: &str) -> Result<Value> {
    Ok(yaml::value(&format!(
        "apiVersion: api.kubemod.io/v1beta1\nkind: ModRule\n\
         metadata: {{name: rule-{number}, namespace: team-{namespace}}}\nspec:\n  type: Reject\n  \
         rejectMessage: '{text}'\n  match:\n  - {{select: '$.kind', matchValue: Pod}}\n  \
         - {{select: '$.metadata.labels.reject', matchValue: 'rule-{number}'}}\n"
    ))?)
}

/// A review of a Pod that the first rule rejects.
pub(crate) fn review() -> String {
    r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","operation":"CREATE","name":"x","namespace":"team-0","userInfo":{"username":"u"},"kind":{"group":"","version":"v1","kind":"Pod"},"resource":{"group":"","version":"v1","resource":"pods"},"object":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"x","namespace":"team-0","labels":{"reject":"rule-0","owner":"x"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}"#.to_owned()
}

/// The Pod that a replica is.
pub(crate) fn own_pod(name: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, namespace: gatekeeper-system}}\n\
         spec: {{containers: [{{name: modgate, image: modgate}}], automountServiceAccountToken: false}}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_what_it_should_be() {
        for number in [0, 1, 10, 99_999] {
            let created = pod(number, 3).expect("a Pod");
            let stored = Value::from_json(stored_pod(number, 3).as_bytes()).expect("a Pod");
            assert_eq!(created.get("spec"), stored.get("spec"));
            let labels = created.pointer("/metadata/labels").expect("labels");
            assert_eq!(Some(labels), stored.pointer("/metadata/labels"));
            assert_eq!(labels.get("owner").is_none(), number % BAD == 0);
            Value::from_json(stored_namespace(number).as_bytes()).expect("a Namespace");
            let text = template(number).expect("a template").to_json();
            assert_eq!(text.contains("data.inventory"), number % READS_INVENTORY == 0);
            constraint(number, number).expect("a constraint");
            modrule(number, 0, "no").expect("a rule");
        }
        Value::from_json(review().as_bytes()).expect("a review");
    }
}
