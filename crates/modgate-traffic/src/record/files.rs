//! The files with records: appended to, begun anew when they are large or old enough, and removed when there
//! are too many.

use std::{
    fs::File,
    io::{self, Write as _},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use super::folder::{Folder, Recording, begun, length};

/// The largest file. `modgate review` reads files up to 32 MiB.
const MAX_FILE: u64 = 16 << 20;
/// The smallest size at which the next file is begun.
const MIN_FILE: u64 = 64 << 10;
/// Parts of the bytes and of the age that one file takes: as much goes when the oldest goes.
const PARTS: u32 = 16;
/// How long to wait after a failure before another file is begun.
const AFTER_FAILURE: Duration = Duration::from_secs(1);

/// The files of one folder.
#[derive(Debug)]
pub(super) struct Files {
    folder: Folder,
    max_bytes: u64,
    max_age: Duration,
    open: Option<Open>,
    /// Bytes of all files.
    bytes: u64,
    /// When the newest file was begun, in nanoseconds since the epoch.
    newest: u128,
    failed: Option<Instant>,
}

#[derive(Debug)]
struct Open {
    file: File,
    name: String,
    bytes: u64,
    since: Instant,
}

impl Files {
    pub(super) fn new(folder: Folder, max_bytes: u64, max_age: Duration) -> Self {
        let recordings = folder.recordings().unwrap_or_default();
        let newest = recordings.iter().filter_map(|it| begun(&it.name)).max().unwrap_or_default();
        Self { folder, max_bytes, max_age, open: None, bytes: 0, newest, failed: None }
    }

    /// Bytes of all files.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Appends lines; returns how many are written, and why others are not.
    pub(super) fn append(&mut self, lines: &[String]) -> (u64, io::Result<()>) {
        if self.failed.is_some_and(|since| since.elapsed() < AFTER_FAILURE) {
            return (0, Err(io::ErrorKind::StorageFull.into()));
        }
        let mut written = 0;
        let mut rest = lines;
        while !rest.is_empty() {
            // As many as the file has room for.
            match self.append_some(rest) {
                Ok(count) => {
                    written += u64::try_from(count).unwrap_or_default();
                    rest = rest.get(count..).unwrap_or_default();
                }
                Err(error) => {
                    self.open = None;
                    self.failed = Some(Instant::now());
                    return (written, Err(error));
                }
            }
        }
        self.failed = None;
        (written, Ok(()))
    }

    /// Appends the first lines that the open file has room for, at least one.
    fn append_some(&mut self, lines: &[String]) -> io::Result<usize> {
        let first = lines.first().map_or(0, |line| u64::try_from(line.len()).unwrap_or(u64::MAX));
        let most = (self.max_bytes / u64::from(PARTS)).clamp(MIN_FILE, MAX_FILE);
        let is_full = self
            .open
            .as_ref()
            .is_some_and(|open| open.bytes > 0 && open.bytes.saturating_add(first) > most);
        if is_full {
            self.open = None;
        }
        if self.open.is_none() {
            self.make_room(most.max(first));
            self.open = Some(self.begin()?);
        }
        let Some(open) = &mut self.open else { return Err(io::ErrorKind::NotFound.into()) };
        let mut text = String::new();
        let mut count = 0;
        for line in lines {
            let size = u64::try_from(text.len()).unwrap_or(u64::MAX);
            let longer = size.saturating_add(u64::try_from(line.len()).unwrap_or(u64::MAX));
            if count > 0 && open.bytes.saturating_add(longer) > most {
                break;
            }
            text.push_str(line);
            text.push('\n');
            count += 1;
        }
        if let Err(error) = open.file.write_all(text.as_bytes()) {
            // Half a line must not become the beginning of the next. Where that is not possible, the next line
            // goes into another file.
            let _ = open.file.set_len(open.bytes);
            self.bytes = self.bytes.saturating_sub(open.bytes);
            self.bytes += length(&open.file).unwrap_or(open.bytes);
            return Err(error);
        }
        let size = u64::try_from(text.len()).unwrap_or_default();
        open.bytes += size;
        self.bytes += size;
        Ok(count)
    }

    fn begin(&mut self) -> io::Result<Open> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        // Names sort as what is in the files, also where the clock was set back.
        self.newest = now.max(self.newest.saturating_add(1));
        let (name, file) = self.folder.create(self.newest)?;
        Ok(Open { file, name, bytes: 0, since: Instant::now() })
    }

    /// Ends the file that is old enough, and removes what is too old.
    pub(super) fn tidy(&mut self) {
        let is_old = |open: &Open| open.since.elapsed() >= self.max_age / PARTS;
        if self.open.as_ref().is_some_and(is_old) {
            self.open = None;
        }
        self.make_room(0);
    }

    /// Removes the oldest files until there is room for so many bytes, and those that are too old.
    pub(super) fn make_room(&mut self, coming: u64) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let Ok(recordings) = self.folder.recordings() else { return };
        self.bytes = recordings.iter().map(|it| it.bytes).sum();
        let open = self.open.as_ref().map(|open| open.name.clone());
        for Recording { name, bytes, modified } in recordings {
            let is_old = now.saturating_sub(modified) > self.max_age.as_secs();
            let is_much = self.bytes.saturating_add(coming) > self.max_bytes;
            if !(is_old || is_much) || Some(&name) == open.as_ref() {
                break;
            }
            if self.folder.remove(&name).is_ok() {
                self.bytes = self.bytes.saturating_sub(bytes);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;

    fn files(path: &Path, max_bytes: u64) -> Files {
        Files::new(Folder::open(path).expect("a folder"), max_bytes, Duration::from_secs(3600))
    }

    /// The first characters of the lines that are there, file by file.
    fn contents(path: &Path) -> Vec<String> {
        let entries =
            fs::read_dir(path).expect("a folder").map(|entry| entry.expect("entry").path());
        let mut names: Vec<_> = entries.filter(|it| it.extension().is_some()).collect();
        names.retain(|name| name.to_string_lossy().ends_with(".jsonl"));
        names.sort();
        let first = |line: &str| line.chars().take(1).collect::<String>();
        let texts = names.iter().map(|name| fs::read_to_string(name).expect("text"));
        texts.map(|text| text.lines().map(first).collect()).collect()
    }

    fn line(first: char, bytes: usize) -> String {
        format!("{first}{}", "x".repeat(bytes - 2))
    }

    #[test]
    fn the_oldest_go() {
        let folder = tempfile::tempdir().expect("a folder");
        let size = usize::try_from(MIN_FILE).expect("small") / 2;
        let mut files = files(folder.path(), 3 * MIN_FILE);
        let lines: Vec<String> = ('a'..='e').map(|first| line(first, size)).collect();
        let (written, done) = files.append(&lines);
        done.expect("written");
        assert_eq!(written, 5);
        assert_eq!(contents(folder.path()), ["ab", "cd", "e"]);
        files.append(&[line('f', size), line('g', size)]).1.expect("written");
        assert_eq!(contents(folder.path()), ["cd", "ef", "g"]);
        assert_eq!(files.bytes(), 5 * MIN_FILE / 2);
        // A line that is longer than a file may be has a file of its own.
        files.append(&[line('h', 5 * size)]).1.expect("written");
        assert_eq!(contents(folder.path()), ["g", "h"]);
        assert_eq!(files.bytes(), 3 * MIN_FILE);
    }

    #[test]
    fn names_sort_as_time_passes_also_after_a_clock_was_set_back() {
        let folder = tempfile::tempdir().expect("a folder");
        let later = folder.path().join("requests-9000000000000000000.jsonl");
        fs::write(&later, "1\n").expect("written");
        fs::write(folder.path().join("notes.jsonl"), "0\n").expect("written");
        let mut files = files(folder.path(), 1 << 20);
        files.append(&["2".to_owned()]).1.expect("written");
        assert_eq!(contents(folder.path()), ["0", "1", "2"]);
    }

    #[test]
    fn what_is_too_old_goes() {
        let folder = tempfile::tempdir().expect("a folder");
        let old = folder.path().join("requests-0000000000000000001.jsonl");
        fs::write(&old, "1\n").expect("written");
        let file = File::options().append(true).open(&old).expect("a file");
        file.set_modified(SystemTime::now() - Duration::from_secs(3700)).expect("set");
        let mut files = files(folder.path(), 1 << 20);
        files.append(&["2".to_owned()]).1.expect("written");
        assert_eq!(contents(folder.path()), ["2"]);
    }
}
