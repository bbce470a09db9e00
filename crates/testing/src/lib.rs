//! What tests, benches and fuzz targets share: servers and commands that they run, what they ask of
//! servers ([`caller`]) and are refused with ([`refusal`]), objects that they [`build`], the generator
//! of clusters ([`synth`]), the oracle that judges answers ([`recount`]), and the engines and API
//! servers that they run against ([`fake_log`], [`api_server`]).

pub mod agree;
pub mod api_server;
pub mod build;
pub mod caller;
pub mod calls;
pub mod descriptors;
pub mod examples;
pub mod fake_log;
pub mod fixed;
pub mod generate;
pub mod history;
pub mod http;
pub mod in_process;
pub mod linearizable;
pub mod metrics;
pub mod model;
pub mod pki;
pub mod ports;
pub mod process;
pub mod raw;
pub mod reasons;
pub mod recount;
pub mod refusal;
pub mod server;
pub mod sessions;
pub mod streams;
pub mod synth;
pub mod templates;
pub mod tls_server;
pub mod vectors;
