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
use tonic::Status;

use super::decoded_size::{DecodedSizes, RequestLayout};
use super::decoders::Decoders;
use super::kinds::CallKind;
use super::messages::{Messages, grow};
use crate::account::{Account, Charge};
use crate::api;
use crate::api::slots::CallerKey;

/// A request that a service reads.
pub type RequestBody = StreamBody<BoxStream<'static, Result<Frame<Bytes>, Status>>>;

/// The request of a call.
pub struct IncomingRequest {
    messages: Messages,
    sizes: Arc<DecodedSizes>,
    /// The layout of its messages, if they are the service's.
    request: Option<RequestLayout>,
    account: Arc<Account>,
    /// The charge for bytes that arrived and are not passed on yet.
    charge: Charge,
    /// The message that is to be passed on.
    current: Bytes,
    /// The charges of messages of a stream that were passed on and may still be in use.
    given: VecDeque<Charge>,
    /// The terms of a stream; none for a call with one message.
    stream: Option<StreamTerms>,
}

/// The terms on which the messages of a stream are received.
pub struct StreamTerms {
    /// The threads that weigh large messages.
    pub decoders: Decoders,
    /// The caller in whose turn they are weighed.
    pub who: CallerKey,
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
            charge: account.open(),
            account: Arc::clone(account),
            current: Bytes::new(),
            given: VecDeque::new(),
            stream,
        }
    }

    /// Waits for the one message of a call. Returns its length with its head; 0 if none comes.
    ///
    /// # Errors
    /// The status with which the call ends without a message.
    pub async fn first(&mut self) -> Result<usize, Status> {
        let first = self.messages.next(&self.charge).await?;
        if first.is_none() && self.request.is_some() {
            return Err(api::Error::Undecodable("it has no message".to_owned()).into());
        }
        self.current = first.unwrap_or_default();
        Ok(self.current.len())
    }

    /// Charges the memory for decoding the complete message. Returns the message's charge, to hold it
    /// while the call works on the message. This reads the whole message, so it runs only where
    /// decoding may run, too.
    ///
    /// # Errors
    /// When there is no memory for it, or a list has more entries than a limit allows.
    pub fn weigh(&mut self) -> Result<Charge, Status> {
        let decoded = decoded_size(&self.sizes, self.request, &self.current);
        self.charge_decoded(decoded)?;
        Ok(self.take_charge())
    }

    fn take_charge(&mut self) -> Charge {
        std::mem::replace(&mut self.charge, self.account.open())
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
        grow(&self.charge, takes.saturating_mul(times))
    }

    /// Passes the request on to a service.
    pub fn into_body(self) -> RequestBody {
        let messages = try_unfold(Box::new(self), |mut request| async move {
            let is_there = !request.current.is_empty() || request.receive().await?;
            let message = std::mem::take(&mut request.current);
            Ok(is_there.then(|| (Frame::data(message), request)))
        });
        StreamBody::new(messages.boxed())
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
        let mut next = pin!(self.messages.next(&self.charge));
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
        self.charge_decoded(decoded)?;
        if self.given.len() >= api::MAX_GROUP {
            self.given.pop_front();
        }
        let charge = self.take_charge();
        self.given.push_back(charge);
        Ok(())
    }
}

/// Returns the bytes that a message takes when it is decoded.
fn decoded_size(
    sizes: &DecodedSizes,
    request: Option<RequestLayout>,
    whole: &[u8],
) -> Result<usize, api::Error> {
    request.map_or(Ok(0), |request| sizes.of(request, whole))
}
