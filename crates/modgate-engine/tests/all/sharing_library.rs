//! The library's constraints in CEL under many parameters share one review. The oracle is each constraint before it is in
//! force, which shares nothing: it finds and spends the same.

use std::{cell::Cell, collections::BTreeMap, env, fs, path::Path, sync::Arc};

use modgate_api::constraints::EnforcementPoint;
use modgate_engine::{
    PolicySource,
    constraint::{
        Admission, Arena, CompiledConstraint, CompiledTemplate, ConstraintOptions, Evaluation,
        Externals, Inventory, Store, TemplateOptions, Violation, review_each,
    },
    cost::Meter,
};
use modgate_rego::builtins::Isolated;
use modgate_value::{Budget, Limits, Object, Value, budget::Frozen, yaml};

use super::support::Random;

/// How many constraints are made of one.
const COPIES: usize = 24;

#[test]
fn constraints_of_the_library_find_and_pay_together_what_each_does_alone() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let dir = env::var_os("MODGATE_CONFORMANCE")
        .map_or_else(|| root.join("../shared/conformance"), Into::into);
    let mut suites = Vec::new();
    for group in ["general", "pod-security-policy"] {
        let group = dir.join("gatekeeper-library/library").join(group);
        let Ok(folders) = fs::read_dir(group) else {
            println!("skipped: the public library is not here; set MODGATE_CONFORMANCE");
            return;
        };
        suites.extend(folders.map(|folder| folder.expect("a folder").path()));
    }
    suites.sort();
    let (mut compared, mut random) = (0, Random(7));
    for folder in suites.iter().filter(|folder| folder.join("suite.yaml").is_file()) {
        compared += compare(folder, &mut random);
    }
    assert!(compared > 5_000, "{compared} results");
}

/// Compares the constraints of a suite; returns how many results there are.
fn compare(folder: &Path, random: &mut Random) -> usize {
    let options = ConstraintOptions::default();
    let suite = document(&folder.join("suite.yaml"));
    let (mut store, mut plain, mut objects) = (Store::default(), Vec::new(), BTreeMap::new());
    let mut last = None;
    for test in list(&suite, "tests") {
        let file = text(test, "template");
        let template =
            CompiledTemplate::compile(&document(&folder.join(file)), &TemplateOptions::default());
        let template = Arc::new(template.expect("a template"));
        if template.driver().engine() != "K8sNativeValidation" {
            continue;
        }
        if last.as_deref() != Some(file) {
            store.insert_template(Arc::clone(&template), &options);
            last = Some(file.to_owned());
        }
        for case in list(test, "cases") {
            let file = text(case, "object");
            objects.insert(file.to_owned(), document(&folder.join(file)));
        }
        let constraint = document(&folder.join(text(test, "constraint")));
        for copy in 0..COPIES {
            let constraint = other(&constraint, plain.len(), copy, random);
            let Ok(alone) =
                CompiledConstraint::compile(&constraint, Arc::clone(&template), &options)
            else {
                continue;
            };
            let source = PolicySource::of_object(constraint);
            store.insert_constraint(source, &options).expect("a constraint");
            plain.push(alone);
        }
    }
    let mut count = 0;
    for (file, object) in objects {
        let admission = if text(&object, "kind") == "AdmissionReview" {
            let request = object.get("request").expect("a request");
            Admission::of_request(request, None).expect("a review")
        } else {
            Admission::of_object(object, None)
        };
        let alone = each(plain.iter(), &admission);
        let mut all: Vec<_> = store.constraints().map(AsRef::as_ref).collect();
        for _ in 0..2 {
            for (name, found) in each(all.iter().copied(), &admission) {
                let place = folder.display();
                assert_eq!(Some(&found), alone.get(&name), "{place} {file} {name}");
                count += 1;
            }
            all.reverse();
        }
    }
    count
}

/// What each constraint finds and spends, by its name.
fn each<'c>(
    constraints: impl Iterator<Item = &'c CompiledConstraint>,
    admission: &Admission,
) -> BTreeMap<String, (Vec<Violation>, u64, u64)> {
    let (inventory, budget) = (Inventory::default(), Budget::new(Limits::UNLIMITED, &Frozen));
    let evaluation = Evaluation {
        meter: Meter::default(),
        point: EnforcementPoint::Audit,
        externals: Externals { inventory: &inventory, host: &Isolated },
        budget: &budget,
        limits: Limits::UNLIMITED,
    };
    let spent = || (budget.steps_spent(), budget.bytes_spent());
    let (before, mut all) = (Cell::new((0, 0)), BTreeMap::new());
    let begin = || before.set(spent());
    review_each(constraints, admission, evaluation, &mut Arena::new(), &begin, |found| {
        let (now, before) = (spent(), before.get());
        let name = found.constraint.name().to_string();
        all.insert(name, (found.violations, now.0 - before.0, now.1 - before.1));
    });
    all
}

/// The constraint under another name, from the second copy on under other parameters.
fn other(constraint: &Value, number: usize, copy: usize, random: &mut Random) -> Value {
    let mut members = constraint.as_object().expect("an object").clone();
    let name = format!("c{number}");
    members.insert("metadata", [("name", Value::from(&*name))].into_iter().collect::<Value>());
    if let Some(Value::Object(spec)) = members.get("spec")
        && copy > 0
    {
        let mut spec = spec.clone();
        if let Some(parameters) = spec.get("parameters") {
            let parameters = changed(parameters, random);
            spec.insert("parameters", parameters);
        }
        members.insert("spec", spec.into());
    }
    members.into()
}

/// Texts that objects of the library have, or parameters.
const TEXTS: [&str; 10] = [
    "*",
    "ALL",
    "RuntimeDefault",
    "Localhost",
    "runtime/default",
    "NET_BIND_SERVICE",
    "nginx",
    "nginx*",
    "owner",
    "",
];

fn changed(value: &Value, random: &mut Random) -> Value {
    match value {
        Value::String(text) => match random.below(8) {
            0 => TEXTS.get(random.below(TEXTS.len())).copied().unwrap_or_default().into(),
            1 => Value::from(&*format!("{text}{}", random.below(3))),
            2 => Value::from(&*format!("{text}*")),
            _ => value.clone(),
        },
        Value::Number(number) if random.below(4) == 0 => {
            let number = number.as_i64().unwrap_or(0);
            (number + i64::try_from(random.below(3)).unwrap_or(0)).into()
        }
        Value::Array(items) => {
            let mut all = Vec::new();
            for item in items.iter() {
                let times = [1, 1, 1, 1, 1, 0, 2].get(random.below(7)).copied().unwrap_or(1);
                all.extend((0..times).map(|_| changed(item, random)));
            }
            all.into_iter().collect()
        }
        Value::Object(members) => {
            let kept = members.iter().filter(|_| random.below(12) > 0).cloned().collect::<Vec<_>>();
            let all = kept.into_iter().map(|(name, member)| (name, changed(&member, random)));
            Object::from_entries(all.collect()).into()
        }
        other => other.clone(),
    }
}

fn document(path: &Path) -> Value {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
    yaml::value(&text).unwrap_or_else(|error| panic!("{path:?}: {error}"))
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_array).map_or(&[], |list| &list[..])
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}
