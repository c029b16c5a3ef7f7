"""
The policy ``anytime``: a status that stays true however often one looks.

Bets are placed on a grid of pass rates, against the stream's own reference and against the
warning threshold (`monitor.stats.evidence`). A stream turns bad by one of two routes. *Confirmed*:
the evidence that the rate is below the warning threshold is so strong that chance would bring it
less often than the budget allows. *Probable*: the evidence that it fell from its reference is
that strong, and the posterior of the present rate puts 9 in 10 below the threshold.

From then on the posterior goes on with every sample, and the status is read from its upper bound
``high`` and nothing else: critical below the critical threshold, warning below the warning
threshold, else healthy. So a status and the interval beside it cannot disagree. What was decided
stays decided until the rate since the change itself is above the threshold, and a recovery needs
evidence of its own.

The budget bounds the mean number of false alarms: "below the threshold" for confirmed ones,
"below the reference" for probable ones. Everything is a function of the looks since evidence
began, and many streams go together as one does alone.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from monitor.models import Status
from monitor.rolling.baseline import History, Rules, learn, read_status
from monitor.rolling.drift import ReferenceSpan
from monitor.rolling.evidence_state import (
    LINE,
    N_BETS,
    N_RISES,
    Bets,
    Certainty,
    EvidenceState,
    Looks,
)
from monitor.rolling.evidence_walk import (
    DAY_BUCKETS,
    CalmWalk,
    IncidentWalk,
    posterior_below,
)
from monitor.stats.evidence import BELOW, CELLS, log_mean, rate_grid

#: Looks that are computed at once: enough to be fast, few enough to waste little after a change.
_AT_ONCE: Final = 4096
#: Log evidence beyond an alarm's that is remembered below and above the threshold.
_BEYOND: Final = 3.0
_BEYOND_SETTLED: Final = 13.0
#: Log evidence, in buckets, at which more samples are worth a judge: far below an alarm's.
_LOG_RISES: Final = math.log(300.0)
#: In buckets: so long without a sample, and nothing is known any more.
SILENT_BUCKETS: Final = 360
#: In buckets: a baseline is learned anew this often, and sooner while the stream is young.
_LEARN_BUCKETS: Final = 360
_LEARN_FIRST_BUCKETS: Final = 30


class StatusTurn(NamedTuple):
    """A status that began."""

    time_s: float
    status: Status
    certainty: Certainty


Advanced = tuple[EvidenceState, list[StatusTurn]]


def advance(state: EvidenceState, looks: Looks, rules: Rules) -> Advanced:
    """Take one stream through more looks; see `advance_all`."""
    return advance_all([state], [looks], rules)[0]


def advance_all(
    states: Sequence[EvidenceState], looks: Sequence[Looks], rules: Rules
) -> list[Advanced]:
    """
    Take streams through more looks.

    Parameters
    ----------
    states
        What was remembered of each stream after the look before.
    looks
        Of each stream any number, none earlier than its last one.
    rules
        Thresholds and budget of all of them.

    Returns
    -------
    list of tuple
        Of each stream what is remembered now, and the statuses that began. Cutting the looks
        anywhere, and going on from what was remembered, gives the same.
    """
    moved = [restarted(state, rules) for state in states]
    changes: list[list[StatusTurn]] = [[] for _ in states]
    done = [0] * len(states)
    while True:
        alike: dict[tuple[bool, int], list[int]] = defaultdict(list)
        for i, look in enumerate(looks):
            if done[i] < len(look.time_s):
                moved[i], silent = idle(moved[i], float(look.time_s[done[i]]), rules)
                changes[i] += silent
                end = _end(moved[i], look, done[i], rules)
                alike[moved[i].alarmed, end - done[i]].append(i)
        if not alike:
            return list(zip(moved, changes, strict=True))
        for (alarmed, n), places in alike.items():
            parts = [looks[i].part(done[i], done[i] + n) for i in places]
            walk = (IncidentWalk if alarmed else CalmWalk)([moved[i] for i in places], parts, rules)
            turned = walk.turned()
            last = np.where(turned.any(axis=1), turned.argmax(axis=1), n - 1)
            after = walk.at(last)
            for row, i in enumerate(places):
                moved[i] = after[row]
                if turned[row, last[row]]:
                    moved[i] = walk.turn(row, int(last[row]), moved[i])
                    if moved[i].status is not after[row].status:
                        state = moved[i]
                        changes[i].append(StatusTurn(state.status_s, state.status, state.certainty))
                done[i] += int(last[row]) + 1


def idle(state: EvidenceState, now_s: float, rules: Rules) -> Advanced:
    """Let time pass without samples: a stream that is silent for long is not known to be well."""
    silent_s = state.at_s + SILENT_BUCKETS * rules.bucket_s
    if state.status is not Status.HEALTHY or now_s <= silent_s:
        return state, []
    state = state.but(status=Status.INSUFFICIENT_DATA, status_s=silent_s)
    return state, [StatusTurn(silent_s, state.status, state.certainty)]


def restarted(state: EvidenceState, rules: Rules) -> EvidenceState:
    """Begin the evidence anew where it was collected for other thresholds; keep the rest."""
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
        status=read_status(high, rules),
        rises=Bets.none(2 * N_RISES, state.at_s),
        log_p=log_p,
        high=high,
        baseline=state.baseline._replace(fallen_below=()),
    )


def evidence_rises(state: EvidenceState) -> bool:
    """Return whether a judge that is asked about some samples should be asked about more."""
    below = state.bets.log_r[:BELOW] if state.baseline.fallen_below else state.bets.log_r[LINE]
    return not state.alarmed and float(log_mean(below)) > _LOG_RISES


def learn_due_s(state: EvidenceState, rules: Rules) -> float:
    """Return when the next baseline is due: after half the past again, at most six hours."""
    known_s = max(state.learned_s, state.began_s)
    half = (known_s - state.began_s) / 2
    least, most = (n * rules.bucket_s for n in (_LEARN_FIRST_BUCKETS, _LEARN_BUCKETS))
    return known_s + min(max(half, least), most)


def relearn(state: EvidenceState, history: History, now_s: float, rules: Rules) -> EvidenceState:
    """
    Learn the baseline anew from what was counted before *now_s*.

    Evidence that was collected is kept, and what is beyond an alarm's is cut: otherwise a
    stream that settled at a lower and healthy rate would carry its old evidence for ever. While
    an incident is open the reference stays as it is, as the grid hangs on it.
    """
    width = rules.bucket_s
    baseline = learn(
        history,
        now_bucket=int(now_s // width),
        begun_bucket=int(state.began_s // width),
        bucket_s=width,
        warning_rate=rules.warning_rate,
        incidents=[
            ReferenceSpan(int(span.from_s // width), int(-(-span.to_s // width)))
            for span in state.past_incidents(now_s)
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


def _end(state: EvidenceState, looks: Looks, start: int, rules: Rules) -> int:
    """Return where to stop: before a long silence, as then what follows begins anew."""
    if len(looks.time_s) == start + 1:
        return start + 1
    time = np.r_[state.at_s, looks.time_s[start : start + _AT_ONCE]]
    quiet = np.diff(time) > SILENT_BUCKETS * rules.bucket_s
    block = rules.bucket_s * DAY_BUCKETS / 2
    begun = state.recent[1].from_s
    fresh = time[1:] >= (begun + block if time[1] < begun + block else time[1] + block)
    stops = np.flatnonzero((quiet | fresh)[1:])
    return start + (int(stops[0]) + 1 if stops.size else len(time) - 1)
