//! The resources of a run of stages besides the policies.

use crate::{
    Host,
    constraint::{Arena, Inventory},
    cost::Meter,
};

/// The resources of a run besides the policies.
pub struct Evaluation<'a> {
    /// The host of policies.
    pub host: &'a dyn Host,
    /// The documents under `data.inventory`.
    pub inventory: &'a Inventory,
    /// Memory for one thread to keep; what was in it is forgotten.
    pub arena: &'a mut Arena,
    /// Where costs are counted, and when the answer is due.
    pub meter: Meter<'a>,
    /// Whether constraints may come before their templates: they are taken with a warning, and wait
    /// (AD-34).
    pub templates_may_follow: bool,
    /// Whether the caller reads [`Decision::object`](crate::Decision::object). Without it, that may be the object before the
    /// ModRules if no stage follows them: applying their patch takes as long as calculating it.
    pub wants_object: bool,
}

impl<'a> Evaluation<'a> {
    /// With these, and constraints after their templates.
    pub fn new(host: &'a dyn Host, inventory: &'a Inventory, arena: &'a mut Arena) -> Self {
        let meter = Meter::starting(host.uptime());
        Self { host, inventory, arena, meter, templates_may_follow: false, wants_object: true }
    }
}
