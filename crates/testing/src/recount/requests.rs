//! The requests of pods, read again from the wire objects.

use std::collections::BTreeMap;

use evenkeel::proto::v1::{
    Container, ContainerStatus, Pod, PodSpec, PodStatus, Quantity, ResourceRequirements,
};

/// Amounts by name of the resource, in billionths of a unit.
pub(super) type AmountsByName = BTreeMap<String, i128>;

/// Returns the requests of a pod by the rules of a minor version, rounded up: thousandths of a
/// processor, units of everything else.
pub fn requests(pod: &Pod, minor: u32) -> BTreeMap<String, i128> {
    let (Some(spec), status) = (&pod.spec, pod.status.clone().unwrap_or_default()) else {
        return BTreeMap::new();
    };
    let mut total = match minor {
        ..37 => until_1_36(spec, &status, minor),
        37.. => since_1_37(spec, &status),
    };
    add(&mut total, &quantities(&spec.overhead));
    total.retain(|resource, _| is_looked_at(resource));
    rounded(&total)
}

/// The requests of all containers together. `of` returns the requests of one, and is told whether
/// it runs as long as the pod.
fn together(spec: &PodSpec, of: &dyn Fn(&Container, bool) -> AmountsByName) -> AmountsByName {
    let mut total = AmountsByName::new();
    let sidecars = spec.init_containers.iter().filter(|c| is_sidecar(c));
    for container in spec.containers.iter().chain(sidecars) {
        add(&mut total, &of(container, true));
    }
    for (at, container) in spec.init_containers.iter().enumerate() {
        if !is_sidecar(container) {
            let mut start = of(container, false);
            for before in spec.init_containers[..at].iter().filter(|c| is_sidecar(c)) {
                add(&mut start, &of(before, true));
            }
            total = larger(&total, &start);
        }
    }
    total
}

/// The requests until 1.36: for each container the largest of its wanted and its present resources;
/// in 1.36, also for the pod as a whole.
fn until_1_36(spec: &PodSpec, status: &PodStatus, minor: u32) -> AmountsByName {
    let mut total = together(spec, &|container, stays| match stays {
        true => resized(container, status),
        false => of(container.resources.as_ref()),
    });
    for (resource, wanted) in of(spec.resources.as_ref()) {
        if is_of_pods(&resource) {
            let there = [
                of(status.resources.as_ref()),
                quantities(&status.allocated_resources),
            ];
            let there = there.iter().filter_map(|it| it.get(&resource)).max();
            let there = there.copied().unwrap_or(0);
            let amount = match (
                status.resources.is_some() && minor >= 36,
                is_infeasible(status),
            ) {
                (false, _) => wanted,
                (true, true) => there,
                (true, false) => there.max(wanted),
            };
            total.insert(resource, amount);
        }
    }
    total
}

/// The largest of three sums: of wanted, of allocated and of present resources. Wanted resources do
/// not count if the node has refused them.
fn since_1_37(spec: &PodSpec, status: &PodStatus) -> AmountsByName {
    let wanted = |container: &Container| of(container.resources.as_ref());
    let unless_refused = |container: &Container| match is_infeasible(status) {
        true => AmountsByName::new(),
        false => wanted(container),
    };
    let allocated = |container: &Container| match entry(container, status) {
        Some(entry) if !entry.allocated_resources.is_empty() => {
            quantities(&entry.allocated_resources)
        }
        _ => unless_refused(container),
    };
    let actual = |container: &Container| {
        let told = entry(container, status).map(|entry| of(entry.resources.as_ref()));
        match told {
            Some(told) if !told.is_empty() => told,
            _ => allocated(container),
        }
    };
    let of_pod = [
        quantities(&status.allocated_resources),
        of(status.resources.as_ref()),
    ];
    let [set_aside, there] = match of_pod.iter().all(|amounts| !amounts.is_empty()) {
        true => of_pod.clone(),
        false => [
            together(spec, &|container, _| allocated(container)),
            together(spec, &|container, _| actual(container)),
        ],
    };
    let mut total = larger(&set_aside, &there);
    if !is_infeasible(status) {
        total = larger(&total, &together(spec, &|container, _| wanted(container)));
    }
    let own = of(spec.resources.as_ref());
    if own.keys().any(|resource| is_of_pods(resource)) {
        let mut level = own;
        if status.resources.is_some() {
            if is_infeasible(status) {
                level.clear();
            }
            level = larger(&larger(&level, &of_pod[0]), &of_pod[1]);
        }
        total.extend(
            level
                .into_iter()
                .filter(|(resource, _)| is_of_pods(resource)),
        );
    }
    total
}

/// Returns whether an init container runs as long as the pod.
pub(super) fn is_sidecar(container: &Container) -> bool {
    container.restart_policy == "Always"
}

fn is_of_pods(resource: &str) -> bool {
    ["cpu", "memory"].contains(&resource) || resource.starts_with("hugepages-")
}

/// Returns whether the node has refused for good to resize the pod.
fn is_infeasible(status: &PodStatus) -> bool {
    let mut conditions = status.conditions.iter();
    let pending = conditions.find(|condition| condition.r#type == "PodResizePending");
    pending.is_some_and(|condition| condition.reason == "Infeasible")
}

/// Returns the status of a container.
fn entry<'s>(container: &Container, status: &'s PodStatus) -> Option<&'s ContainerStatus> {
    let all = status.container_statuses.iter();
    let mut all = all.chain(&status.init_container_statuses);
    all.find(|entry| entry.name == container.name)
}

/// Returns the requests of a running container while it may be resized.
fn resized(container: &Container, status: &PodStatus) -> AmountsByName {
    let spec = of(container.resources.as_ref());
    let told = entry(container, status).filter(|entry| entry.resources.is_some());
    let Some(told) = told else {
        return spec;
    };
    let there = larger(
        &of(told.resources.as_ref()),
        &quantities(&told.allocated_resources),
    );
    match is_infeasible(status) {
        true => there,
        false => larger(&there, &spec),
    }
}

fn of(resources: Option<&ResourceRequirements>) -> AmountsByName {
    resources
        .map(|resources| quantities(&resources.requests))
        .unwrap_or_default()
}

pub(super) fn quantities(wire: &BTreeMap<String, Quantity>) -> AmountsByName {
    let read =
        |(name, quantity): (&String, &Quantity)| (name.clone(), billionths(&quantity.string));
    wire.iter().map(read).collect()
}

fn add(to: &mut AmountsByName, more: &AmountsByName) {
    for (resource, amount) in more {
        *to.entry(resource.clone()).or_default() += amount;
    }
}

fn larger(a: &AmountsByName, b: &AmountsByName) -> AmountsByName {
    let mut all = a.clone();
    for (resource, amount) in b {
        let known = all.entry(resource.clone()).or_default();
        *known = *amount.max(known);
    }
    all
}

pub(super) fn rounded(amounts: &AmountsByName) -> BTreeMap<String, i128> {
    let round = |(name, amount): (&String, &i128)| (name.clone(), round_up(name, *amount));
    amounts.iter().map(round).collect()
}

fn round_up(resource: &str, billionths: i128) -> i128 {
    let part = if resource == "cpu" {
        1_000_000
    } else {
        1_000_000_000
    };
    ((billionths + part - 1) / part).min(i64::MAX.into())
}

/// The counted amount of a quantity: thousandths of a processor, units of everything else.
pub fn amount(resource: &str, quantity: &str) -> i128 {
    round_up(resource, billionths(quantity))
}

/// A quantity in billionths of a unit, rounded up, and at most 2^63 - 1 units. It
/// is read as a line of decimal digits, longer than any amount.
pub(super) fn billionths(text: &str) -> i128 {
    const MOST: i128 = i64::MAX as i128 * 1_000_000_000;
    let end = text
        .find(|c: char| c.is_ascii_alphabetic())
        .unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let number = number.trim_start_matches(['+', '-']);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = whole.bytes().chain(fraction.bytes());
    let mut digits: Vec<u32> = digits.map(|digit| u32::from(digit - b'0')).collect();
    // The number of digits before the point.
    let mut point = i64::try_from(whole.len()).expect("a short text");
    let place = |suffixes: &[&str]| suffixes.iter().position(|known| *known == suffix);
    if let Some(at) = place(&["n", "u", "m", "", "k", "M", "G", "T", "P", "E"]) {
        point += 3 * at as i64 - 9;
    } else if let Some(power) = place(&["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]) {
        for _ in 0..=power {
            point += times_1024(&mut digits);
        }
    } else {
        point += suffix[1..].parse::<i64>().expect("a checked exponent");
    }
    let mut amount: i128 = 0;
    for (at, digit) in (0..).zip(&digits) {
        if at >= point + 9 {
            // Some digit is finer than a billionth.
            let rest = digits[at as usize..].iter().any(|digit| *digit > 0);
            return (amount + i128::from(rest)).min(MOST);
        }
        amount = (amount * 10 + i128::from(*digit)).min(MOST * 10);
    }
    let zeros = point + 9 - i64::try_from(digits.len()).expect("a short text");
    for _ in 0..zeros.min(40) {
        amount = (amount * 10).min(MOST * 10);
    }
    amount.min(MOST)
}

/// Multiplies a line of digits by 1,024, by hand. Returns the number of digits that were added at
/// its front.
fn times_1024(digits: &mut Vec<u32>) -> i64 {
    let mut carry = 0;
    for digit in digits.iter_mut().rev() {
        carry += *digit * 1_024;
        *digit = carry % 10;
        carry /= 10;
    }
    let mut grown = 0;
    while carry > 0 {
        digits.insert(0, carry % 10);
        carry /= 10;
        grown += 1;
    }
    grown
}

/// Returns whether kube-scheduler checks a resource of this name.
fn is_looked_at(name: &str) -> bool {
    let named = ["cpu", "memory", "ephemeral-storage"].contains(&name)
        || name.starts_with("hugepages-")
        || name.starts_with("attachable-volumes-")
        || name.contains("kubernetes.io/");
    let Some((domain, rest)) = name.split_once('/') else {
        return named;
    };
    let in_domain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.".contains(c);
    let parts = domain.split('.');
    let mut parts = parts.map(|part| part.chars().zip(part.chars().rev()).next());
    let is_end = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let well_formed = domain.chars().all(in_domain)
        && "requests.".len() + domain.len() <= 253
        && parts.all(|ends| ends.is_some_and(|(first, last)| is_end(first) && is_end(last)));
    let ends = rest.chars().next().zip(rest.chars().next_back());
    let rest_well_formed = rest.len() <= 63
        && rest
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
        && ends.is_some_and(|(a, b)| a.is_ascii_alphanumeric() && b.is_ascii_alphanumeric());
    named || (!name.starts_with("requests.") && well_formed && rest_well_formed)
}
