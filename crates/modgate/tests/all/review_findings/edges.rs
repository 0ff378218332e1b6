//! Connections, reports and documents.

use std::{
    collections::BTreeSet,
    fs,
    io::{ErrorKind, Read as _, Write as _},
    time::{Duration, Instant},
};

use modgate_testkit::{
    client::{self, exchange, head},
    corpus,
    steps::TIMEOUT,
};

use super::{admission_review, text};
use crate::served::{Folder, Serving};

const EMPTY: &str = "apiVersion: v1\nkind: List\nitems: []\n";

/// The preface of HTTP/2, with empty settings.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
const PING: &[u8] = b"\0\0\x08\x06\0\0\0\0\0pingping";

/// The type and the flags of an answer to a PING.
const PONG: [u8; 2] = [6, 1];

/// A client of HTTP/2 that sends PINGs and never opens a stream is cut off, though every PING is answered.
#[test]
fn pings_keep_no_connection_without_a_stream() {
    let folder = Folder::new(&[("policies.yaml", super::RULES)]);
    let server = folder.serve(&[]);
    let mut config =
        client::trusting(rustls::DEFAULT_VERSIONS).expect("versions").with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let mut stream = client::connect(server.address, config).expect("TLS");
    stream.sock.set_read_timeout(Some(Duration::from_millis(100))).expect("set");
    stream.write_all(PREFACE).expect("sent");
    let (began, mut received, mut buffer) = (Instant::now(), Vec::new(), [0; 4096]);
    loop {
        assert!(began.elapsed() < TIMEOUT, "the connection is open after {TIMEOUT:?}");
        if stream.write_all(PING).and_then(|()| stream.flush()).is_err() {
            break;
        }
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => received.extend_from_slice(&buffer[..read]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(_) => break,
        }
    }
    // Frames have a head of nine bytes: length, type, flags and stream.
    let (mut rest, mut pongs) = (&received[..], 0);
    while let [a, b, c, kind, flags, _, _, _, _, after @ ..] = rest {
        let length = usize::from(*a) << 16 | usize::from(*b) << 8 | usize::from(*c);
        pongs += usize::from([*kind, *flags] == PONG);
        rest = after.get(length..).unwrap_or_default();
    }
    assert!(pongs > 3, "the server answered {pongs} PINGs");
    let response = server.review("/validate", &admission_review("tenant", "{}"));
    assert_eq!(text(&response, &["uid"]), "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0");
}

fn status(server: &Serving, method: &str, path: &str) -> u16 {
    let config = client::trusting(rustls::DEFAULT_VERSIONS).expect("versions");
    let stream = client::connect(server.address, config.with_no_client_auth()).expect("TLS");
    exchange(stream, &head(method, path, "Content-Length: 0\r\n")).expect("an answer").status
}

/// The threat model lists the routes that exist, and no others.
#[test]
fn the_threat_model_lists_the_routes() {
    let folder = Folder::new(&[("policies.yaml", EMPTY)]);
    let server = folder.serve(&[]);
    let document = corpus::repository().join("docs/threat-model.md");
    let document = fs::read_to_string(document).expect("the document");
    let rows = document.lines().filter(|line| line.starts_with("| `/"));
    let cells = rows.filter_map(|row| row.split('|').nth(1));
    let listed: BTreeSet<String> = cells
        .flat_map(|cell| cell.split('`').skip(1).step_by(2))
        .filter(|code| code.starts_with('/'))
        .map(str::to_owned)
        .collect();
    assert!(listed.len() > 12, "{listed:?}");
    // Probes have a port of their own, and the report of a shadow is on that of the metrics.
    let elsewhere = ["/healthz", "/readyz", "/shadow"];
    for path in listed.iter().filter(|path| !elsewhere.contains(&path.as_str())) {
        let method = if path == "/v1/dryrun" { "PUT" } else { "POST" };
        let method = if path == "/metrics" { "GET" } else { method };
        assert_ne!(status(&server, method, path), 404, "{path} is not served");
    }
    let others = ["/", "/v1", "/debug/pprof", "/v1/admit/", "/admin", "/config", "/healthz/x"];
    for path in others.into_iter().filter(|path| !listed.contains(*path)) {
        assert_eq!(status(&server, "POST", path), 404, "{path} is served, and not listed");
    }
}

const ODD: &str = r#"
apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: odd}
spec:
  crd: {spec: {names: {kind: Odd}}}
  targets:
  - target: admission.k8s.gatekeeper.sh
    rego: |
      package odd
      violation[{"msg": "a\rb\u0001c\n<d>&\"e\""}] { input.review.object.kind == "Pod" }
"#;

/// Every report in XML escapes texts in the same way.
#[test]
fn reports_in_xml_escape_alike() {
    let constraint = "apiVersion: constraints.gatekeeper.sh/v1beta1\nkind: Odd\n\
                      metadata: {name: odd}\n";
    let suite = "apiVersion: test.gatekeeper.sh/v1alpha1\nkind: Suite\ntests:\n\
                 - {name: t, template: template.yaml, constraint: constraint.yaml,\n   \
                 cases: [{name: c, object: pod.yaml, assertions: [{violations: no}]}]}\n";
    let folder = Folder::new(&[
        ("template.yaml", ODD),
        ("constraint.yaml", constraint),
        ("policies.yaml", &format!("{ODD}---\n{constraint}")),
        ("pod.yaml", "{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: ns}}"),
        ("suite.yaml", suite),
    ]);
    for args in [
        &["review", "-o", "junit", "-f", "policies.yaml", "pod.yaml"][..],
        &["audit", "-o", "junit", "-f", "policies.yaml", "pod.yaml"],
        &["verify", "-o", "junit", "suite.yaml"],
    ] {
        let report = String::from_utf8(folder.run(args).stdout).expect("UTF-8");
        let expected = "a&#13;b\u{fffd}c&#10;&lt;d&gt;&amp;&quot;e&quot;";
        assert!(report.contains(expected), "{args:?}: {report}");
        let raw = report.contains(['\r', '\u{1}']) || report.contains("<d>");
        assert!(!raw, "{args:?}: {report}");
    }
}

/// A rule of a tenant changes what others create in its namespace, bindings of roles included, and
/// nothing elsewhere: what `docs/permissions.md` says that the right to write ModRules amounts to.
#[test]
fn a_tenants_rule_reaches_bindings_of_its_namespace_only() {
    let rule = "apiVersion: api.kubemod.io/v1beta1\nkind: ModRule\n\
                metadata: {name: join, namespace: tenant}\nspec:\n  type: Patch\n  match:\n  \
                - {select: '$.kind', matchValues: [RoleBinding, ClusterRoleBinding, Namespace]}\n  \
                patch:\n  - {op: add, path: /metadata/labels, value: '{\"joined\": \"true\"}'}\n";
    let folder = Folder::new(&[("policies.yaml", rule)]);
    let server = folder.serve(&[]);
    for (kind, plural, scope, patched) in [
        ("RoleBinding", "rolebindings", r#""namespace": "tenant","#, true),
        ("RoleBinding", "rolebindings", r#""namespace": "other","#, false),
        ("ClusterRoleBinding", "clusterrolebindings", "", false),
    ] {
        let review = format!(
            r#"{{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {{
                "uid": "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0", "operation": "CREATE", "name": "b", {scope}
                "kind": {{"group": "rbac.authorization.k8s.io", "version": "v1", "kind": "{kind}"}},
                "resource": {{"group": "rbac.authorization.k8s.io", "version": "v1", "resource": "{plural}"}},
                "userInfo": {{"username": "admin"}}, "object": {{"apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "{kind}", "metadata": {{{scope} "name": "b"}}, "subjects": [],
                "roleRef": {{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "admin"}}}}}}}}"#
        );
        let response = server.review("/dragnet-webhook", &review);
        assert_eq!(text(&response, &["patch"]).is_empty(), !patched, "{kind} {scope}: {response}");
    }
    let namespace = r#"{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "tenant"}}"#;
    let review = admission_review("tenant", namespace).replace("\"Pod\"", "\"Namespace\"");
    let response = server.review("/dragnet-webhook", &review.replace("\"pods\"", "\"namespaces\""));
    assert_eq!(text(&response, &["patch"]), "", "a Namespace is not in itself");
}

/// A source as long as its language allows is not quoted whole: neither where it fails, nor where it does not
/// compile.
#[test]
fn errors_quote_no_more_than_a_part_of_a_source() {
    let long = "x".repeat(60_000);
    let cel = |expression: &str| {
        let expression = expression.replace('@', &long);
        format!(
            r#"{{"apiVersion": "templates.gatekeeper.sh/v1", "kind": "ConstraintTemplate",
            "metadata": {{"name": "long"}}, "spec": {{"crd": {{"spec": {{"names": {{"kind": "Long"}}}}}},
            "targets": [{{"target": "admission.k8s.gatekeeper.sh", "code": [{{"engine": "K8sNativeValidation",
            "source": {{"validations": [{{"expression": "{expression}"}}]}}}}]}}]}}}}"#
        )
    };
    let rego = format!(
        r#"{{"apiVersion": "templates.gatekeeper.sh/v1", "kind": "ConstraintTemplate",
        "metadata": {{"name": "long"}}, "spec": {{"crd": {{"spec": {{"names": {{"kind": "Long"}}}}}},
        "targets": [{{"target": "admission.k8s.gatekeeper.sh", "rego": "package long violation[ {}"}}]}}}}"#,
        long.repeat(15)
    );
    let rule = format!(
        r#"{{"apiVersion": "api.kubemod.io/v1beta1", "kind": "ModRule", "metadata": {{"name": "long",
        "namespace": "ns"}}, "spec": {{"type": "Reject", "match": [{{"select": "$.{long}["}}]}}}}"#
    );
    let constraint = r#"{"apiVersion": "constraints.gatekeeper.sh/v1beta1", "kind": "Long",
        "metadata": {"name": "long"}}"#;
    let fails = format!("{}\n---\n{constraint}", cel("'@' == string(1 / 0)"));
    let does_not_compile = cel("'@' == 1");
    let pod =
        r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "ns"}}"#;
    for policies in [&fails, &does_not_compile, &rego, &rule] {
        let folder = Folder::new(&[("policies.yaml", policies.as_str()), ("pod.yaml", pod)]);
        for args in [
            &["review", "-f", "policies.yaml", "pod.yaml"][..],
            &["review", "-o", "json", "-f", "policies.yaml", "pod.yaml"],
            &["lint", "policies.yaml"],
        ] {
            let output = folder.run(args);
            let length = output.stdout.len() + output.stderr.len();
            let shown =
                String::from_utf8_lossy(&output.stderr).chars().take(200).collect::<String>();
            if args[0] == "review" {
                assert_ne!(output.status.code(), Some(0), "{args:?}: {shown}");
            }
            assert!((20..70_000).contains(&length), "{args:?}: {length} bytes: {shown}");
        }
    }
    // The same through the webhooks: a template and a rule when they are written, and the error of a policy.
    let folder = Folder::new(&[("policies.yaml", fails.as_str())]);
    let server = folder.serve(&["--deny-invalid-templates"]);
    for (route, object) in [
        ("/v1/admit", pod),
        ("/v1/admit", &does_not_compile),
        ("/v1/admit", &rego),
        ("/validate-api-kubemod-io-v1beta1-modrule", &rule),
    ] {
        let mut review = admission_review("ns", object);
        if object.contains("ConstraintTemplate") {
            review = review
                .replace(
                    r#"{"group": "", "version": "v1", "kind": "Pod"}"#,
                    r#"{"group": "templates.gatekeeper.sh", "version": "v1", "kind": "ConstraintTemplate"}"#,
                )
                .replace(
                    r#"{"group": "", "version": "v1", "resource": "pods"}"#,
                    r#"{"group": "templates.gatekeeper.sh", "version": "v1", "resource": "constrainttemplates"}"#,
                );
        }
        let response = server.review(route, &review);
        // KubeMod puts the text into the reason.
        let message =
            ["message", "reason"].map(|member| text(&response, &["status", member])).concat();
        let shown: String = message.chars().take(200).collect();
        assert_eq!(response.get("allowed"), Some(&false.into()), "{route}: {shown}");
        assert!((10..70_000).contains(&message.len()), "{route}: {}: {shown}", message.len());
    }
}
