//! A snapshot's export, read to its end and checked against its summary.

use anyhow::{Context, Result};
use tonic::codec::Streaming;

use super::backend::Client;
use super::exit::RefusedCall;
use crate::api::ExportSum;
use crate::proto::v1::{
    ExportSnapshotRequest, ExportSnapshotResponse, ExportSummary, UpdateSnapshotRequest,
};

/// The parts of an export that was begun.
pub(crate) struct Export {
    parts: Streaming<ExportSnapshotResponse>,
    sum: ExportSum,
    summary: Option<ExportSummary>,
}

/// A part of an export.
pub(crate) struct ExportPart {
    /// The revision that all parts have.
    pub(crate) revision: i64,
    /// Its epoch.
    pub(crate) epoch: String,
    /// Objects, and in one of the parts the default constraints.
    pub(crate) update: UpdateSnapshotRequest,
}

impl Export {
    /// Begins one.
    pub(crate) async fn of(client: &Client, snapshot: &str) -> Result<Self> {
        let request = ExportSnapshotRequest {
            snapshot: snapshot.to_owned(),
        };
        let answer = client.rpc().export_snapshot(request).await;
        Ok(Self {
            parts: answer.map_err(failed)?.into_inner(),
            sum: ExportSum::default(),
            summary: None,
        })
    }

    /// The next part; none at the end.
    ///
    /// # Errors
    /// It is not whole, or a call failed.
    pub(crate) async fn next(&mut self) -> Result<Option<ExportPart>> {
        let Some(part) = self.parts.message().await.map_err(failed)? else {
            self.check()?;
            return Ok(None);
        };
        let update = part.update.unwrap_or_default();
        self.sum.add_update(&update);
        self.summary = part.summary;
        Ok(Some(ExportPart {
            revision: part.revision,
            epoch: part.epoch,
            update,
        }))
    }

    /// What the server says that it sent, once it was read to its end.
    pub(crate) fn summary(self) -> ExportSummary {
        self.summary.unwrap_or_default()
    }

    fn check(&self) -> Result<()> {
        let summary = self.summary.as_ref().context(
            "the export was cut short: the server did not sum it up (one of an earlier version \
             cannot)",
        )?;
        anyhow::ensure!(
            *summary == self.sum.clone().finish(),
            "the export is not what the server says that it sent. It may know fields that this \
             version does not"
        );
        Ok(())
    }
}

fn failed(status: tonic::Status) -> anyhow::Error {
    RefusedCall::or_unreachable(status, Vec::new())
}
