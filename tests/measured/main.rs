//! Memory and latency of a server beside clients that do harm, and of a question to a large cluster. Its tests take turns: each measures the machine.

mod hostile;
mod listing;

use evenkeel::allocator;
use tikv_jemallocator::Jemalloc;

/// The allocator of the program, because servers with fixed settings run in this one.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

support::server_with_fixed_settings!(allocator::in_use);
