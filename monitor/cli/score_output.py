"""Where scores go, line by line; what an earlier run has written is gone on from."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Self

import typer

from monitor.errors import GroundwatchError


@dataclass(slots=True)
class ScoreOutput:
    """
    A file of scores, one line a record, or stdout.

    ``done`` holds the ids of the records whose lines are there already, in order. A
    last line that was cut off is taken away.
    """

    path: Path | None
    done: list[str] = field(default_factory=list)
    _target: IO[bytes] | None = None
    _first: dict[str, str | None] = field(default_factory=dict)

    @classmethod
    def open(cls, path: Path | None, *, not_over: Path, overwrite: bool = False) -> Self:
        """
        Open the file to write to; never the one that is read, nor one that is written to.

        What is no file, such as ``/dev/null`` or a pipe, is written to from the start.

        Raises
        ------
        typer.BadParameter
            If it is the file that is read, holds something else than scores, or another
            run writes to it now.
        """
        if path is None:
            return cls(None)
        if path.exists() and path.samefile(not_over):
            raise typer.BadParameter(f"{path} is the file that is read; write to another one")
        made = cls(path)
        if path.exists() and not path.is_file():
            made._target = path.open("wb")
            return made
        made._target = target = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o666), "r+b")
        try:
            made._lock(target)
            target.truncate(0 if overwrite else made._read(target))
        except BaseException:
            made.close()
            raise
        target.seek(0, 2)
        return made

    def check(self, versions: Mapping[str, str]) -> None:
        """
        Check that what is there was made by the same scorer.

        Raises
        ------
        typer.BadParameter
            If it was not.
        """
        if self.done and self._first != dict(versions):
            raise self._refused("it was scored in another way")

    def check_record(self, position: int, record_id: str) -> None:
        """
        Check that the line at *position* is about this record.

        Raises
        ------
        typer.BadParameter
            If it is not.
        """
        if self.done[position] != record_id:
            raise self._refused(f"its line {position + 1} is about another record")

    def write(self, line: str) -> None:
        """
        Write a line, whole and at once.

        Raises
        ------
        GroundwatchError
            If it cannot be written, as on a full disk.
        """
        if self._target is None:
            typer.echo(line)
            return
        # Half of a surrogate pair, which UTF-8 cannot hold, is written as JSON writes it.
        try:
            self._target.write(line.encode("utf-8", "backslashreplace") + b"\n")
            self._target.flush()
        except OSError as error:
            raise GroundwatchError(
                f"{self.path}: {error.strerror}; make room and run it again to go on"
            ) from None

    def close(self) -> None:
        """Close the file."""
        if self._target is not None:
            with suppress(OSError):  # on a full disk the last line could not be written either
                self._target.close()

    def _lock(self, target: IO[bytes]) -> None:
        """Keep others from writing; the lock ends with us, however we end."""
        try:
            fcntl.flock(target, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise typer.BadParameter(f"{self.path} is being written to by another run") from None
        except OSError:
            return  # a file system without locks

    def _read(self, lines: IO[bytes]) -> int:
        """Note the ids of the lines that are whole; give the length of those."""
        whole = 0
        for line in lines:
            row = _row(line) if line.endswith(b"\n") else None
            if row is None:
                if line.endswith(b"\n"):
                    raise self._refused(f"its line {len(self.done) + 1} is no score")
                break
            if not self.done:
                self._first = {
                    str(e.get("evaluator_name")): e.get("evaluator_version")
                    for e in row["evaluations"]
                }
            self.done.append(row["id"])
            whole += len(line)
        return whole

    def _refused(self, what: str) -> typer.BadParameter:
        return typer.BadParameter(
            f"{self.path} is there and cannot be gone on with: {what};"
            " name another file, or add --overwrite"
        )


def _row(line: bytes) -> dict[str, Any] | None:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    whole = isinstance(row, dict) and isinstance(row.get("id"), str)
    return row if whole and isinstance(row.get("evaluations"), list) else None
