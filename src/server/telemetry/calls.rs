//! Records each call: counts and times and, if calls are traced, a span.

use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use http::{HeaderMap, Request, Response};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use prost::Message;
use prost_types::FileDescriptorSet;
use tonic::{Code, Status};
use tonic_types::StatusExt;

use super::traces::{SpanStart, Tracer};
use crate::api::{self, Decision, STREAMED_METHODS};
use crate::kubernetes::durations;
use crate::limits::Limit;
use crate::proto::v1::FILE_DESCRIPTOR_SET;

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
            self.calls.refused(limit);
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

/// The name of all methods that the service does not have.
const OTHER: &str = "other";

/// The names of gRPC's codes, by number.
const CODES: [&str; 17] = [
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
];

/// The names of the service's methods, and of the questions of its streams.
static METHODS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let files = FileDescriptorSet::decode(FILE_DESCRIPTOR_SET);
    let files = files.expect("the build encodes its own protocol").file;
    let services = files.into_iter().flat_map(|file| file.service);
    let methods = services.flat_map(|service| service.method);
    let methods = methods.filter_map(|method| method.name);
    methods.chain(STREAMED_METHODS.map(str::to_owned)).collect()
});

/// The method of a path, such as `/evenkeel.v1.SpreadService/Filter`.
pub fn method(path: &str) -> &'static str {
    let name = path.rsplit('/').next().unwrap_or_default();
    let known = METHODS.iter().find(|method| *method == name);
    known.map_or(OTHER, String::as_str)
}

/// Labels with their values.
type LabelPairs<const N: usize> = [(&'static str, &'static str); N];
type Counters<const N: usize> = Family<LabelPairs<N>, Counter>;

type Histograms = Family<LabelPairs<1>, Histogram>;

/// The counts of all calls.
#[derive(Debug)]
pub struct Calls {
    /// Calls and connections that were refused, by limit.
    refusals: Counters<1>,
    ended: Counters<2>,
    duration: Histograms,
    wait: Histograms,
    decision: Histograms,
    nodes: Counters<1>,
    domains: Counters<1>,
}

impl Default for Calls {
    fn default() -> Self {
        let ended = Counters::default();
        // OK exists from the start, so that rates start at 0.
        for method in METHODS.iter() {
            ended
                .get_or_create(&[("method", method), ("code", CODES[0])])
                .inc_by(0);
        }
        // So do limits without refusals.
        let refusals = Counters::default();
        for limit in Limit::refusing() {
            refusals.get_or_create(&[("limit", limit.name())]).inc_by(0);
        }
        let histograms = || Histograms::new_with_constructor(durations);
        Self {
            refusals,
            ended,
            duration: histograms(),
            wait: histograms(),
            decision: histograms(),
            nodes: Family::default(),
            domains: Family::default(),
        }
    }
}

impl Calls {
    /// Adds the counts to a registry.
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "calls",
            "Calls that ended, by method and gRPC status code",
            self.ended.clone(),
        );
        registry.register(
            "limit_refusals",
            "Calls and connections refused for a limit, by the limit's name",
            self.refusals.clone(),
        );
        for (name, help, histograms) in [
            (
                "call_duration",
                "From the arrival of a call to the end of its answer; a stream's until it ends",
                &self.duration,
            ),
            (
                "call_wait",
                "From the arrival of a call to the start of its decision: reading it, a busy thread, \
                 min_revision",
                &self.wait,
            ),
            ("decision_duration", "Deciding alone", &self.decision),
        ] {
            registry.register_with_unit(name, help, Unit::Seconds, histograms.clone());
        }
        registry.register(
            "decision_nodes",
            "Nodes judged by decisions, of Place: replicas asked for",
            self.nodes.clone(),
        );
        registry.register(
            "decision_domains",
            "Domains looked at by decisions, summed over constraints",
            self.domains.clone(),
        );
    }

    /// Records that a call or a connection was refused for a limit.
    pub fn refused(&self, limit: Limit) {
        self.refusals
            .get_or_create(&[("limit", limit.name())])
            .inc();
    }

    /// Returns the number of connections that were refused.
    pub(super) fn refused_connections(&self) -> u64 {
        let of = [("limit", Limit::Connections.name())];
        self.refusals.get_or_create(&of).get()
    }

    /// Records a call that ended.
    pub fn ended(
        &self,
        method: &'static str,
        arrived: Instant,
        code: Code,
        decision: Option<&Decision>,
    ) {
        let of = [("method", method)];
        let seconds = |family: &Histograms, took: Duration| {
            family.get_or_create(&of).observe(took.as_secs_f64());
        };
        let code = ("code", CODES[code as usize]);
        self.ended.get_or_create(&[of[0], code]).inc();
        seconds(&self.duration, arrived.elapsed());
        if let Some(decision) = decision {
            let waited = decision.started.checked_duration_since(arrived);
            seconds(&self.wait, waited.unwrap_or_default());
            seconds(&self.decision, decision.took);
            let add = |family: &Counters<1>, more: i64| {
                let more = u64::try_from(more).unwrap_or(0);
                family.get_or_create(&of).inc_by(more);
            };
            add(&self.nodes, decision.size.nodes);
            add(&self.domains, decision.size.domains);
        }
    }
}
