//! A client of an API server that is rebuilt when the files of its credentials change, or when a
//! command's credentials expire. Running watches continue. Their next request, within seconds, uses
//! the new credentials.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use http_body_util::BodyExt;
use kube::Client;
use kube::client::{Body, DynBody};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tonic::codegen::http::{Request, Response, Uri};
use tower::BoxError;
use tracing::{info, warn};

use super::error::Error;
use super::target::{ClusterAccess, ReadFiles, Target};

/// The shortest time between two checks of the files.
const LOOK: Duration = Duration::from_secs(1);
/// The shortest time between two runs of a command before its credentials expire.
const ASK_AGAIN: Duration = Duration::from_secs(10);
/// The time before their expiry when credentials are renewed.
const BEFORE_EXPIRY: Duration = Duration::from_secs(60);

/// The client of a cluster, which can be rebuilt.
#[derive(Clone)]
pub(super) struct Renewing(Arc<RenewedClient>);

struct RenewedClient {
    target: Target,
    cluster: String,
    address: Uri,
    current: Mutex<CurrentClient>,
    /// Notified when the kubeconfig has another address for the cluster.
    moved: Notify,
}

struct CurrentClient {
    client: Client,
    files: ReadFiles,
    looked: Instant,
    renewed: Instant,
    /// The last reason why the files could not be used; empty if there is none.
    trouble: String,
}

impl CurrentClient {
    /// Checks the files, and returns whether the client has to be rebuilt.
    fn is_outdated(&mut self) -> bool {
        if self.looked.elapsed() < LOOK {
            return false;
        }
        self.looked = Instant::now();
        let expires = self.client.valid_until().as_ref();
        let expires = expires.and_then(|at| u64::try_from(at.as_second()).ok());
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let soon = now.unwrap_or_default() + BEFORE_EXPIRY;
        let is_expiring = expires.is_some_and(|at| at <= soon.as_secs());
        self.files.have_changed() || is_expiring && self.renewed.elapsed() >= ASK_AGAIN
    }
}

impl Renewing {
    /// A client for `access`.
    ///
    /// # Errors
    /// The fault of the credentials.
    pub(super) fn new(access: ClusterAccess) -> Result<Self, Error> {
        let client = access.client()?;
        let now = Instant::now();
        Ok(Self(Arc::new(RenewedClient {
            target: access.target,
            cluster: access.name,
            address: access.config.cluster_url,
            current: Mutex::new(CurrentClient {
                client,
                files: access.files,
                looked: now,
                renewed: now,
                trouble: String::new(),
            }),
            moved: Notify::new(),
        })))
    }

    /// Waits until the kubeconfig has another address for the cluster. This may never happen.
    pub(super) async fn moved(&self) {
        self.0.moved.notified().await;
    }

    /// Sends a request with the current credentials.
    ///
    /// # Errors
    /// Those of the client.
    pub(super) async fn send(
        &self,
        request: Request<Body>,
    ) -> Result<Response<Box<DynBody>>, BoxError> {
        let answer = self.client().await.send(request).await?;
        Ok(answer.map(|body| -> Box<DynBody> { Box::new(body.map_err(BoxError::from)) }))
    }

    /// Returns the current client, rebuilt if necessary.
    async fn client(&self) -> Client {
        let old = {
            let mut current = self.0.current.lock();
            if !current.is_outdated() {
                return current.client.clone();
            }
            current.renewed = Instant::now();
            current.client.clone()
        };
        let read = self.0.target.read().await;
        let made = read.and_then(|access| Ok((access.client()?, access)));
        let cluster = &self.0.cluster;
        let mut current = self.0.current.lock();
        match made {
            Ok((_, access)) if access.config.cluster_url != self.0.address => {
                current.files = access.files;
                self.0.moved.notify_one();
                old
            }
            Ok((client, access)) => {
                info!(cluster, "credentials have changed and are read again");
                current.files = access.files;
                current.client = client.clone();
                current.trouble.clear();
                client
            }
            // The files may be incomplete because they are just being written, so the old client
            // stays.
            Err(error) => {
                let trouble = error.to_string();
                if current.trouble != trouble {
                    warn!(
                        cluster,
                        error = trouble,
                        "credentials have changed and cannot be used: those before stay in use"
                    );
                    current.trouble = trouble;
                }
                old
            }
        }
    }
}
