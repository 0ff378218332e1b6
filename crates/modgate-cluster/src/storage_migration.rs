//! Objects that are stored in versions of the past, written anew once (OT-1, Q-31).
//!
//! An API server can drop a version of a kind only when nothing is stored in it any more. It notes in
//! the CRD which versions anything was ever stored in; where that is more than the storage version,
//! every object of the kind is written as it is, and the note is corrected.

use std::{
    collections::BTreeSet,
    sync::Arc,
    time::{Duration, Instant},
};

use kube::{
    Api,
    api::{ListParams, Patch, PatchParams},
};
use modgate_value::Value;

use super::{
    FIELD_MANAGER, LOGGER, context::Context, crd_info::Fact, kinds, object::Stored,
    reconcile::Reconcile, retry::Retries, state::State,
};

/// How long to wait after the migration of a kind failed, at first and at most.
const BACKOFF: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(3600)];
/// Objects asked for at once.
const PAGE: u32 = 100;

/// Migrates each kind that needs it, once.
pub(crate) struct StorageMigration {
    context: Context,
    /// Kinds that were migrated; their CRDs may not have been seen since.
    done: BTreeSet<String>,
    retries: Retries<String>,
}

impl StorageMigration {
    pub(crate) fn new(context: Context) -> Self {
        Self { context, done: BTreeSet::new(), retries: Retries::new(BACKOFF) }
    }
}

impl Reconcile for StorageMigration {
    type Desired = Vec<Fact>;

    fn desired(&mut self, state: &Arc<State>) -> Vec<Fact> {
        let facts = state.facts.iter().map(|(_, fact)| fact);
        let old: Vec<Fact> = facts.filter(|fact| fact.has_old_objects).cloned().collect();
        let is_old = |name: &String| old.iter().any(|fact| fact.name == *name);
        self.done.retain(is_old);
        self.retries.retain(|name, ()| is_old(name));
        old
    }

    async fn apply(&mut self, old: Vec<Fact>) -> Option<Instant> {
        for fact in old {
            let Fact { name, resource, .. } = &fact;
            let rests = self.retries.pending(name, &(), Instant::now()).is_some();
            if rests || self.done.contains(name) {
                continue;
            }
            match rewrite(&self.context, &fact).await {
                Ok(Some(count)) => {
                    let version = &resource.version;
                    tracing::info!(target: LOGGER, %name, %version, count, "objects stored anew");
                    self.retries.succeeded(name);
                    self.done.insert(name.clone());
                }
                Ok(None) => {
                    tracing::debug!(target: LOGGER, %name, "another process leads: storing anew is left to it");
                    return None;
                }
                Err(error) => {
                    tracing::warn!(
                        target: LOGGER, %name, %error,
                        "objects of past versions not stored anew, trying again; nothing depends on it \
                         until one of these versions is to be dropped"
                    );
                    self.retries.failed(name.clone(), (), error.to_string(), Instant::now());
                }
            }
        }
        self.retries.next()
    }
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
    use std::sync::Mutex;

    use tokio::time::sleep;

    use super::*;
    use crate::{context::scripted, crd_info::Facts, lease::Leadership, reconcile::run_as_leader};

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
        let migration =
            tokio::spawn(run_as_leader(context.clone(), StorageMigration::new(context.clone())));
        let written = || writes.lock().expect("no panic").clone();
        let done = async {
            while written().is_empty() {
                sleep(Duration::from_millis(5)).await;
            }
            // Longer than a write of the other would take.
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
