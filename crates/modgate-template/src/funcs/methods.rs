//! Methods of the values that have some.

use crate::{funcs::Function, val::Val};

/// The method `name` of `receiver`, whose first argument is the receiver.
pub(crate) fn method(_receiver: &Val<'_>, _name: &str) -> Option<&'static Function> {
    None
}
