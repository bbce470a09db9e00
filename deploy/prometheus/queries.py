"""Runs every query of the dashboard and the alerts against a real Prometheus.

Starts a server and a Prometheus on free ports, and a server with a log where
nats-server is installed; makes calls of many kinds, and
fails if a query of the dashboard has no answer, if a rule fails, or if a metric
that a query names is not one of the server's. With --draw FILE the answers of
the dashboard are drawn.
"""

import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request

HERE = pathlib.Path(__file__).parent
DASHBOARD = HERE.parent / "grafana" / "evenkeel.json"
ALERTS = HERE / "alerts.yaml"
BINARY = os.environ["EVENKEEL"]
# The generator of clusters, with its arguments before those of a cluster.
SYNTH = ["cargo", "run", "--quiet", "--package", "evenkeel-testing", "--bin", "synth", "--"]
# Of metrics that a server has in other circumstances only.
CONDITIONAL = {
    "evenkeel_tls_certificate_expiry_seconds": "with TLS",
    "process_memory_limit_bytes": "in a container with a limit",
    "evenkeel_kubernetes_troubles": "with --kubernetes",
}
NATS = os.environ["NATS_SERVER"]
SCRAPE = 1
WINDOW = 10

POD = """
apiVersion: v1
kind: Pod
metadata: {name: next, namespace: team-000, labels: {app: app-00001}}
spec:
  topologySpreadConstraints:
    - maxSkew: 5
      topologyKey: topology.kubernetes.io/zone
      whenUnsatisfiable: DoNotSchedule
      labelSelector: {matchLabels: {app: app-00001}}
    - maxSkew: 1
      topologyKey: kubernetes.io/hostname
      whenUnsatisfiable: ScheduleAnyway
      labelSelector: {matchLabels: {app: app-00001}}
"""


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def fetch(url):
    with urllib.request.urlopen(url, timeout=10) as answer:
        return answer.read().decode()


def until(what, probe, seconds=60):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            found = probe()
        except OSError:
            found = None
        if found:
            return found
        time.sleep(0.1)
    sys.exit(f"timed out: {what}")


class Server:
    """A server with an admin port."""

    def __init__(self, directory, name, *flags):
        self.log = directory / f"{name}.log"
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(
                [BINARY, "serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"]
                + ["--log-format", "json", "--drain-pause", "0s", "--max-reservations", "1000"]
                + list(flags),
                stderr=log,
            )
        self.address = until("the server listens", lambda: self.logged("listening"))
        self.admin = self.logged("admin listening")

    def logged(self, message):
        for line in self.log.read_text().splitlines():
            event = json.loads(line)
            if event.get("message") == message:
                return event["address"]
        return None

    def run(self, *arguments, fails=False):
        command = [BINARY, *arguments, "--server", f"http://{self.address}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        if (done.returncode != 0) != fails:
            sys.exit(f"{command}: {done.returncode}: {done.stderr}")


def load_cluster(server, directory, *size):
    """Loads a synthetic cluster of a size."""
    cluster = directory / "cluster.json"
    with open(cluster, "w") as output:
        subprocess.run([*SYNTH, *size], stdout=output, check=True)
    server.run("load", str(cluster))


class Prometheus:
    """A Prometheus that scrapes servers."""

    def __init__(self, directory, admins):
        config = {
            "global": {"scrape_interval": f"{SCRAPE}s", "evaluation_interval": f"{SCRAPE}s"},
            "rule_files": [str(ALERTS.resolve())],
            "scrape_configs": [
                {"job_name": "evenkeel", "static_configs": [{"targets": admins}]}
            ],
        }
        # JSON is YAML.
        (directory / "prometheus.yml").write_text(json.dumps(config))
        self.url = f"http://127.0.0.1:{free_port()}"
        with open(directory / "prometheus.log", "w") as log:
            self.process = subprocess.Popen(
                [
                    "prometheus",
                    f"--config.file={directory}/prometheus.yml",
                    f"--storage.tsdb.path={directory}/data",
                    f"--web.listen-address={self.url.removeprefix('http://')}",
                ],
                stdout=log,
                stderr=log,
            )
        until("Prometheus is ready", lambda: fetch(f"{self.url}/-/ready"))

    def get(self, path, **arguments):
        query = urllib.parse.urlencode(arguments)
        return json.loads(fetch(f"{self.url}/api/v1/{path}?{query}"))["data"]

    def rules(self):
        groups = self.get("rules")["groups"]
        return [rule for group in groups for rule in group["rules"]]

    def has_evaluated(self):
        return all(rule["health"] != "unknown" for rule in self.rules())

    def is_scraping(self):
        targets = self.get("targets")["activeTargets"]
        return all(target["health"] == "up" for target in targets) and targets


def start_servers(directory, processes):
    """A server, and one of a fleet."""
    servers = [Server(directory, "server", "--state-dir", str(directory / "state"))]
    processes.append(servers[0].process)
    port = free_port()
    command = [NATS, "--jetstream", "--addr", "127.0.0.1", "--port", str(port)]
    command += ["--store_dir", str(directory / "nats")]
    processes.append(subprocess.Popen(command, stderr=subprocess.DEVNULL))
    flags = ["--log", f"nats://127.0.0.1:{port}", "--fleet", "check", "--log-replicas", "1"]
    # It connects once the nats-server listens.
    servers.append(Server(directory, "member", *flags))
    processes.append(servers[1].process)
    return servers


def make_calls(server, directory, seconds):
    """Calls of many kinds, for a while."""
    pod = directory / "pod.yaml"
    pod.write_text(POD)
    size = ["--nodes", "300", "--pods", "6000", "--workloads", "60", "--zones", "5"]
    load_cluster(server, directory, *size)
    ghz = os.environ.get("GHZ")
    load = []
    for config, rate in [("filter-domains", 400), ("score-top", 150), ("update", 300)] if ghz else []:
        command = [ghz, "--config", f"bench/ghz/{config}.json", "--proto", "bench/ghz/lean.proto"]
        command += ["--import-paths", "proto", "--connections", "4", "-c", "16", "-r", str(rate)]
        command += ["-z", f"{seconds}s", server.address]
        load.append(subprocess.Popen(command, stdout=subprocess.DEVNULL))
    started = time.monotonic()
    while time.monotonic() - started < seconds:
        server.run("filter", "-f", str(pod))
        server.run("score", "-f", str(pod))
        server.run("place", "-f", str(pod), "--replicas", "3", "--reserve", "15s", "--owner", "check")
        server.run("filter", "-f", str(pod), "--snapshot", "none", fails=True)
        server.run("place", "-f", str(pod), "--replicas", "5000", "--reserve", "15s", "--owner", "check", fails=True)
        time.sleep(0.5)
    for process in load:
        process.wait(timeout=60)


def queries():
    """Panels with their queries, as Grafana would send them."""
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        for target in panel.get("targets", []):
            query = target["expr"].replace("$__rate_interval", f"{WINDOW}s")
            query = query.replace("$job", ".*").replace("$instance", ".*")
            yield panel, target["legendFormat"], query


def names(text):
    return set(re.findall(r"\b(?:evenkeel|process)_[a-z_]+\b", text))


def check(server, prometheus):
    """What is wrong."""
    faults = []
    for panel, _, query in queries():
        if not prometheus.get("query", query=query)["result"]:
            faults.append(f"panel {panel['title']!r} shows nothing: {query}")
    # Each group is evaluated when its interval is over, not at the start.
    until("all rules were evaluated", prometheus.has_evaluated)
    rules = prometheus.rules()
    for rule in rules:
        if rule["health"] != "ok":
            faults.append(f"rule {rule['name']!r}: {rule['health']}: {rule.get('lastError')}")
    # A query that names no metric there is would be silent for ever.
    known = set(prometheus.get("label/__name__/values")) | set(CONDITIONAL)
    known |= {rule["name"] for rule in rules}
    unknown = names("\n".join(rule["query"] for rule in rules)) - known
    for name in sorted(unknown):
        faults.append(f"an alert names {name}, which is no metric of the server")
    print(f"{len(list(queries()))} queries of the dashboard, {len(rules)} rules")
    return faults


def main():
    draw_to = sys.argv[2] if sys.argv[1:2] == ["--draw"] else None
    seconds = 120 if draw_to else 15
    processes = []
    with tempfile.TemporaryDirectory() as directory:
        directory = pathlib.Path(directory)
        try:
            servers = start_servers(directory, processes)
            server = servers[0]
            prometheus = Prometheus(directory, [server.admin for server in servers])
            processes.append(prometheus.process)
            until("the server is scraped", prometheus.is_scraping)
            began = time.time()
            for member in servers[1:]:
                load_cluster(member, directory, "--nodes", "30", "--pods", "300", "--workloads", "5")
            make_calls(server, directory, seconds)
            time.sleep(2 * SCRAPE)
            faults = check(server, prometheus)
            if draw_to:
                import draw

                draw.dashboard(list(queries()), prometheus.get, began, draw_to)
        finally:
            # A server drains before its nats-server ends.
            for process in reversed(processes):
                process.send_signal(signal.SIGTERM)
                process.wait(timeout=30)
    for fault in faults:
        print(fault, file=sys.stderr)
    sys.exit(1 if faults else 0)


main()
