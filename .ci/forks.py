"""Tests that are read once, and run in forks with one function exchanged for a broken one."""

from __future__ import annotations

import contextlib
import gc
import inspect
import json
import os
import resource
import sys
import time
import traceback
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import zip_longest
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import _pytest.main
import _pytest.runner
import psutil
import pytest

MEMORY_BYTES = 8 * 2**30
NOT_RUN, NOT_SWAPPED = 70, 71  # exit codes


class Watch:
    """A plugin of pytest: which tests to run, in which order; which lines they run, how long."""

    def __init__(
        self,
        coverage: Any = None,
        wanted: Mapping[str, int] | None = None,
        ready: Mapping[str, Callable[[], Any]] | None = None,
    ) -> None:
        self.coverage, self.wanted, self.ready = coverage, wanted, ready or {}
        self.seconds: dict[str, float] = defaultdict(float)
        self.queued_s = queued_s()
        self.failed: dict[str, bool] = {}  # whether by a time-out

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        if self.wanted is not None:
            items[:] = [item for item in items if item.nodeid in self.wanted]
            items.sort(key=lambda item: self.wanted[item.nodeid])

    @pytest.hookimpl(tryfirst=True)
    def pytest_fixture_setup(self, fixturedef: Any, request: Any) -> Any:
        """Give a fixture that was made ready before."""
        if fixturedef.argname not in self.ready:
            return None  # pytest makes it
        found = self.ready[fixturedef.argname]()
        fixturedef.cached_result = (found, fixturedef.cache_key(request), None)
        return found

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        if self.coverage:
            self.coverage.switch_context(nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        before, self.queued_s = self.queued_s, queued_s()
        self.seconds[report.nodeid] += max(0.0, report.duration - (self.queued_s - before))
        if report.failed:
            self.failed[report.nodeid] = "Timeout" in report.longreprtext


def queued_s(process: int | str = "self") -> float:
    """Return how long a process has waited for a processor; 0 where the system does not say."""
    try:
        return int(Path(f"/proc/{process}/schedstat").read_text().split()[1]) / 1e9
    except OSError:
        return 0.0


def run_tests(
    tree: Path, tests: Sequence[str], watch: Watch, *more: str, plugins: Sequence[Any] = ()
) -> int:
    """Run pytest in this process, in *tree*; return its exit code."""
    os.chdir(tree)
    sys.path.insert(0, str(tree))
    os.environ["PYTHONPATH"] = str(tree)
    # A folder of its own: another pytest of the same user takes the rights of the usual one away.
    options = [
        "-q",
        f"--basetemp={tree}.tmp",
        "-p",
        "no:cacheprovider",
        "-W",
        "ignore::pytest.PytestAssertRewriteWarning",
    ]
    return int(pytest.main([*tests, *options, *more], [watch, *plugins]))


def forked(call: Callable[[], int], *, silent: bool = True, timeout_s: float) -> int | None:
    """Return the exit code of *call* in a process of its own; None where it outlasts the timeout.

    Processes are forked because most of the time of a short test run is for imports. The time that
    a busy machine lets them wait does not count.
    """
    child = os.fork()
    if child == 0:
        code = NOT_RUN
        try:
            if silent:
                with Path(os.devnull).open("r+b") as nothing:
                    for stream in range(3):
                        os.dup2(nothing.fileno(), stream)
            code = call()
        except BaseException:  # noqa: BLE001  # nothing may go on as if this were the parent
            traceback.print_exc()
        finally:
            os._exit(code)
    began_s = time.monotonic()
    while time.monotonic() - began_s - queued_s(child) < timeout_s:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    for process in (*psutil.Process(child).children(recursive=True), psutil.Process(child)):
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    os.waitpid(child, 0)
    return None


class Kept:
    """
    A plugin of pytest: read all tests and modules once, then run each mutant in a fork of that.

    The code of a changed function is exchanged in the fork. What changes at import goes another
    way, see `Trial.failing`.
    """

    def __init__(self, watch: Watch, asked: int, said: int) -> None:
        self.watch, self.asked, self.said = watch, asked, said

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = {item.nodeid: item for item in session.items}
        with os.fdopen(self.asked) as asked, os.fdopen(self.said, "w") as said:
            said.write("ready\n")
            said.flush()
            for line in asked:
                task = json.loads(line)
                code = forked(partial(self.run, session, items, task), timeout_s=task["limit_s"])
                said.write(json.dumps(code) + "\n")
                said.flush()
        return True

    def run(
        self, session: pytest.Session, items: Mapping[str, pytest.Item], task: Mapping[str, Any]
    ) -> int:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
        if not swap(task["path"], task["before"], task["after"]):
            return NOT_SWAPPED
        session.items = [items[test] for test in task["tests"] if test in items]
        session.config.option.maxfail = 1
        vars(session.config)["_env_timeout"] = task["timeout_s"]  # of pytest-timeout
        with contextlib.suppress(session.Failed):
            _pytest.main.pytest_runtestloop(session)
        _pytest.runner.pytest_sessionfinish(session)
        Path(task["failed"]).write_text(json.dumps(self.watch.failed), encoding="utf-8")
        return int(bool(self.watch.failed))


def functions_changed(path: str, before: str, after: str) -> dict[Any, CodeType] | None:
    """Return the new code of functions, by name and line; None where an import would differ."""
    found: dict[Any, CodeType] = {}

    def inner(code: CodeType) -> list[CodeType]:
        return [each for each in code.co_consts if isinstance(each, CodeType)]

    def own(code: CodeType) -> tuple[Any, ...]:
        consts = [(type(c), repr(c)) for c in code.co_consts if not isinstance(c, CodeType)]
        return (code.co_code, consts, code.co_names, code.co_varnames, code.co_exceptiontable)

    def same(a: CodeType, b: CodeType) -> bool:
        pairs = list(zip_longest(inner(a), inner(b)))
        return own(a) == own(b) and all(x and y and same(x, y) for x, y in pairs)

    def walk(a: CodeType, b: CodeType) -> bool:
        if a.co_flags & inspect.CO_OPTIMIZED:  # a function
            if not same(a, b):
                found[a.co_qualname, a.co_firstlineno] = b
            return not a.co_name.endswith(("comp>", "genexpr>")) or same(a, b)
        pairs = list(zip_longest(inner(a), inner(b)))
        return own(a) == own(b) and all(x and y and walk(x, y) for x, y in pairs)

    old, new = (compile(text, path, "exec", dont_inherit=True) for text in (before, after))
    return found if walk(old, new) else None


def swap(path: str, before: str, after: str) -> bool:
    """Exchange the code of the functions of a module that is loaded; return whether it could be."""
    if not any(getattr(module, "__file__", None) == path for module in [*sys.modules.values()]):
        return True  # it will be read as it is now
    changed = functions_changed(path, before, after)
    if not changed:
        return changed is not None and before == after
    left = set(changed)
    for each in gc.get_objects():
        # By its type alone: a test's own object may not like to be asked for its class.
        if type(each) is FunctionType and each.__code__.co_filename == path:
            key = each.__code__.co_qualname, each.__code__.co_firstlineno
            if key in changed:
                try:
                    each.__code__ = changed[key]
                except ValueError:  # of other free variables
                    return False
                left.discard(key)
    return not left
