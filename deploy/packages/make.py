"""Makes what deploy/release has no tool for: wheels, npm packages, the images as
OCI layouts, the bill of materials and the statement of provenance.

    deploy/packages/make.py VERSION BINARIES DIRECTORY HOMEPAGE

Times are SOURCE_DATE_EPOCH, names are sorted, and nothing else is of this machine,
so that the same input gives the same bytes.
"""

import base64
import gzip
import hashlib
import io
import json
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import tomllib
import urllib.parse
import uuid
import zipfile
from datetime import datetime, timezone

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(REPOSITORY / "deploy" / "docker"))
from check import Stage  # noqa: E402

EPOCH = int(os.environ["SOURCE_DATE_EPOCH"])
TIME = datetime.fromtimestamp(EPOCH, timezone.utc)
# An architecture in the words of wheels, npm and OCI.
ARCHITECTURES = {"x86_64": ("x86_64", "x64", "amd64"), "aarch64": ("aarch64", "arm64", "arm64")}
MANIFEST = tomllib.loads((REPOSITORY / "Cargo.toml").read_text())
PACKAGE = MANIFEST["package"] | MANIFEST["workspace"]["package"]
LICENSE = (REPOSITORY / "LICENSE").read_bytes()
IMAGES = {"evenkeel": "Dockerfile", "evenkeel-scheduler": "scheduler.Dockerfile"}


def readable(value):
    return (json.dumps(value, indent=2, sort_keys=True) + "\n").encode()


def sha256(content):
    return hashlib.sha256(content).hexdigest()


def tar(files):
    """An archive of {name: (mode, content)}."""
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, (mode, content) in sorted(files.items()):
            member = tarfile.TarInfo(name)
            member.mode, member.size, member.mtime = mode, len(content), EPOCH
            archive.addfile(member, io.BytesIO(content))
    return written.getvalue()


def compress(content):
    return gzip.compress(content, 6, mtime=0)


def make_wheel(version, architecture, program, homepage, directory):
    """A wheel whose only content is the program, for machines with any C library."""
    platforms = [f"{libc}_{architecture}" for libc in ("manylinux_2_17", "manylinux2014", "musllinux_1_1")]
    tag = f"py3-none-{'.'.join(platforms)}"
    info = f"evenkeel-{version}.dist-info"
    metadata = (
        f"Metadata-Version: 2.4\nName: evenkeel\nVersion: {version}\nSummary: {PACKAGE['description']}\n"
        f"License-Expression: {PACKAGE['license']}\nLicense-File: LICENSE\n"
        f"Keywords: {','.join(PACKAGE['keywords'])}\nRequires-Python: >=3.8\nProject-URL: Repository, {homepage}\n"
        "Description-Content-Type: text/markdown\n\n" + (REPOSITORY / "README.md").read_text()
    )
    tags = "".join(f"Tag: py3-none-{platform}\n" for platform in platforms)
    files = {
        f"evenkeel-{version}.data/scripts/evenkeel": (0o755, program),
        f"{info}/METADATA": (0o644, metadata.encode()),
        f"{info}/WHEEL": (
            0o644, f"Wheel-Version: 1.0\nGenerator: evenkeel\nRoot-Is-Purelib: false\n{tags}".encode()),
        f"{info}/licenses/LICENSE": (0o644, LICENSE),
    }
    record = []
    for name, (_, content) in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        record.append(f"{name},sha256={digest},{len(content)}\n")
    files[f"{info}/RECORD"] = (0o644, "".join([*record, f"{info}/RECORD,,\n"]).encode())
    with zipfile.ZipFile(directory / f"evenkeel-{version}-{tag}.whl", "w") as archive:
        for name, (mode, content) in files.items():
            entry = zipfile.ZipInfo(name, TIME.timetuple()[:6])
            entry.external_attr = (0o100000 | mode) << 16
            entry.create_system = 3
            archive.writestr(entry, content, zipfile.ZIP_DEFLATED, 6)


def make_npm(version, programs, homepage, directory):
    """A package with a launcher, and one with the program for each architecture, of
    which npm installs that of the machine."""
    # npm accepts a statement of provenance only if it names the same repository.
    repository = {"type": "git", "url": f"git+{homepage}.git"}
    shared = {
        "version": version, "license": PACKAGE["license"], "description": PACKAGE["description"], "repository": repository}
    names = {f"evenkeel-linux-{ARCHITECTURES[it][1]}": it for it in programs}
    packages = {
        "npm": (
            {"name": "evenkeel", "bin": {"evenkeel": "evenkeel.js"}, "engines": {"node": ">=16"},
             "optionalDependencies": dict.fromkeys(names, version)},
            {"evenkeel.js": (0o755, (REPOSITORY / "deploy/packages/npm/evenkeel.js").read_bytes()),
             "README.md": (0o644, (REPOSITORY / "README.md").read_bytes())},
        )
    }
    for name, architecture in names.items():
        packages[name.removeprefix("evenkeel-")] = (
            {"name": name, "os": ["linux"], "cpu": [ARCHITECTURES[architecture][1]], "preferUnplugged": True},
            {"bin/evenkeel": (0o755, programs[architecture])},
        )
    for name, (manifest, files) in packages.items():
        files |= {"package.json": (0o644, readable(shared | manifest)), "LICENSE": (0o644, LICENSE)}
        archive = tar({f"package/{path}": file for path, file in files.items()})
        (directory / f"evenkeel-{name}-{version}.tgz").write_bytes(compress(archive))


def nanoseconds(text):
    return int(text.removesuffix("s")) * 10**9


def image_config(stage, labels):
    """What a container of the last stage of a Dockerfile runs, and how."""
    config = {
        "User": stage.user,
        "Env": [f"{name}={value}" for name, value in stage.environment.items()],
        "Entrypoint": stage.entrypoint,
        "Cmd": stage.command,
        "ExposedPorts": {f"{stage.exposed}/tcp": {}},
        "Labels": labels,
    }
    if stage.stop_signal:
        config["StopSignal"] = stage.stop_signal
    if stage.health:
        # Docker's; OCI has none, and others pass over it.
        config["Healthcheck"] = {
            "Test": ["CMD", *stage.health],
            "Interval": nanoseconds(stage.health_options["interval"]),
            "Timeout": nanoseconds(stage.health_options["timeout"]),
            "StartPeriod": nanoseconds(stage.health_options["start-period"]),
        }
    return config


def make_image(name, stage, version, revision, programs, homepage, directory):
    """The last stage of a Dockerfile as an OCI layout, for both architectures."""
    blobs, manifests = {}, []

    def blob(media_type, content):
        digest = sha256(content)
        blobs[f"blobs/sha256/{digest}"] = (0o644, content)
        return {"mediaType": f"application/vnd.oci.image.{media_type}", "digest": f"sha256:{digest}", "size": len(content)}

    values = {"$VERSION": version, "$REVISION": revision}
    labels = {label: values.get(value, value) for label, value in stage.labels.items()}
    labels["org.opencontainers.image.source"] = homepage
    for architecture, program in programs.items():
        ((_, path),) = stage.copies
        layer = tar({path.lstrip("/"): (0o755, program)})
        platform = {"architecture": ARCHITECTURES[architecture][2], "os": "linux"}
        config = platform | {
            "created": TIME.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "config": image_config(stage, labels),
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{sha256(layer)}"]},
            "history": [{"created_by": "deploy/release"}],
        }
        manifest = {
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": blob("config.v1+json", readable(config)),
            "layers": [blob("layer.v1.tar+gzip", compress(layer))],
        }
        manifests.append(blob("manifest.v1+json", readable(manifest)) | {"platform": platform})
    index = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "annotations": labels,
        "manifests": manifests,
    }
    # What copies images takes the only entry of a layout: an index of both.
    both = blob("index.v1+json", readable(index)) | {"annotations": {"org.opencontainers.image.ref.name": version}}
    files = blobs | {
        "index.json": (0o644, readable({"schemaVersion": 2, "manifests": [both]})),
        "oci-layout": (0o644, readable({"imageLayoutVersion": "1.0.0"})),
    }
    (directory / f"{name}-{version}-oci.tar").write_bytes(tar(files))


def go_modules(version, programs):
    """The components and dependencies of kube-scheduler with the plugin, as its programs say."""
    root, found = None, {}
    for program in programs:
        said = subprocess.run(["go", "version", "-m", "-json", program], check=True, capture_output=True).stdout
        built = json.loads(said)
        root = f"pkg:golang/{built['Main']['Path']}@{version}"
        std = {"Path": "std", "Version": built["GoVersion"].removeprefix("go")}
        for module in [std, *built["Deps"]]:
            # A directory of the repository that replaces a module has neither version nor sum.
            replacement = module.get("Replace", module)
            module = replacement if "Sum" in replacement else module
            reference = f"pkg:golang/{module['Path']}@{urllib.parse.quote(module['Version'])}"
            found[reference] = {
                "type": "library", "bom-ref": reference, "name": module["Path"], "version": module["Version"], "purl": reference}
            if digest := module.get("Sum"):
                content = base64.b64decode(digest.removeprefix("h1:")).hex()
                found[reference]["hashes"] = [{"alg": "SHA-256", "content": content}]
    scheduler = {"type": "application", "bom-ref": root, "name": "evenkeel-scheduler", "version": version, "purl": root}
    return [scheduler, *found.values()], [{"ref": root, "dependsOn": sorted(found)}, *({"ref": it} for it in found)]


def make_bill(version, schedulers, directory):
    """A CycloneDX bill of the crates that are compiled into the program, and of the Go
    modules in kube-scheduler with the plugin."""
    command = ["cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", "x86_64-unknown-linux-musl"]
    metadata = json.loads(subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True).stdout)
    sums = {
        (it["name"], it["version"]): it.get("checksum")
        for it in tomllib.loads((REPOSITORY / "Cargo.lock").read_text())["package"]
    }
    packages = {it["id"]: it for it in metadata["packages"]}
    nodes = {it["id"]: it for it in metadata["resolve"]["nodes"]}
    needs = lambda id: sorted(
        it["pkg"] for it in nodes[id]["deps"] if any(kind["kind"] is None for kind in it["dep_kinds"]))
    root = metadata["resolve"]["root"]
    seen, waiting = {root}, [root]
    while waiting:
        new = set(needs(waiting.pop())) - seen
        seen |= new
        waiting += sorted(new)
    reference = lambda id: f"pkg:cargo/{packages[id]['name']}@{packages[id]['version']}"

    def component(id):
        package = packages[id]
        described = {
            "type": "application" if id == root else "library",
            "bom-ref": reference(id),
            "name": package["name"],
            "version": package["version"],
            "purl": reference(id),
        }
        if package["license"]:
            described["licenses"] = [{"expression": re.sub(r"\s*/\s*", " OR ", package["license"])}]
        if digest := sums[package["name"], package["version"]]:
            described["hashes"] = [{"alg": "SHA-256", "content": digest}]
        return described

    modules, requirements = go_modules(version, schedulers)
    bill = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"timestamp": TIME.strftime("%Y-%m-%dT%H:%M:%SZ"), "component": component(root)},
        "components": sorted([*map(component, seen - {root}), *modules], key=lambda it: it["bom-ref"]),
        "dependencies": sorted(
            [*({"ref": reference(id), "dependsOn": sorted(map(reference, needs(id)))} for id in seen), *requirements],
            key=lambda it: it["ref"]),
    }
    bill["serialNumber"] = f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, sha256(readable(bill)))}"
    (directory / f"evenkeel-{version}.cdx.json").write_bytes(readable(bill))


def make_provenance(version, revision, homepage, directory):
    """An in-toto statement: which sources and tools all files were made of."""
    say = lambda *command: subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    tools = {"rustc": say("rustc", "--version"), "go": say("go", "env", "GOVERSION")}
    statement = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [
            {"name": path.name, "digest": {"sha256": sha256(path.read_bytes())}} for path in sorted(directory.iterdir())
        ],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": f"{homepage}/deploy/release",
                "externalParameters": {"version": version},
                "internalParameters": {"profile": os.environ["PROFILE"], "sourceDateEpoch": EPOCH} | tools,
                "resolvedDependencies": [
                    {"uri": f"git+{homepage}", "digest": {"gitCommit": revision}},
                    {"uri": "Cargo.lock", "digest": {"sha256": sha256((REPOSITORY / "Cargo.lock").read_bytes())}},
                ],
            },
            "runDetails": {"builder": {"id": f"{homepage}/deploy/release"}},
        },
    }
    (directory / f"evenkeel-{version}.provenance.json").write_bytes(readable(statement))


def main():
    version, binaries, dist, homepage = sys.argv[1:]
    directory = pathlib.Path(dist)
    read = lambda name: {it: pathlib.Path(binaries, it, name).read_bytes() for it in ARCHITECTURES}
    programs = read("evenkeel")
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=REPOSITORY, check=True, capture_output=True, text=True)
    revision = head.stdout.strip()
    for architecture, program in programs.items():
        make_wheel(version, architecture, program, homepage, directory)
    make_npm(version, programs, homepage, directory)
    for name, dockerfile in IMAGES.items():
        stage = Stage((REPOSITORY / "deploy/docker" / dockerfile).read_text())
        make_image(name, stage, version, revision, read(name), homepage, directory)
    make_bill(version, [pathlib.Path(binaries, it, "evenkeel-scheduler") for it in ARCHITECTURES], directory)
    # Last: it names all others.
    make_provenance(version, revision, homepage, directory)


if __name__ == "__main__":
    main()
