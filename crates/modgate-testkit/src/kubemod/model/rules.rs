//! Which rules load, in which order they run, and which objects they match.

use std::collections::BTreeMap;

use modgate_api::modrule::{MatchItem, ModRule};
use modgate_select::{Expr, PatchSelect, Shape};
use modgate_template::{Template, preprocess};
use modgate_value::{Budget, Value, regex::GoRegex};

use super::{super::syntax, Model, Original, Placed, Position, Rule, patches::path_of};

impl Model<'_> {
    pub(super) fn load(&self, rules: &[Value]) -> Vec<Rule> {
        let decoded = rules.iter().filter_map(|rule| ModRule::from_value(rule).ok());
        let loadable = decoded.filter(|rule| self.loads(rule));
        loadable.enumerate().map(|(loaded, rule)| Rule { rule, loaded }).collect()
    }

    pub(super) fn loads(&self, rule: &ModRule) -> bool {
        let spec = &rule.spec;
        let shape = match spec.rule_type.as_str() {
            "Patch" => !spec.patch.is_empty() && spec.reject_message.is_none(),
            "Reject" => spec.patch.is_empty(),
            _ => false,
        };
        let some_criteria = !spec.criteria.is_empty() || self.like(Original::MatchesEverything);
        // What the CRD's schema would have caught (1.2).
        let schema = self.like(Original::NoSchema)
            || (spec.patch.iter().all(|op| {
                op.path.is_some() && ["add", "replace", "remove"].contains(&op.op.as_str())
            }) && spec
                .admission_operations
                .iter()
                .all(|op| ["CREATE", "UPDATE", "DELETE"].contains(&op.as_str())));
        let mut selects = spec
            .criteria
            .iter()
            .map(|item| item.select.as_str())
            .chain(spec.patch.iter().filter_map(|op| op.select.as_deref()));
        let syntax = selects.all(|select| {
            !(self.like(Original::GluesOperators) && syntax::unglued(select).is_some()
                || self.like(Original::QuotesOneCharacter) && syntax::requoted(select).is_some())
        });
        let criteria = spec.criteria.iter().all(|item| {
            Expr::parse(&item.select).is_ok()
                && item.match_regex.as_deref().is_none_or(|regex| GoRegex::new(regex).is_ok())
                && ["Any", "All"].contains(&item.match_for.as_str())
        });
        let patch = spec.patch.iter().all(|op| {
            op.select.as_deref().is_none_or(|select| PatchSelect::parse(select).is_ok())
                && op
                    .value
                    .as_deref()
                    .is_none_or(|value| Template::parse(path_of(op), &preprocess(value)).is_ok())
        });
        let message = spec.reject_message.as_deref();
        let message = message.is_none_or(|text| Template::parse("rejectMessage", text).is_ok());
        let namespaces = spec.target_namespace_regex.as_deref();
        let namespaces = namespaces.is_none_or(|regex| GoRegex::new(regex).is_ok());
        let tier = !matches!(spec.execution_tier, i16::MIN | i16::MAX);
        shape
            && some_criteria
            && syntax
            && schema
            && criteria
            && patch
            && message
            && namespaces
            && tier
    }

    /// The candidates of one type, tier by tier, each tier in order.
    pub(super) fn tiers<'r>(&self, rules: &'r [Rule], rule_type: &str) -> Vec<Vec<&'r Rule>> {
        let mut tiers: BTreeMap<i16, Vec<Placed<'r>>> = BTreeMap::new();
        for rule in rules.iter().filter(|rule| rule.rule.spec.rule_type == rule_type) {
            let (as_cluster_rule, as_own) = self.scope(&rule.rule);
            let position = if self.like(Original::LoadOrder) {
                Position::Loaded(rule.loaded)
            } else {
                Position::Named(&rule.rule.metadata.name)
            };
            let tier = tiers.entry(rule.rule.spec.execution_tier).or_default();
            let cluster_namespace = is_cluster_namespace(&rule.rule.metadata.namespace);
            if as_cluster_rule {
                tier.push(((false, position), rule));
            }
            if as_own && (!as_cluster_rule || self.like(Original::SelectsTwice)) {
                tier.push(((!cluster_namespace || as_cluster_rule, position), rule));
            }
        }
        let in_order = |mut tier: Vec<Placed<'r>>| {
            tier.sort_by_key(|(position, _)| *position);
            tier.into_iter().map(|(_, rule)| rule).collect()
        };
        tiers.into_values().map(in_order).collect()
    }

    /// Whether a rule is a candidate as a cluster-wide rule, and as one of the object's namespace.
    pub(super) fn scope(&self, rule: &ModRule) -> (bool, bool) {
        let operation = self.request.operation;
        if !rule.spec.admission_operations.iter().any(|listed| listed == operation)
            || !["CREATE", "UPDATE", "DELETE"].contains(&operation)
        {
            return (false, false);
        }
        let namespace = self.store_namespace();
        let own = !namespace.is_empty() && rule.metadata.namespace == namespace;
        let cluster = is_cluster_namespace(&rule.metadata.namespace)
            && match rule.spec.target_namespace_regex.as_deref() {
                None | Some("") => namespace.is_empty(),
                Some(regex) => GoRegex::new(regex).is_ok_and(|regex| regex.is_match(namespace)),
            };
        (cluster, own)
    }
}

/// Sprig's functions that take a map, to which the original cannot pass a bare `.Target`.
pub(super) const MAP_FUNCTIONS: &[&str] = &[
    "deepCopy",
    "dig",
    "get",
    "hasKey",
    "keys",
    "merge",
    "mergeOverwrite",
    "mustMerge",
    "mustMergeOverwrite",
    "omit",
    "pick",
    "pluck",
    "set",
    "unset",
    "values",
];

pub(super) fn passes_bare_target(text: &str) -> bool {
    let actions = text.split("{{").skip(1).filter_map(|after| after.split("}}").next());
    actions.into_iter().any(|action| {
        let mut words = action.split([' ', '(', ')', '|', '\t', '\n']).filter(|w| !w.is_empty());
        words.clone().any(|word| MAP_FUNCTIONS.contains(&word))
            && words.any(|word| word == ".Target")
    })
}

pub(super) fn matches(rule: &ModRule, document: &Value) -> bool {
    rule.spec.criteria.iter().all(|item| is_positive(item, document))
}

pub(super) fn is_positive(item: &MatchItem, document: &Value) -> bool {
    let budget = Budget::unlimited();
    let mut texts = Vec::new();
    let shape = Expr::parse(&item.select).ok().and_then(|select| {
        select
            .for_each_value(document, &budget, &mut |value| {
                texts.push(value.text().into_owned());
                std::ops::ControlFlow::Continue(())
            })
            .ok()
    });
    let absent = match shape {
        None | Some(Shape::Absent) => true,
        Some(Shape::Bool(value)) => return value != item.negate,
        Some(Shape::Single) => false,
        Some(Shape::List { dropped_undefined }) => {
            texts.is_empty() || (dropped_undefined && item.match_for == "All")
        }
    };
    if absent {
        return item.negate;
    }
    let mut tests = texts.iter().map(|text| test(item, text));
    let holds = if item.match_for == "All" { tests.all(|t| t) } else { tests.any(|t| t) };
    holds != item.negate
}

pub(super) fn test(item: &MatchItem, text: &str) -> bool {
    if let Some(value) = &item.match_value {
        return value == text;
    }
    if !item.match_values.is_empty() {
        return item.match_values.iter().any(|value| value == text);
    }
    let regex = item.match_regex.as_deref().map(GoRegex::new);
    regex.is_none_or(|regex| regex.is_ok_and(|regex| regex.is_match(text)))
}

pub(super) fn is_cluster_namespace(namespace: &str) -> bool {
    matches!(namespace, "kubemod-system" | "modgate-system")
}
