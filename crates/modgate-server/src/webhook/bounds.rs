//! Bounds on the size of answers.
//!
//! Messages of policies may quote the object, so an answer could be many times larger than its
//! request. Audits and the command line show whole messages.

use std::collections::BTreeMap;

use modgate_engine::api::admission::AdmissionResponse;

use crate::cut::cut;

/// Maximum bytes of an answer's message, of its reason, and of all its warnings.
const TEXT_BYTES: usize = 64 << 10;
/// Maximum bytes of one line.
const LINE_BYTES: usize = 16 << 10;
/// How many of the policies whose lines are left out are named.
const NAMED: usize = 10;

/// Shortens the texts of an answer that are too long.
pub(super) fn bounded(mut response: AdmissionResponse) -> AdmissionResponse {
    if response.message.len() > LINE_BYTES {
        response.message = lines(&response.message);
    }
    if response.reason.len() > TEXT_BYTES {
        response.reason = cut(&response.reason, TEXT_BYTES);
    }
    if response.warnings.iter().map(String::len).sum::<usize>() > LINE_BYTES {
        response.warnings = warnings(std::mem::take(&mut response.warnings));
    }
    response
}

/// As many lines as fit, then the policies of the others.
fn lines(message: &str) -> String {
    let mut out = String::new();
    let mut left_out: BTreeMap<&str, usize> = BTreeMap::new();
    for line in message.split('\n') {
        let shown = cut(line, LINE_BYTES);
        if left_out.is_empty() && out.len() + shown.len() <= TEXT_BYTES {
            if !out.is_empty() {
                out.push('\n');
            }
            out.push_str(&shown);
        } else {
            *left_out.entry(policy(line)).or_default() += 1;
        }
    }
    let more: usize = left_out.values().sum();
    if more > 0 {
        let names: Vec<_> = left_out.keys().copied().filter(|name| !name.is_empty()).collect();
        let plural = if more == 1 { "violation" } else { "violations" };
        out.push_str(&format!("\nand {more} more {plural}"));
        let named = names.len().min(NAMED);
        if named > 0 {
            let shown: Vec<_> = names.iter().copied().take(NAMED).collect();
            out.push_str(&format!(" of {}", shown.join(", ")));
        }
        if names.len() > named {
            out.push_str(&format!(" and {} more policies", names.len() - named));
        }
    }
    out
}

/// The constraint of a line `[name] message`.
fn policy(line: &str) -> &str {
    let name = line.strip_prefix('[').and_then(|rest| rest.split_once("] "));
    name.map(|(name, _)| name).filter(|name| name.len() <= 253).unwrap_or_default()
}

fn warnings(all: Vec<String>) -> Vec<String> {
    let count = all.len();
    let mut bytes = 0;
    let mut shown = Vec::new();
    for warning in all {
        let warning = cut(&warning, LINE_BYTES);
        bytes += warning.len();
        if bytes > TEXT_BYTES {
            break;
        }
        shown.push(warning);
    }
    let more = count - shown.len();
    if more > 0 {
        shown.push(format!("and {more} more {}", if more == 1 { "warning" } else { "warnings" }));
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(message: String) -> String {
        bounded(AdmissionResponse { message, ..AdmissionResponse::default() }).message
    }

    #[test]
    fn what_is_short_stays() {
        let text = "[a] b\n[c] d".repeat(100);
        assert_eq!(message(text.clone()), text);
        let all = "[a] 0123456789abcdef\n".repeat(1000);
        assert_eq!(message(all.clone()), all, "more than a line, and there is room");
    }

    #[test]
    fn violations_that_are_left_out_are_counted_and_named() {
        let line = |name: usize| format!("[c-{name}] {}", "x".repeat(1000));
        let all: Vec<_> = (0..200).map(|number| line(number / 50)).collect();
        let text = message(all.join("\n"));
        assert!(text.len() < TEXT_BYTES + 200, "{}", text.len());
        let (shown, rest) = text.rsplit_once('\n').expect("lines");
        let kept = shown.lines().count();
        assert_eq!(shown, all[..kept].join("\n"));
        assert_eq!(rest, format!("and {} more violations of c-1, c-2, c-3", 200 - kept));
        let many: Vec<_> = (0..200).map(line).collect();
        let text = message(many.join("\n"));
        assert!(text.ends_with(" more policies"), "{}", &text[text.len() - 200..]);
    }

    #[test]
    fn one_line_is_cut_between_characters() {
        let text = message("é".repeat(LINE_BYTES));
        assert_eq!(text, format!("{}... and {LINE_BYTES} more bytes", "é".repeat(LINE_BYTES / 2)));
    }

    #[test]
    fn reasons_and_warnings_are_bounded_too() {
        let response = bounded(AdmissionResponse {
            reason: "r".repeat(TEXT_BYTES + 7),
            warnings: vec!["w".repeat(LINE_BYTES + 5); 6],
            ..AdmissionResponse::default()
        });
        assert!(response.reason.ends_with("r... and 7 more bytes"));
        assert_eq!(response.warnings.len(), 4);
        assert!(response.warnings[0].ends_with("w... and 5 more bytes"));
        assert_eq!(response.warnings[3], "and 3 more warnings");
    }
}
