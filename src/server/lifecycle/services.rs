//! What the port offers: every service, behind one layer.

use tokio_util::sync::CancellationToken;
use tonic::service::LayerExt;
use tonic::transport;
use tower::ServiceBuilder;

use super::health::Board;
use crate::api;
use crate::proto::v1::spread_service_server::SpreadServiceServer;
use crate::server::config::Config;
use crate::server::error::Error;
use crate::server::transport::calls::{CallLimits, Offered};
use crate::server::transport::{endings, reflection};

/// How much of a feed may be on its way unread: enough for several batches,
/// so that a feeder never waits for a window to open.
const STREAM_WINDOW_BYTES: u32 = 512 << 10;

/// The same over all streams of a connection.
const CONNECTION_WINDOW_BYTES: u32 = STREAM_WINDOW_BYTES;

/// The largest piece that a client may send at once: as much as is read of a
/// connection in one turn. A batch in 16 KiB pieces, which is what HTTP/2 starts
/// with, costs twice the reads.
const FRAME_BYTES: u32 = 64 << 10;

/// All services behind one listener, with one layer before all of them: the
/// rules for calls apply to every service.
pub(super) fn router(
    config: &Config,
    service: api::Service,
    limits: CallLimits,
    health: &Board,
    draining: &CancellationToken,
) -> Result<Offered, Error> {
    let max_message_bytes = config.limits.max_message_bytes;
    let spread = SpreadServiceServer::new(service)
        .max_decoding_message_size(max_message_bytes)
        .max_encoding_message_size(max_message_bytes);

    let (requests, responses) = (draining.clone(), draining.clone());
    let ending = ServiceBuilder::new()
        .map_request(move |request| endings::end_request(&requests, request))
        .map_response(move |response| endings::end_response(&responses, response));
    let reflection_v1 = reflection::v1().map_err(|error| Error::Serve(error.into()))?;
    let reflection_v1alpha = reflection::v1alpha().map_err(|error| Error::Serve(error.into()))?;
    Ok(transport::Server::builder()
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_frame_size(FRAME_BYTES)
        .max_concurrent_streams(u32::try_from(config.limits.max_calls_per_connection).ok())
        .http2_keepalive_interval(Some(config.connections.keepalive_interval))
        .http2_keepalive_timeout(Some(config.connections.keepalive_timeout))
        .layer(limits)
        .add_service(spread)
        .add_service(ending.named_layer(health.server()))
        .add_service(ending.named_layer(reflection_v1))
        .add_service(ending.named_layer(reflection_v1alpha)))
}
