"""
Looks at many streams at once equal one look at a time at one stream.

The oracle is the recursion of the docstrings, without arrays of looks and streams: it takes one
look, and says what is remembered after it, and whether a status turns.
"""

from typing import NamedTuple

import numpy as np
import pytest

from monitor.models import Status
from monitor.rolling.anytime import advance_all
from monitor.rolling.baseline import Baseline
from monitor.rolling.evidence_state import (
    CLEAR_SLACK,
    EASED,
    FALL,
    LINE,
    N_BETS,
    N_RISES,
    RECOVERED,
    RISES,
    Bets,
    Certainty,
    Count,
    EvidenceState,
    held,
    idle,
    is_doubtful,
    is_known,
    restarted,
)
from monitor.rolling.looks import Looks
from monitor.rolling.policies import Rules, status_of
from monitor.stats.evidence import (
    BELOW,
    CELLS,
    LOG_PRIOR,
    NOTHING,
    Samples,
    Worth,
    log_mean,
    log_payoffs,
    rate_grid,
    sample_log_payoffs,
)

TURNS = {"known", "confirmed", "probable", "recovered", "changed"}
GRID = rate_grid(0.85, 0.70)
HALF_DAY_S = 43_200.0


class Plain(NamedTuple):
    """What one look makes of a stream, and what it would turn."""

    state: EvidenceState
    turns: str = ""


def reference(state, rules):
    return state.baseline.fallen_below if rules.use_reference else ()


def payoffs(look, state, null, rates, *, up=False):
    """Return the log payoffs of all that a look brought, divided by the design effect."""
    if look.samples is None:
        good, bad = look.passed, look.size - look.passed
        return log_payoffs(good, bad, null, rates)[0] / state.baseline.effect
    samples = look.samples.mirrored() if up else look.samples
    null, rates = (1 - null, 1 - rates) if up else (null, rates)
    paid = sample_log_payoffs(samples, np.full((1, 1), null), rates[None], look.worth)
    return paid.sum(axis=0) / state.baseline.effect


def counted(state, look, bucket_s):
    """Return a state after a look, without its bets, and the stake of the look."""
    time_s, gone_s = float(look.time_s[0]), float(look.time_s[0]) - state.at_s
    begun = time_s // bucket_s - state.at_s // bucket_s
    stake = state.owed + (begun + gone_s / bucket_s) / 2
    news = [float(column[0]) for column in look[1:4]]
    older, newer = state.recent
    if time_s >= newer.from_s + HALF_DAY_S * bucket_s / 60:
        older, newer = newer, Count(time_s)
    n_day = state.n_day * np.exp(-gone_s / (1440 * bucket_s)) + news[1]
    after = state.but(
        at_s=time_s, owed=0.0, n_day=n_day, count=state.count.plus(*news),
        recent=(older, newer.plus(*news)),
    )  # fmt: skip
    return after, news, stake


def estimated(state, look, null):
    """Return the log payoffs of the sums of unbiased estimates."""
    good, bad = look.passed, look.size - look.passed
    gains = log_payoffs(good, bad, null, GRID.rates(np.asarray(null)))[0]
    return np.clip(gains / state.baseline.effect, -300, 300)


def one_look(state, look, rules):
    """Return what a look makes of a stream, by the recursion."""
    limits = reference(state, rules)
    null = limits[int(look.time_s[0] // 3600) % len(limits)] if limits else np.nan
    end = GRID.top(np.asarray(np.mean(limits) if limits else np.nan))
    null = float(GRID.top(np.asarray(null)))
    step = in_calm if not state.alarmed else in_incident
    return step(state, look, rules, null, end)


def in_calm(before, look, rules, null, end):
    state, news, stake = counted(before, look, rules.bucket_s)
    known = bool(reference(state, rules))
    fall = payoffs(look, state, null, GRID.rates(np.asarray(null))) if known else np.zeros(CELLS)
    line = payoffs(look, state, 0.85, GRID.below)
    bets = before.bets.after(np.r_[fall, line], np.array(news), stake, state.at_s)
    if not known:
        bets.log_r[FALL] = NOTHING
    state = state.but(bets=bets)
    views = [bets.log_r[FALL]]
    if look.samples is not None:
        begun = before.bets.log_r[FALL] if before.quasi is None else before.quasi
        quasi = np.logaddexp(begun, np.log(stake)) + estimated(state, look, null)
        state = state.but(quasi=quasi)
        views.append(quasi)
    budget = rules.log_threshold()
    if log_mean(bets.log_r[LINE]) >= budget - np.log(0.15 if known else 1.0):
        return Plain(state, "confirmed")
    low = all(GRID.upper(view + LOG_PRIOR, end) < 0.85 for view in views)
    if known and low and log_mean(bets.log_r[:BELOW]) >= budget - np.log(0.85):
        return Plain(state, "probable")
    healthy = np.array(state.status is Status.HEALTHY)
    well = is_known(np.array(state.n_day), rules, healthy=healthy) and not is_doubtful(
        np.array(state.count.size), np.array(state.count.passed), rules, healthy=healthy
    )
    return Plain(state, "" if well == healthy else "known")


def in_incident(before, look, rules, null, end):
    state, news, stake = counted(before, look, rules.bucket_s)
    counts = np.array(news)
    old = Bets(*(column[LINE] for column in before.bets))
    line = old.after(payoffs(look, state, 0.85, GRID.below), counts, stake, state.at_s)
    bets = Bets(*(np.r_[a[FALL], b] for a, b in zip(before.bets, line, strict=True)))
    rates = GRID.rates(np.asarray(null))
    log_p = before.log_p + payoffs(look, state, null, rates)
    views = [log_p]
    if look.samples is not None:
        begun = before.bets.log_r[FALL] if before.quasi is None else before.quasi
        views.append(begun + estimated(state, look, null))
    views = [view - view.max() for view in views]
    rate = state.count.rate
    bound = max(float(GRID.upper(view, end)) for view in views)
    high = float(held(np.array(bound), np.array(rate), state.status, rules))
    gains = []
    for threshold in (0.85 - CLEAR_SLACK, 0.70 - CLEAR_SLACK):
        better = 1 - (1 - threshold) * (1 - RISES)
        gains.append(payoffs(look, state, threshold, better, up=True))
    rises = before.rises.after(np.concatenate(gains), counts, stake, state.at_s)
    kept = [np.maximum(view, -600.0) for view in views]
    state = state.but(
        bets=bets, rises=rises, log_p=kept[0], high=high,
        quasi=kept[1] if len(kept) > 1 else before.quasi,
    )  # fmt: skip
    if status_of(high, rules) is Status.HEALTHY:
        return Plain(state, "over")
    if risen(rises, RECOVERED, 0.85, rules):
        return Plain(state, "recovered")
    lead = int(views[0][:BELOW].argmax())
    since = line.since(lead)
    again = rate > high and since.from_s > before.count.from_s
    again = again and since.size > 0 and since.passed <= high * since.size
    eased = state.status is Status.CRITICAL and risen(rises, EASED, 0.70, rules)
    other = status_of(high, rules) is not state.status
    return Plain(state, "changed" if again or eased or other else "")


def risen(rises, bets, line, rules):
    lead = bets.start + int(rises.log_r[bets].argmax())
    led = rises.since(lead)
    enough = log_mean(rises.log_r[bets]) >= rules.log_clear and rises.gain[lead] >= 3.0
    return bool(enough and led.passed >= line * led.size)


def assert_same(found, expected):
    """Compare all that is remembered; weights of e^-100 and less are nothing."""
    assert (found.at_s, found.owed) == (expected.at_s, expected.owed)
    assert found.n_day == pytest.approx(expected.n_day)
    assert found.count == pytest.approx(expected.count)
    for a, b in zip(found.recent, expected.recent, strict=True):
        assert a == pytest.approx(b)
    rows = [(found.bets, expected.bets), (found.rises or (), expected.rises or ())]
    pairs = [pair for a, b in rows for pair in zip(a, b, strict=True)]
    for name in ("log_p", "quasi"):
        a, b = (getattr(each, name) for each in (found, expected))
        assert (a is None) == (b is None)
        if a is not None:
            pairs.append((np.maximum(a, -100), np.maximum(b, -100)))
    for a, b in pairs:
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6)
    assert found.high == pytest.approx(expected.high, abs=1e-7)


def expected_turn(plain, found, rules):
    """Check the state after a turn against what was remembered at it."""
    state, now_s = plain.state, plain.state.at_s
    if plain.turns == "known":
        healthy = state.status is Status.HEALTHY
        assert found.status is (Status.INSUFFICIENT_DATA if healthy else Status.HEALTHY)
        assert_same(found, state.but(status=found.status))
    elif plain.turns in {"confirmed", "probable"}:
        log_r = state.bets.log_r
        closed = np.full(CELLS - BELOW, NOTHING)
        by_line = plain.turns == "confirmed"
        log_p = (np.r_[log_r[LINE], closed] if by_line else log_r[FALL]) + LOG_PRIOR
        lead = int(log_p.argmax()) + (LINE.start if by_line else 0)
        assert found.count == state.bets.since(lead)
        assert found.incident_from_s == found.count.from_s
        np.testing.assert_allclose(found.log_p, np.maximum(log_p - log_p.max(), -600), atol=1e-6)
        assert (found.quasi is None) == (state.quasi is None)
        sure = by_line and state.baseline.effect_known
        assert found.certainty is (Certainty.CONFIRMED if sure else Certainty.PROBABLE)
        assert found.status is status_of(found.high, rules)
        assert found.alarmed
        assert (found.rises.at_s == now_s).all()
        assert found.rises.log_r.size == 2 * N_RISES
    elif plain.turns in {"over", "recovered"}:
        lead = int(state.rises.log_r[RECOVERED].argmax())
        count = state.count if plain.turns == "over" else state.rises.since(lead)
        assert found.count == pytest.approx(count)
        assert found.recent == (Count(found.count.from_s), found.count)
        assert (found.status, found.certainty) == (Status.HEALTHY, Certainty.NONE)
        assert (found.rises, found.log_p, found.quasi, found.onset) == (None,) * 4
        assert (found.owed, found.high, found.status_s) == (1.0, 1.0, now_s)
        assert found.incidents[-1] == (int(state.incident_from_s), int(now_s) + 1)
        assert found.incidents[:-1] == state.incidents
        assert (found.bets.log_r == Bets.none(N_BETS, now_s).log_r).all()
    else:
        assert found.alarmed
        assert found.high < 0.85


BASELINES = [
    Baseline(),
    Baseline((0.92,), 0.93, 9000.0, 1.0, 1.3, effect_known=True),
    Baseline(tuple(0.9 + 0.003 * (h % 12) for h in range(24)), 0.92, 9000.0, 1.0, 1.0, True),
]
#: What streams are compared with, whether a judge is asked about a part of the samples only, and
#: the pieces: pass rate, looks, and seconds between them.
STREAMS = [
    (BASELINES[0], False, [(0.97, 40, 60), (0.2, 25, 60), (0.97, 60, 60)]),
    (BASELINES[0], False, [(0.95, 40, 900), (0.1, 8, 60), (0.78, 120, 60), (0.99, 40, 60)]),
    (BASELINES[1], False, [(0.93, 60, 60), (0.3, 12, 60), (0.8, 70, 600), (0.99, 50, 60)]),
    (BASELINES[1], False, [(0.93, 30, 60), (0.76, 70, 60), (0.95, 3, 60)]),
    (BASELINES[1], True, [(0.95, 40, 60), (0.4, 60, 60), (0.98, 60, 60)]),
    (BASELINES[2], False, [(0.9, 50, 2_000), (0.97, 3, 30_000), (0.7, 40, 60), (0.4, 20, 60)]),
    (BASELINES[2], True, [(0.9, 20, 9_000), (0.3, 60, 20), (0.8, 50, 60)]),
]


def drawn(pieces, sampled, rng):
    rate = np.repeat([level for level, *_ in pieces], [n for _, n, _ in pieces])
    gap_s = np.repeat([gap for *_, gap in pieces], [n for _, n, _ in pieces])
    time_s, n = np.cumsum(gap_s) + rng.random(), rng.integers(1, 5, rate.size)
    if not sampled:
        n[-1] = 3_000  # a minute with a lot of traffic
        return Looks(time_s, n * 1.0, n * 0.8, rng.binomial(n, rate) * 0.8)
    look = np.repeat(np.arange(rate.size), n)
    good = rng.random(look.size) < rate[look]
    predicted = np.clip(0.3 + 0.5 * good + rng.normal(0, 0.1, look.size), 0, 1)
    asked, weight = rng.random(look.size) < 0.3, rng.choice([1.0, 2.0], look.size)
    samples = Samples(look, predicted, np.full(look.size, 0.3), asked, good, weight)
    return Looks.of_samples(time_s, samples, Worth(0.4, 1.5, 2.0))


@pytest.mark.parametrize("strict", [False, True], ids=["with a reference", "without"])
def test_batched_looks_equal_looks_one_by_one(strict):
    rng, turns = np.random.default_rng(8), set()
    rules = Rules(use_reference=not strict)
    looks = [drawn(pieces, sampled, rng) for _, sampled, pieces in STREAMS]
    states = [EvidenceState.fresh(0.0).but(baseline=base) for base, *_ in STREAMS]
    for start in range(0, max(look.n.size for look in looks), 33):
        parts = [look.part(start, start + 33) for look in looks]
        found = advance_all(states, parts, rules)
        for i, (part, (after, changes)) in enumerate(zip(parts, found, strict=True)):
            state, seen = restarted(states[i], rules), []
            for k in range(part.n.size):
                look = part.part(k, k + 1)
                state, silent = idle(state, float(look.time_s[0]), rules)
                plain = one_look(state, look, rules)
                before, state, turn = state, plain.state, []
                if plain.turns:
                    turns.add(plain.turns)
                    [(state, turn)] = advance_all([before], [look], rules)
                    expected_turn(plain, state, rules)
                seen += silent + turn
            assert [change[:2] for change in changes] == [change[:2] for change in seen]
            assert after.status is state.status
            assert_same(after, state)
        states = [state for state, _ in found]
    assert turns >= TURNS - ({"probable"} if strict else set())
