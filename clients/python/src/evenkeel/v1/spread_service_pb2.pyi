import datetime

from evenkeel.v1 import describe_spread_pb2 as _describe_spread_pb2
from evenkeel.v1 import explain_pb2 as _explain_pb2
from evenkeel.v1 import kubernetes_pb2 as _kubernetes_pb2
from evenkeel.v1 import plan_pb2 as _plan_pb2
from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.rpc import status_pb2 as _status_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Mode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MODE_UNSPECIFIED: _ClassVar[Mode]
    MODE_REPLACE: _ClassVar[Mode]

class Dialect(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DIALECT_UNSPECIFIED: _ClassVar[Dialect]
    DIALECT_KUBERNETES: _ClassVar[Dialect]
    DIALECT_FLEET: _ClassVar[Dialect]

class NodeChecks(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    NODE_CHECKS_UNSPECIFIED: _ClassVar[NodeChecks]
    NODE_CHECKS_SPREAD_ONLY: _ClassVar[NodeChecks]

class View(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    VIEW_UNSPECIFIED: _ClassVar[View]
    VIEW_BASIC: _ClassVar[View]
    VIEW_FULL: _ClassVar[View]
    VIEW_DOMAINS: _ClassVar[View]
    VIEW_BITMAP: _ClassVar[View]

class Code(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CODE_UNSPECIFIED: _ClassVar[Code]
    CODE_UNSCHEDULABLE: _ClassVar[Code]
    CODE_UNSCHEDULABLE_AND_UNRESOLVABLE: _ClassVar[Code]

class ReasonCode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REASON_CODE_UNSPECIFIED: _ClassVar[ReasonCode]
    REASON_CODE_SCHEDULING_GATED: _ClassVar[ReasonCode]
    REASON_CODE_UNSCHEDULABLE: _ClassVar[ReasonCode]
    REASON_CODE_NODE_NAME: _ClassVar[ReasonCode]
    REASON_CODE_TAINT: _ClassVar[ReasonCode]
    REASON_CODE_NODE_AFFINITY: _ClassVar[ReasonCode]
    REASON_CODE_HOST_PORT: _ClassVar[ReasonCode]
    REASON_CODE_TOO_MANY_PODS: _ClassVar[ReasonCode]
    REASON_CODE_INSUFFICIENT_RESOURCE: _ClassVar[ReasonCode]
    REASON_CODE_MISSING_LABEL: _ClassVar[ReasonCode]
    REASON_CODE_SKEW: _ClassVar[ReasonCode]
    REASON_CODE_CAPACITY: _ClassVar[ReasonCode]
    REASON_CODE_HOLDS_PLACEMENT: _ClassVar[ReasonCode]
    REASON_CODE_POD_AFFINITY: _ClassVar[ReasonCode]
    REASON_CODE_POD_ANTI_AFFINITY: _ClassVar[ReasonCode]
    REASON_CODE_EXISTING_ANTI_AFFINITY: _ClassVar[ReasonCode]
    REASON_CODE_DECLARED_FEATURES: _ClassVar[ReasonCode]
    REASON_CODE_VOLUME_NOT_READY: _ClassVar[ReasonCode]
    REASON_CODE_DISK_CONFLICT: _ClassVar[ReasonCode]
    REASON_CODE_CLAIM_IN_USE: _ClassVar[ReasonCode]
    REASON_CODE_VOLUME_NODE_AFFINITY: _ClassVar[ReasonCode]
    REASON_CODE_VOLUME_BINDING: _ClassVar[ReasonCode]
    REASON_CODE_VOLUME_ZONE: _ClassVar[ReasonCode]

class HolderState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    HOLDER_STATE_UNSPECIFIED: _ClassVar[HolderState]
    HOLDER_STATE_SCHEDULED: _ClassVar[HolderState]
    HOLDER_STATE_BOUND: _ClassVar[HolderState]

class Completeness(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    COMPLETENESS_UNSPECIFIED: _ClassVar[Completeness]
    COMPLETENESS_PARTIAL: _ClassVar[Completeness]
    COMPLETENESS_ALL_OR_NOTHING: _ClassVar[Completeness]

class Planning(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PLANNING_UNSPECIFIED: _ClassVar[Planning]
    PLANNING_GREEDY: _ClassVar[Planning]
    PLANNING_JOINT: _ClassVar[Planning]
MODE_UNSPECIFIED: Mode
MODE_REPLACE: Mode
DIALECT_UNSPECIFIED: Dialect
DIALECT_KUBERNETES: Dialect
DIALECT_FLEET: Dialect
NODE_CHECKS_UNSPECIFIED: NodeChecks
NODE_CHECKS_SPREAD_ONLY: NodeChecks
VIEW_UNSPECIFIED: View
VIEW_BASIC: View
VIEW_FULL: View
VIEW_DOMAINS: View
VIEW_BITMAP: View
CODE_UNSPECIFIED: Code
CODE_UNSCHEDULABLE: Code
CODE_UNSCHEDULABLE_AND_UNRESOLVABLE: Code
REASON_CODE_UNSPECIFIED: ReasonCode
REASON_CODE_SCHEDULING_GATED: ReasonCode
REASON_CODE_UNSCHEDULABLE: ReasonCode
REASON_CODE_NODE_NAME: ReasonCode
REASON_CODE_TAINT: ReasonCode
REASON_CODE_NODE_AFFINITY: ReasonCode
REASON_CODE_HOST_PORT: ReasonCode
REASON_CODE_TOO_MANY_PODS: ReasonCode
REASON_CODE_INSUFFICIENT_RESOURCE: ReasonCode
REASON_CODE_MISSING_LABEL: ReasonCode
REASON_CODE_SKEW: ReasonCode
REASON_CODE_CAPACITY: ReasonCode
REASON_CODE_HOLDS_PLACEMENT: ReasonCode
REASON_CODE_POD_AFFINITY: ReasonCode
REASON_CODE_POD_ANTI_AFFINITY: ReasonCode
REASON_CODE_EXISTING_ANTI_AFFINITY: ReasonCode
REASON_CODE_DECLARED_FEATURES: ReasonCode
REASON_CODE_VOLUME_NOT_READY: ReasonCode
REASON_CODE_DISK_CONFLICT: ReasonCode
REASON_CODE_CLAIM_IN_USE: ReasonCode
REASON_CODE_VOLUME_NODE_AFFINITY: ReasonCode
REASON_CODE_VOLUME_BINDING: ReasonCode
REASON_CODE_VOLUME_ZONE: ReasonCode
HOLDER_STATE_UNSPECIFIED: HolderState
HOLDER_STATE_SCHEDULED: HolderState
HOLDER_STATE_BOUND: HolderState
COMPLETENESS_UNSPECIFIED: Completeness
COMPLETENESS_PARTIAL: Completeness
COMPLETENESS_ALL_OR_NOTHING: Completeness
PLANNING_UNSPECIFIED: Planning
PLANNING_GREEDY: Planning
PLANNING_JOINT: Planning

class Change(_message.Message):
    __slots__ = ("node", "pod", "service", "replica_set", "stateful_set", "replication_controller", "namespace", "persistent_volume_claim", "persistent_volume", "storage_class", "pod_disruption_budget", "delete")
    NODE_FIELD_NUMBER: _ClassVar[int]
    POD_FIELD_NUMBER: _ClassVar[int]
    SERVICE_FIELD_NUMBER: _ClassVar[int]
    REPLICA_SET_FIELD_NUMBER: _ClassVar[int]
    STATEFUL_SET_FIELD_NUMBER: _ClassVar[int]
    REPLICATION_CONTROLLER_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    PERSISTENT_VOLUME_CLAIM_FIELD_NUMBER: _ClassVar[int]
    PERSISTENT_VOLUME_FIELD_NUMBER: _ClassVar[int]
    STORAGE_CLASS_FIELD_NUMBER: _ClassVar[int]
    POD_DISRUPTION_BUDGET_FIELD_NUMBER: _ClassVar[int]
    DELETE_FIELD_NUMBER: _ClassVar[int]
    node: _kubernetes_pb2.Node
    pod: _kubernetes_pb2.Pod
    service: _kubernetes_pb2.Service
    replica_set: _kubernetes_pb2.ReplicaSet
    stateful_set: _kubernetes_pb2.StatefulSet
    replication_controller: _kubernetes_pb2.ReplicationController
    namespace: _kubernetes_pb2.Namespace
    persistent_volume_claim: _kubernetes_pb2.PersistentVolumeClaim
    persistent_volume: _kubernetes_pb2.PersistentVolume
    storage_class: _kubernetes_pb2.StorageClass
    pod_disruption_budget: _kubernetes_pb2.PodDisruptionBudget
    delete: ObjectReference
    def __init__(self, node: _Optional[_Union[_kubernetes_pb2.Node, _Mapping]] = ..., pod: _Optional[_Union[_kubernetes_pb2.Pod, _Mapping]] = ..., service: _Optional[_Union[_kubernetes_pb2.Service, _Mapping]] = ..., replica_set: _Optional[_Union[_kubernetes_pb2.ReplicaSet, _Mapping]] = ..., stateful_set: _Optional[_Union[_kubernetes_pb2.StatefulSet, _Mapping]] = ..., replication_controller: _Optional[_Union[_kubernetes_pb2.ReplicationController, _Mapping]] = ..., namespace: _Optional[_Union[_kubernetes_pb2.Namespace, _Mapping]] = ..., persistent_volume_claim: _Optional[_Union[_kubernetes_pb2.PersistentVolumeClaim, _Mapping]] = ..., persistent_volume: _Optional[_Union[_kubernetes_pb2.PersistentVolume, _Mapping]] = ..., storage_class: _Optional[_Union[_kubernetes_pb2.StorageClass, _Mapping]] = ..., pod_disruption_budget: _Optional[_Union[_kubernetes_pb2.PodDisruptionBudget, _Mapping]] = ..., delete: _Optional[_Union[ObjectReference, _Mapping]] = ...) -> None: ...

class ObjectReference(_message.Message):
    __slots__ = ("kind", "namespace", "name", "uid")
    KIND_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    kind: str
    namespace: str
    name: str
    uid: str
    def __init__(self, kind: _Optional[str] = ..., namespace: _Optional[str] = ..., name: _Optional[str] = ..., uid: _Optional[str] = ...) -> None: ...

class DefaultConstraints(_message.Message):
    __slots__ = ("constraints", "system")
    CONSTRAINTS_FIELD_NUMBER: _ClassVar[int]
    SYSTEM_FIELD_NUMBER: _ClassVar[int]
    constraints: _containers.RepeatedCompositeFieldContainer[_kubernetes_pb2.TopologySpreadConstraint]
    system: bool
    def __init__(self, constraints: _Optional[_Iterable[_Union[_kubernetes_pb2.TopologySpreadConstraint, _Mapping]]] = ..., system: _Optional[bool] = ...) -> None: ...

class UpdateSnapshotRequest(_message.Message):
    __slots__ = ("snapshot", "changes", "mode", "expected_revision", "default_constraints", "age", "kubernetes_version", "resource_versions", "cluster")
    class ResourceVersionsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_REVISION_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_CONSTRAINTS_FIELD_NUMBER: _ClassVar[int]
    AGE_FIELD_NUMBER: _ClassVar[int]
    KUBERNETES_VERSION_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_VERSIONS_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    snapshot: str
    changes: _containers.RepeatedCompositeFieldContainer[Change]
    mode: Mode
    expected_revision: int
    default_constraints: DefaultConstraints
    age: _duration_pb2.Duration
    kubernetes_version: str
    resource_versions: _containers.ScalarMap[str, int]
    cluster: str
    def __init__(self, snapshot: _Optional[str] = ..., changes: _Optional[_Iterable[_Union[Change, _Mapping]]] = ..., mode: _Optional[_Union[Mode, str]] = ..., expected_revision: _Optional[int] = ..., default_constraints: _Optional[_Union[DefaultConstraints, _Mapping]] = ..., age: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., kubernetes_version: _Optional[str] = ..., resource_versions: _Optional[_Mapping[str, int]] = ..., cluster: _Optional[str] = ...) -> None: ...

class UpdateSnapshotResponse(_message.Message):
    __slots__ = ("revision", "epoch", "changed_count", "unchanged_count", "skipped_count")
    REVISION_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    CHANGED_COUNT_FIELD_NUMBER: _ClassVar[int]
    UNCHANGED_COUNT_FIELD_NUMBER: _ClassVar[int]
    SKIPPED_COUNT_FIELD_NUMBER: _ClassVar[int]
    revision: int
    epoch: str
    changed_count: int
    unchanged_count: int
    skipped_count: int
    def __init__(self, revision: _Optional[int] = ..., epoch: _Optional[str] = ..., changed_count: _Optional[int] = ..., unchanged_count: _Optional[int] = ..., skipped_count: _Optional[int] = ...) -> None: ...

class BeginReplace(_message.Message):
    __slots__ = ("snapshot",)
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    snapshot: str
    def __init__(self, snapshot: _Optional[str] = ...) -> None: ...

class CommitReplace(_message.Message):
    __slots__ = ("snapshot", "expected_revision")
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_REVISION_FIELD_NUMBER: _ClassVar[int]
    snapshot: str
    expected_revision: int
    def __init__(self, snapshot: _Optional[str] = ..., expected_revision: _Optional[int] = ...) -> None: ...

class StreamSnapshotRequest(_message.Message):
    __slots__ = ("update", "begin_replace", "commit_replace")
    UPDATE_FIELD_NUMBER: _ClassVar[int]
    BEGIN_REPLACE_FIELD_NUMBER: _ClassVar[int]
    COMMIT_REPLACE_FIELD_NUMBER: _ClassVar[int]
    update: UpdateSnapshotRequest
    begin_replace: BeginReplace
    commit_replace: CommitReplace
    def __init__(self, update: _Optional[_Union[UpdateSnapshotRequest, _Mapping]] = ..., begin_replace: _Optional[_Union[BeginReplace, _Mapping]] = ..., commit_replace: _Optional[_Union[CommitReplace, _Mapping]] = ...) -> None: ...

class StreamSnapshotResponse(_message.Message):
    __slots__ = ("update",)
    UPDATE_FIELD_NUMBER: _ClassVar[int]
    update: UpdateSnapshotResponse
    def __init__(self, update: _Optional[_Union[UpdateSnapshotResponse, _Mapping]] = ...) -> None: ...

class NodeNames(_message.Message):
    __slots__ = ("names",)
    NAMES_FIELD_NUMBER: _ClassVar[int]
    names: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, names: _Optional[_Iterable[str]] = ...) -> None: ...

class FilterRequest(_message.Message):
    __slots__ = ("snapshot", "pod", "candidates", "node_checks", "view", "min_revision", "overlay", "dialect", "max_domains", "epoch", "min_resource_versions")
    class MinResourceVersionsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    POD_FIELD_NUMBER: _ClassVar[int]
    CANDIDATES_FIELD_NUMBER: _ClassVar[int]
    NODE_CHECKS_FIELD_NUMBER: _ClassVar[int]
    VIEW_FIELD_NUMBER: _ClassVar[int]
    MIN_REVISION_FIELD_NUMBER: _ClassVar[int]
    OVERLAY_FIELD_NUMBER: _ClassVar[int]
    DIALECT_FIELD_NUMBER: _ClassVar[int]
    MAX_DOMAINS_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    MIN_RESOURCE_VERSIONS_FIELD_NUMBER: _ClassVar[int]
    snapshot: str
    pod: _kubernetes_pb2.Pod
    candidates: NodeNames
    node_checks: NodeChecks
    view: View
    min_revision: int
    overlay: _containers.RepeatedCompositeFieldContainer[Change]
    dialect: Dialect
    max_domains: int
    epoch: str
    min_resource_versions: _containers.ScalarMap[str, int]
    def __init__(self, snapshot: _Optional[str] = ..., pod: _Optional[_Union[_kubernetes_pb2.Pod, _Mapping]] = ..., candidates: _Optional[_Union[NodeNames, _Mapping]] = ..., node_checks: _Optional[_Union[NodeChecks, str]] = ..., view: _Optional[_Union[View, str]] = ..., min_revision: _Optional[int] = ..., overlay: _Optional[_Iterable[_Union[Change, _Mapping]]] = ..., dialect: _Optional[_Union[Dialect, str]] = ..., max_domains: _Optional[int] = ..., epoch: _Optional[str] = ..., min_resource_versions: _Optional[_Mapping[str, int]] = ...) -> None: ...

class FilterResponse(_message.Message):
    __slots__ = ("revision", "epoch", "feasible", "infeasible", "constraints", "reasons", "feasible_bitmap", "feasible_count", "node_count", "unknown_candidates", "decision_id", "age", "unchecked", "unknown_deletes", "defaults", "node_order_revision")
    REVISION_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    FEASIBLE_FIELD_NUMBER: _ClassVar[int]
    INFEASIBLE_FIELD_NUMBER: _ClassVar[int]
    CONSTRAINTS_FIELD_NUMBER: _ClassVar[int]
    REASONS_FIELD_NUMBER: _ClassVar[int]
    FEASIBLE_BITMAP_FIELD_NUMBER: _ClassVar[int]
    FEASIBLE_COUNT_FIELD_NUMBER: _ClassVar[int]
    NODE_COUNT_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_CANDIDATES_FIELD_NUMBER: _ClassVar[int]
    DECISION_ID_FIELD_NUMBER: _ClassVar[int]
    AGE_FIELD_NUMBER: _ClassVar[int]
    UNCHECKED_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_DELETES_FIELD_NUMBER: _ClassVar[int]
    DEFAULTS_FIELD_NUMBER: _ClassVar[int]
    NODE_ORDER_REVISION_FIELD_NUMBER: _ClassVar[int]
    revision: int
    epoch: str
    feasible: _containers.RepeatedScalarFieldContainer[str]
    infeasible: _containers.RepeatedCompositeFieldContainer[NodeVerdict]
    constraints: _containers.RepeatedCompositeFieldContainer[ConstraintReport]
    reasons: _containers.RepeatedCompositeFieldContainer[ReasonCount]
    feasible_bitmap: bytes
    feasible_count: int
    node_count: int
    unknown_candidates: _containers.RepeatedScalarFieldContainer[str]
    decision_id: str
    age: _duration_pb2.Duration
    unchecked: _containers.RepeatedScalarFieldContainer[str]
    unknown_deletes: _containers.RepeatedCompositeFieldContainer[ObjectReference]
    defaults: _describe_spread_pb2.DefaultsKind
    node_order_revision: int
    def __init__(self, revision: _Optional[int] = ..., epoch: _Optional[str] = ..., feasible: _Optional[_Iterable[str]] = ..., infeasible: _Optional[_Iterable[_Union[NodeVerdict, _Mapping]]] = ..., constraints: _Optional[_Iterable[_Union[ConstraintReport, _Mapping]]] = ..., reasons: _Optional[_Iterable[_Union[ReasonCount, _Mapping]]] = ..., feasible_bitmap: _Optional[bytes] = ..., feasible_count: _Optional[int] = ..., node_count: _Optional[int] = ..., unknown_candidates: _Optional[_Iterable[str]] = ..., decision_id: _Optional[str] = ..., age: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., unchecked: _Optional[_Iterable[str]] = ..., unknown_deletes: _Optional[_Iterable[_Union[ObjectReference, _Mapping]]] = ..., defaults: _Optional[_Union[_describe_spread_pb2.DefaultsKind, str]] = ..., node_order_revision: _Optional[int] = ...) -> None: ...

class NodeVerdict(_message.Message):
    __slots__ = ("node", "code", "reason", "constraint_index", "matching_pods", "skew", "reasons", "nominated_pods")
    NODE_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    CONSTRAINT_INDEX_FIELD_NUMBER: _ClassVar[int]
    MATCHING_PODS_FIELD_NUMBER: _ClassVar[int]
    SKEW_FIELD_NUMBER: _ClassVar[int]
    REASONS_FIELD_NUMBER: _ClassVar[int]
    NOMINATED_PODS_FIELD_NUMBER: _ClassVar[int]
    node: str
    code: Code
    reason: str
    constraint_index: int
    matching_pods: int
    skew: int
    reasons: _containers.RepeatedCompositeFieldContainer[RefusalReason]
    nominated_pods: int
    def __init__(self, node: _Optional[str] = ..., code: _Optional[_Union[Code, str]] = ..., reason: _Optional[str] = ..., constraint_index: _Optional[int] = ..., matching_pods: _Optional[int] = ..., skew: _Optional[int] = ..., reasons: _Optional[_Iterable[_Union[RefusalReason, _Mapping]]] = ..., nominated_pods: _Optional[int] = ...) -> None: ...

class RefusalReason(_message.Message):
    __slots__ = ("code", "resource")
    CODE_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_FIELD_NUMBER: _ClassVar[int]
    code: ReasonCode
    resource: str
    def __init__(self, code: _Optional[_Union[ReasonCode, str]] = ..., resource: _Optional[str] = ...) -> None: ...

class ReasonCount(_message.Message):
    __slots__ = ("reason", "count", "code", "resource")
    REASON_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_FIELD_NUMBER: _ClassVar[int]
    reason: str
    count: int
    code: ReasonCode
    resource: str
    def __init__(self, reason: _Optional[str] = ..., count: _Optional[int] = ..., code: _Optional[_Union[ReasonCode, str]] = ..., resource: _Optional[str] = ...) -> None: ...

class ConstraintReport(_message.Message):
    __slots__ = ("constraint_index", "constraint", "from_defaults", "domain_count", "global_minimum", "self_match", "domains", "weight", "min_domains_unmet")
    CONSTRAINT_INDEX_FIELD_NUMBER: _ClassVar[int]
    CONSTRAINT_FIELD_NUMBER: _ClassVar[int]
    FROM_DEFAULTS_FIELD_NUMBER: _ClassVar[int]
    DOMAIN_COUNT_FIELD_NUMBER: _ClassVar[int]
    GLOBAL_MINIMUM_FIELD_NUMBER: _ClassVar[int]
    SELF_MATCH_FIELD_NUMBER: _ClassVar[int]
    DOMAINS_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    MIN_DOMAINS_UNMET_FIELD_NUMBER: _ClassVar[int]
    constraint_index: int
    constraint: _kubernetes_pb2.TopologySpreadConstraint
    from_defaults: bool
    domain_count: int
    global_minimum: int
    self_match: int
    domains: _containers.RepeatedCompositeFieldContainer[Domain]
    weight: float
    min_domains_unmet: bool
    def __init__(self, constraint_index: _Optional[int] = ..., constraint: _Optional[_Union[_kubernetes_pb2.TopologySpreadConstraint, _Mapping]] = ..., from_defaults: _Optional[bool] = ..., domain_count: _Optional[int] = ..., global_minimum: _Optional[int] = ..., self_match: _Optional[int] = ..., domains: _Optional[_Iterable[_Union[Domain, _Mapping]]] = ..., weight: _Optional[float] = ..., min_domains_unmet: _Optional[bool] = ...) -> None: ...

class Domain(_message.Message):
    __slots__ = ("value", "matching_pods", "skew", "feasible", "eligible_nodes", "feasible_nodes")
    VALUE_FIELD_NUMBER: _ClassVar[int]
    MATCHING_PODS_FIELD_NUMBER: _ClassVar[int]
    SKEW_FIELD_NUMBER: _ClassVar[int]
    FEASIBLE_FIELD_NUMBER: _ClassVar[int]
    ELIGIBLE_NODES_FIELD_NUMBER: _ClassVar[int]
    FEASIBLE_NODES_FIELD_NUMBER: _ClassVar[int]
    value: str
    matching_pods: int
    skew: int
    feasible: bool
    eligible_nodes: int
    feasible_nodes: int
    def __init__(self, value: _Optional[str] = ..., matching_pods: _Optional[int] = ..., skew: _Optional[int] = ..., feasible: _Optional[bool] = ..., eligible_nodes: _Optional[int] = ..., feasible_nodes: _Optional[int] = ...) -> None: ...

class ExplainRequest(_message.Message):
    __slots__ = ("snapshot", "pod", "candidates", "node_checks", "view", "min_revision", "overlay", "dialect", "max_domains", "epoch", "min_resource_versions", "waiting")
    class MinResourceVersionsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    POD_FIELD_NUMBER: _ClassVar[int]
    CANDIDATES_FIELD_NUMBER: _ClassVar[int]
    NODE_CHECKS_FIELD_NUMBER: _ClassVar[int]
    VIEW_FIELD_NUMBER: _ClassVar[int]
    MIN_REVISION_FIELD_NUMBER: _ClassVar[int]
    OVERLAY_FIELD_NUMBER: _ClassVar[int]
    DIALECT_FIELD_NUMBER: _ClassVar[int]
    MAX_DOMAINS_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    MIN_RESOURCE_VERSIONS_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    snapshot: str
    pod: _kubernetes_pb2.Pod
    candidates: NodeNames
    node_checks: NodeChecks
    view: View
    min_revision: int
    overlay: _containers.RepeatedCompositeFieldContainer[Change]
    dialect: Dialect
    max_domains: int
    epoch: str
    min_resource_versions: _containers.ScalarMap[str, int]
    waiting: int
    def __init__(self, snapshot: _Optional[str] = ..., pod: _Optional[_Union[_kubernetes_pb2.Pod, _Mapping]] = ..., candidates: _Optional[_Union[NodeNames, _Mapping]] = ..., node_checks: _Optional[_Union[NodeChecks, str]] = ..., view: _Optional[_Union[View, str]] = ..., min_revision: _Optional[int] = ..., overlay: _Optional[_Iterable[_Union[Change, _Mapping]]] = ..., dialect: _Optional[_Union[Dialect, str]] = ..., max_domains: _Optional[int] = ..., epoch: _Optional[str] = ..., min_resource_versions: _Optional[_Mapping[str, int]] = ..., waiting: _Optional[int] = ...) -> None: ...

class ExplainResponse(_message.Message):
    __slots__ = ("revision", "epoch", "summary", "constraints", "reasons", "infeasible", "hints", "feasible_count", "node_count", "feasible", "insights", "unknown_candidates", "decision_id", "age", "unchecked", "unknown_deletes", "defaults")
    REVISION_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    SUMMARY_FIELD_NUMBER: _ClassVar[int]
    CONSTRAINTS_FIELD_NUMBER: _ClassVar[int]
    REASONS_FIELD_NUMBER: _ClassVar[int]
    INFEASIBLE_FIELD_NUMBER: _ClassVar[int]
    HINTS_FIELD_NUMBER: _ClassVar[int]
    FEASIBLE_COUNT_FIELD_NUMBER: _ClassVar[int]
    NODE_COUNT_FIELD_NUMBER: _ClassVar[int]
    FEASIBLE_FIELD_NUMBER: _ClassVar[int]
    INSIGHTS_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_CANDIDATES_FIELD_NUMBER: _ClassVar[int]
    DECISION_ID_FIELD_NUMBER: _ClassVar[int]
    AGE_FIELD_NUMBER: _ClassVar[int]
    UNCHECKED_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_DELETES_FIELD_NUMBER: _ClassVar[int]
    DEFAULTS_FIELD_NUMBER: _ClassVar[int]
    revision: int
    epoch: str
    summary: str
    constraints: _containers.RepeatedCompositeFieldContainer[ConstraintReport]
    reasons: _containers.RepeatedCompositeFieldContainer[ReasonCount]
    infeasible: _containers.RepeatedCompositeFieldContainer[NodeVerdict]
    hints: _containers.RepeatedCompositeFieldContainer[_explain_pb2.Hint]
    feasible_count: int
    node_count: int
    feasible: _containers.RepeatedScalarFieldContainer[str]
    insights: _containers.RepeatedCompositeFieldContainer[_explain_pb2.ConstraintInsight]
    unknown_candidates: _containers.RepeatedScalarFieldContainer[str]
    decision_id: str
    age: _duration_pb2.Duration
    unchecked: _containers.RepeatedScalarFieldContainer[str]
    unknown_deletes: _containers.RepeatedCompositeFieldContainer[ObjectReference]
    defaults: _describe_spread_pb2.DefaultsKind
    def __init__(self, revision: _Optional[int] = ..., epoch: _Optional[str] = ..., summary: _Optional[str] = ..., constraints: _Optional[_Iterable[_Union[ConstraintReport, _Mapping]]] = ..., reasons: _Optional[_Iterable[_Union[ReasonCount, _Mapping]]] = ..., infeasible: _Optional[_Iterable[_Union[NodeVerdict, _Mapping]]] = ..., hints: _Optional[_Iterable[_Union[_explain_pb2.Hint, _Mapping]]] = ..., feasible_count: _Optional[int] = ..., node_count: _Optional[int] = ..., feasible: _Optional[_Iterable[str]] = ..., insights: _Optional[_Iterable[_Union[_explain_pb2.ConstraintInsight, _Mapping]]] = ..., unknown_candidates: _Optional[_Iterable[str]] = ..., decision_id: _Optional[str] = ..., age: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., unchecked: _Optional[_Iterable[str]] = ..., unknown_deletes: _Optional[_Iterable[_Union[ObjectReference, _Mapping]]] = ..., defaults: _Optional[_Union[_describe_spread_pb2.DefaultsKind, str]] = ...) -> None: ...

class ScoreRequest(_message.Message):
    __slots__ = ("snapshot", "pod", "candidates", "node_checks", "view", "min_revision", "overlay", "dialect", "max_domains", "top", "epoch", "min_resource_versions")
    class MinResourceVersionsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    POD_FIELD_NUMBER: _ClassVar[int]
    CANDIDATES_FIELD_NUMBER: _ClassVar[int]
    NODE_CHECKS_FIELD_NUMBER: _ClassVar[int]
    VIEW_FIELD_NUMBER: _ClassVar[int]
    MIN_REVISION_FIELD_NUMBER: _ClassVar[int]
    OVERLAY_FIELD_NUMBER: _ClassVar[int]
    DIALECT_FIELD_NUMBER: _ClassVar[int]
    MAX_DOMAINS_FIELD_NUMBER: _ClassVar[int]
    TOP_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    MIN_RESOURCE_VERSIONS_FIELD_NUMBER: _ClassVar[int]
    snapshot: str
    pod: _kubernetes_pb2.Pod
    candidates: NodeNames
    node_checks: NodeChecks
    view: View
    min_revision: int
    overlay: _containers.RepeatedCompositeFieldContainer[Change]
    dialect: Dialect
    max_domains: int
    top: int
    epoch: str
    min_resource_versions: _containers.ScalarMap[str, int]
    def __init__(self, snapshot: _Optional[str] = ..., pod: _Optional[_Union[_kubernetes_pb2.Pod, _Mapping]] = ..., candidates: _Optional[_Union[NodeNames, _Mapping]] = ..., node_checks: _Optional[_Union[NodeChecks, str]] = ..., view: _Optional[_Union[View, str]] = ..., min_revision: _Optional[int] = ..., overlay: _Optional[_Iterable[_Union[Change, _Mapping]]] = ..., dialect: _Optional[_Union[Dialect, str]] = ..., max_domains: _Optional[int] = ..., top: _Optional[int] = ..., epoch: _Optional[str] = ..., min_resource_versions: _Optional[_Mapping[str, int]] = ...) -> None: ...

class ScoreResponse(_message.Message):
    __slots__ = ("revision", "epoch", "skipped", "scores", "constraints", "packed_scores", "unknown_candidates", "scored_bitmap", "decision_id", "age", "unchecked", "unknown_deletes", "defaults", "node_order_revision")
    REVISION_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    SKIPPED_FIELD_NUMBER: _ClassVar[int]
    SCORES_FIELD_NUMBER: _ClassVar[int]
    CONSTRAINTS_FIELD_NUMBER: _ClassVar[int]
    PACKED_SCORES_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_CANDIDATES_FIELD_NUMBER: _ClassVar[int]
    SCORED_BITMAP_FIELD_NUMBER: _ClassVar[int]
    DECISION_ID_FIELD_NUMBER: _ClassVar[int]
    AGE_FIELD_NUMBER: _ClassVar[int]
    UNCHECKED_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_DELETES_FIELD_NUMBER: _ClassVar[int]
    DEFAULTS_FIELD_NUMBER: _ClassVar[int]
    NODE_ORDER_REVISION_FIELD_NUMBER: _ClassVar[int]
    revision: int
    epoch: str
    skipped: bool
    scores: _containers.RepeatedCompositeFieldContainer[NodeScore]
    constraints: _containers.RepeatedCompositeFieldContainer[ConstraintReport]
    packed_scores: _containers.RepeatedScalarFieldContainer[int]
    unknown_candidates: _containers.RepeatedScalarFieldContainer[str]
    scored_bitmap: bytes
    decision_id: str
    age: _duration_pb2.Duration
    unchecked: _containers.RepeatedScalarFieldContainer[str]
    unknown_deletes: _containers.RepeatedCompositeFieldContainer[ObjectReference]
    defaults: _describe_spread_pb2.DefaultsKind
    node_order_revision: int
    def __init__(self, revision: _Optional[int] = ..., epoch: _Optional[str] = ..., skipped: _Optional[bool] = ..., scores: _Optional[_Iterable[_Union[NodeScore, _Mapping]]] = ..., constraints: _Optional[_Iterable[_Union[ConstraintReport, _Mapping]]] = ..., packed_scores: _Optional[_Iterable[int]] = ..., unknown_candidates: _Optional[_Iterable[str]] = ..., scored_bitmap: _Optional[bytes] = ..., decision_id: _Optional[str] = ..., age: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., unchecked: _Optional[_Iterable[str]] = ..., unknown_deletes: _Optional[_Iterable[_Union[ObjectReference, _Mapping]]] = ..., defaults: _Optional[_Union[_describe_spread_pb2.DefaultsKind, str]] = ..., node_order_revision: _Optional[int] = ...) -> None: ...

class NodeScore(_message.Message):
    __slots__ = ("node", "score", "raw", "ignored")
    NODE_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    RAW_FIELD_NUMBER: _ClassVar[int]
    IGNORED_FIELD_NUMBER: _ClassVar[int]
    node: str
    score: int
    raw: int
    ignored: bool
    def __init__(self, node: _Optional[str] = ..., score: _Optional[int] = ..., raw: _Optional[int] = ..., ignored: _Optional[bool] = ...) -> None: ...

class PlaceRequest(_message.Message):
    __slots__ = ("snapshot", "pod", "replicas", "candidates", "node_checks", "min_revision", "overlay", "dialect", "bonuses", "capacities", "reserve", "holders", "sticky", "view", "max_domains", "request_id", "epoch", "planning", "workloads", "completeness", "min_resource_versions")
    class MinResourceVersionsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    POD_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    CANDIDATES_FIELD_NUMBER: _ClassVar[int]
    NODE_CHECKS_FIELD_NUMBER: _ClassVar[int]
    MIN_REVISION_FIELD_NUMBER: _ClassVar[int]
    OVERLAY_FIELD_NUMBER: _ClassVar[int]
    DIALECT_FIELD_NUMBER: _ClassVar[int]
    BONUSES_FIELD_NUMBER: _ClassVar[int]
    CAPACITIES_FIELD_NUMBER: _ClassVar[int]
    RESERVE_FIELD_NUMBER: _ClassVar[int]
    HOLDERS_FIELD_NUMBER: _ClassVar[int]
    STICKY_FIELD_NUMBER: _ClassVar[int]
    VIEW_FIELD_NUMBER: _ClassVar[int]
    MAX_DOMAINS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    PLANNING_FIELD_NUMBER: _ClassVar[int]
    WORKLOADS_FIELD_NUMBER: _ClassVar[int]
    COMPLETENESS_FIELD_NUMBER: _ClassVar[int]
    MIN_RESOURCE_VERSIONS_FIELD_NUMBER: _ClassVar[int]
    snapshot: str
    pod: _kubernetes_pb2.Pod
    replicas: int
    candidates: NodeNames
    node_checks: NodeChecks
    min_revision: int
    overlay: _containers.RepeatedCompositeFieldContainer[Change]
    dialect: Dialect
    bonuses: _containers.RepeatedCompositeFieldContainer[NodeBonus]
    capacities: _containers.RepeatedCompositeFieldContainer[NodeCapacity]
    reserve: Reservation
    holders: _containers.RepeatedCompositeFieldContainer[Holder]
    sticky: _containers.RepeatedScalarFieldContainer[str]
    view: View
    max_domains: int
    request_id: str
    epoch: str
    planning: Planning
    workloads: _containers.RepeatedCompositeFieldContainer[WorkloadReplicas]
    completeness: Completeness
    min_resource_versions: _containers.ScalarMap[str, int]
    def __init__(self, snapshot: _Optional[str] = ..., pod: _Optional[_Union[_kubernetes_pb2.Pod, _Mapping]] = ..., replicas: _Optional[int] = ..., candidates: _Optional[_Union[NodeNames, _Mapping]] = ..., node_checks: _Optional[_Union[NodeChecks, str]] = ..., min_revision: _Optional[int] = ..., overlay: _Optional[_Iterable[_Union[Change, _Mapping]]] = ..., dialect: _Optional[_Union[Dialect, str]] = ..., bonuses: _Optional[_Iterable[_Union[NodeBonus, _Mapping]]] = ..., capacities: _Optional[_Iterable[_Union[NodeCapacity, _Mapping]]] = ..., reserve: _Optional[_Union[Reservation, _Mapping]] = ..., holders: _Optional[_Iterable[_Union[Holder, _Mapping]]] = ..., sticky: _Optional[_Iterable[str]] = ..., view: _Optional[_Union[View, str]] = ..., max_domains: _Optional[int] = ..., request_id: _Optional[str] = ..., epoch: _Optional[str] = ..., planning: _Optional[_Union[Planning, str]] = ..., workloads: _Optional[_Iterable[_Union[WorkloadReplicas, _Mapping]]] = ..., completeness: _Optional[_Union[Completeness, str]] = ..., min_resource_versions: _Optional[_Mapping[str, int]] = ...) -> None: ...

class WorkloadReplicas(_message.Message):
    __slots__ = ("pod", "replicas", "after_previous")
    POD_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    AFTER_PREVIOUS_FIELD_NUMBER: _ClassVar[int]
    pod: _kubernetes_pb2.Pod
    replicas: int
    after_previous: bool
    def __init__(self, pod: _Optional[_Union[_kubernetes_pb2.Pod, _Mapping]] = ..., replicas: _Optional[int] = ..., after_previous: _Optional[bool] = ...) -> None: ...

class NodeBonus(_message.Message):
    __slots__ = ("node", "score")
    NODE_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    node: str
    score: int
    def __init__(self, node: _Optional[str] = ..., score: _Optional[int] = ...) -> None: ...

class NodeCapacity(_message.Message):
    __slots__ = ("node", "replicas")
    NODE_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    node: str
    replicas: int
    def __init__(self, node: _Optional[str] = ..., replicas: _Optional[int] = ...) -> None: ...

class Reservation(_message.Message):
    __slots__ = ("owner", "ttl")
    OWNER_FIELD_NUMBER: _ClassVar[int]
    TTL_FIELD_NUMBER: _ClassVar[int]
    owner: str
    ttl: _duration_pb2.Duration
    def __init__(self, owner: _Optional[str] = ..., ttl: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class Holder(_message.Message):
    __slots__ = ("node", "state", "spread_score", "bonus")
    NODE_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    SPREAD_SCORE_FIELD_NUMBER: _ClassVar[int]
    BONUS_FIELD_NUMBER: _ClassVar[int]
    node: str
    state: HolderState
    spread_score: int
    bonus: int
    def __init__(self, node: _Optional[str] = ..., state: _Optional[_Union[HolderState, str]] = ..., spread_score: _Optional[int] = ..., bonus: _Optional[int] = ...) -> None: ...

class PlaceResponse(_message.Message):
    __slots__ = ("revision", "epoch", "placements", "unplaced", "reasons", "constraints", "removed", "constraints_before", "steps", "unknown_candidates", "reserved_until", "decision_id", "age", "unchecked", "unknown_deletes", "bound", "score_bound", "defaults", "workloads", "unknown_nodes")
    REVISION_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    PLACEMENTS_FIELD_NUMBER: _ClassVar[int]
    UNPLACED_FIELD_NUMBER: _ClassVar[int]
    REASONS_FIELD_NUMBER: _ClassVar[int]
    CONSTRAINTS_FIELD_NUMBER: _ClassVar[int]
    REMOVED_FIELD_NUMBER: _ClassVar[int]
    CONSTRAINTS_BEFORE_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_CANDIDATES_FIELD_NUMBER: _ClassVar[int]
    RESERVED_UNTIL_FIELD_NUMBER: _ClassVar[int]
    DECISION_ID_FIELD_NUMBER: _ClassVar[int]
    AGE_FIELD_NUMBER: _ClassVar[int]
    UNCHECKED_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_DELETES_FIELD_NUMBER: _ClassVar[int]
    BOUND_FIELD_NUMBER: _ClassVar[int]
    SCORE_BOUND_FIELD_NUMBER: _ClassVar[int]
    DEFAULTS_FIELD_NUMBER: _ClassVar[int]
    WORKLOADS_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_NODES_FIELD_NUMBER: _ClassVar[int]
    revision: int
    epoch: str
    placements: _containers.RepeatedCompositeFieldContainer[Placement]
    unplaced: int
    reasons: _containers.RepeatedCompositeFieldContainer[ReasonCount]
    constraints: _containers.RepeatedCompositeFieldContainer[ConstraintReport]
    removed: _containers.RepeatedScalarFieldContainer[str]
    constraints_before: _containers.RepeatedCompositeFieldContainer[ConstraintReport]
    steps: _containers.RepeatedCompositeFieldContainer[PlacementStep]
    unknown_candidates: _containers.RepeatedScalarFieldContainer[str]
    reserved_until: _timestamp_pb2.Timestamp
    decision_id: str
    age: _duration_pb2.Duration
    unchecked: _containers.RepeatedScalarFieldContainer[str]
    unknown_deletes: _containers.RepeatedCompositeFieldContainer[ObjectReference]
    bound: int
    score_bound: int
    defaults: _describe_spread_pb2.DefaultsKind
    workloads: _containers.RepeatedCompositeFieldContainer[WorkloadPlacement]
    unknown_nodes: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, revision: _Optional[int] = ..., epoch: _Optional[str] = ..., placements: _Optional[_Iterable[_Union[Placement, _Mapping]]] = ..., unplaced: _Optional[int] = ..., reasons: _Optional[_Iterable[_Union[ReasonCount, _Mapping]]] = ..., constraints: _Optional[_Iterable[_Union[ConstraintReport, _Mapping]]] = ..., removed: _Optional[_Iterable[str]] = ..., constraints_before: _Optional[_Iterable[_Union[ConstraintReport, _Mapping]]] = ..., steps: _Optional[_Iterable[_Union[PlacementStep, _Mapping]]] = ..., unknown_candidates: _Optional[_Iterable[str]] = ..., reserved_until: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., decision_id: _Optional[str] = ..., age: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., unchecked: _Optional[_Iterable[str]] = ..., unknown_deletes: _Optional[_Iterable[_Union[ObjectReference, _Mapping]]] = ..., bound: _Optional[int] = ..., score_bound: _Optional[int] = ..., defaults: _Optional[_Union[_describe_spread_pb2.DefaultsKind, str]] = ..., workloads: _Optional[_Iterable[_Union[WorkloadPlacement, _Mapping]]] = ..., unknown_nodes: _Optional[_Iterable[str]] = ...) -> None: ...

class WorkloadPlacement(_message.Message):
    __slots__ = ("placed_count", "unplaced", "reasons", "constraints", "constraints_before", "unchecked", "bound", "score_bound", "pod_name")
    PLACED_COUNT_FIELD_NUMBER: _ClassVar[int]
    UNPLACED_FIELD_NUMBER: _ClassVar[int]
    REASONS_FIELD_NUMBER: _ClassVar[int]
    CONSTRAINTS_FIELD_NUMBER: _ClassVar[int]
    CONSTRAINTS_BEFORE_FIELD_NUMBER: _ClassVar[int]
    UNCHECKED_FIELD_NUMBER: _ClassVar[int]
    BOUND_FIELD_NUMBER: _ClassVar[int]
    SCORE_BOUND_FIELD_NUMBER: _ClassVar[int]
    POD_NAME_FIELD_NUMBER: _ClassVar[int]
    placed_count: int
    unplaced: int
    reasons: _containers.RepeatedCompositeFieldContainer[ReasonCount]
    constraints: _containers.RepeatedCompositeFieldContainer[ConstraintReport]
    constraints_before: _containers.RepeatedCompositeFieldContainer[ConstraintReport]
    unchecked: _containers.RepeatedScalarFieldContainer[str]
    bound: int
    score_bound: int
    pod_name: str
    def __init__(self, placed_count: _Optional[int] = ..., unplaced: _Optional[int] = ..., reasons: _Optional[_Iterable[_Union[ReasonCount, _Mapping]]] = ..., constraints: _Optional[_Iterable[_Union[ConstraintReport, _Mapping]]] = ..., constraints_before: _Optional[_Iterable[_Union[ConstraintReport, _Mapping]]] = ..., unchecked: _Optional[_Iterable[str]] = ..., bound: _Optional[int] = ..., score_bound: _Optional[int] = ..., pod_name: _Optional[str] = ...) -> None: ...

class Placement(_message.Message):
    __slots__ = ("node", "score", "reservation_id", "workload", "pod_name")
    NODE_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    RESERVATION_ID_FIELD_NUMBER: _ClassVar[int]
    WORKLOAD_FIELD_NUMBER: _ClassVar[int]
    POD_NAME_FIELD_NUMBER: _ClassVar[int]
    node: str
    score: int
    reservation_id: str
    workload: int
    pod_name: str
    def __init__(self, node: _Optional[str] = ..., score: _Optional[int] = ..., reservation_id: _Optional[str] = ..., workload: _Optional[int] = ..., pod_name: _Optional[str] = ...) -> None: ...

class PlacementStep(_message.Message):
    __slots__ = ("scores", "violations", "ranking", "picked")
    SCORES_FIELD_NUMBER: _ClassVar[int]
    VIOLATIONS_FIELD_NUMBER: _ClassVar[int]
    RANKING_FIELD_NUMBER: _ClassVar[int]
    PICKED_FIELD_NUMBER: _ClassVar[int]
    scores: _containers.RepeatedCompositeFieldContainer[NodeScore]
    violations: _containers.RepeatedCompositeFieldContainer[NodeVerdict]
    ranking: _containers.RepeatedScalarFieldContainer[str]
    picked: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, scores: _Optional[_Iterable[_Union[NodeScore, _Mapping]]] = ..., violations: _Optional[_Iterable[_Union[NodeVerdict, _Mapping]]] = ..., ranking: _Optional[_Iterable[str]] = ..., picked: _Optional[_Iterable[str]] = ...) -> None: ...

class HeldPlacement(_message.Message):
    __slots__ = ("id", "owner", "namespace", "node", "reserved_until", "pod", "labels")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    RESERVED_UNTIL_FIELD_NUMBER: _ClassVar[int]
    POD_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    id: str
    owner: str
    namespace: str
    node: str
    reserved_until: _timestamp_pb2.Timestamp
    pod: ReservedPod
    labels: _containers.ScalarMap[str, str]
    def __init__(self, id: _Optional[str] = ..., owner: _Optional[str] = ..., namespace: _Optional[str] = ..., node: _Optional[str] = ..., reserved_until: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., pod: _Optional[_Union[ReservedPod, _Mapping]] = ..., labels: _Optional[_Mapping[str, str]] = ...) -> None: ...

class ReservedPod(_message.Message):
    __slots__ = ("name", "uid")
    NAME_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    name: str
    uid: str
    def __init__(self, name: _Optional[str] = ..., uid: _Optional[str] = ...) -> None: ...

class ReservePodsRequest(_message.Message):
    __slots__ = ("snapshot", "pods", "reserve")
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    PODS_FIELD_NUMBER: _ClassVar[int]
    RESERVE_FIELD_NUMBER: _ClassVar[int]
    snapshot: str
    pods: _containers.RepeatedCompositeFieldContainer[AssignedPod]
    reserve: Reservation
    def __init__(self, snapshot: _Optional[str] = ..., pods: _Optional[_Iterable[_Union[AssignedPod, _Mapping]]] = ..., reserve: _Optional[_Union[Reservation, _Mapping]] = ...) -> None: ...

class AssignedPod(_message.Message):
    __slots__ = ("pod", "node")
    POD_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    pod: _kubernetes_pb2.Pod
    node: str
    def __init__(self, pod: _Optional[_Union[_kubernetes_pb2.Pod, _Mapping]] = ..., node: _Optional[str] = ...) -> None: ...

class ReservePodsResponse(_message.Message):
    __slots__ = ("revision", "epoch", "reservation_ids", "reserved_until", "unknown_nodes")
    REVISION_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    RESERVATION_IDS_FIELD_NUMBER: _ClassVar[int]
    RESERVED_UNTIL_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_NODES_FIELD_NUMBER: _ClassVar[int]
    revision: int
    epoch: str
    reservation_ids: _containers.RepeatedScalarFieldContainer[str]
    reserved_until: _timestamp_pb2.Timestamp
    unknown_nodes: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, revision: _Optional[int] = ..., epoch: _Optional[str] = ..., reservation_ids: _Optional[_Iterable[str]] = ..., reserved_until: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., unknown_nodes: _Optional[_Iterable[str]] = ...) -> None: ...

class ConfirmReservationsRequest(_message.Message):
    __slots__ = ("snapshot", "confirmations")
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    CONFIRMATIONS_FIELD_NUMBER: _ClassVar[int]
    snapshot: str
    confirmations: _containers.RepeatedCompositeFieldContainer[Confirmation]
    def __init__(self, snapshot: _Optional[str] = ..., confirmations: _Optional[_Iterable[_Union[Confirmation, _Mapping]]] = ...) -> None: ...

class Confirmation(_message.Message):
    __slots__ = ("id", "pod")
    ID_FIELD_NUMBER: _ClassVar[int]
    POD_FIELD_NUMBER: _ClassVar[int]
    id: str
    pod: ReservedPod
    def __init__(self, id: _Optional[str] = ..., pod: _Optional[_Union[ReservedPod, _Mapping]] = ...) -> None: ...

class ConfirmReservationsResponse(_message.Message):
    __slots__ = ("revision", "epoch", "unknown_ids")
    REVISION_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_IDS_FIELD_NUMBER: _ClassVar[int]
    revision: int
    epoch: str
    unknown_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, revision: _Optional[int] = ..., epoch: _Optional[str] = ..., unknown_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class RenewReservationsRequest(_message.Message):
    __slots__ = ("snapshot", "ids", "ttl")
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    IDS_FIELD_NUMBER: _ClassVar[int]
    TTL_FIELD_NUMBER: _ClassVar[int]
    snapshot: str
    ids: _containers.RepeatedScalarFieldContainer[str]
    ttl: _duration_pb2.Duration
    def __init__(self, snapshot: _Optional[str] = ..., ids: _Optional[_Iterable[str]] = ..., ttl: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class RenewReservationsResponse(_message.Message):
    __slots__ = ("revision", "epoch", "unknown_ids", "reserved_until")
    REVISION_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_IDS_FIELD_NUMBER: _ClassVar[int]
    RESERVED_UNTIL_FIELD_NUMBER: _ClassVar[int]
    revision: int
    epoch: str
    unknown_ids: _containers.RepeatedScalarFieldContainer[str]
    reserved_until: _timestamp_pb2.Timestamp
    def __init__(self, revision: _Optional[int] = ..., epoch: _Optional[str] = ..., unknown_ids: _Optional[_Iterable[str]] = ..., reserved_until: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class ReleaseReservationsRequest(_message.Message):
    __slots__ = ("snapshot", "ids")
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    IDS_FIELD_NUMBER: _ClassVar[int]
    snapshot: str
    ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, snapshot: _Optional[str] = ..., ids: _Optional[_Iterable[str]] = ...) -> None: ...

class ReleaseReservationsResponse(_message.Message):
    __slots__ = ("revision", "epoch", "unknown_ids")
    REVISION_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_IDS_FIELD_NUMBER: _ClassVar[int]
    revision: int
    epoch: str
    unknown_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, revision: _Optional[int] = ..., epoch: _Optional[str] = ..., unknown_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class ListReservationsRequest(_message.Message):
    __slots__ = ("snapshot", "page_size", "page_token", "owner")
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    snapshot: str
    page_size: int
    page_token: str
    owner: str
    def __init__(self, snapshot: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., owner: _Optional[str] = ...) -> None: ...

class ListReservationsResponse(_message.Message):
    __slots__ = ("reservations", "next_page_token")
    RESERVATIONS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    reservations: _containers.RepeatedCompositeFieldContainer[HeldPlacement]
    next_page_token: str
    def __init__(self, reservations: _Optional[_Iterable[_Union[HeldPlacement, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class ListNodesRequest(_message.Message):
    __slots__ = ("snapshot", "page_size", "page_token", "min_revision", "epoch")
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    MIN_REVISION_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    snapshot: str
    page_size: int
    page_token: str
    min_revision: int
    epoch: str
    def __init__(self, snapshot: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., min_revision: _Optional[int] = ..., epoch: _Optional[str] = ...) -> None: ...

class ListNodesResponse(_message.Message):
    __slots__ = ("revision", "epoch", "node_order_revision", "names", "next_page_token", "node_count")
    REVISION_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    NODE_ORDER_REVISION_FIELD_NUMBER: _ClassVar[int]
    NAMES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    NODE_COUNT_FIELD_NUMBER: _ClassVar[int]
    revision: int
    epoch: str
    node_order_revision: int
    names: _containers.RepeatedScalarFieldContainer[str]
    next_page_token: str
    node_count: int
    def __init__(self, revision: _Optional[int] = ..., epoch: _Optional[str] = ..., node_order_revision: _Optional[int] = ..., names: _Optional[_Iterable[str]] = ..., next_page_token: _Optional[str] = ..., node_count: _Optional[int] = ...) -> None: ...

class GetSnapshotRequest(_message.Message):
    __slots__ = ("snapshot",)
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    snapshot: str
    def __init__(self, snapshot: _Optional[str] = ...) -> None: ...

class GetSnapshotResponse(_message.Message):
    __slots__ = ("snapshot",)
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    snapshot: Snapshot
    def __init__(self, snapshot: _Optional[_Union[Snapshot, _Mapping]] = ...) -> None: ...

class Snapshot(_message.Message):
    __slots__ = ("name", "epoch", "revision", "synced", "node_count", "pod_count", "reservation_count", "default_constraints", "create_time", "update_time", "label_set_count", "age", "stale", "kubernetes_version", "resource_versions", "cluster")
    class ResourceVersionsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    SYNCED_FIELD_NUMBER: _ClassVar[int]
    NODE_COUNT_FIELD_NUMBER: _ClassVar[int]
    POD_COUNT_FIELD_NUMBER: _ClassVar[int]
    RESERVATION_COUNT_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_CONSTRAINTS_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    UPDATE_TIME_FIELD_NUMBER: _ClassVar[int]
    LABEL_SET_COUNT_FIELD_NUMBER: _ClassVar[int]
    AGE_FIELD_NUMBER: _ClassVar[int]
    STALE_FIELD_NUMBER: _ClassVar[int]
    KUBERNETES_VERSION_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_VERSIONS_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    name: str
    epoch: str
    revision: int
    synced: bool
    node_count: int
    pod_count: int
    reservation_count: int
    default_constraints: DefaultConstraints
    create_time: _timestamp_pb2.Timestamp
    update_time: _timestamp_pb2.Timestamp
    label_set_count: int
    age: _duration_pb2.Duration
    stale: bool
    kubernetes_version: str
    resource_versions: _containers.ScalarMap[str, int]
    cluster: str
    def __init__(self, name: _Optional[str] = ..., epoch: _Optional[str] = ..., revision: _Optional[int] = ..., synced: _Optional[bool] = ..., node_count: _Optional[int] = ..., pod_count: _Optional[int] = ..., reservation_count: _Optional[int] = ..., default_constraints: _Optional[_Union[DefaultConstraints, _Mapping]] = ..., create_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., update_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., label_set_count: _Optional[int] = ..., age: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., stale: _Optional[bool] = ..., kubernetes_version: _Optional[str] = ..., resource_versions: _Optional[_Mapping[str, int]] = ..., cluster: _Optional[str] = ...) -> None: ...

class ListSnapshotsRequest(_message.Message):
    __slots__ = ("page_size", "page_token")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListSnapshotsResponse(_message.Message):
    __slots__ = ("snapshots", "next_page_token")
    SNAPSHOTS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    snapshots: _containers.RepeatedCompositeFieldContainer[Snapshot]
    next_page_token: str
    def __init__(self, snapshots: _Optional[_Iterable[_Union[Snapshot, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class DeleteSnapshotRequest(_message.Message):
    __slots__ = ("snapshot", "epoch")
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    snapshot: str
    epoch: str
    def __init__(self, snapshot: _Optional[str] = ..., epoch: _Optional[str] = ...) -> None: ...

class DeleteSnapshotResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ExportSnapshotRequest(_message.Message):
    __slots__ = ("snapshot",)
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    snapshot: str
    def __init__(self, snapshot: _Optional[str] = ...) -> None: ...

class ExportSnapshotResponse(_message.Message):
    __slots__ = ("update", "revision", "epoch", "summary")
    UPDATE_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    SUMMARY_FIELD_NUMBER: _ClassVar[int]
    update: UpdateSnapshotRequest
    revision: int
    epoch: str
    summary: ExportSummary
    def __init__(self, update: _Optional[_Union[UpdateSnapshotRequest, _Mapping]] = ..., revision: _Optional[int] = ..., epoch: _Optional[str] = ..., summary: _Optional[_Union[ExportSummary, _Mapping]] = ...) -> None: ...

class ExportSummary(_message.Message):
    __slots__ = ("object_count",)
    OBJECT_COUNT_FIELD_NUMBER: _ClassVar[int]
    object_count: int
    def __init__(self, object_count: _Optional[int] = ...) -> None: ...

class VerifySnapshotRequest(_message.Message):
    __slots__ = ("snapshot",)
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    snapshot: str
    def __init__(self, snapshot: _Optional[str] = ...) -> None: ...

class VerifySnapshotResponse(_message.Message):
    __slots__ = ("revision", "epoch", "node_count", "pod_count", "label_set_count", "partition_count", "view_count", "mismatch_count", "mismatches")
    REVISION_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    NODE_COUNT_FIELD_NUMBER: _ClassVar[int]
    POD_COUNT_FIELD_NUMBER: _ClassVar[int]
    LABEL_SET_COUNT_FIELD_NUMBER: _ClassVar[int]
    PARTITION_COUNT_FIELD_NUMBER: _ClassVar[int]
    VIEW_COUNT_FIELD_NUMBER: _ClassVar[int]
    MISMATCH_COUNT_FIELD_NUMBER: _ClassVar[int]
    MISMATCHES_FIELD_NUMBER: _ClassVar[int]
    revision: int
    epoch: str
    node_count: int
    pod_count: int
    label_set_count: int
    partition_count: int
    view_count: int
    mismatch_count: int
    mismatches: _containers.RepeatedCompositeFieldContainer[Mismatch]
    def __init__(self, revision: _Optional[int] = ..., epoch: _Optional[str] = ..., node_count: _Optional[int] = ..., pod_count: _Optional[int] = ..., label_set_count: _Optional[int] = ..., partition_count: _Optional[int] = ..., view_count: _Optional[int] = ..., mismatch_count: _Optional[int] = ..., mismatches: _Optional[_Iterable[_Union[Mismatch, _Mapping]]] = ...) -> None: ...

class Mismatch(_message.Message):
    __slots__ = ("namespace", "subject", "aspect", "kept", "recounted")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    ASPECT_FIELD_NUMBER: _ClassVar[int]
    KEPT_FIELD_NUMBER: _ClassVar[int]
    RECOUNTED_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    subject: str
    aspect: str
    kept: str
    recounted: str
    def __init__(self, namespace: _Optional[str] = ..., subject: _Optional[str] = ..., aspect: _Optional[str] = ..., kept: _Optional[str] = ..., recounted: _Optional[str] = ...) -> None: ...

class DecideRequest(_message.Message):
    __slots__ = ("question", "cancel", "same_revision")
    QUESTION_FIELD_NUMBER: _ClassVar[int]
    CANCEL_FIELD_NUMBER: _ClassVar[int]
    SAME_REVISION_FIELD_NUMBER: _ClassVar[int]
    question: Question
    cancel: int
    same_revision: SameRevision
    def __init__(self, question: _Optional[_Union[Question, _Mapping]] = ..., cancel: _Optional[int] = ..., same_revision: _Optional[_Union[SameRevision, _Mapping]] = ...) -> None: ...

class SameRevision(_message.Message):
    __slots__ = ("questions",)
    QUESTIONS_FIELD_NUMBER: _ClassVar[int]
    questions: _containers.RepeatedCompositeFieldContainer[Question]
    def __init__(self, questions: _Optional[_Iterable[_Union[Question, _Mapping]]] = ...) -> None: ...

class Question(_message.Message):
    __slots__ = ("id", "timeout", "filter", "score", "place")
    ID_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    PLACE_FIELD_NUMBER: _ClassVar[int]
    id: int
    timeout: _duration_pb2.Duration
    filter: FilterRequest
    score: ScoreRequest
    place: PlaceRequest
    def __init__(self, id: _Optional[int] = ..., timeout: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., filter: _Optional[_Union[FilterRequest, _Mapping]] = ..., score: _Optional[_Union[ScoreRequest, _Mapping]] = ..., place: _Optional[_Union[PlaceRequest, _Mapping]] = ...) -> None: ...

class DecideResponse(_message.Message):
    __slots__ = ("id", "filter", "score", "place", "error")
    ID_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    PLACE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    id: int
    filter: FilterResponse
    score: ScoreResponse
    place: PlaceResponse
    error: _status_pb2.Status
    def __init__(self, id: _Optional[int] = ..., filter: _Optional[_Union[FilterResponse, _Mapping]] = ..., score: _Optional[_Union[ScoreResponse, _Mapping]] = ..., place: _Optional[_Union[PlaceResponse, _Mapping]] = ..., error: _Optional[_Union[_status_pb2.Status, _Mapping]] = ...) -> None: ...
