//! Names of images, and other names for the same image.

use modgate_value::Str;

/// A digest; which one does not matter.
const DIGEST: &str = "@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// An image of a registry and a repository that no policy knows.
pub(crate) const UNRELATED: &str = "unrelated.invalid/other/app:1.0";

/// Images that texts mention, or whose beginnings they are. A parameter may be the beginning of one
/// whatever it looks like.
pub(crate) fn mentioned(texts: &[String], parameters: &[Str]) -> Vec<String> {
    let mut found = vec!["registry.example/app:1.0".to_owned()];
    let plain = |text: &&Str| text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-');
    found.extend(parameters.iter().filter(plain).take(6).map(|text| format!("{text}/app:1.0")));
    let looks_right = |text: &&String| {
        let known = |byte: u8| byte.is_ascii_alphanumeric() || b"./:@_-*".contains(&byte);
        text.len() > 3 && text.bytes().all(known) && text.bytes().any(|b| b"./:".contains(&b))
    };
    for text in texts.iter().filter(looks_right).take(12) {
        let text = text.trim_end_matches('*');
        match text.ends_with('/') {
            true => found.push(format!("{text}app:1.0")),
            false => found.extend([text.to_owned(), format!("{text}/app:1.0")]),
        }
    }
    found.push(format!("registry.example/app:1.0{DIGEST}"));
    found
}

/// Whether a text is the name of an image: parts of lower case, with a tag and a digest if it has any. An API server
/// stores other texts as well, and nothing can run them.
pub(crate) fn is_reference(image: &str) -> bool {
    let (name, version) = repository(image);
    let (tag, digest) = version.split_once('@').map_or((version, None), |(t, d)| (t, Some(d)));
    let (host, rest) = split(name);
    let known =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._-".contains(&byte);
    let edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let part = |part: &str| {
        let bytes = part.as_bytes();
        edge(bytes.first()) && edge(bytes.last()) && bytes.iter().copied().all(known)
    };
    let host_byte = |byte: u8| byte.is_ascii_alphanumeric() || b".-:[]".contains(&byte);
    let tag_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    host.is_none_or(|host| edge(host.as_bytes().first()) && host.bytes().all(host_byte))
        && rest.split('/').all(part)
        && (tag.is_empty()
            || tag.strip_prefix(':').is_some_and(|tag| {
                !tag.is_empty() && !tag.starts_with(['.', '-']) && tag.bytes().all(tag_byte)
            }))
        && digest.is_none_or(|digest| {
            let hex = digest.strip_prefix("sha256:").unwrap_or_default();
            hex.len() == 64 && hex.bytes().all(|byte| byte.is_ascii_hexdigit())
        })
}

/// The registry, if the name has one, and the rest.
fn split(image: &str) -> (Option<&str>, &str) {
    match image.split_once('/') {
        Some((host, rest)) if host.contains(['.', ':']) || host == "localhost" => {
            (Some(host), rest)
        }
        _ => (None, image),
    }
}

/// The name without tag and digest, and these.
fn repository(image: &str) -> (&str, &str) {
    let (name, _) = image.split_once('@').unwrap_or((image, ""));
    let last = name.rfind('/').map_or(0, |slash| slash + 1);
    let end = name.get(last..).and_then(|last| last.find(':')).map_or(name.len(), |at| last + at);
    (name.get(..end).unwrap_or(name), image.get(end..).unwrap_or_default())
}

/// Other names for the same image: the registry that goes without saying, its other name and its port,
/// the tag that goes without saying.
pub(crate) fn aliases(image: &str) -> Vec<String> {
    let (host, rest) = split(image);
    let mut found = Vec::new();
    match host {
        None | Some("docker.io" | "index.docker.io") => {
            let full = if rest.contains('/') { rest.to_owned() } else { format!("library/{rest}") };
            let short = full.strip_prefix("library/").unwrap_or(&full).to_owned();
            found.extend([
                short,
                full.clone(),
                format!("docker.io/{full}"),
                format!("index.docker.io/{full}"),
            ]);
        }
        Some(host) if !host.contains(':') => found.push(format!("{host}:443/{rest}")),
        Some(_) => {}
    }
    if let (name, ":latest") = repository(image) {
        found.push(name.to_owned());
    }
    if let (name, "") = repository(image) {
        found.push(format!("{name}:latest"));
    }
    found.retain(|alias| alias != image);
    found
}

/// The image under another tag.
pub(crate) fn retagged(image: &str) -> String {
    format!("{}:0.0.0-other", repository(image).0)
}

/// The image with a digest behind its tag.
pub(crate) fn with_digest(image: &str) -> Option<String> {
    (!image.contains('@')).then(|| format!("{image}{DIGEST}"))
}

/// The image of someone else whose name starts with an allowed one that does not end where a part of a
/// name ends.
pub(crate) fn beyond(allowed: &str) -> Option<String> {
    let (host, rest) = split(allowed);
    let is_host = host.is_none() && allowed.contains('.') && !allowed.contains('/');
    if allowed.is_empty() || allowed.ends_with(['/', '*', '-', '.', ':']) {
        return None;
    }
    // A tag or a digest names an image as a whole.
    if rest.contains([':', '@']) {
        return None;
    }
    if is_host {
        return Some(format!("{allowed}.evil.invalid/app:1.0"));
    }
    Some(format!("{allowed}-evil/app:1.0"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_one_image() {
        for (image, expected) in [
            (
                "nginx",
                "library/nginx docker.io/library/nginx index.docker.io/library/nginx nginx:latest",
            ),
            ("docker.io/evil/app:1", "evil/app:1 evil/app:1 index.docker.io/evil/app:1"),
            ("r.example/app:latest", "r.example:443/app:latest r.example/app"),
            ("r.example:5000/app:1", ""),
        ] {
            assert_eq!(aliases(image).join(" "), expected, "{image}");
        }
    }

    #[test]
    fn names_that_only_begin_alike() {
        for (allowed, expected) in [
            ("registry.corp", Some("registry.corp.evil.invalid/app:1.0")),
            ("openpolicyagent", Some("openpolicyagent-evil/app:1.0")),
            ("r.example/team", Some("r.example/team-evil/app:1.0")),
            ("openpolicyagent/", None),
            ("r.example/*", None),
            ("ubuntu:20.14", None),
        ] {
            assert_eq!(beyond(allowed).as_deref(), expected, "{allowed}");
        }
    }

    #[test]
    fn references() {
        let digest = format!("nginx{DIGEST}");
        for image in
            ["nginx", "nginx:1.0", "r.example:5000/a/b:1", "localhost/a", "a__b/c", &digest]
        {
            assert!(is_reference(image), "{image}");
        }
        for image in
            ["", ":latest", "a:", "nginx:", "/a", "a//b", "A/b", "a b", "*", "a@sha256:00", "-a"]
        {
            assert!(!is_reference(image), "{image}");
        }
    }

    #[test]
    fn tags() {
        assert_eq!(retagged("r.example:5000/a/b:1@sha256:00"), "r.example:5000/a/b:0.0.0-other");
        assert_eq!(retagged("nginx"), "nginx:0.0.0-other");
        assert!(with_digest("nginx@sha256:00").is_none());
    }
}
