//! The constraints that are in force for a pod on one cut of a snapshot: its
//! own, or the default ones with their deduced selector
//! (`docs/semantics.md`, "Constraints of a pod").

use std::borrow::Cow;

use super::question::Question;
use crate::matching::{Constraint, Policy, Selector};
use crate::proto::v1;
use crate::snapshot::{Cut, Eligibility, Query};

/// The constraints in force.
#[derive(Debug)]
pub struct Constraints<'a> {
    /// The constraints, in order.
    pub all: Vec<Active<'a>>,
    /// Whether Score leaves out nodes that lack any topology key: always, but
    /// for Kubernetes' own default constraints.
    pub all_keys_required: bool,
}

/// A constraint in force.
#[derive(Debug)]
pub struct Active<'a> {
    /// Its index in the pod's or the default constraints.
    pub index: usize,
    /// The constraint.
    pub constraint: &'a Constraint,
    /// Its selector, in full.
    pub selector: Cow<'a, Selector>,
    /// 1 when the selector matches the incoming pod's own labels, else 0.
    pub self_match: i64,
    /// Whether it is one of the default constraints.
    pub from_defaults: bool,
}

impl<'a> Constraints<'a> {
    /// Those in force for a question.
    pub fn of(question: &'a Question, cut: &Cut<'a>) -> Self {
        let active = |index, constraint, selector: Cow<'a, Selector>, from_defaults| Active {
            index,
            constraint,
            self_match: i64::from(selector.matches_labels(&question.labels)),
            selector,
            from_defaults,
        };
        if !question.constraints.is_empty() {
            let own = question.constraints.iter().enumerate();
            let own = own.map(|(i, (c, selector))| active(i, c, Cow::Borrowed(selector), false));
            return Self {
                all: own.collect(),
                all_keys_required: true,
            };
        }
        let defaults = &cut.defaults.constraints;
        let owners = cut.namespace.owners();
        let deduced = (!defaults.is_empty())
            .then(|| owners.deduce(&question.labels, question.controller.as_ref()))
            .flatten();
        let all = deduced.iter().flat_map(|selector| {
            let all = defaults.iter().enumerate();
            all.map(|(i, c)| active(i, c, Cow::Owned(selector.clone()), true))
        });
        Self {
            all: all.collect(),
            all_keys_required: !cut.defaults.system,
        }
    }

    /// The hard constraints, in order.
    pub fn hard(&self) -> impl Iterator<Item = &Active<'a>> {
        self.all.iter().filter(|active| active.constraint.is_hard())
    }

    /// The soft constraints, in order.
    pub fn soft(&self) -> impl Iterator<Item = &Active<'a>> {
        self.all
            .iter()
            .filter(|active| !active.constraint.is_hard())
    }
}

impl Active<'_> {
    /// What the constraint wants to know of a snapshot, looking only at nodes
    /// that have all of `required_keys`.
    pub fn query<'q>(
        &'q self,
        question: &'q Question,
        required_keys: Box<[&'q str]>,
        missing_is_empty: bool,
    ) -> Query<'q> {
        let honors = |policy| policy == Policy::Honor;
        let affinity = honors(self.constraint.node_affinity_policy).then_some(&question.affinity);
        let tolerations = honors(self.constraint.node_taints_policy);
        Query {
            selector: &self.selector,
            topology_key: &self.constraint.topology_key,
            missing_is_empty,
            eligibility: Eligibility {
                required_keys,
                affinity: affinity.filter(|affinity| !affinity.is_any()),
                tolerations: tolerations.then_some(&question.tolerations),
            },
        }
    }

    /// The constraint as evaluated, for the wire.
    pub fn to_wire(&self) -> v1::TopologySpreadConstraint {
        self.constraint.to_wire(self.selector.to_wire())
    }
}
