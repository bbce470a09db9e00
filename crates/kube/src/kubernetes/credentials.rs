//! The credentials for an API server, and their faults that are found before a request is sent.

use std::iter::successors;

use kube::client::AuthError;
use kube::config::AuthInfo;

use evenkeel_log::visible::causes;

/// The credentials of a user of a kubeconfig, or of a service account, with their sources.
#[derive(Debug, Clone, Default)]
pub(super) struct Credentials {
    /// A description for a message; `None` if there are no credentials.
    pub(super) what: Option<String>,
    /// The command that returns the credentials.
    command: String,
}

impl Credentials {
    /// Returns the credentials of `user`, in the order in which `kube` takes them.
    pub(super) fn of(user: &AuthInfo) -> Self {
        let command = user.exec.as_ref().and_then(|exec| exec.command.clone());
        let command = command.unwrap_or_default();
        let what = match (&user.auth_provider, &user.token, &user.token_file) {
            (Some(provider), ..) => Some(format!("what the provider {} gives", provider.name)),
            _ if user.username.is_some() => Some("the user name and password".to_owned()),
            (_, Some(_), _) => Some("the token of the kubeconfig".to_owned()),
            (_, _, Some(path)) => Some(format!("the token file {path}")),
            _ if user.exec.is_some() => Some(format!("what the command {command} gives")),
            _ if user.client_certificate_data.is_some() => {
                Some("the client certificate of the kubeconfig".to_owned())
            }
            _ => {
                let path = user.client_certificate.as_ref();
                path.map(|path| format!("the client certificate {path}"))
            }
        };
        Self { what, command }
    }

    /// Returns the fault of the credentials, if that caused `error`. The standard output of a command
    /// is never shown, because it may be a token.
    pub(super) fn fault(&self, error: &kube::Error) -> Option<String> {
        let what = self.what.as_deref().unwrap_or("certificate authority");
        match error {
            kube::Error::RustlsTls(error) => return Some(format!("{what}: {}", causes(error))),
            kube::Error::InferKubeconfig(error) => return Some(causes(error)),
            _ => {}
        }
        let first: &(dyn std::error::Error + 'static) = error;
        let mut chain = successors(Some(first), |error| error.source());
        let fault = chain.find_map(|error| error.downcast_ref::<AuthError>())?;
        let command = &self.command;
        Some(match fault {
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
            error => causes(error),
        })
    }
}
