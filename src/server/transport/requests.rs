//! A request as the services see it. Each message is passed on when it is
//! complete and its memory is on the account.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http_body::{Frame, SizeHint};
use prost::bytes::Bytes;
use tonic::Status;

use super::decoded_size::{DecodedSizes, RequestLayout};
use super::kinds::CallKind;
use super::message::WholeMessage;
use super::messages::Messages;
use super::request_charge::RequestCharge;
use crate::account::{Account, Charge};
use crate::api;

/// The request of a call.
pub struct IncomingRequest {
    messages: Messages,
    sizes: Arc<DecodedSizes>,
    /// What its messages are, if they are of the service.
    request: Option<RequestLayout>,
    /// For bytes that arrived and are not passed on yet.
    charge: RequestCharge,
    /// The message that is being passed on.
    current: WholeMessage,
    given: PassedOn,
    is_over: bool,
}

/// The messages of a stream that were passed on and may still be worked on.
#[derive(Default)]
struct PassedOn {
    charges: VecDeque<Option<Charge>>,
    /// Whether there was nothing to pass on when it was last asked for.
    waited: bool,
    /// The longest message: its decoder keeps as much room for the next.
    longest: usize,
}

impl IncomingRequest {
    /// The request of these messages, to a path.
    pub fn new(
        messages: Messages,
        path: &str,
        sizes: &Arc<DecodedSizes>,
        account: &Arc<Account>,
    ) -> Self {
        Self {
            messages,
            request: sizes.request(path),
            sizes: Arc::clone(sizes),
            charge: RequestCharge::new(Arc::clone(account)),
            current: WholeMessage::default(),
            given: PassedOn::default(),
            is_over: false,
        }
    }

    /// Waits for the head of the first message, which tells how long that is with its
    /// head; 0 if none comes.
    ///
    /// # Errors
    /// How the call ends without one.
    pub async fn expected(&mut self) -> Result<usize, Status> {
        poll_fn(|context| self.messages.poll_expected(context)).await
    }

    /// Waits for the first message.
    ///
    /// # Errors
    /// How the call ends without one.
    pub async fn first(&mut self) -> Result<(), Status> {
        let next = poll_fn(|context| self.messages.poll_next(context, &mut self.charge)).await;
        match next.transpose()? {
            Some(whole) => self.current = whole,
            None => self.is_over = true,
        }
        Ok(())
    }

    /// Charges the memory for decoding the complete message. This reads the
    /// whole message, so it runs only where decoding may run too.
    ///
    /// # Errors
    /// When there is no memory for it, or a list has more entries than a limit allows.
    pub fn weigh(&mut self) -> Result<(), Status> {
        // Health checks have their own memory.
        if self.messages.kind == CallKind::Check || self.current.is_empty() {
            return Ok(());
        }
        let size = |request| self.sizes.of(request, &self.current);
        let decoded = self.request.map_or(Ok(0), size);
        let decoded = decoded.map_err(api::Error::from)?;
        // Decoders gather a message before they decode it. Then it is compiled,
        // to something of its size, and an answer may repeat what it says.
        let takes = decoded.saturating_add(self.current.len()).saturating_mul(2);
        self.charge.grow(takes)
    }

    /// Takes the charge of the arrived message, to hold it while the call works
    /// on it.
    pub fn take_charge(&mut self) -> Option<Charge> {
        self.charge.take()
    }

    /// The next message of a stream.
    fn poll_more(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<(), Status>>> {
        if std::mem::take(&mut self.given.waited) {
            // A call that asks again is done with the last message.
            self.given.charges.clear();
        }
        let Poll::Ready(next) = self.messages.poll_next(context, &mut self.charge) else {
            self.given.waited = true;
            return Poll::Pending;
        };
        let next = next.transpose();
        Poll::Ready(match next {
            Ok(None) => None,
            Ok(Some(whole)) => {
                self.current = whole;
                Some(self.pass_on())
            }
            Err(status) => Some(Err(status)),
        })
    }

    /// Charges the message that is to be passed on.
    fn pass_on(&mut self) -> Result<(), Status> {
        self.given.longest = self.given.longest.max(self.current.len());
        self.weigh()?;
        if self.given.charges.len() >= api::MAX_GROUP {
            self.given.charges.pop_front();
        }
        let charge = self.take_charge();
        self.given.charges.push_back(charge);
        self.charge.grow(self.given.longest)
    }
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
            if let Some(block) = this.current.next_block() {
                return Poll::Ready(Some(Ok(Frame::data(block))));
            }
            if this.is_over {
                return Poll::Ready(None);
            }
            let next = match this.messages.kind.is_stream() {
                true => ready!(this.poll_more(context)),
                // The stream must end here, without a second message.
                false => {
                    let next = this.messages.poll_next(context, &mut this.charge);
                    ready!(next).map(|next| match next {
                        Ok(_) => {
                            let fault = "this call takes one message".to_owned();
                            Err(api::Error::Undecodable(fault).into())
                        }
                        Err(status) => Err(status),
                    })
                }
            };
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
        self.current.is_empty() && (self.is_over || self.messages.are_over())
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}
