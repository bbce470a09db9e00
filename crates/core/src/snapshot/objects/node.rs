//! A node that exists.

use super::symbols::{InternedLabels, Symbol, Symbols};
use crate::matching::{Allocatable, Features, Path, Taint, Violations};
use crate::proto::v1;

/// A node that exists.
#[derive(Debug, Clone)]
pub(in crate::snapshot) struct StoredNode {
    pub name: Symbol,
    pub uid: Box<str>,
    pub labels: InternedLabels,
    pub compiled: CompiledNode,
}

/// The compiled form of a node on the wire.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CompiledNode {
    /// True if the node is cordoned.
    pub unschedulable: bool,
    /// The node's taints.
    pub taints: Box<[Taint]>,
    /// The resources that pods may request from it.
    pub allocatable: Option<Allocatable>,
    /// The features that the node declares.
    pub features: Features,
}

impl CompiledNode {
    /// Checks and compiles a node, which is at `path`.
    pub fn compile(wire: &v1::Node, path: Path<'_>, faults: &mut Violations) -> Self {
        let taints = wire.spec.as_ref().map_or(&[][..], |spec| &spec.taints);
        let taints = Taint::compile(taints, path.field("spec.taints"), faults);
        let allocatable = wire.status.as_ref().and_then(|wire| {
            Allocatable::compile(&wire.allocatable, path.field("status.allocatable"), faults)
        });
        let features = wire.status.as_ref().map(|it| &*it.declared_features);
        Self {
            unschedulable: wire.spec.as_ref().is_some_and(|it| it.unschedulable),
            features: features.map_or(Features::NONE, Features::declared),
            taints,
            allocatable,
        }
    }
}

/// An existing node together with the table of its strings.
#[derive(Debug, Clone, Copy)]
pub struct NodeRef<'a> {
    pub(super) node: &'a StoredNode,
    pub(super) symbols: &'a Symbols,
}

impl<'a> NodeRef<'a> {
    /// The name.
    pub fn name(self) -> &'a str {
        self.symbols.text(self.node.name)
    }

    /// The uid; empty when unknown.
    pub(in crate::snapshot) fn uid(self) -> &'a str {
        &self.node.uid
    }

    /// The taints.
    pub fn taints(self) -> &'a [Taint] {
        &self.node.compiled.taints
    }

    /// Returns whether the node is cordoned.
    pub fn unschedulable(self) -> bool {
        self.node.compiled.unschedulable
    }

    /// Returns the resources that pods may request.
    pub fn allocatable(self) -> Option<&'a Allocatable> {
        self.node.compiled.allocatable.as_ref()
    }

    /// The features that the node declares.
    pub fn features(self) -> Features {
        self.node.compiled.features
    }

    /// The value of a label, given the symbol of its key.
    pub fn label(self, key: Symbol) -> Option<Symbol> {
        self.symbols.label_value(&self.node.labels, key).copied()
    }

    /// The value of a label.
    pub fn label_text(self, key: &str) -> Option<&'a str> {
        let value = self.symbols.label_text(&self.node.labels, key)?;
        Some(self.symbols.text(*value))
    }

    /// The labels.
    pub fn label_texts(self) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.symbols.label_texts(&self.node.labels)
    }

    fn status_to_wire(self) -> Option<v1::NodeStatus> {
        let has = self.allocatable();
        let features = self.features();
        (has.is_some() || !features.is_empty()).then(|| v1::NodeStatus {
            allocatable: has.map(Allocatable::to_wire).unwrap_or_default(),
            declared_features: features.names().map(str::to_owned).collect(),
        })
    }

    /// The node for the wire.
    pub fn to_wire(self) -> v1::Node {
        let text = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
        let taint = |taint: &Taint| v1::Taint {
            key: taint.key.to_string(),
            value: taint.value.to_string(),
            effect: taint.effect.as_str().to_owned(),
            time_added: taint
                .time_added
                .map(|seconds| pbjson_types::Timestamp { seconds, nanos: 0 }),
        };
        v1::Node {
            metadata: Some(v1::ObjectMeta {
                name: self.name().to_owned(),
                uid: self.node.uid.to_string(),
                labels: self.label_texts().map(text).collect(),
                ..Default::default()
            }),
            spec: Some(v1::NodeSpec {
                unschedulable: self.unschedulable(),
                taints: self.taints().iter().map(taint).collect(),
            }),
            status: self.status_to_wire(),
        }
    }
}
