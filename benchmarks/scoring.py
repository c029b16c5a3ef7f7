"""
Measure the local scorer on labelled records: python benchmarks/scoring.py FOLDER [--quick].

Every record is scored by models that have not seen its document, and again by models that have
not seen any source of its family, beside plain word overlap. FaithBench and the answers of modern
models are never fitted. Probabilities are for traffic of which seven in ten answers are good.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import train_local as training
from labelled import (
    FOLDS,
    GROUNDEDNESS,
    MODERN,
    RELEVANCE,
    Row,
    auroc,
    by_source,
    contexts,
    document,
    family,
    fold,
    read_rows,
)
from rich.console import Console
from rich.table import Table

from monitor.models import Interaction
from monitor.scoring.base import ClaimVerdict, Judgement
from monitor.scoring.local.model import sigmoid
from monitor.scoring.local.requests import settle
from monitor.scoring.local.scorer import PASS_SCORE, LocalJudge, most_left
from monitor.scoring.words import words

WARM_UP, DRAWS, BINS = 50, 300, 10
PUBLISHED = (
    "Published, on other rows of RAGTruth: F1 of finding bad responses 0.63 for GPT-4 with a"
    " prompt, 0.79 for a detector of 13 billion parameters fitted to it (Niu et al., 2024)."
)
Split = Callable[[Row], str]
Array = training.Array


def held_out_groundedness(measured: training.Measured, split: Split) -> dict[str, float]:
    """Score every record by models that have seen nothing of its part of *split*."""
    scores: dict[str, float] = {}
    for held in sorted({split(row) for row in measured.rows}):
        unseen = measured.where(
            lambda row, held=held: split(row) == held and not row.get("foreign")
        )
        seen = measured.where(
            lambda row, held=held: (
                split(row) != held and row["source"] not in training.NOT_FOR_TRAINING
            )
        )
        model = training.fit_groundedness(seen)
        model = replace(model, response=replace(model.response, lines=training.calibrated(seen)))
        parts = (unseen.rows, unseen.readings, unseen.figures, model.odds(unseen))
        for row, reading, figures, odds in zip(*parts, strict=True):
            supports = [sigmoid(each) for each in model.claim_odds(figures, str(reading.kind))]
            scores[row["id"]] = sigmoid(float(odds)) * most_left(reading.claims, supports)
    return scores


def held_out_relevance(rows: Sequence[Row], split: Split) -> list[float]:
    """Score every record by models that have seen nothing of its part of *split*."""
    scores = [0.0] * len(rows)
    for with_passages in (True, False):
        members = [i for i, row in enumerate(rows) if row["contexts"] or not with_passages]
        values = training.relevance_values(rows, with_passages=with_passages)
        for held in sorted({split(row) for row in rows}):
            seen = [i for i in members if split(rows[i]) != held]
            model = training.fit_relevance([rows[i] for i in seen], values[seen])
            odds = model.odds(values, [""] * len(rows))
            for i in members:
                if split(rows[i]) == held and bool(rows[i]["contexts"]) == with_passages:
                    scores[i] = sigmoid(float(odds[i]))
    for i, row in enumerate(rows):  # and by the rules, which nothing is fitted for
        found = settle(row["query"], row["output"], training.read_row(row), scores[i])
        if found is not None:  # what is skipped ranks at the pass line
            scores[i] = PASS_SCORE if found.relevance is None else found.relevance
    return scores


def overlap(text: str, other: Sequence[str]) -> float:
    """Share of the words of *text* that occur in *other*."""
    known = {word.stem for part in other for word in words(part)}
    said = [word.stem in known for word in words(text)]
    return sum(said) / max(len(said), 1)


def table(
    title: str, rows: Sequence[Row], good: Sequence[int], scores: dict[str, Sequence[float]]
) -> Table:
    """Lay out every source: AUROC of each score, and what the last but one of them decides."""
    made = Table(title=title)
    headings = ("source", "n", *scores, "pass if good", "pass if bad", "ECE")
    for heading in headings:
        made.add_column(heading, justify="left" if heading == "source" else "right")
    areas, draws = [], []
    for source, members in by_source(rows).items():
        labels = np.array([good[i] for i in members])
        chosen = [np.array([each[i] for i in members]) for each in scores.values()]
        found = [auroc(labels.tolist(), each.tolist()) for each in chosen]
        again = drawn([rows[i] for i in members], labels, chosen)
        shares = [float((chosen[1][labels == each] >= PASS_SCORE).mean()) for each in (1, 0)]
        error = calibration_error(labels, chosen[1])
        cells = (*_areas(found, again), *(f"{share:.0%}" for share in shares), f"{error:.2f}")
        made.add_row(source, str(len(members)), *cells)
        areas.append(found)
        draws.append(again)
    made.add_section()
    macro = [float(value) for value in np.nanmean(areas, axis=0)]
    made.add_row(f"macro over {len(areas)}", "", *_areas(macro, np.nanmean(draws, axis=0)))
    return made


def _areas(found: Sequence[float], again: Array) -> list[str]:
    low, high = np.nanquantile(again, [0.025, 0.975], axis=0)
    pairs = zip(found[1:], low[1:], high[1:], strict=True)
    return [f"{found[0]:.3f}", *(f"{value:.3f} [{a:.3f}, {b:.3f}]" for value, a, b in pairs)]


def drawn(rows: Sequence[Row], good: Array, scores: Sequence[Array]) -> Array:
    """AUROC of every score on documents drawn again: one row a draw, one column a score."""
    random = np.random.default_rng(7)
    groups: dict[str, list[int]] = {}
    for index, row in enumerate(rows):
        groups.setdefault(document(row), []).append(index)
    members = [np.array(places) for places in groups.values()]
    found = []
    for _ in range(DRAWS):
        places = np.concatenate(
            [members[g] for g in random.integers(0, len(members), len(members))]
        )
        found.append([auroc(good[places].tolist(), each[places].tolist()) for each in scores])
    return np.array(found)


def calibration_error(good: Array, scores: Array) -> float:
    """Expected calibration error, records weighted to the share ``PRIOR`` of good answers."""
    weight = np.where(
        good == 1, training.PRIOR / good.sum(), (1 - training.PRIOR) / (1 - good).sum()
    )
    bins = np.minimum((scores * BINS).astype(int), BINS - 1)
    return float(sum(abs((weight * (good - scores))[bins == each].sum()) for each in range(BINS)))


def groundedness(rows: Sequence[Row]) -> Table:
    """Measure groundedness on the records that may be fitted."""
    measured = training.measure(training.with_foreign(rows))
    # Records without a claim are skipped: they rank at the pass line.
    columns = {"overlap": [overlap(row["output"], contexts(row)) for row in rows]}
    for name, split in (("unseen documents", lambda row: str(fold(row))), ("families", family)):
        scores = held_out_groundedness(measured, split)
        columns[name] = [scores.get(row["id"], PASS_SCORE) for row in rows]
    return table("Groundedness, AUROC", rows, [1 - row["label"] for row in rows], columns)


def relevance(rows: Sequence[Row]) -> Table:
    """Measure relevance."""
    columns: dict[str, Sequence[float]] = {
        "overlap": [overlap(row["query"], [row["output"]]) for row in rows],
        "unseen queries": held_out_relevance(rows, lambda row: str(fold(row))),
        "families": held_out_relevance(rows, family),
    }
    kept = [i for i, row in enumerate(rows) if row["source"] != "template"]
    return table(
        "Relevance, AUROC",
        [rows[i] for i in kept],
        [rows[i]["label"] for i in kept],
        {name: [each[i] for i in kept] for name, each in columns.items()},
    )


def shipped(rows: Sequence[Row], title: str) -> tuple[Table, str]:
    """Judge records as the shipped scorer does; say how it explains itself, and what it costs."""
    judge = LocalJudge()
    found = [judge.judge(interaction(row)) for row in rows]
    scores = [PASS_SCORE if each.groundedness is None else each.groundedness for each in found]
    plain = [overlap(row["output"], contexts(row)) for row in rows]
    good = [1 - row["label"] for row in rows]
    made = table(title, rows, good, {"overlap": plain, "shipped": scores})
    median, high = np.quantile([each.duration_ms for each in found[WARM_UP:]], [0.5, 0.99])
    accused = [row["label"] for row, each in zip(rows, found, strict=True) if _accuses(each)]
    odd = sum(each.groundedness is not None and _disagrees(each) for each in found)
    return made, (
        f"{title}: median {median:.1f} ms, p99 {high:.1f} ms for both metrics; contradicted in"
        f" {len(accused)} answers, {sum(accused)} of them bad; {odd} scores disagree with claims"
    )


def _accuses(judgement: Judgement) -> bool:
    return any(claim.verdict is ClaimVerdict.CONTRADICTED for claim in judgement.claims)


def _disagrees(judgement: Judgement) -> bool:
    verdicts = {claim.verdict for claim in judgement.claims} - {ClaimVerdict.NO_CLAIM}
    return (verdicts == {ClaimVerdict.SUPPORTED}) != ((judgement.groundedness or 0.0) >= PASS_SCORE)


def interaction(row: Row) -> Interaction:
    """Make the interaction of a labelled record."""
    fields = {"id": row["id"], "query": row["query"], "output": row["output"]}
    return Interaction.model_validate(fields | {"contexts": contexts(row)})


def main() -> None:
    """Print the tables and the cost."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n", maxsplit=1)[0])
    parser.add_argument("folder", type=Path, help="folder with the labelled records")
    parser.add_argument("--quick", action="store_true", help="only the shipped scorer")
    arguments = parser.parse_args()
    console, started = Console(width=190), time.perf_counter()
    rows = read_rows(arguments.folder, GROUNDEDNESS)
    for name, title in ((GROUNDEDNESS, "Shipped, in-sample"), (MODERN, "Modern answers")):
        for part in shipped(read_rows(arguments.folder, name), title):
            console.print(part)
    if not arguments.quick:
        console.print(f"{FOLDS} folds of documents; {len(rows)} records")
        console.print(relevance(read_rows(arguments.folder, RELEVANCE)))
        console.print(groundedness(rows))
        console.print(PUBLISHED)
    console.print(f"measured in {time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
