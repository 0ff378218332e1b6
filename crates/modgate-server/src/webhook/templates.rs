//! Constraints that come before their templates (AD-34).
//!
//! Whoever applies a folder at once does not choose the order. A template that the API server has
//! and we have not loaded yet is waited for. Where somebody put the CRD of the constraints there
//! ahead of the template, as `modgate render crds` does, its constraints are taken ahead, too. In
//! all other cases the constraint is refused in Gatekeeper's words (AD-30).

use std::{sync::Arc, time::Duration};

use modgate_engine::api::{constraints, templates};
use modgate_policies::{ClusterLookup, PolicySet};
use modgate_value::Value;
use tokio::time::Instant;

use super::App;

/// What is left of the time of a request to decide it.
const REST: Duration = Duration::from_millis(500);

/// What is known of the template of a constraint that is not loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Template {
    /// Nobody has asked the cluster.
    Unasked,
    /// It was asked for, and waited for if there is one.
    Asked,
    /// There is none, and the CRD of its constraints was made ahead of it.
    Follows,
}

/// Asks the cluster for the template of constraints of a kind, and waits for it if there is one.
pub(super) async fn wait(app: &App, world: &PolicySet, kind: &str, deadline: Instant) -> Template {
    let Some(cluster) = world.objects.cluster().map(Arc::clone) else { return Template::Asked };
    let name = kind.to_lowercase();
    let asked = tokio::task::spawn_blocking(move || ask(&*cluster, &name)).await;
    match asked.unwrap_or(Found::Nothing) {
        Found::Nothing => Template::Asked,
        Found::Definition => Template::Follows,
        Found::Template => {
            let latest = deadline.checked_sub(REST).unwrap_or(deadline);
            let until = latest.min(Instant::now() + app.limits.template);
            let is_loaded =
                |world: &PolicySet| world.snapshot.constraints().template(kind).is_some();
            let _ = app.current.wait_for(until, is_loaded).await;
            Template::Asked
        }
    }
}

/// What the cluster has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Found {
    /// Nothing, as far as it can be told.
    Nothing,
    /// The template.
    Template,
    /// The CRD that a template of that name would have, without a template.
    Definition,
}

/// `name` is the template's, which is that of the constraints' kind in lower case.
fn ask(cluster: &dyn ClusterLookup, name: &str) -> Found {
    match cluster.get(templates::KIND, name) {
        Ok(Some(template)) if is_leaving(&template) => return Found::Nothing,
        Ok(Some(_)) => return Found::Template,
        Ok(None) => {}
        Err(error) => {
            tracing::warn!(target: "webhook", template = name, %error, "template not asked for");
            return Found::Nothing;
        }
    }
    let definition = format!("{name}.{}", constraints::GROUP);
    match cluster.get("CustomResourceDefinition", &definition) {
        // What a template left behind goes with it.
        Ok(Some(definition)) if !is_leaving(&definition) && !has_owner(&definition) => {
            Found::Definition
        }
        _ => Found::Nothing,
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
    use modgate_engine::{HostError, modrule::PodBinding};

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
            (&[][..], Found::Nothing),
            (&[(template, "{}")], Found::Template),
            (&[(template, "{}"), (definition, "{}")], Found::Template),
            (&[(template, leaving), (definition, "{}")], Found::Nothing),
            (&[(definition, "{}")], Found::Definition),
            (&[(definition, leaving)], Found::Nothing),
            (&[(definition, owned)], Found::Nothing),
            (&[(template, "error"), (definition, "{}")], Found::Nothing),
            (&[(definition, "error")], Found::Nothing),
        ] {
            let cluster = Fake(objects.iter().copied().collect());
            assert_eq!(ask(&cluster, "a"), expected, "{objects:?}");
        }
    }
}
