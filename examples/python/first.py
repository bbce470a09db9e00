"""The first decision of docs/api.md, of the server whose address is the argument."""

import sys

import evenkeel
from evenkeel.v1 import spread_service_pb2 as api

address = sys.argv[1]
client = evenkeel.Client(address)
constraint = {
    "maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"app": "web"}}}
pod = evenkeel.from_kubernetes({
    "kind": "Pod", "metadata": {"namespace": "shop", "labels": {"app": "web"}},
    "spec": {"topologySpreadConstraints": [constraint]}})
answer = client.Filter(api.FilterRequest(pod=pod))
print("[" + " ".join(answer.feasible) + "]")
