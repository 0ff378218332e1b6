//! In place of `folder.rs` where the system cannot hold a folder open: nothing is recorded there.

use std::{fs::File, io, path::Path};

use super::RecordError;

/// A folder; there is none.
#[derive(Debug)]
pub(super) struct Folder;

/// A file with records; there is none.
#[derive(Debug)]
pub(super) struct Recording {
    pub(super) name: String,
    pub(super) bytes: u64,
    pub(super) modified: u64,
}

impl Folder {
    pub(super) fn open(path: &Path) -> Result<Self, RecordError> {
        Err(RecordError::Folder {
            folder: path.to_owned(),
            source: io::ErrorKind::Unsupported.into(),
        })
    }

    pub(super) fn create(&self, _: u128) -> io::Result<(String, File)> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn recordings(&self) -> io::Result<Vec<Recording>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn remove(&self, _: &str) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

pub(super) fn begun(_: &str) -> Option<u128> {
    None
}

pub(super) fn length(file: &File) -> io::Result<u64> {
    Ok(file.metadata()?.len())
}
