//! The segments of JSON pointers (RFC 6901).

use std::borrow::Cow;

/// A name as a segment of a pointer: `~` is written `~0`, `/` is written `~1`.
pub fn escape(name: &str) -> Cow<'_, str> {
    // Byte by byte: names are too short for anything that searches faster.
    if name.bytes().any(|byte| matches!(byte, b'~' | b'/')) {
        name.replace('~', "~0").replace('/', "~1").into()
    } else {
        name.into()
    }
}

/// The name that a segment means: `~1` is `/`, `~0` is `~`.
pub fn unescape(segment: &str) -> Cow<'_, str> {
    // Byte by byte: segments are too short for anything that searches faster.
    if segment.bytes().any(|byte| byte == b'~') {
        segment.replace("~1", "/").replace("~0", "~").into()
    } else {
        segment.into()
    }
}

/// The pointer of the member `name` of what `pointer` means.
pub fn below(pointer: &str, name: &str) -> String {
    format!("{pointer}/{}", escape(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_read_as_they_were_written() {
        for name in ["", "a", "a/b", "~", "~1", "~0", "a~/b/~01"] {
            assert_eq!(unescape(&escape(name)), name, "{name}");
        }
        assert_eq!(below("/metadata/labels", "a/b~c"), "/metadata/labels/a~1b~0c");
    }
}
