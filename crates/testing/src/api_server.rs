//! A fake Kubernetes API server with all that the program asks of one: lists in pages, objects by
//! name, watches with bookmarks, versions that expire, evictions, server-side apply, refusals and cut
//! connections.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use evenkeel::proto::v1::Pod;
use serde_json::{Value, json};
use tempfile::TempDir;

/// A connection of a client.
pub trait Connection: Read + Write {}

impl<C: Read + Write> Connection for C {}

/// A function that makes a connection of a stream.
pub type Handshake = Arc<dyn Fn(TcpStream) -> Box<dyn Connection> + Send + Sync>;

/// The faults to inflict.
#[derive(Debug, Default)]
pub struct Faults {
    /// Resources that may not be listed or watched.
    pub forbidden: BTreeSet<&'static str>,
    /// Resources that may be listed and not watched.
    pub unwatched: BTreeSet<&'static str>,
    /// Resources whose requests wait.
    pub held: BTreeSet<&'static str>,
    /// The number of further continued lists that expire.
    pub expired_pages: u32,
    /// The number of further continued lists that break off in the middle of an answer.
    pub cut_pages: u32,
    /// True if watches that are too old are refused by status, not by an event.
    pub gone_by_status: bool,
    /// True if watches send nothing, and are not ended.
    pub is_silent: bool,
    /// True if no request for a resource is answered.
    pub is_away: bool,
    /// The token that a request must have, if any.
    pub token: Option<&'static str>,
    /// The only namespace in which the account may read objects of namespaces, if there is one.
    pub only_namespace: Option<&'static str>,
    /// The most objects in a page, whatever the request asks for.
    pub page: Option<usize>,
    /// True if the server does not say its version.
    pub hides_version: bool,
    /// The number of further evictions that are refused, as by a budget.
    pub refused_evictions: usize,
    /// The number of evictions after which the account may not evict.
    pub most_evictions: Option<usize>,
    /// The number of answers, from that of the first eviction on, that do not arrive.
    pub lost_answers: usize,
    /// True if successors of evicted pods get no node.
    pub is_paused: bool,
    /// Called with the successor of an evicted pod, which it may change. Returns another pod.
    pub beside: Option<fn(&mut Value) -> Value>,
}

#[derive(Debug, Default)]
struct State {
    faults: Faults,
    version: u64,
    /// The oldest version from which a watch can continue.
    oldest: u64,
    objects: BTreeMap<(&'static str, String), Value>,
    events: Vec<(u64, &'static str, Value)>,
    /// Raised to end all connections.
    generation: u64,
    /// The number of bookmarks that were sent to each watch so far.
    bookmarks: u64,
    /// The number of times that each resource was listed from the start.
    lists: BTreeMap<String, u32>,
    /// The number of watches that were granted of each resource.
    watches: BTreeMap<String, u32>,
    /// The number of pods that were evicted.
    evicted: usize,
    /// The addresses that were asked for.
    asked: Vec<String>,
    /// The pods that lists have in place of stored ones, if there are any.
    crowd: Option<Crowd>,
    /// The bytes of the bodies that were sent of the crowd.
    crowd_bytes: u64,
}

/// Pods that are made when they are listed, so that they take no memory.
#[derive(Debug, Clone, Copy)]
pub struct Crowd {
    pub count: usize,
    /// Makes the pod of a number.
    pub pod: fn(usize) -> Pod,
    /// The bytes of each pod that clients do not know.
    pub unknown_bytes: usize,
}

impl Crowd {
    /// A page of the pods that a request selects, as JSON.
    fn page(&self, target: &Target<'_>) -> String {
        let number = |field: &str| target.query.get(field).map(|it| it.parse().expect("ours"));
        let (from, limit) = (
            number("continue").unwrap_or(0),
            number("limit").unwrap_or(self.count),
        );
        let labels = target.query.get("labelSelector").map(|it| plain(it));
        let is_selected = |pod: &Pod| {
            let metadata = pod.metadata.as_ref().expect("pods have metadata");
            let pairs = labels.iter().flat_map(|it| it.split(','));
            let mut pairs = pairs.map(|it| it.split_once('=').expect("only key=value is known"));
            target.namespace.is_none_or(|it| it == metadata.namespace)
                && pairs.all(|(key, value)| metadata.labels.get(key).is_some_and(|it| it == value))
        };
        let numbered = (from..self.count).map(|number| (number, (self.pod)(number)));
        let mut selected = numbered.filter(|(_, pod)| is_selected(pod));
        let unknown = "x".repeat(self.unknown_bytes);
        let items = selected.by_ref().take(limit).map(|(_, pod)| {
            let mut item = serde_json::to_value(pod).expect("pods are JSON");
            item["unknown"] = json!(unknown);
            item
        });
        let items: Vec<_> = items.collect();
        let next = selected.next().map(|(next, _)| next.to_string());
        let metadata = json!({ "resourceVersion": "1", "continue": next });
        let list = json!({
            "kind": "PodList", "apiVersion": "v1", "metadata": metadata, "items": items,
        });
        list.to_string()
    }
}

/// A value of a query without its escapes.
fn plain(escaped: &str) -> String {
    let mut parts = escaped.split('%');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (code, rest) = part.split_at(2);
        let code = u8::from_str_radix(code, 16).expect("two digits");
        text.push(char::from(code));
        text.push_str(rest);
    }
    text
}

/// The objects that were stored at a version.
pub struct Backup(u64, BTreeMap<(&'static str, String), Value>);

type Shared = Arc<(Mutex<State>, Condvar)>;

/// A server on a free port of this machine, with a kubeconfig.
pub struct ApiServer {
    shared: Shared,
    directory: TempDir,
    /// The address at which it listens, e.g. `127.0.0.1:40123`.
    pub address: String,
}

/// The kinds and their plurals.
const RESOURCES: [(&str, &str); 16] = [
    ("CloneSet", "clonesets"),
    ("ConfigMap", "configmaps"),
    ("DaemonSet", "daemonsets"),
    ("Deployment", "deployments"),
    ("Namespace", "namespaces"),
    ("Node", "nodes"),
    ("PersistentVolume", "persistentvolumes"),
    ("PersistentVolumeClaim", "persistentvolumeclaims"),
    ("Pod", "pods"),
    ("PodDisruptionBudget", "poddisruptionbudgets"),
    ("ReplicaSet", "replicasets"),
    ("ReplicationController", "replicationcontrollers"),
    ("Rollout", "rollouts"),
    ("Service", "services"),
    ("StatefulSet", "statefulsets"),
    ("StorageClass", "storageclasses"),
];

/// The parts of an address.
struct Target<'a> {
    /// Group and version.
    version: String,
    kind: &'static str,
    resource: &'static str,
    namespace: Option<&'a str>,
    name: Option<&'a str>,
    is_eviction: bool,
    query: BTreeMap<&'a str, &'a str>,
}

impl<'a> Target<'a> {
    /// The parts of an address that the server knows.
    fn parse(target: &'a str) -> Option<Self> {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        // api/v1/... or apis/GROUP/VERSION/...
        let at = if parts[0] == "api" { 2 } else { 3 };
        let rest = parts.get(at..)?;
        let (namespace, rest) = match rest {
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (Some(*namespace), rest),
            rest => (None, rest),
        };
        let plural = rest.first()?;
        let (kind, resource) = RESOURCES.into_iter().find(|(_, known)| known == plural)?;
        let pairs = query.split('&').filter_map(|it| it.split_once('='));
        Some(Self {
            version: parts[1..at].join("/"),
            kind,
            resource,
            namespace,
            name: rest.get(1).copied(),
            is_eviction: rest.get(2) == Some(&"eviction"),
            query: pairs.collect(),
        })
    }

    fn is_watch(&self) -> bool {
        self.query.get("watch") == Some(&"true")
    }

    /// The key of the object that the address names.
    fn key(&self) -> Option<(&'static str, String)> {
        let name = self.name?;
        let name = match self.namespace {
            Some(namespace) => format!("{namespace}/{name}"),
            None => name.to_owned(),
        };
        Some((self.resource, name))
    }
}

fn lock(shared: &Shared) -> MutexGuard<'_, State> {
    shared.0.lock().expect("no holder panics")
}

impl ApiServer {
    /// Starts an empty server.
    pub fn start() -> Self {
        Self::start_behind(Arc::new(|stream| Box::new(stream)))
    }

    /// Starts an empty server behind this handshake.
    pub fn start_behind(handshake: Handshake) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let shared = Shared::default();
        lock(&shared).version = 100;
        let accepting = Arc::clone(&shared);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let shared = Arc::clone(&accepting);
                let handshake = Arc::clone(&handshake);
                thread::spawn(move || serve(&mut *handshake(stream), &shared));
            }
        });
        let server = Self {
            shared,
            directory: tempfile::tempdir().expect("a temporary directory"),
            address: address.to_string(),
        };
        let contexts =
            ["one", "two"].map(|name| json!({"name": name, "context": {"cluster": "c"}}));
        let config = server.config_of(&json!(contexts));
        std::fs::write(server.kubeconfig(), config).expect("it can be written");
        server
    }

    /// Starts a server with these objects and their namespaces. Its lists have pages of two objects.
    pub fn holding(objects: Vec<Value>) -> Self {
        let server = Self::start();
        server.fault(|faults| (faults.page, faults.hides_version) = (Some(2), true));
        let namespaces = objects
            .iter()
            .filter_map(|it| it["metadata"]["namespace"].as_str());
        let namespaces = namespaces.filter(|name| !name.is_empty());
        for name in namespaces.collect::<BTreeSet<_>>() {
            server.put("namespaces", json!({"metadata": {"name": name}}));
        }
        for object in objects {
            // Kinds that the program never asks for are left out.
            let known = RESOURCES
                .into_iter()
                .find(|(kind, _)| object["kind"] == *kind);
            if let Some((_, resource)) = known {
                server.put(resource, object);
            }
        }
        server
    }

    /// The address as a kubeconfig has it.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// A kubeconfig with the context `one`, which has this namespace, and `gone`, whose server is not
    /// there.
    pub fn config(&self, namespace: &str) -> String {
        let context = |name: &str, cluster: &str| json!({"name": name, "context": {"cluster": cluster, "user": "me", "namespace": namespace}});
        self.config_of(&json!([context("one", "c"), context("gone", "gone")]))
    }

    fn config_of(&self, contexts: &Value) -> String {
        let cluster =
            |name: &str, server: &str| json!({"name": name, "cluster": {"server": server}});
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "one", "contexts": contexts,
            "clusters": [cluster("c", &self.url()), cluster("gone", "http://127.0.0.1:1")],
            "users": [{"name": "me", "user": {}}],
        });
        config.to_string()
    }

    /// The path of its kubeconfig, which has the contexts `one` and `two`.
    pub fn kubeconfig(&self) -> PathBuf {
        self.directory.path().join("config")
    }

    /// Changes the faults.
    pub fn fault(&self, change: impl FnOnce(&mut Faults)) {
        change(&mut lock(&self.shared).faults);
        self.shared.1.notify_all();
    }

    /// Creates or changes an object.
    pub fn put(&self, resource: &'static str, object: Value) {
        store(&mut lock(&self.shared), resource, object);
        self.shared.1.notify_all();
    }

    /// Has lists of pods show these pods.
    pub fn crowd(&self, crowd: Crowd) {
        lock(&self.shared).crowd = Some(crowd);
    }

    /// Returns the bytes that were sent of the crowd.
    pub fn crowd_bytes(&self) -> u64 {
        lock(&self.shared).crowd_bytes
    }

    /// Returns the number of pods that were evicted.
    pub fn evicted(&self) -> usize {
        lock(&self.shared).evicted
    }

    /// Starts each pod that has no node on the emptiest node.
    pub fn start_pods(&self) {
        start_pods(&mut lock(&self.shared));
    }

    /// Takes the addresses that were asked for since the last time.
    pub fn take_asked(&self) -> Vec<String> {
        std::mem::take(&mut lock(&self.shared).asked)
    }

    /// The objects of a resource, by name.
    pub fn objects(&self, resource: &'static str) -> Vec<Value> {
        let state = lock(&self.shared);
        let all = state.objects.iter().filter(|((of, _), _)| *of == resource);
        all.map(|(_, object)| object.clone()).collect()
    }

    /// Deletes an object.
    pub fn delete(&self, resource: &'static str, name: &str) {
        remove(&mut lock(&self.shared), (resource, name.to_owned()));
        self.shared.1.notify_all();
    }

    /// Forgets all events, and cuts the watches: they are too old to continue.
    pub fn expire(&self) {
        let mut state = lock(&self.shared);
        state.version += 1;
        state.oldest = state.version;
        state.events.clear();
        state.generation += 1;
        self.shared.1.notify_all();
    }

    /// Returns a copy of the stored objects.
    pub fn backup(&self) -> Backup {
        let state = lock(&self.shared);
        Backup(state.version, state.objects.clone())
    }

    /// Replaces the stored objects by a copy, and cuts the watches.
    pub fn restore(&self, backup: Backup) {
        let mut state = lock(&self.shared);
        (state.version, state.objects) = (backup.0, backup.1);
        state.events.clear();
        state.generation += 1;
        self.shared.1.notify_all();
    }

    /// Cuts all connections.
    pub fn cut(&self) {
        lock(&self.shared).generation += 1;
        self.shared.1.notify_all();
    }

    /// Sends a bookmark to each watch.
    pub fn bookmark(&self) {
        lock(&self.shared).bookmarks += 1;
        self.shared.1.notify_all();
    }

    /// Returns how often a resource was listed from its start.
    pub fn lists(&self, resource: &str) -> u32 {
        lock(&self.shared).lists.get(resource).copied().unwrap_or(0)
    }

    /// Returns how many watches of a resource were granted.
    pub fn watches(&self, resource: &str) -> u32 {
        lock(&self.shared)
            .watches
            .get(resource)
            .copied()
            .unwrap_or(0)
    }
}

fn store(state: &mut State, resource: &'static str, mut object: Value) {
    state.version += 1;
    object["metadata"]["resourceVersion"] = json!(state.version.to_string());
    let key = (resource, name_of(&object));
    let known = state.objects.insert(key, object.clone()).is_some();
    let kind = if known { "MODIFIED" } else { "ADDED" };
    let event = json!({"type": kind, "object": object});
    state.events.push((state.version, resource, event));
}

fn remove(state: &mut State, key: (&'static str, String)) {
    state.version += 1;
    let object = state.objects.remove(&key);
    let mut object = object.expect("it is there");
    object["metadata"]["resourceVersion"] = json!(state.version.to_string());
    let event = json!({"type": "DELETED", "object": object});
    state.events.push((state.version, key.0, event));
}

fn name_of(object: &Value) -> String {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
    match text("namespace") {
        "" => text("name").to_owned(),
        namespace => format!("{namespace}/{}", text("name")),
    }
}

/// Starts each pod that has no node on the emptiest node.
fn start_pods(state: &mut State) {
    let of = |state: &State, resource: &str| -> Vec<Value> {
        let all = state.objects.iter().filter(|((of, _), _)| *of == resource);
        all.map(|(_, object)| object.clone()).collect()
    };
    for mut pod in of(state, "pods") {
        if !pod["spec"]["nodeName"].is_null() {
            continue;
        }
        let pods = of(state, "pods");
        let pods_on = |node: &Value| {
            pods.iter()
                .filter(|it| it["spec"]["nodeName"] == *node)
                .count()
        };
        let nodes = of(state, "nodes");
        let nodes = nodes.iter().map(|node| &node["metadata"]["name"]);
        let node = nodes.min_by_key(|node| pods_on(node)).expect("a node");
        pod["spec"]["nodeName"] = node.clone();
        store(state, "pods", pod);
    }
}

/// Evicts a pod. Its owner makes another one, which is ready on the emptiest node: at once, or when
/// pods are started.
fn evict(state: &mut State, target: &Target<'_>) -> (u16, Value) {
    if state
        .faults
        .most_evictions
        .is_some_and(|most| state.evicted >= most)
    {
        return status(403, "the account may not");
    }
    if state.faults.refused_evictions > 0 {
        state.faults.refused_evictions -= 1;
        let refusal = "Cannot evict pod as it would violate the pod's disruption budget.";
        return status(429, refusal);
    }
    let key = target.key().expect("an eviction names its pod");
    let Some(mut pod) = state.objects.get(&key).cloned() else {
        return status(404, "not found");
    };
    let done = json!({"kind": "Status", "apiVersion": "v1", "status": "Success"});
    if target.query.get("dryRun") == Some(&"All") {
        return (201, done);
    }
    remove(state, key);
    state.evicted += 1;
    let successor = format!("{}-next", target.name.unwrap_or_default());
    pod["metadata"]["name"] = json!(successor);
    pod["metadata"]["uid"] = json!(successor);
    pod["spec"]["nodeName"] = Value::Null;
    if let Some(beside) = state.faults.beside {
        let other = beside(&mut pod);
        store(state, "pods", other);
    }
    store(state, "pods", pod);
    if !state.faults.is_paused {
        start_pods(state);
    }
    (201, done)
}

/// A request: the first line and the header fields, and the body.
struct Asked {
    head: Vec<String>,
    body: Vec<u8>,
}

impl Asked {
    /// The next request of a connection, if it arrives whole.
    fn read(stream: &mut dyn Connection) -> Option<Self> {
        let mut reader = BufReader::new(stream);
        let lines = reader.by_ref().lines().map_while(Result::ok);
        let head: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
        let mut asked = Self {
            head,
            body: Vec::new(),
        };
        if let Some(length) = asked.field("content-length") {
            asked.body = vec![0; length.parse().ok()?];
            reader.read_exact(&mut asked.body).ok()?;
        } else if asked.field("transfer-encoding").is_some() {
            loop {
                let mut size = String::new();
                reader.read_line(&mut size).ok()?;
                let size = usize::from_str_radix(size.trim(), 16).ok()?;
                // The end of a line follows each chunk.
                let mut chunk = vec![0; size + 2];
                reader.read_exact(&mut chunk).ok()?;
                if size == 0 {
                    break;
                }
                asked.body.extend_from_slice(&chunk[..size]);
            }
        }
        Some(asked)
    }

    fn field(&self, name: &str) -> Option<&str> {
        let fields = self.head.iter().filter_map(|line| line.split_once(": "));
        let mut named = fields.filter(|(field, _)| field.eq_ignore_ascii_case(name));
        named.next().map(|(_, value)| value)
    }

    /// A word of the first line.
    fn word(&self, index: usize) -> &str {
        let first = self.head.first().map_or("", String::as_str);
        first.split(' ').nth(index).unwrap_or_default()
    }
}

/// The reason why a request for a resource is refused, if it is.
fn refusal(faults: &Faults, asked: &Asked, target: &Target<'_>) -> Option<(u16, Value)> {
    let token = faults.token.map(|token| format!("bearer {token}"));
    let sent = asked
        .field("authorization")
        .unwrap_or_default()
        .to_lowercase();
    if token.is_some_and(|token| sent != token) {
        return Some(status(401, "Unauthorized"));
    }
    let is_unwatched = target.is_watch() && faults.unwatched.contains(target.resource);
    let is_elsewhere = target.resource != "nodes" && target.namespace != faults.only_namespace;
    if is_unwatched
        || faults.forbidden.contains(target.resource)
        || faults.only_namespace.is_some() && is_elsewhere
    {
        let verb = if target.is_watch() { "watch" } else { "list" };
        let resource = target.resource;
        let refusal = format!("{resource} is forbidden: User \"u\" cannot {verb} them");
        return Some(status(403, &refusal));
    }
    None
}

/// Answers one request, and closes the connection.
fn serve(stream: &mut dyn Connection, shared: &Shared) {
    let Some(asked) = Asked::read(stream) else {
        return;
    };
    let address = asked.word(1).to_owned();
    lock(shared).asked.push(address.clone());
    if address == "/version" && !lock(shared).faults.hides_version {
        let version = json!({"major": "1", "minor": "36", "gitVersion": "v1.36.3-fake.1"});
        return say(stream, 200, &version.to_string(), false);
    }
    let Some(target) = Target::parse(&address) else {
        let (code, body) = status(404, "no such resource");
        return say(stream, code, &body.to_string(), false);
    };
    let mut state = lock(shared);
    while state.faults.held.contains(target.resource) {
        state = shared.1.wait(state).expect("no holder panics");
    }
    if state.faults.is_away {
        return;
    }
    let crowd = state.crowd.filter(|_| target.resource == "pods");
    if let Some(crowd) = crowd.filter(|_| target.name.is_none() && !target.is_watch()) {
        drop(state);
        let page = crowd.page(&target);
        lock(shared).crowd_bytes += page.len() as u64;
        return say(stream, 200, &page, false);
    }
    let (code, body) = match (refusal(&state.faults, &asked, &target), target.key()) {
        (Some(refusal), _) => refusal,
        (None, _) if target.is_watch() => return watch(stream, shared, state, &target),
        (None, None) => list(&mut state, &target),
        (None, Some(_)) if target.is_eviction => evict(&mut state, &target),
        (None, Some(key)) => match state.objects.get(&key) {
            Some(object) => (200, object.clone()),
            None => status(404, "not found"),
        },
    };
    let is_page = code == 200 && target.query.contains_key("continue");
    let cut = is_page && state.faults.cut_pages > 0;
    if cut {
        state.faults.cut_pages -= 1;
    }
    let is_lost = state.evicted > 0 && state.faults.lost_answers > 0;
    if is_lost {
        state.faults.lost_answers -= 1;
    }
    drop(state);
    shared.1.notify_all();
    if !is_lost {
        say(stream, code, &body.to_string(), cut);
    }
}

/// Answers with a body, or with half of it.
fn say(stream: &mut dyn Connection, code: u16, body: &str, cut: bool) {
    let length = body.len();
    let part = if cut { &body[..length / 2] } else { body };
    let head = format!(
        "HTTP/1.1 {code} Said\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\
         connection: close\r\n\r\n"
    );
    let sent = stream.write_all(head.as_bytes());
    let _ = sent.and_then(|()| stream.write_all(part.as_bytes()));
}

fn status(code: u16, message: &str) -> (u16, Value) {
    let reason = match code {
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "NotFound",
        409 => "Conflict",
        429 => "TooManyRequests",
        _ => "Expired",
    };
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message,
        "reason": reason, "code": code, "metadata": {},
    });
    (code, body)
}

fn list(state: &mut State, target: &Target<'_>) -> (u16, Value) {
    let (resource, query) = (target.resource, &target.query);
    let from: usize = query
        .get("continue")
        .map_or(0, |token| token.parse().expect("ours"));
    if from > 0 && state.faults.expired_pages > 0 {
        state.faults.expired_pages -= 1;
        return status(410, "the list is too old to continue");
    }
    if from == 0 && query.get("limit") != Some(&"1") {
        *state.lists.entry(resource.to_owned()).or_default() += 1;
    }
    let limit = query
        .get("limit")
        .map_or(usize::MAX, |it| it.parse().expect("a number"));
    let limit = limit.min(state.faults.page.unwrap_or(limit));
    let all = state.objects.iter().filter(|((of, _), object)| {
        let namespace = &object["metadata"]["namespace"];
        *of == resource && target.namespace.is_none_or(|it| namespace == it)
    });
    // As in Kubernetes, only the list states the kind of its items.
    let item = |object: &Value| {
        let mut object = object.clone();
        let fields = object.as_object_mut().expect("objects are maps");
        fields.remove("kind");
        fields.remove("apiVersion");
        object
    };
    let mut items: Vec<Value> = all.map(|(_, object)| item(object)).skip(from).collect();
    let more = items.len() > limit;
    items.truncate(limit);
    let mut metadata = json!({"resourceVersion": state.version.to_string()});
    if more {
        metadata["continue"] = json!((from + limit).to_string());
    }
    let kind = format!("{}List", target.kind);
    let version = &target.version;
    let list = json!({"kind": kind, "apiVersion": version, "metadata": metadata, "items": items});
    (200, list)
}

/// Sends events until the connection is cut.
fn watch<'a>(
    stream: &mut dyn Connection,
    shared: &'a Shared,
    mut state: MutexGuard<'a, State>,
    target: &Target<'_>,
) {
    let resource = target.resource;
    let from = target
        .query
        .get("resourceVersion")
        .and_then(|it| it.parse().ok());
    let mut version: u64 = from.unwrap_or_default();
    let (is_gone, generation) = (version < state.oldest, state.generation);
    let mut bookmarks = state.bookmarks;
    let (_, gone) = status(410, "too old resource version");
    if is_gone && state.faults.gone_by_status {
        drop(state);
        let gone = gone.to_string();
        let length = gone.len();
        let head =
            format!("HTTP/1.1 410 Gone\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n");
        let _ = stream.write_all((head + &gone).as_bytes());
        return;
    }
    *state.watches.entry(resource.to_owned()).or_default() += 1;
    let head =
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n";
    if stream.write_all(head.as_bytes()).is_err() {
        return;
    }
    let mut send = |event: &Value| {
        let line = format!("{event}\n");
        stream.write_all(format!("{:x}\r\n{line}\r\n", line.len()).as_bytes())
    };
    if is_gone {
        let _ = send(&json!({"type": "ERROR", "object": gone}));
        return;
    }
    loop {
        while state.faults.is_silent && state.generation == generation {
            state = shared.1.wait(state).expect("no holder panics");
        }
        let mut events: Vec<Value> = Vec::new();
        for (at, of, event) in &state.events {
            if *at > version && *of == resource {
                events.push(event.clone());
            }
        }
        version = state.version.max(version);
        if bookmarks < state.bookmarks {
            bookmarks = state.bookmarks;
            let metadata = json!({"resourceVersion": version.to_string()});
            let object = json!({"kind": "K", "apiVersion": "v1", "metadata": metadata});
            events.push(json!({"type": "BOOKMARK", "object": object}));
        }
        let ended = state.generation != generation || state.faults.is_away;
        drop(state);
        if ended || events.iter().any(|event| send(event).is_err()) {
            return;
        }
        state = lock(shared);
        if state.version <= version
            && state.generation == generation
            && bookmarks == state.bookmarks
        {
            // The wait is short, to see whether the server is away by now.
            let waited = shared.1.wait_timeout(state, Duration::from_millis(200));
            state = waited.expect("no holder panics").0;
        }
    }
}
