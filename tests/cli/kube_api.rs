//! A small API server: lists and gets objects as Kubernetes' does, page by page.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

use serde_json::{Value, json};

/// Objects in a page, whatever is asked for: lists have several.
const PAGE: usize = 2;

/// The plurals of the kinds that it knows.
const PLURALS: [(&str, &str); 10] = [
    ("Deployment", "deployments"),
    ("DaemonSet", "daemonsets"),
    ("Namespace", "namespaces"),
    ("Node", "nodes"),
    ("Pod", "pods"),
    ("PodDisruptionBudget", "poddisruptionbudgets"),
    ("ReplicaSet", "replicasets"),
    ("ReplicationController", "replicationcontrollers"),
    ("Service", "services"),
    ("StatefulSet", "statefulsets"),
];

/// What is refused.
#[derive(Clone, Copy, Default)]
pub struct Refusals {
    /// The resource that may not be read at all.
    pub forbidden: &'static str,
    /// Whether what is in namespaces may be read in the namespace `shop` alone.
    pub elsewhere: bool,
    /// The token without which nothing is answered.
    pub token: &'static str,
}

/// An API server that holds `objects`, and refuses to list `forbidden`; its
/// address. It serves until the tests end.
pub fn start(objects: Vec<Value>, forbidden: &'static str) -> String {
    let refusals = Refusals {
        forbidden,
        ..Refusals::default()
    };
    start_with(objects, refusals)
}

/// The same, with these refusals.
pub fn start_with(mut objects: Vec<Value>, refusals: Refusals) -> String {
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
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let objects = objects.clone();
            thread::spawn(move || serve(&stream, &objects, refusals));
        }
    });
    format!("http://{address}")
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

fn serve(stream: &TcpStream, objects: &[Value], refusals: Refusals) {
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    while let Some(first) = lines.next() {
        let target = first.split(' ').nth(1).unwrap_or_default().to_owned();
        let head: Vec<String> = lines.by_ref().take_while(|line| !line.is_empty()).collect();
        let token = format!("authorization: bearer {}", refusals.token);
        let is_known = head.iter().any(|line| line.to_lowercase() == token);
        let (code, answer) = match refusals.token.is_empty() || is_known {
            true => answer(&target, objects, refusals),
            false => status(401, "Unauthorized"),
        };
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
    // As Kubernetes does, the kind is said once, of the list.
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
