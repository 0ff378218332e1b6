//! Turns of kinds that are listed: few have a page of objects in memory, however many wait for the API server.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use hyper::{
    Request, Response, Uri,
    header::CONTENT_LENGTH,
    http::{Error, uri::PathAndQuery},
};
use kube::{Client, client::Body};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};
use tower::service_fn;

use super::super::{
    bounded::{Bounded, bounded},
    listing::{Pace, Trail},
};

/// A page of fewer bytes needs no turn. The API server says the length of a short answer only.
const SHORT: u64 = 64 << 10;
/// How long an answer waits for its turn. The API server ends what is not read within a minute.
const PATIENCE: Duration = Duration::from_secs(20);

/// The turn of one kind. It takes it when the API server begins to answer with a page, and has it until it asks for
/// the next page or [gives it back](Self::give_back). A kind whose list [failed](Self::fail) takes none until it has been
/// listed: its next answer may come to a halt again, and others would wait for that.
#[derive(Debug, Clone)]
pub(super) struct Turn {
    pages: Arc<Semaphore>,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    taken: Option<OwnedSemaphorePermit>,
    has_failed: bool,
    trail: Trail,
    pace: Pace,
}

impl Turn {
    /// The turn of one more kind; `pages` has as many permits as pages may be in memory.
    pub(super) fn new(pages: &Arc<Semaphore>) -> Self {
        Self { pages: Arc::clone(pages), state: Arc::default() }
    }

    /// The client whose lists wait for this turn.
    pub(super) fn client(&self, client: &Client) -> Client {
        let namespace = client.default_namespace().to_owned();
        let (turn, client) = (self.clone(), client.clone());
        let ask = service_fn(move |request| turn.clone().ask(client.clone(), request));
        Client::new(ask, namespace)
    }

    async fn ask(
        self,
        client: Client,
        mut request: Request<Body>,
    ) -> Result<Response<Bounded>, kube::Error> {
        self.give_back();
        let query = request.uri().query().unwrap_or_default();
        let is_watch = query.contains("watch=true");
        if !is_watch {
            let named = |name| query.split('&').find_map(|pair| pair.strip_prefix(name));
            let token = named("continue=");
            let most = named("limit=").and_then(|limit| limit.parse().ok());
            let mut state = self.state();
            state.trail.go_on(token)?;
            if let Some(most) = most {
                let objects = state.pace.next(most, token.is_none());
                drop(state);
                *request.uri_mut() =
                    with_limit(request.uri(), objects).map_err(kube::Error::HttpError)?;
            }
        }
        let answer = client.send(request).await?;
        let length = answer.headers().get(CONTENT_LENGTH).and_then(|it| it.to_str().ok());
        let is_short = length.and_then(|it| it.parse().ok()).is_some_and(|it: u64| it < SHORT);
        if !is_watch && !is_short && !self.state().has_failed {
            self.take().await;
        }
        Ok(bounded(answer, is_watch, self.state().pace.bytes()))
    }

    /// The objects of the page have been handed on.
    pub(super) fn give_back(&self) {
        self.set(None);
    }

    /// The kind has been listed.
    pub(super) fn end(&self) {
        self.give_back();
        self.state().has_failed = false;
    }

    /// The kind cannot be listed, or not be followed.
    pub(super) fn fail(&self) {
        self.give_back();
        self.state().has_failed = true;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, permit: Option<OwnedSemaphorePermit>) {
        let before = std::mem::replace(&mut self.state().taken, permit);
        drop(before);
    }

    async fn take(&self) {
        // One page too many is better than a list that fails.
        let permit = timeout(PATIENCE, Arc::clone(&self.pages).acquire_owned()).await;
        self.set(permit.ok().and_then(Result::ok));
    }
}

/// The address of a page of so many objects.
fn with_limit(uri: &Uri, objects: u32) -> Result<Uri, Error> {
    let pairs = uri.query().unwrap_or_default().split('&');
    let pairs = pairs.filter(|pair| !pair.is_empty() && !pair.starts_with("limit="));
    let mut text = format!("{}?limit={objects}", uri.path());
    pairs.for_each(|pair| text.extend(["&", pair]));
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(PathAndQuery::try_from(text)?);
    Ok(Uri::from_parts(parts)?)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use tokio::{task::JoinHandle, time::sleep};

    use super::*;

    const WATCH: &str = "/api/v1/pods?watch=true";
    const LIST: &str = "/api/v1/pods?limit=500";
    /// So long that whatever does not wait has come to its end.
    const A_WHILE: Duration = Duration::from_millis(50);

    /// A cluster of one kind, whose answers have this length as their header says.
    fn kind(pages: &Arc<Semaphore>, length: Option<u64>) -> (Turn, Client) {
        let turn = Turn::new(pages);
        let answer = service_fn(move |_: Request<Body>| async move {
            let answer = Response::builder();
            let answer = match length {
                Some(length) => answer.header(CONTENT_LENGTH, length),
                None => answer,
            };
            Ok::<_, Infallible>(answer.body(Body::empty()).expect("a response"))
        });
        let client = turn.client(&Client::new(answer, "default"));
        (turn, client)
    }

    /// Asks, and says when the answer is there.
    fn ask(client: &Client, path: &str) -> JoinHandle<()> {
        let request = Request::builder().uri(path).body(Body::empty()).expect("a request");
        let client = client.clone();
        tokio::spawn(async move { drop(client.send(request).await.expect("an answer")) })
    }

    #[tokio::test]
    async fn pages_wait_for_a_turn() {
        let pages = Arc::new(Semaphore::new(2));
        let kinds = [None, Some(SHORT), None].map(|length| kind(&pages, length));
        let [(a, of_a), (b, of_b), (c, of_c)] = &kinds;
        ask(of_a, LIST).await.expect("a turn");
        ask(of_b, LIST).await.expect("a turn");
        let third = ask(of_c, LIST);
        sleep(A_WHILE).await;
        assert!(!third.is_finished(), "two pages are in memory");
        // Who asks for the next page goes to the end of the queue.
        let next = ask(of_a, LIST);
        third.await.expect("a turn");
        sleep(A_WHILE).await;
        assert!(!next.is_finished(), "two pages are in memory");
        b.give_back();
        next.await.expect("a turn");
        assert_eq!(pages.available_permits(), 0);
        a.give_back();
        c.give_back();
        assert_eq!(pages.available_permits(), 2);
    }

    #[tokio::test]
    async fn a_kind_whose_list_failed_keeps_no_turn_from_others() {
        let pages = Arc::new(Semaphore::new(1));
        let (turn, client) = kind(&pages, None);
        ask(&client, LIST).await.expect("a turn");
        turn.fail();
        ask(&client, LIST).await.expect("an answer");
        assert_eq!(pages.available_permits(), 1);
        turn.end();
        ask(&client, LIST).await.expect("a turn");
        assert_eq!(pages.available_permits(), 0);
    }

    #[tokio::test]
    async fn a_page_does_not_come_twice() {
        let pages = Arc::new(Semaphore::new(1));
        let (_, client) = kind(&pages, None);
        let asked = async |query: &str| {
            let request = Request::builder().uri(format!("/api/v1/pods?limit=1{query}"));
            let answer = client.send(request.body(Body::empty()).expect("a request")).await;
            answer.map(drop).map_err(|error| error.to_string())
        };
        for query in ["", "&continue=a", "&continue=b", "", "&continue=a"] {
            assert_eq!(asked(query).await, Ok(()), "{query}");
        }
        let error = asked("&continue=a").await.expect_err("again");
        assert!(error.contains("that it has sent before"), "{error}");
    }

    #[test]
    fn addresses_of_pages() {
        for (uri, expected) in [
            ("/api/v1/pods?&limit=500", "/api/v1/pods?limit=7"),
            ("/api/v1/pods?limit=500&continue=a%3D&x", "/api/v1/pods?limit=7&continue=a%3D&x"),
            (
                "https://h:1/apis/a/v1/b?x=limit=2&limit=1",
                "https://h:1/apis/a/v1/b?limit=7&x=limit=2",
            ),
        ] {
            let uri = uri.parse().expect("an address");
            assert_eq!(with_limit(&uri, 7).expect("an address").to_string(), expected);
        }
    }

    #[tokio::test]
    async fn short_answers_and_watches_need_no_turn() {
        let pages = Arc::new(Semaphore::new(0));
        let (_, short) = kind(&pages, Some(SHORT - 1));
        ask(&short, LIST).await.expect("an answer");
        let (_, long) = kind(&pages, None);
        ask(&long, WATCH).await.expect("an answer");
    }

    #[tokio::test]
    async fn a_kind_that_is_no_longer_followed_leaves_its_turn() {
        let pages = Arc::new(Semaphore::new(1));
        let (turn, client) = kind(&pages, None);
        ask(&client, LIST).await.expect("a turn");
        assert_eq!(pages.available_permits(), 0);
        drop((turn, client));
        let free = timeout(PATIENCE, pages.acquire()).await;
        assert!(free.is_ok_and(|permit| permit.is_ok()));
    }
}
