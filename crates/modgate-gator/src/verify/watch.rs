//! The files below paths, so that changes are noticed.

use std::{collections::BTreeMap, fs, path::PathBuf, time::SystemTime};

use crate::{Io, files::walk};

/// The files below the folders of paths, with what changes when they are written.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct State(BTreeMap<PathBuf, (u64, Option<SystemTime>)>);

impl State {
    /// The files as they are. Suites refer to files beside them, so a suite stands for its folder.
    pub(super) fn of(paths: &[String], io: &Io<'_>) -> Self {
        let mut files = BTreeMap::new();
        for path in paths {
            let path = io.path(path.strip_suffix("/...").unwrap_or(path));
            let folder = match path.parent() {
                Some(parent) if path.is_file() => parent.to_owned(),
                _ => path,
            };
            let shown = folder.to_string_lossy().into_owned();
            // What cannot be listed has changed once it can.
            let _ = walk(&folder, &shown, 0, &mut |file| {
                let file = PathBuf::from(file);
                if let Ok(metadata) = fs::metadata(&file) {
                    files.insert(file, (metadata.len(), metadata.modified().ok()));
                }
            });
        }
        Self(files)
    }
}
