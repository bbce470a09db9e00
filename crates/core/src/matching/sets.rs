//! Lists that are sets.

/// The values in order, without repetitions, so that equal sets are equal lists.
pub(super) fn set_of<T: Ord>(values: impl IntoIterator<Item = T>) -> Box<[T]> {
    let mut values: Vec<T> = values.into_iter().collect();
    values.sort_unstable();
    values.dedup();
    values.into()
}
