//! Services in this process that are asked in bytes: one that keeps questions, and one
//! that keeps none.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use evenkeel::account::Account;
use evenkeel::api::Service;
use evenkeel::limits::Limits;
use evenkeel::proto::v1::spread_service_server::SpreadService;
use evenkeel::proto::v1::{
    Change, DefaultConstraints, ExplainResponse, FilterResponse, ScoreResponse,
    UpdateSnapshotRequest,
};
use evenkeel::snapshot::{Registry, Unobserved};
use prost::Message;
use tonic::{Code, Request, Status};

use super::build::{node, on, pod};
use super::model::Stored;

/// The key of the zones of [`cluster`].
pub const ZONE: &str = "topology.kubernetes.io/zone";

/// The longest time that a question may take.
pub const PATIENCE: Duration = Duration::from_millis(200);

/// The number of times that a question comes until it is answered as a kept question.
pub const UNTIL_KEPT: usize = 3;

/// An answer, or the code and the text of the refusal.
pub type Fate<A> = Result<A, (Code, String)>;

/// A service and its registry.
pub struct Asked {
    pub service: Service,
    pub registry: Arc<Registry>,
}

/// A request with these bytes. It has a time-out, because random bytes may ask to wait for a
/// revision that never comes.
fn asking(bytes: Bytes) -> Request<Bytes> {
    let mut request = Request::new(bytes);
    request.set_timeout(PATIENCE);
    request
}

/// Makes the calls about one pod, whose answers are without the epoch, because each service has its
/// own.
macro_rules! asks {
    ($($method:ident: $answer:ident;)*) => {$(
        pub async fn $method(&self, bytes: Bytes) -> Fate<$answer> {
            let answer = self.service.$method(asking(bytes)).await;
            let answer = $answer::decode(answer.map_err(said)?.into_inner());
            Ok($answer {
                epoch: String::new(),
                ..answer.expect("an answer")
            })
        }
    )*};
}

impl Asked {
    /// A service that keeps questions of so many bytes in all.
    pub fn with(max_question_bytes: usize) -> Self {
        let limits = Limits {
            max_question_bytes,
            ..Limits::default()
        };
        let registry = Registry::new(limits, Arc::new(Unobserved));
        let registry = Arc::new(registry.with_account(Account::new(1 << 30)));
        let service = Service::new(Arc::clone(&registry), Default::default());
        Self { service, registry }
    }

    /// A service that keeps questions, and one that keeps none.
    pub fn both() -> [Self; 2] {
        [Self::with(1 << 20), Self::with(1)]
    }

    pub async fn update(&self, changes: Vec<Change>, defaults: Option<DefaultConstraints>) {
        self.update_of("", changes, defaults).await;
    }

    pub async fn update_of(
        &self,
        snapshot: &str,
        changes: Vec<Change>,
        defaults: Option<DefaultConstraints>,
    ) {
        let request = UpdateSnapshotRequest {
            snapshot: snapshot.into(),
            changes,
            default_constraints: defaults,
            ..UpdateSnapshotRequest::default()
        };
        let request = Request::new(request.encode_to_vec().into());
        let updated = self.service.update_snapshot(request).await;
        updated.expect("valid changes");
    }

    asks! {
        filter: FilterResponse;
        score: ScoreResponse;
        explain: ExplainResponse;
    }

    /// Returns the number of questions that were answered from kept ones.
    pub fn hits(&self) -> u64 {
        self.registry.counters().question_hits.sum()
    }
}

/// Asserts that two fates of the same request are equal. On a busy machine one of them may have
/// been too late.
pub fn same<A: Debug + PartialEq>(got: &Fate<A>, want: &Fate<A>, request: &[u8]) {
    let is_late = |fate: &Fate<A>| {
        let code = fate.as_ref().err().map(|refusal| refusal.0);
        code == Some(Code::DeadlineExceeded)
    };
    if !is_late(got) && !is_late(want) {
        assert_eq!(got, want, "{}", request.escape_ascii());
    }
}

/// Returns the code and the text of a refusal.
pub fn said(status: Status) -> (Code, String) {
    // A refusal for another epoch names the epoch of the service.
    if status.code() == Code::Aborted {
        return (Code::Aborted, String::new());
    }
    (
        status.code(),
        format!("{} {:?}", status.message(), status.details()),
    )
}

/// A small cluster.
pub fn cluster() -> Vec<Change> {
    let zones = [("n1", "a"), ("n2", "a"), ("n3", "b"), ("n4", "c")];
    let nodes = zones.map(|(name, zone)| node(name, &[(ZONE, zone)]).change());
    let pods = [("p1", "n1"), ("p2", "n1"), ("p3", "n3")];
    let pods = pods.map(|(name, at)| on(pod(name, &[("app", "web")]), at).change());
    nodes.into_iter().chain(pods).collect()
}
