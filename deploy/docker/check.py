"""Runs what the Dockerfile makes, without Docker.

The root directory of its last stage is put together from its COPY lines and
the binary of deploy/docker/build, and the entry point and the health check run
in it with chroot, as its user, with its environment and no other file. A
missing library, certificate or directory shows.

    deploy/docker/check.py [--binary FILE] [--reproducible]

Needs root, for chroot. --reproducible builds twice in different directories
and compares.
"""

import argparse
import functools
import hashlib
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent.parent
DOCKERFILE = REPOSITORY / "deploy" / "docker" / "Dockerfile"
DEADLINE_S = 60


class Stage:
    """The last stage of a Dockerfile."""

    def __init__(self, text):
        text = re.sub(r"\\\n", " ", text)
        lines = [line for line in text.splitlines() if line and not line.startswith("#")]
        last = max(i for i, line in enumerate(lines) if line.startswith("FROM"))
        assert lines[last] == "FROM scratch", lines[last]
        self.copies, self.environment, self.labels = [], {}, {}
        self.command, self.health, self.stop_signal = [], None, None
        for line in lines[last + 1 :]:
            word, _, rest = line.partition(" ")
            if word == "COPY":
                source, target = rest.removeprefix("--from=build ").split()
                self.copies.append((source, target))
            elif word in ("ENV", "LABEL"):
                pairs = dict(pair.split("=", 1) for pair in shlex.split(rest))
                (self.environment if word == "ENV" else self.labels).update(pairs)
            elif word == "USER":
                self.user = rest
            elif word == "HEALTHCHECK":
                options, command = rest.split(" CMD ", 1)
                self.health = json.loads(command)
                self.health_options = dict(option.removeprefix("--").split("=") for option in options.split())
            elif word == "EXPOSE":
                self.exposed = rest
            elif word == "STOPSIGNAL":
                self.stop_signal = rest
            elif word == "ENTRYPOINT":
                self.entrypoint = json.loads(rest)
            elif word == "CMD":
                self.command = json.loads(rest)
            else:
                assert word == "ARG", f"what is {line}?"


def build(sources, out, profile):
    environment = {**os.environ, "PROFILE": profile}
    subprocess.run([sources / "deploy/docker/build", out], env=environment, check=True)


def check_image(stage, binary):
    """Runs server and health check in the stage's root directory."""
    with tempfile.TemporaryDirectory() as root:
        for source, target in stage.copies:
            assert source == "/out/evenkeel", source
            shutil.copy(binary, root + target)
            os.chmod(root + target, 0o555)
        # A user that owns nothing, in a directory that it cannot write to.
        os.chmod(root, 0o555)
        enter = ["chroot", f"--userspec={stage.user}", root]
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        environment = {
            **stage.environment,
            "EVENKEEL_LISTEN": f"0.0.0.0:{port}",
            "EVENKEEL_SERVER": f"http://127.0.0.1:{port}",
            "EVENKEEL_DRAIN_PAUSE": "0s",
        }
        chroot = shutil.which("chroot")
        run = lambda arguments, start: start([chroot, *enter[1:], *arguments], env=environment)
        health = lambda: run(stage.health, subprocess.run).returncode

        assert health() == 3, "the health check finds a server that is not there"
        serve = stage.entrypoint + stage.command
        refused = run(serve, functools.partial(subprocess.run, timeout=DEADLINE_S))
        assert refused.returncode == 64, "plain text is served though nobody allowed it"
        environment["EVENKEEL_ALLOW_PLAINTEXT"] = "true"
        server = run(serve, subprocess.Popen)
        try:
            end = time.monotonic() + DEADLINE_S
            while health() != 0:
                assert server.poll() is None, "the server ended"
                assert time.monotonic() < end, "the server does not become healthy"
                time.sleep(0.05)
            status = pathlib.Path(f"/proc/{server.pid}/status").read_text()
            uid, gid = stage.user.split(":")
            assert f"Uid:\t{uid}\t{uid}" in status and f"Gid:\t{gid}\t{gid}" in status, status
            assert uid != "0", "the image runs as root"
            server.send_signal(signal.SIGTERM)
            assert server.wait(DEADLINE_S) == 0, "the server does not drain"
        finally:
            server.kill()
            server.wait()
        left = sorted(path.name for path in pathlib.Path(root).iterdir())
        assert left == ["evenkeel"], left


def check_static(binary):
    headers = subprocess.run(
        ["readelf", "--program-headers", "--dynamic", binary],
        capture_output=True, text=True, check=True).stdout
    assert "INTERP" not in headers and "NEEDED" not in headers, headers


def check_reproducible(profile):
    """Builds copies of the sources in two places."""
    digests = []
    listed = subprocess.run(
        ["git", "ls-files"], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    with tempfile.TemporaryDirectory() as scratch:
        for name in ("one", "another-place"):
            sources = pathlib.Path(scratch, name)
            for file in listed.stdout.splitlines():
                (sources / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(REPOSITORY / file, sources / file)
            os.environ["CARGO_TARGET_DIR"] = str(sources / "target")
            build(sources, sources / "evenkeel", profile)
            digests.append(hashlib.sha256((sources / "evenkeel").read_bytes()).hexdigest())
            shutil.rmtree(sources / "target")
    print("\n".join(digests))
    assert digests[0] == digests[1], "two builds differ"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", type=pathlib.Path, help="a binary that was built before")
    parser.add_argument("--profile", default="dist", help="cargo's profile")
    parser.add_argument("--reproducible", action="store_true")
    arguments = parser.parse_args()
    if arguments.reproducible:
        check_reproducible(arguments.profile)
        return
    with tempfile.TemporaryDirectory() as scratch:
        binary = arguments.binary
        if binary is None:
            binary = pathlib.Path(scratch, "evenkeel")
            build(REPOSITORY, binary, arguments.profile)
        check_static(binary)
        check_image(Stage(DOCKERFILE.read_text()), binary)
    print("the image works", file=sys.stderr)


if __name__ == "__main__":
    main()
