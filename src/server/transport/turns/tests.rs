use super::*;

/// Waits until all other tasks had their turn, as a connection does. Tokio's own yield lets
/// them have several.
async fn next_turn() {
    let mut is_over = false;
    poll_fn(move |context| match std::mem::replace(&mut is_over, true) {
        true => Poll::Ready(()),
        false => {
            context.waker().wake_by_ref();
            Poll::Pending
        }
    })
    .await;
}

/// Lets calls arrive on one of several connections, and gives up every third call. Returns the
/// largest number of calls between two turns of other tasks, and the number of all.
async fn begun(calls: usize, connections: usize) -> (usize, usize) {
    let turns = Arc::new(CallTurns::default());
    let count = Arc::new(AtomicUsize::new(0));
    let (connection, mut turn) = (Arc::clone(&turns), ReadingTurn::default());
    tokio::spawn(poll_fn(move |context| {
        if turn.next_piece(&connection, connections, context).is_some() {
            turn.note(None);
        }
        connection.connection.register(context);
        Poll::<()>::Pending
    }));
    next_turn().await;
    let calls: Vec<_> = (0..calls)
        .map(|_| {
            let (mut call, count) = (turns.arrive(), Arc::clone(&count));
            tokio::spawn(async move {
                call.begin().await;
                count.fetch_add(1, Ordering::Relaxed);
            })
        })
        .collect();
    // This task stands for another connection.
    let other = tokio::spawn(async move {
        let (mut most, mut before, mut idle) = (0, 0, 0);
        while idle < 20 {
            next_turn().await;
            let now = count.load(Ordering::Relaxed);
            most = most.max(now - before);
            idle = if now == before { idle + 1 } else { 0 };
            if before == 0 {
                calls.iter().step_by(3).for_each(|call| call.abort());
            }
            before = now;
        }
        (most, before)
    });
    other.await.expect("it does not panic")
}

/// Returns the numbers of bytes that one of several connections reads in its turns, if there
/// are always enough, and each call has `bytes_of_call` bytes.
async fn read_in_turns(connections: usize, bytes_of_call: usize) -> Vec<usize> {
    let (calls, mut turn) = (Arc::<CallTurns>::default(), ReadingTurn::default());
    let context = Context::from_waker(Waker::noop());
    let (mut all, mut turns) = (0, Vec::new());
    while turns.len() < 16 {
        let before = all;
        while let Some(piece) = turn.next_piece(&calls, connections, &context) {
            // Reads only half as much, as if fewer bytes had arrived.
            let length = piece.div_ceil(2);
            turn.note(Some(length));
            all += length;
        }
        let arrived = before / bytes_of_call..all / bytes_of_call;
        let arrived: Vec<_> = arrived.map(|_| calls.arrive()).collect();
        for _ in 0..if arrived.len() > CALLS_OF_ALL { 20 } else { 1 } {
            next_turn().await;
            if arrived.len() > CALLS_OF_ALL {
                let next = turn.next_piece(&calls, connections, &context);
                assert_eq!(next, None, "they are to begin first");
            }
        }
        // In some turns the connection only waits.
        turns.extend(Some(all - before).filter(|read| *read > 0));
    }
    turns
}

#[tokio::test(flavor = "current_thread")]
async fn of_many_connections_each_reads_few_calls_in_a_turn() {
    for (connections, bytes_of_call, least, most) in [
        (1, 32, BYTES, BYTES),
        (1, usize::MAX, BYTES, BYTES),
        (16, 32, 2_048, 2_048),
        (100, 32, 327, 327),
        (100, 1_000, 327, 1_308),
        (5_000, 32, 256, 256),
        // Large messages are not read in small pieces.
        (5_000, usize::MAX, BYTES, BYTES),
    ] {
        let read = read_in_turns(connections, bytes_of_call).await;
        let is_met = read[6..].iter().all(|bytes| (least..=most).contains(bytes));
        assert!(is_met, "{read:?} of {connections}, {bytes_of_call}");
    }
}

#[tokio::test(flavor = "current_thread")]
async fn a_connection_begins_few_calls_before_others_have_their_turn() {
    for (calls, connections, expected) in [
        (40, 1, MAX_CALLS),
        (300, 1, MAX_CALLS),
        (300, 16, 8),
        (300, 5_000, MIN_CALLS),
    ] {
        let (most, all) = begun(calls, connections).await;
        // The turn of a call that is given up goes to the next call, a little later.
        assert!(most <= 2 * expected, "{most} of {calls}, {connections}");
        let begun_first = calls.min(expected);
        let given_up = (calls - begun_first) / 3;
        let wanted = calls - given_up;
        assert!(all.abs_diff(wanted) <= 1, "{all}, not {wanted}");
    }
}

#[tokio::test(flavor = "current_thread")]
async fn few_connections_read_at_a_time_and_all_as_often() {
    let reads: Vec<_> = (0..50).map(|_| Arc::new(AtomicUsize::new(0))).collect();
    for count in &reads {
        let (count, place) = (Arc::clone(count), RotationPlace::default());
        tokio::spawn(poll_fn(move |context| {
            if place.admits(context) {
                count.fetch_add(1, Ordering::Relaxed);
                context.waker().wake_by_ref();
            }
            Poll::<()>::Pending
        }));
    }
    let observe = tokio::spawn(async move {
        let all = || reads.iter().map(|count| count.load(Ordering::Relaxed));
        let mut before = 0;
        for _ in 0..500 {
            next_turn().await;
            let now = all().sum();
            assert!(now - before <= AT_ONCE, "{now} after {before}");
            before = now;
        }
        assert!(before > 500, "{before}");
        let apart = all().max().zip(all().min());
        assert!(
            apart.is_some_and(|(most, least)| most - least <= 2),
            "{apart:?}"
        );
    });
    observe.await.expect("it does not panic");
}
