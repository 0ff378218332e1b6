//! `with`: other values for `input`, parts of `data` and functions, for a part of an evaluation.

use super::{Flow, Machine, Next, Stop, document::Cache};
use crate::{
    ir::{Callee, Stmt, With, WithTarget, WithValue},
    value::{Heap, Value, View},
};

/// The replacements that are in force, and the documents computed under them.
#[derive(Default)]
pub(super) struct Overlay<'a> {
    input: Option<Value<'a>>,
    /// Values in place of what is at paths of `data`; no path leads through another.
    data: Vec<(Vec<Value<'a>>, Value<'a>)>,
    callees: Vec<(Callee, Mock<'a>)>,
    cache: Cache<'a>,
}

/// The replacement of a function.
#[derive(Clone, Copy)]
pub(super) enum Mock<'a> {
    Value(Value<'a>),
    Callee(Callee),
}

impl<'a> Overlay<'a> {
    /// Without replacements, for a program of so many groups, in the room of this one, which is the first.
    pub(super) fn begin(&mut self, heap: Heap<'a>, input: Option<Value<'a>>, groups: usize) {
        self.input = input;
        self.data.clear();
        self.callees.clear();
        self.cache.clear(heap, groups);
    }

    fn same_but_fresh(&self, heap: Heap<'a>, groups: usize) -> Self {
        Self {
            input: self.input,
            data: self.data.clone(),
            callees: self.callees.clone(),
            cache: Cache::new(heap, groups),
        }
    }

    fn replace_callee(&mut self, callee: Callee, mock: Mock<'a>) {
        self.callees.retain(|(known, _)| *known != callee);
        self.callees.push((callee, mock));
    }
}

impl<'a> Machine<'a> {
    /// Runs `body` under a new overlay and `rest` under the present one.
    pub(super) fn run_with(
        &mut self,
        with: &'a [With],
        body: &'a [Stmt],
        rest: &'a [Stmt],
        next: Next<'_, 'a>,
    ) -> Flow {
        let mut changed = self.fork()?;
        for modifier in with {
            self.replace(&mut changed, modifier)?;
        }
        let outer = self.overlay;
        self.overlays.push(changed);
        let inner = self.overlays.len();
        self.overlay = inner;
        let flow = self.run(body, &mut |machine| {
            machine.overlay = outer;
            let flow = machine.run(rest, next);
            machine.overlay = inner;
            flow
        });
        self.overlays.truncate(inner - 1);
        self.overlay = outer;
        flow
    }

    /// Runs `inner`, the replacement of a function, under an overlay that replaces no function.
    pub(super) fn without_mocks<T>(
        &mut self,
        inner: impl FnOnce(&mut Self) -> Result<T, Stop>,
    ) -> Result<T, Stop> {
        let mut changed = self.fork()?;
        changed.callees.clear();
        self.overlays.push(changed);
        let made = self.overlays.len();
        let outer = std::mem::replace(&mut self.overlay, made);
        let result = inner(self);
        self.overlays.truncate(made - 1);
        self.overlay = outer;
        result
    }

    fn fork(&self) -> Result<Overlay<'a>, Stop> {
        // An overlay has a place for the value of every group.
        let groups = self.program.groups.len();
        self.spend(groups as u64 / 64)?;
        self.heap.budget().allocate(groups * size_of::<Value<'_>>())?;
        Ok(self.current().same_but_fresh(self.heap, groups))
    }

    fn replace(&mut self, overlay: &mut Overlay<'a>, modifier: &'a With) -> Flow {
        let value = match &modifier.value {
            WithValue::Term(term) => Mock::Value(self.term(term)?),
            WithValue::Callee(callee) => Mock::Callee(*callee),
        };
        match (&modifier.target, value) {
            (WithTarget::Callee(callee), mock) => overlay.replace_callee(*callee, mock),
            (WithTarget::Input(path), Mock::Value(value)) => {
                let path: Vec<_> = path.iter().map(|key| self.constant(*key)).collect();
                overlay.input = Some(self.put(overlay.input, &path, value)?);
            }
            (WithTarget::Data(path), Mock::Value(value)) => {
                let path: Vec<_> = path.iter().map(|key| self.constant(*key)).collect();
                let around = overlay.data.iter_mut().find(|(known, _)| path.starts_with(known));
                if let Some((known, whole)) = around {
                    let below = path.get(known.len()..).unwrap_or_default();
                    *whole = self.put(Some(*whole), below, value)?;
                    return Ok(());
                }
                overlay.data.retain(|(known, _)| !known.starts_with(&path));
                overlay.data.push((path, value));
            }
            // The compiler lets functions stand in for functions only.
            (WithTarget::Input(_) | WithTarget::Data(_), Mock::Callee(_)) => {}
        }
        Ok(())
    }

    /// `whole` with `value` at `path`; objects are made where there is nothing yet.
    fn put(
        &mut self,
        whole: Option<Value<'a>>,
        path: &[Value<'a>],
        value: Value<'a>,
    ) -> Result<Value<'a>, Stop> {
        let Some((key, below)) = path.split_first() else { return Ok(value) };
        let mut entries: Vec<_> = match whole.map(Value::view) {
            Some(View::Object(object)) => object.iter().collect(),
            // What is not an object gives way.
            _ => Vec::new(),
        };
        self.spend(entries.len() as u64)?;
        let old = whole.and_then(|whole| whole.get(*key));
        let new = self.nested(|machine| machine.put(old, below, value))?;
        entries.push((*key, new));
        Ok(self.heap.object(entries)?)
    }

    pub(super) fn input(&self) -> Option<Value<'a>> {
        self.current().input
    }

    /// Whether something under `data` is replaced.
    #[inline]
    pub(super) fn replaces_data(&self) -> bool {
        self.program.replaces_data && !self.replacements().is_empty()
    }

    pub(super) fn replacements(&self) -> &[(Vec<Value<'a>>, Value<'a>)] {
        &self.current().data
    }

    #[inline]
    pub(super) fn mock(&self, callee: Callee) -> Option<Mock<'a>> {
        if !self.program.replaces_functions {
            return None;
        }
        self.current().callees.iter().find(|(known, _)| *known == callee).map(|(_, mock)| *mock)
    }

    /// The current overlay.
    #[inline]
    fn current(&self) -> &Overlay<'a> {
        let with = self.overlay.checked_sub(1).and_then(|at| self.overlays.get(at));
        with.unwrap_or(&self.first)
    }

    #[inline]
    pub(super) fn cache(&self) -> &Cache<'a> {
        &self.current().cache
    }

    #[inline]
    pub(super) fn cache_mut(&mut self) -> &mut Cache<'a> {
        let with = self.overlay.checked_sub(1).and_then(|at| self.overlays.get_mut(at));
        &mut with.unwrap_or(&mut self.first).cache
    }
}
