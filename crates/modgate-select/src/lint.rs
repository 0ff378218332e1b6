//! What is legal but probably not meant.

use modgate_value::diag::Span;

use crate::ast::Node;

/// Something legal that is probably not what the author meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lint {
    /// The quirk it is about, such as `Q-04` (spec `kubemod.md`, section 9).
    pub id: &'static str,
    /// What happens.
    pub message: String,
    /// The part of the expression it is about.
    pub span: Span,
    /// What to write instead.
    pub help: Option<String>,
}

pub(crate) fn lints(_node: &Node) -> Vec<Lint> {
    Vec::new()
}
