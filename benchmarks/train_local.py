"""
Fit the local scorer: python benchmarks/train_local.py FOLDER [--output FILE] [--embedding MODEL].

Logistic models of good answers over several sources and kinds of exchanges. Every source has
the same weight and an intercept of its own while fitting, so that a model learns what tells
grounded from ungrounded within a source and not which source a text comes from. Every kind has
weights of its own, drawn towards the common ones (Daumé III, "Frustratingly Easy Domain
Adaptation", 2007). Answers paired with the contexts of another document of their source join as
bad ones: nothing found must mean a score near 0. Deterministic. FaithBench is left out, for its
licence. Without an embedding model the coefficients for one stay as they are.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from common import script
from labelled import GROUNDEDNESS, RELEVANCE, Row, contexts, document, fold, read_rows
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.sparse import csr_array

from monitor.contrib.embedding import make_similarity
from monitor.models.interaction import Turn
from monitor.scoring.local.conversation import FOLLOW_UP_FEATURES, follow_up_features
from monitor.scoring.local.logistic import (
    COEFFICIENTS,
    RESPONSE_FEATURES,
    load_coefficients,
    response_features,
)
from monitor.scoring.local.passages import Passages
from monitor.scoring.local.reading import CLAIM_FEATURES, Reading, read
from monitor.scoring.local.relevance import (
    MEANING,
    RELEVANCE_FEATURES,
    Meaning,
    relevance_features,
)
from monitor.scoring.local.requests import KINDS, REQUESTS
from monitor.scoring.sentences import CHAT, CHAT_MODEL, split_sentences
from monitor.scoring.word_model import STEPS, WordModel, shipped_model, text_features, tokens_of
from monitor.stats.summary import ridge_logistic

HERE = Path(__file__).parent
#: Conversations that were written for this project: a right answer each, and wrong ones. Those in
#: tests/golden/conversations.jsonl are held out, for the test of them.
FOLLOW_UPS = (
    HERE / "follow_ups.jsonl",
    *sorted((HERE.parent / "tests/golden").glob("*follow_ups.jsonl")),
)
ANSWERS = {"right": 1, "wrong": 0, "beside": 0, "elsewhere": 0, "false": 0}
OUTPUT = HERE.parent / "monitor/scoring/local" / COEFFICIENTS
#: Sources whose licence keeps them out of the shipped coefficients.
NOT_FOR_TRAINING = frozenset({"faithbench"})
#: Share of good answers in the traffic the probabilities are meant for. With it a score of 0.7,
#: the pass line, says that the text speaks as much for the answer as against it.
PRIOR = 0.7
#: Drawn towards 0 by so much, and a kind towards the common weights by so much. For relevance a
#: middle way: the stronger, the better it ranks in families of sources that it has not seen, and
#: the less its scores mean the same from one source to another (docs/cascade.md).
RIDGE = {"claim": 200.0, "response": 100.0, "relevance": 100.0, "follow_up": 20.0}
OWN = {"claim": 1.0, "response": 2.0, "relevance": 0.0, "follow_up": 0.0}
_OWN_LINE = np.array([60.0, 4.0])  # how strongly slope and intercept are drawn to the common line
#: Weight of an answer with foreign contexts beside one with its own.
FOREIGN = 0.25
CALIBRATION_FOLDS = 3
#: Features are cut to this many standard deviations around their mean, or to what all but the
#: rarest records have: a sign that is seldom seen must not be cut off.
WIDEST, RARE = 4.0, 0.001
#: What a plain contradiction is expected to weigh, in log odds, before any record is seen. They
#: are rare in most sources, and a model drawn towards 0 would hardly notice them.
EXPECTED = {"attributes_conflict": -1.5, "attributes_unknown": -0.7, "number_conflict": -1.5}
EXPECTED |= {"other_item": -2.0}
EXPECTED |= {f"sum_{name}": weight for name, weight in EXPECTED.items()}

#: Messages to assistants that were written for this project, each with what it is. Of those in
#: tests/golden/requests.jsonl, only greetings of one or two words are among them. The last set is
#: made of words that only questions have: what people type into a search field.
MESSAGES = HERE / "requests.jsonl"
KEYWORDS = 19
#: In so many texts a word must be; the least weight that is written; drawn towards 0 by so much.
FEWEST, SMALLEST, WORD_RIDGE = 4, 3, 0.02
FEWEST_OF_SENTENCES, SENTENCE_RIDGE = 2, 0.05  # they are fewer, and short
#: Sentences of answers that were written for this project: replies to small talk state nothing.
SENTENCES, STATES_NOTHING = HERE / "sentences.jsonl", frozenset({"reply", CHAT})

Array = NDArray[np.float64]
Lines = dict[str, tuple[float, float]]


@dataclass(frozen=True)
class Groups:
    """Of every record: its source, its kind of exchange and how much it counts."""

    sources: NDArray[np.str_]
    kinds: NDArray[np.str_]
    weights: Array

    def at(self, chosen: Sequence[int]) -> Groups:
        """Choose records by position, some more than once."""
        return Groups(self.sources[chosen], self.kinds[chosen], self.weights[chosen])


@dataclass(frozen=True)
class Measured:
    """Records as the scorer reads them; those without a claim are not among them."""

    rows: Sequence[Row]
    readings: Sequence[Reading]
    figures: Sequence[Array]  #: of each record a row a claim

    @classmethod
    def of(cls, rows: Sequence[Row]) -> Self:
        """Read all records and keep those that claim something."""
        read_rows = [(row, reading) for row in rows if (reading := read_row(row)).claims]
        figures = [np.array([each.values for each in reading.claims]) for _, reading in read_rows]
        return cls(*map(list, zip(*read_rows, strict=True)), figures)

    @property
    def good(self) -> Array:
        """1 where a record is grounded, else 0."""
        return np.array([1.0 - row["label"] for row in self.rows])

    @property
    def groups(self) -> Groups:
        """Source, kind and weight of every record."""
        return Groups(
            np.array([row["source"] for row in self.rows]),
            np.array([reading.kind for reading in self.readings]),
            np.array([FOREIGN if row.get("foreign") else 1.0 for row in self.rows]),
        )

    def where(self, keep: Callable[[Row], bool]) -> Measured:
        """Choose records."""
        chosen = [i for i, row in enumerate(self.rows) if keep(row)]
        parts = ([each[i] for i in chosen] for each in (self.rows, self.readings, self.figures))
        return Measured(*parts)


@dataclass(frozen=True)
class Fitted:
    """Weights of one model, common ("") and by kind, for features as they are measured."""

    names: Sequence[str]
    limits: Array  #: lowest and highest value of each feature
    mean: Array
    weights: dict[str, Array]
    lines: Lines | None = None  #: slope and intercept that calibrate a kind

    def odds(self, values: Array, kinds: Sequence[str]) -> Array:
        """Sum up log odds, calibrated if there are lines."""
        # A kind that no record of the training data had has the common weights and the mean line.
        table = np.array([self.weights.get(kind, self.weights[""]) for kind in kinds])
        found: Array = ((np.clip(values, *self.limits) - self.mean) * table).sum(axis=1)
        if self.lines is None:
            return found
        mean = np.mean([*self.lines.values()], axis=0)
        slopes, intercepts = np.array([self.lines.get(kind, mean) for kind in kinds]).T
        return slopes * found + intercepts

    def data(self) -> dict[str, Any]:
        """Write the coefficients with limits, and weights and an intercept for every kind."""
        kinds = {}
        for kind, (slope, intercept) in (self.lines or {}).items():
            own = self.weights[kind] * slope
            weights = dict(zip(self.names, own.round(4).tolist(), strict=True))
            start = round(intercept - float(own @ self.mean), 4)
            kinds[kind] = {"intercept": start, "weights": weights}
        limits = dict(zip(self.names, self.limits.T.round(4).tolist(), strict=True))
        return {"limits": limits, "kinds": kinds}


@dataclass(frozen=True)
class Groundedness:
    """The model of a claim and the one that pools claims."""

    claim: Fitted
    response: Fitted

    def odds(self, measured: Measured) -> Array:
        """Judge whole responses."""
        return self.response.odds(pooled(self.claim, measured), measured.groups.kinds.tolist())


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


def fit_groundedness(measured: Measured, *, calibrated: bool = True) -> Groundedness:
    """
    Fit the model of a claim, then the model that pools claims.

    The latter is calibrated on records that models fitted to the others have not seen.
    """
    known = [
        (i, j, y)
        for i, row in enumerate(measured.rows)
        for j, y in claim_labels(row, measured.readings[i])
    ]
    unlabelled = sorted({*range(len(measured.rows))} - {i for i, _, _ in known})
    worst: list[tuple[int, int, float]] = []
    for _ in range(3):  # where nobody said which claim is wrong, take the one that looks worst
        chosen = [*known, *worst]
        records = [i for i, _, _ in chosen]
        values = np.array([measured.figures[i][j] for i, j, _ in chosen])
        good, groups = np.array([y for _, _, y in chosen]), measured.groups.at(records)
        claim = fit(values, good, groups, CLAIM_FEATURES, "claim")
        odds = claim.odds(values, groups.kinds.tolist())
        claim = replace(claim, lines=calibrate(odds, good, groups))
        worst = [(i, int(claim_odds(claim, measured, i).argmin()), 0.0) for i in unlabelled]
    values, good, groups = pooled(claim, measured), measured.good, measured.groups
    response = fit(values, good, groups, RESPONSE_FEATURES, "response")
    if calibrated:
        odds = np.zeros(len(values))
        folds = np.array([fold(row) % CALIBRATION_FOLDS for row in measured.rows])
        for held in sorted({*folds.tolist()}):
            seen = measured.where(lambda row, held=held: fold(row) % CALIBRATION_FOLDS != held)
            unseen = measured.where(lambda row, held=held: fold(row) % CALIBRATION_FOLDS == held)
            odds[folds == held] = fit_groundedness(seen, calibrated=False).odds(unseen)
        response = replace(response, lines=calibrate(odds, good, groups))
    return Groundedness(claim, response)


def claim_odds(claim: Fitted, measured: Measured, i: int) -> Array:
    """Judge the claims of one record."""
    figures = measured.figures[i]
    return claim.odds(figures, [measured.readings[i].kind] * len(figures))


def pooled(claim: Fitted, measured: Measured) -> Array:
    """Pool the claims of every record."""
    return np.array(
        [
            response_features(figures, claim_odds(claim, measured, i))
            for i, figures in enumerate(measured.figures)
        ]
    )


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


def fit(values: Array, good: Array, groups: Groups, names: Sequence[str], model: str) -> Fitted:
    """Fit *good* on *values*: slopes common and by kind, an intercept for every source."""
    mean, spread = values.mean(0), values.std(0)
    spread[spread == 0] = 1
    rarest = np.quantile(values, [RARE, 1 - RARE], axis=0)
    low = np.minimum(mean - WIDEST * spread, rarest[0])
    high = np.maximum(mean + WIDEST * spread, rarest[1])
    scaled = (np.clip(values, low, high) - mean) / spread
    known, member = np.unique(groups.sources, return_inverse=True)
    weight = groups.weights * groups.weights.sum()
    weight /= len(known) * np.bincount(member, groups.weights)[member]
    kinds = [str(kind) for kind in np.unique(groups.kinds)] if OWN[model] else []
    own = [OWN[model] * scaled * (groups.kinds == kind)[:, None] for kind in kinds]
    design = np.hstack([scaled, *own, np.eye(len(known))[member]])
    ridge, centre = np.full(design.shape[1], RIDGE[model]), np.zeros(design.shape[1])
    ridge[-len(known) :] = 0.02
    centre[: len(names)] = [EXPECTED.get(name, 0.0) for name in names] * spread
    found = ridge_logistic(design, good, centre, ridge, weight)
    common, *apart = found[: -len(known)].reshape(-1, len(names)) / spread
    chosen = {kind: common + OWN[model] * each for kind, each in zip(kinds, apart, strict=True)}
    return Fitted(names, np.array([low, high]), mean, chosen | {"": common})


def calibrate(odds: Array, good: Array, groups: Groups, prior: float = PRIOR) -> Lines:
    """
    Find slope and intercept of log odds for every kind, at the share *prior* of good answers.

    Sources and classes weigh evenly, and a kind with few records stays near the common line ("").
    *odds* should come from models that have not seen the records.
    """
    keys = np.array([f"{source} {y}" for source, y in zip(groups.sources, good, strict=True)])
    known, member = np.unique(keys, return_inverse=True)
    totals = np.bincount(member, groups.weights)
    weight = groups.weights / totals[member] * len(keys) / len(known)
    design, start = np.column_stack([odds, np.ones(len(odds))]), np.array([1.0, 0.0])
    lines = {"": ridge_logistic(design, good, start, np.full(2, 1e-6), weight)}
    # Of texts one app has brief and longer ones: a line each would spoil the order among them.
    forms = np.where(groups.kinds == "brief", "text", groups.kinds)
    for form in np.unique(forms):
        of = forms == form
        lines[str(form)] = ridge_logistic(design[of], good[of], lines[""], _OWN_LINE, weight[of])
    lines["brief"] = lines.get("text", lines[""])
    shift = math.log(prior / (1 - prior))
    return {kind: (float(slope), float(start) + shift) for kind, (slope, start) in lines.items()}


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
    sources = np.array([group for _, group in member])
    groups = Groups(sources, np.full(len(chosen), ""), np.ones(len(chosen)))
    names = (*RELEVANCE_FEATURES, MEANING)[: values.shape[1]]
    fitted = fit(values[chosen], good, groups, names, "relevance")
    odds = fitted.odds(values[chosen], groups.kinds.tolist())
    return replace(fitted, lines={"": calibrate(odds, good, groups)[""]})


def read_follow_ups(files: Sequence[Path] = FOLLOW_UPS) -> tuple[list[Row], Array]:
    """Read conversations: set and label (1 right, 0 wrong) of every answer, and their figures."""
    rows: list[Row] = []
    figures = []
    for path in files:
        for about in map(json.loads, path.read_text("utf-8").splitlines()):
            said = zip(("user", "assistant") * len(about["turns"]), about["turns"], strict=False)
            history = [Turn(role=role, content=text) for role, text in said]
            for case in about.get("cases", [about]):
                for name in sorted(ANSWERS.keys() & case.keys()):
                    reading = read(case["query"], about["contexts"], case[name])
                    values = follow_up_features(case["query"], history, case[name], reading)
                    if values is not None:
                        label = {"source": about.get("set", path.stem), "label": ANSWERS[name]}
                        rows.append({"query": case["query"], "output": case[name]} | label)
                        figures.append(values)
    return rows, np.array(figures)


def fit_follow_ups(rows: Sequence[Row], values: Array) -> Fitted:
    """Fit the model of an answer in a conversation, where half of the answers are right."""
    good = np.array([float(row["label"]) for row in rows])
    sources = np.array([row["source"] for row in rows])
    groups = Groups(sources, np.full(len(rows), ""), np.ones(len(rows)))
    fitted = fit(values, good, groups, FOLLOW_UP_FEATURES, "follow_up")
    lines = calibrate(fitted.odds(values, groups.kinds.tolist()), good, groups, prior=0.5)
    return replace(fitted, lines={"": lines[""]})


def read_messages() -> list[Row]:
    """Read messages with their kind and set; what is asked in conversations is a question."""
    messages = [json.loads(line) for line in MESSAGES.read_text("utf-8").splitlines()]
    asked = dict.fromkeys(row["query"] for row in read_follow_ups()[0])
    return messages + [{"query": query, "kind": "question", "set": 0} for query in asked]


def read_sentences() -> list[Row]:
    """Read sentences with their kind; without figures, of which all state something."""
    written = [json.loads(line) for line in SENTENCES.read_text("utf-8").splitlines()]
    texts = [(each["text"], CHAT if each["kind"] in STATES_NOTHING else "") for each in written]
    for path in FOLLOW_UPS[:1]:
        for about in map(json.loads, path.read_text("utf-8").splitlines()):
            said = [about[name] for name in sorted(ANSWERS.keys() & about.keys())]
            stated = (*said, *about["contexts"], *about["turns"][1::2])
            texts += [(text, "") for text in stated if not text.lstrip().startswith("{")]
    found = {s: kind for text, kind in texts for s in split_sentences(text)}
    plain = {s: kind for s, kind in found.items() if not any(map(str.isdigit, s))}
    return [{"query": sentence, "kind": kind} for sentence, kind in plain.items()]


def fit_words(
    messages: Sequence[Row],
    kinds: Sequence[str],
    fewest: int = FEWEST,
    ridge: float = WORD_RIDGE,
) -> WordModel:
    """
    Fit a model of words to texts, of which those of no kind have odds of 1.

    Words in few texts, and those that hardly weigh, are left out.
    """
    found = [text_features(tokens_of(each["query"])) for each in messages]
    counts = Counter(name for features in found for name in features)
    # "Moin!" is a message of its own
    alone = {name for features in found if "#length 1" in features for name in features}
    names = sorted(n for n, times in counts.items() if times >= fewest or n in alone)
    place = {name: at for at, name in enumerate(names)}
    cells = [
        (row, place[name], 1 / math.sqrt(len(features)))
        for row, features in enumerate(found)
        for name in sorted(features & place.keys())
    ]
    rows, columns, values = map(np.array, zip(*cells, strict=True))
    design = csr_array((values, (rows, columns)), shape=(len(found), len(names)))
    places = {kind: at for at, kind in enumerate(kinds, start=1)}
    chosen = np.eye(len(kinds) + 1)[[places.get(each["kind"], 0) for each in messages]]

    def cost(flat: Array) -> tuple[float, Array]:
        weights = flat.reshape(len(names), -1)
        odds = design @ weights
        logs = odds - np.logaddexp.reduce(odds, axis=1, keepdims=True)
        slope = design.T @ (np.exp(logs) - chosen) + ridge * weights
        return float(-(logs * chosen).sum() + ridge * (flat @ flat) / 2), slope.ravel()

    start = np.zeros(len(names) * (len(kinds) + 1))
    fitted = minimize(
        cost, start, jac=True, method="L-BFGS-B", options={"maxiter": 1000}
    ).x.reshape(len(names), -1)
    hundredths = ((fitted[:, 1:] - fitted[:, :1]) * STEPS).round().astype(int).tolist()
    every = zip(names, hundredths, strict=True)
    return WordModel({n: weights for n, weights in every if max(map(abs, weights)) >= SMALLEST})


def write_words(model: WordModel, kinds: Sequence[str], path: Path) -> None:
    """Write a model of words as JSON, a feature a line."""
    lines = [f"{json.dumps(name)}: {weights}" for name, weights in model.weights.items()]
    text = '{"kinds": ' + json.dumps([*kinds]) + ', "weights": {\n' + ",\n".join(lines) + "\n}}\n"
    path.write_text(text, encoding="utf-8")


def relevance_values(
    rows: Sequence[Row], *, with_passages: bool, meaning: Meaning | None = None
) -> Array:
    """Measure records of the relevance data, with their passages or as if they had none."""
    found = []
    for row in rows:
        reading = read_row(row)
        passages = reading.passages if with_passages else Passages(())
        texts = row["query"], row["output"]
        values = relevance_features(*texts, reading.sentences, passages)
        found.append([*values, meaning(*texts)] if meaning else values)
    return np.array(found)


def relevance_models(rows: Sequence[Row], meaning: Meaning | None = None) -> dict[str, Any]:
    """Fit the models of relevance: of answers with passages, and of all as if they had none."""
    retrieved = [row for row in rows if row["contexts"]]
    return {
        name: fit_relevance(
            chosen, relevance_values(chosen, with_passages=with_passages, meaning=meaning)
        ).data()
        for name, chosen, with_passages in (
            ("relevance", retrieved, True),
            ("relevance_alone", rows, False),
        )
    }


@script
def main(folder: Path, *, output: Path = OUTPUT, embedding: str | None = None) -> None:
    """Fit everything on all records that may be used, and write the coefficients."""
    # first what everything else is read with
    chat = fit_words(read_sentences(), (CHAT,), FEWEST_OF_SENTENCES, SENTENCE_RIDGE)
    write_words(chat, (CHAT,), output.parent.with_name(CHAT_MODEL))
    shipped_model.cache_clear()
    write_words(fit_words(read_messages(), KINDS), KINDS, output.with_name(REQUESTS))
    shipped_model.cache_clear()
    rows = read_rows(folder, GROUNDEDNESS)
    rows = [row for row in rows if row["source"] not in NOT_FOR_TRAINING]
    model = fit_groundedness(Measured.of(with_foreign(rows)))
    asked = read_rows(folder, RELEVANCE)
    by_meaning = load_coefficients()["by_meaning"]
    if embedding is not None:
        by_meaning = relevance_models(asked, Meaning(make_similarity(embedding)))
    cases, figures = read_follow_ups()
    counts = {"groundedness": len(rows), "relevance": len(asked), "follow_up": len(cases)}
    coefficients = {
        "made_by": "benchmarks/train_local.py",
        "prior": PRIOR,
        "records": counts,
        "claim": model.claim.data(),
        "response": model.response.data(),
        **relevance_models(asked),
        "follow_up": fit_follow_ups(cases, figures).data(),
        "by_meaning": by_meaning,
    }
    output.write_text(json.dumps(coefficients, indent=1) + "\n", encoding="utf-8")
    print(f"wrote {output}: {counts}")
