//! The folder of records. Every file is reached through the folder as it was opened: a link in it is never
//! followed, and a path that changes later leads nowhere else.

use std::{
    fs::{self, File, TryLockError},
    io,
    path::Path,
};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, fstat, openat, statat, unlinkat};

use super::RecordError;

/// The file that the process which records holds a lock on.
const LOCK: &str = ".modgate-record.lock";
/// Names of files with records.
const PREFIX: &str = "requests-";
const SUFFIX: &str = ".jsonl";

/// The folder, locked.
#[derive(Debug)]
pub(super) struct Folder {
    folder: File,
    /// Locked until the process ends.
    _lock: File,
}

/// A file with records.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Recording {
    pub(super) name: String,
    pub(super) bytes: u64,
    /// Seconds since the epoch.
    pub(super) modified: u64,
}

impl Folder {
    /// Opens a folder, or makes it for this user alone, and locks it.
    pub(super) fn open(path: &Path) -> Result<Self, RecordError> {
        let failed = |source| RecordError::Folder { folder: path.to_owned(), source };
        make(path).map_err(failed)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::open(path, flags, Mode::empty());
        let folder = File::from(folder.map_err(|error| failed(error.into()))?);
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let lock = openat(&folder, LOCK, flags, Mode::RUSR | Mode::WUSR);
        let lock = File::from(lock.map_err(|error| failed(error.into()))?);
        match lock.try_lock() {
            Ok(()) => Ok(Self { folder, _lock: lock }),
            Err(TryLockError::WouldBlock) => Err(RecordError::Locked(path.to_owned())),
            Err(TryLockError::Error(error)) => Err(failed(error)),
        }
    }

    /// A new file that only this user may read. Fails if anything has its name.
    pub(super) fn create(&self, begun: u128) -> io::Result<(String, File)> {
        let name = format!("{PREFIX}{begun:019}{SUFFIX}");
        let flags = OFlags::WRONLY
            | OFlags::CREATE
            | OFlags::EXCL
            | OFlags::APPEND
            | OFlags::NOFOLLOW
            | OFlags::CLOEXEC;
        let file = openat(&self.folder, name.as_str(), flags, Mode::RUSR | Mode::WUSR)?;
        Ok((name, file.into()))
    }

    /// The files with records, the oldest first. Links, folders and files of others are left out.
    pub(super) fn recordings(&self) -> io::Result<Vec<Recording>> {
        let mut found = Vec::new();
        for entry in Dir::read_from(&self.folder)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().to_str() else { continue };
            if begun(name).is_none() {
                continue;
            }
            let Ok(stat) = statat(&self.folder, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile {
                found.push(Recording {
                    name: name.to_owned(),
                    bytes: u64::try_from(stat.st_size).unwrap_or_default(),
                    modified: u64::try_from(stat.st_mtime).unwrap_or_default(),
                });
            }
        }
        found.sort();
        Ok(found)
    }

    /// Removes a file; a link of that name is removed itself.
    pub(super) fn remove(&self, name: &str) -> io::Result<()> {
        Ok(unlinkat(&self.folder, name, AtFlags::empty())?)
    }
}

/// When a file was begun, in nanoseconds since the epoch, by its name.
pub(super) fn begun(name: &str) -> Option<u128> {
    name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?.parse().ok()
}

/// How many bytes a file has.
pub(super) fn length(file: &File) -> io::Result<u64> {
    Ok(u64::try_from(fstat(file)?.st_size).unwrap_or_default())
}

/// Makes the folder and those above it; only this user may enter what is made.
fn make(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;

    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}
