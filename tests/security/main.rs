//! Who can connect and who may do what: TLS, client certificates, tokens,
//! roles, and their files changing while the server runs.

mod access;
mod admin;
mod cli;
mod client;
#[path = "../support/http.rs"]
mod http;
mod identity;
mod pki;
#[path = "../support/process.rs"]
mod process;
mod reload;
mod roles;
mod slow;
mod start;
#[path = "../support/streams.rs"]
mod streams;
mod tls;
