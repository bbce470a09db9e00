//! `evenkeel healthcheck`: asks a server by the standard gRPC health protocol, for probes.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tonic::{Code, Request};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use super::backend::within;
use super::endpoint::Endpoint;
use super::exit::{Exit, RefusedCall};
use super::output;
use crate::visible;

/// Flags of `evenkeel healthcheck`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  evenkeel healthcheck
  evenkeel healthcheck --service default         (the snapshot of that name)")]
pub(crate) struct Healthcheck {
    #[command(flatten)]
    endpoint: Endpoint,

    /// Admin port of the server, which says what a server waits for that does not listen yet
    #[arg(long, env = "EVENKEEL_ADMIN_LISTEN", value_name = "ADDRESS")]
    admin: Option<SocketAddr>,

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
        let channel = match (self.endpoint.connect(self.timeout).await, self.admin) {
            (Err(error), Some(admin)) => {
                let Some(told) = timeout(self.timeout, unready(admin)).await.ok().flatten() else {
                    return Err(error);
                };
                output::print(&format!(
                    "{}\n{told}",
                    ServingStatus::NotServing.as_str_name()
                ))?;
                return Ok(Exit::of(false));
            }
            (channel, _) => channel?,
        };
        let mut health = HealthClient::new(channel);
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

/// The most bytes that are read of the admin port's answer.
const MAX_ANSWER_BYTES: u64 = 64 << 10;

/// What the admin port of a server says on `/readyz` that is not ready.
async fn unready(mut admin: SocketAddr) -> Option<String> {
    if admin.ip().is_unspecified() {
        admin.set_ip(IpAddr::V4(Ipv4Addr::LOCALHOST));
    }
    let mut stream = TcpStream::connect(admin).await.ok()?;
    let request = format!("GET /readyz HTTP/1.0\r\nHost: {admin}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut answer = Vec::new();
    let mut bounded = stream.take(MAX_ANSWER_BYTES);
    bounded.read_to_end(&mut answer).await.ok()?;
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer.split_once("\r\n\r\n")?;
    head.contains(" 503 ")
        .then(|| visible::lines(body).into_owned())
}
