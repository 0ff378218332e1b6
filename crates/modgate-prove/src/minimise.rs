//! Making an object smaller while it still shows something.

use modgate_value::Value;

use crate::value::{self, Step};

/// Decisions that one object may cost.
pub const MAX_TRIES: usize = 400;

/// Members that every object needs to be one.
const KEPT: [&[&str]; 4] = [&["apiVersion"], &["kind"], &["metadata"], &["metadata", "name"]];

/// The object without what `holds` does not need: members and elements are left out as long as it still
/// holds, the largest first. An object that `holds` is not true of is returned as it is.
pub fn minimised(object: &Value, holds: impl FnMut(&Value) -> bool) -> Value {
    minimised_within(object, MAX_TRIES, holds)
}

/// The same with at most so many decisions.
pub fn minimised_within(
    object: &Value,
    most: usize,
    mut holds: impl FnMut(&Value) -> bool,
) -> Value {
    let mut smallest = object.clone();
    let mut tries = 0;
    loop {
        let mut paths = value::paths(&smallest);
        paths.retain(|path| !is_kept(path));
        // From the end of lists, so that the indices of other paths stay right.
        paths.reverse();
        paths.sort_by_key(Vec::len);
        let mut changed = false;
        for path in paths {
            if value::at(&smallest, &path).is_none() {
                continue;
            }
            if tries == most {
                return smallest;
            }
            tries += 1;
            let smaller = value::removed(&smallest, &path);
            if holds(&smaller) {
                smallest = smaller;
                changed = true;
            }
        }
        if !changed {
            return smallest;
        }
    }
}

fn is_kept(path: &[Step]) -> bool {
    KEPT.iter().any(|kept| {
        kept.len() == path.len()
            && kept.iter().zip(path).all(|(key, step)| matches!(step, Step::Key(is) if is == key))
    })
}
