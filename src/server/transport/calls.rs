//! The layer for every call on the port, of any service: it identifies the
//! caller, takes a slot, receives the request, chooses the thread, words
//! refusals, sends the answer, and records the end.

use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Request, Response};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tonic::Status;
use tonic::body::Body;
use tonic::transport::server::Router;
use tower::layer::util::{Identity, Stack};
use tower::{Layer, Service};

use super::closing::Answers;
use super::connections::Peer;
use super::decoded_size::DecodedSizes;
use super::decoders::DecodersHandle;
use super::identity::Guard;
use super::kinds::{CallKind, Kinds};
use super::messages::Messages;
use super::not_grpc;
use super::requests::{IncomingRequest, StreamTerms};
use super::responses::{Chunks, EncodedAnswer, LibraryRefusals, OutgoingAnswer, is_unknown_method};
use super::turns::OpenCall;
use crate::access::Caller;
use crate::account::{Account, Charge, Part};
use crate::api::slots::{CallSlot, CallerKey};
use crate::api::{self, StepCharges};
use crate::server::config::Config;
use crate::server::error::Error;
use crate::server::telemetry::observe::{CallObserver, ObservedCall};

/// The bytes of a call with small messages: an HTTP/2 stream, and a decoder and an encoder with 8
/// KiB each.
const CALL_BYTES: usize = 24 << 10;

/// The services that a thread offers to its connections.
pub type Offered = Router<Stack<CallLimits, Identity>>;

/// The terms on which calls are accepted.
#[derive(Clone)]
pub struct CallLimits {
    shared: Arc<SharedLimits>,
    answers: Arc<Answers>,
    observer: Option<Arc<CallObserver>>,
}

/// The limits that all threads share.
struct SharedLimits {
    kinds: Kinds,
    guard: Option<Guard>,
    decoders: DecodersHandle,
    account: Arc<Account>,
    sizes: Arc<DecodedSizes>,
    refusals: LibraryRefusals,
    receive_timeout: Duration,
}

impl CallLimits {
    pub fn new(
        config: &Config,
        guard: Option<Guard>,
        account: &Arc<Account>,
        decoders: DecodersHandle,
    ) -> Result<Self, Error> {
        let sizes = DecodedSizes::new(&config.limits).map_err(Error::serve)?;
        let max_message_bytes = config.limits.max_message_bytes;
        Ok(Self {
            shared: Arc::new(SharedLimits {
                kinds: Kinds::new(&config.limits),
                guard,
                decoders,
                account: Arc::clone(account),
                sizes: Arc::new(sizes),
                refusals: LibraryRefusals { max_message_bytes },
                receive_timeout: config.fixed.receive_timeout,
            }),
            answers: Arc::default(),
            observer: None,
        })
    }

    /// The same limits on another thread: `observer` records its calls, and its answers are among
    /// `answers`.
    pub fn on_thread(&self, observer: Option<Arc<CallObserver>>, answers: &Arc<Answers>) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            answers: Arc::clone(answers),
            observer,
        }
    }

    /// Makes the observer record the questions of a stream one by one.
    fn observe_questions(&self, kind: CallKind, request: &mut Request<Body>) {
        if let (CallKind::Decisions, Some(observer)) = (kind, &self.observer) {
            let observer = api::QuestionObserver(observer.clone());
            request.extensions_mut().insert(observer);
        }
    }

    /// Returns the kinds of calls, with their numbers and limits.
    pub fn kinds(&self) -> &Kinds {
        &self.shared.kinds
    }
}

impl SharedLimits {
    /// Identifies the caller, and takes a slot and memory for the call.
    fn admit(
        &self,
        kind: CallKind,
        request: &mut Request<Body>,
    ) -> Result<(CallerKey, CallSlot, Option<Charge>), api::Error> {
        match &self.guard {
            Some(guard) if kind.is_spread() => guard.identify(request)?,
            // This service is open to everybody, but not for every snapshot.
            Some(guard) => guard.greet(request),
            None => {}
        }
        let extensions = request.extensions();
        let identity = extensions.get::<Caller>().map(Caller::identity);
        let address = extensions.get::<Peer>().map(|peer| peer.address.ip());
        let who = CallerKey::new(identity, address);
        request.extensions_mut().insert(who.clone());
        let slot = self.kinds.slots(kind).take(&who)?;
        let part = match kind.stays_open() {
            true => Part::Streams,
            false => Part::Requests,
        };
        // Health checks have their own slots, which also limits their memory.
        let base = (kind != CallKind::Check).then(|| self.account.charge(part, CALL_BYTES));
        Ok((who, slot, base.transpose()?))
    }
}

impl<S> Layer<S> for CallLimits {
    type Service = Limited<S>;

    fn layer(&self, inner: S) -> Limited<S> {
        Limited {
            inner,
            limits: self.clone(),
        }
    }
}

/// A service within [`CallLimits`].
#[derive(Clone)]
pub struct Limited<S> {
    inner: S,
    limits: CallLimits,
}

impl<S> Service<Request<Body>> for Limited<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
    S: Clone + Send + 'static,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        if let Some(refused) = not_grpc::refuse(&request) {
            return Box::pin(std::future::ready(Ok(refused)));
        }
        let peer = request.extensions().get::<Peer>();
        let arrived = peer.map(|peer| peer.calls.arrive());
        let kind = CallKind::of(request.uri().path());
        let observer = self.limits.observer.as_ref();
        let call = observer.map(|observer| observer.begin(&request, kind.is_spread()));
        // The instance that was polled ready answers this call.
        let ready = self.inner.clone();
        let inner = std::mem::replace(&mut self.inner, ready);
        let limits = self.limits.clone();
        Box::pin(take(inner, limits, kind, call, (request, arrived)))
    }
}

/// Takes a call in a turn of its connection, or refuses it. All checks begin when this is first
/// polled, so of calls that arrive together, a refused one does not stop the others.
async fn take<S>(
    inner: S,
    limits: CallLimits,
    kind: CallKind,
    call: Option<ObservedCall>,
    (mut request, mut arrived): (Request<Body>, Option<OpenCall>),
) -> Result<Response<Body>, Infallible>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible> + Send + 'static,
    S::Future: Send + 'static,
{
    limits.observe_questions(kind, &mut request);
    let shared = limits.shared;
    if let Some(arrived) = &mut arrived {
        arrived.begin().await;
    }
    let (who, slot, base) = match shared.admit(kind, &mut request) {
        Ok(admitted) => admitted,
        Err(error) => return Ok(refused(error, call)),
    };
    // `call` is dropped before the slot, so a call whose slot is free has been counted.
    let mut call = call;
    let last_moment = api::last_moment(request.headers());
    // The answer is pinned in place: its state is large, and moving it would cost more than most
    // answers.
    let answer = pin!(answer(inner, request, kind, who, Arc::clone(&shared)));
    let answered = by(last_moment, answer).await;
    let mut response = answered.unwrap_or_else(|status| {
        let refused = status.into_http();
        refused.map(|body| EncodedAnswer::empty(body, Arc::clone(&shared.account)))
    });
    shared.refusals.amend(response.headers_mut());
    if let Some(call) = &mut call {
        call.answered(&response);
    }
    Ok(response.map(|encoded| {
        Body::new(OutgoingAnswer {
            encoded,
            chunks: Chunks::default(),
            refusals: shared.refusals,
            call,
            watch: arrived
                .as_ref()
                .map(|call| limits.answers.watch(&call.turns.connection)),
            _open: arrived,
            _slot: slot,
            _base: base,
            is_over: false,
        })
    }))
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
async fn answer<S>(
    inner: S,
    request: Request<Body>,
    kind: CallKind,
    who: CallerKey,
    shared: Arc<SharedLimits>,
) -> Result<Response<EncodedAnswer>, Status>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible> + Send + 'static,
    S::Future: Send + 'static,
{
    let (mut parts, body) = request.into_parts();
    let max_message_bytes = shared.kinds.max_message_bytes(kind);
    let messages = Messages::new(body, kind, max_message_bytes, shared.receive_timeout);
    let path = parts.uri.path();
    let stream = kind.is_stream().then(|| StreamTerms {
        decoders: shared.decoders.clone(),
        who: who.clone(),
        charges: (kind == CallKind::Decisions).then(StepCharges::default),
    });
    if let Some(charges) = stream.as_ref().and_then(|stream| stream.charges.clone()) {
        parts.extensions.insert(charges);
    }
    let mut incoming = IncomingRequest::new(messages, path, &shared.sizes, &shared.account, stream);
    let is_large = !kind.is_stream() && incoming.expected().await? > api::LARGE_REQUEST;
    // Dropped with this future, when the caller is gone.
    let mut _present = None;
    if is_large {
        let gone = CancellationToken::new();
        _present = Some(gone.clone().drop_guard());
        parts.extensions.insert(api::CallerGone(gone));
        let receive = async move { incoming.first().await.map(|()| incoming) };
        incoming = Box::pin(shared.decoders.receive(receive)).await??;
    } else if !kind.is_stream() {
        incoming.first().await?;
    }
    let request = Request::from_parts(parts, incoming);
    let account = Arc::clone(&shared.account);
    if is_large {
        let answer = run(inner, request, account);
        return Box::pin(shared.decoders.run(who, answer)).await?;
    }
    run(inner, request, account).await
}

/// Decodes a request, answers it, and encodes the beginning of the answer.
async fn run<S>(
    mut inner: S,
    mut request: Request<IncomingRequest>,
    account: Arc<Account>,
) -> Result<Response<EncodedAnswer>, Status>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
{
    let _held = request.body_mut().weigh()?;
    let uri = request.uri().clone();
    let Ok(response) = inner.call(request.map(Body::new)).await;
    if is_unknown_method(response.headers()) {
        let error = api::Error::Unimplemented(uri.path().to_owned());
        return Err(error.into());
    }
    let (parts, body) = response.into_parts();
    Ok(Response::from_parts(
        parts,
        EncodedAnswer::begin(body, account)?,
    ))
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
