"""A table where there is room for one, and else a paragraph a row; bars that fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from monitor.format import sparkline
from monitor.report.model import RatePoint

#: Between two columns, and between two cells of a paragraph.
_GAP = "  "
_FOLDS_TO = 24


@dataclass(slots=True)
class Column:
    """One column: its name, which a list without headings leaves empty, its side, its widths."""

    name: str = ""
    justify: Literal["left", "right"] = "left"
    from_width: int = 0  #: it is left out of narrower terminals
    folds_to: int = _FOLDS_TO  #: a cell that is longer may be folded, to no less than this


@dataclass(slots=True)
class Listing:
    """
    Rows of cells; no cell is ever cut.

    Where the columns do not fit beside each other, each row is written as its first ``n_head``
    cells and, indented below them, the others behind their names. So an id can be copied from any
    terminal.
    """

    columns: list[Column]
    rows: list[tuple[Text, ...]] = field(default_factory=list)
    styles: list[str] = field(default_factory=list)
    n_head: int = 1

    @classmethod
    def of(cls, *names: str, right: Sequence[str] = ()) -> Listing:
        """Return an empty listing with these headings; figures are right-aligned."""
        columns = [Column(name, "right" if name in right else "left") for name in names]
        # A mark without a name stands before the cell that it is about.
        return cls(columns, n_head=2 if not names[0] and any(names[1:2]) else 1)

    def add_row(self, *cells: Text | str, style: str = "") -> None:
        """Add one row; a cell that is a string is plain text, not markup."""
        self.rows.append(tuple(Text(cell) if isinstance(cell, str) else cell for cell in cells))
        self.styles.append(style)

    def __rich_console__(self, _: Console, options: ConsoleOptions) -> RenderResult:
        """Yield a table if it fits, else a paragraph a row."""
        shown = [
            i for i, column in enumerate(self.columns) if column.from_width <= options.max_width
        ]
        columns = [self.columns[i] for i in shown]
        rows = [[row[i] for i in shown] for row in self.rows]
        widths = [
            max([cell_len(column.name), *(row[number].cell_len for row in rows)])
            for number, column in enumerate(columns)
        ]
        least = [min(w, column.folds_to) for w, column in zip(widths, columns, strict=True)]
        if sum(least) + len(_GAP) * (len(columns) - 1) > options.max_width:
            for row, style in zip(rows, self.styles, strict=True):
                yield Text(" ", style=style).join(row[: self.n_head])
                below = [
                    Text.assemble((f"{column.name} ", "dim"), cell) if column.name else cell
                    for column, cell in list(zip(columns, row, strict=True))[self.n_head :]
                    if cell.plain
                ]
                yield Padding(Text(_GAP).join(below), (0, 0, 0, 2), style=style)
            return
        table = Table(
            box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim",
            show_header=any(column.name for column in columns),
        )  # fmt: skip
        for column, width, narrowest in zip(columns, widths, least, strict=True):
            table.add_column(
                column.name, justify=column.justify, no_wrap=width <= column.folds_to,
                overflow="fold", min_width=narrowest,
            )  # fmt: skip
        for row, style in zip(rows, self.styles, strict=True):
            table.add_row(*row, style=style)
        yield table


@dataclass(frozen=True, slots=True)
class SparklineRow:
    """Pass rates as one row of bars; where it is narrow, each bar stands for several steps."""

    points: Sequence[RatePoint]
    words: str  #: what is drawn

    def __rich_console__(self, _: Console, options: ConsoleOptions) -> RenderResult:
        """Yield as many bars as fit, and the words behind or below them."""
        bars = sparkline([point.pass_rate for point in fewer(self.points, options.max_width)])
        fits = len(bars) + len(_GAP) + cell_len(self.words) <= options.max_width
        yield Text((_GAP if fits else "\n").join((bars, self.words)))


def fewer(points: Sequence[RatePoint], most: int) -> list[RatePoint]:
    """Return at most *most* points, neighbours joined; each rate is that of all it joins."""
    together = max(1, -(-len(points) // max(1, most)))
    joined = []
    for i in range(0, len(points), together):
        part = points[i : i + together]
        n = sum(point.n for point in part)
        passed = sum((point.pass_rate or 0.0) * point.n for point in part)
        some = any(point.pass_rate is not None for point in part)
        joined.append(
            RatePoint(start=part[0].start, n=n, pass_rate=passed / n if some and n else None)
        )
    return joined
