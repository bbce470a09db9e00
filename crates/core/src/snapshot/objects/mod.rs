//! The objects: nodes, pods, and the services and controllers that select them.
//!
//! - Kinds and checks: `kind` defines the kinds once; `compiled` checks and compiles an object once,
//!   `pod` does so for pods, and `change` is a batch of valid ones.
//! - Objects that select pods: `owners`.
//! - Nodes: `nodes` by slot (`slots`) and in order of their names.
//! - Pods: in order of their names in a `name_table`, in leaves that copies share. `label_sets` counts
//!   the pods of each distinct label set on each node; `requirements` stores those of pods once.
//! - Data shared by pods of all namespaces: `requested`, `nominated`, `pod_terms`. `cluster_objects`
//!   are namespaces, claims, volumes and classes by name, and `free_volumes` the volumes that claims
//!   can be bound to, in order.
//! - Reservations: `reservation` and the `reservation_table`; `held_row` is their stored form.
//! - `resource_versions` say how far a feed has read the kinds of its cluster.
//! - Tables: `interner`, `hash_trie` and `blocks` (a hash table and lists whose copies
//!   share unchanged parts).

pub mod blocks;
pub mod change;
pub mod cluster_objects;
pub mod compiled;
pub mod defaults;
pub mod free_volumes;
pub mod hash_trie;
pub mod held_row;
pub mod interner;
pub mod kind;
pub mod label_sets;
pub mod name_table;
pub mod nodes;
pub mod nominated;
pub mod owners;
pub mod pod;
pub mod pod_terms;
pub mod requested;
pub mod requirements;
pub mod reservation;
pub mod reservation_table;
pub mod resource_versions;
pub mod slots;
