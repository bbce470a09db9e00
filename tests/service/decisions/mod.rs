//! Answers of a server in this process, compared with those of kube-scheduler, of KubeFleet, and of
//! a recount by brute force.
//!
//! The tests are one program, because each test program links the whole crate.

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
mod volume_histories;
mod whole_pods;
mod wire_objects;
