//! A request as the services receive it. Each message is passed on when it is complete and its
//! memory is on the account.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http_body::{Frame, SizeHint};
use prost::bytes::Bytes;
use tonic::Status;

use super::decoded_size::{DecodedSizes, RequestLayout};
use super::decoders::DecodersHandle;
use super::kinds::CallKind;
use super::messages::{Messages, RequestCharge, WholeMessage};
use crate::account::{Account, Charge};
use crate::api::slots::CallerKey;
use crate::api::{self, StepCharges};

/// The number of parts of a large message of a stream that are passed on in a turn.
const PARTS_PER_TURN: usize = 4;

/// The request of a call.
pub struct IncomingRequest {
    messages: Messages,
    sizes: Arc<DecodedSizes>,
    /// The layout of its messages, if they are the service's.
    request: Option<RequestLayout>,
    /// The charge for bytes that arrived and are not passed on yet.
    charge: RequestCharge,
    /// The message that is being passed on.
    current: WholeMessage,
    /// The number of parts of a large message that were passed on in this turn.
    passed: usize,
    given: PassedOn,
    /// The terms of a stream; none for a call with one message.
    stream: Option<StreamTerms>,
    is_over: bool,
}

/// The terms on which the messages of a stream are received.
pub struct StreamTerms {
    /// The threads that weigh large messages.
    pub decoders: DecodersHandle,
    /// The caller in whose turn they are weighed.
    pub who: CallerKey,
    /// The receiver of the charges; none if the request keeps them until the call is done with the
    /// messages.
    pub charges: Option<StepCharges>,
}

/// The messages of a stream that were passed on and may still be in use.
#[derive(Default)]
struct PassedOn {
    charges: VecDeque<Option<Charge>>,
    /// True if there was no message to pass on when one was last asked for.
    waited: bool,
    /// The length of the longest message: its decoder keeps as much room for the next.
    longest: usize,
    /// A large message that is being weighed.
    weighing: Option<Weighing>,
}

type Weighing = Pin<Box<dyn Future<Output = Result<Weighed, api::Error>> + Send>>;

/// A message, and the bytes that it takes when it is decoded.
type Weighed = (WholeMessage, Result<usize, api::Error>);

impl IncomingRequest {
    /// The request of these messages, to a path.
    pub fn new(
        messages: Messages,
        path: &str,
        sizes: &Arc<DecodedSizes>,
        account: &Arc<Account>,
        stream: Option<StreamTerms>,
    ) -> Self {
        Self {
            messages,
            request: sizes.request(path),
            sizes: Arc::clone(sizes),
            charge: RequestCharge::new(Arc::clone(account)),
            current: WholeMessage::default(),
            passed: 0,
            given: PassedOn::default(),
            stream,
            is_over: false,
        }
    }

    /// Waits for the head of the first message. Returns the length of that with its head; 0 if none
    /// comes.
    ///
    /// # Errors
    /// The status with which the call ends without a message.
    pub async fn expected(&mut self) -> Result<usize, Status> {
        poll_fn(|context| self.messages.poll_expected(context)).await
    }

    /// Waits for the first message.
    ///
    /// # Errors
    /// The status with which the call ends without a message.
    pub async fn first(&mut self) -> Result<(), Status> {
        let next = poll_fn(|context| self.messages.poll_next(context, &mut self.charge)).await;
        match next.transpose()? {
            Some(whole) => self.current = whole,
            None => self.is_over = true,
        }
        Ok(())
    }

    /// Charges the memory for decoding the complete message. Returns the message's charge, to hold it
    /// while the call works on the message. This reads the whole message, so it runs only where
    /// decoding may run, too.
    ///
    /// # Errors
    /// When there is no memory for it, or a list has more entries than a limit allows.
    pub fn weigh(&mut self) -> Result<Option<Charge>, Status> {
        let decoded = decoded_size(&self.sizes, self.request, &self.current);
        self.charge_decoded(decoded)?;
        Ok(self.charge.take())
    }

    fn charge_decoded(&mut self, decoded: Result<usize, api::Error>) -> Result<(), Status> {
        // Health checks have their own slots, which also limit their memory.
        if self.messages.kind == CallKind::Check || self.current.is_empty() {
            return Ok(());
        }
        // Decoders gather a message before they decode it.
        let takes = decoded?.saturating_add(self.current.len());
        // The message is then compiled into data of its size, and an answer may repeat its content.
        // Questions of a stream are decoded one by one, and kept compiled.
        let times = match self.messages.kind {
            CallKind::Decisions => 1,
            _ => 2,
        };
        self.charge.grow(takes.saturating_mul(times))
    }

    /// The next message of a stream. A large one is weighed beside the threads that
    /// serve.
    fn poll_more(
        &mut self,
        context: &mut Context<'_>,
        stream: &StreamTerms,
    ) -> Poll<Option<Result<(), Status>>> {
        if self.given.weighing.is_none() {
            if std::mem::take(&mut self.given.waited) {
                // A call that asks for the next message is done with the last one.
                self.given.charges.clear();
            }
            let Poll::Ready(next) = self.messages.poll_next(context, &mut self.charge) else {
                self.given.waited = true;
                return Poll::Pending;
            };
            match next.transpose() {
                Ok(Some(whole)) if whole.len() > api::LARGE_REQUEST => {
                    self.given.weighing = Some(self.weighing(whole, stream));
                }
                Ok(Some(whole)) => {
                    let decoded = decoded_size(&self.sizes, self.request, &whole);
                    return Poll::Ready(Some(self.pass_on((whole, decoded), stream)));
                }
                Ok(None) => return Poll::Ready(None),
                Err(status) => return Poll::Ready(Some(Err(status))),
            }
        }
        let Some(weighing) = &mut self.given.weighing else {
            return Poll::Ready(None);
        };
        let weighed = ready!(weighing.as_mut().poll(context));
        self.given.weighing = None;
        let passed = weighed.map_err(Status::from);
        Poll::Ready(Some(
            passed.and_then(|weighed| self.pass_on(weighed, stream)),
        ))
    }

    fn weighing(&self, whole: WholeMessage, stream: &StreamTerms) -> Weighing {
        let (sizes, request) = (Arc::clone(&self.sizes), self.request);
        let (decoders, who) = (stream.decoders.clone(), stream.who.clone());
        let weigh = async move {
            let decoded = decoded_size(&sizes, request, &whole);
            (whole, decoded)
        };
        Box::pin(async move { decoders.run(who, weigh).await })
    }

    /// Charges the message that is to be passed on.
    fn pass_on(&mut self, (whole, decoded): Weighed, stream: &StreamTerms) -> Result<(), Status> {
        self.current = whole;
        self.given.longest = self.given.longest.max(self.current.len());
        self.charge_decoded(decoded)?;
        let charge = self.charge.take();
        match &stream.charges {
            Some(charges) => charges.hand_over(charge),
            None => {
                if self.given.charges.len() >= api::MAX_GROUP {
                    self.given.charges.pop_front();
                }
                self.given.charges.push_back(charge);
            }
        }
        self.charge.grow(self.given.longest)
    }

    /// The next message. The request of a call that is no stream must end here, without a second
    /// message.
    fn poll_message(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<(), Status>>> {
        if let Some(stream) = self.stream.take() {
            let next = self.poll_more(context, &stream);
            self.stream = Some(stream);
            return next;
        }
        let next = ready!(self.messages.poll_next(context, &mut self.charge));
        Poll::Ready(next.map(|next| match next {
            Ok(_) => {
                let fault = "this call takes one message".to_owned();
                Err(api::Error::Undecodable(fault).into())
            }
            Err(status) => Err(status),
        }))
    }
}

/// Returns the bytes that a message takes when it is decoded.
fn decoded_size(
    sizes: &DecodedSizes,
    request: Option<RequestLayout>,
    whole: &WholeMessage,
) -> Result<usize, api::Error> {
    let size = request.map_or(Ok(0), |request| sizes.of(request, whole));
    Ok(size?)
}

impl http_body::Body for IncomingRequest {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = &mut *self;
        loop {
            // The decoder copies each part to gather the message, so other tasks run between the
            // parts.
            if this.passed >= PARTS_PER_TURN {
                this.passed = 0;
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            if let Some(block) = this.current.next_block() {
                let is_large = this.current.len() > api::LARGE_REQUEST;
                this.passed += usize::from(this.stream.is_some() && is_large);
                return Poll::Ready(Some(Ok(Frame::data(block))));
            }
            if this.is_over {
                return Poll::Ready(None);
            }
            let next = ready!(this.poll_message(context));
            match next {
                Some(Ok(())) => {}
                Some(Err(status)) => {
                    this.is_over = true;
                    this.current = WholeMessage::default();
                    return Poll::Ready(Some(Err(status)));
                }
                None => this.is_over = true,
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        let is_done = self.current.is_empty() && self.given.weighing.is_none();
        is_done && (self.is_over || self.messages.are_over())
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}
