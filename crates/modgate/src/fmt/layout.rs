//! The layout of YAML: indentation, spaces and blank lines. Text, order and comments stay.
//!
//! The formatter works on lines. It knows which lines continue a text or a flow collection and moves
//! those with the line that they belong to. It need not be right about every YAML: the caller compares
//! the values before and after, and keeps the file if they differ.

/// The columns of one level of nesting.
const WIDTH: usize = 2;

/// The context of the lines after the present one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Open {
    /// Nothing: the next line is a key or an item.
    Structure,
    /// A block scalar (`|`, `>`), until a line that is not indented more than `parent`.
    Block { parent: Option<usize>, shift: isize },
    /// A plain text that may go on in lines that are indented more than `parent`.
    Plain { parent: Option<usize>, shift: isize },
    /// A quoted text, until its quote.
    Quoted { quote: char, shift: isize },
    /// A flow collection, until its brackets are closed.
    Flow { depth: usize, quote: Option<char>, shift: isize },
}

/// A column before and after.
#[derive(Debug, Clone, Copy)]
struct Level {
    before: usize,
    after: usize,
}

struct Layout {
    out: Vec<String>,
    levels: Vec<Level>,
    open: Open,
    /// Comments and blank lines that wait for the line that they stand above.
    waiting: Vec<String>,
}

/// The text with its layout normalised; it ends with a line break unless it is empty.
pub(super) fn normalised(text: &str) -> String {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut layout =
        Layout { out: Vec::new(), levels: Vec::new(), open: Open::Structure, waiting: Vec::new() };
    for line in text.lines() {
        layout.line(line.strip_suffix('\r').unwrap_or(line));
    }
    layout.flush(None);
    while layout.out.last().is_some_and(String::is_empty) {
        layout.out.pop();
    }
    layout.out.iter().flat_map(|line| [line.as_str(), "\n"]).collect()
}

impl Layout {
    fn line(&mut self, line: &str) {
        let indent = line.len() - line.trim_start_matches(' ').len();
        let content = line.trim_start_matches(' ');
        if self.continues(line, indent, content) {
            return;
        }
        self.open = Open::Structure;
        let content = content.trim_end();
        if content.is_empty() || content.starts_with('#') {
            self.waiting.push(line.trim_end().to_owned());
            return;
        }
        let is_marker = |mark: &str| {
            let rest = content.strip_prefix(mark);
            indent == 0 && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t']))
        };
        if is_marker("---") || is_marker("...") || (indent == 0 && content.starts_with('%')) {
            self.flush(Some(Level { before: 0, after: 0 }));
            self.levels.clear();
            self.out.push(content.to_owned());
            let rest = content.get(3..).unwrap_or_default();
            if content.starts_with("---") {
                self.open = value(rest.trim_start(), None, 0);
            }
            return;
        }
        self.structure(indent, content);
    }

    /// Whether the line belongs to a text or collection that an earlier line began.
    fn continues(&mut self, line: &str, indent: usize, content: &str) -> bool {
        let is_blank = content.trim_end().is_empty();
        let is_deeper = |parent: Option<usize>| parent.is_none_or(|parent| indent > parent);
        match self.open {
            Open::Structure => false,
            Open::Block { parent, shift } => {
                let is_end =
                    parent.is_none() && (line.starts_with("---") || line.starts_with("..."));
                let is_inside = !is_end && (is_blank || is_deeper(parent));
                if is_inside {
                    self.out.push(shifted(line, indent, shift));
                } else {
                    self.end_block();
                }
                is_inside
            }
            Open::Plain { parent, shift } => {
                let is_marker = line.starts_with("---") || line.starts_with("...");
                if is_blank || content.starts_with('#') || !is_deeper(parent) || is_marker {
                    return false;
                }
                // Blank lines inside of a text are line breaks in it.
                let waiting = std::mem::take(&mut self.waiting);
                self.out.extend(waiting);
                self.out.push(shifted(line, indent, shift).trim_end().to_owned());
                true
            }
            Open::Quoted { quote, shift } => {
                self.out.push(shifted(line, indent, shift));
                if after_quote(content, quote).is_some() {
                    self.trim_last();
                    self.open = Open::Structure;
                }
                true
            }
            Open::Flow { depth, quote, shift } => {
                self.out.push(shifted(line, indent, shift));
                let (depth, quote) = flow(content, depth, quote);
                if quote.is_none() {
                    self.trim_last();
                }
                self.open = match depth {
                    0 => Open::Structure,
                    depth => Open::Flow { depth, quote, shift },
                };
                true
            }
        }
    }

    /// Removes spaces at the end of the last line, unless a text goes on there.
    fn trim_last(&mut self) {
        if let Some(last) = self.out.last_mut() {
            last.truncate(last.trim_end().len());
        }
    }

    /// Blank lines behind a block scalar separate what follows; with `+` they are part of the text, and
    /// the comparison of values keeps the file as it is.
    fn end_block(&mut self) {
        let mut blank = 0_usize;
        while self.out.last().is_some_and(|line| line.trim().is_empty()) {
            self.out.pop();
            blank += 1;
        }
        self.waiting.extend((0..blank).map(|_| String::new()));
    }

    /// Writes what waited, indented as the line that follows.
    fn flush(&mut self, next: Option<Level>) {
        for line in std::mem::take(&mut self.waiting) {
            let content = line.trim_start();
            if content.is_empty() {
                // One blank line separates as well as several.
                if self.out.last().is_some_and(|last| !last.trim().is_empty()) {
                    self.out.push(String::new());
                }
                continue;
            }
            let indent = line.len() - content.len();
            let own = self.levels.iter().rev().find(|level| level.before == indent);
            let after = match (next, own) {
                (Some(next), _) if next.before == indent => next.after,
                (_, Some(own)) => own.after,
                (Some(next), None) => next.after,
                (None, None) => indent,
            };
            self.out.push(format!("{}{content}", " ".repeat(after)));
        }
    }

    /// A line with keys or items.
    fn structure(&mut self, indent: usize, content: &str) {
        let known = self.levels.clone();
        while self.levels.last().is_some_and(|level| level.before > indent) {
            self.levels.pop();
        }
        let after = match self.levels.last() {
            Some(level) if level.before == indent => level.after,
            Some(level) => level.after + WIDTH,
            None => 0,
        };
        let mut level = Level { before: indent, after };
        let kept = std::mem::replace(&mut self.levels, known);
        self.flush(Some(level));
        self.levels = kept;
        if self.levels.last().is_none_or(|last| last.before != indent) {
            self.levels.push(level);
        }
        let mut text = " ".repeat(after);
        let mut rest = content;
        // `- - key: value`: every item opens a level of its own.
        while let Some(item) = rest.strip_prefix('-').filter(|it| it.starts_with(' ')) {
            let inner = item.trim_start_matches(' ');
            if inner.is_empty() || inner.starts_with('#') {
                break;
            }
            let before = level.before + 1 + (item.len() - inner.len());
            level = Level { before, after: level.after + WIDTH };
            self.levels.push(level);
            text.push_str("- ");
            rest = inner;
        }
        let is_item = level.before != indent;
        let shift = level.after.cast_signed() - level.before.cast_signed();
        match key_end(rest) {
            Some(end) => {
                let (key, after_key) = rest.split_at(end);
                let trimmed = after_key.trim_start();
                text.push_str(key);
                if trimmed.starts_with('#') {
                    text.push_str(after_key);
                } else if !trimmed.is_empty() {
                    text.push(' ');
                    text.push_str(trimmed);
                }
                self.open = value(trimmed, Some(level.before), shift);
            }
            None => {
                text.push_str(rest);
                // The parent of an item is its dash.
                let dash = if is_item { self.levels.iter().rev().nth(1) } else { None };
                let parent = match dash {
                    Some(dash) => Some(dash.before),
                    None => level.before.checked_sub(1),
                };
                let rest = rest.strip_prefix("- ").unwrap_or(rest);
                self.open = value(rest, parent, shift);
            }
        }
        self.out.push(text);
    }
}

fn shifted(line: &str, indent: usize, shift: isize) -> String {
    if line.trim().is_empty() && indent == line.len() {
        let width = indent.saturating_add_signed(shift);
        return " ".repeat(width);
    }
    let rest = line.get(indent..).unwrap_or_default();
    format!("{}{rest}", " ".repeat(indent.saturating_add_signed(shift)))
}

/// The end of the key at the start of a text, behind its colon.
fn key_end(text: &str) -> Option<usize> {
    let start = match text.chars().next()? {
        quote @ ('"' | '\'') => {
            let rest = after_quote(text.get(1..)?, quote)?;
            text.len() - rest.len()
        }
        '[' | '{' | '#' | '|' | '>' => return None,
        _ => 0,
    };
    let mut before = ' ';
    for (at, character) in text.get(start..)?.char_indices() {
        let at = start + at;
        match character {
            ':' => {
                let rest = text.get(at + 1..)?;
                if rest.is_empty() || rest.starts_with([' ', '\t']) {
                    return Some(at + 1);
                }
            }
            '#' if before.is_whitespace() && at > 0 => return None,
            // Only spaces may stand between a quoted key and its colon.
            other if start > 0 && !other.is_whitespace() => return None,
            _ => {}
        }
        before = character;
    }
    None
}

/// The context of the lines behind a value.
fn value(text: &str, parent: Option<usize>, shift: isize) -> Open {
    let mut text = text;
    // Anchors and tags stand in front of the value.
    while text.starts_with(['&', '!']) {
        let end = text.find([' ', '\t']).unwrap_or(text.len());
        text = text.get(end..).unwrap_or_default().trim_start();
    }
    let Some(first) = text.chars().next() else { return Open::Structure };
    match first {
        '#' | '*' => Open::Structure,
        '|' | '>' => Open::Block { parent, shift },
        quote @ ('"' | '\'') => match after_quote(text.get(1..).unwrap_or_default(), quote) {
            Some(_) => Open::Structure,
            None => Open::Quoted { quote, shift },
        },
        '[' | '{' => match flow(text, 0, None) {
            (0, _) => Open::Structure,
            (depth, quote) => Open::Flow { depth, quote, shift },
        },
        _ => Open::Plain { parent, shift },
    }
}

/// The text behind the quote that ends a quoted text.
fn after_quote(text: &str, quote: char) -> Option<&str> {
    let mut characters = text.char_indices().peekable();
    while let Some((at, character)) = characters.next() {
        if character == '\\' && quote == '"' {
            characters.next();
        } else if character == quote {
            if quote == '\'' && characters.peek().is_some_and(|(_, next)| *next == '\'') {
                characters.next();
                continue;
            }
            return text.get(at + 1..);
        }
    }
    None
}

/// How many brackets are open at the end of a line, and the quote of a text that goes on.
fn flow(text: &str, depth: usize, quote: Option<char>) -> (usize, Option<char>) {
    let (mut depth, mut rest) = (depth, text);
    if let Some(quote) = quote {
        match after_quote(rest, quote) {
            Some(behind) => rest = behind,
            None => return (depth, Some(quote)),
        }
    }
    let mut before = ' ';
    while let Some(character) = rest.chars().next() {
        rest = rest.get(character.len_utf8()..).unwrap_or_default();
        match character {
            '[' | '{' => depth += 1,
            ']' | '}' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return (0, None);
                }
            }
            '#' if before.is_whitespace() => break,
            '"' | '\'' if before.is_whitespace() || matches!(before, '[' | '{' | ',' | ':') => {
                match after_quote(rest, character) {
                    Some(behind) => rest = behind,
                    None => return (depth, Some(character)),
                }
            }
            _ => {}
        }
        before = character;
    }
    (depth, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts() {
        for (text, expected) in [
            ("", ""),
            ("a: 1", "a: 1\n"),
            ("\n\n a:   1  \n b: 2\n\n\n\n c: 3\n\n", "a: 1\nb: 2\n\nc: 3\n"),
            ("a:\n    b:\n        c: 1\n    d: 2\n", "a:\n  b:\n    c: 1\n  d: 2\n"),
            ("a:\n-   b: 1\n    c: 2\n-   - d\n    - e\n", "a:\n- b: 1\n  c: 2\n- - d\n  - e\n"),
            ("a:\n    - b\n    -   c\n", "a:\n  - b\n  - c\n"),
            (
                "# top\na:\n    # of b\n    b: 1 # one\n    # last\n# end\nc: 2\n",
                "# top\na:\n  # of b\n  b: 1 # one\n  # last\n# end\nc: 2\n",
            ),
            (
                "a:\n    b: |\n        x  \n\n          y\n    c: 1\n",
                "a:\n  b: |\n      x  \n\n        y\n  c: 1\n",
            ),
            (
                "a:\n    b: \"x\n      y\"   \n    c: [1,\n        2]  \n",
                "a:\n  b: \"x\n    y\"\n  c: [1,\n      2]\n",
            ),
            (
                "a:\n    b: x\n      # no\n    c: it's\n      more\n",
                "a:\n  b: x\n  # no\n  c: it's\n    more\n",
            ),
            ("--- \na: 1\r\n---   # x\nb: 'it''s: #'\n", "---\na: 1\n---   # x\nb: 'it''s: #'\n"),
            (
                "a: {b: '}', c: [\"]\"]}\nd:   # x\n    e: 1\n",
                "a: {b: '}', c: [\"]\"]}\nd:   # x\n  e: 1\n",
            ),
        ] {
            assert_eq!(normalised(text), expected, "{text:?}");
            assert_eq!(normalised(expected), expected, "again: {text:?}");
        }
    }
}
