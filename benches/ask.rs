//! Questions to the library, in process: from a compiled question, and from the bytes of a request
//! to the bytes of its answer.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use evenkeel::api::Service;
use evenkeel::matching::Path;
use evenkeel::proto::v1;
use evenkeel::proto::v1::spread_service_server::SpreadService;
use evenkeel::snapshot::{Batch, Limits, Offer, ReadView, Snapshot, Stopped};
use evenkeel::spread::{Constraints, Filter, NodeChecks, Question, Scores};
use tokio_util::sync::CancellationToken;

use super::world::{self, World};

/// The number of domains that a report lists, as the service does by default.
const MAX_DOMAINS: usize = 100;

/// A service in front of a world.
pub struct Wire(Service);

impl Wire {
    /// A service in front of `world`.
    pub fn of(world: &World) -> Self {
        let registry = Arc::clone(&world.registry);
        Self(Service::new(registry, CancellationToken::new()))
    }

    /// `Filter` from bytes to bytes.
    pub fn filter(&self, request: &[u8]) -> Bytes {
        let request = Bytes::copy_from_slice(request);
        let answer = now(self.0.filter(tonic::Request::new(request)));
        answer.expect("it is answered").into_inner()
    }

    /// `Score` from bytes to bytes.
    pub fn score(&self, request: &[u8]) -> Bytes {
        let request = Bytes::copy_from_slice(request);
        let answer = now(self.0.score(tonic::Request::new(request)));
        answer.expect("it is answered").into_inner()
    }
}

/// Applies a batch to the live state.
pub fn update(world: &World, batch: &Arc<Batch>) {
    let offer = Offer::of(Arc::clone(batch), world.registry.now().steady);
    let update = world.registry.update(world::NAME, offer);
    update.expect("it is within limits");
}

/// Drops all views and sets of eligible nodes, so that changes follow none of
/// them.
pub fn forget_views(world: &World) {
    world.registry.sweep(0);
}

/// The answer of a call that does not have to wait.
fn now<T>(call: impl Future<Output = T>) -> T {
    match pin!(call).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => answer,
        Poll::Pending => unreachable!("a decision on a synced snapshot never waits"),
    }
}

/// A question, compiled.
pub struct Compiled {
    snapshot: Arc<Snapshot>,
    question: Question,
}

impl Compiled {
    /// The question that a pod asks.
    pub fn of(world: &World, pod: &v1::Pod) -> Self {
        let question = Question::compile(Some(pod), &Limits::default(), Path::root("pod"));
        Self {
            snapshot: world.snapshot(),
            question: question.expect("the pod is valid"),
        }
    }

    fn read<T>(&self, decide: impl FnOnce(&Constraints, &ReadView<'_>) -> Result<T, Stopped>) -> T {
        let namespace = &self.question.namespace;
        let read = self.snapshot.read(namespace, Batch::default(), |cut| {
            decide(&*self.question.constraints_on(&cut)?, &cut)
        });
        read.expect("nobody gives it up")
    }

    /// Filter, domain view: how many nodes are feasible.
    pub fn filter_domains(&self, checks: NodeChecks) -> usize {
        self.read(|constraints, cut| {
            let filter = Filter::of(&self.question, constraints, checks, cut)?;
            let reports = filter.reports(MAX_DOMAINS)?;
            std::hint::black_box(&reports);
            Ok(filter.tally_all()?.feasible)
        })
    }

    /// Filter, a bit per node.
    pub fn filter_bitmap(&self) -> Vec<u8> {
        self.read(|constraints, cut| {
            let filter = Filter::of(&self.question, constraints, NodeChecks::All, cut)?;
            let judged = filter.judge_all(cut.nodes.order())?;
            let words = judged.pass.as_slice().iter();
            Ok(words.flat_map(|word| word.to_le_bytes()).collect())
        })
    }

    /// Score of the nodes that pass Filter.
    pub fn score(&self) -> Vec<u8> {
        self.scored(|scores| scores.packed())
    }

    /// The indices of the ten best nodes.
    pub fn score_top(&self) -> Vec<usize> {
        self.scored(|scores| scores.best(10))
    }

    fn scored<T>(&self, answer: impl FnOnce(Scores<'_>) -> T) -> T {
        self.read(|constraints, cut| {
            let filter = Filter::of(&self.question, constraints, NodeChecks::All, cut)?;
            let all = cut.nodes.order();
            if filter.passes_all() {
                return Ok(answer(Scores::of(constraints, all, cut)?));
            }
            let passing = filter.judge_all(all)?.pass;
            let candidates: Vec<_> = passing.ones().map(|at| all[at]).collect();
            Ok(answer(Scores::of(constraints, &candidates, cut)?))
        })
    }

    /// Matching pods per domain of each hard constraint.
    pub fn counts(&self) -> Vec<Vec<(String, i64)>> {
        self.read(|constraints, cut| {
            let filter = Filter::of(&self.question, constraints, NodeChecks::SpreadOnly, cut)?;
            let reports = filter.reports(usize::MAX)?;
            let counts = reports.iter().map(|report| {
                let domains = report.domains.iter().map(|domain| domain.tally);
                let mut counts: Vec<_> = domains
                    .map(|tally| (tally.value.to_owned(), tally.matching_pods))
                    .collect();
                counts.sort_unstable();
                counts
            });
            Ok(counts.collect())
        })
    }
}
