"""A small orchestrator: feeds a cluster, asks where pods may and should run,
places them with reservations, starts them and confirms.

Each server has its own state, revisions and reservations. So all of them are
fed, any of them is asked, and one of them reserves."""

import argparse

from google.protobuf import duration_pb2

import evenkeel
from evenkeel.v1 import kubernetes_pb2 as k8s
from evenkeel.v1 import spread_service_pb2 as api

SNAPSHOT = "python"
ZONE = "topology.kubernetes.io/zone"
HOSTNAME = "kubernetes.io/hostname"
TIMEOUT_S = 10

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


class Orchestrator:
    """`servers` are fed, each at its own address, and the first one reserves.
    `questions` goes to any server that is ready."""

    def __init__(self, servers, questions):
        self.servers = servers
        self.questions = questions
        self.reserving = servers[0]
        # The cluster, by name. A feed asks for it at first, and when a server has lost it.
        self.objects = {}
        self.feeds = []
        # Of the first server. The others count their own revisions.
        self.position = None

    def feed(self):
        """Replaces the snapshot of each server by the whole cluster."""
        nodes = [node(f"node-{zone}{i}", f"zone-{zone}") for zone in "abc" for i in (1, 2)]
        self.objects = {n.metadata.name: evenkeel.change(n) for n in nodes}
        self.feeds = [
            evenkeel.Feed(server, lambda: list(self.objects.values()), snapshot=SNAPSHOT)
            for server in self.servers]
        self.flush()

    def update(self, name, change):
        """Returns once every server has applied a change of a pod. From then on all of
        them answer alike, so questions need no min_revision. The change is noted before it is
        sent, so no list is without it."""
        if change.HasField("delete"):
            self.objects.pop(name)
        else:
            self.objects[name] = change
        for feed in self.feeds:
            feed.send(change)
        self.flush()

    def flush(self):
        self.position, *_ = [feed.flush(TIMEOUT_S) for feed in self.feeds]

    def place(self, replicas):
        """Picks nodes and holds them."""
        request = api.PlaceRequest(
            snapshot=SNAPSHOT, pod=pod(), replicas=replicas,
            min_revision=self.position.revision, epoch=self.position.epoch,
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
        self.update(name, evenkeel.change(pod(name, placement.node)))

    def look(self):
        """Prints where a pod may and should run. Both questions are asked before either is
        answered, over one stream, which costs less than calls."""
        with evenkeel.Decider(self.questions) as decider:
            filtered = decider.filter(api.FilterRequest(snapshot=SNAPSHOT, pod=pod()), TIMEOUT_S)
            scored = decider.score(api.ScoreRequest(snapshot=SNAPSHOT, pod=pod(), top=1), TIMEOUT_S)
            print(f"feasible: {filtered.result().feasible_count} of {filtered.result().node_count}")
            print("best:", scored.result().scores[0].node)

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
        self.update("web-1", evenkeel.delete("Pod", "shop", "web-1"))
        [placement] = self.place(1)
        self.start("web-5", placement)
        self.count()
        for feed in self.feeds:
            feed.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "servers", nargs="*", default=["127.0.0.1:50051"], help="address of each server")
    parser.add_argument(
        "--ask", metavar="NAME", help="name of all servers that are ready, such as "
        "dns:///evenkeel.evenkeel:50051; without it, the servers have to be IP addresses")
    arguments = parser.parse_args()
    servers = [evenkeel.Client(server) for server in arguments.servers]
    questions = evenkeel.Client(arguments.ask or ",".join(arguments.servers))
    Orchestrator(servers, questions).run()


if __name__ == "__main__":
    main()
