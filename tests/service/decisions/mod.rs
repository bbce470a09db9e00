//! Answers of a server in this process, compared with those of kube-scheduler, of KubeFleet, and of
//! a recount by brute force.

mod asking;
mod best_removals;
mod decision_stream;
mod describe_recount;
mod describe_spread;
mod disruptions;
mod gang_orders;
mod gangs;
mod interleavings;
mod joint;
mod joint_fleet;
mod joint_scores;
mod kube_scheduler;
mod kubefleet;
mod nodes;
mod overlays;
mod placing;
mod rebalance;
mod recorded;
mod room;
mod same_revision;
mod selectors;
mod tolerations;
mod unchecked;
mod volume_histories;
mod whole_pods;
mod wire_objects;
mod worlds;
