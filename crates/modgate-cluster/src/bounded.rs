//! Answers of the API server of which only so much is in memory.

use std::{
    error::Error,
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, ready},
};

use hyper::{
    Request, Response,
    body::{Body as HttpBody, Bytes, Frame},
};
use kube::{Client, client::Body};
use tower::{BoxError, service_fn};

/// A longer page is given up and asked for again, with fewer objects. It is in memory more than three times while it
/// is read.
pub(crate) const LONG: usize = 32 << 20;

#[derive(Debug, thiserror::Error)]
#[error("an object has more than {} MiB", LONG >> 20)]
struct TooLong;

/// A page of which no more is read than a page may have, or a watch with events of which each may have as much.
pub(crate) struct Bounded {
    body: Body,
    is_watch: bool,
    /// Read of the page, or of the event.
    bytes: Arc<AtomicUsize>,
}

impl Bounded {
    fn count(&mut self, data: &[u8]) -> Result<(), TooLong> {
        // An event is a line.
        for (at, line) in data.split(|byte| self.is_watch && *byte == b'\n').enumerate() {
            let before = if at == 0 { self.bytes.load(Ordering::Relaxed) } else { 0 };
            let bytes = before.saturating_add(line.len());
            self.bytes.store(bytes, Ordering::Relaxed);
            if bytes > LONG {
                return Err(TooLong);
            }
        }
        Ok(())
    }
}

impl HttpBody for Bounded {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = self.get_mut();
        let Some(frame) = ready!(Pin::new(&mut this.body).poll_frame(context)) else {
            return Poll::Ready(None);
        };
        let frame = frame.map_err(BoxError::from).and_then(|frame| {
            this.count(frame.data_ref().map(|data| &**data).unwrap_or_default())?;
            Ok(frame)
        });
        Poll::Ready(Some(frame))
    }
}

/// An answer of which no more is read than may be in memory. `bytes` counts what is read of it from now on.
pub(crate) fn bounded(
    answer: Response<Body>,
    is_watch: bool,
    bytes: &Arc<AtomicUsize>,
) -> Response<Bounded> {
    bytes.store(0, Ordering::Relaxed);
    answer.map(|body| Bounded { body, is_watch, bytes: Arc::clone(bytes) })
}

/// A client of answers that are no watches, and of which there is one at a time. `bytes` has what was read of the last.
pub(crate) fn client(client: &Client, bytes: &Arc<AtomicUsize>) -> Client {
    let (namespace, client) = (client.default_namespace().to_owned(), client.clone());
    let bytes = Arc::clone(bytes);
    let ask = service_fn(move |request: Request<Body>| {
        let (client, bytes) = (client.clone(), Arc::clone(&bytes));
        async move { client.send(request).await.map(|answer| bounded(answer, false, &bytes)) }
    });
    Client::new(ask, namespace)
}

/// Whether an error says that an answer is too long.
pub(crate) fn is_too_long(error: &(dyn Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if error.is::<TooLong>() {
            return true;
        }
        // The source of one of these is that of the error in it.
        let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        cause = inner.map(|inner| inner as &(dyn Error + 'static)).or_else(|| error.source());
    }
    false
}

/// The text of an error about a page, an object or an event.
pub(crate) fn page_error(error: &(dyn Error + 'static)) -> String {
    if is_too_long(error) { TooLong.to_string() } else { error.to_string() }
}

#[cfg(test)]
mod tests {
    use kube::{Api, api::ApiResource, core::GroupVersionKind};

    use super::{
        super::{listing::tests::large, object::Unread},
        *,
    };

    #[test]
    fn events_are_counted_by_line_and_pages_as_a_whole() {
        let half = "x".repeat(LONG / 2);
        let (begins, ends) = (format!("x\n{half}"), format!("{half}\nx"));
        for (is_watch, frames, is_long) in [
            (false, [&*half, &*half, ""], false),
            (false, [&*half, &*half, "x"], true),
            (false, [&*half, "\n", &*half], true),
            (true, [&*half, &*half, "\n"], false),
            (true, [&*half, &*half, "x\n"], true),
            (true, [&*ends, &*half, &*ends], true),
            (true, [&*ends, &*ends, &*begins], false),
            (true, [&*begins, &*ends, &*ends], false),
        ] {
            let mut page = Bounded { body: Body::empty(), is_watch, bytes: Arc::default() };
            let counted = frames.iter().try_for_each(|frame| page.count(frame.as_bytes()));
            assert_eq!(counted.is_err(), is_long, "{is_watch} {:?}", frames.map(str::len));
        }
    }

    #[tokio::test]
    async fn an_object_that_is_too_long_is_not_read() {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "Secret"));
        for (bytes, is_long) in [(LONG / 2, false), (LONG, true)] {
            let client = client(&large(1, bytes, &Arc::default()), &Arc::default());
            let got = Api::<Unread>::all_with(client, &resource).get("o0").await;
            let error = got.err().map(|error| page_error(&error));
            assert_eq!(error.as_deref(), is_long.then_some("an object has more than 32 MiB"));
        }
    }
}
