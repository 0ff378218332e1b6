//! Sets whose rules are shared one by one.
//!
//! Of the rules of a set some depend on the parameters and most do not. Evaluations of several constraints
//! of a template share the latter, if what each rule adds to the set is a document of its own.

use crate::ir::{Group, GroupId, GroupKind, Operand, Rule, Source, Stmt, StmtKind};

/// Rules of fewer statements are as soon evaluated as looked up.
const MIN_STATEMENTS: usize = 3;

/// Most rules that become a document.
const MAX_PARTS: usize = 256;

/// Makes documents of the rules that are worth it.
pub(super) fn split(rules: &mut [Rule], groups: &mut Vec<Group>) {
    let mut parts = Vec::new();
    for group in groups.iter() {
        if group.kind != GroupKind::Set || group.rules.len() < 2 {
            continue;
        }
        for id in &group.rules {
            let Ok(part) = u32::try_from(groups.len() + parts.len()) else { return };
            match rules.get_mut(id.0 as usize) {
                Some(rule) if parts.len() < MAX_PARTS && is_worth_it(rule) => {
                    rule.part = Some(GroupId(part));
                    let (path, rules) = (group.path.clone(), vec![*id]);
                    let kind = GroupKind::Part;
                    parts.push(Group { path, kind, rules, default: None, index: None });
                }
                _ => {}
            }
        }
    }
    groups.extend(parts);
}

/// Whether a rule may take much longer than to look up what it adds.
fn is_worth_it(rule: &Rule) -> bool {
    let statements = rule.branches.iter().map(|branch| branch.body.len()).sum::<usize>();
    statements >= MIN_STATEMENTS
        && rule.branches.iter().any(|branch| branch.body.iter().any(iterates))
}

fn iterates(stmt: &Stmt) -> bool {
    let (StmtKind::Test(source) | StmtKind::Match(source, _)) = &stmt.kind else { return false };
    let Source::Ref(reference) = source else { return false };
    reference.path.iter().any(|step| matches!(step, Operand::Each(_)))
}
