//! A cluster as commands read it: its kinds, its policies, and what policies look at.

use std::{fs, path::Path};

use anyhow::{Context as _, Error, Result};
use modgate_cluster::remote::{Place, Remote, Resource};
use modgate_engine::{
    Snapshot,
    api::meta::GroupVersionKind,
    constraint::{Fields, InventoryPart},
};
use modgate_policies::PolicySet;
use modgate_prove::value::{removed, unmanaged};
use modgate_value::{Str, Value};

use crate::terminal::Terminal;

/// A cluster, and the kinds that it serves.
pub(crate) struct Cluster {
    pub(crate) remote: Remote,
    pub(crate) kinds: Vec<Resource>,
    /// Whether something could not be read.
    pub(crate) incomplete: bool,
}

impl Cluster {
    /// The cluster that kubectl would use.
    pub(crate) fn connect(
        kubeconfig: Option<&Path>,
        context: Option<&str>,
        without: &'static str,
        terminal: &Terminal,
    ) -> Result<Self> {
        let env = |name: &str| std::env::var(name).ok();
        let place = Place::find(kubeconfig, context, &env);
        let remote = Remote::connect(&place).map_err(|error| match place.files.is_empty() {
            true => Error::new(error).context(without),
            false => error.into(),
        })?;
        let mut cluster = Self { remote, kinds: Vec::new(), incomplete: false };
        for group in cluster.remote.groups()? {
            match cluster.remote.resources(&group) {
                Ok(found) => cluster.kinds.extend(found),
                Err(error) => {
                    cluster.incomplete = true;
                    terminal.error(&format!("group `{group}` is not read: {error}"));
                }
            }
        }
        Ok(cluster)
    }

    /// Lists what policies look at beside the object of a request: Namespaces, Nodes, parameters, synced objects.
    pub(crate) fn show(&mut self, policy_set: &mut PolicySet, terminal: &Terminal) {
        let reads = policy_set.snapshot.constraints().inventory_reads();
        for kind in &self.kinds {
            let is_reference =
                kind.group.is_empty() && matches!(kind.kind.as_str(), "Namespace" | "Node");
            let is_read = is_read(policy_set, kind);
            if !is_reference && !is_read && !is_passed(policy_set, kind) {
                continue;
            }
            let fields = match is_reference {
                // Kept in full in any case.
                true => Fields::all(),
                false => Fields::of_kind(&reads, &gvk(kind)),
            };
            // Page by page, as of most objects little is kept.
            let mut token = String::new();
            loop {
                match self.remote.page(kind, &token) {
                    Ok((objects, next)) => {
                        for object in objects {
                            take(policy_set, &object);
                            if is_read {
                                // An object from the API server has a kind and a name, so it can be inserted.
                                let _ = policy_set.inventory.insert(fields.keep(object));
                            }
                        }
                        token = next;
                    }
                    Err(error) => {
                        self.incomplete = true;
                        let which = if token.is_empty() { "any" } else { "every" };
                        terminal
                            .error(&format!("policies do not see {which} {}: {error}", kind.kind));
                        break;
                    }
                }
                if token.is_empty() {
                    break;
                }
            }
        }
    }

    /// Writes the policies of the cluster into a folder.
    pub(crate) fn write_policies(&self, folder: &Path) -> Result<()> {
        for kind in self.kinds.iter().filter(|kind| has_policies(kind)) {
            let objects = self.remote.list(kind)?;
            let name = format!("{}.{}.json", kind.plural, kind.group);
            let texts = objects
                .iter()
                .map(|object| removed(&unmanaged(object), &["status".into()]).to_json() + "\n");
            let path = folder.join(name);
            fs::write(&path, texts.collect::<String>())
                .with_context(|| format!("cannot write `{}`", path.display()))?;
        }
        Ok(())
    }
}

/// Keeps an object that policies look at when they evaluate others.
fn take(policy_set: &mut PolicySet, object: &Value) {
    let kind = GroupVersionKind::of_object(object);
    let (version, kind) = (kind.api_version(), kind.kind);
    let params = policy_set.snapshot.cluster_policies().param_kinds();
    if params.contains(&(&version, &kind)) {
        policy_set.objects.references_mut().keep(object);
    }
    policy_set.objects.references_mut().take(object);
}

/// Whether objects of a kind are policies.
fn has_policies(kind: &Resource) -> bool {
    let of = gvk(kind);
    let texts = [("apiVersion", of.api_version().as_str().into()), ("kind", Value::from(of.kind))];
    Snapshot::takes(&texts.into_iter().collect())
}

pub(crate) fn gvk(kind: &Resource) -> GroupVersionKind {
    GroupVersionKind {
        group: kind.group.as_str().into(),
        version: kind.version.as_str().into(),
        kind: kind.kind.as_str().into(),
    }
}

/// Whether bindings of the cluster's own policies may pass objects of a kind.
fn is_passed(policy_set: &PolicySet, kind: &Resource) -> bool {
    let (version, kind) = (gvk(kind).api_version(), Str::from(kind.kind.as_str()));
    policy_set.snapshot.cluster_policies().param_kinds().contains(&(&version, &kind))
}

/// Whether some template in use looks at objects of a kind.
fn is_read(policy_set: &PolicySet, kind: &Resource) -> bool {
    let version = match kind.group.as_str() {
        "" => kind.version.clone(),
        group => format!("{group}/{}", kind.version),
    };
    let text = |text: &str| Some(Str::from(text));
    let part = InventoryPart(match kind.namespaced {
        true => vec![text("namespace"), None, text(&version), text(&kind.kind)],
        false => vec![text("cluster"), text(&version), text(&kind.kind)],
    });
    let mut constraints = policy_set.snapshot.constraints().constraints();
    constraints.any(|constraint| {
        let reads = constraint.template().driver().reads();
        reads.iter().any(|read| read.overlaps(&part))
    })
}
