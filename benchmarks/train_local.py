"""
Fit the coefficients of the local scorer: python benchmarks/train_local.py FOLDER [-o FILE].

Logistic models of good answers over several sources and kinds of exchanges. Every source has
the same weight and an intercept of its own while fitting, so that a model learns what tells
grounded from ungrounded within a source and not which source a text comes from. Every kind has
weights of its own, drawn towards the common ones (Daumé III, "Frustratingly Easy Domain
Adaptation", 2007). Answers paired with the contexts of another document of their source join as
bad ones: nothing found must mean a score near 0. Deterministic. FaithBench is left out, for its
licence.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from labelled import GROUNDEDNESS, RELEVANCE, Row, contexts, document, fold, read_rows
from numpy.typing import NDArray
from scipy.optimize import minimize

from monitor.scoring.local.model import (
    CLAIM_FEATURES,
    COEFFICIENTS,
    RESPONSE_FEATURES,
    response_features,
)
from monitor.scoring.local.passages import Passages
from monitor.scoring.local.reading import AnswerKind, Reading, read
from monitor.scoring.local.relevance import RELEVANCE_FEATURES, relevance_features

OUTPUT = Path(__file__).parent.parent / "monitor/scoring/local" / COEFFICIENTS
#: Sources whose licence keeps them out of the shipped coefficients.
NOT_FOR_TRAINING = frozenset({"faithbench"})
#: Share of good answers in the traffic the probabilities are meant for. With it a score of 0.7,
#: the pass line, says that the text speaks as much for the answer as against it.
PRIOR = 0.7
#: Drawn towards 0 by so much, and a kind towards the common weights by so much. For relevance a
#: middle way: the stronger, the better it ranks in families of sources that it has not seen, and
#: the less its scores mean the same from one source to another (docs/cascade.md).
RIDGE = {"claim": 200.0, "response": 100.0, "relevance": 100.0}
OWN = {"claim": 1.0, "response": 2.0, "relevance": 0.0}
#: Weight of an answer with foreign contexts beside one with its own, and of all of them in the
#: calibration.
FOREIGN, FOREIGN_CALIBRATED = 0.25, 0.25
CALIBRATION_FOLDS = 3
#: Features are cut to this many standard deviations around their mean, or to what all but the
#: rarest records have: a sign that is seldom seen must not be cut off.
WIDEST, RARE = 4.0, 0.001
#: Kinds of which one app has several have one calibration: a line for each would move, say, short
#: answers against long ones by what other apps have more of, and spoil the order within an app.
FORMS = {
    AnswerKind.STRUCTURED: "record",
    AnswerKind.BRIEF: "text",
    AnswerKind.TEXT: "text",
    AnswerKind.SHORT_ANSWER: "answer",
    AnswerKind.ANSWER: "answer",
    AnswerKind.LONG_ANSWER: "answer",
}
_OWN_SLOPE, _OWN_INTERCEPT = 30.0, 2.0  # how strongly forms are drawn to the common calibration
#: What a plain contradiction is expected to weigh, in log odds, before any record is seen. They
#: are rare in most sources, and a model drawn towards 0 would hardly notice them.
EXPECTED = {
    "attributes_conflict": -1.5, "attributes_unknown": -0.7, "number_conflict": -1.5,
    "most_number_conflict": -1.5,
}  # fmt: skip
EXPECTED |= {f"sum_{name}": weight for name, weight in EXPECTED.items()}

Array = NDArray[np.float64]
Lines = dict[str, tuple[float, float]]


@dataclass(frozen=True)
class Measured:
    """Records as the scorer reads them; those without a claim are not among them."""

    rows: Sequence[Row]
    readings: Sequence[Reading]
    figures: Sequence[Array]  #: of each record a row a claim

    @property
    def kinds(self) -> list[str]:
        """The kind of exchange every record is."""
        return [str(reading.kind) for reading in self.readings]

    @property
    def sources(self) -> list[str]:
        """Where every record comes from."""
        return [row["source"] for row in self.rows]

    @property
    def good(self) -> Array:
        """1 where a record is grounded, else 0."""
        return np.array([1.0 - row["label"] for row in self.rows])

    @property
    def weights(self) -> Array:
        """How much every record counts."""
        return np.array([FOREIGN if row.get("foreign") else 1.0 for row in self.rows])

    def where(self, keep: Callable[[Row], bool]) -> Measured:
        """Choose records."""
        chosen = [i for i, row in enumerate(self.rows) if keep(row)]
        parts = ([each[i] for i in chosen] for each in (self.rows, self.readings, self.figures))
        return Measured(*parts)


@dataclass(frozen=True)
class Fitted:
    """Weights of one model, common and by kind, for features as they are measured."""

    names: Sequence[str]
    low: Array
    high: Array
    mean: Array
    weights: dict[str, Array]
    lines: Lines | None = None  #: slope and intercept that calibrate a kind

    def odds(self, values: Array, kinds: Sequence[str]) -> Array:
        """Sum up log odds, calibrated if there are lines."""
        table = np.array([self.weights.get(kind, self.weights[""]) for kind in kinds])
        found: Array = ((np.clip(values, self.low, self.high) - self.mean) * table).sum(axis=1)
        if self.lines is None:
            return found
        slopes, intercepts = np.array([self.lines[kind] for kind in kinds]).T
        return slopes * found + intercepts

    def data(self) -> dict[str, Any]:
        """Write the coefficients with limits, and weights and an intercept for every kind."""

        def rounded(values: Array) -> dict[str, float]:
            return {n: round(float(v), 4) for n, v in zip(self.names, values, strict=True)}

        low, high = rounded(self.low), rounded(self.high)
        kinds = {}
        for kind, (slope, intercept) in (self.lines or {}).items():
            own = self.weights.get(kind, self.weights[""]) * slope
            start = round(intercept - float(own @ self.mean), 4)
            kinds[kind] = {"intercept": start, "weights": rounded(own)}
        return {"limits": {name: [low[name], high[name]] for name in self.names}, "kinds": kinds}


@dataclass(frozen=True)
class Groundedness:
    """The model of a claim, and the model that pools claims."""

    claim: Fitted
    response: Fitted

    def claim_odds(self, figures: Array, kind: str) -> Array:
        """Judge every claim of one record."""
        return self.claim.odds(figures, [kind] * len(figures))

    def odds(self, measured: Measured) -> Array:
        """Judge whole responses."""
        return self.response.odds(pooled(self.claim, measured), measured.kinds)


def read_row(row: Row) -> Reading:
    """Read a record as the scorer does."""
    return read(row["query"], contexts(row), row["output"])


def with_foreign(rows: Sequence[Row]) -> list[Row]:
    """Add every answer again, with the contexts of the next document of its source and fold."""
    documents: dict[tuple[str, int], dict[str, Row]] = {}
    for row in rows:
        documents.setdefault((row["source"], fold(row)), {}).setdefault(document(row), row)
    found = list(rows)
    for row in rows:
        others = [*documents[row["source"], fold(row)]]
        other = others[(others.index(document(row)) + 1) % len(others)]
        if other != document(row):
            taken = documents[row["source"], fold(row)][other]["contexts"]
            found.append(row | {"contexts": taken, "label": 1, "foreign": True, "spans": None})
    return found


def measure(rows: Sequence[Row]) -> Measured:
    """Read all records and keep those that claim something."""
    readings = [read_row(row) for row in rows]
    kept = [i for i, reading in enumerate(readings) if reading.claims]
    chosen = [readings[i] for i in kept]
    return Measured([rows[i] for i in kept], chosen, [each.values for each in chosen])


def fit_groundedness(measured: Measured) -> Groundedness:
    """Fit the model of a claim, then the model that pools claims; the latter is not calibrated."""
    known = [
        (i, j, y)
        for i, row in enumerate(measured.rows)
        for j, y in claim_labels(row, measured.readings[i])
    ]
    claim = _fit_claims(measured, known)
    unlabelled = sorted(set(range(len(measured.rows))) - {i for i, _, _ in known})
    for _ in range(2):  # where nobody said which claim is wrong, take the one that looks worst
        worst = [
            int(np.argmin(claim.odds(figures, [kind] * len(figures))))
            for figures, kind in zip(measured.figures, measured.kinds, strict=True)
        ]
        claim = _fit_claims(measured, known + [(i, worst[i], 0.0) for i in unlabelled])
    groups = (measured.sources, measured.kinds, measured.weights)
    values = pooled(claim, measured)
    response = fit(values, measured.good, groups, RESPONSE_FEATURES, "response")
    return Groundedness(claim, response)


def _fit_claims(measured: Measured, known: Sequence[tuple[int, int, float]]) -> Fitted:
    values = np.array([measured.figures[i][j] for i, j, _ in known])
    good = np.array([y for _, _, y in known])
    sources, kinds = ([each[i] for i, _, _ in known] for each in (measured.sources, measured.kinds))
    weights = measured.weights[[i for i, _, _ in known]]
    fitted = fit(values, good, (sources, kinds, weights), CLAIM_FEATURES, "claim")
    lines = calibrate(fitted.odds(values, kinds), good, (sources, kinds, weights))
    return replace(fitted, lines=lines)


def pooled(claim: Fitted, measured: Measured) -> Array:
    """Pool the claims of every record."""
    pairs = zip(measured.figures, measured.kinds, strict=True)
    return np.array([response_features(f, claim.odds(f, [kind] * len(f))) for f, kind in pairs])


def calibrated(measured: Measured) -> Lines:
    """Find slope and intercept for every kind on records that the models have not seen."""
    odds = np.zeros(len(measured.rows))
    folds = np.array([fold(row) % CALIBRATION_FOLDS for row in measured.rows])
    for held in sorted(set(folds)):
        seen = measured.where(lambda row, held=held: fold(row) % CALIBRATION_FOLDS != held)
        unseen = measured.where(lambda row, held=held: fold(row) % CALIBRATION_FOLDS == held)
        odds[folds == held] = fit_groundedness(seen).odds(unseen)
    groups = (measured.sources, measured.kinds, measured.weights)
    return calibrate(odds, measured.good, groups)


def claim_labels(row: Row, reading: Reading) -> list[tuple[int, float]]:
    """List the claims whose label is certain, by position: 1 supported, 0 not."""
    sentences = [each.text for each in reading.sentences if each.claim]
    if row["label"] == 0 or len(sentences) == 1 or row.get("foreign"):
        return [(j, 1.0 - row["label"]) for j in range(len(sentences))]
    output, spans = row["output"], []
    for span in row.get("spans") or ():
        start, end = (output.find(span), len(span)) if isinstance(span, str) else (span[0], 0)
        if start >= 0:
            spans.append((int(start), int(start + end if end else span[1])))
    places = [output.find(sentence) for sentence in sentences]
    return [
        (j, float(not any(a < place + len(text) and place < b for a, b in spans)))
        for j, (text, place) in enumerate(zip(sentences, places, strict=True))
        if place >= 0 and spans
    ]


Groups = tuple[Sequence[str], Sequence[str], Array]  #: sources, kinds, weights of records


def fit(values: Array, good: Array, groups: Groups, names: Sequence[str], model: str) -> Fitted:
    """Fit *good* on *values*: slopes common and by kind, an intercept for every source."""
    sources, kinds, weights = groups
    mean, spread = values.mean(0), values.std(0)
    spread[spread == 0] = 1
    rarest = np.quantile(values, [RARE, 1 - RARE], axis=0)
    low = np.minimum(mean - WIDEST * spread, rarest[0])
    high = np.maximum(mean + WIDEST * spread, rarest[1])
    scaled = (np.clip(values, low, high) - mean) / spread
    drawn_to = np.array([EXPECTED.get(name, 0.0) for name in names]) * spread
    ridge, own = RIDGE[model], OWN[model]
    known, member = np.unique(sources, return_inverse=True)
    sizes = np.bincount(member, weights)
    weight = weights * weights.sum() / (len(known) * sizes[member])
    forms, kind = np.unique(kinds, return_inverse=True)
    places = [np.flatnonzero(kind == each) for each in range(len(forms))]
    parts = [scaled[place] for place in places]
    shape = (1 + len(forms), scaled.shape[1])
    count = shape[0] * shape[1]

    def loss(parameters: Array) -> tuple[float, Array]:
        slopes, intercepts = parameters[:count].reshape(shape), parameters[count:]
        odds = intercepts[member]
        for place, part, differing in zip(places, parts, slopes[1:], strict=True):
            odds[place] += part @ (slopes[0] + own * differing)
        wrong = weight * (1 / (1 + np.exp(-odds)) - good)
        away = slopes.copy()
        away[0] -= drawn_to
        value = weight @ (np.logaddexp(0, odds) - good * odds) + ridge / 2 * (away * away).sum()
        value += 0.01 * intercepts @ intercepts
        steps = np.array([part.T @ wrong[at] for at, part in zip(places, parts, strict=True)])
        downhill = ridge * away + np.vstack([steps.sum(axis=0), own * steps])
        by_source = np.bincount(member, weights=wrong) + 0.02 * intercepts
        return float(value), np.concatenate([downhill.ravel(), by_source])

    start = np.zeros(count + len(known))
    start[: shape[1]] = drawn_to
    found = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 1000}).x
    common, *apart = found[:count].reshape(shape)
    chosen = {"": common / spread}
    for form, slopes in zip(forms, apart, strict=True):
        chosen[str(form)] = (common + own * slopes) / spread
    return Fitted(names, low, high, mean, chosen)


def calibrate(odds: Array, good: Array, groups: Groups) -> Lines:
    """
    Find slope and intercept of log odds for every kind, at the share ``PRIOR`` of good answers.

    Sources and classes weigh evenly, and a form with few records stays near the common line.
    *odds* should come from models that have not seen the records.
    """
    sources, kinds, weights = groups
    keys = [*zip(sources, good, strict=True)]
    totals: dict[tuple[str, float], float] = {}
    for key, each in zip(keys, weights, strict=True):
        totals[key] = totals.get(key, 0.0) + each
    weight = weights / np.array([totals[key] for key in keys]) * len(keys) / len(totals)
    forms = [FORMS[AnswerKind(kind)] if kind else "" for kind in kinds]
    shift = math.log(PRIOR / (1 - PRIOR))

    def line(mask: NDArray[np.bool_], near: tuple[float, float] | None) -> tuple[float, float]:
        def loss(parameters: Array) -> float:
            made = parameters[0] * odds[mask] + parameters[1]
            value = float(weight[mask] @ (np.logaddexp(0, made) - good[mask] * made))
            if near is None:
                return value
            away = (parameters[0] - near[0]) ** 2 * _OWN_SLOPE
            return value + away + (parameters[1] - near[1]) ** 2 * _OWN_INTERCEPT

        slope, intercept = minimize(loss, np.array(near or (1.0, 0.0)), method="BFGS").x
        return float(slope), float(intercept)

    common = line(np.ones(len(odds), dtype=bool), None)
    found: Mapping[str, tuple[float, float]] = {
        form: line(np.array([each == form for each in forms]), common) for form in {*forms}
    }
    names = {str(kind): form for kind, form in FORMS.items()} | {"": ""}
    lines = {kind: found.get(form, common) for kind, form in names.items()}
    return {kind: (slope, intercept + shift) for kind, (slope, intercept) in lines.items()}


def fit_relevance(rows: Sequence[Row], values: Array) -> Fitted:
    """Fit the model of relevance to the figures of ``relevance_values``."""
    # Refusals and empty phrases have one class only: alone in a group they would teach nothing.
    joined = {"template": ("ragtruth_qa", "halueval_qa")}
    member = [
        (i, group)
        for i, row in enumerate(rows)
        for group in joined.get(row["source"], (row["source"],))
    ]
    chosen = [i for i, _ in member]
    good = np.array([float(rows[i]["label"]) for i in chosen])
    groups = ([group for _, group in member], [""] * len(chosen), np.ones(len(chosen)))
    fitted = fit(values[chosen], good, groups, RELEVANCE_FEATURES, "relevance")
    lines = calibrate(fitted.odds(values[chosen], groups[1]), good, groups)
    return replace(fitted, lines={"": lines[""]})


def relevance_values(rows: Sequence[Row], *, with_passages: bool) -> Array:
    """Measure records of the relevance data, with their passages or as if they had none."""
    found = []
    for row in rows:
        reading = read_row(row)
        passages = reading.passages if with_passages else Passages(())
        found.append(relevance_features(row["query"], row["output"], reading.sentences, passages))
    return np.array(found)


def train(folder: Path) -> dict[str, Any]:
    """Fit everything on all records that may be used."""
    rows = [r for r in read_rows(folder, GROUNDEDNESS) if r["source"] not in NOT_FOR_TRAINING]
    measured = measure(with_foreign(rows))
    model = fit_groundedness(measured)
    asked = read_rows(folder, RELEVANCE)
    retrieved = [row for row in asked if row["contexts"]]
    return {
        "made_by": "benchmarks/train_local.py",
        "prior": PRIOR,
        "records": {"groundedness": len(rows), "relevance": len(asked)},
        "claim": model.claim.data(),
        "response": replace(model.response, lines=calibrated(measured)).data(),
        "relevance": fit_relevance(
            retrieved, relevance_values(retrieved, with_passages=True)
        ).data(),
        "relevance_alone": fit_relevance(
            asked, relevance_values(asked, with_passages=False)
        ).data(),
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
