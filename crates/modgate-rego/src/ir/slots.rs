//! The variables of statements.

use crate::ir::{Base, Body, Collect, Operand, Pattern, Slot, Source, Stmt, StmtKind, Term};

/// Numbers of variables, from 0 on in the order in which they are met.
#[derive(Default)]
pub(crate) struct Numbers(Vec<Slot>);

impl Numbers {
    /// Gives a variable its number.
    pub(crate) fn renumber(&mut self, slot: &mut Slot) {
        let at = self.0.iter().position(|known| known == slot).unwrap_or_else(|| {
            self.0.push(*slot);
            self.0.len() - 1
        });
        *slot = Slot(u32::try_from(at).unwrap_or(u32::MAX));
    }

    /// How many variables have one.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

/// Runs `on` for each occurrence of a variable, in the order in which an evaluation comes by them: what a
/// statement binds first.
pub(crate) fn each_in_body(body: &mut Body, on: &mut dyn FnMut(&mut Slot)) {
    body.iter_mut().for_each(|stmt| each_in_stmt(stmt, on));
}

/// As [`each_in_body`].
pub(crate) fn each_in_stmt(stmt: &mut Stmt, on: &mut dyn FnMut(&mut Slot)) {
    match &mut stmt.kind {
        StmtKind::Test(source) => each_in_source(source, on),
        StmtKind::Match(source, pattern) => {
            each_in_source(source, on);
            each_in_pattern(pattern, on);
        }
        StmtKind::Not(body) => each_in_body(body, on),
        StmtKind::Any(bodies) | StmtKind::Each(bodies) => {
            bodies.iter_mut().for_each(|body| each_in_body(body, on));
        }
        StmtKind::Every(every) => {
            each_in_term(&mut every.domain, on);
            each_in_pattern(&mut every.key, on);
            each_in_pattern(&mut every.value, on);
            each_in_body(&mut every.body, on);
        }
        // Programs with such statements are left alone.
        StmtKind::With(_, body) => each_in_body(body, on),
    }
}

fn each_in_source(source: &mut Source, on: &mut dyn FnMut(&mut Slot)) {
    match source {
        Source::Term(term) => each_in_term(term, on),
        Source::Ref(reference) => {
            if let Base::Term(term) = &mut reference.base {
                each_in_term(term, on);
            }
            for step in &mut reference.path {
                match step {
                    Operand::Key(term) => each_in_term(term, on),
                    Operand::Each(pattern) => each_in_pattern(pattern, on),
                }
            }
        }
        Source::Comprehension(comprehension) => {
            comprehension.captures.iter_mut().for_each(&mut *on);
            comprehension.captures.sort_unstable();
            each_in_body(&mut comprehension.body, on);
            match &mut comprehension.head {
                Collect::Array(term) | Collect::Set(term) => each_in_term(term, on),
                Collect::Object(key, value) => {
                    each_in_term(key, on);
                    each_in_term(value, on);
                }
            }
        }
        Source::Call(call) => call.args.iter_mut().for_each(|arg| each_in_term(arg, on)),
    }
}

/// As [`each_in_body`].
pub(crate) fn each_in_pattern(pattern: &mut Pattern, on: &mut dyn FnMut(&mut Slot)) {
    match pattern {
        Pattern::Any => {}
        Pattern::Bind(slot) => on(slot),
        Pattern::Equal(term) => each_in_term(term, on),
        Pattern::Array(items) => items.iter_mut().for_each(|item| each_in_pattern(item, on)),
        Pattern::Object(entries) => {
            for (key, item) in entries {
                each_in_term(key, on);
                each_in_pattern(item, on);
            }
        }
    }
}

/// As [`each_in_body`].
pub(crate) fn each_in_term(term: &mut Term, on: &mut dyn FnMut(&mut Slot)) {
    match term {
        Term::Const(_) | Term::ConstSet(_) => {}
        Term::Local(slot) => on(slot),
        Term::Array(items) | Term::Set(items) => {
            items.iter_mut().for_each(|item| each_in_term(item, on));
        }
        Term::Object(entries) => {
            for (key, value) in entries {
                each_in_term(key, on);
                each_in_term(value, on);
            }
        }
    }
}
