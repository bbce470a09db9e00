//! The way of every call on the port, of any service: its caller is identified (`api`, which knows the
//! snapshots, decides what each may do), it gets a slot of its kind, its
//! request is received, a thread is chosen, refusals are worded, the answer is sent, and the end is
//! recorded.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::future::BoxFuture;
use http::header::AUTHORIZATION;
use http::{HeaderMap, Request, Response};
use hyper::body::Incoming;
use tokio_util::sync::CancellationToken;
use tonic::Status;
use tonic::body::Body;
use tonic::server::NamedService;
use tower::Service;
use tower::util::BoxCloneSyncService;
use tracing::debug;

use super::connections::{CallTurns, OpenCall, refuse_foreign};
use super::decoded_size::DecodedSizes;
use super::requests::{IncomingRequest, RequestBody};
use super::responses::{OutgoingAnswer, is_unknown_method};
use crate::access::{self, Caller, CallerIdentity, CertificateName, RuleBook, TokenHash, Visitor};
use crate::account::Account;
use crate::api::{self, Beside, CallSlots, CallerKey, WorkPlace};
use crate::limits::Limit;
use crate::proto::v1::spread_service_server::SpreadServiceServer;
use crate::server::Error;
use crate::server::config::Config;
use crate::server::telemetry::PortCounts;
use crate::server::telemetry::calls::{CallObserver, ObservedCall};

/// A service that answers requests of the port.
pub type OpenService = BoxCloneSyncService<Request<RequestBody>, Response<Body>, Infallible>;

/// The services of the port.
#[derive(Clone)]
pub struct Services {
    /// The service of snapshots and decisions.
    pub spread: SpreadServiceServer<api::Service>,
    /// Services that are open to everybody, by the names that clients call.
    pub others: Vec<(&'static str, OpenService)>,
}

impl Services {
    /// Has the service of the request's path answer it; `None` if there is no such service.
    async fn call(&self, request: Request<RequestBody>) -> Option<Response<Body>> {
        let path = request.uri().path();
        let (service, _) = path.strip_prefix('/')?.split_once('/')?;
        let answer = if service == SpreadServiceServer::<api::Service>::NAME {
            self.spread.clone().call(request)
        } else {
            let other = self.others.iter().find(|(name, _)| *name == service)?;
            Box::pin(other.1.clone().call(request))
        };
        let Ok(response) = answer.await;
        Some(response)
    }
}

/// The terms on which calls are accepted.
pub struct CallLimits {
    calls: CallSlots,
    /// The slots of calls that stay open.
    streams: CallSlots,
    /// The slots of health checks, which no other call can take.
    checks: CallSlots,
    counts: Arc<PortCounts>,
    max_message_bytes: usize,
    /// The access rules, if callers are told apart.
    rules: Option<Arc<RuleBook>>,
    /// Decodes large messages.
    pub(super) beside: Beside,
    pub(super) account: Arc<Account>,
    pub(super) sizes: DecodedSizes,
    pub(super) receive_timeout: Duration,
}

impl CallLimits {
    pub fn new(
        config: &Config,
        rules: Option<Arc<RuleBook>>,
        account: &Arc<Account>,
        beside: Beside,
        counts: &Arc<PortCounts>,
    ) -> Result<Self, Error> {
        let limits = &*config.limits;
        let slots = |limit| CallSlots::new(limit, limits, 0);
        Ok(Self {
            calls: slots(Limit::ConcurrentCalls),
            streams: slots(Limit::Streams),
            checks: slots(Limit::HealthChecks),
            counts: Arc::clone(counts),
            max_message_bytes: limits.max_message_bytes,
            rules,
            beside,
            account: Arc::clone(account),
            sizes: DecodedSizes::new(limits).map_err(Error::serve)?,
            receive_timeout: config.fixed.receive_timeout,
        })
    }

    /// Identifies the caller, and takes a slot for the call.
    fn admit(
        &self,
        kind: CallKind,
        request: &mut Request<Incoming>,
        peer: &Peer,
    ) -> Result<(CallerKey, KindSlot), api::Error> {
        let mut caller = None;
        if let Some(book) = &self.rules {
            let found = identify(request.headers(), peer.certificate.clone());
            let found = found.and_then(|it| access::admit(book, it).ok_or(UNKNOWN_CALLER));
            if let (Err(why), true) = (&found, kind.is_spread()) {
                debug!(address = %peer.address, why, "refused a caller");
                return Err(api::Error::Unauthenticated(why));
            }
            caller = found.ok();
            request.extensions_mut().insert(Visitor(caller.clone()));
        }
        let identity = caller.as_ref().map(Caller::identity);
        let who = CallerKey::new(identity, Some(peer.address.ip()));
        request.extensions_mut().insert(who.clone());
        let slot = self.take(kind, &who)?;
        Ok((who, slot))
    }

    /// Takes a slot for a call, until it is dropped.
    ///
    /// # Errors
    /// [`api::Error::OverLimit`].
    fn take(&self, kind: CallKind, who: &CallerKey) -> Result<KindSlot, api::Error> {
        let slots = match kind {
            CallKind::Call => &self.calls,
            CallKind::Check => &self.checks,
            _ => &self.streams,
        };
        let slot = slots.take(who)?;
        count(kind, &self.counts).fetch_add(1, Ordering::Relaxed);
        Ok(KindSlot {
            kind,
            counts: Arc::clone(&self.counts),
            _slot: slot,
        })
    }

    /// Returns the largest length of a message of a kind.
    pub(super) fn max_message_bytes(&self, kind: CallKind) -> usize {
        match kind {
            CallKind::Call | CallKind::Feed | CallKind::Decisions => self.max_message_bytes,
            CallKind::Check | CallKind::Watch | CallKind::Reflection => {
                MAX_NAME_REQUEST_BYTES.min(self.max_message_bytes)
            }
        }
    }
}

/// The calls of one thread.
#[derive(Clone)]
pub struct ThreadCalls {
    /// The terms of all threads.
    pub limits: Arc<CallLimits>,
    /// Records the calls.
    pub observer: Option<Arc<CallObserver>>,
    /// What answers them.
    pub services: Services,
}

impl ThreadCalls {
    /// Answers a call that has arrived, in a turn of its connection.
    pub fn answer(
        self: Arc<Self>,
        peer: &Arc<Peer>,
        request: Request<Incoming>,
    ) -> BoxFuture<'static, Response<Body>> {
        let kind = CallKind::of(request.uri().path());
        let open = peer.turns.arrive();
        let refused = refuse_foreign(&request);
        let observer = self.observer.as_ref().filter(|_| refused.is_none());
        let call = observer.map(|observer| observer.begin(&request, kind.is_spread()));
        let peer = Arc::clone(peer);
        // Its state is large. In a box it is gone once the answer is there, and the next call uses the
        // same memory, while HTTP/2 still sends the answer.
        Box::pin(async move {
            match refused {
                Some(refused) => refused,
                None => self.take(kind, request, &peer, (open, call)).await,
            }
        })
    }

    /// Takes a call, or refuses it. All checks begin when this is first
    /// polled, so of calls that arrive together, a refused one does not stop the others.
    async fn take(
        &self,
        kind: CallKind,
        mut request: Request<Incoming>,
        peer: &Peer,
        (mut open, call): (OpenCall, Option<ObservedCall>),
    ) -> Response<Body> {
        if let (CallKind::Decisions, Some(observer)) = (kind, &self.observer) {
            let observer = api::QuestionObserver(observer.clone());
            request.extensions_mut().insert(observer);
        }
        let limits = &self.limits;
        let (who, slot) = match limits.admit(kind, &mut request, peer) {
            Ok(admitted) => admitted,
            Err(error) => return refused(error, call),
        };
        // `call` is dropped before the slot, so a call whose slot is free has been counted.
        let mut call = call;
        let last_moment = api::last_moment(request.headers());
        // The answer is pinned in place: its state is large, and moving it would cost more than most
        // answers.
        let answer = pin!(answer(&self.services, request, kind, who, limits));
        let answered = api::until(last_moment, answer).await;
        let answered = answered.unwrap_or_else(|late| Err(late.into()));
        let response = answered.unwrap_or_else(Status::into_http);
        if let Some(call) = &mut call {
            call.answered(&response);
        }
        open.note_unread(true);
        response.map(|body| Body::new(OutgoingAnswer::new(body, limits, call, open, slot)))
    }
}

/// Returns the response of a call that is refused before it is taken.
fn refused(error: api::Error, call: Option<ObservedCall>) -> Response<Body> {
    let refused = Status::from(error).into_http();
    if let Some(mut call) = call {
        call.answered(&refused);
    }
    refused
}

/// Receives a request, and answers it on a thread for requests of its size.
async fn answer(
    services: &Services,
    request: Request<Incoming>,
    kind: CallKind,
    who: CallerKey,
    limits: &Arc<CallLimits>,
) -> Result<Response<Body>, Status> {
    let (mut parts, body) = request.into_parts();
    let path = parts.uri.path();
    let mut incoming = IncomingRequest::new(body, kind, who.clone(), path, limits);
    let mut is_large = false;
    if !kind.is_stream() {
        is_large = incoming.first().await? > api::LARGE_REQUEST;
    }
    if !is_large {
        let request = Request::from_parts(parts, incoming);
        return run(services, request).await;
    }
    // Dropped with this future, when the caller is gone.
    let gone = CancellationToken::new();
    let _present = gone.clone().drop_guard();
    parts.extensions.insert(api::CallerGone(gone));
    let request = Request::from_parts(parts, incoming);
    let services = services.clone();
    let answer = async move { run(&services, request).await };
    limits.beside.run(who, Box::pin(answer)).await?
}

/// Decodes a request, and answers it.
async fn run(
    services: &Services,
    mut request: Request<IncomingRequest>,
) -> Result<Response<Body>, Status> {
    let _held = request.body_mut().weigh()?;
    let uri = request.uri().clone();
    let request = request.map(IncomingRequest::into_body);
    let response = services.call(request).await;
    let response = response.filter(|response| !is_unknown_method(response.headers()));
    response.ok_or_else(|| api::Error::Unimplemented(uri.path().to_owned()).into())
}

/// The largest request of health and reflection. They hold names, and the longest name has some
/// hundred bytes.
const MAX_NAME_REQUEST_BYTES: usize = 8 << 10;

/// The kind of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallKind {
    /// One request to `SpreadService`.
    Call,
    /// A stream of batches.
    Feed,
    /// A stream of questions.
    Decisions,
    /// A health check.
    Check,
    /// A health watch.
    Watch,
    /// A stream of questions about the protocol.
    Reflection,
}

impl CallKind {
    /// The kind of the calls of a path, such as
    /// `/evenkeel.v1.SpreadService/Filter`.
    pub fn of(path: &str) -> Self {
        let path = path.strip_prefix('/').unwrap_or(path);
        let (service, method) = path.split_once('/').unwrap_or((path, ""));
        match (service, method) {
            ("grpc.health.v1.Health", "Watch") => Self::Watch,
            ("grpc.health.v1.Health", _) => Self::Check,
            (service, _) if service.starts_with("grpc.reflection.") => Self::Reflection,
            (_, "StreamSnapshot") => Self::Feed,
            (_, "Decide") => Self::Decisions,
            _ => Self::Call,
        }
    }

    /// Returns whether this is a call of `SpreadService`, or of an unknown service.
    pub fn is_spread(self) -> bool {
        matches!(self, Self::Call | Self::Feed | Self::Decisions)
    }

    /// Returns whether the client may send more than one message.
    pub fn is_stream(self) -> bool {
        matches!(self, Self::Feed | Self::Decisions | Self::Reflection)
    }
}

/// A slot that a call of a kind holds.
pub struct KindSlot {
    kind: CallKind,
    counts: Arc<PortCounts>,
    _slot: WorkPlace,
}

impl Drop for KindSlot {
    fn drop(&mut self) {
        count(self.kind, &self.counts).fetch_sub(1, Ordering::Relaxed);
    }
}

/// The number of calls of a kind under way.
fn count(kind: CallKind, counts: &PortCounts) -> &AtomicUsize {
    match kind {
        CallKind::Call => &counts.calls,
        CallKind::Feed => &counts.feeds,
        CallKind::Decisions => &counts.decision_streams,
        CallKind::Check => &counts.checks,
        CallKind::Watch => &counts.watches,
        CallKind::Reflection => &counts.reflections,
    }
}

/// The peer of a connection.
#[derive(Debug)]
pub struct Peer {
    /// The peer's address.
    pub address: SocketAddr,
    /// The names of its certificate, if it has one that was verified.
    pub certificate: Option<Arc<[CertificateName]>>,
    /// Lets calls begin.
    pub turns: Arc<CallTurns>,
}

const UNKNOWN_CALLER: &str = "no rule of the access file is about these credentials";

/// Returns the identity of a caller: its token if it sends one, else its certificate.
fn identify(
    headers: &HeaderMap,
    names: Option<Arc<[CertificateName]>>,
) -> Result<CallerIdentity, &'static str> {
    let mut sent = headers.get_all(AUTHORIZATION).iter();
    let Some(value) = sent.next() else {
        return Ok(names.map_or(CallerIdentity::Nobody, CallerIdentity::Certificate));
    };
    if sent.next().is_some() {
        return Err("authorization is sent more than once");
    }
    let token = value.to_str().ok().and_then(|value| {
        let (scheme, token) = value.split_once(' ')?;
        let token = token.trim();
        (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
    });
    let token = token.ok_or("authorization must be \"Bearer TOKEN\"")?;
    Ok(CallerIdentity::Token(TokenHash::of(token)))
}
