//! Rules of the cluster's own policies that match no resource, and parameters of a kind that does not exist.

use modgate_api::{kinds, meta};
use modgate_value::{Value, near};

use super::{
    Lints,
    matching::{entries, group_exists, is_cluster_scoped, texts, version_exists},
    selector,
};
use crate::{Code, admissionpolicy::Types};

/// The subresources of Kubernetes' own kinds.
const SUBRESOURCES: [&str; 15] = [
    "approval",
    "attach",
    "binding",
    "ephemeralcontainers",
    "eviction",
    "exec",
    "finalize",
    "log",
    "portforward",
    "proxy",
    "resize",
    "scale",
    "status",
    "token",
    "*",
];

/// Checks the rules of a policy or a binding, and `paramKind`.
pub(super) fn lint(lints: &mut Lints<'_>) {
    let Some(spec) = lints.object().get("spec") else { return };
    for member in ["matchConstraints", "matchResources"] {
        let Some(block) = spec.get(member) else { continue };
        for name in ["namespaceSelector", "objectSelector"] {
            selector::contradiction(lints, block, name, &format!("spec.{member}"));
        }
        excluded_rules(lints, block, &format!("spec.{member}"));
        for list in ["resourceRules", "excludeResourceRules"] {
            for (index, rule) in entries(block, list).into_iter().enumerate() {
                let field = format!("spec.{member}.{list}[{index}]");
                check_rule(lints, rule, &field);
                check_scope(lints, rule, &field, list == "resourceRules");
            }
        }
    }
    if let Some(kind) = spec.get("paramKind") {
        check_param_kind(lints, kind);
    }
}

/// Warns if each rule is repeated among those that are excluded.
fn excluded_rules(lints: &mut Lints<'_>, block: &Value, field: &str) {
    const LISTS: [&str; 5] =
        ["apiGroups", "apiVersions", "operations", "resources", "resourceNames"];
    let (rules, excluded) =
        (entries(block, "resourceRules"), entries(block, "excludeResourceRules"));
    let covers = |outer: &Value, inner: &Value| {
        let scope =
            |rule: &Value| rule.get("scope").and_then(Value::as_str).unwrap_or("*").to_owned();
        let lists = LISTS.iter().all(|list| {
            let (outer, inner) = (texts(outer, list), texts(inner, list));
            // No names are all names; resources have subresources, which `*` alone leaves out.
            let all = outer.iter().any(|(_, it)| *it == "*" && *list != "resources");
            let none = outer.is_empty() && *list == "resourceNames";
            let named = |it: &str| outer.iter().any(|(_, other)| *other == it);
            all || none || (!inner.is_empty() && inner.iter().all(|(_, it)| named(it)))
        });
        lists && ["*", &scope(inner)].contains(&scope(outer).as_str())
    };
    if !rules.is_empty() && rules.iter().all(|rule| excluded.iter().any(|it| covers(it, rule))) {
        let message = "every rule is excluded, too, so this never matches".to_owned();
        lints.push_key(Code::NeverMatches, &format!("{field}.excludeResourceRules"), message, None);
    }
}

fn check_rule(lints: &mut Lints<'_>, rule: &Value, field: &str) {
    let groups = texts(rule, "apiGroups");
    for (at, group) in &groups {
        group_exists(lints, group, &format!("{field}.apiGroups[{at}]"), true);
    }
    let names: Vec<&str> = groups.iter().map(|(_, group)| *group).collect();
    version_exists(lints, rule, "apiVersions", &names, None, field);
    for (at, text) in texts(rule, "resources") {
        check_resource(lints, text, &names, &format!("{field}.resources[{at}]"));
    }
}

/// Warns about a scope that none of the resources of a rule has.
fn check_scope(lints: &mut Lints<'_>, rule: &Value, field: &str, matches: bool) {
    let scope = rule.get("scope").and_then(Value::as_str).unwrap_or_default();
    let wants_cluster = match scope {
        "Cluster" => true,
        "Namespaced" => false,
        _ => return,
    };
    let mut resources = texts(rule, "resources").into_iter();
    let mut scopes = Vec::new();
    let groups: Vec<&str> = texts(rule, "apiGroups").into_iter().map(|(_, text)| text).collect();
    let is_known = resources.all(|(_, text)| {
        let (name, _) = text.split_once('/').unwrap_or((text, ""));
        let before = scopes.len();
        for group in &groups {
            let own = kinds::of_group(group).unwrap_or_default().iter().copied();
            let defined = lints.definitions.of_group(group).map(|(kind, _)| kind);
            let kinds = own.chain(defined).filter(|kind| lints.plural(group, kind) == name);
            scopes
                .extend(kinds.filter_map(|kind| is_cluster_scoped(lints.definitions, group, kind)));
        }
        scopes.len() > before
    });
    if !is_known || scopes.is_empty() || scopes.contains(&wants_cluster) {
        return;
    }
    let what = if wants_cluster { "a namespace" } else { "no namespace" };
    let (code, so) = match matches {
        true => (Code::NeverMatches, "this never matches"),
        false => (Code::NoEffect, "this excludes nothing"),
    };
    let message = format!("every resource of the rule has {what}, so {so}");
    lints.push(code, &format!("{field}.scope"), message, None);
}

fn check_resource(lints: &mut Lints<'_>, text: &str, groups: &[&str], field: &str) {
    let (name, subresource) = text.split_once('/').unwrap_or((text, ""));
    let known: Option<Vec<&[&str]>> = groups.iter().map(|group| kinds::of_group(group)).collect();
    if name != "*" {
        let resources: Option<Vec<String>> = known.as_ref().map(|groups| {
            groups.iter().flat_map(|kinds| kinds.iter().map(|kind| kinds::resource(kind))).collect()
        });
        let is_unknown = match &resources {
            Some(resources) => !resources.iter().any(|known| known == name),
            // A CRD may have brought any name that is one of a resource.
            None => {
                let is_defined =
                    groups.iter().any(|group| lints.definitions.has_resource(group, name));
                !is_defined
                    && (name.contains(|letter: char| letter.is_uppercase()) || {
                        let meant = |group: &&str| lints.definitions.meant_resource(group, name);
                        groups.iter().find_map(meant).is_some()
                    })
            }
        };
        if is_unknown {
            let meant = kinds::of_resource_name(name).map(kinds::resource).filter(|it| it != name);
            let near = || {
                let known = resources.iter().flatten().map(String::as_str);
                let of_group = |group: &&str| lints.definitions.meant_resource(group, name);
                near::nearest(name, known)
                    .or_else(|| groups.iter().find_map(of_group))
                    .map(str::to_owned)
            };
            let help = meant.or_else(near).map(|meant| format!("did you mean `{meant}`?"));
            let elsewhere = || {
                let groups = kinds::groups();
                let has = |group: &&str| {
                    kinds::of_group(group)
                        .is_some_and(|kinds| kinds.iter().any(|kind| kinds::resource(kind) == name))
                };
                let found: Vec<String> = groups.filter(has).map(|it| format!("\"{it}\"")).collect();
                (!found.is_empty()).then(|| format!("`{name}` is in {}", found.join(" and ")))
            };
            let listed: Vec<String> = groups.iter().map(|group| format!("\"{group}\"")).collect();
            let message = format!(
                "no resource of the API groups {} is called `{name}`, so this never matches",
                listed.join(", ")
            );
            lints.push(Code::NeverMatches, field, message, help.or_else(elsewhere));
            return;
        }
    }
    if known.is_some() && !subresource.is_empty() && !SUBRESOURCES.contains(&subresource) {
        let message = format!("no subresource is called `{subresource}`, so this never matches");
        let help = near::did_you_mean(subresource, SUBRESOURCES);
        lints.push(Code::NeverMatches, field, message, help);
    }
}

fn check_param_kind(lints: &mut Lints<'_>, param: &Value) {
    let text = |key| param.get(key).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let (group, _) = meta::split_api_version(api_version);
    let Some(known) = kinds::of_group(group) else { return };
    if kind.is_empty() || Types::kubernetes().has(api_version, kind) {
        return;
    }
    let denies = "so the API server denies every request that the policy matches";
    if known.contains(&kind) {
        let versions: Vec<&str> = Types::kubernetes().versions(group, Some(kind)).collect();
        if !versions.is_empty() {
            let message = format!("`{api_version}` has no `{kind}` in Kubernetes 1.36, {denies}");
            let help = format!("the versions are: {}", versions.join(", "));
            lints.push(Code::UnknownValue, "spec.paramKind.apiVersion", message, Some(help));
        }
        return;
    }
    let message = format!("no kind of the API group \"{group}\" is called `{kind}`, {denies}");
    let help = near::did_you_mean(kind, known.iter().copied());
    lints.push(Code::UnknownValue, "spec.paramKind.kind", message, help);
}
