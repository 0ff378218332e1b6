//! Distinguished Encoding Rules (ITU-T X.690), reading only.

use num_bigint::BigInt;

pub(super) const BOOLEAN: u8 = 0x01;
pub(super) const INTEGER: u8 = 0x02;
pub(super) const BIT_STRING: u8 = 0x03;
pub(super) const OCTET_STRING: u8 = 0x04;
pub(super) const OID: u8 = 0x06;
pub(super) const SEQUENCE: u8 = 0x30;
pub(super) const SET: u8 = 0x31;

/// A tag of the element's own context, such as `[0]`.
pub(super) const fn context(number: u8, constructed: bool) -> u8 {
    0x80 | number | if constructed { 0x20 } else { 0 }
}

/// One element.
#[derive(Debug, Clone, Copy)]
pub(super) struct Element<'d> {
    pub(super) tag: u8,
    pub(super) content: &'d [u8],
    /// With its tag and length.
    pub(super) whole: &'d [u8],
}

impl<'d> Element<'d> {
    /// What is inside.
    pub(super) fn reader(self) -> Reader<'d> {
        Reader(self.content)
    }
}

/// What of some DER is still to be read. Reading gives `None` for whatever is not as expected.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reader<'d>(pub(super) &'d [u8]);

impl<'d> Reader<'d> {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next element, whatever it is.
    pub(super) fn next(&mut self) -> Option<Element<'d>> {
        let (tag, rest) = self.0.split_first()?;
        let (length, rest) = rest.split_first()?;
        let (length, rest) = match length {
            0..=0x7f => (usize::from(*length), rest),
            0x81..=0x84 => {
                let (bytes, rest) = rest.split_at_checked(usize::from(length & 0x7f))?;
                (bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)), rest)
            }
            _ => return None,
        };
        // Tags above 30 take more than a byte; nothing here has one.
        let (content, after) = rest.split_at_checked(length).filter(|_| tag & 0x1f != 0x1f)?;
        let whole = self.0.get(..self.0.len() - after.len())?;
        self.0 = after;
        Some(Element { tag: *tag, content, whole })
    }

    /// The next element, which has this tag.
    pub(super) fn expect(&mut self, tag: u8) -> Option<Element<'d>> {
        let mut ahead = *self;
        let element = ahead.next().filter(|element| element.tag == tag)?;
        *self = ahead;
        Some(element)
    }

    /// The next element if it has this tag, `Some(None)` if it has another or there is none.
    pub(super) fn optional(&mut self, tag: u8) -> Option<Option<Element<'d>>> {
        if self.0.first() == Some(&tag) { self.expect(tag).map(Some) } else { Some(None) }
    }

    /// The inside of the next element, a sequence.
    pub(super) fn sequence(&mut self) -> Option<Reader<'d>> {
        self.expect(SEQUENCE).map(Element::reader)
    }

    pub(super) fn integer(&mut self) -> Option<BigInt> {
        let content = self.expect(INTEGER)?.content;
        (!content.is_empty()).then(|| BigInt::from_signed_bytes_be(content))
    }

    pub(super) fn boolean(&mut self) -> Option<bool> {
        match self.expect(BOOLEAN)?.content {
            [0] => Some(false),
            [0xff] => Some(true),
            _ => None,
        }
    }

    /// Whole bytes of a bit string.
    pub(super) fn bit_string(&mut self) -> Option<&'d [u8]> {
        match self.expect(BIT_STRING)?.content.split_first()? {
            (0, bytes) => Some(bytes),
            _ => None,
        }
    }

    pub(super) fn octets(&mut self) -> Option<&'d [u8]> {
        self.expect(OCTET_STRING).map(|element| element.content)
    }

    pub(super) fn oid(&mut self) -> Option<Oid> {
        Oid::read(self.expect(OID)?.content)
    }
}

/// An object identifier.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Oid(pub(super) Vec<u64>);

impl Oid {
    fn read(content: &[u8]) -> Option<Self> {
        let mut arcs = Vec::new();
        let mut arc: u64 = 0;
        for byte in content {
            arc = arc.checked_mul(128)?.checked_add(u64::from(byte & 0x7f))?;
            if byte & 0x80 == 0 {
                if arcs.is_empty() {
                    // The first two arcs share a number.
                    let first = (arc / 40).min(2);
                    arcs.push(first);
                    arc -= first * 40;
                }
                arcs.push(arc);
                arc = 0;
            }
        }
        let complete = content.last().is_some_and(|byte| byte & 0x80 == 0);
        complete.then_some(Self(arcs))
    }

    pub(super) fn is(&self, arcs: &[u64]) -> bool {
        self.0 == arcs
    }
}

impl std::fmt::Display for Oid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let arcs: Vec<String> = self.0.iter().map(u64::to_string).collect();
        f.write_str(&arcs.join("."))
    }
}
