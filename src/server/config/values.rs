//! Checks of the values of flags.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::time::Duration;

/// A whole number from 1. Upper bounds come from `tokio`'s semaphores.
pub(super) fn count(text: &str) -> Result<usize, &'static str> {
    match text.parse() {
        Ok(count) if (1..=tokio::sync::Semaphore::MAX_PERMITS).contains(&count) => Ok(count),
        _ => Err("expected a whole number from 1"),
    }
}

/// An address with a port, such as 10.0.0.1:50051. A name is looked up, where IPv4 comes first;
/// nothing before the port stands for all addresses of the machine.
pub(super) fn address(text: &str) -> Result<SocketAddr, String> {
    let expected =
        "expected an address and a port, such as 127.0.0.1:50051, localhost:50051 or :50051";
    let (host, port) = text.rsplit_once(':').ok_or(expected)?;
    let port: u16 = port.parse().map_err(|_| expected)?;
    if host.is_empty() {
        let has_ipv6 = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)).is_ok();
        let all: IpAddr = match has_ipv6 {
            true => Ipv6Addr::UNSPECIFIED.into(),
            false => Ipv4Addr::UNSPECIFIED.into(),
        };
        return Ok(SocketAddr::new(all, port));
    }
    let found = text.to_socket_addrs();
    let found = found.map_err(|error| format!("{expected}: {error}"))?;
    let first = found.min_by_key(SocketAddr::is_ipv6);
    first.ok_or_else(|| format!("{host} has no address"))
}

pub(super) fn positive_duration(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(Duration::ZERO) => Err("expected a duration above zero".into()),
        Ok(duration) => Ok(duration),
        Err(error) => Err(error.to_string()),
    }
}
