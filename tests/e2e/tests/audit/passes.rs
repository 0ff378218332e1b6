//! The requests of one audit to the API server, and the cost of an interrupted one.

use std::{
    env,
    time::{Duration, Instant},
};

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{ConfigMap, Pod},
};
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use modgate_cluster::LeaseTimes;
use modgate_e2e::{Running, eventually, kubectl, load::client, succeeds};
use modgate_testkit::cluster::Cluster;
use serde_json::json;

use super::{KIND, TEMPLATE, auditing, constraint, found, lists, status_of, total};

const NAMESPACE: &str = "passes";

/// How many ConfigMaps there are; and a fifth as many Pods.
const OBJECTS: &str = "MODGATE_AUDIT_OBJECTS";

fn number() -> usize {
    env::var(OBJECTS).ok().map_or(1_100, |number| number.parse().expect("a number"))
}

async fn make<K>(api: Api<K>, objects: Vec<K>)
where
    K: kube::Resource + Clone + std::fmt::Debug + serde::Serialize + serde::de::DeserializeOwned,
{
    let parameters = PostParams::default();
    let made = objects.iter().map(|object| api.create(&parameters, object));
    let made = stream::iter(made).buffer_unordered(16).map_ok(drop).try_collect::<()>().await;
    made.expect("made");
}

fn prepare(cluster: &Cluster, server: &Running) {
    succeeds(cluster, &format!("create namespace {NAMESPACE}"), "");
    let name = |number: usize| format!("o{number:05}");
    let map = |number| json!({"metadata": {"name": name(number)}, "data": {"a": "b"}});
    let pod = |number| {
        json!({"metadata": {"name": name(number)}, "spec": {
            "automountServiceAccountToken": false,
            "containers": [{"name": "a", "image": "none"}],
        }})
    };
    let of = |value| serde_json::from_value(value).expect("an object");
    let maps: Vec<ConfigMap> = (0..number()).map(map).map(of).collect();
    let of = |value| serde_json::from_value(value).expect("an object");
    let pods: Vec<Pod> = (0..number() / 5).map(pod).map(of).collect();
    server.runtime.block_on(async {
        let client: Client = client(cluster.kubeconfig()).await;
        make(Api::namespaced(client.clone(), NAMESPACE), maps).await;
        make(Api::namespaced(client, NAMESPACE), pods).await;
    });
}

/// A constraint on objects of this test.
fn of_this_test(name: &str, kind: &str) -> String {
    let all = constraint(name, kind, "owner", "");
    let kinds = format!("kinds: [{kind}]}}]");
    all.replacen(&kinds, &format!("{kinds}, namespaces: [{NAMESPACE}]"), 1)
}

/// Requests of the process, whatever they were about.
fn requests(server: &Running) -> u64 {
    server.metric("rest_client_requests_total", "")
}

/// Each object is listed once, page by page, and audits that follow list nothing.
pub(super) fn what_a_pass_asks(cluster: &Cluster) {
    succeeds(cluster, &format!("delete {KIND} --all"), "");
    // Only to have a runtime before there is anything to find.
    let server = auditing(cluster, |config| config.audit.interval = Duration::ZERO);
    prepare(cluster, &server);
    let policies = of_this_test("maps", "ConfigMap") + &of_this_test("pods", "Pod");
    succeeds(cluster, "apply -f -", &policies);
    server.stop();

    let listed = || ["configmaps", "pods"].map(|resource| lists(cluster, resource));
    let before = listed();
    let started = Instant::now();
    let server = auditing(cluster, |config| config.audit.interval = Duration::from_secs(2));
    let count = |of: usize| i64::try_from(of).expect("few");
    found(cluster, "maps", count(number()));
    found(cluster, "pods", count(number() / 5));
    let first = (listed(), requests(&server), started.elapsed());
    // Nothing but audits happens from here on.
    let audits = || server.plain_metric("gatekeeper_audit_duration_seconds_count");
    let more_audits = |count: u64| {
        let wanted = audits() + count;
        eventually("there are more audits", || audits() >= wanted);
    };
    more_audits(1);
    let (lists_before, audits_before, before_quiet) = (listed(), audits(), requests(&server));
    more_audits(3);
    let quiet = requests(&server) - before_quiet;
    let passes = audits() - audits_before;
    // The first has 100 objects, and shows that they are small.
    let pages = |of: usize| 1 + u64::try_from(of.saturating_sub(100).div_ceil(500)).expect("few");
    // Other ConfigMaps than those of this test are on the last page, or one more.
    let maps = first.0[0] - before[0];
    assert!((pages(number())..=pages(number()) + 1).contains(&maps), "{maps} lists of ConfigMaps");
    let pods = first.0[1] - before[1];
    assert!((pages(number() / 5)..=pages(number() / 5) + 1).contains(&pods), "{pods} of Pods");
    assert_eq!(listed(), lists_before, "what is known is not listed again");
    // Discovery, two statuses and the Lease; and those of an audit that is not over.
    assert!(quiet <= (passes + 1) * 8, "{quiet} requests of {passes} audits");
    eprintln!(
        "{} ConfigMaps and {} Pods: {maps} and {pods} lists, {} requests of all kinds \
         until the first audit was over ({:.1} s after the start); then {:.1} requests for each \
         audit, no list",
        number(),
        number() / 5,
        first.1,
        first.2.as_secs_f64(),
        quiet as f64 / passes as f64,
    );
    server.stop();
}

/// An audit that is interrupted is not reported, and the next one goes on where it was.
pub(super) fn what_is_interrupted_goes_on(cluster: &Cluster) {
    succeeds(cluster, &format!("delete {KIND} --all"), "");
    // Some milliseconds for each object.
    let slow = TEMPLATE.replace("foosystemrequiredlabels", "slow");
    let slow = slow.replace("FooSystemRequiredLabels", "Slow").replacen(
        "provided := ",
        "n := count(input.review.object.metadata.name) * 600\n        \
         count([x | x := numbers.range(1, n)[_]; x % 7 == 0]) > 0\n        provided := ",
        1,
    );
    succeeds(cluster, "apply -f -", &slow);
    let server = auditing(cluster, |config| {
        // A process that does not lead for so long discards its results.
        config.audit.interval = Duration::from_secs(10);
        config.lease = LeaseTimes { retry: Duration::from_millis(100), ..LeaseTimes::default() };
    });
    let policy = of_this_test("slow", "ConfigMap").replacen("FooSystemRequiredLabels", "Slow", 1);
    eventually("the constraint is taken", || kubectl(cluster, "apply -f -", &policy).success);
    let evaluated = || server.metric("modgate_policy_evaluations_total", r#"name="slow""#);
    // Known as long as this process leads.
    let is_told = || server.metrics().contains("\ngatekeeper_audit_last_run_time ");
    let leases = server.runtime.block_on(async {
        let client: Client = client(cluster.kubeconfig()).await;
        Api::<Lease>::namespaced(client, "gatekeeper-system")
    });
    eventually("an audit is under way", || evaluated() > 50 && is_told());
    // Somebody else takes the Lease.
    let lease = server.runtime.block_on(async {
        let all = leases.list_metadata(&ListParams::default()).await.expect("listed").items;
        let mut names = all.into_iter().filter_map(|lease| lease.metadata.name);
        let name = names.find(|name| name.contains("audit")).expect("a Lease");
        let other = json!({"spec": {"holderIdentity": "other", "leaseDurationSeconds": 3600}});
        let patch = Patch::Merge(other);
        leases.patch(&name, &PatchParams::default(), &patch).await.expect("taken");
        name
    });
    eventually("it is interrupted", || !is_told());
    let before = evaluated();
    eprintln!("interrupted after {before} of {} objects", number());
    let all = u64::try_from(number()).expect("few");
    assert!(before < all, "{before} of {all}: it was interrupted");
    let status = || {
        let shown = kubectl(cluster, "get slow.constraints.gatekeeper.sh slow -o json", "").stdout;
        status_of(&shown)
    };
    assert_eq!(total(&status()), None, "it is not reported");
    assert_eq!(evaluated(), before, "nothing goes on meanwhile");
    let parameters = DeleteParams::default();
    server.runtime.block_on(leases.delete(&lease, &parameters)).expect("free again");
    let expected = i64::try_from(number()).ok();
    eventually("the audit goes on", || total(&status()) == expected);
    assert_eq!(evaluated(), all, "nothing was evaluated twice");
    server.stop();
}
