//! Simulated servers that share a log, in one process: every fault that the contract of the log
//! allows, in an order that a seed decides.

mod alone;
mod cleaning;
mod clocks;
mod ends;
mod golden;
mod gone;
mod holding;
mod records;
mod rewritten;
mod rights;
mod runs;
mod schedule;
mod server;
mod stale;
mod unanswered;
mod unclaimed;
mod versions;
mod wire;
mod wishes;
mod world;
