//! The kinds of a cluster that can be listed, and their objects, page by page (AU-4, AU-5).

use std::{
    collections::BTreeSet,
    error::Error,
    fmt,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIGroup;
use kube::{
    Api, Client,
    api::{ApiResource, ListParams},
    core::{GroupVersion, GroupVersionKind as Gvk, discovery::v2::APIGroupDiscovery},
    discovery::{ApiCapabilities, pinned_group, verbs},
};
use modgate_engine::api::meta::GroupVersionKind;
use modgate_value::Str;

use super::{
    bounded::{self, is_too_long},
    kinds,
    object::Unread,
};

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

/// Objects of a page that is not asked for with a limit, when it is too long.
const CHUNK: u32 = 500;

/// Bytes of a page that a list asks for.
const WANTED: usize = 1 << 20;
/// Objects of the first page of a kind.
const FIRST: u32 = 100;

/// How many objects the pages of a kind have: as many as have [`WANTED`] bytes, if they are like those of the page before.
#[derive(Debug)]
pub(crate) struct Pace {
    objects: u32,
    /// Of the last page, as far as it has been read.
    bytes: Arc<AtomicUsize>,
}

impl Default for Pace {
    fn default() -> Self {
        Self { objects: FIRST, bytes: Arc::default() }
    }
}

impl Pace {
    /// How many objects to ask for, and no more than `most`. Behind a page there are more objects only if it was full.
    pub(crate) fn next(&mut self, most: u32, is_first: bool) -> u32 {
        let bytes = self.bytes.load(Ordering::Relaxed);
        if !is_first && bytes > 0 {
            let objects = u64::from(self.objects) * WANTED as u64 / bytes as u64;
            self.objects = u32::try_from(objects).unwrap_or(u32::MAX);
        }
        self.objects = self.objects.min(most).max(1);
        self.objects
    }

    /// The bytes of the last page; the client of the list counts them.
    pub(crate) fn bytes(&self) -> &Arc<AtomicUsize> {
        &self.bytes
    }
}

/// A list does not end.
#[derive(Debug, thiserror::Error)]
#[error("the API server names a page of the list as the next one that it has sent before")]
struct Circle;

/// The pages that a list has had.
#[derive(Debug, Default)]
pub(crate) struct Trail(BTreeSet<u64>);

impl Trail {
    /// Asks for the page of this token; without one, for the first.
    pub(crate) fn go_on(&mut self, token: Option<&str>) -> Result<(), kube::Error> {
        let Some(token) = token else {
            self.0.clear();
            return Ok(());
        };
        let mut hasher = DefaultHasher::new();
        token.hash(&mut hasher);
        match self.0.insert(hasher.finish()) {
            true => Ok(()),
            false => Err(kube::Error::Service(Circle.into())),
        }
    }
}

/// How many objects to ask for, if an error says that a page of so many is too long, and there can be fewer.
pub(crate) fn fewer(error: &(dyn Error + 'static), chunk: u32) -> Option<u32> {
    if !is_too_long(error) {
        return None;
    }
    match chunk {
        0 => Some(CHUNK),
        1 => None,
        chunk => Some((chunk / 8).max(1)),
    }
}

/// The objects of one kind, page by page.
pub(crate) struct Pages {
    api: Api<Unread>,
    chunk: u32,
    token: Option<String>,
    trail: Trail,
    pace: Pace,
    done: bool,
}

impl Pages {
    /// No request is sent yet. A page has `chunk` objects, or fewer if they are large; with 0, there is one page.
    pub(crate) fn new(client: &Client, resource: &ApiResource, chunk: u32) -> Self {
        let pace = Pace::default();
        let api = Api::all_with(bounded::client(client, pace.bytes()), resource);
        Self { api, chunk, token: None, trail: Trail::default(), pace, done: false }
    }

    /// The next page; `None` when there is none.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<Unread>>, kube::Error> {
        if self.done {
            return Ok(None);
        }
        self.trail.go_on(self.token.as_deref())?;
        let page = loop {
            let mut parameters =
                ListParams { continue_token: self.token.clone(), ..ListParams::default() };
            if self.chunk > 0 {
                parameters = parameters.limit(self.pace.next(self.chunk, self.token.is_none()));
            }
            match self.api.list(&parameters).await {
                Ok(page) => break page,
                Err(error) => match fewer(&error, self.chunk) {
                    Some(chunk) => self.chunk = chunk,
                    None => return Err(error),
                },
            }
        };
        self.token = page.metadata.continue_.filter(|token| !token.is_empty());
        self.done = self.token.is_none();
        Ok(Some(page.items))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::{
        convert::Infallible,
        future::pending,
        sync::{Arc, Mutex},
    };

    use hyper::{Request, Response};
    use kube::client::Body;
    use modgate_telemetry::capture;
    use tower::service_fn;

    use super::{
        super::bounded::{LONG, page_error},
        *,
    };

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

    /// A cluster with this many objects of this many bytes each. It notes how many it was asked for.
    pub(in super::super) fn large(
        objects: usize,
        bytes: usize,
        asked: &Arc<Mutex<Vec<usize>>>,
    ) -> Client {
        let asked = Arc::clone(asked);
        let service = service_fn(move |request: Request<Body>| {
            let query = request.uri().query().unwrap_or_default().to_owned();
            let number = |name: &str| {
                let found = query.split('&').find_map(|pair| pair.strip_prefix(name));
                found.map(|text| text.parse::<usize>().expect("a number"))
            };
            let is_watch = query.contains("watch=true");
            let (first, limit) = (number("continue=").unwrap_or(0), number("limit="));
            asked.lock().expect("a list").push(limit.unwrap_or(0));
            let last = objects.min(first.saturating_add(limit.unwrap_or(objects)));
            let text = "x".repeat(bytes);
            let items: Vec<_> = (first..last)
                .map(|at| format!(r#"{{"metadata": {{"name": "o{at}"}}, "data": "{text}"}}"#))
                .collect();
            let next = if last < objects { last.to_string() } else { String::new() };
            let page = format!(
                r#"{{"metadata": {{"resourceVersion": "1", "continue": "{next}"}}, "items": [{}]}}"#,
                items.join(",")
            );
            async move {
                if is_watch {
                    pending::<()>().await;
                }
                Response::builder().body(Body::from(page.into_bytes()))
            }
        });
        Client::new(service, "default")
    }

    async fn names(pages: &mut Pages) -> Result<Vec<String>, kube::Error> {
        let mut names = Vec::new();
        while let Some(page) = pages.next().await? {
            names.extend(page.iter().map(|object| object.key().name.to_string()));
        }
        Ok(names)
    }

    #[tokio::test]
    async fn pages_of_large_objects_have_fewer() {
        let resource = ApiResource::from_gvk(&Gvk::gvk("", "v1", "Secret"));
        for (bytes, expected) in [(0, 500..=500), (3 << 10, 250..=350), (200 << 10, 3..=5)] {
            let asked = Arc::default();
            let mut pages = Pages::new(&large(1000, bytes, &asked), &resource, 500);
            assert_eq!(names(&mut pages).await.expect("listed").len(), 1000);
            let asked = asked.lock().expect("a list").clone();
            assert_eq!(asked[0], 100, "it is not known how large they are");
            assert!(asked[1..].iter().all(|of| expected.contains(of)), "{bytes}: {asked:?}");
        }
    }

    #[tokio::test]
    async fn a_page_that_is_too_long_is_asked_for_in_parts() {
        let resource = ApiResource::from_gvk(&Gvk::gvk("", "v1", "Secret"));
        for (chunk, expected) in [(0, vec![0, 100, 62, 7, 1, 1]), (9, vec![9, 1])] {
            let asked = Arc::default();
            let mut pages = Pages::new(&large(42, LONG / 8, &asked), &resource, chunk);
            let all: Vec<_> = (0..42).map(|at| format!("o{at}")).collect();
            assert_eq!(names(&mut pages).await.expect("listed"), all);
            let asked = asked.lock().expect("a list").clone();
            assert_eq!(asked[..expected.len()], expected);
        }
        let mut pages = Pages::new(&large(2, LONG, &Arc::default()), &resource, 500);
        let error = pages.next().await.expect_err("too long");
        assert_eq!(page_error(&error), "an object has more than 32 MiB");
    }

    #[tokio::test]
    async fn a_list_that_goes_in_a_circle_fails() {
        let resource = ApiResource::from_gvk(&Gvk::gvk("", "v1", "Secret"));
        let service = service_fn(|request: Request<Body>| async move {
            let query = request.uri().query().unwrap_or_default();
            let next = if query.contains("continue=a") { "b" } else { "a" };
            let page = format!(
                r#"{{"metadata": {{"resourceVersion": "1", "continue": "{next}"}}, "items": []}}"#
            );
            Response::builder().body(Body::from(page.into_bytes()))
        });
        let client = Client::new(service, "default");
        let listed = names(&mut Pages::new(&client, &resource, 1)).await;
        let error = listed.expect_err("a circle").to_string();
        assert!(error.contains("that it has sent before"), "{error}");
    }

    /// A line of the client quotes what it cannot read.
    #[test]
    fn an_answer_that_is_no_list_is_not_logged() {
        let logged = capture(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
            let secret = r#"{"kind": "Secret", "metadata": {}, "data": {"a": "s3cret"}}"#;
            let service = service_fn(move |_: Request<Body>| async move {
                Response::builder().body(Body::from(secret.as_bytes().to_vec()))
            });
            let resource = ApiResource::from_gvk(&Gvk::gvk("", "v1", "Secret"));
            let listed = runtime.block_on(async {
                let client = Client::new(service, "default");
                names(&mut Pages::new(&client, &resource, 1)).await
            });
            let error = listed.expect_err("no list");
            tracing::warn!(%error, "told");
        });
        assert!(logged.contains("told") && !logged.contains("s3cret"), "{logged}");
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
