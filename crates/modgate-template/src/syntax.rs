//! From text to syntax tree, as Go's `text/template/parse` reads it.

mod ast;
mod lex;
mod number;
mod parse;
mod print;

pub(crate) use ast::{
    Branch, BranchKind, Command, Expr, ExprKind, Fields, Literal, Node, Pipeline, Pos, Tree, Trees,
    VarId,
};
pub(crate) use number::{Number, parse_float, parse_int, parse_uint};
pub(crate) use parse::{MAX_TEXT, parse};
