//! The types of macros.
//!
//! cel-go checks what a macro expands to: a loop over a range with an accumulator, which a step
//! computes anew. The errors of those expressions, of which an author sees the macro only, are the
//! errors of the macro; so we give the types of the same expressions, in the same order.

use modgate_value::diag::Span;

use super::Checker;
use crate::{
    ast::{Expr, Macro},
    issue::Mistake,
    types::Type,
};

/// How many errors of an expression cel-go reports.
const MAX_REPORTED: usize = 100;

/// Names and their types while a part of a macro is checked.
type Names = Vec<(String, Type)>;

impl<'e> Checker<'e> {
    /// The type of a macro.
    pub(super) fn expanded(
        &mut self,
        which: Macro,
        target: &'e Expr,
        names: &[String],
        args: &'e [Expr],
        expr: &Expr,
    ) -> Type {
        let span = expr.span;
        match which {
            Macro::OptMap | Macro::OptFlatMap => self.optional(which, target, names, args, span),
            Macro::SortBy => {
                // `[]` is the range of the loop that only names the list.
                self.solution.fresh();
                let input = self.expr(target);
                let keys = self.mapped(&input, span, names, args, span);
                self.resolve("@sortByAssociatedKeys", true, &[input, keys], expr.id, span)
            }
            Macro::All | Macro::Exists => {
                let range = self.expr(target);
                let names = self.names(&range, target.span, names);
                for (body, found) in self.within(names, args) {
                    self.logical([(&Type::BOOL, span), (&found, body.span)]);
                }
                Type::BOOL
            }
            Macro::ExistsOne => {
                let range = self.expr(target);
                let names = self.names(&range, target.span, names);
                for (_, found) in self.within(names, args) {
                    let (sum, _) = self.overload("_+_", false, &[Type::INT, Type::INT], span);
                    self.choice(found, sum, Type::INT, span);
                }
                Type::BOOL
            }
            Macro::Map | Macro::TransformList => {
                let range = self.expr(target);
                self.mapped(&range, target.span, names, args, span)
            }
            Macro::Filter => {
                let range = self.expr(target);
                let kept = Type::list(self.solution.fresh());
                let names = self.names(&range, target.span, names);
                let element = names.first().map_or(Type::Dyn, |(_, ty)| ty.clone());
                for (_, found) in self.within(names, args) {
                    let one = Type::list(element.clone());
                    let (sum, _) = self.overload("_+_", false, &[kept.clone(), one], span);
                    let step = self.choice(found, sum, kept.clone(), span);
                    self.accumulate(&kept, &step, span);
                }
                self.solution.resolve(&kept, false)
            }
            Macro::TransformMap | Macro::TransformMapEntry => {
                self.inserted(which, target, names, args, span)
            }
        }
    }

    /// The types of the variables that run over a range.
    fn names(&mut self, range: &Type, span: Span, names: &[String]) -> Names {
        let range = self.solution.resolve(range, false);
        let pair = names.len() > 1;
        let (first, second) = match &range {
            Type::List(element) if pair => (Type::INT, element.as_ref().clone()),
            Type::List(element) => (element.as_ref().clone(), Type::Dyn),
            Type::Map(entry) => (entry.0.clone(), entry.1.clone()),
            Type::Dyn | Type::Error | Type::Param(_) => {
                self.solution.unify(&Type::Dyn, &range);
                (Type::Dyn, Type::Dyn)
            }
            other => (self.fail(span, Mistake::NoElements(other.clone())), Type::Error),
        };
        names.iter().cloned().zip([first, second]).collect()
    }

    /// The types of expressions that see these variables.
    fn within(&mut self, names: Names, args: &'e [Expr]) -> Vec<(&'e Expr, Type)> {
        let before = self.scope.len();
        self.scope.extend(names);
        let types = args.iter().map(|arg| (arg, self.expr(arg))).collect();
        self.scope.truncate(before);
        types
    }

    /// The type of `condition ? left : right`.
    fn choice(&mut self, condition: Type, left: Type, right: Type, span: Span) -> Type {
        self.overload("_?_:_", false, &[condition, left, right], span).0
    }

    /// The step of a loop must have the type of the accumulator.
    fn accumulate(&mut self, accumulator: &Type, step: &Type, span: Span) {
        if !self.solution.unify(accumulator, step) {
            self.wrong_type(span, accumulator.clone(), step);
        }
    }

    /// The type of `map` and `transformList` over a range, with or without a condition.
    fn mapped(
        &mut self,
        range: &Type,
        at: Span,
        names: &[String],
        args: &'e [Expr],
        span: Span,
    ) -> Type {
        let all = Type::list(self.solution.fresh());
        let names = self.names(range, at, names);
        let mut types = self.within(names, args).into_iter().map(|(_, ty)| ty);
        let condition = if args.len() > 1 { types.next() } else { None };
        let one = Type::list(types.next().unwrap_or(Type::Dyn));
        let (step, _) = self.overload("_+_", false, &[all.clone(), one], span);
        self.collected(&all, condition, step, span)
    }

    /// The type of `transformMap` and `transformMapEntry`.
    fn inserted(
        &mut self,
        which: Macro,
        target: &'e Expr,
        names: &[String],
        args: &'e [Expr],
        span: Span,
    ) -> Type {
        let range = self.expr(target);
        let all = Type::map(self.solution.fresh(), self.solution.fresh());
        let names = self.names(&range, target.span, names);
        let key = names.first().map_or(Type::Dyn, |(_, ty)| ty.clone());
        let mut types = self.within(names, args).into_iter().map(|(_, ty)| ty);
        let condition = if args.len() > 1 { types.next() } else { None };
        let value = types.next().unwrap_or(Type::Dyn);
        let given = match which {
            Macro::TransformMap => vec![all.clone(), key, value],
            _ => vec![all.clone(), value],
        };
        let (step, _) = self.overload("cel.@mapInsert", false, &given, span);
        self.collected(&all, condition, step, span)
    }

    /// The type of a loop that collects elements, those for which the condition holds.
    fn collected(
        &mut self,
        all: &Type,
        condition: Option<Type>,
        mut step: Type,
        span: Span,
    ) -> Type {
        if let Some(condition) = condition {
            step = self.choice(condition, step, all.clone(), span);
        }
        self.accumulate(all, &step, span);
        self.solution.resolve(all, false)
    }

    /// The type of `optMap` and `optFlatMap`.
    fn optional(
        &mut self,
        which: Macro,
        target: &'e Expr,
        names: &[String],
        args: &'e [Expr],
        span: Span,
    ) -> Type {
        let before = self.issues.len();
        let optional = self.expr(target);
        // The expansion has the target twice, and so its errors, up to as many as cel-go reports.
        let again = self.issues.get(before..).unwrap_or_default().to_vec();
        let (has, _) = self.overload("hasValue", true, std::slice::from_ref(&optional), span);
        // `[]` is the range of the loop that only names the value.
        self.solution.fresh();
        if self.issues.len() < MAX_REPORTED {
            self.issues.extend(again);
        }
        let (value, _) = self.overload("value", true, &[optional], span);
        let names = names.iter().cloned().map(|name| (name, value.clone())).collect();
        let mut types = self.within(names, args).into_iter().map(|(_, ty)| ty);
        let mut result = types.next().unwrap_or(Type::Dyn);
        if which == Macro::OptMap {
            result = self.overload("optional.of", false, &[result], span).0;
        }
        let (none, _) = self.overload("optional.none", false, &[], span);
        self.choice(has, result, none, span)
    }
}
