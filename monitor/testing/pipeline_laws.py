"""Laws that a pipeline and its metric keep: identity, composition, naturality."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

_MOST_TOLD = 20

Stage = Callable[[Any], Any]


@dataclass(slots=True)
class LawReport:
    """
    On which share of the examples each law holds, in [0, 1].

    ``broken`` says of the first violations which law, which example and what came instead.
    """

    identity: float
    composition: float
    naturality: float
    examples: int
    broken: list[str] = field(default_factory=list)

    @property
    def correctness(self) -> float:
        """The least of the three: 1 if and only if every law holds on every example."""
        return min(self.identity, self.composition, self.naturality)

    @property
    def hold(self) -> bool:
        """Whether every law holds on every example."""
        return self.correctness == 1.0

    def __bool__(self) -> bool:
        return self.hold


def laws(
    pipeline: Stage | Sequence[Stage],
    examples: Iterable[Any],
    *,
    metric: Callable[[Any], float] | None = None,
    verify: Stage | None = None,
    tolerance: float = 1e-6,
) -> LawReport:
    """
    Check that a pipeline keeps the laws of composition.

    * Identity: a stage that changes nothing may be put anywhere, and nothing changes.
    * Composition: the stages one by one give what the pipeline gives as a whole, twice, and no
      stage changes what it was handed. Hidden state, chance and side effects break it.
    * Naturality: verification observes. *verify* may stand behind any stage, and the pipeline
      then gives what it gives without, as far as *metric* sees.

    Parameters
    ----------
    pipeline
        A function, or its stages in order.
    examples
        Inputs, at least one.
    metric
        Makes a number of an output; outputs themselves are compared without it.
    verify
        Checks what passes and hands it on; the identity by default.
    tolerance
        By how much two numbers may differ.

    Raises
    ------
    ValueError
        If there is no stage or no example.

    Examples
    --------
    >>> laws([str.strip, str.title], [" a question"]).correctness
    1.0
    """
    stages = [pipeline] if callable(pipeline) else list(pipeline)
    given = list(examples)
    if not stages or not given:
        raise ValueError("laws need at least one stage and one example")
    check = _Check(stages, verify or _same, metric or _same, tolerance)
    counts = [
        (check.identity(example), check.composition(example), check.naturality(example))
        for check.example, example in enumerate(given, start=1)
    ]
    identity, composition, naturality = (
        sum(column) / len(given) for column in zip(*counts, strict=True)
    )
    return LawReport(identity, composition, naturality, len(given), check.broken)


def _same(value: Any) -> Any:
    return value


@dataclass(slots=True)
class _Check:
    """Tries one example after another, and keeps what went wrong."""

    stages: Sequence[Stage]
    verify: Stage
    metric: Callable[[Any], Any]
    tolerance: float
    example: int = 0
    broken: list[str] = field(default_factory=list)

    def identity(self, example: Any) -> bool:
        """Put a stage that changes nothing at each place."""
        places = range(len(self.stages) + 1)
        return self._unchanged_by(_same, places, example, "identity at place")

    def naturality(self, example: Any) -> bool:
        """Verify behind each stage."""
        places = range(1, len(self.stages) + 1)
        return self._unchanged_by(self.verify, places, example, "naturality, verified behind stage")

    def composition(self, example: Any) -> bool:
        """Take the stages one by one, and look whether they leave alone what they are handed."""
        value, holds = deepcopy(example), True
        for k, stage in enumerate(self.stages, start=1):
            before = deepcopy(value)
            after = stage(value)
            holds &= self._agree(before, value, f"composition, what stage {k} was handed")
            value = after
        whole, found = self._run(self.stages, example), self.metric(value)
        return self._agree(whole, found, "composition, stage by stage") and holds

    def _unchanged_by(self, stage: Stage, places: Iterable[int], example: Any, law: str) -> bool:
        expected = self._run(self.stages, example)
        with_it = [
            (k, self._run([*self.stages[:k], stage, *self.stages[k:]], example)) for k in places
        ]
        return min(self._agree(expected, found, f"{law} {k}") for k, found in with_it)

    def _run(self, stages: Sequence[Stage], example: Any) -> Any:
        value = deepcopy(example)
        for stage in stages:
            value = stage(value)
        return self.metric(value)

    def _agree(self, expected: Any, found: Any, law: str) -> bool:
        numbers = isinstance(expected, int | float) and isinstance(found, int | float)
        if expected == found or (numbers and abs(expected - found) <= self.tolerance):
            return True
        if len(self.broken) < _MOST_TOLD:
            what = f"example {self.example}: {found!r} instead of {expected!r}"
            self.broken.append(f"{law}, {what}")
        return False
