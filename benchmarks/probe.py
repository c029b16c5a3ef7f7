"""Libraries measured in processes of their own, in turn, beside a process with none of them."""

import contextlib
import json
import os
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

#: Figures by row, then by library.
Found = dict[str, dict[str, list[float]]]


def measure(found: Found, name: str, *asked: str, env: Mapping[str, str]) -> float:
    """Have this program measure *name* in a process; return how long its end takes, in seconds."""
    kept = {key: value for key, value in os.environ.items() if "GROUNDWATCH" not in key}
    with subprocess.Popen(
        [sys.executable, sys.argv[0], "--probe", name, *asked], text=True,
        env=kept | {"PYTHONPATH": str(Path(__file__).parents[1])} | env,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    ) as process:  # fmt: skip
        assert process.stdout
        line = process.stdout.readline()
        for row, figure in json.loads(line or "{}").items():
            found.setdefault(row, defaultdict(list))[name].append(figure)
        began_s = time.monotonic()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=60)
        process.kill()
        return time.monotonic() - began_s


def print_medians(found: Found, bare: str, names: Sequence[str]) -> None:
    """Print a row of medians each: that of *bare*, and by how much those of *names* are above."""
    from common import print_head, print_row

    print_head("", bare, *names)
    for row, figures in found.items():
        medians = {name: statistics.median(values) for name, values in figures.items()}
        low = medians.get(bare, float("nan"))
        above = (f"{medians[name] - low:+,.3g}" if name in medians else "–" for name in names)
        print_row(row, f"{low:,.3g}", *above)


def run(probe: Callable[..., Mapping[str, float]], main: Callable[..., None]) -> None:
    """Run *main*, or *probe* in the processes that it starts; these leave as an app would."""
    if sys.argv[1:2] == ["--probe"]:
        with contextlib.redirect_stdout(sys.stderr):  # of a library that prints
            found = probe(*sys.argv[2:])
        print(json.dumps(found), flush=True)
    else:
        from common import script

        script(main)
