//! References step by step.
//!
//! `container.resources.limits.cpu` and `container.resources.limits.memory` have two steps in common, which
//! shows when each step is a statement. What turns out to be alone becomes one statement again.

use crate::ir::{Base, Body, Operand, Pattern, Ref, Slot, Source, Stmt, StmtKind, Term, slots};

/// The same statements, in which references from variables have one step each. The variables that come to
/// those of the frame are read once.
pub(super) fn split(body: &[Stmt], mut frame: u32) -> Body {
    let mut out = Vec::with_capacity(body.len());
    for stmt in body {
        let mut stmt = stmt.clone();
        if let StmtKind::Test(Source::Ref(reference)) | StmtKind::Match(Source::Ref(reference), _) =
            &mut stmt.kind
            && matches!(reference.base, Base::Term(Term::Local(_)))
            && reference.path.iter().all(is_constant)
        {
            while reference.path.len() > 1 {
                let path = vec![reference.path.remove(0)];
                let to = Slot(frame);
                frame = frame.saturating_add(1);
                let base = std::mem::replace(&mut reference.base, Base::Term(Term::Local(to)));
                let kind = StmtKind::Match(Source::Ref(Ref { base, path }), Pattern::Bind(to));
                out.push(Stmt { kind, span: stmt.span, generated: true });
            }
        }
        out.push(stmt);
    }
    out
}

fn is_constant(step: &Operand) -> bool {
    matches!(step, Operand::Key(Term::Const(_)))
}

/// Puts steps together that nothing else begins at. `kept` are variables that are read elsewhere.
pub(super) fn join(body: &mut Body, kept: &[Slot]) {
    let mut index = 0;
    while index + 1 < body.len() {
        match joined(body, index, kept) {
            Some(stmt) => {
                body.splice(index..index + 2, [stmt]);
            }
            None => index += 1,
        }
    }
}

/// The variable that a reference of constant steps is bound to.
fn bound(stmt: &Stmt) -> Option<Slot> {
    match &stmt.kind {
        StmtKind::Match(Source::Ref(reference), Pattern::Bind(slot))
            if reference.path.iter().all(is_constant) =>
        {
            Some(*slot)
        }
        _ => None,
    }
}

/// Two statements as one, if the second goes on where the first ends and nothing else does.
fn joined(body: &Body, index: usize, kept: &[Slot]) -> Option<Stmt> {
    let (first, second) = (body.get(index)?, body.get(index + 1)?);
    let slot = bound(first)?;
    let StmtKind::Match(Source::Ref(start), _) = &first.kind else { return None };
    let mut stmt = second.clone();
    let (StmtKind::Test(Source::Ref(end)) | StmtKind::Match(Source::Ref(end), _)) = &mut stmt.kind
    else {
        return None;
    };
    let goes_on = first.generated
        && matches!(&end.base, Base::Term(Term::Local(from)) if *from == slot)
        && end.path.iter().all(is_constant);
    if !goes_on || kept.contains(&slot) {
        return None;
    }
    let mut reads = 0;
    let mut rest: Body = body.get(index + 1..)?.to_vec();
    slots::each_in_body(&mut rest, &mut |other| reads += usize::from(*other == slot));
    if reads != 1 {
        return None;
    }
    let mut path = start.path.clone();
    path.append(&mut end.path);
    *end = Ref { base: start.base.clone(), path };
    Some(stmt)
}
