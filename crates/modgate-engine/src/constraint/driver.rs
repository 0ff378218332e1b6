//! A template's policy, compiled, and one evaluation of it (spec 3.5 and 4.3).

use std::{
    collections::{BTreeMap, HashSet},
    fmt,
    sync::{
        Arc, Mutex, OnceLock, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use modgate_api::templates::CEL_ENGINE;
use modgate_rego::{
    Code, Error, GroupId, Program, Reads,
    builtins::Host,
    eval::{self, Tracer},
    specialize_for,
    value::{self, Heap, Limit, Tree, Value as Rego},
};
use modgate_value::{Budget, Limits, Object, Value, budget::Frozen, diag::Span, gofmt};
use sha2::{Digest as _, Sha256};

use super::{
    admission::Admission,
    cel::{CelDriver, Scope},
    compile::{CompiledConstraint, ConstraintMatchError},
    evaluate::Cause,
    inventory::{Inventory, InventoryPart, Watched},
    source::Sources,
    trace::OWN_MODULES,
    twins::Findings,
};
use crate::{
    coverage::{Coverage, Hits, PlaceKind},
    review::CONTENTS,
};

/// The evaluator of a template: exactly one engine (TC-11).
#[derive(Debug)]
pub enum Driver {
    /// `Rego`
    Rego(RegoDriver),
    /// `K8sNativeValidation`
    Cel(CelDriver),
}

impl Driver {
    /// The parts of `data.inventory` it can look at: none for CEL.
    pub fn reads(&self) -> &[InventoryPart] {
        match self {
            Self::Rego(driver) => &driver.reads,
            Self::Cel(_) => &[],
        }
    }

    /// The parts of `data.inventory` that it can read, down to the fields of objects; `None` for CEL.
    pub fn inventory_reads(&self) -> Option<&Reads> {
        match self {
            Self::Rego(driver) => Some(&driver.fields),
            Self::Cel(_) => None,
        }
    }

    /// Whether it may look at the [contents](crate::CONTENTS) of the object or the old object; CEL may.
    pub(crate) fn may_read_contents(&self) -> bool {
        match self {
            Self::Rego(driver) => driver.contents,
            Self::Cel(_) => true,
        }
    }

    /// The engine's name in `code`.
    pub fn engine(&self) -> &'static str {
        match self {
            Self::Rego(_) => "Rego",
            Self::Cel(_) => CEL_ENGINE,
        }
    }

    /// The violations of a constraint. An evaluation that fails has one, which says why (EV-34,
    /// CE-18).
    pub(super) fn violations<'a>(
        &'a self,
        constraint: &'a CompiledConstraint,
        admission: &'a Admission,
        session: &'a Session<'a>,
        budget: &'a Budget<'a>,
    ) -> Vec<RawViolation> {
        let twins = constraint.twins().filter(|_| !self.is_observed());
        if let Some(found) = twins.and_then(|twins| session.findings.of(twins, budget)) {
            return found;
        }
        let found = self.own_violations(constraint, admission, session, budget);
        if let Some(twins) = twins {
            session.findings.keep(twins, &found, budget);
        }
        found
    }

    /// Whether it counts what evaluations reach.
    fn is_observed(&self) -> bool {
        match self {
            Self::Rego(driver) => driver.coverage.is_some(),
            Self::Cel(driver) => driver.is_observed(),
        }
    }

    fn own_violations<'a>(
        &'a self,
        constraint: &'a CompiledConstraint,
        admission: &'a Admission,
        session: &'a Session<'a>,
        budget: &'a Budget<'a>,
    ) -> Vec<RawViolation> {
        match self {
            Self::Rego(driver) => {
                let (review, parameters) = (admission.review(), constraint.parameters());
                let found = match &driver.coverage {
                    Some(coverage) => {
                        driver.observed(review, parameters, session, budget, coverage)
                    }
                    None => driver.specialized_violations(
                        constraint.specialized(),
                        (review, parameters),
                        session,
                        budget,
                    ),
                };
                found.unwrap_or_else(|error| vec![RawViolation::failure(error.to_string())])
            }
            Self::Cel(driver) => {
                let arena = &session.arena.cel;
                let scope = Scope { input: admission.cel(), params: constraint.effective() };
                // What is shared is not evaluated, hence not counted.
                let shared = constraint.shared().filter(|_| !driver.is_observed());
                let shared = shared.map(|keys| (&session.cel, keys));
                let scope = arena.keep(scope);
                let found = driver.violations(scope, arena, budget, shared);
                // What is shared is paid for in another order: what ended for that ends where it does alone.
                match shared.is_some() && budget.ran_out() && budget.restart() {
                    true => driver.violations(scope, arena, budget, None),
                    false => found,
                }
            }
        }
    }
}

/// The state that evaluations of several constraints for one object share.
pub(super) struct Session<'a> {
    arena: &'a Arena,
    /// The most bytes that the arena may hold; then it is full.
    room: usize,
    data: Watched<'a>,
    host: &'a dyn Host,
    cel: modgate_cel::Memo<'a>,
    rego: eval::Memo<'a>,
    findings: Findings,
}

/// An arena this large is emptied before the next constraint, and what was shared is forgotten.
const MAX_SHARED: usize = 1 << 20;

impl<'a> Session<'a> {
    /// In an empty arena.
    pub(super) fn new(arena: &'a Arena, externals: Externals<'a>) -> Self {
        let data = externals.inventory.watched(&arena.looked);
        // An empty arena keeps its largest block.
        let room = arena.allocated_bytes().max(MAX_SHARED);
        let (cel, rego) = (modgate_cel::Memo::new(), eval::Memo::new());
        let findings = Findings::default();
        Self { arena, room, data, host: externals.host, cel, rego, findings }
    }

    /// Whether no further constraint should be evaluated with it.
    pub(super) fn is_full(&self) -> bool {
        self.arena.allocated_bytes() > self.room
    }

    /// As `Arena::take_looked`.
    pub(super) fn take_looked(&self) -> bool {
        self.arena.looked.swap(false, Ordering::Relaxed)
    }

    /// Keeps a budget as long as what is shared.
    #[inline]
    pub(super) fn keep<'p>(&self, budget: Budget<'p>) -> &'a Budget<'p> {
        self.arena.cel.keep(budget)
    }
}

/// The budget for specialising one constraint when it comes into force. There is no clock then;
/// the steps bound the time.
pub(super) const SPECIALIZING: Limits =
    Limits { steps: 1_000_000, bytes: 16 << 20, time: Duration::MAX };

/// The violation of a policy that was compiled once and cannot be compiled again, which no policy does.
fn gone() -> Vec<RawViolation> {
    vec![RawViolation::failure("the policy cannot be compiled again".to_owned())]
}

/// The Rego of one template.
pub struct RegoDriver {
    sources: Sources,
    /// The policy as it was written, where an evaluation needed it. Most never do: reviews evaluate the
    /// compiled forms of constraints.
    written: OnceLock<Option<Arc<Program>>>,
    /// The same while constraints come into force ([`RegoDriver::rest`]).
    fresh: Mutex<Option<Arc<Program>>>,
    violation: GroupId,
    reads: Box<[InventoryPart]>,
    fields: Reads,
    /// Whether it may look at the contents of objects.
    contents: bool,
    /// The compiled forms of constraints in force, by the digests of their parameters: those that are written alike share
    /// one. `1` and `1.0` are equal and print differently.
    specialized: Mutex<BTreeMap<u128, Weak<Program>>>,
    /// The coverage of evaluations, if it is observed.
    coverage: Option<eval::Coverage>,
}

/// The memory of evaluations, for one thread to keep.
#[derive(Default)]
pub struct Arena {
    rego: value::Arena,
    pub(super) cel: modgate_cel::Arena,
    looked: AtomicBool,
}

impl Arena {
    /// An arena that holds nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Bytes held from the system.
    pub fn allocated_bytes(&self) -> usize {
        self.rego.allocated_bytes() + self.cel.allocated_bytes()
    }

    /// Whether any evaluation since the last time looked at the inventory. What did not does not
    /// depend on it, whatever its policy [may read](Driver::reads).
    pub(crate) fn take_looked(&mut self) -> bool {
        std::mem::take(self.looked.get_mut())
    }

    /// Forgets everything that was built.
    pub(super) fn reset(&mut self) {
        self.rego.reset();
        self.cel.reset();
    }
}

impl fmt::Debug for Arena {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Arena").finish_non_exhaustive()
    }
}

/// The resources of an evaluation beside its input.
#[derive(Clone, Copy)]
pub struct Externals<'a> {
    /// `data.inventory`.
    pub inventory: &'a Inventory,
    /// The host functions of built-ins.
    pub host: &'a dyn Host,
}

/// One member of a policy's `violation`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RawViolation {
    /// `msg`.
    pub(super) message: String,
    /// `details`; an empty object when there are none, null where the policy failed (EV-145).
    pub(super) details: Value,
    /// Whether the policy found it.
    pub(super) cause: Cause,
}

impl RawViolation {
    /// A violation without details.
    pub(super) fn bare(message: String) -> Self {
        Self { message, details: Object::default().into(), cause: Cause::Policy }
    }

    /// A violation that says why the policy has no result.
    pub(super) fn failure(message: String) -> Self {
        Self { message, details: Value::Null, cause: Cause::PolicyError }
    }

    /// A violation that says why the match block has no result.
    pub(super) fn undecided(error: &ConstraintMatchError) -> Self {
        let message = error.to_string();
        Self { message, details: Value::Null, cause: Cause::MatchError }
    }
}

fn may_read_contents(program: &Program) -> bool {
    let review = program.input_reads().step("review").unwrap_or_default();
    let mut objects = ["object", "oldObject"].into_iter().filter_map(|key| review.step(key));
    objects.any(|object| CONTENTS.iter().any(|key| object.step(key).is_some()))
}

impl RegoDriver {
    /// Of the program that `sources` compile to.
    pub(super) fn new(
        sources: Sources,
        program: Program,
        violation: GroupId,
        reads: Vec<InventoryPart>,
    ) -> Self {
        Self {
            sources,
            written: OnceLock::new(),
            violation,
            reads: reads.into(),
            fields: program.reads("inventory"),
            contents: may_read_contents(&program),
            fresh: Mutex::new(Some(Arc::new(program))),
            specialized: Mutex::default(),
            coverage: None,
        }
    }

    /// The same policy, which counts what evaluations reach.
    pub(super) fn counting(mut self) -> Self {
        self.coverage = self.written().map(eval::Coverage::new);
        self
    }

    /// Forgets the policy as it was written, until a constraint or an evaluation needs it: all of the policies of an
    /// installation take more memory than everything else about them.
    pub(super) fn rest(&self) {
        *self.fresh.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// The policy as it was written. There always is one: it has been compiled before.
    pub(super) fn written(&self) -> Option<&Program> {
        self.written.get_or_init(|| self.compiled()).as_deref()
    }

    fn compiled(&self) -> Option<Arc<Program>> {
        let mut fresh = self.fresh.lock().unwrap_or_else(PoisonError::into_inner);
        if fresh.is_none() {
            *fresh = self.sources.compile_again().map(Arc::new);
        }
        fresh.clone()
    }

    /// Adds the places of the code; `field` has the field of a module by the module's name.
    pub(super) fn places(&self, field: &dyn Fn(&str) -> String, coverage: &mut Coverage) {
        let Some(program) = self.written() else { return };
        for place in self.coverage.iter().flat_map(eval::Coverage::places) {
            let Some(module) = program.module(place.span.module) else { continue };
            if module.name.starts_with(OWN_MODULES) {
                continue;
            }
            let eval::Place { span, kind, group, held, failed } = place;
            let (kind, decides) = match kind {
                eval::PlaceKind::Rule if group == Some(self.violation) => {
                    (PlaceKind::Message, false)
                }
                eval::PlaceKind::Rule => (PlaceKind::Branch, false),
                eval::PlaceKind::Assignment => (PlaceKind::Expression, false),
                eval::PlaceKind::Test => (PlaceKind::Expression, true),
            };
            let span = Span::new(span.start as usize, span.end as usize);
            let hits = Hits { decides, reached: held + failed, held, failed };
            coverage.part(&field(&module.name), span, kind, hits);
        }
    }

    /// The policy for a constraint with these parameters: what depends on nothing else is
    /// computed here, once. Traces need the policy as it was written.
    ///
    /// `None` if it cannot be made.
    pub(super) fn specialized(&self, parameters: &Value) -> Option<Arc<Program>> {
        let digest = Sha256::digest(parameters.to_json());
        let digest = u128::from_le_bytes(digest.first_chunk().copied().unwrap_or_default());
        let mut known = self.specialized.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.get(&digest).and_then(Weak::upgrade) {
            return Some(known);
        }
        let written = self.compiled()?;
        let budget = Budget::new(SPECIALIZING, &Frozen);
        let known_part = ("parameters", parameters);
        let new = Arc::new(specialize_for(self.violation, &written, known_part, &budget));
        if known.len().is_power_of_two() {
            known.retain(|_, program| program.strong_count() > 0);
        }
        known.insert(digest, Arc::downgrade(&new));
        Some(new)
    }

    /// Whether what the specialized policy finds depends on nothing but the review.
    pub(super) fn is_closed(&self, specialized: &Program) -> bool {
        specialized.is_closed(self.violation)
    }

    /// The violations as the specialized policy finds them. Of several errors it may meet another one first,
    /// so then the policy as it was written says which.
    fn specialized_violations<'a>(
        &'a self,
        specialized: Option<&'a Program>,
        (review, parameters): (&'a Value, &'a Value),
        session: &'a Session<'a>,
        budget: &'a Budget<'a>,
    ) -> Result<Vec<RawViolation>, Error> {
        let violations = |program| self.violations_of(program, review, parameters, session, budget);
        let written = || match self.written() {
            Some(program) => violations(program),
            None => Ok(gone()),
        };
        match specialized.map(violations) {
            None => written(),
            Some(Err(error)) if error.code != Code::Cancel => match written() {
                Err(spent) if spent.code == Code::Cancel => Err(error),
                found => found,
            },
            Some(found) => found,
        }
    }

    /// The violations of a policy in the order of its set.
    ///
    /// A member without `msg` is left out (EV-31); one whose `msg` is no text is reported as a
    /// violation that says so.
    ///
    /// # Errors
    ///
    /// Conflicts and spent budgets.
    fn violations_of<'a>(
        &'a self,
        program: &'a Program,
        review: &'a Value,
        parameters: &'a Value,
        session: &'a Session<'a>,
        budget: &'a Budget<'a>,
    ) -> Result<Vec<RawViolation>, Error> {
        let outside = (&session.data as &dyn Tree, session.host);
        let context = Self::context(review, parameters, outside, session.arena, budget)?;
        let found = eval::shared_document(program, self.violation, context, &session.rego)?;
        of_members(found, budget)
    }

    /// As [`violations_of`](Self::violations_of), by the policy as it was written, and counts what is reached.
    fn observed(
        &self,
        review: &Value,
        parameters: &Value,
        session: &Session<'_>,
        budget: &Budget<'_>,
        coverage: &eval::Coverage,
    ) -> Result<Vec<RawViolation>, Error> {
        let mut tracer = coverage.tracer();
        let outside = (&session.data as &dyn Tree, session.host);
        let context = Self::context(review, parameters, outside, session.arena, budget)?;
        let context = eval::Context { tracer: Some(&mut tracer), ..context };
        self.as_written(context, budget)
    }

    /// As [`violations_of`](Self::violations_of), and `tracer` gets every expression.
    pub(super) fn traced(
        &self,
        review: &Value,
        parameters: &Value,
        externals: Externals<'_>,
        arena: &Arena,
        budget: &Budget<'_>,
        tracer: &mut dyn Tracer,
    ) -> Result<Vec<RawViolation>, Error> {
        let data = externals.inventory.watched(&arena.looked);
        let outside = (&data as &dyn Tree, externals.host);
        let context = Self::context(review, parameters, outside, arena, budget)?;
        let context = eval::Context { tracer: Some(tracer), ..context };
        self.as_written(context, budget)
    }

    /// The violations as the policy as it was written finds them, for observers of its evaluation.
    fn as_written<'a>(
        &'a self,
        context: eval::Context<'a>,
        budget: &'a Budget<'a>,
    ) -> Result<Vec<RawViolation>, Error> {
        let Some(program) = self.written() else { return Ok(gone()) };
        of_members(eval::document(program, self.violation, context)?, budget)
    }

    fn context<'a>(
        review: &'a Value,
        parameters: &'a Value,
        (data, host): (&'a dyn Tree, &'a dyn Host),
        arena: &'a Arena,
        budget: &'a Budget<'a>,
    ) -> Result<eval::Context<'a>, Limit> {
        let heap = Heap::new(&arena.rego, budget);
        let input =
            heap.record([("parameters", Rego::json(parameters)), ("review", Rego::json(review))])?;
        Ok(eval::Context {
            input: Some(input),
            data: Some(Rego::tree(data)),
            heap,
            host,
            strict_builtin_errors: false,
            tracer: None,
        })
    }
}

/// The violations that the members of `violation` report.
fn of_members(found: Option<Rego<'_>>, budget: &Budget<'_>) -> Result<Vec<RawViolation>, Error> {
    let Some(members) = found.and_then(Rego::as_set) else { return Ok(Vec::new()) };
    let mut found = Vec::with_capacity(members.len());
    for member in members {
        found.extend(violation(member, budget)?);
    }
    Ok(distinct(found))
}

impl fmt::Debug for RegoDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RegoDriver").finish_non_exhaustive()
    }
}

/// Members that differ in other keys than `msg` and `details` are one violation (EV-30).
fn distinct(mut violations: Vec<RawViolation>) -> Vec<RawViolation> {
    if repeat(&violations) {
        let mut seen = HashSet::new();
        violations.retain(|it| seen.insert((it.message.clone(), it.details.to_json())));
    }
    violations
}

/// Whether two have the same message.
fn repeat(violations: &[RawViolation]) -> bool {
    if violations.len() <= FEW {
        let mut all = violations.iter().enumerate();
        return all.any(|(index, it)| {
            violations.iter().skip(index + 1).any(|other| other.message == it.message)
        });
    }
    let mut messages = HashSet::new();
    !violations.iter().all(|it| messages.insert(it.message.as_str()))
}

/// So many messages are compared with one another.
const FEW: usize = 8;

fn violation(member: Rego<'_>, budget: &Budget<'_>) -> Result<Option<RawViolation>, Limit> {
    let Some(member) = member.as_object() else { return Ok(None) };
    let Some(message) = member.get_str("msg") else { return Ok(None) };
    let message = match message.as_str() {
        Some(text) => {
            budget.allocate(text.len())?;
            text.to_owned()
        }
        None => {
            let message = message.to_json(budget)?;
            format!(
                "extracting message binding: .msg accessor error: {} is of the type {}, expected \
                 string",
                gofmt::text(&message),
                go_type(&message)
            )
        }
    };
    let details = match member.get_str("details") {
        Some(details) => details.to_json(budget)?,
        None => Object::default().into(),
    };
    Ok(Some(RawViolation { message, details, cause: Cause::Policy }))
}

/// Go's name for the type of a decoded value.
fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(_) => "json.Number",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}
