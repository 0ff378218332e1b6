//! Where the parts of a document stand, in few bytes: thousands of policies keep their positions.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use super::{Place, Places, Position, Spot};
use crate::{Str, pointer};

/// Where the parts of a [`Document`](super::Document) stand in its text, addressed by JSON pointers.
///
/// A part that an alias or a merge key brought in has the position where it was first written.
#[derive(Debug, Clone)]
pub struct Positions {
    root: Part,
    /// The members and elements of all parts: each container a block, behind the blocks of what is in it. None if no
    /// part has a position of its own.
    blocks: Option<Arc<[u8]>>,
}

/// A part of the document.
#[derive(Debug, Clone, Copy)]
struct Part {
    key: Option<Spot>,
    value: Spot,
    /// Whether a merge key (`<<`) brought it in.
    merged: bool,
    /// Where the block of its parts begins, if it has parts.
    block: Option<u32>,
}

const HAS_KEY: u8 = 1;
const MERGED: u8 = 2;
const HAS_BLOCK: u8 = 4;

impl Positions {
    /// Of a document that begins at a place.
    pub(super) fn new(value: Spot, places: &Places) -> Self {
        let mut writer = Writer::default();
        let block = writer.block(places);
        let blocks = (!writer.bytes.is_empty()).then(|| writer.bytes.into());
        Self { root: Part { key: None, value, merged: false, block }, blocks }
    }

    /// Of a document whose parts have no places of their own; line and column from 0.
    pub(super) fn at(line: usize, column: usize, offset: usize) -> Self {
        let narrow = |wide: usize| u32::try_from(wide).unwrap_or(u32::MAX);
        let (line, column) = (narrow(line + 1), narrow(column + 1));
        Self::new(Spot { line, column, offset: narrow(offset) }, &Places::None)
    }

    /// Where the value at `pointer` (RFC 6901) starts; the empty pointer is the document itself.
    pub fn value(&self, pointer: &str) -> Option<Position> {
        let (part, exact) = self.find(pointer);
        exact.then(|| part.value.into())
    }

    /// Where the key of the member at `pointer` starts; `None` for list elements.
    pub fn key(&self, pointer: &str) -> Option<Position> {
        let (part, exact) = self.find(pointer);
        exact.then_some(part.key).flatten().map(Into::into)
    }

    /// Where the value at the longest existing prefix of `pointer` starts.
    pub fn nearest(&self, pointer: &str) -> Position {
        self.find(pointer).0.value.into()
    }

    /// Where the key of the innermost member on the way to `pointer` stands that exists; where the
    /// value of a list element starts, which has no key.
    pub fn nearest_key(&self, pointer: &str) -> Position {
        let part = self.find(pointer).0;
        part.key.unwrap_or(part.value).into()
    }

    /// The members that their object has more than once: the name, where it stands first, and where
    /// it stands last, which is the one that counts.
    pub fn repeated(&self) -> Vec<(Str, Position, Position)> {
        let mut found = Vec::new();
        let mut open: Vec<u32> = self.root.block.into_iter().collect();
        let mut seen = BTreeSet::new();
        while let Some(block) = open.pop() {
            if !seen.insert(block) {
                continue;
            }
            let mut own: BTreeMap<&str, (Spot, Spot)> = BTreeMap::new();
            for (name, part) in self.parts(block) {
                open.extend(part.block);
                if let (Some(name), Some(key), false) = (name, part.key, part.merged) {
                    own.entry(name).or_insert((key, key)).1 = key;
                }
            }
            let repeated = own.into_iter().filter(|(_, (first, last))| first.offset != last.offset);
            found.extend(repeated.map(|(name, (first, last))| {
                (Str::from(name), Position::from(first), Position::from(last))
            }));
        }
        found.sort_by_key(|(_, _, last)| last.offset);
        found.dedup_by_key(|(_, _, last)| last.offset);
        found
    }

    /// The positions of the value at `pointer`, addressed from there; `None` if there is none.
    /// Costs a reference count.
    pub fn below(&self, pointer: &str) -> Option<Self> {
        let (part, exact) = self.find(pointer);
        exact.then(|| Self { root: part, blocks: self.blocks.clone() })
    }

    /// The position of the document as a whole. Its parts have none then, and all of them take many times as
    /// much memory.
    #[must_use]
    pub fn of_whole(&self) -> Self {
        Self { root: Part { block: None, ..self.root }, blocks: None }
    }

    /// Whether no part has a position of its own.
    pub fn is_of_whole(&self) -> bool {
        self.root.block.is_none()
    }

    /// The part at `pointer`, or the last one on the way to it.
    fn find(&self, pointer: &str) -> (Part, bool) {
        let Some(segments) = pointer.strip_prefix('/') else {
            return (self.root, pointer.is_empty());
        };
        let mut part = self.root;
        for segment in segments.split('/') {
            match part.block.and_then(|block| self.child(block, segment)) {
                Some(child) => part = child,
                None => return (part, false),
            }
        }
        (part, true)
    }

    fn child(&self, block: u32, segment: &str) -> Option<Part> {
        let parts = self.parts(block);
        if !parts.named {
            return parts.map(|(_, part)| part).nth(segment.parse().ok()?);
        }
        let key = pointer::unescape(segment);
        // The last of equal keys counts.
        let found = parts.filter(|(name, _)| *name == Some(&*key)).last();
        found.map(|(_, part)| part)
    }

    fn parts(&self, block: u32) -> Parts<'_> {
        let all = self.blocks.as_deref().unwrap_or_default();
        let bytes = all.get(block as usize..).unwrap_or_default();
        let mut reader = Reader(bytes);
        let header = reader.number().unwrap_or_default();
        let base = reader.spot(Spot::default()).unwrap_or_default();
        Parts { reader, named: header & 1 == 1, left: header >> 1, base }
    }
}

/// The parts of a container, with the names of members.
struct Parts<'p> {
    reader: Reader<'p>,
    named: bool,
    left: u32,
    /// The spot before, which positions are counted from.
    base: Spot,
}

impl<'p> Parts<'p> {
    fn read(&mut self) -> Option<(Option<&'p str>, Part)> {
        let flags = self.reader.byte()?;
        let name = match self.named {
            true => Some(self.reader.text()?),
            false => None,
        };
        let mut key = None;
        if flags & HAS_KEY != 0 {
            self.base = self.reader.spot(self.base)?;
            key = Some(self.base);
        }
        self.base = self.reader.spot(self.base)?;
        let block = match flags & HAS_BLOCK != 0 {
            true => Some(self.reader.number()?),
            false => None,
        };
        Some((name, Part { key, value: self.base, merged: flags & MERGED != 0, block }))
    }
}

impl<'p> Iterator for Parts<'p> {
    type Item = (Option<&'p str>, Part);

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        self.read()
    }
}

/// Bytes that a [`Writer`] wrote.
struct Reader<'p>(&'p [u8]);

impl<'p> Reader<'p> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn number(&mut self) -> Option<u32> {
        let mut number = 0;
        for shift in (0..u32::BITS).step_by(7) {
            let byte = self.byte()?;
            number |= u32::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                break;
            }
        }
        Some(number)
    }

    fn text(&mut self) -> Option<&'p str> {
        let length = self.number()? as usize;
        let (text, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        std::str::from_utf8(text).ok()
    }

    fn difference(&mut self, from: u32) -> Option<u32> {
        let folded = self.number()?;
        let difference = (folded >> 1) ^ (folded & 1).wrapping_neg();
        Some(from.wrapping_add(difference))
    }

    fn spot(&mut self, from: Spot) -> Option<Spot> {
        Some(Spot {
            line: self.difference(from.line)?,
            column: self.difference(from.column)?,
            offset: self.difference(from.offset)?,
        })
    }
}

/// Writes blocks, those of the parts before those of the whole.
#[derive(Default)]
struct Writer {
    bytes: Vec<u8>,
    /// The blocks of containers that were written, by address: aliases repeat them.
    known: HashMap<usize, u32>,
}

impl Writer {
    /// Where the block of these places begins; `None` if there are none. Nests as deep as a document does.
    fn block(&mut self, places: &Places) -> Option<u32> {
        let address = match places {
            Places::None => return None,
            Places::List(places) => places.as_ptr().addr(),
            Places::Map(members) => members.as_ptr().addr(),
        };
        if let Some(known) = self.known.get(&address) {
            return Some(*known);
        }
        let parts: Vec<(Option<&Str>, &Place)> = match places {
            Places::None => Vec::new(),
            Places::List(places) => places.iter().map(|place| (None, place)).collect(),
            Places::Map(members) => {
                members.iter().map(|(name, place)| (Some(name), place)).collect()
            }
        };
        let blocks: Vec<Option<u32>> =
            parts.iter().map(|(_, place)| self.block(&place.places)).collect();
        // A text that is too long loses the places of its last parts.
        let start = u32::try_from(self.bytes.len()).ok()?;
        let count = u32::try_from(parts.len()).ok().filter(|count| *count < 1 << 31)?;
        self.number(count << 1 | u32::from(matches!(places, Places::Map(_))));
        let mut base = parts.first().map_or_else(Spot::default, |(_, place)| place.value);
        self.spot(Spot::default(), base);
        for ((name, place), block) in parts.into_iter().zip(blocks) {
            let flag = |is_so: bool, flag: u8| if is_so { flag } else { 0 };
            self.bytes.push(
                flag(place.key.is_some(), HAS_KEY)
                    | flag(place.merged, MERGED)
                    | flag(block.is_some(), HAS_BLOCK),
            );
            if let Some(name) = name {
                self.number(u32::try_from(name.len()).unwrap_or(u32::MAX));
                self.bytes.extend_from_slice(name.as_bytes());
            }
            if let Some(key) = place.key {
                self.spot(base, key);
                base = key;
            }
            self.spot(base, place.value);
            base = place.value;
            if let Some(block) = block {
                self.number(block);
            }
        }
        self.known.insert(address, start);
        Some(start)
    }

    fn number(&mut self, mut number: u32) {
        while let Some(low) = u8::try_from(number & 0x7f).ok().filter(|_| number >= 0x80) {
            self.bytes.push(low | 0x80);
            number >>= 7;
        }
        self.bytes.push(u8::try_from(number).unwrap_or_default());
    }

    fn difference(&mut self, from: u32, to: u32) {
        let difference = to.wrapping_sub(from);
        // Small numbers of either sign become small numbers.
        let sign = if difference >> 31 == 1 { u32::MAX } else { 0 };
        self.number((difference << 1) ^ sign);
    }

    fn spot(&mut self, from: Spot, to: Spot) {
        self.difference(from.line, to.line);
        self.difference(from.column, to.column);
        self.difference(from.offset, to.offset);
    }
}
