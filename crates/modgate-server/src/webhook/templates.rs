//! Constraints that arrive before their templates (AD-34).
//!
//! A user who applies a folder does not choose the order of its objects. If the API server already
//! has the template, the constraint waits until modgate has loaded it. If a user created the CRD of
//! the constraints ahead of the template, as with `modgate render crds`, the constraint is accepted
//! ahead, too. Otherwise it is denied with Gatekeeper's message (AD-30).

use std::{sync::Arc, time::Duration};

use modgate_engine::api::{constraints, templates};
use modgate_policies::{ClusterLookup, PolicySet};
use modgate_value::Value;
use tokio::time::Instant;

use super::App;

/// The part of a request's time that is reserved for deciding it.
const REST: Duration = Duration::from_millis(500);

/// State of a template that is not loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Template {
    /// The cluster has not been queried for it.
    NotTried,
    /// The cluster was queried, and the request waited if the template exists.
    Queried,
    /// The cluster has no template, but the CRD of its constraints.
    Follows,
}

/// Queries the cluster for the template of a kind, and waits until it is loaded if it exists.
pub(super) async fn wait(
    app: &App,
    policies: &PolicySet,
    kind: &str,
    deadline: Instant,
) -> Template {
    let Some(cluster) = policies.objects.cluster().map(Arc::clone) else {
        return Template::Queried;
    };
    let name = kind.to_lowercase();
    let asked = tokio::task::spawn_blocking(move || ask(&*cluster, &name)).await;
    match asked.unwrap_or(TemplateState::Nothing) {
        TemplateState::Nothing => Template::Queried,
        TemplateState::Definition => Template::Follows,
        TemplateState::Template => {
            let latest = deadline.checked_sub(REST).unwrap_or(deadline);
            let until = latest.min(Instant::now() + app.limits.template);
            let is_loaded =
                |policies: &PolicySet| policies.snapshot.constraints().template(kind).is_some();
            let _ = app.current.wait_for(until, is_loaded).await;
            Template::Queried
        }
    }
}

/// The cluster's state for a template's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TemplateState {
    /// Neither, or the cluster does not answer.
    Nothing,
    /// The template.
    Template,
    /// No template, but the CRD that it would have.
    Definition,
}

/// `name` is that of the template: the kind of the constraints in lower case.
fn ask(cluster: &dyn ClusterLookup, name: &str) -> TemplateState {
    match cluster.get(templates::KIND, name) {
        Ok(Some(template)) if is_leaving(&template) => return TemplateState::Nothing,
        Ok(Some(_)) => return TemplateState::Template,
        Ok(None) => {}
        Err(error) => {
            tracing::warn!(target: "webhook", template = name, %error, "the cluster was not queried for the template");
            return TemplateState::Nothing;
        }
    }
    let definition = format!("{name}.{}", constraints::GROUP);
    match cluster.get("CustomResourceDefinition", &definition) {
        // A CRD that a deleted template owned is deleted with it.
        Ok(Some(definition)) if !is_leaving(&definition) && !has_owner(&definition) => {
            TemplateState::Definition
        }
        _ => TemplateState::Nothing,
    }
}

fn is_leaving(object: &Value) -> bool {
    object.path(&["metadata", "deletionTimestamp"]).is_some()
}

fn has_owner(definition: &Value) -> bool {
    let owners = definition.path(&["metadata", "ownerReferences"]).and_then(Value::as_array);
    let kind = |owner: &Value| owner.get("kind").and_then(Value::as_str) == Some(templates::KIND);
    owners.is_some_and(|owners| owners.iter().any(kind))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use futures_util::future::BoxFuture;
    use modgate_engine::{
        HostError,
        admissionpolicy::{Access, Action},
        modrule::PodBinding,
    };

    use super::*;
    use modgate_policies::NotBound;

    #[derive(Debug, Default)]
    struct Fake(BTreeMap<&'static str, &'static str>);

    impl ClusterLookup for Fake {
        fn get(&self, kind: &str, name: &str) -> Result<Option<Value>, HostError> {
            match self.0.get(format!("{kind} {name}").as_str()) {
                Some(&"error") => Err(HostError::Unread("no".to_owned())),
                Some(json) => Ok(Some(Value::from_json(json.as_bytes()).expect("JSON"))),
                None => Ok(None),
            }
        }

        fn access(&self, _: &Action<'_>) -> Result<Access, HostError> {
            Err(HostError::Unread("no".to_owned()))
        }

        fn bind<'a>(&'a self, _: &'a PodBinding) -> BoxFuture<'a, Result<(), NotBound>> {
            Box::pin(std::future::ready(Ok(())))
        }
    }

    #[test]
    fn what_a_cluster_says() {
        let template = "ConstraintTemplate a";
        let definition = "CustomResourceDefinition a.constraints.gatekeeper.sh";
        let leaving = r#"{"metadata": {"deletionTimestamp": "x"}}"#;
        let owned = r#"{"metadata": {"ownerReferences": [{"kind": "ConstraintTemplate"}]}}"#;
        for (objects, expected) in [
            (&[][..], TemplateState::Nothing),
            (&[(template, "{}")], TemplateState::Template),
            (&[(template, "{}"), (definition, "{}")], TemplateState::Template),
            (&[(template, leaving), (definition, "{}")], TemplateState::Nothing),
            (&[(definition, "{}")], TemplateState::Definition),
            (&[(definition, leaving)], TemplateState::Nothing),
            (&[(definition, owned)], TemplateState::Nothing),
            (&[(template, "error"), (definition, "{}")], TemplateState::Nothing),
            (&[(definition, "error")], TemplateState::Nothing),
        ] {
            let cluster = Fake(objects.iter().copied().collect());
            assert_eq!(ask(&cluster, "a"), expected, "{objects:?}");
        }
    }
}
