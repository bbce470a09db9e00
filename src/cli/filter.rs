//! `evenkeel filter`: lists the nodes that a pod may run on.

use anyhow::Result;
use clap::Args;

use super::args;
use super::decide::{ANSWER, QuestionArgs};
use super::exit::Exit;
use super::output::Format;
use super::render;
use crate::proto::v1::{FilterRequest, View};

/// Flags of `evenkeel filter`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  evenkeel filter -f pod.yaml
  evenkeel filter -f deployment.yaml --load cluster.json          (no server needed)
  evenkeel filter -f app.yaml --name statefulset/db --overlay-delete node/node-3
  evenkeel filter -f pod.yaml -o name | head -1")]
pub(crate) struct FilterCommand {
    #[command(flatten)]
    question: QuestionArgs,

    #[command(flatten, next_help_heading = ANSWER)]
    output: args::OutputFlag,
}

impl FilterCommand {
    /// Asks the question and prints the answer.
    pub(crate) async fn run(self) -> Result<Exit> {
        let (question, format) = (self.question, self.output.output);
        let asked = question.open_one().await?;
        let view = match format {
            Format::Name => View::Basic,
            _ => View::Full,
        };
        let request = FilterRequest {
            dialect: asked.workload.dialect().into(),
            view: view.into(),
            max_domains: question.max_domains(format.is_table()),
            ..question.filter_request(&asked.workload.pod, &asked.overlay.changes)
        };
        let answer = question.ask(&asked, request).await?;
        question.print(&asked, format, &answer, render::filter, |answer| {
            answer.feasible.clone()
        })?;
        Ok(Exit::of(answer.feasible_count > 0))
    }
}
