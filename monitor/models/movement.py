"""How far the pass rate of one app and metric moved between two stretches of time."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class Movement(BaseModel):
    """
    The difference of two pass rates, after - before, with its interval.

    Rates are in [0, 1] and differences in [-1, 1]; sizes are effective ones, after weights
    and the design effect. ``certain`` means that it was chosen among all that were compared.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

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
