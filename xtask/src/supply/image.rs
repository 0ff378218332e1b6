//! Images that the build of ours begins with: each by digest, as a tag can move.

/// The mistakes in the images of a Containerfile.
pub(super) fn findings(recipe: &str) -> Vec<String> {
    let toolchain = argument(recipe, "RUST").unwrap_or_default();
    let mut stages = vec!["scratch".to_owned()];
    let mut findings = Vec::new();
    for (number, line) in (1..).zip(recipe.lines()) {
        let mut words = line.split_whitespace().filter(|word| !word.starts_with("--"));
        if words.next() != Some("FROM") {
            continue;
        }
        let image = words.next().unwrap_or_default();
        let image = match image.strip_prefix("${").and_then(|name| name.strip_suffix('}')) {
            Some(name) => argument(recipe, name).unwrap_or_default(),
            None => image,
        }
        .replace("${RUST}", toolchain);
        if let (Some("AS"), Some(stage)) = (words.next(), words.next()) {
            stages.push(stage.to_owned());
        }
        if !stages.contains(&image) && !has_digest(&image) {
            findings.push(format!(
                "deploy/Containerfile:{number}: image `{image}` has no digest; append \
                 `@sha256:` and the 64 digits of the image that you reviewed"
            ));
        }
    }
    if findings.is_empty() && stages.len() < 2 {
        findings.push("deploy/Containerfile names no image".to_owned());
    }
    findings
}

/// The default of an `ARG`.
fn argument<'r>(recipe: &'r str, name: &str) -> Option<&'r str> {
    let mut lines = recipe.lines();
    lines.find_map(|line| line.strip_prefix("ARG ")?.strip_prefix(name)?.strip_prefix('='))
}

fn has_digest(image: &str) -> bool {
    let digest = image.split_once("@sha256:").map(|(_, digest)| digest);
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    digest.is_some_and(|digest| digest.len() == 64 && digest.bytes().all(is_digit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_have_digests() {
        let digest = "0123456789abcdef".repeat(4);
        for (recipe, finding) in [
            (format!("FROM r/a:1@sha256:{digest} AS build\nFROM scratch\nFROM build\n"), None),
            (
                format!(
                    "ARG RUST=1\nARG BASE=r/a:${{RUST}}@sha256:{digest}\nFROM ${{BASE}} AS b\n"
                ),
                None,
            ),
            ("FROM r/a:1 AS build\n".to_owned(), Some(":1: image `r/a:1` has no digest")),
            ("ARG B=r/a\n\nFROM --platform=x ${B} AS b\n".to_owned(), Some(":3: image `r/a`")),
            ("FROM r/a@sha256:12 AS build\n".to_owned(), Some("has no digest")),
            ("FROM ${B} AS build\n".to_owned(), Some("image `` has no digest")),
            ("# nothing\n".to_owned(), Some("names no image")),
        ] {
            let found = findings(&recipe).join("\n");
            match finding {
                None => assert_eq!(found, "", "{recipe}"),
                Some(text) => assert!(found.contains(text), "{recipe}: {found}"),
            }
        }
    }
}
