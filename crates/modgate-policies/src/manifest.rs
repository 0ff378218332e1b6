//! Kubernetes objects in files: which files there are, and their texts.

use std::{
    fs,
    io::{self, Read as _},
    path::{Path, PathBuf},
};

pub use modgate_review::manifest::*;
use modgate_value::{
    diag::{Diagnostic, Source},
    near,
};

/// Files beyond this size are refused; the API server itself takes 3 MB at most.
pub const MAX_FILE_BYTES: u64 = 32 << 20;
/// Folders nested deeper are refused: a symbolic link points to its own parent.
const MAX_FOLDER_DEPTH: usize = 32;
/// The extensions of policy and object files.
const EXTENSIONS: [&str; 3] = ["yaml", "yml", "json"];

/// Why a file or folder cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The system refused.
    #[error("cannot read `{}`: {}", path.display(), reason(cause))]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// The system's message.
        cause: io::Error,
    },
    /// Larger than [`MAX_FILE_BYTES`].
    #[error("`{name}` is larger than {} MiB", MAX_FILE_BYTES >> 20)]
    TooLarge {
        /// The file.
        name: String,
    },
    /// Not UTF-8.
    #[error("`{name}` is not UTF-8 text")]
    NotText {
        /// The file.
        name: String,
    },
    /// A folder nested deeper than any sane tree.
    #[error("`{}` is nested more than {MAX_FOLDER_DEPTH} folders deep, skipped", path.display())]
    TooDeep {
        /// The folder.
        path: PathBuf,
    },
    /// A link to a folder that contains the link.
    #[error("`{}` links to a folder that contains it, skipped", path.display())]
    Loop {
        /// The link.
        path: PathBuf,
    },
    /// A file in a folder whose name ends nearly as that of a file that is read.
    #[error("`{}` is not read, because its name does not end in .yaml, .yml or .json", path.display())]
    NearName {
        /// The file.
        path: PathBuf,
        /// The name that is meant.
        meant: String,
    },
    /// A pipe, socket or device in a folder: reading it might never end.
    #[error("`{}` is not a regular file, skipped", path.display())]
    NotAFile {
        /// The file.
        path: PathBuf,
    },
}

/// The system's message, without its number.
fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error ").next().unwrap_or_default().to_lowercase()
}

impl FileError {
    /// Whether nothing is missed by skipping it: the files of a folder that contains its link are listed anyway, and a pipe
    /// holds no object.
    pub fn is_harmless(&self) -> bool {
        matches!(self, Self::Loop { .. } | Self::NotAFile { .. } | Self::NearName { .. })
    }

    /// The same with another path in its text, such as one that is relative to the user's folder.
    #[must_use]
    pub fn shown(self, shown: &dyn Fn(&Path) -> PathBuf) -> Self {
        let named = |name: String| shown(Path::new(&name)).display().to_string();
        match self {
            Self::Read { path, cause } => Self::Read { path: shown(&path), cause },
            Self::TooLarge { name } => Self::TooLarge { name: named(name) },
            Self::NotText { name } => Self::NotText { name: named(name) },
            Self::TooDeep { path } => Self::TooDeep { path: shown(&path) },
            Self::Loop { path } => Self::Loop { path: shown(&path) },
            Self::NotAFile { path } => Self::NotAFile { path: shown(&path) },
            Self::NearName { path, meant } => Self::NearName { path: shown(&path), meant },
        }
    }
}

/// The files of a path.
#[derive(Debug, Default)]
pub struct Listing {
    /// The policy and object files, sorted.
    pub files: Vec<PathBuf>,
    /// The files left out, and why. [`FileError::Read`] is of a folder whose files are unknown now.
    pub problems: Vec<FileError>,
}

impl From<FileError> for Diagnostic {
    fn from(error: FileError) -> Self {
        if let FileError::NearName { meant, .. } = &error {
            let found = Self::warning(error.to_string()).code("nothing-found");
            return found.help(format!("did you mean `{meant}`?"));
        }
        let near = match &error {
            FileError::Read { path, cause } if cause.kind() == io::ErrorKind::NotFound => {
                crate::near_path::did_you_mean(path)
            }
            _ => None,
        };
        Self { help: near, ..Self::error(error.to_string()) }
    }
}

/// Every policy or object file under `path`, sorted: the file itself, or all `.yaml`, `.yml` and
/// `.json` files of the folder and the folders in it.
///
/// Names that start with a dot are skipped, which also hides the folders behind a mounted
/// ConfigMap's symbolic links.
///
/// A folder that cannot be read, links in a circle or is nested too deep is a problem of the listing,
/// as is a file that is none: the others are still listed.
///
/// # Errors
///
/// When `path` itself cannot be read.
pub fn files(path: &Path) -> Result<Listing, FileError> {
    if is_stdin(path) {
        return Ok(Listing { files: vec![path.to_owned()], problems: Vec::new() });
    }
    let mut found = Listing::default();
    let metadata = fs::metadata(path).map_err(unreadable(path))?;
    if metadata.is_dir() {
        let entries = fs::read_dir(path).map_err(unreadable(path))?;
        walk(entries, &mut vec![identity(path, &metadata)], &mut found);
        found.files.sort();
    } else {
        found.files.push(path.to_owned());
    }
    Ok(found)
}

/// Lists the entries of the folder that is the last of `folders`, which contain each other.
fn walk(entries: fs::ReadDir, folders: &mut Vec<Identity>, found: &mut Listing) {
    for entry in entries {
        let Ok(entry) = entry else { continue };
        let path = entry.path();
        let hidden =
            path.file_name().is_some_and(|name| name.as_encoded_bytes().first() == Some(&b'.'));
        if hidden {
            continue;
        }
        // Follows links. A dangling one is what a file being replaced looks like: the next look
        // finds it.
        let Ok(metadata) = fs::metadata(&path) else { continue };
        let known = path
            .extension()
            .and_then(|extension| extension.to_str())
            .is_some_and(|extension| EXTENSIONS.contains(&extension));
        if metadata.is_dir() {
            let folder = identity(&path, &metadata);
            if folders.contains(&folder) {
                found.problems.push(FileError::Loop { path });
            } else if folders.len() > MAX_FOLDER_DEPTH {
                found.problems.push(FileError::TooDeep { path });
            } else {
                match fs::read_dir(&path).map_err(unreadable(&path)) {
                    Ok(entries) => {
                        folders.push(folder);
                        walk(entries, folders, found);
                        folders.pop();
                    }
                    Err(problem) => found.problems.push(problem),
                }
            }
        } else if known && !metadata.is_file() {
            found.problems.push(FileError::NotAFile { path });
        } else if known {
            found.files.push(path);
        } else if metadata.is_file()
            && let Some(meant) = near_name(&path)
            && !path.with_file_name(&meant).exists()
        {
            found.problems.push(FileError::NearName { path, meant });
        }
    }
}

/// Identifies a folder, whatever the path to it.
#[cfg(unix)]
type Identity = (u64, u64);
#[cfg(not(unix))]
type Identity = PathBuf;

#[cfg(unix)]
fn identity(_: &Path, metadata: &fs::Metadata) -> Identity {
    use std::os::unix::fs::MetadataExt as _;
    (metadata.dev(), metadata.ino())
}

#[cfg(not(unix))]
fn identity(path: &Path, _: &fs::Metadata) -> Identity {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

fn unreadable(path: &Path) -> impl Fn(io::Error) -> FileError {
    let path = path.to_owned();
    move |cause| FileError::Read { path: path.clone(), cause }
}

/// Reads a file, or standard input for `-`.
///
/// # Errors
///
/// When it cannot be read, is larger than [`MAX_FILE_BYTES`] or not UTF-8.
pub fn read_file(path: &Path) -> Result<Source, FileError> {
    if is_stdin(path) {
        return read_stream("<stdin>", io::stdin().lock());
    }
    let file = fs::File::open(path).map_err(unreadable(path))?;
    read_stream(&path.display().to_string(), file)
}

/// Endings of copies that editors and people keep beside a file. Without that file they may be meant themselves.
const COPIES: [&str; 7] = ["bak", "copy", "new", "old", "orig", "save", "txt"];

/// Endings of other formats with near names.
const FORMATS: [&str; 4] = ["bson", "json5", "jsonl", "xml"];

/// The name that is meant, if a name ends nearly as that of a file that is read.
fn near_name(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    let (stem, extension) = name.rsplit_once('.')?;
    let is_read = |name: &str| {
        let (_, extension) = name.rsplit_once('.').unwrap_or_default();
        EXTENSIONS.contains(&extension)
    };
    if COPIES.contains(&extension) || name.ends_with('~') {
        let plain = name.strip_suffix('~').unwrap_or(stem);
        return is_read(plain).then(|| plain.to_owned());
    }
    if FORMATS.contains(&extension) {
        return None;
    }
    let meant = near::nearest(extension, EXTENSIONS)?;
    Some(format!("{stem}.{meant}"))
}

/// Whether a path stands for standard input: `-`.
pub fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == "-"
}

fn read_stream(name: &str, stream: impl io::Read) -> Result<Source, FileError> {
    let mut bytes = Vec::new();
    stream.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(unreadable(Path::new(name)))?;
    if u64::try_from(bytes.len()).is_ok_and(|length| length > MAX_FILE_BYTES) {
        return Err(FileError::TooLarge { name: name.to_owned() });
    }
    let text =
        String::from_utf8(bytes).map_err(|_| FileError::NotText { name: name.to_owned() })?;
    Ok(Source::new(name, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_a_folder() {
        let dir = tempfile::tempdir().expect("dir");
        let write = |name: &str| {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().expect("parent")).expect("folder");
            fs::write(path, "").expect("file");
        };
        for name in [
            "b.yaml",
            "a.yml",
            "c.json",
            "README.md",
            ".hidden.yaml",
            "..data/x.yaml",
            "sub/d.yaml",
        ] {
            write(name);
        }
        let found: Vec<_> = files(dir.path())
            .expect("files")
            .files
            .iter()
            .map(|path| path.strip_prefix(dir.path()).expect("inside").display().to_string())
            .collect();
        assert_eq!(found, ["a.yml", "b.yaml", "c.json", "sub/d.yaml"]);
        assert_eq!(files(&dir.path().join("README.md")).expect("files").files.len(), 1);
        assert!(files(&dir.path().join("none")).is_err());
    }

    /// Files that cannot be listed or read are left out and named; the files beside it are listed.
    #[cfg(unix)]
    #[test]
    fn what_is_no_file_spares_its_neighbours() {
        let dir = tempfile::tempdir().expect("dir");
        fs::write(dir.path().join("a.yaml"), "").expect("write");
        std::os::unix::fs::symlink(dir.path(), dir.path().join("again")).expect("link");
        let _socket =
            std::os::unix::net::UnixListener::bind(dir.path().join("s.yaml")).expect("bind");
        let deep = dir.path().join("d/".repeat(MAX_FOLDER_DEPTH + 2));
        fs::create_dir_all(deep).expect("folders");
        let Listing { files, problems } = files(dir.path()).expect("listed");
        assert_eq!(files, [dir.path().join("a.yaml")]);
        let mut problems: Vec<_> = problems.iter().map(ToString::to_string).collect();
        problems.sort();
        let endings = [
            "again` links to a folder that contains it, skipped",
            "folders deep, skipped",
            "s.yaml` is not a regular file, skipped",
        ];
        assert_eq!(problems.len(), endings.len(), "{problems:?}");
        for ending in endings {
            assert!(
                problems.iter().any(|problem| problem.ends_with(ending)),
                "{ending}: {problems:?}"
            );
        }
    }
}
