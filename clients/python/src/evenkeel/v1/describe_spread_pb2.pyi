import datetime

from evenkeel.v1 import kubernetes_pb2 as _kubernetes_pb2
from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class DefaultsKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DEFAULTS_KIND_UNSPECIFIED: _ClassVar[DefaultsKind]
    DEFAULTS_KIND_SYSTEM: _ClassVar[DefaultsKind]
    DEFAULTS_KIND_LIST: _ClassVar[DefaultsKind]
DEFAULTS_KIND_UNSPECIFIED: DefaultsKind
DEFAULTS_KIND_SYSTEM: DefaultsKind
DEFAULTS_KIND_LIST: DefaultsKind

class DescribeSpreadRequest(_message.Message):
    __slots__ = ("snapshot", "namespace", "workload", "selector", "topology_key", "min_revision", "max_domains", "page_size", "page_token", "epoch", "list_pods")
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    WORKLOAD_FIELD_NUMBER: _ClassVar[int]
    SELECTOR_FIELD_NUMBER: _ClassVar[int]
    TOPOLOGY_KEY_FIELD_NUMBER: _ClassVar[int]
    MIN_REVISION_FIELD_NUMBER: _ClassVar[int]
    MAX_DOMAINS_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    LIST_PODS_FIELD_NUMBER: _ClassVar[int]
    snapshot: str
    namespace: str
    workload: WorkloadName
    selector: _kubernetes_pb2.LabelSelector
    topology_key: str
    min_revision: int
    max_domains: int
    page_size: int
    page_token: str
    epoch: str
    list_pods: bool
    def __init__(self, snapshot: _Optional[str] = ..., namespace: _Optional[str] = ..., workload: _Optional[_Union[WorkloadName, _Mapping]] = ..., selector: _Optional[_Union[_kubernetes_pb2.LabelSelector, _Mapping]] = ..., topology_key: _Optional[str] = ..., min_revision: _Optional[int] = ..., max_domains: _Optional[int] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., epoch: _Optional[str] = ..., list_pods: _Optional[bool] = ...) -> None: ...

class WorkloadName(_message.Message):
    __slots__ = ("kind", "name", "selector")
    KIND_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    SELECTOR_FIELD_NUMBER: _ClassVar[int]
    kind: str
    name: str
    selector: _kubernetes_pb2.LabelSelector
    def __init__(self, kind: _Optional[str] = ..., name: _Optional[str] = ..., selector: _Optional[_Union[_kubernetes_pb2.LabelSelector, _Mapping]] = ...) -> None: ...

class DescribeSpreadResponse(_message.Message):
    __slots__ = ("revision", "epoch", "workloads", "next_page_token", "workload_count", "violating_count", "faulty_count", "coverage", "topology_keys", "unranked_count", "exceeding_count", "age", "defaults")
    REVISION_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    WORKLOADS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    WORKLOAD_COUNT_FIELD_NUMBER: _ClassVar[int]
    VIOLATING_COUNT_FIELD_NUMBER: _ClassVar[int]
    FAULTY_COUNT_FIELD_NUMBER: _ClassVar[int]
    COVERAGE_FIELD_NUMBER: _ClassVar[int]
    TOPOLOGY_KEYS_FIELD_NUMBER: _ClassVar[int]
    UNRANKED_COUNT_FIELD_NUMBER: _ClassVar[int]
    EXCEEDING_COUNT_FIELD_NUMBER: _ClassVar[int]
    AGE_FIELD_NUMBER: _ClassVar[int]
    DEFAULTS_FIELD_NUMBER: _ClassVar[int]
    revision: int
    epoch: str
    workloads: _containers.RepeatedCompositeFieldContainer[WorkloadSpread]
    next_page_token: str
    workload_count: int
    violating_count: int
    faulty_count: int
    coverage: ConstraintCoverage
    topology_keys: _containers.RepeatedCompositeFieldContainer[TopologyKey]
    unranked_count: int
    exceeding_count: int
    age: _duration_pb2.Duration
    defaults: DefaultsKind
    def __init__(self, revision: _Optional[int] = ..., epoch: _Optional[str] = ..., workloads: _Optional[_Iterable[_Union[WorkloadSpread, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., workload_count: _Optional[int] = ..., violating_count: _Optional[int] = ..., faulty_count: _Optional[int] = ..., coverage: _Optional[_Union[ConstraintCoverage, _Mapping]] = ..., topology_keys: _Optional[_Iterable[_Union[TopologyKey, _Mapping]]] = ..., unranked_count: _Optional[int] = ..., exceeding_count: _Optional[int] = ..., age: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., defaults: _Optional[_Union[DefaultsKind, str]] = ...) -> None: ...

class ConstraintCoverage(_message.Message):
    __slots__ = ("own_count", "default_count", "unconstrained_count", "single_count", "fixed_count", "in_one_zone_count", "on_one_node_count", "pending_pods", "one_domain_count", "one_domain")
    OWN_COUNT_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_COUNT_FIELD_NUMBER: _ClassVar[int]
    UNCONSTRAINED_COUNT_FIELD_NUMBER: _ClassVar[int]
    SINGLE_COUNT_FIELD_NUMBER: _ClassVar[int]
    FIXED_COUNT_FIELD_NUMBER: _ClassVar[int]
    IN_ONE_ZONE_COUNT_FIELD_NUMBER: _ClassVar[int]
    ON_ONE_NODE_COUNT_FIELD_NUMBER: _ClassVar[int]
    PENDING_PODS_FIELD_NUMBER: _ClassVar[int]
    ONE_DOMAIN_COUNT_FIELD_NUMBER: _ClassVar[int]
    ONE_DOMAIN_FIELD_NUMBER: _ClassVar[int]
    own_count: int
    default_count: int
    unconstrained_count: int
    single_count: int
    fixed_count: int
    in_one_zone_count: int
    on_one_node_count: int
    pending_pods: int
    one_domain_count: int
    one_domain: _containers.RepeatedCompositeFieldContainer[OneDomain]
    def __init__(self, own_count: _Optional[int] = ..., default_count: _Optional[int] = ..., unconstrained_count: _Optional[int] = ..., single_count: _Optional[int] = ..., fixed_count: _Optional[int] = ..., in_one_zone_count: _Optional[int] = ..., on_one_node_count: _Optional[int] = ..., pending_pods: _Optional[int] = ..., one_domain_count: _Optional[int] = ..., one_domain: _Optional[_Iterable[_Union[OneDomain, _Mapping]]] = ...) -> None: ...

class OneDomain(_message.Message):
    __slots__ = ("namespace", "kind", "name", "topology_key", "value", "effect")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    TOPOLOGY_KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    EFFECT_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    kind: str
    name: str
    topology_key: str
    value: str
    effect: str
    def __init__(self, namespace: _Optional[str] = ..., kind: _Optional[str] = ..., name: _Optional[str] = ..., topology_key: _Optional[str] = ..., value: _Optional[str] = ..., effect: _Optional[str] = ...) -> None: ...

class TopologyKey(_message.Message):
    __slots__ = ("key", "value_count", "node_count")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_COUNT_FIELD_NUMBER: _ClassVar[int]
    NODE_COUNT_FIELD_NUMBER: _ClassVar[int]
    key: str
    value_count: int
    node_count: int
    def __init__(self, key: _Optional[str] = ..., value_count: _Optional[int] = ..., node_count: _Optional[int] = ...) -> None: ...

class WorkloadSpread(_message.Message):
    __slots__ = ("namespace", "kind", "name", "labels", "pod_count", "topologies", "fault", "pending_count", "selected_count", "pods")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    POD_COUNT_FIELD_NUMBER: _ClassVar[int]
    TOPOLOGIES_FIELD_NUMBER: _ClassVar[int]
    FAULT_FIELD_NUMBER: _ClassVar[int]
    PENDING_COUNT_FIELD_NUMBER: _ClassVar[int]
    SELECTED_COUNT_FIELD_NUMBER: _ClassVar[int]
    PODS_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    kind: str
    name: str
    labels: _containers.ScalarMap[str, str]
    pod_count: int
    topologies: _containers.RepeatedCompositeFieldContainer[TopologySpread]
    fault: str
    pending_count: int
    selected_count: int
    pods: _containers.RepeatedCompositeFieldContainer[WorkloadMember]
    def __init__(self, namespace: _Optional[str] = ..., kind: _Optional[str] = ..., name: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., pod_count: _Optional[int] = ..., topologies: _Optional[_Iterable[_Union[TopologySpread, _Mapping]]] = ..., fault: _Optional[str] = ..., pending_count: _Optional[int] = ..., selected_count: _Optional[int] = ..., pods: _Optional[_Iterable[_Union[WorkloadMember, _Mapping]]] = ...) -> None: ...

class WorkloadMember(_message.Message):
    __slots__ = ("name", "node")
    NAME_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    name: str
    node: str
    def __init__(self, name: _Optional[str] = ..., node: _Optional[str] = ...) -> None: ...

class TopologySpread(_message.Message):
    __slots__ = ("topology_key", "constraint", "constraint_index", "from_defaults", "domain_count", "global_minimum", "min_domains_unmet", "skew", "excess", "outside_pods", "domains", "effect")
    TOPOLOGY_KEY_FIELD_NUMBER: _ClassVar[int]
    CONSTRAINT_FIELD_NUMBER: _ClassVar[int]
    CONSTRAINT_INDEX_FIELD_NUMBER: _ClassVar[int]
    FROM_DEFAULTS_FIELD_NUMBER: _ClassVar[int]
    DOMAIN_COUNT_FIELD_NUMBER: _ClassVar[int]
    GLOBAL_MINIMUM_FIELD_NUMBER: _ClassVar[int]
    MIN_DOMAINS_UNMET_FIELD_NUMBER: _ClassVar[int]
    SKEW_FIELD_NUMBER: _ClassVar[int]
    EXCESS_FIELD_NUMBER: _ClassVar[int]
    OUTSIDE_PODS_FIELD_NUMBER: _ClassVar[int]
    DOMAINS_FIELD_NUMBER: _ClassVar[int]
    EFFECT_FIELD_NUMBER: _ClassVar[int]
    topology_key: str
    constraint: _kubernetes_pb2.TopologySpreadConstraint
    constraint_index: int
    from_defaults: bool
    domain_count: int
    global_minimum: int
    min_domains_unmet: bool
    skew: int
    excess: int
    outside_pods: int
    domains: _containers.RepeatedCompositeFieldContainer[DomainSpread]
    effect: str
    def __init__(self, topology_key: _Optional[str] = ..., constraint: _Optional[_Union[_kubernetes_pb2.TopologySpreadConstraint, _Mapping]] = ..., constraint_index: _Optional[int] = ..., from_defaults: _Optional[bool] = ..., domain_count: _Optional[int] = ..., global_minimum: _Optional[int] = ..., min_domains_unmet: _Optional[bool] = ..., skew: _Optional[int] = ..., excess: _Optional[int] = ..., outside_pods: _Optional[int] = ..., domains: _Optional[_Iterable[_Union[DomainSpread, _Mapping]]] = ..., effect: _Optional[str] = ...) -> None: ...

class DomainSpread(_message.Message):
    __slots__ = ("value", "matching_pods", "skew", "eligible_nodes")
    VALUE_FIELD_NUMBER: _ClassVar[int]
    MATCHING_PODS_FIELD_NUMBER: _ClassVar[int]
    SKEW_FIELD_NUMBER: _ClassVar[int]
    ELIGIBLE_NODES_FIELD_NUMBER: _ClassVar[int]
    value: str
    matching_pods: int
    skew: int
    eligible_nodes: int
    def __init__(self, value: _Optional[str] = ..., matching_pods: _Optional[int] = ..., skew: _Optional[int] = ..., eligible_nodes: _Optional[int] = ...) -> None: ...
