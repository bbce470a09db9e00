//! The credentials for an API server, and their faults that are found before a request is sent.

use std::fs;
use std::io;
use std::iter::successors;
use std::path::Path;

use data_encoding::BASE64;
use kube::client::{AuthError, RustlsTlsError};
use kube::config::{AuthInfo, KubeconfigError, LoadDataError};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{Error as TlsError, InconsistentKeys};
use x509_parser::prelude::{FromDer, X509Certificate, X509Version};

use evenkeel_log::visible::causes;

/// The credentials of a user of a kubeconfig, or of a service account, with their sources.
#[derive(Debug, Clone, Default)]
pub(super) struct Credentials {
    /// A description for a message; `None` if there are no credentials.
    pub(super) what: Option<String>,
    /// The command that returns the credentials.
    command: String,
    /// The source of the client certificate.
    certificate: String,
    /// The client certificate in PEM; empty if there is none or it cannot be read.
    pem: Vec<u8>,
}

impl Credentials {
    /// Returns the credentials of `user`, in the order in which `kube` takes them.
    pub(super) fn of(user: &AuthInfo) -> Self {
        let command = user.exec.as_ref().and_then(|exec| exec.command.clone());
        let command = command.unwrap_or_default();
        let (certificate, pem) = match (&user.client_certificate_data, &user.client_certificate) {
            (Some(data), _) => (
                "client certificate of the kubeconfig".to_owned(),
                BASE64.decode(data.trim().as_bytes()).unwrap_or_default(),
            ),
            (None, Some(path)) => (
                format!("client certificate {path}"),
                fs::read(path).unwrap_or_default(),
            ),
            (None, None) => (String::new(), Vec::new()),
        };
        let what = match (&user.auth_provider, &user.token, &user.token_file) {
            (Some(provider), ..) => Some(format!("what the provider {} gives", provider.name)),
            _ if user.username.is_some() => Some("the user name and password".to_owned()),
            (_, Some(_), _) => Some("the token of the kubeconfig".to_owned()),
            (_, _, Some(path)) => Some(format!("the token file {path}")),
            _ if user.exec.is_some() => Some(format!("what the command {command} gives")),
            _ if !certificate.is_empty() => Some(format!("the {certificate}")),
            _ => None,
        };
        Self {
            what,
            command,
            certificate,
            pem,
        }
    }

    /// Returns the fault of the credentials, if that caused `error`.
    pub(super) fn fault(&self, error: &kube::Error) -> Option<String> {
        match error {
            kube::Error::RustlsTls(error) => return Some(self.tls_fault(error)),
            kube::Error::InferKubeconfig(error) => return Some(kubeconfig_fault(error)),
            _ => {}
        }
        let first: &(dyn std::error::Error + 'static) = error;
        let mut chain = successors(Some(first), |error| error.source());
        let of_auth = chain.find_map(|error| error.downcast_ref::<AuthError>());
        of_auth.map(|error| self.auth_fault(error))
    }

    /// Returns the fault of a token, or of the command that returns it. The command's standard
    /// output is never shown, because it may be a token.
    fn auth_fault(&self, error: &AuthError) -> String {
        let command = &self.command;
        match error {
            AuthError::ReadTokenFile(error, path) => file_fault("token file", path, error),
            AuthError::AuthExecStart(error) => {
                format!("the command {command}, which gives them, cannot be run: {error}")
            }
            AuthError::AuthExecRun { out, .. } => {
                let status = out.status;
                format!("the command {command}, which gives them, ended with {status}")
            }
            AuthError::AuthExecParse(_)
            | AuthError::ExecPluginFailed
            | AuthError::MalformedTokenExpirationDate(_)
            | AuthError::UnrefreshableTokenResponse => {
                format!("the command {command} gave no credentials that can be read")
            }
            AuthError::MissingCommand => "its user has an `exec` without a command".to_owned(),
            error => causes(error),
        }
    }

    fn tls_fault(&self, error: &RustlsTlsError) -> String {
        let certificate = &self.certificate;
        match error {
            RustlsTlsError::InvalidPrivateKey(_) if self.is_version_1() => format!(
                "{certificate}: it is of X.509 version 1, which is not supported; have one issued \
                 of version 3, with extensions"
            ),
            RustlsTlsError::InvalidPrivateKey(TlsError::InconsistentKeys(
                InconsistentKeys::KeyMismatch,
            )) => format!("{certificate}: the client key is that of another certificate"),
            RustlsTlsError::InvalidPrivateKey(error) => format!("{certificate}: {error}"),
            RustlsTlsError::AddRootCertificate(error) => {
                format!("certificate authority: {}", causes(&**error))
            }
            error if certificate.is_empty() => causes(error),
            error => format!("{certificate}: {}", causes(error)),
        }
    }

    fn is_version_1(&self) -> bool {
        let Ok(der) = CertificateDer::from_pem_slice(&self.pem) else {
            return false;
        };
        X509Certificate::from_der(&der).is_ok_and(|(_, it)| it.version() == X509Version::V1)
    }
}

/// Returns the fault of a kubeconfig, or of a file that it names.
pub(super) fn kubeconfig_fault(error: &KubeconfigError) -> String {
    match error {
        // The caller's message names the file.
        KubeconfigError::ReadConfig(error, _) => error.to_string(),
        KubeconfigError::LoadCertificateAuthority(error) => {
            data_fault("certificate authority", error)
        }
        KubeconfigError::LoadClientCertificate(error) => data_fault("client certificate", error),
        KubeconfigError::LoadClientKey(error) => data_fault("client key", error),
        error => causes(error),
    }
}

fn data_fault(what: &str, error: &LoadDataError) -> String {
    match error {
        LoadDataError::ReadFile(error, path) => file_fault(what, path, error),
        LoadDataError::DecodeBase64(error) => format!("{what}: its data is no base64: {error}"),
        LoadDataError::NoBase64DataOrFile => format!("{what}: there is none, only the other half"),
    }
}

fn file_fault(what: &str, path: &Path, error: &io::Error) -> String {
    format!("{what} {}: {error}", path.display())
}
