//! Writes layers to disk, always below one folder.

use std::{
    fs::{self, File},
    io::{self, Read},
    path::{Component, Path, PathBuf},
};

use flate2::read::GzDecoder;
use tar::{Archive, EntryType};

use super::registry::check_digest;
use crate::files::os_text;

/// The space on disk that an artifact may still use.
pub(super) struct Allowance {
    bytes: u64,
    entries: u32,
}

impl Default for Allowance {
    fn default() -> Self {
        Self { bytes: 512 << 20, entries: 50_000 }
    }
}

impl Allowance {
    fn entry(&mut self) -> Result<(), String> {
        self.entries = self.entries.checked_sub(1).ok_or("too many files")?;
        Ok(())
    }

    fn take(&mut self, bytes: u64) -> Result<(), String> {
        self.bytes = self.bytes.checked_sub(bytes).ok_or("too large when unpacked")?;
        Ok(())
    }
}

/// Writes a layer that is one file.
pub(super) fn file(
    content: &[u8],
    title: &str,
    folder: &Path,
    left: &mut Allowance,
) -> Result<(), String> {
    left.entry()?;
    left.take(content.len() as u64)?;
    let path = folder.join(below(title)?);
    make_parents(&path)?;
    fs::write(&path, content).map_err(|error| os_text(&error))
}

/// Unpacks a layer that is an archive of the folder `title`.
pub(super) fn archive(
    content: &[u8],
    title: &str,
    digest: Option<&str>,
    folder: &Path,
    left: &mut Allowance,
) -> Result<(), String> {
    let content = decompressed(content, left)?;
    if let Some(digest) = digest {
        check_digest(&content, digest)?;
    }
    tar(&content, title, folder, left)
}

/// Unpacks an archive of the folder `title` that is not compressed.
pub(super) fn tar(
    content: &[u8],
    title: &str,
    folder: &Path,
    left: &mut Allowance,
) -> Result<(), String> {
    let base = below(title)?;
    let failed = |error: io::Error| format!("archive: {}", os_text(&error));
    let mut archive = Archive::new(content);
    for entry in archive.entries().map_err(failed)? {
        let mut entry = entry.map_err(failed)?;
        left.entry()?;
        let name = entry.path().map_err(failed)?.to_string_lossy().into_owned();
        let path = below(&name)?;
        if !path.starts_with(&base) {
            return Err(format!("{name:?} is not in the folder {title:?}"));
        }
        let path = folder.join(path);
        match entry.header().entry_type() {
            EntryType::Directory => {
                fs::create_dir_all(&path).map_err(|error| os_text(&error))?;
            }
            EntryType::Regular | EntryType::Continuous => {
                make_parents(&path)?;
                let mut file = File::create(&path).map_err(|error| os_text(&error))?;
                io::copy(&mut entry, &mut file).map_err(failed)?;
            }
            EntryType::Link | EntryType::Symlink => {
                return Err(format!("{name:?} is a link, which is not supported"));
            }
            // Devices and the like hold no policies.
            _ => {}
        }
    }
    Ok(())
}

fn decompressed(content: &[u8], left: &mut Allowance) -> Result<Vec<u8>, String> {
    let mut tar = Vec::new();
    let read = GzDecoder::new(content)
        .take(left.bytes.saturating_add(1))
        .read_to_end(&mut tar)
        .map_err(|error| format!("gzip: {}", os_text(&error)))?;
    left.take(read as u64)?;
    Ok(tar)
}

/// Turns a name into a path that cannot leave the folder it is joined to.
fn below(name: &str) -> Result<PathBuf, String> {
    let mut path = PathBuf::new();
    for component in Path::new(name).components() {
        match component {
            Component::Normal(part) => path.push(part),
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                return Err(format!("{name:?}: path traversal disallowed"));
            }
        }
    }
    Ok(path)
}

fn make_parents(path: &Path) -> Result<(), String> {
    match path.parent() {
        Some(parent) => fs::create_dir_all(parent).map_err(|error| os_text(&error)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use flate2::{Compression, write::GzEncoder};
    use tar::{Builder, Header};

    use super::*;

    fn packed(entries: &[(&str, EntryType, &str)]) -> Vec<u8> {
        let mut builder = Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
        for (name, kind, content) in entries {
            let mut header = Header::new_gnu();
            // The builder refuses names that lead outside; archives from elsewhere may have them.
            header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
            header.set_entry_type(*kind);
            header.set_size(content.len() as u64);
            header.set_mode(0o777);
            if matches!(kind, EntryType::Link | EntryType::Symlink) {
                header.set_link_name("/etc/passwd").expect("link");
            }
            header.set_cksum();
            builder.append(&header, content.as_bytes()).expect("entry");
        }
        builder.into_inner().and_then(GzEncoder::finish).expect("archive")
    }

    fn unpack(title: &str, entries: &[(&str, EntryType, &str)]) -> Result<Vec<String>, String> {
        let outer = tempfile::tempdir().expect("folder");
        let folder = outer.path().join("inner");
        fs::create_dir(&folder).expect("folder");
        archive(&packed(entries), title, None, &folder, &mut Allowance::default())?;
        let mut found = Vec::new();
        crate::files::walk(outer.path(), "", 0, &mut |path| found.push(path)).expect("walk");
        Ok(found)
    }

    #[test]
    fn archives() {
        const FILE: EntryType = EntryType::Regular;
        let found = unpack(
            "templates",
            &[
                ("templates/", EntryType::Directory, ""),
                ("templates/a.yaml", FILE, "a: 1"),
                ("./templates/b/c.yaml", FILE, "b: 1"),
                ("templates/pipe", EntryType::Fifo, ""),
            ],
        );
        let expected = ["inner/templates/a.yaml", "inner/templates/b/c.yaml"];
        let found: Vec<String> = found
            .expect("unpacked")
            .into_iter()
            .map(|path| path.trim_start_matches(['.', '/']).to_owned())
            .collect();
        assert_eq!(found, expected);
        for (title, name, kind, expected) in [
            ("t", "../evil", FILE, "path traversal disallowed"),
            ("t", "t/../../evil", FILE, "path traversal disallowed"),
            ("t", "/evil", FILE, "path traversal disallowed"),
            ("t", "other/a", FILE, "is not in the folder"),
            ("t", "t/link", EntryType::Symlink, "is a link"),
            ("t", "t/link", EntryType::Link, "is a link"),
            ("../t", "../t/a", FILE, "path traversal disallowed"),
            ("/t", "/t/a", FILE, "path traversal disallowed"),
        ] {
            let error = unpack(title, &[(name, kind, "")]).expect_err(name);
            assert!(error.contains(expected), "{name}: {error}");
        }
    }

    #[test]
    fn limits() {
        let folder = tempfile::tempdir().expect("folder");
        let bomb = packed(&[("t/a", EntryType::Regular, &"x".repeat(100_000))]);
        let mut left = Allowance { bytes: 50_000, entries: 10 };
        let error = archive(&bomb, "t", None, folder.path(), &mut left).expect_err("too large");
        assert_eq!(error, "too large when unpacked");
        let many: Vec<_> = (0..10).map(|_| ("t/a", EntryType::Regular, "")).collect();
        let mut left = Allowance { bytes: 50_000, entries: 9 };
        let error = archive(&packed(&many), "t", None, folder.path(), &mut left);
        assert_eq!(error, Err("too many files".to_owned()));
        assert!(archive(b"no gzip", "t", None, folder.path(), &mut left).is_err());
        let wrong = Some("sha256:00");
        let mut left = Allowance::default();
        assert!(archive(&bomb, "t", wrong, folder.path(), &mut left).is_err());
        assert!(file(b"x", "../x", folder.path(), &mut left).is_err());
    }
}
