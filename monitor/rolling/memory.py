"""What is remembered of a stream between two looks, and its form as JSON."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import IntEnum, StrEnum
from typing import Any, Final, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from monitor.models import Status
from monitor.rolling.baseline import Baseline
from monitor.rolling.reference import Span
from monitor.stats.evidence import FALLS, NOTHING
from monitor.stats.onset import Onset

Floats = NDArray[np.float64]
_FORM: Final = 1
_MOST_INCIDENTS: Final = 40
ALARMED: Final = frozenset({Status.WARNING, Status.CRITICAL})


class Detector(IntEnum):
    """The questions that evidence is collected for; the order is that of the rows below."""

    BELOW_WARNING = 0
    BELOW_CRITICAL = 1
    FALLEN = 2  #: below the stream's own reference
    SETTLED = 3  #: below the reference, but not below the line: what speaks against an alarm
    RECOVERED = 4  #: above the warning line again
    EASED = 5  #: above the critical line again


_SHAPE: Final = (len(Detector), len(FALLS))


class Certainty(StrEnum):
    """How the evidence for a warning or a critical status stands."""

    NONE = "none"
    PROBABLE = "probable"  #: certainly fallen from its reference, and below the line since then
    CONFIRMED = "confirmed"  #: certainly below the line


class Since(NamedTuple):
    """What was counted since the best moment to begin a bet; each of shape (detectors, bets)."""

    gain: Floats  #: log likelihood ratio since then, at least 0: the CUSUM statistic
    n: Floats
    passed: Floats
    at_s: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """
    All that a stream's status depends on, apart from what comes next.

    Times are in epoch seconds. Counts are what samples are worth, not how many there were.
    """

    status: Status = Status.INSUFFICIENT_DATA
    certainty: Certainty = Certainty.NONE
    began_s: float  #: the first look ever
    at_s: float  #: the last look that brought samples
    status_s: float  #: when the status began
    reset_s: float  #: since when evidence is collected
    owed: float = 1.0  #: stakes that the next look may place beyond the time that went by
    n: float = 0.0
    n_day: float = 0.0  #: samples of about a day, the older the less
    log_r: Floats = field(default_factory=lambda: np.full(_SHAPE, NOTHING))
    since: Since
    spell_n: float = 0.0  #: counted since the present alarm began, or the last one ended
    spell_passed: float = 0.0
    alarm_from_s: float = 0.0  #: when the trouble of the present alarm is thought to have begun
    onset: Onset | None = None  #: the same, looked at closely
    incidents: tuple[Span, ...] = ()  #: of the past, in seconds
    baseline: Baseline = field(default_factory=Baseline)
    learned_s: float = 0.0

    @classmethod
    def fresh(cls, now_s: float) -> Self:
        """Remember nothing."""
        gain, n, passed = np.zeros((3, *_SHAPE))
        since = Since(gain, n, passed, np.full(_SHAPE, now_s))
        return cls(began_s=now_s, at_s=now_s, status_s=now_s, reset_s=now_s, since=since)

    @property
    def alarmed(self) -> bool:
        """Say whether the status is warning or critical."""
        return self.status in ALARMED

    def but(self, **changes: Any) -> Self:
        """Copy with some fields changed."""
        return replace(self, **changes)

    def past_incidents(self, now_s: float) -> tuple[Span, ...]:
        """List the incidents, that of the present alarm included, in seconds."""
        if not self.alarmed:
            return self.incidents
        return (*self.incidents, Span(int(self.alarm_from_s), int(now_s) + 1))

    def with_incident(self, span: Span, *, keep_from_s: float) -> Self:
        """Add an incident, and forget those that ended before *keep_from_s*."""
        kept = [old for old in self.incidents if old.to_s > keep_from_s]
        return self.but(incidents=(*kept, span)[-_MOST_INCIDENTS:])


def to_json(memory: Memory) -> dict[str, Any]:
    """Write a memory as plain values; about two kilobytes as text."""
    base = memory.baseline
    return {
        "form": _FORM,
        "status": memory.status.value,
        "certainty": memory.certainty.value,
        "times_s": [memory.began_s, memory.at_s, memory.status_s, memory.reset_s],
        "counts": [_short(x) for x in (memory.owed, memory.n, memory.n_day)],
        "log_r": _rows(memory.log_r),
        "since": {name: _rows(values) for name, values in memory.since._asdict().items()},
        "alarm": [memory.spell_n, memory.spell_passed, memory.alarm_from_s],
        "onset": list(memory.onset) if memory.onset else None,
        "incidents": [list(span) for span in memory.incidents],
        "baseline": [list(base.fallen_below), *base[1:]],
        "learned_s": memory.learned_s,
    }


def from_json(value: dict[str, Any]) -> Memory | None:
    """Read a memory; None when it was written in a form that this program does not know."""
    if value.get("form") != _FORM:
        return None
    began_s, at_s, status_s, reset_s = value["times_s"]
    owed, n, n_day = value["counts"]
    spell_n, spell_passed, alarm_from_s = value["alarm"]
    fallen_below, *rest = value["baseline"]
    return Memory(
        status=Status(value["status"]),
        certainty=Certainty(value["certainty"]),
        began_s=began_s,
        at_s=at_s,
        status_s=status_s,
        reset_s=reset_s,
        owed=owed,
        n=n,
        n_day=n_day,
        log_r=np.array(value["log_r"], dtype=np.float64),
        since=Since(**{k: np.array(v, dtype=np.float64) for k, v in value["since"].items()}),
        spell_n=spell_n,
        spell_passed=spell_passed,
        alarm_from_s=alarm_from_s,
        onset=Onset(*value["onset"]) if value["onset"] else None,
        incidents=tuple(Span(*span) for span in value["incidents"]),
        baseline=Baseline(tuple(fallen_below), *rest),
        learned_s=value["learned_s"],
    )


def _rows(values: Floats) -> list[list[float]]:
    return [[_short(value) for value in row] for row in values.tolist()]


def _short(value: float) -> float:
    return float(f"{value:.12g}")
