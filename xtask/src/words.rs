//! Comments that begin with a question word, or name an unknown person: a noun and its actor read faster.

/// Words that a paragraph of a doc comment does not begin with: `The cost of an evaluation` is shorter than
/// `What an evaluation costs`.
const BEGINNINGS: [&str; 4] = ["What", "Who", "Whom", "Whose"];

/// Words for persons whom the sentence does not name.
const PERSONS: [&str; 4] = ["whoever", "Whoever", "nobody", "Nobody"];

/// The heading of a crate's limits.
const HEADING: &str = "What this crate deliberately";

/// The lines of a source file whose comments have such a word, and the word.
pub(crate) fn odd(text: &str) -> Vec<(usize, &'static str)> {
    let mut found = Vec::new();
    let mut begins = true;
    for (index, line) in text.lines().enumerate() {
        let line = line.trim_start();
        let doc = ["///", "//!"].iter().find_map(|mark| line.strip_prefix(mark));
        let comment = doc.or_else(|| line.strip_prefix("//")).unwrap_or_default().trim();
        let mut words = comment.split(|it: char| !it.is_alphanumeric());
        let first = words.clone().next().unwrap_or_default();
        if doc.is_some() && begins && !comment.starts_with(HEADING) {
            found.extend(BEGINNINGS.iter().find(|it| **it == first).map(|it| (index + 1, *it)));
        }
        let person = words.find_map(|word| PERSONS.iter().find(|it| **it == word));
        found.extend(person.map(|it| (index + 1, *it)));
        begins = doc.is_none_or(|it| it.trim().is_empty());
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beginnings_and_persons() {
        // So that this check does not find them here.
        let text = "\
#/ What it costs.
#/
#/ Who pays.
#/ What follows in a paragraph is no beginning.
fn a() {}
# What a plain comment begins with.
# Nobody reads it.
#! What this crate deliberately does not do: read.
let text = \"nobody\";
"
        .replace('#', "//");
        assert_eq!(odd(&text), [(1, "What"), (3, "Who"), (7, "Nobody")]);
    }
}
