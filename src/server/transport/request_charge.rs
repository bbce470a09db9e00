//! What a request takes in memory, on the account of the process.

use std::sync::Arc;

use tonic::Status;

use crate::account::{Account, Charge, Part};
use crate::api;

/// What the memory of a call covers of its request, without a charge of its own.
const COVERED: usize = 4 << 10;

/// What is charged for a request so far. Most are small and cost no charge.
pub(super) struct RequestCharge {
    account: Arc<Account>,
    charge: Option<Charge>,
}

impl RequestCharge {
    /// For a request of which nothing has come.
    pub(super) fn new(account: Arc<Account>) -> Self {
        Self {
            account,
            charge: None,
        }
    }

    /// Charges this many more bytes.
    ///
    /// # Errors
    /// When there is no memory for them.
    pub(super) fn grow(&mut self, bytes: usize) -> Result<(), Status> {
        if self.charge.is_none() && bytes <= COVERED {
            return Ok(());
        }
        let open = || self.account.open(Part::Requests);
        let charge = self.charge.get_or_insert_with(open);
        Ok(charge.grow(bytes).map_err(api::Error::from)?)
    }

    /// Hands the charge over to another holder.
    pub(super) fn take(&mut self) -> Option<Charge> {
        self.charge.take()
    }
}
