//! Memory for evaluations.

use super::{document::Calls, share::NotedRead, with::Overlay};
use crate::value::{Heap, Value};

/// Memory that evaluations use one after the other.
#[derive(Default)]
pub(super) struct Room<'a> {
    pub(super) slots: &'a mut [Value<'a>],
    /// The first one, which changes nothing.
    pub(super) overlay: Box<Overlay<'a>>,
    pub(super) places: &'a mut [Option<Option<Value<'a>>>],
    pub(super) reads: Vec<NotedRead<'a>>,
    pub(super) spare_calls: Vec<Calls<'a>>,
    pub(super) text: String,
}

/// The first `length` places of `room`, or of larger memory, each of them `value`.
pub(super) fn cleared<'a, T: Copy>(
    heap: Heap<'a>,
    room: &'a mut [T],
    length: usize,
    value: T,
) -> &'a mut [T] {
    match room.get_mut(..length) {
        Some(places) => {
            places.fill(value);
            room
        }
        None => heap.kept_room(length, value),
    }
}
