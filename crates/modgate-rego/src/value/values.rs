//! Lists of values while they are put together.

use super::Value;

/// A list that needs no memory of its own while it is short.
pub(crate) struct Values<'a> {
    few: [Value<'a>; FEW],
    /// How many of them there are.
    count: usize,
    /// All, if there are more.
    many: Vec<Value<'a>>,
}

/// How many values are a short list.
const FEW: usize = 4;

impl<'a> Values<'a> {
    /// An empty list.
    pub(crate) const fn new() -> Self {
        Self { few: [Value::NULL; FEW], count: 0, many: Vec::new() }
    }

    #[inline]
    pub(crate) fn push(&mut self, value: Value<'a>) {
        match self.few.get_mut(self.count) {
            Some(place) => {
                *place = value;
                self.count += 1;
            }
            None => self.push_far(value),
        }
    }

    #[inline(never)]
    fn push_far(&mut self, value: Value<'a>) {
        if self.many.is_empty() {
            self.many.reserve(4 * FEW);
            self.many.extend_from_slice(&self.few);
        }
        self.many.push(value);
    }

    /// The values in their order.
    #[inline]
    pub(crate) fn as_mut_slice(&mut self) -> &mut [Value<'a>] {
        match self.many.as_mut_slice() {
            [] => self.few.get_mut(..self.count).unwrap_or_default(),
            many => many,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_and_long_lists_keep_all_values() {
        for length in [0, 1, 4, 5, 6, 100] {
            let mut values = Values::new();
            (0..length).for_each(|number| values.push(Value::int(number)));
            let numbers = values.as_mut_slice().iter().map(|value| value.as_number()?.as_int());
            assert!(numbers.eq((0..length).map(Some)), "{length}");
        }
    }
}
