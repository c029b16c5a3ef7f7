"""
Fit the coefficients of the local judge: python benchmarks/train_local.py FOLDER [-o FILE].

Deterministic. FaithBench is left out, for its licence.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from fitting import PRIOR, Array, Fitted, calibrate, fit
from labelled import GROUNDEDNESS, RELEVANCE, Row, contexts, fold, read_rows

from monitor.scoring.features.extract import Features, Kind, look_at
from monitor.scoring.features.passages import Passages
from monitor.scoring.features.relevance import RELEVANCE_FEATURES, relevance_features
from monitor.scoring.features.response import response_features, response_names
from monitor.scoring.features.support import CLAIM_FEATURES
from monitor.scoring.judges.logistic import ByKind

OUTPUT = Path(__file__).parent.parent / "monitor/scoring/judges/local.v2.json"
#: Sources whose licence keeps them out of the shipped coefficients.
NOT_FOR_TRAINING = frozenset({"faithbench"})
TEMPLATES_JOIN = ("ragtruth_qa", "halueval_qa")
#: For relevance a middle way: the stronger, the better it ranks in families of sources that it has
#: not seen, and the less its scores mean the same from one source to another (docs/cascade.md).
RIDGE = {"claim": 200.0, "response": 200.0, "relevance": 100.0}
OWN = {"claim": 0.5, "response": 1.0}
CALIBRATION_FOLDS = 3
#: Kinds of which one app has several have one calibration: a line for each would move, say, short
#: answers against long ones by what other apps have more of, and spoil the order within an app.
FORMS = {
    Kind.STRUCTURED: "record",
    Kind.BRIEF: "text",
    Kind.TEXT: "text",
    Kind.SHORT_ANSWER: "answer",
    Kind.ANSWER: "answer",
    Kind.LONG_ANSWER: "answer",
}
Lines = dict[str, tuple[float, float]]
#: What a plain contradiction is expected to weigh, in log odds, before any record is seen. They
#: are rare in most sources, and a model drawn towards 0 would hardly notice them.
EXPECTED = {
    "claim": {
        "attributes_conflict": -1.5, "hours_conflict": -1.5, "attributes_unknown": -0.7,
        "unit_has_other_number": -1.5, "bound_flipped": -1.0, "antonym": -1.0,
        "denies_affirmed": -1.0, "number_conflict": -1.0,
    },
    "response": {
        "sum_attributes_conflict": -1.5, "sum_hours_conflict": -1.5,
        "sum_attributes_unknown": -0.7, "sum_unit_has_other_number": -1.5,
        "most_bound_flipped": -1.0, "most_antonym": -0.7, "most_denies_affirmed": -0.7,
        "most_number_conflict": -0.7,
    },
}  # fmt: skip


@dataclass(frozen=True)
class Measured:
    """
    Records as the judge looks at them; those without a claim are not among them.

    ``figures`` holds a row a claim and ``names`` their names: those of the judge, and what
    else is measured.
    """

    rows: Sequence[Row]
    looks: Sequence[Features]
    figures: Sequence[Array]
    names: tuple[str, ...] = CLAIM_FEATURES

    @property
    def sources(self) -> list[str]:
        """Where every record comes from."""
        return [row["source"] for row in self.rows]

    @property
    def kinds(self) -> list[str]:
        """The kind of exchange every record is."""
        return [str(look.kind) for look in self.looks]

    @property
    def good(self) -> Array:
        """1 where a record is grounded, else 0."""
        return np.array([1.0 - row["label"] for row in self.rows])

    def where(self, keep: Callable[[Row], bool]) -> Measured:
        """Choose records."""
        chosen = [i for i, row in enumerate(self.rows) if keep(row)]
        return replace(
            self,
            rows=[self.rows[i] for i in chosen],
            looks=[self.looks[i] for i in chosen],
            figures=[self.figures[i] for i in chosen],
        )

    def with_more(self, more: Sequence[Array], names: Sequence[str]) -> Measured:
        """Add figures to those of every claim."""
        wide = [np.hstack(pair) for pair in zip(self.figures, more, strict=True)]
        return replace(self, figures=wide, names=(*self.names, *names))


@dataclass(frozen=True)
class Groundedness:
    """The model of a claim, and the model that pools claims."""

    claim: Fitted
    response: Fitted
    claim_lines: Lines

    def claim_odds(self, figures: Array, kind: str) -> Array:
        """Judge every claim of one record."""
        slope, intercept = self.claim_lines[kind]
        odds = self.claim.odds(figures, [kind] * len(figures))
        return slope * odds + intercept

    def odds(self, measured: Measured) -> Array:
        """Judge whole responses, up to slope and intercept."""
        return self.response.odds(self.pooled(measured), measured.kinds)

    def pooled(self, measured: Measured) -> Array:
        """Pool the claims of every record."""
        return np.array(
            [
                response_features(figures, self.claim_odds(figures, kind))
                for figures, kind in zip(measured.figures, measured.kinds, strict=True)
            ]
        )


def look(row: Row) -> Features:
    """Look at a record as the judge does."""
    return look_at(row["query"], contexts(row), row["output"])


def measure(rows: Sequence[Row]) -> Measured:
    """Look at all records and keep those that claim something."""
    looks = [look(row) for row in rows]
    kept = [i for i, seen in enumerate(looks) if seen.checkable]
    seen = [looks[i] for i in kept]
    return Measured([rows[i] for i in kept], seen, [each.values for each in seen])


def fit_groundedness(measured: Measured) -> Groundedness:
    """Fit the model of a claim, then the model that pools claims."""
    known = [
        (i, j, y)
        for i, row in enumerate(measured.rows)
        for j, y in claim_labels(row, measured.looks[i])
    ]
    claim, lines = _fit_claims(measured, known)
    unlabelled = sorted(set(range(len(measured.rows))) - {i for i, _, _ in known})
    for _ in range(2):  # where nobody said which claim is wrong, take the one that looks worst
        guesses = [(i, _worst(claim, measured, i), 0.0) for i in unlabelled]
        claim, lines = _fit_claims(measured, known + guesses)
    half = Groundedness(claim, claim, lines)
    response = fit(
        half.pooled(measured),
        measured.good,
        measured.sources,
        measured.kinds,
        response_names(measured.names[len(CLAIM_FEATURES) :]),
        ridge=RIDGE["response"],
        own=OWN["response"],
        expected=EXPECTED["response"],
    )
    return Groundedness(claim, response, lines)


def calibrated(measured: Measured) -> Lines:
    """Find slope and intercept for every kind on records that the models have not seen."""
    odds = np.zeros(len(measured.rows))
    folds = np.array([fold(row) % CALIBRATION_FOLDS for row in measured.rows])
    for held in sorted(set(folds)):
        seen = measured.where(lambda row, held=held: fold(row) % CALIBRATION_FOLDS != held)
        unseen = measured.where(lambda row, held=held: fold(row) % CALIBRATION_FOLDS == held)
        odds[folds == held] = fit_groundedness(seen).odds(unseen)
    return lines_by_kind(odds, measured.good, measured.sources, measured.kinds)


def lines_by_kind(odds: Array, good: Array, sources: Sequence[str], kinds: Sequence[str]) -> Lines:
    """Find slope and intercept for every kind; those of one form have the same."""
    lines = calibrate(odds, good, sources, [FORMS[Kind(kind)] for kind in kinds])
    return {str(kind): lines.get(form, lines[""]) for kind, form in FORMS.items()}


def _fit_claims(
    measured: Measured, known: Sequence[tuple[int, int, float]]
) -> tuple[Fitted, Lines]:
    values = np.array([measured.figures[i][j] for i, j, _ in known])
    good = np.array([y for _, _, y in known])
    sources = [measured.sources[i] for i, _, _ in known]
    kinds = [measured.kinds[i] for i, _, _ in known]
    claim = fit(
        values,
        good,
        sources,
        kinds,
        measured.names,
        ridge=RIDGE["claim"],
        own=OWN["claim"],
        expected=EXPECTED["claim"],
    )
    return claim, lines_by_kind(claim.odds(values, kinds), good, sources, kinds)


def _worst(claim: Fitted, measured: Measured, at: int) -> int:
    figures = measured.figures[at]
    return int(np.argmin(claim.odds(figures, [measured.kinds[at]] * len(figures))))


def claim_labels(row: Row, seen: Features) -> list[tuple[int, float]]:
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
    kinds = [""] * len(chosen)
    model = fit(values[chosen], good, groups, kinds, RELEVANCE_FEATURES, ridge=RIDGE["relevance"])
    lines = calibrate(model.odds(values[chosen], kinds), good, groups, kinds)
    return model.data({"": lines[""]})


def relevance_model(data: dict[str, Any]) -> ByKind:
    """Make a model of what ``fit_relevance`` wrote."""
    return ByKind.from_data(data, RELEVANCE_FEATURES)


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


def groundedness_data(measured: Measured) -> dict[str, Any]:
    """Fit both models of groundedness, and write their coefficients."""
    model, lines = fit_groundedness(measured), calibrated(measured)
    return {
        "claim": model.claim.data({kind: model.claim_lines[kind] for kind in Kind}),
        "response": model.response.data({kind: lines[kind] for kind in Kind}),
    }


def train(folder: Path) -> dict[str, Any]:
    """Fit everything on all records that may be used."""
    rows = [r for r in read_rows(folder, GROUNDEDNESS) if r["source"] not in NOT_FOR_TRAINING]
    measured = measure(rows)
    groundedness = groundedness_data(measured)
    asked = read_rows(folder, RELEVANCE)
    retrieved = [row for row in asked if row["contexts"]]
    return {
        "made_by": "benchmarks/train_local.py",
        "prior": PRIOR,
        "records": {"groundedness": len(rows), "relevance": len(asked)},
        **groundedness,
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
