//! All cores at once, with results in the order of the work.

use std::{
    num::NonZero,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

/// Runs `count` pieces of work; `state` creates the state that a thread keeps between pieces.
pub(crate) fn parallel<T: Send, S>(
    count: usize,
    state: impl Fn() -> S + Sync,
    work: impl Fn(usize, &mut S) -> T + Sync,
) -> Vec<T> {
    let cores = thread::available_parallelism().map_or(1, NonZero::get).min(count);
    if cores <= 1 {
        let mut own = state();
        return (0..count).map(|index| work(index, &mut own)).collect();
    }
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::with_capacity(count));
    let run = || {
        let mut own = state();
        let mut results = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= count {
                break;
            }
            results.push((index, work(index, &mut own)));
        }
        if let Ok(mut done) = done.lock() {
            done.append(&mut results);
        }
    };
    thread::scope(|scope| {
        for _ in 1..cores {
            scope.spawn(run);
        }
        run();
    });
    let mut done = done.into_inner().unwrap_or_default();
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_keep_their_order() {
        let squares = parallel(100, || (), |index, ()| index * index);
        assert_eq!(squares, (0..100).map(|index| index * index).collect::<Vec<_>>());
        assert!(parallel(0, || (), |index, ()| index).is_empty());
    }
}
