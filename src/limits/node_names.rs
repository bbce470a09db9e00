//! Which names nodes may have.

/// Which names nodes may have: those of new nodes, and those that new pods say
/// they run on. What is stored already stays, and can be deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NodeNames {
    /// Those of Kubernetes: DNS subdomains.
    #[default]
    Dns,
    /// Any text of 1 to 253 bytes without control characters and `/`, such as
    /// `host_01`.
    Any,
}

impl NodeNames {
    /// The names of both, as settings have them.
    pub const NAMES: [&str; 2] = ["dns", "any"];

    /// The one of a name; none for another name.
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "dns" => Some(Self::Dns),
            "any" => Some(Self::Any),
            _ => None,
        }
    }
}
