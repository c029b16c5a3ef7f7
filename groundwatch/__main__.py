"""``groundwatch`` and ``python -m groundwatch``: the command line, with our own packages."""

from __future__ import annotations

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
    sys.meta_path.insert(0, OursFirst)
    from monitor.cli import main as run  # noqa: PLC0415

    run()


if __name__ == "__main__":
    main()
