//! Bytes as questions about one pod, by calls and on a stream: a question fares the same by a call,
//! on a stream, and decoded and encoded beforehand.

use bytes::Bytes;
use evenkeel::proto::v1::decide_response::Answer;
use evenkeel::proto::v1::spread_service_server::SpreadServiceServer;
use evenkeel::proto::v1::{
    DecideResponse, ExplainRequest, FilterRequest, FilterResponse, ScoreRequest, ScoreResponse,
};
use prost::Message;
use prost::encoding::{WireType, encode_key, encode_varint};
use tonic::Code;

use support::asked::{Asked, Fate, PATIENCE, said, same};
use support::calls::{Call, runtime};

/// Asks a service in one way. The result is the encoded answer.
type Way = for<'a> fn(&'a Asked, Bytes) -> Asking<'a>;
type Asking<'a> = std::pin::Pin<Box<dyn Future<Output = Fate<Bytes>> + 'a>>;

/// A kind of question: its call, a function that decodes a request and encodes it again, and the
/// way to ask on a stream, if there is one.
struct Kind {
    call: Way,
    decoded: fn(&[u8]) -> Result<Bytes, prost::DecodeError>,
    streamed: Option<Way>,
}

/// The kinds, by the byte that stands for them in an input. New kinds go to the end, so that
/// existing inputs keep their meaning.
const KINDS: [Kind; 3] = [
    Kind {
        call: |asked, bytes| Box::pin(async move { encoded(asked.filter(bytes).await) }),
        decoded: decoded::<FilterRequest>,
        streamed: Some(|asked, bytes| Box::pin(on_stream(asked, 3, bytes))),
    },
    Kind {
        call: |asked, bytes| Box::pin(async move { encoded(asked.score(bytes).await) }),
        decoded: decoded::<ScoreRequest>,
        streamed: Some(|asked, bytes| Box::pin(on_stream(asked, 4, bytes))),
    },
    Kind {
        call: |asked, bytes| Box::pin(async move { encoded(asked.explain(bytes).await) }),
        decoded: decoded::<ExplainRequest>,
        streamed: None,
    },
];

/// The input is a list of questions: the kind, the length of the request (two bytes), the request.
pub fn check(mut input: &[u8]) {
    runtime().block_on(async {
        let asked = Asked::open().await;
        while let [kind, high, low, rest @ ..] = input {
            let length = usize::from(u16::from_be_bytes([*high, *low])).min(rest.len());
            let (request, rest) = rest.split_at(length);
            input = rest;
            let kind = &KINDS[usize::from(*kind) % KINDS.len()];
            fares_alike(&asked, kind, Bytes::copy_from_slice(request)).await;
        }
    });
}

async fn fares_alike(asked: &Asked, kind: &Kind, request: Bytes) {
    let fate = (kind.call)(asked, request.clone()).await;
    let streamed = match kind.streamed {
        Some(streamed) => Some(streamed(asked, request.clone()).await),
        None => None,
    };
    match (kind.decoded)(&request) {
        Ok(decoded) => {
            same(&(kind.call)(asked, decoded).await, &fate, &request);
            if let Some(streamed) = streamed {
                same(&streamed, &fate, &request);
            }
        }
        Err(fault) => {
            let refusal = fate.as_ref().expect_err("it cannot be decoded");
            assert!(
                refusal.1.contains(&fault.to_string()),
                "{fault}: {refusal:?}"
            );
            // The text says where in the step the fault is.
            let code = |fate: Fate<Bytes>| fate.expect_err("it cannot be decoded").0;
            let codes = streamed.map(|streamed| [code(streamed), code(fate)]);
            assert!(codes.is_none_or(|[one, other]| one == other), "{codes:?}");
        }
    }
}

fn encoded(fate: Fate<impl Message>) -> Fate<Bytes> {
    fate.map(|answer| answer.encode_to_vec().into())
}

fn decoded<M: Message + Default>(request: &[u8]) -> Result<Bytes, prost::DecodeError> {
    Ok(M::decode(request)?.encode_to_vec().into())
}

/// Asks on a stream that has one question, with this tag.
async fn on_stream(asked: &Asked, tag: u32, request: Bytes) -> Fate<Bytes> {
    let message = |tag: u32, content: &[u8]| {
        let mut bytes = Vec::new();
        encode_key(tag, WireType::LengthDelimited, &mut bytes);
        encode_varint(content.len() as u64, &mut bytes);
        bytes.extend_from_slice(content);
        bytes
    };
    let call = Call {
        method: "Decide",
        messages: vec![message(1, &message(tag, &request)).into()],
    };
    let server = SpreadServiceServer::new(asked.service.clone());
    let answers = call.send(server, PATIENCE).await.map_err(said)?;
    let [answer] = &answers[..] else {
        panic!("{} answers to one question", answers.len());
    };
    let answer = DecideResponse::decode(&**answer).expect("an answer");
    match answer.answer.expect("an answer says something") {
        Answer::Filter(answer) => encoded(Ok(FilterResponse {
            epoch: String::new(),
            ..answer
        })),
        Answer::Score(answer) => encoded(Ok(ScoreResponse {
            epoch: String::new(),
            ..answer
        })),
        Answer::Place(answer) => panic!("{answer:?} was not asked for"),
        Answer::Error(error) => Err((
            Code::from(error.code),
            format!("{} {:?}", error.message, error.encode_to_vec()),
        )),
    }
}
