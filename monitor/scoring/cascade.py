"""
A cascade: all samples are scored locally, and a judge is asked about some.

About which ones is drawn with a known probability, higher where the local score is
undecided. The pass rate that the judge would find in all samples is then estimated without bias,
whatever the local score is worth: see `monitor.stats.intervals`.

What is estimated is the judge's verdict on every sample that the local scorer can
score; where the judge finds nothing to judge, the local expectation stands for it. A
question that was not answered is a failed evaluation, and no part of the rate. For what
remains, the probability of a verdict is that of one among them, by the share of questions
that are answered: unbiased when failures do not depend on what the verdict would have been,
but for samples that are asked about more often weighing less by what fails of them.
"""

from __future__ import annotations

import hashlib
import math
import threading
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from monitor.models import Evaluation, EvaluationStatus, Interaction
from monitor.models.interaction import places_of
from monitor.scoring.base import UNSURE_SCORE
from monitor.scoring.calibration import Calibration, JudgedSample
from monitor.scoring.pipeline import JudgementScorer
from monitor.stats.intervals import answered_probability, difference_estimate

_LONGEST_VERSION = 180
_FLOOR = 0.25  # of the share: asked everywhere, however certain the local score looks
_FIRST_SPREAD = 0.35  # about what undecided samples have on average
_STEP = 0.02
_SMALLEST = 1e-3  # below it a single verdict would weigh more than a window


class AnsweredShare:
    """The share of questions that come back answered; may be shared by threads."""

    def __init__(self) -> None:
        self._share = 1.0
        self._lock = threading.Lock()

    @property
    def share(self) -> float:
        """The share so far, in [0.1, 1], the last fifty questions counting most."""
        return max(0.1, self._share)

    def note(self, *, answered: bool) -> None:
        """Count one question."""
        with self._lock:
            self._share += _STEP * (answered - self._share)


@dataclass(slots=True)
class Cascade:
    """Scores with *local*, and asks *judge* now and then; may be shared by threads."""

    local: JudgementScorer
    judge: JudgementScorer  #: scores the same metrics
    sampling: JudgeSampling  #: sets the probability of asking
    calibration: Calibration  #: learns what the judge is expected to say
    #: Returns the part of the share that the budget leaves, in [0, 1].
    budget_factor: Callable[[], float] = lambda: 1.0
    #: Returns the share of an app's samples to ask about, in (0, 1]; by default that of *sampling*.
    #: It may follow stored evidence (more while evidence of a fall builds up), but nothing of the
    #: sample itself: it is read before the sample is scored.
    share_of: Callable[[str], float] | None = None
    #: Names of segments in which the judge may be of another mind at the same local score.
    dimensions: tuple[str, ...] = ()
    _answering: AnsweredShare = field(default_factory=AnsweredShare)

    @property
    def version(self) -> str:
        """The judge and the coefficients of the local scorer; part of `evaluator_version`."""
        return cascade_version(self.judge.version, self.local.version)

    @property
    def concurrency(self) -> int:
        """How many calls of ``score`` are worth having in flight."""
        return self.judge.concurrency

    def score(self, interaction: Interaction, *, key: str = "") -> tuple[Evaluation, ...]:
        """
        Return one evaluation a metric, in order; *key* draws whether the judge is asked.

        Raises
        ------
        JudgeOutageError, BudgetReachedError, QueueUnavailableError
            If the judge should be asked and cannot be asked now.
        """
        share = None if self.share_of is None else self.share_of(interaction.app)
        local = tuple(map(_with_unsure_score, self.local.score(interaction, key=key)))
        # Numbers of the sample's segments, alike in all processes.
        places = tuple(
            zlib.crc32("=".join(place).encode(errors="replace"))
            for place in places_of(interaction, self.dimensions)
        )
        expected = {
            each.evaluator_name: self.calibration.expect(
                interaction.app, each.evaluator_name, float(each.score or 0.0), places
            )
            for each in local
            if each.status is EvaluationStatus.COMPLETED
        }
        probability, answered_share = 0.0, self._answering.share
        verdicts: dict[str, Evaluation] = {}
        if expected:
            spread = max(each.spread for each in expected.values())
            factor = self.budget_factor()
            probability = self.sampling.probability(spread, share=share, factor=factor)
            if draw(key or interaction.id) < probability:
                verdicts = {e.evaluator_name: e for e in self.judge.score(interaction, key=key)}
                failed = any(e.status is EvaluationStatus.FAILED for e in verdicts.values())
                self._answering.note(answered=not failed)

        def combined(each: Evaluation) -> Evaluation:
            name = each.evaluator_name
            wanted, judged = expected.get(name), verdicts.get(name)
            if wanted is None:
                return each
            if judged is not None and judged.status is EvaluationStatus.FAILED:
                return judged
            shown, verdict, local_score = each, None, float(each.score or 0.0)
            passed = score = None
            if judged is not None and judged.status is EvaluationStatus.COMPLETED:
                shown, score = judged, float(judged.score or 0.0)
                does_pass = self.calibration.rules[name].passes(score)
                verdict = JudgedSample(local_score, does_pass, score, places)
                passed = float(verdict.passed)
                self.calibration.learn(interaction.app, name, verdict)
            answered = answered_probability(probability, answered_share)
            metadata = (shown.metadata or {}) | {
                "judged": verdict is not None,
                "judge_probability": probability,
                "answered_share": answered_share,
                "local_score": local_score,
                "expected_pass": wanted.passes,
                "pass_estimate": difference_estimate(wanted.passes, passed, answered),
                "score_estimate": difference_estimate(wanted.score, score, answered),
            }
            if share not in {None, self.sampling.share}:
                # What is judged more densely than usual tells more: see `gain_of_share`.
                metadata |= {"judge_share": share, "usual_share": self.sampling.share}
            if judged is not None and verdict is None:
                metadata["judge_skipped"] = judged.reason
            return shown.model_copy(update={"metadata": metadata})

        version, made = self.version, []
        for metric, each in zip(self.local.metrics, local, strict=True):
            paid_usd = getattr(
                verdicts.get(metric.name), "cost_usd", None
            )  # whether or not it was scored
            update: dict[str, Any] = {"evaluator_version": metric.judged_by(version)}
            update |= {} if paid_usd is None else {"cost_usd": paid_usd}
            made.append(combined(each).model_copy(update=update))
        return tuple(made)

    def close(self) -> None:
        """Close the connections of both."""
        self.local.close()
        self.judge.close()


def _with_unsure_score(each: Evaluation) -> Evaluation:
    """Return an evaluation with the score that the local scorer is not sure of, if it has one."""
    metadata = dict(each.metadata or {})
    if (score := metadata.pop(UNSURE_SCORE, None)) is None:
        return each
    metadata.pop("reason", None)
    update = {"status": EvaluationStatus.COMPLETED, "score": score, "metadata": metadata}
    return each.model_copy(update=update)


class JudgeSampling:
    """
    Probabilities of asking the judge that follow the spread and average to a share.

    For a given number of calls the variance of the estimate is least when they are
    in proportion to the standard deviation of what the judge may say (Neyman). The
    scale follows what was asked before, so it is known before each sample is scored;
    a floor everywhere keeps a prediction that is wrongly certain from hiding anything
    for ever. *share* is that of samples to ask about, in (0, 1]. May be shared by threads.

    References
    ----------
    .. [1] J. Neyman, "On the two different aspects of the representative method",
       Journal of the Royal Statistical Society 97 (1934), 558-625.
    .. [2] T. Zrnic, E. J. Candès, "Active statistical inference", ICML (2024).
    """

    def __init__(self, share: float) -> None:
        self.share = share
        self._log_scale = -math.log(_FIRST_SPREAD)
        self._lock = threading.Lock()

    def probability(
        self, spread: float, *, share: float | None = None, factor: float = 1.0
    ) -> float:
        """
        Return the probability, in (0, 1], of asking about a sample.

        *spread* says how undecided its pass is (`Expected.spread`), in [0, 0.5]; *share* is that
        of this sample, in (0, 1], by default that of all; *factor* is the part of the share that
        the budget leaves, in [0, 1].
        """
        share = self.share if share is None else share
        if share >= 1:
            return max(factor, _SMALLEST)
        with self._lock:
            # The scale is a multiple of the share, so that a share that moves finds it fitted.
            wanted = min(1.0, share * max(_FLOOR, math.exp(self._log_scale) * spread))
            self._log_scale += _STEP * (share - wanted) / share
            # Where all that is undecided is asked already, no scale brings more.
            self._log_scale = min(max(self._log_scale, -10.0), 10.0)
        return max(wanted * factor, _SMALLEST)


def draw(key: str) -> float:
    """Return a number in [0, 1) for a sample, the same whenever and wherever it is scored."""
    digest = hashlib.sha256(b"groundwatch cascade\0" + key.encode(errors="replace")).digest()
    return int.from_bytes(digest[:7], "big") / 2**56


def cascade_version(judge: str, local: str) -> str:
    """Return the version of a cascade: of its judge and its local scorer."""
    return f"cascade-{judge}-{local.rpartition('-')[2]}"[:_LONGEST_VERSION]
