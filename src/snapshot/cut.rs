//! What a decision reads: one revision of one namespace, and the counts that
//! it asks for.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::counted::Counted;
use super::defaults::Defaults;
use super::hurry::{Delay, Hurry};
use super::label_sets::{LabelSetId, LabelSets};
use super::lenses::Lens;
use super::namespace::Namespace;
use super::nodes::Nodes;
use super::owners::Controller;
use super::partition;
use super::slots::Slot;
use super::upkeep::Upkeep;
use super::view::View;
use super::views::Views;
use crate::matching::Selector;

/// One revision of one namespace.
#[derive(Clone, Copy)]
pub struct Cut<'a> {
    /// The revision.
    pub revision: i64,
    /// The nodes.
    pub nodes: &'a Nodes,
    /// The default constraints.
    pub defaults: &'a Defaults,
    /// The namespace; an empty one if the snapshot has none of the name.
    pub(super) namespace: &'a Namespace,
    pub(super) upkeep: &'a Upkeep,
    /// Whether it has to be over at once.
    pub(super) hurry: Option<&'a Hurry>,
}

/// A question: how many pods that match `selector` count in each domain of a
/// partition of the nodes.
#[derive(Debug, Clone, Copy)]
pub struct Query<'a> {
    /// Which pods are counted.
    pub selector: &'a Selector,
    /// Which nodes are looked at, and what parts them.
    pub partition: &'a partition::Key,
}

/// A label set and the pods with it.
#[derive(Clone, Copy)]
pub struct CountedSet<'a> {
    sets: &'a LabelSets,
    id: LabelSetId,
}

impl<'a> CountedSet<'a> {
    /// Its labels, ascending by key.
    pub fn labels(self) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.sets.texts(self.id)
    }

    /// How many pods count on each node that has any.
    pub fn counts(self) -> impl Iterator<Item = (Slot, u32)> {
        self.sets.counts(self.id)
    }
}

impl<'a> Cut<'a> {
    /// The selector that the defaults have for a pod, if any can be deduced.
    pub fn deduce(
        &self,
        labels: &BTreeMap<String, String>,
        controller: Option<&Controller>,
    ) -> Option<Selector> {
        self.namespace.owners().deduce(labels, controller)
    }

    /// The nodes of a partition.
    pub fn lens(&self, key: &partition::Key) -> Lens {
        let upkeep = self.upkeep;
        self.nodes.lens(key, upkeep.tick(), upkeep.max_view_bytes())
    }

    /// Answers a query: from a view that is kept, or by counting label sets
    /// and keeping the view.
    pub fn count(&self, query: Query<'_>) -> Counted<'a> {
        let now = self.upkeep.tick();
        let lens = self.lens(query.partition);
        let views = self.namespace.views();
        let views = match self.hurry {
            None => views.read(),
            Some(hurry) => match views.try_read() {
                Some(views) => views,
                None => return self.give_up(hurry, Delay::Held, lens),
            },
        };
        let kept = (views.version() == self.upkeep.version())
            .then(|| views.find(query.selector, lens.id))
            .flatten()
            .map(Arc::clone);
        drop(views);
        let view = match kept {
            Some(view) => {
                view.touch(now);
                self.upkeep.tally().view_hits.count_one();
                view
            }
            None => {
                if let Some(hurry) = self.hurry
                    && self.namespace.label_sets().len() > Hurry::MAX_LABEL_SETS
                {
                    return self.give_up(hurry, Delay::Long, lens);
                }
                self.upkeep.tally().view_builds.count_one();
                let sets = self.namespace.label_sets();
                let matched: Vec<_> = sets.matching(query.selector).collect();
                let view = self.build(&matched, &lens, now);
                self.keep(query, view, matched)
            }
        };
        Counted::of(lens, view, self.nodes)
    }

    /// Counts nothing, for a decision that will be made again.
    fn give_up(&self, hurry: &Hurry, delay: Delay, lens: Lens) -> Counted<'a> {
        hurry.give_up(delay);
        let nothing = View::counting(std::iter::empty(), lens.id, &lens.partition, 0);
        Counted::of(lens, Arc::new(nothing), self.nodes)
    }

    /// The label sets whose pods a selector counts, with how many of them
    /// count on each node. Looks at all label sets.
    pub fn matching_sets(&self, selector: &Selector) -> impl Iterator<Item = CountedSet<'a>> {
        let sets = self.namespace.label_sets();
        sets.matching(selector).map(|id| CountedSet { sets, id })
    }

    /// Where terminating pods are that a selector would count otherwise. Looks
    /// at all pods.
    pub fn terminating(&self, selector: &Selector) -> impl Iterator<Item = Slot> {
        let sets = self.namespace.label_sets();
        let mut matching = vec![false; sets.slot_count()];
        for set in sets.matching(selector) {
            matching[set.index()] = true;
        }
        let pods = self.namespace.pods().map(|(_, pod)| pod);
        pods.filter(move |pod| matching[pod.labels.index()] && pod.life.is_terminating())
            .filter_map(|pod| pod.node)
    }

    fn build(&self, matched: &[LabelSetId], lens: &Lens, now: u64) -> View {
        let sets = self.namespace.label_sets();
        let nodes = matched.iter().flat_map(|set| sets.counts(*set));
        View::counting(nodes, lens.id, &lens.partition, now)
    }

    /// Keeps a view, if its question is likely to come again and there is
    /// room.
    fn keep(&self, query: Query<'_>, view: View, matched: Vec<LabelSetId>) -> Arc<View> {
        let bytes = view.memory_bytes();
        let mut views = self.namespace.views().write();
        let version = self.upkeep.version();
        self.upkeep.account(&mut views, |views| views.sync(version));
        if !views.admits(query) {
            return Arc::new(view);
        }
        if !self.upkeep.has_view_room(bytes) {
            self.upkeep.account(&mut views, Views::evict_some);
        }
        if !self.upkeep.has_view_room(bytes) {
            // Other namespaces have taken the room: use it and lose it, and have
            // all of them give some up.
            self.upkeep.note_want();
            return Arc::new(view);
        }
        self.upkeep.account(&mut views, |views| {
            views.insert(query.selector, view, matched)
        })
    }
}
