//! The formats that `format` may ask for; unknown ones fit anything.

use std::{
    net::{Ipv4Addr, Ipv6Addr},
    sync::LazyLock,
};

use modgate_value::{
    Budget, Exhausted,
    go::url::Url,
    gofmt::quote_bytes,
    gotime::{Zone, parse},
    regex::{DEFAULT_SIZE_LIMIT, GoRegex, Uncompiled},
};

fn url(text: &str) -> Option<Url> {
    Url::parse(text.as_bytes(), quote_bytes).ok()
}

/// Patterns are constants, and compile.
fn pattern(source: &str) -> Option<GoRegex> {
    GoRegex::new(source).ok()
}

static HOSTNAME: LazyLock<Option<GoRegex>> = LazyLock::new(|| {
    const LABEL: &str = r"([a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9\-]{0,61}[a-zA-Z0-9])";
    pattern(&format!(r"^{LABEL}(\.{LABEL})*$"))
});
static TEMPLATE: LazyLock<Option<GoRegex>> = LazyLock::new(|| pattern(r"^([^{]*(\{[^}]*\})?)*$"));
static UUID: LazyLock<Option<GoRegex>> = LazyLock::new(|| {
    pattern(r"^(?i)[a-f0-9]{8}-[a-f0-9]{4}-[a-f0-9]{4}-[a-f0-9]{4}-[a-f0-9]{12}$")
});
static POINTER: LazyLock<Option<GoRegex>> = LazyLock::new(|| pattern(r"^(?:/(?:[^~/]|~0|~1)*)*$"));
static RELATIVE_POINTER: LazyLock<Option<GoRegex>> =
    LazyLock::new(|| pattern(r"^(?:0|[1-9][0-9]*)(?:#|(?:/(?:[^~/]|~0|~1)*)*)$"));
static EMAIL: LazyLock<Option<GoRegex>> = LazyLock::new(|| {
    pattern(concat!(
        r#"^(?:[^<>()\[\]\\,;:@"]*<)?\s*"#,
        r#"(?:[^\s<>()\[\]\\,;:@".]+(?:\.[^\s<>()\[\]\\,;:@".]+)*|"(?:[^"\\]|\\.)*")"#,
        r#"@(?:[^\s<>()\[\]\\,;:@".]+(?:\.[^\s<>()\[\]\\,;:@".]+)*|\[[^\[\]\\]*\])\s*>?$"#
    ))
});

fn matches(regex: &Option<GoRegex>, text: &str) -> bool {
    regex.as_ref().is_some_and(|regex| regex.is_match(text))
}

/// Whether `text` has the format.
///
/// # Errors
///
/// When `budget` has too little time left.
pub(super) fn fits(format: &str, text: &str, budget: &Budget<'_>) -> Result<bool, Exhausted> {
    let time =
        |layouts: &[&str]| layouts.iter().any(|layout| parse(layout, text, &Zone::Utc).is_ok());
    const DATE: &str = "2006-01-02";
    const TIME: [&str; 2] = ["15:04:05Z07:00", "15:04:05"];
    Ok(match format {
        "date" => time(&[DATE]),
        "time" => time(&TIME),
        "date-time" => time(&TIME) || time(&[DATE, "2006-01-02T15:04:05Z07:00"]),
        "hostname" => text.len() < 256 && matches(&HOSTNAME, text),
        "email" | "idn-email" => matches(&EMAIL, text),
        "ipv4" => {
            // Go takes an IPv4 address written inside an IPv6 one for either.
            text.contains('.') && is_address(text)
        }
        "ipv6" => text.contains(':') && is_address(text),
        "uri" | "iri" => {
            url(text).is_some_and(|url| !url.scheme.is_empty()) && !text.contains('\\')
        }
        "uri-reference" | "iri-reference" => url(text).is_some() && !text.contains('\\'),
        "uri-template" => {
            !text.contains('\\')
                && url(text)
                    .is_some_and(|url| matches(&TEMPLATE, &String::from_utf8_lossy(&url.path)))
        }
        "uuid" => matches(&UUID, text),
        "regex" => text.is_empty() || is_regex(text, budget)?,
        "json-pointer" => matches(&POINTER, text),
        "relative-json-pointer" => matches(&RELATIVE_POINTER, text),
        _ => true,
    })
}

fn is_regex(text: &str, budget: &Budget<'_>) -> Result<bool, Exhausted> {
    match GoRegex::within(text, DEFAULT_SIZE_LIMIT, budget) {
        Ok(_) => Ok(true),
        Err(Uncompiled::Invalid(_)) => Ok(false),
        Err(Uncompiled::Exhausted(exhausted)) => Err(exhausted),
    }
}

fn is_address(text: &str) -> bool {
    text.parse::<Ipv4Addr>().is_ok() || text.parse::<Ipv6Addr>().is_ok()
}
