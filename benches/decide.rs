//! The cost of decisions and changes, in process, beside the yardsticks.
//!
//! ```text
//! cargo bench --bench decide                      all sizes
//! cargo bench --bench decide -- 5000              5,000 nodes, under two minutes
//! cargo bench --bench decide -- --rounds 3 --write docs/evidence/decisions.md
//! ```

mod ask;
mod cases;
mod changes;
mod clock;
mod clusters;
mod cpu;
mod document;
mod numbers;
mod plot;
mod table;
mod world;
mod yardsticks;

use std::path::PathBuf;

use clap::Parser;
use evenkeel::proto::v1;
use evenkeel::proto::v1::change::Object;
use evenkeel::spread::NodeChecks;
use prost::Message;
use support::synth::SyntheticCluster;

use ask::{Compiled, Wire};
use cases::{CONSTRAINTS, Constraints, Reach, ZONES};
use clock::Clock;
use clusters::SIZES;
use table::{ChangeRow, Measure, Row, Size};
use world::World;
use yardsticks::{Asked, Packed, Plain};

/// The clusters whose rows the document holds, of the second only what counts per domain; other rows are only printed.
const DOCUMENTED_ZONES: usize = 10;
const DOCUMENTED_NODES: [usize; 2] = [5_000, 100_000];

#[derive(Parser)]
struct Args {
    /// Numbers of nodes to measure; all sizes without
    #[arg(
        value_name = "NODES",
        env = "EVENKEEL_BENCH_NODES",
        value_delimiter = ','
    )]
    nodes: Vec<usize>,

    /// Numbers of zones to measure
    #[arg(long, value_delimiter = ',', default_values_t = ZONES)]
    zones: Vec<usize>,

    /// Number of workloads, instead of the size's own
    #[arg(long)]
    workloads: Option<usize>,

    /// How often to measure all of it, minutes apart; the lowest median of
    /// each figure counts
    #[arg(long, default_value_t = 1)]
    rounds: usize,

    /// Document to put the tables in, and the plot beside
    #[arg(long, env = "EVENKEEL_BENCH_WRITE", value_name = "FILE")]
    write: Option<PathBuf>,

    /// What cargo passes
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> std::io::Result<()> {
    let args = Args::parse();
    let mut run = Run::default();
    for _ in 0..args.rounds {
        for (nodes, pods, workloads) in SIZES {
            if args.nodes.is_empty() || args.nodes.contains(&nodes) {
                let workloads = args.workloads.unwrap_or(workloads);
                run.measure_size((nodes, pods, workloads), &args.zones);
            }
        }
    }
    println!("\n{}", table::decisions(run.rows.iter()));
    println!("{}", table::changes(run.changes.iter()));
    println!("{}", table::targets(&run.rows, &run.changes));
    if let Some(document) = &args.write {
        run.write(document)?;
    }
    Ok(())
}

/// The measured figures.
#[derive(Default)]
struct Run {
    clock: Clock,
    rows: Vec<Row>,
    changes: Vec<ChangeRow>,
}

/// One cluster, in all forms.
struct Stage<'a> {
    size: Size,
    cluster: &'a SyntheticCluster,
    world: &'a World,
    wire: &'a Wire,
    plain: &'a Plain,
    packed: &'a Packed,
}

/// The times of both yardsticks, in nanoseconds.
struct Yardsticks {
    recount_ns: f64,
    scan_ns: f64,
}

impl Run {
    fn measure_size(&mut self, size: (usize, usize, usize), zones: &[usize]) {
        let (nodes, pods, _) = size;
        let first = clusters::cluster(size, 1);
        let world = World::of(first.clone().into_batches(1_000));
        let wire = Wire::of(&world);
        let mut plain = Plain::of(&first);
        let packed = Packed::of(&plain);
        for &zones in zones {
            // Pods stay where they are; only the nodes' zones differ.
            let cluster = clusters::cluster(size, zones);
            plain.relabel(&cluster);
            let nodes_only = cluster.nodes().map(|node| v1::Change {
                object: Some(Object::Node(node)),
            });
            ask::update(&world, &world::batch(nodes_only.collect()));
            let size = Size { nodes, pods, zones };
            let stage = Stage {
                size,
                cluster: &cluster,
                world: &world,
                wire: &wire,
                plain: &plain,
                packed: &packed,
            };
            for constraints in CONSTRAINTS {
                for reach in Reach::ALL {
                    self.measure(&stage, constraints, reach);
                }
            }
            self.measure_changes(&stage);
        }
    }

    fn measure(&mut self, stage: &Stage<'_>, constraints: Constraints, reach: Reach) {
        let pod = cases::incoming(cases::workload(stage.cluster), constraints, reach);
        let compiled = Compiled::of(stage.world, &pod);
        let asked = Asked::of(&pod);
        check(stage, &compiled, &asked, constraints);
        let size = stage.size;
        let Size { nodes, pods, zones } = size;
        let (name, reach_name) = (constraints.name, reach.name());
        let id = format!("{nodes}/{pods}/{zones}/{name}/{reach_name}");
        let yardsticks = self.time_yardsticks(&id, stage, &asked, constraints);
        let row = |measure, ns, wire_ns| Row {
            size,
            constraints,
            reach,
            measure,
            ns,
            wire_ns,
            recount_ns: yardsticks.recount_ns,
            scan_ns: yardsticks.scan_ns,
        };
        let clock = &mut self.clock;
        if !constraints.is_hard {
            let (packed, top) = (score_request(&pod, false), score_request(&pod, true));
            let ns = clock.median_ns(&format!("{id}/packed"), || compiled.score());
            let wire = clock.median_ns(&format!("{id}/packed wire"), || stage.wire.score(&packed));
            table::keep(&mut self.rows, row(Measure::ScorePacked, ns, Some(wire)));
            let ns = clock.median_ns(&format!("{id}/top"), || compiled.score_top());
            let wire = clock.median_ns(&format!("{id}/top wire"), || stage.wire.score(&top));
            table::keep(&mut self.rows, row(Measure::ScoreTop, ns, Some(wire)));
            return;
        }
        let domains = filter_request(&pod, v1::View::Domains);
        let bitmap = filter_request(&pod, v1::View::Bitmap);
        let ns = clock.median_ns(&format!("{id}/domains"), || {
            compiled.filter_domains(NodeChecks::All)
        });
        let wire = clock.median_ns(&format!("{id}/domains wire"), || {
            stage.wire.filter(&domains)
        });
        table::keep(&mut self.rows, row(Measure::FilterDomains, ns, Some(wire)));
        let ns = clock.median_ns(&format!("{id}/bitmap"), || compiled.filter_bitmap());
        let wire = clock.median_ns(&format!("{id}/bitmap wire"), || stage.wire.filter(&bitmap));
        table::keep(&mut self.rows, row(Measure::FilterBitmap, ns, Some(wire)));
        let ns = self.time_cold(&id, stage, &pod);
        table::keep(&mut self.rows, row(Measure::FilterCold, ns, None));
    }

    /// Times Filter with a new selector each time. The time of compiling the question is measured
    /// apart and subtracted.
    fn time_cold(&mut self, id: &str, stage: &Stage<'_>, pod: &v1::Pod) -> f64 {
        let mut pod = pod.clone();
        let mut number = 0;
        let mut compile = || {
            cases::make_new(&mut pod, number);
            number += 1;
            Compiled::of(stage.world, &pod)
        };
        let compiling = self
            .clock
            .median_ns(&format!("{id}/compiling"), &mut compile);
        let cold = self.clock.median_ns(&format!("{id}/cold"), || {
            compile().filter_domains(NodeChecks::All)
        });
        // Drops thousands of views that no later question uses.
        ask::forget_views(stage.world);
        cold - compiling
    }

    fn time_yardsticks(
        &mut self,
        id: &str,
        stage: &Stage<'_>,
        asked: &Asked,
        constraints: Constraints,
    ) -> Yardsticks {
        let prepared = stage.packed.prepare(stage.plain, asked);
        let recount = format!("{id}/recount");
        Yardsticks {
            recount_ns: if constraints.is_hard {
                self.clock.median_ns(&recount, || stage.plain.filter(asked))
            } else {
                self.clock.median_ns(&recount, || stage.plain.score(asked))
            },
            scan_ns: self
                .clock
                .median_ns(&format!("{id}/scan"), || stage.packed.scan(&prepared)),
        }
    }

    fn measure_changes(&mut self, stage: &Stage<'_>) {
        let size = stage.size;
        let id = format!("{}/{}/{}", size.nodes, size.pods, size.zones);
        let (world, cluster) = (stage.world, stage.cluster);
        let pods = changes::move_pods(&mut self.clock, &id, world, cluster);
        let row = ChangeRow {
            size,
            pod_alone_ns: pods.alone_ns,
            pod_batched_ns: pods.batched_ns,
            batch_pods: pods.batch_pods,
            pod_held_ns: pods.held_ns,
            relabel_ns: changes::relabel_node(&mut self.clock, &id, world, cluster),
        };
        table::keep(&mut self.changes, row);
    }

    /// Puts tables into the document, and the plot beside it.
    fn write(&self, document: &std::path::Path) -> std::io::Result<()> {
        let is_documented =
            |size: Size| size.zones == DOCUMENTED_ZONES && DOCUMENTED_NODES.contains(&size.nodes);
        let rows = self.rows.iter().filter(|row| {
            is_documented(row.size)
                && row.reach == Reach::AllNodes
                && row.measure != Measure::FilterCold
                && row.constraints.name != "zone soft"
                && (row.size.nodes == DOCUMENTED_NODES[0] || row.measure == Measure::FilterDomains)
        });
        let changes = self.changes.iter();
        let section = format!(
            "{}\n{}",
            table::decisions(rows),
            table::changes(changes.filter(|row| is_documented(row.size))),
        );
        document::replace_section(document, "decide", &section)?;
        let sizes = |row: &Row| row.size.pods;
        if self.rows.first().map(sizes) == self.rows.last().map(sizes) {
            // A single size makes no curve.
            return Ok(());
        }
        let title = format!("One decision, {DOCUMENTED_ZONES} zones");
        let svg = plot::draw(&title, &self.curves());
        std::fs::write(document.with_file_name("performance-growth.svg"), svg)
    }

    fn curves(&self) -> Vec<plot::Curve> {
        let curve = |name, constraints: &str, measure, value: fn(&Row) -> f64| {
            let rows = self.rows.iter().filter(|row| {
                row.size.zones == DOCUMENTED_ZONES
                    && row.reach == Reach::AllNodes
                    && row.constraints.name == constraints
                    && row.measure == measure
            });
            let points = rows.map(|row| (row.size.pods as f64, value(row)));
            plot::Curve {
                name,
                points: points.collect(),
            }
        };
        let (zone, both, soft) = ("zone hard", "zone + hostname hard", "zone + hostname soft");
        vec![
            curve("plain recount, Score", soft, Measure::ScorePacked, |row| {
                row.recount_ns
            }),
            curve(
                "plain recount, Filter",
                zone,
                Measure::FilterDomains,
                |row| row.recount_ns,
            ),
            curve("scan", zone, Measure::FilterDomains, |row| row.scan_ns),
            curve("Score of all nodes", soft, Measure::ScorePacked, |row| {
                row.ns
            }),
            curve(
                "Filter, bitmap of all nodes",
                both,
                Measure::FilterBitmap,
                |row| row.ns,
            ),
            curve("Filter, new selector", zone, Measure::FilterCold, |row| {
                row.ns
            }),
            curve(
                "Filter, zones, from wire",
                zone,
                Measure::FilterDomains,
                |row| row.wire_ns.unwrap_or(row.ns),
            ),
            curve("Filter, zones", zone, Measure::FilterDomains, |row| row.ns),
        ]
    }
}

/// Checks that the library and both yardsticks answer the same.
fn check(stage: &Stage<'_>, compiled: &Compiled, asked: &Asked, constraints: Constraints) {
    let recounted = stage.plain.count(asked);
    let prepared = stage.packed.prepare(stage.plain, asked);
    assert_eq!(stage.packed.count(&prepared), recounted);
    if constraints.is_hard {
        let counts: Vec<Vec<_>> = recounted
            .into_iter()
            .map(|c| c.into_iter().collect())
            .collect();
        assert_eq!(compiled.counts(), counts);
        let feasible = compiled.filter_domains(NodeChecks::SpreadOnly);
        assert_eq!(feasible, stage.plain.filter(asked));
    } else {
        assert_eq!(compiled.score(), stage.plain.score(asked));
    }
}

fn filter_request(pod: &v1::Pod, view: v1::View) -> Vec<u8> {
    let request = v1::FilterRequest {
        pod: Some(pod.clone()),
        view: view.into(),
        ..Default::default()
    };
    request.encode_to_vec()
}

fn score_request(pod: &v1::Pod, top: bool) -> Vec<u8> {
    let view = if top {
        v1::View::Basic
    } else {
        v1::View::Bitmap
    };
    let request = v1::ScoreRequest {
        pod: Some(pod.clone()),
        view: view.into(),
        top: if top { 10 } else { 0 },
        ..Default::default()
    };
    request.encode_to_vec()
}
