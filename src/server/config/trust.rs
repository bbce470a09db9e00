//! How the server notices that it cannot vouch for its answers: a silent feed,
//! or counts that have drifted.

use std::str::FromStr;
use std::time::Duration;

use super::values::positive_duration;
use crate::api;
use crate::snapshot::MaxAges;

/// When answers are not to be trusted.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Trust")]
pub struct TrustSettings {
    /// How old a snapshot may get without a batch; repeatable.
    ///
    /// DURATION is for all snapshots, NAME=DURATION for one; `none` is any age,
    /// which is the default. An empty batch counts, so a feed that has nothing
    /// to say sends one now and then. The health name of an older snapshot is
    /// NOT_SERVING until its next batch, and answers carry its age. Several in
    /// one value are separated by commas; of two for the same snapshot the
    /// last one counts.
    #[arg(
        long,
        env = "EVENKEEL_MAX_AGE",
        value_name = "[NAME=]DURATION",
        value_delimiter = ','
    )]
    pub max_age: Vec<MaxAge>,

    /// What becomes of decisions on a snapshot that is older.
    #[arg(
        long,
        env = "EVENKEEL_STALE",
        value_name = "serve|refuse",
        value_enum,
        default_value_t
    )]
    pub stale: Stale,

    /// Recount the next namespace in the background so often; 0s never.
    ///
    /// Namespaces take turns. Less often where a recount takes long: it has no
    /// more than a hundredth of a processor. What has drifted is a fault of the
    /// program: it is logged, counted and repaired.
    #[arg(
        long,
        env = "EVENKEEL_VERIFY_INTERVAL",
        value_name = "DURATION",
        default_value = "10s",
        value_parser = humantime::parse_duration
    )]
    pub verify_interval: Duration,
}

/// A maximum age.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MaxAge {
    /// The snapshot; `None` for all that are not named.
    snapshot: Option<String>,
    /// Its maximum age; `None` for any age.
    age: Option<Duration>,
}

/// What becomes of decisions on a snapshot that is too old.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Stale {
    /// They are answered.
    #[default]
    Serve,
    /// They are refused with FAILED_PRECONDITION.
    Refuse,
}

impl FromStr for MaxAge {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (snapshot, age) = match text.split_once('=') {
            None => (None, text),
            Some((name, age)) => {
                let name = api::parse_snapshot_name(name).map_err(|faults| faults.to_string())?;
                (Some(name), age)
            }
        };
        let age = match age {
            "none" => None,
            age => Some(positive_duration(age)?),
        };
        Ok(Self { snapshot, age })
    }
}

impl From<&TrustSettings> for MaxAges {
    fn from(settings: &TrustSettings) -> Self {
        let mut ages = Self {
            refuse: settings.stale == Stale::Refuse,
            ..Self::default()
        };
        for MaxAge { snapshot, age } in &settings.max_age {
            match snapshot {
                None => ages.default = *age,
                Some(name) => {
                    ages.by_name.insert(name.clone(), *age);
                }
            }
        }
        ages
    }
}
