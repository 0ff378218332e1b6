//! Workloads: what they expand to, and what constraints say of that (spec `gatekeeper-mutation…`,
//! 5.6 and 5.7).

use modgate_api::meta::Operation;
use modgate_value::Value;

use super::Snapshot;
use crate::{
    Host, Review,
    constraint::{Admission, Violation},
    cost::Meter,
    expansion::{ExpandOptions, ExpansionError, ExpansionRequest, PostProcess, Resultant},
    gatekeeper::{run_id, with_namespace},
    matching::Source,
    modrule,
};

/// How a generator is expanded.
#[derive(Clone, Copy)]
pub struct Expansion<'a> {
    /// The generator, with its kind and namespace.
    pub object: &'a Value,
    /// Its Namespace, where there is one and it is known.
    pub namespace: Option<&'a Value>,
    /// The operation on the generator; `None` in an audit and on the command line.
    pub operation: Option<Operation>,
    /// The user; empty where there is none.
    pub username: &'a str,
}

impl Expansion<'_> {
    /// The admission of a resultant, as constraints see it.
    pub(crate) fn admission(&self, resultant: &Resultant) -> Admission {
        Admission::of_object(resultant.object.clone(), self.namespace)
            .with_source(Some(Source::Generated))
            .with_operation(self.operation)
    }
}

/// Charges a violation of a generator's resultant number `index` to the generator (5.6).
pub(crate) fn charge(violation: &mut Violation, resultant: &Resultant, index: usize) {
    violation.message = resultant.implied(&violation.message);
    violation.resultant = Some(index);
    // Scoped actions too (`fix-override-scoped`).
    if let Some(action) = resultant.action() {
        violation.action = action.as_str().into();
        violation.actions = vec![action];
    }
}

impl Snapshot {
    /// The resultants of a generator, mutated; none where no template expands it. It may spend what
    /// [`EngineConfig::expansion_limits`](crate::EngineConfig) allows.
    ///
    /// # Errors
    ///
    /// When one of them cannot be made; there is no partial result.
    pub fn expand(
        &self,
        expansion: &Expansion<'_>,
        host: &dyn Host,
    ) -> Result<Vec<Resultant>, ExpansionError> {
        self.resultants(expansion, host, Meter::starting(host.uptime()), false)
    }

    /// The same, and with `explain` what mutators had to do with each resultant.
    pub(crate) fn resultants(
        &self,
        expansion: &Expansion<'_>,
        host: &dyn Host,
        meter: Meter<'_>,
        explain: bool,
    ) -> Result<Vec<Resultant>, ExpansionError> {
        let config = self.config();
        if !config.expansion || self.expansions.is_empty() {
            return Ok(Vec::new());
        }
        let budget = meter.budget(config.expansion_limits, host.uptime(), host.clock());
        let by_modrules = |resultant: &Value| {
            let review =
                Review::of_object(resultant.clone(), Operation::Create, &config.default_namespace);
            let decision = modrule::mutate(&self.modrules, config, &review, (host, meter), true);
            (!decision.patch.is_empty()).then_some(decision.object)
        };
        let request = ExpansionRequest {
            object: expansion.object,
            namespace: expansion.namespace,
            username: expansion.username,
            mutators: &self.mutators,
            annotate: config.mutators.annotations,
            run_id: &|| run_id(host),
            providers: host.providers(),
            budget: &budget,
        };
        let post_process = config.expand_modrules.then_some(&by_modrules as PostProcess<'_>);
        self.expansions.resultants(&request, ExpandOptions { explain, post_process })
    }

    /// The generator of a request: its object with the kind and namespace of the request; `None`
    /// where there is no object.
    pub(crate) fn generator(&self, review: &Review) -> Option<Value> {
        let object = review.object()?;
        let namespace = Some(review.store_namespace()).filter(|name| !name.is_empty());
        let object = with_namespace(object, namespace.map(Value::from).as_ref());
        let kind = &review.request().kind;
        if kind.kind.is_empty() {
            return Some(object);
        }
        let mut members = object.as_object()?.clone();
        members.insert("apiVersion", kind.api_version().into());
        members.insert("kind", kind.kind.clone().into());
        Some(members.into())
    }
}
