//! The process in its cluster.

use modgate_value::Str;

/// The identity of this process in the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The namespace it is installed in.
    pub namespace: Str,
    /// Its Pod; none outside of a cluster, where nothing is reported per Pod.
    pub pod: Option<Str>,
}
