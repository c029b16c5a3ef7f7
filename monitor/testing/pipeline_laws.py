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
    seen: Callable[[Any], Any] = metric or _same
    broken: list[str] = []

    def agree(number: int, law: str, expected: Any, found: Any) -> bool:
        numbers = isinstance(expected, int | float) and isinstance(found, int | float)
        if expected == found or (numbers and abs(expected - found) <= tolerance):
            return True
        if len(broken) < _MOST_TOLD:
            broken.append(f"{law}, example {number}: {found!r} instead of {expected!r}")
        return False

    def unchanged_by(stage: Stage, first: int, number: int, example: Any, law: str) -> bool:
        expected = seen(_run(stages, example))
        with_it = [
            (f"{law} {k}", seen(_run([*stages[:k], stage, *stages[k:]], example)))
            for k in range(first, len(stages) + 1)
        ]
        return min(agree(number, which, expected, found) for which, found in with_it)

    def composed(number: int, example: Any) -> bool:
        value, holds = deepcopy(example), True
        for k, stage in enumerate(stages, start=1):
            before = deepcopy(value)
            after = stage(value)
            holds &= agree(number, f"composition, what stage {k} was handed", before, value)
            value = after
        whole = seen(_run(stages, example))
        return agree(number, "composition, stage by stage", whole, seen(value)) and holds

    behind = "naturality, verified behind stage"
    counts = [
        (
            unchanged_by(_same, 0, number, example, "identity at place"),
            composed(number, example),
            unchanged_by(verify or _same, 1, number, example, behind),
        )
        for number, example in enumerate(given, start=1)
    ]
    identity, composition, naturality = (
        sum(column) / len(given) for column in zip(*counts, strict=True)
    )
    return LawReport(identity, composition, naturality, len(given), broken)


def _same(value: Any) -> Any:
    return value


def _run(stages: Sequence[Stage], example: Any) -> Any:
    value = deepcopy(example)
    for stage in stages:
        value = stage(value)
    return value
