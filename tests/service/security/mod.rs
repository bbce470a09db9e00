//! Tests of connections and rights: TLS, client certificates, tokens, roles, and their files
//! changing while the server runs.

mod access;
mod admin;
mod cli;
mod client;
mod identity;
mod reload;
mod roles;
mod slow;
mod start;
mod tls;

use support::{http, pki, process};
