//! `evenkeel score`: ranks the nodes for a pod by its soft constraints.

use anyhow::Result;
use clap::Args;

use super::args;
use super::decide::{ANSWER, QuestionArgs};
use super::exit::Exit;
use super::render;
use crate::proto::v1::{NodeScore, ScoreRequest, View};

/// Flags of `evenkeel score`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  evenkeel score -f pod.yaml --top 5
  evenkeel score -f deployment.yaml --load cluster.json --default-constraints system
  evenkeel score -f pod.yaml --top 1 -o name

Exit codes:
  0  at least one node was scored
  1  no node was scored, because none is feasible
  2  the request or its input was refused
  3  the server could not be reached, or did not answer in time")]
pub(crate) struct ScoreCommand {
    #[command(flatten)]
    question: QuestionArgs,

    #[command(flatten, next_help_heading = ANSWER)]
    output: args::OutputFlag,

    /// List only the best COUNT nodes; 0 for all
    #[arg(
        long,
        value_name = "COUNT", value_parser = clap::value_parser!(i32).range(0..), allow_negative_numbers = true,
        default_value_t = 0,
        hide_default_value = true
    )]
    top: i32,
}

impl ScoreCommand {
    /// Asks for scores and prints them, best first.
    pub(crate) async fn run(self) -> Result<Exit> {
        let (question, format) = (self.question, self.output.output);
        let asked = question.open_one().await?;
        let request = ScoreRequest {
            snapshot: question.state.snapshot().to_owned(),
            dialect: asked.workload.dialect().into(),
            pod: Some(asked.workload.pod.clone()),
            candidates: question.candidates(),
            node_checks: question.node_checks().into(),
            view: View::Basic.into(),
            min_revision: question.min_revision,
            overlay: asked.overlay.changes.clone(),
            max_domains: question.max_domains(format.is_table()),
            // The service sorts the scores only if it gets a number, so there is always one.
            top: match self.top {
                0 => i32::MAX,
                top => top,
            },
            ..Default::default()
        };
        let answer = question.ask(&asked, request).await?;
        let node = |score: &NodeScore| score.node.clone();
        question.print(&asked, format, &answer, render::score, |answer| {
            answer.scores.iter().map(node).collect()
        })?;
        Ok(Exit::of(!answer.scores.is_empty()))
    }
}
