//! `modgate probe`: asks webhooks for one review each, as the API server does, until they answer. The chart runs it
//! for `helm test`.

use std::{
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use hyper::{
    Method, StatusCode, Uri,
    body::Bytes,
    header::{CONTENT_TYPE, HeaderValue},
};
use modgate_http::{Bounds, Client, Outgoing, Trust};
use modgate_value::{Value, gotime};
use rustls::pki_types::{CertificateDer, pem::PemObject as _};
use tokio::{
    runtime::{Builder, Runtime},
    time::Instant,
};

use crate::{
    exit::Exit,
    terminal::{Terminal, one_line},
};

pub(crate) const EXAMPLES: &str = "\
Examples:
  # Send a review to the webhook of constraints through its Service, from a Pod of the cluster
  modgate probe --ca ca.crt https://gatekeeper-webhook-service.gatekeeper-system.svc/v1/admit

  # Send reviews to a modgate on this machine
  modgate probe --ca tls.crt https://localhost:9443/v1/admit https://localhost:9443/dragnet-webhook

Exit codes:
  0  every webhook answers the review
  1  a webhook does not answer it in time
  2  arguments or files are not valid";

/// The largest answer.
const MAX_ANSWER: usize = 8 << 20;
/// How long one attempt may take.
const ATTEMPT: Duration = Duration::from_secs(10);
/// Between attempts.
const PAUSE: Duration = Duration::from_millis(500);
/// The `uid` of the review, which the answer repeats.
const UID: &str = "6d6f6467-6174-4e00-8000-000000000000";

/// Arguments of `modgate probe`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ProbeArgs {
    /// URL of a webhook, `https` with its path; repeat for more.
    #[arg(value_name = "URL", required = true, value_parser = url)]
    urls: Vec<Uri>,
    /// PEM file with the CAs that vouch for the webhooks; the connection is TLS 1.3
    /// [default: those of the system]
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Time to try again for, until all webhooks answer.
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = time)]
    timeout: Duration,
    /// Namespace of the ConfigMap in the review; nothing is created.
    #[arg(short, long, value_name = "NAMESPACE", default_value = "default",
        value_parser = crate::args::namespace)]
    namespace: String,
}

fn url(text: &str) -> Result<Uri, String> {
    let url: Uri = text.parse().map_err(|error| format!("not a URL: {error}"))?;
    if url.scheme_str() != Some("https") || matches!(url.path(), "" | "/") {
        return Err(
            "expected `https://HOST/PATH`, with the path of a webhook such as /v1/admit".into()
        );
    }
    Ok(url)
}

fn time(text: &str) -> Result<Duration, String> {
    let nanoseconds = u64::try_from(gotime::Duration::parse(text)?.0).unwrap_or_default();
    let time = Duration::from_nanos(nanoseconds);
    if !(Duration::from_secs(1)..=Duration::from_secs(600)).contains(&time) {
        return Err("expected 1s to 10m".to_owned());
    }
    Ok(time)
}

pub(crate) fn run(args: &ProbeArgs, terminal: &Terminal) -> Result<Exit> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let deadline = Instant::now() + args.timeout;
    let mut exit = Exit::Success;
    for url in &args.urls {
        match wait(args, &runtime, url, deadline)? {
            Ok(decision) => writeln!(io::stdout(), "{url} answers: {decision}")?,
            Err(reason) => {
                let time = args.timeout.as_secs();
                terminal.error(&format!("{url} does not answer within {time} s: {reason}"));
                exit = Exit::Denied;
            }
        }
    }
    Ok(exit)
}

/// The decision of a webhook, as soon as it answers; else why it did not answer at last.
fn wait(
    args: &ProbeArgs,
    runtime: &Runtime,
    url: &Uri,
    deadline: Instant,
) -> Result<Result<String, String>> {
    loop {
        // The authorities may be renewed meanwhile.
        let client = Client::new(trust(args.ca.as_deref())?)?;
        match runtime.block_on(ask(&client, url, &args.namespace, deadline)) {
            Err(_) if Instant::now() + PAUSE < deadline => thread::sleep(PAUSE),
            ended => return Ok(ended),
        }
    }
}

fn trust(ca: Option<&Path>) -> Result<Trust> {
    let Some(path) = ca else { return Ok(Trust::System) };
    let shown = path.display();
    let text = fs::read(path).with_context(|| format!("cannot read `{shown}`"))?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let found = found.with_context(|| format!("`{shown}` is not PEM"))?;
    ensure!(!found.is_empty(), "`{shown}` has no certificate");
    Ok(Trust::Only { roots: found.iter().map(|der| der.to_vec()).collect(), identity: None })
}

async fn ask(
    client: &Client,
    url: &Uri,
    namespace: &str,
    deadline: Instant,
) -> Result<String, String> {
    let outgoing = Outgoing {
        method: Method::POST,
        url: url.clone(),
        headers: vec![(CONTENT_TYPE, HeaderValue::from_static("application/json"))],
        body: Bytes::from(review(namespace)),
    };
    let deadline = deadline.min(Instant::now() + ATTEMPT);
    let answer = client.exchange(outgoing, Bounds { deadline, body_bytes: MAX_ANSWER }).await;
    let answer = answer.map_err(|error| advised(&error.reason))?;
    let text = String::from_utf8_lossy(&answer.body);
    if answer.status != StatusCode::OK {
        let advice = match answer.status {
            StatusCode::NOT_FOUND => "; this path is not one of modgate's webhooks",
            _ => "",
        };
        let text = one_line(&text.chars().take(200).collect::<String>());
        return Err(format!("HTTP status {}: {text}{advice}", answer.status));
    }
    decision(&answer.body).ok_or_else(|| {
        "the answer is no AdmissionReview about this request; something else listens there"
            .to_owned()
    })
}

/// Why there is no connection, and what to do about it.
fn advised(reason: &str) -> String {
    let advice = if reason.contains("certificate") {
        "; compare its certificate with `--ca`: `kubectl modgate status` shows how long it lasts"
    } else if reason.contains("dns") || reason.contains("lookup") {
        "; there is no such Service, or the DNS of the cluster does not answer"
    } else {
        "; no Pod is ready, or a NetworkPolicy keeps others from the port: `kubectl get pods,endpointslices` shows \
         the Pods that the Service has"
    };
    format!("{reason}{advice}")
}

/// The decision in an answer to the review; `None` if the answer has none.
fn decision(body: &[u8]) -> Option<String> {
    let review = Value::from_json(body).ok()?;
    let response = review.get("response")?;
    if response.get("uid")?.as_str()? != UID {
        return None;
    }
    if response.get("allowed")? == &Value::from(true) {
        return Some("allowed".to_owned());
    }
    // KubeMod's webhook says why in `reason`.
    let text = |key: &str| response.path(&["status", key])?.as_str().filter(|it| !it.is_empty());
    let message = text("message").or_else(|| text("reason")).unwrap_or("without a message");
    Some(format!("denied: {}", one_line(message)))
}

/// A review of a ConfigMap that is not created.
fn review(namespace: &str) -> String {
    let namespace = Value::from(namespace).to_json();
    let names = r#"{"group":"","version":"v1","#;
    format!(
        r#"{{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{{"uid":"{UID}","kind":{names}"kind":"ConfigMap"}},"resource":{names}"resource":"configmaps"}},"requestKind":{names}"kind":"ConfigMap"}},"requestResource":{names}"resource":"configmaps"}},"name":"modgate-probe","namespace":{namespace},"operation":"CREATE","userInfo":{{"username":"modgate-probe"}},"object":{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"modgate-probe","namespace":{namespace}}}}},"oldObject":null,"dryRun":true,"options":{{"apiVersion":"meta.k8s.io/v1","kind":"CreateOptions","dryRun":["All"]}}}}}}"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_about_the_review() {
        let review = Value::from_json(review("shop").as_bytes()).expect("JSON");
        assert_eq!(review.pointer("/request/uid").and_then(Value::as_str), Some(UID));
        let answer = |response: &str| decision(format!(r#"{{"response":{response}}}"#).as_bytes());
        let allowed = format!(r#"{{"uid":"{UID}","allowed":true}}"#);
        assert_eq!(answer(&allowed).as_deref(), Some("allowed"));
        let denied = format!(r#"{{"uid":"{UID}","allowed":false,"status":{{"message":"a\nb"}}}}"#);
        assert!(answer(&denied).expect("a decision").starts_with("denied: a"));
        assert_eq!(answer(r#"{"uid":"other","allowed":true}"#), None);
        assert_eq!(decision(b"<html>"), None);
    }

    #[test]
    fn urls_name_a_webhook() {
        assert!(url("https://a.svc/v1/admit").is_ok());
        for wrong in ["http://a.svc/v1/admit", "https://a.svc", "https://a.svc/", "a.svc/v1/admit"]
        {
            assert!(url(wrong).is_err(), "{wrong}");
        }
        assert_eq!(time("30s"), Ok(Duration::from_secs(30)));
        assert!(time("0s").is_err() && time("1h").is_err());
    }
}
