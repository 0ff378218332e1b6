//! Import circles between the top modules of a crate.
//!
//! Read from the source text: an arrow goes from one module at the root of a crate to another that
//! it names by `crate::` or `super::`, through re-exports of the root too. What stands under
//! `#[cfg(test)]` is left out. Modules that reach each other form a circle; the circles there are
//! stand in `xtask/circles.txt` and may only shrink.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};

/// A crate's top modules, and for each the ones it names.
type Arrows = BTreeMap<String, BTreeSet<String>>;

/// Modules of one crate, each of which reaches all others.
pub(super) type Circle = BTreeSet<String>;

/// The circles of the crate whose sources are in `folder`.
pub(super) fn of_crate(folder: &Path) -> Result<Vec<Circle>> {
    let root = ["lib.rs", "main.rs"].map(|name| folder.join(name));
    let root = root.iter().find(|path| path.exists()).context("no lib.rs and no main.rs")?;
    let mut files = Vec::new();
    rust_files(folder, &mut files)?;
    let mut tests = BTreeSet::new();
    for path in &files {
        let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
        let parent = if path == root { folder.to_owned() } else { path.with_extension("") };
        tests.extend(test_modules(&text).map(|name| parent.join(name).with_extension("rs")));
    }
    let sources = files
        .into_iter()
        .filter(|path| path != root && !tests.contains(path))
        .map(|path| {
            let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
            let path = path.strip_prefix(folder).unwrap_or(&path).with_extension("");
            let module = path.iter().map(|part| part.to_string_lossy().into_owned()).collect();
            Ok((module, text))
        })
        .collect::<Result<Vec<(Vec<String>, String)>>>()?;
    Ok(circles(&arrows(&fs::read_to_string(root)?, &sources)))
}

/// The modules in files of their own that are compiled for tests only.
fn test_modules(text: &str) -> impl Iterator<Item = &str> {
    text.split("#[cfg(test)]\nmod ").skip(1).filter_map(|rest| {
        let end = rest.find(|it: char| !it.is_alphanumeric() && it != '_')?;
        let (name, rest) = rest.split_at(end);
        rest.starts_with(';').then_some(name)
    })
}

pub(super) fn rust_files(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.is_dir() {
            rust_files(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files.sort();
    Ok(())
}

/// The arrows between the top modules, from the text of the root and of all modules below it.
fn arrows(root: &str, sources: &[(Vec<String>, String)]) -> Arrows {
    let tops: BTreeSet<String> =
        sources.iter().filter_map(|(path, _)| path.first()).cloned().collect();
    // What the root hands on: a name there to the module it comes from.
    let mut handed_on: BTreeMap<String, String> = BTreeMap::new();
    for path in paths(&tokens(root), &[]) {
        if let [top, .., name] = path.as_slice()
            && tops.contains(top)
        {
            handed_on.insert(name.clone(), top.clone());
        }
    }
    let mut arrows: Arrows = tops.iter().map(|top| (top.clone(), BTreeSet::new())).collect();
    for (module, text) in sources {
        // A file of tests, by the name that `#[cfg(test)] mod tests;` gives it.
        if module.iter().any(|part| part == "tests") {
            continue;
        }
        let Some(found) = module.first().and_then(|top| arrows.get_mut(top)) else { continue };
        for path in paths(&tokens(text), module) {
            let Some(first) = path.first() else { continue };
            let target = if tops.contains(first) { Some(first) } else { handed_on.get(first) };
            if let Some(target) = target
                && Some(target) != module.first()
            {
                found.insert(target.clone());
            }
        }
    }
    arrows
}

/// Modules that reach each other, two or more at a time.
fn circles(arrows: &Arrows) -> Vec<Circle> {
    let reach: BTreeMap<&str, BTreeSet<&str>> =
        arrows.keys().map(|from| (from.as_str(), reachable(arrows, from))).collect();
    let reaches = |from: &str, to: &str| reach.get(from).is_some_and(|reach| reach.contains(to));
    let mut circles: BTreeSet<Circle> = BTreeSet::new();
    for from in arrows.keys() {
        let circle: Circle =
            arrows.keys().filter(|to| reaches(from, to) && reaches(to, from)).cloned().collect();
        if circle.len() > 1 {
            circles.insert(circle);
        }
    }
    circles.into_iter().collect()
}

fn reachable<'a>(arrows: &'a Arrows, from: &str) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    let mut open = vec![from];
    while let Some(module) = open.pop() {
        for next in arrows.get(module).into_iter().flatten() {
            if found.insert(next.as_str()) {
                open.push(next);
            }
        }
    }
    found
}

/// Every path of `tokens` that starts at the root of the crate, without `crate` itself; `module` is
/// where they stand. At the root (`module` empty) a path of a `use` starts there without a word.
fn paths(tokens: &[Token<'_>], module: &[String]) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    // Names of inline modules, each with the depth of braces it ends at.
    let mut inner: Vec<(String, usize)> = Vec::new();
    let mut depth = 0_usize;
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        at += 1;
        match token {
            Token::Mark('#') => at = after_attribute(tokens, at),
            Token::Mark('{') => depth += 1,
            Token::Mark('}') => {
                depth = depth.saturating_sub(1);
                inner.pop_if(|(_, end)| *end == depth);
            }
            Token::Word("mod") => {
                if let (Some(Token::Word(name)), Some(Token::Mark('{'))) =
                    (tokens.get(at), tokens.get(at + 1))
                {
                    inner.push(((*name).to_owned(), depth));
                }
            }
            Token::Word("use") if module.is_empty() && inner.is_empty() => {
                let mut names = Vec::new();
                at = tree(tokens, at, &mut Vec::new(), &mut names);
                found.extend(names);
            }
            Token::Word("crate") if is_path_next(tokens, at) => {
                at = tree(tokens, at + 2, &mut Vec::new(), &mut found);
            }
            Token::Word("super") if is_path_next(tokens, at) => {
                let mut ups = 1;
                while tokens.get(at + 2) == Some(&Token::Word("super")) {
                    ups += 1;
                    at += 3;
                }
                let here = module.len() + inner.len();
                // What is not left below the root stays within its module.
                let after = if is_path_next(tokens, at) { at + 2 } else { at };
                let mut names = Vec::new();
                at = tree(tokens, after, &mut Vec::new(), &mut names);
                if ups == here {
                    found.extend(names);
                }
            }
            _ => {}
        }
    }
    found
}

fn is_path_next(tokens: &[Token<'_>], at: usize) -> bool {
    matches!((tokens.get(at), tokens.get(at + 1)), (Some(Token::Mark(':')), Some(Token::Mark(':'))))
}

/// Behind an attribute, and behind the item it stands at if that is only compiled for tests.
fn after_attribute(tokens: &[Token<'_>], at: usize) -> usize {
    let Some(Token::Mark('[')) = tokens.get(at) else { return at };
    let mut end = at;
    let mut open = 0_usize;
    while let Some(token) = tokens.get(end) {
        end += 1;
        match token {
            Token::Mark('[') => open += 1,
            Token::Mark(']') => open -= 1,
            _ => {}
        }
        if open == 0 {
            break;
        }
    }
    let inside = tokens.get(at..end).unwrap_or_default();
    let only_tests = inside.get(1..).is_some_and(|inside| {
        inside.starts_with(&[
            Token::Word("cfg"),
            Token::Mark('('),
            Token::Word("test"),
            Token::Mark(')'),
        ])
    });
    if !only_tests {
        return end;
    }
    // The item ends at its `;`, or where its braces close.
    let mut depth = 0_usize;
    while let Some(token) = tokens.get(end) {
        end += 1;
        match token {
            Token::Mark('{') => depth += 1,
            Token::Mark('}') if depth <= 1 => break,
            Token::Mark('}') => depth -= 1,
            Token::Mark(';') if depth == 0 => break,
            _ => {}
        }
    }
    end
}

/// Reads `a::b`, `a::{b, c::d}` or `a::*`; every path of it goes to `found`.
fn tree(
    tokens: &[Token<'_>],
    mut at: usize,
    before: &mut Vec<String>,
    found: &mut Vec<Vec<String>>,
) -> usize {
    let length = before.len();
    loop {
        match tokens.get(at) {
            Some(Token::Word(word)) => {
                at += 1;
                if !matches!(*word, "self" | "crate") {
                    before.push((*word).to_owned());
                }
                if is_path_next(tokens, at) {
                    at += 2;
                    continue;
                }
            }
            Some(Token::Mark('{')) => {
                at += 1;
                while let Some(token) = tokens.get(at) {
                    match token {
                        Token::Mark('}') => {
                            at += 1;
                            break;
                        }
                        Token::Word("as") => at += 2,
                        Token::Word(_) | Token::Mark('{') => at = tree(tokens, at, before, found),
                        Token::Mark(_) => at += 1,
                    }
                }
                before.truncate(length);
                return at;
            }
            _ => {}
        }
        break;
    }
    if before.len() > length {
        found.push(before.clone());
    }
    before.truncate(length);
    at
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token<'a> {
    Word(&'a str),
    Mark(char),
}

/// Words and marks of Rust source, without comments, texts, characters and lifetimes.
fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            block_comment(rest)
        } else if let Some(length) = raw_string(rest) {
            length
        } else if first == '"' {
            quoted(rest, '"')
        } else if first == '\'' {
            // A character, or a lifetime: `'a` without an end.
            let escaped = rest.get(1..).is_some_and(|rest| rest.starts_with('\\'));
            let closed = rest.chars().nth(2) == Some('\'');
            if escaped || closed {
                quoted(rest, '\'')
            } else {
                1 + word(rest.get(1..).unwrap_or_default())
            }
        } else if first.is_alphabetic() || first == '_' {
            let length = word(rest);
            tokens.push(Token::Word(rest.get(..length).unwrap_or_default()));
            length
        } else {
            if !first.is_whitespace() {
                tokens.push(Token::Mark(first));
            }
            first.len_utf8()
        };
        rest = rest.get(length.max(1)..).unwrap_or_default();
    }
    tokens
}

fn word(text: &str) -> usize {
    text.find(|letter: char| !letter.is_alphanumeric() && letter != '_').unwrap_or(text.len())
}

fn quoted(text: &str, end: char) -> usize {
    let mut escaped = false;
    for (at, letter) in text.char_indices().skip(1) {
        match letter {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if letter == end => return at + 1,
            _ => {}
        }
    }
    text.len()
}

fn raw_string(text: &str) -> Option<usize> {
    let body = text.strip_prefix("br").or_else(|| text.strip_prefix('r'))?;
    let hashes = body.bytes().take_while(|byte| *byte == b'#').count();
    let inside = body.get(hashes..)?.strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    let length = inside.find(&end).map_or(inside.len(), |at| at + end.len());
    Some(text.len() - inside.len() + length)
}

fn block_comment(text: &str) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        if rest.starts_with("/*") {
            depth += 1;
            at += 2;
        } else if rest.starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                break;
            }
        } else {
            at += rest.chars().next().map_or(1, char::len_utf8);
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_of_tests_in_files_are_found() {
        let text =
            "mod a;\n#[cfg(test)]\nmod b;\n#[cfg(test)]\nmod c {\n}\n#[cfg(test)]\nmod d_e;\n";
        assert_eq!(test_modules(text).collect::<Vec<_>>(), ["b", "d_e"]);
    }

    fn found(root: &str, modules: &[(&str, &str)]) -> Vec<Vec<String>> {
        let sources: Vec<(Vec<String>, String)> = modules
            .iter()
            .map(|(path, text)| (path.split('/').map(str::to_owned).collect(), (*text).to_owned()))
            .collect();
        let circles = circles(&arrows(root, &sources));
        circles.into_iter().map(|circle| circle.into_iter().collect()).collect()
    }

    #[test]
    fn circles_are_found() {
        let ab = vec![vec!["a".to_owned(), "b".to_owned()]];
        for (root, modules, expected) in [
            ("", vec![("a", "use crate::b::X;"), ("b", "")], vec![]),
            ("", vec![("a", "use crate::b::X;"), ("b", "use crate::a;")], ab.clone()),
            (
                "",
                vec![("a", "use crate::{c, b::{X, Y}};"), ("b/d", "crate::a::f()"), ("c", "")],
                ab.clone(),
            ),
            // Through the root.
            (
                "pub use a::{T, U as V};",
                vec![("a", "use crate::b;"), ("b", "use crate::T;")],
                ab.clone(),
            ),
            // By way of `super`, as far as it leads to the root.
            ("", vec![("a", "use super::b;"), ("b/c", "use super::super::a;")], ab.clone()),
            ("", vec![("a", "use super::b;"), ("b/c", "use super::a;"), ("b/a", "")], vec![]),
            ("", vec![("a", "mod m { use super::super::b; }"), ("b", "use crate::a;")], ab.clone()),
            ("", vec![("a", "mod m { use super::b; }"), ("b", "use crate::a;")], vec![]),
            // Not what is only for tests, nor what stands in texts and comments.
            (
                "",
                vec![("a", "use crate::b;"), ("b", "#[cfg(test)] mod tests { use crate::a; }")],
                vec![],
            ),
            ("", vec![("a", "use crate::b;"), ("b/tests", "use crate::a;")], vec![]),
            (
                "",
                vec![("a", "use crate::b;"), ("b", "// crate::a\n\"crate::a\" r#\"crate::a\"#")],
                vec![],
            ),
            (
                "",
                vec![("a", "use crate::b;"), ("b", "fn f<'a>(x: &'a str) { '\"'; crate::a::g() }")],
                ab,
            ),
        ] {
            assert_eq!(found(root, &modules), expected, "{root} {modules:?}");
        }
    }
}
