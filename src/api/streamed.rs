//! Answers that are streams. A stream ends well only if the task that feeds it
//! did.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_stream::Stream;
use tonic::Status;

use super::error::Error;

/// What a task hands out, then how the task ended: well, with an error of its
/// own, or by a panic, which is an error too.
pub struct Streamed<T> {
    answers: mpsc::Receiver<Result<T, Status>>,
    /// None once it has been joined.
    feeder: Option<JoinHandle<Result<(), Error>>>,
}

impl<T> Streamed<T> {
    /// A stream of what `feeder` sends.
    pub fn new(
        answers: mpsc::Receiver<Result<T, Status>>,
        feeder: JoinHandle<Result<(), Error>>,
    ) -> Self {
        Self {
            answers,
            feeder: Some(feeder),
        }
    }
}

impl<T> Stream for Streamed<T> {
    type Item = Result<T, Status>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        // The channel is open for as long as its feeder runs.
        if let Some(answer) = ready!(this.answers.poll_recv(context)) {
            return Poll::Ready(Some(answer));
        }
        let Some(feeder) = &mut this.feeder else {
            return Poll::Ready(None);
        };
        let ended = ready!(Pin::new(feeder).poll(context)).unwrap_or(Err(Error::Internal));
        this.feeder = None;
        Poll::Ready(ended.err().map(|error| Err(error.into())))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tokio_stream::StreamExt;
    use tonic::{Code, Request};

    use super::*;
    use crate::api::Service;
    use crate::proto::v1::ExportSnapshotRequest;
    use crate::proto::v1::spread_service_server::SpreadService;
    use crate::snapshot::InjectedFault;
    use crate::verify::tests::{registry, update};

    /// How a stream ended, and what it gave before.
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
            let feeder = tokio::spawn(async move {
                for number in 0..3 {
                    let _ = answers.send(Ok(number)).await;
                }
                end()
            });
            assert_eq!(read(Streamed::new(receiver, feeder)).await, (3, code));
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
            let request = Request::new(ExportSnapshotRequest::default());
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
