"""Checks the images of a release: OCI layouts, of which crun starts what is for this
machine, and qemu what is for the other."""

import contextlib
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile

from programs import DEADLINE_S, DIST, NOBODY, check_root, directory, emulated, run, wait_for


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


@contextlib.contextmanager
def layout_of(name, version):
    """The layout of an image, of both architectures, and a directory beside it."""
    with directory() as place:
        with tarfile.open(DIST / f"{name}-{version}-oci.tar") as archive:
            archive.extractall(place / "layout", filter="tar")
        layout = Layout(place / "layout")
        assert set(layout.manifests) == {"amd64", "arm64"}
        yield layout, place


def check_image(version):
    with layout_of("evenkeel", version) as (layout, place):
        (place / "arm64").mkdir()
        layout.unpack("arm64", place / "arm64")
        check_root(place / "arm64", "/evenkeel", "aarch64", version)
        bundle = place / "bundle"
        image = layout.unpack("amd64", bundle / "rootfs")
        crun = prepare(bundle, image, image["Cmd"], "EVENKEEL_ALLOW_PLAINTEXT=true", "EVENKEEL_DRAIN_PAUSE=0s")
        check_container(crun, bundle, image, version)


# kube-scheduler makes its plugins of these, and ends before it asks the cluster, which is not there.
SCHEDULER = {
    "config.json": {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": "/cluster.json"},
        "profiles": [{
            "plugins": {"multiPoint": {
                "enabled": [{"name": "EvenkeelSpread", "weight": 2}], "disabled": [{"name": "PodTopologySpread"}]}},
            "pluginConfig": [{"name": "EvenkeelSpread", "args": {"address": "127.0.0.1:1"}}],
        }],
    },
    "cluster.json": {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "none", "cluster": {"server": "http://127.0.0.1:1"}}],
        "contexts": [{"name": "none", "context": {"cluster": "none", "user": ""}}],
        "current-context": "none",
    },
}


def check_scheduler_image(version):
    """kube-scheduler in its image is of a version of Kubernetes, and has the plugin."""
    with layout_of("evenkeel-scheduler", version) as (layout, place):
        bundle, root = place / "bundle", place / "arm64"
        image = layout.unpack("amd64", bundle / "rootfs")
        for name, content in SCHEDULER.items():
            (bundle / "rootfs" / name).write_text(json.dumps(content))
        start = lambda *arguments: run(*prepare(bundle, image, arguments), "run", "--bundle", bundle, "scheduler")
        assert start("--version").startswith("Kubernetes v1.")
        assert "name: EvenkeelSpread" in start("--config=/config.json", "--write-config-to=/dev/stdout")
        (program,) = layout.unpack("arm64", root)["Entrypoint"]
        shutil.copy(emulated("aarch64"), root / "qemu")
        chroot = ["chroot", f"--userspec={NOBODY}:{NOBODY}", root, "/qemu", program]
        assert run(*chroot, "--version").startswith("Kubernetes v1.")


def prepare(bundle, image, arguments, *environment):
    """Makes a bundle of an unpacked image, and gives the command of crun that runs it as
    a cluster would: its user, no capabilities, and a root that nobody can write to."""
    uid, gid = map(int, image["User"].split(":"))
    assert uid != 0, "the image runs as root"
    (bundle / "config.json").unlink(missing_ok=True)
    run("crun", "spec", cwd=bundle)
    spec = json.loads((bundle / "config.json").read_text())
    spec["process"] |= {
        "terminal": False,
        "user": {"uid": uid, "gid": gid},
        "args": [*image["Entrypoint"], *arguments],
        "env": [*image["Env"], *environment],
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
    return [*aside, "crun", "--cgroup-manager=disabled", "--root", str(bundle / "state")]


def check_container(crun, bundle, image, version):
    """Starts the server of an image, asks for its health as the image says, and stops it."""
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
