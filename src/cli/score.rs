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
  evenkeel score -f pod.yaml
  evenkeel score -f deployment.yaml --load cluster.json --default-constraints system
  evenkeel score -f pod.yaml -o name | head -1")]
pub(crate) struct ScoreCommand {
    #[command(flatten)]
    question: QuestionArgs,

    #[command(flatten, next_help_heading = ANSWER)]
    output: args::OutputFlag,
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
            top: i32::MAX,
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
