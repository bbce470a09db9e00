//! A request as the services receive it. Each message is passed on when it is complete and its
//! memory is on the account.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;

use futures::stream::{BoxStream, StreamExt, try_unfold};
use http_body::Frame;
use http_body_util::StreamBody;
use prost::bytes::Bytes;
use tokio::task::yield_now;
use tonic::Status;

use super::decoded_size::{DecodedSizes, RequestLayout};
use super::decoders::Decoders;
use super::kinds::CallKind;
use super::messages::{Messages, RequestCharge};
use crate::account::{Account, Charge};
use crate::api::slots::CallerKey;
use crate::api::{self, StepCharges};

/// The bytes of a large message that are passed on in a turn.
const PART: usize = 1 << 20;

/// A request that a service reads.
pub type RequestBody = StreamBody<BoxStream<'static, Result<Frame<Bytes>, Status>>>;

/// The request of a call.
pub struct IncomingRequest {
    messages: Messages,
    sizes: Arc<DecodedSizes>,
    /// The layout of its messages, if they are the service's.
    request: Option<RequestLayout>,
    /// The charge for bytes that arrived and are not passed on yet.
    charge: RequestCharge,
    /// The rest of the message that is being passed on.
    current: Bytes,
    /// The charges of messages of a stream that were passed on and may still be in use.
    given: VecDeque<Option<Charge>>,
    /// The length of the longest message: its decoder keeps as much room for the next.
    longest: usize,
    /// The terms of a stream; none for a call with one message.
    stream: Option<StreamTerms>,
}

/// The terms on which the messages of a stream are received.
pub struct StreamTerms {
    /// The threads that weigh large messages.
    pub decoders: Decoders,
    /// The caller in whose turn they are weighed.
    pub who: CallerKey,
    /// The receiver of the charges; none if the request keeps them until the call is done with the
    /// messages.
    pub charges: Option<StepCharges>,
}

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
            current: Bytes::new(),
            given: VecDeque::new(),
            longest: 0,
            stream,
        }
    }

    /// Waits for the first message. Returns its length with its head; 0 if none comes.
    ///
    /// # Errors
    /// The status with which the call ends without a message.
    pub async fn first(&mut self) -> Result<usize, Status> {
        let first = self.messages.next(&mut self.charge).await?;
        self.current = first.unwrap_or_default();
        Ok(self.current.len())
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

    /// Passes the request on to a service.
    pub fn into_body(self) -> RequestBody {
        let parts = try_unfold(Box::new(self), |mut request| async move {
            let part = request.next_part().await?;
            Ok(part.map(|part| (Frame::data(part), request)))
        });
        StreamBody::new(parts.boxed())
    }

    /// The next part of a message; `None` at the end of the request.
    async fn next_part(&mut self) -> Result<Option<Bytes>, Status> {
        if self.current.is_empty() && !self.receive().await? {
            return Ok(None);
        }
        if self.current.len() > PART {
            // The decoder copies each part to gather the message, so other tasks run in between.
            yield_now().await;
        }
        let part = self.current.len().min(PART);
        Ok(Some(self.current.split_to(part)))
    }

    /// Receives the next message of a stream; false at the end. The request of a call that is no
    /// stream must end here, without a second message.
    async fn receive(&mut self) -> Result<bool, Status> {
        let Some(whole) = self.next_message().await? else {
            return Ok(false);
        };
        let Some(stream) = &self.stream else {
            let fault = "this call takes one message".to_owned();
            return Err(api::Error::Undecodable(fault).into());
        };
        let (whole, decoded) = if whole.len() > api::LARGE_REQUEST {
            // A large one is weighed beside the threads that serve.
            let (sizes, request) = (Arc::clone(&self.sizes), self.request);
            let weigh = async move {
                let decoded = decoded_size(&sizes, request, &whole);
                (whole, decoded)
            };
            stream.decoders.run(stream.who.clone(), weigh).await?
        } else {
            let decoded = decoded_size(&self.sizes, self.request, &whole);
            (whole, decoded)
        };
        self.pass_on(whole, decoded)?;
        Ok(true)
    }

    async fn next_message(&mut self) -> Result<Option<Bytes>, Status> {
        let given = &mut self.given;
        let mut next = pin!(self.messages.next(&mut self.charge));
        let mut has_waited = false;
        poll_fn(|context| {
            if std::mem::replace(&mut has_waited, true) {
                // A call that asks again for the next message is done with the last one.
                given.clear();
            }
            next.as_mut().poll(context)
        })
        .await
    }

    /// Charges a message of a stream that is to be passed on.
    fn pass_on(&mut self, whole: Bytes, decoded: Result<usize, api::Error>) -> Result<(), Status> {
        self.current = whole;
        self.longest = self.longest.max(self.current.len());
        self.charge_decoded(decoded)?;
        let charge = self.charge.take();
        match self.stream.as_ref().and_then(|it| it.charges.as_ref()) {
            Some(charges) => charges.hand_over(charge),
            None => {
                if self.given.len() >= api::MAX_GROUP {
                    self.given.pop_front();
                }
                self.given.push_back(charge);
            }
        }
        self.charge.grow(self.longest)
    }
}

/// Returns the bytes that a message takes when it is decoded.
fn decoded_size(
    sizes: &DecodedSizes,
    request: Option<RequestLayout>,
    whole: &[u8],
) -> Result<usize, api::Error> {
    let size = request.map_or(Ok(0), |request| sizes.of(request, whole));
    Ok(size?)
}
