"""
Break a room of the product on purpose, a small change at a time, and count what its tests notice.

Draws mutants of the modules that pyproject.toml names in [tool.mutants.ROOM], made by cosmic-ray's
operators: a place first, then one of the changes possible there, so that a line with many variants
counts once. Each meets, in a copy of the tree, the tests of the room that run its line, the
quickest first, until one fails. Prints what survived, and the share noticed with its 95 % interval.

Left out by rule, because no test should notice them: annotations, decorators of classes and of
caches, flags that only guard, what is logged, and the plain numbers of a module's constants, which
a test could only repeat.

A failure counts only if the test passes on the unchanged code, and a time-out only if the test
alone, with three times the time, does not end either. How long a test takes is what it would take
on an idle machine: where others use the processors, it still meets the same tests.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import importlib
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import unified_diff
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from breaks import mutate, places
from forks import MEMORY_BYTES, NOT_RUN, NOT_SWAPPED, Kept, Watch, forked, run_tests

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / ".venv/mutants"))  # after the project's own packages

PACKAGES = ("alerts", "groundwatch", "monitor", "workers")
LONGEST_TEST_S = 30  # what takes longer is left to the whole suite
PATIENCE, LEAST_PATIENCE_S = 5, 30  # times what the unchanged code takes; then it hangs
FIRST = 30  # tests that run before all others
FEW = 4


class Traced(NamedTuple):
    """What the tests of a room run while nothing is broken."""

    lines: Mapping[str, Mapping[str, list[str]]]  # {module: {line: tests}}
    seconds: Mapping[str, float]
    failed: Sequence[str]
    loaded: Sequence[str]  # modules


def copy_tree(folder: Path) -> Path:
    """Copy what belongs to the project into *folder*."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, text=True).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    return folder


def trace(tree: Path, modules: Sequence[str], room: Mapping[str, list[str]], into: Path) -> None:
    """Run the tests of a room once, unchanged, and write what they run as JSON."""
    import coverage  # noqa: PLC0415  # of the tools

    def call() -> int:
        watching = coverage.Coverage(
            data_file=None, config_file=False, include=[str(tree / module) for module in modules]
        )
        watch = Watch(watching)
        watching.start()
        files = [str(path) for name in room["tests"] for path in sorted(tree.glob(name))]
        without = [f"--deselect={name}" for name in room.get("untraced", ())]
        code = run_tests(tree, files, watch, "--timeout=120", *without)
        watching.stop()
        data = watching.get_data()
        lines = {
            module: {
                line: [name for name in contexts if name]
                for line, contexts in data.contexts_by_lineno(str(tree / module)).items()
            }
            for module in modules
        }
        found = Traced(lines, watch.seconds, sorted(watch.failed), sorted(sys.modules))
        into.write_text(json.dumps(found._asdict()), encoding="utf-8")
        return 0 if code in {pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED} else code

    if forked(call, silent=False, timeout_s=3_600):
        raise SystemExit("the tests could not be traced")


@contextlib.contextmanager
def made_ready(tree: Path) -> Iterator[dict[str, Callable[[], Any]]]:
    """Make, once for all forks, an empty store of each kind; yield them as fixtures."""
    said = tree.with_name("postgres.url")
    wait, go_on = os.pipe()
    if (child := os.fork()) == 0:
        code = NOT_RUN
        try:
            os.close(go_on)
            keep_stores(tree, said, wait)
            code = 0
        except BaseException:  # noqa: BLE001  # as in `forked`
            traceback.print_exc()
        finally:
            os._exit(code)
    os.close(wait)

    @cache
    def own_database() -> str:
        import psycopg  # noqa: PLC0415  # in the fork that needs it

        server = said.read_text()
        url = server.replace("+psycopg", "")
        with psycopg.connect(f"{url}/postgres", autocommit=True) as connection:
            for name in ("bare", "mutant"):
                connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
            connection.execute("CREATE DATABASE mutant TEMPLATE ready")
        return f"{server}/mutant"

    try:
        while not said.exists():
            if os.waitpid(child, os.WNOHANG)[0]:
                raise SystemExit("no store could be made")
            time.sleep(0.1)
        yield {
            "migrated_sqlite": lambda: Path(f"{tree}.db"),
            "postgres_server": own_database,
            "migrated_postgres": own_database,
        }
    finally:
        os.write(go_on, b".")  # other children may hold its end open
        os.close(go_on)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(child, 0)


def keep_stores(tree: Path, said: Path, wait: int) -> None:
    """Migrate an SQLite file and a database of a PostgreSQL, and keep that until *wait* ends."""
    sys.path[:0] = [str(tree), str(tree / "tests")]
    from monitor.store.engine import Store  # noqa: PLC0415  # not before the forks
    from monitor.store.schema import migrate  # noqa: PLC0415  # not before the forks
    from support.postgres_server import PostgresServer  # noqa: PLC0415

    folder = tree.with_name("postgres")
    folder.mkdir()
    with PostgresServer(folder, durable=False) as server:
        place = server.url.removesuffix("/postgres")
        with contextlib.closing(Store(server.url)) as store:
            alone = store.engine.execution_options(isolation_level="AUTOCOMMIT")
            with alone.connect() as connection:
                connection.exec_driver_sql("CREATE DATABASE ready")
        for url in (f"sqlite:///{tree}.db", f"{place}/ready"):
            with contextlib.closing(Store(url)) as store:
                migrate(store)
        said.with_suffix(".part").write_text(place)
        said.with_suffix(".part").rename(said)
        os.read(wait, 1)


def preload(tree: Path, names: Sequence[str], modules: Sequence[str]) -> None:
    """Import, once for all forks, what the tests import and what no change can reach."""
    sys.path.insert(0, str(tree))
    own = {
        str(path.relative_to(tree).with_suffix(""))
        .replace("/", ".")
        .removesuffix(".__init__"): path
        for package in PACKAGES
        for path in (tree / package).rglob("*.py")
    }
    reached = {name for name, path in own.items() if str(path.relative_to(tree)) in modules}
    uses = {name: imported_by(name, path) & own.keys() for name, path in own.items()}
    grown = True
    while grown:
        more = {name for name, used in uses.items() if used & reached} - reached
        reached |= more
        grown = bool(more)
    skipped = {"tests", "support", "conftest", "pytest_cov", "__main__", "coverage"}
    for name in names:
        known = name in own if name.split(".")[0] in PACKAGES else name.split(".")[0] not in skipped
        if known and name not in reached:
            with contextlib.suppress(Exception, SystemExit):
                importlib.import_module(name)
    if loaded := [name for name in reached if name in sys.modules]:
        raise SystemExit(f"loaded before they could be changed: {', '.join(loaded)}")


def imported_by(name: str, path: Path) -> set[str]:
    """Return the modules that a module may import, its own packages among them."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    found = {name.rsplit(".", depth)[0] for depth in range(1, name.count(".") + 1)}
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {item.name for item in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = package.rsplit(".", node.level - 1)[0] if node.level else ""
            source = ".".join(filter(None, (above, node.module or "")))
            found |= {source, *(f"{source}.{item.name}" for item in node.names)}
    return found | {
        name.rsplit(".", depth)[0] for name in found for depth in range(name.count(".") + 1)
    }


def tests_of(line: int, source: str, lines: Mapping[str, Sequence[str]]) -> set[str]:
    """
    Return the tests that run a line, else its statement, else, for what imports run, any.

    Where they are few, those that run the module join: a test that uses a thread which an earlier
    test started may run the line unseen.
    """
    statements = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.stmt))
    spans = (range(node.lineno, (node.end_lineno or node.lineno) + 1) for node in statements)
    around = sorted((span for span in spans if line in span), key=len)
    for span in (range(line, line + 1), *around, range(len(source))):
        found = {test for at in span for test in lines.get(str(at), ())}
        if found:
            break
    return found if len(found) > FEW else {test for tests in lines.values() for test in tests}


class Trial:
    """A copy of the tree, in which mutants meet tests."""

    def __init__(
        self,
        tree: Path,
        modules: Sequence[str],
        traced: Traced,
        ready: Mapping[str, Callable[[], Any]],
    ) -> None:
        self.tree, self.traced, self.seconds, self.ready = tree, traced, traced.seconds, ready
        self.number = 0
        self.modules = modules
        self.asked, self.said = self.serve()

    def serve(self) -> tuple[Any, Any]:
        """Start the process that keeps tests and modules; return how to ask it, and its answers."""
        (asks, ask), (answer, answers) = os.pipe(), os.pipe()
        if os.fork() == 0:
            os.close(ask)
            os.close(answer)
            with contextlib.suppress(BaseException):
                with Path(os.devnull).open("r+b") as nothing:
                    for stream in range(3):
                        os.dup2(nothing.fileno(), stream)
                watch = Watch(ready=self.ready)
                files = sorted({test.split("::")[0] for test in self.seconds})
                there = [name for name in files if (self.tree / name).exists()]
                run_tests(self.tree, there, watch, plugins=[Kept(watch, asks, answers)])
            os._exit(0)
        os.close(asks)
        os.close(answers)
        said = os.fdopen(answer)
        if said.readline() != "ready\n":
            raise SystemExit("the tests could not be read")
        return os.fdopen(ask, "w"), said

    def close(self) -> None:
        """End that process."""
        self.asked.close()
        self.said.close()

    def kept(
        self, module: str, before: str, changed: str, tests: Sequence[str], patience: int
    ) -> dict[str, bool] | None:
        """Do as `failing` does in a fork of what was read once; None where that cannot be."""
        path = self.tree / module
        failed = self.tree.with_name("failed.json")
        failed.unlink(missing_ok=True)
        taken = [self.seconds[test] for test in tests]
        task = {
            "path": str(path), "before": before, "after": changed, "tests": tests,
            "timeout_s": patience * max(taken) + LEAST_PATIENCE_S,
            "limit_s": patience * sum(taken) + 10 * LEAST_PATIENCE_S, "failed": str(failed),
        }  # fmt: skip
        self.asked.write(json.dumps(task) + "\n")
        self.asked.flush()
        code = json.loads(self.said.readline())
        if code == NOT_RUN:
            raise SystemExit("pytest did not run")
        if code == NOT_SWAPPED:
            return None
        found: dict[str, bool] = json.loads(failed.read_text()) if failed.exists() else {}
        return found or ({} if code == 0 else {"": code is None})

    def failing(
        self, tests: Sequence[str], *more: str, patience: int = PATIENCE
    ) -> dict[str, bool]:
        """Run *tests* in the tree as it is; return those that fail, and whether by a time-out."""
        if self.modules:  # here, because most mutants need none of it
            preload(self.tree, self.traced.loaded, self.modules)
            self.modules = ()
        watch = Watch(wanted={test: number for number, test in enumerate(tests)}, ready=self.ready)
        files = sorted({test.split("::")[0] for test in tests})
        taken = [self.seconds[test] for test in tests]
        options = [f"--timeout={patience * max(taken) + LEAST_PATIENCE_S:.0f}", *more]
        said = self.tree.with_name("failed.json")
        said.unlink(missing_ok=True)

        def call() -> int:
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
            code = run_tests(self.tree, files, watch, *options)
            said.write_text(json.dumps(watch.failed), encoding="utf-8")
            return code

        limit_s = patience * sum(taken) + 10 * LEAST_PATIENCE_S
        code = forked(call, timeout_s=limit_s)
        if code == NOT_RUN:
            raise SystemExit("pytest did not run")
        failed: dict[str, bool] = json.loads(said.read_text()) if said.exists() else {}
        return failed or ({} if code == 0 else {"": code is None})

    def noticed_by(self, module: str, changed: str, tests: Sequence[str]) -> str | None:
        """Return the test that fails where *module* is *changed*, "" for none in particular."""
        source, moment = (self.tree / module).read_bytes(), (self.tree / module).stat().st_mtime
        (self.tree / module).write_text(changed, encoding="utf-8")
        self.number += 1  # no two mutants share their compiled code
        os.utime(self.tree / module, (self.number, self.number))
        kept = partial(self.kept, module, source.decode(), changed)
        try:
            for part in (tests[:FIRST], tests[FIRST:]):
                if (test := self.first_failing(list(part), kept)) is not None:
                    return test
            # What ran at import, such as a table that a function made, is seen this way alone.
            return self.first_failing(tests[:FIRST], lambda *_: None)
        finally:
            (self.tree / module).write_bytes(source)
            os.utime(self.tree / module, (moment, moment))

    def first_failing(self, left: list[str], kept: Callable[..., Any]) -> str | None:
        """Return the first of some tests that fails; None if none does."""
        while left:
            failed = kept(left, PATIENCE)
            failed = self.failing(left, "-x") if failed is None else failed
            if not failed:
                break
            [(test, timed_out)] = list(failed.items())[:1]
            if not (test and timed_out):
                return test
            again = kept([test], 3 * PATIENCE)
            if self.failing([test], patience=3 * PATIENCE) if again is None else again:
                return test
            left = left[left.index(test) + 1 :]  # the machine was busy
        return None


class Mutant(NamedTuple):
    """A change, what may notice it and what did: a test, "" none in particular, None nothing."""

    where: str
    module: str
    changed: str
    tests: list[str]
    noticed_by: str | None


def sample(
    trial: Trial, modules: Sequence[str], traced: Traced, given: argparse.Namespace
) -> list[Mutant]:
    """Try some mutants, print each, and return them."""
    known = {
        test: taken
        for test, taken in traced.seconds.items()
        if taken < LONGEST_TEST_S and test not in traced.failed
    }
    found = places(trial.tree, modules)
    draw = random.Random(given.seed)  # a sample, no secret
    print(f"{len(found)} places in {len(modules)} modules, {len(known)} tests, seed {given.seed}")
    tried: list[Mutant] = []
    for place in draw.sample(sorted(found), len(found)):
        if len(tried) == given.draw:
            break
        module, line, _, kind = place
        source = (trial.tree / module).read_text(encoding="utf-8")
        changed = mutate(source, *draw.choice(found[place]))
        if changed is None:
            continue
        tests, total_s = [], 0.0
        for test in sorted(
            tests_of(line, source, traced.lines.get(module, {})) & known.keys(),
            key=known.__getitem__,
        ):
            if total_s + known[test] < given.longest:
                tests.append(test)
                total_s += known[test]
        by = trial.noticed_by(module, changed, tests)
        tried.append(Mutant(f"{module}:{line} {kind}", module, changed, tests, by))
        said = "SURVIVED" if by is None else "noticed"
        print(f"{len(tried)} {said} {tried[-1].where}, {len(tests)} tests {by or ''}", flush=True)
        if by is None:
            rows = unified_diff(source.split("\n"), changed.split("\n"), lineterm="", n=0)
            print(*(f"    {row}" for row in list(rows)[2:]), sep="\n", flush=True)
    return tried


def confirmed(trial: Trial, tried: Sequence[Mutant]) -> list[Mutant]:
    """Return the mutants, tried anew where what failed also fails on the unchanged code."""
    result, sound, broken = list(tried), set[str](), set[str]()
    while unsure := sorted({each.noticed_by for each in result if each.noticed_by} - sound):
        broken |= trial.failing(unsure).keys()
        sound |= set(unsure) - broken
        for place, each in enumerate(result):
            if each.noticed_by in broken:
                left = [test for test in each.tests if test not in broken]
                again = each._replace(noticed_by=trial.noticed_by(each.module, each.changed, left))
                print(f"again without {each.noticed_by}: {again.where} {again.noticed_by}")
                result[place] = again
    return result


def main() -> None:
    rooms = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mutants"]
    parser = argparse.ArgumentParser(description=__doc__.strip().splitlines()[0])
    parser.add_argument("room", choices=rooms)
    parser.add_argument("--draw", type=int, default=80, help="how many mutants")
    parser.add_argument("--seed", type=int, default=1, help="draws others")
    parser.add_argument("--longest", type=float, default=240.0, help="idle seconds of tests, each")
    parser.add_argument("--traced", type=Path, help="keep what the tests run here, for later draws")
    given = parser.parse_args()
    modules = [
        str(path.relative_to(ROOT))
        for name in rooms[given.room]["modules"]
        for path in sorted(ROOT.glob(name))
    ]
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        Path(folder).chmod(0o755)  # PostgreSQL runs as another user
        tree = copy_tree(Path(folder).resolve() / "tree")
        kept = given.traced or tree / "traced.json"
        if not kept.exists():
            trace(tree, modules, rooms[given.room], kept)
        traced = Traced(**json.loads(kept.read_text(encoding="utf-8")))
        for module, files in rooms[given.room].get("elsewhere", {}).items():
            seen = [test for test in traced.seconds if test.split("::")[0] in files]
            for tests in traced.lines[module].values():
                tests.extend(seen)
        for name in traced.failed:
            print(f"left out, fails on the unchanged code: {name}")
        with (
            made_ready(tree) as ready,
            contextlib.closing(Trial(tree, modules, traced, ready)) as trial,
        ):
            tried = confirmed(trial, sample(trial, modules, traced, given))
        from monitor.stats.intervals import wilson_interval  # noqa: PLC0415  # not before the forks

        noticed, n = sum(each.noticed_by is not None for each in tried), len(tried)
        low, high = wilson_interval(noticed, n)
        print(f"{given.room}: {noticed} of {n} noticed, {noticed / n:.1%} [{low:.1%}, {high:.1%}]")


if __name__ == "__main__":
    main()
