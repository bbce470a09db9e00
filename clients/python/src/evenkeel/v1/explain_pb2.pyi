from evenkeel.v1 import kubernetes_pb2 as _kubernetes_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Hint(_message.Message):
    __slots__ = ("kind", "message", "constraint_index", "domain", "other_constraint_index", "admitted_node_count", "suggested_constraint", "domain_changes", "shortage")
    class Kind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        KIND_UNSPECIFIED: _ClassVar[Hint.Kind]
        KIND_SELF_MISMATCH: _ClassVar[Hint.Kind]
        KIND_EMPTY_SELECTOR: _ClassVar[Hint.Kind]
        KIND_UNUSABLE_DOMAIN: _ClassVar[Hint.Kind]
        KIND_MIN_DOMAINS: _ClassVar[Hint.Kind]
        KIND_MISSING_KEY: _ClassVar[Hint.Kind]
        KIND_EMPTY_VALUE: _ClassVar[Hint.Kind]
        KIND_MIXED_REVISIONS: _ClassVar[Hint.Kind]
        KIND_TERMINATING_PODS: _ClassVar[Hint.Kind]
        KIND_FEWER_PODS: _ClassVar[Hint.Kind]
        KIND_MORE_PODS: _ClassVar[Hint.Kind]
        KIND_MAX_SKEW: _ClassVar[Hint.Kind]
        KIND_CONFLICT: _ClassVar[Hint.Kind]
        KIND_SOFT: _ClassVar[Hint.Kind]
        KIND_FLEET_SKEW_TOO_LARGE: _ClassVar[Hint.Kind]
        KIND_FLEET_UNUSABLE_DOMAIN: _ClassVar[Hint.Kind]
        KIND_FLEET_GREEDY: _ClassVar[Hint.Kind]
        KIND_ROOM: _ClassVar[Hint.Kind]
        KIND_NOMINATED_PODS: _ClassVar[Hint.Kind]
        KIND_POD_AFFINITY: _ClassVar[Hint.Kind]
        KIND_VOLUMES: _ClassVar[Hint.Kind]
        KIND_ONE_DOMAIN: _ClassVar[Hint.Kind]
        KIND_PREEMPTION: _ClassVar[Hint.Kind]
        KIND_OTHER_WORKLOADS: _ClassVar[Hint.Kind]
        KIND_UNCOUNTED_PODS: _ClassVar[Hint.Kind]
    KIND_UNSPECIFIED: Hint.Kind
    KIND_SELF_MISMATCH: Hint.Kind
    KIND_EMPTY_SELECTOR: Hint.Kind
    KIND_UNUSABLE_DOMAIN: Hint.Kind
    KIND_MIN_DOMAINS: Hint.Kind
    KIND_MISSING_KEY: Hint.Kind
    KIND_EMPTY_VALUE: Hint.Kind
    KIND_MIXED_REVISIONS: Hint.Kind
    KIND_TERMINATING_PODS: Hint.Kind
    KIND_FEWER_PODS: Hint.Kind
    KIND_MORE_PODS: Hint.Kind
    KIND_MAX_SKEW: Hint.Kind
    KIND_CONFLICT: Hint.Kind
    KIND_SOFT: Hint.Kind
    KIND_FLEET_SKEW_TOO_LARGE: Hint.Kind
    KIND_FLEET_UNUSABLE_DOMAIN: Hint.Kind
    KIND_FLEET_GREEDY: Hint.Kind
    KIND_ROOM: Hint.Kind
    KIND_NOMINATED_PODS: Hint.Kind
    KIND_POD_AFFINITY: Hint.Kind
    KIND_VOLUMES: Hint.Kind
    KIND_ONE_DOMAIN: Hint.Kind
    KIND_PREEMPTION: Hint.Kind
    KIND_OTHER_WORKLOADS: Hint.Kind
    KIND_UNCOUNTED_PODS: Hint.Kind
    KIND_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    CONSTRAINT_INDEX_FIELD_NUMBER: _ClassVar[int]
    DOMAIN_FIELD_NUMBER: _ClassVar[int]
    OTHER_CONSTRAINT_INDEX_FIELD_NUMBER: _ClassVar[int]
    ADMITTED_NODE_COUNT_FIELD_NUMBER: _ClassVar[int]
    SUGGESTED_CONSTRAINT_FIELD_NUMBER: _ClassVar[int]
    DOMAIN_CHANGES_FIELD_NUMBER: _ClassVar[int]
    SHORTAGE_FIELD_NUMBER: _ClassVar[int]
    kind: Hint.Kind
    message: str
    constraint_index: int
    domain: str
    other_constraint_index: int
    admitted_node_count: int
    suggested_constraint: _kubernetes_pb2.TopologySpreadConstraint
    domain_changes: _containers.RepeatedCompositeFieldContainer[DomainChange]
    shortage: Shortage
    def __init__(self, kind: _Optional[_Union[Hint.Kind, str]] = ..., message: _Optional[str] = ..., constraint_index: _Optional[int] = ..., domain: _Optional[str] = ..., other_constraint_index: _Optional[int] = ..., admitted_node_count: _Optional[int] = ..., suggested_constraint: _Optional[_Union[_kubernetes_pb2.TopologySpreadConstraint, _Mapping]] = ..., domain_changes: _Optional[_Iterable[_Union[DomainChange, _Mapping]]] = ..., shortage: _Optional[_Union[Shortage, _Mapping]] = ...) -> None: ...

class Shortage(_message.Message):
    __slots__ = ("resource", "requested", "node_count", "too_small_node_count", "missing", "nodes")
    RESOURCE_FIELD_NUMBER: _ClassVar[int]
    REQUESTED_FIELD_NUMBER: _ClassVar[int]
    NODE_COUNT_FIELD_NUMBER: _ClassVar[int]
    TOO_SMALL_NODE_COUNT_FIELD_NUMBER: _ClassVar[int]
    MISSING_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    resource: str
    requested: str
    node_count: int
    too_small_node_count: int
    missing: str
    nodes: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, resource: _Optional[str] = ..., requested: _Optional[str] = ..., node_count: _Optional[int] = ..., too_small_node_count: _Optional[int] = ..., missing: _Optional[str] = ..., nodes: _Optional[_Iterable[str]] = ...) -> None: ...

class DomainChange(_message.Message):
    __slots__ = ("value", "pods")
    VALUE_FIELD_NUMBER: _ClassVar[int]
    PODS_FIELD_NUMBER: _ClassVar[int]
    value: str
    pods: int
    def __init__(self, value: _Optional[str] = ..., pods: _Optional[int] = ...) -> None: ...

class ConstraintInsight(_message.Message):
    __slots__ = ("constraint_index", "minimum", "minimum_domains", "minimum_domain_count", "limit", "admitted_node_count", "left_out", "domains")
    class Minimum(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        MINIMUM_UNSPECIFIED: _ClassVar[ConstraintInsight.Minimum]
        MINIMUM_BY_DOMAINS: _ClassVar[ConstraintInsight.Minimum]
        MINIMUM_BY_MIN_DOMAINS: _ClassVar[ConstraintInsight.Minimum]
        MINIMUM_WITHOUT_DOMAINS: _ClassVar[ConstraintInsight.Minimum]
    MINIMUM_UNSPECIFIED: ConstraintInsight.Minimum
    MINIMUM_BY_DOMAINS: ConstraintInsight.Minimum
    MINIMUM_BY_MIN_DOMAINS: ConstraintInsight.Minimum
    MINIMUM_WITHOUT_DOMAINS: ConstraintInsight.Minimum
    CONSTRAINT_INDEX_FIELD_NUMBER: _ClassVar[int]
    MINIMUM_FIELD_NUMBER: _ClassVar[int]
    MINIMUM_DOMAINS_FIELD_NUMBER: _ClassVar[int]
    MINIMUM_DOMAIN_COUNT_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    ADMITTED_NODE_COUNT_FIELD_NUMBER: _ClassVar[int]
    LEFT_OUT_FIELD_NUMBER: _ClassVar[int]
    DOMAINS_FIELD_NUMBER: _ClassVar[int]
    constraint_index: int
    minimum: ConstraintInsight.Minimum
    minimum_domains: _containers.RepeatedScalarFieldContainer[str]
    minimum_domain_count: int
    limit: int
    admitted_node_count: int
    left_out: _containers.RepeatedCompositeFieldContainer[LeftOut]
    domains: _containers.RepeatedCompositeFieldContainer[DomainInsight]
    def __init__(self, constraint_index: _Optional[int] = ..., minimum: _Optional[_Union[ConstraintInsight.Minimum, str]] = ..., minimum_domains: _Optional[_Iterable[str]] = ..., minimum_domain_count: _Optional[int] = ..., limit: _Optional[int] = ..., admitted_node_count: _Optional[int] = ..., left_out: _Optional[_Iterable[_Union[LeftOut, _Mapping]]] = ..., domains: _Optional[_Iterable[_Union[DomainInsight, _Mapping]]] = ...) -> None: ...

class LeftOut(_message.Message):
    __slots__ = ("cause", "node_count", "nodes", "matching_pods")
    class Cause(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        CAUSE_UNSPECIFIED: _ClassVar[LeftOut.Cause]
        CAUSE_MISSING_KEY: _ClassVar[LeftOut.Cause]
        CAUSE_MISSING_OTHER_KEY: _ClassVar[LeftOut.Cause]
        CAUSE_NODE_AFFINITY: _ClassVar[LeftOut.Cause]
        CAUSE_TAINTS: _ClassVar[LeftOut.Cause]
    CAUSE_UNSPECIFIED: LeftOut.Cause
    CAUSE_MISSING_KEY: LeftOut.Cause
    CAUSE_MISSING_OTHER_KEY: LeftOut.Cause
    CAUSE_NODE_AFFINITY: LeftOut.Cause
    CAUSE_TAINTS: LeftOut.Cause
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    NODE_COUNT_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    MATCHING_PODS_FIELD_NUMBER: _ClassVar[int]
    cause: LeftOut.Cause
    node_count: int
    nodes: _containers.RepeatedScalarFieldContainer[str]
    matching_pods: int
    def __init__(self, cause: _Optional[_Union[LeftOut.Cause, str]] = ..., node_count: _Optional[int] = ..., nodes: _Optional[_Iterable[str]] = ..., matching_pods: _Optional[int] = ...) -> None: ...

class DomainInsight(_message.Message):
    __slots__ = ("value", "matching_pods_after", "usable_node_count")
    VALUE_FIELD_NUMBER: _ClassVar[int]
    MATCHING_PODS_AFTER_FIELD_NUMBER: _ClassVar[int]
    USABLE_NODE_COUNT_FIELD_NUMBER: _ClassVar[int]
    value: str
    matching_pods_after: int
    usable_node_count: int
    def __init__(self, value: _Optional[str] = ..., matching_pods_after: _Optional[int] = ..., usable_node_count: _Optional[int] = ...) -> None: ...
