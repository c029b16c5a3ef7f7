"""One run of the app as a sheet knows it: who ran, and what each metric came to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field


class Figure(NamedTuple):
    """What one metric came to: its score, the figure behind it where there is one, and why."""

    score: float | None
    value: float | None = None
    explanation: str = ""


class Run(BaseModel):
    """An interaction that was sampled, without its texts."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    sample_id: str
    run_id: str = Field(description="The interaction's own id.")
    app: str
    at: AwareDatetime
    company_name: str = ""
    model_used: str = ""
    figures: Mapping[str, Figure] = Field(default_factory=dict, description="By metric.")
