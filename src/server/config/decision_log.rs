//! The decision log.

use std::path::PathBuf;

use super::values::count;
use crate::decision_log::{FileSettings, Settings};

/// Where decisions are logged, and how many of them.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Decision log")]
pub struct DecisionLogSettings {
    /// Log decisions to this file, one JSON object per line.
    ///
    /// The log holds the questions, with labels of pods and names of nodes,
    /// and the answers in brief. `evenkeel replay` repeats the decisions.
    #[arg(long, env = "EVENKEEL_DECISION_LOG", value_name = "FILE")]
    pub decision_log: Option<PathBuf>,

    /// Share of the decisions to log: more than 0, up to 1.
    ///
    /// A logged decision takes some 40 % more CPU. The default keeps that
    /// below 10 % of the whole.
    #[arg(
        long,
        env = "EVENKEEL_DECISION_LOG_SAMPLE",
        value_name = "RATE",
        default_value_t = 0.1,
        value_parser = rate
    )]
    pub decision_log_sample: f64,

    /// Size in bytes at which a new file begins.
    ///
    /// FILE becomes FILE.1, FILE.1 becomes FILE.2, and so on.
    #[arg(
        long,
        env = "EVENKEEL_DECISION_LOG_MAX_BYTES",
        value_name = "BYTES",
        default_value_t = 100 << 20,
        value_parser = count
    )]
    pub decision_log_max_bytes: usize,

    /// How many files to keep, including the current one.
    #[arg(
        long,
        env = "EVENKEEL_DECISION_LOG_MAX_FILES",
        value_name = "COUNT",
        default_value_t = 5,
        value_parser = count
    )]
    pub decision_log_max_files: usize,
}

impl DecisionLogSettings {
    /// What to log, if anything.
    pub fn settings(&self) -> Option<Settings> {
        Some(Settings {
            files: FileSettings {
                path: self.decision_log.clone()?,
                max_bytes: self.decision_log_max_bytes as u64,
                max_files: self.decision_log_max_files,
            },
            sample: self.decision_log_sample,
        })
    }
}

fn rate(text: &str) -> Result<f64, &'static str> {
    match text.parse() {
        Ok(rate) if rate > 0.0 && rate <= 1.0 => Ok(rate),
        _ => Err("expected a number above 0, up to 1"),
    }
}
