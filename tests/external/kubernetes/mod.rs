//! `evenkeel serve --kubernetes` beside a real control plane: etcd, kube-apiserver, kube-scheduler
//! and kube-controller-manager.

mod access;
mod api;
mod changes;
mod control_plane;
mod evenkeel;
mod faults;
mod filled;
mod findings;
mod made;
mod marks;
mod nodes;
mod nominated;
mod objects;
mod plans;
mod scheduler;
mod shadow;
mod storage;
mod waiting;
mod witness;

use support::{http, ports, process, templates as template_cases};
