"""Installs and runs everything that deploy/release made, as people would who have
only that: in a root directory, or an environment, with nothing else in it, and as a
user that owns nothing. Programs for aarch64 run under qemu.

Reads $EVENKEEL_RELEASE_DIST. Needs root, crun, dpkg, rpm, node with npm, and qemu-user-static.
"""

import hashlib
import json
import os
import pathlib
import platform
import re
import shutil
import sys
import tarfile

from images import check_image, check_scheduler_image, layout_of
from programs import (
    DIST,
    EXAMPLE,
    REPOSITORY,
    as_nobody,
    check_program,
    check_root,
    directory,
    emulated,
    run,
    serving,
)

BIN = pathlib.Path(sys.executable).parent
LIMIT_BYTES = 25_000_000
NEEDED = ("crun", "dpkg", "node", "npm", "qemu-aarch64-static", "rpm")


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


def check_client(version):
    """Asks a server by the client in Python: by its wheel, and by its sources."""
    with directory() as place:
        with tarfile.open(DIST / f"evenkeel-{version}-{platform.machine()}-unknown-linux-musl.tar.gz") as archive:
            archive.extract("evenkeel", place, filter="tar")
        load = ["--load", EXAMPLE_COPY / "cluster.yaml"]
        with serving([place / "evenkeel"], load, as_nobody()) as address:
            for name in (f"evenkeel_client-{version}-py3-none-any.whl", f"evenkeel_client-{version}.tar.gz"):
                target = place / name
                # What it needs is installed here.
                run(sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--no-build-isolation",
                    "--target", target, DIST / name)
                first = [sys.executable, "-B", REPOSITORY / "examples/python/first.py", address]
                assert run(*first, cwd=place, env=os.environ | {"PYTHONPATH": target}) == "[node-c1 node-c2]\n"


def check_documents(version):
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    bill = (DIST / f"evenkeel-{version}.cdx.json").read_text()
    errors = JsonStrictValidator(SchemaVersion.V1_5).validate_str(bill)
    assert errors is None, errors
    names = {it["name"] for it in json.loads(bill)["components"]}
    assert {"tokio", "kube", "ring"} <= names and not {"criterion", "protox"} & names
    assert {"evenkeel-scheduler", "std", "evenkeel.dev/client", "k8s.io/kubernetes"} <= names

    sums = dict(reversed(line.split()) for line in (DIST / "SHA256SUMS").read_text().splitlines())
    assert set(sums) == {path.name for path in DIST.iterdir()} - {"SHA256SUMS"}
    provenance = json.loads((DIST / f"evenkeel-{version}.provenance.json").read_text())
    said = {it["name"]: it["digest"]["sha256"] for it in provenance["subject"]}
    for name, digest in sums.items():
        assert hashlib.sha256((DIST / name).read_bytes()).hexdigest() == digest, name
        assert name.endswith(".provenance.json") or said[name] == digest, name
    assert "### Added" in (DIST / "NOTES.md").read_text()
    definition = provenance["predicate"]["buildDefinition"]
    return definition["internalParameters"]["profile"], definition["resolvedDependencies"][0]["uri"]


def check_chart(version):
    chart = DIST / f"evenkeel-chart-{version}.tgz"
    run(os.environ["HELM"], "lint", "--quiet", "--strict", chart)
    _, sources = check_documents(version)
    owner = re.match("git\\+https://github.com/([^/]+)/", sources)
    registry = f"ghcr.io/{owner[1].lower()}/" if owner else ""
    template = [os.environ["HELM"], "template", "--kube-version=1.35.0", "--set=scheduler.enabled=true,replicas=1", "evenkeel", chart]
    images = re.findall(r'image: "?([^"\n]+)', run(*template))
    expected = {f"{registry}{name}:{version}" for name in ("evenkeel", "evenkeel-scheduler")}
    assert expected <= set(images), images


def check_again(version):
    """Makes everything of the same binaries in another place: the bytes are the same."""
    with directory() as place:
        for architecture in ("x86_64", "aarch64"):
            with tarfile.open(DIST / f"evenkeel-{version}-{architecture}-unknown-linux-musl.tar.gz") as archive:
                archive.extract("evenkeel", place / architecture, filter="tar")
        with layout_of("evenkeel-scheduler", version) as (layout, _):
            for architecture, name in (("x86_64", "amd64"), ("aarch64", "arm64")):
                layout.unpack(name, place / architecture)
        profile, _ = check_documents(version)
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
    (path,) = DIST.glob("evenkeel-*.binpb")
    version = path.name.removeprefix("evenkeel-").removesuffix(".binpb")
    step = lambda text: print("--", text, flush=True)
    step("sums, bill of materials, provenance")
    profile, _ = check_documents(version)
    for architecture in ("x86_64", "aarch64"):
        step(f"{architecture}: archive, .deb, .rpm, wheel")
        size = check_archive(architecture, version)
        print(f"the program has {size / 1e6:.1f} MB")
        assert profile != "dist" or size <= LIMIT_BYTES, f"more than {LIMIT_BYTES} bytes"
        for check in (check_deb, check_rpm, check_wheel):
            check(architecture, version)
    for check in (check_npm, check_client, check_image, check_scheduler_image, check_chart, check_again):
        step(check.__name__.removeprefix("check_"))
        check(version)
    print("all of the release works")


if __name__ == "__main__":
    with directory() as copy:
        # Where a user that owns nothing can read it.
        EXAMPLE_COPY = shutil.copytree(EXAMPLE, copy / "example")
        main()
