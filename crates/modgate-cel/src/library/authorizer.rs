//! The authorizer's functions. They are declared as in Kubernetes, so that expressions are checked
//! alike; there is no authorizer, so nothing can be asked.

use super::Table;
use crate::{
    eval::{EvalError, Result},
    heap::Heap,
    value::Val,
};

pub(super) const FUNCTIONS: Table = &[
    ("allowed", none),
    ("check", none),
    ("error", none),
    ("errored", none),
    ("fieldSelector", none),
    ("group", none),
    ("labelSelector", none),
    ("name", none),
    ("namespace", none),
    ("path", none),
    ("reason", none),
    ("resource", none),
    ("serviceAccount", none),
    ("subresource", none),
];

fn none<'a>(_: Heap<'a>, _: &[Val<'a>]) -> Result<Val<'a>> {
    Err(EvalError::NoOverload)
}
