//! The memory of the steps of a stream: the port charges it as they arrive, and the questions in
//! the steps hold the charge.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::account::Charge;

/// The charges of a stream's steps; an extension of its request. Small steps have none.
#[derive(Clone, Default)]
pub struct StepCharges(Arc<Mutex<HandedOver>>);

#[derive(Default)]
struct HandedOver {
    /// The charges of steps that are not taken yet, in order.
    arrived: VecDeque<Option<Charge>>,
    /// The charge of the step that is being taken.
    current: Option<Charge>,
}

impl StepCharges {
    /// Hands over the charge of the next step that arrived.
    pub fn hand_over(&self, charge: Option<Charge>) {
        self.0.lock().arrived.push_back(charge);
    }

    /// Begins with the next step. At the end of the step its charge is given back, unless a
    /// question holds it.
    pub(super) fn next(&self) -> TakenStep {
        let mut charges = self.0.lock();
        charges.current = charges.arrived.pop_front().flatten();
        TakenStep(self.clone())
    }

    /// Holds the charge of the step that is being taken.
    pub(super) fn hold(&self) -> Option<Charge> {
        self.0.lock().current.take()
    }
}

/// A step that is being taken.
pub(super) struct TakenStep(StepCharges);

impl Drop for TakenStep {
    fn drop(&mut self) {
        self.0.0.lock().current = None;
    }
}
