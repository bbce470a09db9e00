//! The port: connections, the threads that serve them, and what every call passes before a service
//! sees it and after it has answered.
//!
//! hyper speaks HTTP/2, and tonic's generated services speak gRPC. tonic's own server is not between
//! them: it answers late calls with CANCELLED, keeps the certificate with which it started, does not
//! stop while a health watch is open, and gives no call a turn.
//!
//! - Connections: `connections` and `tls`. Each connection gets its turn, and those that would hold the
//!   server up are found.
//! - Calls: `calls` is before every service. It identifies the caller, and has the limits of each kind
//!   of call.
//! - Messages: `requests` charges the memory of a message before it is decoded (`decoded_size`).
//! - Answers: `responses`.

pub(super) mod calls;
pub(super) mod connections;
mod decoded_size;
pub(super) mod requests;
mod responses;
pub(super) mod tls;
