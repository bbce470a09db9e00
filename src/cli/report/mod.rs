//! `evenkeel report`: reports on the spread of a whole cluster.

pub(crate) mod judge;
pub(crate) mod room;

use anyhow::Result;
use clap::Args;

use self::judge::ClusterReport;
use self::room::RoomTally;
use super::args;
use super::backend::Client;
use super::exit::Exit;
use super::live_names;
use super::matched::PodScope;
use super::render;
use super::source;
use super::spread::{PAGE_SIZE, ask_all};
use super::waiting::WaitingPods;
use crate::matching::names::HOSTNAME;
use crate::proto::v1::{DescribeSpreadRequest, DescribeSpreadResponse, FilterRequest};

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
    #[arg(short, long, value_name = "NAMESPACE", add = live_names::namespaces())]
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
        let (by, mut room) = (report.by.clone(), RoomTally::default());
        let look = |object: &_| room.add(object, &by);
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
        report.stuck = judge::stuck(&waiting);
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
        let key = key.unwrap_or_default();
        Ok(judge::report(
            &snapshot,
            constraints,
            key,
            &by_key,
            &by_node,
        ))
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
