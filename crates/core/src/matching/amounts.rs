//! Amounts of the resources that a pod may ask a node for.

use std::collections::BTreeMap;
use std::ops::AddAssign;
use std::sync::Arc;

use super::fit::Lack;
use super::names;
use super::quantity::{self, Quantity};
use crate::proto::v1;

/// The prefix of the names of huge pages.
const HUGE_PAGES: &str = "hugepages-";

/// A resource that nodes have and pods request. The order is that in which shortages are reported.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Resource {
    /// Processor time, in thousandths of a processor.
    Cpu,
    /// Memory, in bytes.
    Memory,
    /// Local disk, in bytes.
    EphemeralStorage,
    /// Any other resource that the scheduler checks, in units.
    Named(Arc<str>),
}

/// An amount of each resource. Most amounts are zero.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Amounts<N> {
    /// The amounts of the resources that every pod may request, in the order of
    /// [`Resource::COMMON`].
    pub(super) common: [N; 3],
    /// The amounts of other resources that are not zero, ascending by name.
    pub(super) named: Box<[(Arc<str>, N)]>,
}

/// The exact sum for each resource, not rounded yet.
#[derive(Debug, Clone, Default)]
pub(super) struct Sums(BTreeMap<Resource, Quantity>);

impl Resource {
    /// The resources that have no domain in their names.
    const COMMON: [Self; 3] = [Self::Cpu, Self::Memory, Self::EphemeralStorage];

    /// The resource with this name. `None` if the scheduler ignores resources of this name.
    pub fn parse(name: &str) -> Option<Self> {
        let common = Self::COMMON.iter().find(|known| known.as_str() == name);
        common
            .cloned()
            .or_else(|| is_scheduled(name).then(|| Self::Named(name.into())))
    }

    /// The name of the resource.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Cpu => "cpu",
            Self::Memory => "memory",
            Self::EphemeralStorage => "ephemeral-storage",
            Self::Named(name) => name,
        }
    }

    /// An amount of the resource, as Kubernetes writes quantities.
    pub fn quantity(&self, amount: i128) -> String {
        const DECIMAL: [&str; 8] = ["m", "", "k", "M", "G", "T", "P", "E"];
        const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
        match self {
            Self::Cpu => quantity::written(amount, 1_000, &DECIMAL),
            Self::Memory | Self::EphemeralStorage => quantity::written(amount, 1_024, &BINARY),
            Self::Named(name) if name.starts_with(HUGE_PAGES) => {
                quantity::written(amount, 1_024, &BINARY)
            }
            Self::Named(_) => quantity::written(amount, 1_000, &DECIMAL[1..]),
        }
    }

    /// Returns the amount that is counted for a quantity of the resource.
    fn amount(&self, quantity: Quantity) -> i64 {
        match self {
            Self::Cpu => quantity.millis(),
            _ => quantity.units(),
        }
    }

    /// Returns whether a pod may request the resource as a whole, beside its containers.
    pub(super) fn is_of_pods(&self) -> bool {
        match self {
            Self::Cpu | Self::Memory => true,
            Self::EphemeralStorage => false,
            Self::Named(name) => name.starts_with(HUGE_PAGES),
        }
    }
}

/// Returns whether the scheduler checks a resource that is not a common one.
fn is_scheduled(name: &str) -> bool {
    if name.starts_with(HUGE_PAGES) || name.starts_with("attachable-volumes-") {
        return true;
    }
    // An extended resource is valid only if `requests.NAME`, the name of its quota, is valid.
    name.contains("kubernetes.io/")
        || name.contains('/')
            && !name.starts_with("requests.")
            && names::is_label_key(format!("requests.{name}"))
}

impl Amounts<i64> {
    /// The positive amounts, as quantities by name.
    pub fn to_wire(&self) -> BTreeMap<String, v1::Quantity> {
        let quantity = |(resource, amount): (Resource, i64)| {
            let string = resource.quantity(amount.into());
            (resource.as_str().to_owned(), v1::Quantity { string })
        };
        self.iter()
            .filter(|(_, amount)| *amount > 0)
            .map(quantity)
            .collect()
    }
}

impl Amounts<i128> {
    /// Adds `amounts` multiplied by `times`, which may be negative.
    pub(super) fn add<N: Copy + Into<i128>>(&mut self, amounts: &Amounts<N>, times: i128) {
        for (sum, amount) in self.common.iter_mut().zip(amounts.common) {
            *sum += amount.into() * times;
        }
        let named = amounts.named.iter();
        add_to_each(
            &mut self.named,
            named.map(|(name, amount)| (name, (*amount).into() * times)),
        );
    }
}

/// Adds changes to the sums in a list, and drops sums that become zero. The list and the changes
/// are ascending by key.
pub(super) fn add_to_each<'k, K, N>(
    list: &mut Box<[(K, N)]>,
    changes: impl ExactSizeIterator<Item = (&'k K, N)>,
) where
    K: Ord + Clone + 'k,
    N: Copy + Default + PartialEq + AddAssign,
{
    if changes.len() == 0 {
        return;
    }
    let old = std::mem::take(list).into_vec();
    let mut new = Vec::with_capacity(old.len() + changes.len());
    let mut old = old.into_iter().peekable();
    for (key, change) in changes {
        new.extend(std::iter::from_fn(|| old.next_if(|(known, _)| known < key)));
        let known = old.next_if(|(known, _)| known == key);
        let (key, mut sum) = known.unwrap_or_else(|| (key.clone(), N::default()));
        sum += change;
        if sum != N::default() {
            new.push((key, sum));
        }
    }
    new.extend(old);
    *list = new.into();
}

impl<N: Copy + Default> Amounts<N> {
    /// Returns whether every amount is zero.
    pub fn is_empty(&self) -> bool
    where
        N: PartialEq,
    {
        self.named.is_empty() && self.common == [N::default(); 3]
    }

    /// The amount of a resource.
    pub(super) fn get(&self, resource: &Resource) -> N {
        match resource {
            Resource::Cpu => self.common[0],
            Resource::Memory => self.common[1],
            Resource::EphemeralStorage => self.common[2],
            Resource::Named(name) => self.named(name),
        }
    }

    /// The amount of a resource that has a name of its own.
    pub(super) fn named(&self, name: &str) -> N {
        let found = self
            .named
            .binary_search_by(|(known, _)| (**known).cmp(name));
        found.map_or(N::default(), |at| self.named[at].1)
    }

    /// All amounts, with that of pods.
    pub fn totals(&self, pods: i128) -> impl Iterator<Item = (Lack, i128)>
    where
        N: Into<i128>,
    {
        let amounts = self.iter();
        let amounts = amounts.map(|(resource, amount)| (Lack::Resource(resource), amount.into()));
        std::iter::once((Lack::Pods, pods)).chain(amounts)
    }

    /// All amounts, in order.
    pub fn iter(&self) -> impl Iterator<Item = (Resource, N)> {
        let common = Resource::COMMON.into_iter().zip(self.common);
        let named = self.named.iter();
        common.chain(named.map(|(name, amount)| (Resource::Named(Arc::clone(name)), *amount)))
    }
}

impl Sums {
    /// Adds the other sums to these.
    pub fn add_all(&mut self, other: &Self) {
        for (resource, quantity) in &other.0 {
            *self.0.entry(resource.clone()).or_default() += *quantity;
        }
    }

    /// Raises each resource to at least its amount in `other`.
    pub fn raise_to(&mut self, other: Self) {
        for (resource, quantity) in other.0 {
            let known = self.0.entry(resource).or_default();
            *known = quantity.max(*known);
        }
    }

    /// Replaces the amounts of resources that a pod may request as a whole by those of `other`.
    pub fn replace_of_pod(&mut self, other: Self) {
        let other = other.0.into_iter();
        self.0
            .extend(other.filter(|(resource, _)| resource.is_of_pods()));
    }

    /// Keeps only the resources that `wire` names. A resource that has no sum yet gets the sum
    /// zero.
    pub fn restrict_to(&mut self, wire: &BTreeMap<String, v1::Quantity>) {
        let named = read(wire).map(|(resource, _)| {
            let known = self.0.get(&resource).copied();
            (resource, known.unwrap_or_default())
        });
        self.0 = named.collect();
    }

    /// Returns whether the sums contain a resource that a pod may request as a whole.
    pub fn has_of_pod(&self) -> bool {
        self.0.keys().any(Resource::is_of_pods)
    }

    /// The sums, each rounded up.
    pub fn rounded(&self) -> Amounts<i64> {
        let mut amounts = Amounts::default();
        let mut named = Vec::new();
        for (resource, quantity) in &self.0 {
            let amount = resource.amount(*quantity);
            match resource {
                Resource::Cpu => amounts.common[0] = amount,
                Resource::Memory => amounts.common[1] = amount,
                Resource::EphemeralStorage => amounts.common[2] = amount,
                Resource::Named(name) if amount > 0 => named.push((Arc::clone(name), amount)),
                Resource::Named(_) => {}
            }
        }
        amounts.named = named.into();
        amounts
    }
}

impl From<&BTreeMap<String, v1::Quantity>> for Sums {
    fn from(wire: &BTreeMap<String, v1::Quantity>) -> Self {
        Self(read(wire).collect())
    }
}

/// The quantities that the scheduler checks.
fn read(wire: &BTreeMap<String, v1::Quantity>) -> impl Iterator<Item = (Resource, Quantity)> {
    wire.iter().filter_map(|(name, quantity)| {
        Some((Resource::parse(name)?, Quantity::of(&quantity.string)))
    })
}
