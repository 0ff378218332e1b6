//! Objects of a cluster, listed page by page as they are audited.

use anyhow::{Error, Result, ensure};
use modgate_audit::{Item, Options, Policies};
use modgate_cluster::remote::{Place, Remote, Resource};
use modgate_engine::{api::meta::GroupVersionKind, constraint::InventoryPart};
use modgate_policies::PolicySet;
use modgate_value::Str;

use super::Found;
use crate::progress::Progress;
use crate::{args::AuditCommandArgs, terminal::Terminal};

const NO_CLUSTER: &str = "no cluster is configured; give objects to audit, or a kubeconfig";

/// Lists and audits the objects that policies may apply to. What they look at beside that is
/// listed first, and held in memory.
pub(super) fn audit(
    args: &AuditCommandArgs,
    mut policy_set: PolicySet,
    terminal: &Terminal,
) -> Result<Found> {
    ensure!(
        args.cluster || args.kubeconfig.is_some() || args.context.is_some(),
        "give objects to audit, or `--cluster` to audit those of the cluster that kubectl uses"
    );
    let env = |name: &str| std::env::var(name).ok();
    let place = Place::find(args.kubeconfig.as_deref(), args.context.as_deref(), &env);
    let remote = Remote::connect(&place).map_err(|error| match place.files.is_empty() {
        true => Error::new(error).context(NO_CLUSTER),
        false => error.into(),
    })?;
    let mut incomplete = false;
    let mut kinds = Vec::new();
    for group in remote.groups()? {
        match remote.resources(&group) {
            Ok(found) => kinds.extend(found),
            Err(error) => {
                incomplete = true;
                terminal.error(&format!("group `{group}` is not audited: {error}"));
            }
        }
    }
    for kind in &kinds {
        let is_reference =
            kind.group.is_empty() && matches!(kind.kind.as_str(), "Namespace" | "Node");
        let is_read = is_read(&policy_set, kind);
        if !is_reference && !is_read && !is_passed(&policy_set, kind) {
            continue;
        }
        match remote.list(kind) {
            Ok(objects) => {
                for object in objects {
                    super::take(&mut policy_set, &object);
                    if is_read {
                        // What the API server has says what it is.
                        let _ = policy_set.inventory.insert(object);
                    }
                }
            }
            Err(error) => {
                incomplete = true;
                terminal.error(&format!("policies do not see any {}: {error}", kind.kind));
            }
        }
    }
    let options = Options { mutators: args.mutators, ..Options::default() };
    let policies =
        Policies::new(policy_set.snapshot.clone(), policy_set.inventory.clone(), options);
    let mut wanted = kinds.iter().filter(|kind| policies.concerns(&gvk(kind)));
    let progress = Progress::new(None, "objects");
    let mut failed = Vec::new();
    let mut current: Option<(&Resource, String)> = None;
    let mut source = || loop {
        let (kind, token) = match current.take() {
            Some(page) => page,
            None => (wanted.next()?, String::new()),
        };
        match remote.page(kind, &token) {
            Ok((objects, next)) => {
                current = (!next.is_empty()).then_some((kind, next));
                if objects.is_empty() {
                    continue;
                }
                progress.show(objects.len());
                return Some(objects.into_iter().map(Item::new).collect());
            }
            Err(error) => failed.push(format!("{} are not audited: {error}", kind.plural)),
        }
    };
    let found = super::audit_objects(args, &policy_set, &mut source);
    progress.clear();
    failed.iter().for_each(|line| terminal.error(line));
    incomplete |= !failed.is_empty();
    Ok(Found { incomplete, ..found })
}

fn gvk(kind: &Resource) -> GroupVersionKind {
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
