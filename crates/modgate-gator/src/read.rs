//! Reads objects from files, folders, images and standard input (7.2).

pub(crate) mod input;

use std::{
    collections::HashMap,
    fmt, fs,
    io::Read,
    path::{Path, PathBuf},
    rc::Rc,
    time::{SystemTime, UNIX_EPOCH},
};

use modgate_api::meta::GroupVersionKind;
use modgate_api::meta::ObjectExt as _;
pub(crate) use modgate_engine::sync_data::what;
use modgate_value::{
    Str, Value, gofmt,
    gotime::{Time, Zone},
    yaml,
};

use crate::{
    Io, VerbFailure,
    args::ImageArgs,
    files::{clean, os_text, walk},
    oci,
};

/// One object of the input.
#[derive(Debug, Clone)]
pub(crate) struct Resource {
    pub(crate) object: Value,
    pub(crate) origin: Rc<Origin>,
}

impl Resource {
    pub(crate) fn new(object: Value, origin: &Rc<Origin>) -> Self {
        Self { object, origin: Rc::clone(origin) }
    }
}

/// The source of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    File { path: String, image: Option<String> },
    Stdin,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, image } => {
                write!(f, "file: {}", gofmt::quote(path))?;
                match image {
                    Some(image) => write!(f, ", image: {}", gofmt::quote(image)),
                    None => Ok(()),
                }
            }
            Self::Stdin => f.write_str("stdin"),
        }
    }
}

/// Extensions of files with objects.
const EXTENSIONS: [&str; 3] = [".yaml", ".yml", ".json"];
/// Maximum bytes of a file or input.
const MAX_BYTES: u64 = 256 << 20;
/// Bytes within which a brace marks a text as JSON.
const JSON_GUESS: usize = 1024;

/// Reads everything, in the order files, images, standard input; objects that are defined twice
/// are reported and kept.
///
/// The error is one for people, without the verb's own prefix.
pub(crate) fn sources(
    filenames: &[String],
    images: &ImageArgs,
    io: &mut Io<'_>,
) -> Result<Vec<Resource>, String> {
    let mut read = Vec::new();
    for name in filenames {
        let files = files_of(name, io.directory)
            .map_err(|error| format!("reading from filenames: {error}"))?;
        for shown in files {
            let origin = Origin::File { path: shown.clone(), image: None };
            let path = io.path(&shown);
            read_file(&path, &shown, origin, &mut read)
                .map_err(|error| format!("reading from filenames: {error}"))?;
        }
    }
    for image in &images.images {
        if images.plain_http {
            io.note(&format!("WARNING: pulling {} over plain HTTP", gofmt::quote(image)));
        }
        read_image(image, images, io, &mut read)
            .map_err(|error| format!("pulling image: {error}"))?;
    }
    if let Some(stdin) = io.stdin.as_deref_mut() {
        let origin = Rc::new(Origin::Stdin);
        let objects = read_limited(stdin)
            .map_err(|error| format!("reading yaml source: {error}"))
            .and_then(|text| objects_of(&text))
            .map_err(|error| format!("reading from stdin: reading: {error}"))?;
        read.extend(objects.into_iter().map(|object| Resource::new(object, &origin)));
    }
    warn_of_duplicates(&read, io);
    Ok(read)
}

/// As [`sources`], for the verbs that fail with `reading: ` and on empty input.
pub(crate) fn sources_or_failure(
    filenames: &[String],
    images: &ImageArgs,
    io: &mut Io<'_>,
) -> Result<Vec<Resource>, VerbFailure> {
    let read = sources(filenames, images, io)
        .map_err(|error| VerbFailure::plain(format!("reading: {error}")))?;
    if read.is_empty() {
        return Err(VerbFailure::plain("no input data identified"));
    }
    Ok(read)
}

/// The files a path of the command line stands for, as messages show them.
fn files_of(name: &str, directory: &Path) -> Result<Vec<String>, String> {
    let path = directory.join(name);
    // Follows a link to a folder, which the original reads as empty (fix-symlink-root).
    let found = fs::metadata(&path).map_err(|error| {
        format!("stat on path {}: stat {name}: {}", gofmt::quote(name), os_text(&error))
    })?;
    if !found.is_dir() {
        if !has_extension(name) {
            return Err(format!(
                "path {} must be of extensions: [{}]",
                gofmt::quote(name),
                EXTENSIONS.join(" ")
            ));
        }
        return Ok(vec![name.to_owned()]);
    }
    let mut files = Vec::new();
    walk(&path, &clean(name), 0, &mut |shown| {
        if has_extension(&shown) {
            files.push(shown);
        }
    })?;
    Ok(files)
}

fn has_extension(name: &str) -> bool {
    let file = name.rsplit('/').next().unwrap_or(name);
    file.rfind('.').is_some_and(|at| EXTENSIONS.contains(&file.get(at..).unwrap_or_default()))
}

fn read_file(
    path: &Path,
    shown: &str,
    origin: Origin,
    read: &mut Vec<Resource>,
) -> Result<(), String> {
    let failed = |error: String| format!("reading file {}: {error}", gofmt::quote(shown));
    let file = fs::File::open(path)
        .map_err(|error| failed(format!("open {shown}: {}", os_text(&error))))?;
    let text = read_limited(&mut &file)
        .map_err(|error| failed(format!("reading yaml source: {error}")))?;
    let objects = objects_of(&text).map_err(failed)?;
    let origin = Rc::new(origin);
    read.extend(objects.into_iter().map(|object| Resource::new(object, &origin)));
    Ok(())
}

/// The folder with the files of an image; it goes away with the value.
pub(crate) fn pulled(
    image: &str,
    images: &ImageArgs,
    io: &Io<'_>,
) -> Result<tempfile::TempDir, String> {
    let base = match images.tempdir.as_deref() {
        Some(folder) if !folder.is_empty() => io.path(folder),
        _ => std::env::temp_dir(),
    };
    let folder = tempfile::Builder::new()
        .prefix("gator-bundle-")
        .tempdir_in(&base)
        .map_err(|error| format!("creating temporary directory: {}", os_text(&error)))?;
    oci::pull(image, images.plain_http, folder.path(), io.env)?;
    Ok(folder)
}

fn read_image(
    image: &str,
    images: &ImageArgs,
    io: &Io<'_>,
    read: &mut Vec<Resource>,
) -> Result<(), String> {
    let folder = pulled(image, images, io)?;
    let mut files: Vec<PathBuf> = Vec::new();
    let root = folder.path().to_string_lossy().into_owned();
    walk(folder.path(), &root, 0, &mut |path| {
        if has_extension(&path) {
            files.push(path.into());
        }
    })?;
    for path in files {
        let shown =
            path.strip_prefix(folder.path()).unwrap_or(&path).to_string_lossy().into_owned();
        let origin = Origin::File { path: shown.clone(), image: Some(image.to_owned()) };
        read_file(&path, &shown, origin, read)?;
    }
    Ok(())
}

pub(crate) fn read_limited(from: &mut dyn Read) -> Result<String, String> {
    let mut bytes = Vec::new();
    from.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(|error| os_text(&error))?;
    if u64::try_from(bytes.len()).is_ok_and(|length| length > MAX_BYTES) {
        return Err(format!("more than {} MiB", MAX_BYTES >> 20));
    }
    String::from_utf8(bytes).map_err(|_| "not UTF-8 text".to_owned())
}

/// The objects of a text: JSON objects one after another, or YAML documents.
fn objects_of(text: &str) -> Result<Vec<Value>, String> {
    let failed = |error: String| format!("reading yaml source: {error}");
    let head = text.get(..text.floor_char_boundary(JSON_GUESS)).unwrap_or(text);
    let mut objects = Vec::new();
    let mut keep = |value: Value| match value {
        Value::Null => Ok(()),
        Value::Object(members) if members.is_empty() => Ok(()),
        Value::Object(_) => {
            objects.push(value);
            Ok(())
        }
        other => Err(failed(format!("a document is {}, not an object", what(&other)))),
    };
    if head.trim_start().starts_with('{') {
        let (json, rest) = json_and_yaml(text);
        for piece in json_values(json) {
            let value = Value::from_json(piece.as_bytes());
            keep(value.map_err(|error| failed(error.to_string()))?)?;
        }
        for document in yaml::documents(rest) {
            keep(document.map_err(|error| failed(converting(&error)))?.value)?;
        }
    } else {
        for document in yaml::documents(text) {
            keep(document.map_err(|error| failed(converting(&error)))?.value)?;
        }
    }
    Ok(objects)
}

/// The original's error for a text that is not YAML, with its prefix.
fn converting(error: &yaml::Error) -> String {
    format!("error converting YAML to JSON: {error}")
}

/// Splits a text that begins as JSON: the part after the first document separator is YAML.
fn json_and_yaml(text: &str) -> (&str, &str) {
    let starts = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1));
    // Inside of JSON no line begins like that: strings have no line breaks.
    let mut separators = starts.filter(|at| {
        let rest = text.get(*at..).and_then(|line| line.strip_prefix("---"));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n']))
    });
    separators.next().map_or((text, ""), |at| text.split_at(at))
}

/// The texts of JSON values that stand one after another. Text that is not JSON stays in its piece.
fn json_values(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        rest = rest.trim_start();
        if rest.is_empty() {
            return None;
        }
        let (mut depth, mut quoted, mut escaped) = (0_usize, false, false);
        let end = rest.bytes().position(|byte| {
            match byte {
                _ if escaped => escaped = false,
                b'\\' if quoted => escaped = true,
                b'"' => quoted = !quoted,
                _ if quoted => {}
                b'{' | b'[' => depth += 1,
                b'}' | b']' => {
                    depth = depth.saturating_sub(1);
                    return depth == 0;
                }
                _ => {}
            }
            false
        });
        let (piece, after) = rest.split_at(end.map_or(rest.len(), |end| end + 1));
        rest = after;
        Some(piece)
    })
}

fn warn_of_duplicates(read: &[Resource], io: &mut Io<'_>) {
    let mut known: HashMap<(Str, Str, &str, &str), &Resource> = HashMap::new();
    for resource in read {
        let object = &resource.object;
        let kind = GroupVersionKind::of_object(object);
        let name = object.name();
        let key = (kind.group, kind.kind, object.namespace(), name);
        if let Some(before) = known.insert(key, resource) {
            io.note(&format!(
                "{} WARNING - Resource named {} (from {}) is already defined in {}",
                now(),
                gofmt::quote(name),
                resource.origin,
                before.origin
            ));
        }
    }
}

/// The time for a log line, in UTC.
fn now() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let seconds = i64::try_from(since.as_secs()).unwrap_or_default();
    Time::at_unix(seconds, Zone::utc()).format("2006/01/02 15:04:05")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_one_after_another() {
        let read = |text: &str| {
            objects_of(text).map(|all| all.iter().map(Value::to_json).collect::<Vec<_>>().join(" "))
        };
        assert_eq!(read(r#" {"a": "}\""}{"b": [{}]}"#).as_deref(), Ok(r#"{"a":"}\""} {"b":[{}]}"#));
        assert!(read(r#"{"a": 1} ]"#).is_err());
        assert!(read(r#"{"a": 1} {"b"#).is_err());
        assert_eq!(read("# none\n---\n---\na: yes").as_deref(), Ok(r#"{"a":true}"#));
        assert_eq!(read("{\"a\": 1}\n---\nb: 2\n").as_deref(), Ok(r#"{"a":1} {"b":2}"#));
        assert!(read("- a").is_err());
    }
}
