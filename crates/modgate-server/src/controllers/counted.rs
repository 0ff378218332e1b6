//! Counts what the API server is asked: `rest_client_requests_total`.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use hyper::{Request, Response};
use tower::{Layer, Service};

use crate::telemetry::metrics::ControllerMetrics;

/// Counts the requests of a client.
#[derive(Debug, Clone)]
pub(crate) struct CountRequests {
    pub(crate) metrics: ControllerMetrics,
    /// The API server.
    pub(crate) host: Arc<str>,
}

impl<S> Layer<S> for CountRequests {
    type Service = Counted<S>;

    fn layer(&self, inner: S) -> Counted<S> {
        Counted { inner, count: self.clone() }
    }
}

/// A client whose requests are counted.
#[derive(Debug, Clone)]
pub(crate) struct Counted<S> {
    inner: S,
    count: CountRequests,
}

impl<S, B, R> Service<Request<B>> for Counted<S>
where
    S: Service<Request<B>, Response = Response<R>>,
    S::Future: Send + 'static,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (method, count) = (request.method().clone(), self.count.clone());
        let answered = self.inner.call(request);
        Box::pin(async move {
            let answer = answered.await;
            let code = answer.as_ref().ok().map(|response| response.status().as_u16());
            count.metrics.requested(&count.host, method.as_str(), code);
            answer
        })
    }
}
