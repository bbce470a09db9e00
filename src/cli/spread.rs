//! `evenkeel spread`: shows the present spread of workloads.

use std::time::Duration;

use anyhow::Result;
use clap::{Args, ValueEnum};

use super::args;
use super::backend::{Client, all_pages};
use super::exit::Exit;
use super::live_names;
use super::matched::{PodScope, with_nearest};
use super::output::{self, AnswerFormat};
use super::render;
use super::selector;
use super::source::{self, QuestionScope};
use crate::manifest::ObjectName;
use crate::matching::names;
use crate::proto::v1::describe_spread_request::Subject;
use crate::proto::v1::{
    DescribeSpreadRequest, DescribeSpreadResponse, LabelSelector, WorkloadName,
};

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
    /// One workload: the kind and name of its pods' controller, e.g. deploy/web
    ///
    /// Kinds have kubectl's names, and KIND/NAMESPACE/NAME names another
    /// namespace than --namespace.
    #[arg(
        value_name = "KIND/NAME",
        value_parser = ObjectName::with_kind,
        conflicts_with_all = ["workload", "selector"],
        add = live_names::objects()
    )]
    object: Option<ObjectName>,

    /// Namespace; by default all, or `default` with a workload
    #[arg(short, long, value_name = "NAMESPACE", add = live_names::namespaces())]
    namespace: Option<String>,

    /// All namespaces: the default where no workload is named
    #[arg(short = 'A', long, conflicts_with_all = ["namespace", "object", "workload"])]
    all_namespaces: bool,

    /// The same as KIND/NAME
    #[arg(long, value_name = "KIND/NAME", value_parser = ObjectName::with_kind, conflicts_with = "selector")]
    workload: Option<ObjectName>,

    /// Pods that match, in kubectl's syntax: app=web,tier in (a,b),!legacy
    #[arg(short = 'l', long, value_name = "SELECTOR", value_parser = selector::parse)]
    selector: Option<LabelSelector>,

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
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t = SpreadFormat::Table)]
    output: SpreadFormat,
}

/// The formats of the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum SpreadFormat {
    /// Aligned columns for people; bars for a single workload.
    Table,
    /// Bars for every workload listed.
    Wide,
    /// The answer as proto-JSON.
    Json,
    /// The answer as proto-JSON, in YAML.
    Yaml,
    /// Only names, one per line: KIND/NAMESPACE/NAME.
    Name,
    /// A self-contained page.
    Html,
}

impl SpreadCommand {
    /// Asks for the spread and prints it.
    pub(crate) async fn run(self) -> Result<Exit> {
        if self.watch {
            return self.keep_showing().await;
        }
        self.state.is_about(self.scope());
        let named = self.named().cloned();
        let namespace = self
            .namespace
            .as_deref()
            .unwrap_or(names::DEFAULT_NAMESPACE);
        let named = named.map(|named| named.or_in(namespace));
        let (opened, finder) = self.state.open_about(named).await?;
        let answer = self.ask(&opened.client, finder.selector()).await?;
        if answer.workloads.iter().all(|it| it.pod_count == 0) {
            let scope = PodScope {
                namespace: self.namespace.as_deref().filter(|_| self.named().is_none()),
                selector: self.selector.as_ref(),
            };
            let matched = scope.ensure_matched(&opened.client, self.state.snapshot());
            matched.await?;
        }
        let text = self.text(&answer)?;
        match self.output {
            SpreadFormat::Html => output::print_bytes(text.as_bytes())?,
            _ => output::print(&text)?,
        }
        Ok(Exit::of(answer.violating_count == 0))
    }

    /// Asks and prints whenever the snapshot has changed. On a terminal, replaces the earlier
    /// output. Ends with an error, or when interrupted.
    async fn keep_showing(&self) -> Result<Exit> {
        anyhow::ensure!(
            self.output != SpreadFormat::Html,
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
        let request = self.request(selector);
        let namespace = request.namespace.clone();
        match (ask_all(client, request).await, self.named()) {
            (Err(error), Some(named)) => {
                let named = named.clone().or_in(&namespace);
                Err(with_nearest(error, client, self.state.snapshot(), &named).await)
            }
            (answer, _) => answer,
        }
    }

    /// The text of an answer in the chosen format.
    fn text(&self, answer: &DescribeSpreadResponse) -> Result<String> {
        let all = self.named().is_none() && self.selector.is_none();
        let title = self.state.title();
        let about = render::SpreadOf {
            all,
            snapshot: &title,
            by: self.by.as_deref(),
            selector: self.selector.as_ref(),
            bars: self.output == SpreadFormat::Wide || !all,
            loaded: self.state.is_local(),
        };
        let format = match self.output {
            SpreadFormat::Html => {
                let origin = self.state.origin();
                let page = |answer: &_| render::spread_html(&about, &origin, answer);
                return Ok(output::shown(answer, page));
            }
            SpreadFormat::Table | SpreadFormat::Wide => AnswerFormat::Table,
            SpreadFormat::Json => AnswerFormat::Json,
            SpreadFormat::Yaml => AnswerFormat::Yaml,
            SpreadFormat::Name => AnswerFormat::Name,
        };
        let table = |answer: &_| render::spread(&about, answer);
        format.render(answer, table, workload_names)
    }

    /// The workload in question.
    fn named(&self) -> Option<&ObjectName> {
        self.object.as_ref().or(self.workload.as_ref())
    }

    fn scope(&self) -> QuestionScope {
        let named = self.named();
        let of_name = named.and_then(|named| named.namespace.as_deref());
        let other = match named.is_some() {
            true => QuestionScope::Own,
            false => QuestionScope::All,
        };
        QuestionScope::of(of_name.or(self.namespace.as_deref()), other)
    }

    /// The request. `of_workload` is the selector of the workload in question, if it is known.
    fn request(&self, of_workload: Option<LabelSelector>) -> DescribeSpreadRequest {
        let named = self.named();
        let workload = named.map(|named| {
            Subject::Workload(WorkloadName {
                kind: named.kind.clone().unwrap_or_default(),
                name: named.name.clone(),
                selector: of_workload,
            })
        });
        let namespace = named.and_then(|named| named.namespace.as_ref());
        let own = self.state.own_namespace().filter(|_| named.is_some());
        let namespace = namespace.or(self.namespace.as_ref()).or(own);
        let selector = self.selector.clone().map(Subject::Selector);
        DescribeSpreadRequest {
            snapshot: self.state.snapshot().to_owned(),
            namespace: namespace.cloned().unwrap_or_default(),
            subject: workload.or(selector),
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

fn workload_names(answer: &DescribeSpreadResponse) -> Vec<String> {
    answer.workloads.iter().map(render::full_name).collect()
}
