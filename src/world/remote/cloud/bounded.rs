//! Bounds on every answer of an object store, those included that its client reads by itself: listings, errors, receipts.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll};
use std::time::Instant;

use async_trait::async_trait;
use http_body::{Body, Frame, SizeHint};
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpResponseBody,
    HttpService, ReqwestConnector,
};

use crate::world::remote::Limits;
use crate::world::remote::limits::Meter;

/// Bytes of an answer that is no object: a listing names a thousand of at most a thousand bytes each.
const MOST: u64 = 8 << 20;
/// Answers that one listing may have.
const PAGES: u32 = 5000;

/// Makes clients that keep to the limits.
#[derive(Debug)]
pub(super) struct Bounded {
    pub(super) limits: Limits,
}

impl HttpConnector for Bounded {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let client = ReqwestConnector::default().connect(options)?;
        Ok(HttpClient::new(Service { client, limits: self.limits, pages: AtomicU32::new(0) }))
    }
}

#[derive(Debug)]
struct Service {
    client: HttpClient,
    limits: Limits,
    /// Answers of the listing that goes on.
    pages: AtomicU32,
}

/// It would be the same again.
fn lasting(what: impl Into<String>) -> HttpError {
    HttpError::new(HttpErrorKind::Decode, io::Error::other(what.into()))
}

impl Service {
    /// A server could name a next page for ever, and nothing on any of them.
    fn count_page(&self, query: &str) -> Result<(), HttpError> {
        if !["continuation-token=", "marker="].iter().any(|word| query.contains(word)) {
            self.pages.store(0, Ordering::Relaxed);
            return Ok(());
        }
        if self.pages.fetch_add(1, Ordering::Relaxed) < PAGES {
            return Ok(());
        }
        Err(lasting(format!("a listing of more than {PAGES} answers")))
    }
}

#[async_trait]
impl HttpService for Service {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let query = request.uri().query().unwrap_or_default();
        self.count_page(query)?;
        // Who asks for an object caps it.
        let may_be_object = request.method() == "GET" && query.is_empty();
        let sent = self.limits.pace.longest(request.body().content_length() as u64);
        let answer =
            tokio::time::timeout(self.limits.headers.saturating_add(sent), self.client.execute(request));
        let answer = answer.await.map_err(|_| {
            let late = io::Error::new(io::ErrorKind::TimedOut, "no answer came in time");
            HttpError::new(HttpErrorKind::Timeout, late)
        })??;
        let most = if may_be_object && answer.status().is_success() { u64::MAX } else { MOST };
        let meter = self.limits.pace.meter(Instant::now());
        Ok(answer.map(|body| HttpResponseBody::new(Measured { body, left: most, meter })))
    }
}

/// A body that ends as an error where it is too large or too slow.
struct Measured {
    body: HttpResponseBody,
    left: u64,
    meter: Meter,
}

impl Body for Measured {
    type Data = <HttpResponseBody as Body>::Data;
    type Error = HttpError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, HttpError>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        if let Poll::Ready(Some(Ok(frame))) = &polled {
            let count = frame.data_ref().map_or(0, |data| data.len());
            let Some(left) = self.left.checked_sub(count as u64) else {
                return Poll::Ready(Some(Err(lasting(format!("the answer has more than {MOST} bytes")))));
            };
            self.left = left;
            if !self.meter.count(count, Instant::now()) {
                return Poll::Ready(Some(Err(lasting("the body came too slowly"))));
            }
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        // A length that was named is memory that would be taken before anything came.
        SizeHint::default()
    }
}
