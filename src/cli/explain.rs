//! `evenkeel explain`: why a pod may run where it may, and what would let it
//! in elsewhere.

use anyhow::Result;
use clap::{Args, ValueEnum};

use super::backend::rpc;
use super::decide::{ANSWER, QuestionArgs};
use super::exit::Exit;
use super::output::{self, AnswerFormat};
use super::render;
use crate::proto::v1::{ExplainRequest, View};

/// Flags of `evenkeel explain`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  evenkeel explain -f pod.yaml
  evenkeel explain -f deployment.yaml --load cluster.json         (no server needed)
  evenkeel explain -f deployment.yaml -o html > why.html

Exit codes:
  0  at least one node is feasible
  1  no node is feasible
  2  the request or its input was refused
  3  the server could not be reached, or did not answer in time")]
pub(crate) struct ExplainCommand {
    #[command(flatten)]
    question: QuestionArgs,

    /// How to write the answer
    #[arg(
        short, long, value_name = "FORMAT", value_enum, default_value_t = ExplanationFormat::Text,
        help_heading = ANSWER
    )]
    output: ExplanationFormat,
}

/// How an explanation is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ExplanationFormat {
    /// Sentences and bars for people.
    #[value(alias = "table")]
    Text,
    /// The answer as proto-JSON.
    Json,
    /// The answer as proto-JSON, in YAML.
    Yaml,
    /// A self-contained page.
    Html,
}

impl ExplainCommand {
    /// Asks and prints.
    pub(crate) async fn run(self) -> Result<Exit> {
        let (question, format) = (self.question, self.output);
        let asked = question.open().await?;
        // A page folds what is too much.
        let for_person = format == ExplanationFormat::Text;
        let request = ExplainRequest {
            snapshot: question.state.snapshot().to_owned(),
            dialect: asked.workload.dialect().into(),
            pod: Some(asked.workload.pod.clone()),
            candidates: question.candidates(),
            node_checks: question.node_checks().into(),
            view: View::Full.into(),
            min_revision: question.min_revision,
            overlay: asked.overlay.clone(),
            max_domains: question.max_domains(for_person),
        };
        let answer = question.ask(&asked, request, rpc!(explain)).await?;
        let format = match format {
            ExplanationFormat::Html => {
                let head = question.head(&asked);
                let origin = question.state.origin();
                let page = |answer: &_| render::explain_html(&head, &origin, answer);
                let html = output::shown(&answer, page);
                output::print_bytes(html.as_bytes())?;
                question.remark(&asked, &answer, true);
                return Ok(Exit::of_nodes(answer.feasible_count > 0));
            }
            ExplanationFormat::Text => AnswerFormat::Table,
            ExplanationFormat::Json => AnswerFormat::Json,
            ExplanationFormat::Yaml => AnswerFormat::Yaml,
        };
        question.print(&asked, format, &answer, render::explain, |answer| {
            answer.feasible.clone()
        })?;
        Ok(Exit::of_nodes(answer.feasible_count > 0))
    }
}
