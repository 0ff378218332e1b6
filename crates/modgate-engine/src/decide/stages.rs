//! Which stages of a request are run.

/// The stages that a webhook or a command runs; each is one of the constants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stages {
    /// Gatekeeper's mutators.
    pub(super) mutators: bool,
    /// Patch rules.
    pub(super) patches: bool,
    /// Reject rules.
    pub(super) rejects: bool,
    /// The checks of Gatekeeper's own resources, and the constraints.
    pub(super) constraints: bool,
    /// Whether a stage is left out where the configuration of its webhook would not let the API
    /// server send the request. Without it, the API server has seen to that.
    pub(super) as_configured: bool,
}

impl Stages {
    const NONE: Self = Self {
        mutators: false,
        patches: false,
        rejects: false,
        constraints: false,
        as_configured: false,
    };

    /// KubeMod's webhook: Patch rules, then Reject rules.
    pub const MODRULES: Self = Self { patches: true, rejects: true, ..Self::NONE };

    /// Reject rules on the object as it is.
    pub const REJECTIONS: Self = Self { rejects: true, ..Self::NONE };

    /// Gatekeeper's mutating webhook.
    pub const MUTATORS: Self = Self { mutators: true, ..Self::NONE };

    /// Both mutating webhooks in one, each for what its own configuration lets through.
    pub const UNIFIED: Self = Self { mutators: true, as_configured: true, ..Self::MODRULES };

    /// Gatekeeper's validating webhook.
    pub const CONSTRAINTS: Self = Self { constraints: true, ..Self::NONE };

    /// All webhooks, as the API server calls them.
    pub const ALL: Self = Self { constraints: true, ..Self::UNIFIED };

    /// The same, each left out where the configuration of its webhook leaves the request out.
    #[must_use]
    pub const fn as_configured(self) -> Self {
        Self { as_configured: true, ..self }
    }

    pub(super) const fn runs_modrules(self) -> bool {
        self.patches || self.rejects
    }
}
