"""Sends an UpdateSnapshotRequest that is read as JSON from standard input. Objects
in it may have all fields that Kubernetes has."""

import json
import sys

from google.protobuf.json_format import ParseDict

import evenkeel
from evenkeel.v1 import spread_service_pb2 as api

request = ParseDict(json.load(sys.stdin), api.UpdateSnapshotRequest(), ignore_unknown_fields=True)
with evenkeel.Client(sys.argv[1]) as client:
    client.UpdateSnapshot(request, timeout=10)
