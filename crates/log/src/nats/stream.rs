//! The streams of a fleet: made if they are absent, never changed, and written to on a condition.

use std::time::Duration;

use async_nats::jetstream::ErrorCode;
use async_nats::jetstream::context::{
    CreateStreamErrorKind, DeleteStreamErrorKind, GetStreamErrorKind,
};
use async_nats::jetstream::message::{PublishMessage, StreamMessage};
use async_nats::jetstream::publish::PublishAck;
use async_nats::jetstream::response::Response;
use async_nats::jetstream::stream::{
    Config, DiscardPolicy, Info, RawMessageError, RawMessageErrorKind, RetentionPolicy,
    StorageType, Stream,
};
use async_nats::{Request, RequestErrorKind};
use futures::TryStreamExt;
use serde::Deserialize;
use serde_json::json;
use tokio::select;
use tokio::time::sleep;

use super::connection::{Connection, unreachable};
use crate::visible::causes;
use crate::{Bounds, Error};

/// The largest message that a stream takes.
const MAX_MESSAGE_BYTES: i32 = 1 << 20;

/// The settings with which streams are kept.
#[derive(Debug, Clone, Copy)]
pub struct Keeping {
    /// The number of servers that keep each stream. Fewer than 3 lose acknowledged messages when a
    /// server is lost. With 0 streams are used as they are, and none is made.
    pub replicas: usize,
}

impl Keeping {
    /// The settings of a stream that keeps all messages that it took. It has no limit of its own:
    /// nats-servers set aside what a limited stream may take. It refuses messages when the account
    /// or the disk is full.
    pub(super) fn log(&self, name: String, subject: String) -> Config {
        Config {
            deny_delete: true,
            ..self.stream(name, subject)
        }
    }

    /// The settings of a stream from which subjects are dropped one by one. It keeps the last message
    /// of each subject.
    pub(super) fn named(&self, name: String, subjects: String) -> Config {
        Config {
            max_messages_per_subject: 1,
            ..self.stream(name, subjects)
        }
    }

    fn stream(&self, name: String, subject: String) -> Config {
        Config {
            name,
            subjects: vec![subject],
            max_messages: -1,
            max_bytes: -1,
            max_message_size: MAX_MESSAGE_BYTES,
            max_consumers: -1,
            discard: DiscardPolicy::New,
            retention: RetentionPolicy::Limits,
            storage: StorageType::File,
            num_replicas: self.replicas,
            allow_direct: true,
            ..Config::default()
        }
    }
}

/// Looks up a stream.
pub(super) async fn find(connection: &Connection, name: &str) -> Result<Stream, Error> {
    let found = connection.streams.get_stream(name).await;
    found.map_err(|error| match error.kind() {
        GetStreamErrorKind::JetStream(error)
            if error.error_code() == ErrorCode::STREAM_NOT_FOUND =>
        {
            Error::NotFound(name.to_owned())
        }
        _ => connection.unanswered(error),
    })
}

/// Checks that a stream is there, on as many servers.
pub(super) async fn find_checked(connection: &Connection, wanted: &Config) -> Result<(), Error> {
    let stream = find(connection, &wanted.name).await?;
    check(wanted, stream.cached_info())
}

/// The names of all streams.
pub(super) async fn all_names(connection: &Connection) -> Result<Vec<String>, Error> {
    let names = connection.lists.stream_names().try_collect().await;
    names.map_err(|error| connection.unanswered(error))
}

/// Deletes a stream, if it is there.
pub(super) async fn delete(connection: &Connection, name: &str) -> Result<(), Error> {
    match connection.streams.delete_stream(name).await {
        Ok(_) => Ok(()),
        Err(error) => match error.kind() {
            DeleteStreamErrorKind::JetStream(refusal)
                if refusal.error_code() == ErrorCode::STREAM_NOT_FOUND =>
            {
                Ok(())
            }
            _ => Err(unreachable(error)),
        },
    }
}

/// Makes a stream, unless it is there with these settings by now.
///
/// # Errors
/// [`Error::Conflict`] if another stream has its subject, and that it cannot be made.
pub(super) async fn make(connection: &Connection, wanted: &Config) -> Result<(), Error> {
    if wanted.num_replicas == 0 {
        return Err(Error::NotFound(wanted.name.clone()));
    }
    match connection.streams.create_stream(wanted).await {
        Ok(stream) => check(wanted, stream.cached_info()),
        Err(error) => match error.kind() {
            // Another server of the fleet made the stream first. Its settings are checked.
            CreateStreamErrorKind::JetStream(refusal)
                if refusal.error_code() == ErrorCode::STREAM_NAME_EXIST =>
            {
                find_checked(connection, wanted).await
            }
            CreateStreamErrorKind::JetStream(refusal)
                if refusal.error_code() == ErrorCode::STREAM_SUBJECT_OVERLAP =>
            {
                Err(Error::Conflict)
            }
            CreateStreamErrorKind::JetStream(refusal) => Err(refused(wanted, &refusal)),
            _ => Err(Error::UnknownFate(causes(&error))),
        },
    }
}

/// Returns the reason why a stream was not made.
fn refused(wanted: &Config, refusal: &async_nats::jetstream::Error) -> Error {
    let text = format!(
        "the nats-servers do not make the stream {} with {} replicas: {refusal}",
        wanted.name, wanted.num_replicas
    );
    match refusal.error_code() {
        ErrorCode::INSUFFICIENT_RESOURCES
        | ErrorCode::STORAGE_RESOURCES_EXCEEDED
        | ErrorCode::ACCOUNT_RESOURCES_EXCEEDED
        | ErrorCode::MAXIMUM_STREAMS_LIMIT => Error::Full(text),
        // The code is also that of too few servers.
        _ if text.contains("insufficient storage") => Error::Full(text),
        // No leader, or too few servers at present.
        ErrorCode::CLUSTER_NOT_AVAILABLE | ErrorCode::CLUSTER_NOT_LEADER => {
            Error::Unreachable(text)
        }
        // The code is also that of too few servers in all.
        _ if text.contains("peer offline") => Error::Unreachable(text),
        _ => Error::Refused(text),
    }
}

/// The answer of the server that leads a stream, with its time, which [`Info`] leaves out.
#[derive(Deserialize)]
struct TimedInfo {
    #[serde(flatten)]
    info: Info,
    ts: String,
}

/// The range of messages that a stream holds, and the time of the server that leads it.
pub(super) async fn timed_bounds(connection: &Connection, name: &str) -> Result<Bounds, Error> {
    let subject = format!("STREAM.INFO.{name}");
    let told = connection.streams.request(subject, &json!({})).await;
    match told.map_err(|error| connection.unanswered(error))? {
        Response::Ok(TimedInfo { info, ts }) => {
            let now = humantime::parse_rfc3339(&ts).map_err(unreachable)?;
            Ok(Bounds {
                now: Some(now),
                ..bounds(&info)
            })
        }
        Response::Err { error } if error.error_code() == ErrorCode::STREAM_NOT_FOUND => {
            Err(Error::NotFound(name.to_owned()))
        }
        Response::Err { error } => Err(Error::Unreachable(error.to_string())),
    }
}

/// The leader's answer to a request for a message; `None` if it has no such message.
pub(super) fn of_leader(
    asked: Result<StreamMessage, RawMessageError>,
) -> Result<Option<StreamMessage>, Error> {
    match asked {
        Ok(message) => Ok(Some(message)),
        Err(error) if error.kind() == RawMessageErrorKind::NoMessageFound => Ok(None),
        Err(error) => Err(unreachable(error)),
    }
}

/// Returns the range of messages that a stream holds.
pub(super) fn bounds(info: &Info) -> Bounds {
    let state = &info.state;
    // The servers besides the leader. The leader answers, so it is current.
    let others = info.cluster.as_ref().map(|cluster| &*cluster.replicas);
    let others = others.unwrap_or_default();
    let behind = others.iter().filter(|peer| !peer.current || peer.offline);
    Bounds {
        first: match state.messages {
            0 => state.last_sequence + 1,
            _ => state.first_sequence,
        },
        last: state.last_sequence,
        bytes: state.bytes,
        max_bytes: u64::try_from(info.config.max_bytes).unwrap_or(0),
        copies: 1 + others.len(),
        behind: behind.map(|peer| peer.name.clone()).collect(),
        now: None,
    }
}

/// Checks that a stream is kept by enough servers. An administrator may have put it on more.
fn check(wanted: &Config, info: &Info) -> Result<(), Error> {
    let (found, needed) = (info.config.num_replicas, wanted.num_replicas);
    match found < needed {
        true => Err(Error::Refused(format!(
            "the stream {} is kept by {found} nats-servers, and not with {needed} replicas",
            wanted.name
        ))),
        false => Ok(()),
    }
}

/// How often a message is sent again that no stream takes, and the pause before that.
const TRIES: u32 = 10;
const PAUSE: Duration = Duration::from_millis(50);

/// Sends a message, and waits for its sequence number. The message carries its
/// conditions, see [`PublishMessage`].
pub(super) async fn publish(
    connection: &Connection,
    subject: String,
    message: PublishMessage,
) -> Result<u64, Error> {
    // The context's own call is not used, because its errors do not tell the important cases apart.
    let mut tries = 0;
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
            Err(error) if error.kind() == RequestErrorKind::NoResponders && tries < TRIES => {
                tries += 1;
                sleep(PAUSE).await;
            }
            Err(error) => return Err(unanswered(&error)),
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
        // Another stream has the subject by now.
        ErrorCode::STREAM_NOT_MATCH => Error::NotFound(text),
        ErrorCode::STREAM_MESSAGE_EXCEEDS_MAXIMUM
        | ErrorCode::STREAM_SEALED
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
