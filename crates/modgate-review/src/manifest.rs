//! Kubernetes objects in texts: the documents of a text, and where in it each part stands.

mod advice;
mod scalar;
mod unquoted;

pub use self::scalar::offset_within;

use std::{borrow::Cow, path::Path, sync::Arc};

use modgate_engine::{Code, PolicySource, Position, Problem, lint};
use modgate_value::{
    Str, Value,
    diag::{Diagnostic, LineIndex, Severity, Source, Span},
    yaml,
};

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

    /// `file:line:column` of the object, on one line.
    pub fn location(&self) -> String {
        let yaml::Position { line, column, .. } = self.positions.nearest("");
        format!("{}:{line}:{column}", modgate_report::one_line(&self.origin))
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
            Err(error) => findings.push(not_yaml(&error, source)),
        }
    }
    for (offset, message, help) in lint::idle_comments(&source.text) {
        let found = Diagnostic::warning(message).code(Code::AllowAnnotation.as_str()).help(help);
        findings.push(found.at(source.clone(), line_span(&source.text, offset)));
    }
    (manifests, findings)
}

/// Whether a comment in its file allows a warning.
pub fn is_allowed(finding: &Diagnostic) -> bool {
    let Diagnostic { severity, code, source, span, .. } = finding;
    let place = code.zip(source.as_ref()).filter(|_| *severity == Severity::Warning);
    place.is_some_and(|(code, source)| lint::allowed_at(&source.text, span.start, code))
}

/// The finding about a text that is no YAML.
pub fn not_yaml(error: &yaml::Error, source: &Source) -> Diagnostic {
    let offset = error.position.map_or(0, |position| position.offset);
    let quote = advice::unclosed_quote(error, &source.text);
    let colon = advice::missing_space(error, &source.text);
    let span = line_span(&source.text, quote.or(colon).unwrap_or(offset));
    let mut found = Diagnostic::error(advice::message(error)).at(source.clone(), span);
    found.help = match (quote, colon) {
        (Some(_), _) => Some("the quote that opens this text is not closed".to_owned()),
        (None, Some(_)) => Some("a space is missing behind `:`".to_owned()),
        (None, None) => advice::help(error, &source.text),
    };
    found
}

/// The findings about members that a document has more than once.
pub fn repeated<'p>(
    positions: &'p yaml::Positions,
    source: &'p Source,
) -> impl Iterator<Item = Diagnostic> + 'p {
    positions.repeated().into_iter().map(|(name, first, last)| {
        let span = line_span(&source.text, last.offset);
        Diagnostic::warning(format!("`{name}` is there twice; only the last counts"))
            .code(Code::DuplicateKey.as_str())
            .at(source.clone(), span)
            .help(format!("the first is on line {}", first.line))
    })
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
                manifests.push(manifest(item_of(&value, item), place));
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

/// An item of a list. The API server leaves `kind` and `apiVersion` out of the items of a list of one kind, such as a
/// `PodList`; as for kubectl, they follow from those of the list then.
fn item_of(list: &Value, item: &Value) -> Value {
    let text = |of: &Value, key| of.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let kind = text(list, "kind");
    let kind = kind.strip_suffix("List").unwrap_or_default();
    let is_typed = ["kind", "apiVersion"].iter().any(|key| !text(item, key).is_empty());
    let Some(members) = item.as_object().filter(|_| !kind.is_empty() && !is_typed) else {
        return item.clone();
    };
    let mut members = members.clone();
    members.insert("apiVersion", Value::from(text(list, "apiVersion")));
    members.insert("kind", Value::from(kind));
    members.into()
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
    diagnostic.missing.clone_from(&problem.missing);
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
        None => without_picture(message).map_or(message.into(), Cow::Owned),
    }
}

/// An error of CEL in the API server's words has a place of its own, every token that might follow, and a picture of the
/// expression, all of which the place in the file says better.
fn without_picture(message: &str) -> Option<String> {
    let (before, rest) = message.split_once("compilation failed: ERROR: <input>:")?;
    let (place, rest) = rest.split_once(": ")?;
    let is_place = place.bytes().all(|byte| byte.is_ascii_digit() || byte == b':');
    let mut lines = rest.lines();
    let first = lines.next().filter(|_| is_place)?;
    let first = match first.split_once(" expecting {") {
        Some((before, _)) => format!("{before}: expected an expression or an operator"),
        None => first.to_owned(),
    };
    let more = lines.filter(|line| line.starts_with("ERROR: <input>:")).count();
    let more = if more > 0 { format!(" (and {more} more)") } else { String::new() };
    Some(format!("{before}compilation failed: {first}{more}"))
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
    if let Some(quote @ ('"' | '\'')) = written.chars().next() {
        return Span::new(line.start, line.start + quoted(written, quote));
    }
    if written.starts_with(['[', '{']) {
        return line;
    }
    let end = written.find([',', ']', '}']).unwrap_or(written.len());
    let end = written.get(..end).map_or(end, |value| value.trim_end().len());
    Span::new(line.start, line.start + end)
}

/// The length of a text in quotes, with them; all of `written` if it does not end there.
fn quoted(written: &str, quote: char) -> usize {
    let mut is_escaped = false;
    let mut marks = written.char_indices().skip(1).peekable();
    while let Some((at, mark)) = marks.next() {
        let is_doubled = quote == '\'' && marks.peek().is_some_and(|(_, next)| *next == quote);
        if std::mem::take(&mut is_escaped) {
            continue;
        }
        if mark == quote && !is_doubled {
            return at + mark.len_utf8();
        }
        is_escaped = (quote == '"' && mark == '\\') || (mark == quote && is_doubled);
    }
    written.len()
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

/// The kind of a file that belongs to another tool, or configures `modgate check`, and has no Kubernetes object, by its
/// name.
pub fn is_of_a_tool(path: &Path) -> Option<&'static str> {
    let name = path.file_name()?.to_str()?;
    match name {
        "kustomization.yaml" | "kustomization.yml" => Some("a kustomization"),
        "Chart.yaml" | "Chart.lock" => Some("the description of a Helm chart"),
        "values.schema.json" => Some("the schema of a Helm chart's values"),
        "modgate.yaml" => Some("the configuration of `modgate check`"),
        _ => {
            let stem = name.strip_suffix(".yaml").or_else(|| name.strip_suffix(".yml"))?;
            let is_values = stem == "values"
                || stem.starts_with("values-")
                || stem.starts_with("values.")
                || stem.ends_with("-values");
            is_values.then_some("a file of Helm values")
        }
    }
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
        for (text, expected) in [
            (r#"a: ["b, c", d]"#, r#""b, c""#),
            (r#"a: ["b\" c", d]"#, r#""b\" c""#),
            ("a: ['b''c, d', e]", "'b''c, d'"),
            ("a: ['b, c", "'b, c"),
            ("a: {b: 'c'}", "b: 'c'"),
        ] {
            let start = text.find(['"', '\'', 'b']).unwrap_or_default();
            let column = u32::try_from(start + 1).expect("small");
            let span = field_span(text, Position { line: 1, column }, None);
            assert_eq!(&text[span.start..span.end], expected, "{text}");
        }
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
        for (long, expected) in [
            (
                "compilation failed: ERROR: <input>:1:22: Syntax error: extraneous input '==' expecting {'[', '{'}\n | a == ==\n | .....^",
                "compilation failed: Syntax error: extraneous input '==': expected an expression or an operator",
            ),
            (
                "compilation failed: ERROR: <input>:1:1: undeclared reference to 'a'\n | a + b\n | ^\nERROR: <input>:1:5: undeclared reference to 'b'\n | a + b\n | ....^",
                "compilation failed: undeclared reference to 'a' (and 1 more)",
            ),
        ] {
            assert_eq!(brief(long), expected);
        }
    }

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

    #[test]
    fn files_of_other_tools() {
        for (name, expected) in [
            ("base/kustomization.yaml", true),
            ("chart/Chart.yaml", true),
            ("values.yaml", true),
            ("ci/modgate.yaml", true),
            ("values-prod.yml", true),
            ("prod-values.yaml", true),
            ("deployment.yaml", false),
            ("evaluation.yaml", false),
        ] {
            assert_eq!(is_of_a_tool(Path::new(name)).is_some(), expected, "{name}");
        }
    }
}
