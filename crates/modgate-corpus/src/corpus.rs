//! Where corpora are and how their files are read.

use std::{
    env, fs,
    io::{Read as _, Write as _},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, bail};
use modgate_value::Value;

/// The environment variable that names a corpus folder.
pub const VARIABLE: &str = "MODGATE_CONFORMANCE";

/// The folders corpora are taken from, the first one first.
///
/// By default these are, as far as they exist: the folder named by [`VARIABLE`]; `conformance/` in
/// this repository, which holds what we recorded ourselves; and `../shared/conformance` beside the
/// repository, which holds upstream's own files too. They form one search path: every file of every
/// folder is run, but a file that stands under the same relative path with the same content in
/// several folders is run once, and what a case refers to (rules, resources) is looked up along
/// the whole path.
#[derive(Debug, Clone)]
pub struct Roots {
    folders: Vec<PathBuf>,
    /// How many of `folders` are run; the rest only serve lookups.
    run: usize,
}

impl Roots {
    /// The default search path.
    pub fn discover() -> Self {
        let repository = repository();
        let named = env::var_os(VARIABLE).map(PathBuf::from);
        let folders: Vec<_> = named
            .into_iter()
            .chain([repository.join("conformance"), repository.join("../shared/conformance")])
            .filter(|folder| folder.is_dir())
            .collect();
        Self { run: folders.len(), folders }
    }

    /// Only what is in `folder`; the default search path still serves lookups.
    ///
    /// # Errors
    ///
    /// When `folder` is not a folder.
    pub fn only(folder: PathBuf) -> Result<Self> {
        if !folder.is_dir() {
            bail!("`{}` is not a folder", folder.display());
        }
        let mut folders = vec![folder];
        folders.extend(Self::discover().folders);
        Ok(Self { folders, run: 1 })
    }

    /// The folders whose files are run.
    pub fn to_run(&self) -> &[PathBuf] {
        self.folders.get(..self.run).unwrap_or_default()
    }

    /// The file `relative` (plain or with `.gz` behind its name) in the first folder that has it.
    pub fn find(&self, relative: &str) -> Option<PathBuf> {
        self.folders
            .iter()
            .flat_map(|folder| [folder.join(relative), folder.join(format!("{relative}.gz"))])
            .find(|path| path.is_file())
    }

    /// The folder `relative` in the first folder that has it.
    pub fn find_folder(&self, relative: &str) -> Option<PathBuf> {
        self.folders.iter().map(|folder| folder.join(relative)).find(|path| path.is_dir())
    }

    /// As [`Roots::find`], preferring the folder that `beside` is in.
    pub fn find_beside(&self, beside: &CorpusFile, relative: &str) -> Option<PathBuf> {
        let own = beside.root.join(relative);
        if own.is_file() { Some(own) } else { self.find(relative) }
    }
}

/// This repository's root folder.
pub fn repository() -> PathBuf {
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = crate_folder.ancestors().nth(2).unwrap_or(crate_folder);
    // A build folder may outlive a move of the repository; fall back on where we are run.
    if root.is_dir() { root.to_owned() } else { PathBuf::from(".") }
}

/// One file of a corpus.
#[derive(Debug, Clone)]
pub struct CorpusFile {
    /// The folder it was found in.
    pub root: PathBuf,
    /// Its path below `root`, with `/`, without a trailing `.gz`.
    pub name: String,
    /// Where it is.
    pub path: PathBuf,
}

impl CorpusFile {
    /// Its content, decompressed if the name ends in `.gz`.
    ///
    /// # Errors
    ///
    /// When it cannot be read.
    pub fn bytes(&self) -> Result<Vec<u8>> {
        read(&self.path)
    }

    /// Its content as JSON.
    ///
    /// # Errors
    ///
    /// When it cannot be read or is not JSON.
    pub fn json(&self) -> Result<Value> {
        Value::from_json(&self.bytes()?)
            .with_context(|| format!("`{}` is not JSON", self.path.display()))
    }
}

/// The content of the file at `path`, decompressed if its name ends in `.gz`.
///
/// # Errors
///
/// When it cannot be read.
pub fn read(path: &Path) -> Result<Vec<u8>> {
    let bytes = fs::read(path).with_context(|| format!("cannot read `{}`", path.display()))?;
    if path.extension().is_none_or(|extension| extension != "gz") {
        return Ok(bytes);
    }
    let mut plain = Vec::new();
    flate2::read::MultiGzDecoder::new(bytes.as_slice())
        .read_to_end(&mut plain)
        .with_context(|| format!("cannot decompress `{}`", path.display()))?;
    Ok(plain)
}

/// Every file below the folders to run, sorted by name; equal files under one name once.
///
/// # Errors
///
/// When a folder cannot be listed or a file not read.
pub fn files(roots: &Roots) -> Result<Vec<CorpusFile>> {
    let mut found: Vec<CorpusFile> = Vec::new();
    for root in roots.to_run() {
        collect(root, root, &mut found)?;
    }
    // Stable: files of one name stay in the order of the folders.
    found.sort_by(|a, b| a.name.cmp(&b.name));
    let mut distinct: Vec<CorpusFile> = Vec::with_capacity(found.len());
    for file in found {
        let mut twin = false;
        for earlier in distinct.iter().rev().take_while(|earlier| earlier.name == file.name) {
            twin |= earlier.bytes()? == file.bytes()?;
        }
        if !twin {
            distinct.push(file);
        }
    }
    Ok(distinct)
}

fn collect(root: &Path, folder: &Path, found: &mut Vec<CorpusFile>) -> Result<()> {
    let entries =
        fs::read_dir(folder).with_context(|| format!("cannot list `{}`", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            collect(root, &path, found)?;
            continue;
        }
        let below = path.strip_prefix(root).unwrap_or(&path);
        let parts: Vec<_> = below.iter().map(|part| part.to_string_lossy()).collect();
        let name = parts.join("/");
        let name = name.strip_suffix(".gz").map(str::to_owned).unwrap_or(name);
        found.push(CorpusFile { root: root.to_owned(), name, path });
    }
    Ok(())
}

/// Writes `bytes` to `path`, compressed if its name ends in `.gz`; for tests and generators.
///
/// # Errors
///
/// When it cannot be written.
pub fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    if path.extension().is_none_or(|extension| extension != "gz") {
        return Ok(fs::write(path, bytes)?);
    }
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes)?;
    Ok(fs::write(path, encoder.finish()?)?)
}
