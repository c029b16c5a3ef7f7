"""
Fit the coefficients of the local judge: python benchmarks/train_local.py FOLDER [-o FILE].

Deterministic. FaithBench is left out, for its licence. Every source has the same weight
and an intercept of its own while fitting, so that the model learns what tells grounded
from ungrounded within a source and not which source a text comes from.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from labelled import GROUNDEDNESS, RELEVANCE, Row, contexts, read_rows
from numpy.typing import NDArray
from scipy.optimize import minimize

from monitor.scoring.features.look import Look, look_at
from monitor.scoring.features.passages import Passages
from monitor.scoring.features.relevance import RELEVANCE_FEATURES, relevance_features
from monitor.scoring.features.response import RESPONSE_FEATURES, response_features
from monitor.scoring.features.support import CLAIM_FEATURES
from monitor.scoring.judges.logistic import Logistic

OUTPUT = Path(__file__).parent.parent / "monitor/scoring/judges/local.v1.json"
#: Sources whose licence keeps them out of the shipped coefficients.
NOT_FOR_TRAINING = frozenset({"faithbench"})
#: Share of good answers in the traffic the probabilities are meant for. With it a score of 0.7,
#: the pass line, says that the text speaks as much for the answer as against it.
PRIOR = 0.7
TEMPLATES_JOIN = ("ragtruth_qa", "halueval_qa")
RIDGE = {"claim": 20.0, "response": 20.0, "relevance": 4.0}

Array = NDArray[np.float64]


def fit(
    values: Array, good: Array, groups: Sequence[str], names: Sequence[str], ridge: float
) -> dict[str, Any]:
    """
    Fit a logistic model of *good* with an intercept for every group.

    The model that comes out has one intercept, fitted in the end on even classes.
    """
    mean, spread = values.mean(0), values.std(0)
    spread[spread == 0] = 1
    scaled = (values - mean) / spread
    sources, member = np.unique(groups, return_inverse=True)
    sizes = np.bincount(member)
    weight = len(member) / (len(sources) * sizes[member])

    def loss(parameters: Array) -> tuple[float, Array]:
        slopes, intercepts = parameters[: scaled.shape[1]], parameters[scaled.shape[1] :]
        odds = scaled @ slopes + intercepts[member]
        wrong = 1 / (1 + np.exp(-odds)) - good
        value = weight @ (np.logaddexp(0, odds) - good * odds) + ridge / 2 * slopes @ slopes
        steps = np.bincount(member, weights=weight * wrong) + 0.02 * intercepts
        value += 0.01 * intercepts @ intercepts
        return float(value), np.concatenate([scaled.T @ (weight * wrong) + ridge * slopes, steps])

    start = np.zeros(scaled.shape[1] + len(sources))
    found = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 2000}).x
    slopes = found[: scaled.shape[1]] / spread
    slope, intercept = calibrate(values @ slopes, good, member)
    return {
        "intercept": round(intercept, 5),
        "weights": {n: round(float(w), 5) for n, w in zip(names, slopes * slope, strict=True)},
    }


def calibrate(odds: Array, good: Array, member: NDArray[np.int64]) -> tuple[float, float]:
    """Find the slope and intercept of log odds, with sources and classes weighted evenly."""
    counts: dict[tuple[int, int], int] = {}
    keys = [(int(m), round(float(g))) for m, g in zip(member, good, strict=True)]
    for key in keys:
        counts[key] = counts.get(key, 0) + 1
    weight = np.array([1 / counts[key] for key in keys])

    def loss(parameters: Array) -> float:
        line = parameters[0] * odds + parameters[1]
        return float(weight @ (np.logaddexp(0, line) - good * line))

    slope, intercept = minimize(loss, np.array([1.0, 0.0]), method="BFGS").x
    return float(slope), float(intercept)


def shifted(model: dict[str, Any]) -> dict[str, Any]:
    """Move a model from even classes to the share of good answers in ``PRIOR``."""
    return model | {"intercept": round(model["intercept"] + math.log(PRIOR / (1 - PRIOR)), 5)}


def look(row: Row) -> Look:
    """Look at a record as the judge does."""
    return look_at(row["query"], contexts(row), row["output"])


def fit_groundedness(rows: Sequence[Row], looks: Sequence[Look]) -> dict[str, Any]:
    """Fit the model of a claim, then the model that pools claims."""
    usable = [i for i, seen in enumerate(looks) if seen.checkable]
    known = [(i, j, y) for i in usable for j, y in _claim_labels(rows[i], looks[i])]
    claim = _fit_claims(rows, looks, known)
    for _ in range(2):  # where nobody said which claim is wrong, take the one that looks worst
        claim = _fit_claims(rows, looks, known + _guesses(rows, looks, usable, claim))
    model = Logistic.from_data(claim, CLAIM_FEATURES)
    values = np.array([pooled(looks[i], model) for i in usable])
    good = np.array([1.0 - rows[i]["label"] for i in usable])
    sources = [rows[i]["source"] for i in usable]
    response = fit(values, good, sources, RESPONSE_FEATURES, RIDGE["response"])
    return {"claim": claim, "response": shifted(response)}


def fit_relevance(rows: Sequence[Row], values: Array) -> dict[str, Any]:
    """Fit the model of relevance to the figures of ``relevance_values``."""
    # Refusals and empty phrases have one class only: alone in a group they would teach nothing.
    member = [
        (i, group)
        for i, row in enumerate(rows)
        for group in (TEMPLATES_JOIN if row["source"] == "template" else (row["source"],))
    ]
    chosen = [i for i, _ in member]
    good = np.array([float(rows[i]["label"]) for i in chosen])
    groups = [group for _, group in member]
    return shifted(fit(values[chosen], good, groups, RELEVANCE_FEATURES, RIDGE["relevance"]))


def relevance_values(rows: Sequence[Row], *, with_passages: bool) -> Array:
    """Measure records of the relevance data, with their passages or as if they had none."""
    passages = Passages(())
    looks = ((row, look(row)) for row in rows)
    return np.array(
        [
            relevance_features(
                row["query"],
                row["output"],
                seen.sentences,
                seen.passages if with_passages else passages,
            )
            for row, seen in looks
        ]
    )


def pooled(seen: Look, model: Logistic) -> tuple[float, ...]:
    """Measure a response whose claims are judged by *model*."""
    odds = [model.log_odds(claim.values) for claim in seen.checkable]
    return response_features(seen.checkable, odds)


def _fit_claims(
    rows: Sequence[Row], looks: Sequence[Look], known: Sequence[tuple[int, int, float]]
) -> dict[str, Any]:
    values = np.array([looks[i].checkable[j].values for i, j, _ in known])
    good = np.array([y for _, _, y in known])
    return fit(
        values, good, [rows[i]["source"] for i, _, _ in known], CLAIM_FEATURES, RIDGE["claim"]
    )


def _claim_labels(row: Row, seen: Look) -> list[tuple[int, float]]:
    """List the claims whose label is certain, by position: 1 supported, 0 not."""
    count = len(seen.checkable)
    if row["label"] == 0:
        return [(j, 1.0) for j in range(count)]
    if count == 1:
        return [(0, 0.0)]
    spans = _spans(row)
    if not spans:
        return []
    sentences = [s for s, c in zip(seen.sentences, seen.claims, strict=True) if c is not None]
    places = [row["output"].find(sentence) for sentence in sentences]
    return [
        (j, float(not any(a < place + len(s) and place < b for a, b in spans)))
        for j, (s, place) in enumerate(zip(sentences, places, strict=True))
        if place >= 0
    ]


def _spans(row: Row) -> list[tuple[int, int]]:
    found = []
    for span in row.get("spans") or ():
        if isinstance(span, str):
            start = row["output"].find(span)
            found += [(start, start + len(span))] if start >= 0 else []
        else:
            found.append((int(span[0]), int(span[1])))
    return found


def _guesses(
    rows: Sequence[Row], looks: Sequence[Look], usable: Sequence[int], claim: dict[str, Any]
) -> list[tuple[int, int, float]]:
    model = Logistic.from_data(claim, CLAIM_FEATURES)
    guesses = []
    for i in usable:
        if rows[i]["label"] == 1 and not _claim_labels(rows[i], looks[i]):
            odds = [model.log_odds(c.values) for c in looks[i].checkable]
            guesses.append((i, int(np.argmin(odds)), 0.0))
    return guesses


def train(folder: Path) -> dict[str, Any]:
    """Fit everything on all records that may be used."""
    rows = [r for r in read_rows(folder, GROUNDEDNESS) if r["source"] not in NOT_FOR_TRAINING]
    asked = read_rows(folder, RELEVANCE)
    retrieved = [row for row in asked if row["contexts"]]
    return {
        "made_by": "benchmarks/train_local.py",
        "prior": PRIOR,
        "records": {"groundedness": len(rows), "relevance": len(asked)},
        **fit_groundedness(rows, [look(row) for row in rows]),
        "relevance": fit_relevance(retrieved, relevance_values(retrieved, with_passages=True)),
        "relevance_alone": fit_relevance(asked, relevance_values(asked, with_passages=False)),
    }


def main() -> None:
    """Fit and write the coefficients."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0].strip())
    parser.add_argument("folder", type=Path, help="folder with the labelled records")
    parser.add_argument("-o", "--output", type=Path, default=OUTPUT)
    arguments = parser.parse_args()
    coefficients = train(arguments.folder)
    arguments.output.write_text(json.dumps(coefficients, indent=1) + "\n", encoding="utf-8")
    print(f"wrote {arguments.output}: {coefficients['records']}")


if __name__ == "__main__":
    main()
