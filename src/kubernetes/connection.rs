//! Which cluster, and a client of its API server.

use std::env;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use futures::future::BoxFuture;
use kube::Client;
use kube::client::ClientBuilder;
use kube::config::{Config, KubeConfigOptions, Kubeconfig, KubeconfigError};

use super::error::{ApiRequest, Error};
use super::protobuf::PreferProtobuf;
use super::pulse::Pulses;
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
enum Reads {
    /// All of their text.
    WholeObjects,
    /// What decisions read.
    Decisions,
}

/// A cluster, with a client of its API server.
#[derive(Clone)]
pub(crate) struct ClusterClient {
    client: Client,
    pulses: Pulses,
    name: String,
    address: String,
    namespace: String,
}

impl Target {
    /// Reads the kubeconfig and the credentials. Nothing is asked of the API server
    /// yet.
    ///
    /// # Errors
    /// What is wrong with the kubeconfig, or that there is none.
    pub(crate) async fn connect(self) -> Result<ClusterClient, Error> {
        self.connect_for(Reads::WholeObjects).await
    }

    /// As [`Self::connect`], to list and watch what decisions read.
    ///
    /// # Errors
    /// Those of [`Self::connect`].
    pub(super) async fn connect_to_watch(self) -> Result<ClusterClient, Error> {
        self.connect_for(Reads::Decisions).await
    }

    async fn connect_for(self, reads: Reads) -> Result<ClusterClient, Error> {
        let file = self.file();
        let kubeconfig = match self.read() {
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
        let config = read_config(kubeconfig, options).await;
        let config = config.map_err(|error| unusable(file, &error))?;
        ClusterClient::of(context, config, reads)
    }

    /// The context that is meant.
    fn context_in(&self, kubeconfig: &Kubeconfig, file: &str) -> Result<String, Error> {
        let file = file.to_owned();
        let asked = self.context.clone();
        let current = || kubeconfig.current_context.clone();
        let known = || {
            let names = kubeconfig.contexts.iter().map(|context| &*context.name);
            match names.collect::<Vec<_>>().join(", ") {
                none if none.is_empty() => "none".to_owned(),
                names => names,
            }
        };
        let chosen = asked.or_else(current).filter(|name| !name.is_empty());
        let Some(context) = chosen else {
            return Err(Error::NoContext {
                known: known(),
                file,
            });
        };
        if !kubeconfig.contexts.iter().any(|it| it.name == context) {
            return Err(Error::UnknownContext {
                known: known(),
                file,
                context,
            });
        }
        Ok(context)
    }

    fn read(&self) -> Result<Kubeconfig, KubeconfigError> {
        match &self.kubeconfig {
            Some(path) => Kubeconfig::read_from(path),
            None => Kubeconfig::read(),
        }
    }

    /// Which file is read, for a message.
    fn file(&self) -> String {
        let named = self.kubeconfig.as_ref();
        let named = named.map(|path| path.display().to_string());
        let by_variable = || {
            let value = env::var("KUBECONFIG").ok();
            value.filter(|value| !value.is_empty())
        };
        let default = || "~/.kube/config".to_owned();
        named.or_else(by_variable).unwrap_or_else(default)
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

/// Boxed where its types are known: of `kube`'s own future the compiler cannot tell
/// later that it may change threads.
fn read_config(
    kubeconfig: Kubeconfig,
    options: KubeConfigOptions,
) -> BoxFuture<'static, Result<Config, KubeconfigError>> {
    Box::pin(async move { Config::from_custom_kubeconfig(kubeconfig, &options).await })
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
        let client = client.with_layer(&pulses);
        Ok(Self {
            client: match reads {
                Reads::WholeObjects => client.build(),
                Reads::Decisions => client.with_layer(&PreferProtobuf).build(),
            },
            pulses,
            name,
            address: address.trim_end_matches('/').to_owned(),
            namespace,
        })
    }

    /// The context that it comes from; `in-cluster` for the one around this pod.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The namespace of the context; `default` when it has none.
    pub(crate) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The client of its API server.
    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    /// When its watches were last heard.
    pub(super) fn pulses(&self) -> &Pulses {
        &self.pulses
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
