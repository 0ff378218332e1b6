//! The kinds of a cluster that can be listed, and their objects, page by page (AU-4, AU-5).

use std::{collections::BTreeSet, fmt};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIGroup;
use kube::{
    Api, Client,
    api::{ApiResource, ListParams},
    core::{GroupVersion, GroupVersionKind as Gvk, discovery::v2::APIGroupDiscovery},
    discovery::{ApiCapabilities, pinned_group, verbs},
};
use modgate_engine::api::meta::GroupVersionKind;
use modgate_value::Str;

use super::{kinds, object::Unread};

/// A kind that can be listed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Listable {
    pub(crate) resource: ApiResource,
    /// Whether it can be watched, too.
    pub(crate) watchable: bool,
}

impl Listable {
    pub(crate) fn kind(&self) -> GroupVersionKind {
        kinds::gvk(&self.resource)
    }
}

/// The resources that a cluster serves.
#[derive(Debug, Default)]
pub(crate) struct Served {
    /// Every kind that can be listed, in the version its group prefers. A kind that several groups
    /// serve is there for each of them (AU-5).
    pub(crate) kinds: Vec<Listable>,
    /// Versions of which that is not known for certain, as those who serve them do not answer.
    pub(crate) unknown: Vec<Unknown>,
}

/// A version of a group; shown as its APIService is called.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unknown {
    pub(crate) group: String,
    version: String,
    pub(crate) reason: String,
}

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.version, self.group)
    }
}

/// The API server's message about an APIService that does not answer.
const STALE: &str = "Stale";
const CURRENT: &str = "Current";

/// Asks what there is.
pub(crate) async fn listable(client: &Client) -> Result<Served, kube::Error> {
    match at_once(client).await {
        Ok(served) if !served.kinds.is_empty() => Ok(served),
        // An API server that cannot say it all at once.
        _ => one_by_one(client).await,
    }
}

async fn at_once(client: &Client) -> Result<Served, kube::Error> {
    let mut served = Served::default();
    let mut groups = client.list_core_api_versions_aggregated().await?.items;
    groups.extend(client.list_api_groups_aggregated().await?.items);
    groups.into_iter().for_each(|group| served.take(group));
    Ok(served)
}

async fn one_by_one(client: &Client) -> Result<Served, kube::Error> {
    let mut served = Served::default();
    let core = pinned_group(client, &GroupVersion::gv("", "v1")).await?;
    served.take_resources(core.recommended_resources());
    for APIGroup { name, preferred_version, versions, .. } in client.list_api_groups().await?.groups
    {
        let Some(version) = preferred_version.or(versions.into_iter().next()) else { continue };
        match pinned_group(client, &GroupVersion::gv(&name, &version.version)).await {
            Ok(group) => served.take_resources(group.recommended_resources()),
            Err(error) => served.unknown.push(Unknown {
                group: name,
                version: version.version,
                reason: error.to_string(),
            }),
        }
    }
    Ok(served)
}

impl Served {
    fn take(&mut self, group: APIGroupDiscovery) {
        let name = group.metadata.and_then(|metadata| metadata.name).unwrap_or_default();
        // The first is preferred.
        let Some(first) = group.versions.into_iter().next() else { return };
        let version = first.version.unwrap_or_default();
        let freshness = first.freshness.as_deref();
        if freshness == Some(STALE) || (freshness != Some(CURRENT) && first.resources.is_empty()) {
            let reason = "its discovery is stale".to_owned();
            self.unknown.push(Unknown { group: name.clone(), version: version.clone(), reason });
        }
        for resource in first.resources {
            let can = |verb: &str| resource.verbs.iter().any(|found| found == verb);
            let (watchable, is_listable) = (can(verbs::WATCH), can(verbs::LIST));
            let kind = resource.response_kind.and_then(|kind| kind.kind).unwrap_or_default();
            let plural = resource.resource.unwrap_or_default();
            if is_listable && !kind.is_empty() {
                let gvk = Gvk::gvk(&name, &version, &kind);
                let resource = ApiResource::from_gvk_with_plural(&gvk, &plural);
                self.kinds.push(Listable { resource, watchable });
            }
        }
    }

    fn take_resources(&mut self, resources: Vec<(ApiResource, ApiCapabilities)>) {
        let listable = resources.into_iter().filter_map(|(resource, capabilities)| {
            let can = |verb| capabilities.supports_operation(verb);
            can(verbs::LIST).then(|| Listable { resource, watchable: can(verbs::WATCH) })
        });
        self.kinds.extend(listable);
    }
}

/// Adds kinds that are followed and not known to be gone, as their groups are unknown.
pub(crate) fn keep<'a>(
    kinds: &mut Vec<Listable>,
    followed: impl Iterator<Item = &'a Listable>,
    unknown: &BTreeSet<Str>,
) {
    let is_kept = |listable: &&Listable| {
        let ApiResource { group, kind, .. } = &listable.resource;
        let is_it =
            |other: &Listable| other.resource.group == *group && other.resource.kind == *kind;
        unknown.contains(group.as_str()) && !kinds.iter().any(is_it)
    };
    let kept: Vec<_> = followed.filter(is_kept).cloned().collect();
    kinds.extend(kept);
}

/// The objects of one kind, page by page.
pub(crate) struct Pages {
    api: Api<Unread>,
    parameters: ListParams,
    done: bool,
}

impl Pages {
    /// No request is sent yet. A page has `chunk` objects; with 0, there is one page.
    pub(crate) fn new(client: &Client, resource: &ApiResource, chunk: u32) -> Self {
        let parameters = ListParams::default();
        let parameters = if chunk == 0 { parameters } else { parameters.limit(chunk) };
        Self { api: Api::all_with(client.clone(), resource), parameters, done: false }
    }

    /// The next page; `None` when there is none.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<Unread>>, kube::Error> {
        if self.done {
            return Ok(None);
        }
        let page = self.api.list(&self.parameters).await?;
        let token = page.metadata.continue_.filter(|token| !token.is_empty());
        self.done = token.is_none();
        self.parameters.continue_token = token;
        Ok(Some(page.items))
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use hyper::{Request, Response};
    use kube::client::Body;
    use tower::service_fn;

    use super::*;

    /// A cluster that answers so, with 503 to what it says nothing of.
    fn client(answers: &'static [(&'static str, &'static str)], is_aggregating: bool) -> Client {
        let service = service_fn(move |request: Request<Body>| async move {
            let accepts = request.headers().get("accept").and_then(|it| it.to_str().ok());
            let is_aggregated = accepts.is_some_and(|accepts| accepts.contains("apidiscovery"));
            let path = request.uri().path();
            let found = answers.iter().find(|(of, _)| *of == path).map(|(_, answer)| *answer);
            let response = match found.filter(|_| is_aggregating || !is_aggregated) {
                Some(answer) => Response::builder().body(Body::from(answer.as_bytes().to_vec())),
                None => Response::builder().status(503).body(Body::from(Vec::new())),
            };
            Ok::<_, Infallible>(response.expect("a response"))
        });
        Client::new(service, "default")
    }

    fn check(served: &Served, kinds: &[&str], unknown: &[&str]) {
        let found = served.kinds.iter().map(|kind| {
            let ApiResource { api_version, kind: name, plural, .. } = &kind.resource;
            format!("{api_version} {name} {plural} {}", kind.watchable)
        });
        assert_eq!(found.collect::<Vec<_>>(), kinds);
        let found: Vec<_> = served.unknown.iter().map(ToString::to_string).collect();
        assert_eq!(found, unknown);
    }

    #[tokio::test]
    async fn what_does_not_answer_is_unknown() {
        let served = listable(&client(
            &[
                (
                    "/api",
                    r#"{"items": [{"versions": [{"version": "v1", "freshness": "Current", "resources": [
                        {"resource": "pods", "responseKind": {"kind": "Pod"}, "scope": "Namespaced",
                         "verbs": ["get", "list", "watch"]},
                        {"resource": "bindings", "responseKind": {"kind": "Binding"}, "verbs": ["create"]}
                    ]}]}]}"#,
                ),
                (
                    "/apis",
                    r#"{"items": [
                    {"metadata": {"name": "apps"}, "versions": [
                        {"version": "v1", "freshness": "Current", "resources": [
                            {"resource": "deployments", "responseKind": {"kind": "Deployment"},
                             "verbs": ["list", "watch"]}]},
                        {"version": "v1beta1", "freshness": "Stale", "resources": []}]},
                    {"metadata": {"name": "broken"}, "versions": [
                        {"version": "v1", "freshness": "Stale", "resources": []}]},
                    {"metadata": {"name": "old"}, "versions": [
                        {"version": "v2", "freshness": "Stale", "resources": [
                            {"resource": "things", "responseKind": {"kind": "Thing"}, "verbs": ["list"]}]}]},
                    {"metadata": {"name": "empty"}, "versions": [
                        {"version": "v1", "freshness": "Current", "resources": []}]},
                    {"metadata": {"name": "nothing"}, "versions": []}
                ]}"#,
                ),
            ],
            true,
        ))
        .await
        .expect("found");
        let kinds = [
            "v1 Pod pods true",
            "apps/v1 Deployment deployments true",
            "old/v2 Thing things false",
        ];
        check(&served, &kinds, &["v1.broken", "v2.old"]);
    }

    #[tokio::test]
    async fn groups_are_asked_one_by_one_where_it_must_be() {
        let served = listable(&client(
            &[
                (
                    "/api/v1",
                    r#"{"groupVersion": "v1", "resources": [{"name": "pods", "singularName": "pod",
                        "namespaced": true, "kind": "Pod", "verbs": ["list"]}]}"#,
                ),
                (
                    "/apis",
                    r#"{"groups": [
                    {"name": "broken", "versions": [{"groupVersion": "broken/v1", "version": "v1"}]},
                    {"name": "apps",
                     "preferredVersion": {"groupVersion": "apps/v1", "version": "v1"},
                     "versions": [{"groupVersion": "apps/v2", "version": "v2"},
                                  {"groupVersion": "apps/v1", "version": "v1"}]}]}"#,
                ),
                (
                    "/apis/apps/v1",
                    r#"{"groupVersion": "apps/v1", "resources": [{"name": "deployments",
                        "singularName": "deployment", "namespaced": true, "kind": "Deployment",
                        "verbs": ["list", "watch"]}]}"#,
                ),
            ],
            false,
        ))
        .await
        .expect("found");
        let kinds = ["v1 Pod pods false", "apps/v1 Deployment deployments true"];
        check(&served, &kinds, &["v1.broken"]);
    }

    #[test]
    fn what_is_followed_of_unknown_groups_is_kept() {
        let of = |group, version, kind| Listable {
            resource: ApiResource::from_gvk(&Gvk::gvk(group, version, kind)),
            watchable: true,
        };
        let followed = [
            of("broken", "v1", "Gone"),
            of("broken", "v1", "Here"),
            of("apps", "v1", "Deployment"),
            of("apps", "v1", "ReplicaSet"),
        ];
        let mut kinds = vec![of("apps", "v1", "Deployment"), of("broken", "v2", "Here")];
        keep(&mut kinds, followed.iter(), &BTreeSet::from(["broken".into()]));
        let expected = [
            of("apps", "v1", "Deployment"),
            of("broken", "v2", "Here"),
            of("broken", "v1", "Gone"),
        ];
        assert_eq!(kinds, expected);
    }
}
