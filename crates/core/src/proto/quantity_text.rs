//! The amounts of resources in objects.

/// A `google.protobuf.StringValue`. Its bytes are the same as those of Kubernetes'
/// `resource.Quantity`. In JSON it is a text, or a number as in manifests.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct QuantityText {
    /// A decimal number of at least 0 with an optional suffix, as `kubernetes.proto` defines it.
    #[prost(string, tag = "1")]
    pub string: String,
}
