"""Where scores go, line by line; what an earlier run has written is gone on from."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Self

import typer


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
        Open the file to write to; never the one that is read.

        Raises
        ------
        typer.BadParameter
            If it is the file that is read, or holds something else than scores.
        """
        if path is None:
            return cls(None)
        if path.exists() and path.samefile(not_over):
            raise typer.BadParameter(f"{path} is the file that is read; write to another one")
        made = cls(path)
        exists = path.exists() and not overwrite
        made._target = target = path.open("r+b" if exists else "wb")
        if exists:
            try:
                target.truncate(made._read(target))
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
        """Write a line, whole and at once."""
        if self._target is None:
            typer.echo(line)
            return
        # Half of a surrogate pair, which UTF-8 cannot hold, is written as JSON writes it.
        self._target.write(line.encode("utf-8", "backslashreplace") + b"\n")
        self._target.flush()

    def close(self) -> None:
        """Close the file."""
        if self._target is not None:
            self._target.close()

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
