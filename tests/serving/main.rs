//! The program as it is operated: `evenkeel serve` on a free port, its settings,
//! its start and its end, and what it tells of itself. Also the commands of the
//! documents.
//!
//! One program, because each links all of the crate.

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
mod health_probe;
mod hostile_brokers;
mod hostile_clusters;
mod kubectl_json;
mod kubernetes;
mod kubernetes_settings;
mod limits;
mod load_balancers;
mod operations;
mod over_limits;
mod readiness;
mod reflection;
mod traces;
mod watching;

#[path = "../support/api_server.rs"]
mod api_server;
#[path = "../support/http.rs"]
mod http;
#[path = "../support/metrics.rs"]
mod metrics;
#[path = "../support/ports.rs"]
mod ports;
#[path = "../support/process.rs"]
mod process;
#[path = "../support/streams.rs"]
mod streams;
#[path = "../support/tls_server.rs"]
mod tls_server;
