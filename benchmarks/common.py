"""What benchmarks share: options, tables, kept figures, stores, and what takes all posts."""

import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import typer
from sqlalchemy import Table, func, select

from monitor.store.engine import Store
from monitor.store.schema import migrate
from monitor.testing.receivers import Receiver

#: Where the servers of the tests are: ``from support.judge_server import JudgeServer``.
sys.path.append(str(Path(__file__).parents[1] / "tests"))

FIGURES = Path(__file__).with_name("figures.json")


def script(main: Callable[..., None]) -> Callable[..., None]:
    """Decorate what ends a script: it runs with its parameters as options, if it is the program."""
    if main.__module__ == "__main__":
        app = typer.Typer(
            add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False
        )
        app.command(help=sys.modules["__main__"].__doc__)(main)
        app()
    return main


class Sink(Receiver):
    """Takes whatever is posted to it, on connections that are kept."""

    def __init__(self) -> None:
        super().__init__("")
        self._server.RequestHandlerClass.protocol_version = "HTTP/1.1"  # type: ignore[attr-defined]

    def _answer(self, handler: BaseHTTPRequestHandler) -> None:
        handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
        handler.send_response(200)
        handler.send_header("Content-Length", "0")
        handler.end_headers()


def print_row(*cells: object) -> None:
    """Print one row of a Markdown table."""
    print(f"| {' | '.join(str(cell) for cell in cells)} |", flush=True)


def print_head(*names: str) -> None:
    """Print the head of a Markdown table; the first column is text, the others are numbers."""
    print_row(*names)
    print_row("---", *["--:"] * (len(names) - 1))


def read_figures() -> dict[str, dict[str, float]]:
    """Read what benchmarks measured last, by benchmark and name; names end in their unit."""
    found: dict[str, dict[str, float]] = json.loads(FIGURES.read_text(encoding="utf-8"))
    return found


def keep_figures(benchmark: str, figures: dict[str, float], *, full: bool) -> None:
    """Print figures, and replace those of the same names in `figures.json` after a full run."""
    for name, value in figures.items():
        print(f"{name:32} {value:10.4g}")
    if not full:
        print(f"fewer samples than a full run: {FIGURES.name} stays as it is")
        return
    whole = read_figures()
    whole.setdefault(benchmark, {}).update({n: float(f"{v:.4g}") for n, v in figures.items()})
    FIGURES.write_text(json.dumps(whole, indent=1, sort_keys=True) + "\n", encoding="utf-8")


@contextmanager
def new_store(url: str = "") -> Iterator[Store]:
    """Make the tables of a store; without *url* it is a SQLite file that is deleted afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        store = Store(url or f"sqlite:///{Path(folder) / 'store.db'}")
        migrate(store)
        yield store
        store.close()


def process_cpu_s(number: int) -> float:
    """Return the CPU time that the process of this number, or its session, has used so far."""
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended
            parts = stat.read_text("utf-8").rpartition(")")[2].split()
            is_ours = number in {int(stat.parent.name), int(parts[3])}
            ticks += (int(parts[11]) + int(parts[12])) * is_ours
    return ticks / os.sysconf("SC_CLK_TCK")


def count_rows(store: Store, tables: Sequence[Table]) -> list[int]:
    """Count the rows of each table."""
    with store.read() as connection:
        counts = (select(func.count()).select_from(table) for table in tables)
        return [connection.execute(count).scalar_one() for count in counts]
