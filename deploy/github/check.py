"""Checks what others run at GitHub and before their commits, on $EVENKEEL.

- The action finds what `evenkeel lint` finds, GitHub's problem matchers read each
  finding at its line, and text of a manifest is no command to GitHub.
- The hook of pre-commit lets good manifests pass and no others.
- Workflows use actions by commit and run every part of .ci/nightly, and scripts
  are what shellcheck wants.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import yaml

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent.parent
BIN = pathlib.Path(sys.executable).parent
# A warning, and a note.
BAD = """\
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
spec:
  containers: [{name: web, image: web}]
  topologySpreadConstraints:
    - {maxSkew: 2, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway, labelSelector: {}}
"""
GOOD = BAD.replace("labelSelector: {}", "labelSelector: {matchLabels: {app: web}}").replace("maxSkew: 2", "maxSkew: 1")


def run(*command, code=0, **kwargs):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, **kwargs)
    assert done.returncode == code, f"{command}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def matched(text):
    """What GitHub reads of lines: (severity, file, line, column, message, rule)."""
    matchers = json.loads((REPOSITORY / "deploy/github/problem-matcher.json").read_text())
    for line in text.splitlines():
        for matcher in matchers["problemMatcher"]:
            (pattern,) = matcher["pattern"]
            if match := re.search(pattern["regexp"], line):
                severity = match[pattern["severity"]] if "severity" in pattern else matcher["severity"]
                numbers = (int(match[pattern[part]]) for part in ("line", "column"))
                yield (severity, match[pattern["file"]], *numbers, match[pattern["message"]], match[pattern["code"]])


def check_action(program, directory):
    """Runs the action's step on files of which one has the name of a command."""
    action = yaml.safe_load((REPOSITORY / "action.yml").read_text())
    (step,) = action["runs"]["steps"]
    defaults = {name: value["default"] for name, value in action["inputs"].items()}
    inputs = {**defaults, "program": program, "files": "bad.yaml\n::error::x.yaml", "arguments": "--fail-on=warning"}
    environment = {
        name: re.sub(r"\$\{\{ inputs\.(\w+).*?\}\}", lambda match: inputs[match[1]], value)
        for name, value in step["env"].items()
    }
    environment |= {"ACTION": str(REPOSITORY), "PATH": os.environ["PATH"]}
    for name in ("bad.yaml", "::error::x.yaml"):
        (directory / name).write_text(BAD)
    start = lambda code: run("bash", "-c", step["run"], code=code, cwd=directory, env=environment)
    lines = start(1).splitlines()
    stop = next(at for at, line in enumerate(lines) if line.startswith("::stop-commands::"))
    resume = lines.index(f"::{lines[stop].removeprefix('::stop-commands::')}::")
    commands = [at for at, line in enumerate(lines) if line.startswith("::") and not stop < at < resume]
    assert [lines[at].split("::")[1].split(" ")[0] for at in commands][:2] == ["add-matcher", "stop-commands"], lines

    findings = json.loads(run(program, "lint", "-f", "bad.yaml", "-f", "::error::x.yaml", "-o", "json", code=1, cwd=directory))
    expected = {
        ("notice" if it["severity"] == "note" else it["severity"],
         *(it[part] for part in ("file", "line", "column", "message", "rule")))
        for it in findings["findings"]
    }
    assert {it[0] for it in expected} == {"warning", "notice"}, expected
    assert set(matched("\n".join(lines[stop:resume]))) == expected, lines

    environment["FILES"] = "good.yaml"
    (directory / "good.yaml").write_text(GOOD)
    start(0)
    # A branch is no release, and nothing is downloaded then.
    environment |= {"PROGRAM": "", "VERSION": "main"}
    assert "is no release" in start(2)


def check_hook(program, directory):
    """Installs the hook from this checkout, in a repository with one manifest."""
    programs = directory / "bin"
    programs.mkdir()
    shutil.copy(program, programs / "evenkeel")
    repository = directory / "repository"
    repository.mkdir()
    environment = {
        **os.environ,
        "PATH": f"{programs}:{os.environ['PATH']}",
        "PRE_COMMIT_HOME": str(directory / "store"),
    }
    run("git", "init", "--quiet", cwd=repository)
    hook = [BIN / "pre-commit", "try-repo", "--all-files", REPOSITORY, "evenkeel-lint-system"]
    for text, code in ((GOOD, 0), (BAD, 1)):
        (repository / "web.yaml").write_text(text)
        run("git", "add", ".", cwd=repository)
        output = run(*hook, code=code, cwd=repository, env=environment)
        assert "no files to check" not in output, output
    # The other hook differs only in where the program comes from.
    one, two = yaml.safe_load((REPOSITORY / ".pre-commit-hooks.yaml").read_text())
    assert {key for key in one if one[key] != two[key]} == {"id", "description", "language"}


def check_pins():
    for path in [*REPOSITORY.glob(".github/workflows/*.yml"), REPOSITORY / "action.yml"]:
        for used in re.findall(r"uses: (.+)", path.read_text()):
            assert used.startswith("./") or re.fullmatch(r"[\w/-]+@[0-9a-f]{40} # v[\d.]+", used), f"{path}: {used}"


def check_nightly():
    """The workflow runs each part of .ci/nightly."""
    jobs = yaml.safe_load((REPOSITORY / ".github/workflows/nightly.yml").read_text())["jobs"]
    parts = " ".join(jobs["part"]["strategy"]["matrix"]["part"]).split()
    listed = [line.split()[0] for line in run(REPOSITORY / ".ci/nightly", "--list").splitlines()]
    assert sorted([*parts, "simulation", "fuzz"]) == sorted(listed), set(parts) ^ set(listed)


def check_scripts():
    listed = run("git", "ls-files", cwd=REPOSITORY).splitlines()
    scripts = [
        name for name in listed
        if not name.endswith((".py", ".png")) and (REPOSITORY / name).is_file()
        and re.match(rb"#!.*\b(ba)?sh\b", (REPOSITORY / name).read_bytes()[:40])
    ]
    assert ".ci/run" in scripts, scripts
    # Of what other files assign and pass it knows nothing; two are about looks.
    excluded = "--exclude=SC1007,SC1010,SC2120,SC2154"
    run(BIN / "shellcheck", "--severity=warning", "--external-sources", excluded, *scripts, cwd=REPOSITORY)


def main():
    program = pathlib.Path(os.environ["EVENKEEL"]).resolve()
    with tempfile.TemporaryDirectory() as scratch:
        check_action(str(program), pathlib.Path(scratch))
    with tempfile.TemporaryDirectory() as scratch:
        check_hook(program, pathlib.Path(scratch))
    check_pins()
    check_nightly()
    check_scripts()
    print("the action and the hook work")


if __name__ == "__main__":
    main()
