//! Objects that are stored in versions of the past, written anew once (OT-1, Q-31).
//!
//! An API server can drop a version of a kind only when nothing is stored in it any more. It notes in
//! the CRD which versions anything was ever stored in; where that is more than the storage version,
//! every object of the kind is written as it is, and the note is corrected.

use std::{collections::BTreeSet, time::Duration};

use kube::{
    Api,
    api::{ListParams, Patch, PatchParams},
};
use modgate_value::Value;
use tokio::time::sleep;

use super::{FIELD_MANAGER, LOGGER, context::Context, crd_info::Fact, kinds, object::Stored};

/// Attempts for one kind.
const ATTEMPTS: u32 = 5;
/// How long to wait after one failed, doubling each time.
const PAUSE: Duration = Duration::from_secs(1);
/// Objects asked for at once.
const PAGE: u32 = 100;

/// Migrates each kind that needs it, once, for as long as this process leads.
pub(crate) async fn migrate(mut context: Context) {
    let mut tried: BTreeSet<String> = BTreeSet::new();
    let mut leader = context.leadership.subscribe();
    loop {
        if leader.wait_for(|leads| *leads).await.is_err() {
            return;
        }
        let Some(state) = context.loaded().await else { return };
        let mut ended = Ended::Finished;
        for (_, fact) in state.facts.iter() {
            if !fact.has_old_objects {
                tried.remove(&fact.name);
                continue;
            }
            if tried.insert(fact.name.clone()) {
                ended = migrate_kind(&context, fact).await;
            }
            if ended == Ended::Interrupted {
                tried.remove(&fact.name);
                break;
            }
        }
        if ended == Ended::Interrupted {
            // It may take a moment until it is known that another process leads.
            sleep(PAUSE).await;
        } else if context.state.changed().await.is_err() {
            return;
        }
    }
}

/// How the migration of a kind ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ended {
    /// There is nothing left to do, or nothing that can be done.
    Finished,
    /// This process does not lead any more.
    Interrupted,
}

async fn migrate_kind(context: &Context, fact: &Fact) -> Ended {
    let Fact { name, resource, .. } = fact;
    let mut pause = PAUSE;
    for attempt in 1..=ATTEMPTS {
        match rewrite(context, fact).await {
            Ok(Some(count)) => {
                let version = &resource.version;
                tracing::info!(target: LOGGER, %name, %version, count, "objects stored anew");
                return Ended::Finished;
            }
            Ok(None) => {
                tracing::debug!(target: LOGGER, %name, "another process leads: storing anew is left to it");
                return Ended::Interrupted;
            }
            Err(error) if attempt == ATTEMPTS => {
                tracing::warn!(
                    target: LOGGER, %name, %error,
                    "objects of past versions not stored anew; nothing depends on it until one of \
                     these versions is to be dropped"
                );
            }
            Err(error) => {
                tracing::debug!(target: LOGGER, %name, %error, "storing anew failed, trying again");
                sleep(pause).await;
                pause *= 2;
            }
        }
    }
    Ended::Finished
}

/// Writes every object as it is, then notes that only the storage version is left. Returns how many
/// there were; `None` if this process does not lead any more.
async fn rewrite(context: &Context, fact: &Fact) -> Result<Option<usize>, kube::Error> {
    let Fact { name, resource, .. } = fact;
    let definitions: Api<Stored> = Api::all_with(context.client.clone(), &kinds::definitions());
    let params =
        PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
    // If the CRD changes meanwhile, the note is not ours to write.
    let definition = definitions.get(name).await?;
    let of_definition = |path: &[&str]| {
        let object = definition.object.as_ref().ok();
        object.and_then(|object| object.path(path)).cloned().unwrap_or_default()
    };
    let all: Api<Stored> = Api::all_with(context.client.clone(), resource);
    let mut page = ListParams::default().limit(PAGE);
    let mut count = 0;
    loop {
        let listed = all.list(&page).await?;
        page.continue_token = listed.metadata.continue_.clone();
        for stored in listed {
            if !context.leads() {
                return Ok(None);
            }
            let key = stored.key();
            let api: Api<Stored> = match key.namespace.as_str() {
                "" => all.clone(),
                namespace => Api::namespaced_with(context.client.clone(), namespace, resource),
            };
            // The API server stores whatever differs from what it has stored, the version included.
            let nothing: Value = Value::Object(modgate_value::Object::default());
            match api.patch(&key.name, &params, &Patch::Merge(nothing)).await {
                Ok(_) => count += 1,
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                Err(error) => return Err(error),
            }
        }
        if page.continue_token.as_ref().is_none_or(String::is_empty) {
            break;
        }
    }
    if !context.leads() {
        return Ok(None);
    }
    let version = Value::from(resource.version.as_str());
    let metadata: Value = [("resourceVersion", of_definition(&["metadata", "resourceVersion"]))]
        .into_iter()
        .collect();
    let status: Value = [("storedVersions", Value::from(vec![version]))].into_iter().collect();
    let patch: Value = [("metadata", metadata), ("status", status)].into_iter().collect();
    definitions.patch_status(name, &params, &Patch::Merge(patch)).await?;
    Ok(Some(count))
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{Arc, Mutex},
        time::Instant,
    };

    use super::*;
    use crate::{context::scripted, crd_info::Facts, lease::Leadership, state::State};

    const DEFINITION: &str = r#"{"apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "assign.mutations.gatekeeper.sh", "resourceVersion": "7"},
        "spec": {"group": "mutations.gatekeeper.sh", "names": {"kind": "Assign", "plural": "assign"},
            "versions": [{"name": "v1", "served": true, "storage": true}]},
        "status": {"storedVersions": ["v1beta1", "v1"],
            "conditions": [{"type": "Established", "status": "True"}]}}"#;
    const LIST: &str = r#"{"kind": "AssignList", "apiVersion": "mutations.gatekeeper.sh/v1",
        "metadata": {"resourceVersion": "9"},
        "items": [{"metadata": {"name": "a"}}, {"metadata": {"name": "b"}}]}"#;

    /// The Lease is lost after the first object: what is left is done when it is back, and the CRD says
    /// nothing before.
    #[tokio::test]
    async fn a_migration_that_is_interrupted_is_done_later() {
        let leadership: Arc<Mutex<Option<Leadership>>> = Arc::default();
        let writes = Arc::new(Mutex::new(Vec::new()));
        let (written, leads) = (Arc::clone(&writes), Arc::clone(&leadership));
        let client = scripted::client(move |method, path, _| {
            if method == "PATCH" {
                let mut written = written.lock().expect("no panic");
                written.push(path.split('?').next().unwrap_or_default().to_owned());
                if let (1, Some(leadership)) = (written.len(), &*leads.lock().expect("no panic")) {
                    leadership.end();
                }
                return (200, r#"{"metadata": {"name": "a"}}"#.to_owned());
            }
            let is_list = path.starts_with("/apis/mutations");
            (200, if is_list { LIST } else { DEFINITION }.to_owned())
        });
        let mut facts = Facts::default();
        assert!(facts.with(&Value::from_json(DEFINITION.as_bytes()).expect("JSON")));
        let state = State { facts: Arc::new(facts), ..State::empty() };
        let (context, _state) = scripted::context(client, state);
        let lead = || context.leadership.lead_until(Instant::now() + Duration::from_secs(60));
        *leadership.lock().expect("no panic") = Some(context.leadership.clone());
        lead();
        let migration = tokio::spawn(migrate(context.clone()));
        let written = || writes.lock().expect("no panic").clone();
        let done = async {
            while written().is_empty() {
                sleep(Duration::from_millis(5)).await;
            }
            // Longer than it takes to write the other, if somebody did.
            sleep(Duration::from_millis(50)).await;
            let path = |name: &str| format!("/apis/mutations.gatekeeper.sh/v1/assign/{name}");
            assert_eq!(written(), [path("a")], "another process leads");
            lead();
            while written().len() < 4 {
                sleep(Duration::from_millis(5)).await;
            }
            let status = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/\
                          assign.mutations.gatekeeper.sh/status";
            assert_eq!(written()[1..], [path("a"), path("b"), status.to_owned()]);
        };
        tokio::time::timeout(Duration::from_secs(20), done).await.expect("it is done again");
        migration.abort();
    }
}
