//! Settings by which the server notices that its answers cannot be trusted: a silent feed,
//! or counts that have drifted.

use std::str::FromStr;
use std::time::Duration;

use super::values::positive_duration;
use crate::api;
use crate::snapshot::MaxAges;

/// The settings by which answers count as untrustworthy.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Trust")]
pub struct TrustSettings {
    /// How old a snapshot may get without a batch; repeatable.
    ///
    /// DURATION is for all snapshots, NAME=DURATION for one. `none` allows any
    /// age and is the default, but for snapshots of --kubernetes: those have 2
    /// minutes. An empty batch counts, so a feed with nothing
    /// to say sends one now and then. The health of an older snapshot is
    /// NOT_SERVING until its next batch, and answers carry its age. Separate
    /// several ages in one value by commas. Of two for the same snapshot the
    /// last one counts.
    #[arg(
        long,
        env = "EVENKEEL_MAX_AGE",
        value_name = "[NAME=]DURATION",
        value_delimiter = ','
    )]
    pub max_age: Vec<MaxAge>,

    /// What to do with decisions on a snapshot that is too old.
    #[arg(
        long,
        env = "EVENKEEL_STALE",
        value_name = "serve|refuse",
        value_enum,
        default_value_t
    )]
    pub stale: Stale,
}

/// A maximum age.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MaxAge {
    /// The snapshot; `None` for all that are not named.
    snapshot: Option<String>,
    /// The maximum age; `None` for any age.
    age: Option<Duration>,
}

/// The treatment of decisions on a snapshot that is too old.
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

#[cfg(feature = "cli")]
impl TrustSettings {
    /// Gives a snapshot a maximum age where the settings say nothing about it.
    pub(crate) fn default_max_age(&mut self, snapshot: &str, age: Duration) {
        let is_about = |it: &MaxAge| it.snapshot.as_deref().is_none_or(|name| name == snapshot);
        if !self.max_age.iter().any(is_about) {
            self.max_age.push(MaxAge {
                snapshot: Some(snapshot.to_owned()),
                age: Some(age),
            });
        }
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
