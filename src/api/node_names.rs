//! `ListNodes`: the names that the bits of bitmaps stand for.

use super::answer::count;
use super::error::Error;
use super::page_token::PageTokens;
use super::read_your_writes::AskedSnapshot;
use super::request;
use crate::matching::{Path, Violations};
use crate::proto::v1;
use crate::snapshot::{Limits, Snapshot};

/// The most bytes of names on a page: less than the 4 MiB that clients accept by default.
const PAGE_BYTES: usize = 3 << 20;

/// A valid `ListNodes` request.
#[derive(Debug)]
pub struct ValidNodeList {
    /// The snapshot, and the revision to wait for.
    pub asked: AskedSnapshot,
    /// The last name of the previous page.
    after: String,
    most: usize,
    tokens: PageTokens,
}

impl ValidNodeList {
    /// Checks a request.
    ///
    /// # Errors
    /// Every fault of the request.
    pub fn of(wire: v1::ListNodesRequest, limits: &Limits) -> Result<Self, Error> {
        let mut faults = Violations::default();
        let snapshot = request::snapshot_name(&wire.snapshot, Path::root("snapshot"), &mut faults);
        request::check_not_negative(wire.page_size.into(), Path::root("pageSize"), &mut faults);
        let list = v1::ListNodesRequest {
            snapshot: wire.snapshot.clone(),
            ..Default::default()
        };
        let tokens = PageTokens::new("ListNodes", &list);
        let after = tokens.last(&wire.page_token, &mut faults);
        let after = after.unwrap_or_default().to_owned();
        let most = match usize::try_from(wire.page_size) {
            Ok(0) | Err(_) => usize::MAX,
            Ok(size) => size,
        };
        let asked = AskedSnapshot::of(snapshot, wire.min_revision, wire.epoch, limits, &mut faults);
        Ok(faults.finish(Self {
            asked,
            after,
            most,
            tokens,
        })?)
    }

    /// A page of the nodes of a snapshot.
    pub fn answer(&self, snapshot: &Snapshot) -> v1::ListNodesResponse {
        let page = snapshot
            .state()
            .nodes_after(&self.after, self.most, PAGE_BYTES);
        let last = page.names.last().filter(|_| page.goes_on);
        v1::ListNodesResponse {
            revision: page.revision,
            epoch: snapshot.epoch().to_owned(),
            node_order_revision: page.ordered_at,
            next_page_token: last.map_or(String::new(), |name| self.tokens.token(name)),
            node_count: count(page.node_count),
            names: page.names,
        }
    }
}
