//! Tells callers apart before their calls are looked at. What each may do is
//! decided by `api`, which knows the snapshots.

use std::convert::Infallible;
use std::future::ready;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::header::AUTHORIZATION;
use http::{HeaderMap, Request, Response};
use tonic::Status;
use tonic::body::Body;
use tower::{Layer, Service};
use tracing::debug;

use super::connections::Peer;
use super::reload::{self, Watched};
use super::security::Counts;
use crate::access::{self, Book, Identity, TokenHash};
use crate::api;

/// The rules of the file at `path`, and the file to watch for them.
pub(super) fn rules(
    path: &Path,
    counts: &Arc<Counts>,
) -> Result<(Arc<Book>, Watched), reload::Error> {
    let file = path.to_owned();
    let parse = move |contents: &[Vec<u8>]| {
        let told =
            |fault: &dyn std::fmt::Display| format!("access-file {}: {fault}", file.display());
        let text = std::str::from_utf8(&contents[0]).map_err(|error| told(&error))?;
        Ok(access::parse(text).map_err(|error| told(&error))?)
    };
    Watched::new("access rules", vec![path.to_owned()], counts, parse)
}

/// Lets only callers through whom a rule is about.
#[derive(Clone)]
pub(super) struct Guard(pub(super) Arc<Book>);

impl<S> Layer<S> for Guard {
    type Service = Guarded<S>;

    fn layer(&self, inner: S) -> Guarded<S> {
        Guarded {
            inner,
            book: Arc::clone(&self.0),
        }
    }
}

/// A service behind a [`Guard`].
#[derive(Clone)]
pub(super) struct Guarded<S> {
    inner: S,
    book: Arc<Book>,
}

impl<S> Service<Request<Body>> for Guarded<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let peer = request.extensions().get::<Peer>();
        let address = peer.map(|peer| peer.address);
        let names = peer.and_then(|peer| peer.certificate.clone());
        let caller = identify(request.headers(), names)
            .and_then(|identity| access::admit(&self.book, identity).ok_or(UNKNOWN));
        match caller {
            Ok(caller) => {
                request.extensions_mut().insert(caller);
                Box::pin(self.inner.call(request))
            }
            Err(why) => {
                debug!(?address, why, "refused a caller");
                let refused = Status::from(api::Error::Unauthenticated(why));
                Box::pin(ready(Ok(refused.into_http())))
            }
        }
    }
}

const UNKNOWN: &str = "no rule of the access file is about these credentials";

/// By what a caller is to be known: its token if it sends one, else its
/// certificate.
fn identify(headers: &HeaderMap, names: Option<Arc<[String]>>) -> Result<Identity, &'static str> {
    let mut sent = headers.get_all(AUTHORIZATION).iter();
    let Some(value) = sent.next() else {
        return Ok(names.map_or(Identity::Nobody, Identity::Certificate));
    };
    if sent.next().is_some() {
        return Err("authorization is sent more than once");
    }
    let token = value.to_str().ok().and_then(|value| {
        let (scheme, token) = value.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
    });
    let token = token.ok_or("authorization must be \"Bearer TOKEN\"")?;
    Ok(Identity::Token(TokenHash::of(token)))
}
