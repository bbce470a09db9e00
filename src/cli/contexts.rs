//! The servers that commands ask, each with the credentials for it: contexts in a file of the user,
//! and variables of the environment.

use std::collections::BTreeMap;
use std::env::var_os;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::misspelt;
use crate::toml_fault::TomlFault;

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
        let Some(path) = path().filter(|path| path.exists()) else {
            return match named {
                None => Ok(Self::at(LOCAL)),
                Some(name) => bail!(
                    "--server {name}: neither an address, such as {name}:50051, nor a context, \
                     because there is no file {}",
                    path().unwrap_or_default().display()
                ),
            };
        };
        let mut file = read(&path)?;
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
fn path() -> Option<PathBuf> {
    let set = |name| var_os(name).filter(|value| !value.is_empty());
    let configuration = set("XDG_CONFIG_HOME").map(PathBuf::from);
    let configuration = configuration.or_else(|| Some(Path::new(&set("HOME")?).join(".config")))?;
    Some(configuration.join("evenkeel/config.toml"))
}

fn read(path: &Path) -> Result<ContextsFile> {
    let told = || path.display().to_string();
    let text = std::fs::read_to_string(path).with_context(told)?;
    toml::from_str(&text).map_err(|error| {
        let fault = TomlFault::new(&text, &error);
        anyhow::anyhow!("{}: {fault}", path.display())
    })
}
