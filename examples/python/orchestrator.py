"""A small orchestrator: feeds a cluster, asks where pods may and should run,
places them with reservations, starts them and confirms.

Each server has its own state, revisions and reservations. So all of them are
fed, any of them is asked, and one of them reserves."""

import argparse
import json
import uuid

import grpc
from google.protobuf import duration_pb2

from evenkeel.v1 import kubernetes_pb2 as k8s
from evenkeel.v1 import spread_service_pb2 as api
from evenkeel.v1 import spread_service_pb2_grpc as rpc

SNAPSHOT = "python"
ZONE = "topology.kubernetes.io/zone"
HOSTNAME = "kubernetes.io/hostname"
TIMEOUT_S = 10

# Questions go to all servers in turn, and to another one when one is gone. What
# changes something may be repeated only by who knows what came of it, and Place
# because it has a request_id: the same id gets the same answer.
SERVICE_CONFIG = {
    "loadBalancingConfig": [{"round_robin": {}}],
    "methodConfig": [{
        "name": [
            {"service": "evenkeel.v1.SpreadService", "method": "Filter"},
            {"service": "evenkeel.v1.SpreadService", "method": "Score"},
            {"service": "evenkeel.v1.SpreadService", "method": "Place"},
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


def replace(stub, changes):
    """Replaces the snapshot of a server. Returns its revision."""
    steps = [
        api.StreamSnapshotRequest(begin_replace=api.BeginReplace(snapshot=SNAPSHOT)),
        api.StreamSnapshotRequest(
            update=api.UpdateSnapshotRequest(snapshot=SNAPSHOT, changes=changes)),
        api.StreamSnapshotRequest(commit_replace=api.CommitReplace(snapshot=SNAPSHOT)),
    ]
    answers = list(stub.StreamSnapshot(iter(steps), timeout=TIMEOUT_S))
    return answers[-1].update.revision


class Orchestrator:
    """`servers` are fed, each at its own address, and the first one reserves.
    `questions` goes to any server that is ready."""

    def __init__(self, servers, questions):
        self.servers = servers
        self.questions = questions
        self.reserving = servers[0]
        # Of the first server. The others count their own.
        self.revision = 0

    def feed(self):
        """Replaces the snapshot of each server by the whole cluster."""
        nodes = [node(f"node-{zone}{i}", f"zone-{zone}") for zone in "abc" for i in (1, 2)]
        changes = [api.Change(node=n) for n in nodes]
        self.revision, *_ = [replace(server, changes) for server in self.servers]

    def update(self, change):
        """Returns once every server has applied a change. From then on all of
        them answer alike, so questions need no min_revision."""
        update = api.UpdateSnapshotRequest(snapshot=SNAPSHOT, changes=[change])
        answers = [server.UpdateSnapshot(update, timeout=TIMEOUT_S) for server in self.servers]
        self.revision = answers[0].revision

    def place(self, replicas):
        """Picks nodes and holds them."""
        request = api.PlaceRequest(
            snapshot=SNAPSHOT, pod=pod(), replicas=replicas, min_revision=self.revision,
            request_id=str(uuid.uuid4()),
            reserve=api.Reservation(owner="example", ttl=duration_pb2.Duration(seconds=60)))
        answer = self.reserving.Place(request, timeout=TIMEOUT_S)
        print("placed:", *(placement.node for placement in answer.placements))
        return answer.placements

    def start(self, name, placement):
        """Confirms a reservation for a pod, and reports the pod once it runs."""
        confirmation = api.Confirmation(
            id=placement.reservation_id, pod=api.ReservedPod(name=name))
        self.reserving.ConfirmReservations(
            api.ConfirmReservationsRequest(snapshot=SNAPSHOT, confirmations=[confirmation]),
            timeout=TIMEOUT_S)
        self.update(api.Change(pod=pod(name, placement.node)))

    def ask(self, *questions):
        """Asks over one stream, which costs less than calls. Returns the answers.

        They come in the order of completion, so each is found by its id. A program
        that asks often keeps its stream open, and asks anew what was not answered
        when a stream ends.
        """
        steps = (
            api.DecideRequest(question=api.Question(id=number, **question))
            for number, question in enumerate(questions))
        answers = {}
        for answer in self.questions.Decide(steps, timeout=TIMEOUT_S):
            if answer.HasField("error"):
                raise RuntimeError(answer.error.message)
            answers[answer.id] = answer
        return [answers[number] for number in range(len(questions))]

    def look(self):
        """Prints where a pod may and should run."""
        filtered, scored = self.ask(
            {"filter": api.FilterRequest(snapshot=SNAPSHOT, pod=pod())},
            {"score": api.ScoreRequest(snapshot=SNAPSHOT, pod=pod(), top=1)})
        print(f"feasible: {filtered.filter.feasible_count} of {filtered.filter.node_count}")
        print("best:", scored.score.scores[0].node)

    def count(self):
        """Prints what is left of the reservations, and pods per zone."""
        held = self.reserving.ListReservations(
            api.ListReservationsRequest(snapshot=SNAPSHOT), timeout=TIMEOUT_S)
        print("reserved:", len(held.reservations))
        answer = self.questions.Filter(
            api.FilterRequest(snapshot=SNAPSHOT, pod=pod(), view=api.VIEW_DOMAINS),
            timeout=TIMEOUT_S)
        for domain in sorted(answer.constraints[0].domains, key=lambda domain: domain.value):
            print(f"{domain.value}: {domain.matching_pods}")

    def run(self):
        self.feed()
        self.look()
        for number, placement in enumerate(self.place(5)):
            self.start(f"web-{number}", placement)

        # A pod goes, another comes.
        gone = api.ObjectReference(kind="Pod", namespace="shop", name="web-1")
        self.update(api.Change(delete=gone))
        [placement] = self.place(1)
        self.start("web-5", placement)
        self.count()


def stub(target, *options):
    """Calls the servers that a target names."""
    options = [("grpc.service_config", json.dumps(SERVICE_CONFIG)), *options]
    return rpc.SpreadServiceStub(grpc.insecure_channel(target, options=options))


def questions(servers, name):
    """Calls any server: those of a name, or these IP addresses."""
    if name:
        return stub(name)
    # Several addresses are not the name of a server, and one is needed.
    return stub("ipv4:" + ",".join(servers), ("grpc.default_authority", "evenkeel"))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "servers", nargs="*", default=["127.0.0.1:50051"], help="address of each server")
    parser.add_argument(
        "--ask", metavar="NAME", help="name of all servers that are ready, such as "
        "dns:///evenkeel.evenkeel:50051; without it, the servers have to be IP addresses")
    arguments = parser.parse_args()
    servers = [stub(server) for server in arguments.servers]
    Orchestrator(servers, questions(arguments.servers, arguments.ask)).run()


if __name__ == "__main__":
    main()
