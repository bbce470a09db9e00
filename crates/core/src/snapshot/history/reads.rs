//! The questions of readers to a named snapshot: decisions, a summary, copies. Each holds one state. A
//! plan holds a clone, to which it applies imagined changes.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::named::Snapshot;
use super::offer::Error;
use crate::account::Purpose;
use crate::matching::names;
use crate::proto::v1;
use crate::proto::v1::change::Object;
use crate::snapshot::deadline::{Deadline, Stopped};
use crate::snapshot::objects::change::{Batch, Form, ObjectId};
use crate::snapshot::objects::defaults::Defaults;
use crate::snapshot::objects::reservation::{Hold, Serial};
use crate::snapshot::objects::resource_versions::ResourceVersions;
use crate::snapshot::state::pod_groups::PodGroups;
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

    /// Runs a decision where other calls wait for the thread. It ends with [`Stopped::Large`] if it turns
    /// out to be large.
    ///
    /// # Errors
    /// The reason why it was not possible.
    pub fn decide_at_once<T>(
        &self,
        namespace: &str,
        decide: impl FnOnce(ReadView<'_>) -> Result<T, Stopped>,
    ) -> Result<T, Stopped> {
        decide(self.read_view(namespace, &Deadline::at_once()))
    }

    /// Runs a decision about a namespace until `is_given_up` returns true.
    ///
    /// # Errors
    /// Those of the decision.
    pub fn decide<T, E>(
        &self,
        namespace: &str,
        is_given_up: &dyn Fn() -> bool,
        decide: impl FnOnce(ReadView<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        decide(self.read_view(namespace, &self.deadline(is_given_up)))
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
        self.decide(namespace, is_given_up, look)
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
    /// Runs a decision about a namespace on one revision of all that it reads. An overlay is applied for
    /// this decision alone.
    ///
    /// # Errors
    /// Those of the decision, or [`Stopped::Full`].
    pub fn read<T>(
        &self,
        namespace: &str,
        overlay: Batch,
        decide: impl FnOnce(ReadView<'_>) -> Result<T, Stopped>,
    ) -> Result<T, Stopped> {
        self.read_until(namespace, &overlay, &|| false, decide)
    }

    /// As [`Self::read`], until `is_given_up` returns true.
    ///
    /// # Errors
    /// The decision was given up, or [`Stopped::Full`].
    pub fn read_until<T>(
        &self,
        namespace: &str,
        overlay: &Batch,
        is_given_up: &dyn Fn() -> bool,
        decide: impl FnOnce(ReadView<'_>) -> Result<T, Stopped>,
    ) -> Result<T, Stopped> {
        if overlay.is_empty() {
            return self.state().decide(namespace, is_given_up, decide);
        }
        let decide = |imagined: &mut Imagined<'_>| decide(imagined.read(namespace));
        self.imagine(overlay, is_given_up, decide)
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

/// A clone of a state with imagined changes. It is dropped with the question for which it was made.
pub struct Imagined<'s> {
    state: State,
    deadline: &'s Deadline<'s>,
    /// The deletes of the overlay that hit nothing, in its order.
    unknown_deletes: Vec<v1::ObjectReference>,
    /// The number of picks that count in it.
    held: Serial,
}

/// The number of the first pick in a plan: higher than that of any reservation that is made.
const FIRST_SERIAL: Serial = 1 << 63;

impl Snapshot {
    /// Runs a plan on a clone of one revision, which the plan may change, until `is_given_up`. An overlay
    /// is applied first.
    ///
    /// # Errors
    /// [`Stopped`], or those of the plan.
    pub fn imagine<T, E: From<Stopped>>(
        &self,
        overlay: &Batch,
        is_given_up: &dyn Fn() -> bool,
        plan: impl FnOnce(&mut Imagined<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        let live = self.state();
        let mut imagined = Imagined {
            state: State::clone(&live),
            deadline: &live.deadline(is_given_up),
            unknown_deletes: Vec::new(),
            held: 0,
        };
        if !overlay.is_empty() {
            imagined.lay(overlay)?;
        }
        plan(&mut imagined)
    }
}

impl Imagined<'_> {
    /// Applies an overlay, with the end of the reservations that its pods take over.
    fn lay(&mut self, overlay: &Batch) -> Result<(), Stopped> {
        self.deadline.room()?;
        let reservations = &self.state.reservations;
        let ended = reservations.deletions(&reservations.taken_over(overlay));
        let with_ended = (!ended.is_empty()).then(|| overlay.clone().and(ended));
        let overlay = with_ended.as_ref().unwrap_or(overlay);
        let overlay = &*overlay.under(self.state.defaults().rules());
        let revision = self.state.revision;
        let mut missed: HashSet<ObjectId<'_>> = HashSet::new();
        let state = &mut self.state;
        state.apply_until(overlay, 0, self.deadline, |change, changed| {
            if !changed && matches!(change.form, Form::Delete(_)) {
                missed.insert(change.id);
            }
        })?;
        self.state.revision = revision;
        let unknown = overlay.changes().filter_map(|change| match change.form {
            Form::Delete(uid) if missed.contains(&change.id) => change.id.reference(uid),
            _ => None,
        });
        self.unknown_deletes = unknown.collect();
        Ok(())
    }

    /// The names of the namespaces with objects, ascending.
    pub fn namespaces(&self) -> Vec<Box<str>> {
        self.state.namespace_names()
    }

    /// Reads a namespace with the imagined changes.
    pub fn read<'a>(&'a self, namespace: &'a str) -> ReadView<'a> {
        ReadView {
            unknown_deletes: &self.unknown_deletes,
            ..self.state.read_view(namespace, self.deadline)
        }
    }

    /// Reads what all namespaces share.
    pub fn read_any(&self) -> ReadView<'_> {
        self.read("")
    }

    /// Changes objects, which must be valid.
    ///
    /// # Errors
    /// [`Stopped`].
    pub fn change(&mut self, objects: impl IntoIterator<Item = Object>) -> Result<(), Stopped> {
        let changes = Batch::trusted(objects);
        // A change copies parts of the state, so it takes longer than many items.
        self.deadline.look()?;
        self.deadline.room()?;
        let revision = self.state.revision;
        self.state
            .apply_until(&changes, revision, self.deadline, |_, _| {})
    }

    /// Tries changes. They are undone unless `run` returns that they are kept.
    ///
    /// # Errors
    /// Those of `run`.
    pub fn attempt<T>(
        &mut self,
        run: impl FnOnce(&mut Self) -> Result<(T, bool), Stopped>,
    ) -> Result<T, Stopped> {
        let before = (self.state.clone(), self.held);
        let (tried, is_kept) = run(self)?;
        if !is_kept {
            (self.state, self.held) = before;
        }
        Ok(tried)
    }

    /// The deadline of the plan.
    pub fn deadline(&self) -> &Deadline<'_> {
        self.deadline
    }

    /// Makes picks on nodes count as they do while they are held.
    pub fn hold<'n>(
        &mut self,
        hold: &Hold,
        nodes: impl Iterator<Item = &'n str>,
    ) -> Result<(), Stopped> {
        let serials = FIRST_SERIAL + self.held..;
        let pods: Vec<Object> = serials
            .zip(nodes)
            .map(|(serial, node)| hold.pod(serial, node, ""))
            .collect();
        self.held += pods.len() as Serial;
        self.change(pods)
    }
}
