//! `gator sync test`: is what templates need of other objects synced? (7.7)

use std::collections::BTreeSet;

use modgate_api::meta::GroupVersionKind;
use modgate_api::meta::ObjectExt as _;
use modgate_engine::sync_data::{Needs, needs_of};
use modgate_value::{Str, Value};

use crate::{
    Io, VerbFailure, args::SyncTestArgs, finding, policies::is_template, read, read::input,
};

/// Kinds, by group, version and kind.
type Kinds = BTreeSet<GroupVersionKind>;

/// The members of an input that concern syncing.
#[derive(Default)]
struct Input {
    /// By the templates' names.
    needs: Vec<(Str, Needs)>,
    /// Templates whose annotation does not parse, and why.
    errors: Vec<(Str, String)>,
    synced: Kinds,
    /// The kinds that the cluster serves, if known.
    manifest: Option<Kinds>,
    has_config: bool,
}

/// Runs the verb.
pub(crate) fn run(args: &SyncTestArgs, is_gator: bool, io: &mut Io<'_>) -> Result<u8, VerbFailure> {
    let resources = match is_gator {
        true => read::sources_or_failure(&args.filenames, &args.images, io)?,
        false => {
            let report = &mut finding::report();
            input::checked(&args.filenames, &args.images, &args.checks, report, io)?
        }
    };
    let mut input = Input::default();
    for resource in &resources {
        let is_known = input
            .add(&resource.object)
            .map_err(|error| VerbFailure::plain(format!("checking: {error}")))?;
        if !is_known {
            let name = modgate_value::gofmt::quote(resource.object.name());
            io.line(&format!(
                "skipping unstructured {name} because it is not a syncset, config, gvk manifest, \
                 or template"
            ))?;
        }
    }
    let missing = match (&input.manifest, args.force_omit_gvk_manifest) {
        (None, false) => {
            return Err(VerbFailure::plain(
                "checking: no GVK manifest found; please provide a manifest enumerating the GVKs \
                 supported by the cluster",
            ));
        }
        (None, true) => {
            io.line(
                "ignoring absence of supported GVK manifest due to --force-omit-gvk-manifest flag; \
                 will assume all synced GVKs are supported by cluster",
            )?;
            input.missing(&input.synced)
        }
        (Some(_), true) => input.missing(&input.synced),
        (Some(manifest), false) => {
            input.missing(&input.synced.intersection(manifest).cloned().collect())
        }
    };
    if !input.errors.is_empty() {
        input.errors.sort();
        let blocks = input.errors.iter().map(|(name, error)| format!("{name}:\n{error}\n"));
        let text = blocks.collect::<Vec<_>>().join("\n");
        return Err(VerbFailure::plain(format!(
            "encountered errors parsing the following templates: \n{text}"
        )));
    }
    if !missing.is_empty() {
        return Err(VerbFailure::plain(format!(
            "the following requirements were not met: \n{}",
            missing.join("\n")
        ))
        .result());
    }
    Ok(0)
}

impl Input {
    /// Adds one object; returns whether its kind matters.
    fn add(&mut self, object: &Value) -> Result<bool, String> {
        if is_template(object) {
            let name = object.name().into();
            match needs_of(object) {
                Ok(needs) => self.needs.push((name, needs)),
                Err(error) => self.errors.push((name, error)),
            }
            return Ok(true);
        }
        let kind = GroupVersionKind::of_object(object);
        match (kind.group.as_str(), kind.kind.as_str()) {
            ("syncset.gatekeeper.sh", "SyncSet") => {
                self.synced.extend(entries(object.path(&["spec", "gvks"]))?);
            }
            ("config.gatekeeper.sh", "Config") => {
                if std::mem::replace(&mut self.has_config, true) {
                    return Err("multiple configs found; Config is a singleton resource".to_owned());
                }
                self.synced.extend(entries(object.path(&["spec", "sync", "syncOnly"]))?);
            }
            ("gvkmanifest.gatekeeper.sh", "GVKManifest") => {
                if self.manifest.is_some() {
                    return Err("multiple GVK manifests found; please provide one manifest \
                                enumerating the GVKs supported by the cluster"
                        .to_owned());
                }
                self.manifest = Some(manifest(object)?);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The needs that are not met, a block for each template, by name.
    fn missing(&self, synced: &Kinds) -> Vec<String> {
        let mut blocks: Vec<(&Str, String)> = Vec::new();
        for (name, needs) in &self.needs {
            let unmet: Vec<String> = needs
                .0
                .iter()
                .filter(|alternatives| !alternatives.iter().any(|kind| synced.contains(kind)))
                .map(|alternatives| {
                    let shown: Vec<String> = alternatives
                        .iter()
                        .map(|kind| format!("{}/{}:{}", kind.group, kind.version, kind.kind))
                        .collect();
                    format!("- {}\n", shown.join(" OR "))
                })
                .collect();
            if !unmet.is_empty() {
                blocks.push((name, format!("{name}:\n{}", unmet.concat())));
            }
        }
        blocks.sort_by(|a, b| a.0.cmp(b.0));
        blocks.into_iter().map(|(_, block)| block).collect()
    }
}

/// A list of `{group, version, kind}`.
fn entries(list: Option<&Value>) -> Result<Vec<GroupVersionKind>, String> {
    let Some(list) = list.filter(|list| !list.is_null()) else { return Ok(Vec::new()) };
    let entries = list
        .as_array()
        .ok_or_else(|| format!("what is synced is {}, not a list", read::what(list)))?;
    entries
        .iter()
        .map(|entry| {
            let text = |key: &str| match entry.get(key) {
                None | Some(Value::Null) => Ok(Str::default()),
                Some(Value::String(text)) => Ok(text.clone()),
                Some(other) => {
                    Err(format!("`{key}` of a synced kind is {}, not text", read::what(other)))
                }
            };
            Ok(GroupVersionKind {
                group: text("group")?,
                version: text("version")?,
                kind: text("kind")?,
            })
        })
        .collect()
}

/// `spec.groups`: group to version to kinds.
fn manifest(object: &Value) -> Result<Kinds, String> {
    let wrong = |what: &str, found: &Value, wanted: &str| {
        Err(format!("GVKManifest: {what} is {}, expected {wanted}", read::what(found)))
    };
    let mut kinds = Kinds::new();
    let groups = match object.path(&["spec", "groups"]) {
        None | Some(Value::Null) => return Ok(kinds),
        Some(Value::Object(groups)) => groups,
        Some(other) => return wrong("spec.groups", other, "an object of groups"),
    };
    for (group, versions) in groups {
        let versions = match versions {
            Value::Null => continue,
            Value::Object(versions) => versions,
            other => return wrong("a group", other, "an object of versions"),
        };
        for (version, list) in versions {
            let list = match list {
                Value::Null => continue,
                Value::Array(list) => list,
                other => return wrong("a version", other, "a list of kinds"),
            };
            for kind in list {
                let Value::String(kind) = kind else { return wrong("a kind", kind, "text") };
                kinds.insert(GroupVersionKind {
                    group: group.clone(),
                    version: version.clone(),
                    kind: kind.clone(),
                });
            }
        }
    }
    Ok(kinds)
}
