"""Tests against real servers: of the program that $EVENKEEL names, or that `cargo build` has made."""

import asyncio
import inspect
import json
import os
import pathlib
import random
import shutil
import subprocess
import tempfile
import threading
import time
import unittest
from concurrent import futures
from typing import Any

import grpc
from google.rpc import error_details_pb2
from grpc_status import rpc_status

import evenkeel
from evenkeel import aio
from evenkeel.v1 import kubernetes_pb2 as k8s
from evenkeel.v1 import spread_service_pb2 as api
from evenkeel.v1 import spread_service_pb2_grpc as rpc

ROOT = pathlib.Path(__file__).parents[3]
ZONE = "topology.kubernetes.io/zone"
DEADLINE_S = 60


class Server:
    def __init__(self, *flags: str) -> None:
        program = os.environ.get("EVENKEEL") or str(ROOT / "target/debug/evenkeel")
        command = [program, "serve", "--log-format", "json", "--drain-pause", "0s", *flags]
        self.process = subprocess.Popen(command, env={}, stderr=subprocess.PIPE, text=True)
        assert self.process.stderr is not None
        for line in self.process.stderr:
            if '"listening"' in line:
                self.address = json.loads(line)["address"]
                break
        else:
            raise RuntimeError("the server has not started")
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self) -> None:
        with self.process.stderr as rest:
            rest.read()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self.reader.join()


def node(number: int) -> k8s.Node:
    labels = {ZONE: f"zone-{number % 3}"}
    return k8s.Node(metadata=k8s.ObjectMeta(name=f"node-{number}", labels=labels))


def pod(name: str = "", node_name: str = "") -> k8s.Pod:
    constraint = k8s.TopologySpreadConstraint(
        max_skew=1, topology_key=ZONE, when_unsatisfiable="DoNotSchedule",
        label_selector=k8s.LabelSelector(match_labels={"app": "web"}))
    return k8s.Pod(
        metadata=k8s.ObjectMeta(name=name, namespace="shop", labels={"app": "web"}),
        spec=k8s.PodSpec(node_name=node_name, topology_spread_constraints=[constraint]))


def fill(client: evenkeel.Client, snapshot: str) -> None:
    changes = [evenkeel.change(pod("web-0", "node-0")), *(evenkeel.change(node(number)) for number in range(6))]
    client.UpdateSnapshot(api.UpdateSnapshotRequest(
        snapshot=snapshot, changes=changes, mode=api.MODE_REPLACE), timeout=DEADLINE_S)


class WithServer(unittest.TestCase):
    def serve(self, *flags: str) -> Server:
        server = Server(*flags)
        self.addCleanup(server.kill)
        return server

    def dial(self, servers: str) -> evenkeel.Client:
        client = evenkeel.Client(servers)
        self.addCleanup(client.close)
        return client


class Truth:
    """What a feed has to make of a snapshot."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.pods: dict[str, str] = {}
        self.others: list[api.Change] = []
        self.lists = 0

    def list(self) -> list[api.Change]:
        with self.lock:
            self.lists += 1
            objects = [*(node(n) for n in range(3)), *(pod(name, on) for name, on in self.pods.items())]
            return [evenkeel.change(item) for item in objects] + self.others

    def change(self, feed: evenkeel.Feed, chance: random.Random) -> None:
        with self.lock:
            name = f"pod-{chance.randrange(40)}"
            if chance.randrange(3) == 0:
                self.pods.pop(name, None)
                feed.send(evenkeel.delete("Pod", "shop", name))
            else:
                self.pods[name] = f"node-{chance.randrange(3)}"
                feed.send(evenkeel.change(pod(name, self.pods[name])))

    def wanted(self) -> dict[str, str]:
        with self.lock:
            return {"node-0": "", "node-1": "", "node-2": ""} | self.pods


def exported(client: evenkeel.Client) -> dict[str, str]:
    held = {}
    for part in client.ExportSnapshot(api.ExportSnapshotRequest(snapshot="fed"), timeout=DEADLINE_S):
        for one in part.update.changes:
            if one.HasField("pod"):
                held[one.pod.metadata.name] = one.pod.spec.node_name
            else:
                held[one.node.metadata.name] = ""
    return held


class FeedTest(WithServer):
    def feed(self, happen: Any, lists: int, refused: int = 0, stored: bool = False) -> None:
        """Feeds while something happens: how often must the state be listed, and how much is refused?"""
        flags = []
        if stored:
            directory = tempfile.TemporaryDirectory()
            self.addCleanup(directory.cleanup)
            self.directory = directory.name
            flags = ["--state-dir", directory.name]
        self.server = self.serve(*flags, "--listen", "127.0.0.1:0")
        address = self.server.address

        def restart() -> None:
            self.server.kill()
            self.server = self.serve(*flags, "--listen", address)

        self.restart = restart
        self.client = self.dial(self.server.address)
        self.truth = Truth()
        refusals: list[api.Change] = []
        seed = time.time_ns()
        chance = random.Random(seed)
        with self.subTest(seed=seed), evenkeel.Feed(
                self.client, self.truth.list, snapshot="fed", heartbeat=0.05,
                on_refused=lambda one, error: refusals.append(one)) as feed:
            feed.flush(DEADLINE_S)
            for number in range(200):
                if number == 100:
                    happen(self, feed)
                self.truth.change(feed, chance)
                if chance.randrange(20) == 0:
                    feed.flush(DEADLINE_S)
            deadline = time.monotonic() + DEADLINE_S
            while True:
                position = feed.flush(DEADLINE_S)
                held = exported(self.client)
                if held == self.truth.wanted() and self.truth.lists >= lists:
                    break
                self.assertLess(time.monotonic(), deadline, (held, self.truth.wanted()))
                time.sleep(0.02)
            self.client.Filter(api.FilterRequest(
                snapshot="fed", pod=pod(), min_revision=position.revision, epoch=position.epoch), timeout=DEADLINE_S)
        self.assertEqual(self.truth.lists, lists)
        self.assertEqual(len(refusals), refused)

    def test_what_is_refused_is_logged(self) -> None:
        client = self.dial(self.serve("--listen", "127.0.0.1:0").address)
        with self.assertLogs("evenkeel", "ERROR") as logged, evenkeel.Feed(client, lambda: []) as feed:
            feed.flush(DEADLINE_S)
            feed.send(evenkeel.change(k8s.Pod(metadata=k8s.ObjectMeta(name="No Name", namespace="shop"))))
            feed.flush(DEADLINE_S)
        self.assertIn("leaves out Pod shop/No Name", logged.output[0])
        self.assertIn("metadata.name", logged.output[0])

    def test_nothing_happens(self) -> None:
        self.feed(lambda test, feed: None, 1)

    def test_state_is_lost(self) -> None:
        self.feed(lambda test, feed: test.restart(), 2)

    def test_state_is_stored(self) -> None:
        self.feed(lambda test, feed: test.restart(), 1, stored=True)

    def test_state_goes_back(self) -> None:
        def happen(test: FeedTest, feed: evenkeel.Feed) -> None:
            copy = test.directory + ".copy"
            test.server.kill()
            shutil.copytree(test.directory, copy)
            test.restart()
            feed.send(*(evenkeel.change(node(number)) for number in range(3)))
            test.truth.change(feed, random.Random(1))
            feed.flush(DEADLINE_S)
            test.server.kill()
            shutil.rmtree(test.directory)
            shutil.move(copy, test.directory)
            test.restart()
        self.feed(happen, 2, stored=True)

    def test_snapshot_is_deleted(self) -> None:
        self.feed(lambda test, feed: test.client.DeleteSnapshot(api.DeleteSnapshotRequest(snapshot="fed")), 2)

    def test_invalid_object(self) -> None:
        self.feed(lambda test, feed: feed.send(evenkeel.change(pod("Not a name"))), 1, refused=1)

    def test_invalid_in_list(self) -> None:
        def happen(test: FeedTest, feed: evenkeel.Feed) -> None:
            test.truth.others.append(evenkeel.change(pod("Not a name")))
            test.restart()
        self.feed(happen, 2, refused=1)

    def test_too_many_changes(self) -> None:
        many = [evenkeel.delete("Pod", "shop", "gone")] * 100_001
        self.feed(lambda test, feed: feed.send(*many), 2)


class DeciderTest(WithServer):
    def test_answers_are_those_of_calls(self) -> None:
        client = self.dial(self.serve("--listen", "127.0.0.1:0").address)
        fill(client, "")
        with evenkeel.Decider(client) as decider:
            # More than a server takes unanswered at once.
            filters = [decider.filter(api.FilterRequest(pod=pod())) for _ in range(600)]
            wanted = client.Filter(api.FilterRequest(pod=pod()))
            self.assertEqual(wanted.feasible_count, 4)
            for answer in filters:
                self.assertEqual(answer.result(DEADLINE_S), wanted)
            score, place = api.ScoreRequest(pod=pod()), api.PlaceRequest(pod=pod(), replicas=2)
            self.assertEqual(decider.score(score).result(DEADLINE_S), client.Score(score))
            self.assertEqual(decider.place(place).result(DEADLINE_S), client.Place(place))

    def test_errors_are_those_of_calls(self) -> None:
        client = self.dial(self.serve("--listen", "127.0.0.1:0").address)
        fill(client, "")
        late = api.FilterRequest(pod=pod(), min_revision=1 << 40)
        decider = evenkeel.Decider(client)
        with self.assertRaises(grpc.RpcError) as raised:
            decider.filter(api.FilterRequest()).result(DEADLINE_S)
        status = rpc_status.from_call(raised.exception)
        info = error_details_pb2.ErrorInfo()
        self.assertTrue(any(detail.Unpack(info) for detail in status.details))
        self.assertEqual(info.reason, "INVALID_REQUEST")
        with self.assertRaises(grpc.RpcError) as raised:
            decider.filter(late, timeout=0.05).result(DEADLINE_S)
        self.assertEqual(raised.exception.code(), grpc.StatusCode.DEADLINE_EXCEEDED)
        for given_up in [decider.filter(late) for _ in range(300)]:
            given_up.cancel()
        decider.filter(api.FilterRequest(pod=pod())).result(DEADLINE_S)
        unanswered = decider.filter(late)
        decider.close()
        with self.assertRaises(futures.CancelledError):
            unanswered.result(DEADLINE_S)

    def test_another_server_is_asked(self) -> None:
        servers = [self.serve("--listen", "127.0.0.1:0") for _ in range(2)]
        for server in servers:
            fill(self.dial(server.address), "")
        with evenkeel.Decider(self.dial(",".join(server.address for server in servers))) as decider:
            for number in range(20):
                if number == 10:
                    servers[0].kill()
                answers = [decider.filter(api.FilterRequest(pod=pod())) for _ in range(10)]
                for answer in answers:
                    self.assertEqual(answer.result(DEADLINE_S).feasible_count, 4)
            servers[1].kill()
            with self.assertRaises(grpc.RpcError) as raised:
                decider.filter(api.FilterRequest(pod=pod())).result(DEADLINE_S)
            self.assertEqual(raised.exception.code(), grpc.StatusCode.UNAVAILABLE)


class AsyncioTest(unittest.IsolatedAsyncioTestCase, WithServer):
    async def test_parts(self) -> None:
        server = self.serve("--listen", "127.0.0.1:0")

        async def listed() -> list[api.Change]:
            return [evenkeel.change(node(number)) for number in range(3)]

        async with aio.Client(server.address) as client, aio.Decider(client) as decider:
            feed = aio.Feed(client, listed)
            running = asyncio.create_task(feed.run())
            await feed.flush()
            feed.send(evenkeel.change(pod("web-0", "node-0")))
            position = await feed.flush()
            request = api.FilterRequest(pod=pod(), min_revision=position.revision, epoch=position.epoch)
            called, asked, scored = await asyncio.gather(
                client.Filter(request), decider.filter(request), decider.score(api.ScoreRequest(pod=pod())))
            self.assertEqual(list(called.feasible), ["node-1", "node-2"])
            self.assertEqual(asked, called)
            self.assertTrue(scored.skipped)
            running.cancel()


class Refusing(rpc.SpreadServiceServicer):
    """Refuses what it is asked, and keeps it."""

    def __init__(self, code: grpc.StatusCode) -> None:
        self.code = code
        self.requests: list[Any] = []

    def refuse(self, request: Any, context: Any) -> None:
        self.requests.append(request)
        context.abort(self.code, "refused")

    Filter = Place = UpdateSnapshot = ConfirmReservations = DeleteSnapshot = refuse


class RetryTest(WithServer):
    def refusing(self, code: grpc.StatusCode) -> tuple[Refusing, str]:
        server = grpc.server(futures.ThreadPoolExecutor())
        fake = Refusing(code)
        rpc.add_SpreadServiceServicer_to_server(fake, server)
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        self.addCleanup(lambda: server.stop(None).wait())
        return fake, f"127.0.0.1:{port}"

    def test_only_what_may_be_repeated_is(self) -> None:
        codes = grpc.StatusCode
        for code, method, request, calls in [
            (codes.UNAVAILABLE, "Filter", api.FilterRequest(), 4),
            (codes.INVALID_ARGUMENT, "Filter", api.FilterRequest(), 1),
            (codes.FAILED_PRECONDITION, "Filter", api.FilterRequest(), 1),
            (codes.RESOURCE_EXHAUSTED, "Filter", api.FilterRequest(), 1),
            (codes.ABORTED, "Filter", api.FilterRequest(), 1),
            (codes.INTERNAL, "Filter", api.FilterRequest(), 1),
            (codes.UNAVAILABLE, "UpdateSnapshot", api.UpdateSnapshotRequest(), 1),
            (codes.UNAVAILABLE, "ConfirmReservations", api.ConfirmReservationsRequest(), 1),
            (codes.UNAVAILABLE, "DeleteSnapshot", api.DeleteSnapshotRequest(), 1),
        ]:
            with self.subTest(code=code, method=method):
                fake, address = self.refusing(code)
                with self.assertRaises(grpc.RpcError):
                    getattr(self.dial(address), method)(request, timeout=DEADLINE_S)
                self.assertEqual(len(fake.requests), calls)

    def test_place_is_repeated_under_one_id(self) -> None:
        reserve = api.Reservation(owner="me")
        for request in [api.PlaceRequest(reserve=reserve), api.PlaceRequest(reserve=reserve, request_id="mine"),
                        api.PlaceRequest()]:
            fake, address = self.refusing(grpc.StatusCode.UNAVAILABLE)
            with self.assertRaises(grpc.RpcError):
                self.dial(address).Place(request, timeout=DEADLINE_S)

            async def place(address: str, request: api.PlaceRequest) -> None:
                async with aio.Client(address) as client:
                    with self.assertRaises(grpc.RpcError):
                        await client.Place(request, timeout=DEADLINE_S)

            asyncio.run(place(address, request))
            ids = [sent.request_id for sent in fake.requests]
            self.assertEqual([len(ids), len(set(ids[:4])), len(set(ids[4:]))], [8, 1, 1])
            self.assertEqual(ids[0] != "", request.HasField("reserve"))
            self.assertIn(request.request_id, ("", ids[0]))

    def test_tokens_are_only_sent_over_tls(self) -> None:
        with self.assertRaises(ValueError):
            evenkeel.Client("localhost:1", token_file="token")


class DocumentedTest(unittest.TestCase):
    def test_what_is_public_is_shown_and_told(self) -> None:
        for module in (evenkeel, aio):
            self.assertEqual(dir(module), sorted(module.__all__))
            for name in dir(module):
                part = getattr(module, name)
                self.assertTrue(part.__doc__, name)
                if part is aio or part is evenkeel.Position:
                    continue
                for argument in inspect.signature(part).parameters:
                    self.assertIn(f"{argument}:", part.__doc__, f"{name}: {argument}")


class ObjectsTest(unittest.TestCase):
    def test_objects_without_a_kind_are_refused(self) -> None:
        for item, words in (
                ({"metadata": {"name": "web-0"}}, 'no "kind"'),
                ({"kind": "List", "items": []}, "no kind of a snapshot: List; there are Namespace, Node, "),
                ({"kind": "ObjectMeta"}, "no kind of a snapshot: ObjectMeta")):
            with self.assertRaisesRegex(ValueError, words):
                evenkeel.from_kubernetes(item)
        with self.assertRaisesRegex(ValueError, "no object of a snapshot: evenkeel.v1.PodSpec"):
            evenkeel.change(k8s.PodSpec())

    def test_fields_that_are_not_read_are_left_out(self) -> None:
        read = evenkeel.from_kubernetes({"kind": "Pod", "apiVersion": "v1", "metadata": {
            "name": "web-0", "namespace": "shop", "managedFields": [{}]}, "spec": {"hostAliases": [{}]}})
        self.assertEqual(read, k8s.Pod(metadata=k8s.ObjectMeta(name="web-0", namespace="shop"), spec=k8s.PodSpec(),
                                       kind="Pod", api_version="v1"))


if __name__ == "__main__":
    unittest.main()
