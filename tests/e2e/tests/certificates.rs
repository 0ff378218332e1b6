//! The certificate in a cluster: made, trusted, healed, adopted, and renewed under load.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stderr,
    reason = "tests fail by panicking, and their output says why"
)]

use std::{
    cell::Cell,
    net::SocketAddr,
    pin::pin,
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant, SystemTime},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use futures_util::StreamExt as _;
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api,
    api::{DeleteParams, WatchEvent, WatchParams},
};
use modgate_cluster::{ClusterCertificates, LeaseTimes, RotationTimes};
use modgate_server::{CertificateSource, runtime};
use modgate_template::{Env, Host, Refused, Template};
use modgate_testkit::cluster::{Cluster, balancer::Balancer};
use modgate_value::{Budget, Value};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use tokio::time::timeout;

use modgate_e2e::{
    Running, TIMEOUT, client, definition, eventually, free_address, is_ready, kubectl,
    load::{DENIAL, Load},
    namespace, succeeds,
};

/// KubeMod's configurations have the same name for everybody.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A server that makes its certificate in a namespace of its own, and its probes.
struct Rotating {
    server: Running,
    health: SocketAddr,
}

/// Polled often, and no longer than a slow machine needs.
fn hurried() -> RotationTimes {
    RotationTimes {
        look: Duration::from_secs(1),
        settle: Duration::from_secs(6),
        retire: Duration::from_secs(10),
        ..RotationTimes::default()
    }
}

impl Rotating {
    fn start(cluster: &Cluster, namespace: &str, times: RotationTimes) -> Self {
        let health = free_address().expect("port");
        let server = Running::configured(cluster, |config| {
            config.certificate = CertificateSource::Cluster(ClusterCertificates {
                names: vec!["127.0.0.1".to_owned()],
                validating: format!("validating-{namespace}"),
                times,
                ..ClusterCertificates::default()
            });
            config.engine.installation.namespace = namespace.into();
            config.addresses.health = Some(health.to_string());
            config.lease =
                LeaseTimes { retry: Duration::from_millis(500), ..LeaseTimes::default() };
        });
        Self { server, health }
    }

    /// The answer of `/readyz`.
    fn readiness(&self) -> client::Response {
        client::get(self.health, "/readyz?verbose").expect("probes")
    }
}

/// Two webhooks: one that denies ConfigMaps of a namespace, and one that is never asked.
fn configuration(namespace: &str, address: SocketAddr) -> String {
    format!(
        "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration\n\
         metadata: {{name: validating-{namespace}, labels: {{kept: 'yes'}}}}\nwebhooks:\n\
         - name: first.modgate.test\n  clientConfig: {{url: 'https://{address}/validate'}}\n  \
         rules: [{{apiGroups: [''], apiVersions: [v1], resources: [configmaps], \
         operations: [CREATE]}}]\n  \
         namespaceSelector: {{matchLabels: {{test: {namespace}}}}}\n  failurePolicy: Fail\n  \
         sideEffects: None\n  admissionReviewVersions: [v1]\n  timeoutSeconds: 10\n\
         - name: second.modgate.test\n  clientConfig: {{url: 'https://{address}/validate'}}\n  \
         sideEffects: None\n  admissionReviewVersions: [v1]\n"
    )
}

/// KubeMod's kind, a rule, and the namespaces it is about.
fn prepare(cluster: &Cluster, name: &str) {
    namespace(cluster, name, name);
    let rules = definition("api.kubemod.io", "ModRule", "modrules", "Namespaced", "v1beta1");
    // Whichever test is first.
    let _ = kubectl(cluster, "create -f -", &rules);
    succeeds(cluster, "wait --for=condition=Established crd/modrules.api.kubemod.io", "");
    let rule = format!(
        "apiVersion: api.kubemod.io/v1beta1\nkind: ModRule\n\
         metadata: {{name: r, namespace: {name}}}\nspec:\n  type: Reject\n  \
         rejectMessage: '{DENIAL}'\n  match: [{{select: '$.metadata.name', matchValue: bad}}]\n"
    );
    succeeds(cluster, "create -f -", &rule);
}

fn get(cluster: &Cluster, what: &str) -> Value {
    let text = succeeds(cluster, &format!("get {what} -o json"), "");
    Value::from_json(text.as_bytes()).expect("JSON")
}

const SECRET: &str = "gatekeeper-webhook-server-cert";
const MEMBERS: [&str; 4] = ["ca.crt", "ca.key", "tls.crt", "tls.key"];

/// The members of the Secret, decoded.
fn secret(cluster: &Cluster, namespace: &str) -> [String; 4] {
    let secret = get(cluster, &format!("secret -n {namespace} {SECRET}"));
    MEMBERS.map(|member| {
        let text = secret.path(&["data", member]).and_then(Value::as_str).unwrap_or_default();
        String::from_utf8(STANDARD.decode(text).expect("base64")).expect("PEM")
    })
}

/// Deletes the Secret; returns the members of the next one as it was made, whatever became of it.
async fn remade(secrets: &Api<Secret>) -> [String; 4] {
    let before = secrets.get(SECRET).await.expect("Secret").metadata.resource_version;
    secrets.delete(SECRET, &DeleteParams::default()).await.expect("deleted");
    let params = WatchParams::default().fields(&format!("metadata.name={SECRET}"));
    let events = secrets.watch(&params, &before.expect("version")).await.expect("watch");
    let mut events = pin!(events);
    loop {
        let event = events.next().await.expect("the watch goes on").expect("event");
        if let WatchEvent::Added(Secret { data: Some(data), .. }) = event {
            return MEMBERS.map(|member| String::from_utf8(data[member].0.clone()).expect("PEM"));
        }
    }
}

fn bundles(configuration: &Value) -> Vec<String> {
    let webhooks = configuration.get("webhooks").and_then(Value::as_array).expect("webhooks");
    let bundle = |webhook: &Value| {
        let bundle = webhook.path(&["clientConfig", "caBundle"]).and_then(Value::as_str);
        let bytes = STANDARD.decode(bundle.unwrap_or_default()).expect("base64");
        String::from_utf8(bytes).expect("PEM")
    };
    webhooks.iter().map(bundle).collect()
}

/// A configuration without bundles and without what the API server counts.
fn rest(mut configuration: Value) -> Value {
    let Value::Object(members) = &mut configuration else { panic!("no object") };
    if let Some(Value::Object(metadata)) = members.get_mut("metadata") {
        for member in ["generation", "managedFields", "resourceVersion"] {
            metadata.remove(member);
        }
    }
    if let Some(Value::Array(webhooks)) = members.get_mut("webhooks") {
        for webhook in webhooks.make_mut() {
            let Value::Object(webhook) = webhook else { panic!("no webhook") };
            if let Some(Value::Object(client)) = webhook.get_mut("clientConfig") {
                client.remove("caBundle");
            }
        }
    }
    configuration
}

fn creating(cluster: &Cluster, namespace: &str, name: &str) -> String {
    let arguments = format!("create configmap {name} -n {namespace} --dry-run=server");
    let outcome = kubectl(cluster, &arguments, "");
    if outcome.success { String::new() } else { outcome.stderr }
}

fn is_enforced(cluster: &Cluster, namespace: &str) -> bool {
    creating(cluster, namespace, "bad").contains(DENIAL)
        && creating(cluster, namespace, "good").is_empty()
}

/// An authority and a certificate as another program might have made them, for so many days from now.
fn made(authority_name: &str, names: &[&str], days: i64) -> [String; 4] {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("clock");
    let away = Duration::from_secs(days.unsigned_abs() * 86_400);
    let ends = if days < 0 { now - away } else { now + away };
    let ends = rcgen::date_time_ymd(1970, 1, 1) + ends;
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, authority_name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.not_after = ends;
    let key = KeyPair::generate().expect("key");
    let authority = params.self_signed(&key).expect("authority");
    let ca_key = key.serialize_pem();
    let issuer = Issuer::new(params, key);
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut params = CertificateParams::new(names).expect("names");
    params.not_after = ends;
    let key = KeyPair::generate().expect("key");
    let leaf = params.signed_by(&key, &issuer).expect("leaf");
    [authority.pem(), ca_key, leaf.pem(), key.serialize_pem()]
}

fn create_secret(cluster: &Cluster, namespace: &str, contents: &[String; 4], more: &str) {
    let [ca_crt, ca_key, tls_crt, tls_key] = contents.each_ref().map(|text| STANDARD.encode(text));
    let text = format!(
        "apiVersion: v1\nkind: Secret\nmetadata: {{name: gatekeeper-webhook-server-cert, \
         namespace: {namespace}, labels: {{gatekeeper.sh/system: 'yes'}}}}\n{more}\
         data: {{ca.crt: '{ca_crt}', ca.key: '{ca_key}', tls.crt: '{tls_crt}', \
         tls.key: '{tls_key}'}}\n"
    );
    succeeds(cluster, "create -f -", &text);
}

#[test]
fn made_trusted_and_healed() {
    let _alone = alone();
    let Some(cluster) = Cluster::shared() else { return };
    prepare(cluster, "made");
    let [kubemods, ..] = made("KubeMod", &["admission"], 100);
    let kubemod = configuration("kubemod", SocketAddr::from(([127, 0, 0, 1], 1)))
        .replace("validating-kubemod", "kubemod-validating-webhook-configuration")
        .replace("url: ", &format!("caBundle: {}, url: ", STANDARD.encode(&kubemods)));
    succeeds(cluster, "create -f -", &kubemod);

    let started = Instant::now();
    let server = Rotating::start(cluster, "made", RotationTimes::default());
    eventually("the process is ready", || is_ready(server.health));
    eprintln!("ready with a new certificate after {} ms", started.elapsed().as_millis());
    let [ca_crt, ca_key, tls_crt, tls_key] = secret(cluster, "made");
    for (text, expected) in [
        (&ca_crt, "CERTIFICATE"),
        (&ca_key, "PRIVATE KEY"),
        (&tls_crt, "CERTIFICATE"),
        (&tls_key, "PRIVATE KEY"),
    ] {
        assert!(text.starts_with(&format!("-----BEGIN {expected}-----\n")), "{expected}");
    }
    let kubemod =
        get(cluster, "validatingwebhookconfiguration kubemod-validating-webhook-configuration");
    assert_eq!(bundles(&kubemod), [format!("{ca_crt}{kubemods}"), format!("{ca_crt}{kubemods}")]);

    // A configuration that comes later.
    succeeds(cluster, "create -f -", &configuration("made", server.server.address));
    let what = "validatingwebhookconfiguration validating-made";
    eventually("it is enforced", || is_enforced(cluster, "made"));
    let before = get(cluster, what);
    assert_eq!(bundles(&before), [ca_crt.clone(), ca_crt.clone()]);

    // Another writer resets the bundles, and a user changes the rest.
    let change = format!(
        "patch {what} --type=json -p [{{\"op\":\"remove\",\"path\":\"/webhooks/0/clientConfig/caBundle\"}},\
         {{\"op\":\"replace\",\"path\":\"/webhooks/1/clientConfig/caBundle\",\"value\":\"Cg==\"}},\
         {{\"op\":\"replace\",\"path\":\"/webhooks/0/timeoutSeconds\",\"value\":7}},\
         {{\"op\":\"replace\",\"path\":\"/webhooks/0/rules/0/operations\",\"value\":[\"CREATE\",\"UPDATE\"]}},\
         {{\"op\":\"remove\",\"path\":\"/metadata/labels/kept\"}}] -o json"
    );
    let changed = Value::from_json(succeeds(cluster, &change, "").as_bytes()).expect("JSON");
    assert_ne!(rest(changed.clone()), rest(before));
    let trusted = [ca_crt.clone(), ca_crt.clone()];
    eventually("the bundles are back", || bundles(&get(cluster, what)) == trusted);
    let healed = get(cluster, what);
    assert_eq!(rest(healed.clone()), rest(changed));
    eventually("it is enforced again", || is_enforced(cluster, "made"));

    // Nothing is written where nothing is to be changed, though it is looked at with the other.
    let other = "validatingwebhookconfiguration kubemod-validating-webhook-configuration";
    let change = "[{\"op\":\"remove\",\"path\":\"/webhooks/0/clientConfig/caBundle\"}]";
    succeeds(cluster, &format!("patch {other} --type=json -p {change}"), "");
    eventually("the other is healed, too", || {
        bundles(&get(cluster, other))[0].starts_with(&ca_crt)
    });
    assert_eq!(get(cluster, what), healed);
    assert_eq!(secret(cluster, "made"), [ca_crt, ca_key, tls_crt, tls_key]);
    for name in ["validating-made", "kubemod-validating-webhook-configuration"] {
        succeeds(cluster, &format!("delete validatingwebhookconfiguration {name}"), "");
    }
}

#[test]
fn not_ready_by_giving_up() {
    let _alone = alone();
    let Some(cluster) = Cluster::shared() else { return };
    prepare(cluster, "stuck");
    let nothing = [const { String::new() }; 4];
    create_secret(cluster, "stuck", &nothing, "immutable: true\n");
    let server = Rotating::start(cluster, "stuck", hurried());
    let reason =
        "[-]tls-check failed: no certificate in Secret `stuck/gatekeeper-webhook-server-cert` yet";
    eventually("policies are loaded", || server.readiness().body.contains("[+]tracker ok"));
    for _ in 0..10 {
        let answer = server.readiness();
        assert!(answer.status == 500 && answer.body.contains(reason), "{answer:?}");
        thread::sleep(Duration::from_millis(100));
    }
    succeeds(cluster, "delete secret -n stuck gatekeeper-webhook-server-cert", "");
    eventually("the process is ready", || is_ready(server.health));
}

/// Enough chance to make keys of.
struct Chance(Cell<u64>);

impl Host for Chance {
    fn now(&self) -> Result<Duration, Refused> {
        Ok(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("clock"))
    }

    fn random_bytes(&self, out: &mut [u8]) -> Result<(), Refused> {
        for byte in out {
            let mut state = self.0.get();
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            self.0.set(state);
            *byte = state.to_le_bytes()[3];
        }
        Ok(())
    }

    fn resolve_host(&self, _: &str) -> Result<Option<String>, Refused> {
        Ok(None)
    }
}

/// An RSA authority and certificate for one DNS name, as Gatekeeper makes them.
fn originals(name: &str) -> [String; 4] {
    let text = format!(
        "{{{{ $ca := genCA \"gatekeeper-ca\" 3650 }}}}{{{{ $leaf := genSignedCert \"{name}\" nil \
         (list \"{name}\") 365 $ca }}}}{{{{ $ca.Cert }}}}|{{{{ $ca.Key }}}}|{{{{ $leaf.Cert }}}}|\
         {{{{ $leaf.Key }}}}"
    );
    let template = Template::parse("x", &text).expect("template");
    let budget = Budget::unlimited();
    let seed = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("clock");
    let host = Chance(Cell::new(seed.as_nanos() as u64 | 1));
    let all = template.render(&Value::Null, &Env { budget: &budget, host: &host }).expect("made");
    let parts: Vec<String> = all.split('|').map(str::to_owned).collect();
    parts.try_into().expect("four parts")
}

#[test]
fn an_originals_secret_is_adopted() {
    let _alone = alone();
    let Some(cluster) = Cluster::shared() else { return };
    prepare(cluster, "adopted");
    let [ca_crt, ca_key, tls_crt, tls_key] = originals("gatekeeper-webhook-service.adopted.svc");
    assert!(ca_key.contains("RSA PRIVATE KEY"), "the older form of keys");
    let before = [ca_crt.clone(), ca_key.clone(), tls_crt.clone(), tls_key];
    create_secret(cluster, "adopted", &before, "");
    let server = Rotating::start(cluster, "adopted", RotationTimes::default());
    // As the original left it: the trust is there already.
    let trusting = configuration("adopted", server.server.address)
        .replace("url: ", &format!("caBundle: {}, url: ", STANDARD.encode(&ca_crt)));
    succeeds(cluster, "create -f -", &trusting);
    let created = get(cluster, "validatingwebhookconfiguration validating-adopted");
    eventually("it is enforced", || is_enforced(cluster, "adopted"));
    eventually("the process is ready", || is_ready(server.health));
    // A certificate for more names, of the same authority.
    let [ca_crt_now, ca_key_now, tls_crt_now, _] = secret(cluster, "adopted");
    assert_eq!((&ca_crt_now, &ca_key_now), (&ca_crt, &ca_key));
    assert_ne!(tls_crt_now, tls_crt);
    let now = get(cluster, "validatingwebhookconfiguration validating-adopted");
    assert_eq!(now, created, "nothing was to be written");
    let labels =
        "get secret -n adopted gatekeeper-webhook-server-cert -o jsonpath={.metadata.labels}";
    assert_eq!(succeeds(cluster, labels, ""), r#"{"gatekeeper.sh/system":"yes"}"#);
    succeeds(cluster, "delete validatingwebhookconfiguration validating-adopted", "");
}

/// A cluster that was off for so long that authority and certificate have expired: both are made anew before the first
/// request, though the webhook configuration trusts the old one.
#[test]
fn an_expired_authority_is_replaced_at_start() {
    let _alone = alone();
    let Some(cluster) = Cluster::shared() else { return };
    prepare(cluster, "expired");
    let old = made("gatekeeper-ca", &["gatekeeper-webhook-service.expired.svc", "127.0.0.1"], -1);
    create_secret(cluster, "expired", &old, "");
    let server = Rotating::start(cluster, "expired", RotationTimes::default());
    let trusting = configuration("expired", server.server.address)
        .replace("url: ", &format!("caBundle: {}, url: ", STANDARD.encode(&old[0])));
    succeeds(cluster, "create -f -", &trusting);
    eventually("the process is ready", || is_ready(server.health));
    eventually("it is enforced", || is_enforced(cluster, "expired"));
    let new = secret(cluster, "expired");
    assert!(new[0] != old[0] && new[2] != old[2], "neither is the old one");
    let what = "validatingwebhookconfiguration validating-expired";
    for bundle in bundles(&get(cluster, what)) {
        assert!(bundle.contains(new[0].trim()), "the new authority is trusted: {bundle}");
    }
    succeeds(cluster, &format!("delete {what}"), "");
}

/// Three replicas behind a balancer, an authority that expires soon, and then a Secret that is
/// deleted, while requests never stop.
#[test]
fn renewed_under_load() {
    const NAMES: [&str; 3] = [
        "gatekeeper-webhook-service.renewed.svc",
        "kubemod-webhook-service.kubemod-system.svc",
        "127.0.0.1",
    ];
    let _alone = alone();
    let Some(cluster) = Cluster::shared() else { return };
    prepare(cluster, "renewed");
    let old = made("gatekeeper-ca", &NAMES, 80);
    create_secret(cluster, "renewed", &old, "");
    let balancer = Balancer::start(&[]).expect("balancer");
    let trusting = configuration("renewed", balancer.address())
        .replace("url: ", &format!("caBundle: {}, url: ", STANDARD.encode(&old[0])));
    succeeds(cluster, "create -f -", &trusting);
    let servers: Vec<Rotating> =
        (0..3).map(|_| Rotating::start(cluster, "renewed", hurried())).collect();
    for server in &servers {
        eventually("a replica is ready", || is_ready(server.health));
    }
    let addresses: Vec<_> = servers.iter().map(|server| server.server.address).collect();
    balancer.set(&addresses);
    eventually("it is enforced", || is_enforced(cluster, "renewed"));

    let runtime = runtime().expect("runtime");
    let client = runtime.block_on(modgate_e2e::load::client(cluster.kubeconfig()));
    let load = {
        let _inside = runtime.enter();
        Load::start(&client, "renewed", 4)
    };
    let count = |text: &str| text.matches("BEGIN CERTIFICATE").count();
    let renewed = |before: &[String; 4]| {
        eventually("another certificate of another authority", || {
            let [ca_crt, _, tls_crt, _] = secret(cluster, "renewed");
            tls_crt != before[2] && count(&ca_crt) == 1 && ca_crt != before[0]
        });
        secret(cluster, "renewed")
    };
    let second = renewed(&old);
    let secrets = Api::namespaced(client.clone(), "renewed");
    let back = runtime.block_on(async { timeout(TIMEOUT, remade(&secrets)).await });
    let [ca_crt, _, tls_crt, _] = back.expect("the Secret is back");
    assert_eq!((count(&ca_crt), &tls_crt), (2, &second[2]), "trusted first, then served");
    let third = renewed(&second);
    let what = "validatingwebhookconfiguration validating-renewed";
    eventually("only the new authority is trusted", || {
        bundles(&get(cluster, what)).iter().all(|bundle| *bundle == third[0])
    });
    load.goes_on();
    let outcome = runtime.block_on(load.stop());
    eprintln!("two authorities renewed over three replicas: {outcome}");
    assert!(outcome.wrong.is_empty() && outcome.lost() == 0, "{outcome}");
    assert!(outcome.unsent.is_empty() && outcome.sent > 100, "{outcome}");
    assert!(servers.iter().all(|server| is_ready(server.health)));
    succeeds(cluster, &format!("delete {what}"), "");
}
