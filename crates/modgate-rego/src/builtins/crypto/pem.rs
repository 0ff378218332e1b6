//! PEM (RFC 7468) as Go's `encoding/pem` reads it.

use super::super::encoding::{Alphabet, decode_base64};

/// One block.
pub(super) struct Block<'t> {
    /// What stands after `BEGIN`.
    pub(super) label: &'t str,
    pub(super) bytes: Vec<u8>,
    /// What follows the block.
    pub(super) rest: &'t str,
}

/// The first block of `text` that is one.
pub(super) fn next(text: &str) -> Option<Block<'_>> {
    let mut text = text;
    loop {
        let start = text.find("-----BEGIN ")?;
        let at_line_start = start == 0 || text.get(..start)?.ends_with('\n');
        let after = text.get(start + "-----BEGIN ".len()..)?;
        if at_line_start && let Some(block) = block(after) {
            return Some(block);
        }
        text = after;
    }
}

fn block(text: &str) -> Option<Block<'_>> {
    let (label, body) = text.split_once("-----")?;
    let body = body.trim_start_matches([' ', '\t', '\r']).strip_prefix('\n')?;
    let end = format!("-----END {label}-----");
    let at = body.find(&end)?;
    let (content, rest) = body.split_at(at);
    // Headers, of which nothing is wanted, end with an empty line.
    let content = match content.split_once("\n\n") {
        Some((headers, content)) if headers.contains(':') => content,
        _ => content,
    };
    let compact: String = content.split_ascii_whitespace().collect();
    let bytes = decode_base64(&compact, Alphabet::Standard).ok()?;
    let rest = rest.get(end.len()..)?;
    let rest = rest.trim_start_matches([' ', '\t', '\r']);
    Some(Block { label, bytes, rest: rest.strip_prefix('\n').unwrap_or(rest) })
}
