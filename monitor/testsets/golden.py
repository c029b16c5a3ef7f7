"""Golden cases from production: a sample becomes a test case, once or by what people labelled."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from sqlalchemy import Connection

from monitor.errors import RecordError
from monitor.models import HumanAIEvaluation, RaterEvaluation
from monitor.stats.agreement import krippendorff_alpha, majority
from monitor.store.labels import Label, all_labels
from monitor.store.samples import StoredSample, read_sample
from monitor.testsets.cases import TestCase

#: What a case keeps of the answer that was given, in its metadata.
PRODUCTION = "production"


class GoldenSet(NamedTuple):
    """
    The cases on which most annotators agree, and what was left out.

    ``disputed`` are samples whose annotators are split evenly, ``single`` those that have fewer
    annotators than were asked for, ``gone`` those that are no longer stored. ``alpha`` is
    Krippendorff's, over all samples with two annotators.
    """

    cases: list[TestCase]
    disputed: list[str]
    single: int
    gone: int
    alpha: float | None


def golden_case(
    stored: StoredSample,
    labels: Sequence[Label] = (),
    *,
    answer: str | None = None,
    tags: Iterable[str] = (),
    critical: bool = False,
) -> TestCase:
    """
    Return a sample as a test case.

    What the app answered is kept in ``metadata["production"]``, with the metrics that failed. It
    becomes the expected answer only where people passed it, or else *answer* is that.

    Raises
    ------
    RecordError
        If the sample has no question: there is nothing to ask again.
    """
    sample = stored.sample
    it = sample.interaction
    if not it.query:
        raise RecordError(
            f"sample {sample.sample_id} has no question (texts may have been deleted, or only"
            " metadata captured), so that nothing can be asked again"
        )
    votes = [label.human_passed for label in labels]
    good = majority(sum(votes), len(votes) - sum(votes))
    failed = sorted(each.metric for each in stored.evaluations if each.passed is False)
    is_failure = bool(failed) if good is None else not good
    expected = dict(it.expected or {})
    if answer is not None:
        expected["answer"] = answer
    elif good and "answer" not in expected:
        expected["answer"] = it.output
    return TestCase(
        id=sample.sample_id,
        query=it.query,
        history=tuple(turn.model_dump(exclude_none=True) for turn in it.history),
        expected=expected,
        tags=(PRODUCTION, "failure" if is_failure else "good", *tags),
        critical=critical,
        metadata={PRODUCTION: {
            "output": it.output, "contexts": [passage.text for passage in it.contexts],
            "release": it.release, "failed": failed,
            "passes": sum(votes), "fails": len(votes) - sum(votes),
        }},
    )  # fmt: skip


def golden_set(connection: Connection, *, app: str, metric: str, annotators: int = 1) -> GoldenSet:
    """Return what people labelled as test cases, by majority of at least so many annotators."""
    by_sample: dict[str, dict[str, Label]] = defaultdict(dict)
    for label in all_labels(connection, app=app, metric=metric):
        by_sample[label.sample_id][label.labelled_by] = label  # the last word counts
    cases, disputed, single, gone = [], [], 0, 0
    for sample_id, by_annotator in by_sample.items():
        said = list(by_annotator.values())
        passes = sum(label.human_passed for label in said)
        if len(said) < annotators:
            single += 1
        elif majority(passes, len(said) - passes) is None:
            disputed.append(sample_id)
        elif (stored := read_sample(connection, sample_id)) is None:
            gone += 1
        else:
            try:
                cases.append(golden_case(stored, said))
            except RecordError:
                gone += 1
    votes = [
        (sum(label.human_passed for label in said.values()), len(said))
        for said in by_sample.values()
    ]
    counts = np.array([(passes, n - passes) for passes, n in votes], dtype=float).reshape(-1, 2)
    return GoldenSet(cases, disputed, single, gone, krippendorff_alpha(counts))


def human_ai_records(
    connection: Connection, *, app: str, metric: str
) -> Iterator[HumanAIEvaluation]:
    """Yield a record for each label: the person's verdict beside the evaluator's score."""
    for label in all_labels(connection, app=app, metric=metric):
        stored = read_sample(connection, label.sample_id)
        evaluations = () if stored is None else stored.evaluations
        score = next(
            (
                each.evaluation.score
                for each in evaluations
                if (each.metric, each.evaluator_version) == (metric, label.evaluator_version)
            ),
            None,
        )
        ai_score = float(label.judge_passed) if isinstance(score, str | None) else float(score)
        human_score = float(label.human_passed)
        agreement = max(0.0, 1 - abs(human_score - ai_score))
        person, evaluator = (
            "passed" if each else "failed" for each in (label.human_passed, label.judge_passed)
        )
        differ = f"{label.labelled_by} {person} it, the evaluator {evaluator} it"
        yield HumanAIEvaluation(
            evaluator_name="human_ai_comparison",
            target_event_id=label.sample_id,
            score=1 - abs(human_score - ai_score),
            human_evaluation=RaterEvaluation(
                annotator_id=label.labelled_by, score=human_score, explanation=label.note
            ),
            ai_evaluation=RaterEvaluation(model=label.evaluator_version, score=ai_score),
            agreement_score=agreement,
            discrepancy_analysis="" if person == evaluator else differ,
            timestamp=label.labelled_at,
        )
