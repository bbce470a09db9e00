//! The outcome of the attacks, as a table for a person or as JSON.

use std::collections::BTreeMap;
use std::process::ExitCode;

use super::beside::Waits;

/// The longest wait of 99 of 100 health checks, in milliseconds.
const HEALTH_MS: f64 = 50.0;

/// The longest wait of a small Filter, in times of its wait beside nothing.
const TIMES: f64 = 3.0;

/// One attack.
pub struct Row {
    /// The name of the attack.
    pub name: String,
    /// The outcomes of its tries, with the number of each.
    pub outcomes: BTreeMap<String, usize>,
    /// The waits of everybody else for health meanwhile.
    pub health: Waits,
    /// And for a small Filter.
    pub filter: Waits,
    /// The memory of the process when it was most beyond its account.
    pub resident: i64,
    /// The memory beyond the account, less what it was before the attack.
    pub beyond: i64,
}

/// The rows so far, each printed when it is there.
pub struct Table {
    json: bool,
    normal: Option<f64>,
    late: bool,
}

impl Table {
    /// An empty one.
    pub fn new(json: bool) -> Self {
        if !json {
            println!(
                "| attack | tries | health p50 / p99 / longest ms | small Filter p50 / p99 ms | p99 of normal \
                 | resident MiB | more beyond the account MiB | outcome |\n|---|--:|--:|--:|--:|--:|--:|---|"
            );
        }
        Self {
            json,
            normal: None,
            late: false,
        }
    }

    /// Prints one more. The first is the one that the others are held against.
    pub fn add(&mut self, row: Row) {
        let filtered = row.filter.percentile(99);
        let normal = *self.normal.get_or_insert(filtered);
        let times = filtered / normal;
        let is_late = row.health.percentile(99) > HEALTH_MS || times > TIMES;
        self.late |= is_late;
        let tries: usize = row.outcomes.values().sum();
        if self.json {
            let line = serde_json::json!({
                "attack": row.name,
                "tries": tries,
                "outcomes": row.outcomes,
                "failures_of_others": [row.health.failures(), row.filter.failures()],
                "health_ms": [row.health.percentile(50), row.health.percentile(99), row.health.longest()],
                "filter_ms": [row.filter.percentile(50), filtered, row.filter.longest()],
                "filter_of_normal": times,
                "resident_bytes": row.resident,
                "beyond_account_bytes": row.beyond,
                "late": is_late,
            });
            println!("{line}");
            return;
        }
        let count = |(outcome, count): (&String, &usize)| format!("{count} {outcome}");
        let failed = |(why, count): (&String, &usize)| format!("{count} of the others: {why}");
        let failures = [&row.health, &row.filter].map(|waits| waits.failures().iter().map(failed));
        let outcomes = row.outcomes.iter().map(count);
        let outcomes: Vec<String> = outcomes.chain(failures.into_iter().flatten()).collect();
        println!(
            "| {} | {tries} | {:.1} / {:.1} / {:.0} | {:.1} / {filtered:.1} | {times:.1} | {} | {} | {} |",
            row.name,
            row.health.percentile(50),
            row.health.percentile(99),
            row.health.longest(),
            row.filter.percentile(50),
            row.resident >> 20,
            row.beyond >> 20,
            outcomes.join(", "),
        );
    }

    /// Returns whether everybody else was served as promised.
    pub fn judge(&self) -> ExitCode {
        match self.late {
            true => ExitCode::FAILURE,
            false => ExitCode::SUCCESS,
        }
    }
}
