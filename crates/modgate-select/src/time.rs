//! Timestamps, as `date()` reads them.

use modgate_value::gotime::{Time, Zone, parse_any};

/// The layouts in the order they are tried (spec `kubemod.md`, 2.6). A fraction may follow seconds
/// in all of them, so the layouts that differ only in spelling one out are left out.
const LAYOUTS: [&str; 12] = [
    "Mon Jan _2 15:04:05 2006",
    "Mon Jan _2 15:04:05 MST 2006",
    "Mon Jan 02 15:04:05 -0700 2006",
    "3:04PM",
    "2006-01-02T15:04:05Z07:00",
    "2006-01-02",
    "2006-01-02 15:04",
    "2006-01-02 15:04:05",
    "2006-01-02 15:04:05-07:00",
    "2006-01-02T15Z0700",
    "2006-01-02T15:04Z0700",
    "2006-01-02T15:04:05Z0700",
];

/// Reads a text by the first layout it fits. Texts that name no zone are in KubeMod's local zone,
/// which is UTC, but differs from `Z` and `UTC`: KubeMod compares timestamps structurally.
pub(crate) fn parse(text: &str) -> Option<Time> {
    parse_any(&LAYOUTS, text, &Zone::Fixed(0, "UTC".into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Option<String> {
        parse(text).map(|time| time.to_string())
    }

    /// All recorded from Go 1.27 with the same layouts.
    #[test]
    fn layouts() {
        for (input, expected) in [
            ("Mon Jan  2 15:04:05 2006", Some("2006-01-02 15:04:05 +0000 UTC")),
            ("mon JAN 2 15:04:05.25 2006", Some("2006-01-02 15:04:05.25 +0000 UTC")),
            ("Mon Jan 2 15:04:05 CET 2006", Some("2006-01-02 15:04:05 +0000 CET")),
            ("Mon Jan 2 15:04:05 GMT-3 2006", Some("2006-01-02 12:04:05 -0300 GMT-3")),
            ("Mon Jan 02 15:04:05 -0700 2006", Some("2006-01-02 15:04:05 -0700 -0700")),
            ("12:30AM", Some("0000-01-01 00:30:00 +0000 UTC")),
            ("2020-02-29T10:00:00.123456789123Z", Some("2020-02-29 10:00:00.123456789 +0000 UTC")),
            ("2020-01-01T10:00:00+02:00", Some("2020-01-01 10:00:00 +0200 +0200")),
            ("2020-01-01T10:00:00+0200", Some("2020-01-01 10:00:00 +0200 +0200")),
            ("2020-01-01 9:04", Some("2020-01-01 09:04:00 +0000 UTC")),
            ("2020-01-01  10:04:05-07:00", Some("2020-01-01 10:04:05 -0700 -0700")),
            ("2020-01-01T10Z", Some("2020-01-01 10:00:00 +0000 UTC")),
            ("2019-02-29", None),
            ("2020-1-1", None),
            ("2020-01-01T10:00:00", None),
            ("2020-01-01T24:00:00Z", None),
            ("13:00PM", None),
            ("", None),
        ] {
            assert_eq!(text(input).as_deref(), expected, "{input}");
        }
    }

    #[test]
    fn zones_are_compared() {
        assert_ne!(parse("2020-01-01"), parse("2020-01-01T00:00:00Z"));
        assert_eq!(parse("2020-01-01"), parse("2020-01-01T00:00:00+00:00"));
    }
}
