"""A small orchestrator: feeds a cluster, asks where pods may and should run,
places them with reservations, starts them and confirms."""

import json
import sys

import grpc
from google.protobuf import duration_pb2

from evenkeel.v1 import kubernetes_pb2 as k8s
from evenkeel.v1 import spread_service_pb2 as api
from evenkeel.v1 import spread_service_pb2_grpc as rpc

SNAPSHOT = "python"
ZONE = "topology.kubernetes.io/zone"
HOSTNAME = "kubernetes.io/hostname"
TIMEOUT_S = 10

# Calls go to every server that the name stands for. Questions may be asked
# again; what changes something, only by who knows what came of it.
SERVICE_CONFIG = {
    "loadBalancingConfig": [{"round_robin": {}}],
    "methodConfig": [{
        "name": [
            {"service": "evenkeel.v1.SpreadService", "method": "Filter"},
            {"service": "evenkeel.v1.SpreadService", "method": "Score"},
        ],
        "retryPolicy": {
            "maxAttempts": 4,
            "initialBackoff": "0.1s",
            "maxBackoff": "2s",
            "backoffMultiplier": 2,
            "retryableStatusCodes": ["UNAVAILABLE"],
        },
    }],
}


def node(name, zone):
    labels = {ZONE: zone, HOSTNAME: name}
    return k8s.Node(metadata=k8s.ObjectMeta(name=name, labels=labels))


def constraint(key, when):
    selector = k8s.LabelSelector(match_labels={"app": "web"})
    return k8s.TopologySpreadConstraint(
        max_skew=1, topology_key=key, when_unsatisfiable=when, label_selector=selector)


def pod(name="", node_name=""):
    constraints = [constraint(ZONE, "DoNotSchedule"), constraint(HOSTNAME, "ScheduleAnyway")]
    return k8s.Pod(
        metadata=k8s.ObjectMeta(name=name, namespace="shop", labels={"app": "web"}),
        spec=k8s.PodSpec(node_name=node_name, topology_spread_constraints=constraints),
        status=k8s.PodStatus(phase="Running" if node_name else "Pending"))


def feed(stub):
    """Replaces the snapshot by the whole cluster. Returns its revision."""
    nodes = [node(f"node-{zone}{i}", f"zone-{zone}") for zone in "abc" for i in (1, 2)]
    changes = [api.Change(node=n) for n in nodes]
    steps = [
        api.StreamSnapshotRequest(begin_replace=api.BeginReplace(snapshot=SNAPSHOT)),
        api.StreamSnapshotRequest(
            update=api.UpdateSnapshotRequest(snapshot=SNAPSHOT, changes=changes)),
        api.StreamSnapshotRequest(commit_replace=api.CommitReplace(snapshot=SNAPSHOT)),
    ]
    answers = list(stub.StreamSnapshot(iter(steps), timeout=TIMEOUT_S))
    return answers[-1].update.revision


def start(stub, number, placement):
    """Confirms a reservation for a pod, and reports the pod once it runs."""
    name = f"web-{number}"
    confirmation = api.Confirmation(
        id=placement.reservation_id, pod=api.ReservedPod(name=name))
    stub.ConfirmReservations(
        api.ConfirmReservationsRequest(snapshot=SNAPSHOT, confirmations=[confirmation]),
        timeout=TIMEOUT_S)
    running = api.Change(pod=pod(name, placement.node))
    update = api.UpdateSnapshotRequest(snapshot=SNAPSHOT, changes=[running])
    return stub.UpdateSnapshot(update, timeout=TIMEOUT_S).revision


def place(stub, replicas, revision):
    request = api.PlaceRequest(
        snapshot=SNAPSHOT, pod=pod(), replicas=replicas, min_revision=revision,
        reserve=api.Reservation(owner="example", ttl=duration_pb2.Duration(seconds=60)))
    answer = stub.Place(request, timeout=TIMEOUT_S)
    print("placed:", *(placement.node for placement in answer.placements))
    return answer.placements


def main():
    server = sys.argv[1] if len(sys.argv) > 1 else "localhost:50051"
    options = [("grpc.service_config", json.dumps(SERVICE_CONFIG))]
    with grpc.insecure_channel(server, options=options) as channel:
        stub = rpc.SpreadServiceStub(channel)
        revision = feed(stub)

        answer = stub.Filter(
            api.FilterRequest(snapshot=SNAPSHOT, pod=pod(), min_revision=revision),
            timeout=TIMEOUT_S)
        print(f"feasible: {answer.feasible_count} of {answer.node_count}")
        answer = stub.Score(
            api.ScoreRequest(snapshot=SNAPSHOT, pod=pod(), min_revision=revision, top=1),
            timeout=TIMEOUT_S)
        print("best:", answer.scores[0].node)

        for number, placement in enumerate(place(stub, 5, revision)):
            revision = start(stub, number, placement)

        # A pod goes, another comes.
        gone = api.ObjectReference(kind="Pod", namespace="shop", name="web-1")
        update = api.UpdateSnapshotRequest(snapshot=SNAPSHOT, changes=[api.Change(delete=gone)])
        revision = stub.UpdateSnapshot(update, timeout=TIMEOUT_S).revision
        [placement] = place(stub, 1, revision)
        revision = start(stub, 5, placement)

        held = stub.ListReservations(
            api.ListReservationsRequest(snapshot=SNAPSHOT), timeout=TIMEOUT_S)
        print("reserved:", len(held.reservations))
        answer = stub.Filter(
            api.FilterRequest(
                snapshot=SNAPSHOT, pod=pod(), min_revision=revision, view=api.VIEW_DOMAINS),
            timeout=TIMEOUT_S)
        for domain in sorted(answer.constraints[0].domains, key=lambda domain: domain.value):
            print(f"{domain.value}: {domain.matching_pods}")


if __name__ == "__main__":
    main()
