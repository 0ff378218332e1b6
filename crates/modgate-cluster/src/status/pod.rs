//! This Pod's report on each policy, in objects that are deleted with the Pod (RM-20, ST-1, ST-4).

use std::{
    collections::{BTreeMap, BTreeSet},
    future::pending,
    sync::Arc,
    time::{Duration, Instant},
};

use kube::{
    Api,
    api::{ApiResource, DeleteParams, ListParams, Patch, PatchParams},
};
use modgate_value::{Object, Str, Value};
use tokio::sync::watch;

use super::{
    BACKOFF, COALESCE, RESYNC,
    entry::{About, Entries},
    ledger::{Ledger, Unwanted, Written},
    now, outcome,
    subject::{POD, Subject},
    write_all,
};
use crate::{
    FIELD_MANAGER, LOGGER,
    context::Context,
    object::Stored,
    reconcile::{self, Reconcile},
    reports::AllReports,
    retry::Retries,
    state::State,
};

/// An object to be written: of which kind, and its name.
type Target = (Subject, String);

/// Reports on every policy until the process ends. `reported` becomes true when all there was at
/// start has been reported, or when there is no Pod to report as.
pub(crate) async fn report(context: Context, reported: watch::Sender<bool>) {
    let Some(pod) = context.identity.pod.clone() else {
        reported.send_replace(true);
        return;
    };
    let reporter = Reporter {
        apis: Subject::ALL
            .map(|subject| {
                let namespace = &context.identity.namespace;
                let resource = subject.resource();
                (subject, Api::namespaced_with(context.client.clone(), namespace, &resource))
            })
            .into(),
        reports: context.reports.subscribe(),
        context: context.clone(),
        pod,
        owner: None,
        reported,
        entries: Entries::default(),
        ledger: Ledger::new(Unwanted::Delete, Value::Null),
        since: BTreeMap::new(),
        read: BTreeMap::new(),
        resync: Instant::now() + RESYNC,
        failed: Retries::new(BACKOFF),
    };
    reconcile::run(context, reporter).await;
}

/// Where Pods are.
pub(super) fn pods() -> ApiResource {
    ApiResource {
        group: String::new(),
        version: "v1".to_owned(),
        api_version: "v1".to_owned(),
        kind: "Pod".to_owned(),
        plural: "pods".to_owned(),
    }
}

struct Reporter {
    context: Context,
    pod: Str,
    /// The reference to the Pod, with which its reports are deleted. Without it they would stay for ever,
    /// so nothing is reported before the Pod is found.
    owner: Option<Value>,
    apis: BTreeMap<Subject, Api<Stored>>,
    /// The reports of other controllers.
    reports: watch::Receiver<AllReports>,
    /// Becomes true with the first complete report.
    reported: watch::Sender<bool>,
    entries: Entries,
    ledger: Ledger<Target>,
    /// The states of Providers, and since when.
    since: BTreeMap<Target, (Value, Value)>,
    /// When what the cluster has was last read.
    read: BTreeMap<Subject, Instant>,
    /// When to read it again.
    resync: Instant,
    /// The error: the objects of a kind, or the Pod, could not be read.
    failed: Retries<Option<Subject>>,
}

impl Reconcile for Reporter {
    type Desired = Arc<State>;

    const COALESCE: Duration = COALESCE;

    fn desired(&mut self, state: &Arc<State>) -> Arc<State> {
        Arc::clone(state)
    }

    async fn apply(&mut self, state: Arc<State>) -> Option<Instant> {
        if self.resync <= Instant::now() {
            self.resync = Instant::now() + RESYNC;
        }
        if self.owner.is_none() && self.failed.pending(&None, &(), Instant::now()).is_none() {
            self.find_owner().await;
        }
        let Some(owner) = self.owner.clone() else { return self.failed.next() };
        let served = self.read(&state).await;
        let wanted = {
            let reports = self.reports.borrow_and_update();
            self.entries.of(&state, &reports, &self.pod, &self.context.operations)
        };
        let wanted = self.objects(wanted, &served, &owner);
        self.write(&wanted).await;
        if self.failed.targets().flatten().all(|subject| served.contains(subject)) {
            self.reported.send_if_modified(|reported| !std::mem::replace(reported, true));
        }
        [self.ledger.next_try(), self.failed.next(), Some(self.resync)].into_iter().flatten().min()
    }

    async fn changed(&mut self) {
        if self.reports.changed().await.is_err() {
            pending().await
        }
    }
}

impl Reporter {
    async fn find_owner(&mut self) {
        let (pod, namespace) = (&self.pod, &self.context.identity.namespace);
        let api: Api<Stored> =
            Api::namespaced_with(self.context.client.clone(), namespace, &pods());
        let uid = match api.get(pod).await {
            Ok(found) => {
                let uid = found.object.ok().and_then(|it| it.path(&["metadata", "uid"]).cloned());
                uid.ok_or_else(|| "it has no uid".to_owned())
            }
            Err(error) => Err(error.to_string()),
        };
        match uid {
            Ok(uid) => {
                self.failed.succeeded(&None);
                let members: [(&str, Value); 4] = [
                    ("apiVersion", "v1".into()),
                    ("kind", "Pod".into()),
                    ("name", pod.clone().into()),
                    ("uid", uid),
                ];
                self.owner = Some(members.into_iter().collect());
            }
            Err(error) => {
                tracing::warn!(
                    target: LOGGER, %pod, %namespace, %error,
                    "own Pod not found, which statuses belong to; trying again"
                );
                self.failed.failed(None, (), error, Instant::now());
            }
        }
    }

    /// Learns what the cluster has, of each kind once in a while: what was left by an earlier process
    /// of this Pod, and what was lost. Returns the kinds that can be written.
    async fn read(&mut self, state: &State) -> BTreeSet<Subject> {
        let mut served = BTreeSet::new();
        for subject in Subject::ALL {
            if state.facts.of(&subject.report_kind()).is_none() {
                self.ledger.forget(|(of, _)| *of == subject);
                self.read.remove(&subject);
                self.failed.succeeded(&Some(subject));
                continue;
            }
            let is_fresh = self.read.get(&subject).is_some_and(|read| read.elapsed() < RESYNC);
            let target = Some(subject);
            if !is_fresh && self.failed.pending(&target, &(), Instant::now()).is_none() {
                match self.list(subject).await {
                    Ok(()) => self.failed.succeeded(&target),
                    Err(error) => {
                        tracing::debug!(target: LOGGER, ?subject, %error, "own statuses cannot be listed");
                        self.failed.failed(target, (), error.to_string(), Instant::now());
                    }
                }
            }
            // What was read before is still good enough where it cannot be read again.
            if self.read.contains_key(&subject) {
                served.insert(subject);
            }
        }
        served
    }

    async fn list(&mut self, subject: Subject) -> Result<(), kube::Error> {
        let Some(api) = self.apis.get(&subject) else { return Ok(()) };
        let params = ListParams::default().labels(&format!("{POD}={}", self.pod));
        let listed = api.list(&params).await?;
        self.ledger.forget(|(of, _)| *of == subject);
        for stored in listed {
            let name = stored.key().name.to_string();
            let Ok(object) = stored.of_kind(&subject.resource()).object else { continue };
            let (object, since) = without_times(object);
            if let Some(since) = since {
                self.since.insert((subject, name.clone()), since);
            }
            self.ledger.found((subject, name), object);
        }
        self.read.insert(subject, Instant::now());
        Ok(())
    }

    fn objects(
        &self,
        entries: BTreeMap<About, Value>,
        served: &BTreeSet<Subject>,
        owner: &Value,
    ) -> BTreeMap<Target, Value> {
        let entries = entries.into_iter().filter(|((subject, ..), _)| served.contains(subject));
        entries
            .filter_map(|((subject, kind, key), status)| {
                let name = match subject.report_name(&self.pod, &kind, &key) {
                    Ok(name) => name,
                    Err(error) => {
                        tracing::debug!(target: LOGGER, ?subject, %error, "not reported");
                        return None;
                    }
                };
                let ApiResource { api_version, kind: report, .. } = subject.resource();
                let mut labels: Object = subject
                    .labels(&kind, &key)
                    .into_iter()
                    .map(|(label, text)| (label, Value::from(text)))
                    .collect();
                labels.insert(POD, self.pod.clone().into());
                let metadata: [(&str, Value); 4] = [
                    ("labels", labels.into()),
                    ("name", name.as_str().into()),
                    ("namespace", self.context.identity.namespace.clone().into()),
                    ("ownerReferences", Value::from(vec![owner.clone()])),
                ];
                let object: [(&str, Value); 4] = [
                    ("apiVersion", api_version.into()),
                    ("kind", report.into()),
                    ("metadata", metadata.into_iter().collect()),
                    ("status", status),
                ];
                Some(((subject, name), object.into_iter().collect()))
            })
            .collect()
    }

    async fn write(&mut self, wanted: &BTreeMap<Target, Value>) {
        let due = self.ledger.due(wanted, Instant::now());
        let time = now();
        let mut writes = Vec::new();
        for (target, value) in due {
            let Some(api) = self.apis.get(&target.0).cloned() else { continue };
            let timed = value.clone().map(|value| match target.0 {
                Subject::Provider => {
                    let (timed, since) = with_times(value, self.since.get(&target), &time);
                    self.since.extend(since.map(|since| (target.clone(), since)));
                    timed
                }
                _ => value,
            });
            writes.push(async move {
                let written = match &timed {
                    Some(object) => {
                        let params = PatchParams::apply(FIELD_MANAGER).force();
                        api.patch(&target.1, &params, &Patch::Apply(object)).await.map(|_| ())
                    }
                    None => match api.delete(&target.1, &DeleteParams::default()).await {
                        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
                        deleted => deleted.map(|_| ()),
                    },
                };
                (target, value, written)
            });
        }
        let mut failed = None;
        for (target, value, written) in write_all(writes).await {
            if let Err(error) = &written {
                failed.get_or_insert_with(|| (target.1.clone(), error.to_string(), 0)).2 += 1;
            }
            if value.is_none() && written.is_ok() {
                self.since.remove(&target);
            }
            self.ledger.record(target, value, outcome(&written), Instant::now());
        }
        if let Some((name, error, count)) = failed {
            tracing::warn!(target: LOGGER, %name, %error, count, "own statuses not written");
        }
    }
}

/// A report as it is to be compared: of a Provider, without times; and since when it is what it is.
pub(super) fn without_times(object: Value) -> (Value, Option<(Value, Value)>) {
    let member = |path: &[&str]| object.path(path).cloned().unwrap_or_default();
    let mut status = object.get("status").and_then(Value::as_object).cloned().unwrap_or_default();
    let since = status.remove("lastTransitionTime");
    let since = status.get("active").cloned().zip(since);
    status.remove("lastCacheUpdateTime");
    if since.is_some()
        && let Some(Value::Array(errors)) = status.get_mut("errors")
    {
        for error in errors.make_mut() {
            if let Value::Object(error) = error {
                error.remove("errorTimestamp");
            }
        }
    }
    let metadata: Value = ["labels", "name", "namespace", "ownerReferences"]
        .into_iter()
        .map(|name| (name, member(&["metadata", name])))
        .collect();
    let members: [(&str, Value); 4] = [
        ("apiVersion", member(&["apiVersion"])),
        ("kind", member(&["kind"])),
        ("metadata", metadata),
        ("status", status.into()),
    ];
    (members.into_iter().collect(), since)
}

/// The report on a Provider with the times of its last changes.
pub(super) fn with_times(
    mut object: Value,
    before: Option<&(Value, Value)>,
    now: &str,
) -> (Value, Option<(Value, Value)>) {
    let mut since = None;
    if let Value::Object(members) = &mut object
        && let Some(Value::Object(status)) = members.get_mut("status")
    {
        let active = status.get("active").cloned().unwrap_or_default();
        let kept = before.filter(|(known, _)| *known == active);
        let time = kept.map_or_else(|| Value::from(now), |(_, since)| since.clone());
        status.insert("lastTransitionTime", time.clone());
        status.insert("lastCacheUpdateTime", now.into());
        if let Some(Value::Array(errors)) = status.get_mut("errors") {
            for error in errors.make_mut() {
                if let Value::Object(error) = error {
                    error.insert("errorTimestamp", now.into());
                }
            }
        }
        since = Some((active, time));
    }
    (object, since)
}

/// How a write ended, where waiting for another value is all that helps against a refusal.
fn is_refusal(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if matches!(status.code, 400 | 413 | 422))
}

impl From<&kube::Error> for Written {
    fn from(error: &kube::Error) -> Self {
        let reason = error.to_string();
        if is_refusal(error) { Self::Refused(reason) } else { Self::Failed(reason) }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };

    use tokio::time::timeout;

    use super::*;
    use crate::context::scripted;

    /// The first two lists fail: reports are complete only after the third.
    #[tokio::test]
    async fn lists_that_fail_are_tried_again() {
        let lists = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&lists);
        let client = scripted::client(move |_, path, _| match path {
            "/api/v1/namespaces/gatekeeper-system/pods/pod-1" => {
                (200, r#"{"metadata": {"name": "pod-1", "uid": "u"}}"#.to_owned())
            }
            _ if count.fetch_add(1, Ordering::Relaxed) < 2 => (500, "{}".to_owned()),
            _ => (200, r#"{"metadata": {}, "items": []}"#.to_owned()),
        });
        let state = State { facts: Arc::new(Subject::Template.served()), ..State::empty() };
        let (context, _state) = scripted::context(client, state);
        let (reported, mut own) = watch::channel(false);
        let report = tokio::spawn(report(context, reported));
        let done = timeout(Duration::from_secs(20), own.wait_for(|reported| *reported)).await;
        assert!(done.is_ok_and(|done| done.is_ok()), "reported");
        assert_eq!(lists.load(Ordering::Relaxed), 3);
        report.abort();
    }
}
