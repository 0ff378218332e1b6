//! The statistics of the constraints of one review or audit, as Gatekeeper reports them (SS-1).

use std::{cell::RefCell, collections::BTreeMap, time::Duration};

use modgate_api::templates::{CEL_ENGINE, TARGET};
use modgate_value::{Str, Value};

use super::Cost;

/// Costs by template for Rego, and by constraint for CEL.
#[derive(Debug, Clone, Default)]
pub struct Statistics(RefCell<BTreeMap<Evaluated, Figures>>);

/// The scope of one evaluation.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Evaluated {
    /// The kind of the constraints.
    pub kind: Str,
    /// The name of the constraint with CEL; `None` for all constraints of the kind with Rego.
    pub name: Option<Str>,
}

/// Its value.
#[derive(Debug, Clone, Copy, Default)]
pub struct Figures {
    /// The time of all constraints together.
    pub time: Duration,
    /// How many constraints there were.
    pub constraints: u64,
}

impl Evaluated {
    /// The engine's name.
    pub fn engine(&self) -> &'static str {
        if self.name.is_some() { CEL_ENGINE } else { REGO_ENGINE }
    }
}

const REGO_ENGINE: &str = "Rego";

impl Statistics {
    /// Adds the cost of an evaluation.
    pub fn add(&self, evaluated: Evaluated, cost: Cost) {
        self.put(evaluated, Figures { time: cost.time, constraints: cost.evaluations });
    }

    /// Adds what another thread counted.
    pub fn merge(&self, other: Self) {
        for (evaluated, figures) in other.0.into_inner() {
            self.put(evaluated, figures);
        }
    }

    /// Everything since the last time, by kind and name.
    pub fn take(&self) -> impl Iterator<Item = (Evaluated, Figures)> {
        self.0.take().into_iter()
    }

    fn put(&self, evaluated: Evaluated, more: Figures) {
        let mut all = self.0.borrow_mut();
        let figures = all.entry(evaluated).or_default();
        figures.time += more.time;
        figures.constraints += more.constraints;
    }

    /// Whether nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.0.borrow().is_empty()
    }

    /// The list that is logged as `execution_stats`.
    pub fn to_value(&self) -> Value {
        self.0.borrow().iter().map(|(evaluated, figures)| entry(evaluated, *figures)).collect()
    }
}

fn entry(evaluated: &Evaluated, figures: Figures) -> Value {
    let nanoseconds = i64::try_from(figures.time.as_nanos()).unwrap_or(i64::MAX);
    let constraints = i64::try_from(figures.constraints).unwrap_or(i64::MAX);
    let label = |name: &str, value: Value| object([("name", name.into()), ("value", value)]);
    let target = label("target", TARGET.into());
    let kind = &evaluated.kind;
    let (scope, of, stats, labels) = match &evaluated.name {
        None => {
            let stat = |name, value, description| stat(REGO_ENGINE, name, value, description);
            let stats = vec![
                stat(
                    "templateRunTimeNS",
                    nanoseconds,
                    "nanoseconds for all constraints of the kind",
                ),
                stat("constraintCount", constraints, "constraints of the kind that were evaluated"),
            ];
            let off = |name| label(name, false.into());
            let labels = vec![off("TracingEnabled"), off("PrintEnabled"), target];
            ("template", kind.to_string(), stats, labels)
        }
        Some(name) => {
            let description = "nanoseconds for the constraint";
            let stats = vec![stat(CEL_ENGINE, "runTimeNS", nanoseconds, description)];
            ("constraint", format!("{kind}/{name}"), stats, vec![target])
        }
    };
    object([
        ("scope", scope.into()),
        ("statsFor", of.into()),
        ("stats", stats.into()),
        ("labels", labels.into()),
    ])
}

fn stat(engine: &str, name: &str, value: i64, description: &str) -> Value {
    let source = object([("type", "engine".into()), ("value", engine.into())]);
    object([
        ("name", name.into()),
        ("value", value.into()),
        ("source", source),
        ("description", description.into()),
    ])
}

fn object<const N: usize>(members: [(&str, Value); N]) -> Value {
    members.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_gatekeeper_reports_them() {
        let statistics = Statistics::default();
        assert!(statistics.is_empty());
        let template = Evaluated { kind: "K8sA".into(), name: None };
        let figures = Figures { time: Duration::from_nanos(30), constraints: 1 };
        statistics.put(template.clone(), figures);
        let other = Statistics::default();
        other.put(template, figures);
        other.put(Evaluated { kind: "K8sB".into(), name: Some("b".into()) }, figures);
        statistics.merge(other);
        let list = statistics.to_value();
        let text = |path: &[&str], index: usize| {
            let entry = list.as_array().and_then(|list| list.get(index)).expect("an entry");
            entry.path(path).map(Value::to_json).unwrap_or_default()
        };
        for (index, key, expected) in [
            (0, "scope", r#""template""#),
            (0, "statsFor", r#""K8sA""#),
            (1, "scope", r#""constraint""#),
            (1, "statsFor", r#""K8sB/b""#),
        ] {
            assert_eq!(text(&[key], index), expected, "{index} {key}");
        }
        let stats = text(&["stats"], 0);
        assert!(stats.contains(r#""name":"templateRunTimeNS""#), "{stats}");
        assert!(stats.contains(r#""value":60"#) && stats.contains(r#""value":2"#), "{stats}");
        let source = r#""source":{"type":"engine","value":"K8sNativeValidation"}"#;
        assert!(text(&["stats"], 1).contains(source), "{}", text(&["stats"], 1));
        let target = r#"[{"name":"target","value":"admission.k8s.gatekeeper.sh"}]"#;
        assert_eq!(text(&["labels"], 1), target);
    }
}
