//! The port: connections, the threads that serve them, and what every call passes before a service
//! sees it and after it has answered.
//!
//! hyper speaks HTTP/2, and tonic's generated services speak gRPC. tonic's own server is not between
//! them: it ends late calls with CANCELLED, and it hides the connections, which are read in turns and
//! closed when their clients do not read.
//!
//! - Connections: `connections` gives each its turn, and finds those that would hold the server up;
//!   `tls`, `threads`.
//! - Calls: `calls` is before every service. It identifies the caller, and has the limits of each kind
//!   of call.
//! - Messages: `requests` charges the memory of a message before it is decoded (`decoded_size`).
//! - Answers: `responses`.

pub(super) mod calls;
pub(super) mod connections;
mod decoded_size;
pub(super) mod requests;
mod responses;
pub(super) mod threads;
pub(super) mod tls;
