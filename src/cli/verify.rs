//! `evenkeel verify`: compares a server's counts with a recount.

use anyhow::Result;
use clap::Args;

use super::args;
use super::backend::Client;
use super::exit::Exit;
use super::render;
use super::source;
use crate::proto::v1::{VerifySnapshotRequest, VerifySnapshotResponse};

/// Flags of `evenkeel verify`.
#[derive(Debug, Args)]
#[command(after_help = "\
The server recounts a copy of the snapshot from its nodes and pods, and compares the result with
every count that it keeps for quick answers. A difference is a bug in the server: please report it.

Examples:
  evenkeel verify
  evenkeel verify -s staging --timeout 5m        (large snapshots take a while)")]
pub(crate) struct VerifySnapshot {
    #[command(flatten)]
    state: source::SnapshotSource,

    #[command(flatten)]
    output: args::OutputFlag,
}

impl VerifySnapshot {
    /// Verifies the snapshot and prints the result.
    pub(crate) async fn run(self) -> Result<Exit> {
        let client = self.state.client().await?;
        let answer = ask(&client, self.state.snapshot()).await?;
        let names = || {
            let mismatches = answer.mismatches.iter();
            mismatches.map(|found| found.subject.clone()).collect()
        };
        let page = || render::verified(self.state.snapshot(), &answer);
        self.output.print(&answer, page, names)?;
        Ok(exit(&answer))
    }
}

async fn ask(client: &Client, snapshot: &str) -> Result<VerifySnapshotResponse> {
    let request = VerifySnapshotRequest {
        snapshot: snapshot.to_owned(),
    };
    client.call(request).await
}

fn exit(answer: &VerifySnapshotResponse) -> Exit {
    Exit::of(answer.mismatch_count == 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::v1::Mismatch;

    fn plain(snapshot: &str, answer: &VerifySnapshotResponse) -> String {
        let text = render::verified(snapshot, answer).text();
        anstream::adapter::strip_str(&text).to_string()
    }

    #[test]
    fn drift_is_an_error_with_both_values() {
        let mut answer = VerifySnapshotResponse {
            revision: 1,
            node_count: 2,
            pod_count: 2,
            label_set_count: 1,
            partition_count: 2,
            view_count: 1,
            ..VerifySnapshotResponse::default()
        };
        assert_eq!(exit(&answer), Exit::Success);
        assert_eq!(
            plain("default", &answer),
            "OK: snapshot \"default\", revision 1: views 1, partitions 2, label sets 1, nodes 2, pods \
             2\n"
        );
        answer.mismatch_count = 1;
        answer.mismatches.push(Mismatch {
            namespace: "default".to_owned(),
            subject: "view of zone".to_owned(),
            aspect: "count of domain \"a\"".to_owned(),
            kept: "2".to_owned(),
            recounted: "1".to_owned(),
        });
        assert_eq!(exit(&answer), Exit::Negative);
        let text = plain("default", &answer);
        let expected =
            "  namespace default: view of zone: count of domain \"a\": kept 2, recounted 1\n";
        assert!(
            text.starts_with("DRIFT: snapshot \"default\", revision 1"),
            "{text}"
        );
        assert!(text.contains("\nmismatches: 1\n"), "{text}");
        assert!(text.contains(expected), "{text}");
    }
}
