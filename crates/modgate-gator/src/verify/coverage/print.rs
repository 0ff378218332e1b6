//! Coverage as text, and as data.

use std::fmt::Write as _;

use modgate_engine::coverage::PlaceKind;
use modgate_value::{Number, Value};

use super::{Figures, Measured, Place, Policy, Ratio};
use crate::print::Node;

/// A table of the policies, then what was not reached, place by place.
pub(in crate::verify) fn text(measured: &Measured) -> String {
    let head = ["POLICY", "COVERED", "EXPRESSIONS", "BRANCHES", "MATCH", "MESSAGES"];
    let mut table = format!("{}\n", head.join("\t"));
    for policy in &measured.policies {
        let name = format!("{}/{}", policy.kind, policy.name);
        table.push_str(&row(&name, &Figures::of(&policy.places)));
    }
    table.push_str(&row("all", &measured.figures()));
    let mut out = format!("\n{}", crate::print::align(&table));
    for policy in &measured.policies {
        for place in &policy.places {
            let Some(missing) = missing(place) else { continue };
            let Place { line, column, text, .. } = place;
            // Writing to a `String` cannot fail.
            let _ = writeln!(out, "{}:{line}:{column}: {missing}\n    {text}", policy.file);
        }
    }
    out
}

fn row(name: &str, figures: &Figures) -> String {
    let shown = |ratio: Ratio| match ratio.total {
        0 => "-".to_owned(),
        total => format!("{}/{total}", ratio.covered),
    };
    let Figures { expressions, branches, matches, messages } = *figures;
    let percent = format!("{:.1} %", figures.total().percent());
    let ratios = [expressions, branches, matches, messages].map(shown).join("\t");
    format!("{name}\t{percent}\t{ratios}\n")
}

/// The part of a place that no case reached; `None` if all of it is covered.
fn missing(place: &Place) -> Option<&'static str> {
    let hits = place.hits;
    if hits.decides && hits.reached > 0 {
        return match (place.kind, hits.held > 0, hits.failed > 0) {
            (_, true, true) => None,
            (PlaceKind::Match, true, false) => Some("no case is excluded here"),
            (PlaceKind::Match, false, _) => Some("no case matches here"),
            (_, false, false) => Some("the expression never has a result"),
            (_, true, false) => Some("the expression holds in every case"),
            (_, false, true) => Some("the expression holds in no case"),
        };
    }
    match place.kind {
        _ if hits.reached > 0 => None,
        PlaceKind::Expression => Some("no case reaches the expression"),
        PlaceKind::Branch => Some("no case takes the branch"),
        PlaceKind::Match => Some("no case reaches the match clause"),
        PlaceKind::Message => Some("no case has the message"),
    }
}

/// The figures of all policies and of each, with every place.
pub(in crate::verify) fn node(measured: &Measured) -> Node {
    let mut members = figures(&measured.figures());
    let policies = measured.policies.iter().map(policy).collect();
    members.push(("policies".into(), Node::List(policies)));
    Node::Map(members)
}

type Members = Vec<(modgate_value::Str, Node)>;

fn figures(figures: &Figures) -> Members {
    let percent = format!("{:.1}", figures.total().percent());
    let percent = Number::from_json_text(&percent).map_or(Value::Null, Value::from);
    let total = figures.total();
    let Figures { expressions, branches, matches, messages } = *figures;
    vec![
        ("percent".into(), Node::Value(percent)),
        ("covered".into(), number(total.covered)),
        ("total".into(), number(total.total)),
        ("expressions".into(), ratio(expressions)),
        ("branches".into(), ratio(branches)),
        ("matchClauses".into(), ratio(matches)),
        ("messages".into(), ratio(messages)),
    ]
}

fn ratio(ratio: Ratio) -> Node {
    Node::map([("covered", number(ratio.covered)), ("total", number(ratio.total))])
}

fn number(count: u64) -> Node {
    Node::Value(i64::try_from(count).unwrap_or(i64::MAX).into())
}

fn policy(policy: &Policy) -> Node {
    let mut members: Members = vec![
        ("kind".into(), Node::text(policy.kind.as_str())),
        ("name".into(), Node::text(policy.name.as_str())),
        ("file".into(), Node::text(policy.file.as_str())),
    ];
    members.extend(figures(&Figures::of(&policy.places)));
    members.push(("places".into(), Node::List(policy.places.iter().map(place).collect())));
    Node::Map(members)
}

fn place(place: &Place) -> Node {
    let kind = match place.kind {
        PlaceKind::Expression => "expression",
        PlaceKind::Branch => "branch",
        PlaceKind::Match => "match",
        PlaceKind::Message => "message",
    };
    let wide = |count: usize| number(count as u64);
    let mut members: Members = vec![
        ("kind".into(), Node::text(kind)),
        ("field".into(), Node::text(place.field.as_str())),
        ("line".into(), wide(place.line)),
        ("column".into(), wide(place.column)),
        ("text".into(), Node::text(place.text.as_str())),
        ("reached".into(), number(place.hits.reached)),
    ];
    if place.hits.decides {
        members.push(("held".into(), number(place.hits.held)));
        members.push(("failed".into(), number(place.hits.failed)));
    }
    members.push(("missing".into(), missing(place).map_or(Node::Value(Value::Null), Node::text)));
    Node::Map(members)
}
