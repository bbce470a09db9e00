"""Installs and runs everything that deploy/release made, as people would who have
only that: in a root directory, or an environment, with nothing else in it, and as a
user that owns nothing. Programs for aarch64 run under qemu.

Reads $EVENKEEL_RELEASE_DIST. Needs root, crun, dpkg, rpm, node with npm, and qemu-user-static.
"""

import contextlib
import hashlib
import json
import os
import pathlib
import platform
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
import time

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent.parent
BIN = pathlib.Path(sys.executable).parent
DIST = pathlib.Path(os.environ["EVENKEEL_RELEASE_DIST"])
EXAMPLE = REPOSITORY / "examples/three-zones"
NOBODY = 65532
DEADLINE_S = 120
LIMIT_BYTES = 25_000_000
NEEDED = ("crun", "dpkg", "node", "npm", "qemu-aarch64-static", "rpm")


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
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    serve = [*command, "serve", "--listen", address, "--admin-listen", "127.0.0.1:0", "--drain-pause", "0s", *load]
    server = subprocess.Popen([*map(str, serve)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **options)
    try:
        health = [*map(str, command), "healthcheck", "--server", f"http://{address}"]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        wait_for(server, lambda: subprocess.run(health, **quiet, **options).returncode == 0)
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


def check_archive(architecture, version):
    with directory() as root:
        with tarfile.open(DIST / f"evenkeel-{version}-{architecture}-unknown-linux-musl.tar.gz") as archive:
            # By its name, as the action and install.md take it.
            archive.getmember("evenkeel")
            archive.extractall(root, filter="tar")
        names = {path.name for path in root.iterdir()}
        assert names == {"LICENSE", "completions", "evenkeel", "man"}, names
        assert (root / "man/evenkeel-explain.1").is_file()
        check_root(root, "/evenkeel", architecture, version)
        return (root / "evenkeel").stat().st_size


def check_deb(architecture, version):
    with directory() as root:
        (root / "var/lib/dpkg/updates").mkdir(parents=True)
        (root / "var/lib/dpkg/info").mkdir()
        (root / "var/lib/dpkg/status").touch()
        package = DIST / f"evenkeel-{version}-{architecture}.deb"
        run("dpkg", f"--root={root}", "--force-architecture", "--install", package)
        check_installed(root, architecture, version)


def check_rpm(architecture, version):
    with directory() as root:
        package = DIST / f"evenkeel-{version}-{architecture}.rpm"
        run("rpm", "--root", root, "--install", "--ignorearch", "--nosignature", package)
        check_installed(root, architecture, version)


def check_installed(root, architecture, version):
    unit = (root / "usr/lib/systemd/system/evenkeel.service").read_text()
    assert "ExecStart=/usr/bin/evenkeel serve" in unit
    assert (root / "usr/share/man/man1/evenkeel.1.gz").is_file()
    assert os.readlink(root / "usr/bin/kubectl-evenkeel") == "evenkeel"
    check_root(root, "/usr/bin/evenkeel", architecture, version)


def check_wheel(architecture, version):
    (wheel,) = DIST.glob(f"evenkeel-{version}-*_{architecture}.whl")
    with directory() as place:
        uv = [BIN / "uv", "--quiet", "--no-cache", "--offline"]
        if architecture == platform.machine():
            run(sys.executable, "-m", "venv", place / "venv")
            run(place / "venv/bin/pip", "install", "--quiet", "--no-index", wheel)
            check_program([place / "venv/bin/evenkeel"], version, EXAMPLE_COPY)
            ran = run(*uv, "tool", "run", "--from", wheel, "evenkeel", "--version")
            assert ran == f"evenkeel {version}\n", ran
        else:
            target = ["--python-platform", f"{architecture}-manylinux_2_28", "--target", place / "wheel"]
            run(*uv, "pip", "install", "--no-index", *target, wheel)
            check_program([emulated(architecture), place / "wheel/bin/evenkeel"], version, EXAMPLE_COPY)


def check_npm(version):
    packages = {"x86_64": "linux-x64", "aarch64": "linux-arm64"}
    with directory() as place:
        for architecture, name in packages.items():
            package = DIST / f"evenkeel-{name}-{version}.tgz"
            if architecture == platform.machine():
                install = ["install", "--offline", "--no-audit", "--no-fund", "--cache", place / "cache", "--prefix", place]
                run("npm", *install, package, DIST / f"evenkeel-npm-{version}.tgz", cwd=place)
                check_program([place / "node_modules/.bin/evenkeel"], version, EXAMPLE_COPY,
                              env={"PATH": f"{pathlib.Path(shutil.which('node')).parent}:{os.defpath}", "HOME": "/"})
            else:
                with tarfile.open(package) as archive:
                    archive.extractall(place / architecture, filter="tar")
                check_program([emulated(architecture), place / architecture / "package/bin/evenkeel"], version, EXAMPLE_COPY)


class Layout:
    """An OCI layout in which every blob is what its name says."""

    def __init__(self, directory):
        self.directory = directory
        for path in (directory / "blobs/sha256").iterdir():
            assert hashlib.sha256(path.read_bytes()).hexdigest() == path.name
        (both,) = json.loads((directory / "index.json").read_text())["manifests"]
        self.manifests = {it["platform"]["architecture"]: it for it in self.json(both)["manifests"]}

    def path(self, descriptor):
        path = self.directory / "blobs" / descriptor["digest"].replace(":", "/")
        assert path.stat().st_size == descriptor["size"]
        return path

    def json(self, descriptor):
        return json.loads(self.path(descriptor).read_text())

    def unpack(self, architecture, root):
        """Unpacks an image and returns its configuration."""
        manifest = self.json(self.manifests[architecture])
        for layer in manifest["layers"]:
            with tarfile.open(self.path(layer)) as archive:
                archive.extractall(root, filter="tar")
        return self.json(manifest["config"])["config"]


def check_image(version):
    with directory() as place:
        with tarfile.open(DIST / f"evenkeel-{version}-oci.tar") as archive:
            archive.extractall(place / "layout", filter="tar")
        layout = Layout(place / "layout")
        assert set(layout.manifests) == {"amd64", "arm64"}
        (place / "arm64").mkdir()
        layout.unpack("arm64", place / "arm64")
        check_root(place / "arm64", "/evenkeel", "aarch64", version)
        bundle = place / "bundle"
        (bundle / "rootfs").mkdir(parents=True)
        check_container(bundle, layout.unpack("amd64", bundle / "rootfs"), version)


def check_container(bundle, image, version):
    """Starts an image by crun as a cluster would: its user, no capabilities, and a
    root that nobody can write to. Only plain text is allowed beside."""
    uid, gid = map(int, image["User"].split(":"))
    assert uid != 0, "the image runs as root"
    run("crun", "spec", cwd=bundle)
    spec = json.loads((bundle / "config.json").read_text())
    spec["process"] |= {
        "terminal": False,
        "user": {"uid": uid, "gid": gid},
        "args": image["Entrypoint"] + image["Cmd"],
        "env": [*image["Env"], "EVENKEEL_ALLOW_PLAINTEXT=true", "EVENKEEL_DRAIN_PAUSE=0s"],
        "cwd": "/",
        "capabilities": {},
        "noNewPrivileges": True,
    }
    spec["root"] = {"path": "rootfs", "readonly": True}
    # Nothing of control groups, which not every machine has as crun wants them. Its
    # network has a loopback and nothing else.
    spec["mounts"] = [it for it in spec["mounts"] if it["type"] != "cgroup"]
    spec["linux"]["namespaces"] = [it for it in spec["linux"]["namespaces"] if it["type"] != "cgroup"]
    spec["linux"].pop("resources", None)
    (bundle / "config.json").write_text(json.dumps(spec))
    aside = ["unshare", "--mount", "sh", "-c", 'mount -t cgroup2 none /sys/fs/cgroup && exec "$@"', "sh"]
    crun = [*aside, "crun", "--cgroup-manager=disabled", "--root", str(bundle / "state")]
    name = f"evenkeel-check-{os.getpid()}"
    with open(bundle / "log", "w") as log:
        server = subprocess.Popen([*crun, "run", "--bundle", str(bundle), name], stdout=log, stderr=log)
    try:
        _, *health = image["Healthcheck"]["Test"]
        probe = lambda: subprocess.run([*crun, "exec", name, *health], capture_output=True).returncode == 0
        wait_for(server, probe)
        assert run(*crun, "exec", name, *image["Entrypoint"], "--version") == f"evenkeel {version}\n"
        run(*crun, "kill", name, image["StopSignal"].removeprefix("SIG"))
        assert server.wait(DEADLINE_S) == 0, "the server does not drain"
    except AssertionError:
        print((bundle / "log").read_text(), file=sys.stderr)
        raise
    finally:
        subprocess.run([*crun, "delete", "--force", name], capture_output=True)
        server.wait()


def check_documents(version):
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    bill = (DIST / f"evenkeel-{version}.cdx.json").read_text()
    errors = JsonStrictValidator(SchemaVersion.V1_5).validate_str(bill)
    assert errors is None, errors
    names = {it["name"] for it in json.loads(bill)["components"]}
    assert {"tokio", "kube", "ring"} <= names and not {"criterion", "protox"} & names

    sums = dict(reversed(line.split()) for line in (DIST / "SHA256SUMS").read_text().splitlines())
    assert set(sums) == {path.name for path in DIST.iterdir()} - {"SHA256SUMS"}
    provenance = json.loads((DIST / f"evenkeel-{version}.provenance.json").read_text())
    said = {it["name"]: it["digest"]["sha256"] for it in provenance["subject"]}
    for name, digest in sums.items():
        assert hashlib.sha256((DIST / name).read_bytes()).hexdigest() == digest, name
        assert name.endswith(".provenance.json") or said[name] == digest, name
    assert "### Added" in (DIST / "NOTES.md").read_text()
    return provenance["predicate"]["buildDefinition"]["internalParameters"]["profile"]


def check_chart(version):
    chart = DIST / f"evenkeel-chart-{version}.tgz"
    run(os.environ["HELM"], "lint", "--quiet", "--strict", chart)
    assert "kind: StatefulSet" in run(os.environ["HELM"], "template", "--kube-version=1.35.0", "evenkeel", chart)


def check_again(version):
    """Makes everything of the same binaries in another place: the bytes are the same."""
    with directory() as place:
        for architecture in ("x86_64", "aarch64"):
            with tarfile.open(DIST / f"evenkeel-{version}-{architecture}-unknown-linux-musl.tar.gz") as archive:
                archive.extract("evenkeel", place / architecture, filter="tar")
        profile = check_documents(version)
        environment = os.environ | {
            "EVENKEEL_RELEASE_DIST": str(place / "dist"),
            "EVENKEEL_RELEASE_BINARIES": str(place),
            "EVENKEEL_RELEASE_PROFILE": profile,
        }
        run(REPOSITORY / "deploy/release", version, env=environment)
        run("diff", "--recursive", DIST, place / "dist")


def main():
    missing = [name for name in NEEDED if not shutil.which(name)]
    if missing or os.getuid() != 0:
        sys.exit(f"the check needs {', '.join(missing) or 'root'}")
    (path,) = DIST.glob("evenkeel-*-oci.tar")
    version = path.name.removeprefix("evenkeel-").removesuffix("-oci.tar")
    step = lambda text: print("--", text, flush=True)
    step("sums, bill of materials, provenance")
    profile = check_documents(version)
    for architecture in ("x86_64", "aarch64"):
        step(f"{architecture}: archive, .deb, .rpm, wheel")
        size = check_archive(architecture, version)
        print(f"the program has {size / 1e6:.1f} MB")
        assert profile != "dist" or size <= LIMIT_BYTES, f"more than {LIMIT_BYTES} bytes"
        for check in (check_deb, check_rpm, check_wheel):
            check(architecture, version)
    for check in (check_npm, check_image, check_chart, check_again):
        step(check.__name__.removeprefix("check_"))
        check(version)
    print("all of the release works")


if __name__ == "__main__":
    with directory() as copy:
        # Where a user that owns nothing can read it.
        EXAMPLE_COPY = shutil.copytree(EXAMPLE, copy / "example")
        main()
