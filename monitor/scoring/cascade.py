"""
A cascade: all samples are scored locally, and a judge is asked about some of them.

About which ones is drawn with a known probability, higher where the local score is
undecided. What the judge would say of all of them is then estimated without bias,
whatever the local score is worth: see `monitor.stats.prediction_powered`.

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
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from monitor.models import Evaluation, EvaluationStatus, Interaction
from monitor.models.passing import PassRule
from monitor.models.segments import places_of
from monitor.scoring.calibration import Calibration, Expected, Verdict
from monitor.scoring.scorer import Scorer
from monitor.stats.prediction_powered import difference_estimate

_LONGEST_VERSION = 180


# --- asking ---
# With which probability the judge is asked about a sample, and whether it is.


_FLOOR = 0.1  # of the share: asked everywhere, however certain the local score looks
_FIRST_SPREAD = 0.35  # about what undecided samples have on average
_STEP = 0.02
_SMALLEST = 1e-3  # below it a single verdict would weigh more than a window


class JudgeSampling:
    """
    Probabilities that follow the spread and average to a share; for threads.

    For a given number of calls the variance of the estimate is least when they are
    in proportion to the standard deviation of what the judge may say (Neyman). The
    scale follows what was asked before, so it is known before each sample is looked
    at; a floor everywhere keeps a prediction that is wrongly certain from hiding
    anything for ever.

    References
    ----------
    .. [1] J. Neyman, "On the two different aspects of the representative method",
       Journal of the Royal Statistical Society 97 (1934), 558-625.
    .. [2] T. Zrnic, E. J. Candès, "Active statistical inference", ICML (2024).
    """

    def __init__(self, share: float) -> None:
        self._share = share
        self._log_scale = math.log(share / _FIRST_SPREAD)
        self._lock = threading.Lock()

    def probability(self, spread: float, *, factor: float = 1.0) -> float:
        """
        Give the probability for a sample whose pass has the standard deviation *spread*.

        Parameters
        ----------
        spread
            In [0, 0.5].
        factor
            In [0, 1]: the part of the share that the budget leaves.

        Returns
        -------
        float
            In (0, 1].
        """
        if self._share >= 1:
            return max(factor, _SMALLEST)
        with self._lock:
            wanted = min(1.0, max(_FLOOR * self._share, math.exp(self._log_scale) * spread))
            self._log_scale += _STEP * (self._share - wanted) / self._share
            # Where all that is undecided is asked already, no scale brings more.
            self._log_scale = min(max(self._log_scale, -10.0), 5.0)
        return max(wanted * factor, _SMALLEST)


class Answering:
    """The share of questions that come back answered; for threads."""

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


def draw(key: str) -> float:
    """Draw a number in [0, 1) for a sample, the same whenever and wherever it is scored."""
    digest = hashlib.sha256(b"groundwatch cascade\0" + key.encode(errors="replace")).digest()
    return int.from_bytes(digest[:7], "big") / 2**56


@dataclass(slots=True)
class Cascade:
    """
    Scores with *local*, and asks *judge* now and then; may be shared by threads.

    ``factor`` gives the part of the share that the budget leaves, in [0, 1]; ``rules`` say
    when a metric passes that does not pass at the pass score or above; ``dimensions`` name
    the segments in which the judge may be of another mind at the same local score.
    """

    local: Scorer
    judge: Scorer
    asking: JudgeSampling
    calibration: Calibration
    factor: Callable[[], float] = lambda: 1.0
    rules: Mapping[str, PassRule] = field(default_factory=dict)
    dimensions: tuple[str, ...] = ()
    _answering: Answering = field(default_factory=Answering)

    @property
    def version(self) -> str:
        """The ``evaluator_version`` of everything this scorer makes."""
        return cascade_version(self.judge.version, self.local.version)

    @property
    def concurrency(self) -> int:
        """How many calls of ``score`` are worth having in flight."""
        return self.judge.concurrency

    def score(self, interaction: Interaction, *, key: str = "") -> tuple[Evaluation, ...]:
        """
        Make one evaluation a metric, in order; *key* draws whether the judge is asked.

        Raises
        ------
        JudgeOutageError, BudgetReachedError, QueueUnavailableError
            If the judge is to be asked and nobody can be asked now.
        """
        found = self.local.score(interaction, key=key)
        places = self._places(interaction)
        expected = {
            each.evaluator_name: self.calibration.expect(
                interaction.app, each.evaluator_name, float(each.score or 0.0), places
            )
            for each in found
            if each.status is EvaluationStatus.COMPLETED
        }
        if not expected:
            return tuple(each.model_copy(update=self._named()) for each in found)
        spread = max(each.spread for each in expected.values())
        probability = self.asking.probability(spread, factor=self.factor())
        said: dict[str, Evaluation] = {}
        answered_share = self._answering.share
        if draw(key or interaction.id) < probability:
            said = {e.evaluator_name: e for e in self.judge.score(interaction, key=key)}
            failed = any(e.status is EvaluationStatus.FAILED for e in said.values())
            self._answering.note(answered=not failed)
        return tuple(
            self._combined(
                each,
                said.get(each.evaluator_name),
                expected.get(each.evaluator_name),
                _Sample(interaction.app, places, probability, answered_share),
            )
            for each in found
        )

    def close(self) -> None:
        """Give connections back."""
        self.local.close()
        self.judge.close()

    def _combined(
        self,
        local: Evaluation,
        judged: Evaluation | None,
        expected: Expected | None,
        sample: _Sample,
    ) -> Evaluation:
        if expected is None:
            return local.model_copy(update=self._named(judged))
        if judged is not None and judged.status is EvaluationStatus.FAILED:
            return judged.model_copy(update=self._named())
        local_score, verdict = float(local.score or 0.0), None
        shown = local
        if judged is not None and judged.status is EvaluationStatus.COMPLETED:
            shown, truth = judged, float(judged.score or 0.0)
            rule = self.rules.get(local.evaluator_name, PassRule(self.local.pass_score))
            verdict = Verdict(local_score, rule.passes(truth), truth, sample.places)
            self.calibration.learn(sample.app, local.evaluator_name, verdict)
        metadata = (shown.metadata or {}) | _noted(local_score, verdict, expected, sample)
        if judged is not None and verdict is None:
            metadata["judge_skipped"] = judged.reason
        return shown.model_copy(update={"metadata": metadata, **self._named(judged)})

    def _places(self, interaction: Interaction) -> tuple[int, ...]:
        """Number the segments of a sample, alike in all processes."""
        found = places_of(interaction, self.dimensions)
        return tuple(zlib.crc32("=".join(place).encode(errors="replace")) for place in found)

    def _named(self, judged: Evaluation | None = None) -> dict[str, Any]:
        """Name the evaluator; a question is paid for whatever came of it."""
        paid = {} if judged is None or judged.cost_usd is None else {"cost_usd": judged.cost_usd}
        return {"evaluator_version": self.version, **paid}


@dataclass(frozen=True, slots=True)
class _Sample:
    app: str
    places: tuple[int, ...]
    probability: float
    answered_share: float


def _noted(
    local_score: float, verdict: Verdict | None, expected: Expected, sample: _Sample
) -> dict[str, Any]:
    each = answered_probability(sample.probability, sample.answered_share)
    passed, score = (None, None) if verdict is None else (float(verdict.passed), verdict.score)
    return {
        "judged": verdict is not None,
        "judge_probability": sample.probability,
        "answered_share": sample.answered_share,
        "local_score": local_score,
        "pass_estimate": difference_estimate(expected.passes, passed, each),
        "score_estimate": difference_estimate(expected.score, score, each),
    }


def answered_probability(probability: float, answered_share: float) -> float:
    """
    Tell how probable a verdict is for a sample that has a score, in (0, 1].

    Of the samples a part `probability * (1 - answered_share)` fails and has none. Who asks
    about all of them knows the verdict on each that is left.
    """
    answered = probability * answered_share
    return answered / (1 - probability + answered)


def cascade_version(judge: str, local: str) -> str:
    """Name a cascade by its judge and the coefficients of its local scorer."""
    return f"cascade-{judge}-{local.rpartition('-')[2]}"[:_LONGEST_VERSION]
