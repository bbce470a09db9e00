//! Connects to the server, with the credentials of a client.

use std::error::Error;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use http::HeaderValue;
use http::header::AUTHORIZATION;
use tonic::body::Body;
use tonic::codegen::http;
use tonic::transport::{Certificate, ClientTlsConfig, Identity};
use tower::ServiceExt;
use tower::util::BoxCloneSyncService;

use super::contexts::ServerContext;
use super::exit::Unreachable;
use super::output;
use crate::kubernetes::Transport;
use crate::visible::causes;

/// The longest wait for a connection, unless `--timeout` is shorter.
const LONGEST_CONNECT: Duration = Duration::from_secs(5);

/// The time between two pings of a silent server. They detect a dead server, because a load has no
/// timeout.
const KEEP_ALIVE: Duration = Duration::from_secs(20);

/// The server to ask.
#[derive(Debug, Clone, Args)]
pub(crate) struct Endpoint {
    /// Server to ask: an address, or a context of ~/.config/evenkeel/config.toml
    ///
    /// An address is HOST:PORT, http://HOST:PORT or https://HOST:PORT. A context
    /// also has the credentials; docs/security.md has an example. Without this
    /// flag the file's current context holds, else http://127.0.0.1:50051.
    #[arg(
        id = Self::ADDRESS,
        long = "server",
        env = "EVENKEEL_SERVER",
        value_name = "ADDRESS|CONTEXT"
    )]
    named: Option<String>,
}

impl Endpoint {
    /// The id of the flag of the address.
    pub(crate) const ADDRESS: &'static str = "address of the server";

    /// The address of the server.
    pub(crate) fn address(&self) -> Result<String> {
        Ok(ServerContext::to(self.named.as_deref())?.server)
    }

    /// Connects to the server.
    pub(crate) async fn connect(&self, timeout: Duration) -> Result<Transport> {
        ServerContext::to(self.named.as_deref())?
            .open(timeout)
            .await
    }
}

impl ServerContext {
    async fn open(&self, timeout: Duration) -> Result<Transport> {
        let address = &self.server;
        let endpoint = tonic::transport::Endpoint::from_shared(self.uri()?)
            .map_err(|error| anyhow::anyhow!("--server {address}: {}", causes(&error)))?;
        let is_encrypted = endpoint.uri().scheme_str() == Some("https");
        let endpoint = match self.tls(is_encrypted)? {
            Some(tls) => endpoint
                .tls_config(tls)
                .map_err(|error| anyhow::anyhow!("server_ca, client_cert: {}", causes(&error)))?,
            None => endpoint,
        };
        let authorization = self.authorization()?;
        if authorization.is_some() && !is_encrypted && !is_local(endpoint.uri().host()) {
            output::warn("the token is sent in plain text; use https://");
        }
        let endpoint = endpoint
            .connect_timeout(timeout.min(LONGEST_CONNECT))
            .http2_keep_alive_interval(KEEP_ALIVE)
            .tcp_nodelay(true);
        let channel = match endpoint.connect().await {
            Ok(channel) => channel,
            Err(error) => {
                let fault = causes(error.source().unwrap_or(&error));
                let advice = advice(&fault);
                let message = format!("cannot reach the server at {address}: {fault}\n  {advice}");
                return Err(Unreachable(message).into());
            }
        };
        let signed = channel.map_err(Into::into);
        let signed = signed.map_request(move |mut request: http::Request<Body>| {
            if let Some(value) = &authorization {
                request.headers_mut().insert(AUTHORIZATION, value.clone());
            }
            request
        });
        Ok(BoxCloneSyncService::new(signed))
    }

    fn uri(&self) -> Result<String> {
        let address = &self.server;
        let (scheme, rest) = address.split_once("://").unwrap_or(("", address));
        let is_target = ["ipv4:", "ipv6:", "dns:", "xds:"]
            .iter()
            .any(|scheme| rest.starts_with(scheme));
        anyhow::ensure!(
            matches!(scheme, "" | "http" | "https" | "unix") && !is_target && !rest.contains(','),
            "--server {address}: must be one address, such as 10.0.0.1:50051, \
             http://10.0.0.1:50051 or https://evenkeel.example:50051"
        );
        if !scheme.is_empty() || address.starts_with("unix:") {
            return Ok(address.clone());
        }
        let asks_for_tls = self.server_ca.is_some() || self.client_cert.is_some();
        let scheme = if asks_for_tls { "https" } else { "http" };
        // A port alone is one of this machine.
        let host = if address.starts_with(':') {
            "localhost"
        } else {
            ""
        };
        Ok(format!("{scheme}://{host}{address}"))
    }

    fn tls(&self, is_encrypted: bool) -> Result<Option<ClientTlsConfig>> {
        let identity = match (&self.client_cert, &self.client_key) {
            (Some(cert), Some(key)) => Some(Identity::from_pem(read(cert)?, read(key)?)),
            (None, None) => None,
            _ => bail!("client_cert and client_key need each other: give both, or neither"),
        };
        if !is_encrypted {
            // Without this error, the user would believe that the unused credentials are presented.
            anyhow::ensure!(
                identity.is_none() && self.server_ca.is_none(),
                "server_ca, client_cert and client_key need a server https://..., not {address}",
                address = self.server
            );
            return Ok(None);
        }
        let mut tls = match &self.server_ca {
            Some(path) => ClientTlsConfig::new().ca_certificate(Certificate::from_pem(read(path)?)),
            None => ClientTlsConfig::new().with_native_roots(),
        };
        if let Some(identity) = identity {
            tls = tls.identity(identity);
        }
        if let Some(name) = &self.server_name {
            tls = tls.domain_name(name);
        }
        Ok(Some(tls))
    }

    /// The header with the token. A file wins over the variable with the token.
    fn authorization(&self) -> Result<Option<HeaderValue>> {
        let token = match (&self.token_file, &self.token) {
            (Some(path), _) => String::from_utf8_lossy(&read(path)?).into_owned(),
            (None, Some(token)) => token.clone(),
            (None, None) => return Ok(None),
        };
        let mut value = HeaderValue::try_from(format!("Bearer {}", token.trim()))
            .context("the token holds characters that cannot be sent")?;
        value.set_sensitive(true);
        Ok(Some(value))
    }
}

/// Returns advice for a connection that failed by `fault`.
fn advice(fault: &str) -> &'static str {
    match fault.contains("invalid peer certificate") {
        true if fault.contains("UnknownIssuer") => {
            "name the certificate of its authority: server_ca of a context, or EVENKEEL_SERVER_CA"
        }
        true if fault.contains("not valid for") => {
            "connect to a name of its certificate, or give that: server_name of a context, or \
             EVENKEEL_SERVER_NAME"
        }
        true => "the server needs another certificate",
        false => {
            "start one with `evenkeel serve`, name another with --server, where TLS wants \
             https://, or decide without one with --load FILE"
        }
    }
}

fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

fn is_local(host: Option<&str>) -> bool {
    let host = host.unwrap_or_default().trim_matches(['[', ']']);
    let is_loopback = |ip: std::net::IpAddr| ip.is_loopback();
    host == "localhost" || host.parse().is_ok_and(is_loopback)
}

#[cfg(test)]
mod tests {
    use super::advice;

    #[test]
    fn advice_is_about_what_failed() {
        let cases = [
            (
                "invalid peer certificate: UnknownIssuer",
                "EVENKEEL_SERVER_CA",
            ),
            (
                "invalid peer certificate: certificate not valid for name \"a\"",
                "EVENKEEL_SERVER_NAME",
            ),
            ("Connection refused (os error 111)", "evenkeel serve"),
        ];
        for (fault, expected) in cases {
            assert!(advice(fault).contains(expected), "{fault}");
        }
    }
}
