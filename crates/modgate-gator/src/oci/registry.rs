//! The part of the distribution protocol that pulling needs.

use std::time::Duration;

use hyper::{
    HeaderMap, StatusCode, Uri,
    header::{ACCEPT, AUTHORIZATION, HeaderValue, LOCATION, WWW_AUTHENTICATE},
};
use modgate_http::{Bounds, Client, Incoming, Outgoing, Trust};
use modgate_value::Value;
use sha2::{Digest as _, Sha256, Sha512};
use tokio::{
    runtime::{Builder, Runtime},
    time::Instant,
};

use super::{
    credentials::Credentials,
    reference::{Reference, is_digest},
};

/// Timeout of one exchange.
const TIMEOUT: Duration = Duration::from_secs(5 * 60);
/// Maximum size of a manifest; the specification requires registries to accept it.
const MAX_MANIFEST_BYTES: usize = 4 << 20;
/// The largest layer.
const MAX_LAYER_BYTES: usize = 128 << 20;
/// The largest answer of a token service.
const MAX_TOKEN_BYTES: usize = 1 << 20;
/// Maximum number of redirects for one layer.
const MAX_REDIRECTS: usize = 5;

/// Accepted media types of manifests.
const MANIFESTS: &str = "application/vnd.oci.image.manifest.v1+json, \
                         application/vnd.oci.image.index.v1+json, \
                         application/vnd.oci.artifact.manifest.v1+json, \
                         application/vnd.docker.distribution.manifest.v2+json, \
                         application/vnd.docker.distribution.manifest.list.v2+json";

/// One repository of a registry.
pub(super) struct Registry {
    runtime: Runtime,
    client: Client,
    base: String,
    repository: String,
    plain_http: bool,
    credentials: Credentials,
    /// The `Authorization` header for the registry, once it has requested one.
    authorization: Option<HeaderValue>,
}

/// The descriptors in a manifest or index.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Manifest {
    pub(super) config: Option<Descriptor>,
    pub(super) layers: Vec<Descriptor>,
    /// Of an index.
    pub(super) manifests: Vec<Descriptor>,
}

/// A reference to content in the registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Descriptor {
    pub(super) digest: String,
    pub(super) size: usize,
    annotations: Vec<(String, String)>,
}

impl Registry {
    pub(super) fn new(
        reference: &Reference,
        plain_http: bool,
        credentials: Credentials,
    ) -> Result<Self, String> {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| crate::files::os_text(&error))?;
        let (scheme, trust) = match plain_http {
            true => ("http", Trust::SystemOrPlain),
            false => ("https", Trust::System),
        };
        Ok(Self {
            runtime,
            client: Client::new(trust).map_err(|error| error.to_string())?,
            base: format!("{scheme}://{}/v2/{}", reference.host(), reference.repository),
            repository: reference.repository.clone(),
            plain_http,
            credentials,
            authorization: None,
        })
    }

    /// The manifest with this tag or digest.
    pub(super) fn manifest(&mut self, selector: &str) -> Result<Manifest, String> {
        let incoming = self.get(&format!("manifests/{selector}"), MAX_MANIFEST_BYTES)?;
        if is_digest(selector) {
            check_digest(&incoming.body, selector)?;
        }
        Manifest::parse(&incoming.body)
    }

    /// The manifest an index points to.
    pub(super) fn manifest_of(&mut self, descriptor: &Descriptor) -> Result<Manifest, String> {
        self.manifest(&descriptor.digest)
    }

    /// The content of a layer, verified against its descriptor.
    pub(super) fn blob(&mut self, descriptor: &Descriptor) -> Result<Vec<u8>, String> {
        let Descriptor { digest, size, .. } = descriptor;
        if *size > MAX_LAYER_BYTES {
            return Err(format!("{digest}: {size} bytes, more than {MAX_LAYER_BYTES}"));
        }
        let incoming = self.get(&format!("blobs/{digest}"), *size)?;
        if incoming.body.len() != *size {
            let found = incoming.body.len();
            return Err(format!("{digest}: {found} bytes, the manifest says {size}"));
        }
        check_digest(&incoming.body, digest)?;
        Ok(incoming.body.to_vec())
    }

    fn get(&mut self, path: &str, body_bytes: usize) -> Result<Incoming, String> {
        let url = format!("{}/{path}", self.base);
        let mut incoming = self.fetch(&url, body_bytes)?;
        if incoming.status == StatusCode::UNAUTHORIZED && self.authorize(&incoming.headers)? {
            incoming = self.fetch(&url, body_bytes)?;
        }
        match incoming.status {
            StatusCode::OK => Ok(incoming),
            status => Err(format!("GET {url:?}: response status code {status}")),
        }
    }

    /// Follows redirects; registries often redirect layers to their storage.
    fn fetch(&self, url: &str, body_bytes: usize) -> Result<Incoming, String> {
        let mut at: Uri = url.parse().map_err(|error| format!("{url:?}: {error}"))?;
        let home = at.authority().cloned();
        for _ in 0..=MAX_REDIRECTS {
            let mut outgoing = Outgoing::get(at.clone());
            outgoing.headers.push((ACCEPT, HeaderValue::from_static(MANIFESTS)));
            // Only the registry receives the credentials.
            if let Some(authorization) = &self.authorization
                && at.authority() == home.as_ref()
            {
                outgoing.headers.push((AUTHORIZATION, authorization.clone()));
            }
            let incoming = self.exchange(outgoing, body_bytes.max(MAX_TOKEN_BYTES))?;
            let location = incoming.headers.get(LOCATION).and_then(|to| to.to_str().ok());
            let Some(location) = location.filter(|_| incoming.status.is_redirection()) else {
                return Ok(incoming);
            };
            at = self.redirected(&at, location)?;
        }
        Err(format!("GET {url:?}: more than {MAX_REDIRECTS} redirects"))
    }

    /// The target of a redirect; refuses one from HTTPS to HTTP.
    fn redirected(&self, from: &Uri, location: &str) -> Result<Uri, String> {
        let refused = |why: &str| format!("GET {:?}: {why} {location:?}", from.to_string());
        let to: Uri =
            location.parse().map_err(|_| refused("a redirect to a text that is not a URL:"))?;
        let mut parts = to.into_parts();
        if parts.authority.is_none() {
            parts.authority = from.authority().cloned();
            parts.scheme = from.scheme().cloned();
        }
        let allowed = match parts.scheme.as_ref().map(|scheme| scheme.as_str()) {
            Some("https") => true,
            Some("http") => self.plain_http && from.scheme_str() == Some("http"),
            _ => false,
        };
        if !allowed {
            return Err(refused("a redirect that is not followed:"));
        }
        Uri::from_parts(parts).map_err(|_| refused("a redirect to a text that is not a URL:"))
    }

    fn exchange(&self, outgoing: Outgoing, body_bytes: usize) -> Result<Incoming, String> {
        let url = outgoing.url.to_string();
        let bounds = Bounds { deadline: Instant::now() + TIMEOUT, body_bytes };
        self.runtime
            .block_on(self.client.exchange(outgoing, bounds))
            .map_err(|error| format!("GET {url:?}: {error}"))
    }

    /// Answers a registry's challenge; returns whether a retry makes sense.
    fn authorize(&mut self, headers: &HeaderMap) -> Result<bool, String> {
        let challenges = headers.get_all(WWW_AUTHENTICATE).into_iter();
        let challenges: Vec<&str> = challenges.filter_map(|it| it.to_str().ok()).collect();
        let of_kind = |kind: &str| {
            challenges.iter().find_map(|challenge| {
                let (found, parameters) = challenge.split_once(' ').unwrap_or((challenge, ""));
                found.eq_ignore_ascii_case(kind).then_some(parameters)
            })
        };
        let authorization = if let Some(parameters) = of_kind("Bearer") {
            Some(format!("Bearer {}", self.token(parameters)?))
        } else if of_kind("Basic").is_some() {
            self.credentials.basic()
        } else {
            None
        };
        let Some(authorization) = authorization else { return Ok(false) };
        let mut value = HeaderValue::from_str(&authorization)
            .map_err(|_| "the token is no text that a header can hold".to_owned())?;
        value.set_sensitive(true);
        self.authorization = Some(value);
        Ok(true)
    }

    /// A token from the service that the registry names.
    fn token(&self, parameters: &str) -> Result<String, String> {
        let realm = parameter(parameters, "realm").ok_or("a challenge without realm")?;
        let scope = parameter(parameters, "scope")
            .unwrap_or_else(|| format!("repository:{}:pull", self.repository));
        let mut query = vec![("scope", scope)];
        query.extend(parameter(parameters, "service").map(|service| ("service", service)));
        let query: Vec<String> =
            query.iter().map(|(key, value)| format!("{key}={}", escape(value))).collect();
        let separator = if realm.contains('?') { '&' } else { '?' };
        let url = format!("{realm}{separator}{}", query.join("&"));
        let mut outgoing = Outgoing::get(url.parse().map_err(|error| format!("{url:?}: {error}"))?);
        match &self.credentials {
            Credentials::Token(_) => {
                return Err("the registry's token service wants an identity token, which is not \
                            supported; log in with a user and password"
                    .to_owned());
            }
            credentials => {
                if let Some(basic) = credentials.basic() {
                    let mut value = HeaderValue::from_str(&basic)
                        .map_err(|_| "user and password are no text for a header".to_owned())?;
                    value.set_sensitive(true);
                    outgoing.headers.push((AUTHORIZATION, value));
                }
            }
        }
        let incoming = self.exchange(outgoing, MAX_TOKEN_BYTES)?;
        if incoming.status != StatusCode::OK {
            return Err(format!("GET {url:?}: response status code {}", incoming.status));
        }
        let answer = Value::from_json(&incoming.body).map_err(|error| error.to_string())?;
        let member = |key| answer.get(key).and_then(Value::as_str).filter(|it| !it.is_empty());
        let token = member("access_token").or_else(|| member("token"));
        token.map(str::to_owned).ok_or_else(|| format!("GET {url:?}: no token in the answer"))
    }
}

impl Manifest {
    fn parse(body: &[u8]) -> Result<Self, String> {
        let manifest = Value::from_json(body).map_err(|error| format!("manifest: {error}"))?;
        let list = |key: &str| -> Result<Vec<Descriptor>, String> {
            let members = manifest.get(key).and_then(Value::as_array);
            members.into_iter().flat_map(|all| all.iter()).map(Descriptor::parse).collect()
        };
        let mut layers = list("layers")?;
        // Older artifacts call their layers `blobs`.
        layers.extend(list("blobs")?);
        let config = manifest.get("config").filter(|config| !config.is_null());
        Ok(Self {
            config: config.map(Descriptor::parse).transpose()?,
            layers,
            manifests: list("manifests")?,
        })
    }
}

impl Descriptor {
    fn parse(value: &Value) -> Result<Self, String> {
        let digest = value.get("digest").and_then(Value::as_str).unwrap_or_default();
        if !is_digest(digest) {
            return Err(format!("manifest: {digest:?} is not a digest that can be checked"));
        }
        let size = value.get("size").and_then(Value::as_i64);
        let size = size.and_then(|size| usize::try_from(size).ok());
        let size = size.ok_or_else(|| format!("manifest: {digest} has no size"))?;
        let annotations = value.get("annotations").and_then(Value::as_object);
        let annotations = annotations.into_iter().flat_map(|all| all.iter());
        let annotations = annotations
            .filter_map(|(key, value)| Some((key.to_string(), value.as_str()?.to_owned())))
            .collect();
        Ok(Self { digest: digest.to_owned(), size, annotations })
    }

    pub(super) fn annotation(&self, name: &str) -> Option<&str> {
        let found = self.annotations.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }
}

/// Whether content has its digest.
pub(super) fn check_digest(content: &[u8], digest: &str) -> Result<(), String> {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let found = match digest.split_once(':') {
        Some(("sha512", _)) => format!("sha512:{}", hex(&Sha512::digest(content))),
        _ => format!("sha256:{}", hex(&Sha256::digest(content))),
    };
    if found == digest { Ok(()) } else { Err(format!("{digest}: the content has {found}")) }
}

/// A parameter of a challenge: `realm="…",service="…"`.
fn parameter(parameters: &str, name: &str) -> Option<String> {
    let mut rest = parameters;
    while let Some((key, after)) = rest.split_once('=') {
        let (value, after) = match after.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"')?,
            None => after.split_once(',').unwrap_or((after, "")),
        };
        if key.trim_matches([' ', ',']).eq_ignore_ascii_case(name) {
            return Some(value.to_owned());
        }
        rest = after;
    }
    None
}

/// A value for a URL's query.
fn escape(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                char::from(byte).to_string()
            }
            byte => format!("%{byte:02X}"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::{
        io::{BufRead as _, BufReader, Write as _},
        net::TcpListener,
        sync::{Arc, Mutex},
        thread,
    };

    use super::*;

    #[test]
    fn challenges() {
        let challenge =
            r#"realm="https://auth.example/token",service=reg, scope="repository:a,b:pull""#;
        for (name, expected) in [
            ("realm", Some("https://auth.example/token")),
            ("Service", Some("reg")),
            ("scope", Some("repository:a,b:pull")),
            ("error", None),
        ] {
            assert_eq!(parameter(challenge, name).as_deref(), expected, "{name}");
        }
        assert_eq!(escape("repository:a/b:pull"), "repository%3Aa%2Fb%3Apull");
    }

    #[test]
    fn manifests() {
        for (body, expected) in [
            ("[", "manifest: "),
            (r#"{"layers": [{"digest": "md5:0", "size": 1}]}"#, "manifest: \"md5:0\" is not"),
            (
                &format!(
                    r#"{{"layers": [{{"digest": "sha256:{}", "size": -1}}]}}"#,
                    "0".repeat(64)
                ),
                "has no size",
            ),
        ] {
            let error = Manifest::parse(body.as_bytes()).expect_err(body);
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn redirects() {
        let registry = |plain_http| {
            let reference = Reference::parse("r.example/a").expect("reference");
            Registry::new(&reference, plain_http, Credentials::Anonymous).expect("registry")
        };
        for (plain_http, from, location, expected) in [
            (false, "https://r/a", "https://s/b?c", Some("https://s/b?c")),
            (false, "https://r/a", "/b", Some("https://r/b")),
            (true, "http://r/a", "http://s/b", Some("http://s/b")),
            (true, "http://r/a", "https://s/b", Some("https://s/b")),
            (true, "https://r/a", "http://s/b", None),
            (false, "https://r/a", "file:///etc/passwd", None),
        ] {
            let from: Uri = from.parse().expect("url");
            let to = registry(plain_http).redirected(&from, location).ok();
            assert_eq!(to.map(|to| to.to_string()).as_deref(), expected, "{location}");
        }
    }

    #[test]
    fn digests() {
        let empty = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(check_digest(b"", empty), Ok(()));
        assert!(check_digest(b"x", empty).is_err());
    }

    /// The answer to a request head.
    type Answer = fn(head: &str, address: &str) -> String;

    /// A server for one repository that records its requests.
    fn serve(answer: Answer) -> (String, Arc<Mutex<Vec<String>>>) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
        let address = listener.local_addr().expect("address").to_string();
        let heads = Arc::new(Mutex::new(Vec::new()));
        let (log, own) = (Arc::clone(&heads), address.clone());
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.expect("a connection");
                let lines = BufReader::new(&stream).lines().map_while(Result::ok);
                let head: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
                let head = head.join("\n").to_lowercase();
                log.lock().expect("not poisoned").push(head.clone());
                stream.write_all(answer(&head, &own).as_bytes()).expect("answered");
            }
        });
        (address, heads)
    }

    fn answer(status: &str, headers: &str, body: &str) -> String {
        let length = body.len();
        format!(
            "HTTP/1.1 {status}\r\n{headers}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        )
    }

    /// `{}` in SHA-256.
    const EMPTY: &str = "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a";

    fn registry_at(address: &str) -> Registry {
        let reference = Reference::parse(&format!("{address}/a/b:v1")).expect("reference");
        let user = Credentials::User { name: "me".to_owned(), password: "secret".to_owned() };
        Registry::new(&reference, true, user).expect("registry")
    }

    /// A registry that refers to a token service, and redirects layers to another host, which must
    /// not receive the token.
    #[test]
    fn tokens_and_redirects() {
        let (address, heads) = serve(|head, address| {
            let manifest = format!(r#"{{"layers": [{{"digest": "{EMPTY}", "size": 2}}]}}"#);
            let port = address.rsplit(':').next().unwrap_or_default();
            if head.starts_with("get /token?scope=repository%3aa%2fb%3apull&service=reg ") {
                let is_me = head.contains("authorization: basic bwu6c2vjcmv0");
                return match is_me {
                    true => answer("200 OK", "", r#"{"token": "t0k3n"}"#),
                    false => answer("403 Forbidden", "", ""),
                };
            }
            if head.starts_with("get /elsewhere ") {
                return answer("200 OK", "", "{}");
            }
            if !head.contains("authorization: bearer t0k3n") {
                let challenge = format!(
                    "WWW-Authenticate: Bearer realm=\"http://{address}/token\",service=\"reg\"\r\n"
                );
                return answer("401 Unauthorized", &challenge, "");
            }
            if head.starts_with("get /v2/a/b/manifests/v1 ") {
                return answer("200 OK", "", &manifest);
            }
            let location = format!("Location: http://localhost:{port}/elsewhere\r\n");
            answer("307 Temporary Redirect", &location, "")
        });
        let mut registry = registry_at(&address);
        let manifest = registry.manifest("v1").expect("a manifest");
        assert_eq!(registry.blob(&manifest.layers[0]), Ok(b"{}".to_vec()));
        let heads = heads.lock().expect("not poisoned").clone();
        let asked: Vec<&str> = heads.iter().filter_map(|head| head.split(' ').nth(1)).collect();
        assert_eq!(asked[0], "/v2/a/b/manifests/v1");
        assert_eq!(asked[2], asked[0]);
        assert_eq!(asked[4..], ["/elsewhere"]);
        assert!(!heads[4].contains("authorization"), "{}", heads[4]);
    }

    #[test]
    fn what_a_registry_may_get_wrong() {
        let (address, _) = serve(|head, _| {
            if head.starts_with("get /v2/a/b/blobs/") {
                return answer("200 OK", "", "{}");
            }
            answer("404 Not Found", "", "")
        });
        let mut registry = registry_at(&address);
        let error = registry.manifest("v1").expect_err("missing");
        assert!(
            error.ends_with("/v2/a/b/manifests/v1\": response status code 404 Not Found"),
            "{error}"
        );
        let blob = |digest: &str, size| Descriptor {
            digest: digest.to_owned(),
            size,
            annotations: Vec::new(),
        };
        let other = format!("sha256:{}", "0".repeat(64));
        for (descriptor, expected) in [
            (blob(&other, 2), "the content has sha256:44136fa"),
            (blob(EMPTY, 3), "2 bytes, the manifest says 3"),
            (blob(EMPTY, 1 << 40), "bytes, more than"),
        ] {
            let error = registry.blob(&descriptor).expect_err(expected);
            assert!(error.contains(expected), "{error}");
        }
    }
}
