//! Violations of audits in files: one per audit, each line once (XP-3).
//!
//! A file is `<audit>.txt` while its audit runs, and locked by the process that writes it; complete,
//! it becomes `<audit>.log`. Lines are written as they come, so that those of an audit that was
//! interrupted are there for the one that begins again under its name.

use std::{
    collections::BTreeSet,
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _},
    path::{Component, Path, PathBuf},
    time::SystemTime,
};

use modgate_value::{Value, gotime};

use super::{Line, message};

/// Files of audits that are running, or were interrupted.
const OPEN: &str = "txt";
/// Files of audits that are complete.
const DONE: &str = "log";

/// What the files of requests begin with ([`spool`](super::spool)).
pub(super) const REQUESTS: &str = "admission-";

/// Longer lines were not written by us.
const MAX_LINE: u64 = 1 << 20;

const MAX_AUDITS: i64 = 5;
const SECOND: i64 = 1_000_000_000;

/// `spec.config` of a Connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DiskConfig {
    pub(super) path: PathBuf,
    pub(super) max_audit_results: usize,
}

impl DiskConfig {
    /// What is said, or what is wrong with it.
    pub(super) fn of(config: &Value) -> Result<Self, String> {
        if config.as_object().is_none() {
            return Err("invalid config format, expected map[string]interface{}".to_owned());
        }
        let path = config.get("path").and_then(Value::as_str);
        let path = folder(path.ok_or("missing or invalid 'path'")?)
            .map_err(|reason| format!("invalid path: {reason}"))?;
        let most = config.get("maxAuditResults").filter(|most| most.type_name() == "number");
        let most = most.ok_or("missing or invalid 'maxAuditResults'")?;
        if most.to_json().starts_with('-') {
            return Err("maxAuditResults cannot be negative".to_owned());
        }
        let most = most.as_i64().ok_or("maxAuditResults must be an integer")?;
        if most > MAX_AUDITS {
            return Err(format!(
                "maxAuditResults cannot be greater than the maximum allowed audit runs: \
                 {MAX_AUDITS}"
            ));
        }
        // Nothing of a connection is left open to be closed later, but it is held to its bounds.
        if let Some(time) = config.get("closedConnectionTTL") {
            let text = time.as_str().ok_or("invalid ttl format: expected string")?;
            let time = gotime::Duration::parse(text)
                .map_err(|reason| format!("invalid ttl format: {reason}"))?;
            if time.0 > 600 * SECOND {
                return Err(format!("closedConnectionTTL {time} exceeds maximum allowed: 10m0s"));
            }
            if time.0 < 60 * SECOND {
                let reason = "is too short, must be at least 1 minute";
                return Err(format!("closedConnectionTTL {time} {reason}"));
            }
        }
        Ok(Self { path, max_audit_results: usize::try_from(most).unwrap_or_default() })
    }
}

fn folder(path: &str) -> Result<PathBuf, &'static str> {
    if path.is_empty() {
        return Err("path cannot be empty");
    }
    let mut clean = PathBuf::new();
    for component in Path::new(path).components() {
        match component {
            Component::ParentDir => {
                return Err("path must not contain '..', dir traversal is not allowed");
            }
            Component::CurDir => {}
            component => clean.push(component),
        }
    }
    match clean.components().next_back() {
        None => Err("path must not resolve to the current working directory"),
        Some(Component::Normal(_)) => Ok(clean),
        Some(_) => Err("path must not be filesystem root"),
    }
}

/// Whether `text` can be the name of a file or folder.
pub(super) fn segment(what: &str, text: &str) -> Result<(), String> {
    if text.is_empty() {
        return Err(format!("{what} cannot be empty"));
    }
    if matches!(text, "." | "..") || text.contains(['/', '\\', '\0']) {
        return Err(format!("{what} must be a single path segment"));
    }
    Ok(())
}

/// Why nothing was written.
#[derive(Debug, thiserror::Error)]
pub(super) enum DiskError {
    #[error("cannot {what} `{}`: {source}", path.display())]
    Io { what: &'static str, path: PathBuf, source: io::Error },
    #[error("`{}` is being written by another process", .0.display())]
    Locked(PathBuf),
    #[error("failed to write violation: no file provided")]
    NotStarted,
    #[error("{0}")]
    Name(String),
}

fn error(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> DiskError {
    let path = path.to_owned();
    move |source| DiskError::Io { what, path, source }
}

/// The files of the audits of one channel.
#[derive(Debug)]
pub(crate) struct Disk {
    folder: PathBuf,
    max_results: usize,
    run: Option<Run>,
}

/// An audit under way.
#[derive(Debug)]
struct Run {
    file: File,
    path: PathBuf,
    /// What was written before this process took over.
    known: BTreeSet<u128>,
}

impl Disk {
    pub(super) fn new(folder: PathBuf, max_results: usize) -> Self {
        Self { folder, max_results, run: None }
    }

    /// Opens the file of an audit, and goes on where the last process stopped.
    pub(super) fn start(&mut self, audit: &str) -> Result<(), DiskError> {
        self.run = None;
        let name = audit.replace(':', "_");
        segment("audit ID", &name).map_err(DiskError::Name)?;
        fs::create_dir_all(&self.folder).map_err(error("make", &self.folder))?;
        let path = self.folder.join(format!("{name}.{OPEN}"));
        self.put_away_others(&path);
        // It was complete, and is told again.
        let done = path.with_extension(DONE);
        if done.exists() && !path.exists() {
            fs::rename(&done, &path).map_err(error("rename", &done))?;
        }
        let (mut file, known) = open(&path)?;
        if known.lines == 0 {
            let line = message::frame(audit, message::STARTED);
            file.write_all(format!("{line}\n").as_bytes()).map_err(error("write", &path))?;
        }
        self.run = Some(Run { file, path, known: known.ids });
        Ok(())
    }

    /// Writes a line, unless it stands there already.
    pub(super) fn write(&mut self, line: &Line) -> Result<(), DiskError> {
        let run = self.run.as_mut().ok_or(DiskError::NotStarted)?;
        if run.known.contains(&line.id) {
            return Ok(());
        }
        let text = format!("{}\n", line.json);
        if let Err(source) = run.file.write_all(text.as_bytes()) {
            // Half a line must not become the beginning of the next; what it said comes again.
            let path = run.path.clone();
            match open(&path) {
                Ok((file, known)) => *run = Run { file, path: path.clone(), known: known.ids },
                Err(_) => self.run = None,
            }
            return Err(DiskError::Io { what: "write", path, source });
        }
        Ok(())
    }

    /// Completes the file, and removes those that are too many.
    pub(super) fn finish(&mut self, audit: &str) -> Result<(), DiskError> {
        let Run { mut file, path, .. } = self.run.take().ok_or(DiskError::NotStarted)?;
        let line = message::frame(audit, message::COMPLETED);
        file.write_all(format!("{line}\n").as_bytes()).map_err(error("write", &path))?;
        file.sync_all().map_err(error("write", &path))?;
        let done = path.with_extension(DONE);
        fs::rename(&path, &done).map_err(error("rename", &path))?;
        sync_folder(&self.folder);
        self.remove_oldest()
    }

    /// Closes what another audit left, as nobody will go on with it.
    fn put_away_others(&self, but: &Path) {
        for path in files(&self.folder, OPEN) {
            if path == *but {
                continue;
            }
            // Locked files are another process's.
            match open(&path) {
                Ok((file, _)) => {
                    let _ = fs::rename(&path, path.with_extension(DONE));
                    drop(file);
                }
                Err(reason) => {
                    tracing::debug!(target: super::LOGGER, %reason, "left as it is");
                }
            }
        }
    }

    fn remove_oldest(&self) -> Result<(), DiskError> {
        let mut done: Vec<(SystemTime, PathBuf)> = files(&self.folder, DONE)
            .into_iter()
            .filter(|path| !name(path).starts_with(REQUESTS))
            .map(|path| (modified(&path), path))
            .collect();
        done.sort();
        let excess = done.len().saturating_sub(self.max_results);
        for (_, path) in done.into_iter().take(excess) {
            fs::remove_file(&path).map_err(error("remove", &path))?;
        }
        Ok(())
    }
}

/// What a file says already.
#[derive(Debug, Default)]
struct Known {
    lines: usize,
    ids: BTreeSet<u128>,
}

/// Opens and locks a file, cuts off a line that is not complete or that says the audit is, and reads
/// what is left.
fn open(path: &Path) -> Result<(File, Known), DiskError> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    let mut file = options.open(path).map_err(error("open", path))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(DiskError::Locked(path.to_owned())),
        Err(TryLockError::Error(source)) => {
            return Err(DiskError::Io { what: "lock", path: path.to_owned(), source });
        }
    }
    let mut known = Known::default();
    let mut end = 0_u64;
    let mut reader = BufReader::new(&file);
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = reader.by_ref().take(MAX_LINE).read_until(b'\n', &mut line);
        let read = read.map_err(error("read", path))?;
        if line.last() != Some(&b'\n') {
            break;
        }
        let told = Value::from_json(&line).unwrap_or_default();
        let text = |key: &str| told.get(key).and_then(Value::as_str);
        match text(message::ID).and_then(|id| u128::from_str_radix(id, 16).ok()) {
            Some(id) => drop(known.ids.insert(id)),
            None if text("message") == Some(message::COMPLETED) => break,
            None => {}
        }
        known.lines += 1;
        end += u64::try_from(read).unwrap_or_default();
    }
    drop(reader);
    file.set_len(end).map_err(error("write", path))?;
    file.seek(SeekFrom::Start(end)).map_err(error("write", path))?;
    Ok((file, known))
}

/// Files with an extension.
pub(super) fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    paths.filter(|path| path.extension().is_some_and(|found| found == extension)).collect()
}

pub(super) fn name(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
}

pub(super) fn modified(path: &Path) -> SystemTime {
    let modified = fs::metadata(path).and_then(|metadata| metadata.modified());
    modified.unwrap_or(SystemTime::UNIX_EPOCH)
}

/// Makes renames survive a crash of the machine, where the system can.
pub(super) fn sync_folder(folder: &Path) {
    if let Ok(folder) = File::open(folder) {
        let _ = folder.sync_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(id: u128) -> Line {
        Line { id, json: format!(r#"{{"violationId":"{id:032x}"}}"#) }
    }

    fn read(path: &Path) -> Vec<String> {
        fs::read_to_string(path).expect("read").lines().map(str::to_owned).collect()
    }

    #[test]
    fn configurations() {
        let check = |json: &str, expected: &str| {
            let config = Value::from_json(json.as_bytes()).expect(json);
            let found = match DiskConfig::of(&config) {
                Ok(config) => format!("{} {}", config.path.display(), config.max_audit_results),
                Err(reason) => reason,
            };
            assert_eq!(found, expected, "{json}");
        };
        check(r#"{"path": "/tmp/violations/", "maxAuditResults": 3}"#, "/tmp/violations 3");
        check(r#"{"path": "a/./b", "maxAuditResults": 0}"#, "a/b 0");
        check("[]", "invalid config format, expected map[string]interface{}");
        check(r#"{"maxAuditResults": 3}"#, "missing or invalid 'path'");
        check(r#"{"path": "", "maxAuditResults": 3}"#, "invalid path: path cannot be empty");
        check(
            r#"{"path": "/a/../b", "maxAuditResults": 3}"#,
            "invalid path: path must not contain '..', dir traversal is not allowed",
        );
        check(
            r#"{"path": "/", "maxAuditResults": 3}"#,
            "invalid path: path must not be filesystem root",
        );
        check(
            r#"{"path": "./", "maxAuditResults": 3}"#,
            "invalid path: path must not resolve to the current working directory",
        );
        check(r#"{"path": "/a"}"#, "missing or invalid 'maxAuditResults'");
        check(r#"{"path": "/a", "maxAuditResults": -1}"#, "maxAuditResults cannot be negative");
        check(r#"{"path": "/a", "maxAuditResults": 1.5}"#, "maxAuditResults must be an integer");
        check(
            r#"{"path": "/a", "maxAuditResults": 6}"#,
            "maxAuditResults cannot be greater than the maximum allowed audit runs: 5",
        );
        let ttl = |ttl: &str| {
            format!(r#"{{"path": "/a", "maxAuditResults": 1, "closedConnectionTTL": {ttl}}}"#)
        };
        check(&ttl(r#""5m""#), "/a 1");
        check(&ttl("5"), "invalid ttl format: expected string");
        check(&ttl(r#""1s""#), "closedConnectionTTL 1s is too short, must be at least 1 minute");
        check(&ttl(r#""11m""#), "closedConnectionTTL 11m0s exceeds maximum allowed: 10m0s");
    }

    #[test]
    fn an_audit_from_start_to_end() {
        let folder = tempfile::tempdir().expect("folder");
        let channel = folder.path().join("channel");
        let mut disk = Disk::new(channel.clone(), 2);
        for audit in 1..=4 {
            let audit = format!("2026-01-0{audit}T00:00:00Z");
            disk.start(&audit).expect("started");
            disk.write(&line(1)).expect("written");
            disk.write(&line(2)).expect("written");
            disk.finish(&audit).expect("finished");
        }
        let mut left: Vec<String> =
            files(&channel, "log").iter().map(|path| name(path).to_owned()).collect();
        left.sort();
        assert_eq!(left, ["2026-01-03T00_00_00Z.log", "2026-01-04T00_00_00Z.log"]);
        let lines = read(&channel.join("2026-01-04T00_00_00Z.log"));
        assert_eq!(lines.len(), 4, "{lines:?}");
        assert_eq!(lines[0], r#"{"id":"2026-01-04T00:00:00Z","message":"audit is started"}"#);
        assert_eq!(lines[3], r#"{"id":"2026-01-04T00:00:00Z","message":"audit is completed"}"#);
    }

    #[test]
    fn what_was_interrupted_goes_on() {
        let folder = tempfile::tempdir().expect("folder");
        let channel = folder.path().to_owned();
        let mut disk = Disk::new(channel.clone(), 5);
        disk.start("a").expect("started");
        (1..=3).for_each(|id| disk.write(&line(id)).expect("written"));
        drop(disk);
        // The process died while it wrote the third line.
        let path = channel.join("a.txt");
        let text = fs::read_to_string(&path).expect("read");
        fs::write(&path, &text[..text.len() - 9]).expect("written");

        let mut disk = Disk::new(channel.clone(), 5);
        disk.start("a").expect("started");
        (1..=4).for_each(|id| disk.write(&line(id)).expect("written"));
        disk.finish("a").expect("finished");
        let expected: Vec<String> = [r#"{"id":"a","message":"audit is started"}"#.to_owned()]
            .into_iter()
            .chain((1..=4).map(|id| line(id).json))
            .chain([r#"{"id":"a","message":"audit is completed"}"#.to_owned()])
            .collect();
        assert_eq!(read(&channel.join("a.log")), expected);
        // Told again although it was complete.
        disk.start("a").expect("started");
        (1..=5).for_each(|id| disk.write(&line(id)).expect("written"));
        disk.finish("a").expect("finished");
        assert_eq!(read(&channel.join("a.log")).len(), 7);
    }

    #[test]
    fn what_others_left_is_kept() {
        let folder = tempfile::tempdir().expect("folder");
        let channel = folder.path().to_owned();
        let mut died = Disk::new(channel.clone(), 5);
        died.start("a").expect("started");
        died.write(&line(1)).expect("written");
        drop(died);
        let mut running = Disk::new(channel.clone(), 5);
        running.start("b").expect("started");
        assert!(channel.join("a.log").exists(), "closed");
        let mut second = Disk::new(channel.clone(), 5);
        second.start("c").expect("started");
        assert!(channel.join("b.txt").exists(), "locked");
        let error = Disk::new(channel.clone(), 5).start("b").expect_err("locked").to_string();
        assert!(error.ends_with("b.txt` is being written by another process"), "{error}");
        let error = second.start("a/b").expect_err("no name").to_string();
        assert_eq!(error, "audit ID must be a single path segment");
        let error = second.write(&line(1)).expect_err("not started").to_string();
        assert_eq!(error, "failed to write violation: no file provided");
    }
}
