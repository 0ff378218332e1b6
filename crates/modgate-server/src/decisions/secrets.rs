//! The values of Secrets in messages of policies that can read them.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use modgate_engine::api::secrets::SecretValues;
use modgate_policies::PolicySet;

use crate::cut::cut;

/// So many bytes more of a text are looked at than are kept: a value that begins in these is hidden whole.
const AHEAD: usize = 4 << 10;

/// The values of the Secrets that policies read, kept for as long as the same policies and objects are in force.
#[derive(Debug, Default)]
pub(super) struct Secrets(Mutex<Option<(Weak<PolicySet>, Arc<SecretValues>)>>);

impl Secrets {
    pub(super) fn of(&self, policies: &Arc<PolicySet>) -> Arc<SecretValues> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, values)) = &*kept
            && Weak::ptr_eq(of, &Arc::downgrade(policies))
        {
            return Arc::clone(values);
        }
        let values = Arc::new(policies.secrets());
        *kept = Some((Arc::downgrade(policies), Arc::clone(&values)));
        values
    }
}

/// The text without these values, cut to so many bytes.
pub(super) fn cut_without(values: &SecretValues, text: &str, bytes: usize) -> String {
    let looked_at = text.get(..text.floor_char_boundary(bytes + AHEAD)).unwrap_or(text);
    cut(&values.hide(looked_at), bytes)
}
