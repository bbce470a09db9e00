//! Ports for processes that cannot find one by themselves, or that start again on the same one.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU16, Ordering};

/// The range of the ports. It is below the ports that a system gives to clients, because a client
/// may have one of those by the time a server listens on it.
const FIRST: u16 = 10_000;
const COUNT: u16 = 20_000;

/// Returns the first of so many ports in a row that nobody listens on. No two calls in a process
/// get the same port.
pub fn free_ports(count: u16) -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let apart = (std::process::id() % u32::from(COUNT)) as u16;
    let free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
    loop {
        let next = NEXT.fetch_add(count, Ordering::Relaxed);
        let first = FIRST + apart.wrapping_add(next) % (COUNT - count);
        if (first..first + count).all(free) {
            return first;
        }
    }
}
