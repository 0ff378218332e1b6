//! Objects as they arrive, evaluated on all cores.

use std::{
    num::NonZero,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use modgate_engine::{Host, cost::Statistics};

use crate::{
    evaluate::{Asked, ObjectResult, Session},
    object::{IntoItem, Item},
    policies::Policies,
    report::{Audited, Counts, Report, Tally},
    sink::Sink,
    violation::violations,
};

/// How an audit is done.
#[derive(Clone, Copy)]
pub struct AuditOptions<'a> {
    /// Threads that evaluate; with one, that is the calling thread.
    pub threads: usize,
    /// Violations listed for each policy (`--constraint-violations-limit`).
    pub limit: usize,
    /// Set to end an audit early.
    pub stop: &'a AtomicBool,
    /// Where to add what constraints took, if that is wanted.
    pub statistics: Option<&'a Mutex<Statistics>>,
}

impl AuditOptions<'_> {
    /// As many threads as there are processors.
    pub fn all_cores() -> usize {
        thread::available_parallelism().map_or(1, NonZero::get)
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// Where objects come from, some at a time; nothing once there are no more. It may wait.
///
/// Only what was handed out is in memory, once for each thread.
pub type Source<'a, I = Item> = dyn FnMut() -> Option<Vec<I>> + Send + 'a;

/// Evaluates every object of a source once and keeps nothing but the report: `None` if it was stopped.
///
/// This is the reference for audits that keep results ([`Incremental`](crate::Incremental)).
pub fn audit(
    name: &str,
    policies: &Policies,
    source: &mut Source<'_>,
    host: &(dyn Host + Sync),
    sink: &dyn Sink,
    options: AuditOptions<'_>,
) -> Option<Report> {
    sink.started(name);
    let mut tally = Tally::new(policies, options.limit);
    let work =
        |item: &Item, session: &mut Session| policies.evaluate(item, Asked::All, host, session);
    let mut take = |item: Item, outcome: ObjectResult| {
        tally.count(Counts {
            objects: 1,
            excluded: outcome.excluded.into(),
            evaluated: 1,
            asked: outcome.asked,
            errors: 0,
        });
        outcome.errors.iter().for_each(|error| tally.error(&item.subject, error));
        if outcome.found.iter().any(|(_, found)| !found.is_empty()) {
            sink.object(&item.subject, &item.object);
        }
        let mut violating = 0;
        for violation in violations(policies, &item.subject, &outcome.found) {
            violating = 1;
            tally.violation(&violation);
            sink.violation(name, &violation);
        }
        tally.count_audited(&item.subject.namespace, Audited { objects: 1, violating });
    };
    let prepare = |_: &Item| Some(());
    each(source, options, &prepare, |item, (), session| work(item, session), &mut take);
    if options.is_stopped() {
        return None;
    }
    sink.finished(name);
    Some(tally.finish(name))
}

/// Runs `work` on each item of a source that `prepare` gives something for, on several threads, and
/// hands the results to `take`, one at a time. Items of one batch stay in order.
pub(crate) fn each<I: IntoItem, P: Send, T: Send>(
    source: &mut Source<'_, I>,
    options: AuditOptions<'_>,
    prepare: &(dyn Fn(&Item) -> Option<P> + Sync),
    work: impl Fn(&Item, P, &mut Session) -> T + Sync,
    take: &mut (dyn FnMut(Item, T) + Send),
) {
    let source = Mutex::new(source);
    let take = Mutex::new(take);
    let evaluate = |session: &mut Session| {
        while !options.is_stopped() {
            // A thread that panicked is the caller's to report; the others end.
            let Ok(mut waiting) = source.lock() else { return };
            let Some(items) = waiting() else { return };
            drop(waiting);
            let mut done = Vec::with_capacity(items.len());
            for item in items {
                if options.is_stopped() {
                    break;
                }
                let item = item.into_item();
                if let Some(prepared) = prepare(&item) {
                    let outcome = work(&item, prepared, session);
                    done.push((item, outcome));
                }
            }
            let mut take = take.lock().unwrap_or_else(PoisonError::into_inner);
            done.into_iter().for_each(|(item, outcome)| take(item, outcome));
        }
    };
    let run = |shard: usize| {
        let mut session = Session::new(shard, options.statistics.is_some());
        evaluate(&mut session);
        if let (Some(all), Some(counted)) = (options.statistics, session.into_statistics()) {
            all.lock().unwrap_or_else(PoisonError::into_inner).merge(counted);
        }
    };
    if options.threads <= 1 {
        run(0);
        return;
    }
    thread::scope(|scope| {
        for shard in 1..options.threads {
            let run = &run;
            scope.spawn(move || run(shard));
        }
        run(0);
    });
}
