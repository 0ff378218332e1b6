//! PEM (RFC 7468): `encoding/pem`.

use super::base64::Alphabet;

/// One block.
#[derive(Debug, PartialEq, Eq)]
pub struct Block<'t> {
    /// The type of the content, such as `CERTIFICATE`.
    pub label: &'t str,
    /// The content, without headers.
    pub bytes: Vec<u8>,
    /// The text after the block.
    pub rest: &'t str,
}

const BEGIN: &str = "-----BEGIN ";
const END: &str = "\n-----END ";
const DASHES: &str = "-----";

/// A block without headers, in lines of 64 characters.
pub fn encode(label: &str, content: &[u8]) -> String {
    let base64 = Alphabet::Standard.encode(content);
    let mut out = format!("{BEGIN}{label}{DASHES}\n");
    let mut rest = base64.as_str();
    while !rest.is_empty() {
        let (line, after) = rest.split_at(rest.len().min(64));
        out.push_str(line);
        out.push('\n');
        rest = after;
    }
    out.push_str(&format!("-----END {label}{DASHES}\n"));
    out
}

/// The first sound block; anything before it is skipped.
pub fn decode(text: &str) -> Option<Block<'_>> {
    let mut rest = text;
    loop {
        let (before, after) = rest.split_at_checked(rest.find(END)?)?;
        // The last beginning before this end: earlier ones have no end.
        let begin = before.rfind(BEGIN).filter(|at| {
            *at == 0 || before.as_bytes().get(at - 1).is_some_and(|byte| *byte == b'\n')
        });
        match begin.and_then(|at| rest.get(at + BEGIN.len()..)).and_then(block) {
            Some(block) => return Some(block),
            None => rest = after.get(END.len()..)?,
        }
    }
}

/// All sound blocks; anything between them is skipped.
pub fn blocks(text: &str) -> impl Iterator<Item = Block<'_>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let block = decode(rest)?;
        rest = block.rest;
        Some(block)
    })
}

/// The block whose label `text` begins with.
fn block(text: &str) -> Option<Block<'_>> {
    let (first, mut body) = line(text);
    let label = first.strip_suffix(DASHES)?;
    // Headers come first, and each of them has a colon.
    while let (header, after) = line(body)
        && header.contains(':')
    {
        body = after;
    }
    // An empty block has no line break of its own before its end.
    let (content, after) = match body.strip_prefix(&END[1..]) {
        Some(after) => ("", after),
        None => body.split_once(END)?,
    };
    let (trailer, rest) = line(after);
    if trailer.strip_suffix(DASHES)? != label {
        return None;
    }
    let compact: String = content.split([' ', '\t']).collect();
    Some(Block { label, bytes: Alphabet::Standard.decode(compact).ok()?, rest })
}

/// The first line without blanks at its end, and the text after it.
fn line(text: &str) -> (&str, &str) {
    let (line, rest) = text.split_once('\n').unwrap_or((text, ""));
    (line.trim_end_matches([' ', '\t', '\r']), rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_block() {
        fn found(text: &str) -> Option<(&str, Vec<u8>)> {
            decode(text).map(|block| (block.label, block.bytes))
        }
        let long = vec![7; 100];
        let text = encode("A KEY", &long);
        assert_eq!(text.lines().map(str::len).max(), Some(64));
        assert_eq!(found(&text), Some(("A KEY", long.clone())));
        assert_eq!(found(&format!("noise\n{text}")), Some(("A KEY", long.clone())));
        let headers = "-----BEGIN X-----\nProc-Type: 4\nDEK-Info: A\n\nYQ==\n-----END X-----\n";
        assert_eq!(found(headers), Some(("X", b"a".to_vec())));
        assert_eq!(found(&encode("NOTHING", b"")), Some(("NOTHING", Vec::new())));
        // A beginning without an end does not hide the block after it.
        let twice = format!("-----BEGIN Y-----\n{text}");
        assert_eq!(found(&twice), Some(("A KEY", long)));
        for none in [
            "",
            "-----BEGIN X-----\n!\n-----END X-----\n",
            "-----BEGIN X-----\nYQ==\n",
            "-----BEGIN X-----\nYQ==\n-----END Y-----\n",
            "-----BEGIN X-----\nYQ==\n-----END X----- !\n",
            "x-----BEGIN X-----\nYQ==\n-----END X-----\n",
        ] {
            assert_eq!(found(none), None, "{none}");
        }
    }

    #[test]
    fn the_rest() {
        let two = format!("{}{}", encode("A", b"a"), encode("B", b"b"));
        let found: Vec<_> =
            blocks(&two).map(|block| (block.label, block.rest.is_empty())).collect();
        assert_eq!(found, [("A", false), ("B", true)]);
    }
}
