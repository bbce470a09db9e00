//! Requests about one pod, as they are read: the pod only if no question about
//! the same one is kept.

use prost::Message;

use crate::decision_log::LoggedRequest;
use crate::proto::encoded::Encoded;
use crate::proto::v1;
use crate::proto::wire::WireFields;

/// What requests about one pod say besides the pod: the fields of
/// `ScoreRequest`, whose numbers and meanings all of them share.
#[derive(Clone, PartialEq, Message)]
pub struct DecisionFields {
    /// Name of the snapshot.
    #[prost(string, tag = "1")]
    pub snapshot: String,
    /// Nodes to decide about.
    #[prost(message, optional, tag = "3")]
    pub candidates: Option<v1::NodeNames>,
    /// What nodes are checked for.
    #[prost(enumeration = "v1::NodeChecks", tag = "4")]
    pub node_checks: i32,
    /// How much to answer.
    #[prost(enumeration = "v1::View", tag = "5")]
    pub view: i32,
    /// Which revision to wait for.
    #[prost(int64, tag = "6")]
    pub min_revision: i64,
    /// Changes to decide with.
    #[prost(message, repeated, tag = "7")]
    pub overlay: Vec<v1::Change>,
    /// Which rules decide.
    #[prost(enumeration = "v1::Dialect", tag = "8")]
    pub dialect: i32,
    /// How many domains to list.
    #[prost(int32, optional, tag = "9")]
    pub max_domains: Option<i32>,
    /// How many nodes to list; 0 in requests without it.
    #[prost(int32, tag = "10")]
    pub top: i32,
    /// The epoch of that revision.
    #[prost(string, tag = "11")]
    pub epoch: String,
}

/// A request about one pod.
pub trait AboutOnePod: Message + Default + Into<LoggedRequest> {
    /// Whether it has the field `top`.
    const HAS_TOP: bool;

    /// The pod, and all else.
    fn parts(self) -> (Option<v1::Pod>, DecisionFields);
}

macro_rules! about_one_pod {
    ($($request:ident: $has_top:literal, $top:expr;)*) => {$(
        impl AboutOnePod for v1::$request {
            const HAS_TOP: bool = $has_top;

            fn parts(self) -> (Option<v1::Pod>, DecisionFields) {
                let top = $top(&self);
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
                };
                (self.pod, fields)
            }
        }
    )*};
}

about_one_pod! {
    FilterRequest: false, |_: &Self| 0;
    ScoreRequest: true, |request: &Self| request.top;
    ExplainRequest: false, |_: &Self| 0;
}

/// What finds the question of an encoded request among those that are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outline<'a> {
    /// The name of the snapshot, which may be no text.
    pub snapshot: &'a [u8],
    /// The encoded pod.
    pub pod: &'a [u8],
    /// The number of the dialect.
    pub dialect: i32,
}

impl<'a> Outline<'a> {
    /// That of a request, whose other fields are passed over. `None` if it has
    /// to be decoded to know that: without a pod, or with parts of one, which
    /// decoding puts together.
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
                // As decoding shortens it.
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

/// The fields besides the pod, of a request whose pod is known to be one.
/// `None`: decoding it will tell what is wrong.
pub fn fields_of<M: AboutOnePod>(encoded: &Encoded<M>) -> Option<DecisionFields> {
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

    /// A field that is added to a request is read here too.
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
        ];
        let known: Vec<(i32, String)> = (1..).zip(known.map(str::to_owned)).collect();
        assert_eq!(fields("ScoreRequest"), known);
        let mut without_top = known;
        without_top.remove(9);
        assert_eq!(fields("FilterRequest"), without_top);
    }
}
