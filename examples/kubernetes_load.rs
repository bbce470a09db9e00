//! A load on an API server: it fills the API server, lists it in one encoding or the other, and
//! changes pods at a steady rate while it measures how far behind the watching server is.
//! `bench/kubernetes` runs it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use clap::{Parser, Subcommand, ValueEnum};
use data_encoding::BASE64;
use evenkeel::proto::v1::spread_service_client::SpreadServiceClient;
use evenkeel::proto::v1::{FilterRequest, Pod, View};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use http::header::ACCEPT;
use http::{Method, Request};
use http_body_util::BodyExt as _;
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};
use prost::Message;
use prost::bytes::Bytes;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::Mutex;
use tokio::time::{MissedTickBehavior, interval, sleep};
use tonic::transport::Channel;

/// The label of the pod that is changed to see when the server knows.
const MARK: &str = "example.com/mark";

/// The label of the other pods that are changed.
const VERSION: &str = "version";

/// The value of these labels for a number. All values have the same length.
fn value(number: usize) -> String {
    format!("{number:07}")
}

#[derive(Parser)]
struct Args {
    /// How to reach the API server
    #[arg(long)]
    kubeconfig: PathBuf,

    /// Nodes of the cluster
    #[arg(long, default_value_t = 5_000)]
    nodes: usize,

    /// Pods of the cluster
    #[arg(long, default_value_t = 150_000)]
    pods: usize,

    /// Requests under way at a time
    #[arg(long, default_value_t = 48)]
    parallel: usize,

    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Create nodes and running pods, and print the bytes of a pod
    Fill,
    /// List all pods, and print what it took: bytes, and milliseconds of CPU here
    List {
        /// In which encoding they come
        #[arg(long)]
        encoding: Encoding,
    },
    /// Relabel pods, and print the rate reached, p50, p99 and the largest lag in ms
    Events {
        /// The server that watches
        #[arg(long)]
        server: String,
        /// Changes a second
        #[arg(long, default_value_t = 1_000)]
        rate: usize,
        /// Write the changes to the API server's etcd, past the API server, which only
        /// tells of them then
        #[arg(long)]
        etcd: Option<http::Uri>,
        /// For how long
        #[arg(long, default_value = "60s", value_parser = humantime::parse_duration)]
        duration: Duration,
    },
}

/// The encoding in which an API server writes objects.
#[derive(Clone, Copy, ValueEnum)]
enum Encoding {
    Json,
    Protobuf,
}

impl Encoding {
    const fn mime(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Protobuf => "application/vnd.kubernetes.protobuf",
        }
    }

    /// The pods of a page, and the token of the next page. Fields that decisions do not read are
    /// skipped, in both encodings.
    fn read(self, page: &[u8]) -> Result<(Vec<Pod>, String)> {
        let list: PodList = match self {
            Self::Json => serde_json::from_slice(page)?,
            Self::Protobuf => {
                // Four bytes mark the encoding, and an envelope follows.
                let envelope = page.strip_prefix(b"k8s\0").context("no protobuf")?;
                PodList::decode(Envelope::decode(envelope)?.raw)?
            }
        };
        Ok((list.items, list.metadata.unwrap_or_default().next))
    }
}

/// `k8s.io.apimachinery.pkg.runtime.Unknown`.
#[derive(Message)]
struct Envelope {
    #[prost(bytes = "bytes", tag = "2")]
    raw: Bytes,
}

/// `k8s.io.api.core.v1.PodList`.
#[derive(Message, Deserialize)]
struct PodList {
    #[prost(message, optional, tag = "1")]
    metadata: Option<ListMeta>,
    #[prost(message, repeated, tag = "2")]
    items: Vec<Pod>,
}

/// `k8s.io.apimachinery.pkg.apis.meta.v1.ListMeta`.
#[derive(Message, Deserialize)]
struct ListMeta {
    #[prost(string, tag = "3")]
    #[serde(rename = "continue", default)]
    next: String,
}

#[tokio::main]
async fn main() -> Result<()> {
    let args = Args::parse();
    let file = Kubeconfig::read_from(&args.kubeconfig)?;
    let config = kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
    let client = Client::try_from(config)?;
    match &args.command {
        Command::Fill => fill(&client, &args).await,
        Command::List { encoding } => list(&client, *encoding, args.pods).await,
        Command::Events {
            server,
            rate,
            etcd,
            duration,
        } => {
            let pods = match etcd {
                Some(etcd) => Pods::in_etcd(etcd.clone(), args.pods).await?,
                None => Pods::InApi(client),
            };
            let pods = Arc::new(pods);
            let channel = Channel::from_shared(server.clone())?.connect().await?;
            let marks = tokio::spawn(lags(
                Arc::clone(&pods),
                SpreadServiceClient::new(channel),
                *duration,
            ));
            let reached = relabel(&pods, &args, *rate, *duration).await?;
            let mut lags = marks.await??;
            lags.sort();
            let at =
                |share: f64| lags[((lags.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e3;
            println!("{reached:.0} {:.1} {:.1} {:.1}", at(0.5), at(0.99), at(1.0));
            Ok(())
        }
    }
}

/// Pods whose labels are changed.
enum Pods {
    /// They are changed by patches.
    InApi(Client),
    /// They are changed in etcd: the first pods, as the API server stores them.
    InEtcd(Client, Vec<Mutex<Vec<u8>>>),
}

/// The number of pods that are changed in etcd. Keeping all pods here would take gigabytes.
const IN_ETCD: usize = 5_000;

impl Pods {
    /// Reads the first pods from etcd, through its gateway for JSON.
    async fn in_etcd(etcd: http::Uri, pods: usize) -> Result<Self> {
        let client = Client::try_from(kube::Config::new(etcd))?;
        let mut kept = Vec::new();
        for index in 0..pods.min(IN_ETCD) {
            let asked = json!({ "key": BASE64.encode(key(index).as_bytes()) });
            let found = send(&client, Method::POST, "/v3/kv/range", &asked).await?;
            let value = found["kvs"][0]["value"].as_str().context("no such pod")?;
            kept.push(Mutex::new(BASE64.decode(value.as_bytes())?));
        }
        Ok(Self::InEtcd(client, kept))
    }

    /// Returns how many pods are changed.
    fn len(&self, args: &Args) -> usize {
        match self {
            Self::InApi(_) => args.pods,
            Self::InEtcd(_, kept) => kept.len(),
        }
    }

    /// Sets a label of a pod to a number.
    async fn relabel(&self, index: usize, label: &str, number: usize) -> Result<()> {
        let value = value(number);
        match self {
            Self::InApi(client) => {
                let patch = json!({ "metadata": { "labels": { label: value } } });
                let path = format!("/api/v1/namespaces/default/pods/pod-{index}");
                send(client, Method::PATCH, &path, &patch).await?;
            }
            Self::InEtcd(client, kept) => {
                let mut pod = kept[index].lock().await;
                set_label(&mut pod, label, &value)?;
                let put = json!({ "key": BASE64.encode(key(index).as_bytes()), "value": BASE64.encode(&pod) });
                send(client, Method::POST, "/v3/kv/put", &put).await?;
            }
        }
        Ok(())
    }
}

/// Returns the key of a pod in etcd.
fn key(index: usize) -> String {
    format!("/registry/pods/default/pod-{index}")
}

/// Sets a label of a pod in Kubernetes' protobuf to a value that is as long as before. An entry of
/// a map is its key, then its value.
fn set_label(pod: &mut [u8], label: &str, value: &str) -> Result<()> {
    let mut before = label.as_bytes().to_vec();
    before.extend([0x12, u8::try_from(value.len())?]);
    let mut places = pod.windows(before.len());
    let at = places.position(|place| place == before);
    let begin = at.context("the pod has no such label")? + before.len();
    pod[begin..begin + value.len()].copy_from_slice(value.as_bytes());
    Ok(())
}

async fn send(client: &Client, method: Method, path: &str, body: &Value) -> Result<Value> {
    let mime = match method {
        Method::PATCH => "application/merge-patch+json",
        _ => "application/json",
    };
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", mime);
    let request = request.body(serde_json::to_vec(body)?)?;
    client
        .request(request)
        .await
        .with_context(|| path.to_owned())
}

async fn fill(client: &Client, args: &Args) -> Result<()> {
    let nodes = stream::iter((0..args.nodes).map(|index| {
        let node = node(index);
        async move { send(client, Method::POST, "/api/v1/nodes", &node).await }
    }));
    nodes
        .buffer_unordered(args.parallel)
        .try_for_each(|_| async { Ok(()) })
        .await?;
    let pods = stream::iter((0..args.pods).map(|index| {
        let pod = pod(index, args.nodes);
        async move {
            send(
                client,
                Method::POST,
                "/api/v1/namespaces/default/pods",
                &pod,
            )
            .await
        }
    }));
    let mut made = pods.buffer_unordered(args.parallel);
    let mut bytes = 0;
    while let Some(pod) = made.try_next().await? {
        bytes = pod.to_string().len();
    }
    println!("{bytes}");
    Ok(())
}

/// Lists pods in pages as large as those of kubectl.
async fn list(client: &Client, encoding: Encoding, wanted: usize) -> Result<()> {
    let (mut bytes, mut found, mut next) = (0, 0, String::new());
    loop {
        let path = format!("/api/v1/namespaces/default/pods?limit=500&continue={next}");
        let request = Request::get(path).header(ACCEPT, encoding.mime());
        let answer = client
            .send(request.body(kube::client::Body::empty())?)
            .await?;
        let page = answer.into_body().collect().await?.to_bytes();
        let pods;
        (pods, next) = encoding.read(&page)?;
        bytes += page.len();
        found += pods.len();
        if next.is_empty() {
            break;
        }
    }
    ensure!(found == wanted, "{found} pods of {wanted}");
    println!("{bytes} {}", cpu_time().as_millis());
    Ok(())
}

/// Returns the CPU time that this process has used.
fn cpu_time() -> Duration {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::try_from(used).expect("it is not negative")
}

/// Changes a label of pods in turns. Returns the changes per second.
async fn relabel(pods: &Pods, args: &Args, rate: usize, duration: Duration) -> Result<f64> {
    let start = Instant::now();
    let mut clock = interval(Duration::from_secs(1) / rate as u32);
    clock.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let ticks = stream::unfold((clock, 0), |(mut clock, count)| async move {
        clock.tick().await;
        (start.elapsed() < duration).then_some((count, (clock, count + 1)))
    });
    let changes = ticks.map(|count: usize| async move {
        let index = 1 + count * 7919 % (pods.len(args) - 1);
        pods.relabel(index, VERSION, count).await
    });
    let made = changes
        .buffer_unordered(args.parallel)
        .try_fold(0usize, |count, _| async move { Ok(count + 1) });
    let made = made.await?;
    Ok(made as f64 / start.elapsed().as_secs_f64())
}

/// Changes one pod again and again. Returns how long after the API server's answer the server knows
/// of each change.
async fn lags(
    pods: Arc<Pods>,
    mut server: SpreadServiceClient<Channel>,
    duration: Duration,
) -> Result<Vec<Duration>> {
    let start = Instant::now();
    let mut lags = Vec::new();
    while start.elapsed() < duration {
        let mark = 1 + lags.len();
        pods.relabel(0, MARK, mark).await?;
        let changed = Instant::now();
        while !known(&mut server, &value(mark)).await? {
            ensure!(
                changed.elapsed() < Duration::from_secs(60),
                "the server does not learn of a change"
            );
            sleep(Duration::from_millis(1)).await;
        }
        lags.push(changed.elapsed());
        sleep(Duration::from_millis(20)).await;
    }
    Ok(lags)
}

/// Returns whether the server counts a pod with this mark.
async fn known(server: &mut SpreadServiceClient<Channel>, mark: &str) -> Result<bool> {
    let question: Pod = serde_json::from_value(json!({
        "metadata": { "namespace": "default", "name": "question" },
        "spec": { "topologySpreadConstraints": [{
            "maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone",
            "whenUnsatisfiable": "DoNotSchedule", "labelSelector": { "matchLabels": { MARK: mark } },
        }]},
    }))?;
    let answer = server.filter(FilterRequest {
        pod: Some(question),
        view: View::Domains as i32,
        ..FilterRequest::default()
    });
    let answer = answer.await?.into_inner();
    let mut domains = answer.constraints.iter().flat_map(|report| &report.domains);
    Ok(domains.any(|domain| domain.matching_pods > 0))
}

fn node(index: usize) -> Value {
    let name = format!("node-{index}");
    let zone = format!("zone-{}", index % 10);
    let room = json!({ "cpu": "64", "memory": "256Gi", "pods": "250", "ephemeral-storage": "1Ti" });
    let images = (0..20).map(|image| {
        let digest = format!("{image:064x}");
        json!({
            "names": [format!("registry.example.com/team/image-{image}@sha256:{digest}"), format!("registry.example.com/team/image-{image}:v1.2.3")],
            "sizeBytes": 123_456_789,
        })
    });
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": name, "labels": {
            "topology.kubernetes.io/zone": zone, "kubernetes.io/hostname": name,
            "topology.kubernetes.io/region": "region", "kubernetes.io/os": "linux",
            "kubernetes.io/arch": "amd64", "node.kubernetes.io/instance-type": "m6i.16xlarge",
        }},
        "status": {
            "allocatable": room, "capacity": room, "images": images.collect::<Vec<_>>(),
            "conditions": [{ "type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status" }],
        },
    })
}

/// A running pod as large as real ones. Decisions read little of it.
fn pod(index: usize, nodes: usize) -> Value {
    let workload = index % 1_000;
    let environment = (0..30).map(|number| {
        json!({ "name": format!("SETTING_{number}"), "value": format!("{:0100}", index * 31 + number) })
    });
    let probe = json!({ "httpGet": { "path": "/healthz", "port": 8080 }, "periodSeconds": 10, "timeoutSeconds": 1 });
    let app = format!("app-{workload}");
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "namespace": "default", "name": format!("pod-{index}"),
            "labels": { "app": app, "pod-template-hash": "5d8f7c9b4", VERSION: value(0), MARK: value(0) },
            "annotations": { "example.com/checksum": format!("{:064x}", index), "example.com/note": "n".repeat(300) },
            "ownerReferences": [{ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": format!("{app}-5d8f7c9b4"),
                "uid": "0f0e0d0c-0b0a-0908-0706-050403020100", "controller": true, "blockOwnerDeletion": true }],
        },
        "spec": {
            "nodeName": format!("node-{}", index % nodes),
            "containers": [{
                "name": "main", "image": format!("registry.example.com/team/{app}@sha256:{:064x}", workload),
                "env": environment.collect::<Vec<_>>(),
                "resources": { "requests": { "cpu": "100m", "memory": "128Mi" }, "limits": { "memory": "256Mi" } },
                "ports": [{ "containerPort": 8080 }],
                "livenessProbe": probe, "readinessProbe": probe,
                "volumeMounts": [{ "name": "configuration", "mountPath": "/etc/app" }],
            }],
            "volumes": [{ "name": "configuration", "configMap": { "name": app } }],
            "topologySpreadConstraints": [{
                "maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": { "matchLabels": { "app": app } },
            }],
        },
        "status": { "phase": "Running" },
    })
}
