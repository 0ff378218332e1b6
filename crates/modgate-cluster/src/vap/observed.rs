//! The observed objects: policies and bindings that may be ours, and the configuration of the webhook.

use std::collections::BTreeMap;

use futures_util::{
    StreamExt as _,
    stream::{BoxStream, SelectAll},
};
use kube::{Api, Client, api::ApiResource, runtime::watcher};
use modgate_engine::constraint::vap::VapVersion;
use modgate_value::Value;

use super::{
    super::{
        kinds,
        object::Stored,
        watches::{Change, watched},
    },
    BINDINGS, POLICIES, VapConfig,
    compare::Owner,
    resource,
    write::Target,
};

/// The kind that a watch lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Source {
    Policies,
    Bindings,
    Webhook,
}

/// An object by its name; without it, if it is of no interest.
type Named = (String, Option<Value>);

pub(super) type Seen = (Source, Change<Named>);

/// The three watches.
pub(super) struct Follow(SelectAll<BoxStream<'static, Seen>>);

impl Follow {
    pub(super) fn new(client: &Client, version: VapVersion, config: &VapConfig) -> Self {
        let watch = |source: Source, resource: ApiResource, config: watcher::Config| {
            let api: Api<Stored> = Api::all_with(client.clone(), &resource);
            let keep = move |stored: Stored| kept(source, stored.of_kind(&resource));
            watched(api, config, keep).map(move |change| (source, change)).boxed()
        };
        let [policy, policies] = POLICIES;
        let [binding, bindings] = BINDINGS;
        let webhook = kinds::webhook_configurations("ValidatingWebhookConfiguration");
        let only = format!("metadata.name={}", config.webhook_configuration);
        let any = watcher::Config::default;
        Self(SelectAll::from_iter([
            watch(Source::Policies, resource(version, policy, policies), any()),
            watch(Source::Bindings, resource(version, binding, bindings), any()),
            watch(Source::Webhook, webhook, any().fields(&only)),
        ]))
    }

    /// The next event.
    pub(super) async fn next(&mut self) -> Seen {
        match self.0.next().await {
            Some(seen) => seen,
            // Watches do not end.
            None => std::future::pending().await,
        }
    }
}

/// Objects by name, as they were seen last.
#[derive(Debug, Default)]
pub(super) struct Observed {
    policies: Objects,
    bindings: Objects,
    webhook: Objects,
}

#[derive(Debug, Default)]
struct Objects {
    listed: bool,
    by_name: BTreeMap<String, Value>,
}

impl Observed {
    /// Takes in what was seen.
    pub(super) fn take(&mut self, (source, change): Seen) {
        let objects = match source {
            Source::Policies => &mut self.policies,
            Source::Bindings => &mut self.bindings,
            Source::Webhook => &mut self.webhook,
        };
        match change {
            Change::All(all) => {
                let all = all.into_iter().filter_map(|(name, object)| Some((name, object?)));
                objects.by_name = all.collect();
                objects.listed = true;
            }
            Change::Applied((name, Some(object))) => drop(objects.by_name.insert(name, object)),
            Change::Applied((name, None)) | Change::Deleted((name, _)) => {
                objects.by_name.remove(&name);
            }
            Change::Failed(_) => {}
        }
    }

    /// Whether everything was seen at least once.
    pub(super) fn is_complete(&self) -> bool {
        [&self.policies, &self.bindings, &self.webhook].into_iter().all(|objects| objects.listed)
    }

    /// The configuration of the webhook.
    pub(super) fn webhook(&self) -> Option<&Value> {
        self.webhook.by_name.values().next()
    }

    pub(super) fn get(&self, target: &Target) -> Option<&Value> {
        match target {
            Target::Policy(name) => self.policies.by_name.get(name),
            Target::Binding(name) => self.bindings.by_name.get(name),
        }
    }

    pub(super) fn has(&self, target: &Target) -> bool {
        self.get(target).is_some()
    }

    /// Notes the result of a write before a watch reports it.
    pub(super) fn note(&mut self, target: &Target, object: Option<Value>) {
        let (objects, name) = match target {
            Target::Policy(name) => (&mut self.policies.by_name, name),
            Target::Binding(name) => (&mut self.bindings.by_name, name),
        };
        match object {
            Some(object) => drop(objects.insert(name.clone(), object)),
            None => drop(objects.remove(name)),
        }
    }

    /// Everything that belongs to a template or a constraint, bindings first.
    pub(super) fn owned(&self) -> Vec<Target> {
        let owned = |objects: &'_ Objects, target: fn(String) -> Target| -> Vec<Target> {
            let of_policy = |(_, object): &(&String, &Value)| {
                Owner::of(object).is_some_and(|owner| owner.is_policy())
            };
            let owned = objects.by_name.iter().filter(of_policy);
            owned.map(|(name, _)| target(name.clone())).collect()
        };
        let mut all = owned(&self.bindings, Target::Binding);
        all.extend(owned(&self.policies, Target::Policy));
        all
    }

    /// The findings of the API server's controllers when they checked the types of a policy's
    /// expressions, if that concerns the present version of the policy.
    pub(super) fn type_warnings(&self, name: &str) -> Vec<String> {
        let Some(policy) = self.policies.by_name.get(name) else { return Vec::new() };
        let generation = |path: &[&str]| policy.path(path).and_then(Value::as_i64);
        if generation(&["status", "observedGeneration"]) != generation(&["metadata", "generation"])
        {
            return Vec::new();
        }
        let warnings = policy.path(&["status", "typeChecking", "expressionWarnings"]);
        let warnings = warnings.and_then(Value::as_array).into_iter().flat_map(|list| list.iter());
        let text = |warning: &Value, key: &str| {
            warning.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        warnings
            .map(|warning| {
                let said = text(warning, "warning");
                let said = said.lines().map(str::trim).collect::<Vec<_>>().join(" ");
                let end = said.floor_char_boundary(MAX_WARNING);
                format!("{}: {}", text(warning, "fieldRef"), said.get(..end).unwrap_or_default())
            })
            .take(MAX_WARNINGS)
            .collect()
    }
}

/// Bytes of one warning, and warnings of one policy, in a status.
const MAX_WARNING: usize = 256;
const MAX_WARNINGS: usize = 10;

/// The objects to keep: those that may be ours.
fn kept(source: Source, stored: Stored) -> Named {
    let name = stored.key().name.to_string();
    let is_ours = |object: &Value| {
        source == Source::Webhook
            || name.starts_with("gatekeeper-")
            || Owner::of(object).is_some_and(|owner| owner.is_policy())
    };
    // None of ours is nested that deeply.
    let object = stored.object.ok().filter(is_ours);
    (name, object)
}
