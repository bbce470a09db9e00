import datetime

from evenkeel.v1 import describe_spread_pb2 as _describe_spread_pb2
from evenkeel.v1 import kubernetes_pb2 as _kubernetes_pb2
from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class RemovalRule(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REMOVAL_RULE_UNSPECIFIED: _ClassVar[RemovalRule]
    REMOVAL_RULE_DELETION_COST: _ClassVar[RemovalRule]
    REMOVAL_RULE_HIGHEST_ORDINALS: _ClassVar[RemovalRule]
REMOVAL_RULE_UNSPECIFIED: RemovalRule
REMOVAL_RULE_DELETION_COST: RemovalRule
REMOVAL_RULE_HIGHEST_ORDINALS: RemovalRule

class RankRemovalsRequest(_message.Message):
    __slots__ = ("snapshot", "namespace", "workload", "count", "pods", "min_revision", "max_domains", "epoch", "revisions")
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    WORKLOAD_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    PODS_FIELD_NUMBER: _ClassVar[int]
    MIN_REVISION_FIELD_NUMBER: _ClassVar[int]
    MAX_DOMAINS_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    REVISIONS_FIELD_NUMBER: _ClassVar[int]
    snapshot: str
    namespace: str
    workload: _describe_spread_pb2.WorkloadName
    count: int
    pods: _containers.RepeatedCompositeFieldContainer[PodFacts]
    min_revision: int
    max_domains: int
    epoch: str
    revisions: _containers.RepeatedCompositeFieldContainer[RevisionSize]
    def __init__(self, snapshot: _Optional[str] = ..., namespace: _Optional[str] = ..., workload: _Optional[_Union[_describe_spread_pb2.WorkloadName, _Mapping]] = ..., count: _Optional[int] = ..., pods: _Optional[_Iterable[_Union[PodFacts, _Mapping]]] = ..., min_revision: _Optional[int] = ..., max_domains: _Optional[int] = ..., epoch: _Optional[str] = ..., revisions: _Optional[_Iterable[_Union[RevisionSize, _Mapping]]] = ...) -> None: ...

class RevisionSize(_message.Message):
    __slots__ = ("hash", "replicas")
    HASH_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    hash: str
    replicas: int
    def __init__(self, hash: _Optional[str] = ..., replicas: _Optional[int] = ...) -> None: ...

class PodFacts(_message.Message):
    __slots__ = ("name", "uid", "ready", "ready_time", "deletion_cost", "restarts", "sidecar_restarts", "creation_time")
    NAME_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    READY_TIME_FIELD_NUMBER: _ClassVar[int]
    DELETION_COST_FIELD_NUMBER: _ClassVar[int]
    RESTARTS_FIELD_NUMBER: _ClassVar[int]
    SIDECAR_RESTARTS_FIELD_NUMBER: _ClassVar[int]
    CREATION_TIME_FIELD_NUMBER: _ClassVar[int]
    name: str
    uid: str
    ready: bool
    ready_time: _timestamp_pb2.Timestamp
    deletion_cost: int
    restarts: int
    sidecar_restarts: int
    creation_time: _timestamp_pb2.Timestamp
    def __init__(self, name: _Optional[str] = ..., uid: _Optional[str] = ..., ready: _Optional[bool] = ..., ready_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., deletion_cost: _Optional[int] = ..., restarts: _Optional[int] = ..., sidecar_restarts: _Optional[int] = ..., creation_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class RankRemovalsResponse(_message.Message):
    __slots__ = ("revision", "epoch", "removals", "pod_count", "before", "after", "unknown_pod_count", "optimal", "fault", "rule", "better_removals", "better_after", "selected_count", "revisions", "age", "defaults")
    REVISION_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    REMOVALS_FIELD_NUMBER: _ClassVar[int]
    POD_COUNT_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_POD_COUNT_FIELD_NUMBER: _ClassVar[int]
    OPTIMAL_FIELD_NUMBER: _ClassVar[int]
    FAULT_FIELD_NUMBER: _ClassVar[int]
    RULE_FIELD_NUMBER: _ClassVar[int]
    BETTER_REMOVALS_FIELD_NUMBER: _ClassVar[int]
    BETTER_AFTER_FIELD_NUMBER: _ClassVar[int]
    SELECTED_COUNT_FIELD_NUMBER: _ClassVar[int]
    REVISIONS_FIELD_NUMBER: _ClassVar[int]
    AGE_FIELD_NUMBER: _ClassVar[int]
    DEFAULTS_FIELD_NUMBER: _ClassVar[int]
    revision: int
    epoch: str
    removals: _containers.RepeatedCompositeFieldContainer[Removal]
    pod_count: int
    before: _containers.RepeatedCompositeFieldContainer[_describe_spread_pb2.TopologySpread]
    after: _containers.RepeatedCompositeFieldContainer[_describe_spread_pb2.TopologySpread]
    unknown_pod_count: int
    optimal: bool
    fault: str
    rule: RemovalRule
    better_removals: _containers.RepeatedCompositeFieldContainer[Removal]
    better_after: _containers.RepeatedCompositeFieldContainer[_describe_spread_pb2.TopologySpread]
    selected_count: int
    revisions: _containers.RepeatedCompositeFieldContainer[ShrunkRevision]
    age: _duration_pb2.Duration
    defaults: _describe_spread_pb2.DefaultsKind
    def __init__(self, revision: _Optional[int] = ..., epoch: _Optional[str] = ..., removals: _Optional[_Iterable[_Union[Removal, _Mapping]]] = ..., pod_count: _Optional[int] = ..., before: _Optional[_Iterable[_Union[_describe_spread_pb2.TopologySpread, _Mapping]]] = ..., after: _Optional[_Iterable[_Union[_describe_spread_pb2.TopologySpread, _Mapping]]] = ..., unknown_pod_count: _Optional[int] = ..., optimal: _Optional[bool] = ..., fault: _Optional[str] = ..., rule: _Optional[_Union[RemovalRule, str]] = ..., better_removals: _Optional[_Iterable[_Union[Removal, _Mapping]]] = ..., better_after: _Optional[_Iterable[_Union[_describe_spread_pb2.TopologySpread, _Mapping]]] = ..., selected_count: _Optional[int] = ..., revisions: _Optional[_Iterable[_Union[ShrunkRevision, _Mapping]]] = ..., age: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., defaults: _Optional[_Union[_describe_spread_pb2.DefaultsKind, str]] = ...) -> None: ...

class ShrunkRevision(_message.Message):
    __slots__ = ("hash", "pod_count", "removal_count")
    HASH_FIELD_NUMBER: _ClassVar[int]
    POD_COUNT_FIELD_NUMBER: _ClassVar[int]
    REMOVAL_COUNT_FIELD_NUMBER: _ClassVar[int]
    hash: str
    pod_count: int
    removal_count: int
    def __init__(self, hash: _Optional[str] = ..., pod_count: _Optional[int] = ..., removal_count: _Optional[int] = ...) -> None: ...

class Removal(_message.Message):
    __slots__ = ("name", "uid", "node", "domains")
    NAME_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    DOMAINS_FIELD_NUMBER: _ClassVar[int]
    name: str
    uid: str
    node: str
    domains: _containers.RepeatedCompositeFieldContainer[RemovalDomain]
    def __init__(self, name: _Optional[str] = ..., uid: _Optional[str] = ..., node: _Optional[str] = ..., domains: _Optional[_Iterable[_Union[RemovalDomain, _Mapping]]] = ...) -> None: ...

class RemovalDomain(_message.Message):
    __slots__ = ("topology_key", "value", "matching_pods")
    TOPOLOGY_KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    MATCHING_PODS_FIELD_NUMBER: _ClassVar[int]
    topology_key: str
    value: str
    matching_pods: int
    def __init__(self, topology_key: _Optional[str] = ..., value: _Optional[str] = ..., matching_pods: _Optional[int] = ...) -> None: ...

class RebalanceRequest(_message.Message):
    __slots__ = ("snapshot", "namespace", "workload", "selector", "soft", "topology_key", "max_moves", "max_moves_per_workload", "max_moves_per_node", "max_unavailable", "bare", "stay", "stay_selector", "min_revision", "max_domains", "epoch")
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    WORKLOAD_FIELD_NUMBER: _ClassVar[int]
    SELECTOR_FIELD_NUMBER: _ClassVar[int]
    SOFT_FIELD_NUMBER: _ClassVar[int]
    TOPOLOGY_KEY_FIELD_NUMBER: _ClassVar[int]
    MAX_MOVES_FIELD_NUMBER: _ClassVar[int]
    MAX_MOVES_PER_WORKLOAD_FIELD_NUMBER: _ClassVar[int]
    MAX_MOVES_PER_NODE_FIELD_NUMBER: _ClassVar[int]
    MAX_UNAVAILABLE_FIELD_NUMBER: _ClassVar[int]
    BARE_FIELD_NUMBER: _ClassVar[int]
    STAY_FIELD_NUMBER: _ClassVar[int]
    STAY_SELECTOR_FIELD_NUMBER: _ClassVar[int]
    MIN_REVISION_FIELD_NUMBER: _ClassVar[int]
    MAX_DOMAINS_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    snapshot: str
    namespace: str
    workload: _describe_spread_pb2.WorkloadName
    selector: _kubernetes_pb2.LabelSelector
    soft: bool
    topology_key: str
    max_moves: int
    max_moves_per_workload: int
    max_moves_per_node: int
    max_unavailable: int
    bare: bool
    stay: _containers.RepeatedCompositeFieldContainer[StayingPod]
    stay_selector: _kubernetes_pb2.LabelSelector
    min_revision: int
    max_domains: int
    epoch: str
    def __init__(self, snapshot: _Optional[str] = ..., namespace: _Optional[str] = ..., workload: _Optional[_Union[_describe_spread_pb2.WorkloadName, _Mapping]] = ..., selector: _Optional[_Union[_kubernetes_pb2.LabelSelector, _Mapping]] = ..., soft: _Optional[bool] = ..., topology_key: _Optional[str] = ..., max_moves: _Optional[int] = ..., max_moves_per_workload: _Optional[int] = ..., max_moves_per_node: _Optional[int] = ..., max_unavailable: _Optional[int] = ..., bare: _Optional[bool] = ..., stay: _Optional[_Iterable[_Union[StayingPod, _Mapping]]] = ..., stay_selector: _Optional[_Union[_kubernetes_pb2.LabelSelector, _Mapping]] = ..., min_revision: _Optional[int] = ..., max_domains: _Optional[int] = ..., epoch: _Optional[str] = ...) -> None: ...

class StayingPod(_message.Message):
    __slots__ = ("namespace", "name", "reason")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    name: str
    reason: str
    def __init__(self, namespace: _Optional[str] = ..., name: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class RebalanceResponse(_message.Message):
    __slots__ = ("revision", "epoch", "moves", "workloads", "optimal", "capped", "age", "defaults")
    REVISION_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    MOVES_FIELD_NUMBER: _ClassVar[int]
    WORKLOADS_FIELD_NUMBER: _ClassVar[int]
    OPTIMAL_FIELD_NUMBER: _ClassVar[int]
    CAPPED_FIELD_NUMBER: _ClassVar[int]
    AGE_FIELD_NUMBER: _ClassVar[int]
    DEFAULTS_FIELD_NUMBER: _ClassVar[int]
    revision: int
    epoch: str
    moves: _containers.RepeatedCompositeFieldContainer[PodMove]
    workloads: _containers.RepeatedCompositeFieldContainer[RebalancedWorkload]
    optimal: bool
    capped: bool
    age: _duration_pb2.Duration
    defaults: _describe_spread_pb2.DefaultsKind
    def __init__(self, revision: _Optional[int] = ..., epoch: _Optional[str] = ..., moves: _Optional[_Iterable[_Union[PodMove, _Mapping]]] = ..., workloads: _Optional[_Iterable[_Union[RebalancedWorkload, _Mapping]]] = ..., optimal: _Optional[bool] = ..., capped: _Optional[bool] = ..., age: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., defaults: _Optional[_Union[_describe_spread_pb2.DefaultsKind, str]] = ...) -> None: ...

class PodMove(_message.Message):
    __slots__ = ("namespace", "pod", "uid", "to", "workload", "why", "successor_of", "waits_for_node")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    POD_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    FROM_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    WORKLOAD_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    SUCCESSOR_OF_FIELD_NUMBER: _ClassVar[int]
    WAITS_FOR_NODE_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    pod: str
    uid: str
    to: str
    workload: _describe_spread_pb2.WorkloadName
    why: _containers.RepeatedCompositeFieldContainer[MoveEffect]
    successor_of: int
    waits_for_node: bool
    def __init__(self, namespace: _Optional[str] = ..., pod: _Optional[str] = ..., uid: _Optional[str] = ..., to: _Optional[str] = ..., workload: _Optional[_Union[_describe_spread_pb2.WorkloadName, _Mapping]] = ..., why: _Optional[_Iterable[_Union[MoveEffect, _Mapping]]] = ..., successor_of: _Optional[int] = ..., waits_for_node: _Optional[bool] = ..., **kwargs) -> None: ...

class MoveEffect(_message.Message):
    __slots__ = ("topology_key", "from_value", "from_pods", "to_value", "to_pods")
    TOPOLOGY_KEY_FIELD_NUMBER: _ClassVar[int]
    FROM_VALUE_FIELD_NUMBER: _ClassVar[int]
    FROM_PODS_FIELD_NUMBER: _ClassVar[int]
    TO_VALUE_FIELD_NUMBER: _ClassVar[int]
    TO_PODS_FIELD_NUMBER: _ClassVar[int]
    topology_key: str
    from_value: str
    from_pods: int
    to_value: str
    to_pods: int
    def __init__(self, topology_key: _Optional[str] = ..., from_value: _Optional[str] = ..., from_pods: _Optional[int] = ..., to_value: _Optional[str] = ..., to_pods: _Optional[int] = ...) -> None: ...

class RebalancedWorkload(_message.Message):
    __slots__ = ("namespace", "kind", "name", "labels", "move_count", "before", "after", "blockers", "fault", "selected_count")
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
    MOVE_COUNT_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    BLOCKERS_FIELD_NUMBER: _ClassVar[int]
    FAULT_FIELD_NUMBER: _ClassVar[int]
    SELECTED_COUNT_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    kind: str
    name: str
    labels: _containers.ScalarMap[str, str]
    move_count: int
    before: _containers.RepeatedCompositeFieldContainer[_describe_spread_pb2.TopologySpread]
    after: _containers.RepeatedCompositeFieldContainer[_describe_spread_pb2.TopologySpread]
    blockers: _containers.RepeatedCompositeFieldContainer[MoveBlocker]
    fault: str
    selected_count: int
    def __init__(self, namespace: _Optional[str] = ..., kind: _Optional[str] = ..., name: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., move_count: _Optional[int] = ..., before: _Optional[_Iterable[_Union[_describe_spread_pb2.TopologySpread, _Mapping]]] = ..., after: _Optional[_Iterable[_Union[_describe_spread_pb2.TopologySpread, _Mapping]]] = ..., blockers: _Optional[_Iterable[_Union[MoveBlocker, _Mapping]]] = ..., fault: _Optional[str] = ..., selected_count: _Optional[int] = ...) -> None: ...

class MoveBlocker(_message.Message):
    __slots__ = ("kind", "topology_key", "domain", "text", "count")
    class Kind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        KIND_UNSPECIFIED: _ClassVar[MoveBlocker.Kind]
        KIND_CONSTRAINT: _ClassVar[MoveBlocker.Kind]
        KIND_NODE: _ClassVar[MoveBlocker.Kind]
        KIND_ROOM: _ClassVar[MoveBlocker.Kind]
        KIND_BUDGET: _ClassVar[MoveBlocker.Kind]
        KIND_POD: _ClassVar[MoveBlocker.Kind]
        KIND_CAP: _ClassVar[MoveBlocker.Kind]
    KIND_UNSPECIFIED: MoveBlocker.Kind
    KIND_CONSTRAINT: MoveBlocker.Kind
    KIND_NODE: MoveBlocker.Kind
    KIND_ROOM: MoveBlocker.Kind
    KIND_BUDGET: MoveBlocker.Kind
    KIND_POD: MoveBlocker.Kind
    KIND_CAP: MoveBlocker.Kind
    KIND_FIELD_NUMBER: _ClassVar[int]
    TOPOLOGY_KEY_FIELD_NUMBER: _ClassVar[int]
    DOMAIN_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    kind: MoveBlocker.Kind
    topology_key: str
    domain: str
    text: str
    count: int
    def __init__(self, kind: _Optional[_Union[MoveBlocker.Kind, str]] = ..., topology_key: _Optional[str] = ..., domain: _Optional[str] = ..., text: _Optional[str] = ..., count: _Optional[int] = ...) -> None: ...

class PlanNodesRequest(_message.Message):
    __slots__ = ("snapshot", "need", "drain", "spare", "min_revision", "max_domains", "epoch")
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    NEED_FIELD_NUMBER: _ClassVar[int]
    DRAIN_FIELD_NUMBER: _ClassVar[int]
    SPARE_FIELD_NUMBER: _ClassVar[int]
    MIN_REVISION_FIELD_NUMBER: _ClassVar[int]
    MAX_DOMAINS_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    snapshot: str
    need: NodeNeed
    drain: NodeDrain
    spare: NodeSpare
    min_revision: int
    max_domains: int
    epoch: str
    def __init__(self, snapshot: _Optional[str] = ..., need: _Optional[_Union[NodeNeed, _Mapping]] = ..., drain: _Optional[_Union[NodeDrain, _Mapping]] = ..., spare: _Optional[_Union[NodeSpare, _Mapping]] = ..., min_revision: _Optional[int] = ..., max_domains: _Optional[int] = ..., epoch: _Optional[str] = ...) -> None: ...

class NodeNeed(_message.Message):
    __slots__ = ("pods", "pending", "namespace", "templates")
    PODS_FIELD_NUMBER: _ClassVar[int]
    PENDING_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    TEMPLATES_FIELD_NUMBER: _ClassVar[int]
    pods: _containers.RepeatedCompositeFieldContainer[NeededPods]
    pending: bool
    namespace: str
    templates: _containers.RepeatedCompositeFieldContainer[NodeTemplate]
    def __init__(self, pods: _Optional[_Iterable[_Union[NeededPods, _Mapping]]] = ..., pending: _Optional[bool] = ..., namespace: _Optional[str] = ..., templates: _Optional[_Iterable[_Union[NodeTemplate, _Mapping]]] = ...) -> None: ...

class NeededPods(_message.Message):
    __slots__ = ("pod", "replicas")
    POD_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    pod: _kubernetes_pb2.Pod
    replicas: int
    def __init__(self, pod: _Optional[_Union[_kubernetes_pb2.Pod, _Mapping]] = ..., replicas: _Optional[int] = ...) -> None: ...

class NodeTemplate(_message.Message):
    __slots__ = ("name", "node", "object", "domains", "price")
    NAME_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    DOMAINS_FIELD_NUMBER: _ClassVar[int]
    PRICE_FIELD_NUMBER: _ClassVar[int]
    name: str
    node: str
    object: _kubernetes_pb2.Node
    domains: _containers.RepeatedCompositeFieldContainer[TopologyValues]
    price: int
    def __init__(self, name: _Optional[str] = ..., node: _Optional[str] = ..., object: _Optional[_Union[_kubernetes_pb2.Node, _Mapping]] = ..., domains: _Optional[_Iterable[_Union[TopologyValues, _Mapping]]] = ..., price: _Optional[int] = ...) -> None: ...

class TopologyValues(_message.Message):
    __slots__ = ("topology_key", "values")
    TOPOLOGY_KEY_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    topology_key: str
    values: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, topology_key: _Optional[str] = ..., values: _Optional[_Iterable[str]] = ...) -> None: ...

class NodeDrain(_message.Message):
    __slots__ = ("nodes", "one_at_a_time", "rules")
    NODES_FIELD_NUMBER: _ClassVar[int]
    ONE_AT_A_TIME_FIELD_NUMBER: _ClassVar[int]
    RULES_FIELD_NUMBER: _ClassVar[int]
    nodes: _containers.RepeatedScalarFieldContainer[str]
    one_at_a_time: bool
    rules: EvictionRules
    def __init__(self, nodes: _Optional[_Iterable[str]] = ..., one_at_a_time: _Optional[bool] = ..., rules: _Optional[_Union[EvictionRules, _Mapping]] = ...) -> None: ...

class NodeSpare(_message.Message):
    __slots__ = ("max", "selector", "stay", "rules")
    MAX_FIELD_NUMBER: _ClassVar[int]
    SELECTOR_FIELD_NUMBER: _ClassVar[int]
    STAY_FIELD_NUMBER: _ClassVar[int]
    RULES_FIELD_NUMBER: _ClassVar[int]
    max: int
    selector: _kubernetes_pb2.LabelSelector
    stay: _containers.RepeatedScalarFieldContainer[str]
    rules: EvictionRules
    def __init__(self, max: _Optional[int] = ..., selector: _Optional[_Union[_kubernetes_pb2.LabelSelector, _Mapping]] = ..., stay: _Optional[_Iterable[str]] = ..., rules: _Optional[_Union[EvictionRules, _Mapping]] = ...) -> None: ...

class EvictionRules(_message.Message):
    __slots__ = ("max_unavailable", "bare", "stay", "stay_selector")
    MAX_UNAVAILABLE_FIELD_NUMBER: _ClassVar[int]
    BARE_FIELD_NUMBER: _ClassVar[int]
    STAY_FIELD_NUMBER: _ClassVar[int]
    STAY_SELECTOR_FIELD_NUMBER: _ClassVar[int]
    max_unavailable: int
    bare: bool
    stay: _containers.RepeatedCompositeFieldContainer[StayingPod]
    stay_selector: _kubernetes_pb2.LabelSelector
    def __init__(self, max_unavailable: _Optional[int] = ..., bare: _Optional[bool] = ..., stay: _Optional[_Iterable[_Union[StayingPod, _Mapping]]] = ..., stay_selector: _Optional[_Union[_kubernetes_pb2.LabelSelector, _Mapping]] = ...) -> None: ...

class PlanNodesResponse(_message.Message):
    __slots__ = ("revision", "epoch", "nodes", "moves", "blocked", "with_node", "workloads", "new_nodes", "placed", "unplaced", "optimal", "bound", "bound_reason", "price", "age", "defaults")
    REVISION_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    MOVES_FIELD_NUMBER: _ClassVar[int]
    BLOCKED_FIELD_NUMBER: _ClassVar[int]
    WITH_NODE_FIELD_NUMBER: _ClassVar[int]
    WORKLOADS_FIELD_NUMBER: _ClassVar[int]
    NEW_NODES_FIELD_NUMBER: _ClassVar[int]
    PLACED_FIELD_NUMBER: _ClassVar[int]
    UNPLACED_FIELD_NUMBER: _ClassVar[int]
    OPTIMAL_FIELD_NUMBER: _ClassVar[int]
    BOUND_FIELD_NUMBER: _ClassVar[int]
    BOUND_REASON_FIELD_NUMBER: _ClassVar[int]
    PRICE_FIELD_NUMBER: _ClassVar[int]
    AGE_FIELD_NUMBER: _ClassVar[int]
    DEFAULTS_FIELD_NUMBER: _ClassVar[int]
    revision: int
    epoch: str
    nodes: _containers.RepeatedCompositeFieldContainer[LeavingNode]
    moves: _containers.RepeatedCompositeFieldContainer[PodMove]
    blocked: _containers.RepeatedCompositeFieldContainer[PodOfNode]
    with_node: _containers.RepeatedCompositeFieldContainer[PodOfNode]
    workloads: _containers.RepeatedCompositeFieldContainer[RebalancedWorkload]
    new_nodes: _containers.RepeatedCompositeFieldContainer[NewNodes]
    placed: _containers.RepeatedCompositeFieldContainer[PlacedPods]
    unplaced: _containers.RepeatedCompositeFieldContainer[UnplacedPods]
    optimal: bool
    bound: int
    bound_reason: str
    price: int
    age: _duration_pb2.Duration
    defaults: _describe_spread_pb2.DefaultsKind
    def __init__(self, revision: _Optional[int] = ..., epoch: _Optional[str] = ..., nodes: _Optional[_Iterable[_Union[LeavingNode, _Mapping]]] = ..., moves: _Optional[_Iterable[_Union[PodMove, _Mapping]]] = ..., blocked: _Optional[_Iterable[_Union[PodOfNode, _Mapping]]] = ..., with_node: _Optional[_Iterable[_Union[PodOfNode, _Mapping]]] = ..., workloads: _Optional[_Iterable[_Union[RebalancedWorkload, _Mapping]]] = ..., new_nodes: _Optional[_Iterable[_Union[NewNodes, _Mapping]]] = ..., placed: _Optional[_Iterable[_Union[PlacedPods, _Mapping]]] = ..., unplaced: _Optional[_Iterable[_Union[UnplacedPods, _Mapping]]] = ..., optimal: _Optional[bool] = ..., bound: _Optional[int] = ..., bound_reason: _Optional[str] = ..., price: _Optional[int] = ..., age: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., defaults: _Optional[_Union[_describe_spread_pb2.DefaultsKind, str]] = ...) -> None: ...

class LeavingNode(_message.Message):
    __slots__ = ("name", "emptied")
    NAME_FIELD_NUMBER: _ClassVar[int]
    EMPTIED_FIELD_NUMBER: _ClassVar[int]
    name: str
    emptied: bool
    def __init__(self, name: _Optional[str] = ..., emptied: _Optional[bool] = ...) -> None: ...

class PodOfNode(_message.Message):
    __slots__ = ("namespace", "pod", "node", "workload", "kind", "text")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    POD_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    WORKLOAD_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    pod: str
    node: str
    workload: _describe_spread_pb2.WorkloadName
    kind: MoveBlocker.Kind
    text: str
    def __init__(self, namespace: _Optional[str] = ..., pod: _Optional[str] = ..., node: _Optional[str] = ..., workload: _Optional[_Union[_describe_spread_pb2.WorkloadName, _Mapping]] = ..., kind: _Optional[_Union[MoveBlocker.Kind, str]] = ..., text: _Optional[str] = ...) -> None: ...

class NewNodes(_message.Message):
    __slots__ = ("template", "domains", "names", "price")
    class DomainsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    TEMPLATE_FIELD_NUMBER: _ClassVar[int]
    DOMAINS_FIELD_NUMBER: _ClassVar[int]
    NAMES_FIELD_NUMBER: _ClassVar[int]
    PRICE_FIELD_NUMBER: _ClassVar[int]
    template: str
    domains: _containers.ScalarMap[str, str]
    names: _containers.RepeatedScalarFieldContainer[str]
    price: int
    def __init__(self, template: _Optional[str] = ..., domains: _Optional[_Mapping[str, str]] = ..., names: _Optional[_Iterable[str]] = ..., price: _Optional[int] = ...) -> None: ...

class PlacedPods(_message.Message):
    __slots__ = ("namespace", "name", "index", "node", "count")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    name: str
    index: int
    node: str
    count: int
    def __init__(self, namespace: _Optional[str] = ..., name: _Optional[str] = ..., index: _Optional[int] = ..., node: _Optional[str] = ..., count: _Optional[int] = ...) -> None: ...

class UnplacedPods(_message.Message):
    __slots__ = ("namespace", "name", "index", "count", "reasons")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    REASONS_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    name: str
    index: int
    count: int
    reasons: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, namespace: _Optional[str] = ..., name: _Optional[str] = ..., index: _Optional[int] = ..., count: _Optional[int] = ..., reasons: _Optional[_Iterable[str]] = ...) -> None: ...
