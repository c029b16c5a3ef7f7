"""Become a program that ends with its parent: ``python -m workers.launch PARENT_PID CMD ...``."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Become CMD."""
    parent_pid, *command = sys.argv[1:]
    end_with_parent(int(parent_pid))
    os.execvp(command[0], command)  # noqa: S606


def end_with_parent(parent_pid: int) -> None:
    """Ask the kernel for a SIGTERM at the death of our parent, where it offers that."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent_pid:
        sys.exit("the parent died before it could be watched")


if __name__ == "__main__":
    main()
