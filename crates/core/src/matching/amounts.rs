//! Kubernetes' quantities (`500m`, `1.5Gi`, `1e3`), exact: a sum is rounded once, at its end. Amounts
//! of the resources that a pod may ask a node for.

use std::collections::BTreeMap;
use std::ops::AddAssign;
use std::sync::Arc;

use super::names;
use crate::proto::v1;

/// The number of parts in a unit. Kubernetes keeps nothing finer than such a part.
const PARTS_PER_UNIT: i128 = 1_000_000_000;

/// The number of parts in a thousandth of a unit.
const PARTS_PER_MILLI: i128 = PARTS_PER_UNIT / 1_000;

/// The largest quantity, in units.
const MAX_UNITS: i128 = i64::MAX as i128;

/// The number of digits that are read exactly before a decimal suffix. The largest quantity has
/// fewer.
const DECIMAL_DIGITS: usize = 28;

/// The number of digits that can be multiplied at once by a binary suffix, which is at most 2^60.
const BINARY_DIGITS: usize = 20;

/// An amount of something, in billionths of a unit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Quantity(i128);

impl Quantity {
    /// Reads a quantity that is not negative. Parts finer than a billionth are rounded up, and
    /// quantities over 2^63 - 1 become 2^63 - 1. `None` when `text` is no quantity.
    pub fn parse(text: &str) -> Option<Self> {
        let (negative, rest) = match text.as_bytes().first()? {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let is_digit = |byte: u8| byte.is_ascii_digit();
        let whole_len = rest.bytes().take_while(|b| is_digit(*b)).count();
        let (whole, rest) = rest.split_at(whole_len);
        let (fraction, suffix) = match rest.strip_prefix('.') {
            Some(rest) => rest.split_at(rest.bytes().take_while(|b| is_digit(*b)).count()),
            None => ("", rest),
        };
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let scale = Scale::parse(suffix)?;
        let parts = scale.parts_of(whole, fraction);
        (!negative || parts == 0).then_some(Self(parts))
    }

    /// Reads a text that is a valid quantity.
    pub fn of(text: &str) -> Self {
        Self::parse(text).expect("a checked object has valid quantities")
    }

    /// The quantity in units, rounded up.
    pub fn units(self) -> i64 {
        round_up(self.0, PARTS_PER_UNIT)
    }

    /// The quantity in thousandths of a unit, rounded up.
    pub fn millis(self) -> i64 {
        round_up(self.0, PARTS_PER_MILLI)
    }
}

impl AddAssign for Quantity {
    fn add_assign(&mut self, other: Self) {
        self.0 = self.0.saturating_add(other.0);
    }
}

/// A whole number as Kubernetes writes it: with the largest suffix that leaves a whole number. Each
/// suffix stands for `times` times the suffix before it.
fn written(mut number: i128, times: i128, suffixes: &[&str]) -> String {
    let mut suffixes = suffixes.iter();
    let mut suffix = suffixes.next().copied().unwrap_or_default();
    while number != 0 && number % times == 0 {
        let Some(next) = suffixes.next() else { break };
        (number, suffix) = (number / times, next);
    }
    match number {
        0 => "0".to_owned(),
        _ => format!("{number}{suffix}"),
    }
}

fn round_up(parts: i128, per: i128) -> i64 {
    let whole = parts / per + i128::from(parts % per > 0);
    i64::try_from(whole).unwrap_or(i64::MAX)
}

/// The factor of a suffix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scale {
    PowerOf10(i64),
    PowerOf2(u32),
}

impl Scale {
    fn parse(suffix: &str) -> Option<Self> {
        let place = |suffixes: &[&str]| suffixes.iter().position(|known| *known == suffix);
        if let Some(at) = place(&["n", "u", "m", "", "k", "M", "G", "T", "P", "E"]) {
            return Some(Self::PowerOf10(3 * at as i64 - 9));
        }
        if let Some(at) = place(&["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]) {
            return Some(Self::PowerOf2(10 * (at as u32 + 1)));
        }
        let exponent = suffix.strip_prefix(['e', 'E'])?;
        // Kubernetes reads an exponent of 32 bits.
        let exponent = exponent.parse::<i32>().ok()?;
        Some(Self::PowerOf10(exponent.into()))
    }

    /// A number of this scale in billionths of a unit, rounded up.
    fn parts_of(self, whole: &str, fraction: &str) -> i128 {
        let (factor, mut exponent) = match self {
            Self::PowerOf10(exponent) => (1, exponent),
            Self::PowerOf2(power) if whole.len() + fraction.len() > BINARY_DIGITS => {
                let (whole, fraction) = multiplied(whole, fraction, power);
                return Self::PowerOf10(0).parts_of(&whole, &fraction);
            }
            Self::PowerOf2(power) => (1_i128 << power, 0),
        };
        let fraction = fraction.trim_end_matches('0');
        let fraction_len = i64::try_from(fraction.len()).unwrap_or(i64::MAX);
        exponent = exponent.saturating_sub(fraction_len);
        let digits = whole.bytes().chain(fraction.bytes());
        let digits = digits.map(|digit| i128::from(digit - b'0'));
        let (mut number, mut read, mut left_out) = (0_i128, 0, 0_i128);
        for digit in digits {
            if read < DECIMAL_DIGITS {
                number = number * 10 + digit;
                // Leading zeros do not count as digits.
                read += usize::from(number > 0);
            } else {
                exponent = exponent.saturating_add(1);
                left_out |= digit;
            }
        }
        number += i128::from(left_out > 0);
        let exponent = exponent.saturating_add(9);
        let max = MAX_UNITS * PARTS_PER_UNIT;
        if number == 0 {
            return 0;
        }
        let power = u32::try_from(exponent.unsigned_abs()).ok();
        let power = power.and_then(|power| 10_i128.checked_pow(power));
        // The product is at most 10^28, or 10^20 times 2^60.
        let number = number * factor;
        let parts = match (exponent >= 0, power) {
            (true, Some(power)) => number.checked_mul(power).unwrap_or(max),
            (true, None) => max,
            (false, Some(power)) => number / power + i128::from(number % power > 0),
            (false, None) => 1,
        };
        parts.min(max)
    }
}

/// The decimal digits before and after the point of a number times a power of 2.
fn multiplied(whole: &str, fraction: &str, power: u32) -> (String, String) {
    let factor = 1_u128 << power;
    let (mut carry, mut reversed) = (0_u128, String::new());
    for digit in fraction.bytes().rev().chain(whole.bytes().rev()) {
        carry += u128::from(digit - b'0') * factor;
        reversed.push(char::from(b'0' + (carry % 10) as u8));
        carry /= 10;
    }
    let last: String = reversed.chars().rev().collect();
    let digits = format!("{carry}{last}");
    let (whole, fraction) = digits.split_at(digits.len() - fraction.len());
    (whole.to_owned(), fraction.to_owned())
}

/// The prefix of the names of huge pages.
const HUGE_PAGES: &str = "hugepages-";

/// A resource that nodes have and pods request. The order is that in which shortages are reported.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Resource {
    /// Places for pods. No container requests them.
    Pods,
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
            Self::Pods => "pods",
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
            Self::Pods => amount.to_string(),
            Self::Cpu => written(amount, 1_000, &DECIMAL),
            Self::Memory | Self::EphemeralStorage => written(amount, 1_024, &BINARY),
            Self::Named(name) if name.starts_with(HUGE_PAGES) => written(amount, 1_024, &BINARY),
            Self::Named(_) => written(amount, 1_000, &DECIMAL[1..]),
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
            Self::Pods | Self::EphemeralStorage => false,
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
            Resource::Pods => N::default(),
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
    pub fn totals(&self, pods: i128) -> impl Iterator<Item = (Resource, i128)>
    where
        N: Into<i128>,
    {
        let amounts = self.iter();
        let amounts = amounts.map(|(resource, amount)| (resource, amount.into()));
        std::iter::once((Resource::Pods, pods)).chain(amounts)
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
                Resource::Pods | Resource::Named(_) => {}
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_is_rounded_once() {
        let tenth = Quantity::of("0.1Gi");
        for (times, units) in [(2, 214_748_365), (10, 1 << 30)] {
            let mut sum = Quantity::default();
            (0..times).for_each(|_| sum += tenth);
            assert_eq!(sum.units(), units);
        }
    }

    #[test]
    fn amounts_are_written_with_the_largest_suffix() {
        let cases: [(i128, i128, &[&str], &str); 7] = [
            (0, 1_000, &["m", ""], "0"),
            (1_500, 1_000, &["m", "", "k"], "1500m"),
            (2_000, 1_000, &["m", "", "k"], "2"),
            (1 << 30, 1_024, &["", "Ki", "Mi", "Gi"], "1Gi"),
            ((1 << 30) + 1, 1_024, &["", "Ki", "Mi", "Gi"], "1073741825"),
            (1 << 50, 1_024, &["", "Ki"], "1099511627776Ki"),
            (-2_000, 1_000, &["m", ""], "-2"),
        ];
        for (number, times, suffixes, text) in cases {
            assert_eq!(written(number, times, suffixes), text);
        }
    }

    #[test]
    fn what_is_no_quantity_is_none() {
        let none = [
            "", "-1", "-1m", "+", ".", "k", "Ki", "1i", "1ki", "1K", "1 Gi", " 1", "1e", "1e+",
            "1ee3", "1.1.1", "1+1", "0x10", "1Gi ", "aoeu", "1µ", "१",
        ];
        for text in none {
            assert_eq!(Quantity::parse(text), None, "{text:?}");
        }
    }
}
