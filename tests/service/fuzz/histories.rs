//! After any history every answer is what the oracle recounts.

use std::mem;
use support::generate;

use proptest::prelude::Strategy;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use support::history::{Step, asked, live_through};
use support::model::{is_deletion, subject};
use support::server::Server;

/// More steps make a run slow and find no more faults.
const MAX_STEPS: usize = 12;

/// The input has three bytes for each event: its kind, and the seed that makes it. So leaving out,
/// doubling or moving a part of an input leaves the other parts as they are.
pub fn check(input: &[u8]) {
    let (runtime, server) = Server::shared();
    runtime.block_on(live_through(server, steps(input)));
}

fn steps(input: &[u8]) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut step = Step::default();
    for happening in input.as_chunks::<3>().0 {
        let [what, seed @ ..] = *happening;
        match what % 8 {
            0..=4 => add(&mut step, made(generate::change(), seed)),
            5 => step.questions.push(made(asked(), seed)),
            6 => step.defaults = Some(made(generate::defaults(), seed)),
            _ => {
                let replaces = seed[0] < 24;
                steps.push(mem::take(&mut step));
                step.replace = replaces;
            }
        }
    }
    steps.push(step);
    steps.truncate(MAX_STEPS);
    steps
}

/// Adds a change, unless the batch has one of the same object, or the change deletes from a state
/// that replaces all.
fn add(step: &mut Step, change: evenkeel::proto::v1::Change) {
    let known = step
        .changes
        .iter()
        .any(|other| subject(other) == subject(&change));
    let refused = step.replace && is_deletion(&change);
    if !known && !refused {
        step.changes.push(change);
    }
}

/// Returns the value that a seed makes.
fn made<S: Strategy>(strategy: S, [high, low]: [u8; 2]) -> S::Value {
    let mut seed = [1; 16];
    (seed[0], seed[1]) = (high, low);
    let rng = TestRng::from_seed(RngAlgorithm::XorShift, &seed);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let tree = strategy.new_tree(&mut runner);
    tree.expect("no strategy of ours filters").current()
}
