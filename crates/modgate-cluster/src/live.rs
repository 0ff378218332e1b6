//! A cluster as the live page shows it: its users, the replicas, the policies with their problems, and the
//! last audits of this process.
//!
//! # Guarantees
//!
//! - Nothing is written but TokenReviews and SubjectAccessReviews, which the API server does not store.
//! - Each call has an answer, or an error, within [`TIMEOUT`].
//!
//! # Permissions
//!
//! `create` on `tokenreviews` and `subjectaccessreviews`; in the namespace of the installation `list` on Pods
//! and `get` on the Lease.

mod audits;

use std::time::Duration;

use k8s_openapi::api::{
    authentication::v1::{TokenReview, TokenReviewSpec, UserInfo},
    authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec},
    coordination::v1::Lease,
    core::v1::Pod,
};
use kube::{
    Api,
    api::{ListParams, PostParams},
};
use modgate_engine::PolicyId;
use modgate_http::Chain;
use modgate_policies::Standing;
use tokio::time::timeout;

pub use self::audits::{AuditSummary, Audits, NamespaceAudit, PolicyKey, TrendPoint};
use crate::{context::Context, lease::lease_name};

/// How long an answer of the API server may take.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The label of every Pod of an installation.
const PODS: &str = "app.kubernetes.io/name=modgate";
/// Pods that are shown at most.
const MAX_PODS: u32 = 200;

/// A user, as the cluster knows them.
#[derive(Debug, Clone, PartialEq)]
pub struct User(UserInfo);

impl User {
    /// The name.
    pub fn name(&self) -> &str {
        self.0.username.as_deref().unwrap_or_default()
    }
}

/// Something a user wants to do with resources of the live page, which exist for permissions only.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Question {
    /// API group.
    pub group: &'static str,
    /// Resource.
    pub resource: &'static str,
    /// Verb.
    pub verb: &'static str,
    /// The namespace; empty for all of them.
    pub namespace: String,
}

/// A Pod of the installation, as its status in the cluster says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PodState {
    /// Its name.
    pub name: String,
    /// Its condition Ready.
    pub ready: bool,
    /// When it started, RFC 3339.
    pub started: Option<String>,
    /// Restarts of its containers.
    pub restarts: i64,
    /// The image of its first container.
    pub image: String,
    /// The node that it runs on.
    pub node: String,
}

/// The view of a cluster. Clones share it.
#[derive(Clone)]
pub struct Live {
    context: Context,
    audits: Audits,
}

impl Live {
    pub(crate) fn new(context: Context, audits: Audits) -> Self {
        Self { context, audits }
    }

    /// The user that a bearer token belongs to; `None` if the cluster does not accept the token.
    ///
    /// # Errors
    ///
    /// When the API server gives no answer.
    pub async fn authenticate(&self, token: &str) -> Result<Option<User>, String> {
        let review = TokenReview {
            spec: TokenReviewSpec { token: token.to_owned(), ..TokenReviewSpec::default() },
            ..TokenReview::default()
        };
        let api: Api<TokenReview> = Api::all(self.context.client.clone());
        let created = async { api.create(&PostParams::default(), &review).await };
        let answered = answer("TokenReview", created).await?;
        let status = answered.status.unwrap_or_default();
        let is_known = status.authenticated == Some(true);
        Ok(status.user.filter(|_| is_known).map(User))
    }

    /// Whether a user may do something.
    ///
    /// # Errors
    ///
    /// When the API server gives no answer.
    pub async fn is_allowed(&self, user: &User, question: &Question) -> Result<bool, String> {
        let UserInfo { username, uid, groups, extra } = user.0.clone();
        let Question { group, resource, verb, namespace } = question;
        let review = SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: username,
                uid,
                groups,
                extra,
                resource_attributes: Some(ResourceAttributes {
                    group: Some((*group).to_owned()),
                    version: Some("*".to_owned()),
                    resource: Some((*resource).to_owned()),
                    verb: Some((*verb).to_owned()),
                    namespace: (!namespace.is_empty()).then(|| namespace.clone()),
                    ..ResourceAttributes::default()
                }),
                ..SubjectAccessReviewSpec::default()
            },
            ..SubjectAccessReview::default()
        };
        let api: Api<SubjectAccessReview> = Api::all(self.context.client.clone());
        let created = async { api.create(&PostParams::default(), &review).await };
        let answered = answer("SubjectAccessReview", created).await?;
        Ok(answered.status.is_some_and(|status| status.allowed && status.denied != Some(true)))
    }

    /// Whether this process leads now.
    pub fn leads(&self) -> bool {
        self.context.leads()
    }

    /// The Pods of the installation, by name.
    ///
    /// # Errors
    ///
    /// When they cannot be listed.
    pub async fn pods(&self) -> Result<Vec<PodState>, String> {
        let api: Api<Pod> = Api::namespaced(self.context.client.clone(), &self.namespace());
        let params = ListParams::default().labels(PODS).limit(MAX_PODS);
        let listed = answer("Pods", api.list(&params)).await?;
        let mut pods: Vec<_> = listed.into_iter().map(|pod| state(&pod)).collect();
        pods.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(pods)
    }

    /// The process that holds the Lease, by the name of its Pod; empty if none does.
    ///
    /// # Errors
    ///
    /// When the Lease cannot be read.
    pub async fn leader(&self) -> Result<String, String> {
        let api: Api<Lease> = Api::namespaced(self.context.client.clone(), &self.namespace());
        let name = lease_name(&self.context.operations);
        let lease = answer("Lease", api.get_opt(&name)).await?;
        let holder = lease.and_then(|lease| lease.spec?.holder_identity);
        Ok(holder.unwrap_or_default())
    }

    /// All policies that can be read, whether they load or not; none before all are loaded.
    pub fn policies(&self) -> Vec<Standing> {
        let state = self.context.state.borrow().clone();
        let Some(state) = state else { return Vec::new() };
        let all = state.policies.iter().flat_map(|(kind, policies)| {
            policies.iter().map(|(key, loaded)| Standing {
                id: PolicyId {
                    group: kind.group.as_str().into(),
                    kind: kind.kind.as_str().into(),
                    namespace: key.namespace.clone(),
                    name: key.name.clone(),
                },
                object: loaded.object.clone(),
                problems: loaded.problems.clone(),
            })
        });
        all.collect()
    }

    /// The audits of this process.
    pub fn audits(&self) -> &Audits {
        &self.audits
    }

    fn namespace(&self) -> String {
        self.context.identity.namespace.to_string()
    }
}

impl std::fmt::Debug for Live {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Live").finish_non_exhaustive()
    }
}

/// The answer of the API server about `what`, within [`TIMEOUT`].
async fn answer<T>(
    what: &str,
    request: impl Future<Output = kube::Result<T>>,
) -> Result<T, String> {
    match timeout(TIMEOUT, request).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(format!("{what}: {}", Chain(&error))),
        Err(_) => Err(format!("{what}: no answer of the API server in time")),
    }
}

fn state(pod: &Pod) -> PodState {
    let spec = pod.spec.as_ref();
    let status = pod.status.as_ref();
    let conditions = status.and_then(|status| status.conditions.as_ref()).into_iter().flatten();
    let containers = status.and_then(|status| status.container_statuses.as_ref());
    let restarts = containers.into_iter().flatten().map(|it| i64::from(it.restart_count));
    let started = status.and_then(|status| status.start_time.as_ref());
    PodState {
        name: pod.metadata.name.clone().unwrap_or_default(),
        ready: conditions.into_iter().any(|it| it.type_ == "Ready" && it.status == "True"),
        started: started.map(|time| time.0.to_string()),
        restarts: restarts.sum(),
        image: spec.and_then(|spec| spec.containers.first()?.image.clone()).unwrap_or_default(),
        node: spec.and_then(|spec| spec.node_name.clone()).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::{context::scripted, state::State};

    /// A view of a cluster in which `good` is the token of ann, who may read in namespace `shop`.
    fn live(asked: &'static Mutex<Vec<String>>) -> Live {
        let client = scripted::client(|_, path, body| {
            asked.lock().expect("no panic").push(format!("{path} {body}"));
            let path = path.split('?').next().unwrap_or_default();
            match path.rsplit('/').next() {
                Some("tokenreviews") if body.contains("\"token\":\"good\"") => (
                    201,
                    r#"{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "metadata": {}, "spec": {},
                        "status": {"authenticated": true, "user": {"username": "ann", "uid": "7",
                        "groups": ["dev"], "extra": {"scopes": ["a"]}}}}"#
                        .to_owned(),
                ),
                // An API server that names a user it does not vouch for.
                Some("tokenreviews") => (
                    201,
                    r#"{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "metadata": {}, "spec": {},
                        "status": {"authenticated": false, "user": {"username": "mallory"}}}"#
                        .to_owned(),
                ),
                Some("subjectaccessreviews") => {
                    let allowed = body.contains("\"namespace\":\"shop\"");
                    let body = format!(
                        r#"{{"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "metadata": {{}},
                            "spec": {{}}, "status": {{"allowed": {allowed}}}}}"#
                    );
                    (201, body)
                }
                Some("pods") => (
                    200,
                    r#"{"apiVersion": "v1", "kind": "PodList", "metadata": {}, "items": [
                        {"metadata": {"name": "b"}},
                        {"metadata": {"name": "a"}, "spec": {"nodeName": "n", "containers": [{"name": "m", "image": "i"}]},
                         "status": {"startTime": "2026-01-02T03:04:05Z", "conditions": [{"type": "Ready", "status": "True"}],
                                    "containerStatuses": [{"name": "m", "restartCount": 3, "ready": true, "image": "i",
                                                           "imageID": "x"}]}}]}"#
                        .to_owned(),
                ),
                _ => (500, "{}".to_owned()),
            }
        });
        let (context, _) = scripted::context(client, State::empty());
        Live::new(context, Audits::default())
    }

    #[tokio::test]
    async fn the_cluster_says_who_asks_and_what_they_may() {
        static ASKED: Mutex<Vec<String>> = Mutex::new(Vec::new());
        let live = live(&ASKED);
        assert_eq!(live.authenticate("bad").await, Ok(None));
        let user = live.authenticate("good").await.expect("answer").expect("a user");
        assert_eq!(user.name(), "ann");
        let question = |namespace: &str| Question {
            group: "modgate.sh",
            resource: "decisions",
            verb: "get",
            namespace: namespace.to_owned(),
        };
        assert_eq!(live.is_allowed(&user, &question("shop")).await, Ok(true));
        assert_eq!(live.is_allowed(&user, &question("")).await, Ok(false));
        let asked = ASKED.lock().expect("no panic").join("\n");
        for part in ["\"user\":\"ann\"", "\"uid\":\"7\"", "[\"dev\"]", "\"scopes\":[\"a\"]"] {
            assert!(asked.contains(part), "{part}\n{asked}");
        }
    }

    #[tokio::test]
    async fn pods_are_as_their_statuses_say() {
        static ASKED: Mutex<Vec<String>> = Mutex::new(Vec::new());
        let live = live(&ASKED);
        let pods = live.pods().await.expect("listed");
        let started = Some("2026-01-02T03:04:05Z".to_owned());
        let first = PodState {
            name: "a".to_owned(),
            ready: true,
            started,
            restarts: 3,
            image: "i".to_owned(),
            node: "n".to_owned(),
        };
        let second = PodState { name: "b".to_owned(), ..PodState::default() };
        assert_eq!(pods, [first, second]);
        assert!(live.leader().await.is_err(), "an API server that fails");
    }
}
