//! A service in this process that is asked in bytes.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use evenkeel::account::Account;
use evenkeel::api::Service;
use evenkeel::limits::Limits;
use evenkeel::proto::v1::spread_service_server::SpreadService;
use evenkeel::proto::v1::{
    Change, ExplainResponse, FilterResponse, ScoreResponse, UpdateSnapshotRequest,
};
use evenkeel::snapshot::{Registry, Unobserved};
use prost::Message;
use tonic::{Code, Request, Status};

use super::build::{node, on, pod};
use super::model::Stored;

/// The key of the zones of [`cluster`].
const ZONE: &str = "topology.kubernetes.io/zone";

/// The longest time that a question may take.
pub const PATIENCE: Duration = Duration::from_millis(200);

/// An answer, or the code and the text of the refusal.
pub type Fate<A> = Result<A, (Code, String)>;

/// A service.
pub struct Asked {
    pub service: Service,
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
    /// A service with a small cluster.
    pub async fn open() -> Self {
        let registry = Registry::new(Limits::default(), Arc::new(Unobserved));
        let registry = Arc::new(registry.with_account(Account::new(1 << 30)));
        let service = Service::new(registry, Default::default());
        let request = UpdateSnapshotRequest {
            changes: cluster(),
            ..UpdateSnapshotRequest::default()
        };
        let request = Request::new(request.encode_to_vec().into());
        let updated = service.update_snapshot(request).await;
        updated.expect("valid changes");
        Self { service }
    }

    asks! {
        filter: FilterResponse;
        score: ScoreResponse;
        explain: ExplainResponse;
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
fn cluster() -> Vec<Change> {
    let zones = [("n1", "a"), ("n2", "a"), ("n3", "b"), ("n4", "c")];
    let nodes = zones.map(|(name, zone)| node(name, &[(ZONE, zone)]).change());
    let pods = [("p1", "n1"), ("p2", "n1"), ("p3", "n3")];
    let pods = pods.map(|(name, at)| on(pod(name, &[("app", "web")]), at).change());
    nodes.into_iter().chain(pods).collect()
}
