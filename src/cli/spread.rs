//! `evenkeel spread`: shows the present spread of workloads.

use anyhow::Result;
use clap::Args;

use super::about::AboutWorkloads;
use super::args;
use super::backend::{Client, all_pages};
use super::exit::Exit;
use super::output::Format;
use super::render;
use super::source;
use crate::proto::v1::describe_spread_request::Subject;
use crate::proto::v1::{DescribeSpreadRequest, DescribeSpreadResponse, LabelSelector};

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

    #[command(flatten)]
    at_least: args::MinRevision,

    /// List all domains, however many; otherwise the 20 with the most pods
    #[arg(long)]
    all: bool,

    #[command(flatten)]
    state: source::SnapshotSource,

    #[command(flatten)]
    output: args::OutputFlag,
}

impl SpreadCommand {
    /// Asks for the spread and prints it.
    pub(crate) async fn run(self) -> Result<Exit> {
        self.state.is_about(self.about.scope());
        let (opened, finder) = self.state.open_about(self.about.in_files()).await?;
        let answer = self.ask(&opened.client, finder.selector()).await?;
        if answer.workloads.iter().all(|it| it.pod_count == 0) {
            let selector = self.about.selector.as_ref();
            let matched = self
                .about
                .ensure_matched(selector, &opened.client, &self.state);
            matched.await?;
        }
        self.print(&answer)?;
        Ok(Exit::of(answer.violating_count == 0))
    }

    /// Asks for all pages of the answer.
    async fn ask(
        &self,
        client: &Client,
        selector: Option<LabelSelector>,
    ) -> Result<DescribeSpreadResponse> {
        let answer = ask_all(client, self.request(selector)).await;
        self.about.or_nearest(answer, client, &self.state).await
    }

    /// Prints an answer in the chosen format.
    fn print(&self, answer: &DescribeSpreadResponse) -> Result<()> {
        let about = &self.about;
        let all = about.object.is_none() && about.selector.is_none();
        let source = self.state.source();
        let about = render::SpreadOf {
            all,
            source: &source,
            by: self.by.as_deref(),
            selector: self.about.selector.as_ref(),
            bars: self.output.output == Format::Html || !all,
            loaded: self.state.is_local(),
        };
        let names = || answer.workloads.iter().map(render::full_name).collect();
        self.output
            .print(answer, || render::spread(&about, answer), names)
    }

    /// The request. `of_workload` is the selector of the workload in question, if it is known.
    fn request(&self, of_workload: Option<LabelSelector>) -> DescribeSpreadRequest {
        let named = self.about.named(&self.state, of_workload);
        let selector = self.about.selector.clone().map(Subject::Selector);
        DescribeSpreadRequest {
            snapshot: self.state.snapshot().to_owned(),
            namespace: named.namespace,
            subject: named.workload.map(Subject::Workload).or(selector),
            topology_key: self.by.clone().unwrap_or_default(),
            min_revision: self.at_least.min_revision,
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
