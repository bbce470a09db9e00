//! Real engines, control planes, load balancers and probes. A test that needs one is ignored, and says which and how to
//! install it. `cargo test --test external replicas:: -- --include-ignored` runs it. `.ci/run` runs those that take
//! seconds, and `.ci/nightly` all of them.

mod health_probe;
mod kubernetes;
mod load_balancers;
mod replicas;
