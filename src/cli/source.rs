//! Opens the source of a question: a snapshot of a server, files, or a cluster.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::slice;
use std::sync::{Arc, OnceLock};

use anyhow::Result;
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Command};

use super::args::{RulesFlags, ServedSnapshot};
use super::backend::Client;
use super::cluster::{self, ClusterArgs};
use super::command_line::is_plugin;
use super::endpoint::Endpoint;
use super::input::{self, Input};
use super::render::Source;
use super::{output, stored};
use crate::api::MAX_MESSAGE_BYTES;
use crate::kubernetes::{self, ApiResource, ClusterClient, ListedFor, NeededObjects, OnRefusal};
use crate::manifest::{Admission, LoadedObjects, ObjectName, WorkloadFinder, WorkloadPod};
use crate::matching::revisions::is_revision_label;
use crate::matching::{names, selector_text};
use crate::proto::v1::change::Object;
use crate::proto::v1::{LabelSelector, Pod};
use crate::server::config::RuleSettings;
use crate::snapshot::Limits;

/// The source of a question's objects: a snapshot of a server, files, or a cluster.
#[derive(Debug, Clone, Args)]
pub(crate) struct SnapshotSource {
    #[command(flatten)]
    target: ServedSnapshot,

    /// Decide in this process on these objects, without a server
    ///
    /// A file of kubectl's JSON or YAML, a directory of such files, or - for
    /// standard input. Can be repeated.
    #[arg(long, value_name = "FILE")]
    pub(super) load: Vec<PathBuf>,

    #[command(flatten)]
    pub(super) cluster: ClusterArgs,

    /// The names of the cluster and of its context's namespace, once they are known.
    #[arg(skip)]
    context_names: OnceLock<(String, String)>,

    /// What the question needs of a cluster.
    #[arg(skip)]
    needs: RefCell<Needs>,

    /// True if the source is no cluster unless a flag says so, even for the plugin of kubectl.
    #[arg(skip)]
    pub(super) asks_no_cluster_itself: bool,

    /// True if pods of other namespaces were not listed.
    #[arg(skip)]
    is_narrowed: OnceLock<()>,

    #[command(flatten)]
    rules: RulesFlags,

    #[command(flatten)]
    own_rules: RuleSettings,
}

/// What a question needs of the objects of a cluster, so that no others are listed.
#[derive(Debug, Clone, Default)]
struct Needs {
    /// The scope, for a command that can name a namespace.
    scope: Option<QuestionScope>,
    /// The use of the objects, if they are not needed whole.
    listed_for: ListedFor,
    /// True if the pods of the question have no claims.
    without_claims: bool,
    /// Labels of all pods that the spread constraints of the question count, in kubectl's notation.
    counted: String,
}

/// The scope of a question. If the account may not list all namespaces, listing the namespace of
/// the scope is enough.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum QuestionScope {
    /// All namespaces.
    All,
    /// The namespace of the context.
    Own,
    /// This namespace.
    Namespace(String),
}

impl QuestionScope {
    /// A namespace if it is given, else `other`.
    pub(crate) fn of(namespace: Option<&str>, other: Self) -> Self {
        namespace.map_or(other, |namespace| Self::Namespace(namespace.to_owned()))
    }
}

/// The labels of `pods` that all their spread constraints select by, and so those of all pods that
/// the constraints count. Pods of other revisions are counted when it is said why a pod is not.
fn counted_labels(pods: &[WorkloadPod]) -> String {
    let selected = pods.iter().flat_map(|WorkloadPod { pod, .. }| {
        let labels = pod.metadata.as_ref().map(|it| &it.labels);
        let spec = pod.spec.iter();
        let constraints = spec.flat_map(|it| &it.topology_spread_constraints);
        let selected = constraints.map(move |it| {
            let selector = it.label_selector.iter().flat_map(|it| &it.match_labels);
            let own = selector.filter(|(key, value)| {
                labels.is_some_and(|labels| labels.get(*key) == Some(*value))
                    && !it.match_label_keys.contains(key)
                    && !is_revision_label(key)
            });
            own.map(|(key, value)| (key.clone(), value.clone()))
                .collect()
        });
        let default = stored::has_no_constraints(pod).then(BTreeMap::new);
        // Default constraints select by other objects.
        selected.chain(default)
    });
    let common = selected.reduce(|mut common, one| {
        common.retain(|key, value| one.get(key) == Some(value));
        common
    });
    match common {
        Some(match_labels) if !match_labels.is_empty() => selector_text(&LabelSelector {
            match_labels,
            ..LabelSelector::default()
        }),
        _ => String::new(),
    }
}

/// A snapshot that questions can be asked about.
pub(crate) struct Opened {
    /// The client that answers questions.
    pub(crate) client: Client,
    /// The objects, if this process has read them.
    pub(crate) objects: Option<Arc<LoadedObjects>>,
    /// The warning that the files lack objects that default constraints read.
    lack_of_owners: Option<String>,
}

impl Opened {
    /// Warns of missing objects that default constraints read, if they apply to one of the `pods`
    /// that the question is about: to a pod without constraints of its own.
    pub(super) fn warn_of_lack<'p>(&self, mut pods: impl Iterator<Item = &'p Pod>) {
        let lack = self.lack_of_owners.as_ref();
        if let Some(lack) = lack.filter(|_| pods.any(stored::has_no_constraints)) {
            output::warn(lack);
        }
    }

    /// The same for a question about all pods of the files.
    fn warned(self) -> Self {
        let objects = self.objects.as_ref();
        self.warn_of_lack(
            objects
                .into_iter()
                .flat_map(|it| stored::pods_of(&it.changes)),
        );
        self
    }

    /// Passes all objects of `snapshot` to `take`. If this process has read them they have all
    /// fields, from a server only those that it keeps.
    pub(crate) async fn for_each(&self, snapshot: &str, take: impl FnMut(&Object)) -> Result<()> {
        match &self.objects {
            Some(read) => {
                let objects = read.changes.iter().filter_map(|it| it.object.as_ref());
                objects.for_each(take);
                Ok(())
            }
            None => stored::objects(&self.client, snapshot, take).await,
        }
    }
}

impl SnapshotSource {
    /// Opens the source, and returns the client with the objects that were read for it.
    pub(crate) async fn open(&self) -> Result<Opened> {
        Ok(self.open_for_pods().await?.warned())
    }

    /// Opens the source of a question about pods that the caller has, of which it warns itself.
    pub(super) async fn open_for_pods(&self) -> Result<Opened> {
        self.open_and_find(None).await
    }

    /// Opens the source. Returns also what files have of the workload called `name`, if one is
    /// named: its selector finds pods that name no controller.
    pub(crate) async fn open_about(
        &self,
        name: Option<ObjectName>,
    ) -> Result<(Opened, WorkloadFinder)> {
        let mut finder = name.map(WorkloadFinder::in_cluster);
        let opened = self.open_and_find(finder.as_mut()).await?.warned();
        Ok((opened, finder.unwrap_or_default()))
    }

    /// Opens the source, and finds the pod of the object called `name`; the caller warns of it. If the name has no
    /// namespace, `namespace` applies, else that of the cluster's context, else `default`.
    pub(crate) async fn open_named(
        &self,
        name: &ObjectName,
        namespace: Option<&str>,
    ) -> Result<(Opened, WorkloadPod)> {
        let in_namespace = |own: &str| name.clone().or_in(namespace.unwrap_or(own));
        if self.asks_cluster() {
            let cluster = self.connect().await?;
            let name = in_namespace(&cluster.namespace);
            self.is_about(QuestionScope::of(
                name.namespace.as_deref(),
                QuestionScope::Own,
            ));
            // The object is looked up first, so that a misspelt name is reported before thousands
            // of pods are listed.
            let pod = cluster::find(&cluster, &name).await?;
            self.is_about_pods(slice::from_ref(&pod));
            return Ok((self.open_cluster(&cluster).await?, pod));
        }
        let name = in_namespace(names::DEFAULT_NAMESPACE);
        if !self.is_local() {
            let opened = self.open_for_pods().await?;
            let pod = stored::workload(&opened.client, self.snapshot(), &name).await?;
            return Ok((opened, pod));
        }
        let mut finder = WorkloadFinder::in_cluster(name);
        let opened = self.open_and_find(Some(&mut finder)).await?;
        let pod = finder.finish(&self.asked())?;
        Ok((opened, pod))
    }

    /// Returns the objects that admission reads when a pod is created in `namespace`. A server does
    /// not have these.
    pub(crate) async fn admission(&self, opened: &Opened, namespace: &str) -> Result<Admission> {
        if self.asks_cluster() {
            return Ok(cluster::admission(&self.connect().await?, namespace).await);
        }
        let objects = opened.objects.as_ref();
        Ok(objects.map_or_else(Admission::default, |objects| objects.admission.clone()))
    }

    async fn open_and_find(&self, finder: Option<&mut WorkloadFinder>) -> Result<Opened> {
        if self.asks_cluster() {
            return self.open_cluster(&self.connect().await?).await;
        }
        if self.load.is_empty() {
            anyhow::ensure!(
                !self.rules.are_set(),
                "--default-constraints and --kubernetes-version need --load here, or a cluster; for a \
                 server's snapshot give them to `evenkeel load`"
            );
            let client = self.target.server.client().await?;
            return Ok(Opened {
                client,
                objects: None,
                lack_of_owners: None,
            });
        }
        let input = Input::read(&self.load, &self.rules, finder)?;
        self.decide_on(input).await
    }

    /// Connects to the cluster.
    pub(super) async fn connect(&self) -> Result<ClusterClient> {
        let cluster = self.cluster.target().connect(OnRefusal::Retry).await?;
        // The names may be set already, by an earlier connection to the same cluster.
        let names = (cluster.name.clone(), cluster.namespace.clone());
        let _ = self.context_names.set(names);
        Ok(cluster)
    }

    /// Lists the cluster, and loads it into this process.
    pub(super) async fn open_cluster(&self, cluster: &ClusterClient) -> Result<Opened> {
        let needs = self.needs.borrow().clone();
        let enough = match &needs.scope {
            None | Some(QuestionScope::All) => None,
            Some(QuestionScope::Own) => Some(&*cluster.namespace),
            Some(QuestionScope::Namespace(namespace)) => Some(&**namespace),
        };
        let needed = NeededObjects {
            namespace: enough,
            used_for: needs.listed_for,
            without_claims: needs.without_claims,
            counted: &needs.counted,
        };
        let mut settings = LoadedObjects::default();
        settings.kubernetes_version = cluster.kubernetes_version().await;
        let settings = Input::of_cluster(settings, &self.rules)?.or_system_defaults();
        let mut attempt = 1;
        loop {
            let listed = self.load_cluster(cluster, needed, &settings).await;
            let error = match listed {
                Ok(opened) => return Ok(opened),
                Err(error) => error,
            };
            match error.downcast_ref() {
                // What was loaded may be gone.
                Some(error)
                    if kubernetes::Error::is_expired(error) && attempt < kubernetes::ATTEMPTS =>
                {
                    attempt += 1;
                }
                Some(error) if error.is_forbidden() && needs.scope == Some(QuestionScope::All) => {
                    anyhow::bail!("{error}; or ask about one namespace, with -n");
                }
                _ => return Err(error),
            }
        }
    }

    /// Loads each part of a list at once, so that the parts take no memory together. They are kept
    /// only for a command that reads them again.
    async fn load_cluster(
        &self,
        cluster: &ClusterClient,
        needed: NeededObjects<'_>,
        settings: &Input,
    ) -> Result<Opened> {
        let (client, limits) = (self.in_process(), self.local_limits());
        let is_read_again = needed.used_for == ListedFor::Anything;
        let (mut kept, mut left_out) = (LoadedObjects::default(), Vec::new());
        let take = async |part: LoadedObjects| {
            let mut input = settings.part(part);
            let sent = input::send(&client, &mut input, self.snapshot(), false, &limits).await?;
            left_out.extend(sent.left_out);
            if is_read_again {
                kept.append(Arc::unwrap_or_clone(input.objects));
            }
            Ok(())
        };
        let narrowed = cluster::load(cluster, needed, take).await?;
        self.tell_narrowed(&narrowed, needed.namespace.unwrap_or_default());
        let warning = input::left_out_warning(&left_out);
        warning.iter().for_each(|it| output::warn(it));
        Ok(Opened {
            client,
            objects: is_read_again.then(|| Arc::new(kept)),
            lack_of_owners: None,
        })
    }

    /// Sets the scope of the question.
    pub(crate) fn is_about(&self, scope: QuestionScope) {
        self.needs.borrow_mut().scope.get_or_insert(scope);
    }

    /// Says what pods the question is about, so that no more is listed than these need.
    pub(crate) fn is_about_pods(&self, pods: &[WorkloadPod]) {
        let has_claims = |it: &WorkloadPod| {
            let spec = it.pod.spec.as_ref();
            let mut volumes = spec.into_iter().flat_map(|spec| &spec.volumes);
            it.has_own_claims()
                || volumes.any(|volume| {
                    let source = volume.source();
                    source.persistent_volume_claim.is_some() || source.ephemeral.is_some()
                })
        };
        let mut needs = self.needs.borrow_mut();
        needs.without_claims = !pods.iter().any(has_claims);
        needs.counted = counted_labels(pods);
    }

    /// Says what the objects of a cluster are used for, so that no others are listed.
    pub(crate) fn is_listed_for(&self, used: ListedFor) {
        self.needs.borrow_mut().listed_for = used;
    }

    /// Returns whether only the pods of the question's namespace are known.
    pub(crate) fn is_narrowed(&self) -> bool {
        self.is_narrowed.get().is_some()
    }

    fn tell_narrowed(&self, narrowed: &[&'static ApiResource], namespace: &str) {
        let kinds: Vec<&str> = narrowed.iter().map(|resource| resource.plural).collect();
        if kinds.is_empty() {
            return;
        }
        let mut text = format!(
            "this account may not list {} in all namespaces: those of namespace {namespace} alone \
             are known",
            kinds.join(", ")
        );
        if kinds.contains(&"pods") {
            let _ = self.is_narrowed.set(());
            text.push_str(
                ". What other pods take on the nodes is not: a node may have less room and fewer \
                 free ports than is said",
            );
        }
        output::warn(&text);
    }

    async fn decide_on(&self, input: Input) -> Result<Opened> {
        let mut input = input.or_system_defaults();
        for warning in input.oddities(true) {
            output::warn(&warning);
        }
        let lack_of_owners = input.lack_of_owners();
        let client = self.in_process();
        let limits = self.local_limits();
        let sent = input::send(&client, &mut input, self.snapshot(), true, &limits).await?;
        let warning = input::left_out_warning(&sent.left_out);
        warning.iter().for_each(|it| output::warn(it));
        Ok(Opened {
            client,
            objects: Some(input.objects),
            lack_of_owners,
        })
    }

    fn in_process(&self) -> Client {
        Client::in_process(self.target.server.timeout, self.local_limits())
    }

    /// Returns whether this process decides, on files or a cluster.
    pub(crate) fn is_local(&self) -> bool {
        !self.load.is_empty() || self.asks_cluster()
    }

    /// Returns whether the source is a cluster: that of a flag or, for the plugin of kubectl, the current
    /// one where no flag names a source. With files it is not.
    pub(super) fn asks_cluster(&self) -> bool {
        let of_plugin = || {
            !self.asks_no_cluster_itself
                && !self.target.server.endpoint.is_named()
                && is_plugin(&std::env::args_os().collect::<Vec<_>>())
        };
        self.load.is_empty() && (self.cluster.is_asked() || of_plugin())
    }

    /// The limits and rules for decisions in this process.
    pub(crate) fn local_limits(&self) -> Limits {
        self.own_rules.with(Limits {
            max_message_bytes: MAX_MESSAGE_BYTES,
            // A list has an entry for each pod of a namespace.
            max_list_entries: usize::MAX,
            ..Limits::default()
        })
    }

    /// Name of the snapshot.
    pub(crate) fn snapshot(&self) -> &str {
        &self.target.name.snapshot
    }

    /// The source of an answer, in words.
    pub(crate) fn source(&self) -> Source {
        Source {
            title: self.title(),
            snapshot: self.snapshot().to_owned(),
            asked: self.asked(),
        }
    }

    /// The namespace of the context of the cluster, if the cluster was opened. It applies to names
    /// without a namespace.
    pub(crate) fn own_namespace(&self) -> Option<&String> {
        self.context_names.get().map(|(_, namespace)| namespace)
    }

    /// The names of the files with the objects.
    pub(crate) fn files(&self) -> String {
        let files = self.load.iter().map(|path| path.display().to_string());
        files.collect::<Vec<_>>().join(", ")
    }

    /// A name for the source of answers, e.g. `files cluster.json`.
    fn asked(&self) -> String {
        match (self.asks_cluster(), self.load.is_empty()) {
            (true, _) => self.cluster_title(),
            (false, false) => format!("files {}", self.files()),
            (false, true) => {
                let address = self.target.server.endpoint.address();
                format!("server {}", address.unwrap_or_default())
            }
        }
    }

    /// Returns the subject of an answer, for a person: `snapshot "default"`.
    pub(crate) fn title(&self) -> String {
        match self.asks_cluster() {
            true => self.cluster_title(),
            false => format!("snapshot {:?}", self.snapshot()),
        }
    }

    fn cluster_title(&self) -> String {
        let names = self.context_names.get();
        format!("cluster {}", names.map_or("", |(name, _)| name))
    }

    /// Returns whether standard input is one of the files.
    pub(crate) fn reads_standard_input(&self) -> bool {
        self.load.iter().any(|path| path.as_os_str() == "-")
    }
}

/// Refuses flags that contradict each other: flags of a cluster beside `--load`, and flags of a
/// server beside either. A user who gives both may expect
/// the wrong one to count. Only the command line is checked, because the environment is for all
/// commands.
pub(super) fn check_source(command: &mut Command, matches: &ArgMatches) -> Result<(), clap::Error> {
    let mut inner = matches;
    while let Some((_, matches)) = inner.subcommand() {
        inner = matches;
    }
    let given = |id: &str| {
        inner.ids().any(|it| it == id) && inner.value_source(id) == Some(ValueSource::CommandLine)
    };
    // `serve` loads files and asks no server. `feed` sends a cluster to a server.
    let feeds = matches.subcommand_name() == Some("feed");
    if feeds || !inner.ids().any(|id| id == Endpoint::ADDRESS) {
        return Ok(());
    }
    let of_server = Endpoint::augment_args(Command::new(""));
    let of_cluster = ClusterArgs::augment_args(Command::new(""));
    let first = |flags: &Command| {
        let mut flags = flags.get_arguments();
        let given = flags.find(|arg| given(arg.get_id().as_str()))?;
        given.get_long().map(str::to_owned)
    };
    let load = given("load").then(|| "load".to_owned());
    let (server, cluster) = (first(&of_server), first(&of_cluster));
    let message = match (server, cluster, load) {
        (Some(flag), _, Some(_)) => {
            format!("--{flag} with --load: on files it is decided here, and no server is asked")
        }
        (_, Some(flag), Some(_)) => {
            format!("--{flag} with --load: it is decided on files or on a cluster, not on both")
        }
        (Some(flag), Some(of), None) => {
            format!("--{flag} with --{of}: on a cluster it is decided here, and no server is asked")
        }
        _ => return Ok(()),
    };
    Err(command.error(ErrorKind::ArgumentConflict, message))
}
