//! The questions of readers to a named snapshot: decisions, a summary, copies. Each holds one state.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::error::Error;
use super::imagined::Overlaid;
use super::named::Snapshot;
use crate::account::Purpose;
use crate::matching::names;
use crate::proto::v1;
use crate::snapshot::deadline::{Deadline, Stopped};
use crate::snapshot::objects::change::Batch;
use crate::snapshot::objects::defaults::Defaults;
use crate::snapshot::objects::resource_versions::ResourceVersions;
use crate::snapshot::state::pod_groups::PodGroups;
use crate::snapshot::state::reach::Reach;
use crate::snapshot::state::read_view::ReadView;
use crate::snapshot::state::revision::{Sizes, State};

/// A summary of a snapshot, at one moment.
#[derive(Debug, Clone)]
pub struct Summary {
    /// The snapshot's name.
    pub name: String,
    /// The epoch: the id of the snapshot's history.
    pub epoch: String,
    /// The snapshot's version.
    pub revision: i64,
    /// True if decisions are answered.
    pub synced: bool,
    /// The number of objects of each kind.
    pub sizes: Sizes,
    /// The number of live reservations.
    pub reservations: usize,
    /// The snapshot's default constraints.
    pub defaults: Arc<Defaults>,
    /// The versions up to which the snapshot's feed has read its cluster.
    pub resource_versions: Arc<ResourceVersions>,
    /// The number of namespaces with pods, services or controllers.
    pub namespaces: usize,
    /// The number of kept views.
    pub views: usize,
    /// The time when it was created.
    pub created: SystemTime,
    /// The time when the last batch was applied; when the snapshot was created if none was.
    pub updated: SystemTime,
    /// The time since the last batch, even if the wall clock was set.
    pub unchanged_for: Duration,
    /// The time since its feed was heard. `None` when it has no maximum age.
    pub age: Option<Duration>,
    /// True if the snapshot is older than its maximum age.
    pub stale: bool,
    /// The time that the last batch took from its arrival until it was applied.
    pub lag: Duration,
}

/// A part of the nodes of one revision, in node order.
#[derive(Debug)]
pub struct NodePage {
    /// The revision.
    pub revision: i64,
    /// A revision at or after the last change of the order.
    pub ordered_at: i64,
    /// The names.
    pub names: Vec<String>,
    /// The number of all nodes.
    pub node_count: usize,
    /// True if more nodes come after these.
    pub goes_on: bool,
}

impl State {
    /// The deadline of a decision in the background, which has passed once `is_given_up` returns true.
    pub fn deadline<'a>(&'a self, is_given_up: &'a dyn Fn() -> bool) -> Deadline<'a> {
        Deadline::until(is_given_up, self.upkeep.account())
    }

    /// Runs a decision where other calls wait for the thread. It reads no namespace but this one, and
    /// ends with [`Stopped::Large`] if it turns out to be large.
    ///
    /// # Errors
    /// The reason why it was not possible.
    pub fn decide_at_once<T>(
        &self,
        namespace: &str,
        decide: impl FnOnce(ReadView<'_>) -> Result<T, Stopped>,
    ) -> Result<T, Stopped> {
        decide(self.read_view(namespace, None, &Deadline::at_once()))
    }

    /// Runs a decision until `is_given_up` returns true.
    ///
    /// # Errors
    /// Those of the decision, or [`Stopped::Full`].
    pub fn decide<T, E: From<Stopped>>(
        &self,
        reach: Reach<'_>,
        is_given_up: &dyn Fn() -> bool,
        decide: impl FnOnce(ReadView<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        self.decide_within(reach, &[], &self.deadline(is_given_up), decide)
    }

    /// Runs a decision until a deadline.
    fn decide_within<T, E: From<Stopped>>(
        &self,
        reach: Reach<'_>,
        unknown_deletes: &[v1::ObjectReference],
        deadline: &Deadline<'_>,
        decide: impl FnOnce(ReadView<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        let others = reach.others(self, deadline)?;
        decide(ReadView {
            unknown_deletes,
            ..self.read_view(reach.namespace, Some(&others), deadline)
        })
    }

    /// Reads all pods of a namespace, until `is_given_up` returns true.
    ///
    /// # Errors
    /// Those of [`Self::decide`], or of `look`.
    pub fn survey<T, E: From<Stopped>>(
        &self,
        namespace: &str,
        is_given_up: &dyn Fn() -> bool,
        look: impl FnOnce(PodGroups<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        let look = |read_view: ReadView<'_>| look(read_view.pod_groups()?);
        self.decide(Reach::from(namespace), is_given_up, look)
    }

    /// Reads all pods of all namespaces, ascending by name: until `look` fails or `is_given_up`
    /// returns true. Without any namespace it reads the default one.
    ///
    /// # Errors
    /// Those of [`Self::decide`], or of `look`.
    pub fn survey_all<E: From<Stopped>>(
        &self,
        is_given_up: &dyn Fn() -> bool,
        mut look: impl FnMut(&str, PodGroups<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut names = self.namespace_names();
        if names.is_empty() {
            names.push(names::namespace_or_default("").into());
        }
        for name in names {
            self.survey(&name, is_given_up, |pods| look(&name, pods))?;
        }
        Ok(())
    }

    /// The nodes after a name: at most `most` nodes with at most this many bytes, but at least one.
    pub fn nodes_after(&self, name: &str, most: usize, bytes: usize) -> NodePage {
        let nodes = self.nodes();
        let order = nodes.order();
        let start = order.partition_point(|slot| nodes.name(*slot) <= name);
        let mut names: Vec<String> = Vec::new();
        let mut left = bytes;
        for slot in order[start..].iter().take(most) {
            let name = nodes.name(*slot);
            if name.len() > left && !names.is_empty() {
                break;
            }
            left = left.saturating_sub(name.len() + 4);
            names.push(name.to_owned());
        }
        NodePage {
            revision: self.revision,
            ordered_at: nodes.ordered_at,
            goes_on: start + names.len() < order.len(),
            node_count: order.len(),
            names,
        }
    }
}

impl Snapshot {
    /// Runs a decision on one revision of all that it reads. An overlay is applied for this
    /// decision alone.
    ///
    /// # Errors
    /// Those of the decision, or [`Stopped::Full`].
    pub fn read<'q, T>(
        &self,
        reach: impl Into<Reach<'q>>,
        overlay: Batch,
        decide: impl FnOnce(ReadView<'_>) -> Result<T, Stopped>,
    ) -> Result<T, Stopped> {
        self.read_until(reach.into(), overlay, &|| false, decide)
    }

    /// As [`Self::read`], until `is_given_up` returns true.
    ///
    /// # Errors
    /// The decision was given up, or [`Stopped::Full`].
    pub fn read_until<T>(
        &self,
        reach: Reach<'_>,
        overlay: Batch,
        is_given_up: &dyn Fn() -> bool,
        decide: impl FnOnce(ReadView<'_>) -> Result<T, Stopped>,
    ) -> Result<T, Stopped> {
        let state = self.state();
        let deadline = state.deadline(is_given_up);
        if overlay.is_empty() {
            return state.decide_within(reach, &[], &deadline, decide);
        }
        let Overlaid {
            state,
            unknown_deletes,
        } = state.overlaid(&overlay, &deadline)?;
        state.decide_within(reach, &unknown_deletes, &deadline, decide)
    }

    /// Returns a summary of the snapshot.
    pub fn summary(&self) -> Summary {
        let updated = *self.updated.lock();
        let live = self.state();
        let reservations = live.reservations.len();
        let mut sizes = live.sizes;
        // Reservations count as pods in the state, but are none.
        sizes.pods = sizes.pods.saturating_sub(reservations);
        Summary {
            name: self.name().to_owned(),
            epoch: self.epoch().to_owned(),
            revision: live.revision,
            synced: self.is_synced(),
            sizes,
            reservations,
            defaults: Arc::clone(live.defaults()),
            resource_versions: Arc::clone(live.resource_versions()),
            namespaces: live.namespaces.len(),
            views: live.upkeep.view_count(),
            created: self.origin().created,
            updated: updated.wall,
            unchanged_for: self.now().steady.since(updated.steady),
            age: self.age(),
            stale: self.is_stale(),
            lag: self.freshness.lag(),
        }
    }

    /// Holds the present state for long, if there is memory for what changes meanwhile.
    ///
    /// # Errors
    /// [`Error::OverLimit`].
    pub fn hold(&self) -> Result<Arc<State>, Error> {
        self.around.account.check(Purpose::Objects, 0)?;
        Ok(self.state())
    }
}
