//! Constraints of one review share what their CEL has in common. The oracle is the same constraints
//! before they are in force, which share nothing: what they find, in which words, and what they
//! spend is the same; those whose budgets end say so, too.

use std::{cell::Cell, collections::BTreeMap, sync::Arc};

use modgate_api::constraints::EnforcementPoint;
use modgate_engine::{
    PolicySource,
    constraint::{
        Admission, Arena, CompiledConstraint, CompiledTemplate, ConstraintOptions, Evaluation,
        Externals, Inventory, Store, TemplateOptions, Violation, review, review_each,
    },
    cost::Meter,
};
use modgate_rego::builtins::Isolated;
use modgate_value::{Budget, Limits, Value, budget::Frozen, yaml};

/// The variables and validations of templates; they have many texts in common, and read the same by
/// other ways or other things by the same text.
const TEMPLATES: [&str; 17] = [
    "{variables: [{name: all, expression: 'has(variables.anyObject.spec.containers) ? \
     variables.anyObject.spec.containers : []'}, {name: exempt, expression: \
     '!has(variables.params.exempt) ? [] : variables.params.exempt'}, {name: bad, expression: \
     'variables.all.filter(c, !(c.image in variables.exempt)).map(c, c.name)'}], validations: \
     [{expression: 'size(variables.bad) == 0', messageExpression: '\"bad: \" + \
     variables.bad.join(\", \")'}, {expression: 'size(variables.all) < variables.params.most', \
     messageExpression: '\"more than \" + string(variables.params.most)'}]}",
    // Other places, and one variable more.
    "{variables: [{name: exempt, expression: '!has(variables.params.exempt) ? [] : \
     variables.params.exempt'}, {name: unused, expression: '1 / 0'}, {name: all, expression: \
     'has(variables.anyObject.spec.containers) ? variables.anyObject.spec.containers : []'}, {name: \
     bad, expression: 'variables.all.filter(c, !(c.image in variables.exempt)).map(c, c.name)'}], \
     validations: [{expression: 'size(variables.bad) == 0', messageExpression: '\"bad: \" + \
     variables.bad.join(\", \")'}, {expression: 'variables.unused > 0', message: never}]}",
    // `all` is something else, and with it what reads it.
    "{variables: [{name: all, expression: '[{\"image\": \"x\", \"name\": \"made\"}]'}, {name: exempt, \
     expression: '!has(variables.params.exempt) ? [] : variables.params.exempt'}, {name: bad, \
     expression: 'variables.all.filter(c, !(c.image in variables.exempt)).map(c, c.name)'}], \
     validations: [{expression: 'size(variables.bad) == 0', messageExpression: '\"bad: \" + \
     variables.bad.join(\", \")'}]}",
    // Errors are shared, too, and passed over.
    "{variables: [{name: missing, expression: 'variables.anyObject.spec.nothing'}, {name: set, \
     expression: 'variables.missing == 1 || variables.params.most > 0'}], validations: [{expression: \
     'variables.set'}, {expression: 'variables.missing == 2', message: m}]}",
    "{variables: [{name: missing, expression: 'variables.anyObject.spec.nothing'}], validations: \
     [{expression: 'variables.missing == 2', message: m}, {expression: 'has(variables.params.exempt) \
     && variables.params.exempt.exists(e, e == \"b:1\")', message: e}]}",
    // The same texts as above under another name, and as a variable and a validation.
    "{variables: [{name: gone, expression: 'variables.anyObject.spec.nothing'}, {name: again, \
     expression: variables.gone}], validations: [{expression: variables.gone}, {expression: \
     'variables.again == 1', message: a}, {expression: 'variables.again == 2', message: m}]}",
    // The parameters as a whole, and by other ways.
    "{variables: [{name: whole, expression: 'variables.params'}, {name: most, expression: \
     'variables.?params.?most.orValue(7)'}], validations: [{expression: 'has(variables.whole.exempt)', \
     message: w}, {expression: 'variables.most == params.spec.parameters.most', message: o}]}",
    "{validations: [{expression: 'variables.params[\"most\"] > 1', message: i}, {expression: \
     'params.metadata.name == \"c0\"', messageExpression: params.metadata.name}]}",
    // A name that others have, for something else.
    "{variables: [{name: all, expression: '{\"exempt\": [\"a:1\"]}'}, {name: exempt, expression: \
     '!has(variables.all.exempt) ? [] : variables.all.exempt'}], validations: [{expression: \
     'size(variables.exempt) == 1', message: own}]}",
    "{matchCondition: [{name: any, expression: 'size(variables.all) > 0'}], variables: [{name: all, \
     expression: 'has(variables.anyObject.spec.containers) ? variables.anyObject.spec.containers : \
     []'}], validations: [{expression: 'false', messageExpression: 'string(size(variables.all))'}]}",
    // What the parameters alone come to, in values of every kind, and what reads it.
    "{variables: [{name: few, expression: '[1, 2, 3]'}, {name: tried, expression: \
     'variables.params.exempt'}, {name: made, expression: '[variables.few, variables.params]'}, {name: \
     nested, expression: '[variables.made, [variables.few]]'}, {name: map, expression: '{\"few\": \
     variables.few, \"most\": variables.params.?most, \"made\": variables.made}'}, {name: maybe, \
     expression: 'variables.params.?exempt[?0]'}, {name: prefix, expression: \
     'variables.maybe.orValue(\"none\").substring(0, 1)'}, {name: wrong, expression: '1 / \
     (size(variables.few) - 3)'}, {name: used, expression: 'variables.map.most.orValue(0) + \
     size(variables.nested)'}], validations: [{expression: 'variables.tried.size() == 1', message: t}, \
     {expression: 'variables.nested == [variables.made, [[1, 2, 3]]]', message: no match}, {expression: \
     'has(variables.anyObject.spec.nothing) || variables.used > 3', messageExpression: \
     '\"prefix \" + variables.prefix + string(variables.map)'}, {expression: \
     '[variables.map, variables.made] == [variables.map, variables.nested[0]] && false', message: m}, \
     {expression: 'variables.wrong == 1 || variables.prefix == \"n\"', message: w}]}",
    // Too large to be kept, and of types that are not kept.
    "{variables: [{name: long, expression: 'lists.range(300)'}, {name: far, expression: \
     'variables.long.map(i, i * size(variables.params))'}, {name: amount, expression: \
     'quantity(string(variables.params.most))'}, {name: since, expression: \
     'timestamp(\"2026-01-01T00:00:00Z\")'}, {name: deep, expression: '[[variables.since], \
     [duration(\"1h\"), type(1)], b\"x\", 2u, 1.5, null]'}, {name: last, expression: \
     'variables.far[size(variables.far) - 1]'}], validations: [{expression: 'variables.last == 1', \
     messageExpression: 'string(variables.last)'}, {expression: \
     'variables.amount.isGreaterThan(quantity(\"1\"))', message: q}, {expression: \
     'variables.deep[0][0] < timestamp(\"2025-01-01T00:00:00Z\")', messageExpression: \
     'string(variables.deep[1][0])'}]}",
    // Some depend on the parameters through others only, and one also reads a parameter.
    "{variables: [{name: exempt, expression: '!has(variables.params.exempt) ? [] : \
     variables.params.exempt'}, {name: all, expression: 'has(variables.anyObject.spec.containers) ? \
     variables.anyObject.spec.containers : []'}, {name: exempted, expression: 'variables.all.filter(c, \
     c.image in variables.exempt).map(c, c.image)'}, {name: left, expression: 'variables.all.filter(c, \
     !(c.image in variables.exempted))'}, {name: names, expression: 'variables.left.map(c, c.name)'}, \
     {name: worst, expression: 'variables.left[0].name'}, {name: shown, expression: \
     'variables.names.join(\", \") + (has(variables.params.most) ? string(variables.params.most) : \
     \"\")'}], validations: [{expression: 'size(variables.names) == 0', messageExpression: \
     'variables.worst + \": \" + variables.shown'}, {expression: 'size(variables.left) < 2 || \
     variables.worst == \"z\"', messageExpression: variables.shown}, {expression: 'variables.worst == \
     \"z\"', messageExpression: 'string(size(variables.exempted)) + variables.names[0]'}]}",
    // Parts that do not depend on the parameters, in expressions that do: before and after what they read has been read,
    // in macros, with errors, and beside parts like them that do depend on the parameters.
    "{variables: [{name: all, expression: 'has(variables.anyObject.spec.containers) ? \
     variables.anyObject.spec.containers : []'}, {name: none, expression: \
     'has(variables.anyObject.spec.init) ? variables.anyObject.spec.init : []'}, {name: exempt, \
     expression: '!has(variables.params.exempt) ? [] : variables.params.exempt'}, {name: first, \
     expression: 'variables.all[0]'}, {name: bad, expression: '(variables.all + variables.none + \
     variables.all).filter(c, !(c.image in variables.exempt)).map(c, c.name)'}, {name: sizes, expression: \
     'variables.exempt.map(e, size(variables.none + variables.all) + size(e))'}, {name: both, expression: \
     'variables.all + variables.exempt'}], validations: [{expression: 'size(variables.bad + \
     variables.none) == 0', messageExpression: '\"bad: \" + variables.bad.join(\", \")'}, {expression: \
     'variables.first.name + variables.first.image == \"aa:1\" && size(variables.exempt) > 0', \
     messageExpression: 'variables.first.name + variables.first.image + string(variables.params)'}, \
     {expression: 'size(variables.sizes) > 1 || size(variables.both) == 3', messageExpression: \
     'string(variables.sizes[0]) + string(size(variables.none + variables.all + variables.both))'}, \
     {expression: '\"a\" + \"b\" == string(variables.params.most)', message: constants}]}",
    "{matchCondition: [{name: any, expression: 'size(variables.all + variables.all) + \
     size(variables.params) >= 0'}], variables: [{name: all, expression: \
     'has(variables.anyObject.spec.containers) ? variables.anyObject.spec.containers : []'}, {name: more, \
     expression: 'variables.all + [1]'}, {name: wrong, expression: 'variables.all[7]'}], validations: \
     [{expression: 'size(variables.more + variables.all) < variables.params.most', messageExpression: \
     'string(size(variables.more + variables.all) + variables.params.most)'}, {expression: \
     'size(variables.wrong + variables.all) < variables.params.most || size(variables.all + \
     variables.more) == 5', message: m}]}",
    // Few variables read parameters, which of them are read depends on what others come to, and validations read what
    // lies between.
    "{variables: [{name: all, expression: 'has(variables.anyObject.spec.containers) ? \
     variables.anyObject.spec.containers : []'}, {name: none, expression: \
     'has(variables.anyObject.spec.init) ? variables.anyObject.spec.init : []'}, {name: one, expression: \
     '(variables.all + variables.none).exists(c, has(variables.params.exempt) && c.image in \
     variables.params.exempt)'}, {name: two, expression: '(variables.all + variables.none).filter(c, \
     has(variables.params.most) && size(c.name) < variables.params.most).map(c, c.name)'}, {name: \
     between, expression: 'variables.one ? [\"exempt\"] : variables.two'}], validations: [{expression: \
     'size(variables.between) == 1', messageExpression: 'variables.between.join(\",\") + \
     string(variables.two)'}, {expression: '!variables.one || size(variables.between + variables.two) \
     < 2', message: second}, {expression: 'variables.all.all(c, c.image.startsWith(\"a\"))', \
     messageExpression: 'string(size(variables.between)) + string(variables.params)'}]}",
    // The text of a variable as that of a message.
    "{variables: [{name: shown, expression: 'string(object.spec.nothing)'}], validations: [{expression: \
     'variables.shown == \"none\"', messageExpression: 'string(object.spec.nothing)'}, {expression: \
     'string(object.spec.nothing) == \"1\"', messageExpression: 'variables.shown'}]}",
];

const PARAMETERS: [&str; 7] = [
    "",
    "spec: {}",
    "spec: {parameters: {most: 2}}",
    "spec: {parameters: {most: 1, exempt: ['a:1']}}",
    "spec: {parameters: {most: 2, exempt: ['b:1']}}",
    "spec: {parameters: {exempt: ['b:1', 'a:1'], other: x}}",
    "spec: {parameters: {most: 3, exempt: [], other: {more: [null, true, 1.5]}}}",
];

const OBJECTS: [&str; 3] = [
    "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: a, image: 'a:1'}, \
     {name: b, image: 'b:1'}]}}",
    "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {nothing: 2, containers: [{name: nameless}]}}",
    "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {}}",
];

fn value(text: &str) -> Value {
    yaml::value(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Every template with every set of parameters, in force and not.
fn constraints() -> (Store, Vec<CompiledConstraint>) {
    let options = ConstraintOptions::default();
    let (mut store, mut plain) = (Store::default(), Vec::new());
    for (index, source) in TEMPLATES.iter().enumerate() {
        let template = format!(
            "{{apiVersion: templates.gatekeeper.sh/v1, kind: ConstraintTemplate, metadata: {{name: \
             probe{index}}}, spec: {{crd: {{spec: {{names: {{kind: Probe{index}}}, validation: \
             {{legacySchema: true}}}}}}, targets: [{{target: admission.k8s.gatekeeper.sh, code: \
             [{{engine: K8sNativeValidation, source: {source}}}]}}]}}}}"
        );
        let template = CompiledTemplate::compile(&value(&template), &TemplateOptions::default());
        let template = Arc::new(template.unwrap_or_else(|error| panic!("{error}\n{source}")));
        store.insert_template(Arc::clone(&template), &options);
        // Each twice, and some that are too many to be known ahead.
        let many = |last: &str| {
            let most: Vec<String> = (0..300).map(|number| format!("x{number}")).collect();
            format!("spec: {{parameters: {{most: 2, exempt: [{}, '{last}']}}}}", most.join(", "))
        };
        let many = ["a:1", "b:1"].map(many);
        let twice = PARAMETERS.iter().chain(&PARAMETERS).map(|it| (*it).to_owned());
        for (number, parameters) in twice.chain(many).enumerate() {
            let constraint = value(&format!(
                "{{apiVersion: constraints.gatekeeper.sh/v1beta1, kind: Probe{index}, metadata: \
                 {{name: c{number}}}, {parameters}}}"
            ));
            store
                .insert_constraint(PolicySource::of_object(constraint.clone()), &options)
                .expect("a constraint");
            let constraint =
                CompiledConstraint::compile(&constraint, Arc::clone(&template), &options);
            plain.push(constraint.expect("a constraint"));
        }
    }
    (store, plain)
}

/// The violations of constraints, each within these limits, and the steps and bytes that they
/// spend.
fn found<'c>(
    constraints: impl Iterator<Item = &'c CompiledConstraint>,
    object: &str,
    limits: Limits,
) -> (Vec<Violation>, u64, u64) {
    found_of(constraints, object, limits, Limits::UNLIMITED)
}

/// The same with limits for all constraints together.
fn found_of<'c>(
    constraints: impl Iterator<Item = &'c CompiledConstraint>,
    object: &str,
    limits: Limits,
    request_limits: Limits,
) -> (Vec<Violation>, u64, u64) {
    let request = value(&format!(
        "{{operation: CREATE, name: p, kind: {{group: '', version: v1, kind: Pod}}, object: {object}}}"
    ));
    let admission = Admission::of_request(&request, None).expect("a request");
    let inventory = Inventory::default();
    let budget = Budget::new(request_limits, &Frozen);
    let evaluation = Evaluation {
        meter: Meter::default(),
        point: EnforcementPoint::Webhook,
        externals: Externals { inventory: &inventory, host: &Isolated },
        budget: &budget,
        limits,
    };
    let violations = review(constraints, &admission, evaluation, &mut Arena::new());
    (violations, budget.steps_spent(), budget.bytes_spent())
}

/// What each constraint finds and spends.
fn each<'c>(
    constraints: impl Iterator<Item = &'c CompiledConstraint>,
    object: &str,
) -> BTreeMap<(String, String), (Vec<Violation>, u64, u64)> {
    let request = value(&format!(
        "{{operation: CREATE, name: p, kind: {{group: '', version: v1, kind: Pod}}, object: {object}}}"
    ));
    let admission = Admission::of_request(&request, None).expect("a request");
    let inventory = Inventory::default();
    let budget = Budget::new(Limits::UNLIMITED, &Frozen);
    let evaluation = Evaluation {
        meter: Meter::default(),
        point: EnforcementPoint::Webhook,
        externals: Externals { inventory: &inventory, host: &Isolated },
        budget: &budget,
        limits: Limits::UNLIMITED,
    };
    let mut all = BTreeMap::new();
    let before = Cell::new((0, 0));
    let spent = || (budget.steps_spent(), budget.bytes_spent());
    let begin = || before.set(spent());
    review_each(constraints, &admission, evaluation, &mut Arena::new(), &begin, |found| {
        let (steps, bytes) = (spent().0 - before.get().0, spent().1 - before.get().1);
        let key = (found.constraint.kind().to_string(), found.constraint.name().to_string());
        all.insert(key, (found.violations, steps, bytes));
    });
    all
}

#[test]
fn what_is_shared_is_found_and_paid_for_as_if_it_were_not() {
    let (store, plain) = constraints();
    assert_eq!(store.constraints().count(), plain.len());
    let mut differ = std::collections::BTreeSet::new();
    for object in OBJECTS {
        let shared = |limits| found(store.constraints().map(AsRef::as_ref), object, limits);
        let alone = |limits| found(plain.iter(), object, limits);
        let unlimited = alone(Limits::UNLIMITED);
        assert!(unlimited.0.len() > 20, "{} violations", unlimited.0.len());
        let own = each(plain.iter(), object);
        for (constraint, found) in each(store.constraints().map(AsRef::as_ref), object) {
            assert_eq!(Some(&found), own.get(&constraint), "{constraint:?}");
        }
        assert!(shared(Limits::UNLIMITED) == unlimited);
        let backwards = found(
            store.constraints().map(AsRef::as_ref).collect::<Vec<_>>().into_iter().rev(),
            object,
            Limits::UNLIMITED,
        );
        assert!(backwards == unlimited);
        // Budgets end evaluations where they would end.
        for steps in (0..120).step_by(2) {
            let limits = Limits { steps, ..Limits::UNLIMITED };
            let (found, ..) = alone(limits);
            differ.insert(found.len());
            assert!(shared(limits).0 == found, "{steps} steps");
        }
        for bytes in (0..4000).step_by(133) {
            let limits = Limits { bytes, ..Limits::UNLIMITED };
            assert!(shared(limits).0 == alone(limits).0, "{bytes} bytes");
        }
    }
    assert!(differ.len() > 3, "budgets make a difference: {differ:?}");
}

/// Rules that begin alike run together, container by container, and meet the error of the second rule
/// first; the policy as it was written meets that of the first.
#[test]
fn of_several_errors_of_rego_the_same_is_reported() {
    let rego = "package probe\n\
        violation[{\"msg\": msg}] { c := input.review.object.spec.containers[_]; x := first(c); x > \
        input.parameters.most; msg := sprintf(\"%v\", [x]) }\n\
        violation[{\"msg\": msg}] { c := input.review.object.spec.containers[_]; x := second(c); msg := \
        sprintf(\"%v!\", [x]) }\n\
        violation[{\"msg\": msg}] { c := input.review.object.spec.containers[_]; x := first(c); msg := \
        sprintf(\"%v?\", [x]) }\n\
        first(c) = 1 { c.one }\n\
        first(c) = 2 { c.name == \"b\" }\n\
        second(c) = 3 { c.name == \"a\" }\n\
        second(c) = 4 { c.image }\n";
    let template = format!(
        "{{apiVersion: templates.gatekeeper.sh/v1, kind: ConstraintTemplate, metadata: {{name: \
         conflicts}}, spec: {{crd: {{spec: {{names: {{kind: Conflicts}}, validation: {{legacySchema: \
         true}}}}}}, targets: [{{target: admission.k8s.gatekeeper.sh, rego: {}}}]}}}}",
        Value::from(rego).to_json()
    );
    let options = ConstraintOptions::default();
    let template = CompiledTemplate::compile(&value(&template), &TemplateOptions::default());
    let template = Arc::new(template.unwrap_or_else(|error| panic!("{error}")));
    let mut store = Store::default();
    store.insert_template(Arc::clone(&template), &options);
    let constraint = value(
        "{apiVersion: constraints.gatekeeper.sh/v1beta1, kind: Conflicts, metadata: {name: c}, spec: \
         {parameters: {most: 0}}}",
    );
    store.insert_constraint(PolicySource::of_object(constraint.clone()), &options).expect("one");
    let plain = CompiledConstraint::compile(&constraint, template, &options).expect("one");
    for (object, message) in [
        // Only the second container is in conflict for the first function, only the first for the second.
        ("[{name: a, image: x}, {name: b, one: true}]", "multiple outputs"),
        ("[{name: a}, {name: b, one: true}]", "multiple outputs"),
        ("[{name: a}, {name: b}]", "2"),
    ] {
        let object = format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: p}}, spec: {{containers: {object}}}}}"
        );
        let (expected, ..) = found(std::iter::once(&plain), &object, Limits::UNLIMITED);
        let (violations, ..) =
            found(store.constraints().map(AsRef::as_ref), &object, Limits::UNLIMITED);
        assert!(expected.iter().any(|it| it.message.contains(message)), "{object}: {expected:?}");
        let messages = |all: &[Violation]| -> Vec<String> {
            all.iter().map(|violation| violation.message.clone()).collect()
        };
        assert_eq!(messages(&violations), messages(&expected), "{object}");
    }
}

/// Constraints with the same parameters are evaluated once, unless the policy reads something else. The oracle is each
/// of them alone.
#[test]
fn twins_find_and_pay_as_if_each_were_alone() {
    let rego = |rule: &str| {
        let rego = format!(
            "package probe\nviolation[{{\"msg\": msg, \"details\": {{\"image\": c.image}}}}] {{ c := \
             input.review.object.spec.containers[_]; {rule} }}\n"
        );
        format!("rego: {}", Value::from(rego).to_json())
    };
    let sources = [
        rego("not startswith(c.image, input.parameters.prefix); msg := concat(\" \", [c.name, input.parameters.prefix])"),
        // Not closed: other objects, and an error for some objects.
        rego("count(data.inventory.cluster) == 0; msg := sprintf(\"%v\", [input.parameters])"),
        rego("one(c) == input.parameters.prefix; msg := c.name }\none(c) = 1 { c.name }\none(c) = 2 { c.image"),
        "code: [{engine: K8sNativeValidation, source: {validations: [{expression: \
         'object.spec.containers.all(c, c.image.startsWith(variables.params.prefix))', messageExpression: \
         '\"not \" + variables.params.prefix'}, {expression: 'object.spec.containers[1].image != \
         params.metadata.name', message: named}]}}]"
            .to_owned(),
        "code: [{engine: K8sNativeValidation, source: {failurePolicy: Fail, validations: [{expression: \
         'object.spec.containers.all(c, c.image.startsWith(variables.params.prefix))', messageExpression: \
         '\"not \" + variables.params.prefix'}]}}]"
            .to_owned(),
    ];
    let options = ConstraintOptions::default();
    let mut store = Store::default();
    for (index, source) in sources.iter().enumerate() {
        let template = format!(
            "{{apiVersion: templates.gatekeeper.sh/v1, kind: ConstraintTemplate, metadata: {{name: \
             twin{index}}}, spec: {{crd: {{spec: {{names: {{kind: Twin{index}}}, validation: \
             {{legacySchema: true}}}}}}, targets: [{{target: admission.k8s.gatekeeper.sh, {source}}}]}}}}"
        );
        let template = CompiledTemplate::compile(&value(&template), &TemplateOptions::default());
        let template = Arc::new(template.unwrap_or_else(|error| panic!("{error}\n{source}")));
        store.insert_template(template, &options);
        let parameters =
            ["prefix: a", "prefix: a", "prefix: b", "prefix: 7", "prefix: a, other: 1"];
        for (number, parameters) in parameters.iter().enumerate() {
            // The action is no part of what the policy reads; the name of one is what an image is called.
            let (name, action) = if number == 1 { ("x", "warn") } else { ("c", "deny") };
            let constraint = format!(
                "{{apiVersion: constraints.gatekeeper.sh/v1beta1, kind: Twin{index}, metadata: {{name: \
                 {name}{number}}}, spec: {{enforcementAction: {action}, parameters: {{{parameters}}}}}}}"
            );
            let source = PolicySource::of_object(value(&constraint));
            store.insert_constraint(source, &options).expect("a constraint");
        }
    }
    let all = || store.constraints().map(AsRef::as_ref);
    for object in [
        "{spec: {containers: [{name: one, image: 'a:1'}, {name: two, image: x1}]}}",
        "{spec: {containers: [{name: one, image: 'c:1'}, {name: two}]}}",
        "{spec: {}}",
    ] {
        let alone = |limits| {
            let mut sum = (Vec::new(), 0, 0);
            for constraint in all() {
                let (found, steps, bytes) = found(std::iter::once(constraint), object, limits);
                sum = ([sum.0, found].concat(), sum.1 + steps, sum.2 + bytes);
            }
            sum
        };
        let sorted = |mut found: Vec<Violation>| {
            found.sort_by_key(|it| (it.kind.clone(), it.constraint.clone(), it.message.clone()));
            found
        };
        for steps in (0..200).step_by(3).chain([u64::MAX]) {
            let limits = Limits { steps, ..Limits::UNLIMITED };
            let (one, all) = (alone(limits), found(all(), object, limits));
            assert_eq!(sorted(all.0), sorted(one.0), "{steps} steps, {object}");
            if steps == u64::MAX {
                assert_eq!((all.1, all.2), (one.1, one.2), "{object}");
            }
        }
    }
}

/// Equal parameters may be written in several ways, and policies print them. The oracle is an installation with one
/// constraint, which has nothing in common with any other.
#[test]
fn equal_parameters_are_printed_as_each_constraint_has_them() {
    let sources = [
        "rego: |-\n          package probe\n          violation[{\"msg\": msg, \"details\": input.parameters}] { msg := \
         sprintf(\"%v %v %v\", [input.parameters, json.marshal(input.parameters), input.review.object.metadata.name]) }\n\
         \x20         violation[{\"msg\": \"is one\"}] { input.parameters.x == 1; input.review.object.metadata.name }",
        "code: [{engine: K8sNativeValidation, source: {variables: [{name: x, expression: 'variables.params.x'}, {name: sum, \
         expression: 'variables.x + 1'}], validations: [{expression: 'type(variables.params.x) == int', messageExpression: \
         'string(variables.x) + object.metadata.name'}, {expression: 'variables.sum > 100000000000000000000.0', message: \
         sum}]}}]",
    ];
    #[rustfmt::skip]
    let numbers = [
        "1", "1.0", "1e0", "100e-2", "1.00", "0", "-0", "0.0", "-0.0", "10000000000000000", "1e16", "9007199254740993",
        "9007199254740992", "9007199254740992.0", "18446744073709551616", "1.8446744073709551616e19",
    ];
    let parameters = numbers.iter().flat_map(|number| {
        [number.to_string(), format!("[{number}]"), format!("{{\"y\": [{{\"z\": {number}}}]}}")]
    });
    let parameters: Vec<String> = parameters.collect();
    let options = ConstraintOptions::default();
    let object = "{apiVersion: v1, kind: Pod, metadata: {name: p}}";
    for (index, source) in sources.iter().enumerate() {
        let template = format!(
            "apiVersion: templates.gatekeeper.sh/v1\nkind: ConstraintTemplate\nmetadata: {{name: spelt{index}}}\nspec:\n  \
             crd: {{spec: {{names: {{kind: Spelt{index}}}, validation: {{legacySchema: true}}}}}}\n  targets:\n    - target: \
             admission.k8s.gatekeeper.sh\n      {source}\n"
        );
        let compile = || {
            let template =
                CompiledTemplate::compile(&value(&template), &TemplateOptions::default());
            Arc::new(template.unwrap_or_else(|error| panic!("{error}\n{source}")))
        };
        let mut together = Store::default();
        together.insert_template(compile(), &options);
        let mut expected = Vec::new();
        for (number, x) in parameters.iter().enumerate() {
            let mut alone = Store::default();
            alone.insert_template(compile(), &options);
            let constraint = format!(
                "{{\"apiVersion\": \"constraints.gatekeeper.sh/v1beta1\", \"kind\": \"Spelt{index}\", \"metadata\": {{\"name\": \
                 \"c{number:02}\"}}, \"spec\": {{\"parameters\": {{\"x\": {x}}}}}}}"
            );
            let constraint = Value::from_json(constraint.as_bytes()).expect("JSON");
            for store in [&mut alone, &mut together] {
                let source = PolicySource::of_object(constraint.clone());
                store.insert_constraint(source, &options).expect("a constraint");
            }
            let alone = alone.constraints().map(AsRef::as_ref);
            expected.extend(found(alone, object, Limits::UNLIMITED).0);
        }
        let mut found =
            found(together.constraints().map(AsRef::as_ref), object, Limits::UNLIMITED).0;
        found.sort_by(|a, b| (&a.constraint, &a.message).cmp(&(&b.constraint, &b.message)));
        expected.sort_by(|a, b| (&a.constraint, &a.message).cmp(&(&b.constraint, &b.message)));
        assert!(expected.len() > parameters.len());
        // Values are equal however they are written, texts are not.
        for (found, expected) in found.iter().zip(&expected) {
            let shown =
                |it: &Violation| (it.constraint.clone(), it.message.clone(), it.details.to_json());
            assert_eq!(shown(found), shown(expected));
        }
        assert_eq!(found, expected);
    }
}

/// A pattern that is not known before takes memory while it is searched for. An evaluation that shares what was found
/// needs as much to be left.
#[test]
fn what_takes_memory_for_a_time_is_found_within_the_same_budgets() {
    let matches = "object.metadata.name.matches(variables.params.pattern)";
    let many =
        |count: u32| format!("{{expression: 'size(lists.range({count})) == 0', message: many}}");
    let is_double =
        |name: &str| format!("{{name: {name}, expression: 'type(variables.long) == double'}}");
    let sources = [
        // The first condition has no value for want of memory; nor has the second, although an outcome is known.
        format!(
            "{{matchCondition: [{}, {}], variables: [{{name: long, expression: 'lists.range(20000)'}}], validations: \
             [{{expression: 'false', message: never}}]}}",
            is_double("one"),
            is_double("two")
        ),
        format!("{{validations: [{{expression: '{matches}', message: other}}]}}"),
        format!("{{validations: [{}, {{expression: '{matches}', message: other}}]}}", many(40_000)),
        format!(
            "{{variables: [{{name: found, expression: '{matches}'}}], validations: [{}, {{expression: \
             'variables.found', message: other}}]}}",
            many(20_000)
        ),
    ];
    let options = ConstraintOptions::default();
    let (mut store, mut plain) = (Store::default(), Vec::new());
    for (index, source) in sources.iter().enumerate() {
        let template = format!(
            "{{apiVersion: templates.gatekeeper.sh/v1, kind: ConstraintTemplate, metadata: {{name: \
             held{index}}}, spec: {{crd: {{spec: {{names: {{kind: Held{index}}}, validation: \
             {{legacySchema: true}}}}}}, targets: [{{target: admission.k8s.gatekeeper.sh, code: \
             [{{engine: K8sNativeValidation, source: {source}}}]}}]}}}}"
        );
        let template = CompiledTemplate::compile(&value(&template), &TemplateOptions::default());
        let template = Arc::new(template.unwrap_or_else(|error| panic!("{error}\n{source}")));
        store.insert_template(Arc::clone(&template), &options);
        for name in ["a", "b"] {
            let constraint = value(&format!(
                "{{apiVersion: constraints.gatekeeper.sh/v1beta1, kind: Held{index}, metadata: {{name: \
                 {name}}}, spec: {{parameters: {{pattern: '^x[0-9]+$'}}}}}}"
            ));
            let source = PolicySource::of_object(constraint.clone());
            store.insert_constraint(source, &options).expect("a constraint");
            let constraint =
                CompiledConstraint::compile(&constraint, Arc::clone(&template), &options);
            plain.push(constraint.expect("a constraint"));
        }
    }
    let object = "{apiVersion: v1, kind: Pod, metadata: {name: p}}";
    let mut differ = std::collections::BTreeSet::new();
    for bytes in (0..6_000_000).step_by(100_000) {
        let limited = Limits { bytes, ..Limits::UNLIMITED };
        for (each, all) in [(limited, Limits::UNLIMITED), (Limits::UNLIMITED, limited)] {
            let shared = found_of(store.constraints().map(AsRef::as_ref), object, each, all);
            let alone = found_of(plain.iter(), object, each, all);
            let messages = |found: &[Violation]| -> Vec<String> {
                found
                    .iter()
                    .map(|it| format!("{} {} {}", it.kind, it.constraint, it.message))
                    .collect()
            };
            differ.insert(messages(&alone.0));
            assert_eq!(messages(&shared.0), messages(&alone.0), "{bytes} bytes");
        }
    }
    assert!(differ.len() > 3, "budgets make a difference: {}", differ.len());
}
