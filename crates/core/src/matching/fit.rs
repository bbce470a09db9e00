//! The check that a node has room and free ports for the requests of a pod (`docs/semantics.md`,
//! "Room").

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use super::amounts::{Amounts, Quantity, Resource, Sums, add_to_each};
use super::requests::{Requests, check_quantities};
use super::violations::{Path, Violations};
use crate::proto::v1;

/// The resources that a node has for pods.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Allocatable {
    amounts: Amounts<i64>,
    /// The number of pods that the node takes.
    pods: i64,
}

/// The sum of the requests of the pods on a node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Requested {
    pods: u32,
    amounts: Amounts<i128>,
    /// The host ports that pods take, ascending, each with the number of pods that have it.
    ports: Box<[(HostPort, i32)]>,
}

/// A shortage of a resource on a node, with its figures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shortage {
    /// The resource that the node lacks.
    pub of: Resource,
    /// The amount that the pod requests.
    pub asked: i128,
    /// The amount that would have to become free.
    pub missing: i128,
    /// True if there would be too little even without any pod on the node.
    pub is_final: bool,
}

impl Allocatable {
    /// Checks and compiles the allocatable resources that a node reports. `None` when it reports
    /// none.
    pub fn compile(
        wire: &BTreeMap<String, v1::Quantity>,
        path: Path<'_>,
        faults: &mut Violations,
    ) -> Option<Self> {
        let before = faults.total();
        check_quantities(wire, path, faults);
        (!wire.is_empty() && faults.total() == before).then(|| Self {
            amounts: Sums::from(wire).rounded(),
            pods: wire
                .get(Resource::Pods.as_str())
                .map_or(0, |q| Quantity::of(&q.string).units()),
        })
    }

    /// The allocatable resources, as quantities by name.
    pub fn to_wire(&self) -> BTreeMap<String, v1::Quantity> {
        let mut wire = self.amounts.to_wire();
        let string = self.pods.to_string();
        wire.insert(Resource::Pods.as_str().to_owned(), v1::Quantity { string });
        wire
    }

    /// The amount of each resource, and the number of pods.
    pub fn totals(&self) -> impl Iterator<Item = (Resource, i128)> {
        self.amounts.totals(self.pods.into())
    }

    /// The named resources that the node has, which excludes those that every node has.
    pub fn named(&self) -> impl Iterator<Item = &Arc<str>> {
        let positive = self.amounts.named.iter().filter(|(_, amount)| *amount > 0);
        positive.map(|(name, _)| name)
    }
}

impl Requested {
    /// The requests on a node without pods.
    pub fn nothing() -> &'static Self {
        static NOTHING: LazyLock<Requested> = LazyLock::new(Requested::default);
        &NOTHING
    }

    /// Adds a pod with these requests.
    pub fn add(&mut self, requests: Option<&Requests>) {
        self.pods += 1;
        self.change(requests, 1);
    }

    /// Takes away a pod that was added before.
    pub fn remove(&mut self, requests: Option<&Requests>) {
        self.pods -= 1;
        self.change(requests, -1);
    }

    /// Adds the sum of other pods, or takes it away (`times` is 1 or -1).
    pub fn merge(&mut self, other: &Self, times: i32) {
        let pods = i64::from(self.pods) + i64::from(other.pods) * i64::from(times);
        self.pods = u32::try_from(pods).unwrap_or(0);
        self.amounts.add(&other.amounts, times.into());
        let ports = other.ports.iter().map(|(port, pods)| (port, pods * times));
        add_to_each(&mut self.ports, ports);
    }

    fn change(&mut self, requests: Option<&Requests>, pods: i32) {
        let Some(requests) = requests else { return };
        self.amounts.add(&requests.amounts, pods.into());
        let ports = requests.ports.iter().map(|port| (port, pods));
        add_to_each(&mut self.ports, ports);
    }

    /// Returns the number of pods.
    pub fn pods(&self) -> u32 {
        self.pods
    }

    /// The amount of each resource that the pods request, and their number.
    pub fn totals(&self) -> impl Iterator<Item = (Resource, i128)> {
        self.amounts.totals(self.pods.into())
    }

    /// Returns whether these ports are free for another pod.
    pub fn has_free(&self, ports: &[HostPort]) -> bool {
        let taken = |port: &HostPort| {
            let lower = |(other, _): &(HostPort, i32)| other.number() < port.number();
            let from = &self.ports[self.ports.partition_point(lower)..];
            // A port on any address sorts first among those of its number.
            let first = from.first().is_some_and(|(other, _)| port.clashes(other));
            first || from.binary_search_by(|(other, _)| other.cmp(port)).is_ok()
        };
        !ports.iter().any(taken)
    }

    /// Returns whether a node has room for another pod. A node that reports no resources has none.
    pub fn leaves_room(&self, has: Option<&Allocatable>, requests: &Requests) -> bool {
        let Some(has) = has else {
            return false;
        };
        let fits = |asked: i64, has: i64, used: i128| {
            asked == 0 || i128::from(asked) <= i128::from(has) - used
        };
        let asked = &requests.amounts;
        let common = asked.common.iter().zip(&has.amounts.common);
        i64::from(self.pods) < has.pods
            && common
                .zip(&self.amounts.common)
                .all(|((asked, has), used)| fits(*asked, *has, *used))
            && asked.named.iter().all(|(name, asked)| {
                fits(*asked, has.amounts.named(name), self.amounts.named(name))
            })
    }

    /// Returns how many more pods with these requests the node has room for.
    pub fn fitting(&self, has: Option<&Allocatable>, requests: &Requests) -> u32 {
        let Some(has) = has else { return 0 };
        let mut most = i128::from(has.pods) - i128::from(self.pods);
        if !requests.ports.is_empty() {
            // A second pod with these requests would need the same host ports.
            most = most.min(i128::from(self.has_free(&requests.ports)));
        }
        for (resource, asked) in requests.amounts.iter().filter(|(_, asked)| *asked > 0) {
            let free = i128::from(has.amounts.get(&resource)) - self.amounts.get(&resource);
            most = most.min(free / i128::from(asked));
        }
        u32::try_from(most.max(0)).unwrap_or(u32::MAX)
    }

    /// Returns the shortages of a node for one more pod, after the node took `more` pods with the
    /// same requests. The order is that in which kube-scheduler reports them.
    pub fn shortages_after(
        &self,
        more: u32,
        has: Option<&Allocatable>,
        requests: &Requests,
    ) -> Vec<Shortage> {
        let nothing = Allocatable::default();
        let has = has.unwrap_or(&nothing);
        let mut short = Vec::new();
        let pods = i128::from(self.pods) + i128::from(more);
        if pods >= i128::from(has.pods) {
            short.push(Shortage {
                of: Resource::Pods,
                asked: 1,
                missing: pods + 1 - i128::from(has.pods),
                is_final: has.pods < 1,
            });
        }
        for (resource, asked) in requests.amounts.iter().filter(|(_, asked)| *asked > 0) {
            let asked = i128::from(asked);
            let all = i128::from(has.amounts.get(&resource));
            let used = self.amounts.get(&resource) + asked * i128::from(more);
            let missing = asked - (all - used);
            if missing > 0 {
                short.push(Shortage {
                    is_final: asked > all,
                    of: resource,
                    asked,
                    missing,
                });
            }
        }
        short
    }
}

/// The address that stands for all addresses of a node.
const ANY: &str = "0.0.0.0";

/// The largest length of an address, in bytes.
const MAX_ADDRESS_BYTES: usize = 45;

/// A port of the node that a pod takes.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HostPort {
    port: u16,
    protocol: usize,
    /// The address of the node; empty means any address.
    address: Box<str>,
}

/// The protocols of ports. The first is meant where a port names none.
const PROTOCOLS: [&str; 3] = ["TCP", "UDP", "SCTP"];

/// The place of a protocol in the list; `None` if it is not known.
fn protocol(text: &str) -> Option<usize> {
    let text = if text.is_empty() { PROTOCOLS[0] } else { text };
    PROTOCOLS.iter().position(|known| *known == text)
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
            protocol: protocol(&wire.protocol)?,
            address: address.into(),
        })
    }

    /// Checks a port of a container.
    pub(super) fn check(wire: &v1::ContainerPort, path: Path<'_>, faults: &mut Violations) {
        if u16::try_from(wire.host_port).is_err() {
            faults.add(path.field("hostPort"), "must be 0 to 65535");
        }
        if protocol(&wire.protocol).is_none() {
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
            protocol: PROTOCOLS[self.protocol].to_owned(),
            host_ip: self.address.to_string(),
        }
    }
}
