//! Reservations: picks that are held, and how that ends.

#[path = "../support/mod.rs"]
mod support;

mod assigned;
mod clocks;
mod crowd;
mod held;
mod lifecycle;
mod orders;
mod refused;
mod retries;
mod slow_disk;
