//! Traces: where to, and how many.

use http::Uri;

/// Traces of calls.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Operation")]
pub struct TraceSettings {
    /// Send traces of calls to this OpenTelemetry collector, over OTLP/gRPC.
    ///
    /// For example http://localhost:4317. Off by default. A call with a
    /// `traceparent` becomes part of its caller's trace. Attributes of the
    /// sender come from OTEL_RESOURCE_ATTRIBUTES.
    #[arg(
        long,
        env = "EVENKEEL_OTLP_ENDPOINT",
        value_name = "URL",
        value_parser = collector
    )]
    pub otlp_endpoint: Option<Uri>,

    /// Share of the calls without a `traceparent` to trace, from 0 to 1.
    ///
    /// For other calls the caller decides. A span takes as long as a short
    /// decision. Spans that the collector does not accept are dropped.
    #[arg(
        long,
        env = "EVENKEEL_TRACE_RATIO",
        value_name = "RATIO",
        default_value_t = 1.0,
        value_parser = ratio
    )]
    pub trace_ratio: f64,
}

fn collector(text: &str) -> Result<Uri, &'static str> {
    match text.parse::<Uri>() {
        Ok(uri) if uri.scheme_str() == Some("http") && uri.authority().is_some() => Ok(uri),
        _ => Err("expected http://HOST:PORT"),
    }
}

fn ratio(text: &str) -> Result<f64, &'static str> {
    match text.parse() {
        Ok(ratio) if (0.0..=1.0).contains(&ratio) => Ok(ratio),
        _ => Err("expected a number from 0 to 1"),
    }
}
