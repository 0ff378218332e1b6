//! Messages as reports have them (AU-20).

use modgate_value::Str;

/// Longer messages are cut.
pub const MAX_BYTES: usize = 256;

const CUT: &str = "...";

/// At most [`MAX_BYTES`]: a longer message is cut between two characters and ends in `...`.
pub fn cut(message: &str) -> Str {
    if message.len() <= MAX_BYTES {
        return message.into();
    }
    let end = message.floor_char_boundary(MAX_BYTES - CUT.len());
    let kept = message.get(..end).unwrap_or_default();
    [kept, CUT].concat().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cutting() {
        let check = |message: &str, length: usize, end: &str| {
            let found = cut(message);
            assert_eq!(found.len(), length, "{message}");
            assert!(found.ends_with(end), "{found}");
        };
        check("short", 5, "short");
        check(&"a".repeat(256), 256, "aaaa");
        check(&"a".repeat(257), 256, "aaa...");
        check(&"a".repeat(300), 256, "aaa...");
        // `é` takes two bytes, so that byte 253 is within the 127th.
        check(&"é".repeat(128), 256, "éé");
        check(&"é".repeat(150), 252 + 3, "éé...");
        check(&format!("a{}", "é".repeat(150)), 253 + 3, "éé...");
        check(&"𝄞".repeat(100), 252 + 3, "𝄞...");
    }
}
