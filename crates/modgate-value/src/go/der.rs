//! Distinguished Encoding Rules (ITU-T X.690), as far as keys and certificates need them:
//! `encoding/asn1`.

use std::fmt;

/// The tag of a `BOOLEAN`.
pub const BOOLEAN: u8 = 0x01;
/// The tag of an `INTEGER`.
pub const INTEGER: u8 = 0x02;
/// The tag of a `BIT STRING`.
pub const BIT_STRING: u8 = 0x03;
/// The tag of an `OCTET STRING`.
pub const OCTET_STRING: u8 = 0x04;
/// The tag of an `OBJECT IDENTIFIER`.
pub const OBJECT_ID: u8 = 0x06;
/// The tag of a `SEQUENCE`.
pub const SEQUENCE: u8 = 0x30;
/// The tag of a `SET`.
pub const SET: u8 = 0x31;

/// The constructed, context-specific tag `[number]`.
pub const fn context(number: u8) -> u8 {
    0xA0 | number
}

/// The primitive, context-specific tag `[number]`.
pub const fn primitive(number: u8) -> u8 {
    0x80 | number
}

/// One element.
pub fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut out = vec![tag];
    let length = content.len();
    match u8::try_from(length) {
        Ok(short @ 0..0x80) => out.push(short),
        _ => {
            let bytes = length.to_be_bytes();
            let digits: Vec<u8> = bytes.into_iter().skip_while(|byte| *byte == 0).collect();
            out.push(0x80 | u8::try_from(digits.len()).unwrap_or(8));
            out.extend(digits);
        }
    }
    out.extend(content);
    out
}

/// A `SEQUENCE` of elements.
pub fn sequence(elements: &[&[u8]]) -> Vec<u8> {
    element(SEQUENCE, &elements.concat())
}

/// A `BIT STRING` of whole bytes.
pub fn bit_string(bytes: &[u8]) -> Vec<u8> {
    element(BIT_STRING, &[&[0], bytes].concat())
}

/// An `OBJECT IDENTIFIER` whose content is already encoded.
pub fn object_id(encoded: &[u8]) -> Vec<u8> {
    element(OBJECT_ID, encoded)
}

/// Why an encoding cannot be read: Go's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed(&'static str);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl From<Malformed> for String {
    fn from(malformed: Malformed) -> Self {
        malformed.0.to_owned()
    }
}

const TRUNCATED: Malformed = Malformed("asn1: syntax error: truncated tag or length");

/// One element of an encoding.
#[derive(Debug, Clone, Copy)]
pub struct Element<'d> {
    /// Its tag, of one byte.
    pub tag: u8,
    /// Its content.
    pub content: &'d [u8],
    /// The element with its tag and length.
    pub whole: &'d [u8],
}

impl<'d> Element<'d> {
    /// Reads the elements that it consists of.
    pub fn reader(self) -> Reader<'d> {
        Reader(self.content)
    }
}

/// Reads elements one after the other: the bytes that are left. A read that fails reads nothing.
#[derive(Debug, Clone, Copy)]
pub struct Reader<'d>(pub &'d [u8]);

impl<'d> Reader<'d> {
    /// Whether no bytes are left.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next element, of any tag.
    ///
    /// # Errors
    ///
    /// The bytes end within the element, or its tag or length takes more bytes than any here.
    pub fn any(&mut self) -> Result<Element<'d>, Malformed> {
        let all = self.0;
        let [tag, first, rest @ ..] = all else { return Err(TRUNCATED) };
        if tag & 0x1f == 0x1f {
            return Err(TRUNCATED);
        }
        let (length, rest) = if *first < 0x80 {
            (usize::from(*first), rest)
        } else {
            let count = usize::from(*first & 0x7F);
            let (digits, rest) = rest.split_at_checked(count).ok_or(TRUNCATED)?;
            if !(1..=4).contains(&count) {
                return Err(Malformed("asn1: structure error: length too large"));
            }
            (digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit)), rest)
        };
        let (content, after) =
            rest.split_at_checked(length).ok_or(Malformed("asn1: syntax error: data truncated"))?;
        self.0 = after;
        let whole = all.get(..all.len() - after.len()).unwrap_or_default();
        Ok(Element { tag: *tag, content, whole })
    }

    /// The next element, which must have this tag.
    ///
    /// # Errors
    ///
    /// It cannot be read, or has another tag.
    pub fn expect(&mut self, tag: u8) -> Result<Element<'d>, Malformed> {
        let mut ahead = *self;
        let element = ahead.any()?;
        if element.tag != tag {
            return Err(Malformed("asn1: structure error: tags don't match"));
        }
        *self = ahead;
        Ok(element)
    }

    /// The next element if it has this tag.
    ///
    /// # Errors
    ///
    /// It has this tag and cannot be read.
    pub fn optional(&mut self, tag: u8) -> Result<Option<Element<'d>>, Malformed> {
        if self.0.first() == Some(&tag) { self.expect(tag).map(Some) } else { Ok(None) }
    }

    /// The elements of the next one, a `SEQUENCE`.
    ///
    /// # Errors
    ///
    /// It is none.
    pub fn sequence(&mut self) -> Result<Self, Malformed> {
        self.expect(SEQUENCE).map(Element::reader)
    }

    /// The bytes of an `INTEGER`, the most significant first, in two's complement.
    ///
    /// # Errors
    ///
    /// It is none, or empty.
    pub fn integer(&mut self) -> Result<&'d [u8], Malformed> {
        match self.expect(INTEGER)?.content {
            [] => Err(Malformed("asn1: structure error: empty integer")),
            bytes => Ok(bytes),
        }
    }

    /// The bytes of an `INTEGER` that is not negative, the most significant first.
    ///
    /// # Errors
    ///
    /// It is none, empty or negative.
    pub fn unsigned(&mut self) -> Result<&'d [u8], Malformed> {
        match self.integer()? {
            [first, ..] if *first >= 0x80 => {
                Err(Malformed("asn1: structure error: negative integer"))
            }
            bytes => Ok(bytes),
        }
    }

    /// A `BOOLEAN`.
    ///
    /// # Errors
    ///
    /// It is none.
    pub fn boolean(&mut self) -> Result<bool, Malformed> {
        match self.expect(BOOLEAN)?.content {
            [0] => Ok(false),
            [0xff] => Ok(true),
            _ => Err(Malformed("asn1: syntax error: invalid boolean")),
        }
    }

    /// The bytes of a `BIT STRING` of whole bytes.
    ///
    /// # Errors
    ///
    /// It is none.
    pub fn bit_string(&mut self) -> Result<&'d [u8], Malformed> {
        match self.expect(BIT_STRING)?.content {
            [0, bytes @ ..] => Ok(bytes),
            _ => Err(Malformed("asn1: syntax error: invalid padding bits in BIT STRING")),
        }
    }

    /// The bytes of an `OCTET STRING`.
    ///
    /// # Errors
    ///
    /// It is none.
    pub fn octets(&mut self) -> Result<&'d [u8], Malformed> {
        self.expect(OCTET_STRING).map(|element| element.content)
    }

    /// The content of an `OBJECT IDENTIFIER`, encoded.
    ///
    /// # Errors
    ///
    /// It is none.
    pub fn object_id(&mut self) -> Result<&'d [u8], Malformed> {
        self.expect(OBJECT_ID).map(|element| element.content)
    }
}
