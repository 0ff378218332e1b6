//! Whether two simple patterns have a text in common, as `github.com/yashtewari/glob-intersection`
//! reads them: characters, `.`, `[a-c]`, each with `*` or `+`, and `\` for a character as it is.
//!
//! That library guesses where several repeated parts meet (it finds nothing in common between
//! `[bc]*` and `a*[a-c]`); here the answer is exact.

use std::collections::BTreeSet;

/// The memory that a byte of a pattern takes when parsed: a token with a range of its own.
pub(super) const BYTES_PER_BYTE: usize = 96;

/// The memory of a pair of places during its visit: it is met in up to four ways.
pub(super) const BYTES_PER_STATE: usize = 4 * size_of::<State>();

/// A pattern, taken apart.
pub(super) struct Pattern(Vec<Token>);

struct Token {
    /// Ranges of characters; `None` is any character.
    set: Option<Vec<(char, char)>>,
    optional: bool,
    repeated: bool,
}

impl Token {
    /// Whether a character fits both.
    fn meets(&self, other: &Self) -> bool {
        let (Some(a), Some(b)) = (&self.set, &other.set) else { return true };
        a.iter().any(|(low, high)| b.iter().any(|(from, to)| low <= to && from <= high))
    }
}

/// How far into a pattern a text has come, and whether it has met the token there already.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    at: usize,
    met: bool,
}

impl Place {
    fn next(self) -> Self {
        Self { at: self.at + 1, met: false }
    }

    fn after(self, token: &Token) -> Self {
        if token.repeated { Self { met: true, ..self } } else { self.next() }
    }
}

#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
struct State {
    a: Place,
    b: Place,
    /// Whether the text is no longer empty.
    started: bool,
}

struct Reader<'p> {
    input: &'p str,
    runes: Vec<char>,
    at: usize,
}

impl Reader<'_> {
    fn error(&self, at: usize, problem: &str) -> String {
        format!("input:{}, pos:{at}, {problem}: the input provided is invalid", self.input)
    }

    /// The next character and whether it was escaped.
    fn next(&mut self) -> Result<Option<(char, bool)>, String> {
        let Some(first) = self.runes.get(self.at).copied() else { return Ok(None) };
        if first != '\\' {
            self.at += 1;
            return Ok(Some((first, false)));
        }
        match self.runes.get(self.at + 1) {
            Some(escaped) => {
                self.at += 2;
                Ok(Some((*escaped, true)))
            }
            None => Err(self.error(self.at, r"input ends with a \ (escape) character")),
        }
    }

    fn set(&mut self) -> Result<Vec<(char, char)>, String> {
        let mut set = Vec::new();
        let mut previous = None;
        while let Some((c, escaped)) = self.next()? {
            match c {
                ']' if !escaped => return Ok(set),
                '-' if !escaped => {
                    let Some(low) = previous.take() else {
                        let problem = "range character '-' must be preceded by a Unicode character";
                        return Err(self.error(self.at, problem));
                    };
                    if self.at + 1 >= self.runes.len() {
                        let problem = "range character '-' must be followed by a Unicode character";
                        return Err(self.error(self.at, problem));
                    }
                    let Some((high, escaped)) = self.next()? else { break };
                    if !escaped && matches!(high, ']' | '-') {
                        let problem = "range character '-' cannot be followed by a special symbol";
                        return Err(self.error(self.at, problem));
                    }
                    if high < low {
                        let problem = format!(
                            "range is out of order: '{high}' comes before '{low}' in Unicode"
                        );
                        return Err(self.error(self.at, &problem));
                    }
                    set.push((low, high));
                }
                c => {
                    set.push((c, c));
                    previous = Some(c);
                }
            }
        }
        Err(self.error(self.at, "found [ without matching ]"))
    }
}

impl Pattern {
    pub(super) fn parse(input: &str) -> Result<Self, String> {
        let mut reader = Reader { input, runes: input.chars().collect(), at: 0 };
        let mut tokens = Vec::new();
        while let Some((c, escaped)) = reader.next()? {
            let set = match c {
                '.' if !escaped => None,
                '[' if !escaped => Some(reader.set()?),
                ']' if !escaped => {
                    let problem = "set-close ']' with no preceding '['";
                    return Err(reader.error(reader.at, problem));
                }
                '+' | '*' if !escaped => {
                    let problem = format!("flag '{c}' must be preceded by a non-flag");
                    return Err(reader.error(reader.at, &problem));
                }
                c => Some(vec![(c, c)]),
            };
            let flag = reader.runes.get(reader.at).copied().filter(|c| matches!(c, '+' | '*'));
            reader.at += usize::from(flag.is_some());
            let (optional, repeated) = (flag == Some('*'), flag.is_some());
            tokens.push(Token { set, optional, repeated });
        }
        Ok(Self(tokens))
    }

    /// How large it is: tokens and ranges.
    pub(super) fn cost(&self) -> usize {
        self.0.iter().map(|token| 1 + token.set.as_ref().map_or(0, Vec::len)).sum::<usize>() + 1
    }

    /// Whether some text, which is not empty unless both patterns are, matches both.
    pub(super) fn meets(&self, other: &Self) -> bool {
        if self.0.is_empty() && other.0.is_empty() {
            return true;
        }
        let mut seen = BTreeSet::new();
        let mut queue = vec![State::default()];
        while let Some(state) = queue.pop() {
            if !seen.insert(state) {
                continue;
            }
            let (a, b) = (self.0.get(state.a.at), other.0.get(state.b.at));
            if a.is_none() && b.is_none() && state.started {
                return true;
            }
            if a.is_some_and(|token| token.optional || state.a.met) {
                queue.push(State { a: state.a.next(), ..state });
            }
            if b.is_some_and(|token| token.optional || state.b.met) {
                queue.push(State { b: state.b.next(), ..state });
            }
            if let (Some(a), Some(b)) = (a, b)
                && a.meets(b)
            {
                let (a, b) = (state.a.after(a), state.b.after(b));
                queue.push(State { a, b, started: true });
            }
        }
        false
    }
}
