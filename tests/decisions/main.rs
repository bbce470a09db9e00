//! Answers of a server in this process, held against those of others: of
//! kube-scheduler, of KubeFleet, and of a recount by brute force.
//!
//! One program, because each links all of the crate.

mod affinity_conformance;
mod all_namespaces;
mod asking;
mod best_removals;
mod conformance;
mod decision_stream;
mod describe_recount;
mod describe_spread;
mod disruptions;
mod events;
mod fleet_conformance;
mod gang_orders;
mod gangs;
mod interleavings;
mod joint;
mod joint_fleet;
mod joint_scores;
mod kept_questions;
mod nominated_conformance;
mod nominated_terms;
mod overlays;
mod placing;
mod real_cluster;
mod rebalance;
mod recorded;
mod removals;
mod room;
mod room_conformance;
mod same_revision;
mod selectors;
mod tolerations;
mod unchecked;
mod views;
mod volume_conformance;
mod whole_pods;
mod wire_objects;
