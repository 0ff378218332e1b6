//! Calling functions: arity, argument types, and the call itself.

use super::{At, Result, Run};
use crate::{
    funcs::{Args, Function, Ty, builtin::truth},
    syntax::{Expr, ExprKind},
    val::{List, ListKind, Map, Val},
};

impl<'a> Run<'a> {
    /// Calls `function`; `node` is what an error of the call itself points at.
    pub(super) fn call(
        &mut self,
        dot: &Val<'a>,
        function: &'static Function,
        node: At<'a>,
        args: &'a [Expr],
        last: Option<Val<'a>>,
    ) -> Result<Val<'a>> {
        self.spend(1)?;
        self.check_arity(function, args.len(), last.is_some())?;
        if function.short_circuits {
            return self.and_or(dot, function, args, last);
        }
        let mut values = Vec::with_capacity(args.len() + 1);
        self.arguments(dot, function, args, last, &mut values)?;
        self.invoke(function, node, &values)
    }

    /// Calls a method: a function whose first argument is the receiver.
    pub(super) fn call_method(
        &mut self,
        dot: &Val<'a>,
        receiver: &Val<'a>,
        method: &'static Function,
        node: &'a Expr,
        args: &'a [Expr],
        last: Option<Val<'a>>,
    ) -> Result<Val<'a>> {
        self.spend(1)?;
        self.check_arity(method, args.len(), last.is_some())?;
        let mut values = Vec::with_capacity(args.len() + 2);
        values.push(receiver.clone());
        self.arguments(dot, method, args, last, &mut values)?;
        self.invoke(method, At::Expr(node), &values)
    }

    fn invoke(
        &mut self,
        function: &'static Function,
        node: At<'a>,
        values: &[Val<'a>],
    ) -> Result<Val<'a>> {
        match (function.run)(&mut self.cx, Args(values)) {
            Ok(value) => Ok(value),
            Err(fault) => {
                self.at = node;
                match fault {
                    crate::cx::Fault::Failed(message) => {
                        self.fail(format!("error calling {}: {message}", function.name))
                    }
                    crate::cx::Fault::Exhausted(exhausted) => Err(self.exhausted(exhausted)),
                }
            }
        }
    }

    fn check_arity(&self, function: &Function, args: usize, piped: bool) -> Result<()> {
        let given = args + usize::from(piped);
        let name = function.name;
        let fixed = function.fixed();
        if function.variadic {
            if given < fixed {
                return self.fail(format!(
                    "wrong number of args for {name}: want at least {fixed} got {args}"
                ));
            }
        } else if given != fixed {
            return self.fail(format!("wrong number of args for {name}: want {fixed} got {given}"));
        }
        Ok(())
    }

    fn arguments(
        &mut self,
        dot: &Val<'a>,
        function: &'static Function,
        args: &'a [Expr],
        last: Option<Val<'a>>,
        values: &mut Vec<Val<'a>>,
    ) -> Result<()> {
        for (index, arg) in args.iter().enumerate() {
            values.push(self.argument(dot, function.param(index), arg)?);
        }
        if let Some(last) = last {
            values.push(self.validate(last, function.param(args.len()))?);
        }
        Ok(())
    }

    /// `and` and `or` evaluate no more arguments than they need.
    fn and_or(
        &mut self,
        dot: &Val<'a>,
        function: &Function,
        args: &'a [Expr],
        last: Option<Val<'a>>,
    ) -> Result<Val<'a>> {
        let stops_at = function.name == "or";
        let mut value = Val::Missing;
        for arg in args {
            value = self.argument(dot, Ty::Value, arg)?;
            if truth(&self.cx, &value) == stops_at {
                return Ok(value);
            }
        }
        Ok(last.unwrap_or(value))
    }

    fn argument(&mut self, dot: &Val<'a>, ty: Ty, expr: &'a Expr) -> Result<Val<'a>> {
        self.at = At::Expr(expr);
        let value = match &expr.kind {
            ExprKind::Dot => dot.clone(),
            ExprKind::Nil => {
                return match ty.zero() {
                    Some(zero) => Ok(zero),
                    None => self.fail(format!("cannot assign nil to {}", ty.name())),
                };
            }
            ExprKind::Field(fields) => self.fields(dot, dot.clone(), expr, fields, &[], None)?,
            ExprKind::Variable(variable) => self.variable(dot, expr, variable, &[], None)?,
            ExprKind::Pipeline(pipe) => self.nested(dot, pipe)?,
            ExprKind::Function(function) => self.call(dot, function, At::Expr(expr), &[], None)?,
            ExprKind::Chain(parts) => self.chain(dot, expr, parts, &[], None)?,
            ExprKind::Bool(_) | ExprKind::Number(_) | ExprKind::Text(_) => {
                return self.literal(ty, expr);
            }
        };
        self.validate(value, ty)
    }

    /// A constant where a type is expected.
    fn literal(&self, ty: Ty, expr: &'a Expr) -> Result<Val<'a>> {
        match (ty, &expr.kind) {
            (Ty::Any | Ty::Value, _) => self.constant(expr),
            (Ty::Text, ExprKind::Text(_)) | (Ty::Bool, ExprKind::Bool(_)) => self.constant(expr),
            (Ty::Int, ExprKind::Number(number)) if number.int.is_some() => {
                Ok(Val::Int(number.int.unwrap_or_default()))
            }
            (Ty::Uint32, ExprKind::Number(number)) if number.uint.is_some() =>
            {
                #[expect(clippy::cast_possible_truncation, reason = "as reflect.SetUint does")]
                Ok(Val::Uint32(number.uint.unwrap_or_default() as u32))
            }
            (Ty::Float, ExprKind::Number(number)) if number.float.is_some() => {
                Ok(Val::Float(number.float.unwrap_or_default()))
            }
            (Ty::Text, _) => self.fail(format!("expected string; found {expr}")),
            (Ty::Bool, _) => self.fail(format!("expected bool; found {expr}")),
            (Ty::Int, _) => self.fail(format!("expected integer; found {expr}")),
            (Ty::Uint32, _) => self.fail(format!("expected unsigned integer; found {expr}")),
            (Ty::Float, _) => self.fail(format!("expected float; found {expr}")),
            _ => self.fail(format!("can't handle {expr} for arg of type {}", ty.name())),
        }
    }

    /// The value as an argument of type `ty`.
    fn validate(&self, value: Val<'a>, ty: Ty) -> Result<Val<'a>> {
        match (ty, &value) {
            (Ty::Value, _) => Ok(value),
            (_, Val::Missing) => match ty.zero() {
                Some(zero) => Ok(zero),
                None => self.fail(format!("invalid value; expected {}", ty.name())),
            },
            (Ty::Any, _)
            | (Ty::Text, Val::Text(_))
            | (Ty::Bool, Val::Bool(_))
            | (Ty::Int, Val::Int(_))
            | (Ty::Uint32, Val::Uint32(_))
            | (Ty::Float, Val::Float(_))
            | (Ty::Time, Val::Time(_))
            | (Ty::Certificate, Val::Certificate(_))
            | (Ty::Version, Val::Version(_))
            | (Ty::Duration, Val::Duration(_)) => Ok(value),
            (Ty::Map, Val::Map(map)) if !map.holds_texts() => Ok(value),
            (Ty::List, Val::List(list)) if matches!(list.kind(), ListKind::Any | ListKind::Nil) => {
                Ok(value)
            }
            // The original cannot pass bare `.Target` to a map parameter (spec Q-46, a superset).
            (Ty::Map, Val::Pointer(pointed)) => match Val::of_json(pointed) {
                map @ Val::Map(_) => Ok(map),
                _ => self.wrong_type(&value, ty),
            },
            _ => self.wrong_type(&value, ty),
        }
    }

    fn wrong_type(&self, value: &Val<'a>, ty: Ty) -> Result<Val<'a>> {
        let got = if matches!(value, Val::Nil) { "interface {}" } else { value.type_name() };
        self.fail(format!("wrong type for value; expected {}; got {got}", ty.name()))
    }
}

impl Ty {
    /// `nil` as a value of this type, if the type has one.
    fn zero<'a>(self) -> Option<Val<'a>> {
        match self {
            Self::Any | Self::Version => Some(Val::Nil),
            Self::Value => Some(Val::Missing),
            Self::Map => Some(Val::Map(Map::Nil)),
            Self::List => Some(Val::List(List::nil())),
            _ => None,
        }
    }
}
