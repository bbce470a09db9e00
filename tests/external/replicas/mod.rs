//! Tests of several servers on one log: the contract of log engines, and replicas on real
//! nats-servers.

mod brokers;
mod chaos;
mod contract;
mod copies;
mod engine;
mod faults;
mod feeding;
mod fleet;
mod full_disks;
mod histories;
mod lease;
mod links;
mod machines;
mod mishaps;
mod mistakes;
mod namespaces;
mod operators;
mod outcomes;
mod partition;
mod recovery;
mod restarts;
mod room;
mod secured;
mod together;
mod upgrade;
mod users;

use support::{api_server, build, http, metrics, pki, ports, process};
