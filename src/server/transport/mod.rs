//! The port: connections, the threads that serve them, and the layer that every call passes before
//! a service sees it and after it has answered.
//!
//! - Connections: `connections`, `tls`, `threads`; `turns` gives each its turn, and `closing` ends
//!   those that would hold the server up.
//! - Calls: `calls` is the one layer before every service, with `identity` and the limits of
//!   `kinds`.
//! - Messages: `messages` and `requests` charge the memory of a message before it is decoded
//!   (`decoded_size`); `decoders` receives large ones.
//! - Answers: `responses`.

pub(super) mod calls;
pub(super) mod closing;
pub(super) mod connections;
mod decoded_size;
pub(super) mod decoders;
pub(super) mod endings;
pub(super) mod identity;
pub(super) mod kinds;
mod message_layout;
mod messages;
mod not_grpc;
pub(super) mod reflection;
mod requests;
mod responses;
pub(super) mod threads;
pub(super) mod tls;
mod turns;
