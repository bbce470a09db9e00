"""Sends an UpdateSnapshotRequest that is read as JSON from standard input. Objects
in it may have all fields that Kubernetes has."""

import json
import sys

import grpc
from google.protobuf.json_format import ParseDict

from evenkeel.v1 import spread_service_pb2 as api
from evenkeel.v1 import spread_service_pb2_grpc as rpc

request = ParseDict(json.load(sys.stdin), api.UpdateSnapshotRequest(), ignore_unknown_fields=True)
with grpc.insecure_channel(sys.argv[1]) as channel:
    rpc.SpreadServiceStub(channel).UpdateSnapshot(request, timeout=10)
