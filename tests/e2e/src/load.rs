//! Requests through the API server, until a test stops them, and how they were answered.

use std::{
    collections::BTreeMap,
    fmt,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client, Config, Error,
    api::{ObjectMeta, PostParams},
    config::{KubeConfigOptions, Kubeconfig},
};
use tokio::task::JoinSet;

use crate::eventually;

/// How all requests were answered.
#[derive(Debug, Default)]
pub struct LoadResult {
    /// Requests sent to the API server.
    pub sent: u64,
    /// Those that were decided by a webhook, as they should be.
    pub right: u64,
    /// Those that were decided otherwise: an object that should not be was taken, or the reverse.
    pub wrong: Vec<String>,
    /// Those that no webhook answered, by what the API server said; it refused them.
    pub unanswered: BTreeMap<String, u64>,
    /// Those that the API server did not answer.
    pub unsent: BTreeMap<String, u64>,
    pub slowest: Duration,
}

impl LoadResult {
    /// Requests that no webhook answered.
    pub fn lost(&self) -> u64 {
        self.unanswered.values().sum()
    }

    fn add(&mut self, other: Self) {
        self.sent += other.sent;
        self.right += other.right;
        self.wrong.extend(other.wrong);
        for (all, more) in
            [(&mut self.unanswered, other.unanswered), (&mut self.unsent, other.unsent)]
        {
            for (what, count) in more {
                *all.entry(what).or_default() += count;
            }
        }
        self.slowest = self.slowest.max(other.slowest);
    }
}

impl fmt::Display for LoadResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} requests sent, {} answered rightly, {} wrong, {} unanswered, {} not taken by the \
             API server; the slowest took {} ms",
            self.sent,
            self.right,
            self.wrong.len(),
            self.lost(),
            self.unsent.values().sum::<u64>(),
            self.slowest.as_millis()
        )?;
        let problems = self.wrong.iter().map(|what| (what, &1));
        for (what, count) in problems.chain(&self.unanswered).chain(&self.unsent).take(10) {
            write!(f, "\n  {count} times: {what}")?;
        }
        Ok(())
    }
}

/// The cluster a kubeconfig names.
pub async fn client(kubeconfig: &Path) -> Client {
    let file = Kubeconfig::read_from(kubeconfig).expect("kubeconfig");
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(file, &options).await.expect("config");
    Client::try_from(config).expect("client")
}

/// How long a client waits between an answer and its next request. Without a pause the clients would take both
/// processors from what they test, and show no more.
const PAUSE: Duration = Duration::from_millis(20);

/// Clients that create ConfigMaps, without storing them, until they are stopped.
pub struct Load {
    stop: Arc<AtomicBool>,
    /// Requests that ended, whatever their answer.
    ended: Arc<AtomicU64>,
    workers: JoinSet<LoadResult>,
}

/// The text that tells the denial of a ConfigMap named `bad`.
pub const DENIAL: &str = "bad is not wanted";

impl Load {
    /// So many at once, in a Namespace where ConfigMaps named `bad` are denied with [`DENIAL`].
    pub fn start(client: &Client, namespace: &str, workers: usize) -> Self {
        let (stop, ended) = (Arc::new(AtomicBool::new(false)), Arc::default());
        let mut all = JoinSet::new();
        for _ in 0..workers {
            let api = Api::namespaced(client.clone(), namespace);
            all.spawn(work(api, Arc::clone(&stop), Arc::clone(&ended)));
        }
        Self { stop, ended, workers: all }
    }

    /// Waits until 50 more requests have ended.
    pub fn goes_on(&self) {
        let before = self.ended.load(Ordering::Relaxed);
        eventually("requests are sent", || self.ended.load(Ordering::Relaxed) >= before + 50);
    }

    pub async fn stop(mut self) -> LoadResult {
        self.stop.store(true, Ordering::Relaxed);
        let mut outcome = LoadResult::default();
        while let Some(counted) = self.workers.join_next().await {
            outcome.add(counted.expect("worker"));
        }
        outcome
    }
}

async fn work(api: Api<ConfigMap>, stop: Arc<AtomicBool>, ended: Arc<AtomicU64>) -> LoadResult {
    let params = PostParams { dry_run: true, ..PostParams::default() };
    let mut outcome = LoadResult::default();
    while !stop.load(Ordering::Relaxed) {
        let name = if outcome.sent % 2 == 0 { "bad" } else { "good" };
        let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
        let map = ConfigMap { metadata, ..ConfigMap::default() };
        let started = Instant::now();
        let answer = api.create(&params, &map).await;
        outcome.sent += 1;
        ended.fetch_add(1, Ordering::Relaxed);
        outcome.slowest = outcome.slowest.max(started.elapsed());
        match (name, answer) {
            ("good", Ok(_)) => outcome.right += 1,
            (_, Ok(_)) => outcome.wrong.push("`bad` was taken".to_owned()),
            (_, Err(Error::Api(status))) if status.message.contains(DENIAL) => match name {
                "bad" => outcome.right += 1,
                _ => outcome.wrong.push("`good` was denied".to_owned()),
            },
            (_, Err(Error::Api(status))) if status.message.contains("failed calling webhook") => {
                *outcome.unanswered.entry(without_ports(&status.message)).or_default() += 1;
            }
            (_, Err(error)) => {
                *outcome.unsent.entry(without_ports(&error.to_string())).or_default() += 1;
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
    outcome
}

/// The same problem of two connections is one problem.
fn without_ports(message: &str) -> String {
    let mut out = String::new();
    let mut digits = false;
    for character in message.chars() {
        let is_digit = character.is_ascii_digit();
        if !is_digit {
            out.push(character);
        } else if !digits {
            out.push('#');
        }
        digits = is_digit;
    }
    out
}
