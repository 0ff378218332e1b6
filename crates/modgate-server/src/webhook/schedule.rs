//! Which request is evaluated next: pure, with all times handed in.
//!
//! Requests wait in flows: one per route and namespace of the request. Routes take turns by the time
//! their evaluations took, and so do the namespaces of one route, so that a flow which asks for
//! much waits for itself (start-time fair queueing; what an evaluation took is known and charged
//! when it ends).
//!
//! There are two kinds of room. A *turn* is for evaluations that take what evaluations usually
//! take. One that runs for longer than [`LONG`] leaves its turn to the next request and goes on in
//! one of a few *long places*; as long as its flow keeps doing that, requests of the flow start in
//! long places only, and wait for one without keeping others from their turns.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use modgate_value::Str;

/// An evaluation that takes longer leaves its turn.
pub(super) const LONG: Duration = Duration::from_millis(20);
/// Requests that may wait at the same time.
pub(super) const MAX_WAITING: usize = 4096;
/// Flows that are remembered without a request in them.
const MAX_IDLE_FLOWS: usize = 1024;
/// So many short evaluations in a row make a flow one of short evaluations again.
const REDEEMED_BY: u8 = 8;
/// What an evaluation is charged until it has ended.
const ESTIMATE: Duration = Duration::from_micros(200);

/// The route of the dry run: it never has more than one long place, and no turn.
pub(super) const DRY_RUN: &str = "/v1/dryrun";

/// What requests take turns by.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Flow {
    /// The path the request was sent to.
    pub(crate) route: &'static str,
    /// The namespace the request is about; empty without one.
    pub(crate) namespace: Str,
}

/// Where an evaluation runs, until it is [finished](Schedule::finished).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Slot(pub(super) usize);

/// A request that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    flow: Flow,
    number: u64,
}

/// Requests that wait and evaluations that run. `T` is what it takes to let a request go on.
#[derive(Debug)]
pub(super) struct Schedule<T> {
    turns: usize,
    long_places: usize,
    in_turns: usize,
    in_long_places: usize,
    waiting: usize,
    next_number: u64,
    routes: BTreeMap<&'static str, Route<T>>,
    running: Vec<Option<Running>>,
    /// Virtual time of the route that started last.
    now: u64,
}

#[derive(Debug)]
struct Route<T> {
    /// Nanoseconds its evaluations took, or where it came in if that is later.
    virtual_time: u64,
    /// Virtual time of the flow that started last.
    now: u64,
    waiting: usize,
    running: usize,
    flows: BTreeMap<Str, Requests<T>>,
}

impl<T> Route<T> {
    fn is_idle(&self) -> bool {
        self.waiting + self.running == 0
    }
}

/// The requests of one flow.
#[derive(Debug)]
struct Requests<T> {
    virtual_time: u64,
    waiting: VecDeque<(u64, T)>,
    running: usize,
    /// Those of the running that are in long places.
    long: usize,
    /// Above 0 while requests of the flow start in long places only.
    heavy: u8,
}

impl<T> Requests<T> {
    fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.running == 0
    }
}

#[derive(Debug)]
struct Running {
    flow: Flow,
    is_long: bool,
    charged: u64,
}

impl<T> Schedule<T> {
    /// `turns` evaluations at the same time, and some more that take long; none at all if there are
    /// no turns.
    pub(super) fn new(turns: usize) -> Self {
        Self {
            turns,
            long_places: long_places(turns),
            in_turns: 0,
            in_long_places: 0,
            waiting: 0,
            next_number: 0,
            routes: BTreeMap::new(),
            running: Vec::new(),
            now: 0,
        }
    }

    /// Starts an evaluation at once if there is room and no request that should go first.
    pub(super) fn start_at_once(&mut self, flow: &Flow) -> Option<Slot> {
        if self.waiting > 0 {
            return None;
        }
        self.arrive(flow);
        let is_long = self.room(flow)?;
        Some(self.begin(flow.clone(), is_long))
    }

    /// Lets a request wait; `None` if too many do.
    pub(super) fn wait(&mut self, flow: &Flow, ticket: T) -> Option<Place> {
        if self.waiting >= MAX_WAITING {
            return None;
        }
        self.arrive(flow);
        let number = self.next_number;
        self.next_number += 1;
        let route = self.routes.get_mut(flow.route)?;
        route.flows.get_mut(&flow.namespace)?.waiting.push_back((number, ticket));
        route.waiting += 1;
        self.waiting += 1;
        Some(Place { flow: flow.clone(), number })
    }

    /// A request does not wait any more; nothing happens if it has started.
    pub(super) fn leave(&mut self, place: &Place) {
        let Some(route) = self.routes.get_mut(place.flow.route) else { return };
        let Some(requests) = route.flows.get_mut(&place.flow.namespace) else { return };
        let before = requests.waiting.len();
        requests.waiting.retain(|(number, _)| *number != place.number);
        let left = before - requests.waiting.len();
        route.waiting -= left;
        self.waiting -= left;
    }

    /// Starts the evaluation of the request whose turn it is, if one waits for which there is room.
    pub(super) fn start_next(&mut self) -> Option<(Slot, T)> {
        if self.waiting == 0 {
            return None;
        }
        let mut first: Option<((u64, u64, u64), Flow, bool)> = None;
        for (path, route) in self.routes.iter().filter(|(_, route)| route.waiting > 0) {
            for (namespace, requests) in &route.flows {
                let Some((number, _)) = requests.waiting.front() else { continue };
                let rank = (route.virtual_time, requests.virtual_time, *number);
                if first.as_ref().is_some_and(|(before, ..)| *before <= rank) {
                    continue;
                }
                let Some(is_long) = self.room_for(path, route, requests) else { continue };
                let flow = Flow { route: path, namespace: namespace.clone() };
                first = Some((rank, flow, is_long));
            }
        }
        let (_, flow, is_long) = first?;
        let route = self.routes.get_mut(flow.route)?;
        let (_, ticket) = route.flows.get_mut(&flow.namespace)?.waiting.pop_front()?;
        route.waiting -= 1;
        self.waiting -= 1;
        Some((self.begin(flow, is_long), ticket))
    }

    /// An evaluation has run for [`LONG`]: if there is a long place it goes on there, and its flow
    /// is one of long evaluations from now on.
    pub(super) fn takes_long(&mut self, slot: Slot) {
        let Some(Some(running)) = self.running.get_mut(slot.0) else { return };
        let requests = self
            .routes
            .get_mut(running.flow.route)
            .and_then(|route| route.flows.get_mut(&running.flow.namespace));
        let Some(requests) = requests else { return };
        requests.heavy = REDEEMED_BY;
        if !running.is_long && self.in_long_places < self.long_places {
            running.is_long = true;
            requests.long += 1;
            self.in_turns -= 1;
            self.in_long_places += 1;
        }
    }

    /// An evaluation has ended after `took`.
    pub(super) fn finished(&mut self, slot: Slot, took: Duration) {
        let Some(Running { flow, is_long, charged }) =
            self.running.get_mut(slot.0).and_then(Option::take)
        else {
            return;
        };
        if is_long {
            self.in_long_places -= 1;
        } else {
            self.in_turns -= 1;
        }
        let Some(route) = self.routes.get_mut(flow.route) else { return };
        let spent = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let settle = |time: u64| time.saturating_sub(charged).saturating_add(spent);
        route.running -= 1;
        route.virtual_time = settle(route.virtual_time);
        let Some(requests) = route.flows.get_mut(&flow.namespace) else { return };
        requests.running -= 1;
        requests.long -= usize::from(is_long);
        requests.virtual_time = settle(requests.virtual_time);
        if took < LONG {
            requests.heavy = requests.heavy.saturating_sub(1);
        }
        if requests.is_idle() && requests.heavy == 0 && requests.virtual_time <= route.now {
            route.flows.remove(&flow.namespace);
        } else if route.flows.len() > MAX_IDLE_FLOWS {
            route.flows.retain(|_, requests| !requests.is_idle());
        }
    }

    /// Requests that wait.
    #[cfg(test)]
    fn waiting(&self) -> usize {
        self.waiting
    }

    /// Makes the flow known, without credit for the time it asked for nothing.
    fn arrive(&mut self, flow: &Flow) {
        let now = self.now;
        let route = self.routes.entry(flow.route).or_insert_with(|| Route {
            virtual_time: 0,
            now: 0,
            waiting: 0,
            running: 0,
            flows: BTreeMap::new(),
        });
        if route.is_idle() {
            route.virtual_time = route.virtual_time.max(now);
        }
        let now = route.now;
        let requests = route.flows.entry(flow.namespace.clone()).or_insert_with(|| Requests {
            virtual_time: 0,
            waiting: VecDeque::new(),
            running: 0,
            long: 0,
            heavy: 0,
        });
        if requests.is_idle() {
            requests.virtual_time = requests.virtual_time.max(now);
        }
    }

    fn room(&self, flow: &Flow) -> Option<bool> {
        let route = self.routes.get(flow.route)?;
        self.room_for(flow.route, route, route.flows.get(&flow.namespace)?)
    }

    /// Whether the next request of a flow can start, and whether it does so in a long place.
    fn room_for(&self, path: &str, route: &Route<T>, requests: &Requests<T>) -> Option<bool> {
        let is_long = path == DRY_RUN || requests.heavy > 0;
        if !is_long {
            return (self.in_turns < self.turns).then_some(false);
        }
        let has_share = if path == DRY_RUN {
            route.running == 0
        } else {
            requests.long < (self.long_places / 2).max(1)
        };
        (has_share && self.in_long_places < self.long_places).then_some(true)
    }

    fn begin(&mut self, flow: Flow, is_long: bool) -> Slot {
        let charged = u64::try_from(ESTIMATE.as_nanos()).unwrap_or(u64::MAX);
        if is_long {
            self.in_long_places += 1;
        } else {
            self.in_turns += 1;
        }
        if let Some(route) = self.routes.get_mut(flow.route) {
            self.now = self.now.max(route.virtual_time);
            route.virtual_time = route.virtual_time.saturating_add(charged);
            route.running += 1;
            if let Some(requests) = route.flows.get_mut(&flow.namespace) {
                route.now = route.now.max(requests.virtual_time);
                requests.virtual_time = requests.virtual_time.saturating_add(charged);
                requests.running += 1;
                requests.long += usize::from(is_long);
            }
        }
        let running = Some(Running { flow, is_long, charged });
        let slot = self.running.iter().position(Option::is_none).unwrap_or(self.running.len());
        match self.running.get_mut(slot) {
            Some(free) => *free = running,
            None => self.running.push(running),
        }
        Slot(slot)
    }
}

/// Evaluations that may run outside of turns because they take long.
pub(super) const fn long_places(turns: usize) -> usize {
    match turns {
        0 => 0,
        1..=4 => 2,
        _ => turns / 2,
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    fn flow(route: &'static str, namespace: &str) -> Flow {
        Flow { route, namespace: namespace.into() }
    }

    const SHORT: Duration = Duration::from_micros(100);

    /// What starts next, with all of it ending after `took`.
    fn order(
        schedule: &mut Schedule<&'static str>,
        took: impl Fn(&str) -> Duration,
    ) -> Vec<&'static str> {
        let mut order = Vec::new();
        while let Some((slot, ticket)) = schedule.start_next() {
            order.push(ticket);
            schedule.finished(slot, took(ticket));
        }
        order
    }

    #[test]
    fn a_request_starts_at_once_where_there_is_room() {
        let mut schedule = Schedule::<()>::new(1);
        let slot = schedule.start_at_once(&flow("/a", "x")).expect("room");
        assert_eq!(schedule.start_at_once(&flow("/a", "y")), None);
        schedule.finished(slot, SHORT);
        assert!(schedule.start_at_once(&flow("/a", "y")).is_some());
        assert_eq!(Schedule::<()>::new(0).start_at_once(&flow("/a", "x")), None);
    }

    #[test]
    fn namespaces_take_turns_by_time_and_not_by_requests() {
        let mut schedule = Schedule::new(1);
        let slot = schedule.start_at_once(&flow("/a", "busy")).expect("room");
        for _ in 0..3 {
            schedule.wait(&flow("/a", "slow"), "slow").expect("waits");
        }
        for _ in 0..3 {
            schedule.wait(&flow("/a", "fast"), "fast").expect("waits");
        }
        schedule.finished(slot, Duration::ZERO);
        let took = |what: &str| if what == "slow" { SHORT * 50 } else { SHORT };
        assert_eq!(order(&mut schedule, took), ["slow", "fast", "fast", "fast", "slow", "slow"]);
    }

    #[test]
    fn routes_take_turns_before_namespaces_do() {
        let mut schedule = Schedule::new(1);
        let slot = schedule.start_at_once(&flow("/c", "busy")).expect("room");
        for namespace in ["a", "b", "c", "d"] {
            schedule.wait(&flow("/many", namespace), "many").expect("waits");
        }
        schedule.wait(&flow("/one", "a"), "one").expect("waits");
        schedule.wait(&flow("/one", "a"), "one").expect("waits");
        schedule.finished(slot, SHORT);
        let order = order(&mut schedule, |_| SHORT * 10);
        assert_eq!(order, ["many", "one", "many", "one", "many", "many"]);
    }

    #[test]
    fn what_takes_long_leaves_its_turn_and_its_flow_waits_for_a_long_place() {
        let mut schedule = Schedule::new(1);
        let slow = flow("/a", "slow");
        let first = schedule.start_at_once(&slow).expect("a turn");
        assert_eq!(schedule.start_at_once(&flow("/a", "other")), None);
        schedule.takes_long(first);
        let other = schedule.start_at_once(&flow("/a", "other")).expect("the turn is free");
        schedule.finished(other, SHORT);
        // One of two long places is for other flows.
        schedule.wait(&slow, "slow").expect("waits");
        assert!(schedule.start_next().is_none());
        schedule.wait(&flow("/a", "other"), "other").expect("waits");
        let (other, ticket) = schedule.start_next().expect("passes the one that waits");
        assert_eq!(ticket, "other");
        schedule.finished(other, SHORT);
        schedule.finished(first, Duration::from_secs(2));
        assert_eq!(schedule.start_next().expect("a long place").1, "slow");
    }

    #[test]
    fn a_flow_that_behaves_again_has_turns_again() {
        let mut schedule = Schedule::<()>::new(2);
        let tenant = flow("/a", "tenant");
        let slot = schedule.start_at_once(&tenant).expect("a turn");
        schedule.takes_long(slot);
        schedule.finished(slot, LONG * 2);
        for _ in 0..REDEEMED_BY {
            let slot = schedule.start_at_once(&tenant).expect("a long place");
            assert_eq!(schedule.start_at_once(&tenant), None, "one at a time");
            schedule.finished(slot, SHORT);
        }
        let both = [schedule.start_at_once(&tenant), schedule.start_at_once(&tenant)];
        assert!(both.iter().all(Option::is_some), "{both:?}");
    }

    #[test]
    fn dry_runs_have_one_place_and_no_turn() {
        let mut schedule = Schedule::<()>::new(4);
        let slot = schedule.start_at_once(&flow(DRY_RUN, "")).expect("a place");
        assert_eq!(schedule.start_at_once(&flow(DRY_RUN, "")), None);
        for _ in 0..4 {
            schedule.start_at_once(&flow("/a", "x")).expect("every turn is free");
        }
        schedule.finished(slot, SHORT);
        assert!(schedule.start_at_once(&flow(DRY_RUN, "")).is_some());
    }

    #[test]
    fn so_many_may_wait_and_no_more() {
        let mut schedule = Schedule::new(0);
        let places: Vec<_> =
            (0..MAX_WAITING).map(|_| schedule.wait(&flow("/a", "x"), ()).expect("waits")).collect();
        assert_eq!(schedule.wait(&flow("/a", "y"), ()), None);
        schedule.leave(&places[0]);
        schedule.leave(&places[0]);
        assert_eq!(schedule.waiting(), MAX_WAITING - 1);
        assert!(schedule.wait(&flow("/a", "y"), ()).is_some());
    }

    #[derive(Debug, Clone)]
    enum Step {
        Arrive(u8, u8),
        Leave(usize),
        TakesLong(usize),
        Finish(usize, u16),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (0..3_u8, 0..4_u8).prop_map(|(route, namespace)| Step::Arrive(route, namespace)),
            1 => any::<usize>().prop_map(Step::Leave),
            1 => any::<usize>().prop_map(Step::TakesLong),
            3 => (any::<usize>(), any::<u16>()).prop_map(|(slot, took)| Step::Finish(slot, took)),
        ]
    }

    const ROUTES: [&str; 3] = ["/a", "/b", DRY_RUN];

    proptest! {
        /// Whatever happens: nothing runs beyond the room there is, nothing is lost, nobody waits
        /// while there is room for all, and once everything has ended nothing is left.
        #[test]
        fn room_is_kept_and_used(turns in 1..4_usize, steps in vec(step(), 1..200)) {
            let mut schedule = Schedule::new(turns);
            let (mut running, mut places) = (Vec::new(), Vec::new());
            let mut expected = 0_usize;
            let mut next = 0_usize;
            for step in steps {
                match step {
                    Step::Arrive(route, namespace) => {
                        let flow = flow(ROUTES[usize::from(route)], &namespace.to_string());
                        match schedule.start_at_once(&flow) {
                            Some(slot) => running.push(slot),
                            None => {
                                places.push((next, schedule.wait(&flow, next).expect("waits")));
                                next += 1;
                                expected += 1;
                            }
                        }
                    }
                    Step::Leave(which) if !places.is_empty() => {
                        let (_, place) = places.swap_remove(which % places.len());
                        schedule.leave(&place);
                        expected -= 1;
                    }
                    Step::TakesLong(which) if !running.is_empty() => {
                        schedule.takes_long(running[which % running.len()]);
                    }
                    Step::Finish(which, took) if !running.is_empty() => {
                        let slot = running.swap_remove(which % running.len());
                        schedule.finished(slot, Duration::from_micros(took.into()));
                    }
                    _ => {}
                }
                while let Some((slot, ticket)) = schedule.start_next() {
                    places.retain(|(number, _)| *number != ticket);
                    expected -= 1;
                    running.push(slot);
                }
                prop_assert_eq!(schedule.waiting(), expected);
                prop_assert!(schedule.in_turns <= turns);
                prop_assert!(schedule.in_long_places <= long_places(turns));
                prop_assert_eq!(schedule.in_turns + schedule.in_long_places, running.len());
            }
            while let Some(slot) = running.pop() {
                schedule.finished(slot, SHORT);
                while let Some((slot, _)) = schedule.start_next() {
                    expected -= 1;
                    running.push(slot);
                }
            }
            prop_assert_eq!((expected, schedule.waiting()), (0, 0));
        }

        /// Of flows that always have requests, none has more time than another by more than the
        /// longest evaluation of each.
        #[test]
        fn time_is_shared_evenly(costs in vec(1..15_u64, 2..6), rounds in 100..400_usize) {
            let mut schedule = Schedule::new(1);
            let names: Vec<_> = (0..costs.len()).map(|n| n.to_string()).collect();
            let mut spent = vec![0; costs.len()];
            for (which, name) in names.iter().enumerate() {
                schedule.wait(&flow("/a", name), which).expect("waits");
            }
            for _ in 0..rounds {
                let (slot, which) = schedule.start_next().expect("some wait");
                schedule.wait(&flow("/a", &names[which]), which).expect("waits");
                spent[which] += costs[which];
                schedule.finished(slot, Duration::from_millis(costs[which]));
            }
            let (least, most) = (spent.iter().min().expect("some"), spent.iter().max().expect("some"));
            prop_assert!(most - least <= 2 * costs.iter().max().expect("some"), "{spent:?}");
        }
    }
}
