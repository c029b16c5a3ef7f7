"""
What a metric says about itself: enough to list it, to check its settings and to skip it.

`cpu_budget` and `compared_by` are in force while one sample is scored.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import math
import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any, Protocol

from pydantic import BaseModel, ConfigDict

from monitor.errors import JudgeReplyError, TooExpensiveError
from monitor.format import part_of
from monitor.models import Evaluation, Interaction
from monitor.models.evaluation import Direction, PassRule
from monitor.scoring.base import Finding, InfersContradictions, Judgement
from monitor.scoring.measures import share, weighted_average

_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
#: Fields whose absence has had a reason of its own from the first version on.
_REASONS = {"output": "empty_output", "contexts": "no_context"}
#: Versions of back ends that hold the local scorer's.
_HAS_LOCAL = re.compile(r"^(?:local|cascade)-|\+local-")
_MOST_PARTS = 3  #: of a combined score, named in its reason
_ROOTS = frozenset({"query", "output", "contexts", "tool_calls", "expected", "metadata"})


class Cost(StrEnum):
    """What one score costs."""

    FREE = "free"
    JUDGE = "judge"  #: with an LLM as judge it takes part in a call


class NoParameters(BaseModel):
    """Parameters of a metric that has none; every metric's are a class like this."""

    model_config = ConfigDict(frozen=True, extra="forbid")


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """A metric in words and rules."""

    name: str  #: in settings, tables and alerts: lower case with underscores
    what: str  #: one sentence for people
    formula: str  #: how the score is made, in plain symbols
    #: Fields without which it is ``skipped``: ``query``, ``output``, ``contexts``, ``tool_calls``,
    #: or a path such as ``expected.answer`` or ``metadata.runs``.
    requires: tuple[str, ...]
    #: Paths and parameters of which one must be there, for metrics that take either.
    one_of: tuple[str, ...] = ()
    source: str  #: where the definition stands
    backend: str = "computed"
    version: str = "1"
    direction: Direction = Direction.HIGHER
    cost: Cost = Cost.FREE
    skips: tuple[str, ...] = ()  #: further reasons for being skipped
    parameters: type[BaseModel] = NoParameters  #: what the metrics file may set
    #: The evaluation with fields of its own that it makes; details of these names go there.
    record: type[Evaluation] = Evaluation
    #: The line at which it passes unless the metrics file sets another; None: the setting's.
    pass_score: float | None = None
    embeds: bool = False  #: compares meanings by the embedding model that the settings name
    infers: bool = False  #: asks the NLI model for contradictions, where that is the scorer
    #: The line where the local scorer scores it, unless settings or metrics file set one.
    local_rule: PassRule | None = None

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ValueError(
                f"Invalid metric name {self.name!r}: expected lower-case letters, digits and _"
            )
        paths = (*self.requires, *(path for path in self.one_of if "." in path))
        odd = [path for path in paths if path.split(".")[0] not in _ROOTS]
        if odd:
            raise ValueError(
                f"{self.name} requires {odd[0]!r}, which no interaction has: expected"
                f" {', '.join(sorted(_ROOTS))}, or a path such as expected.answer"
            )

    def unmet(self, interaction: Interaction) -> str | None:
        """Return what *interaction* lacks for this metric; None when it can be scored."""
        for path in self.requires:
            value = lookup(interaction, path)
            if isinstance(value, str):
                present = bool(value.strip())
            elif isinstance(value, tuple) and value and hasattr(value[0], "text"):
                present = any(item.text.strip() for item in value)
            else:
                present = len(value) > 0 if isinstance(value, Sized) else value is not None
            if not present:
                return _reason_for(path)
        return None

    def reasons(self) -> tuple[str, ...]:
        """Return every reason for which it is skipped."""
        return (*map(_reason_for, self.requires), *self.skips)


def _reason_for(path: str) -> str:
    """Return the reason for which a metric is skipped when the field at *path* is missing."""
    return _REASONS.get(path, f"no_{path.replace('.', '_')}")


def lookup(interaction: Interaction, path: str) -> Any:
    """Read the field at *path*; None where there is none."""
    root, _, rest = path.partition(".")
    value: Any = getattr(interaction, root)
    for key in rest.split(".") if rest else ():
        value = value.get(key) if isinstance(value, dict) else None
    return value


def lookup_list(interaction: Interaction, path: str) -> list[Any]:
    """Read the values at *path*, of an object its keys; a single one is a list of it."""
    value = lookup(interaction, path)
    if value is None:
        return []
    return list(value) if isinstance(value, list | tuple | set | frozenset | dict) else [value]


class Form(StrEnum):
    """How the judge answers a question of its own."""

    SCORE = "score"  #: a number in [0, 1]
    LEVEL = "level"  #: one of 1.0, 0.8, 0.6, 0.3 and 0.0
    RATING = "rating"  #: a whole number from 1 to 5
    SENTENCES = "sentences"  #: the numbers of the sentences of the answer that match
    PASSAGES = "passages"  #: the numbers of the passages that match
    REFERENCE = "reference"  #: the numbers of the sentences of the reference that match
    TEXTS = "texts"  #: some short texts


@dataclass(frozen=True, slots=True)
class Criterion:
    """One question to the judge; metrics that share a question share its answer."""

    name: str
    question: str
    form: Form = Form.SCORE


@dataclass(frozen=True, slots=True, kw_only=True)
class CriterionAnswer:
    """What the judge said to one criterion; ``numbers`` count from 1 and are within range."""

    score: float | None = None
    numbers: tuple[int, ...] = ()
    texts: tuple[str, ...] = ()
    reasoning: str = ""
    suggestions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """
    All answers of one call, with what the numbers refer to.

    Only what was sent counts: of what was left out for want of room the judge said nothing.
    """

    by_name: dict[str, CriterionAnswer]
    sentences: tuple[str, ...]  #: the first ones of the output, as far as they were sent
    passages: int
    reference: tuple[str, ...]  #: likewise
    passages_left_out: tuple[int, ...] = ()  #: their numbers
    wrong: dict[str, str] = field(default_factory=dict)  #: what is wrong with the other answers

    def __getitem__(self, name: str) -> CriterionAnswer:
        """Return the answer to a criterion, or raise a ``JudgeReplyError`` if it is wrong."""
        if name in self.wrong:
            raise JudgeReplyError(self.wrong[name])
        return self.by_name[name]

    @property
    def places(self) -> tuple[int, ...]:
        """The numbers of the passages that were sent, in order."""
        numbers = range(1, self.passages + 1)
        return tuple(number for number in numbers if number not in self.passages_left_out)


@dataclass(frozen=True, slots=True)
class Computed:
    """A metric that is a function of the interaction: no judge is asked."""

    declaration: Declaration
    compute: Callable[[Interaction, Any], Finding]


@dataclass(frozen=True, slots=True)
class JudgementMetric:
    """
    A metric that is read out of the judgement that groundedness and relevance share.

    ``beside`` gives the version of the local scorer if that decides what the judgement leaves open.
    """

    declaration: Declaration
    read: Callable[[Judgement, Interaction, Any], Finding]
    beside: Callable[[], str] = str


@dataclass(frozen=True, slots=True)
class RubricMetric:
    """
    A metric with questions of its own for the judge; all of them share one further call.

    ``screen`` is what is computed where there is no judge, by the rules that ``screen_version``
    names; without it the metric is then skipped as ``needs_judge``.
    """

    declaration: Declaration
    criteria: tuple[Criterion, ...]
    read: Callable[[Answers, Interaction, Any], Finding]
    screen: Callable[[Interaction, Any], Finding] | None = None
    screen_version: Callable[[], str] = str
    unmet_too: Callable[[Interaction], str | None] = lambda _: None


@dataclass(frozen=True, slots=True)
class Combined:
    """
    A metric made of others' scores, each already turned so that higher is better.

    Parts without a score are left out as long as the others have *least_share* of the weight;
    with less the metric is skipped as ``part_missing``.
    """

    declaration: Declaration
    weights: dict[str, float]
    least_share: float = 1.0

    def combine(self, scores: Mapping[str, float], lower: Collection[str]) -> Finding:
        """Average *scores* by part; those of parts in *lower* count as 1 minus themselves."""
        missing = [part for part in self.weights if part not in scores]
        details: dict[str, Any] = {"parts": dict(scores), "missing": missing}
        total = math.fsum(self.weights.values())
        known = math.fsum(self.weights[part] for part in scores)
        score = weighted_average(scores, self.weights, lower)
        parts = part_of(len(missing), len(self.weights), "part")
        gaps = f"{parts} missing: {', '.join(missing)}." if missing else ""
        if score is None or known < self.least_share * total - 1e-9:
            return Finding(skipped="part_missing", explanation=gaps, details=details)
        worst = sorted(scores, key=lambda part: 1 - scores[part] if part in lower else scores[part])
        named = [
            f"{part} {scores[part]:.2f}{' (lower is better)' if part in lower else ''}"
            for part in worst[:_MOST_PARTS]
        ]
        said = f"{'Lowest parts' if len(scores) > _MOST_PARTS else 'Parts'}: {', '.join(named)}."
        return Finding(score=score, explanation=f"{said} {gaps}".strip(), details=details)


Metric = Computed | JudgementMetric | RubricMetric | Combined


def _declared(function: Callable[..., Finding], declared: dict[str, Any]) -> Declaration:
    """A metric has the name of its function and says what the docstring begins with."""
    what, _, _ = (inspect.getdoc(function) or "").partition("\n\n")
    own = {"name": function.__name__, "what": " ".join(what.split())}
    return Declaration(**own | declared)


def computed(**declared: Any) -> Callable[[Callable[[Interaction, Any], Finding]], Computed]:
    """
    Make a metric of a function of the interaction.

    The arguments are `Declaration`'s; name and sentence are the function's own unless given.
    """
    return lambda function: Computed(_declared(function, declared), function)


def read(
    beside: Callable[[], str] = str, **declared: Any
) -> Callable[[Callable[[Judgement, Interaction, Any], Finding]], JudgementMetric]:
    """
    Make a metric of a function of the shared judgement, declared as in `computed`.

    It needs output and contexts unless it says otherwise.
    """
    backend = "local scorer, NLI or judge, in the shared call"
    shared = {"requires": ("output", "contexts"), "backend": backend, "cost": Cost.JUDGE}
    return lambda function: JudgementMetric(
        _declared(function, shared | declared), function, beside
    )


def asked(
    *criteria: Criterion,
    screen: Callable[[Interaction, Any], Finding] | None = None,
    screen_version: Callable[[], str] = str,
    unmet_too: Callable[[Interaction], str | None] = lambda _: None,
    **declared: Any,
) -> Callable[[Callable[[Answers, Interaction, Any], Finding]], RubricMetric]:
    """Make a metric of a function of the judge's answers, declared as in `computed`."""
    declared = {"backend": "judge, in the second shared call", "cost": Cost.JUDGE} | declared
    needs_judge = () if screen is not None else ("needs_judge",)
    declared["skips"] = (*needs_judge, *declared.get("skips", ()))
    return lambda function: RubricMetric(
        _declared(function, declared), criteria, function, screen, screen_version, unmet_too
    )


def named_share(
    criterion: Criterion, of: str, *, good: bool = True, noted: str, **declared: Any
) -> RubricMetric:
    """
    Make a metric of the share of what was sent that the judge names.

    *of* says of what: ``sentences``, or ``places`` of passages. Unless *good* the score is the
    share of the others; the numbers are on record under *noted*.
    """

    def evaluate(answers: Answers, _: Interaction, __: Any) -> Finding:
        said = answers[criterion.name]
        part = share(len(said.numbers), len(getattr(answers, of)))
        return Finding(
            score=part if good else 1 - part,
            explanation=said.reasoning,
            details={noted: list(said.numbers)},
        )

    return asked(criterion, **declared)(evaluate)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What one call about criteria said, and what it used."""

    answers: Answers
    duration_ms: float = 0.0
    cost_usd: float | None = None
    details: dict[str, Any] = field(default_factory=dict)


class CriteriaJudge(Protocol):
    """Something that answers criteria about an interaction; safe for several threads."""

    @property
    def criteria_version(self) -> str:
        """All that shapes an answer: prompt and model."""

    def ask(
        self, interaction: Interaction, criteria: Sequence[Criterion], fields: frozenset[str]
    ) -> Reply:
        """Answer all criteria at once from those *fields*, or raise a ``JudgeError``."""

    def close(self) -> None:
        """Close connections."""


@dataclass(frozen=True)
class ConfiguredMetric:
    """One metric as the settings want it."""

    metric: Metric
    parameters: BaseModel
    rule: PassRule

    @property
    def declaration(self) -> Declaration:
        """What the metric says about itself."""
        return self.metric.declaration

    @property
    def name(self) -> str:
        """What everything calls it."""
        return self.declaration.name

    @cached_property
    def version(self) -> str:
        """The version, with a digest of the parameters unless they are as shipped."""
        version = self.declaration.version
        if self.parameters == self.declaration.parameters():
            return version
        text = json.dumps(self.parameters.model_dump(mode="json"), sort_keys=True)
        return f"{version}~{hashlib.sha256(text.encode()).hexdigest()[:8]}"

    def judged_by(self, judge: str) -> str:
        """Return the ``evaluator_version`` of what *judge* says, by metric and parameters."""
        metric = self.metric
        beside = metric.beside() if isinstance(metric, JudgementMetric) else ""
        by = f"{judge}+{beside}" if beside and not _HAS_LOCAL.search(judge) else judge
        return by if self.version == "1" else f"{by}-{self.version}"

    def unmet(self, interaction: Interaction) -> str | None:
        """Return what *interaction* lacks; None when it can be scored."""
        reason = self.declaration.unmet(interaction)
        if reason is None and isinstance(self.metric, RubricMetric):
            return self.metric.unmet_too(interaction)
        return reason

    def criteria(self) -> Mapping[str, Any]:
        """Return the threshold, the direction and the parameters, for the record."""
        return self._criteria

    @cached_property
    def _criteria(self) -> Mapping[str, Any]:
        changed = self.parameters.model_dump(mode="json", exclude_defaults=True)
        return self.rule.criteria() | changed


# In force while one sample is scored: the bound on its work, and the model that compares meanings.

_CPU_ENDS_S: ContextVar[float] = ContextVar("cpu_ends_s", default=math.inf)


@contextmanager
def cpu_budget(budget_s: float) -> Iterator[None]:
    """Give this thread's work within the block so much CPU time; `check_cpu` keeps it."""
    token = _CPU_ENDS_S.set(time.thread_time() + budget_s)
    try:
        yield
    finally:
        _CPU_ENDS_S.reset(token)


def check_cpu() -> None:
    """Raise ``TooExpensiveError`` once the sample in work has used up its CPU time."""
    if time.thread_time() > _CPU_ENDS_S.get():
        raise TooExpensiveError("scoring this sample takes more CPU time than a sample may")


class Similarity(Protocol):
    """How near two texts are in meaning, as an embedding model sees it."""

    version: str

    def __call__(self, one: str, other: str) -> float:
        """Return the cosine of two texts, in [0, 1]."""


#: Why a metric that compares meanings has no score where no embedding model is configured.
NEEDS_EMBEDDING = "needs_embedding_model"
_SIMILARITY: ContextVar[Similarity | None] = ContextVar("similarity", default=None)
_INFERENCE: ContextVar[InfersContradictions | None] = ContextVar("inference", default=None)


def configured_similarity() -> Similarity | None:
    """Return the similarity by which metrics compare meanings now; None without a model."""
    return _SIMILARITY.get()


def configured_inference() -> InfersContradictions | None:
    """Return the NLI model that finds contradictions now; None without one."""
    return _INFERENCE.get()


@contextmanager
def compared_by(
    similarity: Similarity | None, inference: InfersContradictions | None = None
) -> Iterator[None]:
    """Compare meanings by *similarity*, and find contradictions by *inference*, in the block."""
    tokens = _SIMILARITY.set(similarity), _INFERENCE.set(inference)
    try:
        yield
    finally:
        _SIMILARITY.reset(tokens[0])
        _INFERENCE.reset(tokens[1])
