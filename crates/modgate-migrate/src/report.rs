//! The report, and how it comes about.

use std::collections::{BTreeMap, BTreeSet};

use modgate_engine::{
    Change, EngineConfig, OnError, PolicyId, Problem, Severity, Snapshot, Update, api::templates,
};
use modgate_value::{Str, Value};
use serde::Serialize;

use crate::{
    carry::{Carried, Carry, Lost},
    detect,
    difference::Difference,
    flags::{self, Accepts, Fate, Flag},
    helm::{self, Left, Translated},
    installation::{Installation, Original},
    object::{InstalledObject, Subject, is_policy},
    policies::{self, OwnPolicy},
    steps::{self, Step},
    values::{self, Values},
};

/// The effect of the switch on an installation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Which programs are there, and what runs them.
    pub originals: Vec<Installed>,
    /// Policies that run unchanged.
    pub unchanged: Vec<Subject>,
    /// Policies that run, and differ in a way that `docs/compatibility.md` decides.
    pub differs: Vec<Difference>,
    /// Policies that run, and probably do not do what their authors intend; the same holds in the original.
    pub warnings: Vec<Remark>,
    /// Policies that do not run.
    pub refused: Vec<Remark>,
    /// The cluster's own policies, and who evaluates them.
    pub admission_policies: Vec<OwnPolicy>,
    /// Flags of the originals' Deployments.
    pub flags: Vec<Flag>,
    /// Settings of the originals' objects that differ from the chart's defaults, with the values that keep them.
    pub carried: Vec<Carried>,
    /// Settings that no value keeps.
    pub lost: Vec<Lost>,
    /// Values of Gatekeeper's chart that become none of modgate's.
    pub left: Vec<Left>,
    /// Settings that are carried over, and have another value in the chart's values.
    pub unset: Vec<Unset>,
    /// Values of modgate's chart that keep all of it; an empty object if the defaults do.
    pub values: Value,
    /// Webhook configurations with an original's name that are modgate's already.
    pub switched: Vec<Subject>,
    /// How to switch, in this order; of what is switched already, what is left.
    pub steps: Vec<Step>,
}

/// An original that is there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Installed {
    /// Its name.
    pub program: Original,
    /// Its Deployments.
    pub deployments: Vec<Subject>,
    /// Their programs.
    pub images: BTreeSet<String>,
}

/// Something to say of an object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Remark {
    /// The object.
    pub object: Subject,
    /// The field, as Kubernetes writes paths; empty for the whole.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub field: String,
    /// Where that stands: `file:line:column`, or the URL of the cluster.
    pub place: String,
    /// The error.
    pub sentence: String,
}

/// A value that would change the installation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unset {
    /// Path of the value, such as `validation.failurePolicy`.
    pub value: String,
    /// The required value.
    pub is: Value,
    /// The value it would have.
    pub given: Value,
    /// Whether less would be enforced.
    pub weakens: bool,
}

/// How modgate's chart will be installed.
#[derive(Debug, Clone, Copy, Default)]
pub struct Chart<'a> {
    /// The values that Gatekeeper's chart was installed with, if these are known.
    pub gatekeeper: Option<&'a Value>,
    /// The values it will be installed with, if these are known.
    pub values: Option<&'a Value>,
    /// The file that holds the values of the report, for the commands of the steps.
    pub file: Option<&'a str>,
}

impl Report {
    /// Whether something has to be done before the switch: a policy or a flag is refused, or less would be
    /// enforced than before.
    pub fn needs_attention(&self) -> bool {
        let refused = |flag: &Flag| matches!(flag.fate, Fate::Refused { .. });
        !self.refused.is_empty()
            || self.flags.iter().any(refused)
            || self.lost.iter().any(|it| it.weakens)
            || self.unset.iter().any(|it| it.weakens)
    }
}

/// Checks an installation. Objects that have nothing to do with it are passed over.
pub fn check(
    objects: &[InstalledObject],
    config: &EngineConfig,
    accepts: &Accepts<'_>,
    chart: Chart<'_>,
) -> Report {
    let installation = Installation::of(objects);
    let policies: Vec<&InstalledObject> = objects.iter().filter(|found| is_policy(found)).collect();
    let loaded: Vec<&InstalledObject> =
        policies.iter().copied().filter(|found| Snapshot::takes(&found.object)).collect();
    let changes = loaded.iter().map(|found| Change::Upsert(found.source())).collect();
    let Update { snapshot, problems, .. } =
        Snapshot::new(config.clone()).apply(changes, OnError::Unload);
    // Two files may hold one object.
    let mut problems_of: BTreeMap<(Str, PolicyId), Vec<Problem>> = BTreeMap::new();
    for problem in problems {
        let of = (problem.origin.clone(), problem.policy.clone());
        problems_of.entry(of).or_default().push(problem);
    }

    let mut differs = detect::differences(objects, &snapshot);
    let (mut warnings, mut refused) = (Vec::new(), Vec::new());
    for found in &policies {
        let subject = found.subject();
        let of = (found.origin.clone(), PolicyId::of_object(&found.object));
        for problem in problems_of.remove(&of).into_iter().flatten() {
            let sentence = match template_of(&problem, &loaded) {
                Some(template) => {
                    let (name, place) = (template.name(), template.place(""));
                    format!("its template {name} does not run ({place})")
                }
                None => problem.message.clone(),
            };
            let remark = Remark {
                object: subject.clone(),
                place: found.place(&problem.field),
                field: format!("{}{}", problem.field, line_and_column(&problem)),
                sentence,
            };
            match problem.severity {
                // That place explains the decision, once.
                _ if is_said(&differs, &remark) => {}
                Severity::Error => refused.push(remark),
                Severity::Warning => warnings.push(remark),
            }
        }
    }
    // What does not run does not run differently.
    differs.retain(|difference| refused.iter().all(|remark| remark.object != difference.object));
    let spoken_of: BTreeSet<&Subject> = differs
        .iter()
        .map(|difference| &difference.object)
        .chain(refused.iter().map(|remark| &remark.object))
        .collect();
    let configurations = installation.configurations().map(|(found, _)| found);
    let unchanged = policies
        .iter()
        .copied()
        .chain(configurations.filter(|found| Installation::is_taken_over(found)))
        .map(InstalledObject::subject)
        .filter(|subject| !spoken_of.contains(subject))
        .collect();
    let flags: Vec<Flag> = installation
        .workloads
        .iter()
        .flat_map(|workload| flags::check(workload, accepts))
        .collect();
    let switched = installation.switched().map(|(found, _)| found.subject()).collect();
    let home = steps::home(&installation);
    let mut values = Values::of(&flags, home);
    let Carry { carried, lost } = Carry::of(&installation, home);
    let Translated { by_path, left } = chart.gatekeeper.map(helm::translate).unwrap_or_default();
    values.translate(by_path);
    values.carry(&carried);
    let steps = steps::steps(&installation, &values, chart.file);
    let values = values.document();
    let unset = chart.values.map(|given| unset(&carried, given)).unwrap_or_default();
    Report {
        originals: originals(&installation),
        unchanged,
        differs,
        warnings,
        refused,
        admission_policies: policies::of(objects, config),
        flags,
        carried,
        lost,
        left,
        unset,
        values,
        switched,
        steps,
    }
}

/// The originals that run, with their Deployments and images.
fn originals(installation: &Installation) -> Vec<Installed> {
    let installed = |program| {
        let of = || installation.workloads.iter().filter(move |it| it.original == program);
        Installed {
            program,
            deployments: of().map(|workload| workload.found.subject()).collect(),
            images: of().flat_map(|it| it.images()).map(str::to_owned).collect(),
        }
    };
    installation.originals().into_iter().map(installed).collect()
}

/// The template that keeps a constraint from running, if the problem is only that.
fn template_of<'f>(
    problem: &Problem,
    loaded: &[&'f InstalledObject],
) -> Option<&'f InstalledObject> {
    let name = problem.policy.kind.to_ascii_lowercase();
    let is_it =
        |found: &&&InstalledObject| found.group() == templates::GROUP && found.name() == name;
    problem.is_consequence().then(|| loaded.iter().find(is_it).copied())?
}

/// `:2:33` in a field of several lines, if the problem concerns a part of its text.
fn line_and_column(problem: &Problem) -> String {
    let place = problem.text.as_deref().zip(problem.span).and_then(|(text, span)| {
        let before = text.get(..span.start).filter(|_| text.contains('\n'))?;
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next()?.chars().count() + 1;
        Some(format!(":{line}:{column}"))
    });
    place.unwrap_or_default()
}

/// The settings that the values of a user do not carry over.
fn unset(carried: &[Carried], values: &Value) -> Vec<Unset> {
    let of = |carried: &Carried| {
        let given = values::given(values, &carried.value);
        (given != carried.is).then(|| Unset {
            value: carried.value.clone(),
            is: carried.is.clone(),
            weakens: carried.weakens(&given),
            given,
        })
    };
    carried.iter().filter_map(of).collect()
}

/// Whether a lint names a decision that is reported for the object anyway.
fn is_said(differs: &[Difference], remark: &Remark) -> bool {
    differs.iter().any(|difference| {
        difference.object == remark.object
            && remark.sentence.contains(&format!("({})", difference.decision))
    })
}
