//! The formats by name.

use std::{fmt, str::FromStr};

use modgate_value::near;

use crate::{Report, document, github, gitlab, junit, markdown, sarif, text};

/// A format of reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Format {
    /// A line for each finding, for people.
    Text,
    /// A JSON document.
    Json,
    /// The same document in YAML.
    Yaml,
    /// A JSON object on a line for each finding.
    Jsonl,
    /// Workflow commands of GitHub Actions, which annotate the files of a pull request.
    Github,
    /// A Code Quality report of GitLab.
    Gitlab,
    /// SARIF 2.1.0, for code scanning.
    Sarif,
    /// JUnit XML, for build servers.
    Junit,
    /// Tables in Markdown, for job summaries and comments.
    Markdown,
}

impl Format {
    /// All of them, in the order in which they are listed.
    pub const ALL: &'static [Self] = &[
        Self::Text,
        Self::Json,
        Self::Yaml,
        Self::Jsonl,
        Self::Github,
        Self::Gitlab,
        Self::Sarif,
        Self::Junit,
        Self::Markdown,
    ];

    /// Its name on command lines.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Json => "json",
            Self::Yaml => "yaml",
            Self::Jsonl => "jsonl",
            Self::Github => "github",
            Self::Gitlab => "gitlab",
            Self::Sarif => "sarif",
            Self::Junit => "junit",
            Self::Markdown => "markdown",
        }
    }

    /// Its description, for help.
    pub const fn description(self) -> &'static str {
        match self {
            Self::Text => "lines for people",
            Self::Json => "a JSON document",
            Self::Yaml => "the same document in YAML",
            Self::Jsonl => "a JSON object for each finding, one per line",
            Self::Github => "annotations of GitHub Actions",
            Self::Gitlab => "a Code Quality report of GitLab",
            Self::Sarif => "SARIF 2.1.0, for code scanning",
            Self::Junit => "JUnit XML, for build servers",
            Self::Markdown => "Markdown, for job summaries and comments",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A name that is none of a format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownFormat(String);

impl fmt::Display for UnknownFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = Format::ALL.iter().map(|format| format.as_str()).collect();
        let help = near::did_you_mean_or(&self.0, &names, "the formats are");
        write!(f, "unknown output format `{}`; {help}", self.0)
    }
}

impl std::error::Error for UnknownFormat {}

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(name: &str) -> Result<Self, UnknownFormat> {
        let found = Self::ALL.iter().copied().find(|format| format.as_str() == name);
        found.ok_or_else(|| UnknownFormat(name.to_owned()))
    }
}

/// The report in a format. The text ends with a line break unless it is empty.
pub fn write(report: &Report, format: Format) -> String {
    match format {
        Format::Text => text::write(report),
        Format::Json => document::json(report),
        Format::Yaml => document::yaml(report),
        Format::Jsonl => document::jsonl(report),
        Format::Github => github::write(report),
        Format::Gitlab => gitlab::write(report),
        Format::Sarif => sarif::write(report),
        Format::Junit => junit::write(report),
        Format::Markdown => markdown::write(report),
    }
}
