//! The effects of a constraint's violations, and where they apply (spec 6.2).

use std::collections::BTreeSet;

use modgate_api::constraints::{EnforcementAction, EnforcementPoint, ScopedAction, Spec};
use modgate_value::{Str, gofmt};

use super::compile::{ConstraintError, ConstraintOptions};

/// A constraint's enforcement actions, read once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Enforcement {
    /// `enforcementAction` as results carry it.
    name: Str,
    actions: Actions,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Actions {
    Everywhere([EnforcementAction; 1]),
    /// At the points that some entry names: sorted, without unknown actions (EA-3).
    Scoped(Vec<(EnforcementPoint, Vec<EnforcementAction>)>),
    /// An unknown action: the constraint is evaluated, and its violations have no effect (EA-3).
    Nothing,
}

impl Enforcement {
    /// Reads and checks the actions (AD-33); the texts are the original's.
    pub(super) fn compile(
        spec: Option<&Spec>,
        options: &ConstraintOptions,
        warnings: &mut Vec<String>,
    ) -> Result<Self, ConstraintError> {
        let everywhere = |action: EnforcementAction| Self {
            name: action.as_str().into(),
            actions: Actions::Everywhere([action]),
        };
        let Some(text) = spec.and_then(|spec| spec.enforcement_action.as_ref()) else {
            return Ok(everywhere(EnforcementAction::Deny));
        };
        if text.is_empty() {
            // Upstream keeps the empty text, which disables the constraint.
            warnings.push("`enforcementAction` is empty, which means deny".to_owned());
            return Ok(everywhere(EnforcementAction::Deny));
        }
        match text.parse() {
            Ok(EnforcementAction::Scoped) => {}
            Ok(action) => return Ok(everywhere(action)),
            Err(_) if options.any_enforcement_action => {
                return Ok(Self { name: text.clone(), actions: Actions::Nothing });
            }
            Err(_) => {
                return Err(ConstraintError::Action(format!(
                    "unrecognized enforcementAction: {} is not within the supported list {}",
                    gofmt::quote(text),
                    list(EnforcementAction::ALL.map(EnforcementAction::as_str))
                )));
            }
        }
        let entries = spec.and_then(|spec| spec.scoped_enforcement_actions.as_deref());
        if !options.any_enforcement_action {
            check_scoped(entries)?;
        }
        let entries = entries.unwrap_or_default();
        if entries.is_empty() {
            warnings.push(
                "`scopedEnforcementActions` is empty: the constraint is enforced nowhere"
                    .to_owned(),
            );
        }
        let actions = EnforcementPoint::ALL
            .into_iter()
            .filter_map(|point| Some((point, actions_at(entries, point)?)))
            .collect();
        Ok(Self { name: text.clone(), actions: Actions::Scoped(actions) })
    }

    /// `enforcementAction`, as results and status show it.
    pub fn name(&self) -> &Str {
        &self.name
    }

    /// The actions for violations at `point`, sorted; `None` when the constraint is not evaluated
    /// there.
    #[inline]
    pub fn at(&self, point: EnforcementPoint) -> Option<&[EnforcementAction]> {
        match &self.actions {
            Actions::Everywhere(action) => Some(action),
            Actions::Nothing => Some(&[]),
            Actions::Scoped(points) => points
                .iter()
                .find(|(known, _)| *known == point)
                .map(|(_, actions)| actions.as_slice()),
        }
    }
}

/// The actions a scoped entry may have.
const INNER: [EnforcementAction; 3] =
    [EnforcementAction::Deny, EnforcementAction::Dryrun, EnforcementAction::Warn];

fn inner(entry: &ScopedAction) -> Option<EnforcementAction> {
    entry.action.parse().ok().filter(|action| INNER.contains(action))
}

/// The actions at a point; `None` if no entry names it.
fn actions_at(entries: &[ScopedAction], point: EnforcementPoint) -> Option<Vec<EnforcementAction>> {
    let names = |entry: &&ScopedAction| {
        let mut points = entry.enforcement_points.iter().flatten();
        points.any(|named| named.name == "*" || named.name == point.as_str())
    };
    let mut naming = entries.iter().filter(names).peekable();
    naming.peek()?;
    let actions: BTreeSet<_> = naming.filter_map(inner).collect();
    Some(actions.into_iter().collect())
}

fn check_scoped(entries: Option<&[ScopedAction]>) -> Result<(), ConstraintError> {
    let Some(entries) = entries else {
        let message =
            "error fetching scopedEnforcementActions: scopedEnforcementActions is required";
        return Err(ConstraintError::Action(message.to_owned()));
    };
    let mut points = Vec::new();
    let mut actions = Vec::new();
    for entry in entries {
        let named = entry.enforcement_points.as_deref().unwrap_or_default();
        if named.is_empty() {
            points.push("");
        }
        points.extend(
            named
                .iter()
                .map(|point| point.name.as_str())
                .filter(|name| *name != "*" && name.parse::<EnforcementPoint>().is_err()),
        );
        if inner(entry).is_none() {
            actions.push(entry.action.as_str());
        }
    }
    let mut lines = Vec::new();
    if !points.is_empty() {
        lines.push(format!(
            "unrecognized enforcement points: constraint will not be enforced for enforcement \
             points {}, supported enforcement points are {}",
            list(points),
            list(EnforcementPoint::ALL.map(EnforcementPoint::as_str))
        ));
    }
    if !actions.is_empty() {
        lines.push(format!(
            "unrecognized enforcementAction: {} is not within the supported list {}",
            list(actions),
            list(INNER.map(EnforcementAction::as_str))
        ));
    }
    if lines.is_empty() { Ok(()) } else { Err(ConstraintError::Action(lines.join("\n"))) }
}

/// A list as Go prints one.
fn list<'t>(items: impl IntoIterator<Item = &'t str>) -> String {
    format!("[{}]", items.into_iter().collect::<Vec<_>>().join(" "))
}
