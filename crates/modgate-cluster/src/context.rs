//! The context of every controller.

use std::sync::Arc;

use kube::Client;
use tokio::sync::watch;

use super::{
    events::Events, identity::Identity, lease::Leadership, reports::Reports, state::State,
};
use crate::operations::Operations;

/// The context of a controller: the cluster, the loaded policies, and whether to write.
///
/// A controller is a task that lives as long as its process. It follows [`Context::state`], brings
/// the cluster in line with it, tries again later what failed, and never holds up the next state.
#[derive(Clone)]
pub(crate) struct Context {
    pub(crate) client: Client,
    pub(crate) identity: Identity,
    pub(crate) operations: Operations,
    /// Changes when this process begins and ceases to write what must be written by one process
    /// only; [`Context::leads`] says whether it may now.
    pub(crate) leadership: Leadership,
    /// The loaded policies; none before everything present at start is loaded.
    pub(crate) state: watch::Receiver<Option<Arc<State>>>,
    /// The parts of policies' statuses beside the result of loading.
    pub(crate) reports: Reports,
    /// Queues Events about objects.
    pub(crate) events: Events,
}

impl Context {
    /// The loaded policies, once they are; `None` when the process ends.
    pub(crate) async fn loaded(&mut self) -> Option<Arc<State>> {
        self.state.wait_for(Option::is_some).await.ok()?.clone()
    }

    /// Whether this process may write what only one process may write. Controllers check it before each write.
    pub(crate) fn leads(&self) -> bool {
        self.leadership.lasts()
    }
}

/// An API server for tests of controllers, and a [`Context`] to go with it.
#[cfg(test)]
pub(crate) mod scripted {
    use std::convert::Infallible;

    use hyper::{Request, Response};
    use kube::client::Body;
    use tower::service_fn;

    use super::*;
    use crate::operations::Operation;
    use modgate_telemetry::metrics::Metrics;

    /// Answers each request, of which it is given method, path with query, and body, with a status
    /// and a body.
    pub(crate) fn client(
        answer: impl Fn(&str, &str, &str) -> (u16, String) + Send + Sync + 'static,
    ) -> Client {
        let answer = Arc::new(answer);
        let service = service_fn(move |request: Request<Body>| {
            let answer = Arc::clone(&answer);
            async move {
                let (head, body) = request.into_parts();
                let body = body.collect_bytes().await.expect("a body in memory");
                let path = head.uri.path_and_query().map_or("", |path| path.as_str());
                let body = String::from_utf8_lossy(&body);
                let (status, answered) = answer(head.method.as_str(), path, &body);
                let response =
                    Response::builder().status(status).body(Body::from(answered.into_bytes()));
                Ok::<_, Infallible>(response.expect("a response"))
            }
        });
        Client::new(service, "gatekeeper-system")
    }

    /// A context in which `state` is loaded, for as long as what it comes with is kept.
    pub(crate) fn context(
        client: Client,
        state: State,
    ) -> (Context, watch::Sender<Option<Arc<State>>>) {
        let (sender, state) = watch::channel(Some(Arc::new(state)));
        let context = Context {
            client,
            identity: Identity { namespace: "gatekeeper-system".into(), pod: Some("pod-1".into()) },
            operations: Operation::ALL.into_iter().collect(),
            leadership: Leadership::new(),
            state,
            reports: Reports::default(),
            events: Events::channel(Metrics::new().events().clone()).0,
        };
        (context, sender)
    }
}
