//! The open connections of the admin port, shared among callers.

use std::collections::VecDeque;
use std::net::IpAddr;

use hashbrown::HashMap;
use tokio::task::{AbortHandle, Id, JoinSet};
use tracing::debug;

use crate::api::slots::CallerKey;
use crate::tasks;

/// Connections, each answered by a task. At the limit a new connection closes the oldest one of the
/// caller that holds most. So a probe from any address is always accepted. It is answered long
/// before enough other connections come to close it.
pub(super) struct OpenConnections {
    limit: usize,
    /// The connections, the oldest first.
    open: VecDeque<OpenConnection>,
    answering: JoinSet<()>,
}

struct OpenConnection {
    caller: CallerKey,
    task: AbortHandle,
}

impl OpenConnections {
    /// An empty set of at most `limit` connections.
    pub(super) fn new(limit: usize) -> Self {
        Self {
            limit,
            open: VecDeque::with_capacity(limit),
            answering: JoinSet::new(),
        }
    }

    /// Answers one more connection of a caller at an address.
    pub(super) fn add(
        &mut self,
        address: IpAddr,
        answer: impl Future<Output = ()> + Send + 'static,
    ) {
        while let Some(ended) = self.answering.try_join_next_with_id() {
            self.forget(ended.map_or_else(|error| error.id(), |(id, ())| id));
        }
        if self.open.len() >= self.limit {
            self.close_one();
        }
        let caller = CallerKey::new(None, Some(address));
        let task = tasks::spawn_in(&mut self.answering, answer);
        self.open.push_back(OpenConnection { caller, task });
    }

    /// Forgets the connection whose task has ended.
    fn forget(&mut self, ended: Id) {
        self.open.retain(|open| open.task.id() != ended);
    }

    /// Closes the oldest connection of the caller that holds most.
    fn close_one(&mut self) {
        if let Some(closed) = self.oldest().and_then(|index| self.open.remove(index)) {
            debug!(caller = ?closed.caller, "closing the oldest connection of the admin port");
            closed.task.abort();
        }
    }

    /// The oldest connection of the caller that holds most.
    fn oldest(&self) -> Option<usize> {
        let mut counts: HashMap<&CallerKey, usize> = HashMap::new();
        for open in &self.open {
            let count = counts.entry(&open.caller).or_default();
            *count = count.saturating_add(1);
        }
        let most = counts.values().max();
        let holds_most = |open: &OpenConnection| counts.get(&open.caller) == most;
        self.open.iter().position(holds_most)
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::sync::oneshot;

    use super::*;

    /// Adds connections of callers 0 to 2 in the order of `added`, at a limit of 4; returns the
    /// ones that are open in the end.
    async fn left(added: &[u8]) -> Vec<usize> {
        let mut connections = OpenConnections::new(4);
        let mut held = Vec::new();
        for caller in added {
            let (open, closed) = oneshot::channel::<()>();
            held.push(closed);
            let address = IpAddr::from([10, 0, 0, *caller]);
            connections.add(address, async move {
                let _open = open;
                pending().await
            });
            tokio::task::yield_now().await;
        }
        tokio::task::yield_now().await;
        let is_open = |closed: &mut oneshot::Receiver<()>| {
            matches!(closed.try_recv(), Err(oneshot::error::TryRecvError::Empty))
        };
        let all = held.iter_mut().enumerate();
        all.filter_map(|(index, closed)| is_open(closed).then_some(index))
            .collect()
    }

    #[tokio::test]
    async fn the_oldest_connection_of_whoever_holds_most_is_closed() {
        for (added, expected) in [
            (&[0, 0, 0][..], &[0, 1, 2][..]),
            (&[0, 0, 0, 0, 0], &[1, 2, 3, 4]),
            (&[1, 0, 0, 0, 0, 0, 0], &[0, 4, 5, 6]),
            (&[0, 0, 0, 0, 1, 2], &[2, 3, 4, 5]),
            (&[0, 0, 1, 1, 2], &[1, 2, 3, 4]),
        ] {
            assert_eq!(left(added).await, expected, "{added:?}");
        }
    }

    #[tokio::test]
    async fn answered_connections_take_no_place() {
        let mut connections = OpenConnections::new(2);
        for _ in 0..10 {
            connections.add(IpAddr::from([10, 0, 0, 1]), async {});
            tokio::task::yield_now().await;
            assert!(connections.open.len() <= 2);
        }
        let (open, mut closed) = oneshot::channel::<()>();
        connections.add(IpAddr::from([10, 0, 0, 2]), async move {
            let _open = open;
            pending().await
        });
        tokio::task::yield_now().await;
        assert!(
            closed
                .try_recv()
                .is_err_and(|error| error == oneshot::error::TryRecvError::Empty)
        );
    }
}
