//! Texts cut to a size.

/// The first `bytes` bytes of a text, followed by the number of bytes left out.
pub(crate) fn cut(text: &str, bytes: usize) -> String {
    let end = text.floor_char_boundary(bytes);
    match text.get(..end) {
        Some(begin) if end < text.len() => {
            format!("{begin}... and {} more bytes", text.len() - end)
        }
        _ => text.to_owned(),
    }
}
