//! Near names: what an author meant who wrote a name that does not exist.
//!
//! Every message that offers a name takes it from here, so that all of them agree on what is near.

use crate::odd;

/// Longer names are compared with nothing.
const MAX_NAME: usize = 128;

/// The most letters that may differ.
const MAX_DISTANCE: usize = 2;

/// The known name that is nearest to `name`, if one is near: letters of the other case do not count,
/// and one letter in three may be missing, in excess, another one, or swapped with the next, at most
/// two.
///
/// ```
/// use modgate_value::near::nearest;
///
/// assert_eq!(nearest("paramters", ["parameters", "review"]), Some("parameters"));
/// assert_eq!(nearest("modrule", ["ModRule"]), Some("ModRule"));
/// assert_eq!(nearest("labels", ["kinds", "scope"]), None);
/// ```
pub fn nearest<'n>(name: &str, known: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    // Letters that are not seen are no part of what the author meant.
    let lower = odd::seen(name).to_lowercase();
    let limit = (lower.chars().count() / 3).clamp(1, MAX_DISTANCE);
    let near = known.into_iter().filter(|candidate| *candidate != name).filter_map(|candidate| {
        let distance = distance(&lower, &candidate.to_lowercase(), limit);
        let is_near = distance <= limit && distance < lower.len();
        is_near.then_some((distance, candidate))
    });
    near.min().map(|(_, candidate)| candidate)
}

/// The advice of a message about a name that does not exist.
///
/// ```
/// let help = modgate_value::near::did_you_mean("Pach", ["Patch", "Reject"]);
/// assert_eq!(help.as_deref(), Some("did you mean `Patch`?"));
/// ```
pub fn did_you_mean<'n>(name: &str, known: impl IntoIterator<Item = &'n str>) -> Option<String> {
    nearest(name, known).map(|near| match odd::first_unseen(name) {
        Some((_, letter, what)) => {
            format!("did you mean `{near}`? the name has {what} (U+{:04X})", u32::from(letter))
        }
        None => format!("did you mean `{near}`?"),
    })
}

/// As [`did_you_mean`]; where no name is near, all of them.
pub fn did_you_mean_or(name: &str, known: &[&str], otherwise: &str) -> String {
    did_you_mean(name, known.iter().copied())
        .unwrap_or_else(|| format!("{otherwise}: {}", known.join(", ")))
}

/// Whether a name differs from a known one by no more than one letter, or by two that are swapped. A plural is another
/// name.
///
/// ```
/// use modgate_value::near::is_slip;
///
/// assert!(is_slip("contaners", "containers"));
/// assert!(!is_slip("container", "containers"));
/// ```
pub fn is_slip(name: &str, known: &str) -> bool {
    let (name, known) = (name.to_lowercase(), known.to_lowercase());
    let stem = |name: &str| name.trim_end_matches('s').to_owned();
    name == known || (distance(&name, &known, 1) <= 1 && stem(&name) != stem(&known))
}

/// How many letters have to be added, dropped, changed or swapped with the next one to make one
/// name of the other; more than `limit` when it is more.
fn distance(left: &str, right: &str, limit: usize) -> usize {
    if left.len().abs_diff(right.len()) > limit || left.len() > MAX_NAME {
        return limit + 1;
    }
    let right = right.as_bytes();
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=right.len()).collect();
    let mut previous = 0;
    for (index, a) in left.bytes().enumerate() {
        let mut row = vec![index + 1];
        for (at, b) in right.iter().copied().enumerate() {
            let cell = |row: &[usize], at: usize| row.get(at).copied().unwrap_or(usize::MAX / 2);
            let mut best = (cell(&last, at) + usize::from(a != b))
                .min(cell(&last, at + 1) + 1)
                .min(cell(&row, at) + 1);
            let before = at.checked_sub(1).and_then(|at| right.get(at)).copied();
            if index > 0 && before == Some(a) && previous == b {
                best = best.min(cell(&before_last, at - 1) + 1);
            }
            row.push(best);
        }
        before_last = std::mem::replace(&mut last, row);
        previous = a;
    }
    last.last().copied().unwrap_or(limit + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_near() {
        let known = ["count", "concat", "object.get", "startswith", "ModRule", "add"];
        for (name, expected) in [
            ("cuont", Some("count")),
            ("conut", Some("count")),
            ("object.gett", Some("object.get")),
            ("starts_with", Some("startswith")),
            ("modrule", Some("ModRule")),
            ("ModRul", Some("ModRule")),
            ("ad", Some("add")),
            ("sprintf", None),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(nearest(name, known), expected, "{name}");
        }
        assert_eq!(nearest(&"x".repeat(10_000), known), None);
        assert_eq!(nearest("match\u{200b}", ["match"]), Some("match"));
        assert_eq!(
            did_you_mean("\u{a0}\u{a0}match", ["match"]).as_deref(),
            Some("did you mean `match`? the name has a no-break space (U+00A0)")
        );
        assert_eq!(did_you_mean_or("zzz", &["a", "b"], "known"), "known: a, b");
    }

    #[test]
    fn swapped_letters_are_one_change() {
        for (left, right, expected) in
            [("ab", "ba", 1), ("abc", "abc", 0), ("abc", "xyz", 3), ("", "ab", 2)]
        {
            assert_eq!(distance(left, right, 3), expected, "{left} {right}");
        }
    }
}
