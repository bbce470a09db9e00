//! The rule for names of nodes.

/// The rule for names of nodes: those of new nodes, and those that new pods name. Stored nodes
/// stay, and can be deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NodeNames {
    /// Names as in Kubernetes: DNS subdomains.
    #[default]
    Dns,
    /// Any text of 1 to 253 bytes without control characters and `/`, such as
    /// `host_01`.
    Any,
}

impl NodeNames {
    /// The names of both rules in settings.
    pub const NAMES: [&str; 2] = ["dns", "any"];

    /// The rule with a name; `None` for another name.
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "dns" => Some(Self::Dns),
            "any" => Some(Self::Any),
            _ => None,
        }
    }
}
