//! `modgate why`: why a request was denied, or an object would be, by the policies in force.

use std::{
    io::{self, Read as _, Write},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, bail, ensure};
use modgate_engine::api::{kinds, meta::Operation};
use modgate_value::Value;

use super::{
    ConnectionArgs, Pages, Wanted,
    api::{Page, escaped, items, text},
};
use crate::{
    args::TextOrJson,
    cluster::Cluster,
    exit::Exit,
    outputs::print_json,
    terminal::{Terminal, Tone, one_line, printable, shorten},
};

/// Bytes of a file.
const MAX_FILE: u64 = 3 << 20;

pub(crate) const EXAMPLES: &str = "\
Examples:
  # Explain the last denial in the namespace of the context, and in another one
  kubectl modgate why
  kubectl modgate why -n shop

  # Explain the last denial of an object, or what the policies in force say about it now
  kubectl modgate why deployment/web -n shop

  # Evaluate a manifest against the policies in force, without applying it
  kubectl modgate why -f web.yaml -n shop

Exit codes:
  0  the policies allow every object
  1  the policies deny an object, or denied the request
  2  there is no such denial and no such object, or modgate cannot be reached";

/// Arguments of `modgate why`.
#[derive(Debug, clap::Args)]
pub(crate) struct WhyArgs {
    /// The object, as `kind/name`; or with a short name, as `deploy/web`. Without it and a file, the last denial of the namespace.
    #[arg(value_name = "KIND/NAME", conflicts_with = "filename")]
    object: Option<String>,
    /// Evaluate the objects of a file, or of standard input (`-`).
    #[arg(short, long, value_name = "FILE")]
    filename: Option<PathBuf>,
    /// Namespace of the object or denial [default: that of the context, as for kubectl]
    #[arg(short, long, value_name = "NAMESPACE", value_parser = crate::args::namespace)]
    namespace: Option<String>,
    /// Operation of objects that are evaluated.
    #[arg(long, value_name = "OPERATION", default_value = "CREATE", value_parser = operation)]
    operation: Operation,
    /// Output format.
    #[arg(short, long, default_value = "text")]
    output: TextOrJson,
    #[command(flatten)]
    connection: ConnectionArgs,
}

fn operation(text: &str) -> Result<Operation, String> {
    match text.to_ascii_uppercase().parse() {
        Ok(operation @ (Operation::Create | Operation::Update | Operation::Delete)) => {
            Ok(operation)
        }
        _ => Err("must be CREATE, UPDATE or DELETE".to_owned()),
    }
}

/// Runs the verb.
pub(crate) fn run(args: &WhyArgs, terminal: &Terminal) -> Result<Exit> {
    let namespace = match &args.namespace {
        Some(namespace) => namespace.clone(),
        None => args.connection.namespace()?,
    };
    let shown = match (&args.filename, &args.object) {
        (Some(file), _) => tried(args, &namespace, &read(file)?)?,
        (None, Some(object)) => of_object(args, &namespace, object, terminal)?,
        (None, None) => {
            let pages = args.connection.pages(Wanted::All)?;
            let denial = last_denial(&pages, &namespace, "")?;
            denial.with_context(|| {
                format!(
                    "modgate remembers no denial in namespace {namespace}; each replica keeps the last ones \
                     since it started"
                )
            })?
        }
    };
    let mut out = io::stdout().lock();
    match args.output {
        TextOrJson::Json => print_json(&mut out, &shown.document)?,
        TextOrJson::Text => shown.print(&mut out, terminal)?,
    }
    for finding in items(&shown.document, &["findings"]) {
        let place = finding.get("line").and_then(Value::as_i64).unwrap_or_default();
        terminal.error(&format!("line {place}: {}", printable(text(finding, &["message"]))));
    }
    Ok(shown.exit())
}

/// A denial, or the decisions about objects that were tried.
struct Shown {
    document: Value,
}

impl Shown {
    fn exit(&self) -> Exit {
        if items(&self.document, &["findings"]).any(|it| text(it, &["level"]) == "error") {
            return Exit::BadInput;
        }
        let is_denial = self.document.get("decision").is_some();
        let is_denied = |it| !is_allowed(it);
        if is_denial || items(&self.document, &["results"]).any(is_denied) {
            Exit::Denied
        } else {
            Exit::Success
        }
    }

    fn print(&self, out: &mut impl Write, terminal: &Terminal) -> Result<()> {
        if let Some(decision) = self.document.get("decision") {
            headline(out, decision, terminal)?;
            if self.document.get("changed").and_then(Value::as_bool) == Some(true) {
                let line = "the policies in force now decide otherwise; this is how:";
                writeln!(out, "  {}", terminal.paint(Tone::Notice, line))?;
            }
            let unexplained = text(&self.document, &["unexplained"]);
            if !unexplained.is_empty() {
                writeln!(out, "  no explanation: {}", printable(unexplained))?;
            }
            if let Some(result) = self.document.get("result").filter(|it| !it.is_null()) {
                explanation(out, result, terminal)?;
            }
        }
        for (index, result) in items(&self.document, &["results"]).enumerate() {
            if index > 0 {
                writeln!(out)?;
            }
            let is_allowed = is_allowed(result);
            let (tone, word) =
                if is_allowed { (Tone::Good, "allowed") } else { (Tone::Bad, "denied") };
            let title = one_line(text(result, &["title"]));
            writeln!(out, "{}: {title}", terminal.paint(tone, word))?;
            lines(out, text(result, &["explanation", "reason"]), is_allowed)?;
            explanation(out, result, terminal)?;
            for skipped in items(result, &["explanation", "notEvaluated"]) {
                let [stage, reason] =
                    ["stage", "reason"].map(|name| one_line(text(skipped, &[name])));
                writeln!(out, "  {stage} not evaluated: {reason}")?;
            }
        }
        for note in items(&self.document, &["notes"]).filter_map(Value::as_str) {
            writeln!(out, "note: {}", printable(note))?;
        }
        Ok(())
    }
}

/// Whether the policies allow an object that was tried.
fn is_allowed(result: &Value) -> bool {
    result.path(&["explanation", "allowed"]).and_then(Value::as_bool) == Some(true)
}

/// `denied: Pod shop/web, CREATE by ann at …`, with the policies and their messages.
fn headline(out: &mut impl Write, decision: &Value, terminal: &Terminal) -> Result<()> {
    let member = |name: &str| one_line(text(decision, &[name]));
    let name = match (member("namespace"), member("name")) {
        (namespace, name) if namespace.is_empty() => name,
        (namespace, name) => format!("{namespace}/{name}"),
    };
    let outcome = member("outcome");
    let rest = format!(
        "{} {name}, {} by {} at {}",
        member("kind"),
        member("operation"),
        member("user"),
        member("time")
    );
    writeln!(out, "{}: {rest}", terminal.paint(Tone::Bad, outcome))?;
    let mut policies = items(decision, &["policies"]).peekable();
    if policies.peek().is_none() {
        lines(out, text(decision, &["message"]), false)?;
    }
    for policy in policies {
        let (kind, namespace) = (text(policy, &["kind"]), text(policy, &["namespace"]));
        let id = modgate_review::findings::rule_id(kind, namespace, text(policy, &["name"]));
        let action = printable(text(policy, &["action"]));
        writeln!(out, "  {} ({action})", terminal.paint(Tone::Heading, one_line(&id)))?;
        lines(out, text(policy, &["message"]), false)?;
    }
    Ok(())
}

fn lines(out: &mut impl Write, message: &str, is_allowed: bool) -> Result<()> {
    if is_allowed {
        return Ok(());
    }
    for line in message.lines() {
        writeln!(out, "    {}", printable(line))?;
    }
    Ok(())
}

/// The policies that object, with what they looked at.
fn explanation(out: &mut impl Write, result: &Value, terminal: &Terminal) -> Result<()> {
    let resultants = items(result, &["explanation", "resultants", "steps"]);
    let implied = resultants.flat_map(|it| items(it, &["constraints"]));
    for constraint in items(result, &["explanation", "constraints"]).chain(implied) {
        if !matches!(text(constraint, &["outcome", "result"]), "violated" | "undecided") {
            continue;
        }
        policy(out, constraint, terminal)?;
        for expression in items(constraint, &["expressions"]) {
            let outcome = printable(text(expression, &["result", "kind"]));
            let shown = printable(text(expression, &["text"]));
            writeln!(out, "      {outcome:8} {shown}")?;
            values(out, expression)?;
        }
    }
    for rule in items(result, &["explanation", "rules"]) {
        if !matches!(text(rule, &["outcome", "result"]), "rejected" | "failed") {
            continue;
        }
        policy(out, rule, terminal)?;
        for criterion in items(rule, &["criteria"]) {
            let is_positive = criterion.get("positive").and_then(Value::as_bool) == Some(true);
            let verdict = if is_positive { "yes" } else { "no" };
            let select = printable(text(criterion, &["select"]));
            let test = printable(text(criterion, &["test"]));
            writeln!(out, "      {verdict:8} {select}  {test}")?;
        }
    }
    Ok(())
}

/// The name of a policy that objects.
fn policy(out: &mut impl Write, trace: &Value, terminal: &Terminal) -> Result<()> {
    let member = |name| text(trace, &["policy", name]);
    let id = modgate_review::findings::rule_id(member("kind"), member("namespace"), member("name"));
    writeln!(out, "    {}", terminal.paint(Tone::Heading, one_line(&id)))?;
    Ok(())
}

/// The values that an expression read, one line each.
fn values(out: &mut impl Write, expression: &Value) -> Result<()> {
    for pair in items(expression, &["values"]).filter_map(Value::as_array) {
        let texts: Vec<_> = pair.iter().filter_map(Value::as_str).collect();
        if let [name, value] = texts.as_slice() {
            let line = format!("{name} = {value}");
            writeln!(out, "               {}", shorten(&line))?;
        }
    }
    Ok(())
}

/// The newest denial of all replicas, with its explanation.
fn last_denial(pages: &Pages, namespace: &str, more: &str) -> Result<Option<Shown>> {
    let mut newest: Option<(String, &Page, i64)> = None;
    let path =
        format!("/api/v1/decisions?namespace={}&outcome=denied&limit=1{more}", escaped(namespace));
    for page in &pages.pages {
        let listed = page.get(&path, "items")?;
        let Some(first) = items(&listed, &["items"]).next() else { continue };
        let time = text(first, &["time"]).to_owned();
        let id = first.get("id").and_then(Value::as_i64).unwrap_or_default();
        if newest.as_ref().is_none_or(|(known, ..)| *known < time) {
            newest = Some((time, page, id));
        }
    }
    let Some((_, page, id)) = newest else { return Ok(None) };
    let path = format!("/api/v1/decisions/{id}?namespace={}", escaped(namespace));
    Ok(Some(Shown { document: page.get(&path, "decision")? }))
}

/// The last denial of an object, or the decision about it as it is now.
fn of_object(args: &WhyArgs, namespace: &str, object: &str, terminal: &Terminal) -> Result<Shown> {
    let (kind, name) = object.split_once('/').context("give the object as kind/name")?;
    ensure!(!kind.is_empty() && !name.is_empty(), "give the object as kind/name");
    let pages = args.connection.pages(Wanted::All)?;
    let connection = &args.connection;
    let cluster = match connection.address {
        Some(_) => None,
        None => Some(Cluster::connect(
            connection.kubeconfig.as_deref(),
            connection.context.as_deref(),
            "no cluster is configured",
            terminal,
        )?),
    };
    let resource = cluster.as_ref().map(|cluster| {
        cluster
            .kinds
            .iter()
            .find(|it| it.is_typed(kind))
            .with_context(|| format!("the cluster has no kind `{kind}`"))
    });
    let resource = resource.transpose()?;
    let namespaced = resource.is_none_or(|it| it.namespaced);
    let namespace = if namespaced { namespace } else { "" };
    // Without a cluster, a kind that Kubernetes does not have is taken as it is written in objects.
    let known = || kinds::of_typed_name(kind).unwrap_or(kind);
    let written = resource.map_or_else(known, |it| it.kind.as_str());
    let more = format!("&kind={}&name={}", escaped(written), escaped(name));
    if let Some(denial) = last_denial(&pages, namespace, &more)? {
        return Ok(denial);
    }
    let (Some(cluster), Some(resource)) = (&cluster, resource) else {
        bail!("modgate remembers no denial of {written} {name} in namespace {namespace}");
    };
    let found = cluster.remote.get(resource, namespace, name)?;
    let found = found.with_context(|| {
        format!(
            "modgate remembers no denial of {written} {name}, and the cluster has no such object"
        )
    })?;
    terminal.note("note: modgate remembers no denial of the object; this is the decision about it as it is now");
    let page = pages.pages.first().context("there is no Pod of modgate")?;
    evaluate(page, args, namespace, &found.to_json())
}

fn tried(args: &WhyArgs, namespace: &str, objects: &str) -> Result<Shown> {
    let pages = args.connection.pages(Wanted::Leader)?;
    let page = pages.pages.first().context("there is no Pod of modgate")?;
    evaluate(page, args, namespace, objects)
}

/// The decision of the policies in force about objects; of an empty namespace, cluster-scoped ones.
fn evaluate(page: &Page, args: &WhyArgs, namespace: &str, objects: &str) -> Result<Shown> {
    let operation = args.operation.as_str();
    let body: Value =
        [("objects", Value::from(objects)), ("operation", operation.into())].into_iter().collect();
    let path = match namespace {
        "" => "/api/v1/try".to_owned(),
        namespace => format!("/api/v1/try?namespace={}", escaped(namespace)),
    };
    let document = page.post(&path, &body, "results")?;
    let is_empty =
        ["results", "findings"].iter().all(|list| items(&document, &[list]).next().is_none());
    ensure!(!is_empty, "modgate says nothing about the objects");
    Ok(Shown { document })
}

fn read(file: &Path) -> Result<String> {
    let mut text = String::new();
    if modgate_policies::manifest::is_stdin(file) {
        io::stdin().take(MAX_FILE + 1).read_to_string(&mut text)?;
    } else {
        let opened = std::fs::File::open(file);
        let opened = opened.with_context(|| format!("cannot read `{}`", file.display()))?;
        opened
            .take(MAX_FILE + 1)
            .read_to_string(&mut text)
            .with_context(|| format!("cannot read `{}`", file.display()))?;
    }
    ensure!(text.len() as u64 <= MAX_FILE, "`{}` is larger than 3 MiB", file.display());
    Ok(text)
}
