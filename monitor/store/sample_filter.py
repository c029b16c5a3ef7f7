"""
Say which samples are wanted, by anything that is known of them.

Most conditions are facets, which `monitor.store.sample_index` keeps for each sample; the others
are SQL.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, Self

from pydantic import (
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from monitor.errors import first_mistake
from monitor.models.status import score_bin
from monitor.settings.kinds import parse_time
from monitor.store.columns import facet

_MOST_PHRASES = 20
#: A facet that no sample has.
NO_SAMPLE = facet()


class SampleFilter(BaseModel):
    """Which samples are wanted; what is empty does not matter. Texts are compared whole."""

    model_config = ConfigDict(frozen=True, extra="forbid", str_max_length=500)

    app: str = ""
    metric: str = ""
    outcome: Literal["", "passed", "failed", "scored", "unscored"] = Field(
        "", description="Of the metric; without one: failed in any, passed in all with a score."
    )
    reason: str = Field("", description="Why there is no score, such as no_context.")
    evaluator: str = Field("", description="Version of the evaluator; needs a metric.")
    min_score: float | None = Field(None, ge=-1e9, le=1e9, description="Needs a metric.")
    max_score: float | None = Field(None, ge=-1e9, le=1e9, description="Needs a metric.")
    label: Literal["", "pass", "fail", "any", "none"] = Field("", description="What people said.")
    segment: tuple[str, ...] = Field((), max_length=10, description="dimension=value, all of them.")
    tag: tuple[str, ...] = Field((), max_length=10, description="name=value, all of them.")
    release: str = ""
    user: str = ""
    session: str = ""
    trace: str = ""
    since: AwareDatetime | None = None
    until: AwareDatetime | None = None
    sample: tuple[str, ...] = Field((), max_length=100, description="Ids of samples, any of them.")
    text: str = Field("", description='Words of question or answer; "a phrase", begin*.')

    @field_validator("segment", "tag")
    @classmethod
    def _are_pairs(cls, given: tuple[str, ...]) -> tuple[str, ...]:
        for each in given:
            name, sign, _ = each.partition("=")
            if not sign or not name.strip():
                raise ValueError(f"expected name=value, not {each[:40]!r}")
        return given

    @model_validator(mode="after")
    def _needs_metric(self) -> Self:
        scored = self.evaluator or self.min_score is not None or self.max_score is not None
        if scored and not self.metric:
            raise ValueError("a score range or an evaluator needs a metric")
        return self

    @classmethod
    def parse(cls, values: Mapping[str, Sequence[str]], now: datetime) -> Self:
        """
        Read a filter from texts, as a query or a command line gives them; unknown names are left.

        ``since`` and ``until`` are ISO 8601, in UTC unless they say otherwise, or how long ago,
        such as 90s, 15m, 24h or 7d. Raise ValueError if a value is not one of its field; the
        message says what was expected.
        """
        found: dict[str, Any] = {}
        for name in cls.model_fields:
            given = [value for value in values.get(name, ()) if value.strip()]
            if given and name in {"segment", "tag", "sample"}:
                found[name] = given
            elif given and name in {"since", "until"}:
                found[name] = parse_time(given[-1], now)
            elif given:
                found[name] = given[-1]
        try:
            return cls.model_validate(found)
        except ValidationError as error:
            raise ValueError(": ".join(first_mistake(error)).removeprefix(": ")) from None

    def facets(self, one_of: Sequence[int] = ()) -> Iterator[list[int]]:
        """Yield groups of facets: a sample has one of each, and of *one_of*, bins of the metric."""
        for name in ("app", "release", "user"):
            if value := getattr(self, name):
                yield [facet(name, value)]
        for name in ("segment", "tag"):
            yield from ([facet(name, v), facet("both", v)] for v in getattr(self, name))
        of_metric = [list(one_of)] if one_of else []
        if self.outcome:
            names = ("passed", "failed") if self.outcome == "scored" else (self.outcome,)
            of_metric.append([facet("ended", self.metric, name) for name in names])
        if self.reason:
            of_metric.append([facet("reason", self.metric, self.reason)])
        if self.evaluator:
            of_metric.append([facet("evaluator", self.metric, self.evaluator)])
        if self.min_score is not None or self.max_score is not None:
            lowest, highest = self._score_range()
            bins = range(score_bin(lowest), score_bin(highest) + 1)
            of_metric.append(self.bins(bins) or [NO_SAMPLE])
        # All of these imply the metric, whose own lists may be as long as the store.
        if self.metric and not of_metric:
            any_of = ("passed", "failed", "unscored")
            of_metric = [[facet("ended", self.metric, name) for name in any_of]]
        yield from of_metric

    def bins(self, numbers: Iterable[int]) -> list[int]:
        """Return the facets of scores in bins, of the outcome that is wanted."""
        # One for each outcome: of two long lists without a common sample, all would be read.
        outcomes = [name for name in ("passed", "failed") if self.outcome in {"", "scored", name}]
        return [
            facet("bin", self.metric, name, str(number)) for number in numbers for name in outcomes
        ]

    def _score_range(self) -> tuple[float, float]:
        lowest = -1e9 if self.min_score is None else self.min_score
        return lowest, 1e9 if self.max_score is None else self.max_score

    def phrases(self) -> list[str]:
        """Return the words and quoted phrases of the text; a final * stands for any ending."""
        found = (a or b for a, b in re.findall(r'"([^"]+)"|([^\s"]+)', self.text))
        return [phrase for phrase in found if any(map(str.isalnum, phrase))][:_MOST_PHRASES]

    def conditions(self) -> tuple[list[str], dict[str, Any]]:
        """Return what the index does not hold, as SQL: traces, labels, exact scores."""
        parts, values = list[str](), dict[str, Any]()
        for name in ("session", "trace"):
            if value := getattr(self, name):
                values[name] = value[:200].replace("\0", "\ufffd")
                of_name = f"SELECT position FROM groundwatch_samples WHERE {name}_id = :{name}"  # noqa: S608  # bound
                parts.append(f"{{position}} IN ({of_name})")
        if self.label:
            said = "SELECT s.position FROM groundwatch_labels l JOIN groundwatch_samples s"
            said += " ON s.sample_id = l.sample_id WHERE s.position IS NOT NULL"
            if self.metric:
                said, values["label_metric"] = f"{said} AND l.metric = :label_metric", self.metric
            if self.label in {"pass", "fail"}:
                said += f" AND l.human_passed = {int(self.label == 'pass')}"
            parts.append(f"{{position}} {'NOT IN' if self.label == 'none' else 'IN'} ({said})")
        if self.sample:
            values |= {f"id_{number}": sample_id for number, sample_id in enumerate(self.sample)}
            ids = ", ".join(f":id_{number}" for number in range(len(self.sample)))
            of_ids = f"SELECT position FROM groundwatch_samples WHERE sample_id IN ({ids})"  # noqa: S608  # bound
            parts.append(f"{{position}} IN ({of_ids})")
        if self.min_score is not None or self.max_score is not None:
            values["lowest"], values["highest"] = self._score_range()
            values["score_metric"] = self.metric
            parts.append(
                "EXISTS (SELECT 1 FROM groundwatch_evaluations e WHERE e.position = {position}"
                " AND e.metric = :score_metric AND e.score BETWEEN :lowest AND :highest)"
            )
        return parts, values
