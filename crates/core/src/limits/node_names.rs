//! The rule for names of nodes.

/// The rule for names of nodes. It applies to new nodes, and to the nodes that new pods name. Nodes
/// that are already stored stay, and can be deleted.
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
    /// The names of the two rules in settings.
    pub const NAMES: [&str; 2] = ["dns", "any"];

    /// Returns the rule with this name, or `None` if no rule has it.
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "dns" => Some(Self::Dns),
            "any" => Some(Self::Any),
            _ => None,
        }
    }
}
