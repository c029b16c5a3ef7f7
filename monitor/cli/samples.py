"""``groundwatch samples``: find samples by anything that is known of them; read, follow, export."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from monitor.cli.console import PRIVATE_FILE, check_app, err, open_store, out
from monitor.report.format import plain_text, score, utc_time
from monitor.settings import Settings
from monitor.store.engine import Store
from monitor.store.search import FoundSample, SampleFilter, SamplePage, Sort, find_samples
from monitor.web.samples import write_csv, write_jsonl
from monitor.web.schema import SamplesPage

_AT_ONCE = 500
_FOLLOW_EVERY_S = 2.0
_WRITERS = {".jsonl": write_jsonl, ".csv": write_csv}


def samples(  # noqa: PLR0913, PLR0917  # one option a filter
    app: Annotated[str, typer.Option(help="Only this app.")] = "",
    metric: Annotated[str, typer.Option(help="Only with this metric.")] = "",
    failed: Annotated[bool, typer.Option("--failed", help="That did not pass.")] = False,
    passed: Annotated[bool, typer.Option("--passed", help="That passed.")] = False,
    unscored: Annotated[bool, typer.Option("--unscored", help="Without a score.")] = False,
    reason: Annotated[str, typer.Option(help="Why there is no score: no_contexts.")] = "",
    min_score: Annotated[str, typer.Option(help="Least score; needs --metric.")] = "",
    max_score: Annotated[str, typer.Option(help="Highest score; needs --metric.")] = "",
    label: Annotated[str, typer.Option(help="What people said: pass, fail, any, none.")] = "",
    segment: Annotated[list[str] | None, typer.Option(help="dimension=value; repeat.")] = None,
    tag: Annotated[list[str] | None, typer.Option(help="name=value; repeat for more.")] = None,
    release: Annotated[str, typer.Option(help="Only of this release.")] = "",
    user: Annotated[str, typer.Option(help="Only of this user_id.")] = "",
    session: Annotated[str, typer.Option(help="Only of this session_id.")] = "",
    trace: Annotated[str, typer.Option(help="Only of this trace_id.")] = "",
    since: Annotated[str, typer.Option(help="2026-11-21T14:05 (UTC), or 24h ago.")] = "",
    until: Annotated[str, typer.Option(help="Before this time.")] = "",
    text: Annotated[str, typer.Option(help='Words of question or answer; "a phrase".')] = "",
    sort: Annotated[Sort, typer.Option(help="By time, or by the metric's score.")] = Sort.NEWEST,
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="Most samples.")] = 20,
    cursor: Annotated[str, typer.Option(help="Continue where a page with --json ended.")] = "",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write to FILE.jsonl or FILE.csv.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Machine-readable.")] = False,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Stay, and show new ones.")
    ] = False,
) -> None:
    """
    List samples: question, answer and scores, the newest first.

    Texts are as they were stored, masked by the app.
    """
    outcomes = {"failed": failed, "passed": passed, "unscored": unscored}
    asked = [name for name, wanted in outcomes.items() if wanted]
    if len(asked) > 1:
        raise typer.BadParameter(f"--{asked[0]} and --{asked[1]} exclude each other")
    if output is not None and output.suffix not in _WRITERS:
        raise typer.BadParameter(f"'{output}': expected a file that ends with .jsonl or .csv")
    given = {
        "app": app, "metric": metric, "outcome": "".join(asked), "reason": reason,
        "min_score": min_score, "max_score": max_score, "label": label, "release": release,
        "user": user, "session": session, "trace": trace, "since": since, "until": until,
        "text": text,
    }  # fmt: skip
    values = {name: [value] for name, value in given.items()}
    values |= {"segment": segment or [], "tag": tag or []}
    settings = Settings.from_env()
    with closing(open_store(settings)) as store:
        check_app(store, settings, app or None)
        try:
            wanted = SampleFilter.parse(values, datetime.now(UTC))
            pages = _pages(store, wanted, sort, cursor, limit)
            first = next(pages)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None
        if json:
            read = [first, *pages]
            items = [item for page in read for item in page.items]
            typer.echo(SamplesPage(items=items, next=read[-1].next).model_dump_json(indent=2))
        elif output is not None:
            output.touch(mode=PRIVATE_FILE)
            items_of = (item for page in (first, *pages) for item in page.items)
            with output.open("w", newline="", encoding="utf-8") as file:
                file.writelines(_WRITERS[output.suffix](items_of))
            err.print(Text(f"written to {output}"), soft_wrap=True)
        else:
            for page in (first, *pages):
                for item in reversed(page.items) if follow else page.items:
                    _show(item)
            if not first.items and not follow:
                out.print("no samples match" if wanted != SampleFilter() else "no samples yet")
        if follow:
            with suppress(KeyboardInterrupt):
                _follow(store, wanted, {item.sample_id for item in first.items})


def _pages(
    store: Store, wanted: SampleFilter, sort: Sort, cursor: str, limit: int
) -> Iterator[SamplePage]:
    left, after = limit, cursor
    while True:
        with store.read() as connection:
            page = find_samples(
                connection, wanted, sort=sort, cursor=after, limit=min(left, _AT_ONCE)
            )
        yield page
        left -= len(page.items)
        if page.next is None or left <= 0:
            return
        after = page.next


def _show(item: FoundSample) -> None:
    """Print one sample: when and how it ended, what was asked and answered."""
    line = Text(f"{utc_time(item.occurred_at)}  {plain_text(item.app, 40)}", style="bold")
    for evaluation in item.evaluations:
        name = f"  {plain_text(evaluation.metric, 40)}"
        if evaluation.passed is None:
            line.append(f"{name} not scored: {evaluation.reason or evaluation.status}", "dim")
        else:
            word, style = ("pass", "green") if evaluation.passed else ("FAIL", "red")
            line.append(f"{name} {word} {score(evaluation.score)}", style)
    if not item.evaluations:
        line.append(f"  {item.outcome} {item.reason}", "dim")
    out.print(line, soft_wrap=True)
    known = [("Q", item.query or ""), ("A", item.output), ("id", item.sample_id)]
    more = [f"{name}={value}" for name, value in item.tags.items()]
    more += [f"release={item.release}"] * bool(item.release)
    more += [f"user={item.user_id}"] * bool(item.user_id)
    known += [("", "  ".join(more))] if more else []
    for name, value in known:
        out.print(Text(f"  {name:2} {plain_text(value, 300)}"), soft_wrap=True)


def _follow(store: Store, wanted: SampleFilter, seen: set[str]) -> None:
    while True:
        time.sleep(_FOLLOW_EVERY_S)
        with store.read() as connection:
            page = find_samples(connection, wanted, limit=_AT_ONCE)
        for item in reversed(page.items):
            if item.sample_id not in seen:
                _show(item)
        seen = {item.sample_id for item in page.items}
