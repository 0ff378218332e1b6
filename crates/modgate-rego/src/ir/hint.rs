//! Where objects have a member.

use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use modgate_value::{Object, Str, Value};

/// Where objects have the members of one name, mostly: a guess that is looked at first.
#[derive(Debug)]
pub(crate) struct Hint(AtomicU8);

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
    /// The member of that name. The first place where there is one is remembered, and no other, so that
    /// threads do not write in turn.
    #[inline]
    pub(crate) fn member<'v>(&self, object: &'v Object, name: &Str) -> Option<&'v Value> {
        let near = self.0.load(Relaxed);
        let (at, value) = object.get_name_near(name, near.into())?;
        if near == NOWHERE {
            self.0.store(u8::try_from(at).unwrap_or(NOWHERE), Relaxed);
        }
        Some(value)
    }
}
