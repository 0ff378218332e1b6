//! The originals' own programs, and modgate, as processes beside a test cluster, for tests that compare them. The
//! person who runs the tests has built the programs; nothing here builds or fetches one.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use modgate_engine::{
    Review,
    api::{
        admission::{ReviewVersion, review_of},
        crds,
        meta::Operation,
    },
    constraint::ConstraintSchema,
};
use modgate_prove::{answer::Answer, value};
use modgate_testkit::{
    client::{self, free_address},
    cluster::Cluster,
    gatekeeper::library::{self, Policies},
    rego::library::folder,
};
use modgate_value::{Value, yaml};
use rustls::ClientConfig;
use tempfile::TempDir;

use crate::connection::Connection;

/// How long a program may take until it answers. Gatekeeper loads the library in half a minute on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(120);
/// KubeMod listens here; no flag changes it.
const KUBEMOD_PORT: u16 = 9443;
/// The Pod that Gatekeeper takes itself for. The garbage collector removes the statuses of one that does not exist.
const POD: &str = "gatekeeper-of-a-test";
/// The Namespaces of the programs.
const NAMESPACES: [&str; 2] = ["gatekeeper-system", "kubemod-system"];

/// A program that serves webhooks, with a certificate for `127.0.0.1` and `localhost`. It ends when dropped.
#[derive(Debug)]
pub struct Served {
    process: Child,
    /// Where its webhooks are.
    pub address: SocketAddr,
    /// Where its metrics are.
    pub metrics: SocketAddr,
    folder: TempDir,
    tls: Arc<ClientConfig>,
}

impl Served {
    /// Gatekeeper's manager with these operations. It makes no ValidatingAdmissionPolicies: with them it leaves
    /// constraints in CEL to the API server.
    ///
    /// # Errors
    ///
    /// If it does not start, or does not become ready.
    pub fn gatekeeper(
        program: &Path,
        cluster: &Cluster,
        operations: &[&str],
        more: &[&str],
    ) -> Result<Self> {
        let folder = certificate(Path::new(""))?;
        let (address, metrics, health) = (free_address()?, free_address()?, free_address()?);
        let scratch = folder.path().join("scratch");
        fs::create_dir(&scratch)?;
        let mut command = Command::new(program);
        command
            .args(["--host", "127.0.0.1", "--port", &address.port().to_string()])
            .args(["--prometheus-port", &metrics.port().to_string()])
            .args(["--health-addr", &health.to_string()])
            .arg("--log-level=ERROR")
            .arg("--api-cache-dir")
            .arg(scratch)
            .args(as_gatekeeper(&folder, operations))
            .args(more);
        for (name, value) in [("POD_NAMESPACE", NAMESPACES[0]), ("NAMESPACE", NAMESPACES[0])] {
            command.env(name, value);
        }
        command.env("POD_NAME", POD);
        Self::start(command, cluster, folder, [address, metrics], (health, "/readyz"))
    }

    /// KubeMod's operator.
    ///
    /// # Errors
    ///
    /// As [`gatekeeper`](Self::gatekeeper); or if something listens on its port.
    pub fn kubemod(program: &Path, cluster: &Cluster) -> Result<Self> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, KUBEMOD_PORT));
        TcpListener::bind((Ipv4Addr::UNSPECIFIED, KUBEMOD_PORT)).with_context(|| {
            format!("KubeMod listens on port {KUBEMOD_PORT} only; end what uses it")
        })?;
        let folder = certificate(Path::new("k8s-webhook-server/serving-certs"))?;
        let (metrics, health) = (free_address()?, free_address()?);
        let mut command = Command::new(program);
        command
            .arg("-operator")
            .args(["-operator-metrics-addr", &metrics.to_string()])
            .args(["-operator-health-probe-addr", &health.to_string()])
            // Where it looks for its certificate.
            .env("TMPDIR", folder.path());
        // Without the slash it redirects.
        Self::start(command, cluster, folder, [address, metrics], (health, "/readyz/"))
    }

    /// `modgate serve` for the same cluster. It logs errors only.
    ///
    /// # Errors
    ///
    /// As [`gatekeeper`](Self::gatekeeper).
    pub fn modgate(
        program: &Path,
        cluster: &Cluster,
        operations: &[&str],
        more: &[&str],
    ) -> Result<Self> {
        Self::modgate_logging("error", program, cluster, operations, more)
    }

    /// The same with another `--log-level`.
    ///
    /// # Errors
    ///
    /// As [`gatekeeper`](Self::gatekeeper).
    pub fn modgate_logging(
        level: &str,
        program: &Path,
        cluster: &Cluster,
        operations: &[&str],
        more: &[&str],
    ) -> Result<Self> {
        let folder = certificate(Path::new(""))?;
        let (address, metrics, health) = (free_address()?, free_address()?, free_address()?);
        let mut command = Command::new(program);
        command
            .arg("serve")
            .args(["--log-level", level])
            .args(["--address", &address.to_string()])
            .args(["--metrics-addr", &metrics.to_string()])
            .args(["--health-addr", &health.to_string()])
            .args(as_gatekeeper(&folder, operations))
            .args(more);
        Self::start(command, cluster, folder, [address, metrics], (health, "/readyz"))
    }

    fn start(
        mut command: Command,
        cluster: &Cluster,
        folder: TempDir,
        [address, metrics]: [SocketAddr; 2],
        (health, probe): (SocketAddr, &str),
    ) -> Result<Self> {
        let log = File::create(folder.path().join(LOG))?;
        let kubeconfig = cluster.kubeconfig();
        let process = command
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("start {}", command.get_program().display()))?;
        let mut tls = client::trusting(&[&rustls::version::TLS13])?.with_no_client_auth();
        tls.alpn_protocols = vec![b"http/1.1".to_vec()];
        let mut served = Self { process, address, metrics, folder, tls: Arc::new(tls) };
        let answers = || client::get(health, probe).is_ok_and(|response| response.status == 200);
        served.until("it is ready", |_| Ok(answers()))?;
        Ok(served)
    }

    /// Waits until something holds, and fails with the end of the program's log if it does not, or if the
    /// program ends.
    ///
    /// # Errors
    ///
    /// As said.
    pub fn until(
        &mut self,
        what: &str,
        mut holds: impl FnMut(&Self) -> Result<bool>,
    ) -> Result<()> {
        let deadline = Instant::now() + TIMEOUT;
        while !holds(self)? {
            if let Some(status) = self.process.try_wait()? {
                bail!("the program ended before {what}: {status}\n{}", self.log());
            }
            ensure!(Instant::now() < deadline, "waited in vain until {what}\n{}", self.log());
            thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// Its process.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Where its certificate and its log are.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The file that it logs to.
    pub fn log_file(&self) -> PathBuf {
        self.folder.path().join(LOG)
    }

    /// The last lines of its log.
    fn log(&self) -> String {
        let text = fs::read(self.log_file()).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<_> = text.lines().collect();
        let last = lines.get(lines.len().saturating_sub(15)..).unwrap_or_default();
        last.iter().map(|line| line.chars().take(300).chain(['\n']).collect::<String>()).collect()
    }

    /// A connection to its webhooks.
    ///
    /// # Errors
    ///
    /// If it does not listen.
    pub fn connect(&self) -> Result<Connection> {
        Connection::open(self.address, &self.tls, ANSWER_TIME)
    }

    /// The sum of the samples of a metric whose labels contain a text.
    ///
    /// # Errors
    ///
    /// If the metrics cannot be read.
    pub fn metric(&self, name: &str, label: &str) -> Result<f64> {
        let text = client::get(self.metrics, "/metrics")?.body;
        let samples = text.lines().filter_map(|line| line.strip_prefix(name));
        let samples = samples.filter(|rest| rest.starts_with(['{', ' ']) && rest.contains(label));
        Ok(samples.filter_map(|rest| rest.rsplit_once(' ')?.1.parse::<f64>().ok()).sum())
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

const LOG: &str = "log";
/// How long an answer may take.
const ANSWER_TIME: Duration = Duration::from_secs(60);
/// No ValidatingAdmissionPolicies of templates.
const UNGENERATED: [&str; 2] = [
    "--default-create-vap-for-templates=false",
    "--default-create-vap-binding-for-constraints=false",
];

/// The arguments that Gatekeeper and modgate both take: their certificate and their operations.
fn as_gatekeeper(folder: &TempDir, operations: &[&str]) -> Vec<String> {
    let cert_dir = format!("--cert-dir={}", folder.path().display());
    let plain = ["--disable-cert-rotation", &cert_dir].into_iter().chain(UNGENERATED);
    let operations = operations.iter().map(|it| format!("--operation={it}"));
    plain.map(str::to_owned).chain(operations).collect()
}

/// A folder with a certificate in a folder of it; and at its top, as `tls.crt`, for those who trust it.
fn certificate(inner: &Path) -> Result<TempDir> {
    let folder = tempfile::tempdir()?;
    let names = vec!["127.0.0.1".to_owned(), "localhost".to_owned()];
    let made = rcgen::generate_simple_self_signed(names)?;
    let place = folder.path().join(inner);
    fs::create_dir_all(&place)?;
    for place in [place.as_path(), folder.path()] {
        fs::write(place.join("tls.crt"), made.cert.pem())?;
        fs::write(place.join("tls.key"), made.signing_key.serialize_pem())?;
    }
    Ok(folder)
}

/// Sends a review to a route, and returns the `response` of the answer.
///
/// # Errors
///
/// If there is no answer, or it is none to this review.
pub fn ask(connection: &mut Connection, route: &str, review: &Value) -> Result<Value> {
    let body = review.to_json();
    let head = format!(
        "POST {route}?timeout=10s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Accept: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    let answer = connection.exchange((head + &body).as_bytes())?;
    let answer = Value::from_json(answer).context("the answer")?;
    let response = answer.get("response").context("the answer has no response")?;
    ensure!(
        response.get("uid") == review.path(&["request", "uid"]),
        "the answer is to another review: {answer}"
    );
    Ok(response.clone())
}

/// Runs kubectl, which must succeed.
///
/// # Errors
///
/// With what kubectl says.
pub fn kubectl(cluster: &Cluster, arguments: &str, input: &str) -> Result<String> {
    let outcome = cluster.run(arguments.split_whitespace(), input)?;
    ensure!(outcome.success, "kubectl {arguments}: {}", outcome.stderr);
    Ok(outcome.stdout)
}

/// JSON documents as one text for kubectl.
pub fn documents<'v>(objects: impl IntoIterator<Item = &'v Value>) -> String {
    objects.into_iter().map(|object| format!("---\n{}\n", object.to_json())).collect()
}

/// Creates the kinds and Namespaces that both originals need, and these further Namespaces.
///
/// # Errors
///
/// If kubectl fails.
pub fn prepare(cluster: &Cluster, namespaces: &[&str]) -> Result<()> {
    kubectl(cluster, "apply --server-side -f -", &documents(&crds::all()?))?;
    kubectl(cluster, "wait --for=condition=Established crd --all --timeout=60s", "")?;
    let names: BTreeSet<&str> = NAMESPACES.iter().chain(namespaces).copied().collect();
    let all: String = names
        .into_iter()
        .map(|name| format!("---\napiVersion: v1\nkind: Namespace\nmetadata: {{name: {name}}}\n"))
        .collect();
    kubectl(cluster, "apply -f -", &all)?;
    let pod = format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {POD}, namespace: {}}}\n\
         spec: {{automountServiceAccountToken: false, containers: [{{name: manager, image: manager}}]}}\n",
        NAMESPACES[0]
    );
    kubectl(cluster, "apply -f -", &pod)?;
    Ok(())
}

/// The public library: its policies, and the folder that they come from.
#[derive(Debug)]
pub struct Library {
    /// The 49 templates and 75 constraints.
    pub policies: Policies,
    folder: PathBuf,
}

impl Library {
    /// `None`, where it is not among the corpora.
    ///
    /// # Errors
    ///
    /// If it cannot be read.
    pub fn read() -> Result<Option<Self>> {
        let Some(folder) = folder() else { return Ok(None) };
        Ok(Some(Self { policies: library::policies(&folder)?, folder }))
    }

    /// Where it is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Creates the policies, and the kinds of the constraints before them, so that no webhook needs to run.
    ///
    /// # Errors
    ///
    /// If kubectl fails.
    pub fn install(&self, cluster: &Cluster) -> Result<()> {
        let Policies { templates, constraints } = &self.policies;
        let kinds: Result<Vec<Value>, _> = templates
            .iter()
            .map(|template| ConstraintSchema::of_template(template).map(|schema| schema.crd()))
            .collect();
        kubectl(cluster, "apply --server-side -f -", &documents(&kinds?))?;
        let wait = "wait --for=condition=Established crd -l gatekeeper.sh/constraint=yes";
        kubectl(cluster, wait, "")?;
        kubectl(cluster, "apply --server-side -f -", &documents(templates))?;
        // The API server tells of a kind some time after it is Established.
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let outcome =
                cluster.run(["apply", "--server-side", "-f", "-"], &documents(constraints))?;
            if outcome.success {
                return Ok(());
            }
            ensure!(Instant::now() < deadline, "{}", outcome.stderr);
            thread::sleep(Duration::from_millis(500));
        }
    }

    /// Waits until a program has loaded all of them.
    ///
    /// # Errors
    ///
    /// If it does not.
    pub fn loaded(&self, served: &mut Served) -> Result<()> {
        let wanted = [
            ("gatekeeper_constraint_templates", self.policies.templates.len()),
            ("gatekeeper_constraints", self.policies.constraints.len()),
        ];
        for (name, count) in wanted {
            let count = f64::from(u32::try_from(count)?);
            served.until(name, |served| {
                Ok((served.metric(name, "status=\"active\"")? - count).abs() < 0.5)
            })?;
        }
        Ok(())
    }

    /// A review of each object and each AdmissionReview among the samples.
    ///
    /// # Errors
    ///
    /// If a file cannot be read.
    pub fn samples(&self) -> Result<Vec<Value>> {
        let mut text = String::new();
        for group in ["library/general", "library/pod-security-policy"] {
            crate::manifests(&self.folder.join(group), "", ".yaml", &mut text);
        }
        let mut reviews = Vec::new();
        for document in yaml::load(&text)? {
            let object = document.value;
            let kind = object.get("kind").and_then(Value::as_str).unwrap_or_default();
            let group = object.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
            let is_policy = group.contains("gatekeeper.sh") || group.contains("kustomize");
            let is_named =
                kind == "AdmissionReview" || object.path(&["metadata", "name"]).is_some();
            if is_policy || kind.is_empty() || !is_named {
                continue;
            }
            let number = reviews.len();
            reviews.push(match kind {
                "AdmissionReview" => {
                    let request = object.get("request").context("a review without request")?;
                    numbered(&completed(request), number)
                }
                _ => {
                    let review = Review::of_object(object, Operation::Create, "default");
                    numbered(review.sent(), number)
                }
            });
        }
        Ok(reviews)
    }
}

/// A request of a sample, with the members that an API server adds.
fn completed(request: &Value) -> Value {
    let of = |name: &str| request.get(name).filter(|it| !it.is_null()).cloned();
    let operation = match of("operation").as_ref().and_then(Value::as_str) {
        Some("DELETE") => Operation::Delete,
        Some("UPDATE") => Operation::Update,
        _ => Operation::Create,
    };
    let Some(object) = of("object").or_else(|| of("oldObject")) else { return request.clone() };
    let review = Review::of_object(object, operation, "default");
    let mut members = review.sent().as_object().cloned().unwrap_or_default();
    let given = request.as_object().into_iter().flat_map(|it| it.iter());
    for (name, value) in given.filter(|(name, _)| !matches!(name.as_str(), "object" | "uid")) {
        let is_old = name.as_str() == "oldObject";
        if value.is_null() || is_old && operation == Operation::Create {
            continue;
        }
        members.insert(name.clone(), value.clone());
    }
    members.into()
}

/// A review of a request, as an API server sends it, with a uid that has a number.
pub fn numbered(request: &Value, number: usize) -> Value {
    let mut request = request.as_object().cloned().unwrap_or_default();
    let uid = format!("00000000-0000-4000-8000-{number:012x}");
    request.insert("uid", uid.into());
    if request.get("userInfo").is_none_or(|it| it.get("username").is_none()) {
        let user = [("username", Value::from("someone"))].into_iter().collect();
        request.insert("userInfo", user);
    }
    if request.get("operation").and_then(Value::as_str) == Some("UPDATE")
        && request.get("oldObject").is_none_or(Value::is_null)
    {
        let old = request.get("object").cloned().unwrap_or_default();
        request.insert("oldObject", old);
    }
    review_of(ReviewVersion::V1, request)
}

/// Whether an API server could send a review; modgate asks a shadow about no other.
pub fn is_plausible(review: &Value) -> bool {
    let request = review.get("request").cloned().unwrap_or_default();
    Review::from_request(&request).is_ok_and(|it| it.request().implausible().is_none())
}

/// How the responses of an original and of modgate to one review compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compared {
    Equal,
    /// They differ as this row of `docs/compatibility.md` says.
    Declared(&'static str),
    Different,
}

/// Compares two `response`s to a review: whether it is allowed, the texts, and the object that is left.
pub fn compare(review: &Value, theirs: &Value, ours: &Value) -> Compared {
    let request = review.get("request").cloned().unwrap_or_default();
    let Ok(review) = Review::from_request(&request) else { return Compared::Different };
    let answers = [theirs, ours].map(|response| Answer::of_response(&review, response));
    if answers.iter().any(Option::is_none) {
        return Compared::Different;
    }
    let [left, right] = answers;
    if left == right {
        return Compared::Equal;
    }
    let [left, right] = [theirs, ours].map(|it| Answer::of_response(&review, &ordered(it)));
    if left == right { Compared::Declared("GK-Q-43") } else { Compared::Different }
}

/// A response in which equal messages of several constraints are in the order of the constraints' names: the original leaves
/// their order to chance.
fn ordered(response: &Value) -> Value {
    let message = ["status".into(), "message".into()];
    let mut response = response.clone();
    if let Some(text) = value::at(&response, &message).and_then(Value::as_str) {
        let text = in_order(text.split("\n[").map(str::to_owned).collect()).join("\n[");
        response = value::replaced(&response, &message, text.into());
    }
    if let Some(warnings) = response.get("warnings").and_then(Value::as_array) {
        let texts = warnings.iter().filter_map(Value::as_str).map(str::to_owned).collect();
        let texts: Value = in_order(texts).into_iter().map(Value::from).collect();
        response = value::replaced(&response, &["warnings".into()], texts);
    }
    response
}

/// Texts of the form `[constraint] message`, among which those with one message are sorted.
fn in_order(texts: Vec<String>) -> Vec<String> {
    fn parts(text: &str) -> (&str, &str) {
        let (name, message) = text.split_once("] ").unwrap_or(("", text));
        (name.trim_start_matches('['), message)
    }
    let mut sorted: Vec<(String, String)> = texts
        .iter()
        .map(|text| parts(text))
        .map(|(name, message)| (name.to_owned(), message.to_owned()))
        .collect();
    for equal in sorted.chunk_by_mut(|(_, one), (_, other)| one == other) {
        equal.sort_unstable();
    }
    sorted.into_iter().map(|(name, message)| format!("{name}] {message}")).collect()
}

/// The Namespaces that reviews are about, so that they can be created.
pub fn namespaces(reviews: &[Value]) -> BTreeSet<String> {
    let of = |review: &Value| {
        let name = review.path(&["request", "namespace"])?.as_str()?;
        (!name.is_empty()).then(|| name.to_owned())
    };
    reviews.iter().filter_map(of).collect()
}

/// The program that a variable names; a line on standard error says which variable is not set.
#[expect(clippy::print_stderr, reason = "says why tests are skipped")]
pub fn program(variable: &str) -> Option<PathBuf> {
    let named = std::env::var_os(variable).filter(|it| !it.is_empty()).map(PathBuf::from);
    if named.is_none() {
        eprintln!("skipped: {variable} names no program of the original");
    }
    named
}
