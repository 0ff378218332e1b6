//! Templates in CEL: which expressions are asked, what is said of those that are false or fail
//! (spec `gatekeeper-validation`, section 4 and scenarios 52 to 57).

use std::sync::Arc;

use modgate_api::{constraints::EnforcementPoint, templates::FailurePolicy};
use modgate_engine::{
    Severity,
    constraint::{
        Admission, Arena, CompiledConstraint, CompiledTemplate, ConstraintOptions, Evaluation,
        Externals, Inventory, TemplateOptions, review,
    },
    cost::Meter,
};
use modgate_rego::builtins::Isolated;
use modgate_value::{Budget, Limits, Value, yaml};

fn value(text: &str) -> Value {
    yaml::value(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// A template of kind `Probe` with this CEL source, in YAML.
fn template(source: &str, options: &TemplateOptions) -> Result<CompiledTemplate, String> {
    let resource = format!(
        "{{apiVersion: templates.gatekeeper.sh/v1, kind: ConstraintTemplate, metadata: {{name: \
         probe}}, spec: {{crd: {{spec: {{names: {{kind: Probe}}, validation: {{openAPIV3Schema: {{type: object, \
         properties: {{x: {{type: integer}}}}}}}}}}}}, targets: [{{target: \
         admission.k8s.gatekeeper.sh, code: [{{engine: K8sNativeValidation, source: {source}}}]}}]}}}}"
    );
    CompiledTemplate::compile(&value(&resource), options).map_err(|error| error.to_string())
}

fn messages_with(
    source: &str,
    spec: &str,
    request: &str,
    namespace: Option<&str>,
    options: &TemplateOptions,
) -> Vec<String> {
    let template = Arc::new(template(source, options).unwrap_or_else(|error| panic!("{error}")));
    let spec = if spec.is_empty() { String::new() } else { format!(", spec: {spec}") };
    let constraint = value(&format!(
        "{{apiVersion: constraints.gatekeeper.sh/v1beta1, kind: Probe, metadata: {{name: c}}{spec}}}"
    ));
    let constraint =
        CompiledConstraint::compile(&constraint, template, &ConstraintOptions::default())
            .expect("a constraint");
    let namespace = namespace.map(value);
    let admission = Admission::of_request(&value(request), namespace.as_ref()).expect("a request");
    let inventory = Inventory::default();
    let budget = Budget::unlimited();
    let evaluation = Evaluation {
        meter: Meter::default(),
        point: EnforcementPoint::Webhook,
        externals: Externals { inventory: &inventory, host: &Isolated },
        budget: &budget,
        limits: Limits::UNLIMITED,
    };
    let found = review([&constraint], &admission, evaluation, &mut Arena::new());
    found.into_iter().map(|violation| violation.message).collect()
}

fn messages(source: &str, spec: &str, request: &str) -> Vec<String> {
    messages_with(source, spec, request, None, &TemplateOptions::default())
}

const POD: &str = "{operation: CREATE, name: p, namespace: ns, kind: {group: '', version: v1, \
                   kind: Pod}, object: {apiVersion: v1, kind: Pod, metadata: {name: p, namespace: \
                   ns, labels: {a: b}}, spec: {count: 3}}}";

const DELETE: &str = "{operation: DELETE, name: p, kind: {group: '', version: v1, kind: Pod}, \
                      oldObject: {apiVersion: v1, kind: Pod, metadata: {name: p}}}";

#[test]
fn messages_of_validations() {
    for (source, expected) in [
        ("{validations: [{expression: 'object.spec.count == 3'}]}", vec![]),
        (
            "{validations: [{expression: ' object.spec.count == 4 '}]}",
            vec!["failed expression: object.spec.count == 4"],
        ),
        ("{validations: [{expression: 'false', message: ' no '}]}", vec!["no"]),
        (
            "{validations: [{expression: 'false', message: no way, messageExpression: '\"made \" + \
             object.metadata.name'}]}",
            vec!["made p"],
        ),
        // 53: what is no text is not used.
        (
            "{validations: [{expression: 'false', message: m, messageExpression: \
             object.spec.count}]}",
            vec!["m"],
        ),
        (
            "{validations: [{expression: 'false', messageExpression: '5'}]}",
            vec!["failed expression: false"],
        ),
        (
            "{validations: [{expression: 'false', message: m, messageExpression: '\"a\\nb\"'}]}",
            vec!["m"],
        ),
        (
            "{validations: [{expression: 'false', message: m, messageExpression: '\" \"'}]}",
            vec!["m"],
        ),
        (
            "{validations: [{expression: 'false', message: m, messageExpression: \
             'string(object.nope)'}]}",
            vec!["m"],
        ),
        // All are asked; the lines are sorted.
        (
            "{validations: [{expression: 'false', message: b}, {expression: 'true'}, {expression: \
             'false', message: a}]}",
            vec!["a", "b"],
        ),
        ("{validations: []}", vec![]),
    ] {
        assert_eq!(messages(source, "", POD), expected, "{source}");
    }
}

#[test]
fn errors_and_the_failure_policy() {
    let nope = "expression 'object.spec.nope == 1' resulted in error: no such key: nope";
    let ignore = "failurePolicy: Ignore, ";
    for (policy, expected) in
        [("", vec![nope]), ("failurePolicy: Fail, ", vec![nope]), (ignore, vec![])]
    {
        let source = format!("{{{policy}validations: [{{expression: 'object.spec.nope == 1'}}]}}");
        assert_eq!(messages(&source, "", POD), expected, "52: {source}");
    }
    let source = format!("{{{ignore}validations: [{{expression: 'false', message: m}}]}}");
    assert_eq!(messages(&source, "", POD), ["m"], "false is no error");
    let options =
        TemplateOptions { failure_policy: FailurePolicy::Ignore, ..TemplateOptions::default() };
    let source = "{validations: [{expression: 'object.spec.nope == 1'}]}";
    assert!(messages_with(source, "", POD, None, &options).is_empty());

    // 54 and Q-10: accepted, reported, and denied.
    let source = "{validations: [{expression: 'object.'}]}";
    let found = messages(source, "", POD);
    let [message] = found.as_slice() else { panic!("{found:?}") };
    assert!(
        message.starts_with("compilation error: compilation failed: ERROR: <input>:1:"),
        "{message}"
    );
    let template = template(source, &TemplateOptions::default()).expect("a template");
    let [problem] = template.problems() else { panic!("{:?}", template.problems()) };
    assert_eq!(problem.severity, Severity::Error);
    assert_eq!(problem.field, "spec.targets[0].code[0].source.validations[0].expression");

    let source = "{validations: [{expression: 'object.spec.count'}]}";
    assert_eq!(messages(source, "", POD), ["compilation error: must evaluate to bool but got dyn"]);
}

#[test]
fn what_is_in_scope() {
    // 55
    let found = messages("{validations: [{expression: 'params.spec.parameters.x == 1'}]}", "", POD);
    assert!(found.concat().contains("undeclared reference to 'params'"), "{found:?}");
    let parameters = "{parameters: {x: 1}}";
    for (expression, spec, request, holds) in [
        ("variables.params.x == 1", parameters, POD, true),
        ("variables.params == null", "", POD, true),
        ("variables.params == null", "{}", POD, true),
        ("variables.own == 2", parameters, POD, true),
        ("variables.anyObject.metadata.name == 'p'", "", POD, true),
        // 56
        ("object == null", "", DELETE, true),
        ("variables.anyObject.metadata.name == 'p'", "", DELETE, true),
        ("oldObject.metadata.name == 'p'", "", DELETE, true),
        ("oldObject == null", "", POD, true),
        ("request.operation == 'CREATE'", "", POD, true),
        ("request.kind.kind == 'Pod' && request.requestKind == request.kind", "", POD, true),
        ("request.namespace == 'ns' && request.name == 'p'", "", POD, true),
        ("has(request.subResource)", "", POD, false),
        ("request.dryRun", "", POD, false),
        ("namespaceObject == null", "", POD, true),
    ] {
        let source = format!(
            "{{variables: [{{name: own, expression: 'params.spec.parameters.x + 1'}}], validations: \
             [{{expression: \"{expression}\", message: 'false'}}]}}"
        );
        let expected: &[&str] = if holds { &[] } else { &["false"] };
        assert_eq!(messages(&source, spec, request), expected, "{expression}");
    }
    let namespace = "{metadata: {name: ns, labels: {team: a}, managedFields: []}}";
    for (expression, holds) in [
        ("namespaceObject.metadata.labels.team == 'a'", true),
        ("namespaceObject.metadata.name == 'ns'", true),
        ("has(namespaceObject.status.phase)", false),
    ] {
        let source =
            format!("{{validations: [{{expression: \"{expression}\", message: 'false'}}]}}");
        let options = TemplateOptions::default();
        let found = messages_with(&source, "", POD, Some(namespace), &options);
        assert_eq!(found.is_empty(), holds, "{expression}: {found:?}");
    }
}

#[test]
fn match_conditions() {
    let with = |key: &str, conditions: &str, policy: &str| {
        format!(
            "{{{key}: [{conditions}], failurePolicy: {policy}, validations: [{{expression: 'false', \
             message: m}}]}}"
        )
    };
    let no = "{name: a, expression: 'false'}";
    let yes = "{name: b, expression: 'true'}";
    let fails = "{name: c, expression: 'object.nope == 1'}";
    let error = "expression 'object.nope == 1' resulted in error: no such key: nope";
    for (key, conditions, policy, expected) in [
        ("matchCondition", no.to_owned(), "Fail", vec![]),
        ("matchCondition", yes.to_owned(), "Fail", vec!["m"]),
        ("matchCondition", format!("{yes}, {no}"), "Fail", vec![]),
        ("matchCondition", fails.to_owned(), "Fail", vec![error]),
        ("matchCondition", fails.to_owned(), "Ignore", vec![]),
        ("matchCondition", format!("{fails}, {no}"), "Fail", vec![]),
        // 57
        ("matchConditions", no.to_owned(), "Fail", vec!["m"]),
    ] {
        let source = with(key, &conditions, policy);
        assert_eq!(messages(&source, "", POD), expected, "{source}");
    }
    let plural = with("matchConditions", no, "Fail");
    let warned = template(&plural, &TemplateOptions::default()).expect("a template");
    let [problem] = warned.problems() else { panic!("{:?}", warned.problems()) };
    assert_eq!(problem.severity, Severity::Warning, "Q-9");
    let options = TemplateOptions { plural_match_conditions: true, ..TemplateOptions::default() };
    assert!(messages_with(&plural, "", POD, None, &options).is_empty(), "Q-9");
}

#[test]
fn sources_that_are_refused() {
    for (source, expected) in [
        ("text", "could not recognize the type"),
        ("{failurePolicy: Maybe}", "invalid failure policy: unrecognized failure policy: Maybe"),
        (
            "{matchCondition: [{name: gatekeeper_internal_x, expression: 'true'}]}",
            "invalid match condition: gatekeeper_internal_x is not a valid match condition; cannot \
             have \"gatekeeper_internal_\" as a prefix",
        ),
        (
            "{variables: [{name: gatekeeper_internal_x, expression: 'true'}]}",
            "invalid variable definition: gatekeeper_internal_x is not a valid variable; cannot \
             have \"gatekeeper_internal_\" as a prefix",
        ),
        (
            "{variables: [{name: params, expression: 'true'}]}",
            "invalid variable definition: params an invalid variable name, \"params\" is a reserved \
             keyword",
        ),
        (
            "{variables: [{name: anyObject, expression: 'true'}]}",
            "invalid variable definition: anyObject an invalid variable name, \"anyObject\" is a \
             reserved keyword",
        ),
    ] {
        let refused = template(source, &TemplateOptions::default()).map(|_| "accepted");
        assert_eq!(refused, Err(expected.to_owned()), "{source}");
    }
    let refused = template("{validations: 5}", &TemplateOptions::default()).map(|_| "accepted");
    assert!(refused.is_err_and(|error| error.contains("validations")));
}

#[test]
fn messages_quote_expressions_within_bounds() {
    let long = format!("'{}' == 'b'", "a".repeat(90_000));
    let found = messages(&format!("{{validations: [{{expression: \"{long}\"}}]}}"), "", POD);
    let [message] = found.as_slice() else { panic!("{found:?}") };
    assert!(message.starts_with("failed expression: 'aaaa") && message.len() < 5_000);
    assert!(message.ends_with("bytes more)"), "{message}");

    let failing = format!("'{}' == object.nope", "a".repeat(90_000));
    let found = messages(&format!("{{validations: [{{expression: \"{failing}\"}}]}}"), "", POD);
    let [message] = found.as_slice() else { panic!("{found:?}") };
    assert!(message.ends_with("resulted in error: no such key: nope") && message.len() < 5_000);

    let broken = format!("'{}' == +", "a".repeat(90_000));
    let found = messages(&format!("{{validations: [{{expression: \"{broken}\"}}]}}"), "", POD);
    let [message] = found.as_slice() else { panic!("{found:?}") };
    assert!(message.contains("<input>:1:90007: Syntax error"), "{message}");
    assert!(message.len() < 5_000, "{} bytes", message.len());
}

/// Validations that the original denies, all because values show only at run time what they are. Each
/// let the Pod in once.
#[test]
fn what_cannot_be_decided_is_denied() {
    let pod = "{operation: CREATE, name: p, namespace: ns, kind: {group: '', version: v1, kind: Pod}, \
               object: {apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {n: 30, m: {k: v}, \
               list: [1, a, null, {a: 1}], request: 8Gi, limit: 4Gi, few: 5, many: 9, key: x}}}";
    for expression in [
        "quantity(object.spec.request).compareTo(quantity(object.spec.limit)) <= 0",
        "!quantity(object.spec.request).isGreaterThan(quantity(object.spec.limit))",
        "quantity(string(object.spec.many)) == quantity(string(object.spec.few))",
        "duration(object.spec.n) < duration('5s')",
        "string(type(object.spec.n)) == 'int'",
        "object.spec.list.isSorted()",
        "object.spec.list.max() == 1",
        "[object.spec.m].isSorted()",
        "!object.spec.m[?object.spec.list].hasValue()",
        "object.spec.key.orValue('x') == 'x'",
        "object.spec.list.orValue([]).size() == 4",
        "object.spec.m.or(optional.none()) == object.spec.m",
        "lists.range(-1).size() == 0",
        "'abc'.indexOf('', -1) < 0",
        "object.spec.list.all(x, !(bytes(object.spec.key) in {'a': 1}))",
        "object.spec.n in {30.0: 1}",
    ] {
        let source =
            format!("{{validations: [{{expression: \"{expression}\", message: denied}}]}}");
        let found = messages(&source, "", pod);
        assert_eq!(found.len(), 1, "{expression}: {found:?}");
    }
}
