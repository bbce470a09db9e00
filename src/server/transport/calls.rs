//! The way of every call on the port, of any service: its caller is identified, it gets a slot, its
//! request is received, a thread is chosen, refusals are worded, the answer is sent, and the end is
//! recorded.

use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use http::{Request, Response};
use hyper::body::Incoming;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tonic::Status;
use tonic::body::Body;
use tonic::server::NamedService;
use tower::Service;
use tower::util::BoxCloneSyncService;

use super::decoded_size::DecodedSizes;
use super::decoders::Decoders;
use super::identity::{Guard, Peer};
use super::kinds::{CallKind, KindSlot, Kinds};
use super::messages::Messages;
use super::not_grpc;
use super::requests::{IncomingRequest, RequestBody, StreamTerms};
use super::responses::{OutgoingAnswer, is_unknown_method};
use super::turns::OpenCall;
use crate::access::Caller;
use crate::account::Account;
use crate::api;
use crate::api::slots::CallerKey;
use crate::proto::v1::spread_service_server::SpreadServiceServer;
use crate::server::config::Config;
use crate::server::error::Error;
use crate::server::telemetry::counts::PortCounts;
use crate::server::telemetry::observe::{CallObserver, ObservedCall};

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
    kinds: Kinds,
    guard: Option<Guard>,
    decoders: Decoders,
    account: Arc<Account>,
    sizes: Arc<DecodedSizes>,
    receive_timeout: Duration,
}

impl CallLimits {
    pub fn new(
        config: &Config,
        guard: Option<Guard>,
        account: &Arc<Account>,
        decoders: Decoders,
        counts: &Arc<PortCounts>,
    ) -> Result<Self, Error> {
        let sizes = DecodedSizes::new(&config.limits).map_err(Error::serve)?;
        Ok(Self {
            kinds: Kinds::new(&config.limits, counts),
            guard,
            decoders,
            account: Arc::clone(account),
            sizes: Arc::new(sizes),
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
        match &self.guard {
            Some(guard) if kind.is_spread() => guard.identify(request, peer)?,
            // This service is open to everybody, but not for every snapshot.
            Some(guard) => guard.greet(request, peer),
            None => {}
        }
        let identity = request.extensions().get::<Caller>().map(Caller::identity);
        let who = CallerKey::new(identity, Some(peer.address.ip()));
        request.extensions_mut().insert(who.clone());
        let slot = self.kinds.take(kind, &who)?;
        Ok((who, slot))
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
        let refused = not_grpc::refuse(&request);
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
        let answered = by(last_moment, answer).await;
        let response = answered.unwrap_or_else(Status::into_http);
        if let Some(call) = &mut call {
            call.answered(&response);
        }
        open.note_unread(true);
        response.map(|body| {
            let account = &limits.account;
            let most = limits.kinds.max_message_bytes(kind);
            Body::new(OutgoingAnswer::new(body, account, most, call, open, slot))
        })
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
    limits: &CallLimits,
) -> Result<Response<Body>, Status> {
    let (mut parts, body) = request.into_parts();
    let max_message_bytes = limits.kinds.max_message_bytes(kind);
    let messages = Messages::new(body, kind, max_message_bytes, limits.receive_timeout);
    let path = parts.uri.path();
    let stream = kind.is_stream().then(|| StreamTerms {
        decoders: limits.decoders.clone(),
        who: who.clone(),
    });
    let account = &limits.account;
    let mut incoming = IncomingRequest::new(messages, path, &limits.sizes, account, stream);
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
    limits.decoders.run(who, Box::pin(answer)).await?
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

/// Returns the result of `answer`, or an error once its deadline has passed.
async fn by<T>(
    last_moment: Option<Instant>,
    answer: Pin<&mut impl Future<Output = Result<T, Status>>>,
) -> Result<T, Status> {
    let Some(last_moment) = last_moment else {
        return answer.await;
    };
    // The answer is polled first: a finished one needs no timer.
    tokio::select! {
        biased;
        answer = answer => answer,
        () = sleep_until(last_moment) => Err(api::Error::Deadline.into()),
    }
}
