//! The formats of `gator test`.

use std::fmt::Write as _;

use modgate_api::{
    meta::{GroupVersionKind, ObjectExt as _},
    secrets::{self, SecretValues},
    templates,
};
use modgate_value::{Object, Value, gofmt};

use super::{TestResult, Tested};
use crate::{
    policies::Policies,
    print::{self, Layout, Node, Style},
    review::{ReviewedViolation, Timing},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Text,
    Json,
    Yaml,
}

impl Format {
    /// Whatever is not known means text; upstream prints nothing for `default`
    /// (`fix-output-default`).
    pub(super) fn of(name: &str, is_gator: bool) -> Option<Self> {
        match name.to_lowercase().as_str() {
            "json" => Some(Self::Json),
            "yaml" => Some(Self::Yaml),
            "text" => Some(Self::Text),
            _ => is_gator.then_some(Self::Text),
        }
    }
}

/// The document of a run without results; `about` are findings about policies.
pub(super) fn nothing(has_timings: bool, format: Format, about: Vec<Value>) -> String {
    let tested = Tested {
        results: Vec::new(),
        timings: Vec::new(),
        printed: String::new(),
        policies: Policies::default(),
        notes: Vec::new(),
    };
    render(&tested, has_timings, format, about)
}

/// All output on standard output except that of policies. `about` are findings about policies.
pub(super) fn render(
    tested: &Tested<'_>,
    has_timings: bool,
    format: Format,
    about: Vec<Value>,
) -> String {
    let Tested { results, timings, policies, .. } = tested;
    let timings = has_timings.then_some(timings.as_slice());
    let about = about.into_iter().map(Node::Value);
    match format {
        Format::Text => text(results, timings),
        Format::Json => {
            let results = results.iter().map(|result| json(result, policies));
            let list = list_or_null(results.chain(about).collect());
            let node = match timings {
                None => list,
                Some(timings) => {
                    let stats = timings.iter().map(|timing| stats(timing, "statsFor")).collect();
                    Node::map([("results", list), ("stats", list_or_null(stats))])
                }
            };
            let mut out = String::new();
            print::json(&node, "    ", &mut out);
            out
        }
        Format::Yaml => {
            let results = results.iter().map(|result| yaml(result, policies));
            let list = Node::List(results.chain(about).collect());
            let node = match timings {
                None => list,
                Some(timings) => {
                    let stats = timings.iter().map(|timing| stats(timing, "statsfor")).collect();
                    Node::map([("results", list), ("stats", Node::List(stats))])
                }
            };
            print::yaml(&node, Style::V3, Layout::FirstBlock)
        }
    }
}

/// Maximum bytes of the output of policies.
pub(super) const MAX_PRINTED: usize = 1 << 20;

/// The output of policies, as it follows the results; empty if there is none.
pub(super) fn printed(text: &str) -> String {
    if text.is_empty() {
        return String::new();
    }
    match text.get(..text.floor_char_boundary(MAX_PRINTED)) {
        Some(head) if head.len() < text.len() => {
            format!("\n{head}\n... additional print output truncated ...\n\n")
        }
        _ => format!("\n{text}\n"),
    }
}

fn text(results: &[TestResult<'_>], timings: Option<&[Timing]>) -> String {
    let mut out = String::new();
    for TestResult { outcome, resource, .. } in results {
        let object = &resource.object;
        let member = |key| object.get(key).and_then(Value::as_str).unwrap_or_default();
        let _ = write!(out, "{}/{} ", member("apiVersion"), member("kind"));
        let namespace = object.namespace();
        if !namespace.is_empty() {
            let _ = write!(out, "{namespace}/");
        }
        let _ = writeln!(
            out,
            "{}: [{}] Message: {}",
            object.name(),
            gofmt::quote(&outcome.violation.constraint),
            gofmt::quote(&outcome.violation.message)
        );
        if let Some(trace) = &outcome.trace {
            let _ = write!(out, "Trace: {trace}");
        }
    }
    for timing in timings.unwrap_or_default() {
        let Timing { engine, kind, constraint, nanoseconds, constraints, template } = timing;
        let implied = template.as_ref().map(|name| format!(", implied by {name}"));
        let implied = implied.unwrap_or_default();
        let _ = match constraint {
            Some(name) => writeln!(
                out,
                "stats: {engine} constraint {kind}/{name}: runTimeNS={nanoseconds}{implied}"
            ),
            None => writeln!(
                out,
                "stats: {engine} template {kind}: templateRunTimeNS={nanoseconds}, \
                 constraintCount={constraints}{implied}"
            ),
        };
    }
    out
}

fn list_or_null(items: Vec<Node>) -> Node {
    if items.is_empty() { Node::Value(Value::Null) } else { Node::List(items) }
}

/// `{"details": …}`, if it has any.
fn details(result: &TestResult<'_>) -> Option<Node> {
    let ReviewedViolation { violation, has_details, .. } = &result.outcome;
    has_details.then(|| Node::map([("details", Node::Value(violation.details.clone()))]))
}

/// The actions of a scoped result.
fn scoped(result: &TestResult<'_>) -> Vec<Node> {
    let violation = &result.outcome.violation;
    let is_scoped = violation.action == "scoped";
    let actions = violation.actions.iter().filter(|_| is_scoped);
    actions.map(|action| Node::text(action.as_str())).collect()
}

/// The violating object, without the values of a Secret.
fn object(result: &TestResult<'_>) -> Node {
    let object = &result.resource.object;
    Node::Value(match GroupVersionKind::of_object(object).is_secret() {
        true => secrets::shown(object, true),
        false => object.clone(),
    })
}

fn trace(result: &TestResult<'_>) -> Node {
    let mut values = SecretValues::default();
    values.add(&result.resource.object, false);
    let trace = result.outcome.trace.as_ref();
    trace.map_or(Node::Value(Value::Null), |trace| Node::text(&*values.hide(trace)))
}

fn json(result: &TestResult<'_>, policies: &Policies) -> Node {
    let violation = &result.outcome.violation;
    let mut members = vec![
        ("target".into(), Node::text(templates::TARGET)),
        ("msg".into(), Node::text(violation.message.as_str())),
    ];
    members.extend(details(result).map(|details| ("metadata".into(), details)));
    members.extend([
        ("constraint".into(), Node::Value(policies.shown(violation))),
        ("enforcementAction".into(), Node::text(violation.action.clone())),
    ]);
    let scoped = scoped(result);
    if !scoped.is_empty() {
        members.push(("scopedActions".into(), Node::List(scoped)));
    }
    members.push(("violatingObject".into(), object(result)));
    members.push(("trace".into(), trace(result)));
    Node::Map(members)
}

fn yaml(result: &TestResult<'_>, policies: &Policies) -> Node {
    let violation = &result.outcome.violation;
    let constraint = Node::map([("object", Node::Value(policies.shown(violation)))]);
    Node::map([
        (
            "result",
            Node::map([
                ("target", Node::text(templates::TARGET)),
                ("msg", Node::text(violation.message.as_str())),
                ("metadata", details(result).unwrap_or(Node::Value(Object::default().into()))),
                ("constraint", constraint),
                ("enforcementaction", Node::text(violation.action.clone())),
                ("scopedenforcementactions", Node::List(scoped(result))),
            ]),
        ),
        ("violatingObject", object(result)),
        ("trace", trace(result)),
    ])
}

fn stats(timing: &Timing, stats_for: &str) -> Node {
    let number = |number: u128| Node::Value(Value::from(i64::try_from(number).unwrap_or(i64::MAX)));
    let engine =
        || Node::map([("type", Node::text("engine")), ("value", Node::text(timing.engine))]);
    let stat = |name: &str, value: Node| {
        Node::map([("name", Node::text(name)), ("value", value), ("source", engine())])
    };
    let label = |name: &str, value: Node| Node::map([("name", Node::text(name)), ("value", value)]);
    let target = label("target", Node::text(templates::TARGET));
    let nanoseconds = number(timing.nanoseconds);
    let (scope, subject, stats, mut labels) = match &timing.constraint {
        Some(name) => (
            "constraint",
            format!("{}/{name}", timing.kind),
            vec![stat("runTimeNS", nanoseconds)],
            vec![target],
        ),
        None => {
            let constraints = u128::from(timing.constraints);
            (
                "template",
                timing.kind.to_string(),
                vec![
                    stat("templateRunTimeNS", nanoseconds),
                    stat("constraintCount", number(constraints)),
                ],
                vec![
                    label("TracingEnabled", Node::Value(false.into())),
                    label("PrintEnabled", Node::Value(false.into())),
                    target,
                ],
            )
        }
    };
    if let Some(template) = &timing.template {
        labels.push(label("Implied by", Node::text(template.clone())));
    }
    Node::map([
        ("scope", Node::text(scope)),
        (stats_for, Node::text(subject)),
        ("stats", Node::List(stats)),
        ("labels", Node::List(labels)),
    ])
}
