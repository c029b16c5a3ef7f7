"""What ``anytime`` promises where a judge is asked about a part of the samples; seeds are fixed."""

import numpy as np
import pytest

from monitor.models import Status
from monitor.rolling.anytime import advance_all
from monitor.rolling.baseline import Baseline
from monitor.rolling.evidence_state import EvidenceState
from monitor.rolling.looks import Looks
from monitor.rolling.policies import Rules
from monitor.stats.evidence import Samples, Worth
from monitor.stats.intervals import wilson_lower

BAD = {Status.WARNING, Status.CRITICAL}
RULES = Rules(false_alarms_per_month=0.1)
SHARE = 0.1


def predictions(rng, shape, mean, *, useful):
    """Return local predictions, and the pass probabilities of the judge."""
    if not useful:
        return np.full(shape, mean), np.full(shape, mean)
    found = np.clip(rng.beta(5 * mean, 5 * (1 - mean), shape), 0.02, 0.98)
    return found, found * (mean / found.mean())


def asked(rng, f, p, usual=None):
    """Ask in proportion to the spread that is expected; return samples without their looks."""
    spread = np.sqrt(f * (1 - f))
    usual = spread if usual is None else np.sqrt(usual * (1 - usual))
    pi = np.clip(SHARE * spread / usual.mean(), 0.1 * SHARE, 1)
    return f, pi, rng.random(f.shape) < pi, rng.random(f.shape) < p


def worth(mean, *, useful):
    rng = np.random.default_rng(5)
    f, pi, is_asked, passed = asked(rng, *predictions(rng, 100_000, mean, useful=useful))
    estimate = f + np.where(is_asked, passed - f, 0) / pi
    return mean * (1 - mean) / estimate.var()


def states(n, mean, size, seed):
    """Return streams that learned their reference from a week of one sample a minute."""
    rng = np.random.default_rng(seed)
    known = 10_080 * size
    rates = np.clip(rng.normal(mean, np.sqrt(mean * (1 - mean) / known), n), 0, 1)
    limits = [wilson_lower(rate * known, known) - 0.012 for rate in rates]
    return [
        EvidenceState.fresh(0.0).but(
            baseline=Baseline((x,) if x > 0.852 else (), mean, known, 1.0, 1.0, effect_known=True)
        )
        for x in limits
    ]


def alarms(states, columns, value, per_look, every_s):
    """Return the times of the alarms of each stream, in samples."""
    n = columns[0].shape[1]
    look = np.arange(n) // per_look
    time_s = every_s * np.arange(look[-1] + 1)
    looks = [
        Looks.of_samples(time_s, Samples(look, *row, np.ones(n)), Worth(value))
        for row in zip(*columns, strict=True)
    ]
    return [
        [change.time_s / every_s * per_look for change in changes if change.status in BAD]
        for _, changes in advance_all(states, looks, RULES)
    ]


@pytest.mark.parametrize("useful", [True, False])
@pytest.mark.parametrize("mean", [0.86, 0.90])
def test_budget_holds_when_a_tenth_is_judged(mean, useful):
    """Ten a minute, four months."""
    rng = np.random.default_rng([21, int(100 * mean), useful])
    value, count = worth(mean, useful=useful), 0
    streams = states(6, mean, value, 1)
    for one in streams:
        columns = asked(rng, *predictions(rng, (1, 10 * 20 * 1440), mean, useful=useful))
        count += len(alarms([one], columns, value, 10, 60.0)[0])
    assert count <= 1


@pytest.mark.parametrize(
    ("useful", "follows", "most"), [(True, True, 300), (True, False, 560), (False, False, 600)]
)
def test_fall_is_found_by_the_judge_or_sooner_with_the_local_score(useful, follows, most):
    rng = np.random.default_rng([22, useful, follows])
    value, n, lead = worth(0.92, useful=useful), 40, 300
    f, p = predictions(rng, (n, lead), 0.92, useful=useful)
    after = predictions(rng, (n, 2500), 0.65 if follows else 0.92, useful=useful)
    p = np.c_[p, after[1] * (1.0 if follows else 0.65 / 0.92)]
    columns = asked(rng, np.c_[f, after[0]], p, usual=f)
    found = alarms(states(n, 0.92, value, 2), columns, value, 1, 60.0)
    delays = [next((t - lead for t in times if t >= lead), np.inf) for times in found]
    assert np.median(delays) <= most


def test_unequal_weights_keep_the_budget_and_find_falls():
    """A twentieth of the traffic is sampled always and passes less often, the rest at 5 %."""
    weights = np.array([1.0, 20.0])
    shares = np.array([0.05, 0.95 * 0.05]) / (0.05 + 0.95 * 0.05)

    def drawn(rng, n, mean):
        first = rng.random(n) < shares[0]
        rest = mean / (0.05 * 0.6 + 0.95)
        passed = rng.random(n) < np.where(first, 0.6 * rest, rest)
        return np.where(first, *weights), passed

    rng = np.random.default_rng(23)
    w, y = drawn(rng, 200_000, 0.92)
    spread = (w * w * (y - 0.92) ** 2).sum()
    known = Worth(0.92 * 0.08 * w.sum() ** 2 / spread / w.size, w.mean(), 20.0)
    every_s, n = 60.0, 3000

    def looks(mean_before, mean_after, lead):
        before, after = drawn(rng, lead, mean_before), drawn(rng, n - lead, mean_after)
        weight, passed = (np.r_[a, b] for a, b in zip(before, after, strict=True))
        one = np.ones(n)
        samples = Samples(np.arange(n), one, one, one > 0, passed, weight)
        return Looks.of_samples(every_s * np.arange(n), samples, known)

    healthy = advance_all(
        states(60, 0.90, known.size, 3), [looks(0.90, 0.90, 300) for _ in range(60)], RULES
    )
    assert sum(change.status in BAD for _, changes in healthy for change in changes) <= 1
    fallen = advance_all(
        states(40, 0.92, known.size, 4), [looks(0.92, 0.65, 300) for _ in range(40)], RULES
    )
    delays = [
        next((c.time_s / every_s - 300 for c in changes if c.status in BAD), np.inf)
        for _, changes in fallen
    ]
    assert np.median(delays) <= 100
