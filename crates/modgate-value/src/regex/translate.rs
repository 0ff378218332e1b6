//! Go's syntax in, the `regex` crate's syntax out.
//!
//! One pass without recursion: a stack of open groups, each with its finished branches and the
//! items of the branch being read. What Go refuses is refused here with Go's error code and the
//! same piece of the pattern; what both accept but understand differently is written out so that
//! only one reading is left: every class becomes explicit ranges, every flag is attached to the
//! item it governs, and capture groups lose their names (Go allows two groups of one name).

use std::fmt::Write as _;

use super::unicode;

/// How deep an expression may nest, and how often it may repeat: Go's own bounds.
const MAX_HEIGHT: usize = 1000;
const MAX_REPEAT: u32 = 1000;

/// A pattern in the `regex` crate's syntax.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Translation {
    pub(super) pattern: String,
    /// The name of each group, empty where it has none; the first is the whole match.
    pub(super) names: Vec<String>,
    pub(super) classes: Classes,
}

/// The cost of parsing the classes of a pattern.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Classes {
    /// Classes of Unicode, such as `\pL`, each of which has hundreds of ranges.
    pub(super) properties: usize,
    /// Code points whose other cases are looked for, because the class ignores case.
    pub(super) folded: usize,
}

impl Classes {
    /// Counts a class as [`shorthand`] writes it.
    fn shorthand(&mut self, class: &str, fold: bool) {
        let property = class.starts_with("\\p") || class.starts_with("\\P");
        self.properties += usize::from(property);
        if property || class.starts_with("[^") || class.ends_with(LAST_RANGE) {
            self.range(0, u32::from(char::MAX), fold);
        }
    }

    fn range(&mut self, low: u32, high: u32, fold: bool) {
        if fold {
            self.folded += usize::try_from(high - low + 1).unwrap_or(usize::MAX);
        }
    }
}

/// The end of a class of all characters.
const LAST_RANGE: &str = "-\\x{10FFFF}";

/// An error code of Go's `regexp/syntax` and the piece of the pattern that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Invalid<'p> {
    pub(super) code: &'static str,
    pub(super) piece: &'p str,
}

const INVALID_CHAR_RANGE: &str = "invalid character class range";
const INVALID_ESCAPE: &str = "invalid escape sequence";
const INVALID_NAMED_CAPTURE: &str = "invalid named capture";
const INVALID_PERL_OP: &str = "invalid or unsupported Perl syntax";
const INVALID_REPEAT_OP: &str = "invalid nested repetition operator";
const INVALID_REPEAT_SIZE: &str = "invalid repeat count";
const MISSING_BRACKET: &str = "missing closing ]";
const MISSING_PAREN: &str = "missing closing )";
const MISSING_REPEAT_ARGUMENT: &str = "missing argument to repetition operator";
const TRAILING_BACKSLASH: &str = "trailing backslash at end of expression";
const UNEXPECTED_PAREN: &str = "unexpected )";
const NESTING_DEPTH: &str = "expression nests too deeply";

/// Go's error code for an expression beyond its size limits.
pub(super) const LARGE: &str = "expression too large";

pub(super) fn translate(pattern: &str) -> Result<Translation, Invalid<'_>> {
    let mut translator = Translator {
        pattern,
        flags: Flags { fold: false, multi_line: false, dot_newline: false, lazy: false },
        open: Vec::new(),
        group: Group::default(),
        names: vec![String::new()],
        classes: Classes::default(),
    };
    let pattern = translator.run()?;
    Ok(Translation { pattern, names: translator.names, classes: translator.classes })
}

#[derive(Clone, Copy)]
struct Flags {
    fold: bool,
    multi_line: bool,
    dot_newline: bool,
    lazy: bool,
}

struct Translator<'p> {
    pattern: &'p str,
    flags: Flags,
    /// The groups around the current one.
    open: Vec<(Group, Flags)>,
    group: Group,
    names: Vec<String>,
    classes: Classes,
}

/// A group being read.
#[derive(Default)]
struct Group {
    captures: bool,
    /// The finished branches, joined by `|`.
    branches: String,
    branch_count: usize,
    items: Vec<Item>,
    /// Over all finished branches.
    height: usize,
    repeats: u32,
}

struct Item {
    text: Text,
    height: usize,
    /// The largest product of nested repeat counts in it.
    repeats: u32,
}

enum Text {
    Literal {
        character: char,
        fold: bool,
    },
    /// Something a repetition operator can follow as it stands.
    Unit(String),
    /// Something that needs parentheses first.
    Loose(String),
}

impl Group {
    fn push(&mut self, text: Text) {
        self.items.push(Item { text, height: 1, repeats: 1 });
    }

    fn end_branch(&mut self) {
        if self.branch_count > 0 {
            self.branches.push('|');
        }
        self.branch_count += 1;
        // Go takes a run of characters for one item.
        let literal = |item: &Item| matches!(item.text, Text::Literal { .. });
        let concatenation = usize::from(self.items.len() > 1 && !self.items.iter().all(literal));
        let mut folding = false;
        for Item { text, height, repeats } in self.items.drain(..) {
            self.height = self.height.max(height + concatenation);
            self.repeats = self.repeats.max(repeats);
            let fold = matches!(text, Text::Literal { fold: true, .. });
            if folding != fold {
                self.branches.push_str(if fold { "(?i:" } else { ")" });
                folding = fold;
            }
            match text {
                Text::Literal { character, .. } => push_literal(character, &mut self.branches),
                Text::Unit(text) | Text::Loose(text) => self.branches.push_str(&text),
            }
        }
        if folding {
            self.branches.push(')');
        }
    }

    /// Its text, height and repeats.
    fn close(mut self) -> (String, usize, u32) {
        self.end_branch();
        let alternation = usize::from(self.branch_count > 1);
        (self.branches, self.height + alternation, self.repeats.max(1))
    }
}

impl<'p> Translator<'p> {
    fn run(&mut self) -> Result<String, Invalid<'p>> {
        let mut rest = self.pattern;
        // The operator just read, from its start: Go refuses to stack them.
        let mut last_repeat: Option<&'p str> = None;
        while let Some(first) = rest.chars().next() {
            let before = rest;
            let repeated = last_repeat.take();
            rest = skip(rest, first.len_utf8());
            match first {
                '(' if rest.starts_with('?') => rest = self.perl_group(before)?,
                '(' => self.open_group(Some("")),
                ')' => self.close_group()?,
                '|' => self.group.end_branch(),
                '^' if self.flags.multi_line => self.group.push(Text::Unit("(?m:^)".into())),
                '^' => self.group.push(Text::Loose("\\A".into())),
                '$' if self.flags.multi_line => self.group.push(Text::Unit("(?m:$)".into())),
                '$' => self.group.push(Text::Loose("\\z".into())),
                '.' if self.flags.dot_newline => self.group.push(Text::Unit("(?s:.)".into())),
                '.' => self.group.push(Text::Unit(".".into())),
                '[' => {
                    let (class, after) = self.class(before)?;
                    self.group.push(Text::Unit(class));
                    rest = after;
                }
                '*' | '+' | '?' => {
                    rest = self.repeat(Repeat::Operator(first), before, rest, repeated)?;
                    last_repeat = Some(before);
                }
                '{' => match repeat_counts(rest) {
                    None => self.literal('{'),
                    Some((counts, after)) => {
                        let Some((least, most)) = counts.filter(|(least, most)| {
                            *least <= MAX_REPEAT
                                && most.is_none_or(|most| most <= MAX_REPEAT && *least <= most)
                        }) else {
                            return Err(invalid(INVALID_REPEAT_SIZE, upto(before, after)));
                        };
                        rest = self.repeat(Repeat::Counts(least, most), before, after, repeated)?;
                        last_repeat = Some(before);
                    }
                },
                '\\' => rest = self.escape(before)?,
                _ => self.literal(first),
            }
        }
        if !self.open.is_empty() {
            return Err(invalid(MISSING_PAREN, self.pattern));
        }
        let group = std::mem::take(&mut self.group);
        let (pattern, height, _) = group.close();
        if height > MAX_HEIGHT {
            return Err(invalid(NESTING_DEPTH, self.pattern));
        }
        Ok(pattern)
    }

    fn literal(&mut self, character: char) {
        // Of ASCII only letters have another case; beyond it the `regex` crate decides.
        let fold = self.flags.fold && (character.is_ascii_alphabetic() || !character.is_ascii());
        self.group.push(Text::Literal { character, fold });
    }

    fn open_group(&mut self, capture: Option<&str>) {
        let group = Group { captures: capture.is_some(), ..Group::default() };
        self.names.extend(capture.map(str::to_owned));
        let outer = std::mem::replace(&mut self.group, group);
        self.open.push((outer, self.flags));
    }

    fn close_group(&mut self) -> Result<(), Invalid<'p>> {
        let Some((outer, flags)) = self.open.pop() else {
            return Err(invalid(UNEXPECTED_PAREN, self.pattern));
        };
        self.flags = flags;
        let group = std::mem::replace(&mut self.group, outer);
        let captures = group.captures;
        let (text, height, repeats) = group.close();
        let height = height.max(1) + usize::from(captures);
        if height > MAX_HEIGHT {
            return Err(invalid(NESTING_DEPTH, self.pattern));
        }
        let text = if captures { format!("({text})") } else { format!("(?:{text})") };
        self.group.items.push(Item { text: Text::Unit(text), height, repeats });
        Ok(())
    }

    /// Reads what follows `(?`: a named group, flags, or a group with flags.
    fn perl_group(&mut self, before: &'p str) -> Result<&'p str, Invalid<'p>> {
        let named = match before.strip_prefix("(?P<").filter(|rest| !rest.is_empty()) {
            Some(rest) => Some(rest),
            None => before.strip_prefix("(?<").filter(|rest| !rest.is_empty()),
        };
        if let Some(named) = named {
            let Some((name, rest)) = named.split_once('>') else {
                return Err(invalid(INVALID_NAMED_CAPTURE, before));
            };
            if name.is_empty() || !name.bytes().all(|b| b == b'_' || b.is_ascii_alphanumeric()) {
                return Err(invalid(INVALID_NAMED_CAPTURE, upto(before, rest)));
            }
            self.open_group(Some(name));
            return Ok(rest);
        }
        let mut rest = skip(before, 2);
        let mut flags = self.flags;
        let mut on = true;
        let mut saw_flag = false;
        while let Some(first) = rest.chars().next() {
            rest = skip(rest, first.len_utf8());
            match first {
                'i' => flags.fold = on,
                'm' => flags.multi_line = on,
                's' => flags.dot_newline = on,
                'U' => flags.lazy = on,
                '-' if on => {
                    on = false;
                    saw_flag = false;
                    continue;
                }
                ':' | ')' if on || saw_flag => {
                    if first == ':' {
                        self.open_group(None);
                    }
                    self.flags = flags;
                    return Ok(rest);
                }
                _ => return Err(invalid(INVALID_PERL_OP, upto(before, rest))),
            }
            saw_flag = true;
        }
        Err(invalid(INVALID_PERL_OP, before))
    }

    /// Repeats the last item; `rest` follows the operator that starts at `before`.
    fn repeat(
        &mut self,
        repeat: Repeat,
        before: &'p str,
        mut rest: &'p str,
        repeated: Option<&'p str>,
    ) -> Result<&'p str, Invalid<'p>> {
        let mut lazy = self.flags.lazy;
        if let Some(after) = rest.strip_prefix('?') {
            lazy = !lazy;
            rest = after;
        }
        if let Some(first) = repeated {
            return Err(invalid(INVALID_REPEAT_OP, upto(first, rest)));
        }
        let Some(item) = self.group.items.pop() else {
            return Err(invalid(MISSING_REPEAT_ARGUMENT, upto(before, rest)));
        };
        let mut text = match item.text {
            Text::Unit(text) => text,
            Text::Loose(text) => format!("(?:{text})"),
            Text::Literal { character, fold } => {
                let mut text = String::from(if fold { "(?i:" } else { "" });
                push_literal(character, &mut text);
                if fold {
                    text.push(')');
                }
                text
            }
        };
        let mut repeats = item.repeats;
        match repeat {
            Repeat::Operator(operator) => text.push(operator),
            Repeat::Counts(least, most) => {
                let _ = match most {
                    Some(most) if most == least => write!(text, "{{{least}}}"),
                    Some(most) => write!(text, "{{{least},{most}}}"),
                    None => write!(text, "{{{least},}}"),
                };
                repeats = match most {
                    Some(0) => 1,
                    _ => repeats.saturating_mul(most.unwrap_or(least).max(1)),
                };
                if (least >= 2 || most.is_some_and(|most| most >= 2)) && repeats > MAX_REPEAT {
                    return Err(invalid(INVALID_REPEAT_SIZE, upto(before, rest)));
                }
            }
        }
        if lazy {
            text.push('?');
        }
        let height = item.height + 1;
        if height > MAX_HEIGHT {
            return Err(invalid(NESTING_DEPTH, self.pattern));
        }
        self.group.items.push(Item { text: Text::Loose(text), height, repeats });
        Ok(rest)
    }

    /// Reads an escape outside of a class.
    fn escape(&mut self, before: &'p str) -> Result<&'p str, Invalid<'p>> {
        let rest = skip(before, 2);
        let assertion = match before.as_bytes().get(1) {
            Some(b'A') => "\\A",
            Some(b'z') => "\\z",
            Some(b'b') => "(?-u:\\b)",
            Some(b'B') => "(?-u:\\B)",
            Some(b'C') => return Err(invalid(INVALID_ESCAPE, upto(before, rest))),
            Some(b'Q') => {
                let (literal, after) = rest.split_once("\\E").unwrap_or((rest, ""));
                for character in literal.chars() {
                    self.literal(character);
                }
                return Ok(after);
            }
            _ => {
                if let Some((class, rest)) = shorthand(before)? {
                    self.classes.shorthand(&class, self.flags.fold);
                    let mut text = String::from(if self.flags.fold { "(?i:[" } else { "[" });
                    text.push_str(&class);
                    text.push_str(if self.flags.fold { "])" } else { "]" });
                    self.group.push(Text::Unit(text));
                    return Ok(rest);
                }
                let (code, rest) = escaped_character(before)?;
                match char::from_u32(code) {
                    Some(character) => self.literal(character),
                    // Half of a surrogate pair, which no text contains.
                    None => self.group.push(Text::Unit(NOTHING.into())),
                }
                return Ok(rest);
            }
        };
        self.group.push(Text::Loose(assertion.into()));
        Ok(rest)
    }

    /// A bracketed class.
    fn class(&mut self, before: &'p str) -> Result<(String, &'p str), Invalid<'p>> {
        let mut rest = skip(before, 1);
        let mut text = String::from(if self.flags.fold { "(?i:[" } else { "[" });
        if let Some(after) = rest.strip_prefix('^') {
            text.push('^');
            rest = after;
        }
        let start = text.len();
        let mut first = true;
        while first || !rest.starts_with(']') {
            first = false;
            if let Some(named) = rest.strip_prefix("[:")
                && let Some((name, after)) = named.split_once(":]")
            {
                let plain = name.strip_prefix('^').unwrap_or(name);
                if !POSIX_CLASSES.contains(&plain) {
                    return Err(invalid(INVALID_CHAR_RANGE, upto(rest, after)));
                }
                let _ = write!(text, "[:{name}:]");
                if plain.len() < name.len() {
                    self.classes.range(0, u32::from(char::MAX), self.flags.fold);
                }
                rest = after;
                continue;
            }
            if let Some((class, after)) = shorthand(rest)? {
                self.classes.shorthand(&class, self.flags.fold);
                text.push_str(&class);
                rest = after;
                continue;
            }
            let range = rest;
            let (low, after) = class_character(rest, before)?;
            rest = after;
            let mut high = low;
            if let Some(after) = rest.strip_prefix('-')
                && !after.is_empty()
                && !after.starts_with(']')
            {
                let (end, after) = class_character(after, before)?;
                high = end;
                rest = after;
                if high < low {
                    return Err(invalid(INVALID_CHAR_RANGE, upto(range, rest)));
                }
            }
            self.classes.range(low, high, self.flags.fold);
            push_range(low, high, &mut text);
        }
        if text.len() == start {
            // Nothing but surrogates, which no text contains.
            text.push_str(NOTHING);
        }
        text.push_str(if self.flags.fold { "])" } else { "]" });
        Ok((text, skip(rest, 1)))
    }
}

enum Repeat {
    Operator(char),
    Counts(u32, Option<u32>),
}

/// A class that matches nothing, by itself or inside another class.
const NOTHING: &str = "[^\\x{0}-\\x{10FFFF}]";

const POSIX_CLASSES: [&str; 14] = [
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct",
    "space", "upper", "word", "xdigit",
];

fn invalid<'p>(code: &'static str, piece: &'p str) -> Invalid<'p> {
    Invalid { code, piece }
}

fn skip(text: &str, bytes: usize) -> &str {
    text.get(bytes..).unwrap_or_default()
}

/// The part of `from` before `rest`, which is its tail.
fn upto<'p>(from: &'p str, rest: &str) -> &'p str {
    from.get(..from.len().saturating_sub(rest.len())).unwrap_or(from)
}

/// The inside of `{n}`, `{n,}` or `{n,m}` after its brace; `None` if it is just text, `Some(None)`
/// if a number is far too big.
#[expect(clippy::type_complexity, reason = "two numbers and the rest")]
fn repeat_counts(text: &str) -> Option<(Option<(u32, Option<u32>)>, &str)> {
    let (least, rest) = repeat_count(text)?;
    if let Some(after) = rest.strip_prefix('}') {
        return Some((least.map(|least| (least, Some(least))), after));
    }
    let rest = rest.strip_prefix(',')?;
    if let Some(after) = rest.strip_prefix('}') {
        return Some((least.map(|least| (least, None)), after));
    }
    let (most, rest) = repeat_count(rest)?;
    let counts = least.and_then(|least| Some((least, Some(most?))));
    Some((counts, rest.strip_prefix('}')?))
}

/// A number without leading zeros; its value is `None` if it is far too big.
fn repeat_count(text: &str) -> Option<(Option<u32>, &str)> {
    let length = text.bytes().take_while(u8::is_ascii_digit).count();
    let (digits, rest) = text.split_at_checked(length)?;
    if digits.is_empty() || (digits.len() > 1 && digits.starts_with('0')) {
        return None;
    }
    Some((digits.parse().ok(), rest))
}

/// `\d`, `\pN` and their like as the inside of a class.
fn shorthand(text: &str) -> Result<Option<(String, &str)>, Invalid<'_>> {
    let class = match text.as_bytes() {
        [b'\\', b'd', ..] => "0-9",
        [b'\\', b'D', ..] => "[^0-9]",
        [b'\\', b's', ..] => "\\t\\n\\f\\r\\x20",
        [b'\\', b'S', ..] => "[^\\t\\n\\f\\r\\x20]",
        [b'\\', b'w', ..] => "0-9A-Za-z_",
        [b'\\', b'W', ..] => "[^0-9A-Za-z_]",
        [b'\\', b'p' | b'P', ..] => return unicode_class(text).map(Some),
        _ => return Ok(None),
    };
    Ok(Some((class.to_owned(), skip(text, 2))))
}

fn unicode_class(text: &str) -> Result<(String, &str), Invalid<'_>> {
    let (name, rest) = if text.get(2..).is_some_and(|rest| rest.starts_with('{')) {
        match text.split_once('}') {
            Some((before, rest)) => (skip(before, 3), rest),
            None => return Err(invalid(INVALID_CHAR_RANGE, text)),
        }
    } else {
        let rest = skip(text, 2);
        let rest = skip(rest, rest.chars().next().map_or(0, char::len_utf8));
        (skip(upto(text, rest), 2), rest)
    };
    let mut negated = text.starts_with("\\P");
    let plain = name.strip_prefix('^').unwrap_or(name);
    negated ^= plain.len() < name.len();
    let Some(class) = unicode::class(plain) else {
        return Err(invalid(INVALID_CHAR_RANGE, upto(text, rest)));
    };
    let class = match class {
        unicode::Class::Nothing if negated => "\\x{0}-\\x{10FFFF}".to_owned(),
        unicode::Class::Nothing => NOTHING.to_owned(),
        unicode::Class::Property(property) if negated => format!("\\P{{{property}}}"),
        unicode::Class::Property(property) => format!("\\p{{{property}}}"),
    };
    Ok((class, rest))
}

fn class_character<'p>(text: &'p str, class: &'p str) -> Result<(u32, &'p str), Invalid<'p>> {
    match text.chars().next() {
        None => Err(invalid(MISSING_BRACKET, class)),
        Some('\\') => escaped_character(text),
        Some(character) => Ok((u32::from(character), skip(text, character.len_utf8()))),
    }
}

/// The code point that an escape stands for.
fn escaped_character(text: &str) -> Result<(u32, &str), Invalid<'_>> {
    let mut rest = skip(text, 1);
    let Some(first) = take(&mut rest) else {
        return Err(invalid(TRAILING_BACKSLASH, ""));
    };
    let octal = |rest: &str| rest.chars().next().and_then(|next| next.to_digit(8));
    let code = match first {
        // A single digit other than zero would be a reference back, which Go does not have.
        '1'..='7' if octal(rest).is_none() => None,
        '0'..='7' => {
            let mut code = first.to_digit(8).unwrap_or(0);
            for _ in 0..2 {
                if let Some(digit) = octal(rest) {
                    code = code * 8 + digit;
                    rest = skip(rest, 1);
                }
            }
            Some(code)
        }
        'x' => hexadecimal(&mut rest),
        'a' => Some(0x07),
        'f' => Some(0x0C),
        'n' => Some(0x0A),
        'r' => Some(0x0D),
        't' => Some(0x09),
        'v' => Some(0x0B),
        _ if first.is_ascii() && !first.is_ascii_alphanumeric() => Some(u32::from(first)),
        _ => None,
    };
    match code {
        Some(code) => Ok((code, rest)),
        None => Err(invalid(INVALID_ESCAPE, upto(text, rest))),
    }
}

/// `41` or `{10FFFF}`. On failure `rest` is where Go gives up.
fn hexadecimal(rest: &mut &str) -> Option<u32> {
    let first = take(rest)?;
    if first != '{' {
        // Go reads both characters before it looks at them.
        let second = take(rest);
        return Some(first.to_digit(16)? * 16 + second?.to_digit(16)?);
    }
    let mut code = 0;
    let mut digits = 0;
    loop {
        let next = take(rest)?;
        if next == '}' {
            return (digits > 0).then_some(code);
        }
        code = code * 16 + next.to_digit(16)?;
        if code > u32::from(char::MAX) {
            return None;
        }
        digits += 1;
    }
}

fn take(rest: &mut &str) -> Option<char> {
    let first = rest.chars().next()?;
    *rest = skip(rest, first.len_utf8());
    Some(first)
}

fn push_literal(character: char, out: &mut String) {
    if character.is_ascii_alphanumeric() || !character.is_ascii() {
        out.push(character);
    } else {
        let _ = write!(out, "\\x{{{:x}}}", u32::from(character));
    }
}

/// A range of a class, without the surrogates that text cannot contain.
fn push_range(low: u32, high: u32, out: &mut String) {
    const SURROGATES: std::ops::Range<u32> = 0xD800..0xE000;
    let mut push = |low: u32, high: u32| {
        if low == high {
            let _ = write!(out, "\\x{{{low:x}}}");
        } else if low < high {
            let _ = write!(out, "\\x{{{low:x}}}-\\x{{{high:x}}}");
        }
    };
    if high < SURROGATES.start || low >= SURROGATES.end {
        push(low, high);
    } else {
        push(low.min(SURROGATES.start), high.min(SURROGATES.start - 1));
        push(low.max(SURROGATES.end), high.max(SURROGATES.end - 1));
    }
}
