//! `<registry>/<repository>[:tag|@digest]`.

use modgate_value::gofmt;

/// The default tag.
const DEFAULT_TAG: &str = "latest";

/// The name of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reference {
    /// Host and, where one is given, port.
    pub(super) registry: String,
    /// Path in the registry.
    pub(super) repository: String,
    /// Tag or digest.
    pub(super) selector: String,
}

impl Reference {
    pub(super) fn parse(image: &str) -> Result<Self, String> {
        let invalid = |what: String| Err(format!("invalid reference: {what}"));
        let Some((registry, path)) = image.split_once('/') else {
            return invalid("missing registry or repository".to_owned());
        };
        let (repository, selector) = match path.split_once('@') {
            // A tag before a digest is ignored.
            Some((repository, digest)) => {
                (repository.split(':').next().unwrap_or_default(), digest)
            }
            None => path.split_once(':').unwrap_or((path, DEFAULT_TAG)),
        };
        if !is_registry(registry) {
            return invalid(format!("invalid registry {}", gofmt::quote(registry)));
        }
        if !is_repository(repository) {
            return invalid(format!("invalid repository {}", gofmt::quote(repository)));
        }
        if path.contains('@') {
            if !is_digest(selector) {
                return invalid(format!("invalid digest {}", gofmt::quote(selector)));
            }
        } else if !is_tag(selector) {
            return invalid(format!("invalid tag {}", gofmt::quote(selector)));
        }
        Ok(Self {
            registry: registry.to_owned(),
            repository: repository.to_owned(),
            selector: selector.to_owned(),
        })
    }

    /// Host of the registry; Docker's differs from the name in its images.
    pub(super) fn host(&self) -> &str {
        match self.registry.as_str() {
            "docker.io" => "registry-1.docker.io",
            other => other,
        }
    }
}

/// A host name or address, perhaps with a port.
fn is_registry(text: &str) -> bool {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, Some(port)),
        _ => (text, None),
    };
    let is_name = !host.is_empty()
        && host.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '.'));
    let is_address = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
        .is_some_and(|host| host.parse::<std::net::Ipv6Addr>().is_ok());
    (is_name || is_address) && port.is_none_or(|port| port.parse::<u16>().is_ok())
}

/// Path segments of lower-case letters and digits, joined by single `.`, `_`, `__` or any `-`.
fn is_repository(text: &str) -> bool {
    text.split('/').all(|segment| {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        segment.starts_with(plain)
            && segment.ends_with(plain)
            && segment.chars().all(|c| plain(c) || matches!(c, '.' | '_' | '-'))
            && segment.split(plain).all(|joint| {
                matches!(joint, "" | "." | "_" | "__") || joint.chars().all(|c| c == '-')
            })
    })
}

fn is_tag(text: &str) -> bool {
    text.len() <= 128
        && text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-'))
}

/// A SHA-2 digest, the only ones that are checked here.
pub(super) fn is_digest(text: &str) -> bool {
    let length = match text.split_once(':') {
        Some(("sha256", hex)) => (hex, 64),
        Some(("sha512", hex)) => (hex, 128),
        _ => return false,
    };
    length.0.len() == length.1 && length.0.chars().all(|c| matches!(c, '0'..='9' | 'a'..='f'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references() {
        let digest = format!("sha256:{}", "0a".repeat(32));
        for (image, expected) in [
            ("localhost:5000/my-bundle:v1", Ok(("localhost:5000", "my-bundle", "v1"))),
            ("ghcr.io/a/b__c.d-e", Ok(("ghcr.io", "a/b__c.d-e", "latest"))),
            ("[::1]:5000/a", Ok(("[::1]:5000", "a", "latest"))),
            (&format!("r/a@{digest}"), Ok(("r", "a", digest.as_str()))),
            (&format!("r/a:v1@{digest}"), Ok(("r", "a", digest.as_str()))),
            ("a", Err("missing registry or repository")),
            ("/a", Err("invalid registry \"\"")),
            ("r:x/a", Err("invalid registry \"r:x\"")),
            ("u@h/a", Err("invalid registry \"u@h\"")),
            ("r/", Err("invalid repository \"\"")),
            ("r/A", Err("invalid repository \"A\"")),
            ("r/../a", Err("invalid repository \"../a\"")),
            ("r/a..b", Err("invalid repository \"a..b\"")),
            ("r/a:", Err("invalid tag \"\"")),
            ("r/a:b/c", Err("invalid tag \"b/c\"")),
            ("r/a@sha256:00", Err("invalid digest \"sha256:00\"")),
        ] {
            let parsed = Reference::parse(image);
            let parsed = parsed.as_ref().map(|reference| {
                (
                    reference.registry.as_str(),
                    reference.repository.as_str(),
                    reference.selector.as_str(),
                )
            });
            let expected = expected.map_err(|what| format!("invalid reference: {what}"));
            assert_eq!(parsed.map_err(Clone::clone), expected, "{image}");
        }
    }
}
