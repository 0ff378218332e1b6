//! `modgate compare`: two sets of policies over the same requests.
//!
//! Update the expectations with `SNAPSHOTS=overwrite cargo test -p modgate --test all compare`.

use std::{fs, path::Path, process::Command};

use modgate_value::Value;
use snapbox::{assert_data_eq, str};
use tempfile::TempDir;

const OLD: &str = r#"apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: requiredlabels}
spec:
  crd:
    spec:
      names: {kind: RequiredLabels}
      validation:
        openAPIV3Schema: {type: object, properties: {labels: {type: array, items: {type: string}}}}
  targets:
  - target: admission.k8s.gatekeeper.sh
    rego: |
      package requiredlabels
      violation[{"msg": msg}] {
        missing := {l | l := input.parameters.labels[_]} - {l | input.review.object.metadata.labels[l]}
        count(missing) > 0
        msg := sprintf("add the labels %v", [missing])
      }
---
apiVersion: constraints.gatekeeper.sh/v1beta1
kind: RequiredLabels
metadata: {name: owner}
spec:
  match: {kinds: [{apiGroups: [""], kinds: [Pod, Secret]}]}
  parameters: {labels: [owner]}
---
apiVersion: api.kubemod.io/v1beta1
kind: ModRule
metadata: {name: replicas, namespace: shop}
spec:
  type: Patch
  match: [{select: $.kind, matchValue: Deployment}]
  patch: [{op: add, path: /spec/replicas, value: "3"}]
"#;

const OBJECTS: &str = r#"apiVersion: v1
kind: Pod
metadata: {name: mine, namespace: shop, labels: {owner: me}}
spec: {containers: [{name: web, image: nginx}]}
---
apiVersion: v1
kind: Pod
metadata: {name: ours, namespace: shop, labels: {team: us}}
spec: {containers: [{name: web, image: nginx}], nodeSelector: {disk: ssd}}
---
apiVersion: v1
kind: Pod
metadata: {name: theirs, namespace: back, labels: {app: web}}
spec: {containers: [{name: web, image: nginx}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: api, namespace: shop}
spec: {template: {metadata: {labels: {app: api}}, spec: {containers: [{name: api, image: api}]}}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: same, namespace: shop}
"#;

struct Run {
    stdout: String,
    stderr: String,
    code: Option<i32>,
}

fn folder() -> TempDir {
    let folder = TempDir::new().expect("a folder");
    for name in ["old", "new"] {
        fs::create_dir(folder.path().join(name)).expect("a folder");
    }
    let new = OLD.replace("[owner]", "[team]").replace("\"3\"", "\"5\"");
    fs::write(folder.path().join("old/p.yaml"), OLD).expect("written");
    fs::write(folder.path().join("new/p.yaml"), new).expect("written");
    fs::write(folder.path().join("objects.yaml"), OBJECTS).expect("written");
    folder
}

fn compare(folder: &Path, arguments: &[&str]) -> Run {
    let output = Command::new(env!("CARGO_BIN_EXE_modgate"))
        .arg("compare")
        .args(arguments)
        .current_dir(folder)
        .output()
        .expect("run");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    Run { stdout: text(output.stdout), stderr: text(output.stderr), code: output.status.code() }
}

fn json(folder: &Path, arguments: &[&str]) -> Value {
    let run = compare(folder, &[arguments, &["-o", "json"]].concat());
    Value::from_json(run.stdout.as_bytes()).expect(&run.stderr)
}

#[test]
fn for_people() {
    let run = compare(folder().path(), &["old", "new", "objects.yaml"]);
    assert_data_eq!(run.stderr, "");
    assert_data_eq!(
        run.stdout,
        str![[r#"
allow to deny: 1 request
  namespaces: 1 in shop
  RequiredLabels owner: 1
    such as Pod shop/mine (CREATE, objects.yaml:1:1)
      new: deny: add the labels {"team"}
      | apiVersion: v1
      | kind: Pod
      | metadata:
      |   labels:
      |     owner: me
      |   name: mine

deny to allow: 1 request
  namespaces: 1 in shop
  RequiredLabels owner: 1
    such as Pod shop/ours (CREATE, objects.yaml:6:1)
      old: deny: add the labels {"owner"}
      | apiVersion: v1
      | kind: Pod
      | metadata:
      |   labels:
      |     team: us
      |   name: ours

other messages: 1 request
  namespaces: 1 in back
  RequiredLabels owner: 1
    such as Pod back/theirs (CREATE, objects.yaml:11:1)
      old: deny: add the labels {"owner"}
      new: deny: add the labels {"team"}
      | apiVersion: v1
      | kind: Pod
      | metadata:
      |   name: theirs

other patches: 1 request
  namespaces: 1 in shop
  ModRule shop/replicas: 1
    such as Deployment shop/api (CREATE, objects.yaml:16:1)
      old: patch: [{"op":"add","path":"/spec/replicas","value":3}]
      new: patch: [{"op":"add","path":"/spec/replicas","value":5}]
      | apiVersion: apps/v1
      | kind: Deployment
      | metadata:
      |   name: api

5 requests: 1 decided alike, 1 allow to deny, 1 deny to allow, 1 other messages, 1 other patches

"#]]
    );
    assert_eq!(run.code, Some(0));
}

#[test]
fn for_a_pull_request() {
    let run = compare(folder().path(), &["old", "new", "objects.yaml", "-o", "markdown"]);
    assert_data_eq!(
        run.stdout,
        str![[r#"
5 requests: 1 decided alike, 1 allow to deny, 1 deny to allow, 1 other messages, 1 other patches

| Difference | Policy | Requests | Smallest object |
| --- | --- | ---: | --- |
| allow to deny | RequiredLabels owner | 1 | Pod shop/mine |
| deny to allow | RequiredLabels owner | 1 | Pod shop/ours |
| other messages | RequiredLabels owner | 1 | Pod back/theirs |
| other patches | ModRule shop/replicas | 1 | Deployment shop/api |

<details><summary>allow to deny, RequiredLabels owner: Pod shop/mine</summary>

- new: `deny: add the labels {"team"}`

```yaml
apiVersion: v1
kind: Pod
metadata:
  labels:
    owner: me
  name: mine
```

</details>

<details><summary>deny to allow, RequiredLabels owner: Pod shop/ours</summary>

- old: `deny: add the labels {"owner"}`

```yaml
apiVersion: v1
kind: Pod
metadata:
  labels:
    team: us
  name: ours
```

</details>

<details><summary>other messages, RequiredLabels owner: Pod back/theirs</summary>

- old: `deny: add the labels {"owner"}`
- new: `deny: add the labels {"team"}`

```yaml
apiVersion: v1
kind: Pod
metadata:
  name: theirs
```

</details>

<details><summary>other patches, ModRule shop/replicas: Deployment shop/api</summary>

- old: `patch: [{"op":"add","path":"/spec/replicas","value":3}]`
- new: `patch: [{"op":"add","path":"/spec/replicas","value":5}]`

```yaml
apiVersion: apps/v1
kind: Deployment
metadata:
  name: api
```

</details>

"#]]
    );
}

#[test]
fn the_exit_code_says_what_differs() {
    let folder = folder();
    for (arguments, code) in [
        (&["old", "new", "objects.yaml"][..], 0),
        (&["old", "new", "objects.yaml", "--fail-on", "deny-to-allow"], 1),
        (&["old", "new", "objects.yaml", "--fail-on", "any"], 1),
        (&["old", "old", "objects.yaml", "--fail-on", "any"], 0),
        (&["old", "new", "--operation", "DELETE", "objects.yaml", "--fail-on", "patches"], 0),
        (&["old", "missing", "objects.yaml"], 2),
        (&["old", "new", "missing.yaml"], 2),
        (&["old", "objects.yaml", "objects.yaml"], 2),
    ] {
        let run = compare(folder.path(), arguments);
        assert_eq!(run.code, Some(code), "{arguments:?}: {}", run.stderr);
    }
}

#[test]
fn a_set_does_not_differ_from_itself() {
    let folder = folder();
    // Time and random texts are the same for both.
    let impure = OLD.replace(r#"value: "3""#, "value: '{{ randNumeric 3 }}{{ now | unixEpoch }}'");
    fs::write(folder.path().join("old/p.yaml"), impure).expect("written");
    let found = json(folder.path(), &["old", "old", "--generate", "10000"]);
    assert_eq!(found.get("requests").and_then(Value::as_i64), Some(10_000));
    assert_eq!(found.get("same"), found.get("requests"));
}

#[test]
fn invented_objects_show_every_class() {
    let folder = folder();
    let found = json(folder.path(), &["old", "new", "--generate", "3000"]);
    for (class, count) in
        found.get("differences").and_then(Value::as_object).expect("counts").iter()
    {
        assert!(count.as_i64() > Some(0), "{class}");
    }
}

#[test]
fn revisions_of_git() {
    let folder = folder();
    let git = |arguments: &[&str]| {
        let done = Command::new("git")
            .args(["-c", "user.name=a", "-c", "user.email=a@b.c"])
            .args(arguments)
            .current_dir(folder.path())
            .output()
            .expect("git");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    };
    git(&["init", "-q"]);
    git(&["add", "old"]);
    git(&["commit", "-qm", "policies"]);
    for (revision, allow_to_deny) in [("HEAD:old", 1), ("HEAD:old/p.yaml", 1), ("HEAD:./old", 1)] {
        let found = json(folder.path(), &[revision, "new", "objects.yaml"]);
        let count = found.path(&["differences", "allow-to-deny"]).and_then(Value::as_i64);
        assert_eq!(count, Some(allow_to_deny), "{revision}");
    }
    for wrong in ["HEAD:nothing", "nowhere:old", "--help:x"] {
        let run = compare(folder.path(), &["--", wrong, "new", "objects.yaml"]);
        assert_eq!(run.code, Some(2), "{wrong}: {}", run.stderr);
    }
}

/// An event about Pod `shop/p`, with these members beside.
fn event(verb: &str, members: &str) -> String {
    format!(
        r#"{{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"RequestResponse","stage":"ResponseComplete","auditID":"1","verb":"{verb}","user":{{"username":"me"}},"objectRef":{{"resource":"pods","namespace":"shop","name":"p","apiVersion":"v1"}},"responseStatus":{{"code":200}}{members}}}"#
    )
}

#[test]
fn audit_logs() {
    let folder = folder();
    let pod = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","labels":{"owner":"me"}}}"#;
    let other = pod.replace("owner", "team");
    let status = r#"{"kind":"Status","apiVersion":"v1"}"#;
    let events = [
        // Deleted before anything is known of it.
        event("delete", &format!(r#","responseObject":{status}"#)),
        event("create", &format!(r#","requestObject":{pod},"responseObject":{pod}"#)),
        event("patch", &format!(r#","requestObject":{{}},"responseObject":{other}"#)),
        event("patch", r#","requestObject":{}"#),
        event("update", &format!(r#","requestObject":{pod},"responseObject":{pod}"#)),
        event("delete", &format!(r#","responseObject":{status}"#)),
        event("update", &format!(r#","requestObject":{other}"#)),
        event("get", ""),
        event("create", "").replace("RequestResponse", "Metadata"),
        event("create", r#","annotations":{"audit.k8s.io/truncated":"true"}"#),
        event("deletecollection", ""),
        event("create", "").replace("ResponseComplete", "RequestReceived"),
        event("create", "").replace(r#""name":"p""#, r#""name":"p","subresource":"exec""#),
    ];
    fs::write(folder.path().join("audit.log"), events.join("\n")).expect("written");
    let run = compare(folder.path(), &["old", "new", "audit.log"]);
    assert_data_eq!(run.stderr, "");
    assert_data_eq!(
        run.stdout,
        str![[r#"
allow to deny: 3 requests
  namespaces: 3 in shop
  RequiredLabels owner: 3
    such as Pod shop/p (DELETE, audit.log:6)
      new: deny: add the labels {"team"}
      | apiVersion: v1
      | kind: Pod
      | metadata:
      |   labels:
      |     owner: me
      |   name: p

deny to allow: 2 requests
  namespaces: 2 in shop
  RequiredLabels owner: 2
    such as Pod shop/p (UPDATE, audit.log:3)
      old: deny: add the labels {"owner"}
      | apiVersion: v1
      | kind: Pod
      | metadata:
      |   labels:
      |     team: me
      |   name: p

not replayed
  1: the audit level keeps no objects
  1: the event is truncated
  1: a patch without the patched object
  1: a deletion without the deleted object
  1: a deletion of a collection
  1: a connection without its options

replayed in part
  1: an update without its old object
  1: the object of a patch as it was stored

answered otherwise then
  2: allow to deny by RequiredLabels owner

2 events that admission does not see
5 known answers: `old` gives 3 of them
5 requests: 0 decided alike, 3 allow to deny, 2 deny to allow

"#]]
    );
}

/// Policies of an archive are those of its folder.
#[test]
fn archives() {
    let folder = folder();
    let mut archive = tar::Builder::new(Vec::new());
    archive.append_dir_all("library", folder.path().join("new")).expect("packed");
    let bytes = archive.into_inner().expect("an archive");
    fs::write(folder.path().join("new.tar"), &bytes).expect("written");
    fs::write(folder.path().join("torn.tar"), &bytes[..100]).expect("written");
    let same = json(folder.path(), &["new", "new.tar", "objects.yaml"]);
    assert_eq!(same.get("requests"), same.get("same"), "{same}");
    let torn = compare(folder.path(), &["old", "torn.tar", "objects.yaml"]);
    assert_eq!(torn.code, Some(2));
    assert!(torn.stderr.starts_with("error: "), "{}", torn.stderr);
    let missing = compare(folder.path(), &["cluster:", "new", "--kubeconfig", "missing"]);
    assert_eq!(missing.code, Some(2));
    assert!(missing.stderr.contains("missing"), "{}", missing.stderr);
}

#[test]
fn several_outputs() {
    let folder = folder();
    let run = compare(
        folder.path(),
        &["old", "new", "objects.yaml", "-o", "html=c.html", "-o", "json=c.json", "-o", "text"],
    );
    assert!(run.stdout.starts_with("allow to deny"), "{}{}", run.stdout, run.stderr);
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).expect(name);
    assert!(read("c.html").starts_with("<!doctype html>"));
    let only = compare(folder.path(), &["old", "new", "objects.yaml", "-o", "json"]);
    assert_eq!(read("c.json"), only.stdout);
    let twice = compare(folder.path(), &["old", "new", "objects.yaml", "-o", "json", "-o", "text"]);
    assert_eq!(twice.code, Some(2));
    assert!(
        twice.stderr.contains("two outputs are written to standard output"),
        "{}",
        twice.stderr
    );
    let failed = compare(
        folder.path(),
        &["missing", "new", "objects.yaml", "-o", "json=e.json", "-o", "text"],
    );
    assert_eq!((failed.code, failed.stdout.as_str()), (Some(2), ""));
    assert!(read("e.json").contains("cannot read `missing`"), "{}", read("e.json"));
}

#[test]
fn no_byte_of_a_secret_is_shown() {
    let folder = folder();
    let secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: s, namespace: shop, labels: \
                  {owner: me}, annotations: {kubectl.kubernetes.io/last-applied-configuration: \
                  'c2VjcmV0'}}\ndata: {key: c2VjcmV0}\nstringData: {other: c2VjcmV0}\n";
    fs::write(folder.path().join("secret.yaml"), secret).expect("written");
    let quoting = OLD.replace("[missing])", "[input.review.object])");
    fs::create_dir(folder.path().join("quoting")).expect("a folder");
    fs::write(folder.path().join("quoting/p.yaml"), quoting.replace("[owner]", "[team]"))
        .expect("written");
    for new in ["new", "quoting"] {
        for output in ["text", "json", "yaml", "markdown", "html"] {
            let run = compare(folder.path(), &["old", new, "secret.yaml", "-o", output]);
            assert!(run.stdout.contains("Secret"), "{output}: {}", run.stderr);
            assert!(!run.stdout.contains("c2VjcmV0"), "{new}, {output}: {}", run.stdout);
        }
    }
}
