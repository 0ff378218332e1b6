//! `cargo xtask load`: drives one webhook route over TLS and checks every single answer.
//!
//! The generator shares its machine with the server, so it is built to cost little: one blocking
//! thread per connection, one TLS 1.3 session each, the request bytes prepared once. A request is
//! never sent twice alike: its uid carries a counter, and an answer counts only if it carries the
//! same uid and is otherwise byte for byte (or else field for field) the first answer. Nothing but
//! loopback addresses is ever contacted.

pub(crate) mod library;
mod viewers;

use std::{
    fmt, fs,
    io::{self, Write},
    net::{SocketAddr, ToSocketAddrs as _},
    path::{Path, PathBuf},
    str::FromStr,
    sync::{Arc, OnceLock},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use modgate_e2e::connection::Connection;
use modgate_testkit::client;
use modgate_value::{Object, Value};
use rustls::{ClientConfig, ClientConnection, pki_types::ServerName};

use crate::content;

/// Options of `cargo xtask load`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Write rules and a review to measure with into this folder, then stop.
    #[arg(long, value_name = "DIR")]
    fixture: Option<PathBuf>,
    /// Write the policies of the public Gatekeeper library, from where the corpora are, and a Pod
    /// and a Deployment to ask them with into this folder, then stop.
    #[arg(long, value_name = "DIR", conflicts_with = "fixture")]
    library: Option<PathBuf>,
    /// How many rules `--fixture` writes; one in five matches the review.
    #[arg(long, default_value_t = 10, requires = "fixture")]
    rules: usize,
    /// How many templates `--fixture` writes beside them, each with a constraint on Pods.
    #[arg(long, default_value_t = 0, requires = "fixture")]
    templates: usize,
    /// Route to post to.
    #[arg(long, default_value = "/dragnet-webhook")]
    route: String,
    /// Address of the server; loopback only.
    #[arg(long, default_value = "127.0.0.1:9443")]
    address: String,
    /// Connections kept open, each with one request at a time.
    #[arg(long, default_value_t = 8)]
    connections: usize,
    /// How long to measure, after one second of warming up.
    #[arg(long, default_value_t = 15)]
    seconds: u64,
    /// AdmissionReview to send, as JSON.
    #[arg(long, value_name = "FILE", required_unless_present_any = ["fixture", "library"])]
    body: Option<PathBuf>,
    /// Fail unless the review is answered with this.
    #[arg(long, value_name = "true|false")]
    expect_allowed: Option<bool>,
    /// Fail unless the answer does (or does not) carry a patch.
    #[arg(long, value_name = "true|false")]
    expect_patch: Option<bool>,
    /// Fail below this many reviews per second.
    #[arg(long, value_name = "N")]
    expect_rate: Option<f64>,
    /// Fail when the 99th percentile is above this many milliseconds.
    #[arg(long, value_name = "MS")]
    expect_p99: Option<f64>,
    /// Viewers of the live page that poll it meanwhile, every two seconds each.
    #[arg(long, default_value_t = 0, requires = "page")]
    viewers: usize,
    /// Address of the live page (`--ui-address`); loopback only.
    #[arg(long, value_name = "ADDRESS")]
    page: Option<String>,
    /// Report the peak memory and processor time of this process (Linux).
    #[arg(long)]
    pid: Option<u32>,
}

/// Runs the load or writes the fixture; false when an answer was wrong or a bar was missed.
pub(crate) fn run(args: &Args) -> Result<bool> {
    if let Some(dir) = &args.fixture {
        write_fixture(dir, args.rules, args.templates)?;
        return Ok(true);
    }
    if let Some(dir) = &args.library {
        library::write(dir)?;
        return Ok(true);
    }
    let body = args.body.as_deref().context("`--body` is missing")?;
    let target = Target::resolve(&args.address, &args.route)?;
    let request =
        Request::prepare(&target, &fs::read(body).with_context(|| body.display().to_string())?)?;
    let expected =
        Expected { allowed: args.expect_allowed, patch: args.expect_patch, any_order: false };

    let page = args.page.as_deref().map(viewers::resolve).transpose()?;
    let at_rest = args.pid.and_then(ProcessFigures::read);
    let warm_up = Instant::now() + Duration::from_secs(1);
    let end = warm_up + Duration::from_secs(args.seconds);
    let (outcomes, warm, seen) = thread::scope(|scope| {
        // Reviews before that do not count, nor does what they cost.
        let warm = scope.spawn(move || {
            thread::sleep(warm_up.saturating_duration_since(Instant::now()));
            args.pid.and_then(ProcessFigures::read)
        });
        let watching: Vec<_> = (0..args.viewers)
            .filter_map(|index| Some((index, page?)))
            .map(|(index, page)| {
                scope.spawn(move || viewers::watch(page, index, args.viewers, end))
            })
            .collect();
        let outcomes = drive(&target, &request, &expected, args.connections, (warm_up, end))?;
        let seen = watching.into_iter().filter_map(|viewer| viewer.join().ok());
        let seen = seen.fold(viewers::Seen::default(), viewers::Seen::and);
        Ok::<_, anyhow::Error>((outcomes, warm.join().ok().flatten(), seen))
    })?;
    let report = Report::of(args, outcomes, at_rest.zip(warm));
    let mut out = io::stdout().lock();
    writeln!(out, "{report}")?;
    if args.viewers > 0 {
        let viewers::Seen { answers, refused, failed } = seen;
        writeln!(out, "viewers     {answers} answers, {refused} refused, {failed} failed")?;
    }
    if let Err(error) = report.check(args) {
        writeln!(out, "failed      {error:#}")?;
        return Ok(false);
    }
    Ok(true)
}

/// Sends a request over so many connections until the second moment; latencies count from the first one on. Every answer
/// must be the first one.
pub(crate) fn drive(
    target: &Target,
    request: &Request,
    expected: &Expected,
    connections: usize,
    (warm_up, end): (Instant, Instant),
) -> Result<Vec<Outcome>> {
    let reference = Reference::default();
    thread::scope(|scope| {
        let start = |index: usize| {
            let (request, reference) = (request.clone(), &reference);
            let worker = Worker { target, request, reference, expected, index };
            scope.spawn(move || worker.run(warm_up, end))
        };
        let workers: Vec<_> = (0..connections).map(start).collect();
        let joined = workers.into_iter().map(|worker| worker.join());
        joined.map(|it| it.map_err(|_| anyhow::anyhow!("a worker panicked"))).collect()
    })
}

/// Where to send requests.
pub(crate) struct Target {
    address: SocketAddr,
    route: String,
    tls: Arc<ClientConfig>,
}

impl Target {
    /// A route of a server on loopback.
    pub(crate) fn resolve(address: &str, route: &str) -> Result<Self> {
        let address = address
            .to_socket_addrs()
            .with_context(|| format!("`{address}` is not an address with a port"))?
            .next()
            .context("the address has no address")?;
        ensure!(address.ip().is_loopback(), "`{address}` is not a loopback address");
        ensure!(route.starts_with('/'), "`{route}` is not a path");
        // The handshake's signature is checked, so a handshake costs what it costs an API server.
        let mut tls = client::trusting(&[&rustls::version::TLS13])?.with_no_client_auth();
        tls.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self { address, route: route.to_owned(), tls: Arc::new(tls) })
    }

    /// The client's side of TLS for a protocol, before the handshake.
    pub(crate) fn session(&self, protocol: &[u8]) -> Result<ClientConnection> {
        let mut config = (*self.tls).clone();
        config.alpn_protocols = vec![protocol.to_vec()];
        Ok(ClientConnection::new(Arc::new(config), ServerName::try_from("localhost")?)?)
    }

    pub(crate) fn connect(&self) -> Result<Connection> {
        Connection::open(self.address, &self.tls, Duration::from_secs(30))
    }
}

/// Length of the uid in every request, that of a UUID.
const UID_LENGTH: usize = 36;

/// The bytes of one request, with the place of the uid in them.
#[derive(Clone)]
pub(crate) struct Request {
    bytes: Vec<u8>,
    uid_at: usize,
}

impl Request {
    /// The request that posts an AdmissionReview.
    pub(crate) fn prepare(target: &Target, body: &[u8]) -> Result<Self> {
        let review = Value::from_json(body).context("the body is not JSON")?;
        let Some(request) = review.get("request").and_then(Value::as_object) else {
            bail!("the body has no `request`: it is not an AdmissionReview");
        };
        // A text that cannot occur elsewhere, so that its place can be found in the output.
        let marker = "\u{1}".repeat(UID_LENGTH / 6);
        let mut request = request.clone();
        request.insert("uid", Value::from(marker.as_str()));
        let mut review = review.as_object().cloned().unwrap_or_default();
        review.insert("request", Value::from(request));
        let escaped = "\\u0001".repeat(UID_LENGTH / 6);
        let body = Value::from(review).to_json();
        let marked = body.find(&escaped).context("the uid was not written")?;
        let head = format!(
            "POST {}?timeout=10s HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n\
             Accept: application/json\r\nContent-Length: {}\r\n\r\n",
            target.route,
            target.address,
            body.len()
        );
        let uid_at = head.len() + marked;
        Ok(Self { bytes: [head.as_bytes(), body.as_bytes()].concat(), uid_at })
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Gives the request another uid and returns it.
    pub(crate) fn renew(&mut self, connection: usize, counter: u64) -> String {
        let uid = format!("{connection:08x}-0000-4000-8000-{:012x}", counter & 0xffff_ffff_ffff);
        if let Some(place) = self.bytes.get_mut(self.uid_at..self.uid_at + UID_LENGTH) {
            place.copy_from_slice(uid.as_bytes());
        }
        uid
    }
}

/// The requirements of `--expect-…` for the answer.
pub(crate) struct Expected {
    pub(crate) allowed: Option<bool>,
    pub(crate) patch: Option<bool>,
    /// Whether a patch may have the operations of the first one in another order, as KubeMod's do.
    pub(crate) any_order: bool,
}

/// The first answer, which all others must equal.
#[derive(Default)]
pub(crate) struct Reference(OnceLock<Answer>);

struct Answer {
    /// Text before and after the uid.
    around_uid: (Vec<u8>, Vec<u8>),
    fields: Fields,
}

/// The members of a response that decide something.
#[derive(Debug, PartialEq, Eq)]
struct Fields {
    uid: String,
    allowed: bool,
    patch: Option<String>,
    code: Option<i64>,
}

impl Fields {
    fn parse(body: &[u8]) -> Result<Self> {
        let review = Value::from_json(body)?;
        let response = review.get("response").context("the answer has no `response`")?;
        let text = |key| response.get(key).and_then(Value::as_str).map(str::to_owned);
        Ok(Self {
            uid: text("uid").context("the response has no `uid`")?,
            allowed: response
                .get("allowed")
                .and_then(Value::as_bool)
                .context("the response has no `allowed`")?,
            patch: text("patch"),
            code: response.path(&["status", "code"]).and_then(Value::as_i64),
        })
    }
}

/// The operations of a patch, sorted by their texts.
fn operations(fields: &Fields) -> Result<Option<Vec<String>>> {
    let Some(patch) = &fields.patch else { return Ok(None) };
    let patch = Value::from_json(&STANDARD.decode(patch).context("the patch is no base64")?)?;
    let operations = patch.as_array().context("the patch is no list")?;
    let mut texts: Vec<_> = operations.iter().map(Value::to_json).collect();
    texts.sort_unstable();
    Ok(Some(texts))
}

impl Reference {
    /// Checks one answer.
    pub(crate) fn check(&self, uid: &str, body: &[u8], expected: &Expected) -> Result<()> {
        let Some(first) = self.0.get() else {
            let answer = Answer::first(uid, body, expected)?;
            // Another worker may have been first: then this answer is compared like any other.
            if self.0.set(answer).is_err() {
                return self.check(uid, body, expected);
            }
            return Ok(());
        };
        let (before, after) = &first.around_uid;
        let same = body
            .strip_prefix(before.as_slice())
            .and_then(|rest| rest.strip_prefix(uid.as_bytes()))
            .is_some_and(|rest| rest == after.as_slice());
        if same {
            return Ok(());
        }
        let fields = Fields::parse(body)?;
        ensure!(fields.uid == uid, "uid `{}` answers uid `{uid}`", fields.uid);
        let first = &first.fields;
        let same_patch = fields.patch == first.patch
            || expected.any_order && operations(&fields)? == operations(first)?;
        ensure!(
            (fields.allowed, fields.code) == (first.allowed, first.code) && same_patch,
            "the answer differs from the first one"
        );
        Ok(())
    }
}

impl Answer {
    fn first(uid: &str, body: &[u8], expected: &Expected) -> Result<Self> {
        let fields = Fields::parse(body)
            .with_context(|| format!("first answer: {}", String::from_utf8_lossy(body)))?;
        ensure!(fields.uid == uid, "uid `{}` answers uid `{uid}`", fields.uid);
        if let Some(allowed) = expected.allowed {
            ensure!(fields.allowed == allowed, "allowed is {}, expected {allowed}", fields.allowed);
        }
        if let Some(patch) = expected.patch {
            let found = fields.patch.is_some();
            ensure!(found == patch, "the answer has a patch: {found}, expected {patch}");
        }
        let at = body
            .windows(uid.len())
            .position(|window| window == uid.as_bytes())
            .context("the uid is not spelled as sent")?;
        let (before, rest) = body.split_at(at);
        let after = rest.get(uid.len()..).unwrap_or_default();
        Ok(Self { around_uid: (before.to_vec(), after.to_vec()), fields })
    }
}

/// The results of one connection.
#[derive(Default)]
pub(crate) struct Outcome {
    /// Nanoseconds of each answered review that was sent after warming up.
    pub(crate) latencies: Vec<u64>,
    errors: u64,
    pub(crate) first_error: Option<String>,
}

struct Worker<'a> {
    target: &'a Target,
    request: Request,
    reference: &'a Reference,
    expected: &'a Expected,
    index: usize,
}

/// After this many failures a connection gives up.
const MAX_ERRORS: u64 = 100;

impl Worker<'_> {
    fn run(mut self, warm_up: Instant, end: Instant) -> Outcome {
        let mut outcome = Outcome::default();
        let mut connection = None;
        for counter in 0_u64.. {
            let start = Instant::now();
            if start >= end || outcome.errors >= MAX_ERRORS {
                break;
            }
            match self.review(&mut connection, counter) {
                // Latency includes reconnecting, should the server hang up: a user waits for it.
                Ok(()) if start >= warm_up => {
                    let nanos = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
                    outcome.latencies.push(nanos);
                }
                Ok(()) => {}
                Err(error) => {
                    connection = None;
                    outcome.errors += 1;
                    outcome.first_error.get_or_insert_with(|| format!("{error:#}"));
                }
            }
        }
        outcome
    }

    fn review(&mut self, connection: &mut Option<Connection>, counter: u64) -> Result<()> {
        let uid = self.request.renew(self.index, counter);
        let open = match connection {
            Some(open) => open,
            None => connection.insert(self.target.connect()?),
        };
        let body = open.exchange(&self.request.bytes)?;
        self.reference.check(&uid, body, self.expected)
    }
}

/// The figures of a run.
struct Report {
    cpu: String,
    route: String,
    connections: usize,
    seconds: u64,
    reviews: usize,
    errors: u64,
    first_error: Option<String>,
    /// Ascending, nanoseconds.
    latencies: Vec<u64>,
    /// The figures of the server before and after, and the processor time of the reviews that
    /// count.
    process: Option<(ProcessFigures, ProcessFigures, Duration)>,
}

impl Report {
    /// `before` has the figures of the server at rest and after warming up.
    fn of(
        args: &Args,
        outcomes: Vec<Outcome>,
        before: Option<(ProcessFigures, ProcessFigures)>,
    ) -> Self {
        let errors = outcomes.iter().map(|outcome| outcome.errors).sum();
        let first_error = outcomes.iter().find_map(|outcome| outcome.first_error.clone());
        let mut latencies: Vec<u64> =
            outcomes.into_iter().flat_map(|outcome| outcome.latencies).collect();
        latencies.sort_unstable();
        let now = args.pid.and_then(ProcessFigures::read);
        let process = now.zip(before).map(|(now, (at_rest, warm))| {
            let busy = now.cpu.saturating_sub(warm.cpu);
            (at_rest, now, busy)
        });
        Self {
            cpu: cpu_model(),
            route: args.route.clone(),
            connections: args.connections,
            seconds: args.seconds,
            reviews: latencies.len(),
            errors,
            first_error,
            latencies,
            process,
        }
    }

    fn rate(&self) -> f64 {
        count(self.reviews) / Duration::from_secs(self.seconds).as_secs_f64()
    }

    fn percentile(&self, share: f64) -> f64 {
        percentile(&self.latencies, share)
    }

    fn check(&self, args: &Args) -> Result<()> {
        ensure!(
            self.errors == 0,
            "{} failed: {}",
            self.errors,
            self.first_error.as_deref().unwrap_or_default()
        );
        ensure!(self.reviews > 0, "no review was answered");
        if let Some(least) = args.expect_rate {
            ensure!(self.rate() >= least, "{:.0} reviews/s, expected {least:.0}", self.rate());
        }
        if let Some(most) = args.expect_p99 {
            let p99 = self.percentile(0.99);
            ensure!(p99 <= most, "p99 {p99:.2} ms, expected at most {most} ms");
        }
        Ok(())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "route       {}", self.route)?;
        writeln!(
            f,
            "load        {} connections, {} s, TLS 1.3, keep-alive, every answer checked",
            self.connections, self.seconds
        )?;
        writeln!(f, "reviews     {} ({:.0}/s)", self.reviews, self.rate())?;
        writeln!(
            f,
            "latency     p50 {:.3} ms, p90 {:.3} ms, p99 {:.3} ms, max {:.3} ms",
            self.percentile(0.5),
            self.percentile(0.9),
            self.percentile(0.99),
            self.percentile(1.0)
        )?;
        writeln!(f, "errors      {}", self.errors)?;
        if let Some((before, now, busy)) = &self.process {
            writeln!(
                f,
                "server      {:.1} MB at rest, {:.1} MB under load, {:.1} MB peak resident, {:.1} s \
                 processor time, {:.3} ms for each review",
                count(before.resident_kib) / 1024.0,
                count(now.resident_kib) / 1024.0,
                count(now.peak_kib) / 1024.0,
                busy.as_secs_f64(),
                busy.as_secs_f64() * 1000.0 / count(self.reviews.max(1))
            )?;
        }
        write!(f, "processor   {}", self.cpu)
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts for people, far below 2^52")]
pub(crate) fn count(number: usize) -> f64 {
    number as f64
}

/// The latency below which `share` of them stayed, in milliseconds; they are in nanoseconds, sorted.
pub(crate) fn percentile(latencies: &[u64], share: f64) -> f64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of a length is a small non-negative number"
    )]
    let rank = (count(latencies.len()) * share).ceil() as usize;
    let nanos = latencies.get(rank.saturating_sub(1)).copied().unwrap_or_default();
    Duration::from_nanos(nanos).as_secs_f64() * 1000.0
}

/// The figures of Linux about a process.
pub(crate) struct ProcessFigures {
    /// `VmRSS`, the memory it has resident.
    pub(crate) resident_kib: usize,
    /// `VmHWM`, the most it ever had.
    pub(crate) peak_kib: usize,
    /// User and system time.
    pub(crate) cpu: Duration,
}

impl ProcessFigures {
    pub(crate) fn read(pid: u32) -> Option<Self> {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let kib = |key: &str| -> Option<usize> {
            let line = status.lines().find_map(|line| line.strip_prefix(key))?;
            line.trim().trim_end_matches(" kB").parse().ok()
        };
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The second field is the command in parentheses and may hold anything.
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
        let mut ticks = || fields.next().and_then(|field| u64::from_str(field).ok());
        // Linux counts in USER_HZ, which is 100 on every architecture it runs on today.
        let cpu = Duration::from_millis((ticks()? + ticks()?) * 10);
        Some(Self { resident_kib: kib("VmRSS:")?, peak_kib: kib("VmHWM:")?, cpu })
    }
}

pub(crate) fn cpu_model() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info
        .lines()
        .find(|line| line.starts_with("model name"))
        .and_then(|line| line.split_once(':'))
        .map_or("unknown", |(_, model)| model.trim());
    let cores = thread::available_parallelism().map_or(1, usize::from);
    format!("{model}, {cores} cores")
}

/// Writes `policies/rules.yaml` and `review.json`: `rules` rules with four criteria and two
/// operations each, and the review of a Deployment of four containers. The templates and their constraints are in
/// `policies/templates.json`.
pub(crate) fn write_fixture(dir: &Path, rules: usize, templates: usize) -> Result<()> {
    let policies = dir.join("policies");
    fs::create_dir_all(&policies).with_context(|| policies.display().to_string())?;
    let documents: Vec<String> = (0..rules).map(fixture_rule).collect();
    fs::write(policies.join("rules.yaml"), documents.join("---\n"))?;
    if templates > 0 {
        let mut documents = String::new();
        for number in 0..templates {
            for object in [content::template(number)?, content::constraint(number, number)?] {
                documents.push_str(&object.to_json());
                documents.push('\n');
            }
        }
        fs::write(policies.join("templates.json"), documents)?;
    }
    let review = dir.join("review.json");
    fs::write(&review, fixture_review().to_json())?;
    writeln!(io::stdout(), "{}\n{}", policies.display(), review.display())?;
    Ok(())
}

/// Rule `index`; every fifth one matches. The others differ in their last criterion only, so that
/// they cost the most a rule can cost without matching.
pub(crate) fn fixture_rule(index: usize) -> String {
    let team = if index.is_multiple_of(5) { "shop" } else { "nobody" };
    format!(
        r#"apiVersion: api.kubemod.io/v1beta1
kind: ModRule
metadata:
  name: fixture-{index:04}
  namespace: shop
spec:
  type: Patch
  match:
    - select: '$.kind'
      matchValue: Deployment
    - select: '$.spec.template.spec.containers[*].image'
      matchRegex: '^registry\.example\.com/'
    - select: '$.spec.replicas > 1'
    - select: '$.metadata.labels.team'
      matchValue: {team}
  patch:
    - op: add
      path: /metadata/annotations/fixture-{index:04}
      value: 'seen in {{{{ .Namespace }}}}'
    - op: add
      select: '$.spec.template.spec.containers[? @.imagePullPolicy == "Always"]'
      path: /spec/template/spec/containers/#0/workingDir
      value: '/srv/{{{{ .SelectedItem.name }}}}/{index:04}'
"#
    )
}

pub(crate) fn fixture_review() -> Value {
    let container = |index: usize| -> Value {
        let env: Value = (0..10)
            .map(|number| {
                object([
                    ("name", Value::from(format!("SETTING_{number}"))),
                    ("value", Value::from(format!("value {number} of container {index}/4"))),
                ])
            })
            .collect();
        let port = |name: &str, number: i64| {
            object([("name", Value::from(name)), ("containerPort", Value::from(number))])
        };
        object([
            ("name", Value::from(format!("part-{index}"))),
            ("image", Value::from(format!("registry.example.com/shop/part-{index}:1.4.{index}"))),
            ("imagePullPolicy", Value::from("Always")),
            ("ports", [port("http", 8080), port("metrics", 9090)].into_iter().collect()),
            ("env", env),
        ])
    };
    let labels = || object([("app", Value::from("cart")), ("team", Value::from("shop"))]);
    let pod = object([("containers", (0..4).map(container).collect())]);
    let template = object([("metadata", object([("labels", labels())])), ("spec", pod)]);
    let selector = object([("matchLabels", object([("app", Value::from("cart"))]))]);
    let deployment = object([
        ("apiVersion", Value::from("apps/v1")),
        ("kind", Value::from("Deployment")),
        (
            "metadata",
            object([
                ("name", Value::from("cart")),
                ("namespace", Value::from("shop")),
                ("labels", labels()),
                ("annotations", object([("owner", Value::from("shop team"))])),
            ]),
        ),
        (
            "spec",
            object([("replicas", Value::from(3)), ("selector", selector), ("template", template)]),
        ),
    ]);
    let names = |last: &'static str, value: &'static str| {
        object([
            ("group", Value::from("apps")),
            ("version", Value::from("v1")),
            (last, Value::from(value)),
        ])
    };
    object([
        ("apiVersion", Value::from("admission.k8s.io/v1")),
        ("kind", Value::from("AdmissionReview")),
        (
            "request",
            object([
                ("uid", Value::from("00000000-0000-4000-8000-000000000000")),
                ("kind", names("kind", "Deployment")),
                ("resource", names("resource", "deployments")),
                ("name", Value::from("cart")),
                ("namespace", Value::from("shop")),
                ("operation", Value::from("CREATE")),
                ("userInfo", object([("username", Value::from("load"))])),
                ("object", deployment),
                ("oldObject", Value::Null),
                ("dryRun", Value::from(false)),
            ]),
        ),
    ])
}

fn object<const N: usize>(members: [(&str, Value); N]) -> Value {
    members.into_iter().collect::<Object>().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANY: Expected = Expected { allowed: None, patch: None, any_order: false };

    fn answer(uid: &str, allowed: bool, patch: &str) -> Vec<u8> {
        format!(r#"{{"response":{{"uid":"{uid}","allowed":{allowed},"patch":"{patch}"}}}}"#)
            .into_bytes()
    }

    #[test]
    fn every_answer_is_compared_with_the_first() {
        let reference = Reference::default();
        assert!(reference.check("a", &answer("a", true, "p"), &ANY).is_ok());
        assert!(reference.check("b", &answer("b", true, "p"), &ANY).is_ok());
        for (uid, body) in [
            ("c", answer("d", true, "p")),
            ("c", answer("c", false, "p")),
            ("c", answer("c", true, "q")),
            ("c", b"{}".to_vec()),
        ] {
            assert!(reference.check(uid, &body, &ANY).is_err());
        }
    }

    #[test]
    fn operations_may_be_in_another_order_if_the_caller_says_so() {
        let body = |patch: &str| answer("a", true, &STANDARD.encode(patch));
        let any_order = Expected { any_order: true, ..ANY };
        let check = |patch: &str, expected: &Expected| {
            let reference = Reference::default();
            assert!(reference.check("a", &body("[1,2]"), expected).is_ok());
            reference.check("a", &body(patch), expected).is_ok()
        };
        assert!(check("[2,1]", &any_order));
        assert!(!check("[2,1]", &ANY));
        assert!(!check("[2,2]", &any_order));
        assert!(!check("[1]", &any_order));
    }

    #[test]
    fn the_first_answer_must_be_the_expected_one() {
        let denied = Expected { allowed: Some(false), ..ANY };
        assert!(Reference::default().check("a", &answer("a", true, "p"), &denied).is_err());
        let bare = Expected { allowed: Some(true), patch: Some(false), ..ANY };
        assert!(Reference::default().check("a", &answer("a", true, "p"), &bare).is_err());
    }

    #[test]
    fn only_loopback() {
        assert!(Target::resolve("127.0.0.1:1", "/x").is_ok());
        assert!(Target::resolve("192.0.2.1:1", "/x").is_err());
    }

    #[test]
    fn requests_differ_in_their_uid_only() {
        let target = Target::resolve("127.0.0.1:1", "/x").expect("target");
        let body = fixture_review().to_json();
        let mut request = Request::prepare(&target, body.as_bytes()).expect("request");
        let first = request.renew(1, 0);
        let bytes = request.bytes.clone();
        let second = request.renew(1, 1);
        assert_ne!(first, second);
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("text");
        assert_eq!(text(&bytes).replace(&first, &second), text(&request.bytes));
    }
}
