//! External data against a real provider: HTTPS on loopback, started by each test.

#![allow(clippy::expect_used, clippy::indexing_slicing, reason = "a test")]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use modgate_engine::{
    mutation::{Answers, Providers as _},
    provider::{ExternalData as _, external_data},
};
use modgate_policies::{ProviderSession, Providers, ProvidersConfig};
use modgate_server::{CertificateSource, Certificates};
use modgate_value::{Budget, Limits, Str, Value};
use rcgen::ExtendedKeyUsagePurpose::{ClientAuth, ServerAuth};
use rustls::{
    client::ResolvesClientCert,
    version::{TLS12, TLS13},
};
use tokio::runtime::Handle;

use modgate_e2e::provider::{Authority, Dummy, Leaf, Presented, compiled};

/// Longer than anything here takes, on any machine.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A provider everybody trusts who trusts `authority`, and what asks it as `p`.
struct Setup {
    authority: Authority,
    dummy: Dummy,
    providers: Arc<Providers>,
}

impl Setup {
    async fn new() -> Self {
        Self::with_ttl(Duration::ZERO).await
    }

    async fn with_ttl(cache_ttl: Duration) -> Self {
        let authority = Authority::new("provider-ca");
        let leaf = authority.leaf("localhost", ServerAuth);
        let presented = Presented { leaf: &leaf, clients: None, version: &TLS13 };
        let dummy = Dummy::start(presented).await;
        let identity: Option<Arc<dyn ResolvesClientCert>> = Some(self_made());
        let providers = Providers::new(ProvidersConfig { cache_ttl, identity }, Handle::current());
        let setup = Self { authority, dummy, providers };
        setup.point_to("/validate", 0);
        setup
    }

    /// Makes `p` the provider at this path.
    fn point_to(&self, path: &str, timeout: i64) {
        let url = self.dummy.url(path);
        self.providers.replace([&compiled("p", &url, timeout, &self.authority.pem)]);
    }

    /// A review that has all the time.
    fn asking(&self) -> ProviderSession<'static> {
        within(&self.providers, TIMEOUT)
    }

    /// The answer that Rego gets.
    async fn query(&self, keys: &[&str]) -> String {
        let asking = self.asking();
        let keys: Vec<Value> = keys.iter().copied().map(Value::from).collect();
        blocking(move || rego(&asking, "p", keys)).await
    }

    /// The answers that a mutator gets.
    async fn ask(&self, keys: &[&str]) -> Answers {
        let asking = self.asking();
        let keys: BTreeSet<Str> = keys.iter().copied().map(Str::from).collect();
        blocking(move || asking.ask(&BTreeMap::from([("p".into(), keys)]))).await.expect("answers")
    }

    async fn failure(&self) -> String {
        self.ask(&["k"]).await["p"].clone().expect_err("a failure")
    }
}

fn within(providers: &Arc<Providers>, time: Duration) -> ProviderSession<'static> {
    providers.asking(tokio::time::Instant::now() + time)
}

fn rego(asking: &ProviderSession<'_>, provider: &str, keys: Vec<Value>) -> String {
    let argument: Value =
        [("provider", Value::from(provider)), ("keys", keys.into())].into_iter().collect();
    external_data(&[argument], asking).expect("an argument").to_json()
}

fn self_made() -> Arc<Certificates> {
    let source = CertificateSource::SelfSigned { names: vec!["localhost".to_owned()] };
    Certificates::load(&source).expect("certificate")
}

/// Runs an evaluation, which is synchronous, on a thread of its own.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.expect("no panic")
}

#[tokio::test]
async fn what_is_sent() {
    let setup = Setup::new().await;
    let answers = setup.ask(&["b", "a", "c"]).await;
    let answer = answers["p"].clone().expect("an answer");
    assert!(answer.idempotent);
    assert_eq!(answer.items.len(), 3);
    let asked = setup.dummy.asked();
    assert_eq!(asked.len(), 1, "all keys in one request");
    assert_eq!(asked[0].keys, ["a", "b", "c"]);
    assert_eq!(asked[0].content_type, "application/json");
    assert_eq!(asked[0].path, "/validate");
    assert_eq!(asked[0].client, None);
}

#[tokio::test]
async fn connections_are_kept() {
    let setup = Setup::new().await;
    for _ in 0..3 {
        setup.ask(&["a"]).await;
    }
    assert_eq!(setup.dummy.connections(), 1);
    // The same Provider once more, and one with another timeout.
    setup.point_to("/validate", 0);
    setup.ask(&["a"]).await;
    assert_eq!(setup.dummy.connections(), 1);
    setup.point_to("/validate", 7);
    setup.ask(&["a"]).await;
    assert_eq!(setup.dummy.connections(), 2);
}

#[tokio::test]
async fn what_rego_gets() {
    let setup = Setup::new().await;
    for (keys, expected) in [
        (
            &["a", "error_b", "c_valid", "number_7", "a"][..],
            r#"{"errors":[["error_b","error_b_invalid"]],"responses":[["a","a_valid"],["number_7",7],["a","a_valid"]],"status_code":200,"system_error":""}"#,
        ),
        (
            &["x_systemError"][..],
            r#"{"errors":[],"responses":[["x_systemError","x_systemError_valid"]],"status_code":200,"system_error":"testing system error"}"#,
        ),
        (&[][..], r#"{"errors":[],"responses":[],"status_code":0,"system_error":""}"#),
    ] {
        assert_eq!(setup.query(keys).await, expected);
    }
    let expected = [vec!["a", "error_b", "c_valid", "number_7"], vec!["x_systemError"]];
    assert_eq!(setup.dummy.keys(), expected, "each key once, nothing for no keys");
    setup.point_to("/status", 0);
    assert!(setup.query(&["a"]).await.contains(r#""status_code":503,"system_error":"""#));
}

#[tokio::test]
async fn failures_in_rego() {
    let setup = Setup::new().await;
    let asking = setup.asking();
    let unknown = blocking(move || rego(&asking, "q", vec!["k".into()])).await;
    assert_eq!(
        unknown,
        r#"{"errors":null,"responses":null,"status_code":400,"system_error":"key is not found in provider cache"}"#
    );
    let anonymous = Providers::new(ProvidersConfig::default(), Handle::current());
    anonymous.replace([&compiled("p", &setup.dummy.url("/"), 0, &setup.authority.pem)]);
    let asking = within(&anonymous, TIMEOUT);
    let (queried, asked) = blocking(move || {
        let keys = BTreeMap::from([("p".into(), BTreeSet::from(["k".into()]))]);
        (rego(&asking, "p", vec!["k".into()]), asking.ask(&keys))
    })
    .await;
    let missing = "failed to get client TLS certificate: external data client certificate watcher \
                   is not initialized";
    assert_eq!(
        queried,
        format!(
            r#"{{"errors":null,"responses":null,"status_code":400,"system_error":"{missing}"}}"#
        )
    );
    assert_eq!(asked, Err(missing.to_owned()));
    setup.point_to("/text", 0);
    let undecodable = setup.query(&["k"]).await;
    assert!(
        undecodable.starts_with(
            r#"{"errors":null,"responses":null,"status_code":500,"system_error":"failed to unmarshal external data response: "#
        ),
        "{undecodable}"
    );
    assert_eq!(setup.dummy.asked().len(), 1);
}

#[tokio::test]
async fn failures_of_calls() {
    let setup = Setup::new().await;
    for (path, timeout, expected) in [
        ("/slow", 3, "failed to send external data request: no answer before the deadline"),
        (
            "/half",
            3,
            "failed to read external data response: not all of the answer came before the deadline",
        ),
        (
            "/huge",
            25,
            "failed to read external data response: the answer is longer than 16777216 bytes",
        ),
        (
            "/redirect",
            0,
            "failed to send external data request: the provider answered with a redirect (HTTP \
             307), which is not followed",
        ),
        (
            "/wrong",
            0,
            "failed to unmarshal external data response: response.items: expected a list, found \
             number",
        ),
    ] {
        setup.point_to(path, timeout);
        let began = Instant::now();
        assert_eq!(setup.failure().await, expected);
        // `/slow` would have answered after 30 seconds.
        assert!(began.elapsed() < Duration::from_secs(25), "{path}");
        let asked = setup.dummy.asked();
        assert_eq!(asked.len(), 1, "{path}: asked once, and nobody else");
        assert_eq!(asked[0].path, path);
    }
}

#[tokio::test]
async fn the_review_may_have_less_time_than_the_provider() {
    let setup = Setup::new().await;
    setup.point_to("/slow", 25);
    let asking = within(&setup.providers, Duration::from_millis(300));
    let began = Instant::now();
    let result = blocking(move || rego(&asking, "p", vec!["k".into()])).await;
    assert!(began.elapsed() < Duration::from_secs(25));
    assert!(result.contains("no answer before the deadline"), "{result}");
}

#[tokio::test]
async fn who_is_not_trusted() {
    let setup = Setup::new().await;
    let other = Authority::new("other-ca");
    let trusting = |url: &str, bundle: &str| compiled("p", url, 0, bundle);
    let failure = |expected: &'static str| {
        let failure = setup.failure();
        async move {
            let failure = failure.await;
            assert!(
                failure.starts_with("failed to send external data request: ")
                    && failure.contains(expected),
                "{failure}"
            );
        }
    };
    setup.providers.replace([&trusting(&setup.dummy.url("/"), &other.pem)]);
    failure("UnknownIssuer").await;
    let by_address = format!("https://127.0.0.1:{}/", setup.dummy.address.port());
    setup.providers.replace([&trusting(&by_address, &setup.authority.pem)]);
    failure("certificate not valid for name").await;
    let leaf = setup.authority.leaf("localhost", ServerAuth);
    let old = Dummy::start(Presented { leaf: &leaf, clients: None, version: &TLS12 }).await;
    setup.providers.replace([&trusting(&old.url("/"), &setup.authority.pem)]);
    failure("ProtocolVersion").await;
    // Bound, so that no other process takes the port, but not listening.
    let plain = tokio::net::TcpSocket::new_v4().expect("socket");
    plain.bind(SocketAddr::from(([127, 0, 0, 1], 0))).expect("bind");
    let address = plain.local_addr().expect("address");
    setup.providers.replace([&trusting(&format!("https://{address}/"), &setup.authority.pem)]);
    failure("onnection refused").await;
    assert_eq!(setup.dummy.asked().len() + old.asked().len(), 0);
}

/// Go trusts a certificate of `openssl req -x509` when it is in the bundle itself.
#[tokio::test]
async fn a_bundle_may_be_the_servers_own_certificate() {
    let setup = Setup::new().await;
    let present = |leaf: Leaf| async move {
        let dummy = Dummy::start(Presented { leaf: &leaf, clients: None, version: &TLS13 }).await;
        (leaf, dummy)
    };
    let (leaf, dummy) = present(Leaf::self_signed("localhost", false)).await;
    setup.providers.replace([&compiled("p", &dummy.url("/"), 0, &leaf.cert_pem)]);
    assert!(setup.ask(&["k"]).await["p"].is_ok());
    for (leaf, expected) in [
        (Leaf::self_signed("elsewhere", false), "not valid for name"),
        (Leaf::self_signed("localhost", true), "expired"),
    ] {
        let (leaf, dummy) = present(leaf).await;
        setup.providers.replace([&compiled("p", &dummy.url("/"), 0, &leaf.cert_pem)]);
        let failure = setup.failure().await;
        assert!(failure.contains(expected), "{failure}");
    }
}

#[tokio::test]
async fn mutual_tls_with_a_certificate_that_changes() {
    let (servers, clients) = (Authority::new("server-ca"), Authority::new("client-ca"));
    let leaf = servers.leaf("localhost", ServerAuth);
    let presented = Presented { leaf: &leaf, clients: Some(&clients), version: &TLS13 };
    let dummy = Dummy::start(presented).await;

    let folder = tempfile::tempdir().expect("folder");
    let (cert, key) = (folder.path().join("tls.crt"), folder.path().join("tls.key"));
    let write = |leaf: &Leaf| {
        fs::write(&cert, &leaf.cert_pem).expect("write");
        fs::write(&key, &leaf.key_pem).expect("write");
    };
    let (first, second) =
        (clients.leaf("engine-1", ClientAuth), clients.leaf("engine-2", ClientAuth));
    write(&first);
    let source = CertificateSource::Files { cert: cert.clone(), key: key.clone() };
    let identity = Certificates::load(&source).expect("certificate");
    let following = Arc::clone(&identity).follow_every(Duration::from_millis(20));
    tokio::spawn(following);
    let config = ProvidersConfig { cache_ttl: Duration::ZERO, identity: Some(identity) };
    let providers = Providers::new(config, Handle::current());
    let setup = Setup { authority: servers, dummy, providers };

    setup.point_to("/", 0);
    assert!(setup.ask(&["k"]).await["p"].is_ok());
    assert_eq!(setup.dummy.asked()[0].client.as_deref(), Some(first.der.as_ref()));

    write(&second);
    let (began, mut timeout) = (Instant::now(), 10);
    let shown = loop {
        // A changed Provider connects anew.
        timeout += 1;
        setup.point_to("/", timeout);
        assert!(setup.ask(&["k"]).await["p"].is_ok());
        let shown = setup.dummy.asked()[0].client.clone();
        if shown.as_deref() != Some(first.der.as_ref()) || began.elapsed() > TIMEOUT {
            break shown;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert_eq!(shown.as_deref(), Some(second.der.as_ref()));

    // Someone the provider does not let in.
    write(&Authority::new("stranger-ca").leaf("stranger", ClientAuth));
    let began = Instant::now();
    let refused = loop {
        timeout += 1;
        setup.point_to("/", timeout);
        if let Err(refused) = setup.ask(&["k"]).await["p"].clone() {
            break refused;
        }
        assert!(began.elapsed() < TIMEOUT, "still let in");
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert!(refused.starts_with("failed to send external data request: "), "{refused}");
}

#[tokio::test]
async fn rego_is_given_known_answers() {
    let setup = Setup::with_ttl(Duration::from_secs(60)).await;
    let first = setup.query(&["a", "error_b", "none_valid"]).await;
    assert!(first.contains(r#""status_code":200"#), "{first}");
    // Errors are kept too; what was not answered is asked again.
    let second = setup.query(&["c", "error_b", "a", "none_valid"]).await;
    assert_eq!(
        second,
        r#"{"errors":[["error_b","error_b_invalid"]],"responses":[["a","a_valid"],["c","c_valid"]],"status_code":200,"system_error":""}"#
    );
    assert_eq!(
        setup.query(&["a", "error_b"]).await,
        r#"{"errors":[["error_b","error_b_invalid"]],"responses":[["a","a_valid"]],"status_code":0,"system_error":""}"#
    );
    assert_eq!(setup.dummy.keys(), [vec!["a", "error_b", "none_valid"], vec!["c", "none_valid"]]);
    // Not so for mutators.
    setup.ask(&["a"]).await;
    assert_eq!(setup.dummy.keys(), [["a"]]);
    // Another Provider of that name has not said anything yet.
    setup.point_to("/validate", 9);
    setup.query(&["a"]).await;
    assert_eq!(setup.dummy.keys(), [["a"]]);
    setup.providers.replace([]);
    assert!(setup.query(&["a"]).await.contains("key is not found in provider cache"));
}

#[tokio::test]
async fn system_errors_and_failures_are_not_kept() {
    let setup = Setup::with_ttl(Duration::from_secs(60)).await;
    setup.point_to("/text", 0);
    setup.query(&["a"]).await;
    setup.query(&["a"]).await;
    assert_eq!(setup.dummy.keys().len(), 2);
    setup.point_to("/validate", 0);
    assert!(setup.query(&["a", "b_systemError"]).await.contains("testing system error"));
    // The items are, though.
    assert!(setup.query(&["a", "b_systemError"]).await.contains(r#""status_code":0"#));
    assert_eq!(setup.dummy.keys().len(), 1);
}

#[tokio::test]
async fn answers_expire() {
    let setup = Setup::with_ttl(Duration::from_secs(1)).await;
    setup.query(&["a"]).await;
    tokio::time::sleep(Duration::from_millis(2100)).await;
    setup.query(&["a"]).await;
    assert_eq!(setup.dummy.keys().len(), 2);
}

#[tokio::test]
async fn providers_are_asked_at_the_same_time() {
    let setup = Setup::new().await;
    // Who is asked alone gets no answer.
    let all: Vec<_> = ["p", "q", "r"]
        .map(|name| compiled(name, &setup.dummy.url("/three"), 25, &setup.authority.pem))
        .into();
    setup.providers.replace(&all);
    let asking = setup.asking();
    let (answers, waited, took) = blocking(move || {
        let keys = ["p", "q", "r", "unknown"]
            .map(|name| (Str::from(name), BTreeSet::from([Str::from("k")])));
        let began = Instant::now();
        let answers = asking.ask(&keys.into()).expect("answers");
        (answers, asking.waited(), began.elapsed())
    })
    .await;
    assert_eq!(answers.keys().collect::<Vec<_>>(), ["p", "q", "r"]);
    assert!(answers.values().all(Result::is_ok));
    assert!(waited >= modgate_e2e::provider::PAUSE && waited <= took, "{waited:?} of {took:?}");
}

/// A thread of a runtime that waits hands its other work on, and the budget of an evaluation
/// does not pay for waiting.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn waiting_holds_nothing_up() {
    let setup = Setup::new().await;
    setup.point_to("/pause", 25);
    let asking = setup.asking();
    let evaluation = tokio::spawn(async move {
        let began = Instant::now();
        let limits = Limits { time: modgate_e2e::provider::PAUSE / 2, ..Limits::UNLIMITED };
        let budget = Budget::new(limits, &asking);
        let result = rego(&asking, "p", vec!["k".into()]);
        (result, budget.check_time(), began.elapsed())
    });
    let (result, within_budget, took) = evaluation.await.expect("no panic");
    assert!(result.contains("k_valid"), "{result}");
    assert!(took >= modgate_e2e::provider::PAUSE);
    assert_eq!(within_budget, Ok(()));
}

#[tokio::test]
async fn nothing_is_asked_when_all_is_known() {
    let setup = Setup::new().await;
    let asking = setup.asking();
    let found = asking.query("p", &[]).expect("nothing to ask");
    assert_eq!((found.items.len(), found.status), (0, 0));
    assert_eq!(setup.dummy.asked().len(), 0);
}
