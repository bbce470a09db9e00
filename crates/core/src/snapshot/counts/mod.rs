//! The counts of the objects: topologies, partitions and views, kept up to date.
//!
//! - `topology`: the numbered values of a topology key. `partition`: the nodes that a constraint
//!   counts in, by domain; `partitions` are the nodes with all partitions, and when these end.
//! - `views`: matching pods per domain, for the selectors of a namespace; `domain_counts` answer a
//!   question.
//!
//! # Counting
//! Pods of one workload have the same labels, and a constraint counts pods of one namespace only.
//! Hence:
//!
//! 1. Strings and label sets are interned. A pod is a label set, a slot (the number of a node's
//!    name), a uid and a phase.
//! 2. A selector is matched once against each label set, not against pods.
//! 3. A **partition** has the nodes that a constraint counts in, and their domains. Its key is the
//!    topology key and the eligibility (required keys, node affinity, tolerations, policies). All
//!    namespaces share partitions.
//! 4. A **view** is the number of matching pods per domain for one (namespace, selector,
//!    partition). With more than 64 domains it also keeps the number of domains at each count, so
//!    the minimum is known at once.
//! 5. A pod change updates the views whose selector matches its label set. A node change tests that
//!    node again against the partitions in use. If it moves between domains, the partition has
//!    another number, and its views are counted again when next asked.
//! 6. Decisions cache the views that they count. The view that was unused for longest is dropped when
//!    there are too many: 256 in a namespace, 16,384 in all, or memory is short. So is one that was
//!    not used for ten minutes. Which views are cached changes no answer.
//! 7. **Affinity between pods** is counted by the same views, by the topology key of each term. The
//!    few terminating pods are added. Terms about other namespaces are decided on the
//!    same state. The label sets of these namespaces are walked for each decision, because
//!    views of many namespaces would take more memory than the pods.
//! 8. **Volumes** are not counted by domain. Claims, volumes and classes are tables by name
//!    (`objects/cluster_objects.rs`), in which a decision looks up those that its pod names. One
//!    table has the users of each claim and disk, beside that of anti-affinity.
//! 9. `VerifySnapshot` builds a state again from the objects of the present one and compares all
//!    counts with it.

pub mod domain_counts;
pub mod partition;
pub mod partitions;
pub mod topology;
pub mod views;
