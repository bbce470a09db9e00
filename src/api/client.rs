//! A client of the service without a socket in between.

use std::error::Error;

use tonic::body::Body;
use tonic::codegen::http;
use tower::ServiceExt;
use tower::util::BoxCloneSyncService;

use super::base::Service;
use crate::proto::v1::spread_service_server::SpreadServiceServer;

/// The largest message to send or take, in bytes. A client trusts the server that it was configured
/// for, and the answer about a large cluster is large.
pub const MAX_MESSAGE_BYTES: usize = 1 << 30;

/// Takes calls, over a socket or without one.
pub type Transport = BoxCloneSyncService<
    http::Request<Body>,
    http::Response<Body>,
    Box<dyn Error + Send + Sync + 'static>,
>;

impl Service {
    /// Takes calls from this process. Callers are not told apart, and access rules do not apply:
    /// only the port enforces them.
    pub fn in_process(self) -> Transport {
        let server = SpreadServiceServer::new(self)
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
            .max_encoding_message_size(MAX_MESSAGE_BYTES);
        BoxCloneSyncService::new(ServiceExt::<http::Request<Body>>::map_err(
            server,
            Into::into,
        ))
    }
}
