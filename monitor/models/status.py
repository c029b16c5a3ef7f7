"""What the rolling aggregator says about the data of one app, metric and window."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, model_validator


class Status(StrEnum):
    """A verdict on data; worst is not last: unknown is neither good nor bad."""

    HEALTHY = "healthy"
    WARNING = "warning"
    CRITICAL = "critical"
    INSUFFICIENT_DATA = "insufficient_data"  #: too few scores to say anything
    BLIND = "blind"  #: the monitor itself does not see: the judge fails, nothing is scored


class Drift(BaseModel):
    """How far the scores of a window lie from those of the reference before it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    reference_pass_rate: float | None = Field(None, ge=0.0, le=1.0)
    reference_average_score: float | None = None
    reference_n: int = Field(0, ge=0)
    psi: float | None = Field(
        None, ge=0.0, description="Population stability index; 0.25 is major."
    )
    ks: float | None = Field(None, ge=0.0, le=1.0, description="Kolmogorov-Smirnov distance.")


class Verdict(BaseModel):
    """
    The status of one app and metric, with the figures on which it rests.

    ``pass_rate``, ``low``, ``high``, ``n`` and ``since`` are these figures: of the time since the
    change where the policy found one, else of the last half to whole day, or of the window where
    the policy looks at windows. Under the policy ``anytime`` the status is read from ``high``:
    critical is below the critical threshold, warning below the warning threshold and not below
    the critical one, healthy is not below the warning threshold. The figures of the window itself
    are those that begin with ``window_``. Rates are in [0, 1], absent when nothing was scored.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

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
    n: int = Field(ge=0, description="Completed evaluations that the pass rate rests on.")
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
    evaluated_at: AwareDatetime

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
