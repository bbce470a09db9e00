//! Bounds on the size of an API server's answers, and on repeated requests to it. They apply to all
//! requests of a client.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::BodyExt;
use kube::client::DynBody;
use parking_lot::Mutex;
use tonic::codegen::http::header::CONTENT_TYPE;
use tonic::codegen::http::{HeaderMap, Response, Uri};
use tower::BoxError;

use evenkeel_log::backoff::Backoff;

/// The shortest pause before the same request to an API server.
pub(super) const SHORTEST_PAUSE: Duration = Duration::from_millis(400);
/// The longest pause. An API server that comes back is noticed within this time. A watch that
/// lasted twice this time is followed by the next without a pause.
pub(super) const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// The most bytes of an answer. A page has 500 objects.
const MAX_ANSWER_BYTES: usize = 32 << 20;
/// The most bytes of an event of a watch. By default, etcd stores no object of more than 1.5 MiB.
pub(super) const MAX_EVENT_BYTES: usize = 8 << 20;

/// The error for an answer, or an event of a watch, that is too long.
#[derive(Debug, thiserror::Error)]
#[error("{what} of more than {} MiB", .most >> 20)]
struct TooLong {
    what: &'static str,
    most: usize,
}

/// The sent requests that could be repeated too often: watches by path, and continued lists by path
/// with their last address.
#[derive(Debug, Clone, Default)]
pub(super) struct SentRequests(Arc<Mutex<HashMap<String, SentRequest>>>);

#[derive(Debug)]
struct SentRequest {
    address: String,
    backoff: Backoff,
}

impl SentRequests {
    /// Returns the time that a request has to wait before it is sent.
    pub(super) fn pause(&self, uri: &Uri) -> Duration {
        let is_continued = query_has(uri, "continue=");
        if !is_watch(uri) && !is_continued {
            return Duration::ZERO;
        }
        let address = match is_continued {
            true => uri.to_string(),
            false => String::new(),
        };
        let mut sent = self.0.lock();
        let key = format!("{is_continued} {}", uri.path());
        let known = sent.get_mut(&key).filter(|sent| sent.address == address);
        if let Some(known) = known {
            return known.backoff.before_attempt();
        }
        let mut backoff = Backoff::new(SHORTEST_PAUSE, LONGEST_PAUSE);
        let pause = backoff.before_attempt();
        sent.insert(key, SentRequest { address, backoff });
        pause
    }
}

fn query_has(uri: &Uri, start: &str) -> bool {
    let mut parts = uri.query().unwrap_or("").split('&');
    parts.any(|part| part.starts_with(start))
}

/// Returns whether a request with this address is one to watch.
pub(super) fn is_watch(uri: &Uri) -> bool {
    query_has(uri, "watch=")
}

/// A bound on a body, with the bytes counted so far.
struct BodyBound {
    /// True if each line is counted separately, as an event of a watch.
    by_line: bool,
    bytes: usize,
}

impl BodyBound {
    fn take(&mut self, data: &[u8]) -> Result<(), TooLong> {
        if !self.by_line {
            return self.add(data.len());
        }
        let mut lines = data.split(|byte| *byte == b'\n');
        self.add(lines.next().map_or(0, <[u8]>::len))?;
        lines.try_for_each(|line| {
            self.bytes = 0;
            self.add(line.len())
        })
    }

    fn add(&mut self, more: usize) -> Result<(), TooLong> {
        self.bytes = self.bytes.saturating_add(more);
        let (what, most) = match self.by_line {
            true => ("an event", MAX_EVENT_BYTES),
            false => ("an answer", MAX_ANSWER_BYTES),
        };
        match self.bytes > most {
            true => Err(TooLong { what, most }),
            false => Ok(()),
        }
    }

    /// The bound on an answer; `None` for a watch in protobuf, whose decoder bounds each event.
    fn of(is_watch: bool, headers: &HeaderMap) -> Option<Self> {
        let encoding = headers.get(CONTENT_TYPE);
        let encoding = encoding.and_then(|it| it.to_str().ok()).unwrap_or("");
        let is_protobuf = encoding.contains("protobuf");
        if is_watch && is_protobuf && encoding.contains("stream=watch") {
            return None;
        }
        Some(Self {
            by_line: is_watch && !is_protobuf,
            bytes: 0,
        })
    }
}

/// The answer, whose body ends with an error where it passes its bound.
pub(super) fn bounded(
    answer: Response<Box<DynBody>>,
    is_request_to_watch: bool,
) -> Response<Box<DynBody>> {
    let is_watch = is_request_to_watch && answer.status().is_success();
    let Some(mut bound) = BodyBound::of(is_watch, answer.headers()) else {
        return answer;
    };
    answer.map(|body| -> Box<DynBody> {
        let mut ended = false;
        let body = http_body_util::BodyStream::new(body);
        let frames = futures::StreamExt::filter_map(body, move |frame| {
            let frame = frame.and_then(|frame| {
                let taken = frame.data_ref().map_or(Ok(()), |data| bound.take(data));
                taken.map(|()| frame).map_err(BoxError::from)
            });
            let frame = (!ended).then_some(frame);
            ended |= frame.as_ref().is_some_and(Result::is_err);
            futures::future::ready(frame)
        });
        Box::new(http_body_util::StreamBody::new(frames).map_err(BoxError::from))
    })
}
