//! The kept form of a pod: a handful of integers.

use std::sync::Arc;

use prost::Message;
use uuid::Uuid;
use uuid::fmt::Hyphenated;

use super::asks::Asks;
use super::asks_by_version::AsksByVersion;
use super::label_sets::LabelSetId;
use super::pod_parts::PodParts;
use super::pod_texts::{Labels, PodTexts};
use super::slots::Slot;
use super::templates::TemplateId;
use crate::matching::{Requests, RequestsByVersion, Resizing};
use crate::proto::v1;

/// A pod that exists, without its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodRecord {
    /// The pod's labels.
    pub labels: LabelSetId,
    /// The node that it names, if any.
    pub node: Option<Slot>,
    /// The pod's identity and phase.
    pub life: Life,
}

/// A pod of a change: its texts and compiled parts.
#[derive(Debug, Clone)]
pub struct CompiledPod {
    texts: PodTexts,
    /// The pod's identity and phase, without its template.
    pub life: Life,
    /// The pod's requirements, if it has any.
    asks: AsksByVersion,
}

impl CompiledPod {
    /// A valid pod with these requirements; `None` when its phase is unknown.
    pub fn of(parts: &PodParts<'_>, asks: AsksByVersion) -> Option<Self> {
        Some(Self {
            life: Life::of(parts)?,
            texts: PodTexts::of(parts),
            asks,
        })
    }

    /// A pod of the snapshot's own making, which needs no check.
    pub fn trusted(wire: &v1::Pod) -> Self {
        let asks = AsksByVersion::of(wire, RequestsByVersion::of(wire));
        let pod = Self::of(&PodParts::of(&wire.encode_to_vec()), asks);
        pod.expect("what the snapshot makes itself is valid")
    }

    /// The pod's name.
    pub fn name(&self) -> &str {
        self.texts.name()
    }

    /// The name of the pod's namespace.
    pub fn namespace(&self) -> &str {
        self.texts.namespace()
    }

    /// The node that the pod is on; empty if it is on none.
    pub fn node_name(&self) -> &str {
        self.texts.node_name()
    }

    /// The node that the pod is nominated to, if it is on none and has not finished.
    pub fn nominated_to(&self) -> Option<&str> {
        let node = self.life.nominated_node();
        let may_be = !node.is_empty() && self.node_name().is_empty() && self.life.takes_room();
        may_be.then_some(node)
    }

    /// The pod's labels.
    pub fn labels(&self) -> Labels<'_> {
        self.texts.labels()
    }

    /// Returns the pod's requirements, if it has any.
    pub fn asks(&self) -> Option<&Asks> {
        self.asks.chosen.as_deref()
    }

    /// Returns whether the pod's requests depend on the version of Kubernetes.
    pub fn differs_by_version(&self) -> bool {
        self.asks.differs()
    }

    /// The same pod with its requests by these rules.
    pub fn under(&self, resizing: Resizing) -> Self {
        Self {
            asks: self.asks.under(resizing),
            ..self.clone()
        }
    }

    /// Returns the pod's requests to its node, if it has any.
    pub fn requests(&self) -> Option<&Arc<Requests>> {
        self.asks.chosen.as_ref()?.read.requests.as_ref()
    }
}

/// A pod's identity, its phase, and its requirements when it was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Life {
    pub(super) uid: Uuid,
    /// The pod's phase.
    pub phase: Phase,
    /// The pod's requirements.
    pub template: TemplateId,
    /// The fields that few pods have.
    pub(super) rare: Option<Arc<Rare>>,
}

/// The fields that few pods have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Rare {
    /// A uid that is not a UUID in its usual form.
    uid: Box<str>,
    deletion_timestamp: Option<(i64, i32)>,
    /// The node that the pod is nominated to; empty if it is to none.
    nominated_node: Box<str>,
}

/// The phases of a pod (core/v1 PodPhase).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Phase {
    /// The phase is missing.
    Unset,
    /// Accepted, not yet running.
    Pending,
    /// Running.
    Running,
    /// Ended well.
    Succeeded,
    /// Ended badly.
    Failed,
    /// The pod's node does not answer.
    Unknown,
}

/// A part of a valid pod, as text.
fn text(part: &[u8]) -> &str {
    std::str::from_utf8(part).expect("the parts of a valid pod are texts")
}

impl Phase {
    const ALL: [(Self, &'static str); 6] = [
        (Self::Unset, ""),
        (Self::Pending, "Pending"),
        (Self::Running, "Running"),
        (Self::Succeeded, "Succeeded"),
        (Self::Failed, "Failed"),
        (Self::Unknown, "Unknown"),
    ];

    /// The phase of this name in Kubernetes.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let named = Self::ALL.iter().find(|(_, name)| name.as_bytes() == text);
        named.map(|(phase, _)| *phase)
    }

    /// Kubernetes' name of the phase.
    pub(super) fn as_str(self) -> &'static str {
        let name = Self::ALL.iter().find(|(phase, _)| *phase == self);
        name.expect("every phase has a name").1
    }
}

impl Life {
    /// Reads the life of a pod, without the template; `None` when its phase is unknown.
    pub fn of(parts: &PodParts<'_>) -> Option<Self> {
        let phase = Phase::parse(parts.phase)?;
        let uid_text = parts.uid;
        // Most pods have a UUID in its usual form.
        let may_be_usual =
            uid_text.len() == Hyphenated::LENGTH && !uid_text.iter().any(u8::is_ascii_uppercase);
        let uid = Some(uid_text).filter(|_| may_be_usual);
        let uid = uid.and_then(|text| Uuid::try_parse_ascii(text).ok());
        // A missing uid is different from the one of all zeros.
        let uid = uid.filter(|uid| !uid.is_nil());
        let rare = Rare {
            uid: match uid {
                Some(_) => Box::default(),
                None => text(uid_text).into(),
            },
            deletion_timestamp: parts.deletion,
            nominated_node: text(parts.nominated_node_name).into(),
        };
        Some(Self {
            uid: uid.unwrap_or_default(),
            phase,
            template: TemplateId::ABSENT,
            rare: (rare != Rare::default()).then(|| Arc::new(rare)),
        })
    }

    /// The same life with a template.
    pub fn with_template(&self, template: TemplateId) -> Self {
        Self {
            template,
            ..self.clone()
        }
    }

    /// Returns whether the pod counts on its node: neither terminating nor finished.
    pub fn counts(&self) -> bool {
        self.deletion().is_none() && self.takes_room()
    }

    /// Returns whether the pod would count if it were not being deleted.
    pub fn is_terminating(&self) -> bool {
        self.deletion().is_some() && self.takes_room()
    }

    /// Returns whether the pod takes room on its node: until it has finished, even while it
    /// terminates.
    pub fn takes_room(&self) -> bool {
        !matches!(self.phase, Phase::Succeeded | Phase::Failed)
    }

    /// Returns the pod's deletion time: seconds and nanoseconds.
    pub(super) fn deletion(&self) -> Option<(i64, i32)> {
        self.rare.as_ref()?.deletion_timestamp
    }

    /// The uid; empty when unknown.
    pub fn uid(&self) -> String {
        match &self.rare {
            Some(rare) if !rare.uid.is_empty() => rare.uid.to_string(),
            _ if self.uid.is_nil() => String::new(),
            _ => self.uid.to_string(),
        }
    }

    /// The node that the pod is nominated to; empty if it is to none.
    pub fn nominated_node(&self) -> &str {
        self.rare.as_ref().map_or("", |rare| &rare.nominated_node)
    }

    /// Returns the length of the uid.
    pub fn uid_length(&self) -> usize {
        match &self.rare {
            Some(rare) if !rare.uid.is_empty() => rare.uid.len(),
            _ if self.uid.is_nil() => 0,
            _ => Hyphenated::LENGTH,
        }
    }

    /// The pod for the wire, without its requirements.
    pub fn to_wire(&self, metadata: v1::ObjectMeta, node_name: &str) -> v1::Pod {
        v1::Pod {
            metadata: Some(v1::ObjectMeta {
                uid: self.uid(),
                deletion_timestamp: self
                    .deletion()
                    .map(|(seconds, nanos)| pbjson_types::Timestamp { seconds, nanos }),
                ..metadata
            }),
            spec: Some(v1::PodSpec {
                node_name: node_name.to_owned(),
                ..Default::default()
            }),
            status: Some(v1::PodStatus {
                phase: self.phase.as_str().to_owned(),
                nominated_node_name: self.nominated_node().to_owned(),
                ..Default::default()
            }),
        }
    }
}
