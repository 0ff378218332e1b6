//! The places in the input where references start, each with a number.
//!
//! Most references of a policy begin at a few places, such as `input.review.object.spec`. With a number
//! an evaluation goes there once.

use std::{collections::HashMap, sync::Arc};

use modgate_value::{Str, Value as Json};

use crate::{
    ir::{
        Base, Constant, Hint, InputPath, Operand, PathId, Program, Ref, Source, Stmt, StmtKind,
        Term,
    },
    share,
};

/// Most places that get a number.
const MAX_PATHS: usize = 256;

/// The same program, in which references to the input start at such places. `known` is the member of the
/// input in which evaluations that share differ.
pub(super) fn numbered(program: Program, known: &str) -> Program {
    let constants = Arc::clone(&program.constants);
    let mut places =
        Places { constants: &constants, known, paths: Vec::new(), ids: HashMap::new() };
    let mut rules = program.rules.to_vec();
    for rule in &mut rules {
        rule.branches.iter_mut().for_each(|branch| places.body(&mut branch.body));
        rule.keyed.iter_mut().for_each(|keyed| places.body(&mut keyed.body));
    }
    let paths = places.paths.into();
    let hints = constants.iter().map(|_| Hint::default()).collect();
    Program { rules: rules.into(), paths, hints, ..program }
}

struct Places<'p> {
    constants: &'p [Constant],
    known: &'p str,
    paths: Vec<InputPath>,
    ids: HashMap<Box<[Str]>, PathId>,
}

impl Places<'_> {
    fn body(&mut self, body: &mut [Stmt]) {
        for stmt in body {
            match &mut stmt.kind {
                StmtKind::Test(source) | StmtKind::Match(source, _) => self.source(source),
                StmtKind::Not(body) => self.body(body),
                StmtKind::Any(bodies) | StmtKind::Each(bodies) => {
                    bodies.iter_mut().for_each(|body| self.body(body));
                }
                StmtKind::Every(every) => self.body(&mut every.body),
                // What is replaced has no fixed place.
                StmtKind::With(..) => {}
            }
        }
    }

    fn source(&mut self, source: &mut Source) {
        match source {
            Source::Ref(reference) if matches!(reference.base, Base::Input) => {
                self.reference(reference);
            }
            Source::Comprehension(comprehension) => self.body(&mut comprehension.body),
            Source::Term(_) | Source::Ref(_) | Source::Call(_) => {}
        }
    }

    fn reference(&mut self, reference: &mut Ref) {
        let fields = reference.path.iter().map_while(|step| match step {
            Operand::Key(Term::Const(id)) => match self.constants.get(id.0 as usize) {
                Some(Json::String(name)) => Some(name.clone()),
                _ => None,
            },
            Operand::Key(_) | Operand::Each(_) => None,
        });
        let names: Box<[Str]> = fields.collect();
        if names.is_empty() {
            return;
        }
        let rest = reference.path.split_off(names.len());
        let next = self.paths.len();
        let id = match (self.ids.get(&names), u32::try_from(next)) {
            (Some(id), _) => *id,
            (None, Ok(id)) if next < MAX_PATHS => {
                let shared = names.first().is_none_or(|name| name != self.known);
                let key = shared.then(|| share::path_key(&names));
                self.paths.push(InputPath { names: names.clone(), key });
                self.ids.insert(names, PathId(id));
                PathId(id)
            }
            (None, _) => {
                reference.path.extend(rest);
                return;
            }
        };
        (reference.base, reference.path) = (Base::InputAt(id), rest);
    }
}
