"""The app under chaos: samples at a steady rate through the real hook."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

APP = "shop"

_CODE = """
import json, sys, time
import monitor
rate, seconds, last = float(sys.argv[1]), float(sys.argv[2]), sys.argv[3]
began, n, all_ = time.monotonic(), 0, int(rate * seconds)
while n < all_:
    while n < min(all_, (time.monotonic() - began) * rate):
        monitor.sample(
            query="How long does a refund take?",
            contexts=["Refunds are paid back within five working days."],
            output=f"A refund is paid back within five working days, number {n % 500}.",
            user_id=f"user-{n % 50}", release=f"v{n % 3}",
        )
        n += 1
    time.sleep(0.005)
if last:
    monitor.sample(query="?", contexts=["."], output=last)
for _ in range(30):
    if monitor.flush(timeout=2.0):
        break
print(json.dumps(monitor.stats(), default=str))
"""


def clean_environment() -> dict[str, str]:
    """Give what any process needs of our environment, and no setting."""
    keep = ("PATH", "HOME", "LANG")
    return {name: os.environ[name] for name in keep if name in os.environ}


def start_app(
    environment: Mapping[str, str], rate: float, seconds: float, last: str = ""
) -> subprocess.Popen[str]:
    """Start an app that samples so many a second, for so long, and in the end the text *last*."""
    return start(environment, "-c", _CODE, str(rate), str(seconds), last)


def start(environment: Mapping[str, str], *arguments: str) -> subprocess.Popen[str]:
    """Start a program of Python's that samples everything as the app."""
    ours = {**environment, "GROUNDWATCH_APP": APP, "GROUNDWATCH_SAMPLE_RATE": "1"}
    return subprocess.Popen(
        [sys.executable, *arguments], env=ours, stdout=subprocess.PIPE, text=True
    )


def told(app: subprocess.Popen[str]) -> dict[str, Any]:
    """Wait for its end; give what its hook has counted."""
    out, _ = app.communicate(timeout=180)
    found: dict[str, Any] = json.loads(out.splitlines()[-1])
    return found
