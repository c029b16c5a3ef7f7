"""
Measure the local judge on labelled records: python benchmarks/scoring.py FOLDER [--quick].

Every record is scored by models that have not seen its document, and again by models
that have not seen any source of its family, beside plain word overlap. FaithBench is
never fitted. Probabilities are for traffic of which seven in ten answers are good.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import train_local as training
from fitting import Array
from labelled import (
    FOLDS,
    GROUNDEDNESS,
    RELEVANCE,
    Row,
    auroc,
    by_source,
    contexts,
    family,
    fold,
    read_rows,
)
from measures import PASS_SCORE, calibration_error, decided, drawn, interval
from rich.console import Console
from rich.table import Table

from monitor.models import Interaction
from monitor.scoring.judges.local import LocalJudge, held_down
from monitor.scoring.judges.logistic import sigmoid
from monitor.scoring.words import words

WARM_UP = 50
FEWEST_WORDS, MOST_WORDS = 3, 8  # answers among which length tells nothing
PUBLISHED = (
    "Published, on other rows of RAGTruth: F1 of finding bad responses 0.63 for GPT-4 with a"
    " prompt, 0.79 for a detector of 13 billion parameters fitted to it (Niu et al., 2024)."
)
Split = Callable[[Row], str]
Prepare = Callable[
    [training.Measured, training.Measured], tuple[training.Measured, training.Measured]
]


def held_out_groundedness(
    measured: training.Measured, split: Split, prepare: Prepare = lambda seen, rest: (seen, rest)
) -> dict[str, float]:
    """
    Score every record by models that have seen nothing of its part of *split*.

    *prepare* may add figures that are learnt from the first part to both.
    """
    scores: dict[str, float] = {}
    for held in sorted({split(row) for row in measured.rows}):
        unseen = measured.where(lambda row, held=held: split(row) == held)
        seen = measured.where(
            lambda row, held=held: (
                split(row) != held and row["source"] not in training.NOT_FOR_TRAINING
            )
        )
        seen, unseen = prepare(seen, unseen)
        model = training.fit_groundedness(seen)
        odds = model.odds(unseen)
        lines = training.calibrated(seen)
        for row, look, figures, value in zip(
            unseen.rows, unseen.looks, unseen.figures, odds, strict=True
        ):
            slope, intercept = lines[look.kind]
            probability = sigmoid(float(slope * value + intercept))
            claims = model.claim_odds(figures, str(look.kind)).tolist()
            scores[row["id"]] = held_down(probability, look.checkable, claims)
    return scores


def held_out_relevance(rows: Sequence[Row], split: Split) -> list[float]:
    """Score every record by models that have seen nothing of its part of *split*."""
    scores = [0.0] * len(rows)
    for with_passages in (True, False):
        members = [i for i, row in enumerate(rows) if row["contexts"] or not with_passages]
        values = training.relevance_values(rows, with_passages=with_passages)
        for held in sorted({split(row) for row in rows}):
            seen = [i for i in members if split(rows[i]) != held]
            data = training.fit_relevance([rows[i] for i in seen], values[seen])
            model = training.relevance_model(data)
            for i in members:
                if split(rows[i]) == held and bool(rows[i]["contexts"]) == with_passages:
                    scores[i] = sigmoid(float(model.log_odds("", values[i])))
    return scores


def overlap(text: str, other: Sequence[str]) -> float:
    """Share of the words of *text* that occur in *other*."""
    known = {word.stem for part in other for word in words(part)}
    said = [word.stem in known for word in words(text)]
    return sum(said) / max(len(said), 1)


def table(
    title: str, rows: Sequence[Row], good: Sequence[int], scores: dict[str, Sequence[float]]
) -> Table:
    """Lay out every source; *scores* holds the baseline, unseen documents, unseen families."""
    made = Table(title=title)
    headings = ("source", "n", "overlap", *list(scores)[1:], "more than overlap", "bal. acc.")
    for heading in (*headings, "F1", "ECE", "pass if good", "pass if bad"):
        made.add_column(heading, justify="left" if heading == "source" else "right")
    areas: list[list[float]] = []
    draws: list[Array] = []
    for source, members in by_source(rows).items():
        labels = [good[i] for i in members]
        chosen = [[each[i] for i in members] for each in scores.values()]
        found = [auroc(labels, each) for each in chosen]
        again = drawn([rows[i] for i in members], labels, chosen)
        made.add_row(source, str(len(members)), *_areas(found, again), *_decisions(labels, chosen))
        if not np.isnan(found).any() and " " not in source:
            areas.append(found)
            draws.append(again)
    made.add_section()
    macro = [float(value) for value in np.mean(areas, axis=0)]
    made.add_row(f"macro over {len(areas)}", "", *_areas(macro, np.nanmean(draws, axis=0)))
    return made


def _areas(found: Sequence[float], again: Array) -> list[str]:
    if np.isnan(found).any():
        return ["one class", *[""] * len(found)]
    more = interval(again[:, 1] - again[:, 0])
    cells = [f"{found[0]:.3f}"]
    for column, value in enumerate(found[1:], start=1):
        low, high = interval(again[:, column])
        cells.append(f"{value:.3f} [{low:.3f}, {high:.3f}]")
    return [*cells, f"{found[1] - found[0]:+.3f} [{more[0]:+.3f}, {more[1]:+.3f}]"]


def _decisions(labels: Sequence[int], chosen: Sequence[Sequence[float]]) -> list[str]:
    made = decided(labels, chosen[1])
    error = calibration_error(labels, chosen[1])
    shares = (made.passing_good, made.passing_bad)
    figures = (made.balanced_accuracy, made.f1, error)
    return [
        *("–" if np.isnan(value) else f"{value:.2f}" for value in figures),
        *("–" if np.isnan(share) else f"{share:.0%}" for share in shares),
    ]


def with_short_answers(rows: Sequence[Row]) -> list[Row]:
    """Repeat the answers of HaluEval of a few words as a source of their own."""
    short = [
        row | {"source": f"halueval_qa {FEWEST_WORDS}-{MOST_WORDS} words"}
        for row in rows
        if row["source"] == "halueval_qa"
        and FEWEST_WORDS <= len(row["output"].split()) <= MOST_WORDS
    ]
    return [*rows, *short]


def groundedness(rows: Sequence[Row], embedding: tuple[str, Path] | None) -> Table:
    """Measure groundedness, with the embedding model and its cache if they are given."""
    measured = training.measure(rows)
    prepare: list[Prepare] = []
    if embedding is not None:
        from embedding_heads import Heads  # noqa: PLC0415 - needs the extra

        prepare = [Heads(measured, *embedding)]
    documents = held_out_groundedness(measured, lambda row: str(fold(row)), *prepare)
    families = held_out_groundedness(measured, family, *prepare)
    shown = with_short_answers(rows)
    return table(
        "Groundedness, AUROC",
        shown,
        [1 - row["label"] for row in shown],
        {
            "overlap": [overlap(row["output"], contexts(row)) for row in shown],
            # Records without a claim are skipped: they rank at the pass line.
            "unseen documents": [documents.get(row["id"], PASS_SCORE) for row in shown],
            "unseen families": [families.get(row["id"], PASS_SCORE) for row in shown],
        },
    )


def relevance(rows: Sequence[Row]) -> Table:
    """Measure relevance."""
    return table(
        "Relevance, AUROC",
        rows,
        [row["label"] for row in rows],
        {
            "overlap": [overlap(row["query"], [row["output"]]) for row in rows],
            "unseen queries": held_out_relevance(rows, lambda row: str(fold(row))),
            "unseen families": held_out_relevance(rows, family),
        },
    )


def cost(rows: Sequence[Row]) -> str:
    """Time whole judgements, one after the other."""
    judge = LocalJudge()
    taken = [judge.judge(interaction(row)).duration_ms for row in rows][WARM_UP:]
    median, high = np.quantile(taken, [0.5, 0.99])
    return f"local judge, both metrics: median {median:.1f} ms, p99 {high:.1f} ms a sample"


def interaction(row: Row) -> Interaction:
    """Make the interaction of a labelled record."""
    fields: dict[str, Any] = {"id": row["id"], "query": row["query"], "output": row["output"]}
    return Interaction.model_validate(fields | {"contexts": contexts(row)})


def main() -> None:
    """Print both tables and the cost."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n", maxsplit=1)[0])
    parser.add_argument("folder", type=Path, help="folder with the labelled records")
    parser.add_argument("--quick", action="store_true", help="only the cost and relevance")
    parser.add_argument("--embedding", help="sentence-embedding model to be used besides")
    parser.add_argument("--cache", type=Path, help="folder that keeps its vectors")
    arguments = parser.parse_args()
    console, started = Console(width=190), time.perf_counter()
    rows = read_rows(arguments.folder, GROUNDEDNESS)
    asked = read_rows(arguments.folder, RELEVANCE)
    console.print(f"{FOLDS} folds of documents; {len(rows)} and {len(asked)} records")
    console.print(cost(rows))
    console.print(relevance(asked))
    if not arguments.quick:
        model = arguments.embedding
        console.print(groundedness(rows, (model, arguments.cache) if model else None))
        console.print(PUBLISHED)
    console.print(f"measured in {time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
