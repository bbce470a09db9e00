import datetime

from evenkeel.v1 import describe_spread_pb2 as _describe_spread_pb2
from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class RankRemovalsRequest(_message.Message):
    __slots__ = ("snapshot", "namespace", "workload", "count", "pods", "min_revision", "max_domains", "epoch")
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    WORKLOAD_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    PODS_FIELD_NUMBER: _ClassVar[int]
    MIN_REVISION_FIELD_NUMBER: _ClassVar[int]
    MAX_DOMAINS_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    snapshot: str
    namespace: str
    workload: _describe_spread_pb2.WorkloadName
    count: int
    pods: _containers.RepeatedCompositeFieldContainer[PodFacts]
    min_revision: int
    max_domains: int
    epoch: str
    def __init__(self, snapshot: _Optional[str] = ..., namespace: _Optional[str] = ..., workload: _Optional[_Union[_describe_spread_pb2.WorkloadName, _Mapping]] = ..., count: _Optional[int] = ..., pods: _Optional[_Iterable[_Union[PodFacts, _Mapping]]] = ..., min_revision: _Optional[int] = ..., max_domains: _Optional[int] = ..., epoch: _Optional[str] = ...) -> None: ...

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
    __slots__ = ("revision", "epoch", "removals", "pod_count", "before", "after", "unknown_pod_count", "optimal", "fault", "age", "defaults")
    REVISION_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    REMOVALS_FIELD_NUMBER: _ClassVar[int]
    POD_COUNT_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_POD_COUNT_FIELD_NUMBER: _ClassVar[int]
    OPTIMAL_FIELD_NUMBER: _ClassVar[int]
    FAULT_FIELD_NUMBER: _ClassVar[int]
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
    age: _duration_pb2.Duration
    defaults: _describe_spread_pb2.DefaultsKind
    def __init__(self, revision: _Optional[int] = ..., epoch: _Optional[str] = ..., removals: _Optional[_Iterable[_Union[Removal, _Mapping]]] = ..., pod_count: _Optional[int] = ..., before: _Optional[_Iterable[_Union[_describe_spread_pb2.TopologySpread, _Mapping]]] = ..., after: _Optional[_Iterable[_Union[_describe_spread_pb2.TopologySpread, _Mapping]]] = ..., unknown_pod_count: _Optional[int] = ..., optimal: _Optional[bool] = ..., fault: _Optional[str] = ..., age: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., defaults: _Optional[_Union[_describe_spread_pb2.DefaultsKind, str]] = ...) -> None: ...

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
