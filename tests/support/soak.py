"""
Memory of app, worker, scheduler and page over time, under steady traffic: does it grow?

In the folder ``tests``::

    python -m support.soak [--minutes 60] [--rate 200] [--store sqlite|postgresql]
        [--log soak.jsonl]
    python -m support.soak --read soak.jsonl

The memory of each process is read every five seconds: RSS, what `ps` and a container's
limit see, and the anonymous part of PSS, in which pages shared by a fork count once. Every
reading is a line of the log, so that a run that is cut can be read. The slope is that of a
straight line by least squares over what follows a warm-up of a third, and over the last
half. Flat is a slope below 1 % of the memory an hour; or an interval that includes 0 and ends
below 5 %.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
import urllib.request
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from subprocess import Popen
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from monitor.queue import names
from support.chaos.app import start, told
from support.chaos.world import World, reckon

_EVERY_S, _TOLD_EVERY_S = 5.0, 60.0
_APP = Path(__file__).with_name("soak_app.py")
#: As anybody runs it: not the short times and the deadly metric of the chaos.
_USUAL = {
    "GROUNDWATCH_ABANDONED_AFTER_S": "60",
    "GROUNDWATCH_EVALUATE_EVERY_S": "5",
    "GROUNDWATCH_METRICS": "groundedness,relevance",
}
_FIELDS = {"Rss": "rss", "Pss_Anon": "own"}
_STRETCHES = 10
#: Flat is a slope below this share of the memory an hour, or one that may be 0 ...
_FLAT = 0.01
#: ... where the interval is narrow enough to say so.
_WIDEST = 0.05

Series = NDArray[np.float64]  #: (readings, 2): seconds since the begin, MB


class Trend(NamedTuple):
    """A straight line by least squares; the interval holds at 95 %."""

    slope_mb_per_hour: float
    half: float
    mean_mb: float

    @classmethod
    def of(cls, readings: Series) -> Self:
        """Fit the means of ten stretches, since neighbouring readings are much alike."""
        parts = [part.mean(axis=0) for part in np.array_split(readings, _STRETCHES) if len(part)]
        if len(parts) < _STRETCHES:
            return cls(float("nan"), float("nan"), float(readings[:, 1].mean()))
        hours, size = np.array(parts).T[0] / 3600, np.array(parts).T[1]
        line = stats.linregress(hours, size)
        # No error where all readings are the same.
        half = float(stats.t.ppf(0.975, len(parts) - 2) * np.nan_to_num(line.stderr))
        return cls(float(line.slope), half, float(size.mean()))

    @property
    def finding(self) -> str:
        """Say `flat`, `grows`, `shrinks`, or `unclear` where the interval is too wide."""
        slope, half, mean = self
        if abs(slope) < _FLAT * mean and half < _WIDEST * mean:
            return "flat"
        if abs(slope) > half:
            return "grows" if slope > 0 else "shrinks"
        return "flat" if abs(slope) + half < _WIDEST * mean else "unclear"

    def __str__(self) -> str:
        """Write slope, interval and finding."""
        return f"{self.slope_mb_per_hour:+8.2f} ± {self.half:6.2f} {self.finding:7}"


def read(log: Path) -> dict[tuple[str, str], Series]:
    """Read a log, also one that was cut: process and measure to readings."""
    found: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for line in log.read_text(encoding="utf-8").splitlines():
        try:
            record = json.loads(line)
        except ValueError:
            break
        for process, sizes in record.get("mb", {}).items():
            for measure, size in sizes.items():
                found.setdefault((process, measure), []).append((record["s"], size))
    return {key: np.array(of) for key, of in found.items()}


def table(readings: dict[tuple[str, str], Series], measure: str) -> Iterable[str]:
    """Write what each process did over all, without a warm-up of a third, and in the last half."""
    yield (
        f"{measure:18} {'first':>7} {'at 1/3':>7} {'last':>7} {'peak':>7}"
        "   MB an hour after a third          in the last half"
    )
    for (process, of), series in readings.items():
        if of == measure and len(series) >= _STRETCHES:
            begin, end = series[0, 0], series[-1, 0]
            late = [series[series[:, 0] >= begin + share * (end - begin)] for share in (1 / 3, 0.5)]
            yield (
                f"{process:18} {series[0, 1]:7.1f} {late[0][0, 1]:7.1f} {series[-1, 1]:7.1f}"
                f" {series[:, 1].max():7.1f}  " + "  ".join(str(Trend.of(part)) for part in late)
            )


def _processes(world: World, app: int) -> Iterator[tuple[str, int]]:
    yield "app", app
    for name in ("worker", "scheduler", "web"):
        yield name, world.pid(name)
        # By its id, since a child may be replaced.
        yield from ((f"{name} child {pid}", pid) for pid in sorted(world.children(name)))
    if world.redis.process:
        yield "redis", world.redis.process.pid


def _memory_mb(pid: int) -> dict[str, float]:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()[1:]
    sizes = {name: rest.split()[0] for name, _, rest in (line.partition(":") for line in lines)}
    return {measure: int(sizes[key]) * 1024 / 1e6 for key, measure in _FIELDS.items()}


def _reading(world: World, app: int, passed_s: float) -> dict[str, object]:
    sizes = {}
    for name, pid in _processes(world, app):
        with suppress(OSError, KeyError, IndexError):
            sizes[name] = _memory_mb(pid)
    sizes["all"] = {"own": sum(of["own"] for of in sizes.values())}
    return {
        "s": round(passed_s, 1),
        "mb": {name: {m: round(v, 2) for m, v in of.items()} for name, of in sizes.items()},
        "waiting": world.client.xlen(names.SAMPLES),
        "ended": world.ended(),
    }


def _watch(world: World, app: Popen[str], seconds: float, log: Path) -> None:
    began_s = told_s = time.monotonic()
    with log.open("w", encoding="utf-8", buffering=1) as file:
        while app.poll() is None and time.monotonic() - began_s < seconds:
            time.sleep(_EVERY_S)
            with suppress(OSError):
                urllib.request.urlopen(world.page, timeout=60).read()
            now_s = time.monotonic()
            if app.poll() is not None:
                break
            reading = _reading(world, app.pid, now_s - began_s)
            file.write(json.dumps(reading) + "\n")
            if now_s - told_s >= _TOLD_EVERY_S:
                told_s = now_s
                print(json.dumps(reading), flush=True)


def _report(log: Path) -> None:
    readings = read(log)
    for measure in ("rss", "own"):
        print("\n".join(table(readings, measure)), flush=True)


def main() -> None:
    """Print the memory a minute, and the slopes."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--rate", type=int, default=200)
    parser.add_argument("--store", choices=("sqlite", "postgresql"), default="sqlite")
    parser.add_argument("--log", type=Path, default=Path("soak.jsonl"))
    parser.add_argument("--read", type=Path, help="only read a log")
    given = parser.parse_args()
    if given.read:
        _report(given.read)
        return
    seconds = given.minutes * 60
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        with World(Path(folder), given.store, given.rate, seconds, _USUAL) as world:
            app = start(world.environment, str(_APP), str(given.rate), str(seconds))
            _watch(world, app, seconds, given.log)
            _report(given.log)
            counted = told(app)
            line = reckon(world, "none", counted["sampled"], counted["dropped"], 0, 0)
            print(json.dumps(line | {"different_words": counted["words"]}), flush=True)


if __name__ == "__main__":
    main()
