//! The files that paths of the command line stand for: globs, exclusions, and what belongs to other
//! tools.

use std::{
    collections::BTreeSet,
    path::{Component, Path, PathBuf},
};

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
pub use modgate_review::manifest::is_of_a_tool;
use modgate_value::{Value, diag::Diagnostic, near, yaml};

pub use crate::near_path::did_you_mean;

use crate::manifest::{self, FileError};

/// Why paths of the command line stand for no files.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PathError {
    /// A pattern does not parse.
    #[error("`{pattern}` is not a pattern: {reason}")]
    Pattern {
        /// The pattern.
        pattern: String,
        /// Its error.
        reason: String,
    },
    /// A pattern matches nothing.
    #[error("no file matches `{pattern}`")]
    NoMatch {
        /// The pattern.
        pattern: String,
    },
    /// An address in place of a path.
    #[error("`{address}` is not a path; fetch it first: `{command} ...`, or pipe it in as `-`")]
    Address {
        /// The address.
        address: String,
        /// A command that fetches it.
        command: &'static str,
    },
    /// A file or folder cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
}

type Result<T, E = PathError> = std::result::Result<T, E>;

/// Files that are left out.
#[derive(Debug)]
pub struct Exclude(GlobSet);

impl Exclude {
    /// # Errors
    ///
    /// When a pattern does not parse.
    pub fn new(patterns: &[String]) -> Result<Self> {
        let mut set = GlobSetBuilder::new();
        for pattern in patterns {
            // `--exclude tests` is a folder or file of that name, wherever it is.
            let pattern = pattern.trim_end_matches('/').trim_start_matches("./");
            let is_name = !pattern.contains('/');
            let all = match is_name {
                true => vec![format!("**/{pattern}"), format!("**/{pattern}/**")],
                false => vec![pattern.to_owned(), format!("{pattern}/**")],
            };
            for pattern in all {
                set.add(glob(&pattern)?);
            }
        }
        let built = set.build().map_err(|error| not_a_pattern("--exclude", &error));
        Ok(Self(built?))
    }

    /// Whether a file is left out.
    pub fn excludes(&self, path: &Path) -> bool {
        let plain: PathBuf =
            path.components().filter(|part| !matches!(part, Component::CurDir)).collect();
        self.0.is_match(plain)
    }
}

fn glob(pattern: &str) -> Result<globset::Glob> {
    let built = GlobBuilder::new(pattern).literal_separator(true).build();
    built.map_err(|error| not_a_pattern(pattern, &error))
}

fn not_a_pattern(pattern: &str, error: &globset::Error) -> PathError {
    PathError::Pattern { pattern: pattern.to_owned(), reason: error.kind().to_string() }
}

/// The paths, with patterns replaced by the files that match them, and without excluded files. Paths
/// that are no patterns stay as they are unless something is excluded.
///
/// # Errors
///
/// When a pattern does not parse or matches no file, and for addresses, which are not read.
pub fn expanded(paths: &[PathBuf], exclude: &Exclude) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for path in paths {
        let text = path.to_str().unwrap_or_default();
        if let Some((scheme @ ("http" | "https" | "oci"), _)) = text.split_once("://") {
            let command = if scheme == "oci" { "oras pull" } else { "curl -sfL" };
            return Err(PathError::Address { address: text.to_owned(), command });
        }
        let is_pattern = text.contains(['*', '?', '[']) && !path.exists();
        if is_pattern {
            let files = matching(text, exclude)?;
            if files.is_empty() {
                return Err(PathError::NoMatch { pattern: text.to_owned() });
            }
            found.extend(files);
        } else if exclude.0.is_empty() || manifest::is_stdin(path) || !path.exists() {
            found.push(path.clone());
        } else {
            let listing = manifest::files(path)?;
            if let Some(problem) = listing.problems.into_iter().find(|it| !it.is_harmless()) {
                return Err(problem.into());
            }
            found.extend(listing.files.into_iter().filter(|file| !exclude.excludes(file)));
        }
    }
    Ok(found)
}

/// Warnings about patterns of exclusions that leave out none of the files of paths.
pub fn unmatched<'p>(
    patterns: &[String],
    paths: impl Iterator<Item = &'p PathBuf>,
) -> Vec<Diagnostic> {
    if patterns.is_empty() {
        return Vec::new();
    }
    // Patterns of paths match files from the folder that their fixed part names.
    let none = Exclude(GlobSet::empty());
    let all: Vec<PathBuf> = paths.cloned().collect();
    let listed = expanded(&all, &none).unwrap_or_default();
    let listings = listed.iter().filter_map(|path| manifest::files(path).ok());
    let files: Vec<PathBuf> = listings.flat_map(|listing| listing.files).collect();
    let mut found = Vec::new();
    for pattern in patterns {
        let Ok(exclude) = Exclude::new(std::slice::from_ref(pattern)) else { continue };
        if files.iter().any(|file| exclude.excludes(file)) {
            continue;
        }
        let names = files.iter().flat_map(|file| file.iter()).filter_map(|part| part.to_str());
        let mut finding = Diagnostic::warning(format!("`--exclude {pattern}` leaves out no file"))
            .code("nothing-found");
        finding.help = near::did_you_mean(pattern, names).or_else(|| {
            pattern.contains('/').then(|| {
                "a pattern with `/` is a path as it is given, such as `policies/tests`".to_owned()
            })
        });
        found.push(finding);
    }
    found
}

/// The files that a pattern matches, sorted.
fn matching(pattern: &str, exclude: &Exclude) -> Result<Vec<PathBuf>> {
    let matcher = glob(pattern.trim_start_matches("./"))?.compile_matcher();
    let fixed = |part: &&str| !part.contains(['*', '?', '[', '{']);
    let base: Vec<&str> = pattern.split('/').take_while(fixed).collect();
    let base = match base.join("/") {
        base if base.is_empty() && pattern.starts_with('/') => PathBuf::from("/"),
        base if base.is_empty() => PathBuf::from("."),
        base => PathBuf::from(base),
    };
    let listing = manifest::files(&base)?;
    let plain = |file: PathBuf| file.strip_prefix(".").map(Path::to_owned).unwrap_or(file);
    let files = listing.files.into_iter().map(plain);
    Ok(files.filter(|file| matcher.is_match(file) && !exclude.excludes(file)).collect())
}

/// The patches that the kustomizations among these files name: they look like objects, and are parts of objects.
pub fn patches<'f>(files: impl Iterator<Item = &'f PathBuf>) -> BTreeSet<PathBuf> {
    let is_kustomization = |file: &&PathBuf| is_of_a_tool(file) == Some("a kustomization");
    files.filter(is_kustomization).flat_map(|file| patches_of(file)).collect()
}

/// The patches of one kustomization; none if it cannot be read.
fn patches_of(file: &Path) -> Vec<PathBuf> {
    let Ok(source) = manifest::read_file(file) else { return Vec::new() };
    let Some(Ok(document)) = yaml::manifest(&source.text).next() else { return Vec::new() };
    let entries = |key: &str| {
        let list = document.value.get(key).and_then(Value::as_array);
        list.into_iter().flat_map(|list| list.iter())
    };
    let with_paths = entries("patches").chain(entries("patchesJson6902"));
    let names = with_paths.filter_map(|entry| entry.get("path")?.as_str());
    let names = names.chain(entries("patchesStrategicMerge").filter_map(Value::as_str));
    let folder = file.parent().unwrap_or(Path::new(""));
    names.map(|name| folder.join(name)).collect()
}

/// Whether a file is a template of a Helm chart that has to be rendered first: it stands in `templates` beside a
/// `Chart.yaml` and has a template's `{{`. Its offset, if so.
pub fn template_of_helm(path: &Path, text: &str) -> Option<usize> {
    let is_of_chart = |folder: &Path| {
        folder.file_name().is_some_and(|name| name == "templates")
            && folder.parent().is_some_and(|chart| chart.join("Chart.yaml").is_file())
    };
    path.ancestors().skip(1).any(is_of_chart).then(|| text.find("{{")).flatten()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn patterns_and_exclusions() {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["a.yaml", "b.yml", "sub/c.yaml", "sub/tests/d.yaml", "tests/e.yaml"] {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
            fs::write(path, "").expect("a file");
        }
        let root = folder.path().to_str().expect("text");
        let check = |path: &str, exclude: &[&str], expected: &[&str]| {
            let exclude: Vec<String> =
                exclude.iter().map(|pattern| pattern.replace("ROOT", root)).collect();
            let exclude = Exclude::new(&exclude).expect("patterns");
            let found = expanded(&[PathBuf::from(format!("{root}{path}"))], &exclude);
            let found: Vec<String> = found
                .expect("files")
                .iter()
                .map(|file| file.display().to_string().replace(root, ""))
                .collect();
            assert_eq!(found, expected, "{path} {exclude:?}");
        };
        check("", &[], &[""]);
        check("/gone.yaml", &[], &["/gone.yaml"]);
        check("/*.yaml", &[], &["/a.yaml"]);
        check("/*.y*ml", &[], &["/a.yaml", "/b.yml"]);
        check("/**/*.yaml", &[], &["/a.yaml", "/sub/c.yaml", "/sub/tests/d.yaml", "/tests/e.yaml"]);
        check("/**/*.yaml", &["tests"], &["/a.yaml", "/sub/c.yaml"]);
        check("", &["tests/"], &["/a.yaml", "/b.yml", "/sub/c.yaml"]);
        check("", &["*.yaml"], &["/b.yml"]);
        check("", &["ROOT/sub"], &["/a.yaml", "/b.yml", "/tests/e.yaml"]);
        for path in ["/*.json", "/[", "/x[/*"] {
            let path = PathBuf::from(format!("{root}{path}"));
            let none = Exclude::new(&[]).expect("no patterns");
            expanded(&[path], &none).expect_err("nothing");
        }
        let none = Exclude::new(&[]).expect("no patterns");
        let error =
            expanded(&["https://example.com/a.yaml".into()], &none).expect_err("an address");
        assert!(error.to_string().contains("is not a path"), "{error}");
        Exclude::new(&["[".to_owned()]).expect_err("no pattern");
    }
}
