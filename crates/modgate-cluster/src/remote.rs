//! A cluster, asked from a command line: one call after another, each waited for.

use std::{
    env, fmt,
    path::{Path, PathBuf},
    time::Duration,
};

use hyper::{Method, Request, Response, header};
use kube::{
    Client, Config,
    client::{Body, ConfigExt as _},
    config::{KubeConfigOptions, Kubeconfig, KubeconfigError},
};
use modgate_engine::api::meta::ObjectExt as _;
use modgate_http::Chain;
use modgate_value::{MAX_JSON_DEPTH, Value};
use tokio::runtime::{Builder, Runtime};
use tower::{BoxError, Layer as _, ServiceExt as _, service_fn};

/// How long one answer may take.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Objects of one page of a list.
const PAGE: usize = 500;
/// Levels of an answer: an object of a list is within two.
const MAX_DEPTH: usize = MAX_JSON_DEPTH + 2;

/// Where a cluster is described.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Kubeconfig files, of which the first to say something counts; without any, the cluster this
    /// process runs in.
    pub files: Vec<PathBuf>,
    /// The context, if not the current one of the files.
    pub context: Option<String>,
}

impl Place {
    /// As kubectl finds it: the file that is named, those of `KUBECONFIG`, or the one at home.
    pub fn find(
        file: Option<&Path>,
        context: Option<&str>,
        env: &dyn Fn(&str) -> Option<String>,
    ) -> Self {
        let listed = || -> Vec<PathBuf> {
            let list = env("KUBECONFIG").unwrap_or_default();
            env::split_paths(&list).filter(|path| !path.as_os_str().is_empty()).collect()
        };
        let files = match (file, listed()) {
            (Some(file), _) => vec![file.to_owned()],
            (None, listed) if !listed.is_empty() => listed,
            (None, _) => {
                let home = env("HOME").map(|home| Path::new(&home).join(".kube/config"));
                home.filter(|file| file.exists()).into_iter().collect()
            }
        };
        Self { files, context: context.map(str::to_owned) }
    }
}

/// A kind of objects, as a user names it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Resource {
    /// API group; empty for the core.
    pub group: String,
    /// Version of the group.
    pub version: String,
    /// Name in URLs, such as `pods`.
    pub plural: String,
    /// Such as `Pod`; not needed to ask.
    pub kind: String,
    /// Such as `po`; not needed to ask.
    pub short_names: Vec<String>,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
}

impl Resource {
    /// A kind whose objects live in no namespace.
    pub fn of_cluster(group: &str, version: &str, plural: &str) -> Self {
        Self {
            group: group.to_owned(),
            version: version.to_owned(),
            plural: plural.to_owned(),
            kind: String::new(),
            short_names: Vec::new(),
            namespaced: false,
        }
    }

    /// Whether `name` means this kind for people: the kind, the resource or one of its short names, in any case, with
    /// or without the group (`deployments.apps`).
    pub fn is_typed(&self, name: &str) -> bool {
        let name = name.to_ascii_lowercase();
        let (plain, group) = name.split_once('.').unwrap_or((&name, &self.group));
        let is_short = || self.short_names.iter().any(|short| short == plain);
        group == self.group
            && (plain == self.plural || plain == self.kind.to_ascii_lowercase() || is_short())
    }

    fn path(&self, namespace: &str, name: &str) -> String {
        let root = match self.group.as_str() {
            "" => format!("/api/{}", self.version),
            group => format!("/apis/{group}/{}", self.version),
        };
        let namespace = match namespace {
            "" => String::new(),
            namespace => format!("/namespaces/{}", segment(namespace)),
        };
        let name = if name.is_empty() { String::new() } else { format!("/{}", segment(name)) };
        format!("{root}{namespace}/{}{name}", self.plural)
    }
}

/// A name must stay one segment of a path.
fn segment(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b':' => out.push(byte.into()),
            b'.' if text.bytes().any(|byte| byte != b'.') => out.push('.'),
            byte => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

/// Why a cluster gave no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RemoteError {
    /// The files that describe it cannot be used.
    #[error("cannot use the kubeconfig{}: {reason}", named(files))]
    Place {
        /// The files.
        files: Vec<PathBuf>,
        /// Their error.
        reason: String,
    },
    /// It answered that it will not.
    #[error("{message}")]
    Refused {
        /// HTTP status.
        code: u16,
        /// The API server's message.
        message: String,
    },
    /// It did not answer, or nothing that can be understood.
    #[error("cannot reach {server}: {reason}")]
    Unreachable {
        /// Its URL.
        server: String,
        /// The error.
        reason: String,
    },
}

fn named(files: &[PathBuf]) -> String {
    let names: Vec<_> = files.iter().map(|file| format!(" `{}`", file.display())).collect();
    names.join(",")
}

impl RemoteError {
    /// Whether the object does not exist.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Refused { code: 404, .. })
    }
}

/// A cluster.
pub struct Remote {
    runtime: Runtime,
    client: Client,
    config: Config,
    server: String,
}

impl Remote {
    /// The client; nothing is sent yet.
    ///
    /// # Errors
    ///
    /// When the description of the cluster cannot be used.
    pub fn connect(place: &Place) -> Result<Self, RemoteError> {
        let unusable = |reason: String| RemoteError::Place { files: place.files.clone(), reason };
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| unusable(error.to_string()))?;
        let config = runtime.block_on(config(place)).map_err(unusable)?;
        let server = config.cluster_url.to_string();
        let client = {
            let _entered = runtime.enter();
            Client::try_from(config.clone()).map_err(|error| unusable(error.to_string()))?
        };
        Ok(Self { runtime, client, config, server })
    }

    /// The URL of the API server.
    pub fn server(&self) -> &str {
        self.server.trim_end_matches('/')
    }

    /// The namespace of the kubeconfig's context; `default` if it has none.
    pub fn namespace(&self) -> &str {
        &self.config.default_namespace
    }

    /// The bearer token that requests to the API server carry; `None` for client certificates and passwords.
    ///
    /// # Errors
    ///
    /// When the program that the kubeconfig names gives none.
    pub fn token(&self) -> Result<Option<String>, RemoteError> {
        let unusable = |error: &dyn fmt::Display| RemoteError::Unreachable {
            server: self.server().to_owned(),
            reason: format!("no token: {error}"),
        };
        let Some(layer) = self.config.auth_layer().map_err(|error| unusable(&error))? else {
            return Ok(None);
        };
        // The layer adds the header to requests; this one goes nowhere.
        let echo = service_fn(|request: Request<Body>| async move {
            let mut response = Response::new(Body::empty());
            *response.headers_mut() = request.headers().clone();
            Ok::<_, BoxError>(response)
        });
        let response = self
            .runtime
            .block_on(layer.layer(echo).oneshot(Request::new(Body::empty())))
            .map_err(|error| unusable(&error))?;
        let header = response.headers().get(header::AUTHORIZATION);
        let token = header.and_then(|it| it.to_str().ok()?.strip_prefix("Bearer "));
        Ok(token.map(str::to_owned))
    }

    /// A token of a ServiceAccount that holds for so many seconds.
    ///
    /// # Errors
    ///
    /// When the API server makes none.
    pub fn request_token(
        &self,
        namespace: &str,
        account: &str,
        seconds: u32,
    ) -> Result<String, RemoteError> {
        let accounts =
            Resource { namespaced: true, ..Resource::of_cluster("", "v1", "serviceaccounts") };
        let path = format!("{}/token", accounts.path(namespace, account));
        let spec: Value =
            [("expirationSeconds", Value::from(i64::from(seconds)))].into_iter().collect();
        let members = [
            ("apiVersion", Value::from("authentication.k8s.io/v1")),
            ("kind", "TokenRequest".into()),
            ("spec", spec),
        ];
        let made = self.json(Method::POST, &path, Some(&members.into_iter().collect()))?;
        let token = made.path(&["status", "token"]).and_then(Value::as_str);
        token.map(str::to_owned).ok_or_else(|| RemoteError::Unreachable {
            server: self.server().to_owned(),
            reason: "a TokenRequest was answered without a token".to_owned(),
        })
    }

    /// The first page of the objects of a kind in a namespace that have these labels.
    ///
    /// # Errors
    ///
    /// When they cannot be listed.
    pub fn labelled(
        &self,
        resource: &Resource,
        namespace: &str,
        labels: &str,
    ) -> Result<Vec<Value>, RemoteError> {
        let labels = segment(labels);
        let path = format!("{}?limit={PAGE}&labelSelector={labels}", resource.path(namespace, ""));
        let page = self.json(Method::GET, &path, None)?;
        Ok(page.get("items").and_then(Value::as_array).into_iter().flatten().cloned().collect())
    }

    /// The version of a group that the API server prefers; `None` if it does not serve the group.
    ///
    /// # Errors
    ///
    /// When the cluster cannot be reached.
    pub fn group_version(&self, group: &str) -> Result<Option<String>, RemoteError> {
        let found = found(self.json(Method::GET, &format!("/apis/{}", segment(group)), None))?;
        let version = |group: &Value| {
            Some(group.path(&["preferredVersion", "version"])?.as_str()?.to_owned())
        };
        Ok(found.as_ref().and_then(version))
    }

    /// The kinds of a group that can be listed, in the version the API server prefers; none if it
    /// does not serve the group. The core has the empty name.
    ///
    /// # Errors
    ///
    /// When the cluster cannot be reached.
    pub fn resources(&self, group: &str) -> Result<Vec<Resource>, RemoteError> {
        let version = match group {
            "" => Some("v1".to_owned()),
            group => self.group_version(group)?,
        };
        match version {
            Some(version) => self.resources_of(group, &version),
            None => Ok(Vec::new()),
        }
    }

    /// The kinds of a version of a group that can be listed.
    ///
    /// # Errors
    ///
    /// When the cluster cannot be reached.
    pub fn resources_of(&self, group: &str, version: &str) -> Result<Vec<Resource>, RemoteError> {
        let path = match group {
            "" => format!("/api/{}", segment(version)),
            group => format!("/apis/{}/{}", segment(group), segment(version)),
        };
        let Some(list) = found(self.json(Method::GET, &path, None))? else {
            return Ok(Vec::new());
        };
        let resource = |it: &Value| {
            let verbs = it.get("verbs")?.as_array()?;
            let plural = it.get("name")?.as_str()?;
            let listed = verbs.iter().any(|verb| verb.as_str() == Some("list"));
            (listed && !plural.contains('/')).then_some(())?;
            let short_names = it.get("shortNames").and_then(Value::as_array).into_iter().flatten();
            let short_names = short_names.filter_map(|it| Some(it.as_str()?.to_owned())).collect();
            Some(Resource {
                group: group.to_owned(),
                version: version.to_owned(),
                plural: plural.to_owned(),
                kind: it.get("kind")?.as_str()?.to_owned(),
                short_names,
                namespaced: it.get("namespaced")?.as_bool()?,
            })
        };
        let listed = list.get("resources").and_then(Value::as_array);
        Ok(listed.into_iter().flatten().filter_map(resource).collect())
    }

    /// All objects of a kind, page by page, each with `apiVersion` and `kind`.
    ///
    /// # Errors
    ///
    /// When they cannot be listed.
    pub fn list(&self, resource: &Resource) -> Result<Vec<Value>, RemoteError> {
        let mut all = Vec::new();
        let mut token = String::new();
        loop {
            let (mut page, next) = self.page(resource, &token)?;
            all.append(&mut page);
            token = next;
            if token.is_empty() {
                return Ok(all);
            }
        }
    }

    /// The groups the API server has, the core included.
    ///
    /// # Errors
    ///
    /// When the cluster cannot be reached.
    pub fn groups(&self) -> Result<Vec<String>, RemoteError> {
        let found = self.json(Method::GET, "/apis", None)?;
        let groups = found.get("groups").and_then(Value::as_array).into_iter().flatten();
        let names = groups.filter_map(|group| group.get("name")?.as_str());
        Ok([""].into_iter().chain(names).map(str::to_owned).collect())
    }

    /// The page of the objects of a kind that a token stands for, each with `apiVersion` and `kind`,
    /// and the token of the next one; the empty text stands for the first, and for there being no
    /// next one.
    ///
    /// # Errors
    ///
    /// When they cannot be listed.
    pub fn page(
        &self,
        resource: &Resource,
        token: &str,
    ) -> Result<(Vec<Value>, String), RemoteError> {
        let more = match token {
            "" => String::new(),
            token => format!("&continue={}", segment(token)),
        };
        let path = format!("{}?limit={PAGE}{more}", resource.path("", ""));
        let page = self.json(Method::GET, &path, None)?;
        items(&page, token).map_err(|reason| RemoteError::Unreachable {
            server: self.server().to_owned(),
            reason: format!("{path} {reason}"),
        })
    }

    /// An object, if it exists.
    ///
    /// # Errors
    ///
    /// When the request cannot be sent.
    pub fn get(
        &self,
        resource: &Resource,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Value>, RemoteError> {
        found(self.json(Method::GET, &resource.path(namespace, name), None))
    }

    /// Creates an object, and returns it as it is stored.
    ///
    /// # Errors
    ///
    /// When the API server refuses it, or has one of its name.
    pub fn create(&self, resource: &Resource, object: &Value) -> Result<Value, RemoteError> {
        let namespace = object.metadata("namespace");
        let path = resource.path(namespace.unwrap_or_default(), "");
        self.json(Method::POST, &path, Some(object))
    }

    /// Applies an object (server-side apply), as a field manager of this name, which takes over all fields.
    ///
    /// # Errors
    ///
    /// When the API server refuses it.
    pub fn apply(
        &self,
        resource: &Resource,
        object: &Value,
        manager: &str,
    ) -> Result<Value, RemoteError> {
        let text = |path: &[&str]| object.path(path).and_then(Value::as_str).unwrap_or_default();
        let path = resource.path(text(&["metadata", "namespace"]), text(&["metadata", "name"]));
        let path = format!("{path}?fieldManager={}&force=true", segment(manager));
        self.json(Method::PATCH, &path, Some(object))
    }

    /// Creates an object, or replaces the one of its name, whatever it was.
    ///
    /// # Errors
    ///
    /// When the API server refuses it.
    pub fn put(&self, resource: &Resource, object: &Value) -> Result<(), RemoteError> {
        let text = |path: &[&str]| object.path(path).and_then(Value::as_str).unwrap_or_default();
        let (namespace, name) = (text(&["metadata", "namespace"]), text(&["metadata", "name"]));
        let existing = self.get(resource, namespace, name)?;
        let version = existing.as_ref().and_then(|it| it.path(&["metadata", "resourceVersion"]));
        match version {
            None => self.create(resource, object)?,
            Some(version) => {
                let object = with_version(object, version.clone());
                self.json(Method::PUT, &resource.path(namespace, name), Some(&object))?
            }
        };
        Ok(())
    }

    /// Deletes an object; says whether there was one.
    ///
    /// # Errors
    ///
    /// When the API server refuses it.
    pub fn delete(
        &self,
        resource: &Resource,
        namespace: &str,
        name: &str,
    ) -> Result<bool, RemoteError> {
        let deleted = self.json(Method::DELETE, &resource.path(namespace, name), None);
        Ok(found(deleted)?.is_some())
    }

    fn json(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value, RemoteError> {
        let body = body.map(|body| body.to_json().into_bytes()).unwrap_or_default();
        let unreachable =
            |reason: String| RemoteError::Unreachable { server: self.server().to_owned(), reason };
        // JSON is YAML, and the only patch that is sent is an apply.
        let content = match method {
            Method::PATCH => "application/apply-patch+yaml",
            _ => "application/json",
        };
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::ACCEPT, "application/json")
            .header(header::CONTENT_TYPE, content)
            .body(body)
            .map_err(|error| unreachable(error.to_string()))?;
        let asked = self.runtime.block_on(async {
            tokio::time::timeout(TIMEOUT, self.client.request_text(request)).await
        });
        match asked {
            Ok(Ok(text)) => Value::from_json_nested(text.as_bytes(), MAX_DEPTH)
                .map_err(|error| unreachable(format!("{path} is no JSON: {error}"))),
            Ok(Err(kube::Error::Api(status))) => {
                let message = match status.message.as_str() {
                    "" => status.reason.clone(),
                    message => message.to_owned(),
                };
                Err(RemoteError::Refused { code: status.code, message })
            }
            Ok(Err(error)) => Err(unreachable(Chain(&error).to_string())),
            Err(_) => Err(unreachable(format!("no answer within {} s", TIMEOUT.as_secs()))),
        }
    }
}

async fn config(place: &Place) -> Result<Config, String> {
    if place.files.is_empty() {
        return Config::incluster().map_err(|error| {
            format!("there is none, and this process is not in a cluster: {error}")
        });
    }
    let files = place.files.iter().try_fold(Kubeconfig::default(), |all, file| {
        Kubeconfig::read_from(file).and_then(|next| all.merge(next))
    });
    let options =
        KubeConfigOptions { context: place.context.clone(), ..KubeConfigOptions::default() };
    let files = files.map_err(|error| match error {
        // The library quotes the path twice.
        KubeconfigError::ReadConfig(error, _) => error.to_string(),
        error => Chain(&error).to_string(),
    })?;
    Config::from_custom_kubeconfig(files, &options).await.map_err(|error| Chain(&error).to_string())
}

/// `None` where there is nothing.
fn found(answer: Result<Value, RemoteError>) -> Result<Option<Value>, RemoteError> {
    match answer {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

/// The objects of a page and the token of the next one; `token` is its own.
fn items(page: &Value, token: &str) -> Result<(Vec<Value>, String), &'static str> {
    let text =
        |path: &[&str]| page.path(path).and_then(Value::as_str).unwrap_or_default().to_owned();
    let items = match page.get("items") {
        Some(Value::Array(items)) => Some(items),
        Some(Value::Null) => None,
        _ => return Err("is no list"),
    };
    let next = text(&["metadata", "continue"]);
    if !next.is_empty() && next == token {
        return Err("names itself as the next page");
    }
    let kind = text(&["kind"]);
    let kind = kind.strip_suffix("List").unwrap_or_default();
    let items = items.into_iter().flatten();
    let items = items.map(|item| of_kind(item, &text(&["apiVersion"]), kind));
    Ok((items.collect(), next))
}

/// Items of lists lack the kind, which the list has.
fn of_kind(item: &Value, api_version: &str, kind: &str) -> Value {
    let mut members = item.as_object().cloned().unwrap_or_default();
    for (member, text) in [("apiVersion", api_version), ("kind", kind)] {
        if members.get(member).is_none() {
            members.insert(member, text.into());
        }
    }
    members.into()
}

fn with_version(object: &Value, version: Value) -> Value {
    let mut members = object.as_object().cloned().unwrap_or_default();
    let metadata = members.get("metadata").and_then(Value::as_object).cloned();
    let mut metadata = metadata.unwrap_or_default();
    metadata.insert("resourceVersion", version);
    members.insert("metadata", metadata.into());
    members.into()
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remote").field("server", &self.server).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_objects() {
        let pods = Resource { namespaced: true, ..Resource::of_cluster("", "v1", "pods") };
        let templates =
            Resource::of_cluster("templates.gatekeeper.sh", "v1", "constrainttemplates");
        for (resource, namespace, name, expected) in [
            (&pods, "", "", "/api/v1/pods"),
            (&pods, "n", "a.b", "/api/v1/namespaces/n/pods/a.b"),
            (&templates, "", "t", "/apis/templates.gatekeeper.sh/v1/constrainttemplates/t"),
            (&pods, "n", "../../secrets", "/api/v1/namespaces/n/pods/..%2F..%2Fsecrets"),
            (&pods, "..", "a?b", "/api/v1/namespaces/%2E%2E/pods/a%3Fb"),
            (&pods, "", "system:a", "/api/v1/pods/system:a"),
        ] {
            assert_eq!(resource.path(namespace, name), expected);
        }
    }

    #[test]
    fn pages_of_lists() {
        let items = |page: &str, token| {
            let (items, next) = items(&Value::from_json(page.as_bytes()).expect(page), token)?;
            Ok((items.iter().map(Value::to_json).collect::<Vec<_>>(), next))
        };
        let page = r#"{"kind": "PodList", "apiVersion": "v1", "metadata": {"continue": "b"},
            "items": [{"kind": "Own"}, {}]}"#;
        let expected =
            [r#"{"apiVersion":"v1","kind":"Own"}"#, r#"{"apiVersion":"v1","kind":"Pod"}"#];
        assert_eq!(items(page, "a"), Ok((expected.map(str::to_owned).to_vec(), "b".to_owned())));
        assert_eq!(items(page, "b"), Err("names itself as the next page"));
        assert_eq!(items(r#"{"items": null}"#, ""), Ok((vec![], String::new())));
        for other in ["[]", "{}", r#"{"items": {}}"#, r#"{"kind": "Pod", "metadata": {}}"#] {
            assert_eq!(items(other, ""), Err("is no list"), "{other}");
        }
    }

    #[test]
    fn where_clusters_are_described() {
        let place = |file: Option<&str>, env: &[(&str, &str)]| {
            let value = |name: &str| {
                let found = env.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| (*value).to_owned())
            };
            let files = Place::find(file.map(Path::new), None, &value).files;
            files.iter().map(|file| file.display().to_string()).collect::<Vec<_>>()
        };
        let several = [("KUBECONFIG", "/a::/b"), ("HOME", "/nowhere")];
        assert_eq!(place(Some("/c"), &several), ["/c"]);
        assert_eq!(place(None, &several), ["/a", "/b"]);
        assert_eq!(place(None, &[("HOME", "/nowhere")]), [""; 0]);
    }

    #[test]
    fn a_kubeconfig_that_cannot_be_used() {
        let place = Place { files: vec!["/no/such/file".into()], context: None };
        let error = Remote::connect(&place).expect_err("no file").to_string();
        assert!(error.starts_with("cannot use the kubeconfig `/no/such/file`: "), "{error}");
    }
}
