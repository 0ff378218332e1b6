//! Bodies compute equal parts once.
//!
//! Rules ask for `count(text)` or `container.image` again wherever they need it, and functions that stand in the
//! place of their calls ask for what was asked around them. The second time gives what the first one gave.

use crate::ir::{
    Base, Body, Branch, Builtin, Call, Callee, Collect, Leaf, Operand, Pattern, Ref, Rule, Slot,
    Source, Stmt, StmtKind, Term, slots,
};

/// Most values of a body that are remembered.
const MAX_KNOWN: usize = 64;

/// How deep bodies may nest in bodies.
const MAX_DEPTH: u32 = 32;

/// The same body, which computes less; `member` is read when it holds.
pub(super) fn body(body: &mut Body, member: &mut Term, builtins: &[Builtin]) {
    Once { builtins, known: Vec::new(), depth: 0 }.body(body, &mut [member]);
}

/// The same rule, which computes less.
pub(super) fn rule(rule: &mut Rule, builtins: &[Builtin]) {
    let mut keys = std::mem::take(&mut rule.keys);
    for (index, Branch { body, leaf, span: _ }) in rule.branches.iter_mut().enumerate() {
        let (Leaf::Value(term) | Leaf::Member(term)) = leaf;
        let mut after: Vec<&mut Term> = vec![term];
        if index == 0 {
            after.extend(&mut keys);
        }
        Once { builtins, known: Vec::new(), depth: 0 }.body(body, &mut after);
    }
    rule.keys = keys;
}

struct Once<'p> {
    builtins: &'p [Builtin],
    /// The sources that have been computed, and the variables that hold their values.
    known: Vec<(Source, Slot)>,
    depth: u32,
}

impl Once<'_> {
    /// `after` are the terms that are read when the body holds.
    fn body(&mut self, body: &mut Body, after: &mut [&mut Term]) {
        if self.depth >= MAX_DEPTH {
            return;
        }
        self.depth += 1;
        let outside = self.known.len();
        let mut index = 0;
        while let Some(stmt) = body.get_mut(index) {
            match self.stmt(stmt) {
                Some((old, new)) => {
                    body.remove(index);
                    let mut rename = |slot: &mut Slot| {
                        if *slot == old {
                            *slot = new;
                        }
                    };
                    for stmt in body.iter_mut().skip(index) {
                        slots::each_in_stmt(stmt, &mut rename);
                    }
                    after.iter_mut().for_each(|term| slots::each_in_term(term, &mut rename));
                }
                None => index += 1,
            }
        }
        self.known.truncate(outside);
        self.depth -= 1;
    }

    /// A variable, and the one that has its value already: then nothing needs the statement.
    fn stmt(&mut self, stmt: &mut Stmt) -> Option<(Slot, Slot)> {
        match &mut stmt.kind {
            StmtKind::Test(source) => {
                self.inside(source);
                if let Some(slot) = self.find(source) {
                    *source = Source::Term(Term::Local(slot));
                }
            }
            StmtKind::Match(source, pattern) => {
                self.inside(source);
                match (self.find(source), pattern) {
                    (Some(known), Pattern::Bind(slot)) => return Some((*slot, known)),
                    (Some(known), _) => *source = Source::Term(Term::Local(known)),
                    (None, Pattern::Bind(slot)) if self.is_once(source) => {
                        if self.known.len() < MAX_KNOWN {
                            self.known.push((source.clone(), *slot));
                        }
                    }
                    (None, _) => {}
                }
            }
            StmtKind::Not(body) => self.body(body, &mut []),
            StmtKind::Every(every) => self.body(&mut every.body, &mut []),
            StmtKind::Any(bodies) => {
                bodies.iter_mut().for_each(|body| self.body(body, &mut []));
            }
            // Programs with the former are left alone, and the latter are made of what went through here.
            StmtKind::With(..) | StmtKind::Each(_) => {}
        }
        None
    }

    fn inside(&mut self, source: &mut Source) {
        let Source::Comprehension(comprehension) = source else { return };
        let mut after: Vec<&mut Term> = match &mut comprehension.head {
            Collect::Array(term) | Collect::Set(term) => vec![term],
            Collect::Object(key, value) => vec![key, value],
        };
        self.body(&mut comprehension.body, &mut after);
    }

    fn find(&self, source: &Source) -> Option<Slot> {
        self.known.iter().find(|(known, _)| known == source).map(|(_, slot)| *slot)
    }

    /// Whether a source has one value at most, the same each time.
    fn is_once(&self, source: &Source) -> bool {
        match source {
            // To look a term up takes as long as to find it here.
            Source::Term(_) | Source::Comprehension(_) => false,
            Source::Ref(Ref { base, path }) => {
                let base = match base {
                    Base::Term(_) | Base::Input => true,
                    Base::InputAt(_) | Base::Data { .. } => false,
                };
                base && path.iter().all(|step| matches!(step, Operand::Key(_)))
            }
            Source::Call(Call { callee, .. }) => match callee {
                Callee::Function(_) => true,
                Callee::Builtin(id) => {
                    let run = self.builtins.get(id.0 as usize).and_then(|builtin| builtin.run);
                    run.is_some_and(|run| run.is_pure() && !run.relation)
                }
            },
        }
    }
}
