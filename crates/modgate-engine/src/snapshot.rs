//! Compiled policies, immutable.

use std::sync::Arc;

use modgate_api::modrule::{self as api, ModRule};
use modgate_value::DecodeError;

use crate::{
    Change, Decision, EngineConfig, Explanation, Host, OnError, PolicyId, PolicySource, Problem,
    Review, Severity,
    modrule::{self, CompiledModRule, Store},
};

/// Every policy there is, compiled; shared between threads by `Arc` and never changed.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    config: Arc<EngineConfig>,
    modrules: Arc<Store>,
}

/// What [`Snapshot::apply`] returns.
#[derive(Debug)]
pub struct Update {
    /// The next snapshot.
    pub snapshot: Snapshot,
    /// What is wrong with the policies that changed: errors, and warnings about those that loaded.
    pub problems: Vec<Problem>,
}

impl Update {
    /// Whether some policy did not load.
    pub fn has_errors(&self) -> bool {
        self.problems.iter().any(|problem| problem.severity == Severity::Error)
    }
}

impl Snapshot {
    /// A snapshot without policies.
    pub fn new(config: EngineConfig) -> Self {
        Self { config: config.into(), modrules: Arc::default() }
    }

    /// The settings it was made with.
    pub fn config(&self) -> &EngineConfig {
        &self.config
    }

    /// The snapshot after `changes`, applied in order. A policy that does not compile is reported
    /// and skipped; it never stops the others.
    #[must_use]
    pub fn apply(&self, changes: Vec<Change>, on_error: OnError) -> Update {
        let mut problems = Vec::new();
        let mut modrules = Vec::new();
        for change in changes {
            match change {
                Change::Remove(id) => modrules.push((id, None)),
                Change::Upsert(source) => {
                    let (id, compiled, mut found) = compile(&source, &self.config);
                    problems.append(&mut found);
                    match (compiled, on_error) {
                        (Some(rule), _) => modrules.push((id, Some(rule))),
                        (None, OnError::Unload) => modrules.push((id, None)),
                        (None, OnError::Keep) => {}
                    }
                }
            }
        }
        let modrules = if modrules.is_empty() {
            Arc::clone(&self.modrules)
        } else {
            self.modrules.with(modrules, &self.config.cluster_rules_namespaces).into()
        };
        Update { snapshot: Self { config: Arc::clone(&self.config), modrules }, problems }
    }

    /// The policies that are loaded, in the order in which they are visited.
    pub fn policies(&self) -> impl Iterator<Item = &PolicyId> {
        self.modrules.entries().iter().map(|entry| &entry.rule.id)
    }

    /// Patches the object, then asks the Reject rules about the result: KubeMod's dragnet webhook.
    pub fn mutate(&self, review: &Review, host: &dyn Host) -> Decision {
        modrule::mutate(&self.modrules, &self.config, review, host)
    }

    /// Asks the Reject rules about the object as it is.
    pub fn validate(&self, review: &Review, host: &dyn Host) -> Decision {
        modrule::validate(&self.modrules, &self.config, review, host)
    }

    /// What [`Snapshot::mutate`] does, and how each rule came to match or not.
    pub fn explain(&self, review: &Review, host: &dyn Host) -> Explanation {
        modrule::explain(&self.modrules, &self.config, review, host)
    }
}

fn compile(
    source: &PolicySource,
    config: &EngineConfig,
) -> (PolicyId, Option<CompiledModRule>, Vec<Problem>) {
    let mut id = source.id();
    let problem = |id: &PolicyId, field: &str, message: String| Problem {
        severity: Severity::Error,
        policy: id.clone(),
        origin: source.origin.clone(),
        position: source.position(field),
        field: field.to_owned(),
        text: None,
        span: None,
        message,
        help: None,
    };
    if !ModRule::is_modrule(&source.object) {
        let message =
            format!("not a policy: expected kind `{}` of `{}`", api::KIND, api::API_VERSION);
        let found = problem(&id, "", message);
        return (id, None, vec![found]);
    }
    if id.namespace.is_empty() {
        id.namespace = config.default_namespace.clone();
    }
    if id.name.is_empty() {
        let found = problem(&id, "metadata.name", "required: a policy must have a name".to_owned());
        return (id, None, vec![found]);
    }
    let rule = match ModRule::from_value(&source.object) {
        Ok(rule) => rule,
        Err(DecodeError { path, message }) => {
            let found = problem(&id, &path, message);
            return (id, None, vec![found]);
        }
    };
    let mut problems = modrule::unknown_fields(&id, source);
    match modrule::compile(&rule, &id, source, config) {
        Ok((compiled, warnings)) => {
            problems.extend(warnings);
            (id, Some(compiled), problems)
        }
        Err(errors) => {
            problems.extend(errors.into_iter().map(|error| error.into_problem(&id, source)));
            (id, None, problems)
        }
    }
}
