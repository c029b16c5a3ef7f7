"""What people see of the demo: a live picture on a terminal, lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Sequence
from email.message import EmailMessage
from importlib.resources import files
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple, Self

from rich.console import Console, Group
from rich.live import Live
from rich.padding import Padding
from rich.panel import Panel
from rich.rule import Rule
from rich.text import Text

from monitor.format import percent, plain_text, sparkline
from monitor.report.model import Report, ReportedChange
from monitor.report.text import STYLES, render_report, status_table, status_text
from monitor.report.words import ledger_sentence

_WIDTH = 110


class DemoCheck(NamedTuple):
    """One thing that must be true at the end."""

    what: str
    holds: bool
    found: str


class Screen:
    """Shows the demo; a context manager around its live part."""

    def __init__(self) -> None:
        self._console = Console(highlight=False)
        if not self._console.is_terminal or self._console.width > _WIDTH:
            self._console = Console(highlight=False, width=_WIDTH)
        self._started_s = time.monotonic()
        self._lines: list[Text] = []
        self._changes: set[tuple[object, ...]] = set()
        self._report: Report | None = None
        self._live = Live(console=self._console, auto_refresh=False, get_renderable=self._picture)

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def begin(self, folder: Path) -> None:
        """Print what the demo shows, and where it runs."""
        self._console.print(
            "[bold]groundwatch demo[/]: a real Redis, Celery worker, store, Slack and mail receiver"
            f" on this machine.\nEverything is in {folder} and on loopback; nothing stays.\n"
        )

    def act(self, text: str) -> None:
        """Print what happens next."""
        self._say(Text(text, style="bold"))

    def changed(self, change: ReportedChange) -> None:
        """Print that a status changed, once."""
        key = (change.at, change.metric, change.after)
        if key in self._changes:
            return
        self._changes.add(key)
        rate = f"  pass rate {percent(change.pass_rate)}, n {change.n}"
        self._say(Text.assemble(f"{change.metric}: ", status_text(change.after), rate))

    def received(self, where: str, text: str) -> None:
        """Print that a message arrived."""
        self._say(Text(f"{where} received: {plain_text(text, 84)}", style="cyan"))

    def show(self, report: Report) -> None:
        """Draw the current report."""
        self._report = report
        if self._live.is_started:
            self._live.refresh()

    def end(self) -> None:
        """Leave the last picture standing."""
        if self._live.is_started:
            self._live.stop()

    def save(self, path: Path) -> None:
        """Save the last picture as an SVG that needs no other file and no font of its own."""
        recorder = Console(
            record=True, width=_WIDTH, file=StringIO(), force_terminal=True,
            color_system="truecolor",
        )  # fmt: skip
        recorder.print(self._picture())
        svg_format = files("monitor.demo").joinpath("picture.svg.txt").read_text(encoding="utf-8")
        recorder.save_svg(str(path), title="groundwatch demo", code_format=svg_format)

    def messages(self, slack: Sequence[dict[str, Any]], mail: Sequence[EmailMessage]) -> None:
        """Print the messages as the receivers got them."""
        for message in slack:
            parts = [
                part["text"]
                for block in message.get("blocks", ())
                for part in (
                    block.get("text"),
                    *block.get("fields", ()),
                    *block.get("elements", ()),
                )
                if isinstance(part, dict) and "text" in part
            ]
            body = Text("\n".join(parts) or str(message.get("text", "")))
            self._console.print(Panel(body, title="Slack received", title_align="left"))
        for letter in mail:
            part = letter.get_body(preferencelist=("plain",))
            content = part.get_content().strip() if part is not None else ""
            body = Text(f"To: {letter['To']}\nSubject: {letter['Subject']}\n\n{content}")
            self._console.print(Panel(body, title="SMTP server received", title_align="left"))

    def report(self, report: Report) -> None:
        """Print the final report."""
        self._console.print(Rule("groundwatch report"))
        self._console.print(render_report(report))

    def verdict(self, checks: Sequence[DemoCheck], seconds: float, kept: Path | None) -> None:
        """Print what had to happen, and whether it did."""
        self._console.print(Rule("what had to happen"))
        for check in checks:
            mark = ("✓ ", "green") if check.holds else ("✗ ", "bold red")
            self._console.print(Text.assemble(mark, f"{check.what}: {check.found}"))
        where = f"; kept in {kept}" if kept else ""
        self._console.print(f"\n{seconds:.0f} s{where}. Next: [bold]groundwatch up[/]")

    def failed(self, what: str, logs: Sequence[Path]) -> None:
        """Print what failed, with the last lines of the logs."""
        self.end()
        self._console.print(f"\n[bold red]The demo failed:[/] {what}")
        for log in logs:
            for line in log.read_text(encoding="utf-8", errors="replace").splitlines()[-8:]:
                self._console.print(Text(f"{log.name}: {line}", style="dim"))

    def _say(self, text: Text) -> None:
        at = (f"{time.monotonic() - self._started_s:5.1f} s  ", "dim")
        self._lines.append(line := Text.assemble(at, text))
        if self._live.is_started:
            self._live.refresh()
        else:
            self._console.print(line)

    def _picture(self) -> Group:
        if self._report is None or not self._report.apps:
            return Group(*self._lines, Text("\nstarting ...", style="dim"))
        app = self._report.apps[0]
        bars = [
            Text.assemble(
                (f"{metric.metric:<13}", STYLES[metric.verdict.status]),
                sparkline([point.pass_rate for point in metric.series]),
            )
            for metric in app.metrics
        ]
        return Group(
            *self._lines,
            Text(""),
            status_table(self._report),
            Padding(Group(*bars), (1, 0)),
            Text(ledger_sentence(app.ledger), style="dim"),
        )
