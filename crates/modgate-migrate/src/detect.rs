//! Which decisions an object shows to be affected by.
//!
//! Each detector implements one row of `docs/compatibility.md` and looks for what in an object makes
//! that row matter. A row that no object can show, because it depends on requests, has none.

mod gatekeeper;
mod kubemod;
mod webhooks;

use modgate_api::modrule;
use modgate_engine::Snapshot;

use crate::{
    difference::Difference,
    object::{InstalledObject, is_policy},
};

/// Every difference, in the order of the objects.
pub(crate) fn differences(objects: &[InstalledObject], snapshot: &Snapshot) -> Vec<Difference> {
    let mut all = Vec::new();
    for found in objects {
        let mut about = About { found, differences: &mut all };
        if found.group() == modrule::GROUP {
            kubemod::rule(&mut about, snapshot.config());
        } else if is_policy(found) {
            gatekeeper::policy(&mut about, objects);
        } else {
            webhooks::configuration(&mut about);
        }
    }
    kubemod::order(objects, &mut all);
    all
}

/// Collects what is said of one object.
struct About<'a> {
    found: &'a InstalledObject,
    differences: &'a mut Vec<Difference>,
}

impl About<'_> {
    fn say(&mut self, decision: &'static str, field: impl Into<String>, sentence: &str) {
        let field = field.into();
        self.differences.push(Difference {
            object: self.found.subject(),
            decision,
            place: self.found.place(&field),
            field,
            sentence: sentence.to_owned(),
        });
    }
}
