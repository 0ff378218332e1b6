//! Versions and constraints as `github.com/Masterminds/semver/v3` v3.1.1 has them.

use std::{borrow::Cow, cmp::Ordering, fmt, sync::LazyLock};

use modgate_value::Budget;
use regex::Regex;

use crate::fault::{Fault, Result};

/// A version, perhaps written loosely (`v1`, `1.2`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Version {
    pub(crate) major: u64,
    pub(crate) minor: u64,
    pub(crate) patch: u64,
    pub(crate) pre: String,
    pub(crate) metadata: String,
    /// As written.
    pub(crate) original: String,
}

/// The characters a version is made of, after an optional `v`: numbers, pre-release, metadata.
const TAIL: &str =
    r"(-([0-9A-Za-z\-]+(?:\.[0-9A-Za-z\-]+)*))?(\+([0-9A-Za-z\-]+(?:\.[0-9A-Za-z\-]+)*))?";

/// A pattern of ours; compiled once.
fn pattern(text: &str) -> Option<Regex> {
    Regex::new(text).ok()
}

impl Version {
    /// `semver.NewVersion`
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        static VERSION: LazyLock<Option<Regex>> =
            LazyLock::new(|| pattern(&format!(r"^v?([0-9]+)(\.[0-9]+)?(\.[0-9]+)?{TAIL}$")));
        let invalid = || "Invalid Semantic Version".to_owned();
        let groups = VERSION.as_ref().and_then(|regex| regex.captures(text)).ok_or_else(invalid)?;
        let group = |index| groups.get(index).map_or("", |found: regex::Match<'_>| found.as_str());
        let number = |index| {
            let digits = group(index).trim_start_matches('.');
            if digits.is_empty() {
                return Ok(0);
            }
            digits.parse::<u64>().map_err(|_| {
                format!(
                    "Error parsing version segment: strconv.ParseUint: parsing \"{digits}\": value \
                     out of range"
                )
            })
        };
        let version = Self {
            major: number(1)?,
            minor: number(2)?,
            patch: number(3)?,
            pre: group(5).to_owned(),
            metadata: group(7).to_owned(),
            original: text.to_owned(),
        };
        let leading_zero = version.pre.split('.').any(|part| {
            part.len() > 1 && part.starts_with('0') && part.bytes().all(|b| b.is_ascii_digit())
        });
        if leading_zero {
            return Err("Version segment starts with 0".to_owned());
        }
        Ok(version)
    }

    /// By precedence; metadata does not count.
    pub(crate) fn compare(&self, other: &Self) -> Ordering {
        let numbers = |version: &Self| (version.major, version.minor, version.patch);
        numbers(self).cmp(&numbers(other)).then_with(|| {
            match (self.pre.is_empty(), other.pre.is_empty()) {
                (true, true) => Ordering::Equal,
                (true, false) => Ordering::Greater,
                (false, true) => Ordering::Less,
                (false, false) => compare_pre(&self.pre, &other.pre),
            }
        })
    }

    fn prefix(&self) -> &'static str {
        if self.original.starts_with('v') { "v" } else { "" }
    }

    fn renewed(mut self) -> Self {
        self.original = format!("{}{self}", self.prefix());
        self
    }

    pub(crate) fn next_patch(&self) -> Self {
        let patch = if self.pre.is_empty() { self.patch.wrapping_add(1) } else { self.patch };
        Self { patch, pre: String::new(), metadata: String::new(), ..self.clone() }.renewed()
    }

    pub(crate) fn next_minor(&self) -> Self {
        let minor = self.minor.wrapping_add(1);
        let bare = Self { pre: String::new(), metadata: String::new(), ..self.clone() };
        Self { minor, patch: 0, ..bare }.renewed()
    }

    pub(crate) fn next_major(&self) -> Self {
        let major = self.major.wrapping_add(1);
        let bare = Self { pre: String::new(), metadata: String::new(), ..self.clone() };
        Self { major, minor: 0, patch: 0, ..bare }.renewed()
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)?;
        if !self.pre.is_empty() {
            write!(f, "-{}", self.pre)?;
        }
        if !self.metadata.is_empty() {
            write!(f, "+{}", self.metadata)?;
        }
        Ok(())
    }
}

/// Part by part; where one has fewer parts, the missing ones are the least.
fn compare_pre(a: &str, b: &str) -> Ordering {
    let (mut a, mut b) = (a.split('.'), b.split('.'));
    loop {
        let (left, right) = (a.next(), b.next());
        if left.is_none() && right.is_none() {
            return Ordering::Equal;
        }
        let order = compare_part(left.unwrap_or_default(), right.unwrap_or_default());
        if order.is_ne() {
            return order;
        }
    }
}

/// Numbers by value and before words, words by their bytes.
fn compare_part(a: &str, b: &str) -> Ordering {
    if a == b {
        return Ordering::Equal;
    }
    match (a.parse::<u64>(), b.parse::<u64>()) {
        _ if a.is_empty() => Ordering::Less,
        _ if b.is_empty() => Ordering::Greater,
        (Err(_), Err(_)) => a.cmp(b),
        (Ok(_), Err(_)) => Ordering::Less,
        (Err(_), Ok(_)) => Ordering::Greater,
        // Different spellings of one number: the original says less.
        (Ok(a), Ok(b)) => {
            if a > b {
                Ordering::Greater
            } else {
                Ordering::Less
            }
        }
    }
}

#[derive(Debug)]
struct Constraint {
    operator: Operator,
    version: Version,
    /// Some part is left open, as in `1.2` or `1.x`.
    open: bool,
    minor_open: bool,
    patch_open: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Equal,
    NotEqual,
    Greater,
    Less,
    GreaterEqual,
    LessEqual,
    Tilde,
    Caret,
}

const OPERATORS: &str = r"=||!=|>|<|>=|=>|<=|=<|~|~>|\^";

fn loose_version() -> String {
    format!(r"v?([0-9|x|X|\*]+)(\.[0-9|x|X|\*]+)?(\.[0-9|x|X|\*]+)?{TAIL}")
}

/// The expressions that constraints are read with: ranges, one alternative, its constraints, and
/// the parts of one.
fn constraint_patterns() -> Option<&'static [Regex; 4]> {
    static PARTS: LazyLock<Option<[Regex; 4]>> = LazyLock::new(|| {
        let version = loose_version();
        Some([
            pattern(&format!(
                r"[\t\n\f\r ]*({version})[\t\n\f\r ]+-[\t\n\f\r ]+({version})[\t\n\f\r ]*"
            ))?,
            pattern(&format!(
                r"^([\t\n\f\r ]*({OPERATORS})[\t\n\f\r ]*({version})[\t\n\f\r ]*,?)+$"
            ))?,
            pattern(&format!(r"({OPERATORS})[\t\n\f\r ]*({version})"))?,
            pattern(&format!(r"^[\t\n\f\r ]*({OPERATORS})[\t\n\f\r ]*({version})[\t\n\f\r ]*$"))?,
        ])
    });
    PARTS.as_ref()
}

/// Whether a version satisfies `constraints`, any of whose alternatives must hold as a whole:
/// `semver.NewConstraint`, `semver.NewVersion` and `Constraints.Check`.
///
/// Keeps no more than one constraint at a time.
pub(crate) fn satisfies(constraints: &str, version: &str, budget: &Budget<'_>) -> Result<bool> {
    let failed = |message: &str| Fault::new(message);
    let Some([range, valid, each, one]) = constraint_patterns() else {
        return Err(failed("constraint Parser Error"));
    };
    let parsed = Version::parse(version);
    let rewritten = with_ranges_rewritten(constraints, range, budget)?;
    let mut any = false;
    for part in rewritten.split("||") {
        budget.spend(8 + part.len() as u64)?;
        if !valid.is_match(part) {
            return Err(Fault::new(format!("improper constraint: {part}")));
        }
        let mut all = true;
        for found in each.find_iter(part) {
            budget.spend(16)?;
            let constraint = Constraint::parse(found.as_str(), one).map_err(Fault::Failed)?;
            all = all && parsed.as_ref().is_ok_and(|version| constraint.check(version));
        }
        any = any || all;
    }
    parsed.map(|_| any).map_err(Fault::Failed)
}

/// `1.2 - 2.0` is `>= 1.2, <= 2.0`. The original replaces the first text that reads like the range,
/// which need not be the range itself.
fn with_ranges_rewritten<'t>(
    text: &'t str,
    range: &Regex,
    budget: &Budget<'_>,
) -> Result<Cow<'t, str>> {
    let mut rewritten = Cow::Borrowed(text);
    for groups in range.captures_iter(text) {
        let group = |index| groups.get(index).map_or("", |found| found.as_str());
        let bounds = format!(">= {}, <= {}", group(1), group(9));
        budget.spend(1 + rewritten.len() as u64 / 16)?;
        budget.allocate(bounds.len())?;
        rewritten = rewritten.replacen(group(0), &bounds, 1).into();
    }
    Ok(rewritten)
}

impl Constraint {
    fn parse(text: &str, one: &Regex) -> Result<Self, String> {
        let groups = one.captures(text).ok_or_else(|| format!("improper constraint: {text}"))?;
        let group = |index| groups.get(index).map_or("", |found| found.as_str());
        let operator = match group(1) {
            "" | "=" => Operator::Equal,
            "!=" => Operator::NotEqual,
            ">" => Operator::Greater,
            "<" => Operator::Less,
            ">=" | "=>" => Operator::GreaterEqual,
            "<=" | "=<" => Operator::LessEqual,
            "~" | "~>" => Operator::Tilde,
            _ => Operator::Caret,
        };
        let is_open = |part: &str| matches!(part.trim_start_matches('.'), "" | "x" | "X" | "*");
        let (major, minor, patch, pre) = (group(3), group(4), group(5), group(6));
        let (mut minor_open, mut patch_open) = (false, false);
        let (written, open) = if is_open(major) {
            ("0.0.0".to_owned(), true)
        } else if is_open(minor) {
            minor_open = true;
            (format!("{major}.0.0{pre}"), true)
        } else if is_open(patch) {
            patch_open = true;
            (format!("{major}{minor}.0{pre}"), true)
        } else {
            (group(2).to_owned(), false)
        };
        let version = Version::parse(&written).map_err(|_| "constraint Parser Error".to_owned())?;
        Ok(Self { operator, version, open, minor_open, patch_open })
    }

    fn check(&self, version: &Version) -> bool {
        let bound = &self.version;
        // Pre-releases fit only constraints that name one.
        if !version.pre.is_empty()
            && bound.pre.is_empty()
            && (self.operator != Operator::NotEqual || self.open)
        {
            return false;
        }
        let order = version.compare(bound);
        match self.operator {
            Operator::Equal if self.open => self.tilde(version),
            Operator::Equal => order.is_eq(),
            Operator::NotEqual => self.not_equal(version),
            Operator::Greater if !self.open || version.major != bound.major => {
                if self.open {
                    version.major > bound.major
                } else {
                    order.is_gt()
                }
            }
            Operator::Greater if self.minor_open => false,
            Operator::Greater if self.patch_open => version.minor > bound.minor,
            Operator::Greater => order.is_gt(),
            Operator::Less => order.is_lt(),
            Operator::GreaterEqual => order.is_ge(),
            Operator::LessEqual if self.open => {
                version.major < bound.major
                    || (version.major == bound.major
                        && (version.minor <= bound.minor || self.minor_open))
            }
            Operator::LessEqual => order.is_le(),
            Operator::Tilde => self.tilde(version),
            Operator::Caret => self.caret(version),
        }
    }

    fn not_equal(&self, version: &Version) -> bool {
        let bound = &self.version;
        if self.open {
            if version.major != bound.major || (version.minor != bound.minor && !self.minor_open) {
                return true;
            }
            if self.minor_open {
                return false;
            }
            if version.patch != bound.patch && !self.patch_open {
                return true;
            }
            if self.patch_open {
                return (!version.pre.is_empty() || !bound.pre.is_empty())
                    && compare_pre(&version.pre, &bound.pre).is_ne();
            }
        }
        version.compare(bound).is_ne()
    }

    fn tilde(&self, version: &Version) -> bool {
        let bound = &self.version;
        if version.compare(bound).is_lt() {
            return false;
        }
        let any = (bound.major, bound.minor, bound.patch) == (0, 0, 0)
            && !self.minor_open
            && !self.patch_open;
        any || (version.major == bound.major && (version.minor == bound.minor || self.minor_open))
    }

    fn caret(&self, version: &Version) -> bool {
        let bound = &self.version;
        if version.compare(bound).is_lt() {
            return false;
        }
        if bound.major > 0 || self.minor_open {
            return version.major == bound.major;
        }
        if version.major > 0 {
            return false;
        }
        if bound.minor > 0 || self.patch_open {
            return version.minor == bound.minor;
        }
        version.patch == bound.patch
    }
}
