//! Kubernetes objects in files: which files there are, which documents they hold, and where in the
//! text each part stands.

mod advice;
mod unquoted;

use std::{
    borrow::Cow,
    fs,
    io::{self, Read as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use modgate_engine::{PolicySource, Position, Problem};
use modgate_value::{
    Str, Value,
    diag::{Diagnostic, LineIndex, Source, Span},
    yaml,
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
    #[error("cannot read `{}`: {}", path.display(), reason(source))]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// The system's message.
        source: io::Error,
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
        matches!(self, Self::Loop { .. } | Self::NotAFile { .. })
    }

    /// The same with another path in its text, such as one that is relative to the user's folder.
    #[must_use]
    pub fn shown(self, shown: &dyn Fn(&Path) -> PathBuf) -> Self {
        let named = |name: String| shown(Path::new(&name)).display().to_string();
        match self {
            Self::Read { path, source } => Self::Read { path: shown(&path), source },
            Self::TooLarge { name } => Self::TooLarge { name: named(name) },
            Self::NotText { name } => Self::NotText { name: named(name) },
            Self::TooDeep { path } => Self::TooDeep { path: shown(&path) },
            Self::Loop { path } => Self::Loop { path: shown(&path) },
            Self::NotAFile { path } => Self::NotAFile { path: shown(&path) },
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
        Self::error(error.to_string())
    }
}

/// One object of a file.
#[derive(Debug, Clone)]
pub struct Manifest {
    /// The file's name, as the user gave it.
    pub origin: Str,
    /// The object.
    pub object: Value,
    /// Where its parts stand in the file.
    pub positions: Arc<yaml::Positions>,
}

impl Manifest {
    /// The member `kind`; empty if there is none.
    pub fn kind(&self) -> &str {
        self.text(&["kind"])
    }

    /// The member `apiVersion`; empty if there is none.
    pub fn api_version(&self) -> &str {
        self.text(&["apiVersion"])
    }

    /// The name; empty if there is none.
    pub fn name(&self) -> &str {
        self.text(&["metadata", "name"])
    }

    /// The namespace; empty if there is none.
    pub fn namespace(&self) -> &str {
        self.text(&["metadata", "namespace"])
    }

    fn text(&self, path: &[&str]) -> &str {
        self.object.path(path).and_then(Value::as_str).unwrap_or_default()
    }

    /// The object as a policy.
    pub fn into_policy(self) -> PolicySource {
        PolicySource { origin: self.origin, object: self.object, positions: Some(self.positions) }
    }

    /// `file:line:column` of the object.
    pub fn location(&self) -> String {
        let yaml::Position { line, column, .. } = self.positions.nearest("");
        format!("{}:{line}:{column}", self.origin)
    }

    /// A finding about the object as a whole.
    pub fn finding(&self, diagnostic: Diagnostic, source: &Source) -> Diagnostic {
        self.finding_at("", diagnostic, source)
    }

    /// A finding about a member of the object, or about the object as a whole.
    pub fn finding_at(&self, member: &str, diagnostic: Diagnostic, source: &Source) -> Diagnostic {
        let pointer = if member.is_empty() { String::new() } else { format!("/{member}") };
        let offset = self.positions.nearest(&pointer).offset;
        diagnostic.at(source.clone(), line_span(&source.text, offset))
    }

    /// A finding about the name of a member.
    pub fn finding_at_key(
        &self,
        name: &str,
        diagnostic: Diagnostic,
        source: &Source,
    ) -> Diagnostic {
        let offset = self.positions.nearest_key(&format!("/{name}")).offset;
        diagnostic.at(source.clone(), line_span(&source.text, offset))
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
    move |source| FileError::Read { path: path.clone(), source }
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

/// The objects of a file: one per document, those of a `List` one by one, empty documents skipped.
/// JSON objects may follow one another without a separator.
///
/// Documents that cannot be read are findings; the others are still returned.
pub fn parse(source: &Source) -> (Vec<Manifest>, Vec<Diagnostic>) {
    let mut manifests = Vec::new();
    let mut findings = Vec::new();
    for document in yaml::manifest(&source.text) {
        match document {
            Ok(document) => collect(document, source, &mut manifests, &mut findings),
            Err(error) => {
                let offset = error.position.map_or(0, |position| position.offset);
                let quote = advice::unclosed_quote(&error, &source.text);
                let span = line_span(&source.text, quote.unwrap_or(offset));
                let mut found = Diagnostic::error(advice::message(&error)).at(source.clone(), span);
                found.help = match quote {
                    Some(_) => Some("the quote that opens this text is not closed".to_owned()),
                    None => advice::help(&error, &source.text),
                };
                findings.push(found);
            }
        }
    }
    (manifests, findings)
}

fn collect(
    document: yaml::Document,
    source: &Source,
    manifests: &mut Vec<Manifest>,
    findings: &mut Vec<Diagnostic>,
) {
    let yaml::Document { value, positions } = document;
    let manifest = |object: Value, positions: yaml::Positions| Manifest {
        origin: Str::from(&*source.name),
        object,
        positions: Arc::new(positions),
    };
    match value {
        Value::Null => {}
        Value::Object(ref members) if is_list(&value) => {
            let items = members.get("items").and_then(Value::as_array);
            for (index, item) in items.into_iter().flatten().enumerate() {
                let place = positions.below(&format!("/items/{index}"));
                let place = place.unwrap_or_else(|| positions.clone());
                manifests.push(manifest(item.clone(), place));
            }
        }
        Value::Object(_) => manifests.push(manifest(value, positions)),
        other => {
            let message =
                format!("expected an object, found a document of type {}", other.type_name());
            let found = manifest(Value::Null, positions);
            findings.push(found.finding(Diagnostic::error(message), source));
        }
    }
}

/// The kind that `kubectl get -o yaml` prints for several objects.
fn is_list(document: &Value) -> bool {
    let text = |key| document.get(key).and_then(Value::as_str).unwrap_or_default();
    text("kind").ends_with("List")
        && document.get("items").is_some_and(|items| items.as_array().is_some())
}

/// The engine's finding about a policy, as a finding about its file.
///
/// `source` is the file, where its text is still at hand.
pub fn diagnose(problem: &Problem, source: Option<&Source>) -> Diagnostic {
    let field =
        if problem.field.is_empty() { String::new() } else { format!("{}: ", problem.field) };
    let message = format!("{}: {field}{}", problem.policy, brief(&problem.message));
    let mut diagnostic = match problem.severity {
        modgate_engine::Severity::Warning => Diagnostic::warning(message),
        modgate_engine::Severity::Error => Diagnostic::error(message),
    };
    diagnostic.help.clone_from(&problem.help);
    diagnostic.code = problem.code.map(|code| code.as_str());
    match (source, problem.position) {
        (Some(source), Some(position)) => {
            let text = problem.text.as_deref();
            let span = text
                .zip(problem.span)
                .and_then(|(text, part)| block_span(&source.text, position, text, part))
                .unwrap_or_else(|| field_span(&source.text, position, problem.span));
            let written = source.text.get(span.start..).unwrap_or_default();
            match unquoted::scalar(&problem.message, written) {
                Some((scalar, help)) => {
                    diagnostic.help.get_or_insert(help);
                    diagnostic.at(source.clone(), Span::new(span.start, span.start + scalar.len()))
                }
                None => diagnostic.at(source.clone(), span),
            }
        }
        (Some(source), None) => diagnostic.at(source.clone(), line_span(&source.text, 0)),
        (None, _) => {
            if let Some(Position { line, column }) = problem.position {
                diagnostic.message =
                    format!("{}:{line}:{column}: {}", problem.origin, diagnostic.message);
            }
            diagnostic
        }
    }
}

/// KubeMod's parse errors repeat the expression and count its columns (spec `kubemod.md`, 1.5):
/// `parsing error: <expression><TAB>:1:5 - 1:5 <detail>`. Where the place is underlined the detail
/// says it all.
fn brief(message: &str) -> Cow<'_, str> {
    let detail = message
        .strip_prefix("parsing error: ")
        .and_then(|rest| rest.rsplit_once('\t')?.1.split_once(" - ")?.1.split_once(' '));
    match detail {
        Some((_, detail)) => format!("parsing error: {detail}").into(),
        None => message.into(),
    }
}

/// The stretch of a file that bytes `part` of the scalar at `position` come from.
///
/// Exact where the scalar stands on one line without escapes; otherwise the rest of its first line.
fn field_span(text: &str, position: Position, part: Option<Span>) -> Span {
    let start = offset_of(text, position);
    let line = line_span(text, start);
    let written = text.get(start..line.end).unwrap_or_default();
    let Some(part) = part else { return in_flow(text, line) };
    let (indent, body) = match written.chars().next() {
        Some(quote @ ('"' | '\'')) => {
            let body = written.get(1..).unwrap_or_default();
            let body = body.split_once(quote).map_or(body, |(body, _)| body);
            (1, if quote == '"' && body.contains('\\') { "" } else { body })
        }
        // The text of a block scalar starts on the next line, with its indentation cut.
        Some('|' | '>') | None => (0, ""),
        Some(_) => (0, written),
    };
    if part.start <= part.end && part.end <= body.len() && !body.is_empty() {
        Span::new(start + indent + part.start, start + indent + part.end)
    } else {
        line
    }
}

/// The part of the rest of a line that belongs to one value: in `[a, b]` and `{a: b}` a plain text ends
/// before the next value.
fn in_flow(text: &str, line: Span) -> Span {
    let before = text.get(..line.start).unwrap_or_default();
    let begin = before.rfind('\n').map_or(0, |newline| newline + 1);
    let before = before.get(begin..).unwrap_or_default();
    let count = |marks: [char; 2]| before.matches(marks).count();
    if count(['[', '{']) <= count([']', '}']) {
        return line;
    }
    let written = text.get(line.start..line.end).unwrap_or_default();
    if written.starts_with(['[', '{', '"', '\'']) {
        return line;
    }
    let end = written.find([',', ']', '}']).unwrap_or(written.len());
    let end = written.get(..end).map_or(end, |value| value.trim_end().len());
    Span::new(line.start, line.start + end)
}

/// The stretch of a file that bytes `part` of a literal block scalar come from: `text`, whose `|`
/// is at `position`. `None` for other scalars. Ends with the line it starts in.
fn block_span(file: &str, position: Position, text: &str, part: Span) -> Option<Span> {
    if !file.get(offset_of(file, position)..)?.starts_with('|') {
        return None;
    }
    let before = text.get(..part.start)?;
    let begin = before.rfind('\n').map_or(0, |newline| newline + 1);
    let line = text.get(begin..)?.split('\n').next()?;
    let skipped = before.bytes().filter(|byte| *byte == b'\n').count();
    let start = LineIndex::new(file).line_start(position.line as usize + 1 + skipped)?;
    let written = file.get(start..)?.split('\n').next()?;
    let written = written.strip_suffix('\r').unwrap_or(written);
    // What is in the file but not in the text is the indentation.
    let indent = written.len().checked_sub(line.len())?;
    if !written.ends_with(line) || written.bytes().take(indent).any(|byte| byte != b' ') {
        return None;
    }
    let within = (part.start - begin).min(line.len());
    let end = (part.end.max(part.start) - begin).min(line.len());
    Some(Span::new(start + indent + within, start + indent + end))
}

fn offset_of(text: &str, position: Position) -> usize {
    let (line, column) = (position.line as usize, position.column as usize);
    let start = LineIndex::new(text).line_start(line).unwrap_or(text.len());
    let rest = text.get(start..).unwrap_or_default();
    let within = rest.char_indices().nth(column.saturating_sub(1)).map_or(rest.len(), |(at, _)| at);
    start + within
}

/// From `offset` to the end of its line.
fn line_span(text: &str, offset: usize) -> Span {
    let rest = text.get(offset..).unwrap_or_default();
    let length = rest.find(['\n', '\r']).unwrap_or(rest.len());
    Span::new(offset, offset + length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_of_fields() {
        let text = "a: $.b[\nc: '$.d]'\ne: \"x\\n$\"\nf: |\n  $.g\n";
        let slice = |line, column, part: Option<std::ops::Range<usize>>| {
            let part = part.map(Span::from);
            let span = field_span(text, Position { line, column }, part);
            text.get(span.start..span.end).unwrap_or("?")
        };
        assert_eq!(slice(1, 4, Some(3..4)), "[");
        assert_eq!(slice(1, 4, None), "$.b[");
        assert_eq!(slice(2, 4, Some(3..4)), "]");
        assert_eq!(slice(3, 4, Some(0..1)), "\"x\\n$\"");
        assert_eq!(slice(4, 4, Some(0..1)), "|");
        assert_eq!(slice(9, 9, Some(0..1)), "");
    }

    #[test]
    fn spans_in_block_scalars() {
        let file = "a:\n  rego: |\n    package p\n\n    violation { x }\n  b: |2-\n      c\n";
        let text = "package p\n\nviolation { x }\n";
        let slice = |line, column, text: &str, part: std::ops::Range<usize>| {
            let span = block_span(file, Position { line, column }, text, part.into())?;
            file.get(span.start..span.end).map(|slice| (span.start, slice))
        };
        assert_eq!(slice(2, 9, text, 8..9), Some((25, "p")));
        assert_eq!(slice(2, 9, text, 23..24), Some((44, "x")));
        assert_eq!(slice(2, 9, text, 0..1000), Some((17, "package p")));
        assert_eq!(slice(2, 9, text, 10..10), Some((27, "")), "an empty line");
        assert_eq!(slice(6, 6, "  c", 2..3), Some((63, "c")));
        assert_eq!(slice(2, 9, "something else", 0..1), None);
        assert_eq!(slice(1, 1, text, 0..1), None);
    }

    #[test]
    fn parse_errors_are_cut_short() {
        let long = "parsing error: $.a[\t:1:5 - 1:5 unexpected EOF while scanning extensions";
        assert_eq!(brief(long), "parsing error: unexpected EOF while scanning extensions");
        assert_eq!(
            brief("parsing error: a\t - 1:2 unknown operator ="),
            "parsing error: unknown operator ="
        );
        assert_eq!(brief("required"), "required");
    }

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

    #[cfg(unix)]
    #[test]
    fn json_is_told_by_its_first_byte() {
        let text = "{\"kind\": \"A\", \"x\": \"\\ud83d\\ude00\\/\"}\n{\"kind\": \"B\"}\n\
                    {\"kind\": \"List\", \"items\": [{\"kind\": \"C\"},\n {\"kind\": \"D\"}]}\n";
        let (manifests, findings) = parse(&Source::new("stream.json", text.to_owned()));
        assert!(findings.is_empty(), "{findings:?}");
        let found: Vec<String> = manifests
            .iter()
            .map(|found| format!("{} {}", found.kind(), found.location()))
            .collect();
        let expected =
            ["A stream.json:1:1", "B stream.json:2:1", "C stream.json:3:28", "D stream.json:4:2"];
        assert_eq!(found, expected);
        assert_eq!(manifests[0].object.get("x"), Some(&Value::from("😀/")));
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
