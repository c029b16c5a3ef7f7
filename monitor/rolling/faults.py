"""Why answers fail, by the samples: the cause of a fall, what changed, failure modes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple, Protocol

from monitor.models import Evaluation, Interaction
from monitor.rolling.blame import Blame, Exchange, blame
from monitor.rolling.failure_modes import FailureMode, ScoredText, failure_modes

#: Parts of an app that a release may exchange, by the names of their tags.
COMPONENTS = ("release", "model", "prompt_version", "retriever", "index")
#: A component changed where a value's share of the samples grew by so much.
_CHANGED_SHARE = 0.5


class StoredAnswer(Protocol):
    """A sample with the evaluation of one metric."""

    @property
    def sample_id(self) -> str: ...  # noqa: D102 - fields
    @property
    def at(self) -> datetime: ...  # noqa: D102
    @property
    def interaction(self) -> Interaction: ...  # noqa: D102
    @property
    def passed(self) -> bool: ...  # noqa: D102
    @property
    def evaluation(self) -> Evaluation: ...  # noqa: D102


class ComponentChange(NamedTuple):
    """A value of a component, with its share of the samples before and after."""

    component: str
    value: str
    before: float
    after: float


class Faults(NamedTuple):
    """
    What the samples say of a fall.

    ``blame`` is None with fewer than 30 samples on either side. ``modes`` are of the samples after.
    """

    n_before: int
    n_after: int
    n_failed: int
    blame: Blame | None
    components: tuple[ComponentChange, ...]
    modes: tuple[FailureMode, ...]


def find_faults(before: Sequence[StoredAnswer], after: Sequence[StoredAnswer]) -> Faults:
    """Compare the samples of two times; failure modes are of the later ones."""
    sides = [
        [
            Exchange(s.interaction.query or "", [c.text for c in s.interaction.contexts], s.passed)
            for s in side
        ]
        for side in (before, after)
    ]
    texts = [ScoredText(each.sample_id, each.at, _text(each)) for each in after]
    failed = [text for text, each in zip(texts, after, strict=True) if not each.passed]
    passed = [text for text, each in zip(texts, after, strict=True) if each.passed]
    return Faults(
        n_before=len(before),
        n_after=len(after),
        n_failed=len(failed),
        blame=blame(*sides),
        components=tuple(_component_changes(before, after)),
        modes=tuple(failure_modes(failed, passed)),
    )


def _text(sample: StoredAnswer) -> str:
    """Return the question with what was wrong with the answer; with all of it where it passed."""
    listed = (sample.evaluation.metadata or {}).get("claims")
    claims = [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
    wrong = [
        str(each.get("text"))
        for each in claims
        if each.get("verdict") in {"not_found", "contradicted"}
    ]
    said = wrong if wrong and not sample.passed else [sample.interaction.output]
    return " ".join([sample.interaction.query or "", *said])


def _component_changes(
    before: Sequence[StoredAnswer], after: Sequence[StoredAnswer]
) -> list[ComponentChange]:
    """Return the values that most samples have now and did not have before."""
    found = []
    for component in COMPONENTS if before and after else ():
        sides = [
            Counter(_value(each.interaction, component) for each in side)
            for side in (before, after)
        ]
        for value, n in sides[1].items():
            was, now = sides[0][value] / len(before), n / len(after)
            if value and now - was >= _CHANGED_SHARE:
                found.append(ComponentChange(component, value, was, now))
    return found


def _value(interaction: Interaction, component: str) -> str:
    own = interaction.release if component == "release" else None
    return str(own or interaction.tags.get(component) or "")
