"""Checks compose.yaml without Docker.

It is valid by the schema of Compose, and what it starts from this repository, or
builds, works: nats-servers and evenkeel servers run on this machine with their
commands, environments and files, where names and ports of containers are addresses
of the loopback interface. Reads $EVENKEEL, $NATS_SERVER and $COMPOSE_SCHEMA.
"""

import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import time

import jsonschema
import yaml

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent.parent
DEADLINE_S = 120


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


class Machine:
    """What stands for the containers' network and file systems."""

    def __init__(self, services, scratch):
        self.scratch = scratch
        inner = [(name, port) for name in services for port in (4222, 6222, 9464, 50051)]
        self.ports = dict(zip(inner, free_ports(len(inner))))

    def translate(self, name, text):
        """A text of the container `name`, with addresses and files of this machine."""
        text = re.sub(r"0\.0\.0\.0:(\d+)", lambda it: f"127.0.0.1:{self.ports[name, int(it[1])]}", text)
        for (other, port), here in self.ports.items():
            text = text.replace(f"{other}:{port}", f"127.0.0.1:{here}")
        text = text.replace("$$", "$").replace("/data", f"{self.scratch}/{name}")
        return text.replace("/example/", f"{REPOSITORY}/examples/three-zones/")


def check_files(compose):
    """What is mounted is here, and configurations that are named exist."""
    for service in compose["services"].values():
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert (REPOSITORY / source).exists() if source.startswith("./") else source in compose["volumes"], source
        for config in service.get("configs", []):
            assert config["source"] in compose["configs"], config
        for port in service.get("ports", []):
            assert port.startswith("127.0.0.1:"), f"{port} is open to other machines"
    for name in ("prometheus", "datasource", "dashboards"):
        yaml.safe_load(compose["configs"][name]["content"])
    ports = [port.split(":")[1] for service in compose["services"].values() for port in service.get("ports", [])]
    assert len(ports) == len(set(ports)), ports


def start(machine, compose, name, program):
    service = compose["services"][name]
    arguments = [machine.translate(name, argument) for argument in service["command"]]
    if program == os.environ["NATS_SERVER"]:
        file = machine.scratch / f"{name}.conf"
        file.write_text(machine.translate(name, compose["configs"]["nats"]["content"]))
        arguments[arguments.index("/nats.conf")] = str(file)
    environment = {key: machine.translate(name, value) for key, value in service["environment"].items()}
    log = open(machine.scratch / f"{name}.log", "w")
    return subprocess.Popen([program, *arguments], env=environment, stdout=log, stderr=log)


def check_servers(compose, scratch):
    names = [name for name in compose["services"] if name.startswith(("nats", "evenkeel"))]
    machine = Machine(names, scratch)
    program = lambda name: os.environ["NATS_SERVER" if name.startswith("nats") else "EVENKEEL"]
    running = {}
    try:
        for name in sorted(names, reverse=True):
            running[name] = start(machine, compose, name, program(name))
        end = time.monotonic() + DEADLINE_S
        for name in [name for name in names if name.startswith("evenkeel")]:
            pod = REPOSITORY / "examples/three-zones/zone-hard.yaml"
            server = f"http://127.0.0.1:{machine.ports[name, 50051]}"
            ask = [os.environ["EVENKEEL"], "filter", "-f", pod, "-o", "name", "--server", server]
            while (done := subprocess.run(ask, capture_output=True, text=True)).stdout != "node-c1\nnode-c2\n":
                ended = [it for it, process in running.items() if process.poll() is not None]
                assert not ended, f"{ended} ended"
                assert time.monotonic() < end, f"{name} has no cluster: {done.stdout}{done.stderr}"
                time.sleep(0.2)
    except AssertionError:
        for log in sorted(scratch.glob("*.log")):
            print(f"-- {log.name}\n{log.read_text()[-3000:]}", file=sys.stderr)
        raise
    finally:
        for process in running.values():
            process.kill()
            process.wait()


def main():
    compose = yaml.safe_load((REPOSITORY / "compose.yaml").read_text())
    jsonschema.validate(compose, json.loads(pathlib.Path(os.environ["COMPOSE_SCHEMA"]).read_text()))
    check_files(compose)
    with tempfile.TemporaryDirectory() as scratch:
        check_servers(compose, pathlib.Path(scratch))
    print("what compose.yaml starts works")


if __name__ == "__main__":
    main()
