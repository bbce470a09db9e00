//! `evenkeel healthcheck`: asks a server by the standard gRPC health protocol, for probes.

use std::time::Duration;

use anyhow::Result;
use clap::Args;
use tonic::{Code, Request};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use super::backend::within;
use super::endpoint::Endpoint;
use super::exit::{Exit, RefusedCall};
use super::output;

/// Flags of `evenkeel healthcheck`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  evenkeel healthcheck
  evenkeel healthcheck --service default         (the snapshot of that name)

Exit codes:
  0  serving
  1  not serving, or no such service
  2  the check was refused
  3  the server could not be reached, or did not answer in time")]
pub(crate) struct Healthcheck {
    #[command(flatten)]
    endpoint: Endpoint,

    /// What to check: evenkeel.v1.SpreadService, a snapshot, or (empty) the whole server
    #[arg(long, value_name = "NAME")]
    service: Option<String>,

    /// How long to wait for the answer
    #[arg(
        long,
        value_name = "DURATION",
        default_value = "2s",
        value_parser = humantime::parse_duration
    )]
    timeout: Duration,
}

impl Healthcheck {
    /// Checks once.
    pub(crate) async fn run(self) -> Result<Exit> {
        let mut health = HealthClient::new(self.endpoint.connect(self.timeout).await?);
        let request = Request::new(HealthCheckRequest {
            service: self.service.unwrap_or_default(),
        });
        let status = match within(Some(self.timeout), health.check(request)).await? {
            Ok(answer) => answer.into_inner().status(),
            Err(status) if status.code() == Code::NotFound => ServingStatus::ServiceUnknown,
            Err(status) => return Err(RefusedCall::or_unreachable(status, Vec::new())),
        };
        output::print(&format!("{}\n", status.as_str_name()))?;
        Ok(Exit::of(status == ServingStatus::Serving))
    }
}
