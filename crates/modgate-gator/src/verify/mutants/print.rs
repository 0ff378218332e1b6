//! Mutants as text, and as data.

use std::fmt::Write as _;

use modgate_value::{Number, Str, Value};

use super::{Mutated, Survivor, score};
use crate::print::{Node, align};

/// A table of the policies, then each change that no case notices, as a difference of its lines.
pub(in crate::verify) fn text(policies: &[Mutated]) -> String {
    let mut table = "POLICY\tSCORE\tKILLED\tSURVIVED\tNOT COVERED\n".to_owned();
    for policy in policies.iter().filter(|policy| policy.total() > 0) {
        let name = format!("{}/{}", policy.kind, policy.name);
        table.push_str(&row(&name, std::slice::from_ref(policy)));
    }
    table.push_str(&row("all", policies));
    let mut out = format!("\n{}", align(&table));
    for policy in policies {
        for survivor in &policy.survivors {
            let Survivor { line, column, mutant, covered, shown } = survivor;
            let change = mutant.change;
            let why = if *covered { "no case notices" } else { "no case reaches this" };
            // Writing to a `String` cannot fail.
            let _ = writeln!(out, "{}:{line}:{column}: {why}: {change}", policy.file);
            for (sign, lines) in [("-", &shown.0), ("+", &shown.1)] {
                for line in lines.lines() {
                    let _ = writeln!(out, "    {sign} {line}");
                }
            }
        }
    }
    let left_out: usize = policies.iter().map(|policy| policy.left_out).sum();
    if left_out > 0 {
        let _ = writeln!(out, "{left_out} more changes were not tried; --budget has the limit");
    }
    out
}

fn row(name: &str, policies: &[Mutated]) -> String {
    let score = score(policies);
    let uncovered: usize = policies.iter().map(Mutated::uncovered).sum();
    let survived = (score.total - score.covered) as usize - uncovered;
    format!(
        "{name}\t{:.1} %\t{}/{}\t{survived}\t{uncovered}\n",
        score.percent(),
        score.covered,
        score.total
    )
}

/// The score of all policies and of each, with every survivor.
pub(in crate::verify) fn node(policies: &[Mutated]) -> Node {
    let mut members = figures(policies);
    let of_each = policies.iter().map(|policy| {
        let mut members: Vec<(Str, Node)> = vec![
            ("kind".into(), Node::text(policy.kind.as_str())),
            ("name".into(), Node::text(policy.name.as_str())),
            ("file".into(), Node::text(policy.file.as_str())),
        ];
        members.extend(figures(std::slice::from_ref(policy)));
        members.push((
            "survivors".into(),
            Node::List(policy.survivors.iter().map(survivor).collect()),
        ));
        Node::Map(members)
    });
    members.push(("policies".into(), Node::List(of_each.collect())));
    Node::Map(members)
}

fn figures(policies: &[Mutated]) -> Vec<(Str, Node)> {
    let score = score(policies);
    let percent = Number::from_json_text(&format!("{:.1}", score.percent()));
    let sum = |count: &dyn Fn(&Mutated) -> usize| number(policies.iter().map(count).sum());
    vec![
        ("percent".into(), Node::Value(percent.map_or(Value::Null, Value::from))),
        ("killed".into(), sum(&|it| it.killed)),
        ("total".into(), sum(&Mutated::total)),
        ("notCovered".into(), sum(&Mutated::uncovered)),
        ("notTried".into(), sum(&|it| it.left_out)),
    ]
}

fn number(count: usize) -> Node {
    Node::Value(i64::try_from(count).unwrap_or(i64::MAX).into())
}

fn survivor(survivor: &Survivor) -> Node {
    let Survivor { line, column, mutant, covered, shown } = survivor;
    Node::map([
        ("change", Node::text(mutant.change.as_str())),
        ("field", Node::text(mutant.field())),
        ("line", number(*line)),
        ("column", number(*column)),
        ("covered", Node::Value((*covered).into())),
        ("before", Node::text(shown.0.as_str())),
        ("after", Node::text(shown.1.as_str())),
    ])
}
