//! The settings of an operator.

use std::time::Duration;

use modgate_value::{Limits, Str};

use crate::{
    constraint::{ConstraintOptions, TemplateOptions},
    gatekeeper::Installation,
    mutation,
};

/// Settings of a snapshot; fixed for its life and that of the snapshots made from it.
#[derive(Debug, Clone)]
pub struct EngineConfig {
    /// Where and as what the engine runs, and who is exempt from what.
    pub installation: Installation,
    /// Namespaces whose ModRules may act cluster-wide: KubeMod's and modgate's own.
    pub cluster_rules_namespaces: Vec<Str>,
    /// Namespace of a namespaced policy that names none.
    pub default_namespace: Str,
    /// The behaviour when the Namespace or Node of an object does not exist or cannot be read.
    pub missing_reference: MissingReference,
    /// The parts of a Pod's Node that ModRules see.
    pub node_references: NodeReferences,
    /// The resources whose requests reach ModRules in one webhook with mutators
    /// ([`Stages::UNIFIED`](crate::Stages::UNIFIED)), by their plural names, `*` for all; `None` for those of KubeMod's webhook as shipped.
    pub modrule_resources: Option<Vec<Str>>,
    /// The options of ConstraintTemplates.
    pub templates: TemplateOptions,
    /// The options of constraints.
    pub constraints: ConstraintOptions,
    /// The options of mutators.
    pub mutators: mutation::Options,
    /// The budget of one request for ModRules.
    pub request_limits: Limits,
    /// The part of it that one rule may spend.
    pub rule_limits: Limits,
    /// The budget of mutation for one request.
    pub mutation_limits: Limits,
    /// The budget of expanding one object, mutators included.
    pub expansion_limits: Limits,
    /// Whether workloads are expanded (`--enable-generator-resource-expansion`).
    pub expansion: bool,
    /// Whether resultants are patched by ModRules, too (`--expand-modrules`). Gatekeeper's verdicts
    /// know nothing of ModRules.
    pub expand_modrules: bool,
    /// The budget of one review for constraints.
    pub review_limits: Limits,
    /// The part of it that one constraint may spend.
    pub constraint_limits: Limits,
    /// Which of the cluster's own policies the webhooks for them evaluate.
    pub admission_policies: ServedPolicies,
    /// How rules are found.
    pub lookup: Lookup,
}

/// Which bindings of the cluster's own policies the webhooks evaluate
/// ([`Bindings`](crate::admissionpolicy::Bindings)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ServedPolicies {
    /// None.
    Off,
    /// Those that name their policy as `NAME.modgate.sh`: the API server does not evaluate them.
    #[default]
    Marked,
    /// All: the API server has none of these policies.
    All,
}

/// How the rules that concern a request are found. Both ways give the same decisions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Lookup {
    /// By what their criteria require, so that rules for other objects cost nothing.
    #[default]
    Index,
    /// By asking each of them: the oracle the index is tested against.
    Scan,
}

/// The behaviour when the Namespace or Node of an object, its synthetic references, cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MissingReference {
    /// One that does not exist is an empty object, with a warning, and every rule runs. Rules that
    /// look at one that could not be read are undecided: Reject rules deny, patches are dropped.
    #[default]
    Empty,
    /// Admit the object without looking at any rule, as KubeMod does.
    Allow,
    /// Deny the request.
    Deny,
}

/// The parts of a Pod's Node that ModRules see, by the namespace of the rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeReferences {
    /// Rules of any namespace but the cluster-rules namespaces.
    pub namespaced: NodeView,
    /// Rules of the cluster-rules namespaces.
    pub cluster: NodeView,
}

/// How much of a Node a rule sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeView {
    /// `apiVersion`, `kind`, `metadata.name`, `metadata.labels` and `status.capacity`.
    Summary,
    /// All of it but `metadata.managedFields`, as in KubeMod.
    Full,
}

impl Default for NodeReferences {
    /// A user who may write ModRules in one namespace need not be allowed to read Nodes.
    fn default() -> Self {
        Self { namespaced: NodeView::Summary, cluster: NodeView::Full }
    }
}

impl Default for EngineConfig {
    fn default() -> Self {
        Self {
            installation: Installation::default(),
            cluster_rules_namespaces: ["kubemod-system", "modgate-system"].map(Str::from).to_vec(),
            default_namespace: "default".into(),
            missing_reference: MissingReference::default(),
            node_references: NodeReferences::default(),
            modrule_resources: None,
            templates: TemplateOptions::default(),
            constraints: ConstraintOptions::default(),
            mutators: mutation::Options::default(),
            // KubeMod's webhooks time out after 10 s (7.1); staying well below leaves room for
            // the API server's other plugins.
            request_limits: Limits {
                steps: 50_000_000,
                bytes: 64 << 20,
                time: Duration::from_secs(5),
            },
            rule_limits: Limits {
                steps: 10_000_000,
                bytes: 16 << 20,
                time: Duration::from_secs(2),
            },
            // Gatekeeper's mutating webhook times out after 1 s as shipped (4.4).
            mutation_limits: Limits {
                steps: 20_000_000,
                bytes: 64 << 20,
                time: Duration::from_millis(900),
            },
            expansion_limits: Limits {
                steps: 20_000_000,
                bytes: 64 << 20,
                time: Duration::from_secs(1),
            },
            expansion: true,
            expand_modrules: false,
            // Gatekeeper's webhook times out after 3 s as shipped (EV-50).
            review_limits: Limits {
                steps: 100_000_000,
                bytes: 128 << 20,
                time: Duration::from_millis(2500),
            },
            constraint_limits: Limits {
                steps: 20_000_000,
                bytes: 32 << 20,
                time: Duration::from_secs(2),
            },
            admission_policies: ServedPolicies::default(),
            lookup: Lookup::default(),
        }
    }
}
