//! Values of the annotation `pod-deletion-cost` by which a ReplicaSet deletes pods in a given
//! order.

/// The distance between new values, which leaves room for others in between.
const STEP: i64 = 1_000;

/// Returns ascending values for pods in the order in which they should go. As many pods as possible
/// keep the value that they have in `now`. If no pod has a value, the last gets -[`STEP`], so that
/// pods without a value, which counts as 0, go after all these.
pub fn deletion_costs(now: &[Option<i32>]) -> Vec<i32> {
    let kept = longest_unchanged(now);
    let values = beside(now.len(), &kept);
    let values: Option<Vec<i32>> = values.map(|value| i32::try_from(value).ok()).collect();
    values.unwrap_or_else(|| {
        let rebuilt = beside(now.len(), &[]);
        rebuilt
            .map(|value| i32::try_from(value).unwrap_or(i32::MIN))
            .collect()
    })
}

/// The places and values of the most pods that can keep their values. There have to be at least as
/// many whole numbers between the values of two such pods as pods between them. This is true if the
/// values minus the places do not descend.
fn longest_unchanged(now: &[Option<i32>]) -> Vec<(usize, i64)> {
    let all = now.iter().zip(0_i64..).enumerate();
    let all = all.filter_map(|(place, (value, index))| {
        let value = i64::from((*value)?);
        Some((place, value, value - index))
    });
    let all: Vec<(usize, i64, i64)> = all.collect();
    // `ends` has the end of the chain of each length with the smallest height. `before` has the
    // predecessor of each entry.
    let mut ends: Vec<usize> = Vec::new();
    let mut before: Vec<Option<usize>> = Vec::with_capacity(all.len());
    for (at, (_, _, height)) in all.iter().enumerate() {
        let length = ends.partition_point(|end| all[*end].2 <= *height);
        before.push(length.checked_sub(1).map(|shorter| ends[shorter]));
        match ends.get_mut(length) {
            Some(end) => *end = at,
            None => ends.push(at),
        }
    }
    let chain = std::iter::successors(ends.last().copied(), |at| before[*at]);
    let mut kept: Vec<_> = chain.map(|at| (all[at].0, all[at].1)).collect();
    kept.reverse();
    kept
}

/// The values of all pods, if the values of the pods at some places are known.
fn beside(pods: usize, known: &[(usize, i64)]) -> impl Iterator<Item = i64> {
    let distance = |from: usize, to: usize| i64::try_from(to - from).unwrap_or(i64::MAX);
    (0..pods).map(move |place| {
        let next = known.partition_point(|(at, _)| *at < place);
        let before = next.checked_sub(1).map(|index| known[index]);
        match (before, known.get(next).copied()) {
            (Some((from, low)), Some((to, high))) => {
                let part = (high - low) * distance(from, place);
                low + part / distance(from, to)
            }
            (Some((from, low)), None) => low + STEP * distance(from, place),
            (None, Some((to, high))) => high - STEP * distance(place, to),
            (None, None) => -STEP * distance(place, pods),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::deletion_costs;
    use fastrand::Rng;

    #[test]
    fn few_values_change() {
        let cases: [(&[Option<i32>], &[i32]); 7] = [
            (&[None, None, None], &[-3000, -2000, -1000]),
            // Some pods went, some came.
            (&[Some(-2000), Some(-1000)], &[-2000, -1000]),
            (&[None, Some(-2000), Some(-1000)], &[-3000, -2000, -1000]),
            (&[Some(-2000), None, Some(-1000)], &[-2000, -1500, -1000]),
            // There is no number between the two values.
            (&[Some(-2), None, Some(-1)], &[-2001, -1001, -1]),
            (
                &[Some(-1000), Some(-3000), Some(-2000)],
                &[-4000, -3000, -2000],
            ),
            (
                &[Some(i32::MIN + 1), None, Some(i32::MIN)],
                &[-3000, -2000, -1000],
            ),
        ];
        for (now, wanted) in cases {
            assert_eq!(deletion_costs(now), wanted, "{now:?}");
        }
    }

    /// Values ascend, and no other choice of ascending values keeps more.
    #[test]
    fn as_many_as_possible_stay() {
        let mut rng = Rng::with_seed(3);
        for _ in 0..2_000 {
            let pods = rng.usize(..9);
            let value = |rng: &mut Rng| rng.bool().then(|| rng.i32(-12..0));
            let now: Vec<_> = (0..pods).map(|_| value(&mut rng)).collect();
            let values = deletion_costs(&now);
            assert!(values.is_sorted_by(|one, next| one < next), "{now:?}");
            let stay = |kept: u32| {
                let known = (0..pods).filter(|at| kept >> at & 1 == 1);
                let known: Vec<_> = known.map(|at| now[at].map(|it| it - at as i32)).collect();
                known.iter().all(Option::is_some) && known.is_sorted()
            };
            let most = (0..1_u32 << pods).filter(|kept| stay(*kept));
            let most = most.map(u32::count_ones).max().expect("none stays");
            let stayed = now
                .iter()
                .zip(&values)
                .filter(|(now, new)| **now == Some(**new));
            assert_eq!(stayed.count() as u32, most, "{now:?} {values:?}");
        }
    }
}
