//! Sends a message to a stream, on a condition.

use async_nats::jetstream::ErrorCode;
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::publish::PublishAck;
use async_nats::jetstream::response::Response;
use async_nats::{Request, RequestErrorKind};
use tokio::select;

use super::connection::{Connection, Retries};
use crate::Error;
use crate::visible::causes;

/// Sends a message, and waits for its sequence number. The message carries its
/// conditions, see [`PublishMessage`].
pub(super) async fn publish(
    connection: &Connection,
    subject: String,
    message: PublishMessage,
) -> Result<u64, Error> {
    // The context's own call is not used, because its errors do not tell the important cases apart.
    let mut retries = Retries::new();
    let answer = loop {
        let message = message.clone().outbound_message(subject.clone());
        let mut request = Request::new().payload(message.payload);
        if let Some(headers) = message.headers {
            request = request.headers(headers);
        }
        let sent = select! {
            sent = connection.client.send_request(message.subject, request) => sent,
            denied = connection.denies(&subject) => return Err(denied),
        };
        match sent {
            Ok(answer) => break answer,
            // Some nats-servers may not know a stream yet that was just made. Sending the message
            // again does no harm: its conditions are the same.
            Err(error) => {
                let is_unknown = error.kind() == RequestErrorKind::NoResponders;
                if !(is_unknown && retries.again().await) {
                    return Err(unanswered(&error));
                }
            }
        }
    };
    match serde_json::from_slice::<Response<PublishAck>>(&answer.payload) {
        Ok(Response::Ok(ack)) => Ok(ack.sequence),
        Ok(Response::Err { error }) => Err(refusal(error.error_code(), error.to_string())),
        Err(error) => Err(Error::UnknownFate(error.to_string())),
    }
}

/// Returns the error for a message that got no answer.
fn unanswered(error: &async_nats::RequestError) -> Error {
    match error.kind() {
        RequestErrorKind::InvalidSubject | RequestErrorKind::MaxPayloadExceeded => {
            Error::Refused(causes(error))
        }
        // The message may still arrive.
        _ => Error::UnknownFate(causes(error)),
    }
}

/// Returns the error for the error code of an answer.
fn refusal(code: ErrorCode, text: String) -> Error {
    match code {
        ErrorCode::STREAM_WRONG_LAST_SEQUENCE | ErrorCode::STREAM_WRONG_LAST_SEQUENCE_CONSTANT => {
            Error::Conflict
        }
        ErrorCode::STREAM_STORE_FAILED
        | ErrorCode::INSUFFICIENT_RESOURCES
        | ErrorCode::ACCOUNT_RESOURCES_EXCEEDED
        | ErrorCode::STORAGE_RESOURCES_EXCEEDED => Error::Full(text),
        ErrorCode::STREAM_MESSAGE_EXCEEDS_MAXIMUM
        | ErrorCode::STREAM_SEALED
        | ErrorCode::STREAM_NOT_MATCH
        | ErrorCode::STREAM_NOT_FOUND => Error::Refused(text),
        _ => Error::UnknownFate(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_say_whether_a_message_is_there() {
        let unknown = Error::UnknownFate("text".into());
        for (code, expected) in [
            (10071, Error::Conflict),
            (10164, Error::Conflict),
            (10077, Error::Full("text".into())),
            (10054, Error::Refused("text".into())),
            (10008, unknown.clone()),
            (0, unknown),
        ] {
            assert_eq!(refusal(ErrorCode(code), "text".into()), expected, "{code}");
        }
    }
}
