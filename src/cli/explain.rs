//! `evenkeel explain`: explains why a pod may run on some nodes only, and which changes would admit
//! it to others.

use anyhow::Result;
use clap::Args;

use super::args;
use super::decide::{ANSWER, QuestionArgs};
use super::exit::Exit;
use super::pending;
use super::render;
use super::selector;
use crate::proto::v1::{ExplainRequest, LabelSelector};

/// Flags of `evenkeel explain`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  evenkeel explain -f pod.yaml
  evenkeel explain deploy/web -n shop --load cluster.json
  evenkeel explain --pending                                      every pod that waits for a node
  evenkeel explain -f deployment.yaml --load cluster.json         (no server needed)
  evenkeel explain -f deployment.yaml -o html > why.html")]
pub(crate) struct ExplainCommand {
    #[command(flatten)]
    question: QuestionArgs,

    /// Every pod that waits for a node, by workload, worst first
    ///
    /// Of all namespaces, or of --namespace. Of each workload the pod with the
    /// fewest nodes to go to is explained.
    #[arg(long, conflicts_with_all = ["object", "file", "name"], help_heading = "The pod")]
    pending: bool,

    /// With --pending: in all namespaces, which is what it does without --namespace
    #[arg(
        short = 'A',
        long,
        requires = "pending",
        conflicts_with = "namespace",
        help_heading = "The pod"
    )]
    all_namespaces: bool,

    /// With --pending: pods that match, in kubectl's syntax: app=web,tier in (a,b),!legacy
    #[arg(
        short = 'l',
        long,
        value_name = "SELECTOR",
        value_parser = selector::parse,
        requires = "pending",
        help_heading = "The pod"
    )]
    selector: Option<LabelSelector>,

    #[command(flatten, next_help_heading = ANSWER)]
    output: args::OutputFlag,
}

impl ExplainCommand {
    /// Asks the question and prints the answer.
    pub(crate) async fn run(self) -> Result<Exit> {
        let (question, format) = (self.question, self.output.output);
        if self.pending {
            return pending::explain(&question, self.selector.as_ref(), &self.output).await;
        }
        let asked = question.open_one().await?;
        let (pod, overlay) = (&asked.workload.pod, &asked.overlay.changes);
        let request = ExplainRequest {
            dialect: asked.workload.dialect().into(),
            waiting: question.waiting(&asked).await?,
            // A page gets all domains, because it folds long tables.
            ..question.explain_request(pod, overlay, format.is_table())
        };
        let answer = question.ask(&asked, request).await?;
        question.print(&asked, format, &answer, render::explain, |answer| {
            answer.feasible.clone()
        })?;
        Ok(Exit::of(answer.feasible_count > 0))
    }
}
