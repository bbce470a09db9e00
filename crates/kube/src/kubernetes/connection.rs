//! A client of a cluster's API server.

use std::time::Duration;

use kube::Client;
use tokio::time::sleep;
use tracing::warn;

use super::credentials::Credentials;
use super::error::ApiRequest;
use super::resource::ApiResource;
use super::target::{ReadFiles, Target};

/// The time between two looks at the files of a kubeconfig.
const LOOK: Duration = Duration::from_secs(2);

/// What a client does when an API server refuses a call temporarily.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnRefusal {
    /// The client repeats the call a few times.
    Retry,
    /// The client reports the refusal at once.
    Report,
}

/// A cluster, with a client of its API server. The client reads token files again, and runs commands
/// again whose tokens expire.
#[derive(Clone)]
pub struct ClusterClient {
    pub(super) client: Client,
    /// The context of the cluster; `in-cluster` for the cluster in which this pod runs.
    pub name: String,
    /// The target of the client with the chosen context, so that the same cluster is read again even
    /// if the current context changes.
    pub(super) target: Target,
    pub(super) address: String,
    pub(super) credentials: Credentials,
    /// The files that the client was made from.
    pub(super) files: ReadFiles,
    /// The namespace of the context; `default` if it has none.
    pub namespace: String,
}

impl ClusterClient {
    /// Describes a request to the cluster's API server, for an error.
    pub(super) fn asked(
        &self,
        verb: &'static str,
        resource: &'static ApiResource,
        in_namespace: bool,
    ) -> ApiRequest<'_> {
        ApiRequest {
            cluster: self,
            verb,
            resource,
            in_namespace,
        }
    }

    /// Waits until the kubeconfig, or a file that it names, has changed and can be used. Files that
    /// are being written may be incomplete for a while.
    pub(super) async fn changed(&self) {
        let mut trouble = String::new();
        loop {
            sleep(LOOK).await;
            if !self.files.have_changed() {
                continue;
            }
            let Err(error) = self.target.clone().connect(OnRefusal::Retry).await else {
                return;
            };
            let error = error.to_string();
            if trouble != error {
                warn!(
                    cluster = self.name,
                    error, "credentials have changed and cannot be used: those before stay in use"
                );
                trouble = error;
            }
        }
    }
}
