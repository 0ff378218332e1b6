//! Violations of requests in files that are bounded in every respect (XP-3).
//!
//! A file is `admission-<time>-<random>.open` while it is written, and locked; it becomes `.log` when
//! it is large or old enough. The oldest go when there are too many. The time is that of the file's
//! beginning, in nanoseconds, and later than those of all files before: names sort as what is in
//! them.

use std::{
    fs::{self, File, OpenOptions},
    hash::{BuildHasher as _, RandomState},
    io::Write as _,
    path::PathBuf,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use super::disk::{self, REQUESTS};

const OPEN: &str = "open";
const DONE: &str = "log";

/// Bounds of one file, and of all.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    file_bytes: u64,
    file_records: usize,
    file_age: Duration,
    files: usize,
    total_bytes: u64,
    kept: Duration,
    free_bytes: u64,
}

const BOUNDS: Bounds = Bounds {
    file_bytes: 1 << 20,
    file_records: 1000,
    file_age: Duration::from_secs(60),
    files: 20,
    total_bytes: 20 << 20,
    kept: Duration::from_secs(24 * 60 * 60),
    free_bytes: 16 << 20,
};

/// The files of requests of one channel.
#[derive(Debug)]
pub(crate) struct Spool {
    folder: PathBuf,
    bounds: Bounds,
    open: Option<Segment>,
    /// Whether files of processes that died were looked for.
    recovered: bool,
    /// When the newest file began, since the epoch.
    newest: Duration,
}

#[derive(Debug)]
struct Segment {
    file: File,
    path: PathBuf,
    bytes: u64,
    records: usize,
    since: Instant,
}

impl Spool {
    pub(super) fn new(folder: PathBuf) -> Self {
        let newest = Duration::ZERO;
        Self { folder, bounds: BOUNDS, open: None, recovered: false, newest }
    }

    /// Appends records, one a line.
    pub(super) fn write(&mut self, records: &[&str]) -> Result<(), String> {
        let shown = self.folder.display().to_string();
        let failed =
            |what: &str, error: std::io::Error| format!("cannot {what} `{shown}`: {error}");
        fs::create_dir_all(&self.folder).map_err(|error| failed("make", error))?;
        if !self.recovered {
            self.recover();
            self.newest = self.last_begun();
            self.recovered = true;
        }
        let bytes: usize = records.iter().map(|record| record.len() + 1).sum();
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        self.make_room(bytes);
        if let Some(free) = free_bytes(&self.folder)
            && free < self.bounds.free_bytes.saturating_add(bytes)
        {
            return Err(format!("not enough free space: `{shown}` has {free} bytes left"));
        }
        for record in records {
            let length = u64::try_from(record.len()).unwrap_or(u64::MAX).saturating_add(1);
            let is_full = self.open.as_ref().is_some_and(|open| {
                open.bytes.saturating_add(length) > self.bounds.file_bytes
                    || open.records >= self.bounds.file_records
                    || open.since.elapsed() >= self.bounds.file_age
            });
            if is_full {
                self.close();
                self.make_room(bytes);
            }
            if self.open.is_none() {
                self.open = Some(self.segment().map_err(|error| failed("write to", error))?);
            }
            let Some(open) = &mut self.open else { continue };
            if let Err(error) = open.file.write_all(format!("{record}\n").as_bytes()) {
                // Half a record must not become the beginning of the next.
                let _ = open.file.set_len(open.bytes);
                self.close();
                return Err(failed("write to", error));
            }
            open.bytes += length;
            open.records += 1;
        }
        Ok(())
    }

    /// Completes the file that is old enough; returns when to look again.
    pub(super) fn tidy(&mut self) -> Option<Duration> {
        let age = self.open.as_ref()?.since.elapsed();
        match self.bounds.file_age.checked_sub(age) {
            Some(left) if !left.is_zero() => Some(left),
            _ => {
                self.close();
                self.make_room(0);
                None
            }
        }
    }

    /// Completes the file that is being written.
    pub(super) fn close(&mut self) {
        let Some(Segment { file, path, .. }) = self.open.take() else { return };
        let _ = file.sync_all();
        let _ = fs::rename(&path, path.with_extension(DONE));
        disk::sync_folder(&self.folder);
    }

    fn segment(&mut self) -> std::io::Result<Segment> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        // Clocks are coarse, and are set back.
        self.newest = now.max(self.newest.saturating_add(Duration::from_nanos(1)));
        // Two processes may start at the same time.
        let random = RandomState::new().hash_one(std::process::id()) >> 32;
        let name = format!("{REQUESTS}{:019}-{random:08x}.{OPEN}", self.newest.as_nanos());
        let path = self.folder.join(name);
        let file = OpenOptions::new().append(true).create_new(true).open(&path)?;
        file.try_lock()?;
        Ok(Segment { file, path, bytes: 0, records: 0, since: Instant::now() })
    }

    /// Completes the files of processes that died.
    fn recover(&self) {
        for path in disk::files(&self.folder, OPEN) {
            if !disk::name(&path).starts_with(REQUESTS) {
                continue;
            }
            let Ok(mut text) = fs::read(&path) else { continue };
            let Ok(file) = OpenOptions::new().append(true).open(&path) else { continue };
            if file.try_lock().is_err() {
                continue;
            }
            let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
            text.truncate(whole);
            let _ = file.set_len(u64::try_from(whole).unwrap_or_default());
            let _ = fs::rename(&path, path.with_extension(DONE));
        }
    }

    /// When the newest file that is there began, whatever the clock says now.
    fn last_begun(&self) -> Duration {
        let began = |path: &PathBuf| {
            let name = disk::name(path);
            let (began, _) = name.strip_prefix(REQUESTS)?.split_once('-')?;
            began.parse().ok().map(Duration::from_nanos)
        };
        let files = disk::files(&self.folder, DONE);
        files.iter().filter_map(began).max().unwrap_or_default()
    }

    /// Removes files that are too old, or too many together with `coming` bytes.
    fn make_room(&self, coming: u64) {
        let mut done: Vec<(PathBuf, u64)> = disk::files(&self.folder, DONE)
            .into_iter()
            .filter(|path| disk::name(path).starts_with(REQUESTS))
            .map(|path| {
                let bytes = fs::metadata(&path).map_or(0, |metadata| metadata.len());
                (path, bytes)
            })
            .collect();
        done.sort();
        let open = self.open.as_ref().map_or(0, |open| open.bytes);
        let mut bytes: u64 = done.iter().map(|(_, bytes)| bytes).sum::<u64>() + open + coming;
        // The one that is being written, or about to be, counts.
        let mut files = done.len() + 1;
        for (path, size) in done {
            let modified = disk::modified(&path);
            let age = SystemTime::now().duration_since(modified).unwrap_or_default();
            let is_too_much = files > self.bounds.files || bytes > self.bounds.total_bytes;
            if !is_too_much && age <= self.bounds.kept {
                break;
            }
            if fs::remove_file(&path).is_ok() {
                files -= 1;
                bytes = bytes.saturating_sub(size);
            }
        }
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(unix)]
fn free_bytes(folder: &std::path::Path) -> Option<u64> {
    let found = rustix::fs::statvfs(folder).ok()?;
    Some(found.f_bavail.saturating_mul(found.f_frsize))
}

#[cfg(not(unix))]
fn free_bytes(_: &std::path::Path) -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spool(folder: &std::path::Path, change: impl FnOnce(&mut Bounds)) -> Spool {
        let mut spool = Spool::new(folder.to_owned());
        // Whatever is left on the machine that tests run on.
        spool.bounds.free_bytes = 0;
        change(&mut spool.bounds);
        spool
    }

    /// The contents of the files with an extension, the oldest first.
    fn contents(folder: &std::path::Path, extension: &str) -> Vec<String> {
        let mut paths = disk::files(folder, extension);
        paths.sort();
        paths.iter().map(|path| fs::read_to_string(path).expect("read")).collect()
    }

    #[test]
    fn files_are_completed() {
        let folder = tempfile::tempdir().expect("folder");
        let mut by_records = spool(folder.path(), |bounds| bounds.file_records = 2);
        by_records.write(&["1", "2", "3"]).expect("written");
        assert_eq!(contents(folder.path(), "log"), ["1\n2\n"]);
        assert_eq!(contents(folder.path(), "open"), ["3\n"]);
        drop(by_records);
        assert_eq!(contents(folder.path(), "open"), [""; 0]);
        let mut by_bytes = spool(folder.path(), |bounds| bounds.file_bytes = 8);
        by_bytes.write(&["123", "456", "789"]).expect("written");
        assert_eq!(contents(folder.path(), "log"), ["1\n2\n", "3\n", "123\n456\n"]);
        by_bytes.bounds.file_age = Duration::ZERO;
        assert_eq!(by_bytes.tidy(), None);
        assert_eq!(contents(folder.path(), "open"), [""; 0]);
    }

    #[test]
    fn the_oldest_go() {
        let folder = tempfile::tempdir().expect("folder");
        let mut by_count = spool(folder.path(), |bounds| {
            bounds.file_records = 1;
            bounds.files = 3;
        });
        for record in ["1", "2", "3", "4", "5"] {
            by_count.write(&[record]).expect("written");
        }
        assert_eq!(contents(folder.path(), "log"), ["3\n", "4\n"]);
        drop(by_count);
        let mut by_bytes = spool(folder.path(), |bounds| bounds.total_bytes = 4);
        by_bytes.write(&["6"]).expect("written");
        assert_eq!(contents(folder.path(), "log"), ["5\n"]);
        by_bytes.bounds.kept = Duration::ZERO;
        std::thread::sleep(Duration::from_millis(2));
        by_bytes.write(&["7"]).expect("written");
        assert_eq!(contents(folder.path(), "log"), [""; 0]);
        by_bytes.bounds.free_bytes = u64::MAX;
        let error = by_bytes.write(&["8"]).expect_err("no room");
        assert!(error.starts_with("not enough free space: "), "{error}");
    }

    #[test]
    fn the_clock_may_be_set_back() {
        let folder = tempfile::tempdir().expect("folder");
        let later = folder.path().join("admission-9000000000000000000-0.log");
        fs::write(&later, "1\n").expect("written");
        let mut next = spool(folder.path(), |bounds| bounds.file_records = 1);
        next.write(&["2", "3"]).expect("written");
        drop(next);
        assert_eq!(contents(folder.path(), "log"), ["1\n", "2\n", "3\n"]);
    }

    #[test]
    fn files_of_the_dead_are_completed() {
        let folder = tempfile::tempdir().expect("folder");
        let left = folder.path().join("admission-0-0.open");
        fs::write(&left, "1\n2\n3").expect("written");
        let mut next = spool(folder.path(), |_| {});
        next.write(&["4"]).expect("written");
        assert_eq!(contents(folder.path(), "log"), ["1\n2\n"]);
        let mut other = spool(folder.path(), |_| {});
        other.write(&["5"]).expect("written");
        assert_eq!(contents(folder.path(), "log"), ["1\n2\n"], "the open one is locked");
    }
}
