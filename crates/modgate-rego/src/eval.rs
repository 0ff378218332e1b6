//! Evaluates a [`Program`] by walking it.
//!
//! This is the plain evaluator: it does what the [`ir`](crate::ir) says, statement by statement,
//! and is the measure of every faster one. Read [`Context`] and `Machine::run` first.
//!
//! A body is run with a continuation that is called once per success. Statements that succeed at
//! most once are handled in a loop; only a statement with several values makes the evaluator call
//! itself, so the native stack grows with the nesting of iterations and calls, never with the
//! length of a body, and both are bounded by [`MAX_NESTING`].

mod coverage;
mod document;
mod error;
mod hash;
mod print;
mod room;
mod rule;
mod run;
mod share;
mod trace;
mod with;

use modgate_value::Exhausted;

pub use coverage::{Coverage, CoverageTracer, Place, PlaceKind};
pub use share::Memo;
pub use trace::{Event, EventKind, Tracer};

use self::{
    document::Calls,
    room::Room,
    run::Pending,
    share::{NotedRead, Notes},
    with::Overlay,
};
use crate::{
    ast::Span,
    builtins::{self, Host},
    error::Error,
    ir::{ConstId, Constant, GroupId, Hint, NodeId, Program, Query, Rule, SetId, Slot},
    value::{Heap, Limit, Value},
};

/// How deep iterations, calls and documents may nest in one another while a program runs.
///
/// A compiled program cannot recurse, so its nesting is bounded by its own text; this bounds what
/// a hostile text can ask of the native stack.
pub const MAX_NESTING: u32 = 1000;

/// How much of the native stack an evaluation may use, in bytes: half of what a thread has.
///
/// Frames differ between builds, so this is measured rather than counted.
pub const MAX_STACK: usize = 1 << 20;

/// The input and the budget of an evaluation.
pub struct Context<'a> {
    /// The input document, if there is one.
    pub input: Option<Value<'a>>,
    /// The base documents: what `data` holds beside what rules define.
    pub data: Option<Value<'a>>,
    /// Where values are built, and the budget that pays for everything.
    pub heap: Heap<'a>,
    /// The host of built-ins.
    pub host: &'a dyn Host,
    /// Whether an error of a built-in ends the evaluation; otherwise the call is undefined.
    pub strict_builtin_errors: bool,
    /// Receives each expression that succeeds or fails; costs nothing when absent.
    pub tracer: Option<&'a mut dyn Tracer>,
}

/// Room for the frames of a usual policy.
const SLOTS: usize = 32;

/// One solution of a query: a value for each of [`Query::outputs`].
pub type Row<'a> = Vec<Value<'a>>;

/// Every way in which a query holds.
///
/// # Errors
///
/// Conflicts between rules, spent budgets and, when asked for, errors of built-ins.
pub fn query<'a>(query: &'a Query, context: Context<'a>) -> Result<Vec<Row<'a>>, Error> {
    let mut machine = Machine::new(&query.program, context);
    let mut rows = Vec::new();
    machine.top = query.frame as usize;
    machine.reach();
    let flow = machine.run(&query.body, &mut |machine| {
        rows.push(query.outputs.iter().map(|(_, slot)| machine.slot(*slot)).collect());
        Ok(())
    });
    machine.finish(flow).map(|()| rows)
}

/// The document that a group of rules defines, such as `violation`; `None` when undefined.
///
/// # Errors
///
/// As [`query`].
pub fn document<'a>(
    program: &'a Program,
    group: GroupId,
    context: Context<'a>,
) -> Result<Option<Value<'a>>, Error> {
    let mut machine = Machine::new(program, context);
    let value = machine.group_value(group);
    machine.locate(value)
}

/// As [`document`], sharing with the other evaluations that use the memo what does not depend on
/// what their inputs differ in.
///
/// # Errors
///
/// As [`query`].
pub fn shared_document<'a>(
    program: &'a Program,
    group: GroupId,
    context: Context<'a>,
    memo: &'a Memo<'a>,
) -> Result<Option<Value<'a>>, Error> {
    let mut machine = Machine::with(memo.take_room(), program, context);
    // A trace shows everything.
    machine.memo = machine.tracer.is_none().then_some(memo);
    let value = machine.group_value(group);
    let value = machine.locate(value);
    memo.put_room(machine.into_room());
    value
}

/// Why a run ended before every way was tried.
enum Stop {
    /// The caller has seen enough; caught where it was raised.
    Enough,
    /// The evaluation failed.
    Error(Box<Error>),
}

/// The outcome of running a body; its successes went to the continuation.
type Flow = Result<(), Stop>;

/// Called once per success.
type Next<'n, 'a> = &'n mut dyn FnMut(&mut Machine<'a>) -> Flow;

impl From<Error> for Stop {
    #[cold]
    fn from(error: Error) -> Self {
        Self::Error(Box::new(error))
    }
}

impl From<Exhausted> for Stop {
    #[cold]
    fn from(error: Exhausted) -> Self {
        Error::from(Limit::from(error)).into()
    }
}

impl From<Limit> for Stop {
    #[cold]
    fn from(error: Limit) -> Self {
        Error::from(error).into()
    }
}

/// The state of one evaluation.
struct Machine<'a> {
    program: &'a Program,
    /// Those of the program.
    constants: &'a [Constant],
    hints: &'a [Hint],
    heap: Heap<'a>,
    data: Option<Value<'a>>,
    builtins: builtins::Context<'a>,
    strict_builtin_errors: bool,
    tracer: Option<&'a mut dyn Tracer>,
    /// The frames of all active rules, one after the other.
    slots: &'a mut [Value<'a>],
    /// Where the running rule's frame starts.
    base: usize,
    /// Where it ends. What is behind that is left over from rules that have ended.
    top: usize,
    /// The rule the frame belongs to, for traces; `None` for a query.
    rule: Option<&'a Rule>,
    /// The overlay that changes nothing. It is large, and handed on from evaluation to evaluation.
    first: Box<Overlay<'a>>,
    /// The overlays of `with`; the last one is not always the current one.
    overlays: Vec<Overlay<'a>>,
    /// The number of the current one, counted from `first`.
    overlay: usize,
    /// The values at the numbered places of the input, as far as they have been looked up, without
    /// `with`.
    places: &'a mut [Option<Option<Value<'a>>>],
    /// The documents that are shared with other evaluations.
    memo: Option<&'a Memo<'a>>,
    /// Of the innermost shared document that is being computed.
    notes: Option<Notes>,
    /// The reads of these documents, those around the innermost one first.
    reads: Vec<NotedRead<'a>>,
    /// Memory for the calls of shared documents.
    spare_calls: Vec<Calls<'a>>,
    /// Memory for texts.
    text: String,
    nesting: u32,
    /// Where the native stack was when the evaluation began.
    stack: usize,
    /// The statement being run, for the location of an error.
    span: Option<&'a Span>,
    /// Where the source that was asked last has several values from.
    pending: Pending<'a>,
}

impl<'a> Machine<'a> {
    fn new(program: &'a Program, context: Context<'a>) -> Self {
        Self::with(Room::default(), program, context)
    }

    /// In the room that another evaluation has left.
    #[inline]
    fn with(room: Room<'a>, program: &'a Program, context: Context<'a>) -> Self {
        let Room { slots, overlay: mut first, places, reads, spare_calls, text } = room;
        let heap = context.heap;
        first.begin(heap, context.input, program.groups.len());
        Self {
            program,
            constants: &program.constants,
            hints: &program.hints,
            heap,
            data: context.data,
            builtins: builtins::Context::new(heap, context.host),
            strict_builtin_errors: context.strict_builtin_errors,
            tracer: context.tracer,
            slots: if slots.is_empty() { heap.kept_room(SLOTS, Value::NULL) } else { slots },
            base: 0,
            top: 0,
            rule: None,
            first,
            overlays: Vec::new(),
            overlay: 0,
            places: room::cleared(heap, places, program.paths.len(), None),
            memo: None,
            notes: None,
            reads,
            spare_calls,
            text,
            nesting: 0,
            stack: crate::stack_position(),
            span: None,
            pending: Pending::NONE,
        }
    }

    /// The room for another evaluation.
    fn into_room(self) -> Room<'a> {
        let Self { slots, first: overlay, places, mut reads, spare_calls, text, .. } = self;
        reads.clear();
        Room { slots, overlay, places, reads, spare_calls, text }
    }

    /// Makes the frame that ends at `top`.
    #[inline]
    fn reach(&mut self) {
        if self.slots.len() < self.top {
            self.grow();
        }
        if self.tracer.is_some() {
            // A trace shows variables that are not bound, too.
            self.slots.get_mut(self.base..).unwrap_or_default().fill(Value::NULL);
        }
    }

    #[cold]
    fn grow(&mut self) {
        let more = self.heap.kept_room(self.top.max(2 * self.slots.len()), Value::NULL);
        if let Some(start) = more.get_mut(..self.slots.len()) {
            start.copy_from_slice(self.slots);
        }
        self.slots = more;
    }

    /// Runs `inner` one level deeper.
    #[inline]
    fn nested<T>(&mut self, inner: impl FnOnce(&mut Self) -> Result<T, Stop>) -> Result<T, Stop> {
        if self.nesting >= MAX_NESTING || crate::stack_position().abs_diff(self.stack) > MAX_STACK {
            return Err(Error::nesting().into());
        }
        self.nesting += 1;
        let result = inner(self);
        self.nesting -= 1;
        result
    }

    fn finish(&self, flow: Flow) -> Result<(), Error> {
        match flow {
            Err(Stop::Error(error)) => Err(error.located(self.program, self.span.copied())),
            Ok(()) | Err(Stop::Enough) => Ok(()),
        }
    }

    fn locate<T: Default>(&self, result: Result<T, Stop>) -> Result<T, Error> {
        match result {
            Ok(value) => Ok(value),
            Err(Stop::Enough) => Ok(T::default()),
            Err(Stop::Error(error)) => Err(error.located(self.program, self.span.copied())),
        }
    }

    #[inline(always)]
    fn spend(&self, steps: u64) -> Result<(), Stop> {
        match self.heap.budget().spend(steps) {
            Ok(()) => Ok(()),
            Err(exhausted) => Err(Stop::from(exhausted)),
        }
    }

    #[inline]
    fn slot(&self, slot: Slot) -> Value<'a> {
        // A program binds every slot before it reads it, so the default is never seen.
        self.slots.get(self.base + slot.0 as usize).copied().unwrap_or_default()
    }

    #[inline]
    fn bind(&mut self, slot: Slot, value: Value<'a>) {
        if let Some(place) = self.slots.get_mut(self.base + slot.0 as usize) {
            *place = value;
        }
    }

    #[inline]
    fn constant(&self, id: ConstId) -> Value<'a> {
        self.constants.get(id.0 as usize).map_or(Value::NULL, Value::json)
    }

    #[inline]
    fn constant_set(&self, id: SetId) -> Value<'a> {
        self.program.sets.get(id.0 as usize).map_or(Value::EMPTY_SET, |set| Value::json_set(set))
    }

    fn calls_mut(&mut self) -> &mut Calls<'a> {
        &mut self.cache_mut().calls
    }

    fn node(&self, id: NodeId) -> Option<&'a crate::ir::Node> {
        self.program.nodes.get(id.0 as usize)
    }

    fn group(&self, id: GroupId) -> Option<&'a crate::ir::Group> {
        self.program.groups.get(id.0 as usize)
    }
}
