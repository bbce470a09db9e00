//! A small API server: lists and gets objects as Kubernetes' does, page by page.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::{Value, json};

/// Objects in a page, whatever the request asks for, so that lists have several pages.
const PAGE: usize = 2;

/// The plurals of the kinds that the server knows.
const PLURALS: [(&str, &str); 13] = [
    ("Deployment", "deployments"),
    ("DaemonSet", "daemonsets"),
    ("Namespace", "namespaces"),
    ("Node", "nodes"),
    ("PersistentVolume", "persistentvolumes"),
    ("PersistentVolumeClaim", "persistentvolumeclaims"),
    ("Pod", "pods"),
    ("PodDisruptionBudget", "poddisruptionbudgets"),
    ("ReplicaSet", "replicasets"),
    ("ReplicationController", "replicationcontrollers"),
    ("Service", "services"),
    ("StatefulSet", "statefulsets"),
    ("StorageClass", "storageclasses"),
];

/// The refusals of the API server.
#[derive(Clone, Copy, Default)]
pub struct Refusals {
    /// The resource that may not be read at all.
    pub forbidden: &'static str,
    /// True if objects in namespaces may be read in the namespace `shop` alone.
    pub elsewhere: bool,
    /// The token that every request needs, unless it is empty.
    pub token: &'static str,
    /// The number of evictions that are refused at first, as by a budget.
    pub evictions: usize,
}

/// Starts an API server that holds `objects` and refuses to list `forbidden`, and returns its
/// address. It serves until the tests end.
pub fn start(objects: Vec<Value>, forbidden: &'static str) -> String {
    let refusals = Refusals {
        forbidden,
        ..Refusals::default()
    };
    start_with(objects, refusals)
}

/// Like `start`, with these refusals.
pub fn start_with(objects: Vec<Value>, refusals: Refusals) -> String {
    start_held(objects, refusals).0
}

/// Like `start_with`. Returns also the state of the server.
pub fn start_held(mut objects: Vec<Value>, refusals: Refusals) -> (String, Arc<Mutex<Held>>) {
    let namespaces = objects
        .iter()
        .map(|object| &object["metadata"]["namespace"]);
    let namespaces: BTreeSet<&str> = namespaces.filter_map(Value::as_str).collect();
    let namespaces = namespaces.into_iter().filter(|name| !name.is_empty());
    let namespace = |name| json!({"kind": "Namespace", "metadata": {"name": name}});
    let namespaces: Vec<Value> = namespaces.map(namespace).collect();
    objects.extend(namespaces);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("it is bound");
    let refused = refusals.evictions;
    let held = Arc::new(Mutex::new(Held {
        objects,
        refused,
        ..Held::default()
    }));
    let serving = Arc::clone(&held);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let held = Arc::clone(&serving);
            thread::spawn(move || serve(&stream, &held, refusals));
        }
    });
    (format!("http://{address}"), held)
}

/// A kubeconfig with the context `one`, whose namespace is `shop`, for the server at
/// this address, and the context `gone`.
pub fn kubeconfig(address: &str) -> String {
    let cluster = |name: &str, server: &str| json!({"name": name, "cluster": {"server": server}});
    let context = |name: &str| json!({"name": name, "context": {"cluster": name, "user": "me", "namespace": "shop"}});
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "one",
        "clusters": [cluster("one", address), cluster("gone", "http://127.0.0.1:1")],
        "contexts": [context("one"), context("gone")],
        "users": [{"name": "me", "user": {}}],
    });
    config.to_string()
}

/// The state of the API server.
#[derive(Default)]
pub struct Held {
    pub objects: Vec<Value>,
    /// The number of evictions that are still refused.
    refused: usize,
    /// The number of pods that were evicted.
    pub evicted: usize,
    /// True if successors of evicted pods get no node.
    pub is_paused: bool,
    /// The number of evictions after which the account may not evict.
    pub most_evictions: Option<usize>,
    /// The number of answers, from that of the first eviction on, that do not arrive.
    pub lost_answers: usize,
    /// The addresses that were asked for, each with the encodings that are accepted.
    pub asked: Vec<(String, String)>,
    /// Called with the successor of an evicted pod and all objects, which it may change.
    pub beside: Option<fn(&mut Value, &mut Vec<Value>)>,
}

impl Held {
    /// Starts each pod that has no node on the emptiest node.
    pub fn start_pods(&mut self) {
        while let Some(at) = self
            .objects
            .iter()
            .position(|it| it["kind"] == "Pod" && it["spec"]["nodeName"].is_null())
        {
            let mut pod = self.objects.remove(at);
            let of_kind =
                |kind: &'static str| self.objects.iter().filter(move |it| it["kind"] == kind);
            let pods_on = |node: &Value| {
                let pods = of_kind("Pod").filter(|it| it["spec"]["nodeName"] == *node);
                pods.count()
            };
            let nodes = of_kind("Node").map(|node| &node["metadata"]["name"]);
            let node = nodes.min_by_key(|node| pods_on(node)).expect("a node");
            pod["spec"]["nodeName"] = node.clone();
            self.objects.push(pod);
        }
    }

    /// Evicts a pod. Its owner makes another one, which is ready on the emptiest node: at once, or
    /// when `start_pods` is called.
    fn evict(&mut self, target: &str) -> (u16, Value) {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let parts: Vec<&str> = path.split('/').collect();
        let [.., namespace, "pods", name, "eviction"] = *parts else {
            return status(404, "no such address");
        };
        if self.most_evictions.is_some_and(|most| self.evicted >= most) {
            return status(403, "the account may not");
        }
        if self.refused > 0 {
            self.refused -= 1;
            return status(
                429,
                "Cannot evict pod as it would violate the pod's disruption budget.",
            );
        }
        let is_meant = |object: &Value| {
            object["kind"] == "Pod"
                && object["metadata"]["name"] == name
                && object["metadata"]["namespace"] == namespace
        };
        let Some(at) = self.objects.iter().position(is_meant) else {
            return status(404, "not found");
        };
        if query.contains("dryRun=All") {
            return (
                201,
                json!({"kind": "Status", "apiVersion": "v1", "status": "Success"}),
            );
        }
        let mut pod = self.objects.remove(at);
        self.evicted += 1;
        let successor = format!("{name}-next");
        pod["metadata"]["name"] = json!(successor);
        pod["metadata"]["uid"] = json!(successor);
        pod["spec"]["nodeName"] = Value::Null;
        if let Some(beside) = self.beside {
            beside(&mut pod, &mut self.objects);
        }
        self.objects.push(pod);
        if !self.is_paused {
            self.start_pods();
        }
        (
            201,
            json!({"kind": "Status", "apiVersion": "v1", "status": "Success"}),
        )
    }
}

/// Skips the body of a request. Returns whether it is complete.
fn skip_body(reader: &mut impl BufRead, head: &[String]) -> bool {
    let value = |name: &str| {
        let mut fields = head.iter().filter_map(|line| line.split_once(':'));
        fields.find_map(|(it, value)| {
            it.eq_ignore_ascii_case(name)
                .then(|| value.trim().to_owned())
        })
    };
    if let Some(length) = value("content-length").and_then(|value| value.parse().ok()) {
        let length: usize = length;
        return reader.read_exact(&mut vec![0; length]).is_ok();
    }
    if value("transfer-encoding").is_none() {
        return true;
    }
    loop {
        let mut size = String::new();
        if reader.read_line(&mut size).is_err() {
            return false;
        }
        let Ok(size) = usize::from_str_radix(size.trim(), 16) else {
            return false;
        };
        // The end of a line follows each chunk.
        if reader.read_exact(&mut vec![0; size + 2]).is_err() || size == 0 {
            return size == 0;
        }
    }
}

fn serve(stream: &TcpStream, held: &Mutex<Held>, refusals: Refusals) {
    let mut reader = BufReader::new(stream);
    loop {
        let mut lines = reader.by_ref().lines().map_while(Result::ok);
        let Some(first) = lines.next() else { return };
        let mut first = first.split(' ');
        let is_change = first.next() == Some("POST");
        let target = first.next().unwrap_or_default().to_owned();
        let head: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
        if !skip_body(&mut reader, &head) {
            return;
        }
        let mut held = held.lock().expect("no holder panics");
        let token = format!("authorization: bearer {}", refusals.token);
        let is_known = head.iter().any(|line| line.to_lowercase() == token);
        let (code, answer) = match refusals.token.is_empty() || is_known {
            true if is_change => held.evict(&target),
            true => answer(&target, &held.objects, refusals),
            false => status(401, "Unauthorized"),
        };
        let accept = head.iter().find_map(|line| line.strip_prefix("accept: "));
        let accept = accept.unwrap_or_default().to_owned();
        held.asked.push((target, accept));
        if held.evicted > 0 && held.lost_answers > 0 {
            held.lost_answers -= 1;
            return;
        }
        drop(held);
        let body = answer.to_string();
        let head = format!(
            "HTTP/1.1 {code} x\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        let mut to = stream;
        if to.write_all((head + &body).as_bytes()).is_err() {
            return;
        }
    }
}

fn status(code: u16, message: &str) -> (u16, Value) {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
        "message": message, "reason": "x",
    });
    (code, status)
}

fn answer(target: &str, objects: &[Value], refusals: Refusals) -> (u16, Value) {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    // api/v1/... or apis/GROUP/VERSION/...
    let version = if parts[0] == "api" { 2 } else { 3 };
    if parts.len() <= version {
        return status(404, "no such address");
    }
    let (namespace, rest) = match parts[version..] {
        ["namespaces", namespace, ref rest @ ..] => (Some(namespace), rest.to_vec()),
        ref rest => (None, rest.to_vec()),
    };
    let plural = rest.first().copied().unwrap_or_default();
    let is_elsewhere = plural != "nodes" && namespace != Some("shop");
    if plural == refusals.forbidden || refusals.elsewhere && is_elsewhere {
        return status(403, "the account may not");
    }
    let kind = PLURALS.iter().find(|(_, known)| *known == plural);
    let Some((kind, _)) = kind else {
        return status(404, "no such resource");
    };
    let named = rest.get(1).copied();
    let matching = objects.iter().filter(|object| {
        object["kind"] == *kind
            && namespace.is_none_or(|it| object["metadata"]["namespace"] == it)
            && named.is_none_or(|it| object["metadata"]["name"] == it)
    });
    let matching: Vec<&Value> = matching.collect();
    if named.is_some() {
        return match matching.first() {
            Some(object) => (200, (*object).clone()),
            None => status(404, "not found"),
        };
    }
    let start = query
        .split('&')
        .find_map(|part| part.strip_prefix("continue="));
    let start: usize = start.map_or(0, |token| token.parse().expect("a token of this server"));
    let end = (start + PAGE).min(matching.len());
    // As in Kubernetes, only the list states the kind of its items.
    let item = |object: &&Value| {
        let mut object = (*object).clone();
        let fields = object.as_object_mut().expect("objects are maps");
        fields.remove("kind");
        fields.remove("apiVersion");
        object
    };
    let items: Vec<Value> = matching[start..end].iter().map(item).collect();
    let next = if end < matching.len() {
        end.to_string()
    } else {
        String::new()
    };
    let version = parts[1..version].join("/");
    let list = json!({
        "kind": format!("{kind}List"), "apiVersion": version, "items": items,
        "metadata": {"continue": next, "resourceVersion": "7"},
    });
    (200, list)
}
