//! From text to syntax tree, as Go's `text/template/parse` reads it.

mod ast;
mod lex;
mod parse;
mod print;

pub(crate) use ast::{
    Branch, BranchKind, Call, Command, Expr, ExprKind, Fields, Node, Pipeline, Pos, Tree, Trees,
    VarId, Variable,
};
pub(crate) use parse::parse;
