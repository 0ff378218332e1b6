//! Objects of a cluster, listed page by page as they are audited.

use anyhow::{Result, ensure};
use modgate_audit::{Item, Options, Policies};
use modgate_cluster::remote::Resource;
use modgate_gator::progress::Progress;
use modgate_policies::{PolicySet, notes};

use super::AuditFindings;
use crate::{
    args::AuditCommandArgs,
    cluster::{Cluster, gvk},
    terminal::Terminal,
};

const NO_CLUSTER: &str = "no cluster is configured; give objects to audit, or a kubeconfig";

/// Lists and audits the objects that policies may apply to. What they look at beside that is
/// listed first, and held in memory.
pub(super) fn audit(
    args: &AuditCommandArgs,
    mut policy_set: PolicySet,
    terminal: &Terminal,
) -> Result<AuditFindings> {
    ensure!(
        args.cluster || args.kubeconfig.is_some() || args.context.is_some(),
        "give objects to audit, or `--cluster` to audit those of the cluster that kubectl uses"
    );
    let mut cluster = Cluster::connect(
        args.kubeconfig.as_deref(),
        args.context.as_deref(),
        NO_CLUSTER,
        terminal,
    )?;
    cluster.show(&mut policy_set, terminal);
    let Cluster { remote, kinds, mut incomplete } = cluster;
    let options = Options { mutators: args.mutators, ..Options::default() };
    let policies =
        Policies::new(policy_set.snapshot.clone(), policy_set.inventory.clone(), options);
    let mut wanted = kinds.iter().filter(|kind| policies.concerns(&gvk(kind)));
    if wanted.clone().next().is_none() {
        terminal.note(notes::no_kind(&policy_set.snapshot));
    }
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
    Ok(AuditFindings { incomplete, ..found })
}
