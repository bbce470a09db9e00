//! How a pod is kept: a handful of integers.

use std::sync::Arc;

use uuid::Uuid;

use super::label_sets::LabelSetId;
use super::slots::Slot;
use super::templates::TemplateId;
use crate::account::heap;
use crate::matching::{Path, Requests, Violations};
use crate::proto::v1;

/// A pod that exists, without its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodRecord {
    /// Its labels.
    pub labels: LabelSetId,
    /// The node that it names, if any.
    pub node: Option<Slot>,
    /// Its identity and how far it has come.
    pub life: Life,
}

/// What is compiled of a pod on the wire.
#[derive(Debug, Clone)]
pub struct CompiledPod {
    /// Its identity and how far it has come, without its template.
    pub life: Life,
    /// What it requests of its node, if anything.
    pub requests: Option<Arc<Requests>>,
}

impl CompiledPod {
    /// Checks and compiles a pod, which is at `path`. `None` when its phase is
    /// unknown.
    pub fn compile(wire: &v1::Pod, path: Path<'_>, faults: &mut Violations) -> Option<Self> {
        let requests = Requests::compile_existing(wire, path, faults);
        Some(Self {
            life: Life::of(wire)?,
            requests: (!requests.is_empty()).then(|| Arc::new(requests)),
        })
    }
}

/// Which incarnation of a pod it is, how far that has come, and what it asked
/// for when it was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Life {
    uid: Uuid,
    phase: Phase,
    /// Here because it fits beside the phase.
    pub template: TemplateId,
    /// What few pods have.
    rare: Option<Box<Rare>>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Rare {
    /// A uid that is not a UUID in its usual form.
    uid: Box<str>,
    deletion_timestamp: Option<(i64, i32)>,
    /// The node that it is nominated to; empty if it is to none.
    nominated_node: Box<str>,
}

/// The phases of a pod (core/v1 PodPhase).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Not said.
    Unset,
    /// Accepted, not yet running.
    Pending,
    /// Running.
    Running,
    /// Ended well.
    Succeeded,
    /// Ended badly.
    Failed,
    /// Its node does not answer.
    Unknown,
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

    /// The phase that Kubernetes calls so.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL
            .iter()
            .find(|(_, name)| *name == text)
            .map(|(phase, _)| *phase)
    }

    fn as_str(self) -> &'static str {
        let name = Self::ALL.iter().find(|(phase, _)| *phase == self);
        name.expect("every phase has a name").1
    }
}

impl Life {
    /// Reads it from a pod, without the template; `None` when its phase is
    /// unknown.
    pub fn of(wire: &v1::Pod) -> Option<Self> {
        let metadata = wire.metadata.as_ref();
        let status = wire.status.as_ref();
        let phase = Phase::parse(status.map_or("", |s| &s.phase))?;
        let uid_text = metadata.map_or("", |m| &m.uid);
        let uid = Uuid::try_parse(uid_text).unwrap_or_default();
        // Without a uid there is none, which is not the one of all zeros.
        let usual = !uid.is_nil()
            && *uid_text == *uid.as_hyphenated().encode_lower(&mut Uuid::encode_buffer());
        let deletion = metadata.and_then(|m| m.deletion_timestamp.as_ref());
        let rare = Rare {
            uid: if usual {
                Box::default()
            } else {
                uid_text.into()
            },
            deletion_timestamp: deletion.map(|t| (t.seconds, t.nanos)),
            nominated_node: status.map_or("", |s| &s.nominated_node_name).into(),
        };
        Some(Self {
            uid: if usual { uid } else { Uuid::nil() },
            phase,
            template: TemplateId::ABSENT,
            rare: (rare != Rare::default()).then(|| Box::new(rare)),
        })
    }

    /// The same with a template.
    pub fn with_template(&self, template: TemplateId) -> Self {
        Self {
            template,
            ..self.clone()
        }
    }

    /// Whether the pod counts on its node: neither terminating nor finished.
    pub fn counts(&self) -> bool {
        !self.is_deleted() && !self.is_finished()
    }

    /// Whether the pod would count if it were not being deleted.
    pub fn is_terminating(&self) -> bool {
        self.is_deleted() && !self.is_finished()
    }

    /// Whether it takes room on its node: until it has finished, even while it
    /// terminates.
    pub fn takes_room(&self) -> bool {
        !self.is_finished()
    }

    fn is_deleted(&self) -> bool {
        let rare = self.rare.as_ref();
        rare.is_some_and(|rare| rare.deletion_timestamp.is_some())
    }

    fn is_finished(&self) -> bool {
        matches!(self.phase, Phase::Succeeded | Phase::Failed)
    }

    /// The uid; empty when unknown.
    pub fn uid(&self) -> String {
        match &self.rare {
            Some(rare) if !rare.uid.is_empty() => rare.uid.to_string(),
            _ if self.uid.is_nil() => String::new(),
            _ => self.uid.to_string(),
        }
    }

    /// The pod for the wire, without what it asks for.
    pub fn to_wire(&self, metadata: v1::ObjectMeta, node_name: &str) -> v1::Pod {
        let rare = self.rare.as_deref();
        let deletion = rare.and_then(|rare| rare.deletion_timestamp);
        v1::Pod {
            metadata: Some(v1::ObjectMeta {
                uid: self.uid(),
                deletion_timestamp: deletion
                    .map(|(seconds, nanos)| pbjson_types::Timestamp { seconds, nanos }),
                ..metadata
            }),
            spec: Some(v1::PodSpec {
                node_name: node_name.to_owned(),
                ..Default::default()
            }),
            status: Some(v1::PodStatus {
                phase: self.phase.as_str().to_owned(),
                nominated_node_name: rare.map_or("", |rare| &rare.nominated_node).to_owned(),
                ..Default::default()
            }),
        }
    }

    /// What it takes on the heap, in bytes.
    pub fn heap_bytes(&self) -> usize {
        self.rare.as_ref().map_or(0, |rare| {
            heap::list::<Rare>(1)
                + heap::block(rare.uid.len())
                + heap::block(rare.nominated_node.len())
        })
    }
}
