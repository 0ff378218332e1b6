//! `modgate status`: the state of an installation.

use std::io::{self, Write};

use anyhow::Result;
use modgate_value::Value;

use super::{
    ConnectionArgs, Wanted,
    api::{items, number, text},
};
use crate::{
    args::TextOrJson,
    exit::Exit,
    outputs::print_json,
    terminal::{Terminal, Tone, printable},
};

/// Days before its end at which a certificate counts as a problem: modgate renews its own long before.
const CERTIFICATE_DAYS: i64 = 7;
/// Seconds of a day.
const DAY: i64 = 24 * 60 * 60;

pub(crate) const EXAMPLES: &str = "\
Examples:
  # Show replicas, certificate, policies that do not load, and the last audit
  kubectl modgate status

  # Show those of a modgate on this machine
  modgate status --address http://127.0.0.1:8088

Exit codes:
  0  every replica is ready, every policy loads, and the certificate is valid for 7 days at least
  1  a replica is not ready, a policy does not load, or the certificate expires before that
  2  modgate cannot be reached";

/// Arguments of `modgate status`.
#[derive(Debug, clap::Args)]
pub(crate) struct StatusArgs {
    /// Output format.
    #[arg(short, long, default_value = "text")]
    output: TextOrJson,
    #[command(flatten)]
    connection: ConnectionArgs,
}

/// Runs the verb.
pub(crate) fn run(args: &StatusArgs, terminal: &Terminal) -> Result<Exit> {
    let pages = args.connection.pages(Wanted::Leader)?;
    let Some(page) = pages.pages.first() else { anyhow::bail!("there is no Pod of modgate") };
    let status = page.get("/api/v1/status", "replica")?;
    let policies = page.get("/api/v1/policies", "items")?;
    let failed: Vec<&Value> =
        items(&policies, &["items"]).filter(|it| text(it, &["status"]) == "failed").collect();
    let problems = problems(&status);
    let mut out = io::stdout().lock();
    match args.output {
        TextOrJson::Json => {
            let failed: Value = failed.iter().map(|it| (*it).clone()).collect();
            let mut members = status.as_object().cloned().unwrap_or_default();
            members.insert("failedPolicies", failed);
            print_json(&mut out, &members.into())?;
        }
        TextOrJson::Text => {
            print(&mut out, &status, &failed, terminal)?;
            for problem in &problems {
                writeln!(out, "{}", terminal.paint(Tone::Bad, printable(problem)))?;
            }
        }
    }
    Ok(if problems.is_empty() { Exit::Success } else { Exit::Denied })
}

/// The problems, in sentences.
fn problems(status: &Value) -> Vec<String> {
    let mut problems = Vec::new();
    let is_bad = |check: &&Value| check.get("ok").and_then(Value::as_bool) != Some(true);
    for check in items(status, &["replica", "checks"]).filter(is_bad) {
        problems.push(format!(
            "the replica is not ready: {} failed: {}",
            text(check, &["name"]),
            text(check, &["message"])
        ));
    }
    let is_ready = |pod: &&Value| pod.get("ready").and_then(Value::as_bool) == Some(true);
    let unready = items(status, &["replicas", "items"]).filter(|pod| !is_ready(pod));
    problems.extend(unready.map(|pod| format!("Pod {} is not ready", text(pod, &["name"]))));
    let unread = text(status, &["replicas", "error"]);
    if !unread.is_empty() {
        problems.push(format!("the Pods are not known: {unread}"));
    }
    let failed = number(status, &["policies", "failed"]);
    if failed > 0 {
        let policies = if failed == 1 { "policy does" } else { "policies do" };
        problems.push(format!("{failed} {policies} not load"));
    }
    match status.path(&["certificate", "secondsLeft"]).and_then(Value::as_i64) {
        None => problems.push("there is no serving certificate".to_owned()),
        Some(seconds) if seconds < 0 => {
            problems.push("the serving certificate has expired".to_owned());
        }
        Some(seconds) if seconds < CERTIFICATE_DAYS * DAY => {
            problems.push(format!("the serving certificate expires in {} days", seconds / DAY));
        }
        Some(_) => {}
    }
    problems
}

fn print(
    out: &mut impl Write,
    status: &Value,
    failed: &[&Value],
    terminal: &Terminal,
) -> Result<()> {
    let version = printable(text(status, &["version"]));
    let source = match text(status, &["source"]) {
        "cluster" => "policies of the cluster",
        _ => "policies of files",
    };
    writeln!(out, "{}", terminal.paint(Tone::Heading, format!("modgate {version}, {source}")))?;
    let pods: Vec<&Value> = items(status, &["replicas", "items"]).collect();
    if !pods.is_empty() {
        let width = pods.iter().map(|pod| text(pod, &["name"]).len()).max().unwrap_or(0).max(7);
        writeln!(out, "{:width$}  READY  LEADER  RESTARTS  STARTED", "REPLICA")?;
        for pod in pods {
            let yes = |member| match pod.get(member).and_then(Value::as_bool) {
                Some(true) => "yes",
                _ => "no",
            };
            let (name, started) = (printable(text(pod, &["name"])), text(pod, &["startedAt"]));
            let restarts = number(pod, &["restarts"]);
            writeln!(
                out,
                "{name:width$}  {:5}  {:6}  {restarts:8}  {}",
                yes("ready"),
                yes("leader"),
                printable(started)
            )?;
        }
    }
    let end = text(status, &["certificate", "notAfter"]);
    if !end.is_empty() {
        let days = number(status, &["certificate", "secondsLeft"]) / DAY;
        writeln!(out, "certificate  until {}, {days} days", printable(end))?;
    }
    let (in_force, broken) =
        (number(status, &["policies", "inForce"]), number(status, &["policies", "failed"]));
    writeln!(out, "policies     {in_force} in force, {broken} do not load")?;
    for policy in failed {
        let (kind, namespace) = (text(policy, &["kind"]), text(policy, &["namespace"]));
        let id = modgate_review::findings::rule_id(kind, namespace, text(policy, &["name"]));
        let message = items(policy, &["messages"]).next().and_then(Value::as_str);
        writeln!(out, "  {}: {}", printable(&id), printable(message.unwrap_or_default()))?;
    }
    match status.get("audit").filter(|audit| !audit.is_null()) {
        Some(audit) => writeln!(
            out,
            "audit        {}: {} objects, {} violations, {} errors",
            printable(text(audit, &["time"])),
            number(audit, &["objects"]),
            number(audit, &["violations"]),
            number(audit, &["errors"])
        )?,
        None => writeln!(out, "audit        none by this replica yet")?,
    }
    let count = |name| number(status, &["decisions", "counts", name]);
    writeln!(
        out,
        "decisions    {} allowed, {} patched, {} warned, {} denied, {} undecided since {}",
        count("allowed"),
        count("patched"),
        count("warned"),
        count("denied"),
        count("undecided"),
        printable(text(status, &["decisions", "since"]))
    )?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_said() {
        let status = |text: &str| Value::from_json(text.as_bytes()).expect("JSON");
        let good = status(
            r#"{"replica": {"checks": [{"name": "tracker", "ok": true, "message": ""}]},
                "replicas": {"items": [{"name": "a", "ready": true}], "error": ""},
                "policies": {"failed": 0}, "certificate": {"secondsLeft": 8640000}}"#,
        );
        assert_eq!(problems(&good), [""; 0]);
        let bad = status(
            r#"{"replica": {"checks": [{"name": "tracker", "ok": false, "message": "policies not loaded yet"}]},
                "replicas": {"items": [{"name": "a", "ready": false}], "error": "Lease: no"},
                "policies": {"failed": 1}, "certificate": {"secondsLeft": 90000}}"#,
        );
        let expected = [
            "the replica is not ready: tracker failed: policies not loaded yet",
            "Pod a is not ready",
            "the Pods are not known: Lease: no",
            "1 policy does not load",
            "the serving certificate expires in 1 days",
        ];
        assert_eq!(problems(&bad), expected);
    }
}
