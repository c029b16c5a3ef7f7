"""While the sample rate moves by what was seen, estimates stay unbiased and bets fair."""

import numpy as np

from monitor.rolling.tuning import AppEvidence, TuningState, decide_rate
from monitor.stats.intervals import effective_size, wilson_interval

RUNS, STEPS, SEEN, RATE = 400, 96, 150, 0.9


def days():
    """Play a day of decisions each 15 minutes: the rate is raised after a bad stretch."""
    rng = np.random.default_rng(11)
    sums, log_bets = np.zeros((RUNS, 6)), np.zeros(RUNS)
    states = [
        TuningState.begin("", per_hour=30, seen_per_hour=600, seen=0, sampled=0, now_s=0.0)
    ] * RUNS
    sampled, suspected = np.zeros(RUNS), np.zeros(RUNS)
    for step in range(STEPS):
        rates = np.empty(RUNS)
        for i in range(RUNS):
            now_s = step * 900.0
            known = states[i].counted(seen=step * SEEN, sampled=int(sampled[i]), now_s=now_s)
            evidence = AppEvidence(suspected[i], young=False, alarmed=False)
            found = decide_rate(known, evidence, now_s=now_s)
            states[i], rates[i] = found.state, found.rate
        n = rng.binomial(SEEN, rates)
        passed, w = rng.binomial(n, RATE), 1.0 / rates
        sums += np.array([n, w * n, w**2 * n, w * passed, w**2 * passed, w**2 * passed]).T
        # The bet that the rate fell to 0.8, of which suspicion is made.
        log_bets += passed * np.log(0.8 / RATE) + (n - passed) * np.log(0.2 / (1 - RATE))
        suspected = np.maximum(suspected + (n - passed) - 0.15 * n, 0.0) * 2
        sampled += n
    return sums, log_bets, sampled


SUMS, LOG_BETS, SAMPLED = days()


def test_weighted_intervals_cover_the_rate():
    inside = 0
    for n, w, w2, wy, w2y, w2yy in SUMS:
        size = effective_size(n, w, w2, w2y, w2yy, wy / w)
        found = wilson_interval(wy / w * size, size)
        inside += found.low <= RATE <= found.high
    assert inside >= 0.94 * RUNS
    assert len({round(w) for _, w, *_ in SUMS}) > RUNS / 2  # rates did move


def test_weighted_mean_is_unbiased():
    mean = SUMS[:, 3].sum() / SUMS[:, 1].sum()
    assert abs(mean - RATE) < 0.004


def test_bets_pay_at_most_one_on_average():
    paid = np.exp(LOG_BETS)
    assert paid.mean() <= 1 + 4 * paid.std() / RUNS**0.5
    assert np.mean(paid >= 20) <= 0.05  # Ville


def test_daily_samples_stay_within_the_planned_and_saved_amount():
    assert SAMPLED.max() <= 2 * 24 * 30 + SEEN
