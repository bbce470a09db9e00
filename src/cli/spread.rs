//! `evenkeel spread` shows the present spread of workloads, and `evenkeel report` reports on that of a
//! whole cluster.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;

use anyhow::Result;
use clap::Args;
use serde::Serialize;

use super::about::{AboutWorkloads, OpenedWorkloads, PodScope};
use super::args::{self, AnswerFlags};
use super::backend::{Client, all_pages};
use super::exit::Exit;
use super::output::Format;
use super::pending::{WaitingPods, count_stuck};
use super::render::{self, PodNotJudged};
use super::{completions, source};
use crate::explain::joined;
use crate::matching::names::HOSTNAME;
use crate::matching::{Requested, Requests, RequestsByVersion, Resource};
use crate::proto::v1::change::Object;
use crate::proto::v1::describe_spread_request::Subject;
use crate::proto::v1::{
    self, DescribeSpreadRequest, DescribeSpreadResponse, FilterRequest, FilterResponse,
    WorkloadSpread,
};

/// The number of workloads in a page of the answer.
pub(super) const PAGE_SIZE: i32 = 1_000;

/// The number of domains of a topology that a table lists by default.
const TABLE_DOMAINS: i32 = 20;

/// Flags of `evenkeel spread`.
#[derive(Debug, Args)]
#[command(after_help = "\
Without a workload and --selector, it lists the workloads that violate their own constraints, worst
first, and counts those that no constraint holds even. With --by, it lists all workloads by their
skew over that key.

Examples:
  evenkeel spread                                     workloads that violate constraints
  evenkeel spread -n shop --load cluster.json         in one namespace, no server needed
  evenkeel spread -n shop deploy/web                  a bar per domain
  evenkeel spread --selector app=web --by kubernetes.io/hostname")]
pub(crate) struct SpreadCommand {
    #[command(flatten)]
    about: AboutWorkloads,
    /// Label key of nodes whose values are the domains
    ///
    /// By default the keys of the constraints in force, or
    /// topology.kubernetes.io/zone if there are none.
    #[arg(long, value_name = "KEY")]
    by: Option<String>,

    /// List all domains, however many; otherwise the 20 with the most pods
    #[arg(long)]
    all: bool,

    #[command(flatten)]
    answer: AnswerFlags,
}

impl SpreadCommand {
    /// Asks for the spread and prints it.
    pub(crate) async fn run(self) -> Result<Exit> {
        let asked = self.about.open(&self.answer.state).await?;
        let request = self.request(&asked);
        let answer = ask_all(&asked.opened.client, request).await;
        let answer = asked.or_nearest(answer).await?;
        if answer.workloads.iter().all(|it| it.pod_count == 0) {
            asked.ensure_matched().await?;
        }
        self.print(&answer)?;
        Ok(Exit::of(answer.violating_count == 0))
    }

    /// Prints an answer in the chosen format.
    fn print(&self, answer: &DescribeSpreadResponse) -> Result<()> {
        let about = &self.about;
        let all = about.object.is_none() && about.selector.is_none();
        let source = self.answer.state.source();
        let about = render::SpreadOf {
            all,
            source: &source,
            by: self.by.as_deref(),
            selector: self.about.selector.as_ref(),
            bars: self.answer.output.output == Format::Html || !all,
            loaded: self.answer.state.is_local(),
        };
        let names = || answer.workloads.iter().map(render::full_name).collect();
        self.answer
            .output
            .print(answer, || render::spread(&about, answer), names)
    }

    fn request(&self, asked: &OpenedWorkloads<'_>) -> DescribeSpreadRequest {
        let workload = asked.workload.clone().map(Subject::Workload);
        let selector = self.about.selector.clone().map(Subject::Selector);
        DescribeSpreadRequest {
            snapshot: self.answer.state.snapshot().to_owned(),
            namespace: asked.namespace.clone(),
            subject: workload.or(selector),
            topology_key: self.by.clone().unwrap_or_default(),
            min_revision: self.answer.at_least.min_revision,
            max_domains: Some(if self.all { 0 } else { TABLE_DOMAINS }),
            page_size: PAGE_SIZE,
            ..Default::default()
        }
    }
}

/// Asks for all pages. Returns the answer with the workloads of all pages.
pub(crate) async fn ask_all(
    client: &Client,
    mut request: DescribeSpreadRequest,
) -> Result<DescribeSpreadResponse> {
    let mut last = DescribeSpreadResponse::default();
    let workloads = all_pages(async |page_token| {
        request.page_token = page_token;
        last = client.call(request.clone()).await?;
        Ok((
            std::mem::take(&mut last.workloads),
            std::mem::take(&mut last.next_page_token),
        ))
    });
    let workloads = workloads.await?;
    Ok(DescribeSpreadResponse { workloads, ..last })
}

/// The number of domains that are listed for each workload, the fullest first.
const MAX_DOMAINS: i32 = 12;

/// Flags of `evenkeel report`.
#[derive(Debug, Args)]
#[command(after_help = "\
It says which pods fit nowhere, which constraints there are and which are violated, which workloads have all their pods in
one place, and which are uneven.

Examples:
  evenkeel report --load cluster.json
  evenkeel report -o html > report.html
  evenkeel report --by kubernetes.io/hostname -n shop")]
pub(crate) struct ReportCommand {
    /// Namespace; by default all
    #[arg(short, long, value_name = "NAMESPACE", add = completions::namespaces())]
    namespace: Option<String>,

    /// All namespaces, which is the default
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    all_namespaces: bool,

    /// Label key of nodes whose values are the domains
    ///
    /// By default the first of zone, region and hostname, then of other label
    /// keys, that has several values.
    #[arg(long, value_name = "KEY")]
    by: Option<String>,

    #[command(flatten)]
    state: source::SnapshotSource,

    #[command(flatten)]
    output: args::OutputFlag,
}

impl ReportCommand {
    /// Gathers the report and prints it.
    pub(crate) async fn run(self) -> Result<Exit> {
        let namespace = self.namespace.as_deref();
        let scope = source::QuestionScope::of(namespace, source::QuestionScope::All);
        self.state.is_about(scope);
        let opened = self.state.open().await?;
        let (client, snapshot) = (&opened.client, self.state.snapshot());
        let scope = PodScope {
            namespace,
            selector: None,
        };
        scope.ensure_matched(client, snapshot).await?;
        let mut report = self.gather(client).await?;
        let mut room = RoomTally::default();
        let look = |object: &_| room.add(object, &report.by);
        let mut waiting = WaitingPods::find(&opened, snapshot, scope, look).await?;
        let ask = async |request| {
            let snapshot = snapshot.to_owned();
            client
                .call(FilterRequest {
                    snapshot,
                    ..request
                })
                .await
        };
        waiting.judge(ask).await?;
        report.stuck = stuck(&waiting);
        report.not_judged = waiting.not_judged;
        let mut shares = room.shares();
        for load in &mut report.load {
            load.shares = shares.remove(&*load.domain).unwrap_or_default();
        }
        let page = || render::report(&self.state.source(), &report);
        let violating = report.constraints.workloads.iter();
        let names = || violating.map(render::full_name).collect();
        self.output.print(&report, page, names)?;
        Ok(Exit::of(report.constraints.violating_count == 0))
    }

    /// Judges a cluster by its constraints, and by the spread of its workloads over a label key and over
    /// nodes.
    async fn gather(&self, client: &Client) -> Result<ClusterReport> {
        let snapshot = client.describe(self.state.snapshot()).await?;
        let constraints = self.describe(client, "").await?;
        let key = self.by.as_deref();
        let key = key
            .or(render::suggested_key(&constraints))
            .map(str::to_owned);
        let by_key = match &key {
            Some(key) => self.describe(client, key).await?.workloads,
            None => Vec::new(),
        };
        let has_names = constraints
            .topology_keys
            .iter()
            .any(|it| it.key == HOSTNAME);
        let by_node = match has_names && key.as_deref() != Some(HOSTNAME) {
            true => self.describe(client, HOSTNAME).await?.workloads,
            false => Vec::new(),
        };
        let mut unbalanced: Vec<Unbalanced> = by_key.iter().filter_map(unbalanced_by).collect();
        unbalanced.retain(|one| one.even < one.most);
        unbalanced.sort_by(|a, b| {
            let ties = (-a.pods, &a.workload).cmp(&(-b.pods, &b.workload));
            // The least part of what the fullest domain has comes first.
            (a.even * b.most).cmp(&(b.even * a.most)).then(ties)
        });
        Ok(ClusterReport {
            revision: constraints.revision,
            node_count: snapshot.node_count,
            pod_count: snapshot.pod_count,
            load: load(&by_key),
            stuck: Vec::new(),
            not_judged: Vec::new(),
            by: key.unwrap_or_default(),
            risks: risks(&by_key, &by_node),
            constraints,
            unbalanced,
        })
    }

    /// The spread of all workloads, over a topology key or by their constraints.
    async fn describe(&self, client: &Client, key: &str) -> Result<DescribeSpreadResponse> {
        let request = DescribeSpreadRequest {
            snapshot: self.state.snapshot().to_owned(),
            namespace: self.namespace.clone().unwrap_or_default(),
            topology_key: key.to_owned(),
            page_size: PAGE_SIZE,
            max_domains: match key {
                "" => None,
                _ => Some(MAX_DOMAINS),
            },
            ..Default::default()
        };
        ask_all(client, request).await
    }
}

/// The kind whose pods run once on each node, so that they cannot be spread.
const DAEMON_SET: &str = "DaemonSet";

/// The spread of a whole cluster.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ClusterReport {
    /// The revision of the report.
    pub(crate) revision: i64,
    /// The number of nodes.
    pub(crate) node_count: i64,
    /// The number of pods.
    pub(crate) pod_count: i64,
    /// The topology key by which workloads are compared; empty if no key of nodes has several
    /// values.
    pub(crate) by: String,
    /// The workloads with waiting pods that no node can take, most such pods first.
    pub(crate) stuck: Vec<Stuck>,
    /// The waiting pods that cannot be judged.
    pub(crate) not_judged: Vec<PodNotJudged>,
    /// The load of each domain of `by`, most pods first; empty if there are too many domains.
    pub(crate) load: Vec<DomainLoad>,
    /// The spread by constraints, with the workloads that violate constraints.
    pub(crate) constraints: DescribeSpreadResponse,
    /// The workloads whose pods are all in one place, most pods first.
    pub(crate) risks: Vec<Risk>,
    /// The workloads that could be more even, the least even first.
    pub(crate) unbalanced: Vec<Unbalanced>,
}

/// A workload with waiting pods that no node can take.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Stuck {
    /// KIND/NAMESPACE/NAME.
    pub(crate) workload: String,
    /// The number of its pods that no node can take.
    pub(crate) pods: i64,
    /// The reason for one of these pods.
    pub(crate) reason: String,
}

/// The load of a domain.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DomainLoad {
    pub(crate) domain: String,
    /// The number of pods in the domain.
    pub(crate) pods: i64,
    /// The requested shares of its nodes' resources.
    pub(crate) shares: Vec<RequestedShare>,
}

/// A workload whose pods are all in one place.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Risk {
    /// KIND/NAMESPACE/NAME.
    pub(crate) workload: String,
    /// The number of its pods.
    pub(crate) pods: i64,
    /// The place of the pods, in words.
    pub(crate) risk: String,
}

/// A workload that could be more even.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Unbalanced {
    /// KIND/NAMESPACE/NAME.
    pub(crate) workload: String,
    /// The number of the workload's pods that are in domains.
    pub(crate) pods: i64,
    /// The domain with the most of these pods.
    pub(crate) fullest: String,
    /// The number of pods in the fullest domain.
    pub(crate) most: i64,
    /// The number of pods that the fullest domain would have if the pods were even.
    pub(crate) even: i64,
}

/// The workloads with waiting pods that no node can take, most such pods first.
fn stuck(waiting: &WaitingPods) -> Vec<Stuck> {
    let all = waiting.workloads.iter();
    let stuck = all.filter_map(|((namespace, id), groups)| {
        let pods = count_stuck(groups);
        let answers = groups.iter().map(|alike| &alike.answer);
        let last = answers.filter(|it| it.feasible_count == 0).last()?;
        Some(Stuck {
            workload: render::name_of_workload(namespace, &id.kind, &id.name, &id.labels),
            pods: i64::try_from(pods).unwrap_or(i64::MAX),
            reason: why(last),
        })
    });
    let mut stuck: Vec<Stuck> = stuck.collect();
    stuck.sort_by_key(|it| -it.pods);
    stuck
}

/// The reasons why no node takes a pod, each with its number of nodes.
fn why(answer: &FilterResponse) -> String {
    let reasons = answer.reasons.iter();
    let reasons = reasons.map(|it| format!("{} {}", it.count, it.reason));
    match reasons.collect::<Vec<_>>() {
        none if none.is_empty() => "there is no node".to_owned(),
        all => joined(&all),
    }
}

/// Returns the number of pods of all workloads in each domain. Empty if a workload does not list
/// all its domains.
fn load(ranked: &[WorkloadSpread]) -> Vec<DomainLoad> {
    let mut pods: BTreeMap<&str, i64> = BTreeMap::new();
    for topology in ranked.iter().filter_map(|spread| spread.topologies.first()) {
        if topology.domain_count > topology.domains.len() as i64 {
            return Vec::new();
        }
        for domain in &topology.domains {
            *pods.entry(&domain.value).or_default() += domain.matching_pods;
        }
    }
    let all = pods.into_iter().map(|(domain, pods)| DomainLoad {
        domain: domain.to_owned(),
        pods,
        shares: Vec::new(),
    });
    let mut all: Vec<DomainLoad> = all.collect();
    all.sort_by_key(|it| -it.pods);
    all
}

/// Returns how uneven a workload is; `None` if the workload cannot be spread.
fn unbalanced_by(spread: &WorkloadSpread) -> Option<Unbalanced> {
    let topology = spread.topologies.first()?;
    let fullest = topology.domains.first()?;
    let pods = spread.pod_count - spread.pending_count - topology.outside_pods;
    let domains = topology.domain_count;
    if spread.kind == DAEMON_SET || pods < 2 || domains < 2 || fullest.matching_pods < 1 {
        return None;
    }
    let even = (pods + domains - 1) / domains;
    Some(Unbalanced {
        workload: render::full_name(spread),
        pods,
        fullest: fullest.value.clone(),
        most: fullest.matching_pods,
        even,
    })
}

/// The workloads whose pods are all in one domain, or on one node.
fn risks(ranked: &[WorkloadSpread], by_node: &[WorkloadSpread]) -> Vec<Risk> {
    let mut named = HashSet::new();
    let mut risks = Vec::new();
    // Pods on one node are in one zone, too. Only the worse risk is reported.
    for spread in by_node.iter().chain(ranked) {
        let all_in_one = unbalanced_by(spread).filter(|one| one.most == one.pods);
        let Some(one) = all_in_one.filter(|one| named.insert(one.workload.clone())) else {
            continue;
        };
        let key = spread.topologies.first().map_or("", |it| &*it.topology_key);
        risks.push(Risk {
            risk: format!("all {} in {key} {}", one.pods, one.fullest),
            workload: one.workload,
            pods: one.pods,
        });
    }
    risks.sort_by(|a, b| (-a.pods, &a.workload).cmp(&(-b.pods, &b.workload)));
    risks
}

/// The resources in the report.
const RESOURCES: [Resource; 2] = [Resource::Cpu, Resource::Memory];

/// The requested share of a resource in a domain.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RequestedShare {
    pub(crate) resource: String,
    /// The requested amount.
    pub(crate) requested: String,
    /// The amount that the nodes have.
    pub(crate) allocatable: String,
    /// The requested amount in percent of the allocatable amount.
    pub(crate) percent: i64,
}

impl fmt::Display for RequestedShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            resource,
            requested,
            allocatable,
            percent,
        } = self;
        write!(f, "{resource} {percent} %: {requested} of {allocatable}")
    }
}

/// The name of the node that a pod takes room on, even while it terminates.
fn node_taken(pod: &v1::Pod) -> Option<&str> {
    let phase = pod.status.as_ref().map_or("", |status| &status.phase);
    let node = pod.spec.as_ref().map_or("", |spec| &spec.node_name);
    (!node.is_empty() && !["Succeeded", "Failed"].contains(&phase)).then_some(node)
}

/// The amounts of [`RESOURCES`].
type Amounts = [i128; RESOURCES.len()];

/// The room of the nodes, by name.
#[derive(Debug, Default)]
pub(super) struct RoomTally(HashMap<String, NodeRoom>);

/// The room of a node.
#[derive(Debug, Default)]
struct NodeRoom {
    /// `None` if the node is in no domain, or only its pods are known.
    domain: Option<String>,
    allocatable: Amounts,
    /// The amounts that the pods on it request.
    requested: Amounts,
}

impl RoomTally {
    /// Adds an object of a snapshot. Domains are the values of the label `topology_key` of nodes.
    pub(super) fn add(&mut self, object: &Object, topology_key: &str) {
        match object {
            Object::Node(node) => {
                let metadata = node.metadata.clone().unwrap_or_default();
                let status = node.status.clone().unwrap_or_default();
                let all = v1::Container {
                    resources: Some(v1::ResourceRequirements {
                        requests: status.allocatable,
                    }),
                    ..Default::default()
                };
                let room = self.0.entry(metadata.name).or_default();
                room.domain = metadata.labels.get(topology_key).cloned();
                room.allocatable = amounts(&Requests::of_one(all));
            }
            Object::Pod(pod) => {
                if let Some(node) = node_taken(pod) {
                    let room = self.0.entry(node.to_owned()).or_default();
                    let requested = amounts(&RequestsByVersion::of(pod).newest);
                    add_amounts(&mut room.requested, requested);
                }
            }
            _ => {}
        }
    }

    /// The requested shares of each domain, for the resources that its nodes have.
    pub(super) fn shares(&self) -> BTreeMap<&str, Vec<RequestedShare>> {
        let mut domains: BTreeMap<&str, (Amounts, Amounts)> = BTreeMap::new();
        for room in self.0.values() {
            if let Some(domain) = &room.domain {
                let (all, requested) = domains.entry(domain).or_default();
                add_amounts(all, room.allocatable);
                add_amounts(requested, room.requested);
            }
        }
        let shares = |(all, requested): (Amounts, Amounts)| {
            let each = RESOURCES.into_iter().zip(all.into_iter().zip(requested));
            let had = each.filter(|(_, (all, _))| *all > 0);
            had.map(|(resource, (all, requested))| RequestedShare {
                requested: resource.quantity(requested),
                allocatable: resource.quantity(all),
                percent: i64::try_from(100 * requested / all).unwrap_or(i64::MAX),
                resource: resource.as_str().to_owned(),
            })
            .collect()
        };
        let domains = domains.into_iter();
        domains
            .map(|(domain, sums)| (domain, shares(sums)))
            .collect()
    }
}

fn add_amounts(sum: &mut Amounts, more: Amounts) {
    for (sum, more) in sum.iter_mut().zip(more) {
        *sum = sum.saturating_add(more);
    }
}

fn amounts(requests: &Requests) -> Amounts {
    let mut requested = Requested::default();
    requested.add(Some(requests));
    RESOURCES.map(|wanted| {
        let found = requested.totals().find(|(of, _)| *of == wanted);
        found.map_or(0, |(_, amount)| amount)
    })
}
