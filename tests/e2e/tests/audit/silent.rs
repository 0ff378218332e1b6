//! Kinds whose API server is away.

use modgate_e2e::{eventually, kubectl, succeeds};
use modgate_testkit::cluster::Cluster;

use super::{KIND, another_audit, constraint, found, read, total};

const DEFINITION: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.silent.example.com}
spec:
  group: silent.example.com
  names: {kind: Thing, plural: things}
  scope: Cluster
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object}}
";

/// An APIService that registers a group, at whose Service no server answers.
const TAKEN_OVER: &str = r#"{"metadata": {"labels": {"kube-aggregator.kubernetes.io/automanaged": null}},
    "spec": {"service": {"name": "nobody", "namespace": "many"}, "insecureSkipTLSVerify": true}}"#;

/// AU-4: an API that does not answer is no reason to say that its objects have no violations.
pub(super) fn an_api_that_does_not_answer(cluster: &Cluster) {
    succeeds(cluster, "create -f -", DEFINITION);
    succeeds(cluster, "wait --for=condition=Established crd things.silent.example.com", "");
    let thing = "apiVersion: silent.example.com/v1\nkind: Thing\nmetadata: {name: thing}\n";
    succeeds(cluster, "create -f -", thing);
    let about = constraint("things-must-have-gk", "Thing", "gatekeeper", "")
        .replace("apiGroups: ['']", "apiGroups: [silent.example.com]");
    succeeds(cluster, "apply -f -", &about);
    found(cluster, "things-must-have-gk", 1);

    let service = "apiservice v1.silent.example.com";
    succeeds(cluster, &format!("patch {service} --type=merge --patch-file=/dev/stdin"), TAKEN_OVER);
    eventually("the group does not answer", || {
        !kubectl(cluster, "get --raw /apis/silent.example.com/v1/things", "").success
    });
    // A client that trusts the present discovery takes the kind for gone.
    eventually("its kinds are not served", || {
        let answer = kubectl(cluster, "get things.silent.example.com", "");
        answer.stderr.contains("the server doesn't have a resource type")
    });
    for _ in 0..3 {
        another_audit(cluster, "things-must-have-gk");
        assert_eq!(total(&read(cluster, "things-must-have-gk")), Some(1), "it is still there");
    }

    // Now it is gone.
    succeeds(cluster, "delete crd things.silent.example.com --wait=false", "");
    succeeds(cluster, &format!("delete {service}"), "");
    found(cluster, "things-must-have-gk", 0);
    succeeds(cluster, &format!("delete {KIND} things-must-have-gk"), "");
}
