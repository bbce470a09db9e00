//! Hints about misspelt names.

use evenkeel_core::matching::names::HOSTNAME;

/// Topology keys that clusters usually have.
const WELL_KNOWN_KEYS: [&str; 4] = [
    HOSTNAME,
    "node.kubernetes.io/instance-type",
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
];

/// The end of a message about a topology key that no node has.
pub fn topology_key_hint(key: &str) -> String {
    hint(key, WELL_KNOWN_KEYS)
}

/// The name in `known` that `name` was probably meant to be; `None` if `name` is one of them, or is
/// too far from all of them.
pub fn did_you_mean<'k>(name: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let lower = name.to_lowercase();
    let distances = known.into_iter().filter_map(|known| {
        let most = known.len() / 3;
        // A whole dump may be searched, so the length rules out most names first.
        let may_be = name.len().abs_diff(known.len()) <= most;
        let distance = || strsim::damerau_levenshtein(&lower, &known.to_lowercase());
        let distance = may_be.then(distance)?;
        (distance <= most).then_some((distance, known))
    });
    let (_, known) = distances.min()?;
    (known != name).then_some(known)
}

/// The end of a message about `name`: the name that was probably meant, if there is one.
pub fn hint<'k>(name: &str, known: impl IntoIterator<Item = &'k str>) -> String {
    let close = did_you_mean(name, known);
    close.map_or_else(String::new, |close| format!(", did you mean {close}?"))
}

/// The end of a message that nothing is called `name`: the known names that are nearest to it.
pub fn nearest<'k>(name: &str, known: impl IntoIterator<Item = &'k str>) -> String {
    /// The most names that a line lists.
    const LISTED: usize = 3;
    let distance = |known: &str| strsim::damerau_levenshtein(name, known);
    let known = known.into_iter().map(|known| (distance(known), known));
    let known: std::collections::BTreeSet<(usize, &str)> = known.collect();
    let names: Vec<&str> = known.into_iter().take(LISTED).map(|(_, it)| it).collect();
    match &*names {
        [] => String::new(),
        [one] => format!("; there is {one}"),
        _ => format!("; the nearest are {}", names.join(", ")),
    }
}
