"""
Measure the local scorer: python benchmarks/scoring.py FOLDER [--every N] [--embedding MODEL].

One table of groundedness: every record scored by models that have not seen its document, again by
models that have not seen any source of its family, and by the coefficients that ship, beside plain
word overlap. FaithBench and the answers of modern models are never fitted. One of relevance, again
with an embedding model if one is named, one of answers in conversations, one of the kinds of
requests, then what a sample costs and how long the scorer is. Probabilities are for traffic of
which seven in ten answers are good.
"""

import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
import train_local as training
from common import print_head, print_row, script
from labelled import (
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
from numpy.typing import NDArray
from sklearn.metrics import balanced_accuracy_score, f1_score

import monitor.scoring
from monitor.contrib.embedding import make_similarity
from monitor.models import Interaction
from monitor.scoring.base import ClaimVerdict, Judgement
from monitor.scoring.language import words
from monitor.scoring.local import passages
from monitor.scoring.local.conversation import FAILS, PASSES
from monitor.scoring.local.logistic import probability
from monitor.scoring.local.relevance import Meaning, judge_yes_or_no, settle
from monitor.scoring.local.requests import KINDS, likely_kind
from monitor.scoring.local.scorer import PASS_SCORE, LocalJudge, probability_cap
from monitor.store.samples import soundness

DRAWS = 300
Split = Callable[[Row], str]
Scores = dict[str, list[float]]


def held_out_groundedness(
    rows: Sequence[Row], measured: training.Measured, split: Split
) -> list[float]:
    """Score every record by models that have seen nothing of its part of *split*."""
    scores: dict[str, float] = {}
    for held in sorted({split(row) for row in rows}):
        unseen = measured.where(
            lambda row, held=held: split(row) == held and not row.get("foreign")
        )
        seen = measured.where(
            lambda row, held=held: (
                split(row) != held and row["source"] not in training.NOT_FOR_TRAINING
            )
        )
        model = training.fit_groundedness(seen)
        for i, odds in enumerate(model.odds(unseen)):
            left = probability_cap(unseen.readings[i].claims)
            scores[unseen.rows[i]["id"]] = probability(float(odds)) * left
    return [scores.get(row["id"], PASS_SCORE) for row in rows]  # without a claim: at the line


def held_out_relevance(
    rows: Sequence[Row], split: Split, meaning: Meaning | None = None
) -> list[float]:
    """Score every record by models that have seen nothing of its part of *split*."""
    scores = [0.0] * len(rows)
    for with_passages in (True, False):
        members = [i for i, row in enumerate(rows) if row["contexts"] or not with_passages]
        values = training.relevance_values(rows, with_passages=with_passages, meaning=meaning)
        for held in sorted({split(row) for row in rows}):
            seen = [i for i in members if split(rows[i]) != held]
            model = training.fit_relevance([rows[i] for i in seen], values[seen])
            odds = model.odds(values, [""] * len(rows))
            for i in members:
                if split(rows[i]) == held and bool(rows[i]["contexts"]) == with_passages:
                    scores[i] = probability(float(odds[i]))
    for i, row in enumerate(rows):  # and by the rules, which nothing is fitted for
        asked = row["query"], row["output"], training.read_row(row), scores[i]
        found = settle(*asked) or judge_yes_or_no(*asked)
        if found is not None:  # what is skipped ranks at the pass line
            scores[i] = PASS_SCORE if found.relevance is None else found.relevance
    return scores


def held_out_follow_ups(rows: Sequence[Row], values: NDArray[np.float64]) -> list[float]:
    """Score every answer in a conversation by a model that has not seen its set."""
    scores = np.zeros(len(rows))
    sets = np.array([row["source"] for row in rows])
    for held in sorted({*sets.tolist()}):
        seen = np.flatnonzero(sets != held)
        model = training.fit_follow_ups([rows[i] for i in seen], values[seen])
        unseen = sets == held
        scores[unseen] = [*map(probability, model.odds(values[unseen], [""] * unseen.sum()))]
    return scores.tolist()


def print_kinds_of_requests() -> None:
    """Print how often requests are read as what they are, by models that have not seen the set."""
    messages = training.read_messages()
    asked = [m for m in messages if m["set"] == 0]  # keywords are made of the words of all sets
    written = [m for m in messages if m["set"] not in {0, training.KEYWORDS}]
    found: list[tuple[str, str]] = []
    for third in range(3):
        unseen = [m for m in written if m["set"] % 3 == third]
        model = training.fit_words([m for m in written if m["set"] % 3 != third] + asked, KINDS)
        found += [(m["kind"], likely_kind(m["query"], model)) for m in unseen]
    print("\nRequests, sets not seen\n")
    print_head("kind", "n", "read as it", "read as a question")
    for kind in ("question", *KINDS):
        read = [to for of, to in found if of == kind]
        shares = (f"{read.count(each) / len(read):.0%}" for each in (kind, "question"))
        print_row(kind, len(read), *shares)


def overlap(text: str, other: Sequence[str]) -> float:
    """Share of the words of *text* that occur in *other*."""
    known = {word.stem for part in other for word in words(part)}
    said = [word.stem in known for word in words(text)]
    return sum(said) / max(len(said), 1)


def judge_all(rows: Sequence[Row]) -> tuple[list[Judgement], list[float]]:
    """Judge with the shipped coefficients, every passage read again; give milliseconds of CPU."""
    judge, found, cost = LocalJudge(), [], []
    for row in rows:
        fields = {"id": row["id"], "query": row["query"], "output": row["output"]}
        interaction = Interaction.model_validate(fields | {"contexts": contexts(row)})
        passages.keep.cache_clear()
        started = time.thread_time()
        found.append(judge.judge(interaction))
        cost.append((time.thread_time() - started) * 1000)
    return found, cost


def five_worst(
    rows: Sequence[Row], scores: Sequence[float], at: Sequence[int], n: int, rate: float = 0.95
) -> float:
    """Share of bad ones among the five lowest of *n* answers of those *at*, *rate* of them good."""
    random = np.random.default_rng(7)
    labels, values = np.array([rows[i]["label"] for i in at]), np.array([scores[i] for i in at])
    good, bad = np.flatnonzero(labels == 0), np.flatnonzero(labels == 1)
    wrong = 0
    for _ in range(DRAWS):
        few = round(n * (1 - rate))
        drawn = np.concatenate([random.choice(good, n - few), random.choice(bad, few)])
        wrong += labels[drawn[np.argsort(values[drawn], kind="stable")[:5]]].sum()
    return float(wrong / (5 * DRAWS))


def in_published_units(rows: Sequence[Row], scores: Sequence[float]) -> str:
    """
    Return F1 of finding ungrounded answers on RAGTruth, and balanced accuracy on FaithBench.

    The line below which an answer counts as found is the best one of the other documents; that
    of FaithBench is the best one for balanced accuracy on RAGTruth.
    """

    def best_line(bad: np.ndarray, values: np.ndarray, of: Callable[..., float]) -> float:
        return max(np.linspace(0.02, 0.98, 97), key=lambda line: of(bad, values < line))

    source = np.array([row["source"] for row in rows])
    bad, values = np.array([row["label"] == 1 for row in rows]), np.array(scores)
    folds = np.array([fold(row) for row in rows])
    tasks = {name: source == f"ragtruth_{name}" for name in ("qa", "summary", "data2txt")}
    ours = np.logical_or.reduce([*tasks.values()])
    found = np.zeros(len(rows), bool)
    for held in set(folds):
        line = best_line(bad[ours & (folds != held)], values[ours & (folds != held)], f1_score)
        found[folds == held] = values[folds == held] < line
    parts = [f"{name} {f1_score(bad[at], found[at]):.3f}" for name, at in tasks.items()]
    other = source == "faithbench"
    line = best_line(bad[ours], values[ours], balanced_accuracy_score)
    accuracy = balanced_accuracy_score(bad[other], values[other] < line)
    return (
        f"RAGTruth, F1 of ungrounded answers: {f1_score(bad[ours], found[ours]):.3f}"
        f" ({', '.join(parts)}); FaithBench, balanced accuracy: {accuracy:.3f}"
    )


def print_table(title: str, rows: Sequence[Row], good: Sequence[int], scores: Scores) -> None:
    """Print the AUROC of each score in every source, and what the last of them decides."""
    print(f"\n{title}\n")
    print_head("source", "n", *scores, "pass if good", "pass if bad")
    areas = []
    for source, members in by_source(rows).items():
        labels, last = [good[i] for i in members], np.array([*scores.values()][-1])[members]
        found = [auroc(labels, [each[i] for i in members]) for each in scores.values()]
        shares = [float((last[np.array(labels) == each] >= PASS_SCORE).mean()) for each in (1, 0)]
        cells = (*(f"{area:.3f}" for area in found), *(f"{share:.0%}" for share in shares))
        print_row(source, len(members), *cells)
        areas.append(found)
    print_row("macro", "", *(f"{area:.3f}" for area in np.nanmean(areas, axis=0)), "", "")
    print()


def interval(
    rows: Sequence[Row], good: Sequence[int], scores: Sequence[float]
) -> tuple[float, ...]:
    """95 % interval of the macro AUROC, documents drawn again within every source."""
    random, found = np.random.default_rng(7), []
    sources = []
    for members in by_source(rows).values():
        groups: dict[str, list[int]] = {}
        for i in members:
            groups.setdefault(document(rows[i]), []).append(i)
        sources.append([*groups.values()])
    for _ in range(DRAWS):
        areas = []
        for groups in sources:
            drawn = [i for at in random.integers(0, len(groups), len(groups)) for i in groups[at]]
            areas.append(auroc([good[i] for i in drawn], [scores[i] for i in drawn]))
        found.append(np.nanmean(areas))
    return tuple(float(value) for value in np.quantile(found, [0.025, 0.975]))


@script
def main(folder: Path, *, every: int = 1, embedding: str | None = None) -> None:
    """Print the tables, how right it accuses, the cost and the length."""
    for name, title in ((GROUNDEDNESS, "Labelled answers"), (MODERN, "Modern answers")):
        rows = read_rows(folder, name)[::every]
        good = [1 - row["label"] for row in rows]
        found, cost = judge_all(rows)
        shipped = [PASS_SCORE if each.groundedness is None else each.groundedness for each in found]
        scores: Scores = {"overlap": [overlap(row["output"], contexts(row)) for row in rows]}
        if name == GROUNDEDNESS:
            measured = training.Measured.of(training.with_foreign(rows))
            scores["documents"] = held_out_groundedness(rows, measured, lambda r: str(fold(r)))
            scores["families"] = held_out_groundedness(rows, measured, family)
            low, high = interval(rows, good, scores["documents"])
            print(f"unseen documents: 95 % interval of the macro [{low:.3f}, {high:.3f}]")
            print(in_published_units(rows, scores["documents"]))
        print_table(title, rows, good, scores | {"shipped": shipped})
        contradicted = [
            any(claim.verdict is ClaimVerdict.CONTRADICTED for claim in each.claims)
            for each in found
        ]
        accused = [row["label"] for row, each in zip(rows, contradicted, strict=True) if each]
        order = [
            soundness(score, contradicted=each)
            for score, each in zip(scores.get("documents", shipped), contradicted, strict=True)
        ]
        sources = by_source(rows).values()
        worst = " and ".join(
            f"{np.mean([five_worst(rows, order, at, n) for at in sources]):.0%} of {n}"
            for n in (200, 1_000)
        )
        median, high = np.quantile(cost, [0.5, 0.99])
        print(
            f"contradicted: {sum(accused)} of {len(accused)} answers are bad; of the five worst of"
            f" a 95 % good app, mean of sources: {worst}; CPU a sample: median {median:.2f} ms,"
            f" mean {np.mean(cost):.2f} ms, p99 {high:.1f} ms"
        )
    rows = read_rows(folder, RELEVANCE)[::every]
    parts: Scores = {"overlap": [overlap(row["query"], [row["output"]]) for row in rows]}
    parts["queries"] = held_out_relevance(rows, lambda row: str(fold(row)))
    parts["families"] = held_out_relevance(rows, family)
    if embedding is not None:
        meaning = Meaning(lru_cache(maxsize=None)(make_similarity(embedding)))
        parts["queries, meaning"] = held_out_relevance(rows, lambda r: str(fold(r)), meaning)
        parts["families, meaning"] = held_out_relevance(rows, family, meaning)
    kept = [i for i, row in enumerate(rows) if row["source"] != "template"]  # of one class
    parts = {name: [each[i] for i in kept] for name, each in parts.items()}
    good = [rows[i]["label"] for i in kept]
    print_table("Relevance", [rows[i] for i in kept], good, parts)
    rows, values = training.read_follow_ups()
    good = [row["label"] for row in rows]
    unseen = held_out_follow_ups(rows, values)
    words_shared = [overlap(row["query"], [row["output"]]) for row in rows]
    print_table(
        "Conversations, sets not seen", rows, good, {"overlap": words_shared, "sets": unseen}
    )
    for label, name in ((1, "right"), (0, "wrong")):
        of = np.array(
            [score for row, score in zip(rows, unseen, strict=True) if row["label"] == label]
        )
        print(f"{name} answers: {(of < FAILS).mean():.0%} fail, {(of >= PASSES).mean():.0%} pass")
    print_kinds_of_requests()
    code = Path(monitor.scoring.__file__).parent
    shared = [code / name for name in ("language.py", "sentences.py")]
    counts = [
        sum(len(path.read_text().splitlines()) for path in paths)
        for paths in ((code / "local").glob("*.py"), shared)
    ]
    print(f"lines: {counts[0]} of the scorer, {counts[1]} of words and sentences")
