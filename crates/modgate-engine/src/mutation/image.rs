//! Image references and the parts AssignImage replaces (3.9).

use std::sync::LazyLock;

use modgate_api::mutations::Parameters;
use modgate_value::gofmt;
use regex::Regex;

/// A reference, split. Nothing is checked: any text splits, and joins to itself again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImageReference<'a> {
    /// Before the first `/`, if that can be a domain; otherwise empty.
    pub domain: &'a str,
    /// Between domain and tag.
    pub path: &'a str,
    /// Tag or digest, with its `:` or `@`.
    pub tag: &'a str,
}

impl<'a> ImageReference<'a> {
    /// Splits a reference.
    pub fn split(reference: &'a str) -> Self {
        let (domain, rest) = match reference.split_once('/') {
            Some((domain, rest)) if is_domain(domain) => (domain, rest),
            _ => ("", reference),
        };
        let (path, tag) = rest.split_at(rest.find([':', '@']).unwrap_or(rest.len()));
        Self { domain, path, tag }
    }
}

impl std::fmt::Display for ImageReference<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if !self.domain.is_empty() {
            write!(f, "{}/", self.domain)?;
        }
        write!(f, "{}{}", self.path, self.tag)
    }
}

fn is_domain(text: &str) -> bool {
    text == "localhost" || text.contains(['.', ':'])
}

/// The parts an AssignImage puts in place of those of the present reference; empty ones stay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ImageParts {
    domain: String,
    path: String,
    tag: String,
}

impl ImageParts {
    /// Checks the parts; the error is the reason the original gives.
    pub(super) fn compile(parameters: &Parameters) -> Result<Self, String> {
        let parts = Self {
            domain: parameters.assign_domain.to_string(),
            path: parameters.assign_path.to_string(),
            tag: parameters.assign_tag.to_string(),
        };
        let Self { domain, path, tag } = &parts;
        if domain.is_empty() && path.is_empty() && tag.is_empty() {
            return Err(
                "at least one of [assignDomain, assignPath, assignTag] must be set".to_owned()
            );
        }
        if !domain.is_empty() && !DOMAIN.is_match(domain) {
            return Err(format!(
                "assignDomain {} must be a fully-qualified domain name or localhost",
                gofmt::quote(domain)
            ));
        }
        if !path.is_empty() && !PATH.is_match(path) {
            return Err(format!(
                "assignPath {} must be a valid docker image path",
                gofmt::quote(path)
            ));
        }
        if !tag.is_empty() && !TAG.is_match(tag) {
            return Err(format!(
                "assignTag {} must be a valid docker image tag or digest starting with ':' or '@'",
                gofmt::quote(tag)
            ));
        }
        // Otherwise the next pass would take the new path's beginning for a domain.
        if domain.is_empty() && !ImageReference::split(path).domain.is_empty() {
            return Err(format!(
                "assignDomain must be set if the first part of assignPath {} can be interpretted \
                 as part of a domain",
                gofmt::quote(path)
            ));
        }
        Ok(parts)
    }

    /// Whether the reference has these parts already.
    pub(super) fn are_in(&self, reference: &str) -> bool {
        let present = ImageReference::split(reference);
        let is = |part: &str, present: &str| part.is_empty() || part == present;
        is(&self.domain, present.domain)
            && is(&self.path, present.path)
            && is(&self.tag, present.tag)
    }

    /// The reference with the parts in place.
    pub(super) fn apply(&self, reference: &str) -> String {
        let present = ImageReference::split(reference);
        let or = |part: &'_ str, present: &'_ str| {
            if part.is_empty() { present.to_owned() } else { part.to_owned() }
        };
        ImageReference {
            domain: &or(&self.domain, present.domain),
            path: &or(&self.path, present.path),
            tag: &or(&self.tag, present.tag),
        }
        .to_string()
    }
}

#[expect(clippy::expect_used, reason = "the three patterns are constants, compiled in tests")]
fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("a constant pattern")
}

static DOMAIN: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"\A(?:localhost|[A-Za-z0-9_][A-Za-z0-9_-]*\.[A-Za-z0-9_.-]*[A-Za-z0-9_])(?::[0-9]+)?\z",
    )
});
static PATH: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"\A[a-z0-9]+(?:(?:[./]|_{1,2}|-+)[a-z0-9]+)*\z"));
static TAG: LazyLock<Regex> = LazyLock::new(|| {
    pattern(concat!(
        r"\A(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}",
        r"|@[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,})\z"
    ))
});
