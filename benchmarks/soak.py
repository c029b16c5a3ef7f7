"""
Memory of app, worker, scheduler and page over time, under steady traffic: does it grow?

    python benchmarks/soak.py [--minutes 10] [--rate 200] [--store sqlite|postgresql]

The resident memory of each process is read every five seconds. The slope is that of a
straight line by least squares over what follows the warm-up, with a 95 % interval from
the means of ten stretches, since neighbouring readings are much alike.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
import urllib.request
from contextlib import suppress
from pathlib import Path

import numpy as np
from chaos import World
from chaos_app import start_app, told
from scipy import stats

_EVERY_S = 5.0
_WARM_UP = 0.3
_STRETCHES = 10
_PAGE = os.sysconf("SC_PAGE_SIZE")


def _resident_mb(pids: list[int]) -> float:
    total = 0
    for pid in pids:
        with suppress(OSError):
            total += int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
    return total / 1e6


def _slope(readings: list[tuple[float, float]]) -> tuple[float, float]:
    """Give the slope in MB an hour, and half the width of its 95 % interval."""
    kept = np.array(readings)[int(len(readings) * _WARM_UP) :]
    parts = [part.mean(axis=0) for part in np.array_split(kept, _STRETCHES) if len(part)]
    hours, size = np.array(parts).T[0] / 3600, np.array(parts).T[1]
    line = stats.linregress(hours, size)
    half = float(stats.t.ppf(0.975, len(parts) - 2)) * float(line.stderr)
    return float(line.slope), half


def main() -> None:
    """Print the memory a minute, and the slopes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--rate", type=int, default=200)
    parser.add_argument("--store", choices=("sqlite", "postgresql"), default="sqlite")
    given = parser.parse_args()
    readings: dict[str, list[tuple[float, float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        with World(Path(folder), given.store, given.rate, given.minutes * 60) as world:
            app = start_app(world.environment, given.rate, given.minutes * 60)
            began_s = last_told_s = time.monotonic()
            while app.poll() is None and time.monotonic() - began_s < given.minutes * 60:
                time.sleep(_EVERY_S)
                now_s = time.monotonic()
                with suppress(OSError):
                    urllib.request.urlopen(world.page, timeout=5).read()  # noqa: S310
                for name, pids in (
                    ("app", [app.pid]),
                    *(
                        (name, [world.pid(name), *world.children(name)])
                        for name in ("worker", "scheduler", "web")
                    ),
                    ("redis", [world.redis.process.pid] if world.redis.process else []),
                ):
                    readings.setdefault(name, []).append((now_s - began_s, _resident_mb(pids)))
                if now_s - last_told_s >= 60:  # noqa: PLR2004  # a line a minute
                    last_told_s = now_s
                    newest = {name: round(of[-1][1], 1) for name, of in readings.items()}
                    waiting = world.client.xlen("groundwatch:samples")
                    print(f"{(now_s - began_s) / 60:5.1f} min: {newest} MB, {waiting} wait")
            counted = told(app)
            settled = world.settle()
            print(json.dumps({"sampled": counted["sampled"], "dropped": counted["dropped"]}))
            print(f"ended {world.ended():,}; reconciled: {settled}")
    for name, of in readings.items():
        slope, half = _slope(of)
        peak = max(size for _, size in of)
        print(f"{name:10} peak {peak:6.1f} MB, slope {slope:+7.2f} ± {half:.2f} MB an hour")


if __name__ == "__main__":
    main()
