//! The live page of `modgate serve`, and the verbs that ask it: `why`, `status`, `ui`.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Command, Output, Stdio},
    thread,
};

use modgate_testkit::client::{self, free_address};
use serde_json::{Value, json};

use crate::{
    program::{errors, out},
    review_findings::admission_review,
    served::{Folder, Serving},
};

/// Denies Pods with a label, and quotes its value; and one that does not load.
const POLICIES: &str = "apiVersion: api.kubemod.io/v1beta1
kind: ModRule
metadata: {name: no-bad, namespace: shop}
spec:
  type: Reject
  rejectMessage: 'bad is {{ .Target.metadata.labels.bad }}'
  match: [{select: '$.kind', matchValue: Pod}, {select: '$.metadata.labels.bad'}]
---
apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: nobad}
spec:
  crd: {spec: {names: {kind: NoBad}}}
  targets:
  - target: admission.k8s.gatekeeper.sh
    code:
    - engine: K8sNativeValidation
      source:
        validations:
        - expression: \"!has(object.metadata.labels) || !('bad' in object.metadata.labels)\"
          message: there is a bad label
---
apiVersion: constraints.gatekeeper.sh/v1beta1
kind: NoBad
metadata: {name: bank, annotations: {modgate.sh/owner: team bank}}
spec: {match: {namespaces: [bank]}}
";
const BROKEN: &str = "---
apiVersion: api.kubemod.io/v1beta1
kind: ModRule
metadata: {name: broken, namespace: shop}
spec: {type: Reject, match: [{select: '$.kind['}]}
";

/// A text that a user can choose, and that a page or a terminal must not obey.
const MARKUP: &str = "<img src=x onerror=alert(1)>\u{1b}[2J</script>";

/// A server with its live page.
struct Live {
    folder: Folder,
    serving: Serving,
    page: SocketAddr,
}

impl Live {
    fn start(policies: &str) -> Self {
        let folder = Folder::new(&[("policies.yaml", policies)]);
        let page = free_address().expect("an address");
        let serving = folder.serve(&["--ui-address", &page.to_string()]);
        Self { folder, serving, page }
    }

    /// A webhook decides about a Pod.
    fn admit(&self, route: &str, namespace: &str, name: &str, labels: Value) -> bool {
        let object = json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": namespace, "labels": labels}});
        let review = admission_review(namespace, &object.to_string());
        let mut review: Value = serde_json::from_str(&review).expect("JSON");
        review["request"]["name"] = json!(name);
        let response = self.serving.review(route, &review.to_string());
        response.get("allowed").and_then(modgate_value::Value::as_bool).expect("an answer")
    }

    fn get(&self, path: &str) -> (u16, String) {
        let answer = client::get(self.page, path).expect("an answer");
        (answer.status, answer.body)
    }

    fn json(&self, path: &str) -> Value {
        let (status, body) = self.get(path);
        assert_eq!(status, 200, "{path}: {body}");
        serde_json::from_str(&body).expect("JSON")
    }

    /// A verb that asks the page.
    fn ask(&self, args: &[&str]) -> Output {
        let address = format!("http://{}", self.page);
        self.folder.run(&[args, &["--address", &address]].concat())
    }
}

#[test]
fn the_page_and_its_api_are_served() {
    let live = Live::start(&format!("{POLICIES}{BROKEN}"));
    let (status, page) = live.get("/");
    assert_eq!((status, page.starts_with("<!doctype html>")), (200, true), "{page}");
    assert!(!live.admit("/dragnet-webhook", "shop", "web", json!({"bad": MARKUP})));
    assert!(live.admit("/dragnet-webhook", "shop", "good", json!({})));

    let status = live.json("/api/v1/status");
    assert_eq!(status["source"], "files");
    assert_eq!(status["replica"]["ready"], true);
    assert_eq!(status["policies"], json!({"inForce": 3, "failed": 1}));
    assert_eq!(status["decisions"]["counts"]["denied"], 1);
    assert_eq!(status["decisions"]["counts"]["allowed"], 1);
    let policies = live.json("/api/v1/policies");
    let of = |name: &str| {
        let all = policies["items"].as_array().expect("policies");
        all.iter().find(|it| it["name"] == name).unwrap_or_else(|| panic!("{name}: {policies}"))
    };
    assert_eq!(of("no-bad")["denials"], 1);
    assert_eq!(of("broken")["status"], "failed");
    let listed = live.json("/api/v1/decisions?namespace=shop&outcome=denied");
    let denial = &listed["items"][0];
    assert_eq!(denial["name"], "web");
    // Markup stays text: the document is JSON, which browsers do not show as a page.
    assert!(denial["message"].as_str().expect("a text").contains(MARKUP), "{denial}");
    let answer = client::get(live.page, "/api/v1/decisions").expect("an answer");
    let head = answer.head.to_lowercase();
    assert!(head.contains("content-type: application/json"), "{head}");
    assert!(head.contains("x-content-type-options: nosniff"), "{head}");
    let details = live.json(&format!("/api/v1/decisions/{}", denial["id"]));
    assert_eq!(details["result"]["explanation"]["rules"][0]["outcome"]["result"], "rejected");
    assert_eq!(details["decision"]["user"], "someone");

    // The page shows; it does not change, nor answer other names.
    let ask = |text: &str| {
        let stream = TcpStream::connect(live.page).expect("connected");
        client::exchange(stream, text).expect("an answer").status
    };
    assert_eq!(ask(&client::post("/api/v1/policies", "{}")), 405);
    let foreign = client::head("GET", "/api/v1/decisions", "").replace("localhost", "evil.example");
    assert_eq!(ask(&foreign), 403);
}

/// Without users, an address that others reach would show them everything.
#[test]
fn with_policies_of_files_the_address_is_of_this_machine() {
    let folder = Folder::new(&[("policies.yaml", POLICIES)]);
    let address = free_address().expect("an address").to_string();
    let output = folder.run(&[
        "serve",
        "--policies",
        "policies.yaml",
        "--address",
        &address,
        "--ui-address",
        "0.0.0.0:0",
    ]);
    assert_eq!(output.status.code(), Some(2), "{}", errors(&output));
    assert!(errors(&output).contains("must be an address of this machine"), "{}", errors(&output));
}

#[test]
fn why_explains_denials() {
    let live = Live::start(POLICIES);
    let none = live.ask(&["why", "-n", "shop"]);
    assert_eq!(none.status.code(), Some(2));
    assert!(errors(&none).contains("remembers no denial in namespace shop"), "{}", errors(&none));

    // At once: the answer to the question before is not that to this one.
    assert!(!live.admit("/dragnet-webhook", "shop", "web", json!({"bad": MARKUP})));
    let why = live.ask(&["why", "-n", "shop"]);
    assert_eq!(why.status.code(), Some(1), "{}", errors(&why));
    let text = out(&why);
    for part in [
        "denied: Pod shop/web, CREATE by someone at ",
        "ModRule/shop/no-bad (reject)",
        "<img src=x onerror=alert(1)>",
        "yes      $.metadata.labels.bad",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    assert!(!text.contains('\u{1b}'), "nothing steers the terminal: {text:?}");

    // The newest, of any webhook, and that of an object.
    assert!(!live.admit("/v1/admit", "bank", "safe", json!({"bad": "x"})));
    assert!(!live.admit("/v1/admit", "bank", "vault", json!({"bad": "x"})));
    let newest = out(&live.ask(&["why", "-n", "bank"]));
    assert!(newest.contains("denied: Pod bank/vault"), "{newest}");
    for part in ["NoBad/bank (deny)", "there is a bad label", "'bad' in object.metadata.labels"] {
        assert!(newest.contains(part), "{part}\n{newest}");
    }
    let named = live.ask(&["why", "Pod/safe", "-n", "bank", "-o", "json"]);
    assert_eq!(named.status.code(), Some(1));
    let document: Value = serde_json::from_str(&out(&named)).expect("JSON");
    assert_eq!(document["decision"]["name"], "safe");
    assert_eq!(document["changed"], false);

    for kind in ["pod", "pods", "po", "PO"] {
        let named = live.ask(&["why", &format!("{kind}/safe"), "-n", "bank"]);
        assert!(out(&named).contains("denied: Pod bank/safe"), "{kind}: {}", errors(&named));
    }

    // Of an object that was allowed there is no denial; as a file it is evaluated.
    assert!(live.admit("/v1/admit", "bank", "plain", json!({})));
    let allowed = live.ask(&["why", "Pod/plain", "-n", "bank"]);
    assert_eq!(allowed.status.code(), Some(2));
    assert!(errors(&allowed).contains("remembers no denial of Pod plain"), "{}", errors(&allowed));
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: plain}\n";
    live.folder.write("plain.yaml", pod);
    live.folder
        .write("bad.yaml", &format!("{pod}---\n{}", pod.replace("plain}", "b, labels: {bad: x}}")));
    let tried = live.ask(&["why", "-f", "plain.yaml", "-n", "bank"]);
    assert_eq!((tried.status.code(), out(&tried).trim()), (Some(0), "allowed: Pod bank/plain"));
    let tried = live.ask(&["why", "-f", "bad.yaml", "-n", "bank"]);
    assert_eq!(tried.status.code(), Some(1));
    for part in ["allowed: Pod bank/plain\n", "denied: Pod bank/b\n", "there is a bad label"] {
        assert!(out(&tried).contains(part), "{part}\n{}", out(&tried));
    }
    // What is tried leaves no decision behind.
    assert!(out(&live.ask(&["why", "-n", "bank"])).contains("denied: Pod bank/vault"));

    // Many denials elsewhere do not hide one.
    for _ in 0..400 {
        assert!(!live.admit("/v1/admit", "bank", "flood", json!({"bad": "x"})));
    }
    let after = out(&live.ask(&["why", "-n", "shop"]));
    assert!(after.contains("denied: Pod shop/web"), "{after}");
}

#[test]
fn what_cannot_be_asked_is_an_error() {
    let live = Live::start(POLICIES);
    live.folder.write("broken.yaml", "a: [");
    let address = format!("http://{}", live.page);
    let webhooks = format!("http://{}", live.serving.address);
    let nobody = free_address().expect("an address");
    let nobody = format!("http://{nobody}");
    for (args, expected) in [
        (vec!["why", "--address", &nobody], "does not answer"),
        (vec!["status", "--address", &nobody], "does not answer"),
        (vec!["why", "--address", &webhooks], "does not answer"),
        (vec!["why", "--address", "localhost:1"], "must begin with http:// or https://"),
        (vec!["why", "pod", "--address", &address], "give the object as kind/name"),
        (vec!["why", "-f", "missing.yaml", "--address", &address], "cannot read `missing.yaml`"),
        (vec!["why", "-f", "broken.yaml", "--address", &address], "line 1"),
    ] {
        let output = live.folder.run(&args);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", errors(&output));
        assert!(errors(&output).contains(expected), "{args:?}: {}", errors(&output));
    }
}

/// A page of a cluster refuses a wrong token; a proxy in front of a page has words of its own.
#[test]
fn what_a_page_refuses_is_said_in_its_words() {
    let folder = Folder::new(&[]);
    let refusing = |token: &str| -> (u16, String) {
        match token {
            "Bearer right" => (200, json!({"items": [], "newestId": 0}).to_string()),
            "Bearer proxied" => (502, "<html>bad gateway</html>".to_owned()),
            _ => (
                401,
                json!({"code": 401, "error": "the cluster does not accept this token\u{1b}[2J"})
                    .to_string(),
            ),
        }
    };
    let address = server(move |head, _| refusing(header(head, "authorization")));
    let address = format!("http://{address}");
    for (token, expected) in [
        ("right", "remembers no denial"),
        ("wrong", "the cluster does not accept this token\\u{1b}[2J"),
        ("proxied", "answers 502 Bad Gateway"),
        ("no\ntoken", "the token has characters that no token has"),
    ] {
        let output = folder.run(&["why", "--address", &address, "--token", token]);
        assert_eq!(output.status.code(), Some(2), "{token}");
        assert!(errors(&output).contains(expected), "{token}: {}", errors(&output));
    }
}

#[test]
fn status_says_what_is_wrong() {
    let live = Live::start(POLICIES);
    let good = live.ask(&["status"]);
    assert_eq!(good.status.code(), Some(0), "{}{}", out(&good), errors(&good));
    for part in ["policies of files", "3 in force, 0 do not load", "certificate  until "] {
        assert!(out(&good).contains(part), "{part}\n{}", out(&good));
    }
    let broken = Live::start(&format!("{POLICIES}{BROKEN}"));
    let output = broken.ask(&["status"]);
    assert_eq!(output.status.code(), Some(1));
    for part in ["3 in force, 1 do not load", "ModRule/shop/broken: ", "1 policy does not load"] {
        assert!(out(&output).contains(part), "{part}\n{}", out(&output));
    }
    let document: Value =
        serde_json::from_str(&out(&broken.ask(&["status", "-o", "json"]))).expect("JSON");
    assert_eq!(document["failedPolicies"][0]["name"], "broken");
}

/// The value of a header; empty if there is none.
fn header<'h>(head: &'h str, name: &str) -> &'h str {
    let lines = head.lines().filter_map(|line| line.split_once(':'));
    let mut values = lines.filter(|(known, _)| known.eq_ignore_ascii_case(name));
    values.next().map_or("", |(_, value)| value.trim())
}

/// A server of plain HTTP on the loopback interface: `answer` gets the head and the body of each request.
fn server(
    answer: impl Fn(&str, &str) -> (u16, String) + Send + Sync + Clone + 'static,
) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("an address");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let answer = answer.clone();
            thread::spawn(move || serve(stream, &answer));
        }
    });
    address
}

fn serve(stream: TcpStream, answer: &impl Fn(&str, &str) -> (u16, String)) {
    let mut reader = BufReader::new(stream);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            match reader.read_line(&mut head) {
                Ok(read) if read > 0 => {}
                _ => return,
            }
        }
        let length = header(&head, "content-length").parse().unwrap_or(0);
        let mut body = vec![0; length];
        if std::io::Read::read_exact(&mut reader, &mut body).is_err() {
            return;
        }
        let (status, body) = answer(&head, &String::from_utf8_lossy(&body));
        let length = body.len();
        let text = format!(
            "HTTP/1.1 {status} x\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        if reader.get_mut().write_all(text.as_bytes()).is_err() {
            return;
        }
    }
}

/// An installation as an API server shows it: two Pods that are ready, the second of which leads, and one that is not.
fn installation(head: &str, body: &str) -> (u16, String) {
    let pod = |name: &str, ready: &str| {
        json!({"metadata": {"name": name, "namespace": "gatekeeper-system"},
            "status": {"conditions": [{"type": "Ready", "status": ready}]}})
    };
    let path = head.split(' ').nth(1).unwrap_or_default();
    let path = path.split('?').next().unwrap_or_default();
    let found = match path.strip_prefix("/api/v1/namespaces/gatekeeper-system/") {
        Some("pods") => json!({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items":
            [pod("modgate-1", "True"), pod("modgate-2", "True"), pod("modgate-3", "False")]}),
        Some("serviceaccounts/modgate-viewer/token") => {
            assert!(body.contains("TokenRequest"), "{body}");
            json!({"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "metadata": {},
                "spec": {"audiences": []},
                "status": {"token": "made", "expirationTimestamp": "2099-01-01T00:00:00Z"}})
        }
        _ if path.ends_with("/leases/modgate") => {
            json!({"kind": "Lease", "apiVersion": "coordination.k8s.io/v1",
            "metadata": {"name": "modgate"}, "spec": {"holderIdentity": "modgate-2"}})
        }
        _ => {
            return (
                404,
                json!({"kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404})
                    .to_string(),
            );
        }
    };
    (200, found.to_string())
}

/// A folder with a kubeconfig of an installation, and a program in place of kubectl in front of `PATH`.
struct Forwarding {
    folder: Folder,
}

impl Forwarding {
    /// `script` is what kubectl does after it has noted its arguments.
    fn new(script: &str) -> Self {
        let server = server(installation);
        let kubeconfig = json!({"apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": format!("http://{server}")}}],
            "users": [{"name": "u", "user": {}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u", "namespace": "shop"}}]});
        let folder = Folder::new(&[("kubeconfig", &kubeconfig.to_string())]);
        let kubectl = folder.path().join("kubectl");
        let noted = folder.path().join("arguments");
        folder.write(
            "kubectl",
            &format!("#!/bin/sh\necho \"$@\" >> '{}'\n{script}\n", noted.display()),
        );
        fs::set_permissions(&kubectl, fs::Permissions::from_mode(0o755)).expect("executable");
        Self { folder }
    }

    fn command(&self, args: &[&str]) -> Command {
        let all = [args, &["--kubeconfig", "kubeconfig"]].concat();
        let mut command = self.folder.command(&all);
        command.env_remove("KUBECTL").env("PATH", path_with(self.folder.path()));
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().expect("modgate")
    }

    /// The arguments of each kubectl so far, sorted.
    fn arguments(&self) -> Vec<String> {
        let text = fs::read_to_string(self.folder.path().join("arguments")).unwrap_or_default();
        let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    }
}

/// The line with which kubectl says which port it forwards, and the wait that follows.
fn forwards(to: SocketAddr) -> String {
    format!("echo 'Forwarding from 127.0.0.1:{} -> 8088'\nexec sleep 600", to.port())
}

#[test]
fn pods_are_asked_through_kubectl() {
    let live = Live::start(POLICIES);
    assert!(!live.admit("/dragnet-webhook", "shop", "web", json!({"bad": "x"})));
    let forwarding = Forwarding::new(&forwards(live.page));
    let why = forwarding.run(&["why", "-n", "shop"]);
    assert_eq!(why.status.code(), Some(1), "{}", errors(&why));
    assert!(out(&why).contains("denied: Pod shop/web"), "{}", out(&why));
    let line = |pod: u8| {
        format!(
            "--kubeconfig kubeconfig --namespace gatekeeper-system port-forward --address 127.0.0.1 \
             pod/modgate-{pod} :8088"
        )
    };
    assert_eq!(forwarding.arguments(), [line(1), line(2)], "all that are ready");

    // Without a namespace, that of the context counts, as for kubectl.
    let here = Forwarding::new(&forwards(live.page)).run(&["why"]);
    assert_eq!((here.status.code(), out(&here)), (Some(1), out(&why)), "{}", errors(&here));

    // `status` asks the Pod that leads.
    let forwarding = Forwarding::new(&forwards(live.page));
    let status = forwarding.run(&["status", "--context", "c", "--modgate-port", "9000"]);
    assert_eq!(status.status.code(), Some(0), "{}", errors(&status));
    let expected =
        line(2).replace("--namespace", "--context c --namespace").replace("8088", "9000");
    assert_eq!(forwarding.arguments(), [expected]);
}

#[test]
fn the_page_of_the_leader_is_forwarded() {
    let live = Live::start(POLICIES);
    // Ends as kubectl does when it is told to.
    let forwarding =
        Forwarding::new(&format!("echo 'Forwarding from 127.0.0.1:{} -> 8088'", live.page.port()));
    let ui = forwarding.run(&["ui", "--no-open", "--port", "7777"]);
    assert_eq!(ui.status.code(), Some(0), "{}", errors(&ui));
    // The kubeconfig has no token; that of the ServiceAccount stands where browsers send it to no server.
    assert_eq!(out(&ui), format!("http://{}/#token=made\n", live.page));
    assert!(errors(&ui).contains("this is Pod modgate-2"), "{}", errors(&ui));
    assert!(forwarding.arguments()[0].ends_with("pod/modgate-2 7777:8088"));

    assert!(errors(&ui).contains("do not share it"), "{}", errors(&ui));
    // Without a token, as of policies of files, nothing is to be kept secret.
    let address = format!("http://{}/", live.page);
    let plain = forwarding.run(&["ui", "--no-open", "--address", &address]);
    assert_eq!((out(&plain), errors(&plain)), (format!("{address}\n"), String::new()));

    let wrong = forwarding.run(&["ui", "--no-open", "--address", "127.0.0.1:8088"]);
    assert_eq!((wrong.status.code(), out(&wrong)), (Some(2), String::new()), "{}", errors(&wrong));

    // With a browser, the address goes to the program that opens it.
    let browser = forwarding.folder.path().join("xdg-open");
    let opened = forwarding.folder.path().join("opened");
    fs::write(&browser, format!("#!/bin/sh\nprintf '%s' \"$1\" > '{}'\n", opened.display()))
        .expect("written");
    fs::set_permissions(&browser, fs::Permissions::from_mode(0o755)).expect("executable");
    let output = forwarding.run(&["ui", "--token", "mine"]);
    assert_eq!(
        (output.status.code(), out(&output)),
        (Some(0), String::new()),
        "{}",
        errors(&output)
    );
    let address = fs::read_to_string(opened).expect("opened");
    assert_eq!(address, format!("http://{}/#token=mine", live.page));
}

fn path_with(folder: &Path) -> std::ffi::OsString {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let all = std::iter::once(folder.to_owned()).chain(std::env::split_paths(&path));
    std::env::join_paths(all).expect("a path")
}

#[test]
fn failures_of_kubectl_are_told() {
    let failing = "echo 'error: pods \"modgate-2\" is forbidden' >&2\nexit 1";
    for (script, verb, expected) in [
        (failing, "ui", "kubectl forwards no port: error: pods \"modgate-2\" is forbidden"),
        (failing, "status", "kubectl forwards no port: error: pods"),
        (failing, "why", "kubectl forwards no port: error: pods"),
        ("exit 0", "status", "kubectl forwards no port: it does not say why"),
        ("echo 'Something else'; exec sleep 600", "status", "kubectl forwards no port"),
        (
            "echo 'Forwarding from 127.0.0.1:1 -> 8088'\necho 'error: lost connection to pod' >&2\nexit 1",
            "ui",
            "kubectl has ended the forwarding: error: lost connection to pod",
        ),
    ] {
        let forwarding = Forwarding::new(script);
        let more: &[&str] = if verb == "ui" { &["--no-open"] } else { &[] };
        let output = forwarding.run(&[&[verb], more].concat());
        assert_eq!(output.status.code(), Some(2), "{verb}: {}", errors(&output));
        assert!(errors(&output).contains(expected), "{verb}: {}", errors(&output));
    }
    let forwarding = Forwarding::new("");
    let mut command = forwarding.command(&["status"]);
    let output = command.env("KUBECTL", "/nowhere/kubectl").output().expect("modgate");
    assert_eq!(output.status.code(), Some(2));
    assert!(errors(&output).contains("cannot run `/nowhere/kubectl`"), "{}", errors(&output));
}

/// kubectl ends with modgate: else its port would stay open.
#[test]
fn the_forwarding_ends_with_modgate() {
    let live = Live::start(POLICIES);
    let forwarding = Forwarding::new(&format!("echo $$ > pid\n{}", forwards(live.page)));
    let status = forwarding.run(&["status"]);
    assert_eq!(status.status.code(), Some(0), "{}", errors(&status));
    let id = fs::read_to_string(forwarding.folder.path().join("pid")).expect("started");
    let running = Command::new("kill").args(["-0", id.trim()]).stderr(Stdio::null()).status();
    assert!(!running.expect("kill").success(), "process {id} still runs");
}

/// A wrong address, or a proxy that answers for modgate, must not pass for "the policies allow it".
#[test]
fn an_answer_that_is_not_modgates_is_an_error() {
    let folder = Folder::new(&[(
        "pod.yaml",
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: a, image: b}]}\n",
    )]);
    let results =
        |explanation: &str| format!(r#"{{"results": [{{"explanation": {explanation}}}]}}"#);
    for (answer, code, part) in [
        ("{}".to_owned(), 2, "is not modgate: its answer to /api/v1/"),
        ("[]".to_owned(), 2, "is not modgate"),
        ("null".to_owned(), 2, "is not modgate"),
        ("<html>".to_owned(), 2, "answers no JSON"),
        (r#"{"results": [], "findings": []}"#.to_owned(), 2, "says nothing about the objects"),
        (r#"{"results": {}}"#.to_owned(), 2, "says nothing about the objects"),
        (results("{}"), 1, ""),
        (results(r#"{"allowed": "true"}"#), 1, ""),
        (results(r#"{"allowed": true}"#), 0, ""),
    ] {
        let address = server({
            let answer = answer.clone();
            move |_, _| (200, answer.clone())
        });
        let address = format!("http://{address}");
        let modgate =
            |arguments: &[&str]| folder.run(&[arguments, &["--address", &address]].concat());
        let output = modgate(&["why", "-f", "pod.yaml"]);
        assert_eq!(output.status.code(), Some(code), "{answer}: {}", errors(&output));
        assert!(errors(&output).contains(part), "{answer}: {}", errors(&output));
        if code != 0 {
            for arguments in [&["status"][..], &["why", "-n", "shop"]] {
                let output = modgate(arguments);
                assert_eq!(output.status.code(), Some(2), "{answer}: {}", errors(&output));
            }
        }
    }
}
