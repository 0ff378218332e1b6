//! Plain readings of what globs and patterns mean, to hold the engine to where OPA errs.

use modgate_value::regex::GoRegex;

/// Whether a glob matches, by trying everything; `None` where it is not a glob.
pub(super) fn glob(pattern: &str, delimiters: &str, text: &str) -> Option<bool> {
    let pattern: Vec<char> = pattern.chars().collect();
    let text: Vec<char> = text.chars().collect();
    let ends = ends(&pattern, delimiters, &text, &[0])?;
    Some(ends.contains(&text.len()))
}

/// Where in the text a match that began at one of `starts` may end.
fn ends(pattern: &[char], delimiters: &str, text: &[char], starts: &[usize]) -> Option<Vec<usize>> {
    let (Some(first), rest) = (pattern.first(), pattern.get(1..).unwrap_or_default()) else {
        return Some(starts.to_vec());
    };
    let run = |free: &dyn Fn(char) -> bool| -> Vec<usize> {
        let mut found = Vec::new();
        for start in starts {
            let length = text.iter().skip(*start).take_while(|c| free(**c)).count();
            found.extend(*start..=*start + length);
        }
        found.sort_unstable();
        found.dedup();
        found
    };
    let one = |fits: &dyn Fn(char) -> bool| -> Vec<usize> {
        let fitting = starts.iter().filter(|start| text.get(**start).is_some_and(|c| fits(*c)));
        fitting.map(|start| start + 1).collect()
    };
    let (next, rest) = match (first, rest.first()) {
        ('*', Some('*')) => (run(&|_| true), rest.get(1..).unwrap_or_default()),
        ('*', _) => (run(&|c| !delimiters.contains(c)), rest),
        ('?', _) => (one(&|c| !delimiters.contains(c)), rest),
        ('\\', Some(c)) => (one(&|other| other == *c), rest.get(1..).unwrap_or_default()),
        ('[', _) => {
            let end = rest.iter().position(|c| *c == ']')?;
            let (not, list) = match rest.get(..end)? {
                ['!', list @ ..] => (true, list),
                list => (false, list),
            };
            let within = |c: char| match list {
                [low, '-', high] => (*low..=*high).contains(&c),
                _ => list.contains(&c),
            };
            (one(&|c| within(c) != not), rest.get(end + 1..).unwrap_or_default())
        }
        ('{', _) => {
            let end = rest.iter().position(|c| *c == '}')?;
            let mut found = Vec::new();
            for choice in rest.get(..end)?.split(|c| *c == ',') {
                found.extend(ends(choice, delimiters, text, starts)?);
            }
            found.sort_unstable();
            found.dedup();
            (found, rest.get(end + 1..).unwrap_or_default())
        }
        (c, _) => (one(&|other| other == *c), rest),
    };
    ends(rest, delimiters, text, &next)
}

/// `true` if a short text matches both patterns; nothing is said where none is found.
pub(super) fn have_in_common(a: &str, b: &str) -> Option<String> {
    // Only what means the same in both notations: `^` is a character like any other to the library.
    let same = |pattern: &str| !pattern.contains(['?', '|', '\\', '(', ')', '{', '$']);
    let whole = |pattern: &str| {
        let regex = GoRegex::new(&format!("^(?s:{})$", pattern.replace("[^", r"[\^")));
        regex.ok().filter(|_| same(pattern))
    };
    let (first, second) = (whole(a)?, whole(b)?);
    let letters: Vec<char> = ['a', 'b', 'c', 'd', 'x', '0', '.'].to_vec();
    let mut texts = vec![String::new()];
    for _ in 0..4 {
        let longer: Vec<String> = texts
            .iter()
            .flat_map(|text| letters.iter().map(move |c| format!("{text}{c}")))
            .collect();
        // The library looks for a text that is not empty.
        if longer.iter().any(|text| first.is_match(text) && second.is_match(text)) {
            return Some("true".to_owned());
        }
        texts = longer;
    }
    None
}
