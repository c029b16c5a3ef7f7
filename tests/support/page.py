"""The real page over the store in a folder, for pictures and measurements."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from monitor.settings import PREFIX


class Page(NamedTuple):
    """A page that is served."""

    url: str
    pid: int


@contextmanager
def served_page(home: str) -> Iterator[Page]:
    """Serve the store in *home* with the real command, out of reach of the settings around it."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(PREFIX)}
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "monitor", "web", "--port", "0"],
        env=kept | {"GROUNDWATCH_HOME": home, "GROUNDWATCH_EVALUATE_EVERY_S": "3600"},
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stderr is not None
        found = re.search(r"http://\S+", process.stderr.readline())
        assert found is not None
        yield Page(found[0].rstrip("/"), process.pid)
    finally:
        process.terminate()
        process.wait(timeout=100)
