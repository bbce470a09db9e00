//! `evenkeel spread`: how evenly things are spread now.

use std::str::FromStr;

use anyhow::Result;
use clap::{Args, ValueEnum};

use super::args;
use super::backend::Client;
use super::exit::Exit;
use super::output::{self, Format};
use super::render;
use super::selector::Selector;
use crate::proto::v1::describe_spread_request::Subject;
use crate::proto::v1::{
    DescribeSpreadRequest, DescribeSpreadResponse, WorkloadName, WorkloadSpread,
};

/// Workloads asked for at a time.
const PAGE_SIZE: i32 = 1_000;

/// Domains of a topology that a table lists, unless told otherwise.
const TABLE_DOMAINS: i32 = 20;

/// Flags of `evenkeel spread`.
#[derive(Debug, Args)]
#[command(after_help = "\
Without --workload and --selector, it lists the workloads that violate their own constraints, worst
first. With --by, it lists all workloads by their skew over that key.

Examples:
  evenkeel spread                                     workloads that violate constraints
  evenkeel spread -n shop --load cluster.json         in one namespace, no server needed
  evenkeel spread -n shop --workload deployment/web   a bar per domain
  evenkeel spread --selector app=web --by kubernetes.io/hostname
  evenkeel spread --by topology.kubernetes.io/zone -o wide

Exit codes:
  0  no constraint is violated
  1  some constraints are violated
  2  the request or its input was refused
  3  the server could not be reached, or did not answer in time")]
pub(crate) struct Spread {
    /// Namespace; by default all, or `default` with --workload or --selector
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,

    /// One workload: the kind and name of its pods' controller, e.g. deployment/web
    #[arg(long, value_name = "KIND/NAME", conflicts_with = "selector")]
    workload: Option<Workload>,

    /// Pods that match, in kubectl's syntax: app=web,tier in (a,b),!legacy
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    selector: Option<Selector>,

    /// Label key of nodes whose values are the domains
    ///
    /// By default the keys of the constraints in force, or
    /// topology.kubernetes.io/zone if there are none.
    #[arg(long, value_name = "KEY")]
    by: Option<String>,

    /// Wait until the snapshot has reached this revision
    #[arg(
        long,
        value_name = "REVISION",
        value_parser = clap::value_parser!(i64).range(0..),
        allow_negative_numbers = true,
        default_value_t = 0,
        hide_default_value = true
    )]
    min_revision: i64,

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
    state: args::State,

    /// How to write the answer
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t = Output::Table)]
    output: Output,
}

/// How the answer is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
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
}

/// A workload as `--workload` names it.
#[derive(Debug, Clone, PartialEq)]
struct Workload(WorkloadName);

impl FromStr for Workload {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        /// Kinds that are known in any case, with kubectl's short names.
        const KINDS: [(&str, &str); 6] = [
            ("Deployment", "deploy"),
            ("ReplicaSet", "rs"),
            ("StatefulSet", "sts"),
            ("DaemonSet", "ds"),
            ("Job", "job"),
            ("ReplicationController", "rc"),
        ];
        let (kind, name) = text.split_once('/').ok_or("want KIND/NAME")?;
        if kind.is_empty() || name.is_empty() || name.contains('/') {
            return Err("want KIND/NAME".to_owned());
        }
        let known = KINDS.iter().find(|(known, short)| {
            known.eq_ignore_ascii_case(kind) || short.eq_ignore_ascii_case(kind)
        });
        Ok(Workload(WorkloadName {
            kind: known.map_or(kind, |(known, _)| known).to_owned(),
            name: name.to_owned(),
        }))
    }
}

impl Spread {
    /// Asks and prints.
    pub(crate) async fn run(self) -> Result<Exit> {
        let client = self.state.client().await?;
        let answer = ask_all(&client, self.request()).await?;
        let all = self.workload.is_none() && self.selector.is_none();
        let about = render::SpreadOf {
            all,
            snapshot: self.state.snapshot(),
            by: self.by.as_deref(),
            selector: self.selector.as_ref().map(|Selector(selector)| selector),
            bars: self.output == Output::Wide || !all,
        };
        let format = match self.output {
            Output::Table | Output::Wide => Format::Table,
            Output::Json => Format::Json,
            Output::Yaml => Format::Yaml,
            Output::Name => Format::Name,
        };
        let table = |answer: &_| render::spread(&about, answer);
        output::print(&format.render(&answer, table, names)?)?;
        Ok(match answer.violating_count {
            0 => Exit::Success,
            _ => Exit::Negative,
        })
    }

    fn request(&self) -> DescribeSpreadRequest {
        let workload = self.workload.clone();
        let workload = workload.map(|Workload(name)| Subject::Workload(name));
        let selector = self.selector.clone();
        DescribeSpreadRequest {
            snapshot: self.state.snapshot().to_owned(),
            namespace: self.namespace.clone().unwrap_or_default(),
            subject: workload.or(selector.map(|Selector(selector)| Subject::Selector(selector))),
            topology_key: self.by.clone().unwrap_or_default(),
            min_revision: self.min_revision,
            max_domains: Some(self.max_domains),
            page_size: PAGE_SIZE,
            page_token: String::new(),
        }
    }
}

/// The answer with the workloads of all pages.
async fn ask_all(
    client: &Client,
    mut request: DescribeSpreadRequest,
) -> Result<DescribeSpreadResponse> {
    let mut workloads = Vec::new();
    loop {
        let mut page: DescribeSpreadResponse = client
            .call(request.clone(), |mut rpc, request| async move {
                rpc.describe_spread(request).await
            })
            .await?;
        workloads.append(&mut page.workloads);
        request.page_token = std::mem::take(&mut page.next_page_token);
        if request.page_token.is_empty() {
            return Ok(DescribeSpreadResponse { workloads, ..page });
        }
    }
}

fn names(answer: &DescribeSpreadResponse) -> Vec<String> {
    let name = |spread: &WorkloadSpread| match spread.kind.is_empty() {
        true => format!("{}/{}", spread.namespace, render::workload_name(spread)),
        false => format!("{}/{}/{}", spread.kind, spread.namespace, spread.name),
    };
    answer.workloads.iter().map(name).collect()
}
