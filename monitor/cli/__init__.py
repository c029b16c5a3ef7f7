"""The command ``groundwatch``: one file a command; composes everything, imported by nobody."""

from __future__ import annotations

import sys

from monitor.errors import GroundwatchError, MissingExtraError


def main() -> None:
    """Run the command line; a user's mistake is one line on stderr, never a traceback."""
    try:
        from monitor.cli.app import app  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if error.name and error.name.split(".")[0] in {"monitor", "workers", "alerts"}:
            raise
        sys.exit(f"groundwatch: {MissingExtraError('the command line')}")
    try:
        app()
    except GroundwatchError as error:
        for line in str(error).splitlines():
            print(f"groundwatch: {line}", file=sys.stderr)  # noqa: T201
        # `status` has told its own story by its exit code; here, nothing could be told.
        sys.exit(3)
