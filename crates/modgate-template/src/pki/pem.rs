//! PEM (RFC 7468), as Go's `encoding/pem` writes it and is ready to read it.

use crate::funcs::encoding::{base64_decode, base64_encode};

/// A PEM block, base64 in lines of 64.
pub(crate) fn encode(label: &str, content: &[u8]) -> String {
    let base64 = base64_encode(content);
    let mut out = format!("-----BEGIN {label}-----\n");
    let mut rest = base64.as_str();
    while !rest.is_empty() {
        let (line, after) = rest.split_at(rest.len().min(64));
        out.push_str(line);
        out.push('\n');
        rest = after;
    }
    out.push_str(&format!("-----END {label}-----\n"));
    out
}

/// The first block of a text: its label and content.
pub(crate) fn decode(text: &str) -> Option<(&str, Vec<u8>)> {
    let mut rest = text;
    loop {
        let start = rest.find("-----BEGIN ")?;
        let at_line_start = start == 0 || rest.get(..start).is_some_and(|t| t.ends_with('\n'));
        let after = rest.get(start + "-----BEGIN ".len()..)?;
        if at_line_start && let Some(block) = block(after) {
            return Some(block);
        }
        rest = after;
    }
}

fn block(after_begin: &str) -> Option<(&str, Vec<u8>)> {
    let (label, body) = after_begin.split_once("-----")?;
    if label.contains('\n') {
        return None;
    }
    let end = format!("-----END {label}-----");
    let (body, _) = body.split_once(&end)?;
    // Headers (`Proc-Type: …`) end with an empty line.
    let mut lines = body.lines().map(str::trim).peekable();
    let mut base64 = String::with_capacity(body.len());
    if lines.clone().any(|line| line.contains(':')) {
        lines.by_ref().skip(1).take_while(|line| !line.is_empty()).for_each(drop);
    }
    base64.extend(lines);
    base64_decode(base64.as_bytes()).ok().map(|content| (label, content))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks() {
        let long = vec![7; 100];
        let text = encode("A KEY", &long);
        assert_eq!(text.lines().map(str::len).max(), Some(64));
        assert_eq!(decode(&text), Some(("A KEY", long)));
        assert_eq!(decode(&format!("noise\n{text}")).map(|found| found.0), Some("A KEY"));
        let headers = "-----BEGIN X-----\nProc-Type: 4\n\nYQ==\n-----END X-----\n";
        assert_eq!(decode(headers), Some(("X", b"a".to_vec())));
        assert_eq!(decode("-----BEGIN X-----\n!\n-----END X-----\n"), None);
        assert_eq!(decode("-----BEGIN X-----\nYQ==\n"), None);
        assert_eq!(decode(""), None);
    }
}
