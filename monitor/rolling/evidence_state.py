"""What is remembered of a stream between two looks, and its form as JSON."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from monitor.models import Status
from monitor.rolling.baseline import Baseline
from monitor.rolling.drift import ReferenceSpan
from monitor.stats.changepoint import Onset
from monitor.stats.evidence import BELOW, CELLS, NOTHING, Samples, Worth

Floats = NDArray[np.float64]
_FORM: Final = 2
_MOST_INCIDENTS: Final = 40
ALARMED: Final = frozenset({Status.WARNING, Status.CRITICAL})
#: Bets on a fall from the reference, then bets on a rate below the warning threshold.
FALL: Final = slice(0, CELLS)
LINE: Final = slice(CELLS, CELLS + BELOW)
N_BETS: Final = CELLS + BELOW
#: Bets on a recovery to above the warning threshold, then on one to above the critical one.
N_RISES: Final = 5
RECOVERED: Final = slice(0, N_RISES)
EASED: Final = slice(N_RISES, 2 * N_RISES)


class Certainty(StrEnum):
    """How the evidence for a warning or a critical status stands."""

    NONE = "none"
    PROBABLE = "probable"  #: certainly fallen from its reference, and probably below the threshold
    CONFIRMED = "confirmed"  #: certainly below the threshold


class Bets(NamedTuple):
    """
    Sums of bets, and what was counted since the best moment to begin each; shape (bets,).

    ``log_r`` is the log of the Shiryaev-Roberts sum; ``gain`` the log payoff since that moment, at
    least 0 (the CUSUM statistic); ``n`` samples since then, ``size`` what they are worth,
    ``passed`` how much of it passed; ``at_s`` that moment, in epoch seconds.
    """

    log_r: Floats
    gain: Floats
    n: Floats
    size: Floats
    passed: Floats
    at_s: Floats

    @classmethod
    def none(cls, bets: int, now_s: float) -> Self:
        """Return bets that begin at *now_s*."""
        gain, n, size, passed = np.zeros((4, bets))
        return cls(np.full(bets, NOTHING), gain, n, size, passed, np.full(bets, now_s))


class Looks(NamedTuple):
    """
    What each look at a stream found since the one before, in the order of the looks.

    ``time_s`` in epoch seconds, never falling; ``n`` samples; ``size`` what they are worth if they
    were independent, and ``passed`` how much of it passed; each of shape (t,). Where the judge is
    asked about some samples only, or weights are unequal, ``samples`` holds them one by one.
    """

    time_s: Floats
    n: Floats
    size: Floats
    passed: Floats
    samples: Samples | None = None
    worth: Worth = Worth()

    @classmethod
    def of_samples(cls, time_s: Floats, samples: Samples, worth: Worth) -> Looks:
        """Return looks at samples, of which each look may have any number."""
        size = worth.size * samples.weight / worth.mean_weight
        n, sizes, passed = (
            np.asarray(np.bincount(samples.look, weights, time_s.size), dtype=np.float64)
            for weights in (np.ones_like(size), size, size * samples.estimates())
        )
        return cls(time_s, n, sizes, passed, samples, worth)

    def part(self, start: int, end: int | None = None) -> Looks:
        """Return some of the looks."""
        end = len(self.time_s) if end is None else min(end, len(self.time_s))
        samples = None if self.samples is None else self.samples.between(start, end)
        time_s, n, size, passed = (column[start:end] for column in self[:4])
        return Looks(time_s, n, size, passed, samples, self.worth)


class Count(NamedTuple):
    """Samples since a moment: how many, what they are worth, and how much of it passed."""

    from_s: float
    n: float = 0.0
    size: float = 0.0
    passed: float = 0.0

    def plus(self, n: float, size: float, passed: float) -> Count:
        """Add samples."""
        return Count(self.from_s, self.n + n, self.size + size, self.passed + passed)

    @property
    def rate(self) -> float:
        """The pass rate; 0 of nothing."""
        return self.passed / self.size if self.size > 0 else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceState:
    """
    All that a stream's status depends on, apart from what comes next.

    Times are in epoch seconds. ``count`` is what was counted since the change of the present
    incident, or since evidence began anew; ``recent`` the last half to whole day of it, in two
    blocks; ``log_p`` the posterior of the rate in an incident, and ``high`` the bound from which
    the status was read. ``quasi`` holds sums over the same cells in calm times, and a second
    posterior in an incident, of which the more cautious bound counts.
    """

    status: Status = Status.INSUFFICIENT_DATA
    certainty: Certainty = Certainty.NONE
    began_s: float  #: the first look ever
    at_s: float  #: the last look that brought samples
    status_s: float  #: when the status began
    owed: float = 1.0  #: stakes that the next look may place beyond the time that went by
    n_day: float = 0.0  #: what samples of about a day are worth, the older the less
    bets: Bets
    rises: Bets | None = None  #: in an incident
    count: Count
    recent: tuple[Count, Count]
    log_p: Floats | None = None
    quasi: Floats | None = None  #: the same from unbiased estimates, where a judge is sampled
    high: float = 1.0
    incident_from_s: float = 0.0  #: when the trouble of the present incident is thought to begin
    onset: Onset | None = None  #: when the fall began, looked at closely
    incidents: tuple[ReferenceSpan, ...] = ()  #: of the past
    baseline: Baseline = field(default_factory=Baseline)
    learned_s: float = 0.0
    thresholds: tuple[float, float] = (0.0, 0.0)  #: warning and critical rate of the evidence

    @classmethod
    def fresh(cls, now_s: float) -> Self:
        """Return the state of a stream of which nothing is known."""
        return cls(
            began_s=now_s,
            at_s=now_s,
            status_s=now_s,
            bets=Bets.none(N_BETS, now_s),
            count=Count(now_s),
            recent=(Count(now_s), Count(now_s)),
        )

    @property
    def alarmed(self) -> bool:
        """Whether the status is warning or critical."""
        return self.status in ALARMED

    def but(self, **changes: Any) -> Self:
        """Return a copy with some fields changed."""
        return replace(self, **changes)

    def past_incidents(self, now_s: float) -> tuple[ReferenceSpan, ...]:
        """Return the incidents, that of the present alarm included."""
        if not self.alarmed:
            return self.incidents
        return (*self.incidents, ReferenceSpan(int(self.incident_from_s), int(now_s) + 1))

    def with_incident(self, span: ReferenceSpan, *, keep_from_s: float) -> Self:
        """Add an incident, and forget those that ended before *keep_from_s*."""
        kept = [old for old in self.incidents if old.to_s > keep_from_s]
        return self.but(incidents=(*kept, span)[-_MOST_INCIDENTS:])


def to_json(state: EvidenceState) -> dict[str, Any]:
    """Return a state as plain values; about two kilobytes as text."""
    base = state.baseline
    return {
        "form": _FORM,
        "status": state.status.value,
        "certainty": state.certainty.value,
        "times_s": [state.began_s, state.at_s, state.status_s],
        "day": [state.owed, _short(state.n_day)],
        "bets": _written(state.bets),
        "rises": _written(state.rises) if state.rises else None,
        "counts": [[_short(x) for x in count] for count in (state.count, *state.recent)],
        "log_p": None if state.log_p is None else _row(state.log_p),
        "quasi": None if state.quasi is None else _row(state.quasi),
        "high": state.high,
        "incident_from_s": state.incident_from_s,
        "onset": list(state.onset) if state.onset else None,
        "incidents": [list(span) for span in state.incidents],
        "baseline": [[_short(x) for x in base.fallen_below], *base[1:]],
        "learned_s": state.learned_s,
        "thresholds": list(state.thresholds),
    }


def from_json(value: dict[str, Any]) -> EvidenceState | None:
    """
    Read a state; None when it was written in a form that this program does not know.

    Of the form before this one the reference, past incidents and the status are kept, and
    evidence begins anew.
    """
    if value.get("form") == 1:
        return _from_first_form(value)
    if value.get("form") != _FORM:
        return None
    began_s, at_s, status_s = value["times_s"]
    owed, n_day = value["day"]
    count, *recent = (Count(*numbers) for numbers in value["counts"])
    log_p = value["log_p"]
    return EvidenceState(
        status=Status(value["status"]),
        certainty=Certainty(value["certainty"]),
        began_s=began_s,
        at_s=at_s,
        status_s=status_s,
        owed=owed,
        n_day=n_day,
        bets=_read(value["bets"]),
        rises=_read(value["rises"]) if value["rises"] else None,
        count=count,
        recent=(recent[0], recent[1]),
        log_p=None if log_p is None else np.array(log_p, dtype=np.float64),
        quasi=None if value["quasi"] is None else np.array(value["quasi"], dtype=np.float64),
        high=value["high"],
        incident_from_s=value["incident_from_s"],
        onset=Onset(*value["onset"]) if value["onset"] else None,
        incidents=tuple(ReferenceSpan(*span) for span in value["incidents"]),
        baseline=_baseline(value),
        learned_s=value["learned_s"],
        thresholds=(value["thresholds"][0], value["thresholds"][1]),
    )


def _from_first_form(value: dict[str, Any]) -> EvidenceState:
    began_s, at_s, status_s, _ = value["times_s"]
    size, passed, alarm_from_s = value["alarm"]
    status = Status(value["status"])
    state = EvidenceState.fresh(at_s).but(
        began_s=began_s,
        status=status,
        status_s=status_s,
        owed=value["counts"][0],
        n_day=value["counts"][2],
        incidents=tuple(ReferenceSpan(*span) for span in value["incidents"]),
        baseline=_baseline(value),
        learned_s=value["learned_s"],
    )
    if status not in ALARMED:
        return state
    return state.but(
        certainty=Certainty(value["certainty"]),
        count=Count(alarm_from_s, size, size, passed),
        incident_from_s=alarm_from_s,
        onset=Onset(*value["onset"]) if value["onset"] else None,
    )


def _baseline(value: dict[str, Any]) -> Baseline:
    fallen_below, *rest = value["baseline"]
    return Baseline(tuple(fallen_below), *rest)


def _written(bets: Bets) -> list[Any]:
    """Write bets as rows; times count from the first, and sizes that are counts are left out."""
    base_s = float(bets.at_s.min())
    rows = [_row(column) for column in bets[:5]]
    if rows[2] == rows[3]:
        rows[3] = []
    return [base_s, *rows, _row(bets.at_s - base_s)]


def _read(rows: list[Any]) -> Bets:
    base_s, *columns = rows
    columns[3] = columns[3] or columns[2]
    found = [np.array(column, dtype=np.float64) for column in columns]
    found[5] += base_s
    return Bets(*found)


def _row(values: Floats) -> list[float]:
    return [_short(value) for value in values.tolist()]


def _short(value: float) -> float:
    """Round to seven digits, or to the millisecond; as an int where it is one: short as text."""
    rounded = round(value, 3) if abs(value) >= -NOTHING else float(f"{value:.7g}")
    return int(rounded) if rounded == int(rounded) else rounded
