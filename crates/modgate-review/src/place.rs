//! The place of a finding in a file: the object, or the field at fault.

use std::{borrow::Cow, collections::BTreeSet};

use modgate_report::{Place, generated_from};
use modgate_value::{Value, diag::Source, pointer, yaml};

use crate::manifest::Manifest;

/// The part of a message that is searched for fields, in bytes.
const MAX_SEARCHED: usize = 4096;
/// The texts of a violation's details that are searched.
const MAX_TEXTS: usize = 64;
/// The members of an object that are compared with a message.
const MAX_MEMBERS: usize = 2_000;
/// The fields of `spec` that hold Pods, by the kind of workload.
const POD_SPECS: [&[&str]; 3] = [
    &["spec"],
    &["spec", "template", "spec"],
    &["spec", "jobTemplate", "spec", "template", "spec"],
];
/// The lists of a Pod whose items have names that messages mention.
const NAMED: [&str; 4] = ["containers", "initContainers", "ephemeralContainers", "volumes"];

/// Where a person edits an object: the file that its generator names, whose lines are unknown, or the
/// place where it stands.
pub fn of_object(manifest: &Manifest, source: &Source) -> Place {
    let position = manifest.positions.nearest("");
    let before = source.text.get(..position.offset).unwrap_or_default();
    match generated_from(&manifest.object, before) {
        Some(file) => Place::at(file, 0, 0),
        None => Place::at(&*manifest.origin, number(position.line), number(position.column)),
    }
}

/// The place of the field that a violation names, else of the one that its policy `read`, a pointer, and its
/// path, such as `spec.replicas`. If neither is a field that the object has, the place is
/// that of the object's name and the path is empty.
pub fn of_violation(
    manifest: &Manifest,
    source: &Source,
    (message, details): (&str, &Value),
    read: Option<&str>,
) -> (Place, String) {
    let place = of_object(manifest, source);
    let Some(pointer) = field(&manifest.object, message, details, read) else {
        let named = manifest.positions.key("/metadata/name").filter(|_| place.line > 0);
        return match named {
            Some(position) => (of_line(&place.file, source, position), String::new()),
            None => (place, String::new()),
        };
    };
    let path = path_of(&pointer);
    // The lines of a generated file are unknown, and the message has the field.
    if place.line == 0 {
        return (place, path);
    }
    let position = manifest.positions.nearest_key(&pointer);
    (of_line(&place.file, source, position), path)
}

/// The rest of a line, from a position in it.
fn of_line(file: &str, source: &Source, position: yaml::Position) -> Place {
    let rest = source.text.get(position.offset..).unwrap_or_default();
    let line = rest.lines().next().unwrap_or_default().trim_end();
    Place {
        end_line: number(position.line),
        end_column: number(position.column.saturating_add(line.chars().count())),
        ..Place::at(file, number(position.line), number(position.column))
    }
}

fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// The pointer (RFC 6901) of the field that a message or its details name, else of the one that the policy read.
fn field(object: &Value, message: &str, details: &Value, read: Option<&str>) -> Option<String> {
    let mut texts = Vec::new();
    strings(details, &mut texts);
    let of_details = || texts.iter().find_map(|text| resolve(object, text));
    let message = message.get(..message.floor_char_boundary(MAX_SEARCHED)).unwrap_or(message);
    let of_message = || words(message).find_map(|word| resolve(object, word.text));
    let named = || item_by_name(object, message);
    let mentioned = || mentioned(object, message, named().unwrap_or_default());
    of_details()
        .or_else(of_message)
        .or_else(mentioned)
        .or_else(|| within(named(), read.and_then(|read| existing(object, read))))
        .or_else(|| of_metadata(object, message))
        .or_else(|| read.and_then(|read| existing(object, read)))
}

/// The field that was read, if it belongs to the container or volume that the message names; that itself if not. A label or
/// annotation is better known to the message.
fn within(named: Option<String>, read: Option<String>) -> Option<String> {
    match (named, read) {
        (Some(named), Some(read)) if read.starts_with(&format!("{named}/")) => Some(read),
        (Some(named), _) => Some(named),
        (None, read) => read.filter(|read| !read.starts_with("/metadata")),
    }
}

/// The field at a pointer, or the innermost one around it that the object has: policies see objects that mutators have changed.
fn existing(object: &Value, pointer: &str) -> Option<String> {
    let mut pointer = pointer;
    while object.pointer(pointer).is_none() {
        (pointer, _) = pointer.rsplit_once('/')?;
    }
    (!pointer.is_empty()).then(|| pointer.to_owned())
}

/// The one member below `within` whose name or value the message has as a word: `hostNetwork`, `nginx:latest`, 8080. Names
/// and values that could be any word do not count.
fn mentioned(object: &Value, message: &str, within: String) -> Option<String> {
    let words: BTreeSet<&str> = words(message).map(|word| word.text).collect();
    let is_telling = |word: &&str| {
        let mut letters = word.chars().skip(1);
        word.len() > 3
            && letters.any(|it| it.is_uppercase() || it.is_ascii_digit() || ":/".contains(it))
    };
    let words: BTreeSet<&str> = words.into_iter().filter(is_telling).collect();
    if words.is_empty() {
        return None;
    }
    let start = if within.is_empty() { "/spec" } else { within.as_str() };
    let (mut open, mut visited) = (vec![(start.to_owned(), object.pointer(start)?)], 0);
    let mut found = BTreeSet::new();
    while let Some((pointer, value)) = open.pop() {
        visited += 1;
        if visited > MAX_MEMBERS {
            return None;
        }
        let below = |name: &str| pointer::below(&pointer, name);
        match value {
            Value::Object(members) => {
                for (name, value) in members {
                    let is_it = words.contains(name.as_str()) || words.contains(&*scalar(value));
                    match is_it {
                        true => {
                            found.insert(below(name.as_str()));
                        }
                        false => open.push((below(name.as_str()), value)),
                    }
                }
            }
            Value::Array(items) => {
                open.extend(items.iter().enumerate().map(|(at, it)| (below(&at.to_string()), it)));
            }
            _ => {}
        }
    }
    // Of several it is not known which one is at fault.
    found.pop_first().filter(|_| found.is_empty())
}

/// A text or a number as messages have it; empty for other values.
fn scalar(value: &Value) -> Cow<'_, str> {
    match value {
        Value::String(text) => text.as_str().into(),
        Value::Number(number) => number.to_string().into(),
        _ => "".into(),
    }
}

/// The texts of a value, as far as they are searched.
fn strings<'v>(value: &'v Value, found: &mut Vec<&'v str>) {
    let mut open = vec![value];
    while let Some(value) = open.pop() {
        if found.len() >= MAX_TEXTS || open.len() >= MAX_TEXTS {
            return;
        }
        match value {
            Value::String(text) => found.push(text),
            Value::Array(items) => open.extend(items.iter().take(MAX_TEXTS)),
            Value::Object(members) => {
                open.extend(members.iter().take(MAX_TEXTS).map(|(_, value)| value));
            }
            _ => {}
        }
    }
}

/// A word of a message, without the punctuation around it.
struct Word<'m> {
    text: &'m str,
    is_quoted: bool,
}

fn words(message: &str) -> impl Iterator<Item = Word<'_>> {
    let pieces = message.split(|it: char| it.is_whitespace() || matches!(it, ',' | ';' | '='));
    pieces.filter(|piece| !piece.is_empty()).map(|piece| {
        let inner = piece.trim_matches([':', '.', '(', ')', '{', '}', '!', '?']);
        let text = inner.trim_matches(['"', '\'', '`', '<', '>']);
        Word { text, is_quoted: text.len() < inner.len() }
    })
}

/// The pointer of the field at a path such as `spec.containers[0].image` or `/spec/replicas`, or of
/// the field that should have it. The path has two fields at least, and the first ones exist.
fn resolve(object: &Value, path: &str) -> Option<String> {
    let segments = segments(path)?;
    let (mut pointer, mut value) = (String::new(), object);
    for (index, segment) in segments.iter().enumerate() {
        let next = match value {
            Value::Array(items) => items.get(segment.parse::<usize>().ok()?),
            value => value.get(segment),
        };
        match next {
            Some(next) => {
                pointer.push('/');
                pointer.push_str(&pointer::escape(segment));
                value = next;
            }
            None if index > 0 && index + 1 == segments.len() => return Some(pointer),
            None => return None,
        }
    }
    Some(pointer)
}

/// The fields of a path; `None` if the text is not one.
fn segments(path: &str) -> Option<Vec<String>> {
    if let Some(pointer) = path.strip_prefix('/') {
        let parts = pointer.split('/').map(|part| pointer::unescape(part).into_owned());
        let parts: Vec<String> = parts.collect();
        return (parts.len() > 1).then_some(parts);
    }
    let mut path = path;
    for prefix in ["$.", ".", "input.review.object.", "variables.anyObject.", "object."] {
        path = path.strip_prefix(prefix).unwrap_or(path);
    }
    let mut segments = Vec::new();
    let mut rest = path;
    while !rest.is_empty() {
        if let Some(inner) = rest.strip_prefix('[') {
            let (index, after) = inner.split_once(']')?;
            let index = index.trim_matches(['"', '\'']);
            if index == "*" {
                break;
            }
            segments.push(index.to_owned());
            rest = after.strip_prefix('.').unwrap_or(after);
            continue;
        }
        let end = rest.find(['.', '[']).unwrap_or(rest.len());
        let (name, after) = rest.split_at(end);
        let is_name = |it: char| it.is_ascii_alphanumeric() || matches!(it, '-' | '_');
        if name.is_empty() || !name.chars().all(is_name) {
            return None;
        }
        segments.push(name.to_owned());
        rest = after.strip_prefix('.').unwrap_or(after);
    }
    (segments.len() > 1).then_some(segments)
}

/// The container or volume whose name the message quotes.
fn item_by_name(object: &Value, message: &str) -> Option<String> {
    let quoted: Vec<&str> =
        words(message).filter(|word| word.is_quoted).map(|word| word.text).collect();
    if quoted.is_empty() {
        return None;
    }
    for spec in POD_SPECS {
        let Some(pod) = object.path(spec) else { continue };
        for list in NAMED {
            let items = pod.get(list).and_then(Value::as_array);
            let is_named = |item: &Value| {
                let name = item.get("name").and_then(Value::as_str);
                name.is_some_and(|name| quoted.contains(&name))
            };
            if let Some(index) = items.and_then(|items| items.iter().position(is_named)) {
                return Some(format!("/{}/{list}/{index}", spec.join("/")));
            }
        }
    }
    None
}

/// The labels or annotations, if the message mentions them: the one that it names, or all.
fn of_metadata(object: &Value, message: &str) -> Option<String> {
    let member = words(message).find_map(|word| match word.text {
        "label" | "labels" => Some("labels"),
        "annotation" | "annotations" => Some("annotations"),
        _ => None,
    })?;
    let members = object.path(&["metadata", member])?.as_object()?;
    let named = words(message).find(|word| members.get(word.text).is_some());
    let of_all = format!("/metadata/{member}");
    Some(match named {
        Some(word) => pointer::below(&of_all, word.text),
        None => of_all,
    })
}

/// A pointer as Kubernetes writes paths: `spec.containers[0].image`.
fn path_of(pointer: &str) -> String {
    let mut path = String::new();
    for segment in pointer.split('/').skip(1) {
        let segment = pointer::unescape(segment);
        let is_plain = |it: char| it.is_ascii_alphanumeric() || matches!(it, '-' | '_');
        if segment.parse::<usize>().is_ok() {
            path.push_str(&format!("[{segment}]"));
        } else if !segment.chars().all(is_plain) {
            path.push_str(&format!("[\"{segment}\"]"));
        } else {
            if !path.is_empty() {
                path.push('.');
            }
            path.push_str(&segment);
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest;

    const DEPLOYMENT: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  labels:
    app.kubernetes.io/name: web
spec:
  replicas: 1
  template:
    spec:
      containers:
      - name: nginx
        image: nginx:latest
      - name: log
        image: \"fluentd\"
";

    #[test]
    fn fields_that_messages_name() {
        let source = Source::new("web.yaml", DEPLOYMENT);
        let (manifests, _) = manifest::parse(&source);
        let manifest = manifests.first().expect("an object");
        let none = "{}";
        for (message, details, expected) in [
            ("too bad", none, "4:3-4:12 "),
            (
                "image nginx:latest is not allowed",
                none,
                "13:9-13:28 spec.template.spec.containers[0].image",
            ),
            (
                "container \"nginx\" has nginx:latest",
                none,
                "13:9-13:28 spec.template.spec.containers[0].image",
            ),
            ("spec.replicas must be 3", none, "8:3-8:14 spec.replicas"),
            ("`spec.paused` is missing", none, "7:1-7:6 spec"),
            (
                "invalid /spec/template/spec/containers/1/image",
                none,
                "15:9-15:25 spec.template.spec.containers[1].image",
            ),
            ("container <log> has no limits", none, "14:9-14:18 spec.template.spec.containers[1]"),
            (
                "spec.template.spec.containers[*].image",
                none,
                "11:7-11:18 spec.template.spec.containers",
            ),
            ("you must provide labels: {\"owner\"}", none, "5:3-5:10 metadata.labels"),
            (
                "label app.kubernetes.io/name: wrong",
                none,
                "6:5-6:32 metadata.labels[\"app.kubernetes.io/name\"]",
            ),
            (
                "wrong",
                r#"{"field": "spec.template.spec.containers[0].image"}"#,
                "13:9-13:28 spec.template.spec.containers[0].image",
            ),
            ("see nginx.conf, example.com/a.b and $.nosuch.field", none, "4:3-4:12 "),
            ("log must not", none, "4:3-4:12 "),
        ] {
            let details = Value::from_json(details.as_bytes()).expect("JSON");
            let (place, field) = of_violation(manifest, &source, (message, &details), None);
            let Place { line, column, end_line, end_column, .. } = place;
            let found = format!("{line}:{column}-{end_line}:{end_column} {field}");
            assert_eq!(found, expected, "{message}");
        }
    }

    #[test]
    fn fields_that_policies_read() {
        let source = Source::new("web.yaml", DEPLOYMENT);
        let (manifests, _) = manifest::parse(&source);
        let manifest = manifests.first().expect("an object");
        for (message, read, expected) in [
            ("too few", "/spec/replicas", "spec.replicas"),
            ("spec.template is wrong", "/spec/replicas", "spec.template"),
            (
                "container <log> is wrong",
                "/spec/template/spec/containers/1/image",
                "spec.template.spec.containers[1].image",
            ),
            (
                "container <log> is wrong",
                "/spec/template/spec/containers/0/image",
                "spec.template.spec.containers[1]",
            ),
            ("labels are missing", "/metadata", "metadata.labels"),
            ("labels of Pods are missing", "/spec/template", "spec.template"),
            ("something is missing", "/metadata/annotations", "metadata"),
            ("too bad", "/spec/template/spec/securityContext/runAsUser", "spec.template.spec"),
            ("too bad", "/nothing", ""),
        ] {
            let said = (message, &Value::Null);
            let (_, field) = of_violation(manifest, &source, said, Some(read));
            assert_eq!(field, expected, "{message}: {read}");
        }
    }

    #[test]
    fn generated_objects_have_the_file_of_their_source() {
        let text = "---\n# Source: shop/templates/a.yaml\napiVersion: v1\nkind: A\n---\n# Source: \
                    shop/templates/b.yaml\n\n# a remark\nkind: B\n---\nkind: C\nmetadata:\n  \
                    annotations:\n    config.kubernetes.io/origin: |\n      path: base/c.yaml\n---\n\
                    kind: D\nmetadata:\n  annotations:\n    config.kubernetes.io/origin: |\n      \
                    path: d.yaml\n      repo: https://example.com\n---\nkind: E\n";
        let source = Source::new("all.yaml", text);
        let (manifests, findings) = manifest::parse(&source);
        assert!(findings.is_empty(), "{findings:?}");
        let places: Vec<String> =
            manifests.iter().map(|manifest| of_object(manifest, &source).to_string()).collect();
        assert_eq!(
            places,
            [
                "shop/templates/a.yaml",
                "shop/templates/b.yaml",
                "base/c.yaml",
                "all.yaml:17:1",
                "all.yaml:24:1"
            ]
        );
        let said = ("metadata.name", &Value::Null);
        let (place, field) = of_violation(&manifests[0], &source, said, None);
        assert_eq!((place.line, field.as_str()), (0, ""), "the object has no metadata");
    }
}
