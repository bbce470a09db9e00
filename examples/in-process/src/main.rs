//! Decides in this process: no server, no socket, no async runtime. Keeps a
//! snapshot of a cluster, asks where one more pod may and should run and why,
//! and applies a change.

use std::sync::Arc;

use anyhow::Result;
use evenkeel_core::explain::{self, Case};
use evenkeel_core::matching::Path;
use evenkeel_core::proto::v1;
use evenkeel_core::proto::v1::change::Object;
use evenkeel_core::snapshot::{Batch, Limits, Offer, Registry, Unobserved};
use evenkeel_core::spread::{Filter, NodeChecks, Question, Scores};

const SNAPSHOT: &str = "cluster";
const ZONE: &str = "topology.kubernetes.io/zone";
const HOSTNAME: &str = "kubernetes.io/hostname";

fn node(name: &str, zone: &str) -> v1::Node {
    let labels = [(ZONE, zone), (HOSTNAME, name)];
    let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
    v1::Node {
        metadata: Some(v1::ObjectMeta {
            name: name.into(),
            labels: labels.into(),
            ..Default::default()
        }),
        ..Default::default()
    }
}

fn pod(name: &str, node_name: &str) -> v1::Pod {
    let labels = [("app".to_owned(), "web".to_owned())];
    let constraint = |key: &str, when: &str| v1::TopologySpreadConstraint {
        max_skew: 1,
        topology_key: key.into(),
        when_unsatisfiable: when.into(),
        label_selector: Some(v1::LabelSelector {
            match_labels: labels.clone().into(),
            ..Default::default()
        }),
        ..Default::default()
    };
    v1::Pod {
        metadata: Some(v1::ObjectMeta {
            name: name.into(),
            namespace: "shop".into(),
            labels: labels.clone().into(),
            ..Default::default()
        }),
        spec: Some(v1::PodSpec {
            node_name: node_name.into(),
            topology_spread_constraints: vec![
                constraint(ZONE, "DoNotSchedule"),
                constraint(HOSTNAME, "ScheduleAnyway"),
            ],
            ..Default::default()
        }),
        ..Default::default()
    }
}

/// The cluster that decisions are made about.
struct Cluster {
    registry: Registry,
    limits: Limits,
}

impl Cluster {
    fn new() -> Self {
        Self {
            registry: Registry::new(Limits::default(), Arc::new(Unobserved)),
            limits: Limits::default(),
        }
    }

    /// Checks changes and applies all of them, or none.
    fn update(&self, changes: impl IntoIterator<Item = Object>) -> Result<()> {
        let changes = changes.into_iter().map(|object| v1::Change {
            object: Some(object),
        });
        let batch = Batch::check(changes, &self.limits, Path::root("changes"))?;
        let offer = Offer::of(Arc::new(batch), self.registry.now().steady);
        self.registry.update(SNAPSHOT, offer)?;
        Ok(())
    }

    /// Prints where a pod may run, where it should, and why.
    fn ask(&self, pod: &v1::Pod) -> Result<()> {
        let question = Question::compile(Some(pod), &self.limits, Path::root("pod"))?;
        let snapshot = self.registry.get(SNAPSHOT)?;
        // All that is read in here is of one revision.
        let asked = snapshot.read(&question.namespace, Batch::default(), |state| {
            let constraints = question.constraints_on(&state)?;
            let checks = NodeChecks::All;
            let filter = Filter::of(&question, &constraints, checks, &state)?;
            let nodes = state.nodes.order();
            let case = Case::of(&question, &constraints, checks, &filter, nodes, &state)?;
            let feasible: Vec<_> = case.feasible().map(|node| (node.slot, node.name)).collect();
            let names: Vec<&str> = feasible.iter().map(|(_, name)| *name).collect();
            println!("feasible: {}", names.join(" "));

            let slots: Vec<_> = feasible.iter().map(|(slot, _)| *slot).collect();
            let scores = Scores::of(&constraints, &slots, &state)?;
            let best = scores.best(1);
            let best = best.first().map_or("none", |at| names[*at]);
            println!("best: {best}");

            // Names of at most 10 domains a constraint.
            println!("why: {}", explain::explain(&case, 10)?.summary);
            Ok(())
        });
        Ok(asked?)
    }
}

fn main() -> Result<()> {
    let cluster = Cluster::new();
    let zones = ["a", "b", "c"];
    let nodes = zones.iter().flat_map(|zone| {
        [1, 2].map(|number| node(&format!("node-{zone}{number}"), &format!("zone-{zone}")))
    });
    cluster.update(nodes.map(Object::Node))?;
    let running = [("web-0", "node-a1"), ("web-1", "node-b1")];
    cluster.update(running.map(|(name, node)| Object::Pod(pod(name, node))))?;
    cluster.ask(&pod("web-2", ""))?;

    // A pod starts, and the next one may go anywhere.
    cluster.update([Object::Pod(pod("web-2", "node-c1"))])?;
    cluster.ask(&pod("web-3", ""))
}
