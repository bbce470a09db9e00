//! Settings of TLS, tokens and access rules.

use std::path::PathBuf;

/// Encryption, client certificates and access.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Security")]
pub struct SecuritySettings {
    /// Certificate chain for TLS, in PEM, the server's own first.
    ///
    /// All files of this section are reloaded when they change. A bad file is
    /// logged, and the previous one stays in use.
    #[arg(long, env = "EVENKEEL_TLS_CERT", value_name = "FILE")]
    pub tls_cert: Option<PathBuf>,

    /// Private key of the certificate, in PEM (PKCS#8, PKCS#1 or SEC1).
    #[arg(long, env = "EVENKEEL_TLS_KEY", value_name = "FILE")]
    pub tls_key: Option<PathBuf>,

    /// Authority of client certificates, in PEM.
    ///
    /// Clients must then present a certificate of it; see --tls-client-auth.
    #[arg(long, env = "EVENKEEL_TLS_CLIENT_CA", value_name = "FILE")]
    pub tls_client_ca: Option<PathBuf>,

    /// Whether a client must have a certificate.
    ///
    /// With `optional` a client without a certificate may connect, with a token
    /// or with nothing. A client with a bad certificate may not.
    #[arg(
        long,
        env = "EVENKEEL_TLS_CLIENT_AUTH",
        value_name = "WHEN",
        value_enum,
        default_value_t = ClientAuth::Required
    )]
    pub tls_client_auth: ClientAuth,

    /// Serve without TLS on an address that is not a loopback one.
    ///
    /// Use it behind a proxy or mesh that encrypts. Otherwise everybody in
    /// between can read and change what is sent.
    #[arg(
        long,
        env = "EVENKEEL_ALLOW_PLAINTEXT",
        value_parser = clap::builder::BoolishValueParser::new()
    )]
    pub allow_plaintext: bool,

    /// TOML file with access rules: who may do what with which snapshots.
    ///
    /// Without one, everybody who can connect may do everything. `evenkeel
    /// token` makes tokens for it.
    #[arg(long, env = "EVENKEEL_ACCESS_FILE", value_name = "FILE")]
    pub access_file: Option<PathBuf>,
}

/// The rule about the certificates of clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum ClientAuth {
    /// It must.
    Required,
    /// It may.
    Optional,
}
