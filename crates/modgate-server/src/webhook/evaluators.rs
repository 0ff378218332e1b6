//! Slots for evaluations, and the errors of evaluations that fail.
//!
//! An evaluation runs on the worker of the runtime that its request is on, rather than on a thread
//! of its own: it takes tens of microseconds, and two handovers between threads take ten more. Two
//! things must not wait for one that takes seconds.
//!
//! - Probes, metrics, the Lease and the watches are on another [runtime](crate::runtime).
//! - The other connections of the webhooks: Tokio lets one worker at a time wait for sockets, and
//!   where that worker begins to evaluate, no other takes its place until something wakes one. A
//!   [watch](Evaluators::watch) does, as long as any evaluation takes more than a moment. There are
//!   more workers than evaluations, and an evaluation begins with nothing else in its worker's
//!   hands, so that one is always free to go on.

use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use tokio::{
    runtime::Handle,
    sync::oneshot,
    time::{Instant, timeout_at},
};

pub(crate) use super::schedule::Flow;
use super::schedule::{LONG, MAX_WAITING, Place, Room, Schedule, long_places};

/// How often evaluations that run are looked at.
const TICK: Duration = Duration::from_millis(4);
/// After so many looks at nothing the watch sleeps until an evaluation begins.
const IDLE_TICKS: u32 = 25;
/// How often a sleeping watch looks whether there is still something to watch.
const SLEEP: Duration = Duration::from_secs(1);

/// Evaluations that may run at the same time.
#[derive(Debug)]
pub struct Evaluators(Arc<Inner>);

/// Why an evaluation gave no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum EvaluationError {
    #[error(
        "no evaluation slot was free within {} ms; more replicas or processors give more slots, \
         `--max-serving-threads` (chart value `args`) sets their number",
        .0.as_millis()
    )]
    Busy(Duration),
    #[error(
        "{MAX_WAITING} requests wait for an evaluation slot; more replicas or processors give more \
         slots, `--max-serving-threads` (chart value `args`) sets their number"
    )]
    Full,
    /// Without the panic's message, which may quote the object under review.
    #[error("evaluation failed, see the log of modgate")]
    Panicked,
}

struct Inner {
    slots: usize,
    schedule: Mutex<Schedule<oneshot::Sender<Room>>>,
    /// When the evaluation in each room began, in microseconds since `origin`; 0 if there is none.
    began: Box<[AtomicU64]>,
    origin: Instant,
    watch: OnceLock<thread::Thread>,
    watch_sleeps: AtomicBool,
}

impl Default for Evaluators {
    /// As many as there are processors.
    fn default() -> Self {
        Self::new(processors())
    }
}

impl Evaluators {
    /// `slots` at the same time, and half as many again, two at least, that take long.
    pub fn new(slots: usize) -> Self {
        Self(Arc::new(Inner {
            slots,
            schedule: Mutex::new(Schedule::new(slots)),
            began: (0..slots + long_places(slots)).map(|_| AtomicU64::new(0)).collect(),
            origin: Instant::now(),
            watch: OnceLock::new(),
            watch_sleeps: AtomicBool::new(false),
        }))
    }

    /// Workers of a runtime on which connections are served while every evaluation runs.
    pub(crate) fn workers(&self) -> usize {
        self.0.slots + long_places(self.0.slots) + 1
    }

    /// Watches evaluations that run on a runtime, for as long as these evaluators exist: it keeps a
    /// worker waiting for sockets, and evaluations that take long leave their slots.
    ///
    /// # Errors
    ///
    /// When the system refuses a thread.
    pub(crate) fn watch(&self, runtime: Handle) -> std::io::Result<()> {
        let inner = Arc::downgrade(&self.0);
        let builder = thread::Builder::new().name("modgate-watch".to_owned());
        let watch = builder.spawn(move || watch(&inner, &runtime))?;
        // Watched twice is watched.
        let _ = self.0.watch.set(watch.thread().clone());
        Ok(())
    }

    /// Runs `evaluate` in the next slot of its flow. It may give the slot back while it waits for something
    /// else.
    pub(crate) async fn run<T>(
        &self,
        flow: Flow,
        timeout: Duration,
        evaluate: impl FnOnce(&EvaluationSlot) -> T,
    ) -> Result<T, EvaluationError> {
        let requested = Instant::now();
        let deadline = requested + timeout;
        let room = self.0.take(&flow, deadline).await?.ok_or(EvaluationError::Busy(timeout))?;
        let running = Running { inner: Arc::clone(&self.0), room, began: Instant::now() };
        let held = EvaluationSlot {
            flow,
            waited: requested.elapsed(),
            running: Mutex::new(Some(running)),
        };
        // A worker keeps the task that was woken last where no other worker can take it; this sends
        // that task to where others can, and takes its place.
        drop(tokio::spawn(async {}));
        held.mark();
        // Policies and objects live in immutable values, so nothing can be left half-changed.
        let outcome = catch_unwind(AssertUnwindSafe(|| evaluate(&held)));
        drop(held);
        outcome.map_err(|_| EvaluationError::Panicked)
    }
}

impl Inner {
    fn schedule(&self) -> MutexGuard<'_, Schedule<oneshot::Sender<Room>>> {
        self.schedule.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a room, until `deadline` at most; `None` if there was none.
    async fn take(
        self: &Arc<Self>,
        flow: &Flow,
        deadline: Instant,
    ) -> Result<Option<Room>, EvaluationError> {
        let mut waiting = {
            let mut schedule = self.schedule();
            if let Some(room) = schedule.start_at_once(flow) {
                return Ok(Some(room));
            }
            let (ticket, started) = oneshot::channel();
            let place = schedule.wait(flow, ticket).ok_or(EvaluationError::Full)?;
            let waiting = Waiting { inner: Arc::clone(self), place, started };
            // There may be room for it although there is none for those that wait.
            self.start_waiting(&mut schedule);
            waiting
        };
        Ok(timeout_at(deadline, &mut waiting.started).await.ok().and_then(Result::ok))
    }

    /// Starts whatever there is room for.
    fn start_waiting(&self, schedule: &mut Schedule<oneshot::Sender<Room>>) {
        while let Some((room, ticket)) = schedule.start_next() {
            if let Err(room) = ticket.send(room) {
                schedule.finished(room, Duration::ZERO);
            }
        }
    }

    fn finished(&self, room: Room, took: Duration) {
        if let Some(began) = self.began.get(room.0) {
            began.store(0, Ordering::SeqCst);
        }
        let mut schedule = self.schedule();
        schedule.finished(room, took);
        self.start_waiting(&mut schedule);
    }

    fn now(&self) -> u64 {
        u64::try_from(self.origin.elapsed().as_micros()).unwrap_or(u64::MAX).max(1)
    }

    fn is_evaluating(&self) -> bool {
        self.began.iter().any(|began| began.load(Ordering::SeqCst) != 0)
    }

    /// Looks at every evaluation; returns whether any runs.
    fn look(&self, runtime: &Handle) -> bool {
        let now = self.now();
        let (mut any, mut wake) = (false, false);
        for (room, began) in self.began.iter().enumerate() {
            let began = began.load(Ordering::SeqCst);
            if began == 0 {
                continue;
            }
            any = true;
            let ran = Duration::from_micros(now.saturating_sub(began));
            wake |= ran >= TICK;
            if ran >= LONG {
                let mut schedule = self.schedule();
                // It may have ended meanwhile, and another begun.
                if self.began.get(room).is_some_and(|now| now.load(Ordering::SeqCst) == began) {
                    schedule.takes_long(Room(room));
                    self.start_waiting(&mut schedule);
                }
            }
        }
        if wake {
            // Wakes a worker, which then waits for sockets if no other does.
            runtime.spawn(async {});
        }
        any
    }
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inner").field("slots", &self.slots).finish_non_exhaustive()
    }
}

fn watch(inner: &Weak<Inner>, runtime: &Handle) {
    let mut idle = 0;
    while let Some(inner) = inner.upgrade() {
        idle = if inner.look(runtime) { 0 } else { idle + 1 };
        if idle < IDLE_TICKS {
            drop(inner);
            thread::sleep(TICK);
            continue;
        }
        inner.watch_sleeps.store(true, Ordering::SeqCst);
        let sleeps = !inner.is_evaluating();
        drop(inner);
        if sleeps {
            thread::park_timeout(SLEEP);
        }
        idle = 0;
    }
}

/// A request that waits for a room; it gives the place or the room back when dropped.
struct Waiting {
    inner: Arc<Inner>,
    place: Place,
    started: oneshot::Receiver<Room>,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.inner.schedule().leave(&self.place);
        self.started.close();
        if let Ok(room) = self.started.try_recv() {
            self.inner.finished(room, Duration::ZERO);
        }
    }
}

/// A room that is taken.
struct Running {
    inner: Arc<Inner>,
    room: Room,
    began: Instant,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.inner.finished(self.room, self.began.elapsed());
    }
}

/// The slot of a running evaluation.
pub(crate) struct EvaluationSlot {
    flow: Flow,
    waited: Duration,
    running: Mutex<Option<Running>>,
}

impl EvaluationSlot {
    /// How long the request waited for its slot.
    pub(crate) fn waited(&self) -> Duration {
        self.waited
    }

    /// From now on the watch looks at it.
    fn mark(&self) {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(Running { inner, room, .. }) = running.as_ref() else { return };
        if let Some(began) = inner.began.get(room.0) {
            began.store(inner.now(), Ordering::SeqCst);
        }
        if inner.watch_sleeps.load(Ordering::SeqCst)
            && inner.watch_sleeps.swap(false, Ordering::SeqCst)
            && let Some(watch) = inner.watch.get()
        {
            watch.unpark();
        }
    }

    /// Lets another evaluation run during `wait`. Returns its result once there is a slot again, or at
    /// `deadline` without one.
    ///
    /// To be called where blocking is allowed.
    pub(crate) fn pause<T>(&self, deadline: Instant, wait: impl FnOnce() -> T) -> T {
        let held = self.running.lock().unwrap_or_else(PoisonError::into_inner).take();
        let inner = held.as_ref().map(|running| Arc::clone(&running.inner));
        drop(held);
        let waited = wait();
        if let Some(inner) = inner
            && let Ok(runtime) = Handle::try_current()
            && let Ok(Some(room)) = runtime.block_on(inner.take(&self.flow, deadline))
        {
            let again = Running { inner, room, began: Instant::now() };
            *self.running.lock().unwrap_or_else(PoisonError::into_inner) = Some(again);
            self.mark();
        }
        waited
    }
}

impl fmt::Debug for EvaluationSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EvaluationSlot").finish_non_exhaustive()
    }
}

/// Processors this process may use.
pub(crate) fn processors() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

#[cfg(test)]
mod tests {
    use super::{super::schedule::ESTABLISHED_BY, *};

    fn flow() -> Flow {
        Flow { route: "/a", namespace: "ns".into() }
    }

    #[tokio::test]
    async fn a_panic_is_an_error_and_frees_its_slot() {
        let evaluators = Evaluators::new(1);
        let failed: Result<(), _> =
            evaluators.run(flow(), Duration::ZERO, |_| panic!("on purpose")).await;
        assert_eq!(failed, Err(EvaluationError::Panicked));
        assert_eq!(evaluators.run(flow(), Duration::ZERO, |_| 1).await, Ok(1));
    }

    /// Two evaluations with one slot: the second runs while the first waits.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn an_evaluation_that_waits_gives_its_turn_back() {
        let evaluators = Arc::new(Evaluators::new(1));
        let timeout = Duration::from_secs(20);
        let (ask, asked) = std::sync::mpsc::channel();
        let (answer, answered) = std::sync::mpsc::channel();
        let of_first = Arc::clone(&evaluators);
        let first = tokio::spawn(async move {
            let evaluate = move |slot: &EvaluationSlot| {
                tokio::task::block_in_place(|| {
                    slot.pause(Instant::now() + timeout, || {
                        ask.send(()).expect("the second listens");
                        answered.recv_timeout(timeout).expect("the second answers")
                    })
                })
            };
            of_first.run(flow(), timeout, evaluate).await
        });
        let asked = tokio::task::spawn_blocking(move || asked.recv_timeout(timeout));
        asked.await.expect("no panic").expect("the first asks");
        let second =
            evaluators.run(flow(), timeout, |_| answer.send(7).expect("the first listens"));
        assert_eq!(second.await, Ok(()));
        assert_eq!(first.await.expect("no panic"), Ok(7));
        assert!(evaluators.0.schedule().start_at_once(&flow()).is_some(), "its slot is free");
    }

    #[tokio::test]
    async fn a_request_that_goes_away_leaves_its_place_or_its_slot() {
        let evaluators = Evaluators::new(1);
        let room = evaluators.0.schedule().start_at_once(&flow()).expect("a slot");
        let deadline = Instant::now() + Duration::from_secs(20);
        for ends_first in [false, true] {
            let other = Flow { route: "/b", ..flow() };
            let mut waits = Box::pin(evaluators.0.take(&other, deadline));
            assert!(futures_util::poll!(waits.as_mut()).is_pending());
            if ends_first {
                evaluators.0.finished(room, Duration::ZERO);
            }
            drop(waits);
        }
        assert!(evaluators.0.schedule().start_at_once(&flow()).is_some(), "its slot is free");
    }

    /// All slots are taken for good: what comes later still runs, and sockets are still read.
    #[test]
    fn evaluations_that_take_long_hold_up_neither_turns_nor_sockets() {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

        let evaluators = Arc::new(Evaluators::new(1));
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(evaluators.workers())
            .enable_all()
            .build()
            .expect("runtime");
        evaluators.watch(runtime.handle().clone()).expect("watched");
        let timeout = Duration::from_secs(30);
        let long = |namespace: &str| {
            let (begin, begun) = std::sync::mpsc::channel();
            let (end, ended) = std::sync::mpsc::channel::<()>();
            let evaluators = Arc::clone(&evaluators);
            let flow = Flow { route: "/a", namespace: namespace.into() };
            let run = runtime.spawn(async move {
                let evaluate = move |_: &EvaluationSlot| {
                    begin.send(()).expect("the test listens");
                    ended.recv_timeout(timeout).expect("the test ends it");
                };
                evaluators.run(flow, timeout, evaluate).await
            });
            (begun, end, run)
        };
        // Namespaces without a past share their places.
        for namespace in ["one", "two", "three"] {
            for _ in 0..ESTABLISHED_BY {
                let flow = Flow { route: "/a", namespace: namespace.into() };
                runtime.block_on(evaluators.run(flow, timeout, |_| ())).expect("runs");
            }
        }
        let all = ["one", "two"].map(|namespace| {
            let (begun, end, run) = long(namespace);
            begun.recv_timeout(timeout).expect("it begins, as the one before has left its slot");
            (end, run)
        });
        let third = Flow { route: "/a", namespace: "three".into() };
        assert_eq!(runtime.block_on(evaluators.run(third, timeout, |_| 3)), Ok(3));

        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0"));
        let listener = listener.expect("port");
        let address = listener.local_addr().expect("address");
        runtime.spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.expect("accepted");
                let byte = stream.read_u8().await.expect("read");
                stream.write_u8(byte).await.expect("written");
            }
        });
        for sent in 0..10_u8 {
            use std::io::{Read as _, Write as _};
            let mut stream = std::net::TcpStream::connect(address).expect("connected");
            stream.set_read_timeout(Some(timeout)).expect("set");
            stream.write_all(&[sent]).expect("sent");
            let mut answer = [0];
            stream.read_exact(&mut answer).expect("answered while both run");
            assert_eq!(answer, [sent]);
        }
        for (end, run) in all {
            end.send(()).expect("it runs");
            assert_eq!(runtime.block_on(run).expect("no panic"), Ok(()));
        }
    }
}
