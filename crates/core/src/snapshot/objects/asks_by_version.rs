//! The requirements of a pod, by the rules of each version of Kubernetes.

use std::sync::Arc;

use super::asks::Asks;
use crate::matching::{Path, PodTerm, RequestsByVersion, Resizing, Violations};
use crate::proto::v1;

/// The requirements of a pod by the rules of a version; `None` if it has none.
type UnderVersion = (Resizing, Option<Arc<Asks>>);

/// The requirements of a pod.
#[derive(Debug, Clone, Default)]
pub struct AsksByVersion {
    /// The requirements by the rules of the newest version, or of the chosen one.
    pub chosen: Option<Arc<Asks>>,
    /// The requirements by the rules of other versions, where they differ and no version was chosen
    /// yet.
    others: Option<Arc<[UnderVersion]>>,
}

impl AsksByVersion {
    /// The requirements of a valid pod with these requests.
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

    /// Returns whether the versions differ.
    pub fn differs(&self) -> bool {
        self.others.is_some()
    }

    /// Returns the requirements by these rules.
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
