//! kube-scheduler, and its decisions as its log tells them: each node that it scored, and why the
//! others were refused.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use crate::kubernetes::control_plane::ControlPlane;
use crate::kubernetes::process::eventually;

/// Default constraints of a cluster's administrator.
const LISTED_DEFAULTS: &str = "
    defaultingType: List
    defaultConstraints:
    - {maxSkew: 2, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule}
    - {maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: ScheduleAnyway}
";

/// The default constraints that are configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Defaults {
    /// Kubernetes' own.
    System,
    /// A list in the configuration.
    Listed,
}

/// The outcome of one attempt to schedule a pod.
#[derive(Debug)]
pub(crate) struct Decision {
    /// The nodes that the pod may run on.
    pub(crate) feasible: BTreeSet<String>,
    /// The scores of PodTopologySpread. `None` where only one node was left,
    /// which is not scored; empty where the plugin had nothing to score by.
    pub(crate) scores: Option<BTreeMap<String, i64>>,
    /// The number of nodes for each reason, where no node was left.
    pub(crate) reasons: BTreeMap<String, i64>,
    /// The log's lines about changes of other objects, from the question until the attempt began.
    pub(crate) changes: Vec<String>,
    /// True if a claim of the pod was changed by another program while the scheduler bound it. The
    /// pod is to be tried again then.
    pub(crate) is_void: bool,
}

/// A running kube-scheduler.
pub(crate) struct Scheduler {
    log: PathBuf,
    read: u64,
    lines: Vec<String>,
}

impl Scheduler {
    /// Starts kube-scheduler anew.
    pub(crate) fn start(plane: &mut ControlPlane, defaults: Defaults) -> Self {
        let config = Self::configure(plane, defaults);
        Self::start_with(plane, &config)
    }

    /// Starts kube-scheduler anew so that it never ends pods for others.
    pub(crate) fn start_without_preemption(plane: &mut ControlPlane, defaults: Defaults) -> Self {
        let config = plane.directory().join("without-preemption.yaml");
        let text = configuration(&plane.kubeconfig(), defaults);
        let none = "  plugins:\n    postFilter: {disabled: [{name: \"*\"}]}";
        let text = text.replacen("  plugins:", none, 1);
        std::fs::write(&config, text).expect("a file");
        Self::start_with(plane, &config)
    }

    fn start_with(plane: &mut ControlPlane, config: &Path) -> Self {
        plane.command("kill kube-scheduler");
        let log = plane.directory().join("kube-scheduler.log");
        let _ = std::fs::remove_file(&log);
        // Each pod is attempted once, when the test expects it, and its victims
        // are gone when the attempt is over. Decisions are not reused, so that
        // each is logged in full.
        let gates = "SchedulerPopFromBackoffQ=false,SchedulerAsyncPreemption=false,OpportunisticBatching=false";
        plane.command(&format!(
            "start kube-scheduler --config={} --feature-gates={gates} -v=2 --vmodule=schedule_one=10,eventhandlers=5",
            config.display(),
        ));
        Self {
            log,
            read: 0,
            lines: Vec::new(),
        }
    }

    /// Writes the configuration of kube-scheduler.
    pub(crate) fn configure(plane: &ControlPlane, defaults: Defaults) -> PathBuf {
        let config = plane.directory().join("kube-scheduler.yaml");
        std::fs::write(&config, configuration(&plane.kubeconfig(), defaults)).expect("a file");
        config
    }

    /// Returns how much of the log has been read.
    pub(crate) fn position(&mut self) -> usize {
        self.read_on();
        self.lines.len()
    }

    fn read_on(&mut self) {
        let Ok(mut file) = File::open(&self.log) else {
            return;
        };
        let mut text = String::new();
        file.seek(SeekFrom::Start(self.read))
            .expect("it only grows");
        file.read_to_string(&mut text).expect("it is text");
        // Text after the last line feed is still being written.
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        self.read += whole as u64;
        self.lines.extend(text[..whole].lines().map(str::to_owned));
    }

    /// Waits for a line with all these parts, after `from`. Returns its number.
    pub(crate) async fn says(&mut self, from: usize, parts: &[&str]) -> usize {
        let what = format!("kube-scheduler says {parts:?}");
        eventually(&what, async || {
            self.read_on();
            let mut lines = self.lines[from..].iter();
            let index = lines.position(|line| parts.iter().all(|part| line.contains(part)))?;
            Some(from + index)
        })
        .await
    }

    /// Waits until a pod has been attempted after `from`.
    pub(crate) async fn decides(&mut self, from: usize, pod: &str) -> Decision {
        let pod = format!("pod=\"{pod}\"");
        let is_start =
            |line: &str| line.contains("\"Attempting to schedule pod\"") && line.contains(&pod);
        let what = format!("kube-scheduler decides about {pod}");
        eventually(&what, async || {
            self.read_on();
            let about = || self.lines[from..].iter().filter(|line| line.contains(&pod));
            let end = about().find(|line| ends_attempt(line))?;
            let before = self.lines[from..].iter();
            let before = before.take_while(|line| !is_start(line));
            let changes =
                before.filter(|line| line.contains(" event for ") && !line.contains(&pod));
            Some(Decision {
                changes: changes.cloned().collect(),
                ..decision(about(), end)
            })
        })
        .await
    }
}

fn ends_attempt(line: &str) -> bool {
    line.contains("\"Successfully bound pod to node\"")
        || line.contains("\"Unable to schedule pod; no fit; waiting\"")
        || line.contains("\"Error scheduling pod; retrying\"")
}

fn decision<'a>(lines: impl Iterator<Item = &'a String>, end: &str) -> Decision {
    let mut decision = Decision {
        feasible: BTreeSet::new(),
        scores: Some(BTreeMap::new()),
        reasons: BTreeMap::new(),
        changes: Vec::new(),
        is_void: end.contains("running PreBind plugin") && end.contains("has been modified"),
    };
    if decision.is_void {
        return decision;
    }
    for line in lines {
        let node = || field(line, "node").expect("a node");
        if line.contains("\"Calculated node's final score for pod\"") {
            decision.feasible.insert(node());
        } else if line.contains("plugin=\"PodTopologySpread\"") {
            let score = field(line, "score").and_then(|score| score.parse().ok());
            let scores = decision.scores.get_or_insert_default();
            scores.insert(node(), score.expect("a score"));
        }
    }
    if end.contains("Successfully bound") {
        if decision.feasible.is_empty() {
            decision.scores = None;
            decision
                .feasible
                .insert(field(end, "node").expect("a node"));
        }
        let count = field(end, "feasibleNodes").and_then(|count| count.parse().ok());
        assert_eq!(Some(decision.feasible.len()), count, "{end}");
    } else {
        let error = field(end, "err").expect("an error");
        decision.reasons = reasons(&error).unwrap_or_else(|| panic!("another fault: {end}"));
    }
    decision
}

/// The counts in a message like `0/3 nodes are available: 1 node(s) were unschedulable, 2
/// Insufficient cpu.`, which the outcome of preemption may follow. A reason of all nodes may have
/// no number.
pub(crate) fn reasons(error: &str) -> Option<BTreeMap<String, i64>> {
    let (nodes, reasons) = error.split_once(" nodes are available: ")?;
    let all = nodes.rsplit('/').next()?.parse().ok()?;
    // A full stop within a reason, as in the name of a taint, has no space after it.
    let reasons = reasons.split(". ").next()?.trim_end_matches('.');
    let pair = |reason: &str| {
        let numbered = reason.split_once(' ');
        let numbered = numbered.and_then(|(count, reason)| Some((reason, count.parse().ok()?)));
        let (reason, count) = numbered.unwrap_or((reason, all));
        (reason.to_owned(), count)
    };
    Some(reasons.split(", ").map(pair).collect())
}

/// The value of `name=value` or `name="value"` in a line.
fn field(line: &str, name: &str) -> Option<String> {
    let start = line.find(&format!(" {name}="))? + name.len() + 2;
    let value = &line[start..];
    match value.strip_prefix('"') {
        Some(_) => {
            let mut texts = serde_json::Deserializer::from_str(value).into_iter();
            texts.next()?.ok()
        }
        None => value.split(' ').next().map(str::to_owned),
    }
}

/// A configuration that scores by spread alone, so that the log has only those scores, and that
/// never tries a pod again by itself.
fn configuration(kubeconfig: &Path, defaults: Defaults) -> String {
    let args = match defaults {
        Defaults::System => "\n    defaultingType: System\n",
        Defaults::Listed => LISTED_DEFAULTS,
    };
    format!(
        "apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {{kubeconfig: {kubeconfig}, qps: 5000, burst: 5000}}
leaderElection: {{leaderElect: false}}
podInitialBackoffSeconds: 36000
podMaxBackoffSeconds: 36000
percentageOfNodesToScore: 100
profiles:
- schedulerName: default-scheduler
  plugins:
    score:
      disabled: [{{name: \"*\"}}]
      enabled: [{{name: PodTopologySpread, weight: 1}}]
  pluginConfig:
  - name: PodTopologySpread
    args:
      apiVersion: kubescheduler.config.k8s.io/v1
      kind: PodTopologySpreadArgs{args}",
        kubeconfig = kubeconfig.display(),
        args = args.replace('\n', "\n  "),
    )
}
