//! `Place`: a request becomes a plan, which is run and answered. The call and the
//! questions of a stream are all placed here.

use std::sync::Arc;

use prost::Message;
use prost::bytes::Bytes;
use tonic::Response;

use super::base::Service;
use super::error::Error;
use super::export::timestamp;
use super::noted::{logged, try_measured};
use super::placing::Placing;
use super::read_your_writes::AskedSnapshot;
use super::request_context::RequestContext;
use super::{dialect, permission, place_options, place_workloads, request, retry};
use crate::access::Role;
use crate::decision_log::Pending;
use crate::matching::{Path, Violations};
use crate::proto::encoded::{encode, encode_within};
use crate::proto::v1;
use crate::snapshot::{Batch, DecidedPicks, Limits, Reserved, Retryable, Snapshot};

impl Service {
    /// Places the replicas of a request.
    ///
    /// # Errors
    /// The reason why the request is refused.
    pub(super) async fn placed(
        &self,
        request: v1::PlaceRequest,
        by: RequestContext,
    ) -> Result<Response<Bytes>, Error> {
        let caller = by.caller.as_ref();
        // Reserving changes a snapshot.
        let role = match request.reserve {
            Some(_) => Role::Feeder,
            None => Role::Reader,
        };
        permission::allow(caller, role, &request.snapshot)?;
        let pending = self.begin(|| Some(request.clone()));
        let valid = ValidPlacement::of(request, &by, self.registry.limits())?;
        let snapshot = self.reach(&valid.asked, by.deadline).await?;
        // A repeated request gets the answer of the first time.
        if let Some(retry) = &valid.retry
            && let Some(reserving) = snapshot.answered(retry)
        {
            return Ok(retry::answer(&snapshot, reserving)?.map(encode));
        }
        self.place_valid(valid, snapshot, by, pending).await
    }

    /// Places a request that was not placed before, on a thread aside.
    async fn place_valid(
        &self,
        mut valid: ValidPlacement,
        snapshot: Arc<Snapshot>,
        by: RequestContext,
        pending: Option<Pending>,
    ) -> Result<Response<Bytes>, Error> {
        let (registry, lists_placements) = (Arc::clone(&self.registry), valid.lists_placements());
        let write = move |mut answer: Response<v1::PlaceResponse>| {
            if !lists_placements {
                // The measured size counts the placements, so they are cleared only now.
                answer.get_mut().placements.clear();
            }
            let answer = logged(pending, answer);
            let encoded = encode_within(answer.get_ref(), registry.limits())?;
            Ok::<_, Error>(answer.map(|_| encoded))
        };
        if !valid.reserves {
            let run = move |stop: &dyn Fn() -> bool| {
                try_measured(&snapshot, || valid.answer(&snapshot, stop)).and_then(write)
            };
            return self.executor.decide(&by, run).await?;
        }
        let run = move |stop: &dyn Fn() -> bool| {
            let answer = try_measured(&snapshot, || valid.answer(&snapshot, stop));
            answer.map(|answer| (answer, valid, snapshot))
        };
        let (answer, valid, snapshot) = self.executor.decide(&by, run).await??;
        // Work that waits for a disk must not take a slot from decisions.
        let (_guard, stop) = by.watched();
        let hold = move || valid.hold(answer, &snapshot, &stop).and_then(write);
        self.executor.change(&by, hold).await?
    }
}

/// A valid `Place` request.
#[derive(Debug)]
struct ValidPlacement {
    /// The snapshot, and the revision to wait for.
    asked: AskedSnapshot,
    placing: Placing,
    overlay: Batch,
    /// True if the picks are reserved.
    reserves: bool,
    retry: Option<Retryable>,
}

impl ValidPlacement {
    /// Checks the request of a caller.
    ///
    /// # Errors
    /// Every fault of the request, or [`Error::Deadline`].
    fn of(mut wire: v1::PlaceRequest, by: &RequestContext, limits: &Limits) -> Result<Self, Error> {
        let retry = retry::retryable(&wire, by.caller.as_ref());
        let mut faults = Violations::default();
        let snapshot = request::snapshot_name(&wire.snapshot, Path::root("snapshot"), &mut faults);
        request::check_candidates(wire.candidates.as_ref(), limits, &mut faults);
        let checks = request::node_checks(wire.node_checks, &mut faults);
        let _: v1::Dialect = request::known(wire.dialect, Path::root("dialect"), &mut faults);
        let epoch = std::mem::take(&mut wire.epoch);
        let asked = AskedSnapshot::of(snapshot, wire.min_revision, epoch, limits, &mut faults)
            .and_read(std::mem::take(&mut wire.min_resource_versions), &mut faults);
        let max_domains = request::max_domains(wire.max_domains, &mut faults);
        let overlay = std::mem::take(&mut wire.overlay);
        let overlay = request::overlay(overlay, limits, by, &mut faults)?;
        let view = request::known(wire.view, Path::root("view"), &mut faults);
        if view == v1::View::Bitmap {
            faults.add(Path::root("view"), "must not be VIEW_BITMAP");
        }
        let is_list = !wire.workloads.is_empty();
        let workloads = place_workloads::workloads(&mut wire, by, limits, &mut faults);
        by.look()?;
        let options = dialect::options(&wire, limits, &mut faults);
        let all_or_nothing = place_options::is_all_or_nothing(&wire, &mut faults);
        retry::check(&wire, limits, &mut faults);
        let reserve = place_options::hold(wire.reserve.as_ref(), limits, &mut faults);
        if reserve.is_some() && !overlay.is_empty() {
            faults.add(Path::root("reserve"), "must not be set with an overlay");
        }
        let reserves = reserve.is_some();
        let (owner, ttl) = reserve.unwrap_or_default();
        let holds = workloads.iter();
        let holds = holds.map(|it| it.question.pod().hold(owner.clone(), ttl));
        let placing = Placing {
            holds: holds.collect(),
            workloads,
            is_list,
            all_or_nothing,
            options,
            named: place_options::named(&wire),
            checks,
            view,
            max_domains,
            limits: limits.clone(),
        };
        Ok(faults.finish(Self {
            asked,
            placing,
            overlay,
            reserves,
            retry,
        })?)
    }

    /// Places and answers, without reserving.
    ///
    /// # Errors
    /// [`Error::Deadline`] when `cancelled` returned true, and [`Error::OverLimit`] for too many
    /// steps to list.
    fn answer(
        &mut self,
        snapshot: &Snapshot,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<v1::PlaceResponse, Error> {
        let overlay = std::mem::take(&mut self.overlay);
        self.placing.answer(snapshot, overlay, cancelled)
    }

    fn lists_placements(&self) -> bool {
        self.placing.view != v1::View::Domains
    }

    /// Reserves the picks of an [answer](Self::answer). Places again if the snapshot has moved on
    /// since. Waits for other writers, and for a disk.
    ///
    /// # Errors
    /// As for [`Self::answer`], and those of [`Snapshot::reserve`].
    fn hold(
        &self,
        answer: Response<v1::PlaceResponse>,
        snapshot: &Snapshot,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<Response<v1::PlaceResponse>, Error> {
        let again = || {
            let place = || self.placing.answer(snapshot, Batch::default(), cancelled);
            Ok::<_, Error>(decided(try_measured(snapshot, place)?))
        };
        let mut ids = Vec::new();
        let tell = |answer: &mut Response<v1::PlaceResponse>, reserved: Reserved| {
            ids.clone_from(&reserved.ids);
            self.tell(answer.get_mut(), reserved)
        };
        let holds = (&*self.placing.holds, self.retry);
        let limits = &self.placing.limits;
        let reserved = snapshot.reserve(holds, limits, decided(answer), again, tell);
        let answer = retry::answer(snapshot, reserved?)?;
        if cancelled() && self.retry.is_none() {
            // The caller is gone and would not learn of the reservations, so they end.
            // If that fails, their time ends them.
            let _ = snapshot.release(ids);
            return Err(Error::Deadline);
        }
        Ok(answer)
    }

    /// Writes the reservations into an answer. Returns the bytes to keep for a repeated request.
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
}

/// Returns the picks that an answer wants to reserve.
fn decided(answer: Response<v1::PlaceResponse>) -> DecidedPicks<Response<v1::PlaceResponse>> {
    let picks = answer.get_ref().placements.iter();
    let picks = picks.map(|pick| {
        let workload = usize::try_from(pick.workload).unwrap_or(0);
        (workload, pick.node.as_str().into())
    });
    DecidedPicks {
        revision: answer.get_ref().revision,
        picks: picks.collect(),
        answer,
    }
}
