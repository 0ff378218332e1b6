//! Archives whose bytes depend on their content alone: no owner, no clock, no order of a file system.

use std::io::Write as _;

use anyhow::Result;
use flate2::{Compression, GzBuilder};
use tar::{Builder, EntryType, Header};

/// A tar file in the making. Every entry has the time of the release and belongs to user and group 0.
pub(super) struct Tar {
    builder: Builder<Vec<u8>>,
    time: u64,
}

impl Tar {
    /// `time` is in seconds since 1970.
    pub(super) fn new(time: u64) -> Self {
        Self { builder: Builder::new(Vec::new()), time }
    }

    fn header(&self, kind: EntryType, mode: u32, size: usize) -> Header {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_size(size as u64);
        header.set_mtime(self.time);
        header.set_uid(0);
        header.set_gid(0);
        header
    }

    pub(super) fn folder(&mut self, path: &str) -> Result<()> {
        let mut header = self.header(EntryType::Directory, 0o755, 0);
        Ok(self.builder.append_data(&mut header, format!("{path}/"), &[][..])?)
    }

    pub(super) fn file(&mut self, path: &str, mode: u32, bytes: &[u8]) -> Result<()> {
        let mut header = self.header(EntryType::Regular, mode, bytes.len());
        Ok(self.builder.append_data(&mut header, path, bytes)?)
    }

    /// A symbolic link.
    pub(super) fn link(&mut self, path: &str, to: &str) -> Result<()> {
        let mut header = self.header(EntryType::Symlink, 0o777, 0);
        Ok(self.builder.append_link(&mut header, path, to)?)
    }

    pub(super) fn finish(self) -> Result<Vec<u8>> {
        Ok(self.builder.into_inner()?)
    }
}

/// Without a name and a time.
pub(super) fn gzip(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut writer = GzBuilder::new().write(Vec::new(), Compression::best());
    writer.write_all(bytes)?;
    Ok(writer.finish()?)
}

/// A time in seconds since 1970 as RFC 3339 writes it in UTC.
pub(super) fn timestamp(seconds: u64) -> String {
    let (mut days, rest) = (seconds / 86_400, seconds % 86_400);
    let is_leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    let mut year = 1970;
    while days >= 365 + u64::from(is_leap(year)) {
        days -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let february = 28 + u64::from(is_leap(year));
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{year}-{month:02}-{:02}T{hour:02}:{minute:02}:{second:02}Z", days + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (1_795_803_707, "2026-11-27T18:21:47Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(timestamp(seconds), expected);
        }
    }
}
