//! The reports of commands.

use std::fmt;

use modgate_value::diag::{Diagnostic, Severity};
use sha2::{Digest as _, Sha256};

/// How bad a finding is, the worst last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Worth knowing; a constraint with `dryrun`.
    Note,
    /// Probably wrong; a constraint with `warn`.
    Warning,
    /// Wrong: a denial, or a policy that does not load.
    Error,
}

impl Level {
    /// `note`, `warning` or `error`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl From<Severity> for Level {
    fn from(severity: Severity) -> Self {
        match severity {
            Severity::Note => Self::Note,
            Severity::Warning => Self::Warning,
            Severity::Error => Self::Error,
        }
    }
}

/// The kind of rule that made a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RuleKind {
    /// modgate itself: the code of a warning about a policy, or an error of a policy.
    Code,
    /// A policy, which has findings on objects.
    Policy,
    /// A test of a suite: its findings are failed cases.
    Test,
}

impl RuleKind {
    /// `code`, `policy` or `test`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Code => "code",
            Self::Policy => "policy",
            Self::Test => "test",
        }
    }
}

/// The rules of findings without a code.
const PLAIN: [&str; 2] = ["error", "warning"];

/// The rule that a finding violates. Empty texts are unknown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// Its identifier: a code such as `never-matches`, or `Kind/name` or `Kind/namespace/name` of
    /// a policy.
    pub id: String,
    /// The kind of the rule.
    pub kind: RuleKind,
    /// Its title, one line.
    pub title: String,
    /// Its description, in sentences.
    pub description: String,
    /// The address of a page about it.
    pub help_uri: String,
    /// How bad its findings are unless they differ.
    pub level: Level,
    /// The owner of the policy.
    pub owner: String,
    /// The remediation of its findings.
    pub remediation: String,
}

impl Rule {
    /// A rule of which only the id is known.
    pub fn new(id: impl Into<String>, kind: RuleKind) -> Self {
        Self {
            id: id.into(),
            kind,
            title: String::new(),
            description: String::new(),
            help_uri: String::new(),
            level: Level::Error,
            owner: String::new(),
            remediation: String::new(),
        }
    }

    /// A policy, of which only `Kind/name` or `Kind/namespace/name` is known.
    pub fn policy(id: impl Into<String>) -> Self {
        Self::new(id, RuleKind::Policy)
    }

    /// The title, or the id where there is none.
    pub(crate) fn name(&self) -> &str {
        if self.title.is_empty() { &self.id } else { &self.title }
    }
}

/// A place in a file. Lines and columns count from 1, columns in characters; 0 is unknown.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The path, as the user or the tool that generated the object named it.
    pub file: String,
    /// The first line.
    pub line: u32,
    /// The column in it.
    pub column: u32,
    /// The last line.
    pub end_line: u32,
    /// The column after the last character.
    pub end_column: u32,
}

impl Place {
    /// A place whose end is not known.
    pub fn at(file: impl Into<String>, line: u32, column: u32) -> Self {
        Self { file: file.into(), line, column, ..Self::default() }
    }
}

impl fmt::Display for Place {
    /// `file:line:column`, as far as they are known.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        for number in [self.line, self.column] {
            if number == 0 {
                break;
            }
            write!(f, ":{number}")?;
        }
        Ok(())
    }
}

/// The object of a finding. Empty texts are unknown.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Object {
    /// Its API group; empty for the core group.
    pub group: String,
    /// The version of its API.
    pub version: String,
    /// Its kind.
    pub kind: String,
    /// Empty for cluster-scoped objects.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its `generateName`, which stands for the name of an object without one.
    pub generate_name: String,
}

impl Object {
    /// Its kind, namespace and name, for fingerprints.
    fn identity(&self) -> String {
        let Self { kind, namespace, name, .. } = self;
        let namespace = if namespace.is_empty() { "" } else { &format!("{namespace}/") };
        format!("{kind} {namespace}{name}")
    }
}

impl fmt::Display for Object {
    /// `Deployment shop/web`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&title(&self.kind, &self.namespace, &self.name, &self.generate_name))
    }
}

/// `Deployment shop/web`: an object, for people. Without a name it has its `generateName`.
pub fn title(kind: &str, namespace: &str, name: &str, generate_name: &str) -> String {
    let name = match (name, generate_name) {
        ("", "") => "(unnamed)",
        ("", generate_name) => generate_name,
        (name, _) => name,
    };
    match namespace {
        "" => format!("{kind} {name}"),
        namespace => format!("{kind} {namespace}/{name}"),
    }
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The number of its rule in [`Report::rules`].
    pub rule: usize,
    /// How bad it is.
    pub level: Level,
    /// The message, without a final line break.
    pub message: String,
    /// Where the mistake is, if that is known.
    pub place: Option<Place>,
    /// The path of the field at fault, such as `spec.replicas`; may be empty.
    pub field: String,
    /// The object of the finding.
    pub object: Option<Object>,
    /// The policy's action, such as `deny`; empty for findings about policies.
    pub action: String,
    /// The remediation of this finding; empty where the rule has it.
    pub remediation: String,
    /// Its fingerprint, the same from one run to the next; computed where it is empty.
    pub fingerprint: String,
}

impl Finding {
    /// A finding without a place.
    pub fn new(rule: usize, level: Level, message: impl Into<String>) -> Self {
        Self {
            rule,
            level,
            message: message.into(),
            place: None,
            field: String::new(),
            object: None,
            action: String::new(),
            remediation: String::new(),
            fingerprint: String::new(),
        }
    }

    /// Sets the place.
    #[must_use]
    pub fn at(mut self, place: Place) -> Self {
        self.place = Some(place);
        self
    }

    /// Sets the object.
    #[must_use]
    pub fn about(mut self, object: Object) -> Self {
        self.object = Some(object);
        self
    }
}

/// A check without findings, which formats of tests list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Passed {
    /// The number of its rule in [`Report::rules`].
    pub rule: usize,
    /// A passed object or case.
    pub name: String,
}

/// The result of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The version of modgate.
    pub version: String,
    /// The checked rules. A rule need not have findings.
    pub rules: Vec<Rule>,
    /// Everything that was found, in the order in which it is reported.
    pub findings: Vec<Finding>,
    /// The passed objects and cases.
    pub passed: Vec<Passed>,
    /// The lowest level of what fails the command; JUnit skips what is below.
    pub fails_from: Level,
    /// Whether the command could read and evaluate everything. If not, more may be wrong.
    pub complete: bool,
    /// The start of the addresses of pages about codes, to which the code is appended; may be empty.
    pub help_base: String,
}

impl Report {
    /// Nothing found yet, by this version of modgate.
    pub fn new(version: impl Into<String>) -> Self {
        Self {
            version: version.into(),
            rules: Vec::new(),
            findings: Vec::new(),
            passed: Vec::new(),
            fails_from: Level::Error,
            complete: true,
            help_base: String::new(),
        }
    }

    /// The address of a page about a rule; empty if none is known.
    pub(crate) fn help_uri(&self, rule: &Rule) -> String {
        let is_code = rule.kind == RuleKind::Code && !PLAIN.contains(&rule.id.as_str());
        match rule.help_uri.as_str() {
            "" if is_code && !self.help_base.is_empty() => format!("{}{}", self.help_base, rule.id),
            known => known.to_owned(),
        }
    }

    /// The number of a rule, which is added unless one with its id is there.
    pub fn rule(&mut self, rule: Rule) -> usize {
        match self.rules.iter().position(|known| known.id == rule.id) {
            Some(index) => index,
            None => {
                self.rules.push(rule);
                self.rules.len() - 1
            }
        }
    }

    /// Adds a finding about a policy or a file. One without a code has the rule `error`.
    pub fn diagnostic(&mut self, diagnostic: &Diagnostic) {
        let level = diagnostic.severity.into();
        let [error, warning] = PLAIN;
        let id = diagnostic.code.unwrap_or(if level == Level::Error { error } else { warning });
        let rule = self.rule(Rule { level, ..Rule::new(id, RuleKind::Code) });
        let mut finding = Finding::new(rule, level, diagnostic.message.as_str());
        finding.remediation = diagnostic.help.clone().unwrap_or_default();
        finding.place = diagnostic.source.as_ref().filter(|it| !it.name.is_empty()).map(|source| {
            let start = source.location(diagnostic.span.start);
            let end = source.location(diagnostic.span.end.max(diagnostic.span.start));
            let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
            Place {
                file: source.name.to_string(),
                line: number(start.line),
                column: number(start.column),
                end_line: number(end.line),
                end_column: number(end.column),
            }
        });
        self.findings.push(finding);
    }

    /// The worst level of the findings; none without findings.
    pub fn worst(&self) -> Option<Level> {
        self.findings.iter().map(|finding| finding.level).max()
    }

    /// How many findings there are of a level.
    pub fn count(&self, level: Level) -> usize {
        self.findings.iter().filter(|finding| finding.level == level).count()
    }

    /// The findings with their rules.
    pub fn with_rules(&self) -> impl Iterator<Item = (&Finding, &Rule)> {
        let rules = &self.rules;
        self.findings.iter().filter_map(move |finding| Some((finding, rules.get(finding.rule)?)))
    }

    /// The remediation of a finding: its own, else that of its rule.
    pub fn remediation<'r>(&'r self, finding: &'r Finding) -> &'r str {
        match self.rules.get(finding.rule) {
            Some(rule) if finding.remediation.is_empty() => &rule.remediation,
            _ => &finding.remediation,
        }
    }

    /// For each finding what identifies it, 32 hexadecimal digits, each different from the others. It
    /// does not depend on lines, so that a finding keeps it while the file changes elsewhere.
    pub(crate) fn fingerprints(&self) -> Vec<String> {
        let mut seen = std::collections::BTreeMap::<String, u32>::new();
        let identified = self.with_rules().map(|(finding, rule)| {
            let file = finding.place.as_ref().map_or("", |place| place.file.as_str());
            let base = match &finding.object {
                _ if !finding.fingerprint.is_empty() => digest([finding.fingerprint.as_str()]),
                Some(object) => digest([&rule.id, &object.identity(), &finding.message]),
                None => digest([&rule.id, file, &finding.message]),
            };
            let count = seen.entry(base.clone()).or_default();
            *count += 1;
            match *count {
                1 => base,
                count => digest([base.as_str(), &count.to_string()]),
            }
        });
        identified.collect()
    }
}

fn digest<const N: usize>(parts: [&str; N]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        // Lengths keep `ab`, `c` from being `a`, `bc`.
        hash.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_le_bytes());
        hash.update(part);
    }
    hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}
