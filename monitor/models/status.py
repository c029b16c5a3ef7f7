"""What the rolling aggregator says about the data of one app, metric and window."""

from __future__ import annotations

from enum import StrEnum

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field


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
    The status of one app, metric and window, with what it rests on.

    Rates are in [0, 1]; ``low`` and ``high`` bound the pass rate. They are absent
    when nothing was scored.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    app: str
    metric: str
    segment: str = "*"
    evaluator_version: str = ""
    window_s: int = Field(gt=0)
    policy: str
    status: Status
    point_status: Status = Field(description="The plain rule of seed 000, always shown beside.")
    reason: str = Field(description="Why this status, in a sentence for people.")
    pass_rate: float | None = Field(None, ge=0.0, le=1.0)
    low: float | None = Field(None, ge=0.0, le=1.0)
    high: float | None = Field(None, ge=0.0, le=1.0)
    average_score: float | None = None
    n: int = Field(ge=0, description="Completed evaluations in the window.")
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
    since: AwareDatetime = Field(description="When this status began.")
