"""The command ``groundwatch``: `app` lists all commands; a file holds those of one kind."""

from __future__ import annotations

import errno
import re
import sys
import traceback
from typing import NoReturn

from monitor.errors import GroundwatchError, MissingExtraError

_UNKNOWN, _INTERRUPTED = 3, 130


def main() -> None:
    """Run the command line; a user's mistake is one line on stderr, never a traceback."""
    try:
        from monitor.cli.app import app  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if _is_ours(error):
            raise
        sys.exit(f"groundwatch: {MissingExtraError('the command line')}")
    try:
        app()
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
    except GroundwatchError as error:
        _give_up(str(error))
    except ModuleNotFoundError as error:
        # Commands are imported when they are called, and need packages of their own.
        if _is_ours(error):
            _break_down()
        _give_up(f"{MissingExtraError('this command')} ({error.name} is not installed)")
    except OSError as error:
        full = error.errno in {errno.ENOSPC, errno.EDQUOT}
        if error.filename is None and not full:
            _break_down()
        advice = (
            "make room and run it again" if full
            else "choose another place (the data folder is GROUNDWATCH_HOME),"
            " or correct its permissions"
        )  # fmt: skip
        _give_up(f"{error.filename or 'output'}: {error.strerror}; {advice}")
    except Exception:  # noqa: BLE001
        _break_down()


def _is_ours(error: ModuleNotFoundError) -> bool:
    return (error.name or "").split(".")[0] in {"", "monitor", "workers", "alerts"}


def _break_down() -> NoReturn:
    """Print the traceback of a bug of ours, and exit with 3 rather than the code of a warning."""
    traceback.print_exc()
    sys.exit(_UNKNOWN)


def _give_up(message: str) -> NoReturn:
    """Print one line per error and exit with 3: unknown, which is not a status."""
    # Messages of libraries run over several lines, of which the further ones are indented.
    for line in re.sub(r"\n\s+", " ", message).splitlines():
        print(f"groundwatch: {line}", file=sys.stderr)  # noqa: T201
    sys.exit(_UNKNOWN)
