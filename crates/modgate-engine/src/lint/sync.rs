//! Config and SyncSet: kinds that no cluster serves, and processes that do not exist.

use modgate_api::{
    config::{self, Process},
    meta::GroupVersionKind,
    syncset,
};
use modgate_value::{Value, near, pointer};

use super::{Lints, matching};
use crate::{Code, sync_data};

/// Checks the synced kinds of both, and `spec.match` of a Config.
pub(super) fn lint(lints: &mut Lints<'_>) {
    let Some(spec) = lints.object().get("spec") else { return };
    let (entries, field) = match lints.id.group.as_str() {
        syncset::GROUP => (spec.get("gvks"), "spec.gvks"),
        _ => (spec.path(&["sync", "syncOnly"]), "spec.sync.syncOnly"),
    };
    for (index, entry) in list(entries).enumerate() {
        let kind = GroupVersionKind::of_members(entry);
        matching::kind_of_cluster(lints, &kind, &format!("{field}[{index}]"), "nothing is synced");
    }
    if lints.id.group == config::GROUP {
        processes(lints, spec);
    }
}

/// The annotation of a template that names the kinds it needs: gator alone reads it, and the template loads whatever it
/// says.
pub(super) fn required(lints: &mut Lints<'_>) {
    let field = format!("metadata.annotations.{}", sync_data::ANNOTATION);
    let before = lints.found.len();
    match sync_data::needs_of(lints.object()) {
        Ok(needs) => {
            for kind in needs.0.iter().flatten().take(MAX_KINDS) {
                // Templates name the versions of older clusters, too.
                matching::kind_of_any_version(lints, kind, &field);
            }
        }
        Err(error) => {
            let message = format!("it cannot be read: {error}");
            let help = "write a list of lists: `[[{\"groups\": [\"\"], \"versions\": [\"v1\"], \
                        \"kinds\": [\"Pod\"]}]]`";
            lints.push(Code::UnknownValue, &field, message, Some(help.to_owned()));
        }
    }
    let place = pointer::below("/metadata/annotations", sync_data::ANNOTATION);
    let positions = lints.source.positions.as_ref();
    let position =
        positions.map(|all| all.value(&place).unwrap_or_else(|| all.nearest_key(&place)).into());
    for problem in lints.found.iter_mut().skip(before) {
        problem.field.clone_from(&field);
        problem.position = position;
    }
}

/// How many kinds of the annotation are checked.
const MAX_KINDS: usize = 100;

fn list(value: Option<&Value>) -> impl Iterator<Item = &Value> {
    value.and_then(Value::as_array).into_iter().flat_map(|list| list.iter())
}

/// A name that is no process is stored and has no effect (EX-2).
fn processes(lints: &mut Lints<'_>, spec: &Value) {
    let mut known: Vec<&str> = Process::ALL.iter().map(|process| process.as_str()).collect();
    known.push("*");
    for (index, entry) in list(spec.get("match")).enumerate() {
        for (at, name) in matching::texts(entry, "excludedNamespaces") {
            let field = format!("spec.match[{index}].excludedNamespaces[{at}]");
            matching::namespace_exists(lints, name, &field, "excludes");
        }
        for (at, name) in matching::texts(entry, "processes") {
            if known.contains(&name) {
                continue;
            }
            let message = format!("`{name}` is no process, so this excludes nothing from it");
            let help = near::did_you_mean_or(name, &known, "the processes are");
            let field = format!("spec.match[{index}].processes[{at}]");
            lints.push(Code::UnknownValue, &field, message, Some(help));
        }
    }
}
