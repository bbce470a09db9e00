//! What values flags take, and how limits become the registry's.

use std::time::Duration;

use clap::Args;

use super::{Config, LimitSettings};
use crate::snapshot::Limits;

impl From<&LimitSettings> for Limits {
    fn from(settings: &LimitSettings) -> Self {
        Self {
            max_changes_per_batch: settings.max_changes_per_batch,
            max_overlay_changes: settings.max_overlay_changes,
            max_constraints_per_pod: settings.max_constraints_per_pod,
            max_snapshots: settings.max_snapshots,
            max_nodes: settings.max_nodes,
            max_pods: settings.max_pods,
            max_label_sets: settings.max_label_sets,
            max_owners: settings.max_owners,
            max_view_bytes: settings.max_view_bytes,
            max_replicas: settings.placing.max_replicas,
            max_step_scores: settings.placing.max_step_scores,
            max_reservations: settings.placing.max_reservations,
            max_reservation_ttl: settings.placing.max_reservation_ttl,
            max_pod_spec_bytes: settings.stored.max_pod_spec_bytes,
            max_string_bytes: settings.max_string_bytes,
        }
    }
}

/// Limits over which nobody is refused: what is over them waits.
const WAITED_FOR: [&str; 2] = ["max-running-decisions", "max-calls-per-connection"];

/// The names of all limits over which calls and connections are refused.
pub fn limit_names() -> Vec<String> {
    let command = Config::augment_args(clap::Command::default());
    let limits = command
        .get_arguments()
        .filter(|arg| matches!(arg.get_help_heading(), Some("Limits" | "Clients")));
    let flags = limits.filter_map(clap::Arg::get_long);
    // Durations refuse nothing.
    let refusing = flags.filter(|flag| flag.starts_with("max-") && !WAITED_FOR.contains(flag));
    refusing.map(str::to_owned).collect()
}

/// A whole number from 1. Upper bounds come from `tokio`'s semaphores.
pub(super) fn count(text: &str) -> Result<usize, &'static str> {
    match text.parse() {
        Ok(count) if (1..=tokio::sync::Semaphore::MAX_PERMITS).contains(&count) => Ok(count),
        _ => Err("expected a whole number from 1"),
    }
}

/// A whole number of bytes that gRPC's four-byte length can hold.
pub(super) fn message_bytes(text: &str) -> Result<usize, &'static str> {
    match text.parse::<u32>() {
        Ok(bytes) if bytes >= 1_024 => Ok(bytes as usize),
        _ => Err("expected a whole number of bytes from 1024 to 4294967295"),
    }
}

pub(super) fn positive_duration(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(Duration::ZERO) => Err("expected a duration above zero".into()),
        Ok(duration) => Ok(duration),
        Err(error) => Err(error.to_string()),
    }
}
