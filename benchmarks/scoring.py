"""
Measure the local judge on labelled records: python benchmarks/scoring.py FOLDER.

Every record is scored by a model fitted without its document (cross-validation over
documents), beside plain word overlap. FaithBench is never fitted.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import train_local as training
from labelled import (
    FOLDS,
    GROUNDEDNESS,
    RELEVANCE,
    Row,
    auroc,
    auroc_interval,
    by_source,
    contexts,
    fold,
    read_rows,
)
from rich.console import Console
from rich.table import Table

from monitor.models import Interaction
from monitor.scoring.features.look import Look
from monitor.scoring.features.relevance import RELEVANCE_FEATURES
from monitor.scoring.features.response import RESPONSE_FEATURES
from monitor.scoring.features.support import CLAIM_FEATURES
from monitor.scoring.judges.local import LocalJudge
from monitor.scoring.judges.logistic import Logistic, sigmoid
from monitor.scoring.words import words

PASS_SCORE = 0.7
WARM_UP = 50


def held_out_groundedness(rows: Sequence[Row], looks: Sequence[Look]) -> list[float]:
    """Score every record by a model that has not seen its document."""
    scores = [PASS_SCORE] * len(rows)  # records without a claim are skipped: they rank nowhere
    for held in range(FOLDS):
        seen = [
            i
            for i, row in enumerate(rows)
            if fold(row) != held and row["source"] not in training.NOT_FOR_TRAINING
        ]
        model = training.fit_groundedness([rows[i] for i in seen], [looks[i] for i in seen])
        claim = Logistic.from_data(model["claim"], CLAIM_FEATURES)
        response = Logistic.from_data(model["response"], RESPONSE_FEATURES)
        for i, row in enumerate(rows):
            if fold(row) == held and looks[i].checkable:
                scores[i] = sigmoid(response.log_odds(training.pooled(looks[i], claim)))
    return scores


def held_out_relevance(rows: Sequence[Row]) -> list[float]:
    """Score every record by models that have not seen its query."""
    scores = [0.0] * len(rows)
    for with_passages in (True, False):
        members = [i for i, row in enumerate(rows) if row["contexts"] or not with_passages]
        values = training.relevance_values(rows, with_passages=with_passages)
        for held in range(FOLDS):
            seen = [i for i in members if fold(rows[i]) != held]
            data = training.fit_relevance([rows[i] for i in seen], values[seen])
            model = Logistic.from_data(data, RELEVANCE_FEATURES)
            for i in members:
                if fold(rows[i]) == held and bool(rows[i]["contexts"]) == with_passages:
                    scores[i] = sigmoid(model.log_odds(values[i]))
    return scores


def overlap(text: str, other: Sequence[str]) -> float:
    """Share of the words of *text* that occur in *other*."""
    known = {word.stem for part in other for word in words(part)}
    said = [word.stem in known for word in words(text)]
    return sum(said) / max(len(said), 1)


def table(
    title: str, rows: Sequence[Row], good: Sequence[int], scores: dict[str, Sequence[float]]
) -> Table:
    """Lay out AUROC by source; *scores* holds the baseline first and ours last."""
    made = Table(title=title)
    for heading in ("source", "n", *scores, "95 %", "pass if good", "pass if bad"):
        made.add_column(heading, justify="left" if heading == "source" else "right")
    ours = list(scores.values())[-1]
    areas: list[list[float]] = []
    for source, members in by_source(rows).items():
        labels = [good[i] for i in members]
        found = [auroc(labels, [each[i] for i in members]) for each in scores.values()]
        cells = [source, str(len(members)), *(_number(value) for value in found)]
        if not np.isnan(found).any():
            areas.append(found)
            chosen = [rows[i] for i in members]
            low, high = auroc_interval(chosen, labels, [ours[i] for i in members])
            cells.append(f"{low:.3f} to {high:.3f}")
        else:
            cells.append("one class")
        cells += [_passing(ours, members, good, wanted) for wanted in (1, 0)]
        made.add_row(*cells)
    macro = np.mean(areas, axis=0)
    made.add_section()
    made.add_row(f"macro over {len(areas)}", "", *(_number(value) for value in macro), "", "", "")
    return made


def _number(value: float) -> str:
    return "–" if np.isnan(value) else f"{value:.3f}"


def _passing(
    scores: Sequence[float], members: Sequence[int], good: Sequence[int], wanted: int
) -> str:
    passes = [scores[i] >= PASS_SCORE for i in members if good[i] == wanted]
    return f"{np.mean(passes):.0%}" if passes else ""


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
    folder = parser.parse_args().folder
    console, started = Console(), time.perf_counter()
    rows = read_rows(folder, GROUNDEDNESS)
    looks = [training.look(row) for row in rows]
    console.print(
        table(
            "Groundedness, AUROC on documents held out",
            rows,
            [1 - row["label"] for row in rows],
            {
                "word overlap": [overlap(row["output"], contexts(row)) for row in rows],
                "local judge": held_out_groundedness(rows, looks),
            },
        )
    )
    asked = read_rows(folder, RELEVANCE)
    console.print(
        table(
            "Relevance, AUROC on queries held out",
            asked,
            [row["label"] for row in asked],
            {
                "word overlap": [overlap(row["query"], [row["output"]]) for row in asked],
                "local judge": held_out_relevance(asked),
            },
        )
    )
    skipped = sum(not look.checkable for look in looks)
    console.print(f"without a claim, skipped in production: {skipped} of {len(rows)} records")
    console.print(cost(rows))
    console.print(f"measured in {time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
