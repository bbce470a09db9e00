//! `evenkeel nodes`: how many nodes must come so that pods fit, where the pods of nodes go that are
//! drained, and which nodes can go together.

use std::collections::HashMap;
use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, Subcommand};

use super::about::{PodScope, ensure_nodes_matched, nearest_nodes, parse_selector};
use super::args::{self, AnswerFlags};
use super::completions;
use super::exit::{Exit, RefusedCall};
use super::place::missing;
use super::rebalance::EvictionFlags;
use super::render;
use super::source::{Opened, QuestionScope};
use super::stored;
use super::what_if::Overlay;
use crate::api::NODE_NOT_FOUND;
use crate::manifest::ObjectName;
use crate::proto::v1::change::Object;
use crate::proto::v1::plan_nodes_request::Question;
use crate::proto::v1::{
    LabelSelector, NeededPods, NodeDrain, NodeNeed, NodeSpare, NodeTemplate, PlanNodesRequest,
    PlanNodesResponse, TopologyValues,
};

/// Questions about whole nodes.
#[derive(Debug, Subcommand)]
#[command(after_help = "\
Nothing is changed. Every step of a plan is accepted by Filter after those before it.

Exit codes:
  0  all pods fit, all nodes can be emptied, or nodes are spare
  1  pods fit on no number of nodes, a node cannot be emptied, or none is spare
  2  the request or its input was refused
  3  the server could not be reached, or did not answer in time")]
pub(crate) enum NodesCommand {
    /// Say how many nodes must come so that pods fit, and in which domains
    Need(Box<NeedNodes>),
    /// Say where the pods of nodes go that are drained, and what cannot move
    Drain(Box<DrainNodes>),
    /// Say which nodes can go together, the least used first
    Spare(Box<SpareNodes>),
}

/// Flags of `evenkeel nodes need`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  evenkeel nodes need deploy/web --replicas 30 --like node-1
  evenkeel nodes need --pending --like node-1 --in topology.kubernetes.io/zone=a,b,c
  evenkeel nodes need --pending -f small.yaml -f large.yaml --price large=3

A new node also runs the DaemonSets that admit it. Without prices the fewest nodes are found, else the cheapest.")]
pub(crate) struct NeedNodes {
    /// The workload whose replicas have to fit: deploy/web
    #[arg(
        value_name = "KIND/NAME",
        value_parser = ObjectName::with_kind,
        required_unless_present = "pending",
        add = completions::objects()
    )]
    object: Option<ObjectName>,

    /// Namespace of the workload, or of the pods that wait; of these by default all
    #[arg(short, long, value_name = "NAMESPACE", add = completions::namespaces())]
    namespace: Option<String>,

    /// How many replicas there are to be in all, as for kubectl scale
    #[arg(
        long,
        value_name = "COUNT",
        value_parser = clap::value_parser!(i32).range(1..),
        requires = "object"
    )]
    replicas: Option<i32>,

    /// All pods that wait for a node have to fit
    #[arg(long)]
    pending: bool,

    /// New nodes may be like this node
    #[arg(
        long,
        value_name = "NODE",
        value_parser = |text: &str| ObjectName::name_of("Node", text),
        required_unless_present = "files"
    )]
    like: Vec<String>,

    /// New nodes may be like the nodes of this file; - for standard input
    #[arg(short, long = "file", value_name = "FILE")]
    files: Vec<PathBuf>,

    /// The domains in which new nodes can be made, also where there is no node yet: KEY=VALUE,VALUE
    #[arg(long = "in", value_name = "DOMAINS", value_parser = domains_of)]
    domains: Vec<TopologyValues>,

    /// The price or weight of nodes: TEMPLATE=PRICE; 1 for others
    #[arg(long = "price", value_name = "PRICE", value_parser = price_of)]
    prices: Vec<(String, i32)>,

    #[command(flatten)]
    about: AnswerFlags,
}

/// Flags of `evenkeel nodes drain`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  evenkeel nodes drain node-1 node-2
  evenkeel nodes drain node-1 node-2 --one-at-a-time       as for an upgrade
  evenkeel nodes drain node-1 --load cluster.json -o html > plan.html

Pods of DaemonSets and static pods go with their node. The same pods stay as for
`evenkeel rebalance`: files and clusters tell which these are; a server does not.")]
pub(crate) struct DrainNodes {
    /// The nodes
    #[arg(
        value_name = "NODE",
        required = true,
        value_parser = |text: &str| ObjectName::name_of("Node", text)
    )]
    nodes: Vec<String>,

    /// Each node is back, without its pods, before the next one is cordoned
    #[arg(long)]
    one_at_a_time: bool,

    #[command(flatten)]
    evictions: EvictionFlags,

    #[command(flatten)]
    about: AnswerFlags,
}

/// Flags of `evenkeel nodes spare`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  evenkeel nodes spare --max 10
  evenkeel nodes spare --max 3 -l pool=batch --load cluster.json -o name

Nodes are tried one after the other, the least used first. The answer says how many can go at most, and
why. Nodes of the control plane stay unless -l matches them, and so do those with an annotation
cluster-autoscaler.kubernetes.io/scale-down-disabled or karpenter.sh/do-not-disrupt: files and
clusters tell which these are; a server does not.")]
pub(crate) struct SpareNodes {
    /// The most nodes
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(i32).range(1..))]
    max: i32,

    /// The nodes that may go, in kubectl's syntax
    #[arg(short = 'l', long, value_name = "SELECTOR", value_parser = parse_selector)]
    selector: Option<LabelSelector>,

    #[command(flatten)]
    evictions: EvictionFlags,

    #[command(flatten)]
    about: AnswerFlags,
}

impl NodesCommand {
    /// Asks and prints the answer.
    pub(crate) async fn run(self) -> Result<Exit> {
        match self {
            Self::Need(need) => need.run().await,
            Self::Drain(drain) => {
                let opened = drain.about.state.open().await?;
                let question = Question::Drain(NodeDrain {
                    nodes: drain.nodes,
                    one_at_a_time: drain.one_at_a_time,
                    rules: Some(drain.evictions.rules(opened.objects.clone())),
                });
                let answer = drain.about.ask(&opened, question).await?;
                Ok(Exit::of(answer.nodes.iter().all(|node| node.emptied)))
            }
            Self::Spare(spare) => {
                let opened = spare.about.state.open().await?;
                let objects = opened.objects.clone();
                let stay = objects
                    .iter()
                    .flat_map(|it| it.staying_nodes.iter().cloned());
                let question = Question::Spare(NodeSpare {
                    max: spare.max,
                    selector: spare.selector,
                    stay: stay.collect(),
                    rules: Some(spare.evictions.rules(opened.objects.clone())),
                });
                let answer = spare.about.ask(&opened, question).await?;
                Ok(Exit::of(!answer.nodes.is_empty()))
            }
        }
    }
}

impl NeedNodes {
    async fn run(self) -> Result<Exit> {
        let state = &self.about.state;
        let namespace = self.namespace.as_deref();
        let mut pods = Vec::new();
        let opened = match &self.object {
            None => {
                state.is_about(QuestionScope::All);
                let (opened, selector) = (state.open().await?, None);
                let scope = PodScope {
                    namespace,
                    selector,
                };
                scope
                    .ensure_matched(&opened.client, state.snapshot())
                    .await?;
                opened
            }
            Some(name) => {
                let (opened, workload) = state.open_named(name, namespace).await?;
                opened.warn_of_lack([&workload.pod].into_iter());
                let at = (state.snapshot(), self.about.at_least.min_revision);
                let none = Overlay::default();
                let there = stored::pods_there(&opened.client, at, &workload, &none).await?;
                let missing = missing(&workload, &there, self.replicas, None)?;
                pods.extend(missing.into_iter().map(|it| NeededPods {
                    pod: it.pod,
                    replicas: it.replicas,
                }));
                anyhow::ensure!(
                    !pods.is_empty() || self.pending,
                    "{} has all its replicas on nodes: say with --replicas how many there are to be",
                    workload.name
                );
                opened
            }
        };
        let question = Question::Need(NodeNeed {
            pods,
            pending: self.pending,
            namespace: namespace.unwrap_or_default().to_owned(),
            templates: self.templates()?,
        });
        let answer = self.about.ask(&opened, question).await?;
        Ok(Exit::of(answer.unplaced.is_empty()))
    }

    fn templates(&self) -> Result<Vec<NodeTemplate>> {
        let like = self.like.iter().map(|name| NodeTemplate {
            name: name.clone(),
            node: name.clone(),
            ..NodeTemplate::default()
        });
        let read = args::read_files(&self.files)?.changes.into_iter();
        let of_files = read.filter_map(|change| match change.object? {
            Object::Node(node) => Some(NodeTemplate {
                name: node.metadata.as_ref()?.name.clone(),
                object: Some(node),
                ..NodeTemplate::default()
            }),
            _ => None,
        });
        let mut templates: Vec<NodeTemplate> = like.chain(of_files).collect();
        anyhow::ensure!(!templates.is_empty(), "--file: there is no Node in it");
        let known: Vec<String> = templates.iter().map(|it| it.name.clone()).collect();
        for (name, _) in &self.prices {
            let unknown = || {
                format!(
                    "--price: there is no template {name}, but {}",
                    known.join(", ")
                )
            };
            anyhow::ensure!(known.contains(name), unknown());
        }
        let prices: HashMap<_, _> = self.prices.iter().cloned().collect();
        for template in &mut templates {
            template.price = prices.get(&template.name).copied().unwrap_or(0);
            template.domains.clone_from(&self.domains);
        }
        Ok(templates)
    }
}

impl AnswerFlags {
    /// Asks and prints the answer.
    async fn ask(&self, opened: &Opened, question: Question) -> Result<PlanNodesResponse> {
        let request = PlanNodesRequest {
            snapshot: self.state.snapshot().to_owned(),
            question: Some(question),
            min_revision: self.at_least.min_revision,
            max_domains: self.output.max_domains_of_plan(),
            ..PlanNodesRequest::default()
        };
        let asked = request.question.as_ref();
        let answer: PlanNodesResponse = match opened.client.call(request.clone()).await {
            Err(error) if RefusedCall::is_for(&error, NODE_NOT_FOUND) => {
                let said = error.to_string();
                let name = said.split('"').nth(1).unwrap_or_default();
                let nearest = nearest_nodes(&opened.client, self.state.snapshot(), name).await;
                anyhow::bail!("{error:#}{nearest}");
            }
            answer => answer?,
        };
        if let Some(Question::Spare(spare)) = asked
            && let Some(selector) = spare.selector.as_ref().filter(|_| answer.nodes.is_empty())
        {
            ensure_nodes_matched(&opened.client, self.state.snapshot(), selector).await?;
        }
        let page = || render::nodes(&self.state.source(), asked, &answer);
        let names = || {
            let going = answer.nodes.iter().filter(|node| node.emptied);
            let going = going.map(|node| node.name.clone());
            let new = answer.new_nodes.iter().flat_map(|it| it.names.clone());
            going.chain(new).collect()
        };
        self.output.print(&answer, page, names)?;
        Ok(answer)
    }
}

/// Parses `KEY=VALUE,VALUE`.
fn domains_of(text: &str) -> Result<TopologyValues, String> {
    let (key, values) = text.split_once('=').ok_or("want KEY=VALUE,VALUE")?;
    Ok(TopologyValues {
        topology_key: key.to_owned(),
        values: values.split(',').map(str::to_owned).collect(),
    })
}

/// Parses `TEMPLATE=PRICE`.
fn price_of(text: &str) -> Result<(String, i32), String> {
    let (template, price) = text.rsplit_once('=').ok_or("want TEMPLATE=PRICE")?;
    let price = price.parse().map_err(|_| "want a number as the price")?;
    Ok((template.to_owned(), price))
}
