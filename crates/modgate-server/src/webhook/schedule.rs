//! The order of evaluations. Pure: callers pass all times in.
//!
//! Requests wait in flows, one per route and namespace. Routes share processor time equally, and so
//! do the namespaces of one route, so that many or expensive requests of one flow delay only that
//! flow (weighted fair queueing with equal weights; the cost of an evaluation is estimated from
//! those before it, and charged when the evaluation ends).
//!
//! A namespace is a name in a request, and a client can invent names. So all
//! namespaces that had few evaluations until now ([`ESTABLISHED_BY`]) share the part of one
//! established namespace, and leave a slot to the established ones.
//!
//! There are two kinds of room. A *slot* is for evaluations of usual length. One that runs for longer than [`LONG`] leaves its slot to the next request and goes on in
//! one of a few *long places*; as long as its flow keeps doing that, requests of the flow start in
//! long places only, and wait for one without keeping others from their slots.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

use modgate_value::Str;

/// An evaluation that takes longer leaves its slot.
pub(super) const LONG: Duration = Duration::from_millis(20);
/// Requests that may wait at the same time.
pub(super) const MAX_WAITING: usize = 4096;
/// Flows that are remembered without a request in them.
const MAX_IDLE_FLOWS: usize = 1024;
/// Short evaluations in a row after which a flow may use slots again.
const REDEEMED_BY: u8 = 8;
/// Evaluations after which a namespace has its own part.
pub(super) const ESTABLISHED_BY: u8 = 16;
/// Cost of an evaluation while it runs.
const ESTIMATE: Duration = Duration::from_micros(200);

/// The route of the dry run: it never has more than one long place, and no slot.
pub(crate) const DRY_RUN: &str = "/v1/dryrun";

/// The flow of a request.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Flow {
    /// The path of the webhook.
    pub(crate) route: &'static str,
    /// The namespace of the request; empty if it has none.
    pub(crate) namespace: Str,
}

/// Where an evaluation runs, until it is [finished](Schedule::finished).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Room(pub(super) usize);

/// A request that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    flow: Flow,
    number: u64,
}

/// Waiting requests and running evaluations. `T` is the ticket that resumes a waiting request.
#[derive(Debug)]
pub(super) struct Schedule<T> {
    slots: usize,
    long_places: usize,
    in_turns: usize,
    in_long_places: usize,
    /// Evaluations of flows that are not established, in slots and in long places.
    newcomers_in_turns: usize,
    newcomers_in_long_places: usize,
    waiting: usize,
    next_number: u64,
    routes: BTreeMap<&'static str, Route<T>>,
    running: Vec<Option<Running>>,
    /// Virtual time of the route that started last.
    now: u64,
    /// Evaluations that have ended.
    ended: u64,
}

#[derive(Debug)]
struct Route<T> {
    /// Nanoseconds that its evaluations took, or its virtual time at arrival if that is later.
    virtual_time: u64,
    /// The virtual time that an arriving flow without debts gets.
    now: u64,
    waiting: usize,
    running: usize,
    flows: BTreeMap<Str, Requests<T>>,
    /// Flows with waiting requests.
    queue: BTreeSet<Str>,
    /// All flows that are not established, together.
    newcomers: Newcomers,
}

/// The part that all flows of a route share until they are established.
#[derive(Debug, Default)]
struct Newcomers {
    virtual_time: u64,
    /// Requests that wait or are evaluated.
    open: usize,
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
    /// Running evaluations in long places.
    long: usize,
    /// Above 0 while requests of the flow start in long places only.
    heavy: u8,
    /// Evaluations that have ended, up to [`ESTABLISHED_BY`].
    ended: u8,
    /// Cost of an evaluation: a moving average.
    cost: u64,
    /// When the last evaluation ended, as the count of all ended evaluations.
    last: u64,
}

impl<T> Requests<T> {
    fn new() -> Self {
        Self {
            virtual_time: 0,
            waiting: VecDeque::new(),
            running: 0,
            long: 0,
            heavy: 0,
            ended: 0,
            cost: nanos(ESTIMATE),
            last: 0,
        }
    }

    fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.running == 0
    }

    fn is_established(&self) -> bool {
        self.ended >= ESTABLISHED_BY
    }
}

#[derive(Debug)]
struct Running {
    flow: Flow,
    is_long: bool,
    /// Whether its flow was not established when it arrived.
    is_newcomer: bool,
    charged: u64,
}

/// The order of starting: the virtual times of its route, of the part of the route's time that it
/// belongs to, and of its flow, then the order of arrival.
type Rank = (u64, u64, u64, u64);

impl<T> Schedule<T> {
    /// A schedule of `slots` slots and some long places. Without slots, nothing runs.
    pub(super) fn new(slots: usize) -> Self {
        Self {
            slots,
            long_places: long_places(slots),
            in_turns: 0,
            in_long_places: 0,
            newcomers_in_turns: 0,
            newcomers_in_long_places: 0,
            waiting: 0,
            next_number: 0,
            routes: BTreeMap::new(),
            running: Vec::new(),
            now: 0,
            ended: 0,
        }
    }

    /// Starts an evaluation at once if there is room and no other request goes first.
    pub(super) fn start_at_once(&mut self, flow: &Flow) -> Option<Room> {
        if self.waiting > 0 {
            return None;
        }
        self.arrive(flow);
        let is_long = self.room(flow)?;
        Some(self.begin(flow.clone(), is_long))
    }

    /// Queues a request; `None` if too many wait.
    pub(super) fn wait(&mut self, flow: &Flow, ticket: T) -> Option<Place> {
        if self.waiting >= MAX_WAITING {
            return None;
        }
        self.arrive(flow);
        let number = self.next_number;
        self.next_number += 1;
        let route = self.routes.get_mut(flow.route)?;
        let requests = route.flows.get_mut(&flow.namespace)?;
        if requests.waiting.is_empty() {
            route.queue.insert(flow.namespace.clone());
        }
        requests.waiting.push_back((number, ticket));
        route.newcomers.open += usize::from(!requests.is_established());
        route.waiting += 1;
        self.waiting += 1;
        Some(Place { flow: flow.clone(), number })
    }

    /// Removes a waiting request; no effect if it has started.
    pub(super) fn leave(&mut self, place: &Place) {
        let Some(route) = self.routes.get_mut(place.flow.route) else { return };
        let Some(requests) = route.flows.get_mut(&place.flow.namespace) else { return };
        let before = requests.waiting.len();
        requests.waiting.retain(|(number, _)| *number != place.number);
        let left = before - requests.waiting.len();
        if requests.waiting.is_empty() {
            route.queue.remove(&place.flow.namespace);
        }
        if !requests.is_established() {
            route.newcomers.open -= left;
        }
        route.waiting -= left;
        self.waiting -= left;
    }

    /// Starts the first waiting request for which there is room.
    pub(super) fn start_next(&mut self) -> Option<(Room, T)> {
        if self.waiting == 0 {
            return None;
        }
        let mut first: Option<(Rank, Flow, bool)> = None;
        for (path, route) in self.routes.iter().filter(|(_, route)| route.waiting > 0) {
            for namespace in &route.queue {
                let Some(requests) = route.flows.get(namespace) else { continue };
                let Some((number, _)) = requests.waiting.front() else { continue };
                let end = requests.virtual_time.saturating_add(requests.cost);
                let end_of_part =
                    if requests.is_established() { end } else { route.newcomers.virtual_time };
                let rank = (route.virtual_time, end_of_part, end, *number);
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
        let requests = route.flows.get_mut(&flow.namespace)?;
        let (_, ticket) = requests.waiting.pop_front()?;
        if requests.waiting.is_empty() {
            route.queue.remove(&flow.namespace);
        }
        route.newcomers.open -= usize::from(!requests.is_established());
        route.waiting -= 1;
        self.waiting -= 1;
        Some((self.begin(flow, is_long), ticket))
    }

    /// Moves an evaluation that has run for [`LONG`] to a long place if one is free, and marks its
    /// flow as one of long evaluations.
    pub(super) fn takes_long(&mut self, room: Room) {
        let Some(Some(running)) = self.running.get_mut(room.0) else { return };
        let requests = self
            .routes
            .get_mut(running.flow.route)
            .and_then(|route| route.flows.get_mut(&running.flow.namespace));
        let Some(requests) = requests else { return };
        requests.heavy = REDEEMED_BY;
        let is_full = running.is_newcomer
            && self.newcomers_in_long_places >= part_of_long_places(self.long_places);
        if !running.is_long && !is_full && self.in_long_places < self.long_places {
            running.is_long = true;
            requests.long += 1;
            self.in_turns -= 1;
            self.in_long_places += 1;
            self.newcomers_in_turns -= usize::from(running.is_newcomer);
            self.newcomers_in_long_places += usize::from(running.is_newcomer);
        }
    }

    /// Ends an evaluation that ran for `took`.
    pub(super) fn finished(&mut self, room: Room, took: Duration) {
        let Some(Running { flow, is_long, is_newcomer, charged }) =
            self.running.get_mut(room.0).and_then(Option::take)
        else {
            return;
        };
        if is_long {
            self.in_long_places -= 1;
            self.newcomers_in_long_places -= usize::from(is_newcomer);
        } else {
            self.in_turns -= 1;
            self.newcomers_in_turns -= usize::from(is_newcomer);
        }
        self.ended += 1;
        let Some(route) = self.routes.get_mut(flow.route) else { return };
        let spent = nanos(took);
        let settle = |time: u64| time.saturating_sub(charged).saturating_add(spent);
        // Advance the time for all, so that an arriving flow is not behind those already served.
        let active = u64::try_from(route.queue.len() + route.running).unwrap_or(u64::MAX).max(1);
        route.now = route.now.saturating_add(spent / active);
        route.running -= 1;
        route.virtual_time = settle(route.virtual_time);
        if is_newcomer {
            route.newcomers.open -= 1;
            route.newcomers.virtual_time = settle(route.newcomers.virtual_time);
        }
        let Some(requests) = route.flows.get_mut(&flow.namespace) else { return };
        requests.running -= 1;
        requests.long -= usize::from(is_long);
        requests.virtual_time = settle(requests.virtual_time);
        requests.cost = requests.cost.saturating_mul(3).saturating_add(spent) / 4;
        requests.last = self.ended;
        if took < LONG {
            requests.heavy = requests.heavy.saturating_sub(1);
        }
        if !requests.is_established() {
            requests.ended += 1;
            if requests.is_established() {
                route.newcomers.open -= requests.waiting.len();
            }
        }
        if route.flows.len() > MAX_IDLE_FLOWS + route.queue.len() + route.running {
            route.forget();
        }
    }

    /// Requests that wait.
    #[cfg(test)]
    fn waiting(&self) -> usize {
        self.waiting
    }

    /// Adds the flow, without credit for the time in which it sent nothing.
    fn arrive(&mut self, flow: &Flow) {
        let now = self.now;
        let route = self.routes.entry(flow.route).or_insert_with(|| Route {
            virtual_time: 0,
            now: 0,
            waiting: 0,
            running: 0,
            flows: BTreeMap::new(),
            queue: BTreeSet::new(),
            newcomers: Newcomers::default(),
        });
        if route.is_idle() {
            route.virtual_time = route.virtual_time.max(now);
        }
        let now = route.now;
        if route.newcomers.open == 0 {
            route.newcomers.virtual_time = route.newcomers.virtual_time.max(now);
        }
        let requests = route.flows.entry(flow.namespace.clone()).or_insert_with(Requests::new);
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
        let is_newcomer = !requests.is_established();
        if !is_long {
            let has_part = !is_newcomer || self.newcomers_in_turns < part_of_turns(self.slots);
            return (has_part && self.in_turns < self.slots).then_some(false);
        }
        let part = part_of_long_places(self.long_places);
        let has_part = if path == DRY_RUN {
            route.running == 0
        } else {
            requests.long < part && !(is_newcomer && self.newcomers_in_long_places >= part)
        };
        (has_part && self.in_long_places < self.long_places).then_some(true)
    }

    fn begin(&mut self, flow: Flow, is_long: bool) -> Room {
        let mut is_newcomer = false;
        let mut charged = nanos(ESTIMATE);
        if let Some(route) = self.routes.get_mut(flow.route) {
            self.now = self.now.max(route.virtual_time);
            route.running += 1;
            if let Some(requests) = route.flows.get_mut(&flow.namespace) {
                charged = requests.cost;
                is_newcomer = !requests.is_established();
                if is_newcomer {
                    route.now = route.now.max(route.newcomers.virtual_time);
                    route.newcomers.virtual_time =
                        route.newcomers.virtual_time.saturating_add(charged);
                    route.newcomers.open += 1;
                } else {
                    route.now = route.now.max(requests.virtual_time);
                }
                requests.virtual_time = requests.virtual_time.saturating_add(charged);
                requests.running += 1;
                requests.long += usize::from(is_long);
            }
            route.virtual_time = route.virtual_time.saturating_add(charged);
        }
        if is_long {
            self.in_long_places += 1;
            self.newcomers_in_long_places += usize::from(is_newcomer);
        } else {
            self.in_turns += 1;
            self.newcomers_in_turns += usize::from(is_newcomer);
        }
        let running = Some(Running { flow, is_long, is_newcomer, charged });
        let room = self.running.iter().position(Option::is_none).unwrap_or(self.running.len());
        match self.running.get_mut(room) {
            Some(free) => *free = running,
            None => self.running.push(running),
        }
        Room(room)
    }
}

impl<T> Route<T> {
    /// Drops flows without requests: those that are not established, then the established ones that
    /// had none for the longest time.
    fn forget(&mut self) {
        self.flows.retain(|_, requests| !requests.is_idle() || requests.is_established());
        if self.flows.len() <= MAX_IDLE_FLOWS {
            return;
        }
        let mut ends: Vec<u64> = self.flows.values().map(|requests| requests.last).collect();
        ends.sort_unstable();
        let median = ends.get(ends.len() / 2).copied().unwrap_or(0);
        self.flows.retain(|_, requests| !requests.is_idle() || requests.last >= median);
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Turns that all flows that are not established may use together: all but one.
const fn part_of_turns(slots: usize) -> usize {
    if slots > 1 { slots - 1 } else { slots }
}

/// Long places that one flow may use, or all flows together that are not established.
const fn part_of_long_places(places: usize) -> usize {
    if places > 1 { places / 2 } else { places }
}

/// Evaluations that may run outside of slots because they take long.
pub(super) const fn long_places(slots: usize) -> usize {
    match slots {
        0 => 0,
        1..=4 => 2,
        _ => slots / 2,
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

    /// Runs as many evaluations of a flow as it needs to be established.
    fn establish<T>(schedule: &mut Schedule<T>, flow: &Flow) {
        for _ in 0..ESTABLISHED_BY {
            let room = schedule.start_at_once(flow).expect("room");
            schedule.finished(room, SHORT);
        }
    }

    /// The order in which requests start if each takes `took`.
    fn order(
        schedule: &mut Schedule<&'static str>,
        took: impl Fn(&str) -> Duration,
    ) -> Vec<&'static str> {
        let mut order = Vec::new();
        while let Some((room, ticket)) = schedule.start_next() {
            order.push(ticket);
            schedule.finished(room, took(ticket));
        }
        order
    }

    #[test]
    fn a_request_starts_at_once_where_there_is_room() {
        let mut schedule = Schedule::<()>::new(1);
        let room = schedule.start_at_once(&flow("/a", "x")).expect("room");
        assert_eq!(schedule.start_at_once(&flow("/a", "y")), None);
        schedule.finished(room, SHORT);
        assert!(schedule.start_at_once(&flow("/a", "y")).is_some());
        assert_eq!(Schedule::<()>::new(0).start_at_once(&flow("/a", "x")), None);
    }

    #[test]
    fn namespaces_take_turns_by_time_and_not_by_requests() {
        let mut schedule = Schedule::new(1);
        let room = schedule.start_at_once(&flow("/a", "busy")).expect("room");
        for _ in 0..3 {
            schedule.wait(&flow("/a", "slow"), "slow").expect("waits");
        }
        for _ in 0..3 {
            schedule.wait(&flow("/a", "fast"), "fast").expect("waits");
        }
        schedule.finished(room, Duration::ZERO);
        let took = |what: &str| if what == "slow" { SHORT * 50 } else { SHORT };
        assert_eq!(order(&mut schedule, took), ["slow", "fast", "fast", "fast", "slow", "slow"]);
    }

    #[test]
    fn routes_take_turns_before_namespaces_do() {
        let mut schedule = Schedule::new(1);
        let room = schedule.start_at_once(&flow("/c", "busy")).expect("room");
        for namespace in ["a", "b", "c", "d"] {
            schedule.wait(&flow("/many", namespace), "many").expect("waits");
        }
        schedule.wait(&flow("/one", "a"), "one").expect("waits");
        schedule.wait(&flow("/one", "a"), "one").expect("waits");
        schedule.finished(room, SHORT);
        let order = order(&mut schedule, |_| SHORT * 10);
        assert_eq!(order, ["many", "one", "many", "one", "many", "many"]);
    }

    #[test]
    fn what_takes_long_leaves_its_turn_and_its_flow_waits_for_a_long_place() {
        let mut schedule = Schedule::new(1);
        let slow = flow("/a", "slow");
        let first = schedule.start_at_once(&slow).expect("a slot");
        assert_eq!(schedule.start_at_once(&flow("/a", "other")), None);
        schedule.takes_long(first);
        let other = schedule.start_at_once(&flow("/a", "other")).expect("the slot is free");
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
        establish(&mut schedule, &tenant);
        let room = schedule.start_at_once(&tenant).expect("a slot");
        schedule.takes_long(room);
        schedule.finished(room, LONG * 2);
        for _ in 0..REDEEMED_BY {
            let room = schedule.start_at_once(&tenant).expect("a long place");
            assert_eq!(schedule.start_at_once(&tenant), None, "one at a time");
            schedule.finished(room, SHORT);
        }
        let both = [schedule.start_at_once(&tenant), schedule.start_at_once(&tenant)];
        assert!(both.iter().all(Option::is_some), "{both:?}");
    }

    #[test]
    fn invented_namespaces_delay_an_established_one_by_no_more_than_one_namespace_would() {
        let mut schedule = Schedule::new(2);
        let shop = flow("/a", "shop");
        establish(&mut schedule, &shop);
        let mut invented = 0..;
        let mut invent = |schedule: &mut Schedule<&'static str>| {
            let name = format!("x{}", invented.next().expect("endless"));
            schedule.wait(&flow("/a", &name), "invented").expect("waits");
        };
        for _ in 0..40 {
            invent(&mut schedule);
        }
        let mut running = VecDeque::new();
        let mut waits = None;
        let mut answered = 0;
        for step in 0..400 {
            if waits.is_none() {
                schedule.wait(&shop, "shop").expect("waits");
                waits = Some(step);
            }
            while let Some((room, ticket)) = schedule.start_next() {
                match ticket {
                    "shop" => {
                        let since = waits.take().expect("it waited");
                        assert!(
                            step - since <= 1,
                            "request {answered} waited for {} evaluations",
                            step - since
                        );
                        answered += 1;
                        schedule.finished(room, SHORT);
                    }
                    _ => running.push_back(room),
                }
            }
            assert!(running.len() <= 1, "a slot is left for established namespaces");
            if let Some(room) = running.pop_front() {
                schedule.finished(room, Duration::from_millis(15));
                invent(&mut schedule);
            }
        }
        assert!(answered > 390, "{answered}");
    }

    #[test]
    fn invented_namespaces_with_long_evaluations_leave_a_turn_and_a_long_place() {
        let mut schedule = Schedule::new(2);
        let shop = flow("/a", "shop");
        establish(&mut schedule, &shop);
        for name in ["a", "b", "c", "d"] {
            schedule.wait(&flow("/a", name), "invented").expect("waits");
        }
        let mut started = 0;
        while let Some((room, _)) = schedule.start_next() {
            schedule.takes_long(room);
            started += 1;
        }
        assert_eq!(started, 2, "one in a long place, one in a slot");
        schedule.wait(&shop, "shop").expect("waits");
        let (room, ticket) = schedule.start_next().expect("the established one has a slot");
        assert_eq!(ticket, "shop");
        schedule.takes_long(room);
        assert_eq!((schedule.in_turns, schedule.in_long_places), (1, 2));
    }

    #[test]
    fn so_many_namespaces_are_remembered_and_no_more() {
        let mut schedule = Schedule::<()>::new(2);
        let shop = flow("/a", "shop");
        establish(&mut schedule, &shop);
        for name in 0..3 * MAX_IDLE_FLOWS {
            let room = schedule.start_at_once(&flow("/a", &name.to_string())).expect("room");
            schedule.finished(room, SHORT);
            assert!(schedule.routes["/a"].flows.len() <= MAX_IDLE_FLOWS + 2);
        }
        assert!(schedule.routes["/a"].flows["shop"].is_established());
    }

    #[test]
    fn dry_runs_have_one_place_and_no_turn() {
        let mut schedule = Schedule::<()>::new(4);
        establish(&mut schedule, &flow("/a", "x"));
        let room = schedule.start_at_once(&flow(DRY_RUN, "")).expect("a place");
        assert_eq!(schedule.start_at_once(&flow(DRY_RUN, "")), None);
        for _ in 0..4 {
            schedule.start_at_once(&flow("/a", "x")).expect("every slot is free");
        }
        schedule.finished(room, SHORT);
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
            3 => (any::<usize>(), any::<u16>()).prop_map(|(room, took)| Step::Finish(room, took)),
        ]
    }

    const ROUTES: [&str; 3] = ["/a", "/b", DRY_RUN];

    proptest! {
        /// Invariants: evaluations never exceed the room, no request is lost, none waits while
        /// there is room for all, and nothing is left once all have ended.
        #[test]
        fn room_is_kept_and_used(slots in 1..4_usize, steps in vec(step(), 1..200)) {
            let mut schedule = Schedule::new(slots);
            let (mut running, mut places) = (Vec::new(), Vec::new());
            let mut expected = 0_usize;
            let mut next = 0_usize;
            for step in steps {
                match step {
                    Step::Arrive(route, namespace) => {
                        let flow = flow(ROUTES[usize::from(route)], &namespace.to_string());
                        match schedule.start_at_once(&flow) {
                            Some(room) => running.push(room),
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
                        let room = running.swap_remove(which % running.len());
                        schedule.finished(room, Duration::from_micros(took.into()));
                    }
                    _ => {}
                }
                while let Some((room, ticket)) = schedule.start_next() {
                    places.retain(|(number, _)| *number != ticket);
                    expected -= 1;
                    running.push(room);
                }
                prop_assert_eq!(schedule.waiting(), expected);
                prop_assert!(schedule.in_turns <= slots);
                prop_assert!(schedule.in_long_places <= long_places(slots));
                prop_assert_eq!(schedule.in_turns + schedule.in_long_places, running.len());
            }
            while let Some(room) = running.pop() {
                schedule.finished(room, SHORT);
                while let Some((room, _)) = schedule.start_next() {
                    expected -= 1;
                    running.push(room);
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
            for name in &names {
                establish(&mut schedule, &flow("/a", name));
            }
            for (which, name) in names.iter().enumerate() {
                schedule.wait(&flow("/a", name), which).expect("waits");
            }
            for _ in 0..rounds {
                let (room, which) = schedule.start_next().expect("some wait");
                schedule.wait(&flow("/a", &names[which]), which).expect("waits");
                spent[which] += costs[which];
                schedule.finished(room, Duration::from_millis(costs[which]));
            }
            let (least, most) = (spent.iter().min().expect("some"), spent.iter().max().expect("some"));
            prop_assert!(most - least <= 2 * costs.iter().max().expect("some"), "{spent:?}");
        }
    }
}
