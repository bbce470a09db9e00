//! Records each call: counts and times and, if calls are traced, a span.

use std::sync::Arc;
use std::time::Instant;

use http::{HeaderMap, Request, Response};
use tonic::{Code, Status};
use tonic_types::StatusExt;

use super::metrics::{Calls, method};
use super::traces::{SpanStart, Tracer};
use crate::api::{self, Decision};
use crate::limits::Limit;

/// Records calls.
pub struct CallObserver {
    pub(super) calls: Arc<Calls>,
    pub(super) tracer: Option<Tracer>,
}

impl CallObserver {
    /// Begins to record a call that has arrived. Only `noted` calls are counted and traced;
    /// refusals are counted for every call.
    pub fn begin<B>(self: &Arc<Self>, request: &Request<B>, noted: bool) -> ObservedCall {
        let tracer = self.tracer.as_ref().filter(|_| noted);
        ObservedCall {
            method: noted.then(|| method(request.uri().path())),
            arrived: Instant::now(),
            started: tracer.map(|tracer| tracer.begin(request.headers())),
            decision: None,
            code: None,
            observer: Arc::clone(self),
        }
    }

    /// Counts a refusal, if it was for a limit.
    fn refused(&self, status: &Status) {
        let info = status.get_details_error_info();
        if let Some(limit) = info.and_then(|info| Limit::named(info.metadata.get("limit")?)) {
            self.calls.refusals.note(limit);
        }
    }
}

/// A call under way. The call has ended when this is dropped.
pub struct ObservedCall {
    observer: Arc<CallObserver>,
    /// The method; none for a call that is not recorded.
    method: Option<&'static str>,
    arrived: Instant,
    started: Option<SpanStart>,
    decision: Option<Decision>,
    /// The status code of the call, once it has ended.
    code: Option<Code>,
}

impl ObservedCall {
    /// Takes the beginning of the call's answer. An answer without a body has its status there.
    pub fn answered<B>(&mut self, response: &Response<B>) {
        self.decision = response.extensions().get().copied();
        self.status(response.headers());
    }

    /// Takes the call's status, if these headers or trailers have one.
    pub fn status(&mut self, headers: &HeaderMap) {
        let Some(code) = headers.get(Status::GRPC_STATUS) else {
            return;
        };
        let code = Code::from_bytes(code.as_bytes());
        self.code = Some(code);
        if code == Code::ResourceExhausted
            && let Some(status) = Status::from_header_map(headers)
        {
            self.observer.refused(&status);
        }
    }
}

impl api::ObserveQuestions for CallObserver {
    fn answered(&self, method: &str, arrived: Instant, ended: Result<Option<&Decision>, &Status>) {
        let (code, decision) = match ended {
            Ok(decision) => (Code::Ok, decision),
            Err(status) => (status.code(), None),
        };
        if let Err(status) = ended
            && code == Code::ResourceExhausted
        {
            self.refused(status);
        }
        self.calls
            .ended(self::method(method), arrived, code, decision);
    }
}

impl Drop for ObservedCall {
    fn drop(&mut self) {
        let Some(method) = self.method else { return };
        // A call without a status ended because its caller is gone.
        let code = self.code.unwrap_or(Code::Cancelled);
        let CallObserver { calls, tracer } = &*self.observer;
        calls.ended(method, self.arrived, code, self.decision.as_ref());
        if let (Some(tracer), Some(started)) = (tracer, self.started.take()) {
            tracer.end(started, method, self.arrived, code, self.decision.as_ref());
        }
    }
}
