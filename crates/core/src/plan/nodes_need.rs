//! Finds the fewest or cheapest new nodes on which pods fit. Each choice of nodes is judged by placing
//! all pods jointly on a copy of the snapshot that has these nodes.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use prost::Message;

use super::joint::most_picks;
use super::movable::deletion;
use crate::matching::Path;
use crate::matching::names::HOSTNAME;
use crate::proto::v1::change::Object;
use crate::proto::{count, v1};
use crate::snapshot::pod::Phase;
use crate::snapshot::{Imagined, Limits, NodeRef, Stopped};
use crate::spread::describe::{controller, example};
use crate::spread::place::Placer;
use crate::spread::{Constraints, Filter, NodeChecks, Outcome, PlaceOptions, Question};

/// The bonus by which a node comes after all before it, whatever their scores.
const AFTER: i64 = 1_000;

/// The most nodes of each combination of domains.
const MOST_NODES: usize = 1_000;

/// The most choices of nodes that are listed.
const MOST_CHOICES: usize = 5_000;

/// The most choices that are tried.
const MOST_TRIED: usize = 300;

/// The number of pods and nodes that the tried choices have together, beside the first few.
const MOST_WORK: usize = 100_000;

/// The prefixes of the taints that a node has while it is not ready or is about to go.
const PASSING_TAINTS: [&str; 6] = [
    "node.kubernetes.io/",
    "node.cloudprovider.kubernetes.io/",
    "ToBeDeletedByClusterAutoscaler",
    "DeletionCandidateOfClusterAutoscaler",
    "karpenter.sh/disrupted",
    "karpenter.sh/unregistered",
];

/// The pods, and the nodes that can be made.
#[derive(Debug)]
pub struct NeedOptions {
    /// Pods to place.
    pub pods: Vec<NeededPods>,
    /// The namespace whose waiting pods are placed too, empty for all; `None` if none are.
    pub pending: Option<String>,
    /// The nodes that can be made, checked and named.
    pub templates: Vec<v1::NodeTemplate>,
    /// The limits for pods.
    pub limits: Limits,
}

/// Pods that are alike.
#[derive(Debug, Clone)]
pub struct NeededPods {
    /// The pod.
    pub question: Question,
    /// The number of pods.
    pub replicas: usize,
    /// The name of the first pod, or of the workload.
    pub name: String,
    /// The index in the request; -1 for pods of the snapshot that wait.
    pub index: i32,
}

/// Nodes of a template in one combination of domains.
struct NodeVariant {
    /// The name of the template.
    template: String,
    /// The values of the labels that the template lets choose.
    domains: BTreeMap<String, String>,
    /// The price of each.
    price: usize,
    node: v1::Node,
    /// The pods of DaemonSets that run on each of the nodes.
    daemons: Vec<v1::Pod>,
}

/// How many pods of a kind nodes take alone.
struct KindRoom {
    /// The nodes that there are.
    free: usize,
    /// A new node of each variant.
    of_variant: Vec<usize>,
}

/// All pods, placed on the nodes of a choice.
struct PlacedAll {
    names: Vec<(usize, String)>,
    outcomes: Vec<Outcome>,
}

/// A search for the cheapest choice: the number of nodes of each variant.
struct NodeSearch<'n> {
    pods: &'n [NeededPods],
    /// The order in which the pods are placed.
    order: Vec<usize>,
    /// The number of pods of each kind that are to be placed.
    wanted: Vec<usize>,
    variants: Vec<NodeVariant>,
    /// The room for the pods of each kind.
    room: Vec<KindRoom>,
    /// The number of choices that may still be tried.
    left: usize,
}

/// Plans which nodes come on a copy of a snapshot. The nodes that templates name must exist. The answer is
/// without the revision and the kind of default constraints.
pub fn need_nodes(
    imagined: &mut Imagined<'_>,
    options: NeedOptions,
) -> Result<v1::PlanNodesResponse, Stopped> {
    let mut pods = options.pods;
    if let Some(namespace) = &options.pending {
        pods.extend(waiting(imagined, namespace, &options.limits)?);
    }
    let nodes = imagined.read_any().nodes.len();
    let mut order: Vec<usize> = (0..pods.len()).collect();
    order.sort_by_cached_key(|at| Reverse(pods[*at].question.size()));
    let wanted: Vec<usize> = pods.iter().map(|it| it.replicas).collect();
    let all: usize = wanted.iter().sum();
    let mut search = NodeSearch {
        left: (MOST_WORK / (1 + all + nodes * pods.len())).clamp(6, MOST_TRIED),
        variants: variants(imagined, &options.templates),
        room: Vec::new(),
        pods: &pods,
        order,
        wanted,
    };
    search.look_at_nodes(imagined, &options.limits)?;
    let mut choice = vec![0; search.variants.len()];
    let mut best = search.place(imagined, &choice, &search.wanted, false)?;
    let (mut unplaced, mut bound) = (Vec::new(), (0, String::new()));
    if best.count() < all {
        (choice, best) = search.many(imagined)?;
        unplaced = search.settle(&best);
        bound = search.cheapest(imagined, &mut choice, &mut best)?;
    }
    let price = search.price(&choice);
    let mut answer = v1::PlanNodesResponse {
        price: count(price),
        optimal: unplaced.is_empty() && bound.0 >= price,
        bound: count(bound.0),
        bound_reason: bound.1,
        unplaced,
        ..Default::default()
    };
    for (variant, it) in search.variants.into_iter().enumerate() {
        let names = best.names.iter().filter(|(at, _)| *at == variant);
        answer.new_nodes.push(v1::NewNodes {
            template: it.template,
            domains: it.domains,
            price: count(it.price),
            names: names.map(|(_, name)| name.clone()).collect(),
        });
    }
    answer.new_nodes.retain(|of| !of.names.is_empty());
    for at in search.order {
        let of = &pods[at];
        let picks = &best.outcomes[at].picks;
        answer.placed.extend(
            picks
                .chunk_by(|one, other| one.node == other.node)
                .map(|alike| v1::PlacedPods {
                    namespace: of.question.namespace.clone(),
                    name: of.name.clone(),
                    index: of.index,
                    node: alike[0].node.to_string(),
                    count: count(alike.len()),
                }),
        );
    }
    Ok(answer)
}

impl PlacedAll {
    /// The number of pods that were placed.
    fn count(&self) -> usize {
        self.outcomes
            .iter()
            .map(|outcome| outcome.picks.len())
            .sum()
    }
}

impl NodeSearch<'_> {
    /// Looks at one new node of each variant: the pods of DaemonSets that it runs, and the room that it
    /// and the nodes that there are have then.
    fn look_at_nodes(
        &mut self,
        imagined: &mut Imagined<'_>,
        limits: &Limits,
    ) -> Result<(), Stopped> {
        let names = self.names(&vec![1; self.variants.len()]);
        let by_name: HashMap<&str, usize> = names.iter().map(|it| (&*it.1, it.0)).collect();
        imagined.attempt(|imagined| {
            self.add_nodes(imagined, &names)?;
            for pod in daemons(imagined)? {
                let question = Question::compile(Some(&pod), limits, Path::root("pod"));
                let Ok(question) = question else { continue };
                let run = |variant: Option<usize>, _| {
                    let daemons = variant.map(|variant| &mut self.variants[variant].daemons);
                    daemons.into_iter().for_each(|it| it.push(pod.clone()));
                };
                each_taking(imagined, &question, &by_name, run)?;
            }
            self.add_nodes(imagined, &names)?;
            for of in self.pods {
                let (mut free, mut of_variant) = (0_usize, vec![0; self.variants.len()]);
                let look = |variant: Option<usize>, fitting: Option<u32>| {
                    let room = fitting.map_or(of.replicas, |it| it as usize);
                    let sum = variant.map_or(&mut free, |variant| &mut of_variant[variant]);
                    *sum = sum.saturating_add(room.min(of.replicas));
                };
                each_taking(imagined, &of.question, &by_name, look)?;
                self.room.push(KindRoom { free, of_variant });
            }
            Ok(((), false))
        })
    }

    /// The names of the nodes of a choice, each with its variant.
    fn names(&self, choice: &[usize]) -> Vec<(usize, String)> {
        let mut counts: HashMap<&str, usize> = HashMap::new();
        let mut names = Vec::new();
        for (variant, count) in choice.iter().enumerate() {
            let template = &*self.variants[variant].template;
            for _ in 0..*count {
                let number = counts.entry(template).or_default();
                *number += 1;
                names.push((variant, format!("{template}+{number}")));
            }
        }
        names
    }

    /// Adds the nodes of a choice, and their pods of DaemonSets.
    fn add_nodes(
        &self,
        imagined: &mut Imagined<'_>,
        names: &[(usize, String)],
    ) -> Result<(), Stopped> {
        let deadline = imagined.deadline();
        let (mut objects, mut bytes) = (Vec::new(), 0_usize);
        for (variant, name) in names {
            let variant = &self.variants[*variant];
            let node = named(&variant.node, name);
            let length = node.encoded_len();
            bytes = bytes.saturating_add(length);
            deadline.entry(length, bytes)?;
            objects.push(Object::Node(node));
            for (at, pod) in deadline.each(&variant.daemons).enumerate() {
                let mut pod = pod?.clone();
                pod.metadata.get_or_insert_default().name = format!("{at}+{name}");
                name.clone_into(&mut pod.spec.get_or_insert_default().node_name);
                objects.push(Object::Pod(pod));
            }
        }
        imagined.change(objects)
    }

    /// Places pods of each kind on the nodes of a choice. With `packs` new nodes are filled one after the
    /// other.
    fn place(
        &self,
        imagined: &mut Imagined<'_>,
        choice: &[usize],
        wanted: &[usize],
        packs: bool,
    ) -> Result<PlacedAll, Stopped> {
        let names = self.names(choice);
        let mut options = PlaceOptions::default();
        if packs {
            // The first of each variant come first, the cheapest of them before the others.
            let mut counts = vec![0; choice.len()];
            let turn = |(variant, name): &(usize, String)| {
                counts[*variant] += 1;
                (
                    counts[*variant],
                    self.variants[*variant].price,
                    name.clone(),
                )
            };
            let mut turns: Vec<_> = names.iter().map(turn).collect();
            turns.sort();
            let turns = (1_i64..).zip(turns);
            options.bonuses = turns
                .map(|(turn, (.., name))| (name, -turn * AFTER))
                .collect();
        }
        let outcomes = imagined.attempt(|imagined| {
            self.add_nodes(imagined, &names)?;
            let mut outcomes: Vec<Outcome> = Vec::new();
            outcomes.resize_with(self.pods.len(), Outcome::default);
            for (turn, at) in self.order.iter().enumerate() {
                let question = &self.pods[*at].question;
                options.replicas = wanted[*at];
                if options.replicas == 0 {
                    continue;
                }
                let view = imagined.read(&question.namespace);
                let constraints = question.constraints_on(&view)?;
                let all = NodeChecks::All;
                let mut placer = Placer::of(question, &constraints, all, &options, &view)?;
                let outcome = most_picks(&mut placer, false, view.deadline)?;
                if turn + 1 < self.order.len() {
                    let hold = question.hold(String::new(), Duration::ZERO);
                    imagined.hold(&hold, outcome.picks.iter().map(|pick| &*pick.node))?;
                }
                outcomes[*at] = outcome;
            }
            Ok((outcomes, false))
        })?;
        Ok(PlacedAll { names, outcomes })
    }

    /// Places as many pods as any number of nodes allows, on as few as the pods then use.
    fn many(&mut self, imagined: &mut Imagined<'_>) -> Result<(Vec<usize>, PlacedAll), Stopped> {
        let all: usize = self.wanted.iter().sum();
        let enough = |variant: usize| {
            let each = self.room.iter().zip(&self.wanted);
            let each = each.map(|(room, wanted)| (room.of_variant[variant], *wanted));
            let each = each.filter(|(room, _)| *room > 0);
            let nodes: usize = each.map(|(room, wanted)| wanted.div_ceil(room)).sum();
            nodes.min(MOST_NODES)
        };
        let mut choice: Vec<usize> = (0..self.variants.len()).map(enough).collect();
        let mut placed = self.place(imagined, &choice, &self.wanted, true)?;
        while placed.count() < all {
            let wider = choice.iter().map(|count| (count * 4).min(MOST_NODES));
            let wider: Vec<usize> = wider.collect();
            if wider == choice {
                break;
            }
            choice = wider;
            placed = self.place(imagined, &choice, &self.wanted, true)?;
        }
        let picks = placed.outcomes.iter().flat_map(|outcome| &outcome.picks);
        let nodes: BTreeSet<&str> = picks.map(|pick| &*pick.node).collect();
        let mut used = vec![0; choice.len()];
        for (variant, name) in &placed.names {
            used[*variant] += usize::from(nodes.contains(&**name));
        }
        let same = self.place(imagined, &used, &self.wanted, false)?;
        Ok(match same.count() >= placed.count() {
            true => (used, same),
            false => (choice, placed),
        })
    }

    /// From now on only the pods are wanted that were placed. Returns the others.
    fn settle(&mut self, placed: &PlacedAll) -> Vec<v1::UnplacedPods> {
        let mut unplaced = Vec::new();
        for ((at, outcome), of) in placed.outcomes.iter().enumerate().zip(self.pods) {
            let left = self.wanted[at] - outcome.picks.len();
            self.wanted[at] -= left;
            if left > 0 {
                let reasons = outcome.reasons.iter();
                let reasons = reasons.map(|(reason, nodes)| format!("{nodes} {}", reason.text()));
                unplaced.push(v1::UnplacedPods {
                    namespace: of.question.namespace.clone(),
                    name: of.name.clone(),
                    index: of.index,
                    count: count(left),
                    reasons: reasons.collect(),
                });
            }
        }
        unplaced
    }

    fn price(&self, choice: &[usize]) -> usize {
        let nodes = choice.iter().zip(&self.variants);
        nodes
            .map(|(count, it)| count.saturating_mul(it.price))
            .sum()
    }

    /// A price below which no nodes do by room alone, and what proves that.
    fn least_by_room(&self) -> (usize, String) {
        let prices = self.variants.iter().map(|it| it.price);
        let step = prices.clone().reduce(gcd).unwrap_or(1);
        let all = self.room.iter().zip(&self.wanted).zip(self.pods);
        let all = all.filter_map(|((room, wanted), of)| {
            let missing = wanted.checked_sub(room.free).filter(|missing| *missing > 0)?;
            let each = self.variants.iter().zip(&room.of_variant);
            let each = each.filter(|(_, room)| **room > 0);
            let each = each.map(|(it, room)| missing.saturating_mul(it.price).div_ceil(*room));
            let least = each.min()?.div_ceil(step).saturating_mul(step);
            let (name, most) = (&of.name, room.of_variant.iter().max()?);
            let why = format!(
                "room: {missing} of {name} have none on the nodes that there are, and a new node has it for {most}"
            );
            Some((least, why))
        });
        // The pods did not fit on the nodes that there are.
        let one = "the pods do not fit on the nodes that there are".to_owned();
        let first = (prices.min().unwrap_or(0), one);
        let all = std::iter::once(first).chain(all);
        all.max_by_key(|(price, _)| *price).unwrap_or_default()
    }

    /// Returns whether a choice has too little room, whatever constraints say.
    fn lacks_room(&self, choice: &[usize]) -> bool {
        self.room.iter().zip(&self.wanted).any(|(room, wanted)| {
            let new = choice.iter().zip(&room.of_variant);
            let new: usize = new.map(|(count, room)| count.saturating_mul(*room)).sum();
            room.free.saturating_add(new) < *wanted
        })
    }

    /// Looks for a cheaper choice. Returns a price below which none does, and what proves that.
    fn cheapest(
        &mut self,
        imagined: &mut Imagined<'_>,
        choice: &mut Vec<usize>,
        best: &mut PlacedAll,
    ) -> Result<(usize, String), Stopped> {
        let all: usize = self.wanted.iter().sum();
        let price = self.price(choice);
        if price == 0 {
            return Ok((0, String::new()));
        }
        let least = self.least_by_room();
        let Some(cheaper) = self.cheaper(price, least.0) else {
            return self.with_fewer(imagined, choice, best, least);
        };
        let mut proven = price;
        for fewer in cheaper {
            let price = self.price(&fewer);
            if self.lacks_room(&fewer) {
                continue;
            }
            if self.left == 0 {
                proven = proven.min(price);
                break;
            }
            self.left -= 1;
            let placed = self.place(imagined, &fewer, &self.wanted, false)?;
            if placed.count() == all {
                proven = proven.min(price);
                (*choice, *best) = (fewer, placed);
                break;
            }
            // Pods of several kinds may fit in another order.
            let bound = placed
                .outcomes
                .iter()
                .filter_map(|it| it.bound)
                .sum::<usize>();
            if self.pods.len() > 1 || bound >= all {
                proven = proven.min(price);
            }
        }
        let tried = "every cheaper choice of nodes leaves pods over when all are placed jointly";
        Ok(match proven > least.0 {
            true => (proven, tried.to_owned()),
            false => least,
        })
    }

    /// Leaves nodes of a choice out one by one, where there are too many choices to try.
    fn with_fewer(
        &mut self,
        imagined: &mut Imagined<'_>,
        choice: &mut Vec<usize>,
        best: &mut PlacedAll,
        least: (usize, String),
    ) -> Result<(usize, String), Stopped> {
        for variant in (0..choice.len()).rev() {
            while choice[variant] > 0 && self.left > 0 && self.price(choice) > least.0 {
                let mut fewer = choice.clone();
                fewer[variant] -= 1;
                self.left -= 1;
                let placed = self.place(imagined, &fewer, &self.wanted, false)?;
                if placed.count() < best.count() {
                    break;
                }
                (*choice, *best) = (fewer, placed);
            }
        }
        Ok(least)
    }

    /// The choices that cost less than a price and at least another, the cheapest first; `None` if
    /// they are too many.
    fn cheaper(&self, price: usize, least: usize) -> Option<Vec<Vec<usize>>> {
        let mut all: Vec<Vec<usize>> = vec![Vec::new()];
        for variant in &self.variants {
            let mut longer = Vec::new();
            for choice in &all {
                let spent = self.price(choice);
                let counts = (0..=MOST_NODES).take_while(|it| spent + it * variant.price < price);
                longer.extend(counts.map(|count| [&choice[..], &[count]].concat()));
                if longer.len() > MOST_CHOICES {
                    return None;
                }
            }
            all = longer;
        }
        all.retain(|choice| self.price(choice) >= least);
        all.sort_by_cached_key(|choice| (self.price(choice), choice.iter().sum::<usize>()));
        Some(all)
    }
}

/// Calls a function for each node that takes a pod without spread: with its variant, if it is new, and
/// how many more it takes; `None` for any number.
fn each_taking(
    imagined: &Imagined<'_>,
    question: &Question,
    by_name: &HashMap<&str, usize>,
    mut call: impl FnMut(Option<usize>, Option<u32>),
) -> Result<(), Stopped> {
    let view = imagined.read(&question.namespace);
    let none = Constraints::default();
    let filter = Filter::of(question, &none, NodeChecks::All, &view)?;
    for slot in view.deadline.each(view.nodes.order()) {
        let slot = *slot?;
        if filter.judge_before_spread(slot)?.is_ok() {
            let variant = by_name.get(view.nodes.name(slot)).copied();
            call(variant, filter.fitting(slot));
        }
    }
    Ok(())
}

fn gcd(one: usize, other: usize) -> usize {
    match other {
        0 => one,
        _ => gcd(other, one % other),
    }
}

/// The pods of the snapshot that wait for a node, which are taken out of the copy.
fn waiting(
    imagined: &mut Imagined<'_>,
    namespace: &str,
    limits: &Limits,
) -> Result<Vec<NeededPods>, Stopped> {
    let mut all = Vec::new();
    let mut taken_out = Vec::new();
    let mut names = imagined.namespaces();
    names.retain(|name| namespace.is_empty() || **name == *namespace);
    for name in names {
        let view = imagined.read(&name);
        let pods = view.pod_groups()?;
        let groups = pods.groups().iter().filter(|it| it.nodes.len() < it.pods);
        let groups: Vec<_> = groups.collect();
        let mut alike: BTreeMap<_, Vec<String>> = BTreeMap::new();
        for pod in pods.named(groups.iter().copied())? {
            if pod.node.is_none() && matches!(pod.phase, Phase::Unset | Phase::Pending) {
                // Pods with storage have claims of their own.
                let own = pods
                    .use_storage(groups[pod.group])
                    .then(|| pod.name.clone());
                alike.entry((pod.group, own)).or_default().push(pod.name);
            }
        }
        for mut names in alike.into_values() {
            names.sort();
            let whole = view.whole_pod(&name, &names[0]);
            let question = Question::compile(whole.as_ref(), limits, Path::root("pod"));
            let Ok(question) = question else { continue };
            taken_out.extend(names.iter().map(|pod| deletion("Pod", &name, pod)));
            all.push(NeededPods {
                question,
                replicas: names.len(),
                name: names.swap_remove(0),
                index: -1,
            });
        }
    }
    all.sort_by(|one, other| {
        let place = |it: &NeededPods| (it.question.namespace.clone(), it.name.clone());
        place(one).cmp(&place(other))
    });
    imagined.change(taken_out)?;
    Ok(all)
}

/// The variants of templates, without pods of DaemonSets.
fn variants(imagined: &Imagined<'_>, templates: &[v1::NodeTemplate]) -> Vec<NodeVariant> {
    let mut all = Vec::new();
    for template in templates {
        let nodes = imagined.read_any().nodes;
        let like = nodes.find(&template.node).and_then(|slot| nodes.get(slot));
        let like = || like.map(NodeRef::to_wire).unwrap_or_default();
        let mut node = template.object.clone().unwrap_or_else(like);
        let spec = node.spec.get_or_insert_default();
        spec.unschedulable = false;
        let passes = |taint: &v1::Taint| PASSING_TAINTS.iter().any(|it| taint.key.starts_with(it));
        spec.taints.retain(|taint| !passes(taint));
        let mut combinations: Vec<BTreeMap<String, String>> = vec![BTreeMap::new()];
        for of in &template.domains {
            let with = |known: &BTreeMap<String, String>, value: &String| {
                let mut longer = known.clone();
                longer.insert(of.topology_key.clone(), value.clone());
                longer
            };
            let longer = combinations.iter();
            let longer = longer.flat_map(|known| of.values.iter().map(|it| with(known, it)));
            combinations = longer.collect();
        }
        all.extend(combinations.into_iter().map(|domains| {
            let mut node = node.clone();
            let labels = &mut node.metadata.get_or_insert_default().labels;
            labels.extend(domains.clone());
            NodeVariant {
                daemons: Vec::new(),
                template: template.name.clone(),
                price: usize::try_from(template.price).unwrap_or(0).max(1),
                domains,
                node,
            }
        }));
    }
    all
}

/// A pod of each DaemonSet, tied to no node.
fn daemons(imagined: &Imagined<'_>) -> Result<Vec<v1::Pod>, Stopped> {
    let mut all = BTreeMap::new();
    for namespace in imagined.namespaces() {
        let view = imagined.read(&namespace);
        let pods = view.pod_groups()?;
        for group in view.deadline.each(pods.groups()) {
            let pod = example(&pods, group?, &namespace);
            let owner = pod.metadata.as_ref().and_then(controller);
            let owner = owner.filter(|owner| owner.kind == "DaemonSet");
            if let Some(owner) = owner.map(|owner| owner.name.clone()) {
                all.entry((namespace.clone(), owner)).or_insert(pod);
            }
        }
    }
    Ok(all.into_values().collect())
}

/// A new node of this name.
fn named(node: &v1::Node, name: &str) -> v1::Node {
    let mut node = node.clone();
    let metadata = node.metadata.get_or_insert_default();
    name.clone_into(&mut metadata.name);
    metadata.uid.clear();
    metadata.labels.insert(HOSTNAME.to_owned(), name.to_owned());
    node
}
