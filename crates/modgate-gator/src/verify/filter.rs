//! `--run`: which tests and cases.

use modgate_value::regex::{self, GoRegex};

use super::suite::Test;

/// Decides which tests and cases are run.
#[derive(Debug)]
pub enum Filter {
    /// All.
    All,
    /// Tests and cases of that name, cases of tests of that name, tests with cases of that name.
    Either(GoRegex),
    /// Both names must match.
    Both {
        /// The test's.
        test: GoRegex,
        /// The case's.
        case: GoRegex,
    },
}

/// Why a filter cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadFilter {
    /// More than one `//`.
    #[error("invalid test filter: a filter may include at most one \"//\"")]
    Separators,
    /// Not a regular expression.
    #[error("invalid test filter: {0}")]
    Pattern(#[from] regex::Error),
}

impl Filter {
    /// Reads `pattern` or `test//case`; empty means all.
    ///
    /// # Errors
    ///
    /// When there are too many parts, or one is no regular expression.
    pub fn new(text: &str) -> Result<Self, BadFilter> {
        let mut parts = text.split("//");
        Ok(match (parts.next(), parts.next(), parts.next()) {
            (_, _, Some(_)) => return Err(BadFilter::Separators),
            (Some(test), Some(case), None) => {
                Self::Both { test: GoRegex::new(test)?, case: GoRegex::new(case)? }
            }
            _ if text.is_empty() => Self::All,
            _ => Self::Either(GoRegex::new(text)?),
        })
    }

    /// Whether a test is run.
    pub fn matches_test(&self, test: &Test) -> bool {
        match self {
            Self::All => true,
            Self::Either(pattern) => {
                pattern.is_match(&test.name)
                    || test.cases.iter().any(|case| pattern.is_match(&case.name))
            }
            Self::Both { test: pattern, .. } => pattern.is_match(&test.name),
        }
    }

    /// Whether a case of a test is run.
    pub fn matches_case(&self, test: &str, case: &str) -> bool {
        match self {
            Self::All => true,
            Self::Either(pattern) => pattern.is_match(test) || pattern.is_match(case),
            Self::Both { test: in_test, case: in_case } => {
                in_test.is_match(test) && in_case.is_match(case)
            }
        }
    }
}
