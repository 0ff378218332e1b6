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

use super::{
    LOGGER, context::Context, definitions::FIELD_MANAGER, facts::Fact, kinds, object::Stored,
};

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
        for (_, fact) in state.facts.iter() {
            if !fact.has_old_objects {
                tried.remove(&fact.name);
                continue;
            }
            if tried.insert(fact.name.clone()) {
                migrate_kind(&context, fact).await;
            }
        }
        if context.state.changed().await.is_err() {
            return;
        }
    }
}

async fn migrate_kind(context: &Context, fact: &Fact) {
    let Fact { name, resource, .. } = fact;
    let mut pause = PAUSE;
    for attempt in 1..=ATTEMPTS {
        match rewrite(context, fact).await {
            Ok(count) => {
                let version = &resource.version;
                tracing::info!(target: LOGGER, %name, %version, count, "objects stored anew");
                return;
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
}

/// Writes every object as it is, then notes that only the storage version is left.
async fn rewrite(context: &Context, fact: &Fact) -> Result<usize, kube::Error> {
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
                return Ok(count);
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
    let version = Value::from(resource.version.as_str());
    let metadata: Value = [("resourceVersion", of_definition(&["metadata", "resourceVersion"]))]
        .into_iter()
        .collect();
    let status: Value = [("storedVersions", Value::from(vec![version]))].into_iter().collect();
    let patch: Value = [("metadata", metadata), ("status", status)].into_iter().collect();
    definitions.patch_status(name, &params, &Patch::Merge(patch)).await?;
    Ok(count)
}
