//! `modgate probe`.

use std::{fs, io::Write as _, net::TcpListener, thread};

use crate::{
    program::{errors, out},
    served::Folder,
};

const POLICIES: &str = "
apiVersion: api.kubemod.io/v1beta1
kind: ModRule
metadata: {name: refuse, namespace: shop}
spec:
  type: Reject
  rejectMessage: not here
  match: [{select: '$.kind', matchValue: ConfigMap}]
";

#[test]
fn webhooks_that_answer_and_what_does_not() {
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).expect("made");
    let other = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).expect("made");
    let folder = Folder::new(&[
        ("policies.yaml", POLICIES),
        ("tls.crt", &made.cert.pem()),
        ("tls.key", &made.signing_key.serialize_pem()),
        ("other.crt", &other.cert.pem()),
        ("empty.crt", ""),
    ]);
    let serving = folder.serve(&["--cert", "tls.crt", "--key", "tls.key"]);
    let url = |path: &str| format!("https://{}{path}", serving.address);
    let (admit, dragnet, nowhere) = (url("/v1/admit"), url("/dragnet-webhook"), url("/nowhere"));
    let probe = |args: &[&str]| folder.run(&[&["probe", "--timeout", "1s"], args].concat());

    let answered = probe(&["--ca", "tls.crt", "-n", "shop", &admit, &dragnet]);
    assert!(answered.status.success(), "{}", errors(&answered));
    let printed = out(&answered);
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(lines[0], format!("{admit} answers: allowed"));
    // An answer is an answer, whatever it decides.
    assert!(lines[1].starts_with(&format!("{dragnet} answers: denied: ")), "{printed}");
    assert!(lines[1].contains("not here"), "{printed}");

    // Every webhook is asked.
    let missing = probe(&["--ca", "tls.crt", &nowhere, &admit]);
    assert_eq!(missing.status.code(), Some(1));
    assert_eq!(out(&missing), format!("{admit} answers: allowed\n"));
    let said = errors(&missing);
    assert!(said.contains("/nowhere does not answer within 1 s: HTTP status 404"), "{said}");
    assert!(said.contains("not one of modgate's webhooks"), "{said}");

    let untrusted = probe(&["--ca", "other.crt", &admit]);
    assert_eq!(untrusted.status.code(), Some(1));
    assert!(errors(&untrusted).contains("; compare its certificate with `--ca`"));

    // Nothing listens, and something else does.
    let closed = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("a port");
    let closed = probe(&["--ca", "tls.crt", &format!("https://{closed}/v1/admit")]);
    assert_eq!(closed.status.code(), Some(1));
    assert!(errors(&closed).contains("no Pod is ready, or a NetworkPolicy"), "{}", errors(&closed));
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let plain = format!("https://{}/v1/admit", listener.local_addr().expect("a port"));
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi");
        }
    });
    assert_eq!(probe(&["--ca", "tls.crt", &plain]).status.code(), Some(1));

    // What cannot be asked at all.
    for (args, expected) in [
        (&["--ca", "empty.crt", &admit][..], "`empty.crt` has no certificate"),
        (&["--ca", "none.crt", &admit], "cannot read `none.crt`"),
        (&["http://127.0.0.1/v1/admit"], "expected `https://HOST/PATH`"),
        (&["https://127.0.0.1"], "expected `https://HOST/PATH`"),
        (&[], "required"),
    ] {
        let refused = probe(args);
        assert_eq!(refused.status.code(), Some(2), "{args:?}");
        assert!(errors(&refused).contains(expected), "{args:?}: {}", errors(&refused));
    }
}

/// It waits for a server that comes later, and for authorities that are renewed.
#[test]
fn it_waits() {
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).expect("made");
    let other = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).expect("made");
    let folder = Folder::new(&[
        ("policies.yaml", POLICIES),
        ("tls.crt", &made.cert.pem()),
        ("tls.key", &made.signing_key.serialize_pem()),
        ("ca.crt", &other.cert.pem()),
    ]);
    let serving = folder.serve(&["--cert", "tls.crt", "--key", "tls.key"]);
    let url = format!("https://{}/v1/admit", serving.address);
    let mut probe = folder.command(&["probe", "--ca", "ca.crt", "--timeout", "60s", &url]);
    let mut probe = probe.spawn().expect("modgate");
    // As a kubelet does: the file is never half written.
    folder.write("new.crt", &made.cert.pem());
    thread::sleep(std::time::Duration::from_millis(700));
    assert!(probe.try_wait().expect("waited").is_none());
    fs::rename(folder.path().join("new.crt"), folder.path().join("ca.crt")).expect("renamed");
    assert!(probe.wait().expect("waited").success());
}
