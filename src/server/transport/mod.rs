//! The port: connections, the threads that serve them, and what every call passes before a service
//! sees it and after it has answered.
//!
//! hyper speaks HTTP/2, and tonic's generated services speak gRPC. tonic's own server is not between
//! them: it answers late calls with CANCELLED, keeps the certificate with which it started, does not
//! stop while a health watch is open, and gives no call a turn.
//!
//! - Connections: `connections`, `tls`, `threads`; `turns` gives each its turn, and finds those that
//!   would hold the server up.
//! - Calls: `calls` is before every service, with `identity` and the limits of
//!   `kinds`.
//! - Messages: `messages` and `requests` charge the memory of a message before it is decoded
//!   (`decoded_size`); `decoders` decodes large ones.
//! - Answers: `responses`.

pub(super) mod calls;
pub(super) mod connections;
mod decoded_size;
pub(super) mod decoders;
pub(super) mod identity;
pub(super) mod kinds;
mod messages;
mod not_grpc;
pub(super) mod reflection;
pub(super) mod requests;
mod responses;
pub(super) mod threads;
pub(super) mod tls;
mod turns;
