//! Answers that are streams. A stream ends well only if the task that feeds it did.

use std::pin::Pin;

use futures::stream;
use prost::bytes::Bytes;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{Stream, StreamExt};
use tonic::Status;

use super::error::Error;
use crate::tasks::Task;

/// A stream of answers.
pub type BoxStream = Pin<Box<dyn Stream<Item = Result<Bytes, Status>> + Send>>;

/// Returns the messages that `feeder` sends, then its error if it failed. A panic is an error, too.
pub fn streamed(
    answers: mpsc::Receiver<Result<Bytes, Status>>,
    feeder: Task<Result<(), Error>>,
) -> BoxStream {
    let ended = stream::once(feeder).filter_map(|ended| {
        let ended = ended.unwrap_or(Err(Error::Internal));
        ended.err().map(|error| Err(error.into()))
    });
    // The channel is open for as long as its feeder runs.
    Box::pin(ReceiverStream::new(answers).chain(ended))
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tonic::{Code, Request};

    use super::*;
    use crate::api::Service;
    use crate::proto::encoded::encode;
    use crate::proto::v1::ExportSnapshotRequest;
    use crate::proto::v1::spread_service_server::SpreadService;
    use crate::snapshot::InjectedFault;
    use crate::tasks;
    use crate::verify::tests::{registry, update};

    /// Returns the code with which a stream ended, and the number of its items.
    async fn read<T>(mut stream: impl Stream<Item = Result<T, Status>> + Unpin) -> (usize, Code) {
        let mut count = 0;
        while let Some(answer) = stream.next().await {
            match answer {
                Ok(_) => count += 1,
                Err(status) => return (count, status.code()),
            }
        }
        (count, Code::Ok)
    }

    #[tokio::test]
    async fn a_stream_ends_as_its_feeder_does() {
        type End = fn() -> Result<(), Error>;
        let ends: [(End, Code); 3] = [
            (|| Ok(()), Code::Ok),
            (|| Err(Error::Draining), Code::Unavailable),
            (|| panic!("on purpose"), Code::Internal),
        ];
        for (end, code) in ends {
            let (answers, receiver) = mpsc::channel(4);
            let feeder = tasks::spawn(async move {
                for _ in 0..3 {
                    let _ = answers.send(Ok(Bytes::new())).await;
                }
                end()
            });
            assert_eq!(read(streamed(receiver, feeder)).await, (3, code));
        }
    }

    /// An export that fails midway, after parts that were good.
    #[tokio::test]
    async fn an_export_that_fails_is_an_error() {
        let registry = registry();
        let node = |i| json!({"node": {"metadata": {"name": format!("many-{i}")}}});
        update(&registry, (0..5_000).map(node).collect());
        let service = Service::new(registry.clone(), Default::default());
        let export = || async {
            let request = Request::new(encode(ExportSnapshotRequest::default()));
            let answer = service.export_snapshot(request).await;
            read(answer.expect("it exists").into_inner()).await
        };
        let (parts, code) = export().await;
        assert_eq!((parts > 5, code), (true, Code::Ok));
        let snapshot = registry.get("default").expect("it exists");
        snapshot.inject_fault("default", "n1", InjectedFault::UnknownSlot);
        let (parts, code) = export().await;
        assert_eq!((parts > 4, code), (true, Code::Internal));
    }
}
