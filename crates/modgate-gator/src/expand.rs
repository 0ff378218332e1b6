//! `gator expand`: what the cluster would make of objects (7.5).

use std::fs;

use modgate_api::meta::ObjectExt as _;
use modgate_engine::{Review, Stages, constraint::Inventory, expansion::expandable};
use modgate_policies::findings::diagnostic_of;
use modgate_report::{Report, about_policies};
use modgate_value::{Value, diag::Diagnostic};

use crate::{
    Io, VerbFailure,
    args::ExpandArgs,
    expander::Expander,
    files, finding,
    policies::Policies,
    print::{self, Layout, Node, Style},
    read,
    read::input,
    review::Session,
};

/// Runs the verb. Where there are no objects, machines that name a format get the errors in their place.
pub(crate) fn run(args: &ExpandArgs, is_gator: bool, io: &mut Io<'_>) -> Result<u8, VerbFailure> {
    let mut report = finding::report();
    let done = expanded(args, is_gator, &mut report, io);
    let Err(failure) = done else { return done };
    if let Some(message) = &failure.message {
        diagnostic_of(&mut report, &Diagnostic::error(message.trim_start_matches("Error: ")));
    }
    let findings = Value::from(about_policies(&report));
    match args.format.as_deref().filter(|_| !is_gator && failure.code != 0) {
        Some("json") => {
            let mut text = String::new();
            print::json(&Node::Value(findings), "    ", &mut text);
            io.line(&text)?;
        }
        Some("yaml") => {
            io.print(&print::yaml(&Node::Value(findings), Style::V2, Layout::Block))?;
        }
        _ => {}
    }
    Err(failure)
}

fn expanded(
    args: &ExpandArgs,
    is_gator: bool,
    report: &mut Report,
    io: &mut Io<'_>,
) -> Result<u8, VerbFailure> {
    let format = args.format.as_deref().unwrap_or("yaml");
    if !is_gator && args.filenames.is_empty() && !matches!(format, "yaml" | "json") {
        return Err(VerbFailure::plain(format!(
            "`-f` is the output format of `expand`; read files with `-n {format}`"
        )));
    }
    let resources = match is_gator {
        true => read::sources_or_failure(&args.filenames, &args.images, io)?,
        false => input::checked(&args.filenames, &args.images, &args.checks, report, io)?,
    };
    let mut resultants = resultants(resources.iter().map(|resource| &resource.object))
        .map_err(|error| VerbFailure::plain(format!("error expanding resources: {error}")))?;
    // Sorted descending by the name and what follows it.
    resultants.sort_by_key(|object| std::cmp::Reverse(sort_key(object)));
    let text = match format {
        "yaml" => {
            let documents = resultants
                .iter()
                .map(|object| print::yaml(&Node::Value(object.clone()), Style::V2, Layout::Block));
            documents.collect::<Vec<_>>().join("---\n")
        }
        "json" => {
            let documents = resultants.iter().map(|object| {
                let mut out = String::new();
                print::json(&Node::Value(object.clone()), "    ", &mut out);
                out
            });
            // Upstream's own way to join them (G71).
            documents.collect::<Vec<_>>().join("---\n")
        }
        other => {
            return Err(VerbFailure::plain(format!("unrecognized value for format flag: {other}")));
        }
    };
    match args.outputfile.as_deref() {
        Some(path) if !path.is_empty() => {
            io.line(&format!("Writing output to file: {path}"))?;
            fs::write(io.path(path), text).map_err(|error| {
                VerbFailure::plain(format!(
                    "error writing to file: open {path}: {}",
                    files::os_text(&error)
                ))
            })?;
        }
        _ => io.line(&text)?,
    }
    Ok(0)
}

fn resultants<'o>(objects: impl Iterator<Item = &'o Value> + Clone) -> Result<Vec<Value>, String> {
    let expander = Expander::of(objects.clone(), &Policies::default())?;
    let (inventory, mut session) = (Inventory::default(), Session::default());
    let mut resultants = Vec::new();
    for object in objects {
        // gator reads the kind of every object, also where nothing expands it.
        expandable(object)
            .map_err(|error| format!("error expanding resource {}: {error}", object.name()))?;
        let review = Review::of_existing(object.clone());
        let namespace = expander.namespace_of(object);
        let reviewed =
            session.decide(&expander.snapshot, &inventory, review, namespace, Stages::EXPAND);
        let found = reviewed.of_object(object)?.resultants;
        resultants.extend(found.into_iter().map(|resultant| resultant.object));
    }
    Ok(resultants)
}

fn sort_key(object: &Value) -> String {
    let text = |key| object.get(key).and_then(Value::as_str).unwrap_or_default();
    format!("{}{}{}", object.name(), text("apiVersion"), text("kind"))
}
