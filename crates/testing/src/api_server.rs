//! A fake Kubernetes API server with all that a watch needs: lists in pages, watches with
//! bookmarks, versions that expire, refusals and cut connections.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

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
    /// The number of objects that were changed by server-side apply.
    applied: u32,
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

// Namespaces are last, because they are in the paths of other resources.
const RESOURCES: [&str; 12] = [
    "nodes",
    "pods",
    "services",
    "replicationcontrollers",
    "replicasets",
    "statefulsets",
    "configmaps",
    "poddisruptionbudgets",
    "persistentvolumeclaims",
    "persistentvolumes",
    "storageclasses",
    "namespaces",
];

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
        let url = format!("http://{}", server.address);
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "one", "contexts": contexts,
            "clusters": [{"name": "c", "cluster": {"server": url}}],
        });
        std::fs::write(server.kubeconfig(), config.to_string()).expect("it can be written");
        server
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

    /// Returns the number of objects that were changed by server-side apply.
    pub fn applied(&self) -> u32 {
        lock(&self.shared).applied
    }

    /// The objects of a resource, by name.
    pub fn objects(&self, resource: &'static str) -> Vec<Value> {
        let state = lock(&self.shared);
        let all = state.objects.iter().filter(|((of, _), _)| *of == resource);
        all.map(|(_, object)| object.clone()).collect()
    }

    /// Deletes an object.
    pub fn delete(&self, resource: &'static str, name: &str) {
        let mut state = lock(&self.shared);
        state.version += 1;
        let object = state.objects.remove(&(resource, name.to_owned()));
        let mut object = object.expect("it is there");
        object["metadata"]["resourceVersion"] = json!(state.version.to_string());
        let event = json!({"type": "DELETED", "object": object});
        let event = (state.version, resource, event);
        state.events.push(event);
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

/// Applies annotations as server-side apply does without force.
fn apply(
    state: &mut State,
    key: (&'static str, String),
    patch: &Value,
    query: &BTreeMap<&str, &str>,
) -> (u16, Value) {
    let Some(object) = state.objects.get(&key) else {
        return status(409, "uid mismatch: no existing object was found");
    };
    if object["metadata"]["uid"] != patch["metadata"]["uid"] {
        return status(409, "uid mismatch");
    }
    let (mut object, manager) = (object.clone(), query["fieldManager"]);
    let none = serde_json::Map::new();
    for (name, value) in patch["metadata"]["annotations"]
        .as_object()
        .unwrap_or(&none)
    {
        let field = format!("f:{name}");
        let fields = |it: &Value| !it["fieldsV1"]["f:metadata"]["f:annotations"][&field].is_null();
        let metadata = &mut object["metadata"];
        let managers = metadata["managedFields"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let is_other = |it: &Value| it["manager"] != manager && fields(it);
        if managers.iter().any(is_other) && metadata["annotations"][name] != *value {
            return status(409, "Apply failed with 1 conflict");
        }
        metadata["annotations"][name] = value.clone();
        let mut others = managers;
        others.retain(|it| it["manager"] != manager);
        others.push(managed(manager, name));
        metadata["managedFields"] = json!(others);
    }
    if !query.contains_key("dryRun") {
        state.applied += 1;
        store(state, key.0, object.clone());
    }
    (200, object)
}

/// The entry of a manager that wrote one annotation.
pub fn managed(manager: &str, annotation: &str) -> Value {
    let field = format!("f:{annotation}");
    json!({"manager": manager, "operation": "Apply",
        "fieldsV1": {"f:metadata": {"f:annotations": {field: {}}}}})
}

fn name_of(object: &Value) -> String {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
    match text("namespace") {
        "" => text("name").to_owned(),
        namespace => format!("{namespace}/{}", text("name")),
    }
}

/// Answers one request, and closes the connection.
fn serve(stream: &mut dyn Connection, shared: &Shared) {
    let (mut head, mut length) = (String::new(), 0);
    let mut reader = BufReader::new(&mut *stream);
    let lines = reader.by_ref().lines().map_while(Result::ok);
    for line in lines.take_while(|line| !line.is_empty()) {
        if let Some(("content-length", value)) = line.to_lowercase().split_once(": ") {
            length = value.parse().expect("a number");
        }
        head.push_str(&line);
        head.push('\n');
    }
    let mut body = vec![0; length];
    if reader.read_exact(&mut body).is_err() {
        return;
    }
    let target = head.split(' ').nth(1).unwrap_or_default().to_owned();
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let query: BTreeMap<&str, &str> = query
        .split('&')
        .filter_map(|it| it.split_once('='))
        .collect();
    let is_watch = query.get("watch").is_some_and(|it| *it == "true");
    let verb = if is_watch { "watch" } else { "list" };
    let resource = RESOURCES
        .iter()
        .copied()
        .find(|it| path.split('/').any(|part| part == *it));
    if path == "/version" {
        let version = json!({"major": "1", "minor": "36", "gitVersion": "v1.36.3-fake.1"});
        return say(stream, 200, &version.to_string(), false);
    }
    let Some(resource) = resource else { return };
    let mut state = lock(shared);
    while state.faults.held.contains(resource) {
        state = shared.1.wait(state).expect("no holder panics");
    }
    if state.faults.is_away {
        return;
    }
    let token = state
        .faults
        .token
        .map(|token| format!(": bearer {token}\n"));
    let is_unknown = token.is_some_and(|token| !head.to_lowercase().contains(&token));
    let is_unwatched = is_watch && state.faults.unwatched.contains(resource);
    let answer = if is_unknown {
        status(401, "Unauthorized")
    } else if is_unwatched || state.faults.forbidden.contains(resource) {
        status(
            403,
            &format!("{resource} is forbidden: User \"u\" cannot {verb} them"),
        )
    } else if is_watch {
        return watch(stream, shared, state, resource, &query);
    } else if let Some(name) = path.split(&format!("{resource}/")).nth(1) {
        let namespace = path.split("namespaces/").nth(1);
        let namespace = namespace.and_then(|it| it.split_once('/'));
        let key = match namespace {
            Some((namespace, _)) => format!("{namespace}/{name}"),
            None => name.to_owned(),
        };
        if head.starts_with("PATCH") {
            let patch = serde_json::from_slice(&body).expect("JSON");
            apply(&mut state, (resource, key), &patch, &query)
        } else {
            match state.objects.get(&(resource, key)) {
                Some(object) => (200, object.clone()),
                None => status(404, "not found"),
            }
        }
    } else {
        list(&mut state, resource, &query)
    };
    let is_page = answer.0 == 200 && query.contains_key("continue");
    let cut = is_page && state.faults.cut_pages > 0;
    if cut {
        state.faults.cut_pages -= 1;
    }
    drop(state);
    shared.1.notify_all();
    let (code, body) = answer;
    say(stream, code, &body.to_string(), cut);
}

/// Answers with a body, or with half of it.
fn say(stream: &mut dyn Connection, code: u16, body: &str, cut: bool) {
    let mut text = String::new();
    let _ = write!(
        text,
        "HTTP/1.1 {code} Said\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
         connection: close\r\n\r\n",
        body.len()
    );
    let part = if cut { &body[..body.len() / 2] } else { body };
    let _ = stream.write_all(format!("{text}{part}").as_bytes());
}

fn status(code: u16, message: &str) -> (u16, Value) {
    let reason = match code {
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "NotFound",
        409 => "Conflict",
        _ => "Expired",
    };
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message,
        "reason": reason, "code": code, "metadata": {},
    });
    (code, body)
}

fn list(state: &mut State, resource: &str, query: &BTreeMap<&str, &str>) -> (u16, Value) {
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
    let limit: usize = query
        .get("limit")
        .map_or(usize::MAX, |it| it.parse().expect("a number"));
    let all = state.objects.iter().filter(|((of, _), _)| *of == resource);
    let mut items: Vec<Value> = all.map(|(_, object)| object.clone()).skip(from).collect();
    let more = items.len() > limit;
    items.truncate(limit);
    let mut metadata = json!({"resourceVersion": state.version.to_string()});
    if more {
        metadata["continue"] = json!((from + limit).to_string());
    }
    let list = json!({"kind": "List", "apiVersion": "v1", "metadata": metadata, "items": items});
    (200, list)
}

/// Sends events until the connection is cut.
fn watch<'a>(
    stream: &mut dyn Connection,
    shared: &'a Shared,
    mut state: MutexGuard<'a, State>,
    resource: &str,
    query: &BTreeMap<&str, &str>,
) {
    let from = query.get("resourceVersion").and_then(|it| it.parse().ok());
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
