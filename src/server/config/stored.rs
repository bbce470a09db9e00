//! Limits on what is stored of a pod.

use super::values::count;
use crate::snapshot::Limits;

/// How large a stored pod may be.
#[derive(Debug, Clone, clap::Args)]
pub struct StoredSettings {
    /// Bytes of what a stored pod asks for.
    ///
    /// These are its owners, node selector, affinity, tolerations and spread
    /// constraints. Pods that ask for the same share them.
    #[arg(
        long,
        env = "EVENKEEL_MAX_POD_SPEC_BYTES",
        value_name = "BYTES",
        default_value_t = Limits::default().max_pod_spec_bytes,
        value_parser = count
    )]
    pub max_pod_spec_bytes: usize,
}
