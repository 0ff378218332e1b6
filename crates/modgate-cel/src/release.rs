//! Releases of the original.

/// The release of cel-go whose results expressions have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Release {
    /// Kubernetes 1.36 contains it.
    V0_26,
    /// Gatekeeper 3.23 contains it.
    #[default]
    V0_30,
}
