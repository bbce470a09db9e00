//! A topology in node order, to judge all nodes at once: a bit per node, 64 of them in a word.

use fixedbitset::FixedBitSet;

use super::domain::DomainId;

/// The number of domains up to which the nodes of each are kept as bits.
const FEW_DOMAINS: usize = 64;

/// The number of bits that are computed at once.
const WORD: usize = usize::BITS as usize;

/// The domains of all nodes, in node order.
#[derive(Debug, Clone)]
pub struct NodeLayout {
    domains: Vec<DomainId>,
    /// The nodes that have the topology key.
    keyed: FixedBitSet,
    shape: NodeShape,
}

/// The pattern of the nodes' domains, which makes checking all nodes cheap.
#[derive(Debug, Clone)]
enum NodeShape {
    /// There are few domains: the nodes of each, by domain.
    Few(Vec<FixedBitSet>),
    /// The numbers of the nodes' domains go up by one from node to node, from this number.
    Consecutive(usize),
    /// Neither of the two.
    Mixed,
}

impl NodeLayout {
    /// Lays out the domains of all nodes, in node order; all of them are below
    /// `id_bound`.
    pub fn of(domains: Vec<DomainId>, id_bound: usize) -> Self {
        Self {
            keyed: bits(&domains, |domain| domain.is_some()),
            shape: NodeShape::of(&domains, id_bound),
            domains,
        }
    }

    /// The domain of each node; [`DomainId::NONE`] when it lacks the key.
    pub fn domains(&self) -> &[DomainId] {
        &self.domains
    }

    /// The nodes that have the topology key.
    pub fn keyed(&self) -> &FixedBitSet {
        &self.keyed
    }

    /// The counts of all nodes' domains in node order, if `counts`, by domain,
    /// has them in a row.
    pub fn in_a_row<'c>(&self, counts: &'c [u32]) -> Option<&'c [u32]> {
        match self.shape {
            NodeShape::Consecutive(first) => counts.get(first..first + self.domains.len()),
            NodeShape::Few(_) | NodeShape::Mixed => None,
        }
    }

    /// The nodes whose domain has at most `most` in `counts`, which is by
    /// domain; domains past its end have none.
    pub fn at_most(&self, counts: &[u32], most: u32) -> FixedBitSet {
        if let Some(counts) = self.in_a_row(counts) {
            return bits(counts, |count| *count <= most);
        }
        let count = |domain: usize| counts.get(domain).copied().unwrap_or(0);
        let NodeShape::Few(members) = &self.shape else {
            return bits(&self.domains, |domain| {
                domain.is_some() && count(domain.index()) <= most
            });
        };
        let mut admitted = FixedBitSet::with_capacity(self.domains.len());
        for (domain, nodes) in members.iter().enumerate() {
            if count(domain) <= most {
                admitted.union_with(nodes);
            }
        }
        admitted
    }
}

impl NodeShape {
    fn of(domains: &[DomainId], id_bound: usize) -> Self {
        if id_bound <= FEW_DOMAINS {
            let mut members = vec![FixedBitSet::with_capacity(domains.len()); id_bound];
            let keyed = domains.iter().enumerate();
            for (node, domain) in keyed.filter(|(_, domain)| domain.is_some()) {
                members[domain.index()].insert(node);
            }
            return Self::Few(members);
        }
        let first = domains.first().map_or(0, |domain| domain.index());
        let follows = |(node, domain): (usize, &DomainId)| domain.index() == first + node;
        if domains.iter().enumerate().all(follows) {
            Self::Consecutive(first)
        } else {
            Self::Mixed
        }
    }
}

/// A bit for each of `values`.
pub fn bits<T>(values: &[T], is_set: impl Fn(&T) -> bool) -> FixedBitSet {
    let word = |values: &[T]| {
        let mut set = [false; WORD];
        for (set, value) in set.iter_mut().zip(values) {
            *set = is_set(value);
        }
        pack(&set)
    };
    // The rest is separate, so that the compiler knows the length of whole words.
    let (whole, rest) = values.as_chunks::<WORD>();
    let rest = (!rest.is_empty()).then(|| word(rest));
    let words = whole.iter().map(|values| word(values)).chain(rest);
    FixedBitSet::with_capacity_and_blocks(values.len(), words)
}

/// The bits of a word. A multiplication gathers eight bytes in the highest of
/// them, and lets the compiler compare many values at once: a fifth of the time
/// of a shift for each.
fn pack(set: &[bool; WORD]) -> usize {
    const GATHER: u64 = 0x0102_0408_1020_4080;
    let (eights, _) = set.as_chunks::<8>();
    eights.iter().rev().fold(0, |word, eight| {
        let bytes = u64::from_le_bytes(eight.map(u8::from));
        word << 8 | (bytes.wrapping_mul(GATHER) >> 56) as usize
    })
}
