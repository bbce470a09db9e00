//! Which cluster, and a client of its API server.

use std::env;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use futures::future::BoxFuture;
use kube::Client;
use kube::client::ClientBuilder;
use kube::config::{Config, KubeConfigOptions, Kubeconfig, KubeconfigError};
use tower::layer::layer_fn;

use super::error::{ApiRequest, Error};
use super::guard::{Guarding, SentRequests};
use super::protobuf::Translating;
use super::pulse::{Listening, Pulses};
use super::resource::ApiResource;
use crate::visible::causes;

/// How long to wait for a connection, and to send a request.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long an API server may be silent within an answer: longer than a watch lasts.
const READ_TIMEOUT: Duration = Duration::from_secs(60);

/// How the cluster of a pod is called, which no kubeconfig names.
const IN_CLUSTER: &str = "in-cluster";

/// Which cluster is meant.
#[derive(Debug, Clone, Default)]
pub(crate) struct Target {
    /// The kubeconfig; else the files of KUBECONFIG, else ~/.kube/config, else
    /// the service account of this pod.
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The context in it; else its current one.
    pub(crate) context: Option<String>,
}

/// What a client reads of the objects that it lists.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Reads {
    /// All of their text.
    WholeObjects,
    /// What decisions read, which it watches too.
    Decisions,
}

/// A cluster, with a client of its API server.
#[derive(Clone)]
pub(crate) struct ClusterClient {
    /// The client of its API server.
    pub(super) client: Client,
    /// When its watches were last heard.
    pub(super) pulses: Pulses,
    /// The context that it comes from; `in-cluster` for the one around this pod.
    pub(crate) name: String,
    address: String,
    /// The namespace of the context; `default` when it has none.
    pub(crate) namespace: String,
}

impl Target {
    /// Reads the kubeconfig and the credentials. Nothing is asked of the API server
    /// yet.
    ///
    /// # Errors
    /// What is wrong with the kubeconfig, or that there is none.
    pub(crate) async fn connect(self, reads: Reads) -> Result<ClusterClient, Error> {
        let file = self.file();
        let kubeconfig = match &self.kubeconfig {
            Some(path) => Kubeconfig::read_from(path),
            None => Kubeconfig::read(),
        };
        let kubeconfig = match kubeconfig {
            Ok(kubeconfig) => kubeconfig,
            Err(error) if self.kubeconfig.is_none() && is_missing(&error) => {
                let config = self.in_cluster(file)?;
                return ClusterClient::of(IN_CLUSTER.to_owned(), config, reads);
            }
            Err(error) => return Err(unusable(file, &error)),
        };
        let context = self.context_in(&kubeconfig, &file)?;
        let options = KubeConfigOptions {
            context: Some(context.clone()),
            ..Default::default()
        };
        // Boxed where its types are known: of `kube`'s own future the compiler cannot
        // tell later that it may change threads.
        let config: BoxFuture<'static, _> =
            Box::pin(async move { Config::from_custom_kubeconfig(kubeconfig, &options).await });
        let config = config.await.map_err(|error| unusable(file, &error))?;
        ClusterClient::of(context, config, reads)
    }

    /// The context that is meant.
    fn context_in(&self, kubeconfig: &Kubeconfig, file: &str) -> Result<String, Error> {
        let file = file.to_owned();
        let names = kubeconfig.contexts.iter().map(|context| &*context.name);
        let names: Vec<&str> = names.collect();
        let known = match names.join(", ") {
            none if none.is_empty() => "none".to_owned(),
            names => names,
        };
        let chosen = self
            .context
            .as_ref()
            .or(kubeconfig.current_context.as_ref());
        match chosen.filter(|name| !name.is_empty()).cloned() {
            None => Err(Error::NoContext { file, known }),
            Some(context) if names.contains(&&*context) => Ok(context),
            Some(context) => Err(Error::UnknownContext {
                file,
                context,
                known,
            }),
        }
    }

    /// Which file is read, for a message.
    fn file(&self) -> String {
        if let Some(path) = &self.kubeconfig {
            return path.display().to_string();
        }
        let by_variable = env::var("KUBECONFIG").ok().filter(|it| !it.is_empty());
        by_variable.unwrap_or_else(|| "~/.kube/config".to_owned())
    }

    /// The cluster in which this process runs as a pod.
    fn in_cluster(&self, looked: String) -> Result<Config, Error> {
        if env::var_os("KUBERNETES_SERVICE_HOST").is_none() {
            return Err(Error::NoCluster { looked });
        }
        if let Some(context) = &self.context {
            return Err(Error::UnknownContext {
                file: looked,
                context: context.clone(),
                known: "no such file".to_owned(),
            });
        }
        Config::incluster().map_err(|error| Error::ServiceAccount(causes(&error)))
    }
}

fn unusable(file: String, error: &KubeconfigError) -> Error {
    let fault = match error {
        // Its own words name the file again.
        KubeconfigError::ReadConfig(error, _) => error.to_string(),
        error => causes(error),
    };
    Error::Kubeconfig { file, fault }
}

/// Whether there is no kubeconfig at all.
fn is_missing(error: &KubeconfigError) -> bool {
    match error {
        KubeconfigError::FindPath => true,
        KubeconfigError::ReadConfig(error, _) => error.kind() == io::ErrorKind::NotFound,
        _ => false,
    }
}

impl ClusterClient {
    fn of(name: String, mut config: Config, reads: Reads) -> Result<Self, Error> {
        config.connect_timeout = Some(CONNECT_TIMEOUT);
        config.write_timeout = Some(CONNECT_TIMEOUT);
        config.read_timeout = Some(READ_TIMEOUT);
        config.reset_reader_on_write = true;
        let address = config.cluster_url.to_string();
        let namespace = config.default_namespace.clone();
        let pulses = Pulses::new(ApiResource::read_by_decisions());
        let client = ClientBuilder::try_from(config);
        let client = client.map_err(|error| Error::Unauthorized {
            cluster: name.clone(),
            message: causes(&error),
        })?;
        let sent = SentRequests::default();
        let client = client.with_layer(&layer_fn(|inner| Guarding {
            inner,
            sent: sent.clone(),
        }));
        let client = client.with_layer(&layer_fn(|inner| Listening {
            inner,
            pulses: pulses.clone(),
        }));
        Ok(Self {
            client: match reads {
                Reads::WholeObjects => client.build(),
                Reads::Decisions => client.with_layer(&layer_fn(Translating)).build(),
            },
            pulses,
            name,
            address: address.trim_end_matches('/').to_owned(),
            namespace,
        })
    }

    /// A question to its API server, for an error.
    pub(super) fn asked(
        &self,
        verb: &'static str,
        resource: &'static ApiResource,
        in_namespace: bool,
    ) -> ApiRequest<'_> {
        ApiRequest {
            cluster: &self.name,
            address: &self.address,
            verb,
            resource,
            in_namespace,
        }
    }
}
