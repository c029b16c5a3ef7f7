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

from monitor.report.format import sparkline
from monitor.report.model import RatePoint

#: Between two columns, and between two cells of a paragraph.
_GAP = "  "
#: A cell that is longer than this may be folded, to no less than this.
_FOLDS_FROM = 24


@dataclass(slots=True)
class Column:
    """One column: its name, which a list without headings leaves empty, and its side."""

    name: str = ""
    justify: Literal["left", "right"] = "left"


@dataclass(slots=True)
class Listing:
    """
    Rows of cells; no cell is ever cut.

    Where the columns do not fit beside each other, each row is written as its first cell and,
    indented below it, the others behind their names. So an id can be copied from any terminal.
    """

    columns: list[Column]
    rows: list[tuple[Text, ...]] = field(default_factory=list)
    styles: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, *names: str, right: Sequence[str] = ()) -> Listing:
        """Return an empty listing with these headings; figures are right-aligned."""
        return cls([Column(name, "right" if name in right else "left") for name in names])

    def add_row(self, *cells: Text | str, style: str = "") -> None:
        """Add one row; a cell that is a string is plain text, not markup."""
        self.rows.append(tuple(Text(cell) if isinstance(cell, str) else cell for cell in cells))
        self.styles.append(style)

    def __rich_console__(self, _: Console, options: ConsoleOptions) -> RenderResult:
        """Yield a table if it fits, else a paragraph a row."""
        widths = [
            max([cell_len(column.name), *(row[number].cell_len for row in self.rows)])
            for number, column in enumerate(self.columns)
        ]
        needed = sum(min(width, _FOLDS_FROM) for width in widths)
        needed += len(_GAP) * (len(self.columns) - 1)
        if needed > options.max_width:
            for row, style in zip(self.rows, self.styles, strict=True):
                # A mark without a name stands before the cell that it is about.
                marked = not self.columns[0].name and bool(self.columns[1].name)
                head = 2 if marked else 1
                yield Text(" ", style=style).join(row[:head])
                shown = [
                    Text.assemble((f"{column.name} ", "dim"), cell) if column.name else cell
                    for column, cell in list(zip(self.columns, row, strict=True))[head:]
                    if cell.plain
                ]
                yield Padding(Text(_GAP).join(shown), (0, 0, 0, 2), style=style)
            return
        named = any(column.name for column in self.columns)
        table = Table(
            box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim", show_header=named
        )
        for column, width in zip(self.columns, widths, strict=True):
            folds = width > _FOLDS_FROM
            table.add_column(
                column.name, justify=column.justify, no_wrap=not folds, overflow="fold",
                min_width=min(width, _FOLDS_FROM),
            )  # fmt: skip
        for row, style in zip(self.rows, self.styles, strict=True):
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
