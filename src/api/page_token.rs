//! Page tokens: the end of the previous page, and which list it is of.

use prost::Message;
use twox_hash::XxHash3_64;

use crate::matching::{Path, Violations};

/// The tokens of one list. All servers give the same.
#[derive(Debug)]
pub struct PageTokens {
    list: u64,
}

impl PageTokens {
    /// The tokens of the list that a method gives for a request. The request has to be without the
    /// fields that its pages may differ in.
    pub fn new(method: &str, request: &impl Message) -> Self {
        let method = XxHash3_64::oneshot(method.as_bytes());
        Self {
            list: XxHash3_64::oneshot_with_seed(method, &request.encode_to_vec()),
        }
    }

    /// Returns the token of the page after this last entry.
    pub fn token(&self, last: &str) -> String {
        let check = XxHash3_64::oneshot_with_seed(self.list, last.as_bytes());
        format!("{check:016x}-{last}")
    }

    /// Returns the last entry of the previous page; `None` for the first page, and when the token
    /// is a fault.
    pub fn last<'t>(&self, token: &'t str, faults: &mut Violations) -> Option<&'t str> {
        let (_, last) = token.split_once('-').unwrap_or_default();
        if !token.is_empty() && token != self.token(last) {
            faults.add(Path::root("pageToken"), "is not one of this list");
            return None;
        }
        (!token.is_empty()).then_some(last)
    }
}
