//! Connects to the server, with the credentials of a client: those of a context of the user's file, or of
//! variables.

use std::collections::BTreeMap;
use std::env::var_os;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use http::HeaderValue;
use http::header::AUTHORIZATION;
use serde::Deserialize;
use tonic::body::Body;
use tonic::codegen::http;
use tonic::transport::{Certificate, ClientTlsConfig, Identity};
use tower::ServiceExt;
use tower::util::BoxCloneSyncService;

use super::exit::Unreachable;
use super::output;
use crate::kubernetes::Transport;
use crate::misspelt;
use crate::toml_fault::TomlFault;
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

    /// Returns whether a flag or a variable names the server.
    pub(crate) fn is_named(&self) -> bool {
        self.named.is_some()
    }

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

/// The address of a server if nothing names another.
const LOCAL: &str = "http://127.0.0.1:50051";

/// The variables that set the keys of a context.
pub(super) const VARIABLES: [&str; 6] = [
    "EVENKEEL_SERVER_CA",
    "EVENKEEL_SERVER_NAME",
    "EVENKEEL_CLIENT_CERT",
    "EVENKEEL_CLIENT_KEY",
    "EVENKEEL_TOKEN_FILE",
    "EVENKEEL_TOKEN",
];

/// A server, and the credentials to connect with.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ServerContext {
    /// The address of the server.
    pub(super) server: String,
    /// Certificates to trust instead of the system's, in PEM.
    pub(super) server_ca: Option<PathBuf>,
    /// The name that the server's certificate must have, if not the address's.
    pub(super) server_name: Option<String>,
    /// The client's certificate, in PEM.
    pub(super) client_cert: Option<PathBuf>,
    /// The private key of that certificate, in PEM.
    pub(super) client_key: Option<PathBuf>,
    /// A file with the token to send.
    pub(super) token_file: Option<PathBuf>,
    /// The token itself, which only a variable has.
    #[serde(skip)]
    pub(super) token: Option<String>,
}

/// The content of the file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ContextsFile {
    /// The context that holds if none is named.
    current: Option<String>,
    /// The contexts, by name.
    #[serde(default)]
    contexts: BTreeMap<String, ServerContext>,
}

impl ServerContext {
    /// The connection to the server that a user has named: by its address, by the name of a context,
    /// or not at all.
    pub(super) fn to(named: Option<&str>) -> Result<Self> {
        let mut connection = match named.filter(|named| !named.is_empty()) {
            Some(address) if is_address(address) => Self::at(address),
            named => Self::from_file(named)?,
        };
        connection.set_variables();
        Ok(connection)
    }

    fn at(address: &str) -> Self {
        Self {
            server: address.to_owned(),
            ..Self::default()
        }
    }

    /// The context of this name, or the current one, or the local server if there is none.
    fn from_file(named: Option<&str>) -> Result<Self> {
        let Some(path) = contexts_path().filter(|path| path.exists()) else {
            return match named {
                None => Ok(Self::at(LOCAL)),
                Some(name) => bail!(
                    "--server {name}: neither an address, such as {name}:50051, nor a context, \
                     because there is no file {}",
                    contexts_path().unwrap_or_default().display()
                ),
            };
        };
        let mut file = read_contexts(&path)?;
        let Some(name) = named.map(str::to_owned).or(file.current.take()) else {
            return Ok(Self::at(LOCAL));
        };
        let Some(mut context) = file.contexts.remove(&name) else {
            let hint = misspelt::hint(&name, file.contexts.keys().map(String::as_str));
            bail!("{}: no context is called {name}{hint}", path.display());
        };
        let directory = path.parent().unwrap_or(Path::new(""));
        for relative in [
            &mut context.server_ca,
            &mut context.client_cert,
            &mut context.client_key,
            &mut context.token_file,
        ] {
            *relative = relative.take().map(|path| directory.join(path));
        }
        Ok(context)
    }

    /// A variable wins over the key of a context.
    fn set_variables(&mut self) {
        let set = |name| var_os(name).filter(|value| !value.is_empty());
        let text = |name| set(name).map(|value| value.to_string_lossy().into_owned());
        let [ca, name, cert, key, token_file, token] = VARIABLES;
        for (path, variable) in [
            (&mut self.server_ca, ca),
            (&mut self.client_cert, cert),
            (&mut self.client_key, key),
            (&mut self.token_file, token_file),
        ] {
            *path = set(variable).map(PathBuf::from).or(path.take());
        }
        self.server_name = text(name).or(self.server_name.take());
        self.token = text(token);
    }
}

/// Returns whether a text is an address and no name: it has a port or a scheme.
fn is_address(text: &str) -> bool {
    text.contains([':', '/'])
}

/// The path of the file, if the user has a home.
fn contexts_path() -> Option<PathBuf> {
    let set = |name| var_os(name).filter(|value| !value.is_empty());
    let configuration = set("XDG_CONFIG_HOME").map(PathBuf::from);
    let configuration = configuration.or_else(|| Some(Path::new(&set("HOME")?).join(".config")))?;
    Some(configuration.join("evenkeel/config.toml"))
}

fn read_contexts(path: &Path) -> Result<ContextsFile> {
    let told = || path.display().to_string();
    let text = std::fs::read_to_string(path).with_context(told)?;
    toml::from_str(&text).map_err(|error| {
        let fault = TomlFault::new(&text, &error);
        anyhow::anyhow!("{}: {fault}", path.display())
    })
}
