//! Sprig's defaults, flow control and reflection.

use crate::{
    cx::{Cx, Fault},
    equal::deep_equal,
    funcs::{Function, Ty},
    text::Text,
    val::Val,
};

use Ty::{Any, Bool, Text as S};

pub(super) const FUNCTIONS: &[Function] = &[
    Function::variadic("all", &[Any], |cx, args| {
        Ok(Val::Bool(!args.all().iter().any(|value| is_empty(cx, value))))
    }),
    Function::variadic("any", &[Any], |cx, args| {
        Ok(Val::Bool(args.all().iter().any(|value| !is_empty(cx, value))))
    }),
    Function::variadic("coalesce", &[Any], |cx, args| {
        let found = args.all().iter().find(|value| !is_empty(cx, value));
        Ok(found.cloned().unwrap_or(Val::Nil))
    }),
    Function::new("deepEqual", &[Any, Any], |cx, args| {
        deep_equal(cx, args.get(0), args.get(1)).map(Val::Bool)
    }),
    Function::variadic("default", &[Any, Any], |cx, args| {
        let given = args.rest(1).first().filter(|given| !is_empty(cx, given));
        Ok(given.unwrap_or(args.get(0)).clone())
    }),
    Function::new("empty", &[Any], |cx, args| Ok(Val::Bool(is_empty(cx, args.get(0))))),
    Function::new("fail", &[S], |_, args| Err(Fault::new(args.str(0)))),
    Function::new("kindIs", &[S, Any], |_, args| {
        Ok(Val::Bool(args.str(0) == args.get(1).kind().name()))
    }),
    Function::new("kindOf", &[Any], |_, args| Ok(Val::Text(Text::Ref(args.get(0).kind().name())))),
    Function::new("ternary", &[Any, Any, Bool], |_, args| {
        Ok(args.get(usize::from(!args.bool(2))).clone())
    }),
    Function::new("typeIs", &[S, Any], |_, args| {
        Ok(Val::Bool(args.str(0) == args.get(1).type_name()))
    }),
    Function::new("typeIsLike", &[S, Any], |_, args| {
        let (wanted, found) = (args.str(0), args.get(1).type_name());
        Ok(Val::Bool(wanted == found || found.strip_prefix('*') == Some(&*wanted)))
    }),
    Function::new("typeOf", &[Any], |_, args| Ok(Val::Text(Text::Ref(args.get(0).type_name())))),
];

/// Sprig's `empty`: the zero value of its type, or a list, map or string of length 0.
pub(crate) fn is_empty<'a>(cx: &Cx<'a>, value: &Val<'a>) -> bool {
    // Go's truth, but for structs and pointers, which both never count as empty.
    !super::builtin::truth(cx, value)
}
