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
    use tonic::Code;

    use super::*;
    use crate::tasks;

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
}
