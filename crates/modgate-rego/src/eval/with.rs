//! `with`: the environment as part of an evaluation sees it.

use super::{Flow, Machine, Next, Stop, document::Cache};
use crate::{
    ir::{Callee, Stmt, With, WithTarget, WithValue},
    value::{Value, View},
};

/// What `with` can replace, and what has been computed under that.
pub(super) struct Environment<'a> {
    input: Option<Value<'a>>,
    /// Values in place of what is at paths of `data`; no path leads through another.
    data: Vec<(Vec<Value<'a>>, Value<'a>)>,
    callees: Vec<(Callee, Mock<'a>)>,
    cache: Cache<'a>,
}

/// What stands in for a function.
#[derive(Clone, Copy)]
pub(super) enum Mock<'a> {
    Value(Value<'a>),
    Callee(Callee),
}

impl<'a> Environment<'a> {
    pub(super) fn new(input: Option<Value<'a>>, cache: Cache<'a>) -> Self {
        Self { input, data: Vec::new(), callees: Vec::new(), cache }
    }

    fn same_but_fresh(&self, groups: usize) -> Self {
        Self {
            input: self.input,
            data: self.data.clone(),
            callees: self.callees.clone(),
            cache: Cache::new(groups),
        }
    }

    fn replace_callee(&mut self, callee: Callee, mock: Mock<'a>) {
        self.callees.retain(|(known, _)| *known != callee);
        self.callees.push((callee, mock));
    }
}

impl<'a> Machine<'a> {
    /// Runs `body` in a changed environment and `rest` in the present one.
    pub(super) fn run_with(
        &mut self,
        with: &'a [With],
        body: &'a [Stmt],
        rest: &'a [Stmt],
        next: Next<'_, 'a>,
    ) -> Flow {
        let Some(mut changed) = self.fork()? else { return Ok(()) };
        for modifier in with {
            self.replace(&mut changed, modifier)?;
        }
        let outer = self.environment;
        let inner = self.environments.len();
        self.environments.push(changed);
        self.environment = inner;
        let flow = self.run(body, &mut |machine| {
            machine.environment = outer;
            let flow = machine.run(rest, next);
            machine.environment = inner;
            flow
        });
        self.environments.truncate(inner);
        self.environment = outer;
        flow
    }

    /// Runs `inner`, what stands in for a function, in an environment where all functions are themselves.
    pub(super) fn without_mocks<T>(
        &mut self,
        inner: impl FnOnce(&mut Self) -> Result<T, Stop>,
    ) -> Result<T, Stop> {
        let Some(mut changed) = self.fork()? else { return inner(self) };
        changed.callees.clear();
        let outer = std::mem::replace(&mut self.environment, self.environments.len());
        self.environments.push(changed);
        let result = inner(self);
        self.environments.truncate(self.environment);
        self.environment = outer;
        result
    }

    fn fork(&self) -> Result<Option<Environment<'a>>, Stop> {
        // A environment has a place for the value of every group.
        let groups = self.program.groups.len();
        self.spend(groups as u64 / 64)?;
        self.heap.budget().allocate(groups * size_of::<Value<'_>>())?;
        Ok(self
            .environments
            .get(self.environment)
            .map(|environment| environment.same_but_fresh(groups)))
    }

    fn replace(&mut self, environment: &mut Environment<'a>, modifier: &'a With) -> Flow {
        let value = match &modifier.value {
            WithValue::Term(term) => Mock::Value(self.term(term)?),
            WithValue::Callee(callee) => Mock::Callee(*callee),
        };
        match (&modifier.target, value) {
            (WithTarget::Callee(callee), mock) => environment.replace_callee(*callee, mock),
            (WithTarget::Input(path), Mock::Value(value)) => {
                let path: Vec<_> = path.iter().map(|key| self.constant(*key)).collect();
                environment.input = Some(self.put(environment.input, &path, value)?);
            }
            (WithTarget::Data(path), Mock::Value(value)) => {
                let path: Vec<_> = path.iter().map(|key| self.constant(*key)).collect();
                let around = environment.data.iter_mut().find(|(known, _)| path.starts_with(known));
                if let Some((known, whole)) = around {
                    let below = path.get(known.len()..).unwrap_or_default();
                    *whole = self.put(Some(*whole), below, value)?;
                    return Ok(());
                }
                environment.data.retain(|(known, _)| !known.starts_with(&path));
                environment.data.push((path, value));
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
        self.environments.get(self.environment).and_then(|environment| environment.input)
    }

    pub(super) fn replacements(&self) -> &[(Vec<Value<'a>>, Value<'a>)] {
        self.environments.get(self.environment).map_or(&[], |environment| &environment.data)
    }

    #[inline]
    pub(super) fn mock(&self, callee: Callee) -> Option<Mock<'a>> {
        if !self.program.replaces_functions {
            return None;
        }
        let environment = self.environments.get(self.environment)?;
        environment.callees.iter().find(|(known, _)| *known == callee).map(|(_, mock)| *mock)
    }

    pub(super) fn cache(&self) -> &Cache<'a> {
        // The current environment is always on the stack; the first one never leaves it.
        #[expect(
            clippy::indexing_slicing,
            reason = "`environment` always names an environment on the stack"
        )]
        &self.environments[self.environment].cache
    }

    pub(super) fn cache_mut(&mut self) -> &mut Cache<'a> {
        #[expect(
            clippy::indexing_slicing,
            reason = "`environment` always names an environment on the stack"
        )]
        &mut self.environments[self.environment].cache
    }
}
