//! The one room that knows gRPC: requests in, plain calls, responses out.

mod service;

pub use service::Service;
