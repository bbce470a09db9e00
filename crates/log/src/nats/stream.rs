//! The streams of a fleet: made if they are absent, and never changed.

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use async_nats::jetstream::ErrorCode;
use async_nats::jetstream::context::{
    CreateStreamErrorKind, DeleteStreamErrorKind, GetStreamErrorKind,
};
use async_nats::jetstream::message::StreamMessage;
use async_nats::jetstream::response::Response;
use async_nats::jetstream::stream::{
    Config, DiscardPolicy, Info, PersistenceMode, RawMessageError, RawMessageErrorKind,
    RetentionPolicy, StorageType, Stream,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::connection::{Connection, unreachable};
use super::version;
use crate::visible::causes;
use crate::{Bounds, Error};

/// Metadata of a stream: the name of its snapshot.
pub(super) const SNAPSHOT: &str = "evenkeel.snapshot";

/// Metadata that nats-servers add: the version of the server that answers.
const SERVER_VERSION: &str = "_nats.ver";

/// The largest message that a stream takes.
const MAX_MESSAGE_BYTES: i32 = 1 << 20;

/// The largest number of names in a list.
const MOST_LISTED: usize = 1_000_000;

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
    pub(super) fn log(&self, name: String, subject: String, snapshot: &str) -> Config {
        Config {
            deny_delete: true,
            metadata: HashMap::from([(SNAPSHOT.to_owned(), snapshot.to_owned())]),
            ..self.stream(name, subject)
        }
    }

    /// The settings of a stream from which subjects are dropped one by one. It keeps the last
    /// `most` messages of each subject; with 0 all of them.
    pub(super) fn named(&self, name: String, subjects: String, most: i64) -> Config {
        Config {
            max_messages_per_subject: most,
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

/// Looks up a stream, and checks its servers.
pub(super) async fn find(connection: &Connection, name: &str) -> Result<Stream, Error> {
    let found = connection.streams.get_stream(name).await;
    let stream = found.map_err(|error| match error.kind() {
        GetStreamErrorKind::JetStream(error)
            if error.error_code() == ErrorCode::STREAM_NOT_FOUND =>
        {
            Error::NotFound(name.to_owned())
        }
        _ => connection.unanswered(error),
    })?;
    check_servers(connection, stream.cached_info())?;
    Ok(stream)
}

/// Checks that a stream is there, with these settings.
pub(super) async fn find_checked(connection: &Connection, wanted: &Config) -> Result<(), Error> {
    let stream = find(connection, &wanted.name).await?;
    check(wanted, stream.cached_info())
}

/// The names of the streams with any of these subjects.
pub(super) async fn names(connection: &Connection, subjects: &str) -> Result<Vec<String>, Error> {
    pages(connection, "STREAM.NAMES", subjects).await
}

/// The streams with any of these subjects, but those without a leader.
pub(super) async fn list(connection: &Connection, subjects: &str) -> Result<Vec<Info>, Error> {
    pages(connection, "STREAM.LIST", subjects).await
}

/// All pages of a list.
async fn pages<T: DeserializeOwned>(
    connection: &Connection,
    api: &'static str,
    subjects: &str,
) -> Result<Vec<T>, Error> {
    let mut found = Vec::new();
    loop {
        let request = PageRequest {
            offset: found.len(),
            subject: subjects,
        };
        let page: Response<StreamPage<T>> = connection
            .lists
            .request(api, &request)
            .await
            .map_err(|error| connection.unanswered(error))?;
        let page = match page {
            Response::Ok(page) => page,
            Response::Err { error } => return Err(Error::Unreachable(error.to_string())),
        };
        let listed = page.streams.unwrap_or_default();
        let is_last = listed.is_empty();
        found.extend(listed);
        if is_last || found.len() >= page.total {
            return Ok(found);
        }
        check_count(found.len())?;
    }
}

/// Checks that a list is not too long that the nats-servers send page by page.
pub(super) fn check_count(listed: usize) -> Result<(), Error> {
    match listed > MOST_LISTED {
        true => Err(Error::Refused(format!(
            "a list of more than {MOST_LISTED} names"
        ))),
        false => Ok(()),
    }
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

/// Asks for a page of a list of streams.
#[derive(Serialize)]
struct PageRequest<'a> {
    offset: usize,
    subject: &'a str,
}

/// A page of a list. An empty page has no list.
#[derive(Deserialize)]
struct StreamPage<T> {
    total: usize,
    streams: Option<Vec<T>>,
}

/// Makes a stream, unless it is there with these settings by now.
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

/// The part of the leading server's answer that [`Info`] leaves out.
#[derive(Deserialize)]
struct StreamTime {
    /// The time of the server.
    ts: String,
}

/// The time of the server that leads a stream.
pub(super) async fn time(connection: &Connection, name: &str) -> Result<SystemTime, Error> {
    let subject = format!("STREAM.INFO.{name}");
    let told = connection.streams.request(subject, &json!({})).await;
    match told.map_err(unreachable)? {
        Response::Ok(StreamTime { ts }) => humantime::parse_rfc3339(&ts).map_err(unreachable),
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
    }
}

/// Checks the connected server and the version of the leader of the stream.
fn check_servers(connection: &Connection, info: &Info) -> Result<(), Error> {
    let refuse = |error: version::TooOld| Error::Refused(error.to_string());
    let checked = connection.check_server();
    checked.map_err(|error| Error::Refused(error.to_string()))?;
    if let Some(version) = info.config.metadata.get(SERVER_VERSION) {
        let leader = info
            .cluster
            .as_ref()
            .and_then(|cluster| cluster.leader.as_deref());
        version::check(leader.unwrap_or_default(), version).map_err(refuse)?;
    }
    Ok(())
}

/// Returns the settings of a stream that break its promises. An administrator may have changed its
/// maximum of bytes, and put it on more servers.
fn faults(wanted: &Config, found: &Config) -> Vec<&'static str> {
    let is_async = matches!(found.persist_mode, Some(PersistenceMode::Async));
    let per_subject = |config: &Config| config.max_messages_per_subject.max(0);
    let has_source = found.mirror.is_some() || found.sources.is_some();
    let faults = [
        // With these it may lose messages that it has acknowledged.
        (
            found.storage != StorageType::File,
            "storage other than file",
        ),
        (found.num_replicas < wanted.num_replicas, "fewer replicas"),
        (
            found.discard != DiscardPolicy::New,
            "discard other than new",
        ),
        (
            found.retention != RetentionPolicy::Limits,
            "retention other than limits",
        ),
        (
            wanted.deny_delete && !found.deny_delete,
            "messages that can be deleted",
        ),
        (found.allow_rollup, "rollups"),
        (is_async, "asynchronous persistence"),
        // With these it may drop or refuse messages that it is to keep.
        (found.max_age != Duration::ZERO, "a maximum age"),
        (found.max_messages > 0, "a maximum of messages"),
        (
            per_subject(found) != per_subject(wanted),
            "another maximum of messages per subject",
        ),
        (
            (1..MAX_MESSAGE_BYTES).contains(&found.max_message_size),
            "messages of less than 1 MiB",
        ),
        (found.sealed, "sealed"),
        // With these it does not take, return or drop messages as requested.
        (found.subjects != wanted.subjects, "other subjects"),
        (found.deny_purge, "messages that cannot be purged"),
        (!found.allow_direct, "no direct reads"),
        (found.no_ack, "no acknowledgements"),
        (has_source, "another stream as its source"),
        (found.subject_transform.is_some(), "a subject transform"),
    ];
    let faults = faults.into_iter().filter(|(is_so, _)| *is_so);
    faults.map(|(_, text)| text).collect()
}

/// Checks that a stream keeps its promises.
fn check(wanted: &Config, info: &Info) -> Result<(), Error> {
    let found = &info.config;
    let faults = faults(wanted, found);
    if faults.is_empty() {
        return Ok(());
    }
    Err(Error::Refused(format!(
        "the stream {} (replicas {}) is not as needed with {} replicas: it has {}",
        found.name,
        found.num_replicas,
        wanted.num_replicas,
        faults.join(", ")
    )))
}
