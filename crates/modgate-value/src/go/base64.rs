//! Base64 with padding: `encoding/base64`.

use std::fmt;

/// The two characters that stand for 62 and 63.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Alphabet {
    /// `+` and `/`
    Standard,
    /// `-` and `_`
    Url,
}

/// The index of the byte at which reading stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Corrupt(pub usize);

/// `CorruptInputError`
impl fmt::Display for Corrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "illegal base64 data at input byte {}", self.0)
    }
}

impl Alphabet {
    fn character(self, value: u8) -> char {
        match (value, self) {
            (0..=25, _) => char::from(b'A' + value),
            (26..=51, _) => char::from(b'a' + (value - 26)),
            (52..=61, _) => char::from(b'0' + (value - 52)),
            (62, Self::Standard) => '+',
            (62, Self::Url) => '-',
            (_, Self::Standard) => '/',
            (_, Self::Url) => '_',
        }
    }

    fn value(self, byte: u8) -> Option<u32> {
        Some(u32::from(match (byte, self) {
            (b'A'..=b'Z', _) => byte - b'A',
            (b'a'..=b'z', _) => byte - b'a' + 26,
            (b'0'..=b'9', _) => byte - b'0' + 52,
            (b'+', Self::Standard) | (b'-', Self::Url) => 62,
            (b'/', Self::Standard) | (b'_', Self::Url) => 63,
            _ => return None,
        }))
    }

    /// `EncodeToString`
    pub fn encode(self, bytes: &[u8]) -> String {
        self.write(bytes, true)
    }

    /// `EncodeToString` without padding.
    pub fn encode_unpadded(self, bytes: &[u8]) -> String {
        self.write(bytes, false)
    }

    fn write(self, bytes: &[u8], padded: bool) -> String {
        let mut out = String::with_capacity(bytes.len().div_ceil(3).saturating_mul(4));
        for chunk in bytes.chunks(3) {
            let byte = |index: usize| u32::from(chunk.get(index).copied().unwrap_or(0));
            let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
            for index in 0..4 {
                if index <= chunk.len() {
                    let value = u8::try_from(bits >> (18 - 6 * index) & 63).unwrap_or(0);
                    out.push(self.character(value));
                } else if padded {
                    out.push('=');
                }
            }
        }
        out
    }

    /// `DecodeString`, which skips line breaks.
    ///
    /// # Errors
    ///
    /// The place of a character that does not belong there, or the start of an incomplete group.
    pub fn decode(self, text: impl AsRef<[u8]>) -> Result<Vec<u8>, Corrupt> {
        let bytes = text.as_ref();
        let mut out = Vec::with_capacity(bytes.len() / 4 * 3);
        let mut at = 0;
        let skip_breaks = |mut at: usize| {
            while matches!(bytes.get(at), Some(b'\n' | b'\r')) {
                at += 1;
            }
            at
        };
        loop {
            let mut bits = 0u32;
            let mut count = 0;
            while count < 4 {
                at = skip_breaks(at);
                let Some(byte) = bytes.get(at).copied() else {
                    return if count == 0 { Ok(out) } else { Err(Corrupt(at - count)) };
                };
                at += 1;
                if let Some(value) = self.value(byte) {
                    bits = bits << 6 | value;
                    count += 1;
                    continue;
                }
                if byte != b'=' || count < 2 {
                    return Err(Corrupt(at - 1));
                }
                if count == 2 {
                    at = skip_breaks(at);
                    match bytes.get(at) {
                        None => return Err(Corrupt(bytes.len())),
                        Some(b'=') => at += 1,
                        Some(_) => return Err(Corrupt(at - 1)),
                    }
                }
                at = skip_breaks(at);
                if at < bytes.len() {
                    return Err(Corrupt(at));
                }
                bits <<= 6 * (4 - count);
                let [_, first, second, _] = bits.to_be_bytes();
                out.push(first);
                out.extend((count == 3).then_some(second));
                return Ok(out);
            }
            let [_, first, second, third] = bits.to_be_bytes();
            out.extend([first, second, third]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        for (bytes, text) in [("", ""), ("a", "YQ=="), ("ab", "YWI="), ("abc", "YWJj")] {
            assert_eq!(Alphabet::Standard.encode(bytes.as_bytes()), text);
            assert_eq!(Alphabet::Standard.decode(text), Ok(bytes.as_bytes().to_vec()));
        }
        assert_eq!(Alphabet::Url.encode_unpadded(&[0xfb, 0xff]), "-_8");
        assert_eq!(Alphabet::Standard.decode("YW\r\nI=\n"), Ok(b"ab".to_vec()));
    }

    /// As Go 1.27 reports them.
    #[test]
    fn places() {
        for (text, at) in [
            ("Y", 0),
            ("YQ", 0),
            ("YQ=", 3),
            ("YQ=a", 2),
            ("YQ==a", 4),
            ("Y!", 1),
            ("=", 0),
            ("YWJjYQ", 4),
        ] {
            assert_eq!(Alphabet::Standard.decode(text), Err(Corrupt(at)), "{text}");
        }
    }
}
