//! Which rules of a function can succeed, by what one argument is.
//!
//! Policies write tables as functions, a rule a row: `multiple("Ki") := 1024`. Only the rows with
//! the argument's text need to be tried.

use std::collections::HashMap;

use crate::ir::{Constant, Group, GroupKind, Index, Pattern, Rule, RuleId, Term};

/// Fewer rules are tried one after the other faster than they are looked up.
const MIN_RULES: usize = 4;

/// The index of a group, if every rule of it requires some text of the same argument.
pub(crate) fn of_group(group: &Group, rules: &[Rule], constants: &[Constant]) -> Option<Index> {
    let GroupKind::Function { arity } = group.kind else { return None };
    if group.rules.len() < MIN_RULES {
        return None;
    }
    (0..arity).find_map(|arg| of_argument(group, rules, constants, arg))
}

fn of_argument(group: &Group, rules: &[Rule], constants: &[Constant], arg: usize) -> Option<Index> {
    let mut by_text: HashMap<_, Vec<RuleId>> = HashMap::new();
    for id in &group.rules {
        let Pattern::Equal(Term::Const(text)) = rules.get(id.0 as usize)?.args.get(arg)? else {
            return None;
        };
        let Constant::String(text) = constants.get(text.0 as usize)? else { return None };
        by_text.entry(text.clone()).or_default().push(*id);
    }
    Some(Index { arg, by_text })
}
