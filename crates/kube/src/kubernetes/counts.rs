//! Counts and troubles of the feeds inside this process, for the metrics and for `/readyz`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::Histogram;

use evenkeel_core::snapshot::ObjectKind;
use evenkeel_log::lease::Lease;

/// The reason why all objects of a kind are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListReason {
    /// The feed begins, or begins again: all kinds are listed.
    Start,
    /// The watch is too old to continue (410).
    Expired,
    /// A list or a watch failed, and events may be lost.
    Failed,
    /// The API server has an older state than was watched: its storage was restored.
    Restored,
}

impl ListReason {
    /// All reasons, in their order.
    pub const ALL: [Self; 4] = [Self::Start, Self::Expired, Self::Failed, Self::Restored];

    /// The name in metrics and log lines.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Expired => "expired",
            Self::Failed => "failed",
            Self::Restored => "restored",
        }
    }
}

/// The counts of one kind of objects.
#[derive(Debug)]
pub struct KindCounts {
    /// Events of the watch.
    pub events: Counter,
    /// Objects that went to the snapshot.
    pub changes: Counter,
    /// Lists and watches that failed.
    pub errors: Counter,
    /// Objects that were left out: they cannot be read, or the snapshot refuses them.
    pub left_out: Counter,
    /// Lists that began, by reason.
    pub lists: [Counter; ListReason::ALL.len()],
    /// Seconds from the creation of an object until its batch was applied.
    pub lag: Histogram,
}

impl Default for KindCounts {
    fn default() -> Self {
        Self {
            events: Counter::default(),
            changes: Counter::default(),
            errors: Counter::default(),
            left_out: Counter::default(),
            lists: Default::default(),
            lag: durations(),
        }
    }
}

/// A histogram of durations in seconds: 1, 2.5 and 5 of each power of ten, from 1 µs, the time of
/// the smallest decision, to 10 s.
pub fn durations() -> Histogram {
    let microseconds = (0..8).map(|power| 10_u64.pow(power));
    let nanoseconds = microseconds.flat_map(|it| [1_000, 2_500, 5_000].map(|part| it * part));
    Histogram::new(nanoseconds.take(22).map(|bound| bound as f64 / 1e9))
}

/// The counts and troubles of one feed.
#[derive(Debug)]
pub struct FeedCounts {
    snapshot: String,
    /// The counts of each kind.
    pub kinds: Vec<(ObjectKind, KindCounts)>,
    /// The present troubles, by subject.
    troubles: Mutex<BTreeMap<&'static str, String>>,
    /// The lease of the server that feeds, where servers share that work.
    lease: OnceLock<Arc<Lease>>,
}

impl FeedCounts {
    /// The counts of a feed of `snapshot`.
    pub fn new(snapshot: &str) -> Self {
        let kinds = ObjectKind::all().map(|kind| (kind, KindCounts::default()));
        Self {
            snapshot: snapshot.to_owned(),
            kinds: kinds.collect(),
            troubles: Mutex::default(),
            lease: OnceLock::new(),
        }
    }

    /// Records that one of several servers feeds at a time: the server that holds this lease.
    pub fn share(&self, lease: Arc<Lease>) {
        self.lease.get_or_init(|| lease);
    }

    /// Returns whether this server feeds.
    pub fn is_feeding(&self) -> bool {
        self.lease.get().is_none_or(|lease| lease.is_held())
    }

    /// The name of the server that feeds while this one stands by.
    pub fn other_feeder(&self) -> Option<String> {
        let lease = self.lease.get().filter(|lease| !lease.is_held())?;
        lease.holder()
    }

    /// The snapshot that is fed.
    pub fn snapshot(&self) -> &str {
        &self.snapshot
    }

    /// The counts of a kind.
    pub(super) fn of(&self, kind: ObjectKind) -> &KindCounts {
        let found = self.kinds.iter().find(|(of, _)| *of == kind);
        let (_, counts) = found.expect("all kinds are there");
        counts
    }

    /// Sets the trouble of a kind or of the whole feed, named by `about`; `None` ends it. Returns
    /// whether that is a change.
    pub fn trouble(&self, about: &'static str, what: Option<String>) -> bool {
        let mut troubles = self.troubles.lock();
        match what {
            Some(what) => troubles.insert(about, what.clone()) != Some(what),
            None => troubles.remove(about).is_some(),
        }
    }

    /// Returns the present troubles, a line each. Returns none while another server feeds, because
    /// the troubles of this server are then over, or unknown.
    pub fn troubles(&self) -> Vec<String> {
        if self.other_feeder().is_some() {
            return Vec::new();
        }
        let troubles = self.troubles.lock();
        // A trouble of the whole cluster is the trouble of each kind.
        let distinct: BTreeSet<&String> = troubles.values().collect();
        distinct.into_iter().cloned().collect()
    }
}
