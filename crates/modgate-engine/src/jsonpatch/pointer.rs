//! RFC 6901 pointers as KubeMod reads them (spec `kubemod.md`, 4.5 and 4.6).

use std::fmt::Write as _;

use modgate_value::pointer::escape;

/// The segments of a pointer, still escaped; whatever stands before the first `/` is dropped
/// . `None` without any `/`: such a path addresses nothing.
pub(super) fn segments(path: &str) -> Option<Segments<'_>> {
    let start = path.bytes().position(|byte| byte == b'/')?;
    Some(Segments { rest: Some(path.get(start + 1..)?) })
}

/// The result of [`segments`].
pub(super) struct Segments<'p> {
    rest: Option<&'p str>,
}

impl<'p> Iterator for Segments<'p> {
    type Item = &'p str;

    /// Byte by byte: segments are too short for anything that searches faster.
    fn next(&mut self) -> Option<&'p str> {
        let rest = self.rest?;
        let end = rest.bytes().position(|byte| byte == b'/');
        let Some((segment, more)) = end.and_then(|end| rest.split_at_checked(end)) else {
            return self.rest.take();
        };
        self.rest = more.get(1..);
        Some(segment)
    }
}

/// An array index as Go's `strconv.Atoi` reads it: sign and leading zeros allowed.
pub(super) fn index(segment: &str) -> Option<i64> {
    let digits = segment.strip_prefix(['+', '-']).unwrap_or(segment);
    let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if plain { segment.parse().ok() } else { None }
}

/// The element an index names in a list of `len`; negative ones count from the end.
pub(super) fn resolve(index: i64, len: usize) -> Option<usize> {
    let from_start = if index < 0 { index.checked_add(i64::try_from(len).ok()?)? } else { index };
    usize::try_from(from_start).ok().filter(|at| *at < len)
}

/// Goes on to the member `key` of what `path` points to.
pub(super) fn push_key(path: &mut String, key: &str) {
    path.push('/');
    path.push_str(&escape(key));
}

/// Goes on to the element `index` of what `path` points to.
pub(super) fn push_index(path: &mut String, index: usize) {
    let _ = write!(path, "/{index}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes() {
        for (segment, expected) in [
            ("0", Some(0)),
            ("01", Some(1)),
            ("+1", Some(1)),
            ("-1", Some(-1)),
            ("-", None),
            ("+-1", None),
            ("", None),
            ("1a", None),
            ("1_0", None),
            ("99999999999999999999", None),
        ] {
            assert_eq!(index(segment), expected, "{segment}");
        }
    }

    #[test]
    fn what_stands_before_the_first_slash_is_dropped() {
        let all = |path| segments(path).map(|rest| rest.collect::<Vec<_>>());
        assert_eq!(all("metadata/labels/x"), Some(vec!["labels", "x"]));
        assert_eq!(all("/"), Some(vec![""]));
        assert_eq!(all(""), None);
        assert_eq!(all("foo"), None);
    }
}
