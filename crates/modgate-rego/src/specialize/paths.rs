//! The places in the input where references start, each with a number, and the formats of `sprintf`.
//!
//! Most references of a policy begin at a few places, such as `input.review.object.spec`. With a number
//! an evaluation goes there once.

use std::{collections::BTreeMap, sync::Arc};

use modgate_value::{Str, Value as Json};

use crate::{
    builtins,
    ir::{
        Base, BuiltinId, Call, Callee, ConstId, Constant, Format, Hint, InputPath, Operand, PathId,
        Program, Ref, Source, Stmt, StmtKind, Term,
    },
    share,
};

/// A place that is no more names away is looked up again by each evaluation: that takes less than to share it.
const FAR: usize = 2;

/// Most places that get a number.
const MAX_PATHS: usize = 256;

/// The same program, in which references to the input start at such places and formats have been read. `known` is the member of the
/// input in which evaluations that share differ.
pub(super) fn numbered(program: Program, known: &str) -> Program {
    let constants = Arc::clone(&program.constants);
    let printing = program.builtins.iter().position(|builtin| builtin.name == "sprintf");
    let mut places = Places {
        constants: &constants,
        names: Vec::new(),
        ids: BTreeMap::new(),
        printing: printing.and_then(|at| Some(BuiltinId(u32::try_from(at).ok()?))),
        formats: BTreeMap::new(),
    };
    let mut rules = program.rules.to_vec();
    for rule in &mut rules {
        rule.branches.iter_mut().for_each(|branch| places.body(&mut branch.body));
        rule.keyed.iter_mut().for_each(|keyed| places.body(&mut keyed.body));
    }
    places.branch();
    let paths = places.names.iter().map(|names| places.path(names, known)).collect();
    let hints = constants.iter().map(|_| Hint::default()).collect();
    let formats = places.formats.into_values().collect();
    Program { rules: rules.into(), paths, hints, formats, ..program }
}

struct Places<'p> {
    constants: &'p [Constant],
    /// The names that lead to each.
    names: Vec<Box<[Str]>>,
    ids: BTreeMap<Box<[Str]>, PathId>,
    /// `sprintf`, if it is called.
    printing: Option<BuiltinId>,
    formats: BTreeMap<ConstId, Format>,
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
            Source::Call(call) => self.call(call),
            Source::Term(_) | Source::Ref(_) => {}
        }
    }

    fn call(&mut self, call: &Call) {
        if let (Callee::Builtin(callee), [Term::Const(id), Term::Array(_)]) =
            (call.callee, call.args.as_slice())
            && self.printing == Some(callee)
            && let Some(Json::String(format)) = self.constants.get(id.0 as usize)
            && let Some(read) = builtins::Format::new(format)
        {
            self.formats.insert(*id, Format { constant: *id, callee, read });
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
        match self.number(names) {
            Some(id) => (reference.base, reference.path) = (Base::InputAt(id), rest),
            None => reference.path.extend(rest),
        }
    }

    /// The number of a place, while there are numbers.
    fn number(&mut self, names: Box<[Str]>) -> Option<PathId> {
        if let Some(id) = self.ids.get(&names) {
            return Some(*id);
        }
        let next = self.names.len();
        let id = PathId(u32::try_from(next).ok().filter(|_| next < MAX_PATHS)?);
        self.names.push(names.clone());
        self.ids.insert(names, id);
        Some(id)
    }

    /// Gives numbers to the places where the ways to others part.
    fn branch(&mut self) {
        let all: Vec<Box<[Str]>> = self.ids.keys().cloned().collect();
        for (first, second) in all.iter().zip(all.iter().skip(1)) {
            let common = first.iter().zip(second.iter()).take_while(|(a, b)| a == b).count();
            if common > 0 {
                self.number(first.iter().take(common).cloned().collect());
            }
        }
    }

    /// The way to a place, from the nearest one that leads there.
    fn path(&self, names: &[Str], known: &str) -> InputPath {
        let before = (1..names.len()).rev().find_map(|length| {
            let (start, rest) = names.split_at_checked(length)?;
            Some((*self.ids.get(start)?, rest))
        });
        let rest = before.map_or(names, |(_, rest)| rest);
        let shared = rest.len() > FAR && names.first().is_none_or(|name| name != known);
        InputPath {
            from: before.map(|(id, _)| id),
            names: rest.iter().map(|name| (name.clone(), Hint::default())).collect(),
            key: shared.then(|| share::path_key(names)),
        }
    }
}
