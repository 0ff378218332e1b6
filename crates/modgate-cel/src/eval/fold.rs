//! Macros over lists and maps: `all`, `exists`, `exists_one`, `filter`, `map` and their like.

use bumpalo::collections::Vec as BumpVec;

use super::{Local, Machine};
use crate::{
    ast::Macro,
    code::{Fold, Node},
    cost,
    error::{EvalError, Result, failed},
    value::{Val, go_type},
};

/// The accumulator of a macro.
enum Gathered<'a> {
    Truth(bool),
    Count(usize),
    List(BumpVec<'a, Val<'a>>),
    Map(Vec<(Val<'a>, Val<'a>)>),
}

impl<'a> Machine<'_, 'a> {
    pub(super) fn fold(&mut self, fold: &'a Fold) -> Result<Val<'a>> {
        let range = self.eval(&fold.range)?;
        let is_list = range.is_list();
        if !is_list && !range.is_map() {
            let name = go_type(range);
            return failed(if fold.two {
                format!("unsupported comprehension range type: {name}")
            } else {
                format!("got '{name}', expected iterable type")
            });
        }
        let depth = self.locals.len();
        let mut gathered = match fold.which {
            Macro::All => Gathered::Truth(true),
            Macro::Exists => Gathered::Truth(false),
            Macro::ExistsOne => Gathered::Count(0),
            Macro::TransformMap | Macro::TransformMapEntry => Gathered::Map(Vec::new()),
            _ => Gathered::List(BumpVec::new_in(self.heap.arena)),
        };
        let mut error = None;
        for index in 0..range.entries().unwrap_or(0) {
            let (key, only) = if is_list && !fold.two {
                let Some(item) = range.item(index) else { break };
                self.rename(depth, item);
                (Val::Null, item)
            } else {
                let Some((key, value)) = range.entry(index) else { break };
                self.locals.truncate(depth);
                let only = if is_list { value } else { key };
                self.locals.push(Local::Value(if fold.two { key } else { only }));
                if fold.two {
                    self.locals.push(Local::Value(value));
                }
                (key, only)
            };
            self.heap.budget.spend(1)?;
            if let Gathered::Truth(truth) = gathered {
                let exists = fold.which == Macro::Exists;
                // The loop's condition, read before every element, also the one it stops at.
                self.charge(if exists { 3 } else { 2 })?;
                if error.is_none() && truth == exists {
                    break;
                }
                match self.quantify(fold, exists, error.as_ref()) {
                    Ok(Some(truth)) => {
                        gathered = Gathered::Truth(truth);
                        error = None;
                    }
                    Ok(None) => {}
                    Err(found) if found.is_value() => error = error.or(Some(found)),
                    Err(found) => return Err(found),
                }
                continue;
            }
            match self.step(fold, &mut gathered, error.is_some(), key, only) {
                Ok(()) => {}
                Err(Step { error: found, .. }) if !found.is_value() => return Err(found),
                Err(Step { error: found, replaces }) => {
                    if replaces || error.is_none() {
                        error = Some(found);
                    }
                }
            }
        }
        self.charge(1)?;
        if fold.which == Macro::ExistsOne {
            self.charge(1)?;
        }
        if let Some(error) = error {
            return Err(error);
        }
        match gathered {
            Gathered::Truth(truth) => Ok(Val::Bool(truth)),
            Gathered::Count(count) => Ok(Val::Bool(count == 1)),
            Gathered::List(items) => self.heap.built_list(items),
            Gathered::Map(entries) => self.heap.map(&entries),
        }
    }

    /// Gives the name at a place in scope, the last one, another value.
    #[inline]
    fn rename(&mut self, place: usize, value: Val<'a>) {
        match self.locals.get_mut(place) {
            Some(slot) => {
                *slot = Local::Value(value);
                self.locals.truncate(place + 1);
            }
            None => self.locals.push(Local::Value(value)),
        }
    }

    /// One element of `all` or `exists`: what it decides, if anything.
    fn quantify(
        &mut self,
        fold: &'a Fold,
        exists: bool,
        error: Option<&EvalError>,
    ) -> Result<Option<bool>> {
        self.charge(1)?;
        let truth = self.truth(&fold.body)?;
        Ok((truth == exists || error.is_none()).then_some(truth))
    }

    /// One element of the other macros.
    fn step(
        &mut self,
        fold: &'a Fold,
        gathered: &mut Gathered<'a>,
        failed_before: bool,
        key: Val<'a>,
        only: Val<'a>,
    ) -> std::result::Result<(), Step> {
        let condition = match fold.which {
            Macro::ExistsOne | Macro::Filter => Some(&fold.body),
            _ => fold.filter.as_ref(),
        };
        if let Some(condition) = condition
            && !self.truth(condition).map_err(|error| Step { error, replaces: true })?
        {
            return Ok(());
        }
        let constant = matches!(fold.body, Node::Constant(_));
        match gathered {
            Gathered::Count(count) => {
                self.charge(2)?;
                *count += 1;
            }
            Gathered::List(items) if fold.which == Macro::Filter => {
                self.charge(3 + cost::LIST)?;
                self.heap.add(items, only)?;
            }
            Gathered::List(items) => {
                let value = self.value(&fold.body)?;
                self.charge(if constant { 2 } else { 2 + cost::LIST })?;
                self.heap.add(items, value?)?;
            }
            Gathered::Map(entries) if fold.which == Macro::TransformMap => {
                self.charge(1)?;
                if failed_before {
                    return Ok(());
                }
                self.charge(1)?;
                let value = self.value(&fold.body)?;
                self.charge(1)?;
                self.heap.insert(entries, key, value?)?;
            }
            Gathered::Map(entries) => {
                let made = self.value(&fold.body)?;
                self.charge(2)?;
                let made = made?;
                if !made.is_map() {
                    let text =
                        format!("no such overload: cel.@mapInsert(map, {})", made.type_name());
                    return Err(EvalError::Failed(text).into());
                }
                for index in 0..made.entries().unwrap_or(0) {
                    let Some((key, value)) = made.entry(index) else { break };
                    self.heap.insert(entries, key, value)?;
                }
            }
            Gathered::Truth(_) => {}
        }
        Ok(())
    }
}

/// How an element failed.
struct Step {
    error: EvalError,
    /// Whether the error takes the place of an earlier one.
    replaces: bool,
}

impl From<EvalError> for Step {
    fn from(error: EvalError) -> Self {
        Self { error, replaces: false }
    }
}
