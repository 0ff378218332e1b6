//! `modgate playground`: serves the playground to browsers of this machine. `modgate explain --playground`
//! prints the address of the playground with the same input.

use std::{
    convert::Infallible,
    io::{self, Write as _},
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, Result, bail, ensure};
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use flate2::{Compression, write::DeflateEncoder};
use http_body_util::Full;
use hyper::{
    Method, Request, Response, StatusCode,
    body::{Bytes, Incoming},
    header::{self, HeaderName},
    service::service_fn,
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto,
};
use modgate_engine::Review;
use modgate_server::{runtime, stop_signals};
use modgate_ui::playground::{CONTENT_SECURITY_POLICY, IS_BUILT, TAG, asset};
use modgate_value::{
    Value,
    diag::Source,
    json::{self, Escape},
    yaml,
};
use tokio::{net::TcpListener, sync::Semaphore};

use crate::{args::ExplainArgs, args::PathArgs, exit::Exit, inputs, terminal::Terminal};

/// The port, so that addresses of the playground stay the same.
const PORT: u16 = 9480;
/// Connections that are served at once.
const MAX_CONNECTIONS: usize = 64;
/// Time for the headers of a request, also of a connection that stays open.
const HEADER_TIME: Duration = Duration::from_secs(10);
/// Longest address that browsers and shells take.
const MAX_ADDRESS: usize = 1 << 20;

pub(crate) const EXAMPLES: &str = "\
Examples:
  # Serve the playground on http://127.0.0.1:9480
  modgate playground

  # Print the address of the playground with these policies and this object
  modgate explain -f policies/ pod.yaml --playground

Exit codes:
  0  the server stopped after a signal
  2  arguments are not valid, the port is taken, or the binary was built without the playground";

/// Arguments of `modgate playground`.
#[derive(Debug, clap::Args)]
pub(crate) struct PlaygroundArgs {
    /// Port to listen on, on the loopback interface only; 0 takes any that is free.
    #[arg(long, value_name = "PORT", default_value_t = PORT)]
    port: u16,
}

/// Runs the verb.
pub(crate) fn run(args: &PlaygroundArgs) -> Result<Exit> {
    ensure!(
        IS_BUILT,
        "this binary was built without the playground; `cargo xtask playground` builds it, and the next \
         build of modgate contains it"
    );
    runtime()?.block_on(async {
        let mut stop = stop_signals()?;
        let wanted = SocketAddr::from((Ipv4Addr::LOCALHOST, args.port));
        let listener = TcpListener::bind(wanted)
            .await
            .with_context(|| format!("cannot listen on {wanted}; choose another `--port`"))?;
        let address = listener.local_addr()?;
        let mut out = io::stdout().lock();
        writeln!(out, "playground on http://{address}")?;
        out.flush()?;
        drop(out);
        tokio::select! {
            _ = stop.recv() => Ok(Exit::Success),
            error = serve(&listener) => Err(error.into()),
        }
    })
}

/// Serves files until the listener fails.
async fn serve(listener: &TcpListener) -> io::Error {
    let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let Ok(slot) = Arc::clone(&slots).acquire_owned().await else {
            return io::Error::other("the server stopped");
        };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => return error,
        };
        tokio::spawn(async move {
            let mut builder = auto::Builder::new(TokioExecutor::new()).http1_only();
            builder.http1().timer(TokioTimer::new()).header_read_timeout(HEADER_TIME);
            let answer = service_fn(async |request| Ok::<_, Infallible>(answer(&request)));
            // A browser that goes away is no error.
            let _ = builder.serve_connection(TokioIo::new(stream), answer).await;
            drop(slot);
        });
    }
}

fn answer(request: &Request<Incoming>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
        return response;
    }
    let Some(file) = asset(request.uri().path()) else {
        *response.status_mut() = StatusCode::NOT_FOUND;
        return response;
    };
    let known = request.headers().get_all(header::IF_NONE_MATCH).iter();
    if known.filter_map(|tags| tags.to_str().ok()).any(|tags| tags.contains(TAG)) {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    } else {
        *response.body_mut() = Full::new(Bytes::from_static(file.gzip));
        response
            .headers_mut()
            .insert(header::CONTENT_ENCODING, header::HeaderValue::from_static("gzip"));
    }
    // The address names the version of its file, so it stays what it is.
    let is_versioned = request.uri().query().is_some_and(|query| query.starts_with("v="));
    let lifetime = if is_versioned { "max-age=31536000, immutable" } else { "no-cache" };
    let headers: [(HeaderName, &'static str); 7] = [
        (header::CONTENT_TYPE, file.content_type),
        (header::ETAG, TAG),
        (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY),
        (header::CACHE_CONTROL, lifetime),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    ];
    let values = headers.map(|(name, value)| (name, header::HeaderValue::from_static(value)));
    response.headers_mut().extend(values);
    response
}

/// Prints the address of the playground with the policies and objects of `explain`.
pub(crate) fn print_address(args: &ExplainArgs, terminal: &Terminal) -> Result<Exit> {
    let paths = args.subjects.paths();
    inputs::once(&args.policies, &paths)?;
    let mut incomplete = false;
    let mut texts = |paths: &PathArgs| text(paths, &mut incomplete, terminal);
    let members = [
        ("policies", texts(&PathArgs::of(&args.policies.policies))?),
        ("inventory", texts(&PathArgs::of(&args.policies.objects))?),
        ("object", texts(&paths)?),
    ];
    if incomplete {
        return Ok(Exit::BadInput);
    }
    if args.subjects.namespace != "default" {
        terminal
            .note("note: the playground takes `default` as the namespace of objects without one");
    }
    let mut state: Value =
        members.into_iter().map(|(name, text)| (name, Value::from(text))).collect();
    if let Value::Object(state) = &mut state {
        state.insert("operation", Value::from(args.subjects.operation.as_str()));
        state.insert("defaulting", Value::from(args.subjects.defaulting));
        state.insert("all", Value::from(args.all));
    }
    let address = format!("http://127.0.0.1:{PORT}/#s={}", packed(&state)?);
    if address.len() > MAX_ADDRESS {
        bail!("the address would have {} bytes: give fewer policies or objects", address.len());
    }
    writeln!(io::stdout(), "{address}")?;
    terminal.note("note: `modgate playground` serves it");
    Ok(Exit::Success)
}

/// The texts of files, one after the other. Their Secrets are an error: addresses stay in histories.
fn text(paths: &PathArgs, incomplete: &mut bool, terminal: &Terminal) -> Result<String> {
    let manifests = inputs::manifests(paths, terminal, incomplete)?;
    let mut sources: Vec<&Source> = Vec::new();
    for (manifest, source) in &manifests {
        let is_secret = Review::parse(&manifest.object).is_ok_and(|review| review.is_secret());
        ensure!(
            !is_secret,
            "{} is a Secret, and an address would contain its data",
            manifest.location()
        );
        if sources.last().is_none_or(|last| last.name != source.name) {
            sources.push(source);
        }
    }
    for source in &sources {
        let mut documents = yaml::manifest(&source.text).filter_map(Result::ok);
        ensure!(
            !documents.any(|document| has_secret(&document.value)),
            "`{}` has a Secret, and an address would contain its data",
            source.name
        );
    }
    let texts: Vec<String> =
        sources.iter().map(|source| format!("{}\n", source.text.trim_end())).collect();
    Ok(texts.join("---\n"))
}

/// Whether there is a Secret anywhere in a document: in a request, in a list, in a list within a list.
fn has_secret(document: &Value) -> bool {
    document.walk().any(|visit| {
        let has = |member: &str| visit.value.get(member).is_some();
        match visit.value.get("kind").and_then(Value::as_str) {
            Some("Secret") => has("data") || has("stringData"),
            // Its items need not name their kind.
            Some("SecretList") => has("items"),
            _ => false,
        }
    })
}

/// A state as addresses carry it: JSON, deflated, as base64 for addresses.
fn packed(state: &Value) -> Result<String> {
    let mut text = String::new();
    json::write(state, &mut text, Escape::Minimal);
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(text.as_bytes())?;
    Ok(BASE64_URL_SAFE_NO_PAD.encode(encoder.finish()?))
}
