"""Runs programs of a release in places where nothing else is, as a user that owns nothing."""

import contextlib
import os
import pathlib
import platform
import shutil
import signal
import socket
import subprocess
import tempfile
import time

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent.parent
DIST = pathlib.Path(os.environ["EVENKEEL_RELEASE_DIST"])
EXAMPLE = REPOSITORY / "examples/three-zones"
NOBODY = 65532
DEADLINE_S = 120


def run(*command, code=0, **kwargs):
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=600, **kwargs)
    assert done.returncode == code, f"{command}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def as_nobody(**kwargs):
    return {"user": NOBODY, "group": NOBODY, "extra_groups": [], "env": {"PATH": os.defpath, "HOME": "/"}, **kwargs}


@contextlib.contextmanager
def directory():
    with tempfile.TemporaryDirectory(prefix="evenkeel-") as made:
        os.chmod(made, 0o755)
        yield pathlib.Path(made)


def emulated(architecture):
    """The program that runs those of another architecture, if one is needed."""
    return None if architecture == platform.machine() else shutil.which("qemu-aarch64-static")


def wait_for(server, is_healthy):
    end = time.monotonic() + DEADLINE_S
    while not is_healthy():
        assert server.poll() is None, f"the server ended with {server.returncode}"
        assert time.monotonic() < end, "the server does not become healthy"
        time.sleep(0.1)


def check_program(command, version, files="", **kwargs):
    """Asks for the version, explains the example in `files`, serves it and asks for
    health, by a command that stands for `evenkeel`."""
    options = as_nobody(**kwargs)
    assert run(*command, "--version", **options) == f"evenkeel {version}\n"
    load = ["--load", f"{files}/cluster.yaml"]
    explained = run(*command, "explain", "--pending", *load, "--load", f"{files}/waiting.yaml", code=1, **options)
    assert "3 pods, 2 of which fit nowhere" in explained, explained
    with serving(command, load, options):
        pass


@contextlib.contextmanager
def serving(command, load, options):
    """Starts a server, gives its address when it is healthy, and lets it drain."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    serve = [*command, "serve", "--listen", address, "--admin-listen", "127.0.0.1:0", "--drain-pause", "0s", *load]
    server = subprocess.Popen([*map(str, serve)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **options)
    try:
        health = [*map(str, command), "healthcheck", "--server", f"http://{address}"]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        wait_for(server, lambda: subprocess.run(health, **quiet, **options).returncode == 0)
        yield address
        server.send_signal(signal.SIGTERM)
        assert server.wait(DEADLINE_S) == 0, "the server does not drain"
    finally:
        server.kill()
        server.wait()


def check_root(root, program, architecture, version):
    """The same in a root directory, with the example and nothing else beside."""
    shutil.copytree(EXAMPLE, root / "example")
    command = [shutil.which("chroot"), f"--userspec={NOBODY}:{NOBODY}", root]
    if emulator := emulated(architecture):
        shutil.copy(emulator, root / "qemu")
        command.append("/qemu")
    # chroot changes the user.
    check_program([*command, program], version, "/example", user=None, group=None, extra_groups=None)
