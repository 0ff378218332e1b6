//! Credentials for registries, from the docker configuration and its credential helpers.

use std::{
    fmt, fs,
    io::{Read as _, Write as _},
    path::PathBuf,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use modgate_value::Value;

/// A user and password, or a token to exchange for another.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Credentials {
    Anonymous,
    User {
        name: String,
        password: String,
    },
    /// An OAuth 2 refresh token.
    Token(String),
}

/// Timeout of a credential helper.
const HELPER_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum size of its output.
const HELPER_BYTES: u64 = 1 << 20;
/// Name of docker's own registry in configurations.
const DOCKER: &str = "https://index.docker.io/v1/";

impl Credentials {
    /// Reads the credentials for a registry.
    pub(super) fn read(
        registry: &str,
        env: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, String> {
        let Some(path) = config_path(env) else { return Ok(Self::Anonymous) };
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Self::Anonymous);
            }
            Err(error) => {
                return Err(format!("{}: {}", path.display(), crate::files::os_text(&error)));
            }
        };
        let config = Value::from_json(&text)
            .map_err(|error| format!("{} is not JSON: {error}", path.display()))?;
        let name = if registry == "docker.io" { DOCKER } else { registry };
        let helper = config.path(&["credHelpers", name]).or_else(|| config.get("credsStore"));
        match helper.and_then(Value::as_str).filter(|helper| !helper.is_empty()) {
            Some(helper) => ask_helper(helper, name),
            None => Self::of_config(&config, name),
        }
    }

    /// Credentials in the configuration itself.
    fn of_config(config: &Value, name: &str) -> Result<Self, String> {
        let auths = config.get("auths").and_then(Value::as_object);
        let entry = auths.and_then(|auths| {
            auths.get(name).or_else(|| {
                let same = |key: &str| host_of(key) == host_of(name);
                auths.iter().find(|(key, _)| same(key)).map(|(_, entry)| entry)
            })
        });
        let Some(entry) = entry else { return Ok(Self::Anonymous) };
        let text = |key| entry.get(key).and_then(Value::as_str).unwrap_or_default();
        if !text("identitytoken").is_empty() {
            return Ok(Self::Token(text("identitytoken").to_owned()));
        }
        if text("auth").is_empty() {
            return Ok(match text("username") {
                "" => Self::Anonymous,
                user => Self::User { name: user.to_owned(), password: text("password").to_owned() },
            });
        }
        let pair = STANDARD.decode(text("auth")).ok().and_then(|pair| String::from_utf8(pair).ok());
        match pair.as_deref().and_then(|pair| pair.split_once(':')) {
            Some((user, password)) => Ok(Self::User {
                name: user.to_owned(),
                password: password.trim_end_matches('\0').to_owned(),
            }),
            None => Err(format!("`auths` has no user and password for {name}")),
        }
    }

    /// As an `Authorization` header of the basic kind.
    pub(super) fn basic(&self) -> Option<String> {
        match self {
            Self::User { name, password } => {
                Some(format!("Basic {}", STANDARD.encode(format!("{name}:{password}"))))
            }
            Self::Anonymous | Self::Token(_) => None,
        }
    }
}

/// Hides the credentials.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Anonymous => "Anonymous",
            Self::User { .. } => "User",
            Self::Token(_) => "Token",
        })
    }
}

fn config_path(env: &dyn Fn(&str) -> Option<String>) -> Option<PathBuf> {
    let set = |name| env(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let folder = set("DOCKER_CONFIG").or_else(|| set("HOME").map(|home| home.join(".docker")));
    folder.map(|folder| folder.join("config.json"))
}

/// `https://host/v1/` as older configurations write `host`.
fn host_of(key: &str) -> &str {
    let rest = key.split_once("://").map_or(key, |(_, rest)| rest);
    rest.split('/').next().unwrap_or(rest)
}

/// Asks `docker-credential-<helper>`.
fn ask_helper(helper: &str, name: &str) -> Result<Credentials, String> {
    let program = format!("docker-credential-{helper}");
    // The name of a helper is not a path.
    if helper.contains(['/', '\\']) {
        return Err(format!("`{program}` is not the name of a credential helper"));
    }
    let failed = |reason: &str| format!("{program}: {reason}");
    let mut child = Command::new(&program)
        .arg("get")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| failed(&crate::files::os_text(&error)))?;
    let answer = converse(&mut child, name);
    let ended = ended_in_time(&mut child);
    let _ = child.kill();
    let _ = child.wait();
    let answer = answer.ok().and_then(|answer| answer.join().ok()).unwrap_or_default();
    match ended {
        None => return Err(failed("no answer in time")),
        // Helpers fail for a registry that they do not know.
        Some(false) => return Ok(Credentials::Anonymous),
        Some(true) => {}
    }
    let answer = Value::from_json(&answer).map_err(|_| failed("the answer is not JSON"))?;
    let text = |key| answer.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    Ok(match text("Username").as_str() {
        "" => Credentials::Anonymous,
        "<token>" => Credentials::Token(text("Secret")),
        user => Credentials::User { name: user.to_owned(), password: text("Secret") },
    })
}

/// Sends the registry to the helper and collects its output on another thread, so that a helper
/// that does not end times out.
fn converse(child: &mut Child, name: &str) -> std::io::Result<thread::JoinHandle<Vec<u8>>> {
    if let Some(mut input) = child.stdin.take() {
        input.write_all(name.as_bytes())?;
    }
    let output = child.stdout.take();
    thread::Builder::new().name("credentials".to_owned()).spawn(move || {
        let mut answer = Vec::new();
        if let Some(output) = output {
            let _ = output.take(HELPER_BYTES).read_to_end(&mut answer);
        }
        answer
    })
}

/// Whether it ended well; `None` if it did not end.
fn ended_in_time(child: &mut Child) -> Option<bool> {
    let began = Instant::now();
    while began.elapsed() < HELPER_TIMEOUT {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status.success()),
            Ok(None) => thread::sleep(Duration::from_millis(10)),
            Err(_) => return None,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(config: &str, registry: &str) -> Result<Credentials, String> {
        let folder = tempfile::tempdir().expect("folder");
        fs::write(folder.path().join("config.json"), config).expect("write");
        let path = folder.path().to_string_lossy().into_owned();
        Credentials::read(registry, &|name| (name == "DOCKER_CONFIG").then(|| path.clone()))
    }

    #[test]
    fn configurations() {
        let user = |name: &str, password: &str| {
            Ok(Credentials::User { name: name.to_owned(), password: password.to_owned() })
        };
        let auths = r#"{"auths": {
            "ghcr.io": {"auth": "bWU6c2U6Y3JldA=="},
            "https://old.example/v1/": {"auth": "YTpi"},
            "https://index.docker.io/v1/": {"username": "d", "password": "p"},
            "token.example": {"auth": "YTpi", "identitytoken": "t"},
            "bad.example": {"auth": "YQ=="}
        }}"#;
        for (registry, expected) in [
            ("ghcr.io", user("me", "se:cret")),
            ("old.example", user("a", "b")),
            ("docker.io", user("d", "p")),
            ("token.example", Ok(Credentials::Token("t".to_owned()))),
            ("other.example", Ok(Credentials::Anonymous)),
            ("bad.example", Err("`auths` has no user and password for bad.example".to_owned())),
        ] {
            assert_eq!(of(auths, registry), expected, "{registry}");
        }
        assert!(of("no", "r").is_err());
        assert_eq!(Credentials::read("r", &|_| None), Ok(Credentials::Anonymous));
        let helper = of(r#"{"credsStore": "../x"}"#, "r");
        assert_eq!(
            helper,
            Err("`docker-credential-../x` is not the name of a credential helper".to_owned())
        );
        let missing = of(r#"{"credHelpers": {"r": "there-is-no-such-helper"}}"#, "r");
        assert!(missing.is_err_and(|error| error.contains("there-is-no-such-helper")));
    }
}
