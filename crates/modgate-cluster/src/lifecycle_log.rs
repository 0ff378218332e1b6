//! Log lines that machines read: which templates and constraints come into force and go (TC-42,
//! ST-22).

use std::{collections::BTreeMap, sync::Arc, time::Instant};

use modgate_engine::{
    api::{constraints, templates},
    constraint::{CompiledConstraint, ConstraintKey},
};
use modgate_value::{Str, Value};

use super::{object::Key, reconcile::Reconcile, state::State};

/// Gatekeeper's logger name.
const LOGGER: &str = "controller";
const CONSTRAINTS: &str = "constraint_controller";
const TEMPLATES: &str = "constraint_template_controller";

/// Logs every template and constraint that has come into force or is gone.
#[derive(Default)]
pub(crate) struct LifecycleLog(InForce);

impl Reconcile for LifecycleLog {
    type Desired = InForce;

    fn desired(&mut self, state: &Arc<State>) -> InForce {
        InForce::of(state)
    }

    async fn apply(&mut self, now: InForce) -> Option<Instant> {
        now.announce(&self.0);
        self.0 = now;
        None
    }
}

/// Templates and constraints at one time.
#[derive(Debug, Default)]
pub(crate) struct InForce {
    /// Each as it was given, and why it does not load if it does not.
    templates: BTreeMap<Key, (Value, Option<String>)>,
    constraints: BTreeMap<ConstraintKey, Arc<CompiledConstraint>>,
}

impl InForce {
    fn of(state: &State) -> Self {
        let store = state.current.snapshot.constraints();
        let templates = state.of_kind(templates::GROUP, templates::KIND);
        let templates = templates.map(|(key, loaded)| {
            let source = store.template_source(&key.name);
            let is_in_force = source.is_some_and(|source| source.object == loaded.object);
            let error = (!is_in_force).then(|| {
                loaded.problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
            });
            (key.clone(), (loaded.object.clone(), error))
        });
        let constraints = store.constraints().map(|constraint| {
            let key =
                ConstraintKey { kind: constraint.kind().clone(), name: constraint.name().clone() };
            (key, Arc::clone(constraint))
        });
        Self { templates: templates.collect(), constraints: constraints.collect() }
    }

    fn announce(&self, before: &Self) {
        for (key, (object, error)) in &self.templates {
            let known = before.templates.get(key);
            if known.is_some_and(|(known, failed)| known == object && failed == error) {
                continue;
            }
            match (error, known) {
                (Some(error), _) => tracing::error!(
                    target: LOGGER, process = TEMPLATES, event_type = "template_ingest_error",
                    semantic = true, template_name = %key.name, %error,
                    "unable to ingest template"
                ),
                (None, Some((_, None))) => template(&key.name, "template_updated", "updated"),
                (None, _) => template(&key.name, "template_created", "created"),
            }
        }
        for name in before.templates.keys().filter(|key| !self.templates.contains_key(*key)) {
            template(&name.name, "template_deleted", "deleted");
        }
        for (key, constraint) in &self.constraints {
            let known = before.constraints.get(key);
            if known.is_none_or(|known| known.resource() != constraint.resource()) {
                let action = action(constraint);
                tracing::info!(
                    target: LOGGER, process = CONSTRAINTS, event_type = "constraint_added",
                    semantic = true, constraint_group = constraints::GROUP,
                    constraint_kind = %key.kind, constraint_name = %key.name,
                    constraint_action = %action, constraint_status = "enforced",
                    "constraint added to OPA"
                );
            }
        }
        for (key, constraint) in &before.constraints {
            if !self.constraints.contains_key(key) {
                let action = action(constraint);
                tracing::info!(
                    target: LOGGER, process = CONSTRAINTS, event_type = "constraint_removed",
                    semantic = true, constraint_group = constraints::GROUP,
                    constraint_kind = %key.kind, constraint_name = %key.name,
                    constraint_action = %action, constraint_status = "unenforced",
                    "constraint removed from OPA"
                );
            }
        }
    }
}

fn template(name: &Str, event_type: &'static str, what: &'static str) {
    tracing::info!(
        target: LOGGER, process = TEMPLATES, event_type, semantic = true, template_name = %name,
        "template was {what}"
    );
}

fn action(constraint: &CompiledConstraint) -> &str {
    let action = constraint.resource().path(&["spec", "enforcementAction"]);
    action.and_then(Value::as_str).filter(|action| !action.is_empty()).unwrap_or("deny")
}
