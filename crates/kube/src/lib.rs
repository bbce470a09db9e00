//! Objects of Kubernetes: [`manifest`] reads them from files and completes pods as a cluster does,
//! [`kubernetes`] reads them from API servers and writes there.

pub mod kubernetes;
pub mod manifest;
pub mod misspelt;
