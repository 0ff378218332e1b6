//! Kinds of the inventory that do not exist, or stand in the part of it that never has them.

use modgate_api::{kinds, meta};
use modgate_rego::ast::{Module, Term, TermKind};
use modgate_value::near;

use super::{Definitions, matching, object::newest, rego::RegoFinding};
use crate::Code;

/// Everything about the references of one module.
pub(super) fn lint(module: &Module, definitions: &Definitions) -> Vec<RegoFinding> {
    let mut found: Vec<RegoFinding> = Vec::new();
    module.visit_terms(&mut |term| {
        let TermKind::Ref(parts) = &term.kind else { return };
        let Some(wrong) = reference(parts, definitions) else { return };
        if !found.iter().any(|known| known.span == wrong.span) {
            found.push(wrong);
        }
    });
    found
}

fn text(term: &Term) -> Option<&str> {
    match &term.kind {
        TermKind::String(text) => Some(text),
        _ => None,
    }
}

/// The mistake in `data.inventory.cluster[GROUP_VERSION][KIND]` or
/// `data.inventory.namespace[NAMESPACE][GROUP_VERSION][KIND]`.
fn reference(parts: &[Term], definitions: &Definitions) -> Option<RegoFinding> {
    let [root, inventory, scope, rest @ ..] = parts else { return None };
    let is_data = matches!(&root.kind, TermKind::Var(name) if name == "data");
    if !is_data || text(inventory) != Some("inventory") {
        return None;
    }
    let (version, kind, of_cluster) = match (text(scope)?, rest) {
        ("cluster", [version, rest @ ..]) => (version, rest.first(), true),
        ("namespace", [_, version, rest @ ..]) => (version, rest.first(), false),
        _ => return None,
    };
    let never = |term: &Term, message: String, help: Option<String>| {
        let message = format!("{message}, so the inventory never has it");
        Some(RegoFinding { code: Code::NeverMatches, span: term.span, message, help })
    };
    let name = kind.and_then(text);
    let Some(api_version) = text(version) else {
        let (kind, name) = (kind?, name?);
        let is_there = kinds::all().any(|known| known == name)
            || definitions.kinds().any(|known| known == name);
        let meant = kinds::of_resource_name(name).filter(|_| !is_there)?;
        let help = format!("did you mean `{meant}`?");
        return never(kind, format!("no kind is called `{name}`"), Some(help));
    };
    let (group, _) = meta::split_api_version(api_version);
    // What stands in front of the kind is `apps/v1`, and `v1` for the core group.
    if !api_version.contains('/') && !matching::is_version(api_version) {
        let known = kinds::of_group(api_version)?;
        let kind = name.filter(|name| known.contains(name)).or(known.first().copied())?;
        let own = kinds::groups().find(|own| *own == api_version)?;
        let help = newest(own, kind).map(|version| format!("write `{own}/{version}`"));
        return never(version, format!("`{api_version}` has no version"), help);
    }
    let Some(known) = kinds::of_group(group) else {
        if definitions.groups().any(|known| known == group) {
            let (kind, name) = (kind?, name.filter(|it| definitions.get(group, it).is_none())?);
            let help = format!("did you mean `{}`?", definitions.meant(group, name)?);
            let message = format!("no CustomResourceDefinition of `{group}` has the kind `{name}`");
            return never(kind, message, Some(help));
        }
        let meant = matching::near_group(group, definitions)?;
        let is_of_it = |kind: &str| kinds::of_group(meant).is_some_and(|it| it.contains(&kind));
        name.filter(|name| is_of_it(name) || definitions.get(meant, name).is_some())?;
        let help = format!("did you mean `{meant}`?");
        return never(version, format!("no API group is called `{group}`"), Some(help));
    };
    let (kind, name) = (kind?, name?);
    if !known.contains(&name) {
        let elsewhere = kinds::groups_of(name).find_map(|group| {
            let version = newest(group, name)?;
            Some(if group.is_empty() { version } else { format!("{group}/{version}") })
        });
        // Older clusters had kinds in other groups.
        if elsewhere.is_some() && group == "extensions" {
            return None;
        }
        let meant = kinds::of_resource_name(name).filter(|meant| *meant != name);
        let near = || near::did_you_mean(name, known.iter().copied());
        let help = match (&elsewhere, meant) {
            (Some(version), _) => Some(format!("`{name}` is in `{version}`")),
            (None, Some(meant)) => Some(format!("did you mean `{meant}`?")),
            (None, None) => near(),
        };
        return never(kind, format!("`{api_version}` has no kind `{name}`"), help);
    }
    let is_cluster = matching::is_cluster_scoped(definitions, group, name)?;
    if is_cluster == of_cluster {
        return None;
    }
    let (what, right) = match is_cluster {
        true => ("has no namespace", "data.inventory.cluster[VERSION][KIND][NAME]"),
        false => ("has a namespace", "data.inventory.namespace[NAMESPACE][VERSION][KIND][NAME]"),
    };
    let help = Some(format!("it is in `{right}`"));
    Some(RegoFinding {
        code: Code::NeverMatches,
        span: kind.span,
        message: format!("`{name}` {what}, so this part of the inventory never has it"),
        help,
    })
}
