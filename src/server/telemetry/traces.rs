//! Traces of calls, sent to an OpenTelemetry collector.
//!
//! A span is created when its call has ended, from facts recorded during the call. A call that is
//! not traced costs nothing.

use std::time::{Duration, Instant, SystemTime};

use http::HeaderMap;
use opentelemetry::propagation::{Extractor, TextMapPropagator};
use opentelemetry::trace::{
    Span, SpanBuilder, SpanKind, Status, TraceContextExt, Tracer as _, TracerProvider,
};
use opentelemetry::{Context, KeyValue};
use opentelemetry_otlp::{ExporterBuildError, SpanExporter, WithExportConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{Sampler, SdkTracer, SdkTracerProvider};
use tonic::Code;
use tonic::server::NamedService;
use tracing::warn;

use crate::api::{self, Decision};
use crate::proto::v1::spread_service_server::SpreadServiceServer;
use crate::server::config::TraceSettings;
use crate::tasks;

const SERVICE: &str = <SpreadServiceServer<api::Service> as NamedService>::NAME;

/// The time that the collector may take for the waiting spans when the server stops.
const FAREWELL: Duration = Duration::from_secs(3);

/// The exporter of spans.
pub struct Traces {
    provider: SdkTracerProvider,
}

impl Traces {
    /// Starts to send, if a collector is configured. The connection is opened when there is a span
    /// to send.
    pub fn start(settings: &TraceSettings) -> Result<Option<Self>, ExporterBuildError> {
        let Some(endpoint) = &settings.otlp_endpoint else {
            return Ok(None);
        };
        let exporter = SpanExporter::builder()
            .with_tonic()
            .with_endpoint(endpoint.to_string())
            .build()?;
        let resource = Resource::builder()
            .with_service_name(env!("CARGO_PKG_NAME"))
            .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")));
        let root = Sampler::TraceIdRatioBased(settings.trace_ratio);
        let provider = SdkTracerProvider::builder()
            .with_sampler(Sampler::ParentBased(Box::new(root)))
            .with_resource(resource.build())
            .with_batch_exporter(exporter)
            .build();
        Ok(Some(Self { provider }))
    }

    /// Returns the maker of spans.
    pub fn tracer(&self) -> Tracer {
        Tracer(self.provider.tracer(SERVICE))
    }

    /// Sends the waiting spans.
    pub async fn stop(self) {
        let stop = move || self.provider.shutdown_with_timeout(FAREWELL);
        match tasks::spawn_blocking(stop).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => warn!(%error, "traces were lost"),
            Err(error) => warn!(%error, "traces were lost"),
        }
    }
}

/// Makes spans.
#[derive(Clone)]
pub struct Tracer(SdkTracer);

/// The facts about the start of a call that its span needs.
pub struct SpanStart {
    at: SystemTime,
    parent: Context,
}

impl Tracer {
    /// Begins a span for a call that has arrived with these headers.
    pub fn begin(&self, headers: &HeaderMap) -> SpanStart {
        let propagator = TraceContextPropagator::new();
        SpanStart {
            at: SystemTime::now(),
            parent: propagator.extract_with_context(&Context::new(), &Headers(headers)),
        }
    }

    /// Makes the span of a call that has ended.
    pub fn end(
        &self,
        started: SpanStart,
        method: &str,
        arrived: Instant,
        code: Code,
        decision: Option<&Decision>,
    ) {
        let SpanStart { at, parent } = started;
        let call = SpanBuilder::from_name(format!("{SERVICE}/{method}"))
            .with_kind(SpanKind::Server)
            .with_start_time(at)
            .with_attributes([
                KeyValue::new("rpc.system", "grpc"),
                KeyValue::new("rpc.service", SERVICE),
                KeyValue::new("rpc.method", method.to_owned()),
                KeyValue::new("rpc.grpc.status_code", code as i64),
            ]);
        let mut call = self.0.build_with_context(call, &parent);
        if is_fault(code) {
            call.set_status(Status::error(code.description()));
        }
        if let Some(decision) = decision {
            let within = parent.with_remote_span_context(call.span_context().clone());
            let size = decision.size;
            let start = at + decision.started.saturating_duration_since(arrived);
            let decide = SpanBuilder::from_name("decide")
                .with_start_time(start)
                .with_attributes([
                    KeyValue::new("evenkeel.nodes", size.nodes),
                    KeyValue::new("evenkeel.domains", size.domains),
                    KeyValue::new("evenkeel.feasible", size.feasible),
                ]);
            let mut decide = self.0.build_with_context(decide, &within);
            decide.end_with_timestamp(start + decision.took);
        }
        call.end_with_timestamp(at + arrived.elapsed());
    }
}

/// Returns whether a code means that the server is at fault, and not the caller.
fn is_fault(code: Code) -> bool {
    matches!(
        code,
        Code::Unknown
            | Code::DeadlineExceeded
            | Code::Unimplemented
            | Code::Internal
            | Code::Unavailable
            | Code::DataLoss
    )
}

struct Headers<'a>(&'a HeaderMap);

impl Extractor for Headers<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key)?.to_str().ok()
    }

    fn keys(&self) -> Vec<&str> {
        self.0.keys().map(http::HeaderName::as_str).collect()
    }
}
