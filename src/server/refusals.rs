//! Refusals on their way out: those of the gRPC library become ours, and all
//! are counted.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use http::HeaderMap;
use tonic::{Code, Status};
use tonic_types::StatusExt;

use super::Counts;
use crate::api;

/// Looks at how calls end.
#[derive(Clone)]
pub(super) struct Refusals {
    pub(super) max_message_bytes: usize,
    pub(super) counts: Arc<Counts>,
}

impl Refusals {
    /// Puts the right status into the headers or trailers that end a call, and
    /// counts it. Costs a look-up for calls that succeed.
    pub(super) fn amend(&self, headers: &mut HeaderMap) {
        let Some(code) = headers.get(Status::GRPC_STATUS) else {
            return;
        };
        let code = Code::from_bytes(code.as_bytes());
        if code == Code::Ok {
            return;
        }
        if let Some(error) = self.of_library(code, headers) {
            Status::from(error)
                .add_header(headers)
                .expect("text and details are encoded for headers");
        }
        self.count(headers);
    }

    /// What a status of the library stands for. The service itself never
    /// answers OUT_OF_RANGE, and INTERNAL only with details.
    fn of_library(&self, code: Code, headers: &HeaderMap) -> Option<api::Error> {
        match code {
            Code::OutOfRange => Some(api::Error::OverLimit {
                what: "message bytes",
                name: "max-message-bytes",
                limit: self.max_message_bytes,
                retry_after: None,
            }),
            Code::Internal if !headers.contains_key("grpc-status-details-bin") => {
                let status = Status::from_header_map(headers)?;
                Some(api::Error::Undecodable(status.message().to_owned()))
            }
            _ => None,
        }
    }

    fn count(&self, headers: &HeaderMap) {
        let Some(status) = Status::from_header_map(headers) else {
            return;
        };
        match status.code() {
            Code::Unauthenticated => {
                self.counts.unauthenticated.fetch_add(1, Ordering::Relaxed);
            }
            Code::PermissionDenied => {
                self.counts.denied.fetch_add(1, Ordering::Relaxed);
            }
            Code::ResourceExhausted => {
                let info = status.get_details_error_info();
                let limit = info.and_then(|mut info| info.metadata.remove("limit"));
                if let Some(limit) = limit {
                    *self.counts.over_limit.lock().entry(limit).or_default() += 1;
                }
            }
            _ => {}
        }
    }
}
