//! Replaces the gRPC library's refusals by ours.

use http::HeaderMap;
use tonic::{Code, Status};

use crate::api;
use crate::limits::{Exceeded, Limit};

/// The trailers that end an answer with a status.
pub fn trailers(status: &Status) -> HeaderMap {
    let mut trailers = HeaderMap::new();
    put(status, &mut trailers);
    trailers
}

fn put(status: &Status, headers: &mut HeaderMap) {
    status
        .add_header(headers)
        .expect("text and details are encoded for headers");
}

/// Checks the statuses with which calls end.
#[derive(Clone, Copy)]
pub struct LibraryRefusals {
    pub max_message_bytes: usize,
}

impl LibraryRefusals {
    /// Puts the right status into the headers or trailers that end a call. Costs one look-up for
    /// calls that succeed.
    pub fn amend(&self, headers: &mut HeaderMap) {
        let Some(code) = headers.get(Status::GRPC_STATUS) else {
            return;
        };
        let code = Code::from_bytes(code.as_bytes());
        if code == Code::Ok {
            return;
        }
        if let Some(error) = self.of_library(code, headers) {
            put(&error.into(), headers);
        }
    }

    /// The meaning of a status of the library. The service itself never answers
    /// OUT_OF_RANGE, and INTERNAL only with details.
    fn of_library(&self, code: Code, headers: &HeaderMap) -> Option<api::Error> {
        match code {
            Code::OutOfRange => Some(api::Error::OverLimit(Exceeded {
                limit: Limit::MessageBytes,
                most: self.max_message_bytes,
                actual: None,
            })),
            Code::Internal if !headers.contains_key("grpc-status-details-bin") => {
                let status = Status::from_header_map(headers)?;
                Some(api::Error::Undecodable(status.message().to_owned()))
            }
            _ => None,
        }
    }
}
