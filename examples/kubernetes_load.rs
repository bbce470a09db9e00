//! Fills an API server, and changes what it holds at a steady rate while it
//! measures how far the server that watches it is behind. `bench/kubernetes` runs
//! it.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use clap::{Parser, Subcommand};
use evenkeel::proto::v1::spread_service_client::SpreadServiceClient;
use evenkeel::proto::v1::{FilterRequest, Pod, View};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use http::{Method, Request};
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};
use tokio::time::{MissedTickBehavior, interval, sleep};
use tonic::transport::Channel;

/// The label of the pod that is changed to see when the server knows.
const MARK: &str = "example.com/mark";

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
    /// Relabel pods, and print the rate reached, p50, p99 and the largest lag in ms
    Events {
        /// The server that watches
        #[arg(long)]
        server: String,
        /// Changes a second
        #[arg(long, default_value_t = 1_000)]
        rate: usize,
        /// For how long
        #[arg(long, default_value = "60s", value_parser = humantime::parse_duration)]
        duration: Duration,
    },
}

#[tokio::main]
async fn main() -> Result<()> {
    let args = Args::parse();
    let file = Kubeconfig::read_from(&args.kubeconfig)?;
    let config = kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
    let client = Client::try_from(config)?;
    match &args.command {
        Command::Fill => fill(&client, &args).await,
        Command::Events {
            server,
            rate,
            duration,
        } => {
            let channel = Channel::from_shared(server.clone())?.connect().await?;
            let marks = tokio::spawn(lags(
                client.clone(),
                SpreadServiceClient::new(channel),
                *duration,
            ));
            let reached = relabel(&client, &args, *rate, *duration).await?;
            let mut lags = marks.await??;
            lags.sort();
            let at =
                |share: f64| lags[((lags.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e3;
            println!("{reached:.0} {:.1} {:.1} {:.1}", at(0.5), at(0.99), at(1.0));
            Ok(())
        }
    }
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

/// Changes a label of pods in turns; how many a second it came to.
async fn relabel(client: &Client, args: &Args, rate: usize, duration: Duration) -> Result<f64> {
    let start = Instant::now();
    let mut clock = interval(Duration::from_secs(1) / rate as u32);
    clock.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let ticks = stream::unfold((clock, 0), |(mut clock, count)| async move {
        clock.tick().await;
        (start.elapsed() < duration).then_some((count, (clock, count + 1)))
    });
    let changes = ticks.map(|count: usize| async move {
        let index = count * 7919 % args.pods;
        let version = json!({ "metadata": { "labels": { "version": count.to_string() } } });
        let path = format!("/api/v1/namespaces/default/pods/pod-{index}");
        send(client, Method::PATCH, &path, &version).await
    });
    let made = changes
        .buffer_unordered(args.parallel)
        .try_fold(0usize, |count, _| async move { Ok(count + 1) });
    let made = made.await?;
    Ok(made as f64 / start.elapsed().as_secs_f64())
}

/// Changes one pod again and again; how long after the API server's answer the
/// server knows of each change.
async fn lags(
    client: Client,
    mut server: SpreadServiceClient<Channel>,
    duration: Duration,
) -> Result<Vec<Duration>> {
    let start = Instant::now();
    let mut lags = Vec::new();
    while start.elapsed() < duration {
        let mark = format!("{}", lags.len());
        let label = json!({ "metadata": { "labels": { MARK: mark } } });
        send(
            &client,
            Method::PATCH,
            "/api/v1/namespaces/default/pods/pod-0",
            &label,
        )
        .await?;
        let changed = Instant::now();
        while !known(&mut server, &mark).await? {
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

/// Whether the server counts a pod with this mark.
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

/// A running pod as large as they are in use: most of it is nothing to decisions.
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
            "labels": { "app": app, "pod-template-hash": "5d8f7c9b4", "version": "0" },
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
