//! The budget of a template, and the host functions it may call.

use std::{borrow::Cow, time::Duration};

use modgate_value::Budget;

/// Everything a rendering needs besides its data.
#[derive(Clone, Copy)]
pub struct Env<'a> {
    /// Charged one step per node and call, and for every byte of text and list built.
    pub budget: &'a Budget<'a>,
    /// Clock, randomness and names; see [`Host`].
    pub host: &'a dyn Host,
}

/// Time, randomness and look-ups for templates (spec `kubemod.md` Q-74).
///
/// Rendering itself reads no clock, random source or network. The functions that need one
/// ([`Template::impure_functions`](crate::Template::impure_functions)) ask here, and every method
/// may refuse, which makes the function an execution error.
pub trait Host {
    /// Time since the Unix epoch.
    ///
    /// # Errors
    ///
    /// When templates get no clock.
    fn now(&self) -> Result<Duration, Refused>;

    /// Fills `out` with cryptographically secure random bytes.
    ///
    /// # Errors
    ///
    /// When templates get no randomness.
    fn random_bytes(&self, out: &mut [u8]) -> Result<(), Refused>;

    /// One address of the host `name`; `None` when it has none.
    ///
    /// # Errors
    ///
    /// When templates get no network.
    fn resolve_host(&self, name: &str) -> Result<Option<String>, Refused>;

    /// IANA name of the zone that Sprig's `Local` stands for.
    fn local_zone(&self) -> &str {
        "UTC"
    }
}

/// A [`Host`] said no.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Refused {
    /// Why, as a lower-case fragment.
    pub reason: Cow<'static, str>,
}

impl Refused {
    /// A refusal for this reason.
    pub fn new(reason: impl Into<Cow<'static, str>>) -> Self {
        Self { reason: reason.into() }
    }
}

/// The host that refuses everything: templates are pure functions of their data.
#[derive(Debug, Clone, Copy, Default)]
pub struct Isolated;

impl Host for Isolated {
    fn now(&self) -> Result<Duration, Refused> {
        Err(Refused::new("templates have no access to the clock here"))
    }

    fn random_bytes(&self, _out: &mut [u8]) -> Result<(), Refused> {
        Err(Refused::new("templates have no access to randomness here"))
    }

    fn resolve_host(&self, _name: &str) -> Result<Option<String>, Refused> {
        Err(Refused::new("templates have no access to the network here"))
    }
}
