//! The findings of the last audit, in one file: JSON, a line for each violation.
//!
//! The file is there as a whole or not at all: an audit writes beside it and takes its place when it
//! is complete, so that readers always read one audit. Its last line says how many violations
//! there are, and how many were left out because the file would have become too large.

use std::{
    ffi::OsString,
    fs::{self, File},
    io::{self, BufWriter, Write as _},
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

use modgate_audit::{Sink, Violation};

use super::{LOGGER, disk::sync_folder, message};

/// Where the violations of the last audit are written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ViolationsFileConfig {
    /// The file. Its folder must be there, and writable.
    pub path: PathBuf,
    /// How large it may become, in bytes; what does not fit is counted.
    pub max_bytes: u64,
}

/// Room for the last line.
const CLOSING: u64 = 256;

/// Writes the violations of audits to a file.
#[derive(Debug)]
pub struct ViolationsFile {
    config: ViolationsFileConfig,
    open: Mutex<Option<Open>>,
}

/// An audit under way.
#[derive(Debug)]
struct Open {
    file: BufWriter<File>,
    bytes: u64,
    violations: u64,
    left_out: u64,
}

impl ViolationsFile {
    /// Writes as `config` says, once there are violations.
    pub fn new(config: ViolationsFileConfig) -> Self {
        Self { config, open: Mutex::default() }
    }

    /// The temporary file that then replaces the file.
    fn unfinished(&self) -> PathBuf {
        let mut name = OsString::from(&self.config.path);
        name.push(".part");
        name.into()
    }

    fn complete(&self, audit: &str, mut open: Open) -> io::Result<()> {
        let last = message::closing(audit, open.violations, open.left_out);
        open.file.write_all(format!("{last}\n").as_bytes())?;
        let file = open.file.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.sync_all()?;
        fs::rename(self.unfinished(), &self.config.path)?;
        sync_folder(self.config.path.parent().unwrap_or_else(|| Path::new(".")));
        Ok(())
    }

    fn failed(&self, error: &io::Error) {
        let path = self.config.path.display();
        tracing::error!(target: LOGGER, process = "audit", path = %path, %error,
            "violations cannot be written; the file stays as it was");
    }

    fn open(&self) -> MutexGuard<'_, Option<Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    fn write(&mut self, line: &str, max_bytes: u64) -> io::Result<()> {
        self.violations += 1;
        let length = u64::try_from(line.len()).unwrap_or(u64::MAX).saturating_add(1);
        if self.bytes.saturating_add(length).saturating_add(CLOSING) > max_bytes {
            self.left_out += 1;
            return Ok(());
        }
        self.bytes += length;
        self.file.write_all(line.as_bytes())?;
        self.file.write_all(b"\n")
    }
}

impl Sink for ViolationsFile {
    fn started(&self, _: &str) {
        // What an audit that was interrupted still had to write goes nowhere.
        drop(self.open().take().map(|open| open.file.into_parts()));
        let new = |file| Open { file: BufWriter::new(file), bytes: 0, violations: 0, left_out: 0 };
        let opened = File::create(self.unfinished()).map(new);
        *self.open() = opened.map_err(|error| self.failed(&error)).ok();
    }

    fn violation(&self, audit: &str, violation: &Violation) {
        let mut open = self.open();
        let Some(file) = &mut *open else { return };
        let line = message::of_audit(audit, violation);
        if let Err(error) = file.write(&line.json, self.config.max_bytes) {
            *open = None;
            self.failed(&error);
        }
    }

    fn finished(&self, audit: &str) {
        let Some(open) = self.open().take() else { return };
        let left_out = open.left_out;
        if let Err(error) = self.complete(audit, open) {
            return self.failed(&error);
        }
        if left_out > 0 {
            let path = self.config.path.display();
            tracing::warn!(target: LOGGER, process = "audit", audit_id = audit, path = %path, left_out,
                "the file of violations has no room for all of them");
        }
    }
}

#[cfg(test)]
mod tests {
    use modgate_value::Value;

    use super::*;
    use crate::message::tests::violation;
    use modgate_telemetry::capture;

    const POD: &str = r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p",
        "namespace": "n", "uid": "u"}}"#;
    const SECRET: &str = r#"{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}"#;

    fn lines(path: &Path) -> Vec<Value> {
        let text = fs::read_to_string(path).expect("read");
        text.lines().map(|line| Value::from_json(line.as_bytes()).expect(line)).collect()
    }

    fn of(folder: &Path, max_bytes: u64) -> ViolationsFile {
        let path = folder.join("violations.jsonl");
        ViolationsFile::new(ViolationsFileConfig { path, max_bytes })
    }

    #[test]
    fn the_last_complete_audit_is_there() {
        let folder = tempfile::tempdir().expect("folder");
        let file = of(folder.path(), 1 << 20);
        let path = &file.config.path;
        file.started("one");
        file.violation("one", &violation(POD));
        file.violation("one", &violation(SECRET));
        assert!(!path.exists(), "it is not complete");
        file.finished("one");
        let found = lines(path);
        assert_eq!(found.len(), 3);
        let id = found[0].get("violationId").and_then(Value::as_str);
        assert_eq!(id, Some(violation(POD).id("one").as_str()));
        assert!(!found[1].to_json().contains("s3cret"), "{}", found[1]);
        let expected = r#"{"id":"one","leftOut":0,"message":"audit is completed","violations":2}"#;
        assert_eq!(found[2].to_json(), expected);

        // What is interrupted changes nothing, and is started over.
        file.started("two");
        file.violation("two", &violation(POD));
        assert_eq!(lines(path), found);
        file.started("three");
        file.finished("three");
        assert_eq!(lines(path).len(), 1);
        let left = fs::read_dir(folder.path()).expect("folder").count();
        assert_eq!(left, 1, "nothing is left beside it");
    }

    #[test]
    fn it_never_becomes_too_large() {
        let folder = tempfile::tempdir().expect("folder");
        let file = of(folder.path(), 2_000);
        let logged = capture(|| {
            file.started("run");
            (0..100).for_each(|_| file.violation("run", &violation(POD)));
            file.finished("run");
        });
        let size = fs::metadata(&file.config.path).expect("there").len();
        assert!((1_000..=2_000).contains(&size), "{size}");
        let found = lines(&file.config.path);
        let last = found.last().expect("a last line");
        let count = |key: &str| last.get(key).and_then(Value::as_i64).expect("a number");
        assert_eq!(count("violations"), 100);
        assert_eq!(count("leftOut"), 101 - i64::try_from(found.len()).expect("few"));
        assert!(logged.contains("has no room for all of them"), "{logged}");
    }

    #[test]
    fn failures_to_write_are_reported_once() {
        let folder = tempfile::tempdir().expect("folder");
        let file = of(&folder.path().join("missing"), 1 << 20);
        let logged = capture(|| {
            file.started("run");
            (0..3).for_each(|_| file.violation("run", &violation(POD)));
            file.finished("run");
        });
        assert_eq!(logged.lines().count(), 1, "{logged}");
        assert!(logged.contains("violations cannot be written"), "{logged}");
    }
}
