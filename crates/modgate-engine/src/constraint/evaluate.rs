//! Evaluates constraints for one object (spec 3.4 to 3.6).

use std::{cmp::Ordering, time::Duration};

use modgate_api::constraints::{EnforcementAction, EnforcementPoint};
use modgate_value::{Budget, Limits, Str, Value};

use super::{
    admission::Admission,
    compile::{CompiledConstraint, Decided},
    driver::{Arena, Externals, RawViolation, Session},
};
use crate::{
    cost::{Cost, Meter},
    guidance::Guidance,
};

/// The settings of an evaluation of constraints.
#[derive(Clone, Copy)]
pub struct Evaluation<'a> {
    /// Where the result is enforced.
    pub point: EnforcementPoint,
    /// The data that policies may read.
    pub externals: Externals<'a>,
    /// Pays for the whole review.
    pub budget: &'a Budget<'a>,
    /// The part of it that one constraint may spend.
    pub limits: Limits,
    /// Where costs are counted.
    pub meter: Meter<'a>,
}

/// One violation of one constraint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The constraint's kind.
    pub kind: Str,
    /// The constraint's name.
    pub constraint: Str,
    /// Its `enforcementAction`.
    pub action: Str,
    /// The actions for the violation at the enforcement point, sorted; empty for an unknown action.
    pub actions: Vec<EnforcementAction>,
    /// The policy's message, or why there is none.
    pub message: String,
    /// Whether the policy found it, or could not be evaluated.
    pub cause: Cause,
    /// Which object violates the constraint: the index of a resultant, or `None` for the object itself.
    pub resultant: Option<usize>,
    /// Goes to logs and exports only (EV-35).
    pub details: Value,
    /// The constraint's annotations, an object; null where it has none. For exports (XP-2).
    pub annotations: Value,
}

/// How a violation came about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Cause {
    /// The policy found it.
    #[default]
    Policy,
    /// The policy failed (EV-34).
    PolicyError,
    /// The match block cannot be decided (EV-21).
    MatchError,
}

impl Violation {
    /// The line users see (RS-1), with who owns the constraint and what to do if its annotations have
    /// that.
    pub fn line(&self) -> String {
        let mut line = String::with_capacity(self.constraint.len() + self.message.len() + 3);
        self.add_line(&mut line);
        line
    }

    /// Adds the [line](Self::line) to a text.
    pub(crate) fn add_line(&self, text: &mut String) {
        for part in ["[", &self.constraint, "] ", &self.message] {
            text.push_str(part);
        }
        let guidance = self.guidance();
        if !guidance.is_empty() {
            text.push_str(&guidance.to_string());
        }
    }

    /// The owner of the constraint, and what to do.
    pub fn guidance(&self) -> Guidance {
        Guidance::of_annotations(&self.annotations)
    }
}

/// Every violation, in the order in which they are shown (EV-40).
///
/// A constraint that cannot be matched or evaluated has one violation that says why, with its own
/// action, so that a deny constraint denies (EV-21, EV-34). `arena` is emptied before
/// constraints are evaluated, and may be used again afterwards.
pub fn review<'c>(
    constraints: impl IntoIterator<Item = &'c CompiledConstraint>,
    admission: &Admission,
    evaluation: Evaluation<'_>,
    arena: &mut Arena,
) -> Vec<Violation> {
    let mut all: Vec<FoundViolation<'c>> = Vec::with_capacity(ROOM);
    sharing(constraints, admission, evaluation, arena, &|| {}, &mut |constraint, applied, _| {
        FoundViolation::add(&mut all, constraint, applied);
    });
    sorted(all)
}

/// Room for the violations of a usual review.
const ROOM: usize = 32;

/// The violations of one of several constraints.
#[derive(Debug)]
pub struct Reviewed<'c> {
    /// The constraint.
    pub constraint: &'c CompiledConstraint,
    /// Its violations, in their order; none where it does not apply.
    pub violations: Vec<Violation>,
    /// Whether its evaluation looked at the inventory.
    pub looked: bool,
}

/// Reviews constraints one by one: calls `begin`, evaluates a constraint, and gives what it finds to `done`. Each finds
/// what [`review`] finds for it alone, and pays the same; the work that they have in common is done once.
pub fn review_each<'c>(
    constraints: impl IntoIterator<Item = &'c CompiledConstraint>,
    admission: &Admission,
    evaluation: Evaluation<'_>,
    arena: &mut Arena,
    begin: &dyn Fn(),
    mut done: impl FnMut(Reviewed<'c>),
) {
    arena.take_looked();
    sharing(
        constraints,
        admission,
        evaluation,
        arena,
        begin,
        &mut |constraint, applied, session| {
            let mut all = Vec::new();
            FoundViolation::add(&mut all, constraint, applied);
            let violations = sorted(all);
            done(Reviewed { constraint, violations, looked: session.take_looked() });
        },
    );
}

/// Evaluates constraints, which share what they have in common.
fn sharing<'c>(
    constraints: impl IntoIterator<Item = &'c CompiledConstraint>,
    admission: &Admission,
    evaluation: Evaluation<'_>,
    arena: &mut Arena,
    begin: &dyn Fn(),
    done: &mut dyn FnMut(&'c CompiledConstraint, Option<Applied<'c>>, &Session<'_>),
) {
    let mut constraints = constraints.into_iter().peekable();
    // One look at the clock ends one constraint and begins the next.
    let mut mark = evaluation.budget.now();
    let mut decided = Decided::default();
    while constraints.peek().is_some() {
        arena.reset();
        let session = Session::new(arena, evaluation.externals);
        while !session.is_full()
            && let Some(constraint) = constraints.next()
        {
            begin();
            let found = of_constraint(
                constraint,
                admission,
                &evaluation,
                &session,
                (&mut mark, &mut decided),
            );
            done(constraint, found, &session);
        }
    }
}

/// The actions of a constraint that applies to an object, and its violations.
type Applied<'c> = (&'c [EnforcementAction], Vec<RawViolation>);

/// A violation, and the constraint that has it.
struct FoundViolation<'c> {
    constraint: &'c CompiledConstraint,
    actions: &'c [EnforcementAction],
    raw: RawViolation,
}

impl<'c> FoundViolation<'c> {
    fn add(all: &mut Vec<Self>, constraint: &'c CompiledConstraint, applied: Option<Applied<'c>>) {
        let Some((actions, violations)) = applied else { return };
        // Most constraints have none.
        if violations.is_empty() {
            return;
        }
        all.extend(violations.into_iter().map(|raw| Self { constraint, actions, raw }));
    }
}

impl FoundViolation<'_> {
    fn action(&self) -> &str {
        self.constraint.enforcement().name()
    }

    fn violation(self) -> Violation {
        let Self { constraint, actions, raw } = self;
        Violation {
            kind: constraint.kind().clone(),
            constraint: constraint.name().clone(),
            action: constraint.enforcement().name().clone(),
            actions: actions.to_vec(),
            message: raw.message,
            cause: raw.cause,
            resultant: None,
            details: raw.details,
            annotations: constraint.annotations().clone(),
        }
    }
}

/// Violations in their order. There are many of few actions, and most messages differ in their first words.
fn sorted(mut all: Vec<FoundViolation<'_>>) -> Vec<Violation> {
    let Some(mut keys) = keys(&all) else {
        all.sort_by(order);
        return all.into_iter().map(FoundViolation::violation).collect();
    };
    keys.sort_by(|a, b| {
        a.beginning().cmp(&b.beginning()).then_with(|| match (all.get(a.at), all.get(b.at)) {
            (Some(a), Some(b)) => order_of_action(a, b),
            _ => Ordering::Equal,
        })
    });
    let mut left: Vec<Option<FoundViolation<'_>>> = all.into_iter().map(Some).collect();
    let mut violations = Vec::with_capacity(left.len());
    for key in keys {
        violations
            .extend(left.get_mut(key.at).and_then(Option::take).map(FoundViolation::violation));
    }
    violations
}

/// The beginning of what a violation is sorted by.
struct SortKey {
    /// The rank of the action, and the first bytes of the message.
    first: u128,
    /// The bytes behind these: many messages begin alike.
    next: u64,
    /// The index of the violation.
    at: usize,
}

impl SortKey {
    fn beginning(&self) -> (u128, u64) {
        (self.first, self.next)
    }
}

/// The sort keys of violations; `None` if there are too many actions.
fn keys(all: &[FoundViolation<'_>]) -> Option<Vec<SortKey>> {
    let mut actions: Vec<&str> = Vec::new();
    for found in all {
        let action = found.action();
        if actions.last() != Some(&action) && !actions.contains(&action) {
            actions.push(action);
        }
        u8::try_from(actions.len()).ok()?;
    }
    actions.sort_unstable();
    let place_of = |action: &str| actions.iter().position(|it| *it == action);
    let mut last = ("", 0);
    let mut keys = Vec::with_capacity(all.len());
    for (at, found) in all.iter().enumerate() {
        let action = found.action();
        if action != last.0 {
            last = (action, u128::try_from(place_of(action)?).ok()? << 120);
        }
        let message = found.raw.message.as_bytes();
        // The rank takes the place of the last byte of 16.
        let first = last.1 | u128::from_be_bytes(padded(message)) >> 8;
        let next = u64::from_be_bytes(padded(message.get(FIRST..).unwrap_or_default()));
        keys.push(SortKey { first, next, at });
    }
    Some(keys)
}

/// How many bytes of a message are in the first part of a sort key.
const FIRST: usize = 15;

/// The first bytes of a text, with zeros behind a shorter one, which do not change the order.
fn padded<const N: usize>(text: &[u8]) -> [u8; N] {
    text.first_chunk().copied().unwrap_or_else(|| {
        let mut bytes = [0; N];
        bytes.iter_mut().zip(text).for_each(|(to, from)| *to = *from);
        bytes
    })
}

/// The violations of one constraint, and their actions; `None` where it does not apply.
fn of_constraint<'a, 'c: 'a>(
    constraint: &'c CompiledConstraint,
    admission: &'a Admission,
    evaluation: &Evaluation<'a>,
    session: &'a Session<'a>,
    (mark, decided): (&mut Duration, &mut Decided),
) -> Option<Applied<'c>> {
    // Only requests have an operation that could be excluded.
    if evaluation.point == EnforcementPoint::Webhook
        && !constraint.template().covers(admission.operation())
    {
        return None;
    }
    let actions = constraint.enforcement().at(evaluation.point)?;
    let violations =
        match constraint.matches_like(admission, evaluation.externals.inventory, decided) {
            Ok(false) => return None,
            Ok(true) => {
                let limits = constraint.limits(evaluation.limits, evaluation.meter);
                let budget = session.keep(evaluation.budget.child_since(limits, *mark));
                let driver = constraint.template().driver();
                let violations = driver.violations(constraint, admission, session, budget);
                let now = budget.now();
                let took = now.saturating_sub(*mark);
                constraint.spent(Cost::of(budget, took), evaluation.meter);
                constraint.ended(evaluation, budget, took);
                budget.settle();
                *mark = now;
                violations
            }
            Err(error) => vec![RawViolation::undecided(&error)],
        };
    Some((actions, violations))
}

fn order(a: &FoundViolation<'_>, b: &FoundViolation<'_>) -> Ordering {
    a.action().cmp(b.action()).then_with(|| order_of_action(a, b))
}

/// The order of violations that have the same action.
fn order_of_action(a: &FoundViolation<'_>, b: &FoundViolation<'_>) -> Ordering {
    let by = |text: fn(&CompiledConstraint) -> &Str| text(a.constraint).cmp(text(b.constraint));
    a.raw
        .message
        .cmp(&b.raw.message)
        .then_with(|| by(CompiledConstraint::kind))
        .then_with(|| by(CompiledConstraint::name))
}
