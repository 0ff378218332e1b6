//! A policy over JSON documents, for callers that need no more.

use modgate_value::{Budget, Limits, Value as Json, budget::Frozen};

use crate::{
    Capabilities,
    ast::RegoVersion,
    builtins::Isolated,
    error::Error,
    eval,
    ir::Program,
    parser::parse_module,
    value::{Arena, Heap, Value},
};

/// Compiled modules whose documents are evaluated for an input.
///
/// An evaluation takes at most 10,000,000 steps and builds at most 64 MiB; [`Policy::within`] sets
/// other limits. Built-ins that need the time, the network or chance fail.
#[derive(Debug, Clone)]
pub struct Policy {
    program: Program,
    limits: Limits,
}

impl Policy {
    /// Compiles modules together, each given by the name that errors mention and its text.
    ///
    /// # Errors
    ///
    /// The errors of the first stage that finds any, with OPA's messages.
    pub fn compile(modules: &[(&str, &str)], version: RegoVersion) -> Result<Self, Vec<Error>> {
        let modules = modules
            .iter()
            .map(|(name, text)| parse_module(name, text, version))
            .collect::<Result<Vec<_>, _>>()?;
        let program = Program::compile(&modules, &Capabilities::default())?;
        let limits = Limits { steps: 10_000_000, bytes: 64 << 20, ..Limits::UNLIMITED };
        Ok(Self { program, limits })
    }

    /// With other limits on steps and bytes. The limit on time has no effect, because this crate
    /// reads no clock.
    #[must_use]
    pub fn within(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// The document at a path such as `example.violation`, as JSON: sets become sorted lists.
    /// `None` where it is undefined for this input.
    ///
    /// # Errors
    ///
    /// Rules that contradict each other, and limits that are exceeded.
    pub fn evaluate(&self, path: &str, input: &Json) -> Result<Option<Json>, Error> {
        let path: Vec<&str> = path.split('.').collect();
        let Some(group) = self.program.group(&path) else { return Ok(None) };
        let (arena, clock) = (Arena::new(), Frozen);
        let budget = Budget::new(self.limits, &clock);
        let context = eval::Context {
            input: Some(Value::json(input)),
            data: None,
            heap: Heap::new(&arena, &budget),
            host: &Isolated,
            strict_builtin_errors: false,
            tracer: None,
        };
        let value = eval::document(&self.program, group, context)?;
        Ok(value.map(|value| value.to_json(&budget)).transpose()?)
    }
}
