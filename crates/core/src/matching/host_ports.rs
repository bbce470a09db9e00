//! Host ports: ports of the node that a pod takes (`docs/semantics.md`, "Room").

use super::violations::{Path, Violations};
use crate::proto::v1;

/// The address that stands for all addresses of a node.
const ANY: &str = "0.0.0.0";

/// The largest length of an address, in bytes.
const MAX_ADDRESS_BYTES: usize = 45;

/// A port of the node that a pod takes.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HostPort {
    port: u16,
    protocol: Protocol,
    /// The address of the node; empty means any address.
    address: Box<str>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Protocol {
    Tcp,
    Udp,
    Sctp,
}

impl Protocol {
    const ALL: [(Self, &'static str); 3] =
        [(Self::Tcp, "TCP"), (Self::Udp, "UDP"), (Self::Sctp, "SCTP")];

    /// Reads a protocol; an empty one means TCP.
    fn parse(text: &str) -> Option<Self> {
        let text = if text.is_empty() { "TCP" } else { text };
        let found = Self::ALL.iter().find(|(_, name)| *name == text);
        found.map(|(protocol, _)| *protocol)
    }

    fn as_str(self) -> &'static str {
        let found = Self::ALL.iter().find(|(protocol, _)| *protocol == self);
        found.expect("every protocol has a name").1
    }
}

impl HostPort {
    /// The host port that a container's port takes, if any. The container's port has to be valid.
    pub(super) fn of(wire: &v1::ContainerPort) -> Option<Self> {
        let port = u16::try_from(wire.host_port)
            .ok()
            .filter(|port| *port > 0)?;
        let address = match &*wire.host_ip {
            ANY => "",
            address => address,
        };
        Some(Self {
            port,
            protocol: Protocol::parse(&wire.protocol)?,
            address: address.into(),
        })
    }

    /// Checks a port of a container.
    pub(super) fn check(wire: &v1::ContainerPort, path: Path<'_>, faults: &mut Violations) {
        if u16::try_from(wire.host_port).is_err() {
            faults.add(path.field("hostPort"), "must be 0 to 65535");
        }
        if Protocol::parse(&wire.protocol).is_none() {
            let known = "must be TCP, UDP or SCTP";
            faults.unknown_value(path.field("protocol"), &wire.protocol, known);
        }
        let is_part = |byte: u8| byte.is_ascii_hexdigit() || byte == b':' || byte == b'.';
        if wire.host_ip.len() > MAX_ADDRESS_BYTES || !wire.host_ip.bytes().all(is_part) {
            faults.add(path.field("hostIP"), "must be an IP address");
        }
    }

    /// The first part of the sort key of ports; the address is the second.
    pub(super) fn number(&self) -> impl Ord + use<> {
        (self.port, self.protocol)
    }

    /// Returns whether two pods with these ports cannot share a node.
    pub(super) fn clashes(&self, other: &Self) -> bool {
        self.number() == other.number()
            && (self.address == other.address
                || self.address.is_empty()
                || other.address.is_empty())
    }

    /// The port for the wire.
    pub(super) fn to_wire(&self) -> v1::ContainerPort {
        v1::ContainerPort {
            host_port: self.port.into(),
            protocol: self.protocol.as_str().to_owned(),
            host_ip: self.address.to_string(),
        }
    }
}
