//! Each list of each question at its limit, beside as many objects of each kind as there is room
//! for. Lists and kinds come from the protocol's descriptors, so a new one is tried without being
//! named here; [`rich`] says what makes one dear.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use evenkeel::limits::{Limit, Limits, Unit};
use evenkeel::proto::v1::Change;
use prost::Message;
use prost_types::FieldDescriptorProto;
use support::build::update_of;
use tokio::time::{Instant, sleep, timeout};
use tonic::{Code, Status};
use tonic_types::StatusExt;

use crate::hostile::beside::Bystanders;
use crate::hostile::descriptors::{Call, FieldPath, Protocol, bytes_of};
use crate::hostile::lists::lists;
use crate::hostile::process::Server;
use crate::hostile::request::client;
use crate::hostile::rich;
use crate::hostile::world::{LONGEST_MS, MEASURING, limit_of};

/// How much is tried, and what is allowed.
struct Scale {
    /// Objects of the kind that there are many of.
    many: usize,
    /// Objects of each other kind.
    few: usize,
    /// The most entries of a list, where its limit allows more.
    entries: usize,
    /// One of so many pairs is tried. Each list and each kind is in some.
    every: usize,
    /// The memory limit of the server.
    memory: usize,
    /// The longest wait for health, in milliseconds.
    health_ms: f64,
    /// The longest work after its caller has gone.
    work: Duration,
}

/// What a debug build does in half a minute.
const SMALL: Scale = Scale {
    many: 300,
    few: 20,
    entries: 300,
    every: 61,
    memory: 256 << 20,
    health_ms: LONGEST_MS,
    work: Duration::from_secs(2),
};

const FULL: Scale = Scale {
    many: 50_000,
    few: 500,
    entries: 100_000,
    every: 1,
    memory: 768 << 20,
    health_ms: 100.0,
    work: Duration::from_millis(200),
};

/// The entries of a list that a question has beside those that make it long.
const AROUND: usize = 4;

/// The time that a question gets, and that its caller waits in the try where it gives up.
const DEADLINE: Duration = Duration::from_secs(3);
const MOMENT: Duration = Duration::from_millis(250);

/// A machine that has other work makes anything late once, but hardly three times in turn.
const TRIES: usize = 3;

/// What calls that change something begin with. All others are questions.
const CHANGING: &str = "Update Stream Delete Reserve Confirm Renew Release";

/// A list of a question.
struct Case<'a> {
    call: &'a Call,
    list: FieldPath<'a>,
}

impl<'a> Case<'a> {
    /// The lists of all questions: each once in each request, and each of an overlay once. A list
    /// that the same field has on several ways, such as the labels of the selectors of all terms, is
    /// one.
    fn all(protocol: &'a Protocol) -> Vec<Self> {
        let mut seen = BTreeSet::new();
        let cases = lists(protocol).map(|(call, list)| Self { call, list });
        let changes = |call: &Call| CHANGING.split(' ').any(|it| call.name.starts_with(it));
        let questions = cases.filter(|case| !changes(case.call));
        questions.filter(|case| seen.insert(case.key())).collect()
    }

    /// The innermost request, change or template that has the list, the field of it, and the list with
    /// the field around it.
    fn key(&self) -> String {
        let outer = |field: &&FieldDescriptorProto| {
            let name = field.type_name();
            [".Change", ".NodeTemplate"].contains(&name.trim_start_matches(".evenkeel.v1"))
                || name.ends_with("Request")
        };
        let fields = &self.list.0;
        let at = fields.iter().rposition(outer);
        let outer = at.map_or(&*self.call.request, |at| fields[at].type_name());
        let within = &fields[at.map_or(0, |at| at + 1)..];
        let names: Vec<&str> = within.iter().map(|field| field.name()).collect();
        match &*names {
            [] | [_] | [_, _] | [_, _, _] => format!("{outer}.{}", names.join(".")),
            [first, .., around, list] => format!("{outer}.{first}..{around}.{list}"),
        }
    }

    fn request(&self, protocol: &Protocol, kind: &FieldDescriptorProto, count: usize) -> Vec<u8> {
        let list = self.list.field();
        let entry = |number| match list.type_name() {
            ".evenkeel.v1.Change" => bytes_of(list.number(), &object(protocol, kind, number)),
            _ => protocol.rich_entry(list, number, &rich::entry(list, number)),
        };
        let entries: Vec<u8> = (0..count).flat_map(entry).collect();
        self.list.request_with(self.call, &entries, rich::around)
    }
}

/// An object of a kind, as a change.
fn object(protocol: &Protocol, kind: &FieldDescriptorProto, number: usize) -> Vec<u8> {
    protocol.rich_entry(kind, number, &rich::object(kind.type_name(), number))
}

/// A server on one thread with many objects of a kind.
struct Scene<'a> {
    scale: &'a Scale,
    protocol: &'a Protocol,
    kind: &'a FieldDescriptorProto,
    server: Server,
    /// The resident memory of an empty server.
    fresh: usize,
}

impl<'a> Scene<'a> {
    async fn start(
        scale: &'a Scale,
        protocol: &'a Protocol,
        kinds: &[&'a FieldDescriptorProto],
        kind: &'a FieldDescriptorProto,
    ) -> Self {
        let memory = scale.memory.to_string();
        let server = Server::start(&["--threads", "1", "--max-memory-bytes", &memory]);
        let fresh = server.peak_memory();
        let scene = Self {
            scale,
            protocol,
            kind,
            server,
            fresh,
        };
        for other in kinds {
            scene.fill(other, 0..scale.few).await;
        }
        scene.fill(kind, scale.few..scale.many).await;
        scene
    }

    /// Adds objects until there is no more memory for them.
    async fn fill(&self, kind: &FieldDescriptorProto, numbers: std::ops::Range<usize>) {
        const BATCH: usize = 5_000;
        let mut client = client(self.server.address());
        let numbers: Vec<usize> = numbers.collect();
        for batch in numbers.chunks(BATCH) {
            let change = |number: &usize| {
                let object = object(self.protocol, kind, *number);
                Change::decode(&*object).expect("a change")
            };
            let batch = update_of(batch.iter().map(change).collect());
            if let Err(status) = client.update_snapshot(batch).await {
                assert_eq!(
                    limit_of(&status).as_deref(),
                    Some("max-memory-bytes"),
                    "{status}"
                );
                return;
            }
        }
    }

    /// Asks with as many entries as the server allows. Returns the request and the answer.
    async fn ask(&self, case: &Case<'_>) -> (Vec<u8>, Result<(), Status>) {
        let mut count = self.scale.entries;
        loop {
            let request = case.request(self.protocol, self.kind, count);
            let channel = self.server.channel();
            let answer = case.call.send(&channel, request.clone(), DEADLINE).await;
            let refused = answer
                .as_ref()
                .err()
                .filter(|it| it.get_details_bad_request().is_some());
            let limit = refused
                .and_then(limit_of)
                .and_then(|name| Limit::named(&name));
            count = match limit {
                Some(limit) if limit.row().unit == Unit::Bytes && count > 1 => count / 2,
                Some(limit) if Limits::default().get(limit) - AROUND < count => {
                    Limits::default().get(limit) - AROUND
                }
                _ => return (request, answer),
            };
        }
    }

    /// Tries a list. Returns what was not as it must be.
    async fn faults(&self, case: &Case<'_>) -> (Vec<String>, Option<Status>) {
        let mut faults = Vec::new();
        self.forget_peak();
        let bystanders = Bystanders::start(self.server.address());
        let begun = Instant::now();
        let (request, answer) = self.ask(case).await;
        let took = begun.elapsed();
        let outcome = answer
            .as_ref()
            .err()
            .map(|status| (status.code(), status.message()));
        println!(
            "{} × {}: {:?}",
            self.kind.name(),
            case.key(),
            (took, outcome)
        );
        let (health, filter) = bystanders.stop();
        let after_end = self.work_left().await;
        let mut after_cancel = Duration::ZERO;
        if took > MOMENT {
            let channel = self.server.channel();
            let given_up = case.call.send(&channel, request, DEADLINE);
            if timeout(MOMENT, given_up).await.is_err() {
                after_cancel = self.work_left().await;
            }
        }
        for (what, work) in [("its end", after_end), ("a cancel", after_cancel)] {
            if work > self.scale.work {
                faults.push(format!("works for {work:.1?} after {what}"));
            }
        }
        for (who, waits) in [("health", health), ("a small Filter", filter)] {
            if !waits.failures().is_empty() {
                faults.push(format!("{who}: {:?}", waits.failures()));
            }
            let waited = waits.longest();
            if who == "health" && waited > self.scale.health_ms {
                let quiet = self.quiet_wait(took).await;
                if waited > self.scale.health_ms + quiet {
                    faults.push(format!(
                        "health waits {waited:.0} ms, and {quiet:.0} without it"
                    ));
                }
            }
        }
        let most = self.fresh + self.scale.memory / 10 * 13;
        if self.server.peak_memory() > most {
            faults.push(format!("{} MiB", self.server.peak_memory() >> 20));
        }
        (faults, answer.err())
    }

    /// Returns the longest wait for health in some time without the question, in milliseconds.
    async fn quiet_wait(&self, time: Duration) -> f64 {
        let bystanders = Bystanders::start(self.server.address());
        sleep(time.max(MOMENT)).await;
        bystanders.stop().0.longest()
    }

    /// Waits until the server is idle. Returns the time of processors that it took.
    async fn work_left(&self) -> Duration {
        const LOOK: Duration = Duration::from_millis(25);
        const IDLE: usize = 5;
        let (before, begun) = (self.worked(), Instant::now());
        let (mut last, mut idle) = (before, 0);
        while idle < IDLE && begun.elapsed() < Duration::from_secs(30) {
            sleep(LOOK).await;
            let now = self.worked();
            idle = if now == last { idle + 1 } else { 0 };
            last = now;
        }
        last - before
    }

    /// The time of processors that the server has taken.
    fn worked(&self) -> Duration {
        const TICK: Duration = Duration::from_millis(10);
        let stat = fs::read_to_string(self.proc("stat")).expect("it runs");
        let (_, fields) = stat.rsplit_once(')').expect("a name in parentheses");
        let times = fields.split(' ').skip(12).take(2);
        let ticks: u32 = times
            .map(|ticks| ticks.parse::<u32>().expect("ticks"))
            .sum();
        TICK * ticks
    }

    /// Makes the peak of the memory the memory of now.
    fn forget_peak(&self) {
        fs::write(self.proc("clear_refs"), "5").expect("it is our child");
    }

    fn proc(&self, file: &str) -> PathBuf {
        format!("/proc/{}/{file}", self.server.id()).into()
    }
}

/// The value of a variable that leaves out some pairs, such as `KIND=node LIST=spec.volumes`.
fn asked(variable: &str) -> String {
    std::env::var(variable).unwrap_or_default()
}

async fn try_pairs(scale: &Scale) {
    let _alone = MEASURING.lock().await;
    let protocol = Protocol::read();
    let kinds = protocol.members(".evenkeel.v1.Change");
    // What is deleted is one of the others.
    let kinds: Vec<_> = kinds.filter(|kind| kind.name() != "delete").collect();
    let cases = Case::all(&protocol);
    let (of_kind, of_list) = (asked("KIND"), asked("LIST"));
    assert!(cases.len() > 200, "{} lists", cases.len());
    let (mut faults, mut tried, mut invalid) = (Vec::new(), 0, BTreeSet::new());
    for (row, kind) in kinds.iter().enumerate() {
        if !of_kind.is_empty() && kind.name() != of_kind {
            continue;
        }
        let scene = Scene::start(scale, &protocol, &kinds, kind).await;
        for (column, case) in cases.iter().enumerate() {
            let key = case.key();
            if !(row + column).is_multiple_of(scale.every) || !key.contains(&of_list) {
                continue;
            }
            let mut left = TRIES;
            let found = loop {
                let (found, status) = scene.faults(case).await;
                if let Some(status) = status.filter(|status| status.code() == Code::InvalidArgument)
                {
                    invalid.insert(format!("{key}: {}", status.message()));
                }
                left -= 1;
                if found.is_empty() || left == 0 {
                    break found;
                }
                let found = found.join(", ");
                println!("{} × {key}, tried again after: {found}", kind.name());
            };
            tried += 1;
            if !found.is_empty() {
                let found = format!("{} × {key}: {}", kind.name(), found.join(", "));
                println!("{found}");
                faults.push(found);
            }
        }
    }
    println!("{tried} pairs");
    for list in &invalid {
        println!("not valid: {list}");
    }
    assert!(faults.is_empty(), "{faults:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_list_and_a_kind_hold_up_nobody() {
    try_pairs(&SMALL).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs an optimised build: cargo test --release --test measured -- --include-ignored pairs"]
async fn of_a_long_list_and_many_objects_hold_up_nobody() {
    if cfg!(debug_assertions) {
        panic!("needs an optimised build: cargo test --release");
    }
    try_pairs(&FULL).await;
}
