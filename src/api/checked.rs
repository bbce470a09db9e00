//! A valid `Filter` or `Score` request, of either dialect.

use super::answer::{self, Candidates};
use super::error::Error;
use super::request;
use crate::matching::{Path, Violations};
use crate::proto::v1;
use crate::snapshot::{Batch, Delay, Limits, ReadView, Snapshot};
use crate::spread::NodeChecks;

/// What a dialect makes of the pod of a request, and how it answers.
pub trait Ask: Sized {
    /// Checks and compiles the pod of a request, whose field is at `path`.
    ///
    /// # Errors
    /// Every fault of the pod.
    fn compile(pod: Option<v1::Pod>, limits: &Limits, path: Path<'_>) -> Result<Self, Violations>;

    /// What it costs to judge eight nodes by a constraint, in units.
    const UNITS_PER_VERDICT: usize;

    /// Namespace of the pod.
    fn namespace(&self) -> &str;

    /// How many constraints are in force, at most.
    fn constraints(&self, read_view: &ReadView<'_>) -> usize;

    /// Answers as `Filter`, all but epoch and age.
    fn filter(asked: &Checked<Self>, read_view: &ReadView<'_>) -> v1::FilterResponse;

    /// Answers as `Score`, all but epoch and age.
    fn score(asked: &Checked<Self>, read_view: &ReadView<'_>) -> v1::ScoreResponse;

    /// Answers as `Explain`, all but epoch and age.
    fn explain(asked: &Checked<Self>, read_view: &ReadView<'_>) -> v1::ExplainResponse;
}

/// How long a decision may take.
#[derive(Clone, Copy)]
pub enum Pace<'a> {
    /// So short that other calls can wait for it. What would take longer is
    /// not answered.
    AtOnce,
    /// As short, once whoever changes what it reads is done.
    Soon,
    /// As long as it needs, until this says that nobody waits for it.
    Aside(&'a dyn Fn() -> bool),
}

/// What it costs to look a candidate up, in units.
const UNITS_PER_CANDIDATE: usize = 40;

/// What it costs to list a node or a domain.
const UNITS_PER_NAME: usize = 8;

/// A valid request about one pod.
#[derive(Debug)]
pub struct Checked<Q> {
    /// The snapshot that it means.
    pub snapshot: String,
    /// The revision to wait for.
    pub min_revision: i64,
    /// The pod. Apart, because a call in flight is moved about.
    pub question: Box<Q>,
    /// What nodes are checked for.
    pub checks: NodeChecks,
    /// How much of the answer to write.
    pub view: v1::View,
    /// How many domains a report lists.
    pub max_domains: usize,
    /// Only the best so many.
    pub top: Option<usize>,
    candidates: Option<v1::NodeNames>,
    overlay: Batch,
}

impl<Q: Ask> Checked<Q> {
    /// Checks a request.
    ///
    /// # Errors
    /// Every fault of the request.
    pub fn of(wire: v1::ScoreRequest, limits: &Limits) -> Result<Self, Error> {
        let mut faults = Violations::default();
        let snapshot = request::snapshot_name(&wire.snapshot, Path::root("snapshot"), &mut faults);
        let question = Q::compile(wire.pod, limits, Path::root("pod"));
        let question = faults.collect(question.map(Box::new));
        request::check_candidates(wire.candidates.as_ref(), limits, &mut faults);
        let checks = request::node_checks(wire.node_checks, &mut faults);
        let view = request::known(wire.view, Path::root("view"), &mut faults);
        let _: v1::Dialect = request::known(wire.dialect, Path::root("dialect"), &mut faults);
        request::check_not_negative(wire.min_revision, Path::root("minRevision"), &mut faults);
        request::check_not_negative(wire.top.into(), Path::root("top"), &mut faults);
        let max_domains = request::max_domains(wire.max_domains, &mut faults);
        let overlay = request::overlay(wire.overlay, limits, &mut faults);
        let question = match question {
            Some(question) => faults.finish(question)?,
            None => return Err(faults.into()),
        };
        Ok(Self {
            snapshot,
            min_revision: wire.min_revision,
            question,
            checks,
            view,
            max_domains,
            top: usize::try_from(wire.top).ok().filter(|top| *top > 0),
            candidates: wire.candidates,
            overlay,
        })
    }

    /// Answers as `Filter`.
    ///
    /// # Errors
    /// Why it does not.
    pub fn filter(
        &mut self,
        snapshot: &Snapshot,
        pace: Pace<'_>,
    ) -> Result<v1::FilterResponse, Delay> {
        let answer = self.read(snapshot, pace, Q::filter)?;
        let epoch = snapshot.epoch().to_owned();
        let age = answer::age(snapshot.age());
        Ok(v1::FilterResponse {
            epoch,
            age,
            ..answer
        })
    }

    /// Answers as `Score`.
    ///
    /// # Errors
    /// As for [`Self::filter`].
    pub fn score(
        &mut self,
        snapshot: &Snapshot,
        pace: Pace<'_>,
    ) -> Result<v1::ScoreResponse, Delay> {
        let answer = self.read(snapshot, pace, Q::score)?;
        let epoch = snapshot.epoch().to_owned();
        let age = answer::age(snapshot.age());
        Ok(v1::ScoreResponse {
            epoch,
            age,
            ..answer
        })
    }

    /// Answers as `Explain`.
    ///
    /// # Errors
    /// As for [`Self::filter`].
    pub fn explain(
        &mut self,
        snapshot: &Snapshot,
        pace: Pace<'_>,
    ) -> Result<v1::ExplainResponse, Delay> {
        let answer = self.read(snapshot, pace, Q::explain)?;
        let epoch = snapshot.epoch().to_owned();
        let age = answer::age(snapshot.age());
        Ok(v1::ExplainResponse {
            epoch,
            age,
            ..answer
        })
    }

    /// Runs an answer on one read view of the snapshot, with the overlay applied.
    fn read<T>(
        &mut self,
        snapshot: &Snapshot,
        pace: Pace<'_>,
        answer: impl Fn(&Self, &ReadView<'_>) -> T,
    ) -> Result<T, Delay> {
        match pace {
            Pace::AtOnce | Pace::Soon if !self.overlay.is_empty() => Err(Delay::Long),
            Pace::AtOnce | Pace::Soon => {
                let waits = matches!(pace, Pace::Soon);
                let afforded = |read_view: ReadView<'_>| {
                    let affords = read_view.affords(self.units(&read_view));
                    affords.then(|| answer(self, &read_view))
                };
                let namespace = self.question.namespace();
                let answered = snapshot.read_at_once(namespace, waits, afforded)?;
                answered.ok_or(Delay::Long)
            }
            Pace::Aside(is_given_up) => {
                let overlay = std::mem::take(&mut self.overlay);
                let namespace = self.question.namespace();
                snapshot.read_until(namespace, overlay, is_given_up, |read_view| {
                    answer(self, &read_view)
                })
            }
        }
    }

    /// What an answer costs once all is counted, in units.
    fn units(&self, read_view: &ReadView<'_>) -> usize {
        let nodes = read_view.nodes.len();
        let (named, judged) = match &self.candidates {
            Some(candidates) => (candidates.names.len(), candidates.names.len()),
            None => (0, nodes),
        };
        let constraints = self.question.constraints(read_view);
        let listed = match self.view {
            v1::View::Full => 3 * judged,
            _ if self.lists_nodes() => judged,
            _ => judged / usize::BITS as usize,
        };
        let domains = constraints * self.max_domains.min(nodes);
        let verdicts = judged * constraints * Q::UNITS_PER_VERDICT / 8;
        named * UNITS_PER_CANDIDATE + (listed + domains) * UNITS_PER_NAME + verdicts
    }

    /// Whether the caller names the nodes to decide about.
    pub fn names_candidates(&self) -> bool {
        self.candidates.is_some()
    }

    /// The nodes to decide about.
    pub fn candidates<'a>(&self, read_view: &ReadView<'a>) -> Candidates<'a> {
        Candidates::of(self.candidates.as_ref(), read_view)
    }

    /// Whether the answer lists nodes by name.
    pub fn lists_nodes(&self) -> bool {
        matches!(
            self.view,
            v1::View::Unspecified | v1::View::Basic | v1::View::Full
        )
    }
}
