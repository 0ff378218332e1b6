//! `matchConstraints` and `matchResources` as a match block, and as a condition for what a match block
//! does not have.

use std::collections::BTreeSet;

use modgate_engine::{
    admissionpolicy::Types,
    api::{
        admissionregistration::{MatchResources, ResourceRule},
        kinds,
        matching::LabelSelector,
        meta::GroupVersionKind,
    },
};
use modgate_value::{Str, Value};

use super::{Loss, is_of, object, text};

/// A part of `matchConstraints`, as far as templates can have it.
#[derive(Debug, Default)]
pub(super) struct Matching {
    /// `kinds` of the match block; none for all.
    pub(super) kinds: Vec<Value>,
    /// A condition in CEL; empty where the kinds are all.
    pub(super) condition: String,
    pub(super) losses: Vec<Loss>,
    /// Whether a rule cannot be said at all.
    pub(super) is_impossible: bool,
}

/// One rule, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Rule {
    groups: Vec<Str>,
    /// Kinds by their resource; `None` for all.
    kinds: Option<Vec<Str>>,
    /// The part that does not depend on the kind, in CEL.
    rest: Vec<String>,
    /// Resources with the subresources, where a rule names any.
    resources: Option<String>,
}

/// The rules of a policy or a binding, in the context of the documents with CustomResourceDefinitions.
pub(super) fn rules(field: &str, wire: &MatchResources, documents: &[Value]) -> Matching {
    let mut matching = Matching::default();
    let exact = wire.match_policy.as_deref() == Some("Exact");
    let mut read = |list: &str, rules: &Option<Vec<ResourceRule>>| -> Vec<Rule> {
        let mut found = Vec::new();
        for (index, rule) in rules.iter().flatten().enumerate() {
            let field = format!("{field}.{list}[{index}]");
            match Rule::of(rule, exact, documents, &field, &mut matching.losses) {
                Ok(rule) => found.push(rule),
                Err(loss) => {
                    matching.losses.push(loss);
                    matching.is_impossible = true;
                }
            }
        }
        found
    };
    let included = read("resourceRules", &wire.resource_rules);
    let excluded = read("excludeResourceRules", &wire.exclude_resource_rules);
    let mut terms = Vec::new();
    let alike = included.windows(2).all(|pair| match pair {
        [a, b] => a.rest == b.rest && a.resources.is_none() && b.resources.is_none(),
        _ => true,
    });
    match included.as_slice() {
        [] => {}
        [first, ..] if alike && first.resources.is_none() => {
            terms.extend(first.rest.iter().cloned());
        }
        many => {
            let any: Vec<String> = many.iter().map(|rule| rule.whole()).collect();
            terms.push(format!("({})", any.join(" || ")));
        }
    }
    terms.extend(excluded.iter().map(|rule| format!("!({})", rule.whole())));
    matching.condition = terms.join(" && ");
    if included.iter().all(|rule| rule.resources.is_none()) {
        matching.kinds = included.iter().filter_map(Rule::entry).collect();
        let everything = included.iter().any(|rule| rule.entry().is_none());
        if everything {
            matching.kinds.clear();
        }
    }
    matching
}

impl Rule {
    fn of(
        rule: &ResourceRule,
        exact: bool,
        documents: &[Value],
        field: &str,
        losses: &mut Vec<Loss>,
    ) -> Result<Self, Loss> {
        let all =
            |list: &Option<Vec<Str>>| -> Vec<Str> { list.iter().flatten().cloned().collect() };
        let (groups, versions) = (all(&rule.api_groups), all(&rule.api_versions));
        let (resources, operations) = (all(&rule.resources), all(&rule.operations));
        let is_all = |list: &[Str]| list.iter().any(|it| it == "*");
        let mut rest = Vec::new();
        let with_parts = resources.iter().any(|it| it.contains('/'));
        if !with_parts {
            rest.push("!has(request.subResource)".to_owned());
        }
        if !is_all(&operations) {
            let list = listed(operations.iter().map(Str::as_str).chain([""]));
            rest.push(format!("(!has(request.operation) || request.operation in {list})"));
        }
        match rule.scope.as_deref() {
            Some("Namespaced") => rest.push(NAMESPACED.to_owned()),
            Some("Cluster") => rest.push(format!("!({NAMESPACED})")),
            _ => {}
        }
        let names = all(&rule.resource_names);
        if !names.is_empty() {
            let list = listed(names.iter().map(Str::as_str));
            rest.push(format!("has(request.name) && request.name in {list}"));
        }
        let whole: Vec<Str> = resources.iter().filter(|it| !it.contains('/')).cloned().collect();
        let kinds = match is_all(&whole) || whole.is_empty() {
            true => None,
            false => Some(kinds_of(&groups, &whole, documents, field)?),
        };
        if !is_all(&versions) {
            if exact {
                let list = listed(versions.iter().map(Str::as_str));
                rest.push(format!("request.kind.version in {list}"));
            } else if let Some(kinds) = &kinds {
                let served = served(&groups, kinds);
                if served.iter().any(|version| !versions.contains(version)) {
                    let message = "objects of other versions are not converted to the versions of \
                                   the rule: expressions see them as they are sent";
                    losses.push(Loss::new(format!("{field}.apiVersions"), message));
                }
            }
        }
        let resources = with_parts.then(|| parts(&resources, kinds.as_deref()));
        let kinds = kinds.filter(|_| !with_parts);
        Ok(Self { groups, kinds, rest, resources })
    }

    /// The entry of `kinds`; none for everything.
    fn entry(&self) -> Option<Value> {
        let list = |list: &[Str]| list.iter().cloned().map(Value::from).collect::<Value>();
        let star = [Str::from("*")];
        let groups: &[Str] = match self.groups.iter().any(|it| it == "*") {
            true => &star,
            false => &self.groups,
        };
        let kinds = self.kinds.as_deref().unwrap_or(&star);
        if groups == star && kinds == star {
            return None;
        }
        Some(object([("apiGroups", list(groups)), ("kinds", list(kinds))]))
    }

    /// The whole rule in CEL.
    fn whole(&self) -> String {
        let mut terms = Vec::new();
        if !self.groups.iter().any(|it| it == "*") {
            let list = listed(self.groups.iter().map(Str::as_str));
            terms.push(format!("request.kind.group in {list}"));
        }
        if let Some(kinds) = &self.kinds {
            terms.push(format!("request.kind.kind in {}", listed(kinds.iter().map(Str::as_str))));
        }
        terms.extend(self.resources.clone());
        terms.extend(self.rest.iter().cloned());
        if terms.is_empty() { "true".to_owned() } else { format!("({})", terms.join(" && ")) }
    }
}

/// Whether the object of a request is in a namespace.
const NAMESPACED: &str =
    "(has(request.namespace) && request.namespace != \"\" && request.kind.kind != \"Namespace\")";

/// Resources with their subresources in CEL; `kinds` are those of the resources without one.
fn parts(resources: &[Str], kinds: Option<&[Str]>) -> String {
    let all = |terms: Vec<String>| match terms.is_empty() {
        true => "true".to_owned(),
        false => format!("({})", terms.join(" && ")),
    };
    let mut each = Vec::new();
    if resources.iter().any(|it| !it.contains('/')) {
        let kinds = kinds.map(|kinds| listed(kinds.iter().map(Str::as_str)));
        let kinds = kinds.map(|kinds| format!("request.kind.kind in {kinds}"));
        each.push(all(kinds.into_iter().chain(["!has(request.subResource)".to_owned()]).collect()));
    }
    for (name, sub) in resources.iter().filter_map(|it| it.split_once('/')) {
        let mut terms = Vec::new();
        if name != "*" {
            terms.push(format!("request.resource.resource == {}", quoted(name)));
        }
        if sub != "*" {
            terms.push(format!(
                "has(request.subResource) && request.subResource == {}",
                quoted(sub)
            ));
        }
        each.push(all(terms));
    }
    format!("({})", each.join(" || "))
}

fn quoted(text: &str) -> String {
    Value::from(text).to_json()
}

fn listed<'t>(texts: impl Iterator<Item = &'t str>) -> String {
    format!("[{}]", texts.map(quoted).collect::<Vec<_>>().join(", "))
}

/// The kinds of resources in groups.
fn kinds_of(
    groups: &[Str],
    resources: &[Str],
    documents: &[Value],
    field: &str,
) -> Result<Vec<Str>, Loss> {
    let in_all = groups.iter().any(|it| it == "*");
    let mut found = BTreeSet::new();
    for resource in resources {
        let before = found.len();
        let own = kinds::groups().filter(|group| in_all || groups.iter().any(|it| it == group));
        for group in own {
            let plural = |kind: &&&str| {
                GroupVersionKind {
                    group: group.into(),
                    version: Str::default(),
                    kind: (**kind).into(),
                }
                .plural()
                    == *resource
            };
            let kinds = kinds::of_group(group).unwrap_or_default();
            found.extend(kinds.iter().filter(plural).map(|kind| Str::from(*kind)));
        }
        let definitions = documents.iter().filter(|it| {
            is_of(it, "apiextensions.k8s.io")
                && (in_all || groups.iter().any(|group| group == text(it, &["spec", "group"])))
                && text(it, &["spec", "names", "plural"]) == resource.as_str()
        });
        found.extend(definitions.map(|it| Str::from(text(it, &["spec", "names", "kind"]))));
        if found.len() == before {
            let message = format!(
                "the kind of the resource `{resource}` is not known; add its \
                 CustomResourceDefinition to the input"
            );
            return Err(Loss::new(format!("{field}.resources"), message));
        }
    }
    Ok(found.into_iter().collect())
}

/// The versions in which an API server of 1.36 serves kinds of its own groups.
fn served(groups: &[Str], kinds: &[Str]) -> BTreeSet<Str> {
    let own = kinds::groups().filter(|own| groups.iter().any(|it| it == "*" || it == own));
    let versions = own.flat_map(|group| {
        kinds.iter().flat_map(move |kind| Types::kubernetes().versions(group, Some(kind.as_str())))
    });
    versions.map(Str::from).collect()
}

/// Two selectors as one: an object must meet both.
pub(super) fn both(a: Option<&LabelSelector>, b: Option<&LabelSelector>) -> Option<Value> {
    let expressions: Vec<Value> = [a, b].into_iter().flatten().flat_map(requirements).collect();
    (!expressions.is_empty()).then(|| object([("matchExpressions", expressions.into())]))
}

/// The requirements of a selector, as `matchExpressions`.
fn requirements(selector: &LabelSelector) -> Vec<Value> {
    let labels = selector.match_labels.iter().flatten().map(|(key, value)| {
        let values: Value = [Value::from(value.clone())].into_iter().collect();
        object([("key", Value::from(key.clone())), ("operator", "In".into()), ("values", values)])
    });
    let expressions = selector.match_expressions.iter().flatten().map(|it| {
        let mut members =
            vec![("key", Value::from(it.key.clone())), ("operator", it.operator.clone().into())];
        let values: Vec<Value> = it.values.iter().flatten().cloned().map(Value::from).collect();
        if !values.is_empty() {
            members.push(("values", values.into()));
        }
        object(members)
    });
    labels.chain(expressions).collect()
}
