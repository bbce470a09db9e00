//! Amounts of resources as objects have them.

/// A `google.protobuf.StringValue`, which has the bytes of Kubernetes'
/// `resource.Quantity`. In JSON it is the text, or a number as manifests give it.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct QuantityText {
    /// A decimal number of at least 0 with an optional suffix, as `kubernetes.proto`
    /// says.
    #[prost(string, tag = "1")]
    pub string: String,
}
