//! Violations of audits in files: one per audit, each line once (XP-3).
//!
//! A file is `<audit>.txt` while its audit runs, and locked by the process that writes it; complete,
//! it becomes `<audit>.log`. Lines are written as they come, so that those of an audit that was
//! interrupted are there for the one that begins again under its name.

use std::{
    collections::{BTreeSet, VecDeque},
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, BufRead, BufReader, Read as _, Seek as _, SeekFrom, Write as _},
    path::{Component, Path, PathBuf},
    thread,
    time::{Duration, SystemTime},
};

use modgate_value::{Value, gotime};

use super::{Line, message};

/// Files of audits that are running, or were interrupted.
const OPEN: &str = "txt";
/// Files of audits that are complete.
const DONE: &str = "log";

/// The prefix of the files of requests ([`spool`](super::spool)).
pub(super) const REQUESTS: &str = "admission-";

/// Of longer lines only the end is read, where their ids are.
const MAX_LINE: usize = 1 << 20;
/// As much as such an end may be.
const MAX_END: usize = 128;

/// Bytes of lines that wait for room on the disk; more are not kept.
const MAX_WAITING: usize = 1 << 20;
/// How often, and how long apart, they are tried at the end of an audit.
const TRIES: usize = 5;
const PAUSE: Duration = Duration::from_millis(100);

const MAX_AUDITS: i64 = 5;
const SECOND: i64 = 1_000_000_000;

/// `spec.config` of a Connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DiskConfig {
    pub(super) path: PathBuf,
    pub(super) max_audit_results: usize,
}

impl DiskConfig {
    /// The text, or its error.
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
    #[error("{lines} lines of the audit `{}` could not be written", path.display())]
    Incomplete { lines: u64, path: PathBuf },
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
    /// The lines of earlier processes.
    known: BTreeSet<u128>,
    /// Bytes of complete lines.
    length: u64,
    /// Whether half a line may follow them.
    is_torn: bool,
    /// Lines that could not be written yet, in their order, and their bytes.
    waiting: VecDeque<String>,
    waiting_bytes: usize,
    /// Lines that could neither be written nor wait.
    missing: u64,
}

impl Run {
    /// Writes a line after those that wait. One that cannot be written waits, too, if there is room.
    fn append(&mut self, line: &str) -> io::Result<()> {
        let text = format!("{line}\n");
        let done = self.flush().and_then(|()| self.write(&text));
        if done.is_err() {
            if self.waiting_bytes + text.len() <= MAX_WAITING {
                self.waiting_bytes += text.len();
                self.waiting.push_back(text);
            } else {
                self.missing += 1;
            }
        }
        done
    }

    fn flush(&mut self) -> io::Result<()> {
        while let Some(text) = self.waiting.pop_front() {
            if let Err(error) = self.write(&text) {
                self.waiting.push_front(text);
                return Err(error);
            }
            self.waiting_bytes -= text.len();
        }
        Ok(())
    }

    fn write(&mut self, text: &str) -> io::Result<()> {
        if std::mem::replace(&mut self.is_torn, true) {
            self.file.set_len(self.length)?;
            self.file.seek(SeekFrom::Start(self.length))?;
        }
        self.file.write_all(text.as_bytes())?;
        self.is_torn = false;
        self.length += u64::try_from(text.len()).unwrap_or_default();
        Ok(())
    }

    /// How many lines are not there.
    fn unwritten(&self) -> u64 {
        self.missing + u64::try_from(self.waiting.len()).unwrap_or_default()
    }
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
        // It was complete, and is exported again.
        let done = path.with_extension(DONE);
        if done.exists() && !path.exists() {
            fs::rename(&done, &path).map_err(error("rename", &done))?;
        }
        let (file, known) = open(&path, Completion::Cut)?;
        let run = self.run.insert(Run {
            file,
            path,
            known: known.ids,
            length: known.length,
            is_torn: false,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            missing: 0,
        });
        if known.lines > 0 {
            return Ok(());
        }
        run.append(&message::frame(audit, message::STARTED)).map_err(error("write", &run.path))
    }

    /// Writes a line, unless it stands there already. What fails is tried again with the next line,
    /// and at the end.
    pub(super) fn write(&mut self, line: &Line) -> Result<(), DiskError> {
        let run = self.run.as_mut().ok_or(DiskError::NotStarted)?;
        if run.known.contains(&line.id) {
            return Ok(());
        }
        run.append(&line.json).map_err(error("write", &run.path))
    }

    /// Completes the file, and removes those that are too many. A file that does not have every line
    /// is not completed.
    pub(super) fn finish(&mut self, audit: &str) -> Result<(), DiskError> {
        let mut run = self.run.take().ok_or(DiskError::NotStarted)?;
        for _ in 0..TRIES {
            if run.flush().is_ok() {
                break;
            }
            thread::sleep(PAUSE);
        }
        let (lines, path) = (run.unwritten(), run.path.clone());
        if lines > 0 {
            return Err(DiskError::Incomplete { lines, path });
        }
        let line = message::frame(audit, message::COMPLETED);
        run.append(&line).map_err(error("write", &path))?;
        run.file.sync_all().map_err(error("write", &path))?;
        let done = path.with_extension(DONE);
        fs::rename(&path, &done).map_err(error("rename", &path))?;
        sync_folder(&self.folder);
        self.remove_oldest()
    }

    /// Closes what another audit left, as it will not be continued.
    fn put_away_others(&self, but: &Path) {
        for path in files(&self.folder, OPEN) {
            if path == *but {
                continue;
            }
            // Locked files are another process's.
            match open(&path, Completion::Keep) {
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

/// The lines of a file.
#[derive(Debug, Default)]
struct Known {
    lines: usize,
    /// Bytes of these lines.
    length: u64,
    ids: BTreeSet<u128>,
}

/// The result of writing the line that completes an audit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Completion {
    Cut,
    Keep,
}

/// Opens and locks a file, cuts off a line that is not complete, and reads what is left.
fn open(path: &Path, completion: Completion) -> Result<(File, Known), DiskError> {
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
    let mut reader = BufReader::new(&file);
    let mut line = Vec::new();
    loop {
        let read = next_line(&mut reader, &mut line).map_err(error("read", path))?;
        if line.last() != Some(&b'\n') {
            break;
        }
        let written = Value::from_json(&line).unwrap_or_default();
        let text = |key: &str| written.get(key).and_then(Value::as_str);
        let id = text(message::ID).and_then(|id| u128::from_str_radix(id, 16).ok());
        let is_completion = text("message") == Some(message::COMPLETED);
        match id.or_else(|| last_id(&line)) {
            Some(id) => drop(known.ids.insert(id)),
            None if is_completion && completion == Completion::Cut => break,
            None => {}
        }
        known.lines += 1;
        known.length += read;
    }
    drop(reader);
    file.set_len(known.length).map_err(error("write", path))?;
    file.seek(SeekFrom::Start(known.length)).map_err(error("write", path))?;
    Ok((file, known))
}

/// Reads up to the end of the line, of which `line` is all, or the end if it is long. Returns how
/// many bytes it has.
fn next_line(reader: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<u64> {
    line.clear();
    let mut length = 0;
    loop {
        let most = u64::try_from(MAX_LINE).unwrap_or(u64::MAX);
        let read = reader.by_ref().take(most).read_until(b'\n', line)?;
        length += u64::try_from(read).unwrap_or_default();
        if read == 0 || line.last() == Some(&b'\n') {
            return Ok(length);
        }
        line.drain(..line.len().saturating_sub(MAX_END));
    }
}

/// The id of a line of which only the end is known: no key comes after it.
fn last_id(line: &[u8]) -> Option<u128> {
    let line = String::from_utf8_lossy(line.get(line.len().saturating_sub(MAX_END)..)?);
    let (rest, id) = line.strip_suffix("\"}\n")?.rsplit_once('"')?;
    // A quotation mark within a string would have a backslash.
    let rest = rest.strip_suffix(':')?.strip_suffix(&format!("\"{}\"", message::ID))?;
    let is_key = rest.ends_with([',', '{']);
    u128::from_str_radix(id, 16).ok().filter(|_| is_key && id.len() == 32)
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
mod tests;
