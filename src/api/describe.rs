//! `DescribeSpread`: its subject, and pages of the worst workloads in their order.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use prost::Message;

use super::answer::defaults_kind;
use super::error::Error;
use super::request::{self, PageTokens};
use crate::matching::{Path, Selector, Violations, names};
use crate::proto::v1::describe_spread_request::Subject as Wire;
use crate::proto::{count, v1};
use crate::snapshot::{Limits, NamedPod, PodGroups, ReadView, Snapshot, State, Stopped};
use crate::spread::describe::{
    Balance, JudgedWorkload, NamedWorkload, Survey, WorkloadId, ZONE, check_key, judge_selected,
    topology_keys,
};

/// The most encoded bytes of a page with more than one workload: below the 4 MiB that clients
/// accept by default.
const PAGE_BYTES: usize = 3 << 20;

/// The most workloads with an idle constraint that an answer lists.
const LISTED_IDLE: usize = 10;

/// A valid request.
#[derive(Debug)]
pub struct ValidDescription {
    subject: DescribeSubject,
    /// The topology key by which workloads are judged, if not by their constraints.
    by: Option<Arc<str>>,
    max_domains: usize,
    page_size: usize,
    /// The last workload of the previous page.
    after: Option<WorkloadRank>,
    lists_pods: bool,
    tokens: PageTokens,
    limits: Limits,
}

#[derive(Debug)]
enum DescribeSubject {
    /// All workloads, of one namespace or of all.
    All(Option<String>),
    Workload(String, NamedWorkload),
    /// The pods that match, of one namespace or of all.
    Selector(Option<String>, Selector),
}

/// The worst workloads so far that fit on a page, and the number of all.
#[derive(Default)]
struct DescriptionPage {
    worst: BTreeMap<WorkloadRank, v1::WorkloadSpread>,
    /// The encoded bytes of the listed workloads.
    bytes: usize,
    /// True if some workloads did not fit.
    goes_on: bool,
    response: v1::DescribeSpreadResponse,
}

/// The state that is read, and the deadline of reading.
#[derive(Clone, Copy)]
struct Looking<'a> {
    state: &'a State,
    is_given_up: &'a dyn Fn() -> bool,
}

impl Looking<'_> {
    /// Looks at the pods of a namespace, or of each.
    fn survey(
        self,
        namespace: Option<&str>,
        mut look: impl FnMut(&str, PodGroups<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        match namespace {
            Some(name) => (self.state).survey(name, self.is_given_up, |pods| look(name, pods)),
            None => self.state.survey_all(self.is_given_up, look),
        }
    }
}

impl ValidDescription {
    /// Checks a request.
    pub fn check(
        wire: v1::DescribeSpreadRequest,
        limits: &Limits,
        faults: &mut Violations,
    ) -> Option<Self> {
        names::check_namespace(&wire.namespace, Path::root("namespace"), faults);
        if !wire.topology_key.is_empty() {
            names::check_label_key(&wire.topology_key, Path::root("topologyKey"), faults);
        }
        let list = v1::DescribeSpreadRequest {
            page_size: 0,
            page_token: String::new(),
            min_revision: 0,
            epoch: String::new(),
            max_domains: None,
            ..wire.clone()
        };
        let tokens = PageTokens::new("DescribeSpread", &list);
        let after = tokens.last(&wire.page_token, faults);
        let after = after.and_then(WorkloadRank::from_text);
        let max_domains = request::max_domains(wire.max_domains, faults);
        let page_size = request::page_size(wire.page_size, faults);
        let namespace = (!wire.namespace.is_empty()).then(|| wire.namespace.clone());
        let subject = match wire.subject {
            None => DescribeSubject::All(namespace),
            Some(Wire::Workload(workload)) => {
                let namespace = names::namespace_or_default(&wire.namespace).to_owned();
                DescribeSubject::Workload(namespace, request::workload(workload, faults))
            }
            Some(Wire::Selector(selector)) => {
                let path = Path::root("selector");
                let selector = Selector::compile(Some(&selector), path, faults);
                DescribeSubject::Selector(namespace, selector)
            }
        };
        if wire.list_pods && !matches!(subject, DescribeSubject::Workload(..)) {
            faults.add(Path::root("listPods"), "must not be set without a workload");
        }
        let by = match &*wire.topology_key {
            "" => None,
            key => Some(key.into()),
        };
        Some(Self {
            subject,
            by,
            max_domains,
            page_size,
            after,
            lists_pods: wire.list_pods,
            tokens,
            limits: limits.clone(),
        })
    }

    /// Reads the workloads, and answers without the epoch and age of the snapshot.
    ///
    /// # Errors
    /// [`Error::NoWorkload`] when the named workload has no pods, [`Error::NoTopologyKey`] when no
    /// node has the topology key, and [`Error::Deadline`] when `is_given_up` returned true.
    pub fn answer(
        self,
        snapshot: &Snapshot,
        is_given_up: &dyn Fn() -> bool,
    ) -> Result<v1::DescribeSpreadResponse, Error> {
        let state = snapshot.state();
        let at = Looking {
            state: &state,
            is_given_up,
        };
        match &self.subject {
            DescribeSubject::All(namespace) => self.all(at, namespace.as_deref()),
            DescribeSubject::Workload(namespace, named) => self.workload(at, namespace, named),
            DescribeSubject::Selector(namespace, selector) => {
                self.selected(at, namespace.as_deref(), selector)
            }
        }
    }

    /// Reads the workloads of a namespace. Fails if they are to be judged by a topology key that no
    /// node has.
    fn look_at<T>(
        &self,
        namespace: &str,
        pod_groups: &PodGroups<'_>,
        look: impl FnOnce(&Survey<'_, '_>, &ReadView<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let read_view = pod_groups.read_view();
        if let Some(key) = &self.by {
            check_key(key, read_view)?.map_err(Error::NoTopologyKey)?;
        }
        let named = match &self.subject {
            DescribeSubject::Workload(_, named) => Some(named),
            _ => None,
        };
        let survey = Survey::of(pod_groups, namespace, &self.limits, self.max_domains, named)?;
        look(&survey, read_view)
    }

    fn all(
        &self,
        at: Looking<'_>,
        namespace: Option<&str>,
    ) -> Result<v1::DescribeSpreadResponse, Error> {
        let mut page = DescriptionPage {
            response: v1::DescribeSpreadResponse {
                coverage: (self.by.is_none()).then(v1::ConstraintCoverage::default),
                ..Default::default()
            },
            ..DescriptionPage::default()
        };
        let mut is_first = true;
        page.response.revision = at.state.revision;
        let look = |namespace: &str, pod_groups: PodGroups<'_>| {
            let note = |survey: &Survey<'_, '_>, read_view: &ReadView<'_>| {
                let workloads = count(survey.workload_count());
                raise(&mut page.response.workload_count, workloads);
                page.response.defaults = defaults_kind(read_view.defaults);
                if self.by.is_none() && std::mem::take(&mut is_first) {
                    page.note_keys(read_view)?;
                }
                for judged in survey.judge_all(self.by.as_ref()) {
                    let judged = judged?;
                    if let Some(coverage) = &mut page.response.coverage {
                        survey.note_rule(&judged, coverage)?;
                        note_one_domain(namespace, &judged, coverage);
                    }
                    self.note(namespace, judged, &mut page);
                }
                Ok(())
            };
            self.look_at(namespace, &pod_groups, note)
        };
        at.survey(namespace, look)?;
        Ok(page.finish(&self.tokens))
    }

    /// Puts a workload among the worst, if it is to be listed.
    fn note(&self, namespace: &str, judged: JudgedWorkload, page: &mut DescriptionPage) {
        let rank = WorkloadRank::of(namespace, &judged);
        let (violates, exceeds) = (rank.violates(), rank.exceeds());
        raise(&mut page.response.violating_count, violates);
        raise(&mut page.response.exceeding_count, exceeds);
        raise(&mut page.response.faulty_count, judged.fault.is_some());
        let unranked = self.by.is_some() && !judged.is_ranked();
        raise(&mut page.response.unranked_count, unranked);
        let listed = violates || exceeds || judged.fault.is_some() || self.by.is_some();
        let listed = listed && !unranked;
        if !listed || self.after.as_ref().is_some_and(|after| rank <= *after) {
            return;
        }
        page.add(rank, workload_spread(namespace, judged), self.page_size);
    }

    fn workload(
        &self,
        at: Looking<'_>,
        namespace: &str,
        named: &NamedWorkload,
    ) -> Result<v1::DescribeSpreadResponse, Error> {
        let mut defaults = 0;
        let mut pods = Vec::new();
        let judge = |survey: &Survey<'_, '_>, read_view: &ReadView<'_>| {
            defaults = defaults_kind(read_view.defaults);
            if self.lists_pods {
                let listed = survey.pods_by_name(named)?.into_iter();
                pods = listed.map(|pod| member(pod, read_view)).collect();
            }
            let judged = survey.judge_one(named, self.by.as_ref())?;
            let is_told =
                |judged: &JudgedWorkload| !judged.balances.is_empty() || judged.fault.is_some();
            // The caller did not ask for zones, so they are left out if no node has one.
            if judged.as_ref().is_none_or(is_told) || check_key(ZONE, read_view)?.is_err() {
                return Ok(judged);
            }
            Ok(survey.judge_one(named, Some(&ZONE.into()))?)
        };
        let look = |pod_groups: PodGroups<'_>| self.look_at(namespace, &pod_groups, judge);
        let judged: Option<JudgedWorkload> = at.state.survey(namespace, at.is_given_up, look)?;
        let judged = judged.ok_or_else(|| Error::no_workload(namespace, named))?;
        let rank = WorkloadRank::of(namespace, &judged);
        Ok(v1::DescribeSpreadResponse {
            revision: at.state.revision,
            workload_count: 1,
            violating_count: i64::from(rank.violates()),
            exceeding_count: i64::from(rank.exceeds()),
            faulty_count: i64::from(judged.fault.is_some()),
            workloads: vec![v1::WorkloadSpread {
                pods,
                ..workload_spread(namespace, judged)
            }],
            defaults,
            ..Default::default()
        })
    }

    /// The spread of the pods that a selector matches, by namespace. Of all namespaces, those with
    /// such pods are answered about.
    fn selected(
        &self,
        at: Looking<'_>,
        namespace: Option<&str>,
        selector: &Selector,
    ) -> Result<v1::DescribeSpreadResponse, Error> {
        let mut response = v1::DescribeSpreadResponse {
            revision: at.state.revision,
            ..Default::default()
        };
        let mut listed = 0_usize;
        let look = |name: &str, pod_groups: PodGroups<'_>| {
            let read_view = pod_groups.read_view();
            response.defaults = defaults_kind(read_view.defaults);
            let (pods, topologies) = self.judge_selected(&pod_groups, selector)?;
            if pods > 0 || namespace.is_some() {
                let spread = v1::WorkloadSpread {
                    namespace: name.to_owned(),
                    pod_count: count(pods),
                    topologies,
                    ..Default::default()
                };
                let length = spread.encoded_len();
                listed = listed.saturating_add(length);
                response.workloads.push(spread);
                read_view.deadline.entry(length, listed.saturating_mul(2))?;
            }
            Ok(())
        };
        at.survey(namespace, look)?;
        response.workload_count = count(response.workloads.len());
        Ok(response)
    }

    /// The number of pods that a selector matches, and their spread over the requested key. Zones,
    /// which the caller did not ask for, are left out if no node has one.
    fn judge_selected(
        &self,
        pod_groups: &PodGroups<'_>,
        selector: &Selector,
    ) -> Result<(usize, Vec<v1::TopologySpread>), Error> {
        let (key, is_asked): (Arc<str>, _) = match &self.by {
            None => (ZONE.into(), false),
            Some(key) => (Arc::clone(key), true),
        };
        let known = check_key(&key, pod_groups.read_view())?;
        let (pods, balance) = judge_selected(pod_groups, selector, &key, self.max_domains)?;
        match known {
            Ok(()) => Ok((pods, vec![balance.into_wire()])),
            Err(unknown) if is_asked => Err(Error::NoTopologyKey(unknown)),
            Err(_) => Ok((pods, Vec::new())),
        }
    }
}

/// Counts a workload with a hard constraint that refuses no node, because it counts one domain only.
fn note_one_domain(
    namespace: &str,
    judged: &JudgedWorkload,
    coverage: &mut v1::ConstraintCoverage,
) {
    let mut balances = judged.balances.iter();
    let Some((idle, effect)) = balances.find_map(|it| Some((it, it.effect()?))) else {
        return;
    };
    raise(&mut coverage.one_domain_count, 1);
    if coverage.one_domain.len() < LISTED_IDLE {
        let idle = &idle.numbers;
        let only = idle.domains.first().filter(|_| idle.domain_count == 1);
        coverage.one_domain.push(v1::OneDomain {
            namespace: namespace.to_owned(),
            kind: judged.workload.kind.clone(),
            name: judged.workload.name.clone(),
            topology_key: idle.topology_key.clone(),
            value: only.map(|share| share.value.clone()).unwrap_or_default(),
            effect: effect.to_owned(),
        });
    }
}

/// Adds to a count; `true` counts as one.
fn raise(count: &mut i64, more: impl Into<i64>) {
    *count = count.saturating_add(more.into());
}

impl DescriptionPage {
    /// Writes the label keys of nodes into the answer.
    fn note_keys(&mut self, read_view: &ReadView<'_>) -> Result<(), Stopped> {
        self.response.topology_keys = topology_keys(read_view)?;
        Ok(())
    }

    /// Adds a workload, and drops the least bad ones if not all fit.
    fn add(&mut self, rank: WorkloadRank, spread: v1::WorkloadSpread, page_size: usize) {
        self.bytes = self.bytes.saturating_add(spread.encoded_len());
        self.worst.insert(rank, spread);
        while self.worst.len() > page_size || (self.bytes > PAGE_BYTES && self.worst.len() > 1) {
            let dropped = self.worst.pop_last();
            let dropped = dropped.map_or(0, |(_, spread)| spread.encoded_len());
            self.bytes = self.bytes.saturating_sub(dropped);
            self.goes_on = true;
        }
    }

    fn finish(mut self, tokens: &PageTokens) -> v1::DescribeSpreadResponse {
        if let Some((rank, _)) = self.worst.last_key_value().filter(|_| self.goes_on) {
            self.response.next_page_token = tokens.token(&rank.to_text());
        }
        self.response.workloads = self.worst.into_values().collect();
        self.response
    }
}

fn workload_spread(namespace: &str, judged: JudgedWorkload) -> v1::WorkloadSpread {
    v1::WorkloadSpread {
        namespace: namespace.to_owned(),
        kind: judged.workload.kind,
        name: judged.workload.name,
        labels: judged.workload.labels,
        pod_count: count(judged.pods),
        pending_count: count(judged.pending),
        topologies: judged
            .balances
            .into_iter()
            .map(Balance::into_wire)
            .collect(),
        fault: judged.fault.unwrap_or_default(),
        selected_count: count(judged.selected),
        pods: Vec::new(),
    }
}

fn member(pod: NamedPod, read_view: &ReadView<'_>) -> v1::WorkloadMember {
    let node = pod.node.map(|slot| read_view.nodes.name(slot).to_owned());
    v1::WorkloadMember {
        name: pod.name,
        node: node.unwrap_or_default(),
    }
}

/// The rank of a workload among all, worst first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct WorkloadRank {
    hard_excess: Reverse<i64>,
    soft_excess: Reverse<i64>,
    skew: Reverse<i64>,
    namespace: String,
    workload: WorkloadId,
}

impl WorkloadRank {
    /// The rank of a workload of a namespace.
    pub fn of(namespace: &str, judged: &JudgedWorkload) -> Self {
        let excess = |hard: bool| {
            let alike = judged.balances.iter().filter(|b| b.is_hard() == hard);
            Reverse(alike.map(Balance::excess).max().unwrap_or(0))
        };
        let skew = judged.balances.iter().map(|it| it.numbers.skew).max();
        Self {
            hard_excess: excess(true),
            soft_excess: excess(false),
            skew: Reverse(skew.unwrap_or(0)),
            namespace: namespace.to_owned(),
            workload: judged.workload.clone(),
        }
    }

    /// Returns whether the workload violates a hard constraint.
    pub fn violates(&self) -> bool {
        self.hard_excess.0 > 0
    }

    /// Returns whether the workload violates no hard constraint, and exceeds the max skew of a soft
    /// one.
    pub fn exceeds(&self) -> bool {
        !self.violates() && self.soft_excess.0 > 0
    }

    /// Returns the rank as text, for page tokens.
    pub fn to_text(&self) -> String {
        let WorkloadId { kind, name, labels } = &self.workload;
        let numbers = (self.hard_excess.0, self.soft_excess.0, self.skew.0);
        let text = (numbers, &self.namespace, kind, name, labels);
        serde_json::to_string(&text).expect("numbers and texts can be written")
    }

    /// Returns the rank that was written as this text.
    pub fn from_text(text: &str) -> Option<Self> {
        let rank = serde_json::from_str(text).ok()?;
        let ((hard, soft, skew), namespace, kind, name, labels) = rank;
        Some(Self {
            hard_excess: Reverse(hard),
            soft_excess: Reverse(soft),
            skew: Reverse(skew),
            namespace,
            workload: WorkloadId { kind, name, labels },
        })
    }
}
