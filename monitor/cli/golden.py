"""Where test sets come from: ``golden`` takes production samples, ``synthesize`` documents."""
# ruff: noqa: PLC0415 - the help of a command loads nothing that only its work needs

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import typer

from monitor.cli import console
from monitor.cli.console import err, out
from monitor.errors import RecordError, SettingsError
from monitor.report.format import count, percent, plain_text, score

_SHOWN = 5
#: Why a question was dropped, in words.
_WORDS = {
    "unreadable": "not as asked",
    "not_grounded": "quotes that are not in its passages",
    "duplicate": "same as another question",
    "round_trip": "does not lead back to its passage",
    "not_answerable": "not answerable from its passage",
    "answerable": "answerable though it should not be",
}

app = console.group("Golden sets: test cases from production samples and their labels.")
Of = Annotated[
    str, typer.Option("--app", help="Name of the app.", autocompletion=console.complete_app)
]
Metric = Annotated[str, typer.Option(help="The metric.")]
_GOLDEN = Path("golden.jsonl")


@app.command()
def add(
    sample_ids: Annotated[list[str], typer.Argument(help="Sample ids.")],
    to: Annotated[Path, typer.Option(help="Test set; created if it does not exist.")] = _GOLDEN,
    answer: Annotated[str | None, typer.Option(help="The answer that was expected.")] = None,
    tag: Annotated[list[str] | None, typer.Option(help="A tag; repeatable.")] = None,
    critical: Annotated[
        bool, typer.Option("--critical", help="A gate tolerates no failure of these cases.")
    ] = False,
) -> None:
    """
    Add production samples to a test set: `eval` asks the app their questions again.

    The app's answer stays in the metadata; it is expected again only where people passed it.
    """
    from monitor.store.labels import labels_of
    from monitor.store.samples import read_sample
    from monitor.testsets.cases import TestSet
    from monitor.testsets.golden import golden_case

    if answer is not None and len(sample_ids) > 1:
        raise typer.BadParameter("--answer is for one sample")
    cases = TestSet.read(to) if to.exists() else TestSet(to.stem)
    there, before = {case.id for case in cases}, len(cases)
    with console.reading() as connection:
        for sample_id in dict.fromkeys(sample_ids):
            if sample_id in there:
                err.print(f"{plain_text(sample_id, 64)} is in {to} already", markup=False)
                continue
            stored = read_sample(connection, sample_id)
            if stored is None:
                raise RecordError(f"there is no sample {plain_text(sample_id, 64)}, or no longer")
            said = labels_of(connection, sample_id)
            cases.add_test(
                golden_case(stored, said, answer=answer, tags=tag or (), critical=critical)
            )
    if len(cases) > before:
        cases.write(to)
    added, whole = count(len(cases) - before, "case"), count(len(cases), "case")
    console.say(f"{added} added to {to}, which has {whole}")


@app.command()
def export(
    of: Of,
    metric: Metric = "groundedness",
    annotators: Annotated[int, typer.Option(min=1, help="Annotators that a sample needs.")] = 1,
    output: Annotated[Path, typer.Option("--output", "-o", help="Test set.")] = _GOLDEN,
) -> None:
    """Write the samples that people labelled as a test set, by majority; ties are left out."""
    from monitor.testsets.cases import TestSet
    from monitor.testsets.golden import golden_set

    with console.reading() as connection:
        found = golden_set(connection, app=of, metric=metric, annotators=annotators)
    if not found.cases:
        raise RecordError(
            f"no sample of {plain_text(of, 60)} has a majority of {count(annotators, 'annotator')}"
            f" on {plain_text(metric, 60)}; label some with: groundwatch label --app NAME"
        )
    TestSet(output.stem, found.cases).write(output)
    console.say(f"{count(len(found.cases), 'case')} written to {output}")
    if found.single:
        console.say(f"{count(found.single, 'sample')} with fewer than {annotators} annotators")
    if found.gone:
        console.say(f"{count(found.gone, 'sample')} without texts, or no longer stored")
    if found.disputed:
        shown = ", ".join(plain_text(one, 64) for one in found.disputed[:_SHOWN])
        disputed = count(len(found.disputed), "sample")
        console.say(f"{disputed} disputed, which `groundwatch label` offers first: {shown}")
    if found.alpha is not None:
        console.say(f"Krippendorff's alpha between annotators {score(found.alpha)}")


@app.command()
def records(of: Of, metric: Metric = "groundedness", output: console.Output = None) -> None:
    """Write a human-versus-AI record for each label, as JSONL."""
    from monitor.testsets.golden import human_ai_records

    with console.reading() as connection:
        found = human_ai_records(connection, app=of, metric=metric)
        console.write_or_print("".join(f"{each.model_dump_json()}\n" for each in found), output)


def synthesize(  # the options of a command
    documents: Annotated[
        list[Path], typer.Argument(help="Files, or folders with .txt, .md and .rst.", exists=True)
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Test set to write.")] = Path(
        "synthetic.jsonl"
    ),
    n: Annotated[
        int, typer.Option("--cases", "-n", min=1, max=10_000, help="How many cases.")
    ] = 50,
    share: Annotated[
        list[str] | None,
        typer.Option(help="Share of a kind: unanswerable=20%; repeatable. Others share the rest."),
    ] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same questions.")] = 0,
) -> None:
    """
    Write test cases from documents: the judge asks, and filters keep the good questions.

    Kinds: single_hop, multi_hop, reasoning, conditional, summary, unanswerable. Personal data is
    masked before anything is sent; the judge's budget and limits apply.
    """
    from monitor.scoring.registry import budget_client, make_chat
    from monitor.settings.kinds import is_loopback
    from monitor.testsets.cases import TestSet
    from monitor.testsets.synthesis import Synthesizer, chunks_of, read_documents

    settings = console.read_settings()
    shares = _shares(share or [])
    host = urlsplit(settings.openai_base_url or "").hostname or ""
    if settings.openai_api_key is None and not is_loopback(host):
        raise SettingsError(
            "OPENAI_API_KEY is not set: a judge writes the questions; set it, or OPENAI_BASE_URL to"
            " an endpoint on this machine"
        )
    chunks = chunks_of(read_documents(documents))
    chat = make_chat(settings, budget_client(settings))
    words = f"{count(len(chunks), 'passage')}, {count(n, 'case')}, {settings.judge_model}"
    err.print(plain_text(words, 200), markup=False)
    with closing(chat):
        maker = Synthesizer(
            chat, seed=seed, concurrency=settings.judge_limits.judge_concurrency,
            tell=lambda done: err.print(f"{done} of {n}"),
        )  # fmt: skip
        made = maker.run(chunks, n, shares)
    if made.cases:
        TestSet(output.stem, made.cases).write(output)
    console.say(count(len(made.cases), "case") + (f" written to {output}" if made.cases else ""))
    for kind, wanted in sorted(made.wanted.items()):
        have = wanted - made.missing.get(kind, 0)
        out.print(f"  {kind}: {have} of {wanted} ({percent(have / n)} of all)")
    for filter_, taken in made.taken.most_common():
        out.print(f"dropped: {taken}, {_WORDS[filter_]}")
    if made.masked:
        out.print(f"personal data was masked in {count(made.masked, 'text')}")
    if made.stopped:
        console.say(f"stopped early: {plain_text(made.stopped, 300)}")
    if len(made.cases) < n:
        raise typer.Exit(1)


def _shares(given: list[str]) -> dict[str, float]:
    """Return the share of each kind: as given; the other kinds share the rest as usual."""
    from monitor.testsets.synthesis import KINDS, USUAL_SHARES

    asked: dict[str, float] = {}
    for each in given:
        kind, sign, share = each.partition("=")
        if not sign or kind.strip() not in KINDS:
            raise typer.BadParameter(
                f"Invalid share {each!r}: expected KIND=20%, of the kinds {', '.join(KINDS)}"
            )
        asked[kind.strip()] = console.parse_share(share)
    left = 1 - sum(asked.values())
    if left < -1e-9:  # noqa: PLR2004  # rounding
        raise typer.BadParameter("the shares are more than 100 % together")
    usual = {kind: share for kind, share in USUAL_SHARES.items() if kind not in asked}
    scale = max(0.0, left) / sum(usual.values()) if usual else 0.0
    shares = {kind: share * scale for kind, share in usual.items()} | asked
    return {kind: share for kind, share in shares.items() if share > 0}
