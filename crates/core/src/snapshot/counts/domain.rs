//! The numbers of domains.

/// The number of a domain: a value of a topology key. Not reused while its
/// topology lives, so that counts by number stay meaningful.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DomainId(u32);

impl DomainId {
    /// The number that means no domain.
    pub const NONE: Self = Self(u32::MAX);
    /// The domain of the empty value, in topologies of a label.
    pub const EMPTY: Self = Self(0);

    /// Returns the number as an index into an array with one element per domain.
    pub fn index(self) -> usize {
        self.0 as usize
    }

    /// Returns whether this is a domain.
    pub fn is_some(self) -> bool {
        self != Self::NONE
    }

    /// The domain of an index.
    pub fn at(index: usize) -> Self {
        Self(u32::try_from(index).expect("fewer than 2^32 domains"))
    }
}
