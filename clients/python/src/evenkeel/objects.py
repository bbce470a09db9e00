"""Changes of objects, and objects as Kubernetes writes them."""

import re
from typing import Any

import grpc
from google.protobuf.json_format import ParseDict
from google.protobuf.message import Message
from google.rpc import error_details_pb2
from grpc_status import rpc_status

from evenkeel.v1 import kubernetes_pb2 as kubernetes
from evenkeel.v1 import spread_service_pb2 as api

# The field of a change for each kind of object.
FIELDS = {field.message_type.name: name for name, field in api.Change.DESCRIPTOR.fields_by_name.items()
          if name != "delete" and field.message_type is not None}
BATCH_SIZE = 1000


def change(item: Message) -> api.Change:
    """The change that creates or updates an object.

    Args:
        item: A message of `evenkeel.v1.kubernetes_pb2`, such as a Node or a Pod.

    Raises:
        ValueError: A snapshot has no such objects.
    """
    if item.DESCRIPTOR.name not in FIELDS:
        raise ValueError(f"no object of a snapshot: {item.DESCRIPTOR.full_name}")
    arguments: dict[str, Any] = {FIELDS[item.DESCRIPTOR.name]: item}
    return api.Change(**arguments)


def delete(kind: str, namespace: str, name: str, uid: str = "") -> api.Change:
    """The change that deletes an object.

    Args:
        kind: Kind of the object, such as "Pod".
        namespace: Its namespace; empty means "default", and nothing for what is in none.
        name: Its name.
        uid: If not empty, only an object that has it is deleted.
    """
    return api.Change(delete=api.ObjectReference(kind=kind, namespace=namespace, name=name, uid=uid))


def from_kubernetes(item: dict[str, Any]) -> Message:
    """An object as a message. Fields that no decision reads are left out.

    Args:
        item: The JSON of Kubernetes: a manifest or an item of `kubectl get -o json`, which has its kind.

    Raises:
        ValueError: It has no kind, or none that a snapshot has objects of.
    """
    kind = item.get("kind")
    if not kind:
        raise ValueError('the object has no "kind", such as "Pod": lists of an API server leave it out of items')
    if kind not in FIELDS:
        raise ValueError(f"no kind of a snapshot: {kind}; there are {', '.join(sorted(FIELDS))}")
    message: Message = getattr(kubernetes, kind)()
    return ParseDict(item, message, ignore_unknown_fields=True)


def identity(one: api.Change) -> tuple[str, str, str]:
    """What a batch may have one change of."""
    field = one.WhichOneof("object")
    if field == "delete":
        kind, namespace, name = one.delete.kind, one.delete.namespace, one.delete.name
    elif field is None:
        return ("", "", "")
    else:
        item = getattr(one, field)
        kind, namespace, name = type(item).__name__, item.metadata.namespace, item.metadata.name
    if kind in ("Node", "Namespace"):
        return (kind, "", name)
    return (kind, namespace or "default", name)


def batch_of(changes: list[api.Change], start: int) -> list[api.Change]:
    """The changes from one on that may be sent together."""
    seen = set()
    for number in range(start, len(changes)):
        key = identity(changes[number])
        if key in seen or number - start == BATCH_SIZE:
            return changes[start:number]
        seen.add(key)
    return changes[start:]


def refused_in(error: BaseException) -> set[int]:
    """The numbers of the changes of a batch that an error names as not valid."""
    refused: set[int] = set()
    if not isinstance(error, grpc.aio.AioRpcError) or error.code() != grpc.StatusCode.INVALID_ARGUMENT:
        return refused
    status = rpc_status.from_call(error)
    for detail in status.details if status is not None else ():
        faults = error_details_pb2.BadRequest()
        if detail.Unpack(faults):
            found = (re.match(r"update\.changes\[(\d+)\]", fault.field) for fault in faults.field_violations)
            refused.update(int(match[1]) for match in found if match)
    return refused
