//! Mishaps that administrators and disks cause to the streams of nats-servers.

use crate::replicas::brokers::{Brokers, messages_of};

impl Brokers {
    /// Limits the stream of a snapshot to so many bytes, as an administrator may.
    pub(crate) async fn limit(&self, snapshot: &str, max_bytes: u64) {
        let client = async_nats::connect(self.urls()).await.expect("it runs");
        let mut config = self.stream(snapshot).await.cached_info().config.clone();
        config.max_bytes = max_bytes.cast_signed();
        let streams = async_nats::jetstream::new(client);
        streams.update_stream(config).await.expect("it is taken");
    }

    /// Publishes something to a subject.
    pub(crate) async fn publish(&self, subject: &str, message: &'static str) {
        let client = async_nats::connect(self.urls()).await.expect("it runs");
        let streams = async_nats::jetstream::new(client);
        let sent = streams.publish(subject.to_owned(), message.into()).await;
        sent.expect("it is sent").await.expect("it is taken");
    }

    /// Flips a bit of a snapshot's log in the store of a nats-server that does not run. On each
    /// server it is in another message, so that the other copies of that message stay intact.
    pub(crate) fn flip_bit(&self, number: usize, snapshot: &str) {
        let stream = format!("EVK_test_LOG_{snapshot}");
        let path = messages_of(&self.store(number), &stream).join("1.blk");
        let mut bytes = std::fs::read(&path).expect("it has some");
        let place = bytes.len() * (number + 1) / 5;
        bytes[place] ^= 1;
        std::fs::write(&path, bytes).expect("it is written");
    }
}
