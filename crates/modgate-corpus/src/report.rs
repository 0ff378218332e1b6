//! The report of a run, for people and for machines.

use std::{
    collections::BTreeMap,
    fmt::{self, Write as _},
};

use modgate_value::Value;

use crate::decision::Decision;

/// The environment variable that names the file to which the tests of the corpora write what they print of their
/// report, for `cargo xtask test`.
pub const VARIABLE: &str = "MODGATE_CORPORA_REPORT";

/// How one case ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The recorded result.
    Passed,
    /// Not the recorded result but the one these decisions prescribe for such an input.
    Differs(Vec<&'static Decision>),
    /// Not run, because it needs upstream's files, which are not here.
    Skipped,
    /// Not run, because the case uses a feature outside of admission policies; the suite names it.
    Exempt,
    /// None of these.
    Failed {
        /// The required result.
        expected: String,
        /// The actual result.
        got: String,
    },
}

impl Verdict {
    /// Passed if `got` is what was `expected`.
    pub fn equal(expected: impl Into<String>, got: impl Into<String>) -> Self {
        let (expected, got) = (expected.into(), got.into());
        if expected == got { Self::Passed } else { Self::Failed { expected, got } }
    }

    /// Compares the results of a case: `original` is what was recorded, `prescribed` what decisions ask for instead
    /// where one applies to the input.
    ///
    /// A decision that applies although the original's own result would do is stale, and fails.
    pub fn check<T>(
        got: &T,
        original: &T,
        prescribed: Option<(Vec<&'static Decision>, T)>,
        same: impl Fn(&T, &T) -> bool,
        show: impl Fn(&T) -> String,
    ) -> Self {
        let Some((decisions, required)) = prescribed else {
            if same(got, original) {
                return Self::Passed;
            }
            return Self::Failed { expected: show(original), got: show(got) };
        };
        let ids: Vec<_> = decisions.iter().map(|decision| decision.id).collect();
        if same(got, original) {
            return Self::Failed {
                expected: format!("{} (by {})", show(&required), ids.join(", ")),
                got: format!("the original's result; is {} stale?", ids.join(", ")),
            };
        }
        if same(got, &required) {
            return Self::Differs(decisions);
        }
        Self::Failed {
            expected: format!("{} (by {})", show(&required), ids.join(", ")),
            got: show(got),
        }
    }
}

/// One case of a file.
#[derive(Debug, Clone)]
pub struct Case {
    /// Its name within its file: an id, or the input itself.
    pub id: String,
    /// How it ended.
    pub verdict: Verdict,
}

/// All cases of one file.
#[derive(Debug, Clone)]
pub struct FileReport {
    /// The file's name below its corpus folder.
    pub name: String,
    /// Its cases in the file's order.
    pub cases: Vec<Case>,
    /// Why the file could not be run to its end, if it could not.
    pub error: Option<String>,
}

impl FileReport {
    /// How many cases passed, differ by decision, and failed.
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for case in &self.cases {
            match &case.verdict {
                Verdict::Passed => counts.passed += 1,
                Verdict::Differs(_) => counts.differing += 1,
                Verdict::Skipped => counts.skipped += 1,
                Verdict::Exempt => counts.exempt += 1,
                Verdict::Failed { .. } => counts.failed += 1,
            }
        }
        counts
    }

    /// For each decision that excused cases here, how many.
    pub fn decisions(&self) -> BTreeMap<&'static str, usize> {
        let mut ids = BTreeMap::new();
        for case in &self.cases {
            if let Verdict::Differs(decisions) = &case.verdict {
                for decision in decisions {
                    *ids.entry(decision.id).or_default() += 1;
                }
            }
        }
        ids
    }
}

/// Numbers of cases by verdict.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// [`Verdict::Passed`].
    pub passed: usize,
    /// [`Verdict::Differs`].
    pub differing: usize,
    /// [`Verdict::Failed`].
    pub failed: usize,
    /// [`Verdict::Skipped`].
    pub skipped: usize,
    /// [`Verdict::Exempt`].
    pub exempt: usize,
}

impl Counts {
    /// All cases.
    pub fn total(self) -> usize {
        self.passed + self.differing + self.failed + self.skipped + self.exempt
    }

    fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.differing += other.differing;
        self.failed += other.failed;
        self.skipped += other.skipped;
        self.exempt += other.exempt;
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (total, Self { passed, differing, failed, .. }) = (self.total(), self);
        write!(
            formatter,
            "corpora: {total} cases, {passed} passed, {differing} differing by decision, {failed} failed"
        )
    }
}

/// The results of a whole run.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// The files that were run.
    pub files: Vec<FileReport>,
    /// How many cases stand in files that are exempt as a whole.
    pub exempt: usize,
    /// Files no suite recognises, each of which fails the run.
    pub unknown: Vec<String>,
}

impl Report {
    /// The sum over all files.
    pub fn counts(&self) -> Counts {
        let mut sum = Counts::default();
        for file in &self.files {
            sum.add(file.counts());
        }
        sum
    }

    /// Whether every case passed or differs by decision and every file was recognised.
    pub fn is_success(&self) -> bool {
        self.unknown.is_empty()
            && self.counts().failed == 0
            && self.files.iter().all(|file| file.error.is_none())
    }

    /// The table people read; with `verbose` each failing case with what was expected and what
    /// came out.
    pub fn table(&self, verbose: bool) -> String {
        let mut out = String::new();
        let width = self.files.iter().map(|file| file.name.len()).max().unwrap_or(0).max(5);
        let heading = ["cases", "passed", "differing", "failed"];
        let [cases, passed, differing, failed] = heading;
        line(&mut out, format_args!("{:width$}  {cases}  {passed}  {differing}  {failed}", "file"));
        for file in &self.files {
            row(&mut out, &file.name, width, file.counts());
            let ids: Vec<_> =
                file.decisions().iter().map(|(id, count)| format!("{id}\u{d7}{count}")).collect();
            if !ids.is_empty() {
                line(&mut out, format_args!("{:width$}  by {}", "", ids.join(" ")));
            }
            if let Some(error) = &file.error {
                line(&mut out, format_args!("{:width$}  error: {error}", ""));
            }
            if verbose {
                failures(&mut out, file);
            }
        }
        row(&mut out, "total", width, self.counts());
        if self.exempt > 0 {
            line(
                &mut out,
                format_args!("exempt: {} cases in files of other products", self.exempt),
            );
        }
        for name in &self.unknown {
            line(&mut out, format_args!("unknown file: {name}"));
        }
        out
    }

    /// The same for machines: `files`, `total`, `unknown`, `success`.
    pub fn to_json(&self) -> Value {
        let files = self.files.iter().map(file_json).collect::<Value>();
        object([
            ("files", files),
            ("total", counts_json(self.counts())),
            ("unknown", self.unknown.iter().map(|name| Value::from(name.as_str())).collect()),
            ("success", self.is_success().into()),
        ])
    }
}

fn row(out: &mut String, name: &str, width: usize, counts: Counts) {
    let Counts { passed, differing, failed, skipped, exempt } = counts;
    let total = counts.total();
    line(out, format_args!("{name:width$}  {total:5}  {passed:6}  {differing:9}  {failed:6}"));
    if skipped > 0 {
        line(out, format_args!("{:width$}  {skipped} skipped: upstream's files are not here", ""));
    }
    if exempt > 0 {
        line(out, format_args!("{:width$}  {exempt} exempt", ""));
    }
}

fn failures(out: &mut String, file: &FileReport) {
    for case in &file.cases {
        if let Verdict::Failed { expected, got } = &case.verdict {
            line(out, format_args!("  FAILED {}", case.id));
            line(out, format_args!("    expected {expected}"));
            line(out, format_args!("    got      {got}"));
        }
    }
}

fn line(out: &mut String, text: fmt::Arguments<'_>) {
    // Writing to a `String` cannot fail.
    let _ = writeln!(out, "{text}");
}

fn file_json(file: &FileReport) -> Value {
    let failed = file.cases.iter().filter_map(|case| match &case.verdict {
        Verdict::Failed { expected, got } => Some(object([
            ("id", case.id.as_str().into()),
            ("expected", expected.as_str().into()),
            ("got", got.as_str().into()),
        ])),
        _ => None,
    });
    let decisions = file.decisions().into_iter().map(|(id, cases)| (id, count(cases)));
    object([
        ("name", file.name.as_str().into()),
        ("counts", counts_json(file.counts())),
        ("decisions", decisions.collect()),
        ("failures", failed.collect()),
        ("error", file.error.as_deref().map(Value::from).unwrap_or_default()),
    ])
}

fn counts_json(counts: Counts) -> Value {
    object([
        ("cases", count(counts.total())),
        ("passed", count(counts.passed)),
        ("differing", count(counts.differing)),
        ("failed", count(counts.failed)),
        ("skipped", count(counts.skipped)),
        ("exempt", count(counts.exempt)),
    ])
}

fn count(number: usize) -> Value {
    Value::from(i64::try_from(number).unwrap_or(i64::MAX))
}

fn object<const N: usize>(members: [(&str, Value); N]) -> Value {
    members.into_iter().collect()
}
