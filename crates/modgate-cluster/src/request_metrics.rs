//! Requests to the API server: counted as `rest_client_requests_total`, and with a time limit.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use hyper::{Request, Response};
use modgate_telemetry::metrics::ControllerMetrics;
use tokio::time::timeout;
use tower::{BoxError, Layer, Service};

/// Nothing was answered.
#[derive(Debug, thiserror::Error)]
#[error("the API server did not answer within {0:?}")]
struct Silent(Duration);

/// Counts the requests of a client, and gives up on those that are not answered.
#[derive(Debug, Clone)]
pub(crate) struct CountRequests {
    pub(crate) metrics: ControllerMetrics,
    /// The API server.
    pub(crate) host: Arc<str>,
    /// How long an answer may take to begin, except to a watch.
    pub(crate) timeout: Duration,
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
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
{
    type Response = Response<R>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (method, count) = (request.method().clone(), self.count.clone());
        let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
        let answered = self.inner.call(request);
        Box::pin(async move {
            let answer = match is_watch {
                true => answered.await.map_err(Into::into),
                false => match timeout(count.timeout, answered).await {
                    Ok(answer) => answer.map_err(Into::into),
                    Err(_) => Err(Silent(count.timeout).into()),
                },
            };
            let code = answer.as_ref().ok().map(|response| response.status().as_u16());
            count.metrics.requested(&count.host, method.as_str(), code);
            answer
        })
    }
}

#[cfg(test)]
mod tests {
    use tower::service_fn;

    use super::*;
    use modgate_telemetry::metrics::Metrics;

    #[tokio::test]
    async fn silence_ends_all_but_watches() {
        let layer = CountRequests {
            metrics: Metrics::new().controllers().clone(),
            host: "host".into(),
            timeout: Duration::from_millis(10),
        };
        let silent =
            service_fn(|_: Request<()>| std::future::pending::<Result<Response<()>, BoxError>>());
        let mut client = layer.layer(silent);
        let mut ask = |path: &str, limit| {
            let request = Request::builder().uri(path).body(()).expect("a request");
            timeout(Duration::from_millis(limit), client.call(request))
        };
        let error = ask("/api/v1/pods", 60_000).await.expect("an end").expect_err("no answer");
        assert_eq!(error.to_string(), "the API server did not answer within 10ms");
        assert!(ask("/api/v1/pods?watch=true&timeoutSeconds=290", 100).await.is_err(), "it waits");
    }
}
