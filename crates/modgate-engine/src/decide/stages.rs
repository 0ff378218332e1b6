//! Which stages of a request are run.

use modgate_api::constraints::EnforcementPoint;

use crate::{ServedPolicies, admissionpolicy::Bindings};

/// The stages that a webhook or a command runs; each is one of the constants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stages {
    /// MutatingAdmissionPolicies, before everything else.
    pub(super) mutating_policies: bool,
    /// ValidatingAdmissionPolicies, before the validating webhook.
    pub(super) validating_policies: bool,
    /// Gatekeeper's mutators.
    pub(super) mutators: bool,
    /// Patch rules.
    pub(super) patches: bool,
    /// Reject rules.
    pub(super) rejects: bool,
    /// The resultants of the object.
    pub(super) expansion: bool,
    /// The constraints.
    pub(super) constraints: bool,
    /// Whether constraints see the object as it was given, and mutators show in what it expands to
    /// only: `gator test`.
    pub(super) as_given: bool,
    pub(super) caller: Caller,
}

/// The caller of the stages. It determines which of them a request reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Caller {
    /// The API server, which sends what the configuration of the webhook lets through.
    ApiServer,
    /// A command that stands for the API server: a stage is left out where the configuration of its
    /// webhook would not let the API server send the request.
    Command,
    /// gator, which has no installation: the checks of Gatekeeper's own resources and the exclusions
    /// of its Config are left out. What expands is an object, not a request.
    Gator,
}

impl Stages {
    const NONE: Self = Self {
        mutating_policies: false,
        validating_policies: false,
        mutators: false,
        patches: false,
        rejects: false,
        expansion: false,
        constraints: false,
        as_given: false,
        caller: Caller::ApiServer,
    };

    /// KubeMod's webhook: Patch rules, then Reject rules.
    pub const MODRULES: Self = Self { patches: true, rejects: true, ..Self::NONE };

    /// Reject rules on the object as it is.
    pub const REJECTIONS: Self = Self { rejects: true, ..Self::NONE };

    /// Gatekeeper's mutating webhook.
    pub const MUTATORS: Self = Self { mutators: true, ..Self::NONE };

    /// Both mutating webhooks in one, each for what its own configuration lets through.
    pub const UNIFIED: Self = Self { mutators: true, caller: Caller::Command, ..Self::MODRULES };

    /// Gatekeeper's validating webhook: the checks of its own resources, the expansion and the
    /// constraints.
    pub const CONSTRAINTS: Self = Self { expansion: true, constraints: true, ..Self::NONE };

    /// The MutatingAdmissionPolicies that a webhook evaluates.
    pub const MUTATING_POLICIES: Self = Self { mutating_policies: true, ..Self::NONE };

    /// The ValidatingAdmissionPolicies that a webhook evaluates.
    pub const VALIDATING_POLICIES: Self = Self { validating_policies: true, ..Self::NONE };

    /// The cluster's own policies and all webhooks, as the API server calls them.
    pub const ALL: Self = Self {
        mutating_policies: true,
        validating_policies: true,
        expansion: true,
        constraints: true,
        ..Self::UNIFIED
    };

    /// `gator expand`: what the mutated object expands to.
    pub const EXPAND: Self =
        Self { mutators: true, expansion: true, caller: Caller::Gator, ..Self::NONE };

    /// `gator test`: constraints on the object as it is, and on what the mutated object expands to.
    pub const TEST: Self = Self { constraints: true, as_given: true, ..Self::EXPAND };

    /// The changes of a case of `gator verify`: MutatingAdmissionPolicies, mutators, then ModRules.
    pub const SUITE_CHANGES: Self =
        Self { mutating_policies: true, mutators: true, caller: Caller::Gator, ..Self::MODRULES };

    /// ValidatingAdmissionPolicies, for a case of `verify`.
    pub const SUITE_POLICIES: Self = Self { caller: Caller::Gator, ..Self::VALIDATING_POLICIES };

    /// The assertions of a case of `gator verify`: constraints, also on what the object expands to.
    pub const SUITE_CONSTRAINTS: Self = Self { caller: Caller::Gator, ..Self::CONSTRAINTS };

    /// The same, each left out where the configuration of its webhook leaves the request out.
    #[must_use]
    pub const fn as_configured(self) -> Self {
        Self { caller: Caller::Command, ..self }
    }

    /// The stages of webhooks and commands, by name.
    const NAMED: [(&'static str, Self); 8] = [
        ("modrules", Self::MODRULES),
        ("rejections", Self::REJECTIONS),
        ("mutators", Self::MUTATORS),
        ("unified", Self::UNIFIED),
        ("constraints", Self::CONSTRAINTS),
        ("mutating-policies", Self::MUTATING_POLICIES),
        ("validating-policies", Self::VALIDATING_POLICIES),
        ("all", Self::ALL),
    ];

    /// The name of the stages of a webhook or a command; `None` for those of gator.
    pub fn name(self) -> Option<&'static str> {
        Self::NAMED.iter().find(|(_, stages)| *stages == self).map(|(name, _)| *name)
    }

    /// The stages of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::NAMED.iter().find(|(of, _)| *of == name).map(|(_, stages)| *stages)
    }

    /// Where the actions of constraints are enforced.
    pub(super) const fn point(self) -> EnforcementPoint {
        match self.caller {
            Caller::ApiServer | Caller::Command => EnforcementPoint::Webhook,
            Caller::Gator => EnforcementPoint::Gator,
        }
    }

    /// Which bindings of the cluster's own policies count; `None` for none. A command stands for the
    /// API server and for the webhooks.
    pub(super) const fn bindings(self, served: ServedPolicies) -> Option<Bindings> {
        match (self.caller, served) {
            (Caller::Command | Caller::Gator, _) => Some(Bindings::All),
            (Caller::ApiServer, ServedPolicies::Off) => None,
            (Caller::ApiServer, ServedPolicies::Marked) => Some(Bindings::Modgate),
            (Caller::ApiServer, ServedPolicies::All) => Some(Bindings::Taken),
        }
    }

    pub(super) const fn runs_modrules(self) -> bool {
        self.patches || self.rejects
    }

    pub(super) const fn validates(self) -> bool {
        self.expansion || self.constraints
    }
}
