//! `.a.b.c`: members of maps, fields of structs, methods.

use modgate_value::Str;

use super::{At, Result, Run};
use crate::{
    Data,
    funcs::method,
    syntax::{Expr, ExprKind, Fields},
    text::Text,
    val::Val,
};

impl<'a> Run<'a> {
    /// `receiver.a.b.c` with the arguments of the command, which only a method may have.
    pub(super) fn fields(
        &mut self,
        dot: &Val<'a>,
        mut receiver: Val<'a>,
        node: &'a Expr,
        fields: &'a [Str],
        args: &'a [Expr],
        last: Option<Val<'a>>,
    ) -> Result<Val<'a>> {
        let Some((name, before)) = fields.split_last() else {
            return Ok(receiver);
        };
        for name in before {
            receiver = self.field(dot, &receiver, node, name, &[], None)?;
        }
        self.field(dot, &receiver, node, name, args, last)
    }

    /// `(…).a.b` and `function.a.b`.
    pub(super) fn chain(
        &mut self,
        dot: &Val<'a>,
        node: &'a Expr,
        (inner, fields): &'a (Expr, Fields),
        args: &'a [Expr],
        last: Option<Val<'a>>,
    ) -> Result<Val<'a>> {
        self.at = At::Expr(node);
        let receiver = match &inner.kind {
            ExprKind::Pipeline(pipe) => self.nested(dot, pipe)?,
            ExprKind::Function(function) => {
                self.at = At::Expr(inner);
                self.call(dot, function, At::Expr(inner), &[], None)?
            }
            ExprKind::Nil => {
                return self.fail(format!("indirection through explicit nil in {node}"));
            }
            _ => return self.fail(format!("can't handle {inner} for arg of type <nil>")),
        };
        self.at = At::Expr(node);
        self.fields(dot, receiver, node, fields, args, last)
    }

    fn field(
        &mut self,
        dot: &Val<'a>,
        receiver: &Val<'a>,
        node: &'a Expr,
        name: &'a str,
        args: &'a [Expr],
        last: Option<Val<'a>>,
    ) -> Result<Val<'a>> {
        if let Some(method) = method(receiver, name) {
            return self.call_method(dot, receiver, method, node, args, last);
        }
        let has_args = !args.is_empty() || last.is_some();
        let value = match receiver.pointed() {
            Val::Missing => return Ok(Val::Missing),
            Val::Nil => {
                return self.fail(format!("nil pointer evaluating interface {{}}.{name}"));
            }
            Val::Map(map) => {
                if has_args {
                    return self.fail(format!("{name} is not a method but has arguments"));
                }
                return Ok(self.cx.get(map, name).unwrap_or(Val::Missing));
            }
            Val::Context => self.context_field(name)?,
            Val::Certificate(pair) => match name {
                "Cert" => Some(Val::text(pair.certificate.clone())),
                "Key" => Some(Val::text(pair.key.clone())),
                _ => None,
            },
            _ => None,
        };
        let Some(value) = value else {
            return self.fail(format!(
                "can't evaluate field {name} in type {}",
                self.static_type(receiver)
            ));
        };
        if has_args {
            return self.fail(format!("{name} has arguments but cannot be invoked as function"));
        }
        Ok(value)
    }

    /// The type Go names in errors: whatever comes out of JSON data is an `interface {}` there.
    fn static_type(&self, receiver: &Val<'a>) -> &'static str {
        match receiver {
            Val::Context => match self.cx.data {
                Data::Patch(_) => "*core.PatchTemplateContext",
                _ => "core.RejectTemplateContext",
            },
            Val::Bool(_) | Val::Float(_) | Val::Text(_) | Val::List(_) | Val::Nil => "interface {}",
            other => other.type_name(),
        }
    }

    /// A field of KubeMod's context; `None` where it has no such field.
    fn context_field(&self, name: &str) -> Result<Option<Val<'a>>> {
        let (target, namespace) = match self.cx.data {
            Data::Value(_) => return Ok(None),
            Data::Patch(context) => (context.target, context.namespace),
            Data::Reject(context) => (context.target, context.namespace),
        };
        Ok(match (name, self.cx.data) {
            ("Target", _) => Some(Val::Pointer(target)),
            ("Namespace", _) => Some(Val::Text(Text::Ref(namespace))),
            ("SelectedItem", Data::Patch(context)) => {
                Some(context.selected_item.map_or(Val::Nil, Val::of_json))
            }
            ("SelectKeyParts", Data::Patch(context)) => {
                Some(self.lift(self.cx.key_parts(&context))?)
            }
            _ => None,
        })
    }
}
