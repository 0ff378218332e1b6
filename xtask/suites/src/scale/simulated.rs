//! An API server that makes its objects when they are listed, and what `modgate audit` takes for them: alone, and with
//! a template that reads the inventory, which then holds every object.

use std::{
    fs::{self, File},
    io::{self, BufRead as _, BufReader, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    ops::Range,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};

use super::{Ended, megabytes, progress};
use crate::{content, load::ProcessFigures};

/// Pods in each namespace.
const EACH: usize = 100;

/// The most that an audit may have resident; it is ended before it takes the machine with it.
const MOST_KIB: usize = 16 << 20;

/// How long an audit may take.
const TIMEOUT: Duration = Duration::from_secs(3600);

/// Audits that many Pods, once without and once with the inventory; false if an audit fails.
pub(super) fn measure(binary: &Path, count: usize, out: &mut impl io::Write) -> Result<bool> {
    writeln!(out, "\n{count} Pods of a simulated API server")?;
    let server = start(count)?;
    let mut good = true;
    for (name, templates) in [
        ("without the inventory", 1..content::READS_INVENTORY),
        ("with the inventory", content::READS_INVENTORY..content::READS_INVENTORY + 1),
    ] {
        let folder = tempfile::tempdir()?;
        prepare(folder.path(), server, templates)?;
        good &= audit(binary, count, name, folder.path(), out)
            .with_context(|| format!("{count} Pods, {name}"))?;
    }
    Ok(good)
}

/// The arguments of an audit that finds its policies and its API server in this folder.
pub(crate) const AUDIT: [&str; 9] = [
    "audit",
    "-f",
    "policies.yaml",
    "--kubeconfig",
    "kubeconfig",
    "--limit",
    "1",
    "--fail-on",
    "none",
];

/// Writes the templates of these numbers, a constraint of each, and the address of the API server to a folder.
pub(crate) fn prepare(folder: &Path, server: SocketAddr, templates: Range<usize>) -> Result<()> {
    let mut policies = String::new();
    for number in templates {
        for policy in [content::template(number)?, content::constraint(number, number)?] {
            policies.push_str(&format!("---\n{}\n", policy.to_json()));
        }
    }
    fs::write(folder.join("policies.yaml"), policies)?;
    Ok(fs::write(folder.join("kubeconfig"), kubeconfig(server))?)
}

fn audit(
    binary: &Path,
    count: usize,
    name: &str,
    folder: &Path,
    out: &mut impl io::Write,
) -> Result<bool> {
    let started = Instant::now();
    let child = Command::new(binary)
        .args(AUDIT)
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(File::create(folder.join("result"))?)
        .stderr(File::create(folder.join("errors"))?)
        .spawn()
        .with_context(|| binary.display().to_string())?;
    let mut child = Ended(child);
    let (mut peak, mut busy, mut told) = (0, Duration::ZERO, Instant::now());
    let status = loop {
        if let Some(figures) = ProcessFigures::read(child.0.id()) {
            peak = peak.max(figures.peak_kib);
            busy = busy.max(figures.cpu);
        }
        if let Some(status) = child.0.try_wait()? {
            break status;
        }
        if peak > MOST_KIB {
            writeln!(out, "  {name}: ended at {} MB, which is too much", megabytes(peak))?;
            return Ok(false);
        }
        ensure!(started.elapsed() < TIMEOUT, "not within {} s", TIMEOUT.as_secs());
        if told.elapsed() > Duration::from_secs(10) {
            told = Instant::now();
            progress(&format!(
                "{count} Pods, {name}: {} MB after {:.0} s",
                megabytes(peak),
                started.elapsed().as_secs_f64()
            ));
        }
        thread::sleep(Duration::from_millis(20));
    };
    let errors = fs::read_to_string(folder.join("errors"))?;
    if !status.success() {
        bail!("modgate audit: {status}: {errors}");
    }
    let result = fs::read_to_string(folder.join("result"))?;
    let seen = result.lines().rfind(|line| line.contains(" audited")).unwrap_or("nothing audited");
    writeln!(
        out,
        "  {name}: {} MB at the peak, {} bytes for each Pod, {:.1} s, {:.1} s of processor time; {seen}",
        megabytes(peak),
        peak * 1024 / count.max(1),
        started.elapsed().as_secs_f64(),
        busy.as_secs_f64(),
    )?;
    out.flush()?;
    Ok(true)
}

fn kubeconfig(server: SocketAddr) -> String {
    format!(
        r#"{{"apiVersion":"v1","kind":"Config","current-context":"c","clusters":[{{"name":"c","cluster":{{"server":"http://{server}"}}}}],"users":[{{"name":"u","user":{{}}}}],"contexts":[{{"name":"c","context":{{"cluster":"c","user":"u"}}}}]}}"#
    )
}

/// It ends with the process.
pub(crate) fn start(count: usize) -> Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || connection(stream, count));
        }
    });
    Ok(address)
}

/// Answers requests until the client goes.
fn connection(stream: TcpStream, count: usize) -> Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head)? == 0 {
                return Ok(());
            }
        }
        let path = head.split(' ').nth(1).unwrap_or_default();
        let answer = answer(path, count);
        let status = if answer.is_some() { "200 OK" } else { "404 Not Found" };
        let missing = r#"{"kind":"Status","status":"Failure","message":"not found","reason":"NotFound","code":404}"#;
        let body = answer.unwrap_or_else(|| missing.to_owned());
        let length = body.len();
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
        );
        let stream = reader.get_mut();
        stream.write_all(head.as_bytes())?;
        stream.write_all(body.as_bytes())?;
    }
}

/// The answer to a path; `None` for what this server does not have.
fn answer(path: &str, count: usize) -> Option<String> {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let number = |name: &str| {
        let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        let mut values = pairs.filter(|(key, _)| *key == name).map(|(_, value)| value);
        values.next().and_then(|value| value.parse::<usize>().ok())
    };
    let resource = |name: &str, kind: &str| {
        let is_namespaced = name != "namespaces";
        format!(
            r#"{{"name":"{name}","singularName":"","namespaced":{is_namespaced},"kind":"{kind}","verbs":["get","list","watch"]}}"#
        )
    };
    let (begin, limit) = (number("continue").unwrap_or_default(), number("limit").unwrap_or(500));
    let list = |kind: &str, total: usize, make: &dyn Fn(usize) -> String| {
        let end = begin.saturating_add(limit.max(1)).min(total);
        let items: Vec<String> = (begin..end).map(make).collect();
        let more = if end < total { format!(r#","continue":"{end}""#) } else { String::new() };
        format!(
            r#"{{"kind":"{kind}List","apiVersion":"v1","metadata":{{"resourceVersion":"1"{more}}},"items":[{}]}}"#,
            items.join(",")
        )
    };
    Some(match path {
        "/api" => r#"{"kind":"APIVersions","versions":["v1"]}"#.to_owned(),
        "/apis" => r#"{"kind":"APIGroupList","apiVersion":"v1","groups":[]}"#.to_owned(),
        "/api/v1" => format!(
            r#"{{"kind":"APIResourceList","groupVersion":"v1","resources":[{},{}]}}"#,
            resource("pods", "Pod"),
            resource("namespaces", "Namespace")
        ),
        "/api/v1/pods" => list("Pod", count, &|number| content::stored_pod(number, number / EACH)),
        "/api/v1/namespaces" => list("Namespace", count.div_ceil(EACH), &content::stored_namespace),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use modgate_value::Value;

    use super::*;

    #[test]
    fn pages_have_every_object_once() {
        let (mut next, mut names) = (String::new(), Vec::new());
        loop {
            let path = format!("/api/v1/pods?limit=100{next}");
            let page = answer(&path, 250).expect("a page");
            let page = Value::from_json(page.as_bytes()).expect("JSON");
            let items = page.get("items").and_then(Value::as_array).expect("items");
            let name = |it: &Value| it.pointer("/metadata/name").map(Value::to_json);
            names.extend(items.iter().filter_map(name));
            match page.pointer("/metadata/continue").and_then(Value::as_str) {
                Some(more) => next = format!("&continue={more}"),
                None => break,
            }
        }
        assert_eq!(names.len(), 250);
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 250);
        assert!(answer("/api/v1/secrets", 1).is_none());
    }
}
