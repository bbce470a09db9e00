//! A load of Filter questions, by calls or on streams of Decide, with a given number unanswered at
//! a time. Measures how long answers take.
//!
//! Flags and report are those of ghz, as far as `bench/run` uses them, so that it reads both alike.
//! ghz asks the next question of a stream only when it has the answer to the last one. Where each
//! question is a new one, ghz spends more on making it than the server on answering it.

use std::fs::read_to_string;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::Parser;
use evenkeel::proto::encoded::BytesCodec;
use evenkeel::proto::v1;
use futures::StreamExt;
use futures::future::try_join_all;
use futures::stream::FuturesUnordered;
use prost::Message;
use prost::bytes::Bytes;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Streaming};
use tonic_prost::ProstCodec;

/// The interval at which a rate is corrected.
const TICK: Duration = Duration::from_millis(1);

/// The text in a question of ghz that stands for a number that no other question has.
const NUMBER: &str = "{{.RequestNumber}}";

/// The text in the place of the number before it is known.
const NO_NUMBER: &str = "##########";

#[derive(Parser)]
struct Args {
    /// Address of the server
    #[arg(long, default_value = "http://127.0.0.1:50051")]
    server: String,

    /// File of ghz with the Filter to ask
    #[arg(long, default_value = "bench/ghz/filter-domains.json")]
    config: PathBuf,

    /// Ask on a stream of Decide on each connection, instead of by calls
    #[arg(long)]
    stream: bool,

    /// Connections, which share the questions
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    connections: u16,

    /// Unanswered questions at a time
    #[arg(long, short, default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..))]
    concurrency: u16,

    /// How long to ask
    #[arg(long, short = 'z', default_value = "10s")]
    duration: humantime::Duration,

    /// Questions per second; 0 = as many as the server answers
    #[arg(long, short, default_value_t = 0)]
    rate: u64,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let args = Args::parse();
    let mut loads = Vec::new();
    for _ in 0..args.connections {
        loads.push(Load::begin(&args).await?);
    }
    let start = Instant::now();
    let latencies = try_join_all(loads.into_iter().map(|load| load.run(&args))).await?;
    println!("{}", report(latencies.concat(), start.elapsed()));
    Ok(())
}

/// The questions of a connection.
struct Questions {
    /// A request, encoded.
    request: Vec<u8>,
    /// The offsets of the question's number in the request.
    numbers: Vec<usize>,
    /// The next number.
    next: u32,
}

impl Questions {
    /// The questions of a file of ghz.
    fn of(config: &Path) -> Result<Self> {
        let text = read_to_string(config).with_context(|| config.display().to_string())?;
        let mut config: Value = serde_json::from_str(&text.replace(NUMBER, NO_NUMBER))?;
        let request: v1::FilterRequest = serde_json::from_value(config["data"].take())?;
        let request = request.encode_to_vec();
        let parts = request.windows(NO_NUMBER.len());
        let numbers = parts
            .enumerate()
            .filter(|(_, part)| *part == NO_NUMBER.as_bytes());
        Ok(Self {
            numbers: numbers.map(|(at, _)| at).collect(),
            request,
            // Other connections begin with other numbers.
            next: fastrand::u32(..),
        })
    }

    fn next(&mut self) -> Bytes {
        self.next = self.next.wrapping_add(1);
        let number = format!("{:0width$}", self.next, width = NO_NUMBER.len());
        for &at in &self.numbers {
            self.request[at..at + NO_NUMBER.len()].copy_from_slice(number.as_bytes());
        }
        Bytes::copy_from_slice(&self.request)
    }
}

/// A `DecideRequest` with a question that is encoded already.
#[derive(Clone, PartialEq, Message)]
struct Step {
    #[prost(message, required, tag = "1")]
    question: Question,
}

/// A `Question` for Filter.
#[derive(Clone, PartialEq, Message)]
struct Question {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(bytes = "bytes", tag = "3")]
    filter: Bytes,
}

/// A `DecideResponse` whose answer is not decoded: that would cost more than the answer costs the
/// server.
#[derive(Clone, PartialEq, Message)]
struct Answer {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(bytes = "bytes", tag = "2")]
    filter: Bytes,
    #[prost(message, optional, tag = "5")]
    error: Option<v1::RpcStatus>,
}

/// A call under way, which returns its id.
type Call = Pin<Box<dyn Future<Output = Result<usize>>>>;

/// The way in which questions are asked on a connection.
enum Way {
    Calls(Grpc<Channel>, FuturesUnordered<Call>),
    Stream(mpsc::Sender<Step>, Box<Streaming<Answer>>),
}

impl Way {
    async fn open(args: &Args) -> Result<Self> {
        let channel = Endpoint::from_shared(args.server.clone())?
            .connect()
            .await?;
        let mut client = Grpc::new(channel);
        if !args.stream {
            return Ok(Self::Calls(client, FuturesUnordered::new()));
        }
        client.ready().await?;
        let (sender, steps) = mpsc::channel(args.concurrency.into());
        let steps = Request::new(ReceiverStream::new(steps));
        let path = PathAndQuery::from_static("/evenkeel.v1.SpreadService/Decide");
        let answers = client.streaming(steps, path, ProstCodec::default()).await?;
        Ok(Self::Stream(sender, Box::new(answers.into_inner())))
    }

    fn ask(&mut self, id: usize, filter: Bytes) -> Result<()> {
        match self {
            Self::Calls(client, calls) => calls.push(Box::pin(call(client.clone(), id, filter))),
            Self::Stream(steps, _) => {
                let id = id as u64;
                let question = Question { id, filter };
                let sent = steps.try_send(Step { question });
                sent.context("there is room for every unanswered question")?;
            }
        }
        Ok(())
    }

    /// The id of the next question that is answered.
    async fn answered(&mut self) -> Result<usize> {
        match self {
            Self::Calls(_, calls) => match calls.next().await {
                Some(answered) => answered,
                None => std::future::pending().await,
            },
            Self::Stream(_, answers) => {
                let answer = answers.message().await?;
                let answer = answer.context("the server ended the stream")?;
                if let Some(error) = answer.error {
                    bail!("refused with code {}: {}", error.code, error.message);
                }
                ensure!(!answer.filter.is_empty(), "an answer to another question");
                Ok(answer.id.try_into()?)
            }
        }
    }
}

async fn call(mut client: Grpc<Channel>, id: usize, filter: Bytes) -> Result<usize> {
    client.ready().await?;
    let path = PathAndQuery::from_static("/evenkeel.v1.SpreadService/Filter");
    client.unary(Request::new(filter), path, BytesCodec).await?;
    Ok(id)
}

/// The questions of one connection.
struct Load {
    questions: Questions,
    way: Way,
    /// The time of each question, by id.
    asked_at: Vec<Instant>,
    /// The ids that no unanswered question has.
    free: Vec<usize>,
}

impl Load {
    async fn begin(args: &Args) -> Result<Self> {
        let most = usize::from(args.concurrency.div_ceil(args.connections));
        Ok(Self {
            questions: Questions::of(&args.config)?,
            way: Way::open(args).await?,
            asked_at: vec![Instant::now(); most],
            free: (0..most).collect(),
        })
    }

    /// Asks for as long as the flags say, and waits for all answers. Returns how long
    /// each took.
    async fn run(mut self, args: &Args) -> Result<Vec<Duration>> {
        let start = Instant::now();
        let rate = args.rate as f64 / f64::from(args.connections);
        let mut latencies = Vec::new();
        let mut asked = 0;
        let mut ticks = tokio::time::interval(TICK);
        loop {
            let passed = start.elapsed();
            let is_over = passed >= *args.duration;
            let due = match args.rate {
                _ if is_over => 0,
                0 => usize::MAX,
                _ => (passed.as_secs_f64() * rate) as usize - asked,
            };
            asked += self.ask(due)?;
            if is_over && self.free.len() == self.asked_at.len() {
                return Ok(latencies);
            }
            tokio::select! {
                biased;
                id = self.way.answered() => {
                    let id = id?;
                    let asked_at = self.asked_at.get(id);
                    latencies.push(asked_at.context("an answer to no question")?.elapsed());
                    self.free.push(id);
                }
                _ = ticks.tick(), if args.rate > 0 => {}
            }
        }
    }

    /// Asks up to `due` questions, as many as may be unanswered. Returns how many it asked.
    fn ask(&mut self, due: usize) -> Result<usize> {
        let count = due.min(self.free.len());
        for id in self.free.drain(self.free.len() - count..) {
            self.asked_at[id] = Instant::now();
            self.way.ask(id, self.questions.next())?;
        }
        Ok(count)
    }
}

/// Returns the report of ghz, as far as `bench/run` reads it.
fn report(mut latencies: Vec<Duration>, took: Duration) -> Value {
    latencies.sort_unstable();
    let percentile = |percentage: usize| {
        let latency = latencies.get(latencies.len() * percentage / 100);
        let latency_ns = latency.map(|latency| latency.as_nanos() as u64);
        json!({ "percentage": percentage, "latency": latency_ns })
    };
    json!({
        "count": latencies.len(),
        "rps": latencies.len() as f64 / took.as_secs_f64(),
        "latencyDistribution": [percentile(50), percentile(99)],
    })
}
