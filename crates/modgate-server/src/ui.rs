//! The live page: what people look at in a browser, and its API.
//!
//! [`routes`] answers every request: [`access`] says who asks and what they may, [`overview`] collects what the
//! process knows, [`evaluate`] explains decisions and tries objects, [`api`] has the documents. `openapi.json`
//! describes them. Read that first.
//!
//! # Guarantees
//!
//! - Nothing here changes a policy or an object.
//! - With policies of a cluster every answer but the page itself and `openapi.json` needs a token that the cluster
//!   accepts, and its permission. With policies of files the address is one of this machine, and so is the `Host`
//!   that the browser names.
//! - Values of Secrets stand in no answer.
//!
//! # Limits
//!
//! [`MAX_REQUESTS`] at a time, [`MAX_BODY`] bytes of a body. Evaluations share the one place of the dry run, so that
//! admission never waits for them. Answers are kept for a moment and shared among viewers.

mod access;
mod api;
mod evaluate;
mod overview;
mod page;
mod query;
#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header},
    response::Response,
};
use hyper::body::{Body as _, Bytes};
use modgate_value::Str;
use prometheus_client::metrics::gauge::Gauge;
use serde::Serialize;
use tokio::sync::{Semaphore, SemaphorePermit};

pub(crate) use self::{access::LOOPBACK_ONLY, overview::Origin};
use self::{
    access::{Access, Asker, Caller, Refused, Right},
    api::{Details, ErrorBody, Listed, TryRequest},
    overview::Overview,
    query::Query,
};
use crate::{
    decisions::{Decisions, Filter, Outcome},
    listen::waits_for_continue,
    tls::Certificates,
    webhook::{App, Bodies, Missing},
};

/// Requests that are answered at a time.
const MAX_REQUESTS: usize = 64;
/// Requests with a body that has arrived, which wait for their turn to be evaluated.
const MAX_TRIES: usize = 4;
/// Bytes of a body.
const MAX_BODY: usize = 3 << 20;
/// Bytes of all bodies. Where more arrive, the one goes that has been arriving for longest.
const MAX_BODIES: usize = 4 * MAX_BODY;
/// Time for a body to arrive.
const BODY_TIME: Duration = Duration::from_secs(10);
/// How long an answer is shared among viewers.
const SHARED: Duration = Duration::from_secs(1);
/// Answers that are shared at most.
const MAX_SHARED: usize = 64;
/// Decisions of an answer, unless the request says otherwise, and at most.
const LISTED: usize = 100;
const MAX_LISTED: usize = 500;

const DOCUMENT: &str = include_str!("ui/openapi.json");
const JSON: &str = "application/json; charset=utf-8";
/// The content policy of everything but the page.
const NOTHING: &str = "default-src 'none'; frame-ancestors 'none'";

/// The live page of a process.
pub(crate) struct Ui {
    app: Arc<App>,
    decisions: Arc<Decisions>,
    overview: Overview,
    access: Access,
    requests: Semaphore,
    bodies: Bodies,
    tries: Semaphore,
    shared: Mutex<BTreeMap<String, (Instant, Bytes)>>,
}

impl Ui {
    /// The page of a process with these policies.
    pub(crate) fn new(
        app: Arc<App>,
        origin: Origin,
        certificates: Arc<Certificates>,
        pod: Option<Str>,
    ) -> Self {
        let access = match &origin {
            Origin::Cluster(live) => Access::of_cluster(live.as_ref().clone()),
            Origin::Files(_) => Access::of_machine(),
        };
        Self {
            decisions: app.decisions.clone().unwrap_or_default(),
            overview: Overview::new(origin, certificates, pod),
            app,
            access,
            requests: Semaphore::new(MAX_REQUESTS),
            bodies: Bodies::new(MAX_BODIES, Gauge::default()),
            tries: Semaphore::new(MAX_TRIES),
            shared: Mutex::default(),
        }
    }

    async fn answer(&self, request: Request) -> Result<Response, Refused> {
        self.access.host(&request)?;
        let path = request.uri().path().to_owned();
        let query = Query::of(request.uri().query());
        // A request cannot be lent while its user is looked up: bodies are for one thread at a time.
        let asker = Asker::of(&request);
        let headers = &asker.headers;
        let wanted = if path == "/api/v1/try" { Method::POST } else { Method::GET };
        let is_read = request.method() == Method::HEAD && wanted == Method::GET;
        let is_known = path == "/" || Endpoint::of(&path).is_some();
        if is_known && request.method() != wanted && !is_read {
            return Err(Refused::method(&wanted));
        }
        if path == "/" {
            return Ok(page::answer());
        }
        match Endpoint::of(&path) {
            Some(Endpoint::Document) => Ok(json(StatusCode::OK, DOCUMENT)),
            Some(Endpoint::Status) => {
                let admitted = self.admitted(&asker, Right::Overview, "").await?;
                self.status(headers, &admitted.caller).await
            }
            Some(Endpoint::Policies) => {
                let _admitted = self.admitted(&asker, Right::Overview, "").await?;
                let policies = || self.overview.policies(&self.app, &self.decisions);
                self.shared(headers, path, policies)
            }
            Some(Endpoint::Namespaces) => {
                let _admitted = self.admitted(&asker, Right::Overview, "").await?;
                let namespaces = || Some(self.overview.namespaces(&self.decisions));
                self.shared(headers, path, namespaces)
            }
            Some(Endpoint::Shadow) => {
                let _admitted = self.admitted(&asker, Right::Overview, "").await?;
                let Some(shadow) = &self.app.traffic.shadow else {
                    let message = "there is no shadow; `--shadow` and `--shadow-url` make one";
                    return Err(Refused::new(StatusCode::NOT_FOUND, message));
                };
                Ok(json(StatusCode::OK, shadow.report().to_json()))
            }
            Some(Endpoint::Decisions) => {
                let scope = query.text("namespace").unwrap_or_default();
                let _admitted = self.admitted(&asker, Right::Decisions, scope).await?;
                let asked = request.uri().path_and_query().map(ToString::to_string);
                let (filter, limit) = filter(&query)?;
                let listed = || Some(self.listed(&filter, limit));
                self.shared(headers, asked.unwrap_or(path), listed)
            }
            Some(Endpoint::Decision(id)) => {
                let scope = query.text("namespace").unwrap_or_default();
                let _admitted = self.admitted(&asker, Right::Decisions, scope).await?;
                self.explained(id, query.text("namespace")).await
            }
            Some(Endpoint::Try) => {
                let namespace = query.text("namespace").map(str::to_owned);
                let scope = namespace.clone().unwrap_or_default();
                self.access.check(&asker, Right::Try, &scope).await?;
                self.tried(request, namespace).await
            }
            None => Err(Refused::new(StatusCode::NOT_FOUND, "there is no such page")),
        }
    }

    /// Admits a request if its caller may see the answer and a place is free. It takes the place last, so that requests
    /// that wait for the API server take none from callers whose rights are known.
    async fn admitted(
        &self,
        asker: &Asker,
        right: Right,
        namespace: &str,
    ) -> Result<Admitted<'_>, Refused> {
        let caller = self.access.check(asker, right, namespace).await?;
        Ok(Admitted { caller, _place: self.place()? })
    }

    /// One of [`MAX_REQUESTS`].
    fn place(&self) -> Result<SemaphorePermit<'_>, Refused> {
        self.requests.try_acquire().map_err(|_| Refused::busy())
    }

    async fn status(&self, headers: &HeaderMap, caller: &Caller) -> Result<Response, Refused> {
        let replicas = self.overview.replicas().await;
        let user = caller.name();
        let key = format!("status\n{}", user.clone().unwrap_or_default());
        let status = || self.overview.status(&self.app, &self.decisions, replicas, user);
        self.shared(headers, key, || Some(status()))
    }

    /// The answer of a moment ago, or a new one; `None` stands for policies that are not loaded. Headers with
    /// `Cache-Control: no-cache` ask for a new one.
    fn shared<T: Serialize>(
        &self,
        headers: &HeaderMap,
        key: String,
        make: impl FnOnce() -> Option<T>,
    ) -> Result<Response, Refused> {
        // Held meanwhile: of viewers who ask at the same time, one makes the answer.
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        let is_fresh = |at: &Instant| at.elapsed() < SHARED;
        let known = shared.get(&key).filter(|(at, _)| is_fresh(at) && !wants_new(headers));
        if let Some((_, bytes)) = known {
            return Ok(json(StatusCode::OK, bytes.clone()));
        }
        let made = make().ok_or_else(Refused::not_loaded)?;
        let bytes = Bytes::from(encoded(&made)?);
        shared.retain(|_, (at, _)| is_fresh(at));
        if shared.len() >= MAX_SHARED {
            shared.clear();
        }
        shared.insert(key, (Instant::now(), bytes.clone()));
        Ok(json(StatusCode::OK, bytes))
    }

    fn listed(&self, filter: &Filter, limit: usize) -> ListedAnswer {
        let all = self.decisions.matching(filter);
        ListedAnswer {
            newest: self.decisions.newest(),
            oldest: self.decisions.oldest(),
            all,
            limit,
        }
    }

    async fn explained(&self, id: u64, namespace: Option<&str>) -> Result<Response, Refused> {
        let noted = self.decisions.get(id);
        let noted = noted.filter(|it| namespace.is_none_or(|wanted| wanted == it.entry.namespace));
        let Some(noted) = noted else {
            let message =
                "this decision is not kept any more; `/api/v1/decisions` lists those that are";
            return Err(Refused::new(StatusCode::NOT_FOUND, message));
        };
        let decision = &noted.entry;
        let Some((review, stages)) = noted.request.clone() else {
            let unexplained = match decision.secret {
                true => "the object is a Secret, and its request is not kept",
                false => {
                    "the request is not kept: it was allowed as it is, or is larger than 256 KiB"
                }
            };
            let unexplained = unexplained.to_owned();
            return respond(&Details { decision, result: None, unexplained, changed: false });
        };
        let result = evaluate::again(&self.app, review, stages).await?;
        let was_allowed = !matches!(decision.outcome, Outcome::Denied | Outcome::Undecided);
        let changed = result.allowed != was_allowed;
        let unexplained = String::new();
        respond(&Details { decision, result: Some(result), unexplained, changed })
    }

    async fn tried(
        &self,
        request: Request,
        namespace: Option<String>,
    ) -> Result<Response, Refused> {
        let is_json = crate::webhook::is_json(&request);
        let too_large =
            || Refused::new(StatusCode::PAYLOAD_TOO_LARGE, "the body is larger than 3 MiB");
        let length = request.body().size_hint().lower();
        if length > MAX_BODY as u64 && waits_for_continue(request.headers()) {
            return Err(too_large());
        }
        let deadline = tokio::time::Instant::now() + BODY_TIME;
        let received = self.bodies.receive_counted(request.into_body(), MAX_BODY, deadline).await;
        let body = received.map_err(|not_received| match not_received.why {
            Missing::TooLarge | Missing::TooMany => too_large(),
            Missing::Broken => Refused::bad("the body ended before it was complete"),
            Missing::Late => {
                Refused::new(StatusCode::REQUEST_TIMEOUT, "the body was not received in time")
            }
            Missing::Overload => Refused::busy(),
        })?;
        // Places are for who has sent everything: others could hold them for as long as they send.
        let _place = self.place()?;
        let _turn = self.tries.try_acquire().map_err(|_| Refused::busy())?;
        // A page of another origin cannot send this type without asking first, and is not answered then.
        if !is_json {
            let message = "the Content-Type must be application/json";
            return Err(Refused::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, message));
        }
        let wanted: TryRequest = serde_json::from_slice(body.bytes())
            .map_err(|error| Refused::bad(format!("the body is not valid: {error}")))?;
        drop(body);
        respond(&evaluate::tried(&self.app, wanted, namespace).await?)
    }
}

/// A request that is answered.
struct Admitted<'u> {
    caller: Caller,
    /// One of [`MAX_REQUESTS`], until it is.
    _place: SemaphorePermit<'u>,
}

/// A page of decisions, which owns what it lists.
struct ListedAnswer {
    all: Vec<Arc<crate::decisions::Noted>>,
    limit: usize,
    newest: u64,
    oldest: Option<String>,
}

impl Serialize for ListedAnswer {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let items: Vec<_> = self.all.iter().take(self.limit).map(|noted| &noted.entry).collect();
        let is_last = self.all.len() <= self.limit;
        let next = items.last().filter(|_| !is_last).map(|entry| entry.id);
        let (oldest, newest_id) = (self.oldest.clone(), self.newest);
        Listed { items, next, oldest, newest_id }.serialize(serializer)
    }
}

/// The documents of the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Endpoint {
    Document,
    Status,
    Policies,
    Namespaces,
    Decisions,
    Decision(u64),
    Try,
    Shadow,
}

impl Endpoint {
    fn of(path: &str) -> Option<Self> {
        Some(match path.strip_prefix("/api/v1/")? {
            "openapi.json" => Self::Document,
            "status" => Self::Status,
            "policies" => Self::Policies,
            "namespaces" => Self::Namespaces,
            "decisions" => Self::Decisions,
            "try" => Self::Try,
            "shadow" => Self::Shadow,
            other => Self::Decision(other.strip_prefix("decisions/")?.parse().ok()?),
        })
    }
}

/// Whether a client does not take the answer of a moment ago.
fn wants_new(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::CACHE_CONTROL).iter().filter_map(|it| it.to_str().ok());
    let mut directives = values.flat_map(|value| value.split(','));
    directives.any(|directive| directive.trim().eq_ignore_ascii_case("no-cache"))
}

fn filter(query: &Query) -> Result<(Filter, usize), Refused> {
    query.only(&["namespace", "kind", "name", "uid", "policy", "outcome", "before", "limit"])?;
    let text = |name: &str| query.text(name).map(str::to_owned);
    let names = query.text("outcome").unwrap_or_default().split(',').filter(|it| !it.is_empty());
    let outcomes = names.map(|name| {
        Outcome::named(name).ok_or_else(|| {
            Refused::bad("`outcome` must be among allowed, patched, warned, denied, undecided")
        })
    });
    let filter = Filter {
        namespace: text("namespace"),
        kind: text("kind"),
        name: text("name"),
        uid: text("uid"),
        policy: text("policy"),
        outcomes: outcomes.collect::<Result<_, _>>()?,
        before: query.number("before")?,
    };
    let limit = query
        .number("limit")?
        .map_or(LISTED, |limit| usize::try_from(limit).unwrap_or(MAX_LISTED).clamp(1, MAX_LISTED));
    Ok((filter, limit))
}

/// The service of the page's address.
pub(crate) fn routes(ui: Ui) -> Router {
    let answer = |State(ui): State<Arc<Ui>>, request: Request| async move {
        let response = match ui.answer(request).await {
            Ok(response) => response,
            Err(refused) => failure(&refused),
        };
        hardened(response)
    };
    Router::new().fallback(answer).with_state(Arc::new(ui))
}

fn respond(document: &impl Serialize) -> Result<Response, Refused> {
    Ok(json(StatusCode::OK, encoded(document)?))
}

fn encoded(document: &impl Serialize) -> Result<Vec<u8>, Refused> {
    serde_json::to_vec(document).map_err(|error| {
        tracing::error!(target: "ui", %error, "answer not written");
        Refused::new(StatusCode::INTERNAL_SERVER_ERROR, "the answer cannot be written as JSON")
    })
}

fn failure(refused: &Refused) -> Response {
    let body = ErrorBody { code: refused.status.as_u16(), error: &refused.message };
    let body = serde_json::to_vec(&body).unwrap_or_default();
    let mut response = json(refused.status, body);
    let headers = response.headers_mut();
    match refused.status {
        StatusCode::UNAUTHORIZED => {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        StatusCode::TOO_MANY_REQUESTS => {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("2"));
        }
        StatusCode::METHOD_NOT_ALLOWED => {
            let allow =
                HeaderValue::from_static(if refused.wants_post { "POST" } else { "GET, HEAD" });
            headers.insert(header::ALLOW, allow);
        }
        _ => {}
    }
    response
}

fn json(status: StatusCode, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(JSON));
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(NOTHING));
    response
}

/// Headers of every answer: nothing is stored, framed, read by other origins, or taken for another type.
fn hardened(mut response: Response) -> Response {
    let headers: [(HeaderName, &'static str); 5] = [
        (header::CACHE_CONTROL, "no-store"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ];
    let values = headers.map(|(name, value)| (name, HeaderValue::from_static(value)));
    response.headers_mut().extend(values);
    response
}
