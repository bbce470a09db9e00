//! A proxy between the server under test and the API server: it loses events, cuts connections, and
//! answers as an API server in trouble does.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use bytes::Bytes;
use fastrand::Rng;
use futures::{Stream, StreamExt, stream};
use http::StatusCode;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// The lists that are cut. Lists of less than a thousand bytes never are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// All lists, on their first page.
    FirstPage,
    /// Lists of several pages, on a later page.
    LaterPages,
}

/// The faults to inflict. By default there are none.
pub(crate) struct Faults {
    /// Lose one event of this many, but none about objects named `marker`.
    pub(crate) lose_one_in: Option<usize>,
    /// Cut the connection in the middle of lists.
    pub(crate) cut: Option<Cut>,
    /// Answer watches with 410, as after a compaction.
    pub(crate) gone: bool,
    /// Answer nothing: refuse every request.
    pub(crate) away: bool,
    /// The token that is accepted; `None` accepts all.
    pub(crate) token: Option<String>,
    rng: Rng,
    lost: usize,
    lists: usize,
    watches: usize,
    /// Ends the watches that are open.
    open: CancellationToken,
}

/// A running proxy; ends when dropped.
pub(crate) struct Proxy {
    address: String,
    faults: Arc<Mutex<Faults>>,
    task: JoinHandle<()>,
}

impl Proxy {
    /// Starts a proxy in front of the API server of `client`, with the credentials of `client`.
    pub(crate) async fn start(client: kube::Client, seed: u64) -> Self {
        let faults = Arc::new(Mutex::new(Faults {
            lose_one_in: None,
            cut: None,
            gone: false,
            away: false,
            token: None,
            rng: Rng::with_seed(seed),
            lost: 0,
            lists: 0,
            watches: 0,
            open: CancellationToken::new(),
        }));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it is bound").to_string();
        let shared = (client, Arc::clone(&faults));
        let router = Router::new().fallback(forward).with_state(shared);
        let task = tokio::spawn(async move {
            axum::serve(listener, router).await.expect("it serves");
        });
        Self {
            address,
            faults,
            task,
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the faults from now on.
    pub(crate) fn faults(&self) -> MutexGuard<'_, Faults> {
        self.faults.lock().expect("no holder panics")
    }

    /// Cuts all watches.
    pub(crate) fn cut_watches(&self) {
        let mut faults = self.faults();
        std::mem::take(&mut faults.open).cancel();
    }

    /// Returns how many events were lost.
    pub(crate) fn lost(&self) -> usize {
        self.faults().lost
    }

    /// Returns how many lists and watches were begun.
    pub(crate) fn begun(&self) -> (usize, usize) {
        let faults = self.faults();
        (faults.lists, faults.watches)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

type Shared = (kube::Client, Arc<Mutex<Faults>>);

async fn forward(State((client, faults)): State<Shared>, request: Request) -> Response {
    let query = request.uri().query().unwrap_or_default();
    let watch = query.contains("watch=true") || query.contains("watch=1");
    let page = match query.contains("continue=") {
        true => Cut::LaterPages,
        false => Cut::FirstPage,
    };
    let refused = {
        let mut faults = faults.lock().expect("no holder panics");
        match watch {
            true => faults.watches += 1,
            false => faults.lists += 1,
        }
        refusal(&faults, &request, watch)
    };
    if let Some(refused) = refused {
        return refused;
    }
    let (mut head, _) = request.into_parts();
    // The proxy has its own credentials and compression towards the API server, no request has a
    // body, and the proxy reads only JSON.
    for name in [
        "accept",
        "accept-encoding",
        "authorization",
        "content-length",
        "host",
    ] {
        head.headers.remove(name);
    }
    let path = head.uri.path_and_query().expect("a request has a path");
    head.uri = path.as_str().parse().expect("it was one");
    let request = http::Request::from_parts(head, kube::client::Body::empty());
    let Ok(answer) = client.send(request).await else {
        return status(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable");
    };
    let (mut head, body) = answer.into_parts();
    head.headers.remove("content-length");
    head.headers.remove("transfer-encoding");
    let body = body
        .into_data_stream()
        .map(|part| part.map_err(io::Error::other));
    let body = match (watch, head.status.is_success()) {
        (true, true) => Body::from_stream(watched(faults, body)),
        (false, true) => listed(&faults, page, body.boxed()).await,
        (_, false) => Body::from_stream(body),
    };
    Response::from_parts(head, body)
}

fn refusal(faults: &Faults, request: &Request, watch: bool) -> Option<Response> {
    let sent = request.headers().get("authorization");
    let accepted = faults.token.as_ref().is_none_or(|token| {
        sent.is_some_and(|sent| sent.as_bytes() == format!("Bearer {token}").as_bytes())
    });
    if faults.away {
        Some(status(
            StatusCode::SERVICE_UNAVAILABLE,
            "ServiceUnavailable",
        ))
    } else if !accepted {
        Some(status(StatusCode::UNAUTHORIZED, "Unauthorized"))
    } else if watch && faults.gone {
        Some(status(StatusCode::GONE, "Expired"))
    } else {
        None
    }
}

fn status(code: StatusCode, reason: &str) -> Response {
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": reason, "reason": reason, "code": code.as_u16(),
    });
    let response = Response::builder()
        .status(code)
        .header("content-type", "application/json");
    response
        .body(Body::from(body.to_string()))
        .expect("a response")
}

type Parts = stream::BoxStream<'static, io::Result<Bytes>>;

/// A list, whole or cut.
async fn listed(faults: &Mutex<Faults>, page: Cut, body: Parts) -> Body {
    let cut = faults.lock().expect("no holder panics").cut;
    let parts: Vec<_> = body.collect().await;
    let parts: io::Result<Vec<Bytes>> = parts.into_iter().collect();
    let Ok(parts) = parts else {
        return cut_after(Bytes::new());
    };
    let whole = Bytes::from(parts.concat());
    match cut == Some(page) && whole.len() >= 1000 {
        true => cut_after(whole.slice(..whole.len() / 2)),
        false => Body::from(whole),
    }
}

/// These bytes, and then the end of the connection.
fn cut_after(bytes: Bytes) -> Body {
    let end = async {
        // The pause lets the bytes arrive before the connection ends.
        tokio::time::sleep(Duration::from_millis(20)).await;
        Err(io::Error::other("cut"))
    };
    Body::from_stream(stream::once(async { Ok(bytes) }).chain(stream::once(end)))
}

/// The events of a watch without those that are lost.
fn watched(
    faults: Arc<Mutex<Faults>>,
    body: impl Stream<Item = io::Result<Bytes>> + Send + 'static,
) -> impl Stream<Item = io::Result<Bytes>> + Send + 'static {
    let open = faults.lock().expect("no holder panics").open.clone();
    let mut buffer = Vec::new();
    let events = body.map(move |part| {
        buffer.extend_from_slice(&part?);
        let end = buffer
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |at| at + 1);
        let whole: Vec<u8> = buffer.drain(..end).collect();
        let mut faults = faults.lock().expect("no holder panics");
        let passed = whole.split_inclusive(|byte| *byte == b'\n');
        let passed = passed.filter_map(|line| faults.pass(line));
        Ok(passed.collect::<Vec<Bytes>>().concat().into())
    });
    let cut = stream::once(async { Err(io::Error::other("cut")) });
    events.take_until(open.cancelled_owned()).chain(cut)
}

impl Faults {
    /// The line of an event, unless it is lost.
    fn pass(&mut self, line: &[u8]) -> Option<Bytes> {
        if let Some(chance) = self.lose_one_in {
            let event: Value = serde_json::from_slice(line).expect("an event is a line");
            let change = ["ADDED", "MODIFIED", "DELETED"].contains(&event["type"].as_str()?);
            let marker = event["object"]["metadata"]["name"] == "marker";
            if change && !marker && self.rng.usize(..chance) == 0 {
                self.lost += 1;
                return None;
            }
        }
        Some(Bytes::copy_from_slice(line))
    }
}
