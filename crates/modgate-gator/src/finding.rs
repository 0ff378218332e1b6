//! Results as reports, for the formats that machines read. Ours.

use std::fs;

use modgate_api::meta::GroupVersionKind;
use modgate_api::meta::ObjectExt as _;
use modgate_engine::{constraint::Violation, guidance::Guidance};
use modgate_policies::{
    findings::diagnostic_of,
    manifest::{self, Manifest},
    place,
};
use modgate_report::{Finding, Format, Level, Object, Report, Rule, snippet, write};
use modgate_value::{
    Value,
    diag::{Diagnostic, Severity, Source},
};

use crate::{Io, VerbFailure, files::os_text};

/// One `-o FORMAT[=FILE]`.
pub(crate) struct Output<'a> {
    pub(crate) format: &'a str,
    pub(crate) file: Option<&'a str>,
}

/// The outputs of a verb: the formats of its own, and those of reports.
///
/// # Errors
///
/// When a format is neither, or two go to standard output.
pub(crate) fn outputs<'a>(
    texts: &'a [String],
    own: &[&str],
) -> Result<Vec<Output<'a>>, VerbFailure> {
    let outputs = split(texts)?;
    for Output { format, .. } in &outputs {
        if !own.contains(format) {
            let parsed = format.parse::<Format>();
            parsed.map_err(|error| VerbFailure::error(error.to_string()))?;
        }
    }
    Ok(outputs)
}

/// The formats and files of outputs.
///
/// # Errors
///
/// When a file has no name, or two outputs go to standard output.
pub(crate) fn split(texts: &[String]) -> Result<Vec<Output<'_>>, VerbFailure> {
    let mut outputs = Vec::new();
    for text in texts {
        let (format, file) = match text.split_once('=') {
            Some((format, "")) => {
                return Err(VerbFailure::error(format!(
                    "`{format}=` names no file: write `-o {format}=FILE`, or `-o {format}` for standard output"
                )));
            }
            Some((format, file)) => (format, Some(file)),
            None => (text.as_str(), None),
        };
        outputs.push(Output { format, file });
    }
    if outputs.iter().filter(|output| output.file.is_none()).count() > 1 {
        return Err(VerbFailure::error(
            "two outputs are written to standard output; give one a file, such as `-o json=FILE`",
        ));
    }
    Ok(outputs)
}

/// Writes a text to the file of an output, or to standard output.
///
/// # Errors
///
/// When it cannot be written.
pub(crate) fn put(text: &str, file: Option<&str>, io: &mut Io<'_>) -> Result<(), VerbFailure> {
    match file {
        Some(file) => fs::write(io.path(file), text).map_err(|error| {
            VerbFailure::error(format!("cannot write `{file}`: {}", os_text(&error)))
        }),
        None => io.print(text),
    }
}

/// Prints what is wrong with policies and files, and reports it; whether none is an error. With
/// `strict`, warnings are errors; with `quiet`, only errors are printed.
pub(crate) fn diagnostics(
    findings: Vec<Diagnostic>,
    strict: bool,
    quiet: bool,
    report: &mut Report,
    io: &mut Io<'_>,
) -> bool {
    let mut good = true;
    for mut finding in findings.into_iter().filter(|finding| !manifest::is_allowed(finding)) {
        if strict && finding.severity == Severity::Warning {
            finding.severity = Severity::Error;
        }
        let is_error = finding.severity == Severity::Error;
        good &= !is_error;
        if is_error || !quiet {
            io.note(&snippet(&finding, false));
        }
        diagnostic_of(report, &finding);
    }
    good
}

/// Ends a run that has no results: the report says why, and `own` writes the verb's own documents
/// without results.
pub(crate) fn failed(
    outputs: &[Output<'_>],
    report: &mut Report,
    failure: VerbFailure,
    own: impl Fn(&str, &Report) -> Option<String>,
    io: &mut Io<'_>,
) -> Result<VerbFailure, VerbFailure> {
    report.complete = false;
    if let Some(message) = &failure.message {
        diagnostic_of(report, &Diagnostic::error(message.trim_start_matches("Error: ")));
    }
    let own = |format: &str| match format {
        "text" | "html" | "lcov" => Some(String::new()),
        format => own(format, report),
    };
    print(outputs, report, own, io)?;
    Ok(failure)
}

/// Writes each output: those of the verb as `own` has them, the others from the report.
pub(crate) fn print(
    outputs: &[Output<'_>],
    report: &Report,
    own: impl Fn(&str) -> Option<String>,
    io: &mut Io<'_>,
) -> Result<(), VerbFailure> {
    for output in outputs {
        let text = match (own(output.format), output.format.parse::<Format>()) {
            (Some(text), _) => text,
            (None, Ok(format)) => write(report, format),
            (None, Err(error)) => return Err(VerbFailure::error(error.to_string())),
        };
        put(&text, output.file, io)?;
    }
    Ok(())
}

/// A report of this version.
pub(crate) fn report() -> Report {
    Report::new(env!("CARGO_PKG_VERSION"))
}

/// Adds a violation by an object of the input, whose policy `read` a field, a pointer.
pub(crate) fn violation(
    report: &mut Report,
    violation: &Violation,
    (manifest, source): (&Manifest, &Source),
    read: Option<&str>,
) {
    let object = &manifest.object;
    let Guidance { owner, remediation, docs_url } = violation.guidance();
    let text = |name: &str| violation.annotations.get(name).and_then(Value::as_str);
    let rule = report.rule(Rule {
        title: text("metadata.gatekeeper.sh/title").unwrap_or_default().to_owned(),
        description: text("description").unwrap_or_default().trim().to_owned(),
        owner: owner.to_string(),
        remediation: remediation.to_string(),
        help_uri: docs_url.to_string(),
        ..Rule::policy(format!("{}/{}", violation.kind, violation.constraint))
    });
    let has = |action: &str| violation.actions.iter().any(|it| it.as_str() == action);
    let level = match (has("deny"), has("warn")) {
        (true, _) => Level::Error,
        (false, true) => Level::Warning,
        (false, false) => Level::Note,
    };
    let GroupVersionKind { group, version, kind } = GroupVersionKind::of_object(object);
    let subject = Object {
        group: group.to_string(),
        version: version.to_string(),
        kind: kind.to_string(),
        namespace: object.namespace().to_owned(),
        name: object.name().to_owned(),
        generate_name: object.metadata("generateName").unwrap_or_default().to_owned(),
    };
    let said = (violation.message.as_str(), &violation.details);
    let (place, field) = place::of_violation(manifest, source, said, read);
    let finding = Finding::new(rule, level, violation.message.as_str()).at(place).about(subject);
    report.findings.push(Finding { action: violation.action.to_string(), field, ..finding });
}
