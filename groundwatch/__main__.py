"""``groundwatch`` and ``python -m groundwatch``: the command line, with our own packages."""

from __future__ import annotations

import atexit
import gc
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

OURS = ("monitor", "workers", "alerts")
HOME = Path(__file__).resolve().parent.parent


class OursFirst:
    """Find our three packages beside this folder, whatever the caller's folder has."""

    @staticmethod
    def find_spec(
        name: str, _path: Sequence[str] | None = None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of one of our packages; None leaves *name* to the usual finders."""
        return PathFinder.find_spec(name, [str(HOME)]) if name in OURS else None


def main() -> None:
    """Run the command line; an app's own ``monitor``, ``workers`` or ``alerts`` cannot get in."""
    # Modules last as long as the process: to search them for garbage took a quarter of a command.
    gc.set_threshold(20_000)
    atexit.register(gc.freeze)
    sys.meta_path.insert(0, OursFirst)
    from monitor.cli import main as run  # noqa: PLC0415

    run()


if __name__ == "__main__":
    main()
