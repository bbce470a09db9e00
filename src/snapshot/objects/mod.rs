//! What exists: nodes, pods, and the services and controllers that select them.

pub mod blocks;
pub mod change;
pub mod compiled;
pub mod defaults;
pub mod interner;
pub mod kept_answer;
pub mod kind;
pub mod label_sets;
pub mod node;
pub mod node_order;
pub mod nodes;
pub mod nominated;
pub mod owners;
pub mod parts;
pub mod pod;
pub mod pod_table;
pub mod requested;
pub mod reservation;
pub mod shrink;
pub mod size;
pub mod slots;
pub mod symbols;
pub mod templates;
