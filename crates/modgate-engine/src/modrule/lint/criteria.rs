//! Rules that match no object of their namespaces, and criteria that are ignored.

use std::collections::BTreeSet;

use modgate_api::{
    kinds,
    meta::{GroupVersionKind, split_api_version},
    modrule::ModRule,
};
use modgate_value::{Str, Value};

use super::Lints;
use crate::{
    Code, EngineConfig,
    admissionpolicy::Types,
    lint::types,
    modrule::compile::{CompiledModRule, Criterion, Test},
};

/// The texts that every criterion allows at a place; `None` where no criterion names any.
fn required(
    rule: &CompiledModRule,
    texts: impl Fn(&Criterion) -> Option<&BTreeSet<Str>>,
) -> Option<BTreeSet<Str>> {
    let sets = rule.criteria.iter().filter_map(texts).cloned();
    sets.reduce(|a, b| a.intersection(&b).cloned().collect())
}

/// Whether objects of a kind have no namespace, if Kubernetes has the kind; the groups with it may
/// differ.
fn is_cluster_scoped(kind: &str) -> Option<bool> {
    let mut groups = kinds::groups_of(kind).map(|group| {
        let kind =
            GroupVersionKind { group: group.into(), version: Str::default(), kind: kind.into() };
        kind.is_cluster_scoped() || kind.is_namespace()
    });
    let first = groups.next()?;
    groups.all(|other| other == first).then_some(first)
}

/// Criteria that exclude each other, and kinds and namespaces that the rule does not reach.
pub(super) fn reach(compiled: &CompiledModRule, config: &EngineConfig, lints: &mut Lints<'_>) {
    let kinds = required(compiled, |criterion| criterion.kinds.as_ref());
    let namespaces = required(compiled, |criterion| criterion.namespaces.as_ref());
    let is_empty = |texts: &Option<BTreeSet<Str>>| texts.as_ref().is_some_and(BTreeSet::is_empty);
    if is_empty(&kinds) || is_empty(&namespaces) {
        let what = if is_empty(&kinds) { "kind" } else { "namespace" };
        let message =
            format!("the items exclude each other: no object has a {what} that all of them allow");
        lints.push(Code::NeverMatches, "spec.match".to_owned(), message, None);
        return;
    }
    if let Some(kinds) = &kinds {
        versions(compiled, kinds, lints);
    }
    let home = &compiled.id.namespace;
    let is_cluster_wide = config.cluster_rules_namespaces.contains(home);
    let scopes: Option<Vec<bool>> =
        kinds.iter().flatten().map(|kind| is_cluster_scoped(kind)).collect();
    let all_are = |is_cluster: bool| {
        scopes.as_ref().is_some_and(|all| !all.is_empty() && all.iter().all(|it| *it == is_cluster))
    };
    if all_are(true) && !is_cluster_wide {
        let clusters: Vec<String> =
            config.cluster_rules_namespaces.iter().map(|name| format!("`{name}`")).collect();
        let message = format!(
            "every kind of the rule has no namespace, and a rule in namespace `{home}` is for objects \
             of that namespace, so this never matches"
        );
        let help = format!("put the rule into {}", clusters.join(" or "));
        lints.push(Code::NeverMatches, "metadata.namespace".to_owned(), message, Some(help));
    }
    let reaches = |namespace: &str| {
        namespace == home.as_str()
            || (is_cluster_wide
                && compiled.target.as_ref().is_some_and(|regex| regex.is_match(namespace)))
    };
    let is_home_alone = is_cluster_wide && compiled.target.is_none();
    if let Some(names) = namespaces.filter(|names| !names.iter().any(|name| reaches(name))) {
        let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
        let message = format!(
            "the rule is for namespace {}, which it does not reach from namespace `{home}`, so this never \
             matches",
            names.join(" and ")
        );
        let help = match (is_cluster_wide, compiled.target.is_some()) {
            (true, false) => "add `spec.targetNamespaceRegex`",
            (true, true) => "`spec.targetNamespaceRegex` leaves it out",
            (false, _) => "put the rule into that namespace",
        };
        lints.push(
            Code::NeverMatches,
            "metadata.namespace".to_owned(),
            message,
            Some(help.to_owned()),
        );
    } else if all_are(false) && is_home_alone {
        let message = format!(
            "every kind of the rule has a namespace, and without `targetNamespaceRegex` a rule in namespace \
             `{home}` is for objects without one and those of `{home}` only"
        );
        let help = "add `spec.targetNamespaceRegex: '.*'` for all namespaces".to_owned();
        lints.push(Code::NeverMatches, "metadata.namespace".to_owned(), message, Some(help));
    }
}

/// An `apiVersion` of Kubernetes that none of the kinds of the rule has.
fn versions(compiled: &CompiledModRule, kinds: &BTreeSet<Str>, lints: &mut Lints<'_>) {
    let types = Types::kubernetes();
    let of_kind = |kind: &Str| -> Vec<&str> {
        types
            .keys()
            .filter(|(_, known)| known == kind)
            .map(|(version, _)| version.as_str())
            .collect()
    };
    let known: Vec<&str> = kinds.iter().flat_map(of_kind).collect();
    if kinds.iter().any(|kind| of_kind(kind).is_empty()) {
        return;
    }
    for criterion in compiled.criteria.iter().filter(|it| !it.negate) {
        let path = criterion.select.plain_path().unwrap_or_default();
        let path: Vec<&str> = path.iter().map(|step| step.as_str()).collect();
        let (member, texts): (_, Vec<&str>) = match &criterion.test {
            Test::Value(text) => ("matchValue", vec![text]),
            Test::OneOf(texts) => ("matchValues", texts.iter().map(String::as_str).collect()),
            Test::Regex(_) | Test::None => continue,
        };
        let is_own = |text: &&str| kinds::of_group(split_api_version(text).0).is_some();
        if path != ["apiVersion"]
            || !texts.iter().all(is_own)
            || texts.iter().any(|text| known.contains(text))
        {
            continue;
        }
        let names: Vec<String> = kinds.iter().map(|kind| format!("`{kind}`")).collect();
        let versions: Vec<String> = known.iter().map(|version| format!("`{version}`")).collect();
        let message = format!(
            "no object of the kind {} has this `apiVersion`, so this never matches",
            names.join(" or ")
        );
        let help = format!("it is {}", versions.join(" or "));
        let field = format!("spec.match[{}].{member}", criterion.index);
        lints.push(Code::NeverMatches, field, message, Some(help));
    }
}

/// Tests of an item that do nothing: of `matchValue`, `matchValues` and `matchRegex` one counts, and none of
/// them where `select` is true or false.
pub(super) fn ignored(
    rule: &ModRule,
    criterion: &Criterion,
    kinds: &[&str],
    lints: &mut Lints<'_>,
) {
    let Some(item) = rule.spec.criteria.get(criterion.index) else { return };
    let field = |name: &str| format!("spec.match[{}].{name}", criterion.index);
    let given = [
        ("matchValue", item.match_value.is_some()),
        ("matchValues", !item.match_values.is_empty()),
        ("matchRegex", item.match_regex.is_some()),
    ];
    let mut given = given.into_iter().filter(|(_, is_given)| *is_given).map(|(name, _)| name);
    let Some(counts) = given.next() else {
        let place = ["spec", "match", &criterion.index.to_string(), "matchValues"].join("/");
        let list = lints.source.object.pointer(&format!("/{place}")).and_then(Value::as_array);
        if list.is_some_and(|list| list.is_empty()) {
            let message = "an empty list is no condition, so that any value matches".to_owned();
            let help = Some("remove it, or list the values".to_owned());
            lints.push(Code::NoEffect, field("matchValues"), message, help);
        }
        return;
    };
    for name in given {
        let message = format!("it is ignored beside `{counts}`");
        let help = Some("put each into an item of its own".to_owned());
        lints.push(Code::NoEffect, field(name), message, help);
    }
    // `matchValue` and `matchRegex` that give the result of the condition itself.
    let is_same = match &criterion.test {
        Test::Value(text) => text == "true",
        Test::OneOf(texts) => texts.iter().eq(["true"]),
        Test::Regex(regex) => regex.is_match("true") && !regex.is_match("false"),
        Test::None => true,
    };
    let path = criterion.select.plain_path().unwrap_or_default();
    let path: Vec<&str> = path.iter().map(|step| step.as_str()).collect();
    let is_condition =
        criterion.select.is_condition() || (!path.is_empty() && types::is_boolean(kinds, &path));
    if is_condition && !is_same {
        let message = "it is ignored, because the result of `select` is true or false".to_owned();
        let help =
            Some("the item holds if the result is true; `negate: true` turns it around".to_owned());
        lints.push(Code::NoEffect, field(counts), message, help);
    }
}
