//! Watches against an API server that follows a script.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    time::Duration,
};

use kube::{Client, Config};
use modgate_engine::{api::meta::GroupVersionKind, constraint::Fields, rego::Reads};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::mpsc,
    time::timeout,
};

use super::{Event, Seen, Watches};
use crate::{kinds, object::Item};

/// One answer: to requests whose path has all of these parts, with this status and body.
struct Answer {
    parts: &'static [&'static str],
    status: u16,
    body: String,
    /// Whether the connection stays open without further data.
    stays_open: bool,
}

fn answer(parts: &'static [&'static str], status: u16, body: &str) -> Answer {
    Answer { parts, status, body: body.to_owned(), stays_open: false }
}

fn open(parts: &'static [&'static str], body: &str) -> Answer {
    Answer { stays_open: true, ..answer(parts, 200, body) }
}

fn failure(parts: &'static [&'static str], code: u16) -> Answer {
    let body = format!(
        r#"{{"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": {code},
        "message": "no", "reason": "no"}}"#
    );
    answer(parts, code, &body)
}

fn pod(name: &str, version: u32) -> String {
    format!(
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"{name}","namespace":"n","resourceVersion":"{version}"}},"spec":{{"x":1}}}}"#
    )
}

fn list(items: &[String], version: &str, next: &str) -> String {
    format!(
        r#"{{"apiVersion": "v1", "kind": "PodList", "items": [{}],
        "metadata": {{"resourceVersion": "{version}", "continue": "{next}"}}}}"#,
        items.join(",")
    )
}

fn line(what: &str, object: &str) -> String {
    format!("{{\"type\":\"{what}\",\"object\":{object}}}\n")
}

const EXPIRED: &str = r#"{"kind":"Status","apiVersion":"v1","status":"Failure","code":410,"message":"too old","reason":"Expired"}"#;
const END_OF_LIST: &str = r#"{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"5","annotations":{"k8s.io/initial-events-end":"true"}}}"#;
const SERVED: &str = r#"{"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "v1",
    "resources": [{"name": "pods", "singularName": "pod", "namespaced": true, "kind": "Pod",
    "verbs": ["list", "watch"]}]}"#;

/// Requests that the script does not know, or knows later.
type Unexpected = Arc<Mutex<Vec<String>>>;

/// Answers requests in the order of the script.
async fn serve(script: Vec<Answer>) -> (Client, Unexpected) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("port");
    let address = listener.local_addr().expect("address");
    let script = Arc::new(Mutex::new(VecDeque::from(script)));
    let unexpected = Unexpected::default();
    let seen = Arc::clone(&unexpected);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(reply(stream, Arc::clone(&script), Arc::clone(&seen)));
        }
    });
    let config = Config::new(format!("http://{address}").parse().expect("URL"));
    (Client::try_from(config).expect("client"), unexpected)
}

async fn reply(
    mut stream: TcpStream,
    script: Arc<Mutex<VecDeque<Answer>>>,
    unexpected: Unexpected,
) -> Option<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let path = head.split_whitespace().nth(1).unwrap_or_default().to_owned();
    let next = {
        let mut script = script.lock().expect("script");
        let fits = script.front().is_some_and(|it| it.parts.iter().all(|part| path.contains(part)));
        if fits { script.pop_front() } else { None }
    };
    let Some(Answer { status, body, stays_open, .. }) = next else {
        unexpected.lock().expect("list").push(path);
        // The client waits for ever.
        std::future::pending::<()>().await;
        return None;
    };
    let head = format!(
        "HTTP/1.1 {status} x\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.ok()?;
    stream.write_all(body.as_bytes()).await.ok()?;
    stream.flush().await.ok()?;
    if stays_open {
        std::future::pending::<()>().await;
    }
    Some(())
}

async fn next(watches: &mut Watches, events: &mut mpsc::Receiver<Event>) -> String {
    loop {
        let event = timeout(Duration::from_secs(20), events.recv()).await;
        let event = event.expect("an event in time").expect("an event");
        if !watches.admits(&event) {
            continue;
        }
        let name = |item: &Item| item.key.name.to_string();
        return match event.seen {
            Seen::All(items, _) => {
                format!("all: {}", items.iter().map(name).collect::<Vec<_>>().join(" "))
            }
            Seen::Applied(item) => format!("applied: {}", name(&item)),
            Seen::Deleted(item) => format!("deleted: {}", name(&item)),
            Seen::Failed(problem) => format!("failed: {problem}"),
            Seen::Served(scope) => format!("served: {scope:?}"),
            Seen::NotServed => "not served".to_owned(),
        };
    }
}

fn pods() -> GroupVersionKind {
    GroupVersionKind { group: "".into(), version: "v1".into(), kind: "Pod".into() }
}

const PODS: &str = "/api/v1/pods";
const STREAM: &[&str] = &[PODS, "watch=true", "sendInitialEvents=true"];

#[tokio::test]
async fn a_streamed_list() {
    let body = [
        line("ADDED", &pod("a", 3)),
        line("ADDED", &pod("b", 4)),
        line("BOOKMARK", END_OF_LIST),
        line("MODIFIED", &pod("b", 6)),
        line("DELETED", &pod("a", 7)),
    ];
    let script = vec![answer(&["/api/v1"], 200, SERVED), open(STREAM, &body.concat())];
    let (client, unexpected) = serve(script).await;
    let (mut watches, mut events) = Watches::new(client);
    watches.start_synced(&pods(), &Arc::new(Fields::all()));
    for expected in ["all: a b", "applied: b", "deleted: a"] {
        assert_eq!(next(&mut watches, &mut events).await, expected);
    }
    assert_eq!(*unexpected.lock().expect("list"), [""; 0]);
}

/// A server that streams no lists, a list in pages, and a watch that falls too far behind.
#[tokio::test]
async fn pages_and_an_expired_watch() {
    let page: &[&str] = &[PODS, "limit=100"];
    let events_of_first = [line("ADDED", &pod("d", 11)), line("ERROR", EXPIRED)].concat();
    let script = vec![
        answer(&["/api/v1"], 200, SERVED),
        failure(STREAM, 422),
        answer(page, 200, &list(&[pod("a", 1), pod("b", 2)], "10", "more")),
        answer(&[PODS, "continue=more"], 200, &list(&[pod("c", 3)], "10", "")),
        answer(&[PODS, "watch=true", "resourceVersion=10"], 200, &events_of_first),
        answer(page, 200, &list(&[pod("a", 1)], "20", "")),
        open(&[PODS, "watch=true", "resourceVersion=20"], &line("ADDED", &pod("e", 21))),
    ];
    let (client, unexpected) = serve(script).await;
    let (mut watches, mut events) = Watches::new(client);
    watches.start_synced(&pods(), &Arc::new(Fields::all()));
    for expected in ["all: a b c", "applied: d", "all: a", "applied: e"] {
        assert_eq!(next(&mut watches, &mut events).await, expected);
    }
    assert_eq!(*unexpected.lock().expect("list"), [""; 0]);
}

/// A watch that is expired before it begins is not started again and again.
#[tokio::test]
async fn a_watch_that_is_refused_as_expired() {
    let page: &[&str] = &[PODS, "limit=100"];
    let script = vec![
        answer(&["/api/v1"], 200, SERVED),
        failure(STREAM, 400),
        answer(page, 200, &list(&[pod("a", 1)], "10", "")),
        failure(&[PODS, "watch=true"], 410),
        answer(page, 200, &list(&[pod("b", 1)], "20", "")),
        open(&[PODS, "watch=true", "resourceVersion=20"], ""),
    ];
    let (client, _) = serve(script).await;
    let (mut watches, mut events) = Watches::new(client);
    watches.start_synced(&pods(), &Arc::new(Fields::all()));
    for expected in ["all: a", "all: b"] {
        assert_eq!(next(&mut watches, &mut events).await, expected);
    }
}

/// A kind that is not served, is, and is not any more.
#[tokio::test]
async fn kinds_come_and_go() {
    let script = vec![
        failure(&["/api/v1"], 404),
        answer(&["/api/v1"], 200, SERVED),
        answer(STREAM, 200, &[line("ADDED", &pod("a", 3)), line("BOOKMARK", END_OF_LIST)].concat()),
        failure(&[PODS, "watch=true", "resourceVersion=5"], 404),
        failure(&["/api/v1"], 404),
    ];
    let (client, _) = serve(script).await;
    let (mut watches, mut events) = Watches::new(client);
    watches.start_synced(&pods(), &Arc::new(Fields::all()));
    let missing = r#"failed: no matches for kind "Pod" in version "v1""#;
    assert_eq!(next(&mut watches, &mut events).await, missing);
    watches.definitions_changed();
    for expected in ["all: a", "all: ", missing] {
        assert_eq!(next(&mut watches, &mut events).await, expected);
    }
}

/// The watch there is goes on until all that replaces it was seen; fields that are not kept do not
/// even wait for the end of the list.
#[tokio::test]
async fn a_refill_takes_over() {
    let first = [line("ADDED", &pod("a", 3)), line("BOOKMARK", END_OF_LIST)].concat();
    let more = line("ADDED", &pod("b", 6));
    let script = vec![
        answer(&["/api/v1"], 200, SERVED),
        open(STREAM, &(first + &more)),
        answer(&["/api/v1"], 200, SERVED),
        answer(&[PODS, "limit=100"], 200, &list(&[pod("a", 3), pod("c", 7)], "8", "")),
        open(&[PODS, "watch=true", "resourceVersion=8"], &line("ADDED", &pod("d", 9))),
    ];
    let (client, _) = serve(script).await;
    let (mut watches, mut events) = Watches::new(client);
    watches.start_synced(&pods(), &Arc::new(Fields::all()));
    for expected in ["all: a", "applied: b"] {
        assert_eq!(next(&mut watches, &mut events).await, expected);
    }
    let few = Arc::new(Fields::of_kind(&Reads::default(), &pods()));
    watches.refill(&pods(), &few);
    let event = timeout(Duration::from_secs(20), events.recv()).await.expect("in time");
    let event = event.expect("an event");
    assert!(watches.admits(&event));
    let Seen::All(items, fields) = &event.seen else { panic!("{event:?}") };
    assert_eq!(*fields, few);
    let texts: Vec<_> =
        items.iter().map(|item| item.object.as_ref().expect("read").to_json()).collect();
    let kept = |name: &str| {
        format!(
            r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"{name}","namespace":"n"}}}}"#
        )
    };
    assert_eq!(texts, [kept("a"), kept("c")]);
    assert_eq!(next(&mut watches, &mut events).await, "applied: d");
}

#[tokio::test]
async fn crds_are_asked_for_in_small_pages() {
    let path: &[&str] = &["/apis/apiextensions.k8s.io/v1/customresourcedefinitions"];
    let script = vec![
        failure(path, 422),
        answer(
            &["customresourcedefinitions", "limit=20"],
            200,
            &list(
                &[r#"{"metadata": {"name": "x", "managedFields": [1]}, "spec": {}}"#.to_owned()],
                "1",
                "",
            ),
        ),
    ];
    let (client, _) = serve(script).await;
    let (mut watches, mut events) = Watches::new(client);
    watches.start(&kinds::definitions());
    assert_eq!(next(&mut watches, &mut events).await, "all: x");
}
