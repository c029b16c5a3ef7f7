"""
What is summed of the scores of a stream, and what the rolling aggregator says of them.

A stream is one app, metric, segment and evaluator version.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from enum import StrEnum
from operator import attrgetter
from typing import Any, Literal, NamedTuple, Self

from pydantic import AwareDatetime, BaseModel, Field, model_validator

#: Scores are counted in bins centred on 0.00, 0.01, ... 1.00.
BINS = 101


def score_bin(score: float) -> int:
    """Return the bin of a score, 0 to 100; scores outside [0, 1] are in the nearest."""
    return min(BINS - 1, max(0, int(score * (BINS - 1) + 0.5)))


class StreamKey(NamedTuple):
    """
    Whose scores are summed together.

    A new evaluator version is a new stream, so that a change of the judge never
    looks like a change of quality. ``segment`` is ``*`` for the whole app, or
    ``dimension=value`` for one segment.
    """

    app: str
    metric: str
    segment: str
    evaluator_version: str


#: The segment that holds every evaluation of an app.
ROOT = "*"
#: The value of a dimension under which all are counted that have no segment of their own.
OTHER = "(other)"


def segment_name(dimension: str, value: str) -> str:
    """Return the name of a segment: ``dimension=value``."""
    return f"{dimension}={value}"


def certainty(probability: float) -> str:
    """Return "90 % certain", "95 % certain" or "99 % certain", rounded down; "" below 0.9."""
    levels = (99, 95, 90)
    return next((f"{level} % certain" for level in levels if probability >= level / 100), "")


#: What an evaluation counts in a window, under this name in its metadata; else 1.
WINDOW_WEIGHT = "window_weight"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """
    Sums over evaluations; ``+`` merges two of them.

    ``n`` counts completed evaluations, ``passed`` those at or above the pass
    score. ``w`` is a weight: that of the evaluation over the sample rate; ``y`` is 1 for a
    pass; ``x`` is the score in [0, 1]. Where a judge was asked about some samples
    only, ``y`` and ``x`` are unbiased estimates of what it would have said, and may
    lie outside [0, 1]; ``judged`` counts those it was asked about, ``agreed`` those
    of them on which the local score came to the same. Failed and skipped ones are
    counted apart and enter no rate; ``late`` counts those that came after their
    bucket had settled.
    """

    n: int = 0
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    judged: int = 0
    agreed: int = 0
    late: int = 0
    sum_w: float = 0.0
    sum_w2: float = 0.0
    sum_wy: float = 0.0
    sum_w2y: float = 0.0
    sum_w2yy: float = 0.0
    sum_x: float = 0.0
    sum_x2: float = 0.0
    sum_wx: float = 0.0
    sum_wxx: float = 0.0
    cost_microusd: int = 0
    histogram: Counter[int] = field(default_factory=Counter)

    def __add__(self, other: Self) -> Self:
        """Merge two tallies; addition is commutative and associative."""
        sums = {name: getattr(self, name) + getattr(other, name) for name in TALLY_SUMS}
        return type(self)(**sums, histogram=self.histogram + other.histogram)

    @classmethod
    def total(cls, tallies: Iterable[Self]) -> Self:
        """Merge any number of tallies, much faster than one after the other."""
        many = list(tallies)
        if len(many) == 1:
            return many[0]
        columns = zip(*map(_SUMS_OF, many), strict=True)
        histogram: Counter[int] = Counter()
        for one in many:
            for position, n in one.histogram.items():
                histogram[position] += n
        sums = dict(zip(TALLY_SUMS, map(sum, columns), strict=True)) if many else {}
        return cls(**sums, histogram=histogram)


#: The fields that are plain sums: all but the histogram. A table of buckets has a column for each.
TALLY_SUMS = tuple(item.name for item in fields(Tally) if item.name != "histogram")
_SUMS_OF = attrgetter(*TALLY_SUMS)


class Status(StrEnum):
    """A verdict on data; worst is not last: unknown is neither good nor bad."""

    HEALTHY = "healthy"
    WARNING = "warning"
    CRITICAL = "critical"
    INSUFFICIENT_DATA = "insufficient_data"  #: too few scores to say anything
    BLIND = "blind"  #: the monitor itself does not see: the judge fails, nothing is scored


class Drift(BaseModel, frozen=True, extra="forbid"):
    """How far the scores of a window lie from those of the reference before it."""

    reference_pass_rate: float | None = Field(None, ge=0.0, le=1.0)
    reference_average_score: float | None = None
    reference_n: int = Field(0, ge=0)
    psi: float | None = Field(
        None, ge=0.0, description="Population stability index; 0.25 is major."
    )
    ks: float | None = Field(None, ge=0.0, le=1.0, description="Kolmogorov-Smirnov distance.")


class AppLevel(BaseModel, frozen=True, extra="forbid"):
    """
    Whether a pass rate is known to be the share of good answers, and by what.

    Where it is verified by labels, ``pass_rate``, ``low`` and ``high`` of the verdict are the
    level, corrected for what the evaluator gets wrong, and those here are the evaluator's own,
    with the thresholds in its own units. Rates are in [0, 1].
    """

    verified: bool
    by: Literal["labels", "judge"] | None = None
    n_labels: int = Field(0, ge=0, description="Labels drawn at random that count.")
    release: str = Field("", description="The release that the labels hold for.")
    until: AwareDatetime | None = Field(None, description="Then the labels expire.")
    needs: str = Field("", description="What would verify it, if it is not verified.")
    pass_rate: float | None = Field(None, ge=0.0, le=1.0)
    low: float | None = Field(None, ge=0.0, le=1.0)
    high: float | None = Field(None, ge=0.0, le=1.0)
    warning_rate: float | None = Field(None, ge=0.0, le=1.0)
    critical_rate: float | None = Field(None, ge=0.0, le=1.0)


class Verdict(BaseModel, frozen=True, extra="forbid"):
    """
    The status of one app and metric, with the figures on which it rests.

    ``pass_rate``, ``low``, ``high``, ``n`` and ``since`` are these figures: of the time since the
    change where the policy found one, else of the last half to whole day, or of the window where
    the policy looks at windows. Under the policy ``anytime`` the status is read from ``high``:
    critical is below the critical threshold, warning below the warning threshold and not below
    the critical one, healthy is not below the warning threshold. The figures of the window itself
    are those that begin with ``window_``. Rates are in [0, 1], absent when nothing was scored.
    """

    app: str
    metric: str
    segment: str = "*"
    evaluator_version: str = ""
    window_s: int = Field(gt=0, description="Width of the window of the second figures.")
    policy: str
    status: Status
    point_status: Status = Field(description="What the plain rate of the window would say.")
    reason: str = Field(description="Why this status, in a sentence for people.")
    phase: Literal["collecting", "undecided"] | None = Field(
        None, description="Of insufficient_data: too few scores, or not beyond chance yet."
    )
    pass_rate: float | None = Field(None, ge=0.0, le=1.0)
    low: float | None = Field(None, ge=0.0, le=1.0)
    high: float | None = Field(None, ge=0.0, le=1.0, description="The status is read from it.")
    n: int = Field(ge=0, description="Completed evaluations that the pass rate is based on.")
    since: AwareDatetime = Field(description="From when on these figures count.")
    status_since: AwareDatetime = Field(description="When this status began.")
    window_pass_rate: float | None = Field(None, ge=0.0, le=1.0)
    window_low: float | None = Field(None, ge=0.0, le=1.0, description="Holds for one look only.")
    window_high: float | None = Field(None, ge=0.0, le=1.0)
    window_n: int = Field(0, ge=0, description="Completed evaluations in the window.")
    average_score: float | None = Field(None, description="Of the window.")
    n_effective: float = Field(
        0.0, ge=0.0, description="What the window's are worth, unequal as they are."
    )
    evidence: Literal["none", "probable", "confirmed"] | None = Field(
        None, description="How certain a bad status is; absent when the policy collects none."
    )
    onset: AwareDatetime | None = Field(None, description="When the fall most likely began.")
    onset_earliest: AwareDatetime | None = None
    onset_latest: AwareDatetime | None = None
    more_n: int | None = Field(
        None, ge=0, description="About so many more samples decide, if the rate goes on."
    )
    resolution: float | None = Field(
        None, ge=0.0, le=1.0, description="Only a fall below this would be seen within a day."
    )
    n_failed: int = Field(0, ge=0)
    n_skipped: int = Field(0, ge=0)
    n_total: int = Field(
        0, ge=0, description="Evaluations ever counted; tells new evidence from old."
    )
    n_judged: int = Field(0, ge=0, description="Those a cascade asked its judge about.")
    n_agreed: int = Field(0, ge=0, description="Judged ones on which the local score agreed.")
    cost_usd: float = Field(0.0, ge=0.0)
    drift: Drift | None = None
    level: AppLevel | None = Field(
        None, description="Absent of what is not scored by an evaluator."
    )
    evaluated_at: AwareDatetime

    @property
    def level_verified(self) -> bool:
        """Whether the pass rate is known to be the share of good answers, or estimates nothing."""
        return self.level is None or self.level.verified

    @model_validator(mode="before")
    @classmethod
    def _of_before(cls, value: Any) -> Any:
        """Read a verdict as it was stored when its figures were those of the window."""
        if not isinstance(value, dict) or "status_since" in value:
            return value
        old = {name: kept for name, kept in value.items() if name not in ("low_any", "high_any")}
        window = {f"window_{name}": old.get(name) for name in ("pass_rate", "low", "high")}
        window["window_n"] = old.get("n", 0)
        return window | {"status_since": old.get("since")} | old


class FleetFall(BaseModel, frozen=True, extra="forbid"):
    """Apps that share something and fell together: the figures of all of them as one stream."""

    metric: str
    evaluator_version: str
    shared: str = Field("", description="What else they share, such as model=m2.")
    status: Literal[Status.WARNING, Status.CRITICAL]
    status_since: AwareDatetime
    since: AwareDatetime = Field(description="When the fall is thought to have begun.")
    pass_rate: float
    low: float
    high: float
    n: int = Field(description="Scores of all apps since then.")
    fell: tuple[str, ...] = Field(description="Apps seen to fall, the most certain ones first.")
    n_apps: int = Field(description="Apps in the pool; the others have too few samples to tell.")
    cause: str


class Movement(BaseModel, frozen=True, extra="forbid"):
    """
    The difference of two pass rates, after - before, with its interval.

    Rates are in [0, 1] and differences in [-1, 1]; sizes are effective ones, after weights
    and the design effect. ``certain`` means that it was chosen among all that were compared.
    """

    app: str
    metric: str
    before: float = Field(ge=0.0, le=1.0)
    after: float = Field(ge=0.0, le=1.0)
    n_before: float = Field(gt=0.0)
    n_after: float = Field(gt=0.0)
    low: float = Field(ge=-1.0, le=1.0)
    high: float = Field(ge=-1.0, le=1.0)
    p_value: float = Field(ge=0.0, le=1.0)
    certain: bool = False

    @property
    def difference(self) -> float:
        """After - before."""
        return self.after - self.before
