//! What evaluations of one template for one object share, under the same parameters and under others.

#![allow(
    missing_docs,
    clippy::cast_precision_loss,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "test code, helpers included"
)]

use std::collections::BTreeMap;

use modgate_rego::{eval::Memo, value::Arena};
use modgate_rego_corpora::library::{self, Case};
use modgate_value::{Budget, Value};

/// Steps, and those of them that were not taken because another evaluation had taken them.
#[derive(Default, Clone, Copy)]
struct Steps {
    paid: u64,
    spared: u64,
}

impl Steps {
    fn add(&mut self, other: Self) {
        self.paid += other.paid;
        self.spared += other.spared;
    }

    fn share(self) -> f64 {
        self.spared as f64 / self.paid.max(1) as f64
    }
}

/// Those of the second evaluation, which has to find what it finds alone.
fn second(first: &Case, second: &Case) -> Option<Steps> {
    let (first, second) = (first.specialized(), second.specialized());
    let (arena, memo) = (Arena::new(), Memo::new());
    let budgets = [(); 3].map(|()| Budget::unlimited());
    // Some inputs are errors under other parameters.
    first.evaluate_sharing(&arena, &budgets[0], &memo).ok()?;
    let before = memo.spared();
    let found = second.evaluate_sharing(&arena, &budgets[1], &memo).ok()?;
    let spared = memo.spared() - before;
    let alone = second.evaluate(&arena, &budgets[2]).expect("the same");
    assert_eq!(found, alone, "{}", second.key);
    Some(Steps { paid: budgets[1].steps_spent(), spared })
}

/// With another first text or number.
fn changed(value: &Value, done: &mut bool) -> Value {
    if *done {
        return value.clone();
    }
    match value {
        Value::String(text) => {
            *done = true;
            format!("{text}1").as_str().into()
        }
        Value::Number(number) => {
            *done = true;
            (number.as_i64().unwrap_or(0) + 1).into()
        }
        Value::Array(items) => items.iter().map(|item| changed(item, done)).collect(),
        Value::Object(members) => {
            members.iter().map(|(key, member)| (key.clone(), changed(member, done))).collect()
        }
        Value::Null | Value::Bool(_) => value.clone(),
    }
}

#[test]
fn constraints_of_a_template_share() {
    let Some(folder) = library::folder() else {
        println!("the public library is not here; set MODGATE_CONFORMANCE");
        return;
    };
    let mut templates: BTreeMap<String, [Steps; 2]> = BTreeMap::new();
    for case in library::cases(&folder, "").expect("the library") {
        let (template, _) = case.key.split_once("/suite.yaml").expect("a suite");
        let [same, other] = templates.entry(template.to_owned()).or_default();
        same.add(second(&case, &case).unwrap_or_default());
        let parameters = case.input.get("parameters").cloned().unwrap_or_default();
        let with_other = case.with_parameters(&changed(&parameters, &mut false));
        other.add(second(&case, &with_other).unwrap_or_default());
    }
    println!("share of the steps that a second constraint does not take: same parameters, others");
    let mut all = [Steps::default(); 2];
    let mut little = Vec::new();
    for (template, [same, other]) in &templates {
        println!("{:4.2} {:4.2} {template}", same.share(), other.share());
        all[0].add(*same);
        all[1].add(*other);
        if same.share() < 0.95 {
            little.push(template.as_str());
        }
    }
    let [same, other] = all.map(Steps::share);
    println!("{same:4.2} {other:4.2} all of them");
    assert_eq!(little, UNSHARED, "these share little under the same parameters");
    assert!(other > 0.2, "{other}");
}

/// They read the inventory, which keys do not cover.
const UNSHARED: [&str; 5] = [
    "library/general/horizontalpodautoscaler",
    "library/general/poddisruptionbudget",
    "library/general/storageclass",
    "library/general/uniqueingresshost",
    "library/general/uniqueserviceselector",
];
