"""
The policy ``anytime``: a status that stays true however often one looks.

A stream becomes ``warning`` by one of two routes. *Confirmed*: the evidence that the pass rate
is below the warning line is so strong that chance would bring it less often than the budget
allows. *Probable*: the evidence that the rate fell from the stream's own reference is that
strong, and since the fall began the rate was below the line. ``critical`` needs the same
against the critical line, or, once a warning stands, that the rate since the warning is refuted
to be at the line at 5 %. A status becomes healthy again by evidence of a recovery.

The budget bounds the mean number of false alarms: "below the line" for confirmed ones, "below
the reference" for probable ones. Everything is a function of the looks since the last reset.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from monitor.models import Status
from monitor.rolling.baseline import History, learn
from monitor.rolling.budget import FALL_SHARE, Rules
from monitor.rolling.evidence_walk import Looks, Walk
from monitor.rolling.memory import Certainty, Detector, Memory, Since
from monitor.rolling.reference import Span
from monitor.stats.evidence import NOTHING
from monitor.stats.sequences import log_wealth

#: Looks that are computed at once: enough to be fast, few enough to waste little after a change.
_AT_ONCE: Final = 4096
#: Evidence beyond an alarm's is not remembered, so that it can be lost again.
_BEYOND: Final = 3.0
_BEYOND_SETTLED: Final = 10.0
#: Log odds, beside a certain fall from the reference, of "below the line" to "between the two".
LOG_ODDS: Final = 1.0
#: Log likelihood ratio that samples alone must bring to a recovery: time brings stakes as well.
_CLEAR_GAIN: Final = 3.0
_ESCALATE_ALPHA: Final = 0.05
_ESCALATE_N: Final = 10.0
#: A status of too little data needs this part of the usual number to go on.
_KEEPS: Final = 2 / 3
#: In standard errors: so far below the line the rate since the last alarm, or the first sample,
#: may lie where a stream becomes healthy, and where it goes on to be; the latter is that of 95 %.
_DOUBT_NEW: Final = 1.28
_DOUBT: Final = 1.96
#: In buckets: so long without a sample, and nothing is known any more.
SILENT_BUCKETS: Final = 360
_REFERENCE_BUCKETS: Final = 8 * 1440
#: In buckets: a baseline is learned anew this often, and sooner while the stream is young.
_LEARN_BUCKETS: Final = 360
_LEARN_FIRST_BUCKETS: Final = 30

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]


class Change(NamedTuple):
    """A status that began."""

    time_s: float
    status: Status
    certainty: Certainty


def advance(memory: Memory, looks: Looks, rules: Rules) -> tuple[Memory, list[Change]]:
    """
    Take a stream through more looks.

    Parameters
    ----------
    memory
        What was remembered after the look before.
    looks
        Any number, none earlier than the last one.
    rules
        Lines and budget.

    Returns
    -------
    tuple
        What is remembered now, and the statuses that began. Cutting the looks anywhere, and
        going on from what was remembered, gives the same.
    """
    changes: list[Change] = []
    start = 0
    while start < len(looks.time_s):
        memory, silent = idle(memory, float(looks.time_s[start]), rules)
        changes += silent
        part = looks.part(start, _end(looks, start, rules))
        walk = Walk(memory, part, rules)
        look = _first_change(walk, rules)
        if look is None:
            memory = walk.at(len(part.n) - 1)
            start += len(part.n)
            continue
        memory = _changed(walk, look, rules)
        changes.append(Change(memory.status_s, memory.status, memory.certainty))
        start += look + 1
    return memory, changes


def idle(memory: Memory, now_s: float, rules: Rules) -> tuple[Memory, list[Change]]:
    """Let time pass without samples: a stream that is silent for long is not known to be well."""
    silent_s = memory.at_s + SILENT_BUCKETS * rules.bucket_s
    if memory.status is not Status.HEALTHY or now_s <= silent_s:
        return memory, []
    memory = memory.but(status=Status.INSUFFICIENT_DATA, status_s=silent_s)
    return memory, [Change(silent_s, memory.status, memory.certainty)]


def learn_due_s(memory: Memory, rules: Rules) -> float:
    """Tell when the next baseline is due: as the past doubles by half, at last every six hours."""
    known_s = max(memory.learned_s, memory.began_s)
    half = (known_s - memory.began_s) / 2
    least, most = (n * rules.bucket_s for n in (_LEARN_FIRST_BUCKETS, _LEARN_BUCKETS))
    return known_s + min(max(half, least), most)


def relearn(memory: Memory, history: History, now_s: float, rules: Rules) -> Memory:
    """
    Learn the baseline anew from what was counted before *now_s*.

    Evidence that was collected is kept, and what is beyond an alarm's is cut: otherwise a
    stream that settled at a lower and healthy rate would carry its old evidence for ever.
    """
    width = rules.bucket_s
    baseline = learn(
        history,
        now_bucket=int(now_s // width),
        begun_bucket=int(memory.began_s // width),
        bucket_s=width,
        warning_rate=rules.warning_rate,
        incidents=[
            Span(int(span.from_s // width), int(-(-span.to_s // width)))
            for span in memory.past_incidents(now_s)
        ],
        before=memory.baseline,
    )
    most = np.full((len(Detector), 1), rules.log_threshold() + _BEYOND)
    most[Detector.SETTLED] += _BEYOND_SETTLED
    return memory.but(baseline=baseline, learned_s=now_s, log_r=np.minimum(memory.log_r, most))


def _end(looks: Looks, start: int, rules: Rules) -> int:
    """Stop before a long silence: what comes after it begins anew."""
    time = looks.time_s[start : start + _AT_ONCE]
    gaps = np.flatnonzero(np.diff(time) > SILENT_BUCKETS * rules.bucket_s)
    return start + (int(gaps[0]) + 1 if gaps.size else len(time))


def _first_change(walk: Walk, rules: Rules) -> int | None:
    turned = _ends_alarm(walk, rules) if walk.memory.alarmed else _ends_calm(walk, rules)
    first = int(turned.argmax())
    return first if turned[first] else None


def thresholds(memory: Memory, rules: Rules) -> Mapping[Detector, float]:
    """Give the log evidence at which each detector speaks."""
    return _thresholds(rules, bool(memory.baseline.fallen_below))


@lru_cache(maxsize=1024)
def _thresholds(rules: Rules, has_reference: bool) -> Mapping[Detector, float]:
    has_reference = has_reference and rules.use_reference
    below = 1.0 - FALL_SHARE if has_reference else 1.0
    return {
        Detector.BELOW_WARNING: rules.log_threshold(below),
        Detector.BELOW_CRITICAL: rules.log_threshold(),
        Detector.FALLEN: rules.log_threshold(FALL_SHARE) if has_reference else math.inf,
        Detector.SETTLED: math.inf,
        Detector.RECOVERED: rules.log_clear,
        Detector.EASED: rules.log_clear,
    }


def _ends_calm(walk: Walk, rules: Rules) -> Bools:
    turned = _confirmed(walk, rules) | _probable(walk, rules)
    memory = walk.memory
    healthy = memory.status is Status.HEALTHY
    n, passed = memory.spell_n + walk.n, memory.spell_passed + walk.passed
    effect = memory.baseline.effect
    well = is_known(walk.n_day, rules, healthy=healthy)
    well &= ~is_doubtful(n * effect, passed * effect, rules, healthy=healthy)
    return np.asarray(turned | (well != healthy))


def is_known(n_day: Floats, rules: Rules, *, healthy: bool | Bools) -> Bools:
    """Say whether so many samples a day suffice; a stream that was well needs fewer to stay so."""
    enough = n_day >= rules.min_n * _KEEPS
    return np.where(healthy, enough, n_day > rules.min_n - 1)


def is_doubtful(n: Floats, passed: Floats, rules: Rules, *, healthy: bool | Bools) -> Bools:
    """
    Say whether all that is known of a stream lies below the line, though not beyond chance.

    Such a stream is not well and not certainly ill: the Wilson interval of all its samples since
    its last alarm is below the line. A long healthy past makes that impossible for a long time.
    """
    line = rules.warning_rate
    error = np.sqrt(n * line * (1.0 - line))
    below = n * line - passed > np.where(healthy, _DOUBT, _DOUBT_NEW) * error
    return np.asarray(below & (n >= rules.min_n))


def _confirmed(walk: Walk, rules: Rules) -> Bools:
    limit = thresholds(walk.memory, rules)[Detector.BELOW_WARNING]
    return np.asarray(walk.log_m(Detector.BELOW_WARNING) >= limit)


def _probable(walk: Walk, rules: Rules) -> Bools:
    limit = thresholds(walk.memory, rules)[Detector.FALLEN]
    fallen = walk.log_m(Detector.FALLEN) >= limit
    if not fallen.any():
        return np.asarray(fallen)
    return np.asarray(
        fallen & (walk.log_m(Detector.FALLEN) - walk.log_m(Detector.SETTLED) >= LOG_ODDS)
    )


def _ends_alarm(walk: Walk, rules: Rules) -> Bools:
    turned = _cleared(walk, Detector.RECOVERED, rules)
    if walk.memory.status is Status.WARNING:
        return turned | _critical(walk, rules)
    return turned | _cleared(walk, Detector.EASED, rules)


def _cleared(walk: Walk, detector: Detector, rules: Rules) -> Bools:
    risen = walk.log_m(detector) >= thresholds(walk.memory, rules)[detector]
    if not risen.any():
        return np.asarray(risen)
    rate, gain = walk.since_best(detector)
    return np.asarray(risen & (rate >= _line(detector, rules)) & (gain >= _CLEAR_GAIN))


def _line(detector: Detector, rules: Rules) -> float:
    return rules.warning_rate if detector is Detector.RECOVERED else rules.critical_rate


def _critical(walk: Walk, rules: Rules) -> Bools:
    limit = thresholds(walk.memory, rules)[Detector.BELOW_CRITICAL]
    strict = walk.log_m(Detector.BELOW_CRITICAL) >= limit
    n = walk.memory.spell_n + walk.n
    passed = walk.memory.spell_passed + walk.passed
    low = (n >= _ESCALATE_N) & (passed < rules.critical_rate * n)
    wealth = log_wealth(passed, n, np.asarray(rules.critical_rate))
    return np.asarray(strict | (low & (wealth >= -math.log(_ESCALATE_ALPHA))))


def _changed(walk: Walk, look: int, rules: Rules) -> Memory:
    """Turn the status at a look at which it turns."""
    memory = walk.at(look)
    now_s = memory.at_s
    here = slice(look, look + 1)
    if memory.alarmed:
        if _cleared(walk, Detector.RECOVERED, rules)[look]:
            return _reset(memory, now_s, rules.bucket_s)
        if memory.status is Status.CRITICAL:
            return _turned(_forgetting(memory, Detector.BELOW_CRITICAL, Detector.EASED), now_s)
        return memory.but(status=Status.CRITICAL, status_s=now_s)
    confirmed = bool(_confirmed(walk, rules)[look])
    if confirmed or _probable(walk, rules)[look]:
        source = Detector.BELOW_WARNING if confirmed else Detector.FALLEN
        limit = thresholds(memory, rules)[Detector.BELOW_CRITICAL]
        critical = bool(walk.log_m(Detector.BELOW_CRITICAL)[here][0] >= limit)
        # Whether samples depend on each other is not known of a young stream.
        known = confirmed and memory.baseline.effect_known
        fresh = _forgetting(memory, Detector.RECOVERED, Detector.EASED)
        return fresh.but(
            status=Status.CRITICAL if critical else Status.WARNING,
            certainty=Certainty.CONFIRMED if known else Certainty.PROBABLE,
            status_s=now_s,
            spell_n=0.0,
            spell_passed=0.0,
            alarm_from_s=walk.began_s(look, source),
        )
    known = memory.status is not Status.HEALTHY
    return memory.but(status=Status.HEALTHY if known else Status.INSUFFICIENT_DATA, status_s=now_s)


def _turned(memory: Memory, now_s: float) -> Memory:
    return memory.but(status=Status.WARNING, status_s=now_s, spell_n=0.0, spell_passed=0.0)


def _reset(memory: Memory, now_s: float, bucket_s: int) -> Memory:
    """Begin anew after an incident, and keep it out of what is normal."""
    span = Span(int(memory.alarm_from_s), int(now_s) + 1)
    keep_from_s = now_s - _REFERENCE_BUCKETS * bucket_s
    return (
        _forgetting(memory, *Detector)
        .with_incident(span, keep_from_s=keep_from_s)
        .but(
            status=Status.HEALTHY,
            certainty=Certainty.NONE,
            status_s=now_s,
            reset_s=now_s,
            owed=1.0,
            spell_n=0.0,
            spell_passed=0.0,
            onset=None,
        )
    )


def _forgetting(memory: Memory, *detectors: Detector) -> Memory:
    """Take all evidence from some detectors."""
    rows = [int(detector) for detector in detectors]
    log_r = memory.log_r.copy()
    log_r[rows] = NOTHING
    since = Since(*(values.copy() for values in memory.since))
    for values in since[:3]:
        values[rows] = 0.0
    since.at_s[rows] = memory.at_s
    return memory.but(log_r=log_r, since=since)
