"""``groundwatch golden``: make test cases of production samples, one by one or from labels."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from monitor.cli.console import err, open_store, out
from monitor.errors import RecordError
from monitor.report.format import count, plain_text, score
from monitor.settings import Settings
from monitor.store.labels import USUAL_METRIC, labels_of
from monitor.store.samples import read_sample
from monitor.testsets.cases import TestSet, write_whole
from monitor.testsets.golden import golden_case, golden_set, human_ai_records

_SHOWN = 5

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="Golden sets: test cases from production samples, and what people say of them.",
)
Metric = Annotated[str, typer.Option(help="Of which metric.")]


@app.command()
def add(
    sample_ids: Annotated[list[str], typer.Argument(help="Samples, by id.")],
    to: Annotated[Path, typer.Option(help="Test set; made if it is not there.")] = Path(
        "golden.jsonl"
    ),
    answer: Annotated[str | None, typer.Option(help="What should have been answered.")] = None,
    tag: Annotated[list[str] | None, typer.Option(help="A tag; repeatable.")] = None,
    critical: Annotated[
        bool, typer.Option("--critical", help="A gate tolerates no failure of it.")
    ] = False,
) -> None:
    """
    Add production samples to a test set: `eval` asks the app their questions again.

    The given answer is kept in the metadata; it is expected only where people passed it.
    """
    if answer is not None and len(sample_ids) > 1:
        raise typer.BadParameter("--answer is for one sample")
    known = TestSet.read(to) if to.exists() else TestSet(to.stem)
    there = {case.id for case in known}
    added = 0
    with closing(open_store(Settings.from_env())) as store, store.read() as connection:
        for sample_id in dict.fromkeys(sample_ids):
            if sample_id in there:
                err.print(Text(f"{plain_text(sample_id, 64)} is in {to} already"))
                continue
            stored = read_sample(connection, sample_id)
            if stored is None:
                raise RecordError(f"there is no sample {plain_text(sample_id, 64)}, or no longer")
            said = labels_of(connection, sample_id)
            known.add_test(
                golden_case(stored, said, answer=answer, tags=tag or (), critical=critical)
            )
            added += 1
    if added:
        known.write(to)
    out.print(Text(f"{count(added, 'case')} added to {to}, which has {count(len(known), 'case')}"))


@app.command()
def export(
    of: Annotated[str, typer.Option("--app", help="Name of the app.")],
    metric: Metric = USUAL_METRIC,
    annotators: Annotated[int, typer.Option(min=1, help="Least people who labelled it.")] = 1,
    output: Annotated[Path, typer.Option("--output", "-o", help="Test set.")] = Path(
        "golden.jsonl"
    ),
) -> None:
    """Write the samples that people labelled as a test set, by majority; ties are left out."""
    with closing(open_store(Settings.from_env())) as store, store.read() as connection:
        found = golden_set(connection, app=of, metric=metric, annotators=annotators)
    if not found.cases:
        raise RecordError(
            f"no sample of {plain_text(of, 60)} has a majority of {count(annotators, 'annotator')}"
            f" on {plain_text(metric, 60)}; label some with: groundwatch label --app NAME"
        )
    TestSet(output.stem, found.cases).write(output)
    out.print(Text(f"{count(len(found.cases), 'case')} written to {output}"))
    if found.single:
        out.print(f"{count(found.single, 'sample')} with fewer than {annotators} annotators")
    if found.gone:
        out.print(f"{count(found.gone, 'sample')} without texts, or no longer stored")
    if found.disputed:
        shown = ", ".join(plain_text(one, 64) for one in found.disputed[:_SHOWN])
        out.print(Text(
            f"{count(len(found.disputed), 'sample')} disputed, which `groundwatch label` offers"
            f" first: {shown}"
        ), soft_wrap=True)  # fmt: skip
    if found.alpha is not None:
        out.print(f"Krippendorff's alpha between annotators {score(found.alpha)}")


@app.command()
def records(
    of: Annotated[str, typer.Option("--app", help="Name of the app.")],
    metric: Metric = USUAL_METRIC,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write; else the terminal.")
    ] = None,
) -> None:
    """Write a human-versus-AI record for each label, as JSONL."""
    with closing(open_store(Settings.from_env())) as store, store.read() as connection:
        text = "".join(
            found.model_dump_json() + "\n"
            for found in human_ai_records(connection, app=of, metric=metric)
        )
    if output is None:
        typer.echo(text, nl=False)
    else:
        write_whole(output, text)
