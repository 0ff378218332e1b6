//! ModRules (spec `kubemod.md`, section 9).

use std::collections::{BTreeMap, BTreeSet};

use modgate_api::modrule;
use modgate_engine::EngineConfig;
use modgate_value::{Value, regex::GoRegex};

use super::About;
use crate::{
    difference::Difference,
    object::{InstalledObject, text, texts},
};

/// Findings about a rule.
pub(super) fn rule(about: &mut About<'_>, config: &EngineConfig) {
    let found = about.found;
    if found.kind() != modrule::KIND {
        return;
    }
    let rule_type = found.text(&["spec", "type"]);
    let is_patch = rule_type == "Patch";
    if is_patch && texts(&found.object, &["spec", "admissionOperations"]).any(|it| it == "DELETE") {
        about.say(
            "Q-34",
            "spec.admissionOperations",
            "the patch is dropped when an object is deleted; KubeMod's made the deletion fail",
        );
    }
    let target = found.text(&["spec", "targetNamespaceRegex"]);
    let own = found.namespace();
    let is_cluster_rule = config.cluster_rules_namespaces.iter().any(|name| name.as_str() == own);
    if is_cluster_rule
        && !target.is_empty()
        && GoRegex::new(target).is_ok_and(|regex| regex.is_match(own))
    {
        about.say(
            "Q-19",
            "spec.targetNamespaceRegex",
            "it is applied once to objects of its own namespace; KubeMod applied it twice",
        );
    }
    if !is_cluster_rule && found.object.to_json().contains("syntheticRefs.node") {
        about.say(
            "KM-6.1",
            "spec",
            "a rule of one namespace sees of a Node its name, labels and capacity; KubeMod showed \
             all of it",
        );
    }
    for (index, operation) in found.list(&["spec", "patch"]).iter().enumerate() {
        patch(about, index, operation);
    }
}

fn patch(about: &mut About<'_>, index: usize, operation: &Value) {
    let field = |name: &str| format!("spec.patch[{index}].{name}");
    let (op, path) = (text(operation, &["op"]), text(operation, &["path"]));
    let has_select = !text(operation, &["select"]).is_empty();
    let segments: Vec<&str> = path.split('/').skip(1).collect();
    let (last, parents) = match segments.split_last() {
        Some((last, parents)) => (*last, parents),
        None => ("", &[][..]),
    };
    let is_captured = last.starts_with('#');
    if has_select && ((op == "remove" && is_captured) || (op == "add" && last == "-")) {
        about.say(
            "Q-02",
            field("path"),
            "where several items are selected, they are taken in the order of the document, and \
             removed from the back; KubeMod took them in random order, so that removals hit \
             others",
        );
    }
    if has_select && path.contains('%') {
        about.say("Q-27", field("path"), "`%` is an ordinary character; KubeMod interpreted it");
    }
    if path.contains(['"', '\\']) {
        about.say(
            "Q-28",
            field("path"),
            "quotes and backslashes are ordinary characters; in KubeMod they broke the operation",
        );
    }
    if op == "add" && parents.iter().any(|segment| segment.contains("~0") || segment.contains("~1"))
    {
        about.say(
            "Q-29",
            field("path"),
            "missing parents with `/` or `~` in their names are created; in KubeMod the rule failed",
        );
    }
    if op == "remove" && path == "/metadata/annotations" {
        about.say(
            "Q-33",
            field("path"),
            "removing all annotations works; in KubeMod it could crash the request",
        );
    }
    if segments.first() == Some(&"syntheticRefs") {
        about.say(
            "Q-35",
            field("path"),
            "changes of synthetic references are seen by later rules only; in KubeMod they made \
             the patch fail",
        );
    }
    if op == "add"
        && parents.iter().chain([&last]).any(|it| it.parse().is_ok_and(|at: u64| at > 1000))
    {
        about.say(
            "Q-77",
            field("path"),
            "at most 1000 nulls are put before an index; an index beyond that does not apply",
        );
    }
    let value = text(operation, &["value"]);
    if changes_target(value) {
        about.say(
            "Q-45",
            field("value"),
            "`set`, `unset` and `merge` change a copy that lasts as long as the template; in \
             KubeMod later operations of the rule saw the change",
        );
    }
}

/// Whether a template calls a function that changes its argument on the object.
fn changes_target(template: &str) -> bool {
    const CALLS: &str =
        r"\b(set|unset|merge|mergeOverwrite|mustMerge|mustMergeOverwrite)\s+\(?\s*\.Target";
    template.contains(".Target")
        && GoRegex::new(CALLS).is_ok_and(|pattern| pattern.is_match(template))
}

/// Patch rules of one namespace and tier that write to the same place: KubeMod's order was that of
/// loading, ours is that of their names.
pub(super) fn order(objects: &[InstalledObject], differences: &mut Vec<Difference>) {
    type Place<'f> = (&'f str, i64, &'f str);
    let mut writers: BTreeMap<Place<'_>, Vec<&InstalledObject>> = BTreeMap::new();
    let rules = objects.iter().filter(|found| {
        found.group() == modrule::GROUP && found.text(&["spec", "type"]) == "Patch"
    });
    for rule in rules {
        let tier = rule.object.path(&["spec", "executionTier"]).and_then(Value::as_i64);
        let mut paths: Vec<&str> =
            rule.list(&["spec", "patch"]).iter().map(|it| text(it, &["path"])).collect();
        paths.sort_unstable();
        paths.dedup();
        for path in paths {
            let place = (rule.namespace(), tier.unwrap_or_default(), path);
            writers.entry(place).or_default().push(rule);
        }
    }
    for ((_, tier, path), rules) in writers {
        for rule in &rules {
            let others: BTreeSet<&str> = rules
                .iter()
                .filter(|other| other.name() != rule.name() && may_meet(rule, other))
                .map(|other| other.name())
                .collect();
            let writes = match others.len() {
                0 => continue,
                1 => "writes",
                _ => "write",
            };
            let others: Vec<&str> = others.into_iter().collect();
            About { found: rule, differences }.say(
                "5.3",
                "spec.executionTier",
                &format!(
                    "of rules of tier {tier} the name decides the order; KubeMod took them as they \
                     were loaded, and `{}` {writes} to `{path}`, too",
                    others.join("`, `")
                ),
            );
        }
    }
}

/// Whether two rules may match the same object, as far as their kinds determine it.
fn may_meet(rule: &InstalledObject, other: &InstalledObject) -> bool {
    let (mine, theirs) = (kinds(rule), kinds(other));
    mine.is_empty() || theirs.is_empty() || !mine.is_disjoint(&theirs)
}

/// The kinds a rule asks for; none if it does not say.
fn kinds(rule: &InstalledObject) -> BTreeSet<&str> {
    let about_kind = |item: &&Value| {
        text(item, &["select"]) == "$.kind"
            && item.get("negate").and_then(Value::as_bool) != Some(true)
    };
    let values = |item| {
        let one = Some(text(item, &["matchValue"])).filter(|value| !value.is_empty());
        one.into_iter().chain(texts(item, &["matchValues"]))
    };
    rule.list(&["spec", "match"]).iter().filter(about_kind).flat_map(values).collect()
}
