//! The conditions that policies rendered for the API server carry, evaluated: they decide as the
//! match block does, but for what the specification says they do not know (CE-36, CE-39).

use std::collections::BTreeSet;

use modgate_cel::{Activation, Arena, Env, Program, Type, Val};
use modgate_engine::constraint::vap::{self, VapOptions, VapScope};
use modgate_value::{Budget, Str, Value, yaml};

fn from_yaml(text: &str) -> Value {
    yaml::value(text).expect(text)
}

struct Request {
    object: Value,
    old_object: Value,
    params: Value,
    request: Value,
}

impl Activation for Request {
    fn variable<'a>(&'a self, name: &str) -> Option<Val<'a>> {
        let value = match name {
            "object" => &self.object,
            "oldObject" => &self.old_object,
            "params" => &self.params,
            "request" => &self.request,
            _ => return None,
        };
        Some(Val::json(value))
    }
}

fn policy(scope: VapScope) -> Value {
    let template = from_yaml(
        "{apiVersion: templates.gatekeeper.sh/v1, kind: ConstraintTemplate, metadata: {name: p}, \
         spec: {crd: {spec: {names: {kind: P}}}, targets: [{target: admission.k8s.gatekeeper.sh, \
         code: [{engine: K8sNativeValidation, source: {validations: [{expression: 'true'}]}}]}]}}",
    );
    let options = VapOptions { scope, ..VapOptions::default() };
    vap::policy(&template, &options).expect("a policy").object
}

fn expression<'p>(policy: &'p Value, list: &str, name: &str) -> &'p str {
    let list = policy.path(&["spec", list]).and_then(Value::as_array).expect("a list");
    let found = list.iter().find(|entry| entry.get("name") == Some(&name.into())).expect(name);
    found.get("expression").and_then(Value::as_str).expect("an expression")
}

/// An expression over a request about `object` with this constraint.
fn evaluate(text: &str, object: &str, old: &str, constraint: &str) -> String {
    let mut env = Env::new();
    for name in ["object", "oldObject", "params", "request"] {
        env = env.with(name, Type::Dyn);
    }
    let program = Program::compile(text, &env).expect(text);
    let object = from_yaml(object);
    let of = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let group =
        of("apiVersion").split_once('/').map_or(String::new(), |(group, _)| group.to_owned());
    let operation = if object.is_null() { "DELETE" } else { "UPDATE" };
    let kind: Value =
        [("group", Value::from(group)), ("kind", of("kind").into())].into_iter().collect();
    let request = Request {
        request: [("kind", kind), ("operation", operation.into())].into_iter().collect(),
        object,
        old_object: from_yaml(old),
        params: from_yaml(constraint),
    };
    let (arena, budget) = (Arena::new(), Budget::unlimited());
    let (value, _) = program.eval(&request, &arena, &budget, 10_000_000).expect(text);
    match value {
        Val::Bool(value) => value.to_string(),
        other => format!("{other:?}"),
    }
}

const POD: &str = "{apiVersion: v1, kind: Pod, metadata: {name: web-1, namespace: prod-1}}";
const MADE: &str = "{apiVersion: v1, kind: Pod, metadata: {generateName: web-, namespace: dev}}";
const ROLE: &str =
    "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: r}}";
const PROD: &str = "{apiVersion: v1, kind: Namespace, metadata: {name: prod-1}}";

#[test]
fn conditions_of_the_match_block() {
    let policy = policy(VapScope::default());
    for (condition, block, object, expected) in [
        ("namespaces", "{}", POD, true),
        ("namespaces", "{namespaces: [prod-*]}", POD, true),
        ("namespaces", "{namespaces: ['*-1', dev]}", POD, true),
        ("namespaces", "{namespaces: [prod]}", POD, false),
        ("namespaces", "{namespaces: [prod-*]}", MADE, false),
        ("namespaces", "{namespaces: [prod-*]}", ROLE, true),
        // A Namespace has no namespace, and an empty list matches none.
        ("namespaces", "{namespaces: [dev]}", PROD, true),
        ("namespaces", "{namespaces: []}", POD, false),
        ("excluded_namespaces", "{}", POD, true),
        ("excluded_namespaces", "{excludedNamespaces: [prod-*]}", POD, false),
        ("excluded_namespaces", "{excludedNamespaces: ['*rod*']}", POD, false),
        ("excluded_namespaces", "{excludedNamespaces: [prod-*]}", MADE, true),
        ("excluded_namespaces", "{excludedNamespaces: ['*']}", ROLE, true),
        ("excluded_namespaces", "{excludedNamespaces: []}", POD, true),
        ("name", "{}", POD, true),
        ("name", "{name: web-1}", POD, true),
        ("name", "{name: web}", POD, false),
        ("name", "{name: 'web*'}", POD, true),
        ("name", "{name: '*1'}", POD, true),
        ("name", "{name: 'web-*'}", MADE, true),
        ("name", "{name: web-}", MADE, false),
        ("name", "{name: '*web-'}", MADE, false),
        ("kinds", "{}", POD, true),
        ("kinds", "{kinds: [{apiGroups: [''], kinds: [Pod]}]}", POD, true),
        ("kinds", "{kinds: [{apiGroups: ['apps'], kinds: [Pod]}]}", POD, false),
        ("kinds", "{kinds: [{kinds: [Service]}, {apiGroups: ['*']}]}", POD, true),
        ("kinds", "{kinds: [{apiGroups: [], kinds: []}]}", ROLE, true),
        ("kinds", "{kinds: [{kinds: ['*', Pod]}]}", ROLE, true),
        ("kinds", "{kinds: []}", POD, false),
    ] {
        let name = format!("gatekeeper_internal_match_{condition}");
        let text = expression(&policy, "matchConditions", &name);
        let constraint = format!("{{spec: {{match: {block}}}}}");
        let got = evaluate(text, object, "null", &constraint);
        assert_eq!(got, expected.to_string(), "{condition} {block} {object}");
        // On deletions the old object counts, and without a match block everything does.
        if condition != "kinds" {
            let got = evaluate(text, "null", object, &constraint);
            assert_eq!(got, expected.to_string(), "old: {condition} {block} {object}");
        }
        for constraint in ["{}", "{spec: {}}", "{spec: {match: {}}}"] {
            assert_eq!(evaluate(text, object, "null", constraint), "true", "{condition}");
        }
    }
}

#[test]
fn what_the_installation_leaves_out() {
    let list = |names: &[&str]| names.iter().map(|name| Str::from(*name)).collect::<BTreeSet<_>>();
    let policy = policy(VapScope {
        excluded_namespaces: list(&["prod-*", "x"]),
        exempt_namespaces: list(&["prod-*"]),
        webhook: None,
    });
    let labelled = "{apiVersion: v1, kind: Namespace, metadata: {name: prod-1, labels: \
                    {admission.gatekeeper.sh/ignore: ''}}}";
    for (condition, object, expected) in [
        ("excluded", POD, false),
        ("excluded", MADE, true),
        ("excluded", ROLE, true),
        ("excluded", PROD, false),
        ("exempted", POD, false),
        ("exempted", MADE, true),
        ("exempted", ROLE, true),
        // A Namespace is exempt only when it says so itself.
        ("exempted", PROD, true),
        ("exempted", labelled, false),
    ] {
        let name = format!("gatekeeper_internal_match_global_{condition}_namespaces");
        let text = expression(&policy, "matchConditions", &name);
        let got = evaluate(text, object, "null", "{}");
        assert_eq!(got, expected.to_string(), "{condition} {object}");
    }
}

#[test]
fn variables_of_every_policy() {
    let policy = policy(VapScope::default());
    let params = expression(&policy, "variables", "params");
    for (constraint, expected) in
        [("{spec: {parameters: {a: 1}}}", "true"), ("{spec: {}}", "false"), ("{}", "false")]
    {
        let text = format!("({params}) != null");
        assert_eq!(evaluate(&text, POD, "null", constraint), expected, "{constraint}");
    }
    let object = expression(&policy, "variables", "anyObject");
    let name = format!("({object}).metadata.name == 'web-1'");
    assert_eq!(evaluate(&name, POD, "null", "{}"), "true");
    assert_eq!(evaluate(&name, "null", POD, "{}"), "true");
    assert_eq!(evaluate(&name, POD, PROD, "{}"), "true");
}
