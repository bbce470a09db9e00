//! Reservations: picks that are held, and how that ends.

mod assigned;
mod clocks;
mod crowd;
mod held;
mod lifecycle;
mod orders;
mod refused;
mod retries;
mod slow_disk;
mod storage;
