//! The services of the port.

use tonic::server::NamedService;
use tower::util::BoxCloneSyncService;

use super::health::HealthState;
use crate::api;
use crate::proto::v1::spread_service_server::SpreadServiceServer;
use crate::server::error::Error;
use crate::server::transport::calls::{OpenService, Services};
use crate::server::transport::reflection;
use crate::server::transport::requests::RequestBody;

/// All services of the port.
///
/// # Errors
/// When reflection cannot read the protocol.
pub(super) fn services(
    service: &api::Service,
    health: &HealthState,
    max_message_bytes: usize,
) -> Result<Services, Error> {
    let spread = SpreadServiceServer::new(service.clone())
        .max_decoding_message_size(max_message_bytes)
        .max_encoding_message_size(max_message_bytes);
    Ok(Services {
        spread,
        others: vec![
            named(health.server()),
            named(reflection::v1().map_err(Error::serve)?),
            named(reflection::v1alpha().map_err(Error::serve)?),
        ],
    })
}

/// A service with its name.
fn named<S>(service: S) -> (&'static str, OpenService)
where
    S: tower::Service<
            http::Request<RequestBody>,
            Response = http::Response<tonic::body::Body>,
            Error = std::convert::Infallible,
            Future: Send,
        >,
    S: NamedService + Clone + Send + Sync + 'static,
{
    (S::NAME, BoxCloneSyncService::new(service))
}
