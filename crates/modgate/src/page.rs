//! Results as a page: the policies, objects and explanations that it shows beside the document.

use std::collections::BTreeMap;

use anyhow::Result;
use modgate_engine::{
    Evaluation, Plan, PolicyId, PolicySource, Review, Stages, Trace,
    api::{
        meta::{GroupVersionKind, Operation},
        secrets::{self, SecretValues},
    },
    constraint::{Arena, ConstraintOutcome},
    explain::RuleOutcome,
};
use modgate_policies::{PolicySet, PolicyStore};
use modgate_review::decision;
use modgate_ui::Page;
use modgate_value::{Value, yaml};

use crate::args::PolicyArgs;

/// Objects that a page contains at most, and bytes of their YAML.
pub(crate) const MAX_OBJECTS: usize = 5_000;
const MAX_BYTES: usize = 32 << 20;

/// Objects that a page explains at most, and bytes of all explanations: an explanation takes longer than a
/// decision, and more space.
const MAX_EXPLAINED: usize = 300;
const MAX_EXPLANATION_BYTES: usize = 4 << 20;

/// A page without objects.
pub(crate) fn new(
    command: &'static str,
    args: &PolicyArgs,
    store: &PolicyStore,
    document: Value,
) -> Page {
    let mut page = Page::new(command, env!("CARGO_PKG_VERSION"), document);
    let paths = [("-f", &args.policies), ("--objects", &args.objects)];
    page.arguments = paths
        .into_iter()
        .flat_map(|(flag, paths)| paths.iter().map(move |path| (flag, path)))
        .flat_map(|(flag, path)| [flag.to_owned(), path.display().to_string()])
        .collect();
    let snapshot = &store.policies().snapshot;
    let costs: BTreeMap<PolicyId, _> =
        snapshot.costs().map(|cost| (cost.policy, cost.cost)).collect();
    page.policies = store
        .sources()
        .map(|(id, source)| {
            let mut members = policy(&id, &source);
            if let Some(cost) = costs.get(&id) {
                let number = |number: u128| Value::from(i64::try_from(number).unwrap_or(i64::MAX));
                members.push(("evaluations", number(cost.evaluations.into())));
                members.push(("microseconds", number(cost.time.as_micros())));
            }
            members.into_iter().collect()
        })
        .collect();
    page
}

/// A policy as a page shows it.
pub(crate) fn policy(id: &PolicyId, source: &PolicySource) -> Vec<(&'static str, Value)> {
    let shown = secrets::shown(&source.object, false);
    vec![
        ("group", GroupVersionKind::of_object(&source.object).group.into()),
        ("kind", id.kind.clone().into()),
        ("namespace", id.namespace.clone().into()),
        ("name", id.name.clone().into()),
        ("origin", place(source).into()),
        ("text", yaml::write(&shown).into()),
        ("object", shown),
    ]
}

/// `file:line:column`, as far as it is known.
fn place(source: &PolicySource) -> String {
    match source.position("") {
        Some(position) => format!("{}:{position}", source.origin),
        None => source.origin.to_string(),
    }
}

/// An object for a page.
pub(crate) struct Subject<'s> {
    pub(crate) object: &'s Value,
    /// Whether it is a request for a Secret; the object itself may not have that kind.
    pub(crate) is_secret: bool,
    /// Empty for cluster-scoped objects.
    pub(crate) namespace: &'s str,
    pub(crate) name: &'s str,
    /// `file:line:column`; empty if it does not come from a file.
    pub(crate) place: String,
    /// The object after the policies.
    pub(crate) after: Option<&'s Value>,
}

/// The objects of a page, as far as they fit.
pub(crate) struct Subjects {
    /// The values of Secrets that policies read: they stand in no explanation.
    secrets: SecretValues,
    shown: Vec<Value>,
    explained: usize,
    explanation_bytes: usize,
    bytes: usize,
    /// Objects that were left out, and objects whose explanation was.
    missing: usize,
    unexplained: usize,
}

impl Subjects {
    pub(crate) fn new(secrets: SecretValues) -> Self {
        Self {
            secrets,
            shown: Vec::new(),
            explained: 0,
            explanation_bytes: 0,
            bytes: 0,
            missing: 0,
            unexplained: 0,
        }
    }

    /// Adds an object; `explain` is called while there is room for an explanation.
    pub(crate) fn add(
        &mut self,
        subject: &Subject<'_>,
        explain: impl FnOnce() -> Result<Value>,
    ) -> Result<()> {
        let kind = GroupVersionKind::of_object(subject.object);
        let is_secret = subject.is_secret || kind.is_secret();
        let shown = |object| yaml::write(&secrets::shown(object, is_secret));
        let text = shown(subject.object);
        let after = subject.after.map(shown);
        let after = after.filter(|after| *after != text);
        let bytes = text.len() + after.as_ref().map_or(0, String::len);
        let mut members: Vec<(&str, Value)> = vec![
            ("group", kind.group.into()),
            ("kind", kind.kind.into()),
            ("namespace", subject.namespace.into()),
            ("name", subject.name.into()),
            ("place", subject.place.as_str().into()),
        ];
        if self.shown.len() >= MAX_OBJECTS || self.bytes + bytes > MAX_BYTES {
            self.missing += 1;
            return Ok(());
        }
        self.bytes += bytes;
        members.push(("text", text.into()));
        members.extend(after.map(|after| ("after", after.into())));
        // What policies read of a Secret stands in their explanation.
        let is_full =
            self.explained >= MAX_EXPLAINED || self.explanation_bytes >= MAX_EXPLANATION_BYTES;
        if is_secret || is_full {
            self.unexplained += 1;
        } else {
            let explanation = self.secrets.hide_in(&explain()?);
            self.explained += 1;
            self.explanation_bytes += explanation.to_json().len();
            members.push(("explanation", explanation));
        }
        self.shown.push(members.into_iter().collect());
        Ok(())
    }

    /// Counts objects that the caller did not keep for the page.
    pub(crate) fn leave_out(&mut self, count: usize) {
        self.missing += count;
    }

    /// Puts the objects into a page.
    pub(crate) fn into_page(self, page: &mut Page) {
        if self.missing > 0 {
            let line = format!("The page does not contain {} of the objects.", self.missing);
            page.omitted.push(line);
        }
        if self.unexplained > 0 {
            let line = format!("The page does not explain {} of its objects.", self.unexplained);
            page.omitted.push(line);
        }
        page.subjects = self.shown;
    }
}

/// The policies that an explanation has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Explained {
    /// All that match the object.
    Matching,
    /// Those that object to it.
    Violated,
}

/// The explanation of a decision, with the members that `modgate explain -o json` prints.
pub(crate) fn explanation(plan: &mut Plan, trace: &Trace, which: Explained) -> Result<Value> {
    let is_shown = |outcome: &ConstraintOutcome| match outcome {
        ConstraintOutcome::Excluded(_) | ConstraintOutcome::NotEvaluated(_) => false,
        ConstraintOutcome::Satisfied => which == Explained::Matching,
        _ => true,
    };
    for resultant in &mut plan.resultants.steps {
        resultant.constraints.retain(|trace| is_shown(&trace.outcome));
    }
    let rules: Vec<_> = trace
        .modrules
        .iter()
        .filter(|rule| match rule.outcome {
            RuleOutcome::NotCandidate(_) => false,
            RuleOutcome::NoMatch => which == Explained::Matching,
            _ => true,
        })
        .collect();
    let constraints: Vec<_> =
        trace.constraints.iter().filter(|trace| is_shown(&trace.outcome)).collect();
    Ok(decision::stages(&rules, &constraints, plan)?.into_iter().collect())
}

/// How the policies that an audit evaluates decide about an object that exists.
pub(crate) fn of_existing(
    policy_set: &PolicySet,
    object: &Value,
    namespace: &str,
    arena: &mut Arena,
) -> Result<Value> {
    let review = Review::of_object(object.clone(), Operation::Create, namespace);
    let mut trace = Trace::default();
    let mut run = |stages: Stages| {
        let mut evaluation = Evaluation::new(&policy_set.objects, &policy_set.inventory, arena);
        policy_set.snapshot.decide(&review, stages, &mut evaluation, &mut trace)
    };
    run(Stages::MODRULES.as_configured());
    let decision = run(Stages::CONSTRAINTS);
    let mut plan = Plan::of(&decision, &trace, policy_set.snapshot.config());
    explanation(&mut plan, &trace, Explained::Violated)
}

/// The document of one review for a page, which has the object elsewhere: without it, and without the
/// patch of a Secret.
pub(crate) fn result(result: Value) -> Value {
    let is_secret =
        result.get("object").is_some_and(|it| GroupVersionKind::of_object(it).is_secret());
    let Some(mut members) = result.as_object().cloned() else { return result };
    members.remove("object");
    if is_secret {
        members.remove("patch");
    }
    members.into()
}
