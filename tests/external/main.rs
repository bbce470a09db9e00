//! Real engines and control planes, which `deploy/tools.sh` builds. A test that needs one is ignored, and says which;
//! `cargo test --test external -- --include-ignored` runs all of them.

mod kubernetes;
mod replicas;
