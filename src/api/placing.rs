//! How a `Place` request becomes an answer. The call and the questions of a stream
//! are all placed here.

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tonic::Response;

use super::base::Service;
use super::error::Error;
use super::logged::logged;
use super::measured::try_measured;
use super::opening::Asker;
use super::permission;
use super::place::{self, ValidPlacement};
use crate::proto::encoded::Encoded;
use crate::proto::v1;

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
        permission::allow(caller, place::role(&request), &request.snapshot)?;
        let pending = self.begin(|| Some(request.clone()));
        let deadline = by.deadline;
        let limits = self.registry.limits();
        let mut valid = ValidPlacement::of(request, caller, limits)?;
        let snapshot = self
            .reach(&valid.snapshot, &valid.at_least, deadline)
            .await?;
        if let Some(answer) = valid.repeated(&snapshot)? {
            return Ok(answer.map(Encoded::from));
        }
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
        if !valid.reserves() {
            let run = move |_: &dyn Fn() -> bool| {
                try_measured(&snapshot, || valid.answer(&snapshot, &stop)).map(write)
            };
            return self.lanes.decide(&by.who, deadline, run).await?;
        }
        let run = move |_: &dyn Fn() -> bool| {
            let answer = try_measured(&snapshot, || valid.answer(&snapshot, &stop));
            answer.map(|answer| (answer, valid, snapshot, stop))
        };
        let (answer, valid, snapshot, stop) = self.lanes.decide(&by.who, deadline, run).await??;
        // Work that waits for a disk must not take a slot from decisions.
        let hold = move || valid.hold(answer, &snapshot, &stop).map(write);
        self.lanes.change(deadline, hold).await?
    }
}
