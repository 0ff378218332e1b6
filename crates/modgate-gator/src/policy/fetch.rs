//! Fetches catalogs and the files that they name.

use std::{
    fs,
    path::{Component, Path, PathBuf},
    time::Duration,
};

use hyper::{StatusCode, Uri, header::LOCATION};
use modgate_http::{Bounds, Client, Outgoing, Trust};
use tokio::{runtime::Builder, time::Instant};

use crate::files::{clean, os_text};

/// The default catalog.
const DEFAULT_CATALOG: &str =
    "https://raw.githubusercontent.com/open-policy-agent/gatekeeper-library/master/catalog.yaml";

/// Timeout of one file.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The longest file.
const MAX_BYTES: usize = 64 << 20;
/// Maximum number of redirects.
const MAX_REDIRECTS: usize = 5;

/// Reads a catalog, and files that its paths name.
#[derive(Debug)]
pub(super) struct Fetcher {
    origin: String,
    insecure: bool,
}

/// Why something cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum FetchError {
    #[error(
        "plain HTTP is not allowed for security reasons; use HTTPS or set --insecure to override"
    )]
    PlainHttp,
    #[error("{0}")]
    Other(String),
}

/// Where the catalog is.
pub(super) fn catalog_url(env: &dyn Fn(&str) -> Option<String>) -> String {
    env("GATOR_CATALOG_URL")
        .filter(|url| !url.is_empty())
        .unwrap_or_else(|| DEFAULT_CATALOG.to_owned())
}

impl Fetcher {
    /// Reads what belongs to the catalog at `origin`.
    pub(super) fn new(origin: &str, insecure: bool) -> Self {
        Self { origin: origin.to_owned(), insecure }
    }

    /// The catalog itself.
    pub(super) fn catalog(&self) -> Result<String, FetchError> {
        self.absolute(&self.origin)
    }

    /// Reads the file of a path in the catalog: a URL, or a file beside the catalog.
    pub(super) fn content(&self, path: &str) -> Result<String, FetchError> {
        if goes_up(path) {
            return Err(FetchError::Other(format!("content path contains path traversal: {path}")));
        }
        if scheme(path).is_some() {
            return self.absolute(path);
        }
        if let Some(catalog) = self.origin.strip_prefix("file://") {
            let folder = Path::new(catalog).parent().unwrap_or(Path::new(""));
            let relative = path.trim_start_matches('/');
            let inside = Path::new(relative)
                .components()
                .all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
            if !inside {
                return Err(FetchError::Other(format!(
                    "content path escapes catalog directory: {path}"
                )));
            }
            return read(&folder.join(relative));
        }
        self.absolute(&self.beside(path)?)
    }

    fn absolute(&self, url: &str) -> Result<String, FetchError> {
        match scheme(url) {
            Some("file") => read(&PathBuf::from(url.trim_start_matches("file://"))),
            Some("https") => get(url, false),
            Some("http") if self.insecure => get(url, true),
            Some("http") => Err(FetchError::PlainHttp),
            other => Err(FetchError::Other(format!(
                "unsupported URL scheme: {}",
                other.unwrap_or_default()
            ))),
        }
    }

    /// The URL of a file in the folder of the catalog.
    fn beside(&self, path: &str) -> Result<String, FetchError> {
        let other = |text: String| FetchError::Other(text);
        let origin: Uri = self
            .origin
            .parse()
            .map_err(|error| other(format!("parsing base URL: {}: {error}", self.origin)))?;
        let (Some(scheme), Some(authority)) = (origin.scheme(), origin.authority()) else {
            return Err(other(format!("no base URL set for resolving relative path: {path}")));
        };
        let at_root = format!("{scheme}://{authority}");
        if path.starts_with('/') {
            return Ok(at_root + path);
        }
        let folder = origin.path().rsplit_once('/').map_or("", |(folder, _)| folder);
        Ok(format!("{at_root}{}", clean(&format!("/{folder}/{path}"))))
    }
}

/// The text before the first `://`.
fn scheme(url: &str) -> Option<&str> {
    let (scheme, _) = url.split_once("://")?;
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
    (!scheme.is_empty() && scheme.chars().all(plain)).then_some(scheme)
}

/// Whether a path has a `..` among its segments, escaped or not.
fn goes_up(path: &str) -> bool {
    let mut bytes = path.bytes();
    let mut decoded = Vec::with_capacity(path.len());
    while let Some(byte) = bytes.next() {
        let hex =
            |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        let escaped = (byte == b'%').then(|| {
            let mut ahead = bytes.clone();
            Some(hex(ahead.next()?)? << 4 | hex(ahead.next()?)?)
        });
        match escaped.flatten() {
            Some(value) => {
                bytes.nth(1);
                decoded.push(value);
            }
            None => decoded.push(byte),
        }
    }
    let up = |text: &[u8]| text.split(|byte| *byte == b'/').any(|segment| segment == b"..");
    up(path.as_bytes()) || up(&decoded)
}

fn read(path: &Path) -> Result<String, FetchError> {
    fs::read_to_string(path)
        .map_err(|error| FetchError::Other(format!("open {}: {}", path.display(), os_text(&error))))
}

fn get(url: &str, plain: bool) -> Result<String, FetchError> {
    let failed = |reason: String| FetchError::Other(format!("fetching {url}: {reason}"));
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| failed(os_text(&error)))?;
    let trust = if plain { Trust::SystemOrPlain } else { Trust::System };
    let client = Client::new(trust).map_err(|error| failed(error.to_string()))?;
    let bounds = Bounds { deadline: Instant::now() + TIMEOUT, body_bytes: MAX_BYTES };
    let mut at: Uri = url.parse().map_err(|error| failed(format!("{error}")))?;
    for _ in 0..=MAX_REDIRECTS {
        let incoming = runtime
            .block_on(async { client.exchange(Outgoing::get(at.clone()), bounds).await })
            .map_err(|error| failed(error.to_string()))?;
        let location = incoming.headers.get(LOCATION).and_then(|to| to.to_str().ok());
        match (incoming.status, location) {
            (StatusCode::OK, _) => {
                return String::from_utf8(incoming.body.to_vec())
                    .map_err(|_| failed("not UTF-8 text".to_owned()));
            }
            (status, Some(location)) if status.is_redirection() => {
                let to: Uri = location.parse().map_err(|_| {
                    failed(format!("a redirect to a text that is not a URL: {location:?}"))
                })?;
                let stays_secure =
                    to.scheme_str() == Some("https") || (plain && to.scheme_str() == Some("http"));
                if !stays_secure {
                    return Err(failed(format!("a redirect that is not followed: {location:?}")));
                }
                at = to;
            }
            (status, _) => return Err(failed(format!("status {}", status.as_u16()))),
        }
    }
    Err(failed(format!("more than {MAX_REDIRECTS} redirects")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_go_up() {
        for (path, expected) in [
            ("a/b", false),
            ("a..b/c", false),
            ("../a", true),
            ("a/../b", true),
            ("a/%2e%2E/b", true),
            ("a%2f..", true),
            ("a/%2", false),
            ("https://h/a/../b", true),
        ] {
            assert_eq!(goes_up(path), expected, "{path}");
        }
    }

    #[test]
    fn schemes() {
        let fetcher = |origin: &str, insecure| Fetcher::new(origin, insecure);
        let plain = FetchError::PlainHttp;
        assert_eq!(fetcher("http://h/c", false).catalog(), Err(plain.clone()));
        assert_eq!(fetcher("https://h/c", false).content("http://h/x"), Err(plain));
        let unsupported =
            |scheme: &str| Err(FetchError::Other(format!("unsupported URL scheme: {scheme}")));
        assert_eq!(fetcher("ftp://h/c", true).catalog(), unsupported("ftp"));
        assert_eq!(fetcher("catalog.yaml", true).catalog(), unsupported(""));
    }

    #[test]
    fn files_beside_the_catalog() {
        let folder = tempfile::tempdir().expect("folder");
        fs::create_dir(folder.path().join("t")).expect("folder");
        fs::write(folder.path().join("t/a.yaml"), "a").expect("write");
        let origin = format!("file://{}/catalog.yaml", folder.path().display());
        let fetcher = Fetcher::new(&origin, false);
        assert_eq!(fetcher.content("t/a.yaml").as_deref(), Ok("a"));
        let missing = fetcher.content("t/b.yaml").expect_err("missing").to_string();
        assert!(missing.ends_with("t/b.yaml: no such file or directory"), "{missing}");
        let up = fetcher.content("../a.yaml").expect_err("up").to_string();
        assert_eq!(up, "content path contains path traversal: ../a.yaml");
    }

    #[test]
    fn urls_beside_the_catalog() {
        let fetcher = Fetcher::new("https://h:1/a/b/catalog.yaml", false);
        for (path, expected) in [
            ("t/x.yaml", "https://h:1/a/b/t/x.yaml"),
            ("./x.yaml", "https://h:1/a/b/x.yaml"),
            ("/x.yaml", "https://h:1/x.yaml"),
        ] {
            assert_eq!(fetcher.beside(path).as_deref(), Ok(expected));
        }
    }
}
