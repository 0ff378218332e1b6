//! The fields of its data that a template reads by name.

use modgate_value::Str;

use crate::syntax::{BranchKind, Command, Expr, ExprKind, Node, Pipeline, Trees};

/// The paths that the main template reads from its data: `.Target.kind` as `["Target", "kind"]`. Nothing
/// of what stands where `.` is something else: in `range`, `with` and templates with names of their own.
pub(crate) fn of_data(name: &str, trees: &Trees) -> Vec<Vec<Str>> {
    let mut found = Vec::new();
    if let Some(tree) = trees.get(name) {
        nodes(&tree.root, true, &mut found);
    }
    found
}

/// `is_data`: whether `.` is the data. `$` always is.
fn nodes(list: &[Node], is_data: bool, found: &mut Vec<Vec<Str>>) {
    for node in list {
        match node {
            Node::Action(pipe) => pipeline(pipe, is_data, found),
            Node::Branch(branch) => {
                pipeline(&branch.pipe, is_data, found);
                let keeps_dot = is_data && branch.kind == BranchKind::If;
                nodes(&branch.list, keeps_dot, found);
                nodes(branch.otherwise.as_deref().unwrap_or_default(), is_data, found);
            }
            Node::Template(call) => {
                call.pipe.iter().for_each(|pipe| pipeline(pipe, is_data, found));
            }
            Node::Text(_) | Node::Break | Node::Continue => {}
        }
    }
}

fn pipeline(pipe: &Pipeline, is_data: bool, found: &mut Vec<Vec<Str>>) {
    for Command { first, args, .. } in &pipe.commands {
        expr(first, is_data, found);
        args.iter().for_each(|arg| expr(arg, is_data, found));
    }
}

fn expr(it: &Expr, is_data: bool, found: &mut Vec<Vec<Str>>) {
    match &it.kind {
        ExprKind::Field(fields) if is_data => found.push(fields.to_vec()),
        ExprKind::Variable(it) if it.id == 0 && !it.fields.is_empty() => {
            found.push(it.fields.to_vec());
        }
        ExprKind::Pipeline(pipe) => pipeline(pipe, is_data, found),
        ExprKind::Chain(parts) => expr(&parts.0, is_data, found),
        _ => {}
    }
}
