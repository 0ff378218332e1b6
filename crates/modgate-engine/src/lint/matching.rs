//! Match blocks and `applyTo` that fit nothing, or more than their author means.

use std::collections::BTreeSet;

use modgate_api::{expansion, kinds, meta::GroupVersionKind};
use modgate_value::{Str, Value, near};

use super::{Definitions, Lints, selector};
use crate::{Code, admissionpolicy::Types};

/// The values of `scope`.
const SCOPES: [&str; 3] = ["Cluster", "Namespaced", "*"];
/// The values of `source`.
const SOURCES: [&str; 3] = ["All", "Generated", "Original"];

/// Checks the match block of a constraint or mutator.
pub(super) fn lint(lints: &mut Lints<'_>, field: &str) {
    let Some(block) = lints.object().pointer(&crate::policy::pointer(field)) else { return };
    kinds_of_match(lints, block, field);
    scope(lints, block, field);
    namespaces(lints, block, field);
    selector::contradiction(lints, block, "labelSelector", field);
    selector::contradiction(lints, block, "namespaceSelector", field);
    selector::by_name(lints, block, field);
    let source = block.get("source").and_then(Value::as_str).unwrap_or_default();
    if !source.is_empty() && !SOURCES.contains(&source) {
        let help = near::did_you_mean_or(source, &SOURCES, "the values are");
        let message = format!("`{source}` is unknown, so the match block fails for every object");
        lints.push(Code::UnknownValue, &format!("{field}.source"), message, Some(help));
    }
}

/// The texts of a list, with their places.
pub(super) fn texts<'v>(value: &'v Value, key: &str) -> Vec<(usize, &'v str)> {
    let list = value.get(key).and_then(Value::as_array);
    let items = list.into_iter().flat_map(|list| list.iter()).enumerate();
    items.filter_map(|(index, item)| Some((index, item.as_str()?))).collect()
}

pub(super) fn entries<'v>(block: &'v Value, key: &str) -> Vec<&'v Value> {
    block.get(key).and_then(Value::as_array).map(|list| list.iter().collect()).unwrap_or_default()
}

fn kinds_of_match(lints: &mut Lints<'_>, block: &Value, field: &str) {
    for (index, entry) in entries(block, "kinds").into_iter().enumerate() {
        let field = format!("{field}.kinds[{index}]");
        let groups = texts(entry, "apiGroups");
        let any_group = groups.is_empty() || groups.iter().any(|(_, group)| *group == "*");
        for (at, group) in &groups {
            group_exists(lints, group, &format!("{field}.apiGroups[{at}]"), true);
        }
        let names: Vec<&str> = groups.iter().map(|(_, group)| *group).collect();
        for (at, kind) in texts(entry, "kinds") {
            let field = format!("{field}.kinds[{at}]");
            if kind == "*" {
                continue;
            }
            if kind.contains('*') {
                lints.push(
                    Code::NeverMatches,
                    &field,
                    format!("`{kind}` is no pattern: only `*` alone stands for all kinds"),
                    None,
                );
            } else {
                kind_exists(lints, kind, (!any_group).then_some(&names), &field);
            }
        }
    }
}

/// A group that no cluster has. `named` groups may be `*`.
pub(super) fn group_exists(lints: &mut Lints<'_>, group: &str, field: &str, wildcard: bool) {
    let is_defined = lints.definitions.groups().any(|known| known == group);
    if is_defined || kinds::of_group(group).is_some() || (wildcard && group == "*") {
        return;
    }
    let (message, help) = if group == "*" {
        (
            "`*` is no wildcard here, so this never applies".to_owned(),
            Some("list the groups; the core group is \"\"".to_owned()),
        )
    } else if let Some((name, _)) = group.split_once('/') {
        let name = if kinds::of_group(name).is_some() { name } else { "" };
        (
            format!("`{group}` has a version; an API group has none"),
            Some(format!("did you mean `{name}`?")),
        )
    } else if group == "core" || is_version(group) {
        (
            format!("no API group is called `{group}`"),
            Some("the core group is the empty text: \"\"".to_owned()),
        )
    } else if let Some(near) = near_group(group, lints.definitions) {
        (format!("no API group is called `{group}`"), Some(format!("did you mean `{near}`?")))
    } else if group.contains('.') {
        // A CRD may bring it.
        return;
    } else {
        (format!("no API group is called `{group}`: those without a dot are Kubernetes' own"), None)
    };
    lints.push(Code::NeverMatches, field, message, help);
}

pub(super) fn is_version(text: &str) -> bool {
    let digits = text.strip_prefix('v').unwrap_or_default();
    digits.starts_with(|digit: char| digit.is_ascii_digit())
        && digits.chars().all(|letter| letter.is_ascii_alphanumeric())
}

/// The group of Kubernetes, of ours or of the definitions that is nearest.
pub(super) fn near_group<'d>(group: &str, definitions: &'d Definitions) -> Option<&'d str> {
    let known = kinds::groups().filter(|known| !known.is_empty()).chain(super::groups());
    let known = known.map(|known| -> &'d str { known });
    near::nearest(group, known.chain(definitions.groups()))
}

/// A kind that none of these groups has; `None` stands for all groups.
fn kind_exists(lints: &mut Lints<'_>, kind: &str, groups: Option<&Vec<&str>>, field: &str) {
    let as_resource = kinds::of_resource_name(kind).filter(|known| *known != kind);
    let never = |what: String| format!("{what}, so this never matches");
    let Some(groups) = groups else {
        // Any CRD may have brought the kind, if it looks like one.
        let lower = kind.starts_with(|first: char| first.is_lowercase());
        let is_resource = as_resource.filter(|_| lower || kind.ends_with('s'));
        let is_defined = lints.definitions.kinds().any(|known| known == kind);
        if !is_defined
            && kinds::all().chain(super::all_kinds()).all(|known| known != kind)
            && let Some(meant) = is_resource.or_else(|| slip(kind))
        {
            let message = never(format!("no kind is called `{kind}`"));
            let help = Some(format!("did you mean `{meant}`?"));
            lints.push(Code::NeverMatches, field, message, help);
        }
        return;
    };
    let known: Option<Vec<&[&str]>> = groups.iter().map(|group| kinds::of_group(group)).collect();
    let Some(known) = known else { return defined_kind(lints, kind, groups, field) };
    if known.iter().any(|kinds| kinds.contains(&kind)) {
        return;
    }
    let listed: Vec<String> = groups.iter().map(|group| format!("\"{group}\"")).collect();
    let elsewhere: Vec<String> =
        kinds::groups_of(kind).map(|group| format!("\"{group}\"")).collect();
    if !elsewhere.is_empty() {
        lints.push(
            Code::NeverMatches,
            field,
            never(format!("there is no `{kind}` in the API groups {}", listed.join(", "))),
            Some(format!("`{kind}` is in {}", elsewhere.join(" and "))),
        );
        return;
    }
    let help = match as_resource {
        Some(meant) => Some(format!("did you mean `{meant}`?")),
        None => near::did_you_mean(kind, known.iter().flat_map(|kinds| kinds.iter().copied()))
            .or_else(|| near::did_you_mean(kind, kinds::all())),
    };
    lints.push(
        Code::NeverMatches,
        field,
        never(format!("no kind of the API groups {} is called `{kind}`", listed.join(", "))),
        help,
    );
}

/// A kind that none of these groups has, as far as the definitions of custom resources show: one that is
/// close to a kind of theirs.
fn defined_kind(lints: &mut Lints<'_>, kind: &str, groups: &[&str], field: &str) {
    let definitions = lints.definitions;
    let is_known = |group: &&str| {
        kinds::of_group(group).is_some_and(|kinds| kinds.contains(&kind))
            || definitions.get(group, kind).is_some()
    };
    if groups.iter().any(is_known) {
        return;
    }
    let meant = groups.iter().find_map(|group| Some((group, definitions.meant(group, kind)?)));
    if let Some((group, meant)) = meant {
        let message = format!(
            "no CustomResourceDefinition of the API group \"{group}\" has the kind `{kind}`, so this \
             never matches"
        );
        let help = format!("did you mean `{meant}`?");
        lints.push(Code::NeverMatches, field, message, Some(help));
    }
}

fn scope(lints: &mut Lints<'_>, block: &Value, field: &str) {
    let scope = block.get("scope").and_then(Value::as_str).unwrap_or_default();
    let field = format!("{field}.scope");
    if scope.is_empty() || scope == "*" {
        return;
    }
    if !SCOPES.contains(&scope) {
        let help = near::did_you_mean(scope, SCOPES)
            .unwrap_or_else(|| "the values are: Cluster, Namespaced, *".to_owned());
        let message = format!("`{scope}` is unknown and matches objects of every scope");
        lints.push(Code::UnknownValue, &field, message, Some(help));
        return;
    }
    let Some(selected) = selected(block, lints.definitions) else { return };
    let fits = selected.iter().any(|is_cluster| *is_cluster == (scope == "Cluster"));
    if !selected.is_empty() && !fits {
        let what = if scope == "Cluster" { "a namespace" } else { "no namespace" };
        let message = format!("every kind of the match block has {what}, so this never matches");
        lints.push(Code::NeverMatches, &field, message, None);
    }
}

/// Whether each kind that a match block selects is cluster-scoped, if all of them are known.
fn selected(block: &Value, definitions: &Definitions) -> Option<Vec<bool>> {
    let mut selected = Vec::new();
    for entry in entries(block, "kinds") {
        let (groups, names) = (texts(entry, "apiGroups"), texts(entry, "kinds"));
        if groups.is_empty() || names.is_empty() || names.iter().any(|(_, kind)| *kind == "*") {
            return None;
        }
        for (_, group) in &groups {
            let known = kinds::of_group(group);
            let is_there = |kind: &&str| known.is_none_or(|known| known.contains(kind));
            for kind in names.iter().map(|(_, kind)| *kind).filter(is_there) {
                selected.push(is_cluster_scoped(definitions, group, kind)?);
            }
        }
    }
    (!selected.is_empty()).then_some(selected)
}

/// Whether objects of a kind have no namespace; `None` of a kind that is not known.
pub(super) fn is_cluster_scoped(
    definitions: &Definitions,
    group: &str,
    kind: &str,
) -> Option<bool> {
    match kinds::of_group(group) {
        None => definitions.get(group, kind).map(|defined| defined.is_cluster_scoped),
        Some(known) => known.contains(&kind).then(|| {
            let (group, kind) = (Str::from(group), Str::from(kind));
            let kind = GroupVersionKind { group, version: Str::default(), kind };
            kind.is_cluster_scoped() || kind.is_namespace()
        }),
    }
}

/// Warns about a name, or pattern of names, that no Namespace can have. `what` is what it never does.
pub(super) fn namespace_exists(lints: &mut Lints<'_>, name: &str, field: &str, what: &str) {
    if name.chars().any(|letter| letter.is_uppercase() || letter == '_') {
        let message = format!("no namespace can be called `{name}`, so this never {what} anything");
        let help = format!("did you mean `{}`?", name.to_lowercase().replace('_', "-"));
        lints.push(Code::NeverMatches, field, message, Some(help));
    }
}

fn namespaces(lints: &mut Lints<'_>, block: &Value, field: &str) {
    for key in ["namespaces", "excludedNamespaces"] {
        for (index, name) in texts(block, key) {
            let plain = name.strip_prefix('*').unwrap_or(name);
            let plain = plain.strip_suffix('*').unwrap_or(plain);
            let field = format!("{field}.{key}[{index}]");
            let what = if key == "namespaces" { "matches" } else { "excludes" };
            if plain.contains('*') {
                let message =
                    format!("`*` is a wildcard at either end only, so this never {what} anything");
                lints.push(Code::NeverMatches, &field, message, None);
            } else {
                namespace_exists(lints, name, &field, what);
            }
        }
    }
    let (wanted, excluded) = (texts(block, "namespaces"), texts(block, "excludedNamespaces"));
    let is_excluded = |name: &str| excluded.iter().any(|(_, it)| selector::covers(it, name));
    let scope = block.get("scope").and_then(Value::as_str).unwrap_or_default();
    let selected = selected(block, lints.definitions);
    let all_are = |is_cluster: bool| {
        selected.as_ref().is_some_and(|selected| selected.iter().all(|it| *it == is_cluster))
    };
    // Lists of namespaces leave objects alone that have none.
    let is_namespaced = scope == "Namespaced" || all_are(false);
    let covers_wanted = !wanted.is_empty() && wanted.iter().all(|(_, name)| is_excluded(name));
    let covers_all = wanted.is_empty() && is_excluded("*");
    if (covers_wanted && !all_are(true)) || (covers_all && is_namespaced) {
        let message =
            "every namespace that is matched is excluded, too, so no object in a namespace matches";
        let field = format!("{field}.excludedNamespaces");
        lints.push_key(Code::NeverMatches, &field, message.to_owned(), None);
    }
}

/// Checks `spec.applyTo` of a mutator or an expansion template: any combination of its lists, all of
/// them exact.
pub(super) fn apply_to(lints: &mut Lints<'_>) {
    let Some(spec) = lints.object().get("spec") else { return };
    for (index, entry) in entries(spec, "applyTo").into_iter().enumerate() {
        let field = format!("spec.applyTo[{index}]");
        let groups = texts(entry, "groups");
        for (at, group) in &groups {
            group_exists(lints, group, &format!("{field}.groups[{at}]"), false);
        }
        for (at, version) in texts(entry, "versions") {
            let field = format!("{field}.versions[{at}]");
            let (message, help) = if version == "*" {
                ("`*` is no wildcard here, so this never applies".to_owned(), None)
            } else if let Some((_, version)) = version.split_once('/') {
                (
                    "a version has no API group here, so this never applies".to_owned(),
                    Some(format!("did you mean `{version}`?")),
                )
            } else if !is_version(version) {
                (format!("no version is called `{version}`, so this never applies"), None)
            } else {
                continue;
            };
            lints.push(Code::NeverMatches, &field, message, help);
        }
        let names: Vec<&str> = groups.iter().map(|(_, group)| *group).collect();
        for (at, kind) in texts(entry, "kinds") {
            let field = format!("{field}.kinds[{at}]");
            if kind.contains('*') {
                let message = format!("`{kind}` is no wildcard here, so this never applies");
                let help = "list the kinds".to_owned();
                lints.push(Code::NeverMatches, &field, message, Some(help));
            } else {
                kind_exists(lints, kind, Some(&names), &field);
            }
        }
        let kinds: Vec<&str> = texts(entry, "kinds").into_iter().map(|(_, kind)| kind).collect();
        version_exists(lints, entry, "versions", &names, Some(&kinds), &field);
        for member in ["groups", "versions", "kinds"] {
            let list = entry.get(member).and_then(Value::as_array);
            // A mutator without one of them is refused.
            if lints.id.group == expansion::GROUP && list.is_none_or(|list| list.is_empty()) {
                let message = format!("the entry has no `{member}`, so this never applies");
                lints.push(Code::NeverMatches, &field, message, None);
            }
        }
    }
}

/// Checks `spec.generatedGVK` of an expansion template.
pub(super) fn generated(lints: &mut Lints<'_>) {
    let Some(generated) = lints.object().path(&["spec", "generatedGVK"]) else { return };
    let kind = GroupVersionKind::of_members(generated);
    kind_of_cluster(lints, &kind, "spec.generatedGVK", "no constraint matches it");
}

/// Warns about a kind that no cluster serves in any version.
pub(super) fn kind_of_any_version(lints: &mut Lints<'_>, kind: &GroupVersionKind, field: &str) {
    let GroupVersionKind { group, kind, .. } = kind;
    group_exists(lints, group, field, false);
    kind_exists(lints, kind, Some(&vec![group]), field);
}

/// Warns about a kind that no cluster serves. `so` is the consequence, such as `nothing is synced`.
pub(super) fn kind_of_cluster(
    lints: &mut Lints<'_>,
    kind: &GroupVersionKind,
    field: &str,
    so: &str,
) {
    let GroupVersionKind { group, version, kind } = kind;
    if kind.is_empty() {
        return;
    }
    group_exists(lints, group, &format!("{field}.group"), false);
    let before = lints.found.len();
    kind_exists(lints, kind, Some(&vec![group]), &format!("{field}.kind"));
    defined_version(lints, &[version], &[group], &[kind], &format!("{field}.version"), so);
    if lints.found.len() == before && !is_served(version, &[group], Some(&[kind])) {
        let message = unserved(&[version], &[group], Some(&[kind]), so);
        lints.push(Code::NeverMatches, &format!("{field}.version"), message.0, message.1);
    }
}

/// Warns if Kubernetes serves none of the versions in a list for these groups, and these kinds if they are given. Groups
/// that CRDs may bring have any version.
pub(super) fn version_exists(
    lints: &mut Lints<'_>,
    entry: &Value,
    member: &str,
    groups: &[&str],
    kinds: Option<&[&str]>,
    field: &str,
) {
    let versions: Vec<&str> = texts(entry, member).into_iter().map(|(_, text)| text).collect();
    if let Some(kinds) = kinds {
        let field = format!("{field}.{member}[0]");
        defined_version(lints, &versions, groups, kinds, &field, "this never applies");
    }
    let may_be = |version: &&str| *version == "*" || is_served(version, groups, kinds);
    if versions.is_empty() || groups.is_empty() || versions.iter().any(may_be) {
        return;
    }
    // Those that are no versions have their own warnings.
    if kinds.is_some() && versions.iter().any(|version| !is_version(version)) {
        return;
    }
    let (message, help) = unserved(&versions, groups, kinds, "this never matches");
    lints.push(Code::NeverMatches, &format!("{field}.{member}[0]"), message, help);
}

/// Warns if the definitions of custom resources serve none of the versions of any of the kinds.
fn defined_version(
    lints: &mut Lints<'_>,
    versions: &[&str],
    groups: &[&str],
    kinds: &[&str],
    field: &str,
    so: &str,
) {
    let mut served = BTreeSet::new();
    for group in groups {
        for kind in kinds {
            // Of what is not known any version may be served.
            let Some(defined) = lints.definitions.get(group, kind) else { return };
            served.extend(defined.versions.iter().map(Str::as_str));
        }
    }
    let is_right = versions.iter().any(|version| *version == "*" || served.contains(version));
    if versions.is_empty() || served.is_empty() || is_right {
        return;
    }
    let listed = |names: &[&str]| {
        names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
    };
    let message = format!(
        "the CustomResourceDefinition of {} serves no version {}, so {so}",
        listed(kinds),
        listed(versions)
    );
    let served: Vec<&str> = served.into_iter().collect();
    let help = format!("the versions are: {}", served.join(", "));
    lints.push(Code::NeverMatches, field, message, Some(help));
}

/// The message about versions that Kubernetes does not serve, and the versions that it does.
fn unserved(
    versions: &[&str],
    groups: &[&str],
    kinds: Option<&[&str]>,
    so: &str,
) -> (String, Option<String>) {
    let listed = |names: &[&str]| {
        names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
    };
    let of = match kinds {
        Some(kinds) => listed(kinds),
        None => format!(
            "the API groups {}",
            groups.iter().map(|it| format!("\"{it}\"")).collect::<Vec<_>>().join(", ")
        ),
    };
    let message =
        format!("Kubernetes 1.36 serves no version {} of {of}, so {so}", listed(versions));
    let served: BTreeSet<&str> = groups.iter().flat_map(|group| served(group, kinds)).collect();
    let help = format!("the versions are: {}", served.into_iter().collect::<Vec<_>>().join(", "));
    (message, Some(help))
}

/// The versions of a group of Kubernetes that have one of these kinds.
fn served<'t>(group: &'t str, kinds: Option<&'t [&'t str]>) -> Vec<&'t str> {
    let types = Types::kubernetes();
    match kinds {
        None => types.versions(group, None).collect(),
        Some(kinds) => kinds.iter().flat_map(|kind| types.versions(group, Some(kind))).collect(),
    }
}

/// Whether a version may exist for one of these groups: Kubernetes serves it, or does not have the groups or kinds at
/// all.
fn is_served(version: &str, groups: &[&str], kinds: Option<&[&str]>) -> bool {
    groups.iter().any(|group| {
        let served = served(group, kinds);
        served.is_empty() || served.contains(&version)
    })
}

/// A kind that differs by a letter or two from a longer name of Kubernetes' own kinds. Shorter names may well be those of
/// CRDs.
fn slip(kind: &str) -> Option<&'static str> {
    near::nearest(kind, kinds::all()).filter(|meant| meant.len() > 6)
}
