"""
What is remembered of a stream between two looks.

Its form as JSON, and how it changes without new samples: silence, other thresholds, and a
baseline that is learned again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from monitor.models import Status
from monitor.rolling.baseline import Baseline, History, ReferenceSpan, learn
from monitor.rolling.policies import FALL_SHARE, Rules, status_of
from monitor.stats.evidence import BELOW, CELLS, NOTHING, Onset, RateGrid, log_mean, rate_grid

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
_FORM: Final = 2
#: Fields that JSON takes as they are, and those that are rows of numbers where they are known.
_PLAIN: Final = ("high", "incident_from_s", "learned_s")
_ROWS: Final = ("log_p", "quasi")
ALARMED: Final = frozenset({Status.WARNING, Status.CRITICAL})
#: Bets on a fall from the reference, then bets on a rate below the warning threshold.
FALL: Final = slice(0, CELLS)
LINE: Final = slice(CELLS, CELLS + BELOW)
N_BETS: Final = CELLS + BELOW
#: Shares by which fewer samples fail in a recovery: one to above the threshold less the slack.
RISES: Final = np.array([0.2, 0.35, 0.5, 0.65, 0.8])
CLEAR_SLACK: Final = 0.025
#: Log payoff that samples alone must bring to a recovery: time brings stakes as well.
CLEAR_GAIN: Final = 3.0
#: Distance below the threshold at which the bound of a decided status is kept.
_JUST: Final = 1e-9
#: Bets on a recovery to above the warning threshold, then on one to above the critical one.
N_RISES: Final = len(RISES)
RECOVERED: Final = slice(0, N_RISES)
EASED: Final = slice(N_RISES, 2 * N_RISES)


#: Log weight that a cell of the posterior keeps at least.
LEAST_LOG_P: Final = -600.0
DAY_BUCKETS: Final = 1440
#: A status of too little data needs this part of the usual number to go on.
_KEEPS: Final = 2 / 3
#: In standard errors: so far below the threshold the rate since the last alarm, or the first
#: sample, may lie where a stream becomes healthy, and where it stays so; the latter is 95 %.
_DOUBT_NEW: Final = 1.28
_DOUBT: Final = 1.96
#: Log evidence beyond an alarm's that is remembered below and above the threshold.
_BEYOND: Final = 3.0
_BEYOND_SETTLED: Final = 13.0
#: Log evidence, in buckets or in the scores of sparse streams, at which more samples are worth a
#: judge: far below an alarm's.
_LOG_RISES: Final = math.log(300.0)
#: In buckets: so long without a sample, and nothing is known any more.
SILENT_BUCKETS: Final = 360
#: In buckets: a baseline is learned again this often, and sooner while the stream is young.
_LEARN_BUCKETS: Final = 360
_LEARN_FIRST_BUCKETS: Final = 30


class Certainty(StrEnum):
    """How the evidence for a warning or a critical status stands."""

    NONE = "none"
    PROBABLE = "probable"  #: certainly fallen from its reference, and probably below the threshold
    CONFIRMED = "confirmed"  #: certainly below the threshold


class Count(NamedTuple):
    """Samples since a moment: how many, what they are worth, and what part of that passed."""

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


class Bets(NamedTuple):
    """
    Sums of bets, and what was counted since the best moment to begin each; shape (bets,).

    ``log_r`` is the log of the Shiryaev-Roberts sum; ``gain`` the log payoff since that moment, at
    least 0 (the CUSUM statistic); ``n`` samples since then, ``size`` what they are worth,
    ``passed`` the weight that passed; ``at_s`` that moment, in epoch seconds.
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

    def after(self, gains: Floats, counted: Floats, stake: float, now_s: float) -> Self:
        """Return the bets after one look: log payoffs of each, and n, size and passed."""
        gain = self.gain + gains
        again = gain <= 0.0
        with np.errstate(divide="ignore"):
            log_r = np.maximum(np.logaddexp(self.log_r, np.log(stake)) + gains, NOTHING)
        n, size, passed = (
            np.where(again, 0.0, old + more) for old, more in zip(self[2:5], counted, strict=True)
        )
        at_s = np.where(again, now_s, self.at_s)
        return type(self)(log_r, np.maximum(gain, 0.0), n, size, passed, at_s)

    def since(self, lead: int) -> Count:
        """Return what was counted since one of the bets began."""
        return Count(*(float(column[lead]) for column in (self.at_s, *self[2:5])))


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceState:
    """
    All that a stream's status depends on, apart from what comes next.

    Times are in epoch seconds. ``count`` is what was counted since the change of the present
    incident, or since evidence started over; ``recent`` its last half to whole day, in two
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
    onset: Onset | None = None  #: when the fall began, estimated closely
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

    @property
    def usual_rate(self) -> float:
        """The pass rate of the reference; until that is known, of what was counted lately."""
        older, newer = self.recent
        known = self.baseline.rate
        return older.plus(*newer[1:]).rate if known is None else known

    def recently(self, bucket_s: int) -> Count:
        """Return what was counted in the last half to whole day, or since evidence started over."""
        older, newer = self.recent
        if older.n > 0 and self.at_s - older.from_s <= DAY_BUCKETS * bucket_s:
            return older.plus(*newer[1:])
        return newer

    def but(self, **changes: Any) -> Self:
        """Return a copy with some fields changed."""
        return replace(self, **changes)


class StatusTurn(NamedTuple):
    """A status that began."""

    time_s: float
    status: Status
    certainty: Certainty


Advanced = tuple[EvidenceState, list[StatusTurn]]


def held(bound: Floats, rate: Floats, status: Status, rules: Rules) -> Floats:
    """Keep what was decided until the rate since the change is itself above the threshold."""
    if status is Status.CRITICAL:
        below = np.minimum(bound, rules.critical_rate - _JUST)
        above = np.minimum(bound, rules.warning_rate - _JUST)
        return np.where(rate > rules.critical_rate, above, below)
    return np.where(rate > rules.warning_rate, bound, np.minimum(bound, rules.warning_rate - _JUST))


def posterior_below(grid: RateGrid, size: float, passed: float) -> Floats:
    """Return the posterior of some samples on the cells below the warning threshold."""
    rates = np.clip(grid.below, 0.001, 0.999)
    log_p = passed * np.log(rates) + (size - passed) * np.log(1.0 - rates)
    return np.concatenate([log_p - log_p.max(), np.full(CELLS - BELOW, LEAST_LOG_P)])


def line_threshold(state: EvidenceState, rules: Rules) -> float:
    """Return the log evidence below the warning threshold that confirms an alarm."""
    return rules.log_threshold(1.0 - FALL_SHARE if has_reference(state, rules) else 1.0)


def has_reference(state: EvidenceState, rules: Rules) -> bool:
    """Return whether a fall from the stream's own reference can be seen."""
    return rules.use_reference and bool(state.baseline.fallen_below)


def is_known(n_day: Floats, rules: Rules, *, healthy: Bools) -> Bools:
    """Return whether so many samples a day suffice; a healthy stream needs fewer to stay so."""
    return np.where(healthy, n_day >= rules.min_n * _KEEPS, n_day > rules.min_n - 1)


def is_doubtful(size: Floats, passed: Floats, rules: Rules, *, healthy: Bools) -> Bools:
    """
    Return whether all that is known lies below the threshold, though not beyond chance.

    Such a stream is not well and not certainly ill: the Wilson interval of all its samples since
    its last alarm is below the threshold. A long healthy past makes that impossible for long.
    """
    line = rules.warning_rate
    error = np.sqrt(size * line * (1.0 - line))
    below = size * line - passed > np.where(healthy, _DOUBT, _DOUBT_NEW) * error
    return np.asarray(below & (size >= rules.min_n))


def idle(state: EvidenceState, now_s: float, rules: Rules) -> Advanced:
    """Let time pass without samples: a stream that is silent for long is not known to be well."""
    silent_s = state.at_s + SILENT_BUCKETS * rules.bucket_s
    if state.status is not Status.HEALTHY or now_s <= silent_s:
        return state, []
    state = state.but(status=Status.INSUFFICIENT_DATA, status_s=silent_s)
    return state, [StatusTurn(silent_s, state.status, state.certainty)]


def restarted(state: EvidenceState, rules: Rules) -> EvidenceState:
    """Begin the evidence again where it was collected for other thresholds; keep the rest."""
    thresholds = (rules.warning_rate, rules.critical_rate)
    if state.thresholds == thresholds:
        return state
    state = state.but(thresholds=thresholds, bets=Bets.none(N_BETS, state.at_s), quasi=None)
    if not state.alarmed:
        return state
    grid = rate_grid(*thresholds)
    log_p = posterior_below(grid, state.count.size, state.count.passed)
    high = float(grid.upper(log_p, np.asarray(rules.warning_rate)))
    return state.but(
        status=status_of(high, rules),
        rises=Bets.none(2 * N_RISES, state.at_s),
        log_p=log_p,
        high=high,
        baseline=state.baseline._replace(fallen_below=()),
    )


def log_evidence(state: EvidenceState) -> float:
    """Return the log evidence of a fall, from the reference or else below the threshold."""
    log_r = state.bets.log_r
    return float(log_mean(log_r[:BELOW] if state.baseline.fallen_below else log_r[LINE]))


def evidence_rises(state: EvidenceState, *, bucket_s: int) -> bool:
    """
    Return whether a judge that is asked about some samples should be asked about more.

    Bets begin with time, so quiet sums are higher the fewer scores come in a bucket: sparse streams
    are measured by their scores.
    """
    recent = state.recently(bucket_s)
    per_bucket = recent.n * bucket_s / max(state.at_s - recent.from_s, bucket_s)
    sparse = math.log(min(max(per_bucket, 1e-9), 1.0))
    return not state.alarmed and log_evidence(state) + sparse > _LOG_RISES


def learn_due_s(state: EvidenceState, rules: Rules) -> float:
    """Return when the next baseline is due: after half the past again, at most six hours."""
    known_s = max(state.learned_s, state.began_s)
    half = (known_s - state.began_s) / 2
    least, most = (n * rules.bucket_s for n in (_LEARN_FIRST_BUCKETS, _LEARN_BUCKETS))
    return known_s + min(max(half, least), most)


def relearn(state: EvidenceState, history: History, now_s: float, rules: Rules) -> EvidenceState:
    """
    Learn the baseline again from what was counted before *now_s*.

    Evidence that was collected is kept, and what is beyond an alarm's is cut: otherwise a
    stream that settled at a lower and healthy rate would carry its old evidence for ever. While
    an incident is open the reference stays as it is, as the grid hangs on it.
    """
    width, incidents = rules.bucket_s, state.incidents
    if state.alarmed:
        incidents = (*incidents, ReferenceSpan(int(state.incident_from_s), int(now_s) + 1))
    baseline = learn(
        history,
        now_bucket=int(now_s // width),
        begun_bucket=int(state.began_s // width),
        bucket_s=width,
        warning_rate=rules.warning_rate,
        incidents=[
            ReferenceSpan(int(span.from_s // width), int(-(-span.to_s // width)))
            for span in incidents
        ],
        before=state.baseline,
    )
    if state.alarmed:
        baseline = baseline._replace(fallen_below=state.baseline.fallen_below)
    most = np.full(N_BETS, rules.log_threshold() + _BEYOND)
    most[BELOW:CELLS] += _BEYOND_SETTLED - _BEYOND
    bets = state.bets._replace(log_r=np.minimum(state.bets.log_r, most))
    state = state.but(baseline=baseline, learned_s=now_s, bets=bets)
    if state.quasi is None or state.alarmed:
        return state
    return state.but(quasi=np.minimum(state.quasi, most[:CELLS]))


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
        "onset": list(state.onset) if state.onset else None,
        "incidents": [list(span) for span in state.incidents],
        "baseline": [[_short(x) for x in base.fallen_below], *base[1:]],
        "thresholds": list(state.thresholds),
        **{name: getattr(state, name) for name in _PLAIN},
        **{
            name: None if (row := getattr(state, name)) is None else short_row(row)
            for name in _ROWS
        },
    }


def from_json(value: dict[str, Any]) -> EvidenceState | None:
    """
    Read a state; None when it was written in a form that this program does not know.

    Of the form before this one the reference, past incidents and the status are kept, and
    evidence starts over.
    """
    if value.get("form") not in (1, _FORM):
        return None
    fallen_below, *base = value["baseline"]
    known: dict[str, Any] = {
        "status": Status(value["status"]),
        "incidents": tuple(ReferenceSpan(*span) for span in value["incidents"]),
        "onset": Onset(*value["onset"]) if value["onset"] else None,
        "baseline": Baseline(tuple(fallen_below), *base),
    }
    began_s, at_s, status_s, *_ = value["times_s"]
    fresh = EvidenceState.fresh(at_s).but(began_s=began_s, status_s=status_s, **known)
    if value["form"] == 1:
        owed, _, n_day, *_ = value["counts"]
        fresh = fresh.but(owed=owed, n_day=n_day, learned_s=value["learned_s"])
        if fresh.status not in ALARMED:
            return fresh.but(onset=None)
        size, passed, from_s = value["alarm"]
        count = Count(from_s, size, size, passed)
        certainty = Certainty(value["certainty"])
        return fresh.but(certainty=certainty, count=count, incident_from_s=from_s)
    owed, n_day = value["day"]
    count, older, newer = (Count(*numbers) for numbers in value["counts"])
    rows = {name: value[name] and np.array(value[name], dtype=np.float64) for name in _ROWS}
    return fresh.but(
        certainty=Certainty(value["certainty"]),
        owed=owed,
        n_day=n_day,
        bets=_read(value["bets"]),
        rises=_read(value["rises"]) if value["rises"] else None,
        count=count,
        recent=(older, newer),
        thresholds=tuple(value["thresholds"]),
        **rows,
        **{name: value[name] for name in _PLAIN},
    )


def _written(bets: Bets) -> list[Any]:
    """Write bets as rows; times count from the first, and sizes that are counts are left out."""
    base_s = float(bets.at_s.min())
    rows = [short_row(column) for column in bets[:5]]
    if rows[2] == rows[3]:
        rows[3] = []
    return [base_s, *rows, short_row(bets.at_s - base_s)]


def _read(rows: list[Any]) -> Bets:
    base_s, *columns = rows
    columns[3] = columns[3] or columns[2]
    found = [np.array(column, dtype=np.float64) for column in columns]
    found[5] += base_s
    return Bets(*found)


def short_row(values: Floats) -> list[float]:
    """Return values with seven digits each, as JSON keeps them."""
    return [_short(value) for value in values.tolist()]


def _short(value: float) -> float:
    """Round to seven digits, or to the millisecond; as an int where it is one: short as text."""
    rounded = round(value, 3) if abs(value) >= -NOTHING else float(f"{value:.7g}")
    return int(rounded) if rounded == int(rounded) else rounded
