"""``groundwatch synthesize``: a test set written by the judge from the user's documents."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import typer
from rich.text import Text

from monitor.cli.console import err, out, parse_share
from monitor.errors import SettingsError
from monitor.queue.consumer import connect
from monitor.report.format import count, percent, plain_text
from monitor.scoring.limits.budget import caps_from
from monitor.scoring.registry import make_chat
from monitor.settings import Settings
from monitor.settings.addresses import is_loopback
from monitor.testsets.cases import TestSet
from monitor.testsets.synthesis import (
    KINDS,
    USUAL_SHARES,
    Synthesis,
    Synthesizer,
    chunks_of,
    read_documents,
)

#: What took a question away, in words.
_WORDS = {
    "unreadable": "not as asked",
    "not_grounded": "quotes nothing that stands in its passages",
    "duplicate": "asks what another one asks",
    "round_trip": "does not lead back to its passage",
    "not_answerable": "cannot be answered from its passage",
    "answerable": "can be answered though it should not",
}


def synthesize(  # the options of a command
    documents: Annotated[
        list[Path], typer.Argument(help="Files, or folders with .txt, .md and .rst.", exists=True)
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Test set to write.")] = Path(
        "synthetic.jsonl"
    ),
    n: Annotated[int, typer.Option("--cases", "-n", min=1, max=10_000, help="How many.")] = 50,
    share: Annotated[
        list[str] | None,
        typer.Option(help="Share of a kind: unanswerable=20%; repeatable. Others share the rest."),
    ] = None,
    seed: Annotated[int, typer.Option(help="The same seed asks the same.")] = 0,
) -> None:
    """
    Write test cases from documents: the judge asks, and filters keep what is good.

    Kinds: single_hop, multi_hop, reasoning, conditional, summary, unanswerable. Personal data is
    masked before anything is sent; the judge's budget and limits hold.
    """
    settings = Settings.from_env()
    shares = _shares(share or ())
    host = urlsplit(settings.openai_base_url or "").hostname or ""
    if settings.openai_api_key is None and not is_loopback(host):
        raise SettingsError(
            "OPENAI_API_KEY is not set: a judge writes the questions; set it, or OPENAI_BASE_URL to"
            " an endpoint on this machine"
        )
    chunks = chunks_of(read_documents(documents))
    client = connect(settings.broker_url) if caps_from(settings) else None
    chat = make_chat(settings, client)
    words = f"{count(len(chunks), 'passage')}, {count(n, 'case')}, {settings.judge_model}"
    err.print(Text(plain_text(words, 200)))
    with closing(chat):
        maker = Synthesizer(
            chat,
            seed=seed,
            concurrency=settings.judge_limits.judge_concurrency,
            tell=lambda done: err.print(f"{done} of {n}"),
        )
        made = maker.run(chunks, n, shares)
    if made.cases:
        TestSet(output.stem, made.cases).write(output)
    _tell(made, output, n)
    if len(made.cases) < n:
        raise typer.Exit(1)


def _shares(given: list[str] | tuple[()]) -> dict[str, float]:
    """Read the shares that were asked for; the other kinds share the rest as usual."""
    asked: dict[str, float] = {}
    for each in given:
        kind, sign, share = each.partition("=")
        if not sign or kind.strip() not in KINDS:
            raise typer.BadParameter(
                f"Invalid share {each!r}: expected KIND=20%, of the kinds {', '.join(KINDS)}"
            )
        asked[kind.strip()] = parse_share(share)
    left = 1 - sum(asked.values())
    if left < -1e-9:  # noqa: PLR2004  # rounding
        raise typer.BadParameter("the shares are more than 100 % together")
    rest = sum(share for kind, share in USUAL_SHARES.items() if kind not in asked)
    scale = max(0.0, left) / rest if rest else 0.0
    usual = {kind: share * scale for kind, share in USUAL_SHARES.items() if kind not in asked}
    return {kind: share for kind, share in (usual | asked).items() if share > 0}


def _tell(made: Synthesis, output: Path, n: int) -> None:
    written = f" written to {output}" if made.cases else ""
    out.print(Text(f"{count(len(made.cases), 'case')}{written}"), soft_wrap=True)
    for kind, wanted in sorted(made.wanted.items()):
        have = wanted - made.missing.get(kind, 0)
        out.print(f"  {kind}: {have} of {wanted} ({percent(have / n)} of all)")
    for filter_, taken in made.taken.most_common():
        out.print(f"taken out: {taken}, {_WORDS[filter_]}")
    if made.masked:
        out.print(f"personal data was masked in {count(made.masked, 'text')}")
    if made.stopped:
        out.print(Text(f"stopped early: {plain_text(made.stopped, 300)}"), soft_wrap=True)
