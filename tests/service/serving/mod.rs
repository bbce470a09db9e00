//! The program as it is operated: `evenkeel serve` on a free port, its settings, its start and its
//! end, and its reports about itself. Also the commands of the documents.
//!
//! The tests are one program, because each test program links the whole crate.

mod admin;
mod chart;
mod configuration;
mod counted;
mod credentials;
mod described;
mod documents;
mod drain;
mod each_limit;
mod feeding;
mod health;
mod hostile_clusters;
mod kubectl_json;
mod kubernetes;
mod kubernetes_settings;
mod limits;
mod not_grpc;
mod operations;
mod over_limits;
mod readiness;
mod reflection;
mod traces;
mod watching;

use support::{api_server, http, metrics, pki, process, streams, tls_server};
