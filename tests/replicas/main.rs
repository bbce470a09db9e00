//! Several servers on one log: what engines of logs promise, and replicas on real
//! nats-servers. `deploy/tools.sh` builds nats-server; where that is absent, the
//! tests that need it print one line and pass.

#[path = "../support/api_server.rs"]
#[allow(dead_code)]
mod api_server;
mod audit;
mod brokers;
#[path = "../support/build.rs"]
#[allow(dead_code, unreachable_pub, missing_docs)]
mod build;
mod chaos;
mod contract;
mod engine;
mod feeding;
mod fleet;
mod histories;
mod history;
mod hostile;
#[path = "../support/http.rs"]
mod http;
mod lease;
mod links;
#[path = "../support/metrics.rs"]
mod metrics;
mod operators;
mod outcomes;
mod partition;
#[path = "../security/pki.rs"]
#[allow(dead_code)]
mod pki;
#[path = "../support/ports.rs"]
mod ports;
#[path = "../support/process.rs"]
mod process;
mod secured;
mod together;
mod upgrade;
mod users;
