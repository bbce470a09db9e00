//! Every list and map of every request, at its limit and beyond. The lists come from the protocol's
//! descriptors, so a new one is tried without being named here.

use evenkeel::limits::Limit;
use futures::StreamExt;
use support::refusal::{fields, reason};
use tonic::transport::Channel;
use tonic::{Code, Status};

use crate::hostile::beside::Bystanders;
use crate::hostile::descriptors::{Call, FieldPath, Protocol};
use crate::hostile::metrics::Page;
use crate::hostile::process::{DEADLINE, Server, command, until};
use crate::hostile::request::client;
use crate::hostile::world::{LONGEST_MS, MEASURING, fill, limit_of};

/// The number of calls that are under way at once.
const AT_ONCE: usize = 2;

/// The limits of lists, as flags of a server that allows this many entries of each.
fn flags(limits: &[Limit], most: usize) -> Vec<String> {
    let flags = limits
        .iter()
        .map(|limit| [format!("--{}", limit.name()), most.to_string()]);
    flags.flatten().collect()
}

/// The limits of long lists.
const LONG_LISTS: [Limit; 4] = [
    Limit::ListEntries,
    Limit::ChangesPerBatch,
    Limit::Nodes,
    Limit::Replicas,
];

/// The limits of short lists.
const SHORT_LISTS: [Limit; 3] = [
    Limit::OverlayChanges,
    Limit::ConstraintsPerPod,
    Limit::StreamQuestions,
];

/// A server on one thread, so that whatever holds that thread up holds up everybody, and bystanders
/// who ask meanwhile.
struct Scene {
    server: Server,
    admin: String,
    channel: Channel,
    bystanders: Bystanders,
}

impl Scene {
    async fn start(flags: &[String]) -> Self {
        let mut command = command(&["serve", "--threads", "1", "--admin-listen", "127.0.0.1:0"]);
        let mut server = Server::spawn(command.args(flags));
        let admin = server.logged("admin listening", "address");
        fill(&mut client(server.address()), 10).await;
        Self {
            channel: server.channel(),
            bystanders: Bystanders::start(server.address()),
            admin,
            server,
        }
    }

    /// Returns the memory that requests hold, in bytes.
    fn held(&self) -> f64 {
        let page = Page::of(&self.admin);
        page.value("evenkeel_accounted_memory_bytes", &["part=\"requests\""])
    }

    /// Checks that nobody waited long, that nothing is held, and that nothing panicked.
    fn end(self) {
        until("the memory of requests returns", || {
            (self.held() <= 1e6).then_some(())
        });
        let (health, filter) = self.bystanders.stop();
        for (who, waits) in [("health", health), ("a small Filter", filter)] {
            assert!(waits.failures().is_empty(), "{who}: {waits:?}");
            // A few of many calls may wait longer on a machine that has other work.
            let waited = waits.percentile(99);
            assert!(waited < LONGEST_MS, "{who} waited {waited:.0} ms");
        }
        let lines = self.server.lines();
        let panic = lines.iter().find(|line| line.contains("panicked"));
        assert_eq!(panic, None);
    }
}

/// A list, and the call whose request it is in.
struct Case<'a> {
    call: &'a Call,
    list: FieldPath<'a>,
    most: usize,
}

impl Case<'_> {
    fn request(&self, protocol: &Protocol, count: usize) -> Vec<u8> {
        let entry = |number| protocol.entry(self.list.field(), number);
        let entries: Vec<u8> = (0..count).flat_map(entry).collect();
        self.list.request(self.call, &entries)
    }

    async fn ends_well(&self, protocol: &Protocol, channel: &Channel) {
        let told = format!("{} {}", self.call.name, self.list.name());
        let within = self.request(protocol, self.most);
        if let Err(status) = self.call.send(channel, within, DEADLINE).await {
            let proper = [
                Code::InvalidArgument,
                Code::ResourceExhausted,
                Code::NotFound,
                Code::FailedPrecondition,
            ];
            assert!(proper.contains(&status.code()), "{told}: {status:?}");
            assert!(!status.message().contains("too many"), "{told}: {status:?}");
        }
        let beyond = self.request(protocol, self.most + 1);
        let refused = self.call.send(channel, beyond, DEADLINE).await;
        self.assert_refused(&refused.expect_err(&told));
    }

    #[track_caller]
    fn assert_refused(&self, status: &Status) {
        let told = format!("{} {}: {status:?}", self.call.name, self.list.name());
        assert_eq!(status.code(), Code::ResourceExhausted, "{told}");
        assert_eq!(reason(status).as_deref(), Some("OVER_LIMIT"), "{told}");
        assert!(limit_of(status).is_some(), "{told}");
        assert_eq!(fields(status)[0], self.list.name(), "{told}");
    }
}

async fn try_all(protocol: &Protocol, scene: Scene, cases: Vec<Case<'_>>) {
    let channel = &scene.channel;
    let tried = futures::stream::iter(&cases).map(|case| case.ends_well(protocol, channel));
    tried.buffer_unordered(AT_ONCE).collect::<Vec<()>>().await;
    scene.end();
}

/// The lists of all requests.
pub(crate) fn lists(protocol: &Protocol) -> impl Iterator<Item = (&Call, FieldPath<'_>)> {
    protocol.calls.iter().flat_map(|call| {
        let fields = protocol.fields(&call.request).into_iter();
        fields
            .filter(FieldPath::is_list)
            .map(move |list| (call, list))
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_list_of_each_request_has_a_limit() {
    const MOST: usize = 40;
    let _alone = MEASURING.lock().await;
    let protocol = Protocol::read();
    let cases: Vec<Case<'_>> = lists(&protocol)
        .map(|(call, list)| Case {
            call,
            list,
            most: MOST,
        })
        .collect();
    assert!(cases.len() > 500, "{} lists", cases.len());
    let limits = [&LONG_LISTS[..], &SHORT_LISTS[..]].concat();
    try_all(&protocol, Scene::start(&flags(&limits, MOST)).await, cases).await;
}
