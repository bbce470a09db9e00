//! Selects a cluster, and reads the address and the credentials for a client of its API server. Faults of
//! the credentials are found before a request is sent.

use std::iter::successors;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use std::{env, fs, io};

use futures::future::BoxFuture;
use kube::Client;
use kube::client::{AuthError, ClientBuilder};
use kube::config::{AuthInfo, Config, KubeConfigOptions, Kubeconfig, KubeconfigError};
use tokio::time::sleep;
use tracing::warn;

use super::error::{ApiRequest, Error};
use crate::manifest::ApiResource;
use evenkeel_log::visible::causes;

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

/// The longest time to establish a connection, and to send a request.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest silence of an API server within an answer. It is longer than a watch lasts.
const READ_TIMEOUT: Duration = Duration::from_secs(60);

/// The name of the cluster in which this pod runs, which has no context.
const IN_CLUSTER: &str = "in-cluster";
/// The directory of a pod's service account.
const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// The options that select a cluster.
#[derive(Debug, Clone, Default)]
pub struct Target {
    /// The kubeconfig; else the files of KUBECONFIG, else ~/.kube/config, else
    /// the service account of this pod.
    pub kubeconfig: Option<PathBuf>,
    /// The context in the kubeconfig; else its current context.
    pub context: Option<String>,
}

/// Files, each with the time of its last change before it was read; `None` if there was no file.
#[derive(Debug, Clone, Default)]
pub(super) struct ReadFiles(Vec<(PathBuf, Option<SystemTime>)>);

impl ReadFiles {
    fn add(&mut self, path: impl Into<PathBuf>) {
        let path = path.into();
        let changed = changed(&path);
        self.0.push((path, changed));
    }

    /// Returns whether one of the files has changed.
    pub(super) fn have_changed(&self) -> bool {
        let mut files = self.0.iter();
        files.any(|(path, before)| changed(path) != *before)
    }
}

/// The time of the last change of a file.
fn changed(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).ok()?.modified().ok()
}

impl Target {
    /// Reads the kubeconfig, the files that it names and the credentials, and makes a client. No
    /// request is sent to the API server yet.
    ///
    /// # Errors
    /// The fault of the kubeconfig or the credentials, or that no cluster is known.
    pub async fn connect(self, on_refusal: OnRefusal) -> Result<ClusterClient, Error> {
        let file = self.file();
        let mut files = ReadFiles::default();
        self.paths().into_iter().for_each(|path| files.add(path));
        let kubeconfig = match self.kubeconfig() {
            Ok(kubeconfig) => kubeconfig,
            Err(error) if self.kubeconfig.is_none() && is_missing(&error) => {
                return self.in_cluster(file, on_refusal);
            }
            Err(error) => return Err(unusable(file, &error)),
        };
        let context = self.context_in(&kubeconfig, &file)?;
        for path in named_files(&kubeconfig, &context) {
            files.add(path);
        }
        let options = KubeConfigOptions {
            context: Some(context.clone()),
            ..Default::default()
        };
        // The future is boxed here, because in the caller the compiler cannot prove that `kube`'s
        // future is `Send`.
        let config: BoxFuture<'static, _> =
            Box::pin(async move { Config::from_custom_kubeconfig(kubeconfig, &options).await });
        let config = config.await.map_err(|error| unusable(file, &error))?;
        let target = Self {
            context: Some(context.clone()),
            ..self
        };
        target.client(context, config, files, on_refusal)
    }

    /// A client of this cluster. This runs the command that returns credentials, if there is one.
    fn client(
        self,
        name: String,
        mut config: Config,
        files: ReadFiles,
        on_refusal: OnRefusal,
    ) -> Result<ClusterClient, Error> {
        config.connect_timeout = Some(CONNECT_TIMEOUT);
        config.write_timeout = Some(CONNECT_TIMEOUT);
        config.read_timeout = Some(READ_TIMEOUT);
        config.reset_reader_on_write = true;
        config.default_retry &= on_refusal == OnRefusal::Retry;
        let credentials = Credentials::of(&config.auth_info);
        let (address, namespace) = (
            config.cluster_url.to_string(),
            config.default_namespace.clone(),
        );
        let client = ClientBuilder::try_from(config).map_err(|error| {
            let fault = credentials.fault(&error);
            let fault = fault.unwrap_or_else(|| causes(&error));
            Error::Unusable(format!("cannot connect to {name}: {fault}"))
        })?;
        Ok(ClusterClient {
            client: client.build(),
            name,
            target: self,
            address: address.trim_end_matches('/').to_owned(),
            credentials,
            files,
            namespace,
        })
    }

    /// The names of the contexts; empty if no kubeconfig can be read.
    pub fn contexts(&self) -> Vec<String> {
        let contexts = self.kubeconfig().unwrap_or_default().contexts.into_iter();
        contexts.map(|context| context.name).collect()
    }

    fn kubeconfig(&self) -> Result<Kubeconfig, KubeconfigError> {
        match &self.kubeconfig {
            Some(path) => Kubeconfig::read_from(path),
            None => Kubeconfig::read(),
        }
    }

    /// The selected context.
    fn context_in(&self, kubeconfig: &Kubeconfig, file: &str) -> Result<String, Error> {
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
            Some(context) if names.contains(&&*context) => Ok(context),
            Some(context) => Err(Error::Unusable(format!(
                "kubeconfig {file}: no context {context:?}; there is {known}"
            ))),
            None => Err(Error::Unusable(format!(
                "kubeconfig {file}: no current context; choose with --context: {known}"
            ))),
        }
    }

    /// The kubeconfig that is read, for a message.
    fn file(&self) -> String {
        if let Some(path) = &self.kubeconfig {
            return path.display().to_string();
        }
        let by_variable = env::var("KUBECONFIG").ok().filter(|it| !it.is_empty());
        by_variable.unwrap_or_else(|| "~/.kube/config".to_owned())
    }

    /// The kubeconfigs that are read.
    fn paths(&self) -> Vec<PathBuf> {
        if let Some(path) = &self.kubeconfig {
            return vec![path.clone()];
        }
        let by_variable = env::var_os("KUBECONFIG").unwrap_or_default();
        let paths = env::split_paths(&by_variable);
        let paths: Vec<PathBuf> = paths.filter(|path| !path.as_os_str().is_empty()).collect();
        match paths.is_empty() {
            true => {
                let home = env::home_dir().into_iter();
                home.map(|home| home.join(".kube/config")).collect()
            }
            false => paths,
        }
    }

    /// The cluster in which this process runs as a pod.
    fn in_cluster(self, looked: String, on_refusal: OnRefusal) -> Result<ClusterClient, Error> {
        if env::var_os("KUBERNETES_SERVICE_HOST").is_none() {
            return Err(Error::Unusable(format!(
                "no Kubernetes cluster is known: there is no kubeconfig at {looked}, and this is \
                 no pod with a service account; name a file with --kubeconfig or KUBECONFIG"
            )));
        }
        if let Some(context) = &self.context {
            return Err(Error::Unusable(format!(
                "kubeconfig {looked}: no context {context:?}; there is no such file"
            )));
        }
        let mut files = ReadFiles::default();
        files.add(Path::new(SERVICE_ACCOUNT).join("ca.crt"));
        let config = Config::incluster().map_err(|error| {
            let fault = causes(&error);
            Error::Unusable(format!(
                "service account of this pod: {fault} in {SERVICE_ACCOUNT}"
            ))
        })?;
        self.client(IN_CLUSTER.to_owned(), config, files, on_refusal)
    }
}

/// The files that the cluster and the user of a context name, but for token files, which the client
/// reads again.
fn named_files(kubeconfig: &Kubeconfig, context: &str) -> Vec<String> {
    let contexts = &kubeconfig.contexts;
    let context = contexts.iter().find(|it| it.name == context);
    let Some(context) = context.and_then(|it| it.context.as_ref()) else {
        return Vec::new();
    };
    let mut clusters = kubeconfig.clusters.iter();
    let cluster = clusters.find(|it| it.name == context.cluster);
    let cluster = cluster.and_then(|it| it.cluster.as_ref());
    let mut users = kubeconfig.auth_infos.iter();
    let user = users.find(|it| Some(&it.name) == context.user.as_ref());
    let user = user.and_then(|it| it.auth_info.as_ref());
    let of_cluster = cluster.and_then(|it| it.certificate_authority.clone());
    let of_user = user.into_iter().flat_map(|user| {
        let files = [&user.client_certificate, &user.client_key];
        files.map(Clone::clone).into_iter().flatten()
    });
    of_cluster.into_iter().chain(of_user).collect()
}

fn unusable(file: String, error: &KubeconfigError) -> Error {
    let file = match error {
        // KUBECONFIG may name several files; this is the path of the faulty one.
        KubeconfigError::ReadConfig(_, path) => path.display().to_string(),
        _ => file,
    };
    Error::Unusable(format!("kubeconfig {file}: {}", causes(error)))
}

/// Returns whether there is no kubeconfig at all.
fn is_missing(error: &KubeconfigError) -> bool {
    match error {
        KubeconfigError::FindPath => true,
        KubeconfigError::ReadConfig(error, _) => error.kind() == io::ErrorKind::NotFound,
        _ => false,
    }
}

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
