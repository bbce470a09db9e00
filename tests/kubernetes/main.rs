//! `evenkeel serve --kubernetes` beside a real control plane: etcd, kube-apiserver,
//! kube-scheduler and kube-controller-manager. `deploy/tools.sh` builds what it needs; where that is
//! absent, these tests print one line and pass.

mod access;
mod api;
mod changes;
mod control_plane;
mod evenkeel;
mod faults;
mod filled;
mod findings;
#[path = "../support/http.rs"]
mod http;
mod objects;
#[path = "../support/ports.rs"]
mod ports;
#[path = "../support/process.rs"]
mod process;
mod proxy;
mod scheduler;
mod shadow;
#[path = "../support/templates.rs"]
mod template_cases;
mod templates;
mod waiting;
mod witness;
