"""Become a program that ends with its parent: ``python -m workers.launch PARENT_PID CMD ...``."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Ask the kernel for a signal at the parent's death, where it offers that; then become CMD."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    parent_pid, *command = sys.argv[1:]
    if os.getppid() != int(parent_pid):
        sys.exit("the parent died before it could be watched")
    os.execvp(command[0], command)  # noqa: S606


if __name__ == "__main__":
    main()
