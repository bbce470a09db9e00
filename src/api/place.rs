//! `Place`: a request becomes a plan, which is run and answered. The call and the
//! questions of a stream are all placed here.

use std::sync::Arc;
use std::time::Duration;

use prost::Message;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tonic::Response;

use super::base::Service;
use super::dialect::{Checker, Dialect};
use super::error::Error;
use super::export::timestamp;
use super::logged::logged;
use super::measured::try_measured;
use super::opening::Asker;
use super::reaching::AtLeast;
use super::{answer, permission, request, retry, wish};
use crate::access::{Caller, Role};
use crate::decision_log::Pending;
use crate::limits::Limit;
use crate::matching::{Path, Violations};
use crate::proto::encoded::Encoded;
use crate::proto::v1;
use crate::snapshot::{Batch, DecidedPicks, Hold, Limits, ReadView, Reserved, Retryable, Snapshot};
use crate::spread::{NodeChecks, Pick, PickStep, Picker, Question, Wish};

impl Service {
    /// Places what a request asks for.
    ///
    /// # Errors
    /// Why it is refused.
    pub(super) async fn placed(
        &self,
        request: v1::PlaceRequest,
        by: Asker,
    ) -> Result<Response<Encoded<v1::PlaceResponse>>, Error> {
        let caller = by.caller.as_ref();
        // Reserving changes a snapshot.
        let role = match request.reserve {
            Some(_) => Role::Feeder,
            None => Role::Reader,
        };
        permission::allow(caller, role, &request.snapshot)?;
        let pending = self.begin(|| Some(request.clone()));
        let valid = ValidPlacement::of(request, caller, self.registry.limits())?;
        let snapshot = self.reach(&valid.snapshot, &valid.at_least, by.deadline);
        let snapshot = snapshot.await?;
        // The answer of the first time, if the request comes again.
        if let Some(retry) = &valid.retry
            && let Some(reserving) = snapshot.answered(retry)
        {
            return Ok(retry::answer(&snapshot, reserving)?.map(Encoded::from));
        }
        self.place_valid(valid, snapshot, by, pending).await
    }

    /// Places what was not placed before, on a thread aside.
    async fn place_valid(
        &self,
        mut valid: ValidPlacement,
        snapshot: Arc<Snapshot>,
        by: Asker,
        pending: Option<Pending>,
    ) -> Result<Response<Encoded<v1::PlaceResponse>>, Error> {
        let deadline = by.deadline;
        let lists_placements = valid.lists_placements();
        let write = move |mut answer: Response<v1::PlaceResponse>| {
            if !lists_placements {
                // Only now: the measured size counts the placements.
                answer.get_mut().placements.clear();
            }
            logged(pending, answer).map(Encoded::from)
        };
        // A cancelled call drops its guard, which stops the placing.
        let given_up = CancellationToken::new();
        let _guard = given_up.clone().drop_guard();
        let stop = move || {
            let is_late = || deadline.is_some_and(|at| Instant::now() > at);
            given_up.is_cancelled() || is_late()
        };
        if valid.reserve.is_none() {
            let run = move |_: &dyn Fn() -> bool| {
                try_measured(&snapshot, || valid.answer(&snapshot, &stop)).map(write)
            };
            return self.lanes.decide(&by, run).await?;
        }
        let run = move |_: &dyn Fn() -> bool| {
            let answer = try_measured(&snapshot, || valid.answer(&snapshot, &stop));
            answer.map(|answer| (answer, valid, snapshot, stop))
        };
        let (answer, valid, snapshot, stop) = self.lanes.decide(&by, run).await??;
        // Work that waits for a disk must not take a slot from decisions.
        let hold = move || valid.hold(answer, &snapshot, &stop).map(write);
        self.lanes.change(deadline, hold).await?
    }
}

/// A valid `Place` request.
#[derive(Debug)]
struct ValidPlacement {
    /// The snapshot that it means.
    snapshot: String,
    /// What to wait for.
    at_least: AtLeast,
    question: Box<dyn Dialect>,
    wish: Wish,
    checks: NodeChecks,
    view: v1::View,
    overlay: Batch,
    max_domains: usize,
    reserve: Option<Hold>,
    retry: Option<Retryable>,
    limits: Limits,
}

impl ValidPlacement {
    /// Checks the request of a caller.
    ///
    /// # Errors
    /// Every fault of the request.
    fn of(
        mut wire: v1::PlaceRequest,
        caller: Option<&Caller>,
        limits: &Limits,
    ) -> Result<Self, Error> {
        let retry = retry::retryable(&wire, caller);
        let mut faults = Violations::default();
        let snapshot = request::snapshot_name(&wire.snapshot, Path::root("snapshot"), &mut faults);
        request::check_candidates(wire.candidates.as_ref(), limits, &mut faults);
        let checks = request::node_checks(wire.node_checks, &mut faults);
        let _: v1::Dialect = request::known(wire.dialect, Path::root("dialect"), &mut faults);
        let epoch = std::mem::take(&mut wire.epoch);
        let at_least = AtLeast::of(wire.min_revision, epoch, limits, &mut faults);
        let max_domains = request::max_domains(wire.max_domains, &mut faults);
        let overlay = request::overlay(std::mem::take(&mut wire.overlay), limits, &mut faults);
        let view = request::known(wire.view, Path::root("view"), &mut faults);
        if view == v1::View::Bitmap {
            faults.add(Path::root("view"), "must not be VIEW_BITMAP");
        }
        let checker = Checker::of(wire.dialect);
        let question = faults.collect((checker.pod)(wire.pod.take(), limits));
        let wish = (checker.wish)(&wire, limits, &mut faults);
        retry::check(&wire, limits, &mut faults);
        let reserve = wish::hold(wire.reserve.as_ref(), limits, &mut faults);
        if reserve.is_some() && !overlay.is_empty() {
            faults.add(Path::root("reserve"), "must not be set with an overlay");
        }
        let Some(question) = question else {
            return Err(faults.into());
        };
        let reserve = reserve.map(|(owner, ttl)| hold(question.pod(), owner, ttl));
        Ok(faults.finish(Self {
            snapshot,
            at_least,
            question,
            wish,
            checks,
            view,
            overlay,
            max_domains,
            reserve,
            retry,
            limits: limits.clone(),
        })?)
    }

    /// Places and answers, without holding anything.
    ///
    /// # Errors
    /// [`Error::Deadline`] when `cancelled` said so, and
    /// [`Error::OverLimit`] for too many steps to list.
    fn answer(
        &mut self,
        snapshot: &Snapshot,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<v1::PlaceResponse, Error> {
        let overlay = std::mem::take(&mut self.overlay);
        self.place(snapshot, overlay, cancelled)
    }

    /// Returns whether the answer lists the placements.
    fn lists_placements(&self) -> bool {
        self.view != v1::View::Domains
    }

    /// Reserves what an [answer](Self::answer) has picked, if the request asks
    /// for that. Places again when the snapshot has moved on since. Waits for
    /// other writers, and for a disk.
    ///
    /// # Errors
    /// As for [`Self::answer`], and those of [`Snapshot::reserve`].
    fn hold(
        &self,
        answer: Response<v1::PlaceResponse>,
        snapshot: &Snapshot,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<Response<v1::PlaceResponse>, Error> {
        let Some(hold) = &self.reserve else {
            return Ok(answer);
        };
        let again = || {
            let place = || self.place(snapshot, Batch::default(), cancelled);
            Ok::<_, Error>(decided(try_measured(snapshot, place)?))
        };
        let mut ids = Vec::new();
        let tell = |answer: &mut Response<v1::PlaceResponse>, reserved: Reserved| {
            ids.clone_from(&reserved.ids);
            self.tell(answer.get_mut(), reserved)
        };
        let hold = (hold, self.retry);
        let reserved = snapshot.reserve(hold, &self.limits, decided(answer), again, tell);
        let answer = retry::answer(snapshot, reserved?)?;
        if cancelled() && self.retry.is_none() {
            // Nobody is left to learn what is held.
            if snapshot.release(ids.clone()).is_err() {
                snapshot.abandon(&ids);
            }
            return Err(Error::Deadline);
        }
        Ok(answer)
    }

    /// Writes what was reserved into an answer; the bytes to keep of it.
    fn tell(&self, answer: &mut v1::PlaceResponse, reserved: Reserved) -> Vec<u8> {
        answer.revision = reserved.revision;
        answer.reserved_until = Some(timestamp(reserved.until));
        for (pick, id) in answer.placements.iter_mut().zip(reserved.ids) {
            pick.reservation_id = id;
        }
        if !self.lists_placements() {
            answer.placements.clear();
        }
        match self.retry {
            Some(_) => answer.encode_to_vec(),
            None => Vec::new(),
        }
    }

    /// Gathers what picking needs from a read view, and picks after that is
    /// closed.
    fn place(
        &self,
        snapshot: &Snapshot,
        overlay: Batch,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<v1::PlaceResponse, Error> {
        let reach = self.question.pod().reach();
        let planned =
            snapshot.read_until(reach, overlay, cancelled, |read_view| self.plan(&read_view));
        let (mut picker, response) = planned.map_err(Error::of_aside)?;
        let with_steps = self.view == v1::View::Full;
        if with_steps {
            let scores = picker.step_scores();
            self.limits.check(Limit::StepScores, scores)?;
        }
        let outcome = picker.run(with_steps, cancelled).ok_or(Error::Deadline)?;
        let placement = |pick: Pick| v1::Placement {
            node: pick.node.into(),
            score: pick.score,
            reservation_id: String::new(),
        };
        Ok(v1::PlaceResponse {
            placements: outcome.picks.into_iter().map(placement).collect(),
            unplaced: i32::try_from(outcome.unplaced).unwrap_or(i32::MAX),
            bound: outcome
                .bound
                .map(|it| i32::try_from(it).unwrap_or(i32::MAX)),
            reasons: answer::reason_counts(&outcome.reasons),
            steps: outcome.steps.into_iter().map(step).collect(),
            removed: outcome.removed,
            constraints: self.reports(&*picker),
            ..response
        })
    }

    /// Returns what is gathered from a read view: a picker, and what can be answered already.
    fn plan(&self, read_view: &ReadView<'_>) -> (Box<dyn Picker>, v1::PlaceResponse) {
        let picker = self.question.plan(self.checks, &self.wish, read_view);
        let names = self.wish.candidates.iter().flatten();
        let unknown = names.filter(|name| read_view.nodes.find(name).is_none());
        let response = v1::PlaceResponse {
            revision: read_view.revision,
            constraints_before: self.reports(&*picker),
            unknown_candidates: unknown.cloned().collect(),
            unchecked: self.question.pod().unchecked(self.checks, read_view),
            unknown_deletes: read_view.unknown_deletes.to_vec(),
            defaults: answer::defaults_kind(read_view.defaults),
            ..Default::default()
        };
        (picker, response)
    }

    fn reports(&self, picker: &dyn Picker) -> Vec<v1::ConstraintReport> {
        let reports = picker.reports(self.max_domains);
        reports.iter().map(|r| self.question.report(r)).collect()
    }
}

/// Returns what an answer wants to be held.
fn decided(answer: Response<v1::PlaceResponse>) -> DecidedPicks<Response<v1::PlaceResponse>> {
    let picks = answer.get_ref().placements.iter();
    DecidedPicks {
        revision: answer.get_ref().revision,
        nodes: picks.map(|pick| pick.node.as_str().into()).collect(),
        answer,
    }
}

/// A step for the wire.
fn step(step: PickStep) -> v1::PlacementStep {
    let mut wire = v1::PlacementStep {
        ranking: step.ranking.into_iter().map(Into::into).collect(),
        picked: step.picked.into_iter().map(Into::into).collect(),
        ..Default::default()
    };
    for (node, verdict) in step.verdicts {
        match verdict {
            Ok(score) => wire.scores.push(answer::spread_score(node.into(), score)),
            Err(refusal) => {
                let refused = answer::node_verdict(node.into(), &refusal);
                wire.violations.push(refused);
            }
        }
    }
    wire
}

/// Returns what the picks of a pod count as while they are held.
pub(super) fn hold(pod: &Question, owner: String, ttl: Duration) -> Hold {
    Hold {
        owner: owner.into(),
        ttl,
        namespace: pod.namespace.as_str().into(),
        labels: Arc::new(pod.subject.labels.clone()),
        requests: pod.checks.requests().cloned().unwrap_or_default(),
        keeps_away: pod.affinity.apart.iter().cloned().collect(),
    }
}
