//! What a pod asks for, by the rules of each version of Kubernetes.

use std::sync::Arc;

use super::asks::Asks;
use crate::matching::{Path, PodTerm, RequestsByVersion, Resizing, Violations};
use crate::proto::v1;

/// What a pod asks for by the rules of a version; nothing if it asks for nothing.
type UnderVersion = (Resizing, Option<Arc<Asks>>);

/// What a pod asks for.
#[derive(Debug, Clone, Default)]
pub struct AsksByVersion {
    /// By the rules of the newest version, or of the one that was chosen.
    pub chosen: Option<Arc<Asks>>,
    /// By those of others, where they differ and none was chosen yet.
    others: Option<Arc<[UnderVersion]>>,
}

impl AsksByVersion {
    /// Of a valid pod that requests this.
    pub fn of(pod: &v1::Pod, requests: RequestsByVersion) -> Self {
        let no_faults = &mut Violations::default();
        let terms = PodTerm::compile_existing(pod, Path::root("pod"), no_faults);
        let asks = |requests| Asks::of(pod, requests, terms.clone()).map(Arc::new);
        let others = requests.others.into_iter();
        let others = others.map(|(resizing, requests)| (resizing, asks(requests)));
        let others: Arc<[_]> = others.collect();
        Self {
            chosen: asks(requests.newest),
            others: Some(others).filter(|others| !others.is_empty()),
        }
    }

    /// Returns whether versions differ.
    pub fn differs(&self) -> bool {
        self.others.is_some()
    }

    /// Returns what it asks for by these rules.
    pub fn under(&self, resizing: Resizing) -> Self {
        let others = self.others.iter().flat_map(|others| &**others);
        let mut others = others.filter(|(other, _)| *other == resizing);
        let chosen = others.next().map_or(&self.chosen, |(_, asks)| asks);
        Self {
            chosen: chosen.clone(),
            others: None,
        }
    }
}
