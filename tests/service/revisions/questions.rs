//! Questions of every method, in both dialects, and their answers as text.

use evenkeel::proto::v1::describe_spread_request::Subject;
use evenkeel::proto::v1::{
    Change, DescribeSpreadRequest, Dialect, ExplainRequest, FilterRequest, PlaceRequest, Pod,
    ScoreRequest, TopologySpreadConstraint, View,
};
use proptest::prelude::Strategy;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use support::generate;
use tonic::Status;

use crate::revisions::history::Version;
use crate::revisions::writers::RESERVED;
use support::build::{HOSTNAME, ZONE, hard, labelled, pod, soft, spread};
use support::caller::Client;

/// A question of any method.
#[derive(Debug, Clone)]
pub(crate) enum Asked {
    Filter(FilterRequest),
    Score(ScoreRequest),
    Explain(ExplainRequest),
    Place(PlaceRequest),
    Describe(DescribeSpreadRequest),
}

/// An answer, and the revision that it names.
pub(crate) type Answer = (Version, String);

impl Asked {
    /// The pod of a Filter that the brute-force judge knows how to answer.
    pub(crate) fn plain_filter(&self) -> Option<&Pod> {
        match self {
            Self::Filter(request) if request.dialect() == Dialect::Kubernetes => {
                request.pod.as_ref()
            }
            _ => None,
        }
    }

    pub(crate) async fn ask(&self, client: &mut Client, snapshot: &str) -> Result<Answer, Status> {
        macro_rules! ask {
            ($method:ident, $request:ident) => {{
                let mut request = $request.clone();
                request.snapshot = snapshot.to_owned();
                let mut answer = client.$method(request).await?.into_inner();
                let epoch = std::mem::take(&mut answer.epoch);
                let revision = std::mem::take(&mut answer.revision);
                Ok(((epoch, revision), format!("{answer:#?}")))
            }};
        }
        match self {
            Self::Filter(request) => ask!(filter, request),
            Self::Score(request) => ask!(score, request),
            Self::Explain(request) => ask!(explain, request),
            Self::Place(request) => ask!(place, request),
            Self::Describe(request) => ask!(describe_spread, request),
        }
    }
}

pub(crate) fn draw<T>(strategy: &impl Strategy<Value = T>, runner: &mut TestRunner) -> T {
    let tree = strategy.new_tree(runner);
    tree.expect("no strategy here rejects").current()
}

/// The name of a namespace that comes and goes.
pub(crate) fn passing(number: usize) -> String {
    format!("passing-{}", number % 3)
}

pub(crate) fn within(mut pod: Pod, namespace: &str) -> Pod {
    pod.metadata.get_or_insert_default().namespace = namespace.into();
    pod
}

/// Constraints that both dialects know.
pub(crate) fn constraints() -> Vec<TopologySpreadConstraint> {
    vec![
        hard(2, ZONE, &[("app", "a")]),
        hard(1, "rack", &[("app", "a")]),
        soft(1, HOSTNAME, &[("app", "a")]),
    ]
}

/// Every question about a pod, in both dialects.
fn about(pod: &Pod, overlay: &[Change], dialect: Dialect) -> Vec<Asked> {
    macro_rules! request {
        ($asked:ident, $request:ident $(, $field:ident: $value:expr)*) => {
            Asked::$asked($request {
                pod: Some(pod.clone()),
                overlay: overlay.to_vec(),
                max_domains: Some(0),
                dialect: dialect as i32,
                $($field: $value,)*
                ..Default::default()
            })
        };
    }
    let full = View::Full as i32;
    vec![
        request!(Filter, FilterRequest, view: full),
        request!(Score, ScoreRequest, view: full),
        request!(Explain, ExplainRequest),
        request!(Place, PlaceRequest, view: full, replicas: 4),
    ]
}

/// Questions about how pods are spread in a namespace.
fn described(namespace: &str) -> Vec<Asked> {
    let describe = DescribeSpreadRequest {
        namespace: namespace.into(),
        max_domains: Some(0),
        ..Default::default()
    };
    let by_key = DescribeSpreadRequest {
        topology_key: ZONE.into(),
        ..describe.clone()
    };
    let selector = DescribeSpreadRequest {
        subject: Some(Subject::Selector(labelled(&[("app", "a")]))),
        ..describe.clone()
    };
    [describe, by_key, selector].map(Asked::Describe).into()
}

pub(crate) fn questions(runner: &mut TestRunner) -> Vec<Asked> {
    let mut all = Vec::new();
    let any = (generate::incoming::pod(), generate::batch(3));
    for index in 0..4 {
        let (pod, overlay) = draw(&any, runner);
        let overlay = if index % 2 == 0 { &[] } else { &overlay[..] };
        all.extend(about(&pod, overlay, Dialect::Kubernetes));
    }
    let web = spread(pod("", &[("app", "a")]), constraints());
    for namespace in ["default", "other", RESERVED, &passing(0), &passing(1)] {
        let pod = within(web.clone(), namespace);
        for dialect in [Dialect::Kubernetes, Dialect::Fleet] {
            let all_about = about(&pod, &[], dialect);
            // Explain tells reservations from running pods, and a copy has only pods.
            let explains = |asked: &Asked| matches!(asked, Asked::Explain(_));
            let kept = all_about
                .into_iter()
                .filter(|a| namespace != RESERVED || !explains(a));
            all.extend(kept);
        }
        if namespace != RESERVED {
            all.extend(described(namespace));
        }
    }
    all
}
