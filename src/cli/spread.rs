//! `evenkeel spread`: shows the present spread of workloads.

use std::time::Duration;

use anyhow::Result;
use clap::Args;

use super::about::AboutWorkloads;
use super::args;
use super::backend::{Client, all_pages};
use super::exit::Exit;
use super::output::{self, Format};
use super::render;
use super::source;
use crate::manifest::ObjectName;
use crate::proto::v1::describe_spread_request::Subject;
use crate::proto::v1::{DescribeSpreadRequest, DescribeSpreadResponse, LabelSelector};

/// The number of workloads in a page of the answer.
pub(super) const PAGE_SIZE: i32 = 1_000;

/// The number of domains of a topology that a table lists by default.
const TABLE_DOMAINS: i32 = 20;

/// The time between two checks of `--watch` for a new revision.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

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
  evenkeel spread --selector app=web --by kubernetes.io/hostname
  evenkeel spread --by topology.kubernetes.io/zone -o wide
  evenkeel spread -w                                  again whenever it has changed

Exit codes:
  0  no hard constraint is violated; a soft max skew may be exceeded
  1  some hard constraints are violated
  2  the request or its input was refused
  3  the server could not be reached, or did not answer in time")]
pub(crate) struct SpreadCommand {
    #[command(flatten)]
    about: AboutWorkloads,
    /// The same as KIND/NAME
    #[arg(
        long,
        value_name = "KIND/NAME",
        value_parser = ObjectName::with_kind,
        conflicts_with_all = ["object", "selector", "all_namespaces"]
    )]
    workload: Option<ObjectName>,
    /// Label key of nodes whose values are the domains
    ///
    /// By default the keys of the constraints in force, or
    /// topology.kubernetes.io/zone if there are none.
    #[arg(long, value_name = "KEY")]
    by: Option<String>,

    #[command(flatten)]
    at_least: args::MinRevision,

    /// How many domains to list, most pods first; 0 for all
    #[arg(
        long,
        value_name = "COUNT",
        value_parser = clap::value_parser!(i32).range(0..),
        allow_negative_numbers = true,
        default_value_t = TABLE_DOMAINS
    )]
    max_domains: i32,

    #[command(flatten)]
    state: source::SnapshotSource,

    /// Show it again whenever it has changed, until interrupted
    #[arg(short, long, conflicts_with = "load")]
    watch: bool,

    /// How to write the answer
    #[arg(
        short,
        long,
        value_name = "FORMAT",
        value_parser = output::one_of(Format::ALL),
        default_value = "table"
    )]
    output: Format,
}

impl SpreadCommand {
    /// Asks for the spread and prints it.
    pub(crate) async fn run(mut self) -> Result<Exit> {
        let named = self.workload.take();
        self.about.object = self.about.object.or(named);
        if self.watch {
            return self.keep_showing().await;
        }
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
        output::print(&self.text(&answer)?)?;
        Ok(Exit::of(answer.violating_count == 0))
    }

    /// Asks and prints whenever the snapshot has changed. On a terminal, replaces the earlier
    /// output. Ends with an error, or when interrupted.
    async fn keep_showing(&self) -> Result<Exit> {
        anyhow::ensure!(
            self.output != Format::Html,
            "--watch: a page is written once; leave out -o html"
        );
        let client = self.state.follow().await?;
        let mut shown: Option<DescribeSpreadResponse> = None;
        loop {
            let answer = self.ask(&client, None).await?;
            // Epoch, revision and age may change although the spread does not.
            let unchanged = shown.map(|shown| DescribeSpreadResponse {
                epoch: answer.epoch.clone(),
                revision: answer.revision,
                age: answer.age,
                ..shown
            });
            if unchanged.as_ref() != Some(&answer) {
                output::replace(&self.text(&answer)?)?;
            }
            wait_for_another(&client, self.state.snapshot(), &answer).await?;
            shown = Some(answer);
        }
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

    /// The text of an answer in the chosen format.
    fn text(&self, answer: &DescribeSpreadResponse) -> Result<String> {
        let about = &self.about;
        let all = about.object.is_none() && about.selector.is_none();
        let source = self.state.source();
        let about = render::SpreadOf {
            all,
            source: &source,
            by: self.by.as_deref(),
            selector: self.about.selector.as_ref(),
            bars: matches!(self.output, Format::Wide | Format::Html) || !all,
            loaded: self.state.is_local(),
        };
        let names = || answer.workloads.iter().map(render::full_name).collect();
        self.output
            .text(answer, || render::spread(&about, answer), names)
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
            max_domains: Some(self.max_domains),
            page_size: PAGE_SIZE,
            ..Default::default()
        }
    }
}

/// Waits until the snapshot has another revision than the answer.
async fn wait_for_another(
    client: &Client,
    snapshot: &str,
    answer: &DescribeSpreadResponse,
) -> Result<()> {
    loop {
        tokio::time::sleep(LOOK_AGAIN).await;
        let now = client.describe(snapshot).await?;
        if (now.revision, &now.epoch) != (answer.revision, &answer.epoch) {
            return Ok(());
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
