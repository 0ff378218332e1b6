//! Noticing that files changed.
//!
//! By looking every second rather than by kernel events: a mounted ConfigMap or Secret changes by
//! swapping a symbolic link two levels up, network file systems send no events at all, and editors
//! replace files in a dozen ways. A look costs one `stat` per file.

use std::{fs, io, path::Path, time::Duration};

use tokio::time::{Interval, MissedTickBehavior};

/// How often watched files are looked at unless configured otherwise.
pub const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The state of a file from the file system, without reading it; follows symbolic links.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fingerprint {
    length: u64,
    /// Device, inode and change time: every write and every replacement alters one of them, also
    /// when the modification time is set back (`cp -p`, `git checkout`, archives).
    identity: Identity,
}

#[cfg(unix)]
type Identity = (u64, u64, i64, i64);
#[cfg(not(unix))]
type Identity = Option<std::time::SystemTime>;

impl Fingerprint {
    /// Reads the metadata of a file.
    ///
    /// # Errors
    ///
    /// When the file system has none.
    pub fn of(path: &Path) -> io::Result<Self> {
        let metadata = fs::metadata(path)?;
        Ok(Self { length: metadata.len(), identity: identity(&metadata) })
    }
}

#[cfg(unix)]
fn identity(metadata: &fs::Metadata) -> Identity {
    use std::os::unix::fs::MetadataExt as _;
    (metadata.dev(), metadata.ino(), metadata.ctime(), metadata.ctime_nsec())
}

#[cfg(not(unix))]
fn identity(metadata: &fs::Metadata) -> Identity {
    metadata.modified().ok()
}

/// The beat at which files are looked at.
#[derive(Debug)]
pub struct FileWatch(Interval);

impl FileWatch {
    /// Ticks once per interval, the first time after one.
    pub fn every(interval: Duration) -> Self {
        let mut beat = tokio::time::interval(interval);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The first tick of an interval is immediate; the caller has just looked.
        beat.reset();
        Self(beat)
    }

    /// Waits for the next tick.
    pub async fn tick(&mut self) {
        self.0.tick().await;
    }
}
