"""
Clocks that jump: processes see the time that a file of their own says.

Not by libfaketime: under it waiting for a lock with a time-out, which Python does all the
time, slows a worker to a few samples a second.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from monitor.errors import GroundwatchError

if TYPE_CHECKING:
    from support.chaos.world import World

#: An hour, and so much that what is right now looks older than the status window.
_JUMP_S = 3_700
_AHEAD_FOR_S = 4.0
_SOURCE = Path(__file__).with_name("clock.c")
CLOCKS = ("worker", "scheduler", "app")


class Clocks:
    """The clocks of processes, each of which can be set while they run."""

    def __init__(self, folder: Path) -> None:
        """
        Build what moves them.

        Raises
        ------
        GroundwatchError
            Where there is no C compiler.
        """
        compiler = shutil.which("cc")
        if compiler is None:
            raise GroundwatchError("no C compiler (cc) to build what moves a clock")
        self._folder, self._library = folder, folder / "clock.so"
        built = ("-shared", "-fPIC", "-O2", "-o", self._library, _SOURCE)
        subprocess.run([compiler, *built, "-ldl"], check=True)
        for name in CLOCKS:
            self._file(name).write_bytes(bytes(8))

    def set(self, name: str, ahead_s: int) -> None:
        """Set a clock so many seconds ahead of the machine's."""
        with self._file(name).open("r+b") as file:
            file.write(ahead_s.to_bytes(8, sys.byteorder, signed=True))

    def environment(self, name: str) -> dict[str, str]:
        """Say what a process needs to go by the clock *name*; its steady clocks stay true."""
        return {"LD_PRELOAD": str(self._library), "CHAOS_CLOCK": str(self._file(name))}

    def _file(self, name: str) -> Path:
        return self._folder / f"clock-{name}"


def jump_of(name: str) -> Callable[[World], None]:
    """Let one clock jump ahead, stay there for a while, and jump back."""

    def jump(world: World) -> None:
        assert world.clocks is not None
        world.clocks.set(name, _JUMP_S)
        time.sleep(_AHEAD_FOR_S)
        world.clocks.set(name, 0)

    return jump


FAULTS = {f"clock-{name}": jump_of(name) for name in CLOCKS}
