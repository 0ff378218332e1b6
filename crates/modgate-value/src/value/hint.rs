//! Where something is, mostly.

use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use super::{Object, Value};
use crate::Str;

/// Where something was found first, which is where it is the next time, too, mostly: a guess that is looked at first.
///
/// It is written once, so that threads that share it do not write in turn.
#[derive(Debug)]
pub struct Hint(AtomicU8);

/// No place.
const NOWHERE: u8 = u8::MAX;

impl Default for Hint {
    fn default() -> Self {
        Self(AtomicU8::new(NOWHERE))
    }
}

impl Clone for Hint {
    fn clone(&self) -> Self {
        Self(AtomicU8::new(self.0.load(Relaxed)))
    }
}

impl Hint {
    /// The place; a number beyond most lists until there is one.
    #[inline]
    pub fn place(&self) -> usize {
        self.0.load(Relaxed).into()
    }

    /// Notes a place, unless there is one.
    #[inline]
    pub fn found(&self, place: usize) {
        if self.0.load(Relaxed) == NOWHERE {
            self.0.store(u8::try_from(place).unwrap_or(NOWHERE), Relaxed);
        }
    }

    /// The member of that name. Its place in the first object that has one is the hint.
    #[inline]
    pub fn member<'v>(&self, object: &'v Object, name: &Str) -> Option<&'v Value> {
        let near = self.place();
        let (at, value) = object.get_name_near(name, near)?;
        if at != near {
            self.found(at);
        }
        Some(value)
    }
}
