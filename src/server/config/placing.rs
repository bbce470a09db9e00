//! Limits on placing and reserving.

use std::time::Duration;

use super::values::{count, positive_duration};
use crate::snapshot::Limits;

/// How much may be placed and held.
#[derive(Debug, Clone, clap::Args)]
pub struct PlacingSettings {
    /// Replicas of one Place, and reservations confirmed or released at once.
    #[arg(
        long,
        env = "EVENKEEL_MAX_REPLICAS",
        value_name = "COUNT",
        default_value_t = Limits::default().max_replicas,
        value_parser = count
    )]
    pub max_replicas: usize,

    /// Scores in the steps of one Fleet Place, one per step and cluster.
    #[arg(
        long,
        env = "EVENKEEL_MAX_STEP_SCORES",
        value_name = "COUNT",
        default_value_t = Limits::default().max_step_scores,
        value_parser = count
    )]
    pub max_step_scores: usize,

    /// Live reservations of one snapshot.
    #[arg(
        long,
        env = "EVENKEEL_MAX_RESERVATIONS",
        value_name = "COUNT",
        default_value_t = Limits::default().max_reservations,
        value_parser = count
    )]
    pub max_reservations: usize,

    /// How long a reservation may be held.
    #[arg(
        long,
        env = "EVENKEEL_MAX_RESERVATION_TTL",
        value_name = "DURATION",
        default_value = "1h",
        value_parser = positive_duration
    )]
    pub max_reservation_ttl: Duration,
}
