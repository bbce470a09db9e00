//! Reads requests about one pod. The pod itself is read only if no question about the same pod is
//! kept.

use std::collections::BTreeMap;

use prost::Message;

use crate::decision_log::LoggedRequest;
use crate::proto::encoded::Encoded;
use crate::proto::v1;
use crate::proto::wire::WireFields;

/// The fields of requests about one pod besides the pod. They are those of `ScoreRequest`; all such
/// requests share their numbers and meanings.
#[derive(Clone, PartialEq, Message)]
pub struct DecisionFields {
    /// Name of the snapshot.
    #[prost(string, tag = "1")]
    pub snapshot: String,
    /// Nodes to decide about.
    #[prost(message, optional, tag = "3")]
    pub candidates: Option<v1::NodeNames>,
    /// The checks that nodes have to pass.
    #[prost(enumeration = "v1::NodeChecks", tag = "4")]
    pub node_checks: i32,
    /// The extent of the answer.
    #[prost(enumeration = "v1::View", tag = "5")]
    pub view: i32,
    /// The revision to wait for.
    #[prost(int64, tag = "6")]
    pub min_revision: i64,
    /// Changes that the decision assumes.
    #[prost(message, repeated, tag = "7")]
    pub overlay: Vec<v1::Change>,
    /// The dialect that decides.
    #[prost(enumeration = "v1::Dialect", tag = "8")]
    pub dialect: i32,
    /// The number of domains to list.
    #[prost(int32, optional, tag = "9")]
    pub max_domains: Option<i32>,
    /// The number of nodes to list; 0 in requests without the field.
    #[prost(int32, tag = "10")]
    pub top: i32,
    /// The epoch of that revision.
    #[prost(string, tag = "11")]
    pub epoch: String,
    /// The resource versions to wait for, by kind.
    #[prost(btree_map = "string, uint64", tag = "12")]
    pub min_resource_versions: BTreeMap<String, u64>,
    /// The number of pods that wait; 0 in requests without the field.
    #[prost(int32, tag = "13")]
    pub waiting: i32,
}

/// A request about one pod.
pub trait PodRequest: Message + Default + Into<LoggedRequest> {
    /// True if the request has the field `top`.
    const HAS_TOP: bool;

    /// The pod, and the other fields.
    fn parts(self) -> (Option<v1::Pod>, DecisionFields);
}

macro_rules! about_one_pod {
    ($($request:ident: $has_top:literal, $top:expr, $waiting:expr;)*) => {$(
        impl PodRequest for v1::$request {
            const HAS_TOP: bool = $has_top;

            fn parts(self) -> (Option<v1::Pod>, DecisionFields) {
                let (top, waiting) = ($top(&self), $waiting(&self));
                let fields = DecisionFields {
                    snapshot: self.snapshot,
                    candidates: self.candidates,
                    node_checks: self.node_checks,
                    view: self.view,
                    min_revision: self.min_revision,
                    overlay: self.overlay,
                    dialect: self.dialect,
                    max_domains: self.max_domains,
                    top,
                    epoch: self.epoch,
                    waiting,
                    min_resource_versions: self.min_resource_versions,
                };
                (self.pod, fields)
            }
        }
    )*};
}

about_one_pod! {
    FilterRequest: false, |_: &Self| 0, |_: &Self| 0;
    ScoreRequest: true, |request: &Self| request.top, |_: &Self| 0;
    ExplainRequest: false, |_: &Self| 0, |request: &Self| request.waiting;
}

/// The key of an encoded request among the kept questions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outline<'a> {
    /// The name of the snapshot, which may be no valid text.
    pub snapshot: &'a [u8],
    /// The encoded pod.
    pub pod: &'a [u8],
    /// The number of the dialect.
    pub dialect: i32,
}

impl<'a> Outline<'a> {
    /// The outline of a request, whose other fields are skipped. `None` if the request has to be
    /// decoded for that: it has no pod, or parts of a pod that decoding merges.
    pub fn of(bytes: &'a [u8]) -> Option<Self> {
        let mut pod = None;
        let mut outline = Self {
            snapshot: &[],
            pod: &[],
            dialect: 0,
        };
        let mut fields = WireFields::new(bytes);
        while let Some(field) = fields.next()? {
            match (field.number, fields.content(&field)) {
                (1, Some(name)) => outline.snapshot = name,
                (2, Some(_)) if pod.is_some() => return None,
                (2, Some(bytes)) => pod = Some(bytes),
                // Decoding shortens the number in the same way.
                (8, None) => outline.dialect = fields.number(&field)? as i32,
                _ => {}
            }
        }
        Some(Self {
            pod: pod?,
            ..outline
        })
    }
}

/// The fields besides the pod, for a request whose pod is known to be valid. `None` if decoding has
/// to find the fault.
pub fn fields_of<M: PodRequest>(encoded: &Encoded<M>) -> Option<DecisionFields> {
    let mut fields = DecisionFields::decode(&*encoded.bytes).ok()?;
    if !M::HAS_TOP {
        fields.top = 0;
    }
    Some(fields)
}

#[cfg(test)]
mod tests {
    use prost_types::FileDescriptorSet;

    use super::*;

    /// Fails if a field that is added to a request is not read here, too.
    #[test]
    fn all_fields_are_known() {
        let files = FileDescriptorSet::decode(v1::FILE_DESCRIPTOR_SET).expect("descriptors");
        let messages = files.file.iter().flat_map(|file| &file.message_type);
        let fields = |name: &str| -> Vec<(i32, String)> {
            let mut found = messages.clone().filter(|message| message.name() == name);
            let fields = &found.next().expect("a message").field;
            let fields = fields.iter().map(|f| (f.number(), f.name().to_owned()));
            fields.collect()
        };
        let known = [
            "snapshot",
            "pod",
            "candidates",
            "node_checks",
            "view",
            "min_revision",
            "overlay",
            "dialect",
            "max_domains",
            "top",
            "epoch",
            "min_resource_versions",
        ];
        let known: Vec<(i32, String)> = (1..).zip(known.map(str::to_owned)).collect();
        assert_eq!(fields("ScoreRequest"), known);
        let mut without_top = known;
        without_top.remove(9);
        assert_eq!(fields("FilterRequest"), without_top);
    }
}
