//! `VerifySnapshot`: compares a snapshot with its recount.

use super::answer::count;
use crate::proto::v1;
use crate::snapshot::{Snapshot, State, Stopped};
use crate::verify::{Mismatch, Verification, verify};

/// Verifies a state of a snapshot and logs the differences.
///
/// # Errors
/// Those of [`verify`].
pub fn response(
    snapshot: &Snapshot,
    state: &State,
    is_given_up: &dyn Fn() -> bool,
) -> Result<v1::VerifySnapshotResponse, Stopped> {
    let report = verify(state, is_given_up)?;
    log(snapshot.name(), &report);
    Ok(v1::VerifySnapshotResponse {
        revision: report.revision,
        epoch: snapshot.epoch().to_owned(),
        node_count: count(report.nodes),
        pod_count: count(report.pods),
        label_set_count: count(report.label_sets),
        partition_count: count(report.partitions),
        view_count: count(report.views),
        mismatch_count: count(report.findings.total),
        mismatches: report.findings.described.into_iter().map(wire).collect(),
    })
}

/// Logs the differences, with both values.
fn log(snapshot: &str, report: &Verification) {
    for mismatch in &report.findings.described {
        tracing::error!(
            snapshot,
            revision = report.revision,
            namespace = mismatch.namespace,
            subject = mismatch.subject,
            aspect = mismatch.aspect,
            kept = mismatch.kept,
            recounted = mismatch.recounted,
            "what is kept has drifted from a recount"
        );
    }
}

fn wire(mismatch: Mismatch) -> v1::Mismatch {
    v1::Mismatch {
        namespace: mismatch.namespace,
        subject: mismatch.subject,
        aspect: mismatch.aspect,
        kept: mismatch.kept,
        recounted: mismatch.recounted,
    }
}
